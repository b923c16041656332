"""Aggregates of multisets: median, quantile, top, bottom, collect, count_distinct."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any

from operators.exact import pack
from operators.monoids.ranked import Ranked

__all__ = ["Bottom", "Collect", "CountDistinct", "Quantile", "Top"]


class CountDistinct:
    """How many different values, 1 and 1.0 being the same. O(1).

    >>> c = CountDistinct(); c.add_all(["a", "b", "a"]); c.result()
    2
    >>> c.add("b", -1); c.result()
    1
    """

    __slots__ = ("_weights", "count")

    def __init__(self) -> None:
        self.count = 0
        self._weights: dict[Any, int] = {}

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        left = self._weights.get(value, 0) + weight
        if left:
            self._weights[value] = left
        else:
            self._weights.pop(value, None)

    def add_all(self, values: Collection[Any]) -> None:
        for value in values:
            self.add(value, 1)

    def result(self) -> Any:
        return len(self._weights)

    def kept(self) -> Iterable[Any]:
        return ((value, pack(weight)) for value, weight in self._weights.items())


class _Ordered:
    """What the aggregates of an ordered multiset share."""

    __slots__ = ("_values", "count")

    def __init__(self) -> None:
        self.count = 0
        self._values = Ranked()

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        self._values.add(value, weight)

    def add_all(self, values: Collection[Any]) -> None:
        self.count += len(values)
        self._values.add_all(values)

    def kept(self) -> Iterable[Any]:
        return ((value, pack(weight)) for value, weight in self._values.weights.items())


class Quantile(_Ordered):
    """The value below which a fraction of the others lie, a float; None of nothing. See `Ranked` for its cost.

    With n values in order, at the places 0 to n - 1, it is what stands at the place fraction * (n - 1); between two
    places it moves in a straight line from one to the other. The fraction is exact, as it is written, and the answer is
    rounded once.

    >>> q = Quantile(Fraction("0.9")); q.add_all(range(11)); q.result()
    9.0
    >>> median = Quantile(Fraction(1, 2)); median.add_all([1, 5, 2, 10]); median.result()
    3.5
    """

    __slots__ = ("_fraction",)

    def __init__(self, fraction: Fraction) -> None:
        super().__init__()
        self._fraction = fraction

    def result(self) -> Any:
        if not self.count:
            return None
        divisor = self._fraction.denominator
        place, rest = divmod(self._fraction.numerator * (self.count - 1), divisor)
        below = self._values.at(place)
        above = self._values.at(place + 1) if rest else below
        if above == below:
            return float(below)
        (a, under_a), (b, under_b) = below.as_integer_ratio(), above.as_integer_ratio()
        return (a * under_b * (divisor - rest) + b * under_a * rest) / (under_a * under_b * divisor)


LONGEST = 1 << 20
"""Elements of a list that an aggregate makes, unless somebody says otherwise."""


def _fits(what: str, values: tuple[Any, ...], longest: int) -> tuple[Any, ...]:
    """Values as the list that they are, unless it has lists inside it, and too many elements with them."""
    if any([type(value) is tuple for value in values]):
        _check(what, _elements(values), longest)
    return values


def _elements(values: tuple[Any, ...]) -> int:
    return len(values) + sum([_elements(value) for value in values if type(value) is tuple])


def _check(what: str, length: int, longest: int) -> None:
    if length > longest:
        raise ValueError(
            f"{what} makes a list of {length:,} elements, more than the {longest:,} that are allowed; a higher "
            "`longest=` or `--longest` allows more"
        )


class Top(_Ordered):
    """The largest values as a list, the largest first, with repetitions; the empty list of nothing.

    More than `longest` of them are an error.

    >>> t = Top(2); t.add_all([3, 9, 9, 1]); t.result()
    (9, 9)
    >>> t.add(9, -1); t.result()
    (9, 3)
    """

    __slots__ = ("_longest", "_size")

    def __init__(self, size: int, longest: int = LONGEST) -> None:
        super().__init__()
        self._size = size
        self._longest = longest

    def result(self) -> Any:
        _check("top", min(self._size, self.count), self._longest)
        return _fits("top", self._values.largest(self._size), self._longest)


class Bottom(Top):
    """The smallest values as a list, the smallest first, with repetitions; the empty list of nothing.

    >>> b = Bottom(2); b.add_all([3, 9, 1]); b.result()
    (1, 3)
    """

    __slots__ = ()

    def result(self) -> Any:
        _check("bottom", min(self._size, self.count), self._longest)
        return _fits("bottom", self._values.smallest(self._size), self._longest)


class Collect(_Ordered):
    """All values as a sorted list, with repetitions; the empty list of nothing. O(values) a result after a change.

    More than `longest` of them are an error.

    >>> c = Collect(); c.add_all(["b", "a", "b"]); c.result()
    ('a', 'b', 'b')
    """

    __slots__ = ("_answer", "_longest")

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__()
        self._longest = longest
        self._answer: tuple[Any, ...] | None = ()

    def add(self, value: Any, weight: int) -> None:
        self._answer = None
        super().add(value, weight)

    def add_all(self, values: Collection[Any]) -> None:
        self._answer = None
        super().add_all(values)

    def result(self) -> Any:
        if self._answer is None:
            _check("collect", self.count, self._longest)
            self._answer = _fits("collect", tuple(self._values), self._longest)
        return self._answer
