"""Numbers: keys by number, with columns of values."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import Any

__all__ = ["Numbers"]

FREE = object()
"""The name of a number that no key has."""


class Numbers(dict[Any, int]):
    """A number for each key, from 0 on, and columns that have a value for each number, 0 at first.

    Asking for a key that is not known gives it a number. One that is given back, when all its values are 0 again, is
    that of another key later. A column is an array of C's whole numbers ("q"), floats ("d") or flags ("b").

    >>> n = Numbers("qd"); n["a"], n["b"], n["a"], n.names
    (0, 1, 0, ['a', 'b'])
    >>> n.columns[0][1] += 5; n.columns
    [array('q', [0, 5]), array('d', [0.0, 0.0])]
    >>> n.give_back(0); n["c"], "a" in n, n.names
    (0, False, ['c', 'b'])
    """

    __slots__ = ("_free", "columns", "names")

    def __init__(self, codes: str) -> None:
        super().__init__()
        self.names: list[Any] = []
        self.columns: list[MutableSequence[Any]] = [array(code) for code in codes]
        self._free: list[int] = []

    def __missing__(self, key: Any) -> int:
        if self._free:
            number = self._free.pop()
            self.names[number] = key
        else:
            number = len(self.names)
            self.names.append(key)
            for column in self.columns:
                column.append(0)
        self[key] = number
        return number

    def give_back(self, number: int) -> None:
        """The key of a number is not needed any more; nor is one that has been given back already."""
        if self.names[number] is not FREE:
            del self[self.names[number]]
            self.names[number] = FREE
            self._free.append(number)

    def widen(self) -> None:
        """From now on the columns take whole numbers of any size."""
        self.columns = [list(column) for column in self.columns]

    def check(self) -> None:
        """Assert that numbers and names are each other's inverse, and that what is free is empty."""
        assert all(self.names[number] == key for key, number in self.items()), "a number has another name"
        assert len(self.names) == len(self) + len(self._free), "a number is lost"
        assert not any(column[n] for column in self.columns for n in self._free), "a free number has values"
