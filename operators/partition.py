"""Which partition owns a tuple: a hash that is the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

__all__ = ["Owners", "Router", "stable_hash"]

Tuple = tuple[Any, ...]


def stable_hash(value: Any) -> int:
    """A hash of a value of the language. Equal values hash alike, also 2 and 2.0.

    >>> stable_hash(2) == stable_hash(2.0), stable_hash("a") == stable_hash("a")
    (True, True)
    """
    if type(value) is int:
        return _spread(value)
    if type(value) is str:
        return crc32(value.encode())
    if isinstance(value, float):
        return stable_hash(int(value)) if value.is_integer() else crc32(repr(value).encode())
    if isinstance(value, tuple):
        result = 17
        for part in value:
            result = (result * 31 + stable_hash(part)) & 0xFFFFFFFF
        return _spread(result)
    return stable_hash(int(value))


def _spread(n: int) -> int:
    """Numbers often share a factor with the number of partitions, or differ by a constant: mix their bits."""
    return (n * 0x9E3779B1 & 0xFFFFFFFF) >> 7


class Owners(dict[Any, int]):
    """Key of some columns -> number of the partition; whoever is not there yet is entered when looked up.

    >>> owners = Owners((0,), 3); owners["a"] == owners["a"] == stable_hash("a") % 3
    True
    """

    __slots__ = ("columns", "partitions")

    def __init__(self, columns: tuple[int, ...], partitions: int) -> None:
        super().__init__()
        self.columns = columns
        self.partitions = partitions

    def __missing__(self, key: Any) -> int:
        if len(self) > 100_000:  # a cache, not a table: keys come and go
            self.clear()
        owner = self[key] = stable_hash(key) % self.partitions if self.columns else 0
        return owner


class Router:
    """Tuple -> number of its partition, by the hash of some columns; no columns means partition 0.

    >>> Router((0,), 1)(("a",)), Router((), 5)(("a",))
    (0, 0)
    """

    __slots__ = ("columns", "owners", "partitions")

    def __init__(self, columns: tuple[int, ...], partitions: int) -> None:
        self.columns = columns
        self.partitions = partitions
        self.owners = Owners(columns, partitions)

    def __call__(self, t: Tuple) -> int:
        if self.partitions == 1 or not self.columns:
            return 0
        return self.owners[t[self.columns[0]] if len(self.columns) == 1 else tuple([t[c] for c in self.columns])]

    def split(self, entries: list[Any]) -> dict[int, list[Any]]:
        """Entries that begin with a tuple, by the partition of that.

        >>> Router((0,), 2).split([((1,), "x"), ((3,), "y"), ((1,), "z")])
        {1: [((1,), 'x'), ((1,), 'z')], 0: [((3,), 'y')]}
        """
        parts: dict[int, list[Any]] = {}
        if len(self.columns) != 1:
            for entry in entries:
                parts.setdefault(self(entry[0]), []).append(entry)
            return parts
        column, owners = self.columns[0], self.owners
        for entry in entries:
            owner = owners[entry[0][column]]
            share = parts.get(owner)
            if share is None:
                parts[owner] = [entry]
            else:
                share.append(entry)
        return parts

    def split_tuples(self, tuples: Iterable[Tuple]) -> dict[int, list[Tuple]]:
        """Tuples by their partition."""
        parts: dict[int, list[Tuple]] = {}
        for t in tuples:
            parts.setdefault(self(t), []).append(t)
        return parts
