"""Aggregate selection where a group has one winner: a relation of the group's columns and one value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operators.aggsel import AggSel
from operators.ledger import Derivation, Ledger

__all__ = ["Sole"]

Tuple = tuple[Any, ...]


class Sole(AggSel):
    """One best tuple a group, since a tie is the same tuple: what `AggSel` keeps in lists is one reference here.

    `best`: group -> its best tuple. `behind`: group -> overtaken tuples that are still in the table; where it is
    `lean`, there are none between transactions. It is for tables that keep one derivation of a tuple and hold none
    aside, so that `enter` does at once what there takes `admit`, the ledger and `entered`.

    >>> from operators.ledger import ledger
    >>> from operators.provenance import Provenance
    >>> sole = Sole((0,), ((1, "min"),), ledger("demand", Provenance()), lean=True)
    >>> rows = {}
    >>> sole.enter([(("a", 5), 1), (("a", 3), 2), (("b", 9), 3)], rows)
    [(('a', 3), 2), (('b', 9), 3)]
    >>> sole.enter([(("a", 2), 4), (("b", 9), 5)], rows), sorted(rows)
    ([(('a', 2), 4)], [('a', 2), ('a', 3), ('b', 9)])
    >>> sole.net(), sole.take_overtaken()
    (([('a', 2), ('b', 9)], []), [('a', 3)])
    """

    best: dict[Any, Any]
    before: dict[Any, Any]

    def __init__(
        self, group: tuple[int, ...], values: tuple[tuple[int, str], ...], held: Ledger, lean: bool = False
    ) -> None:
        super().__init__(group, values, held, lean)
        ((self._column, kind),) = values
        self._least = kind == "min"
        self.behind: dict[Any, list[Tuple]] = {}

    def enter(self, derived: list[Derivation], rows: dict[Tuple, Any]) -> list[Derivation]:
        """Put the best of each group into the table, if it is better than what is there. Returns what entered."""
        group, best, before, column, least = self.group, self.best, self.before, self._column, self._least
        new: dict[Any, Derivation] = {}
        for derivation in derived:
            t = derivation[0]
            g = group(t)
            old = best.get(g)
            if old is not None and (t[column] >= old[column] if least else t[column] <= old[column]):
                continue
            if g not in new:
                if g not in before:
                    before[g] = old
                if old is not None:
                    self.behind.setdefault(g, []).append(old)
            best[g] = t
            new[g] = derivation
        entered = list(new.values())
        rows.update(entered)
        self.look_at(entered)
        return entered

    def look_at(self, entered: list[Derivation]) -> None:
        """These have entered the table and `best`: stay `lean` only if their values are whole numbers."""
        if self.lean:
            column = self._column
            self.lean = all([type(t[column]) is int for t, _ in entered])

    def overtaken_early(self, pending: list[Derivation]) -> list[Tuple]:
        """Those of the pending tuples that were overtaken before they were joined: they leave now.

        What a search has let rest on one of them is overtaken too, once what overtook it is joined.
        """
        if not (self.lean and self.behind):
            return []
        group, best = self.group, self.best
        early = [t for t, _ in pending if best[group(t)] is not t]
        for t in early:
            self._lost_behind(group(t), t)
        return early

    def lost(self, tuples: Iterable[Tuple]) -> None:
        """Tuples were lost from the table. O(1) for each unless it was overtaken."""
        group, best, before, column = self.group, self.best, self.before, self._column
        for t in tuples:
            g = group(t)
            winner = best.get(g)
            if winner is None or t[column] != winner[column]:
                self._lost_behind(g, t)
                continue
            if g not in before:
                before[g] = winner
            del best[g]
            self.dirty[g] = t

    def _lost_behind(self, g: Any, t: Tuple) -> None:
        behind = self.behind[g]
        behind.remove(t)
        if not behind:
            del self.behind[g]

    def take_dirty(self) -> list[Any]:
        groups = list(self.dirty)
        self.dirty.clear()
        if self.behind:
            for g in groups:
                if g in self.behind:
                    ranked = sorted(self.behind[g], key=lambda t: t[self._column], reverse=not self._least)
                    self.best[g] = ranked[0]
                    self._lost_behind(g, ranked[0])
        return groups

    def winners(self, g: Any) -> tuple[Tuple, ...]:
        return (self.best[g],) if g in self.best else ()

    def is_winner(self, t: Tuple) -> bool:
        return bool(self.best.get(self.group(t)) == t)

    def net(self) -> tuple[list[Tuple], list[Tuple]]:
        """The winners gained and lost since the last call."""
        gained: list[Tuple] = []
        lost: list[Tuple] = []
        find = self.best.get
        for g, before in self.before.items():
            now = find(g)
            if now != before:
                if now is not None:
                    gained.append(now)
                if before is not None:
                    lost.append(before)
        self.before.clear()
        if self.lean and self.behind:
            self.overtaken = [t for behind in self.behind.values() for t in behind]
            self.behind.clear()
        return gained, lost

    def check(self, rows: Iterable[Tuple]) -> None:
        """Assert that groups and best tuples fit the table."""
        members = list(self.best.values()) + [t for behind in self.behind.values() for t in behind]
        assert len(members) == len(set(members)) and set(members) == set(rows), "the groups differ from the table"
        assert not self.dirty, "a group was left dirty"
        assert not (self.lean and self.behind), "an overtaken tuple was kept"
        assert not self.held.first, "nothing is held here"
        for g, t in self.best.items():
            assert self.group(t) == g, f"{t} stands in the wrong group"
            for other in self.behind.get(g, ()):
                assert t[self._column] < other[self._column] if self._least else t[self._column] > other[self._column]
