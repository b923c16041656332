"""Aggregates whose state is a vector of sums: count, sum, avg, variance, stddev.

Sums of floats are kept exactly (`operators.exact`) and rounded once, when asked: no drift, and no dependence on the
order of arrival. So is every answer here the float that is nearest to the true one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from operators.exact import FACTOR, coarse, pack, units
from operators.monoids.base import Vector
from operators.monoids.formulas import NARROW, UNIT, WIDE, deviation_of, mean_of, sum_of, total_of, variance_of
from operators.source import HIGHEST, Source, overflow

__all__ = ["Avg", "Count", "Stddev", "Sum", "Total", "Variance"]


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

    def add_all(self, values: Collection[Any]) -> None:
        self.count += len(values)

    @staticmethod
    def lift(value: Any) -> Vector:
        return (1,)

    def absorb(self, vector: Vector, weight: int) -> None:
        self.count += weight * vector[0]

    def result(self) -> Any:
        return self.count if self.count <= HIGHEST else overflow(self.count)

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        (count,) = entries
        return f"({count} if {count} <= HIGHEST else overflow({count}))"

    def kept(self) -> Iterable[Any]:
        return (pack(self.count),)


class Sum:
    """The exact sum, correctly rounded when floats are in it. O(1).

    >>> s = Sum()
    >>> for v in (1e100, 1, -1e100): s.add(v, 1)
    >>> s.result()
    1.0
    >>> s.add(1e100, -1); s.add(-1e100, -1); s.result()
    1
    >>> s.absorb(Sum.lift(0.5), 3); s.result()
    2.5

    The vector is (count, sum of the ints, how many floats, their sum in units of 2**-128, and in units of 2**-1074): a
    float is in one of the two sums. 1 and 1.0 are the same row of a relation: what was let in as one may be taken out
    as the other, and the sum is still that of what is left.
    """

    __slots__ = ("_coarse", "_fine", "_floats", "_integers", "_unsigned", "count")

    def __init__(self, unsigned: bool = False) -> None:
        self.count = 0
        self._unsigned = unsigned
        self._integers = 0
        self._floats = 0  # how many floats are in
        self._coarse = 0
        self._fine = 0

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        if isinstance(value, float):
            self._floats += weight
            scaled = value * FACTOR  # as in `coarse`
            if scaled.is_integer():
                self._coarse += weight * int(scaled)
            else:
                self._fine += weight * units(value)
        else:
            self._integers += weight * value

    def add_all(self, values: Collection[Any]) -> None:
        kinds = set(map(type, values))
        if kinds == {int}:
            self.count += len(values)
            self._integers += sum(values)
            return
        if kinds == {float}:
            scaled = [value * FACTOR for value in values]
            if all(map(float.is_integer, scaled)):
                self.count += len(values)
                self._floats += len(values)
                self._coarse += sum(map(int, scaled))
                return
        for value in values:
            self.add(value, 1)

    @staticmethod
    def lift(value: Any) -> Vector:
        return (1, 0, 1, *coarse(value)) if isinstance(value, float) else (1, value, 0, 0, 0)

    def absorb(self, vector: Vector, weight: int) -> None:
        count, integers, floats, large, small = vector
        self.count += weight * count
        self._integers += weight * integers
        if floats or large or small:  # floats that cancel out may leave something
            self._floats += weight * floats
            self._coarse += weight * large
            self._fine += weight * small

    def result(self) -> Any:
        return sum_of(self._unsigned, self._integers, self._floats, self._coarse, self._fine)

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        count, integers, floats, large, small = entries
        total = f"{source.name(sum_of, 'f')}({self._unsigned}, {integers}, {floats}, {large}, {small})"
        if floats == large == small == "0":
            return f"({integers} if {'0' if self._unsigned else 'LOWEST'} <= {integers} <= HIGHEST else {total})"
        if integers == "0" and floats == count:  # the sum of the coarse ones is rounded by being made a float
            low, high, unit = (source.name(value, "k") for value in (NARROW, WIDE, UNIT))
            return f"({large} * {unit} if not {small} and {low} < {large} < {high} else {total})"
        return total

    def kept(self) -> Iterable[Any]:
        return map(pack, (self.count, self._integers, self._floats, self._coarse, self._fine))


class Total(Sum):
    """The exact sum of whole numbers, for groups that perhaps nobody reads: out of range it is infinite. O(1).

    >>> t = Total(); t.add(2**62, 1); t.result() == 2**62, t.add(2**62, 1), t.result()
    (True, None, inf)
    """

    __slots__ = ()

    def result(self) -> Any:
        return total_of(self._integers)

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        total = entries[1]
        return f"({total} if LOWEST <= {total} <= HIGHEST else {source.name(total_of, 'f')}({total}))"


class Avg(Sum):
    """The mean, a float; None of nothing. O(1).

    >>> a = Avg(); a.add(1, 1); a.add(2, 1); a.result()
    1.5
    """

    __slots__ = ()

    def result(self) -> Any:
        return mean_of(self.count, self._integers, self._coarse, self._fine) if self.count else None

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        count, integers, _, large, small = entries
        if large == small == "0":
            return f"{integers} / {count}"
        return f"{source.name(mean_of, 'f')}({count}, {integers}, {large}, {small})"


class Variance:
    """The population variance, a float: 0.0 of one value, None of nothing. O(1).

    >>> v = Variance(); v.add_all([2, 4, 4.0, 6]); v.result()
    2.0
    >>> v.add(2, -1); v.add(6, -1); v.result()
    0.0

    The vector is (count, then for ints, floats in units of 2**-128 and floats in units of 2**-1074: their sum and the
    sum of their squares). With exact sums there is nothing to cancel: the mean of squares less the square of the
    mean is the variance.
    """

    __slots__ = ("_sums", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sums = [0, 0, 0, 0, 0, 0]

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        sums = self._sums
        if isinstance(value, float):
            large, small = coarse(value)
            at, value = (4, small) if small else (2, large)
        else:
            at = 0
        sums[at] += weight * value
        sums[at + 1] += weight * value * value

    def add_all(self, values: Collection[Any]) -> None:
        for value in values:
            self.add(value, 1)

    @staticmethod
    def lift(value: Any) -> Vector:
        if not isinstance(value, float):
            return (1, value, value * value, 0, 0, 0, 0)
        large, small = coarse(value)
        return (1, 0, 0, large, large * large, small, small * small)

    def absorb(self, vector: Vector, weight: int) -> None:
        self.count += weight * vector[0]
        self._sums = [total + weight * part for total, part in zip(self._sums, vector[1:], strict=True)]

    _answer = staticmethod(variance_of)

    def result(self) -> Any:
        return self._answer(self.count, *self._sums) if self.count else None

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        return f"{source.name(self._answer, 'f')}({', '.join(entries)})"

    def kept(self) -> Iterable[Any]:
        return map(pack, (self.count, *self._sums))


class Stddev(Variance):
    """The population standard deviation: the square root of the variance, correctly rounded. O(1).

    >>> s = Stddev(); s.add_all([1, 3]); s.result()
    1.0
    """

    __slots__ = ()

    _answer = staticmethod(deviation_of)
