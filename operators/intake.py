"""Intake: what one side of a lineage join takes in, and how partial sums of it travel.

Partial sums are by lineage key and by the columns that are kept beside it: lineage key -> {kept columns -> vector}.
Where no column is kept it is lineage key -> vector. Vectors are those of `operators.sums`: entry 0 is the count, and
with nothing else in them they are that number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from operators.expr import Expr
from operators.lineage_loops import Form
from operators.sums import Factor, Summing

__all__ = ["Intake"]

Tuple = tuple[Any, ...]


class Intake:
    """What is summed up of a relation, under which join key, and by what.

    >>> from operators.delta import Delta
    >>> from operators.expr import Col
    >>> from operators.sums import COUNT
    >>> side = Intake("", (1, 0), (), (Col(2),), (COUNT,))
    >>> changes = side.summed(Delta([("l", "k", "a")], [])); changes
    {('k', 'l'): {('a',): 1}}
    >>> side.sent(changes), side.received([(("k", "l", "a"), 1)])
    ([(('k', 'l', 'a'), 1)], {('k', 'l'): {('a',): 1}})
    """

    def __init__(
        self, text: str, key: Sequence[int], where: Sequence[Expr], kept: Sequence[Expr], factors: Sequence[Factor]
    ) -> None:
        self.form = Form(tuple(key), tuple(where), tuple(kept), tuple(factors))
        self.nested = bool(kept)
        self.bare = self.form.bare
        self._width = len(key)
        self.summed = Summing(text, where, key, kept, factors)

    def sent(self, changes: dict[Any, Any]) -> list[tuple[Tuple, Any]]:
        """Changes as rows: (key columns..., kept columns...), vector."""
        if self.nested:
            pairs = ((self.spread(key), entries) for key, entries in changes.items())
            return [(key + row, vector) for key, entries in pairs for row, vector in entries.items()]
        return [(self.spread(key), vector) for key, vector in changes.items()]

    def received(self, rows: Iterable[tuple[Tuple, Any]]) -> dict[Any, Any]:
        """The changes behind rows. Nobody sends a row twice in one message."""
        changes: dict[Any, Any] = {}
        width = self._width
        for row, vector in rows:
            key = row[0] if width == 1 else row[:width] if width else None
            if self.nested:
                changes.setdefault(key, {})[row[width:]] = vector
            else:
                changes[key] = vector
        return changes

    def spread(self, key: Any) -> Tuple:
        """The columns of a key."""
        return (key,) if self._width == 1 else key if self._width else ()
