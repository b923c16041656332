"""Rows: the tuples of a runtime, found by the values in some of their columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livelog.runtime.runtime import Runtime
from livelog.why.instant import Instant, tuples_of

__all__ = ["Fact", "Rows", "Tuple"]

Tuple = tuple[Any, ...]
Fact = tuple[str, Tuple]

SCANS = 3  # of a relation, before it is indexed


class Rows:
    """What one runtime shows, as it is now.

    The first questions about a relation are a scan of it where it lies, O(relation). Who asks more often gets
    an index, made once, and answers in O(rows found).
    """

    def __init__(self, runtime: Runtime, instant: Instant | None = None) -> None:
        """`instant`: what is not evaluated in the runtime's plan, but is as it is at this moment."""
        self.runtime = runtime
        self.instant = Instant(runtime.plan) if instant is None else instant
        self.plan = self.instant.plan
        self._all: dict[str, list[Tuple]] = {}
        self._asked: dict[str, int] = {}
        self._indexes: dict[tuple[str, tuple[int, ...]], dict[Tuple, list[Tuple]]] = {}
        self._copies: dict[Fact, int] | None = None

    def has(self, fact: Fact) -> bool:
        return self.runtime.has(*fact)

    def matching(self, relation: str, fixed: Iterable[tuple[int, Any]] = ()) -> list[Tuple]:
        """The tuples of a relation with the given values in some columns."""
        given = dict(fixed)  # (if a column is named twice, with different values, the tuple itself will tell)
        asked = self._asked[relation] = self._asked.get(relation, 0) + 1
        if given and asked <= SCANS and relation not in self._all:
            return self.runtime.matching(relation, list(given.items()))
        if relation not in self._all:
            self._all[relation] = list(self.runtime.rows(relation))
        if not given:
            return self._all[relation]
        columns = tuple(sorted(given))
        index = self._indexes.get((relation, columns))
        if index is None:
            index = self._indexes[relation, columns] = {}
            for row in self._all[relation]:
                index.setdefault(tuple([row[c] for c in columns]), []).append(row)
        return index.get(tuple([given[c] for c in columns]), [])

    def copies(self, fact: Fact) -> int:
        """How often a fact is there: more than once only in a bag."""
        if not self.plan.relations[fact[0]].bag:
            return 1
        if self._copies is None:
            bags = {name for name, r in self.plan.relations.items() if r.bag}
            self._copies = {(name, t): n for name, t, n in self.runtime.facts() if name in bags}
            for name in bags & self.instant.heads.keys():
                found = tuples_of(self.runtime, self.instant, name)
                self._copies.update(((name, t), n) for t, n in found.items())
        return self._copies[fact]
