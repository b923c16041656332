"""Boolean aggregates: are all values true, is any of them? A number is false if it is 0."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from operators.exact import pack
from operators.monoids.base import Vector
from operators.source import Source

__all__ = ["All", "Any_"]


class All:
    """1 if no value is 0, also of nothing; else 0. O(1).

    The vector is (count, how many are true).

    >>> a = All(); a.add_all([1, 2.5]); a.result()
    1
    >>> a.add(0, 1); a.result()
    0
    """

    __slots__ = ("_true", "count")

    def __init__(self) -> None:
        self.count = 0
        self._true = 0

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        if value:
            self._true += weight

    def add_all(self, values: Collection[Any]) -> None:
        self.count += len(values)
        self._true += sum(map(bool, values))

    @staticmethod
    def lift(value: Any) -> Vector:
        return (1, 1 if value else 0)

    def absorb(self, vector: Vector, weight: int) -> None:
        self.count += weight * vector[0]
        self._true += weight * vector[1]

    def result(self) -> Any:
        return int(self._true == self.count)

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        count, true = entries
        return f"(1 if {true} == {count} else 0)"

    def kept(self) -> Iterable[Any]:
        return map(pack, (self.count, self._true))


class Any_(All):
    """1 if some value is not 0; else 0, also of nothing. O(1).

    >>> a = Any_(); a.add_all([0, 0.0]); a.result()
    0
    >>> a.add(3, 1); a.result()
    1
    """

    __slots__ = ()

    def result(self) -> Any:
        return int(self._true > 0)

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        return f"(1 if {entries[1]} > 0 else 0)"
