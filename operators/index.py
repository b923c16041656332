"""An index over the tuples of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operators.kernels import key_of
from operators.source import filing

__all__ = ["Index"]

Tuple = tuple[Any, ...]


class Index:
    """Tuples by the values of some columns.

    A bucket is a dict used as an ordered set: deletion is O(1) and the order is that of insertion, so that
    runs are repeatable. `find` is the bound `get` of the buckets, for the kernels.

    >>> index = Index((0,))
    >>> index.add([("a", 1), ("a", 2), ("b", 1)])
    >>> list(index.find("a"))
    [('a', 1), ('a', 2)]
    >>> index.remove([("a", 1), ("a", 2)]); index.find("a") is None
    True
    """

    __slots__ = ("_file", "buckets", "columns", "find", "key")

    def __init__(self, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.key = key_of(columns)
        self.buckets: dict[Any, dict[Tuple, None]] = {}
        self.find = self.buckets.get
        self._file = filing(columns, None)

    def add(self, tuples: Iterable[Tuple]) -> None:
        """O(1) a tuple. Adding a tuple again changes nothing."""
        self._file(tuples, self.buckets)

    def remove(self, tuples: Iterable[Tuple]) -> None:
        """O(1) a tuple. Removing a tuple that is not there changes nothing."""
        key, find, buckets = self.key, self.find, self.buckets
        for t in tuples:
            k = key(t)
            bucket = find(k)
            if bucket is not None and bucket.pop(t, self) is None and not bucket:
                del buckets[k]

    def check(self, rows: Iterable[Tuple]) -> None:
        """Assert that the index holds just these tuples, each in its bucket."""
        held = {t for bucket in self.buckets.values() for t in bucket}
        assert held == set(rows), f"index {self.columns} differs from its table"
        for k, bucket in self.buckets.items():
            assert bucket, "an empty bucket was kept"
            assert all(self.key(t) == k for t in bucket), "a tuple stands in the wrong bucket"
