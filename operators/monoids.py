"""Aggregates as states that grow and shrink: `add(value, weight)` with a weight of either sign, `result()`.

Every state takes back exactly what it was given, so after any history it equals the aggregate of what
is left. Sums of floats are kept exactly (a float is a whole number of 2**-1074ths) and rounded once, when
asked: no drift, and no dependence on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sortedcontainers import SortedDict

from operators.kernels import HIGHEST, LOWEST, overflow

__all__ = ["Avg", "Count", "Extreme", "Monoid", "Sum", "UserAggregate", "factory"]


class Monoid(Protocol):
    """The state of one aggregate of one group. `count` is the weight of all that is in it."""

    count: int

    def add(self, value: Any, weight: int) -> None:
        """Let `value` in `weight` times, or take it out if the weight is negative."""

    def result(self) -> Any:
        """The aggregate of what is in; None if it has none."""


class Count:
    """How many. O(1).

    >>> c = Count(); c.add(None, 3); c.add(None, -1); c.result()
    2
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Any, weight: int) -> None:
        self.count += weight

    def result(self) -> Any:
        return self.count


_SCALE = 1074  # every finite float is a whole number of 2**-1074
_ONE = 1 << _SCALE


class Sum:
    """The exact sum, correctly rounded when floats are in it. O(1).

    >>> s = Sum()
    >>> for v in (1e100, 1, -1e100): s.add(v, 1)
    >>> s.result()
    1.0
    >>> s.add(1e100, -1); s.add(-1e100, -1); s.result()
    1
    """

    __slots__ = ("_floats", "_integers", "_parts", "_unsigned", "count")

    def __init__(self, unsigned: bool = False) -> None:
        self.count = 0
        self._unsigned = unsigned
        self._integers = 0
        self._floats = 0  # how many floats are in
        self._parts = 0  # their sum, in 2**-1074ths

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        if isinstance(value, float):
            numerator, denominator = value.as_integer_ratio()
            self._parts += weight * (numerator << (_SCALE - denominator.bit_length() + 1))
            self._floats += weight
        else:
            self._integers += weight * value

    def result(self) -> Any:
        if not self._floats:
            total = self._integers
            if self._unsigned and 0 <= total < 2**64:
                return total
            return total if LOWEST <= total <= HIGHEST else overflow(total)
        try:
            return (self._parts + (self._integers << _SCALE)) / _ONE
        except OverflowError:
            raise OverflowError("overflow: the sum is too large for a float") from None


class Avg(Sum):
    """The mean, a float; None of nothing. O(1).

    >>> a = Avg(); a.add(1, 1); a.add(2, 1); a.result()
    1.5
    """

    __slots__ = ()

    def result(self) -> Any:
        return float(super().result()) / self.count if self.count else None


class Extreme:
    """The smallest or the largest of a multiset.

    Most groups hold one value, and need no structure at all. Of small ones, a plain dict whose smallest key is
    searched for beats an ordered structure in memory and time; past LARGE different values it becomes a sorted
    one, O(log n) an operation.

    >>> m = Extreme(largest=False)
    >>> for v in (3, 1, 1): m.add(v, 1)
    >>> m.add(1, -1); m.result(), m.add(1, -1), m.result()
    (1, None, 3)
    """

    LARGE = 24
    __slots__ = ("_largest", "_only", "_weights", "count")

    def __init__(self, largest: bool) -> None:
        self.count = 0
        self._largest = largest
        self._only: Any = None  # the one value, while there are no `_weights`
        self._weights: Any = None

    def add(self, value: Any, weight: int) -> None:
        weights = self._weights
        if weights is None:
            if not self.count or value == self._only:
                self._only = value
                self.count += weight
                return
            weights = self._weights = {self._only: self.count}
        self.count += weight
        left = weights.get(value, 0) + weight
        if left:
            weights[value] = left
            if len(weights) > self.LARGE and type(weights) is dict:
                self._weights = SortedDict(weights)
        else:
            del weights[value]

    def result(self) -> Any:
        weights = self._weights
        if not self.count:
            return None
        if weights is None:
            return self._only
        if type(weights) is dict:
            return max(weights) if self._largest else min(weights)
        return weights.peekitem(-1 if self._largest else 0)[0]


class UserAggregate:
    """An aggregate that a person registered: any function of the list of values. O(values) a result."""

    __slots__ = ("_function", "_weights", "count")

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self.count = 0
        self._function = function
        self._weights: dict[Any, int] = {}

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        left = self._weights.get(value, 0) + weight
        if left:
            self._weights[value] = left
        else:
            del self._weights[value]

    def result(self) -> Any:
        if not self.count:
            return None
        # sorted, so that the answer does not depend on the order of arrival
        return self._function([v for v in sorted(self._weights) for _ in range(self._weights[v])])


def factory(
    function: str, registered: Mapping[str, Callable[[list[Any]], Any]], kind: str = "number"
) -> Callable[[], Monoid]:
    """What makes an empty state of the aggregate with that name; `kind` is the type of its result.

    >>> factory("count", {})().result()
    0
    """
    if function in registered:
        implementation = registered[function]
        return lambda: UserAggregate(implementation)
    known: dict[str, Callable[[], Monoid]] = {
        "count": Count,
        "sum": lambda: Sum(kind == "unsigned"),
        "avg": Avg,
        "min": lambda: Extreme(largest=False),
        "max": lambda: Extreme(largest=True),
    }
    return known[function]
