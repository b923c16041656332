"""What a transaction changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from livelog.io.values import format_row
from livelog.values import sort_rows

__all__ = ["ChangeLog", "Changes"]

Tuple = tuple[Any, ...]


class Changes:
    """The net change of one view: what was inserted and what was deleted. False if nothing was.

    Nobody can change it: whoever asks gets lists of his own. They are sorted when they are first asked for: a large
    load does not pay for it.

    >>> c = Changes("r", [("b",), ("a",)], [])
    >>> c.inserted, c.deleted, bool(c)
    ([('a',), ('b',)], [], True)
    >>> c.inserted.clear(); c.inserted
    [('a',), ('b',)]
    """

    __slots__ = ("_clock", "_deleted", "_inserted", "_relation", "_sorted", "_transaction")

    def __init__(
        self, relation: str, inserted: list[Tuple], deleted: list[Tuple], transaction: int = 0, clock: float = 0.0
    ) -> None:
        self._relation = relation
        self._inserted = inserted
        self._deleted = deleted
        self._transaction = transaction
        self._clock = clock
        self._sorted = len(inserted) < 2 and len(deleted) < 2

    def _sort(self) -> None:
        """Two threads may do this at once: each puts the same rows in order, and none changes a list in place."""
        self._inserted = sort_rows(self._inserted)
        self._deleted = sort_rows(self._deleted)
        self._sorted = True

    @property
    def relation(self) -> str:
        """The view."""
        return self._relation

    @property
    def transaction(self) -> int:
        """The number of the transaction: 1 is the first after opening. Over Spark it is the one in the log."""
        return self._transaction

    @property
    def clock(self) -> float:
        """The time at which the clock stood after the transaction."""
        return self._clock

    @property
    def inserted(self) -> list[Tuple]:
        """The tuples that are in the view now and were not before, sorted. A list of the asker's own: O(changes)."""
        if not self._sorted:
            self._sort()
        return list(self._inserted)

    @property
    def deleted(self) -> list[Tuple]:
        """The tuples that were in the view and are not now, sorted. A list of the asker's own: O(changes)."""
        if not self._sorted:
            self._sort()
        return list(self._deleted)

    def __bool__(self) -> bool:
        return bool(self._inserted or self._deleted)

    def __len__(self) -> int:
        return len(self._inserted) + len(self._deleted)

    def __repr__(self) -> str:
        return f"<Changes of {self._relation}: +{len(self._inserted)} -{len(self._deleted)}>"

    def __str__(self) -> str:
        lines = [f"-{format_row(self._relation, t)}" for t in self.deleted]
        return "\n".join(lines + [f"+{format_row(self._relation, t)}" for t in self.inserted])


class ChangeLog(Mapping[str, Changes]):
    """The changes of all views in one transaction. Every view has an entry, changed or not.

    `transaction` and `clock` are those of its entries.
    """

    __slots__ = ("_asked", "_clock", "_sides", "_transaction", "_views")

    def __init__(
        self,
        views: tuple[str, ...],
        changes: Mapping[str, Iterable[list[Tuple]]],
        transaction: int = 0,
        clock: float = 0.0,
    ) -> None:
        self._views = views
        self._sides = changes
        self._transaction = transaction
        self._clock = clock
        self._asked: dict[str, Changes] = {}  # made when somebody asks: most programs have views that few look at

    @property
    def transaction(self) -> int:
        """The number of the transaction; 0 is the load at opening. Over Spark it is the one in the log."""
        return self._transaction

    @property
    def clock(self) -> float:
        """The time at which the clock stood after the transaction."""
        return self._clock

    def __getitem__(self, relation: str) -> Changes:
        changes = self._asked.get(relation)
        if changes is None:
            if relation not in self._views:
                raise KeyError(relation)
            inserted, deleted = self._sides.get(relation, ([], []))
            changes = Changes(relation, inserted, deleted, self._transaction, self._clock)
            self._asked[relation] = changes
        return changes

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __bool__(self) -> bool:
        """Whether any view changed."""
        return any(self.values())

    def __repr__(self) -> str:
        changed = [f"{c.relation}: +{len(c._inserted)} -{len(c._deleted)}" for c in self.values() if c]
        return f"<ChangeLog {', '.join(changed) or 'nothing'}>"

    def __str__(self) -> str:
        return "\n".join(str(c) for c in self.values() if c)
