"""Shared: the heads of groups as one side of joins, read where the groups have them anyway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operators.delta import Delta
from operators.groupby import GroupBy

__all__ = ["Shared"]

Tuple = tuple[Any, ...]


class Shared:
    """What `operators.zset.ZTable` is to a join, for a relation of one tuple per key: a table with nothing in it.

    When a join begins, the groups have their new heads already. A join takes in the changes of its sides one after the
    other, and each must meet the other side as it was before its own changes are in: `coming` are these changes, and
    `old` has the tuples that there were in place of what has changed. From `add` on it is the new heads that count.

    >>> from operators.monoids import Count
    >>> groups = GroupBy("", 1, (Count,), (0, 1)); table = Shared(groups)
    >>> groups.update([(("a", None), 1)]); gone, new = groups.flush(); table.coming = delta = Delta(new, gone)
    >>> table.old
    {'a': None}
    >>> table.add(delta); table.old, table.find("a").head
    ({}, ('a', 1))
    """

    __slots__ = ("_group_of", "_old", "coming", "find")

    def __init__(self, groups: GroupBy) -> None:
        self.find = groups.cells.rows.get
        self.coming: Delta | None = None
        self._group_of = groups.group_of
        self._old: dict[Any, Tuple | None] | None = None

    @property
    def old(self) -> Mapping[Any, Tuple | None]:
        """By key, what there was where it is not what there is."""
        if self.coming is None:
            return {}
        if self._old is None:
            key = self._group_of
            self._old = dict.fromkeys(map(key, self.coming.gained))
            self._old.update((key(t), t) for t in self.coming.lost)
        return self._old

    def add(self, delta: Delta) -> None:
        """The changes are in."""
        self.coming = self._old = None

    def items(self) -> Iterator[tuple[Tuple, int]]:
        """Nothing is kept here."""
        return iter(())

    def __len__(self) -> int:
        return 0

    def check(self) -> None:
        """Assert that no changes are under way."""
        assert self.coming is None, "a join has not taken in a change"
