"""Seen: which tuples a table has, split in two, so that a join can ask without making the tuple."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from operators.kernels import key_of
from operators.source import filing

__all__ = ["Seen"]

Tuple = tuple[Any, ...]


class Seen:
    """The tuples of a table as carried columns -> set of the other columns.

    A recursive step mostly carries some columns over and fetches the others: in
    `reachable(x, y) :- link(x, z), reachable(z, y)` a tuple brings y and its partners bring x. Most of what
    they derive is known, and to find that out takes a look into one small set per tuple of the batch. The same
    question to the table itself would make each head first, and miss the processor's cache for each once the
    table is large (`bench/memory.py` compares a large view with a small one).

    On one of several partitions it has, `beside` the table's own, the tuples that are on offer to others.

    >>> seen = Seen((1,), 2); seen.add([("a", "y"), ("b", "y")]); sorted(seen.groups["y"])
    ['a', 'b']
    >>> seen.remove([("a", "y"), ("b", "y")]); seen.groups
    {}
    """

    __slots__ = ("_file", "beside", "carried", "groups", "key", "rest")

    def __init__(self, carried: tuple[int, ...], arity: int, beside: Iterable[Tuple] = ()) -> None:
        self.carried = carried
        self.key, self.rest, self._file = _split(carried, arity)
        self.groups: dict[Any, set[Any]] = {}
        self.beside = beside

    def add(self, tuples: Iterable[Tuple]) -> None:
        """O(1) a tuple."""
        self._file(tuples, self.groups)

    def remove(self, tuples: Iterable[Tuple]) -> None:
        """O(1) a tuple. Removing a tuple that is not there changes nothing."""
        key, rest, groups = self.key, self.rest, self.groups
        find = groups.get
        for t in tuples:
            k = key(t)
            group = find(k)
            if group is not None:
                group.discard(rest(t))
                if not group:
                    del groups[k]

    def check(self, rows: Iterable[Tuple]) -> None:
        """Assert that it is about just these tuples, and those beside them."""
        expected: dict[Any, set[Any]] = {}
        for t in (*rows, *self.beside):
            expected.setdefault(self.key(t), set()).add(self.rest(t))
        assert {k: g for k, g in self.groups.items() if g} == expected, "a table and what is seen of it differ"


@lru_cache(maxsize=256)
def _split(carried: tuple[int, ...], arity: int) -> tuple[Any, Any, Any]:
    """How tuples are split: their carried columns, the others, and the loop that sorts them into groups so."""
    others = tuple([c for c in range(arity) if c not in carried])
    return key_of(carried), key_of(others), filing(carried, others)
