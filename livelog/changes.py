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

    The lists are sorted when they are first asked for: a large load does not pay for it.

    >>> c = Changes("r", [("b",), ("a",)], [])
    >>> c.inserted, c.deleted, bool(c)
    ([('a',), ('b',)], [], True)
    """

    __slots__ = ("_deleted", "_inserted", "_sorted", "relation")

    def __init__(self, relation: str, inserted: list[Tuple], deleted: list[Tuple]) -> None:
        self.relation = relation
        self._inserted = inserted
        self._deleted = deleted
        self._sorted = len(inserted) < 2 and len(deleted) < 2

    def _sort(self) -> None:
        self._inserted = sort_rows(self._inserted)
        self._deleted = sort_rows(self._deleted)
        self._sorted = True

    @property
    def inserted(self) -> list[Tuple]:
        """The tuples that are in the view now and were not before, sorted."""
        if not self._sorted:
            self._sort()
        return self._inserted

    @property
    def deleted(self) -> list[Tuple]:
        """The tuples that were in the view and are not now, sorted."""
        if not self._sorted:
            self._sort()
        return self._deleted

    def __bool__(self) -> bool:
        return bool(self._inserted or self._deleted)

    def __len__(self) -> int:
        return len(self._inserted) + len(self._deleted)

    def __repr__(self) -> str:
        return f"<Changes of {self.relation}: +{len(self._inserted)} -{len(self._deleted)}>"

    def __str__(self) -> str:
        lines = [f"-{format_row(self.relation, t)}" for t in self.deleted]
        return "\n".join(lines + [f"+{format_row(self.relation, t)}" for t in self.inserted])


class ChangeLog(Mapping[str, Changes]):
    """The changes of all views in one transaction. Every view has an entry, changed or not."""

    __slots__ = ("_asked", "_sides", "_views")

    def __init__(self, views: tuple[str, ...], changes: Mapping[str, Iterable[list[Tuple]]]) -> None:
        self._views = views
        self._sides = changes
        self._asked: dict[str, Changes] = {}  # made when somebody asks: most programs have views that few look at

    def __getitem__(self, relation: str) -> Changes:
        changes = self._asked.get(relation)
        if changes is None:
            if relation not in self._views:
                raise KeyError(relation)
            changes = self._asked[relation] = Changes(relation, *self._sides.get(relation, ([], [])))
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
