"""A recursive component that is maintained by relative provenance: every tuple knows its derivation edges.

The derivation graph is distributed: the edges of a tuple are kept by its owner. When a rule is applied where the head
is not owned, its edge is shipped there at once (eager), or only the first edge of a tuple is (lazy): the others then
wait where they were made until the shipped one is lost, or until somebody who walks the graph asks for them.

A deletion removes edges, forward through the joins (`livelog.runtime.retraction`). A tuple without edges is gone. One
that lost its support but has other edges may be derivable from nothing but itself: the graph is walked backwards to
decide (`livelog.runtime.derivability`). What is not derivable is removed in the same way, until nothing is in doubt.
All this happens before anything new is let in: `resume` first walks, then removes, and at last inserts.

With aggregate selection, dominated tuples are held with all their edges, by the owner and by whoever derives them for
another partition. Nothing rests on a held tuple; so when everything in the tables is known to be derivable, each of its
edges is a proof, and it takes over in a group that lost its best without being walked.
"""

from __future__ import annotations

from typing import Any

import msgspec

from livelog.runtime.component import Component, Gone
from livelog.runtime.derivability import Derivability
from livelog.runtime.network import Wiring
from livelog.runtime.retraction import Retraction
from operators.edges import BASE, Edge, EdgeLedger
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.ledger import Derivation
from operators.minship import MinShip

__all__ = ["Relative"]

Tuple = tuple[Any, ...]

WALK, REMOVE, INSERT = range(3)
"""The levels of `resume`."""

_encode = msgspec.msgpack.Encoder().encode


class Relative(Component):
    """Tuples with their derivation edges (`operators.edges`).

    `lazy`: one edge a tuple is shipped. `_coming` are the insertions, which wait for the deletions' end.
    In messages, an edge stands right behind the columns of its head: `edges` are new, `cut` are lost (just the
    heads if lazy: one edge was shipped of each), `shift` takes the place of one that is lost, and `release` of one
    that may be circular. `put` and `drop` are about copies. The others belong to the walk.
    """

    keeps = "edges"
    levels = 3

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy = self.mode == "lazy" and self.partitions > 1
        self.number_of_home = {name: self.number_of[id(self.home[name])] for name in self.rules}
        self.derivability = Derivability(self)
        self.retraction = Retraction(self)
        self._arity = [self.plan.relations[table.name].arity for table in self.tables]
        self._derivable = frozenset(self.number_of_home.values())
        self._coming: dict[str, list[Tuple]] = {}
        for ship in self.ships.values():
            assert isinstance(ship.ledger, EdgeLedger)
            ship.ledger.every = not self.lazy

    # --- a transaction ---------------------------------------------------------------------------------------

    def work_in(self, gone: Gone, new: dict[str, list[Tuple]]) -> None:
        self._coming = {name: tuples for name, tuples in new.items() if tuples}
        for table, t in gone:
            self.retraction.fall(table, [t])
        self.retraction.follow()

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        if kind == "inner":
            super().receive(source, kind, target, rows)
            return
        table = self.tables[target]
        if kind == "put":
            table.arrive([(t, BASE) for t in rows])
        elif kind == "edges":
            self._new += self._shipped(source, table, self._split(target, rows))
        elif kind == "drop":
            self.retraction.fall(table, rows)
        elif kind == "cut":
            self.retraction.cut(table, [(t, source) for t in rows] if self.lazy else self._split(target, rows))
        elif kind == "shift":
            self.retraction.shift(source, table, self._split(target, rows))
        elif kind == "release":
            for t, edge in self._split(target, rows):
                self.derivability.released(source, table.name, t, edge)
        else:
            self.derivability.receive(source, kind, table.name, rows)

    def work(self) -> None:
        self.retraction.follow()
        self.derivability.work()
        self.pump()

    def resume(self, level: int) -> bool:
        if level == WALK:
            return self.derivability.walk()
        if level == REMOVE:
            lost = self.derivability.verdict()
            for name, tuples in lost.items():
                self.retraction.fall(self.home[name], tuples)
            self.retraction.follow()
            return bool(lost)
        busy = self._let_in()
        self.pump()
        return busy

    def close(self) -> None:
        self.derivability.close()

    def _split(self, target: int, rows: list[Tuple]) -> list[tuple[Tuple, Edge]]:
        """Tuples and edges of a message."""
        arity = self._arity[target]
        return [(row[:arity], row[arity:]) for row in rows]

    # --- insertion -------------------------------------------------------------------------------------------

    def _let_in(self) -> bool:
        """Everything that is left is derivable: fill up groups that lost their best, and let in what is new."""
        coming, self._coming = self._coming, {}
        busy = bool(coming)
        holders: list[Fixpoint | MinShip] = [*self.home.values(), *self.ships.values()]
        for holder in holders:
            selection = holder.selection
            if selection is not None and selection.dirty:
                busy = True
                best = [d for g in selection.take_dirty() for d in selection.next_best(g)]
                holder.enter(holder.ledger.offer(best)[1])
        for name, tuples in coming.items():
            self.introduce(name, tuples)
        return busy

    def introduce(self, name: str, tuples: list[Tuple]) -> None:
        self.home[name].arrive([(t, BASE) for t in tuples])

    def _derived(self, rule: PipelinedHashJoin | Projection, derived: list[Any], filled: bool = False) -> None:
        if not derived:
            return
        table = self.home[rule.head]
        assert isinstance(table.ledger, EdgeLedger)
        if table.selection is not None:
            new = self._selected(table, derived)
        else:
            new = table.ledger.add(derived) if self.partitions == 1 else self._entered(table, derived)
            table.enter(new)
        rule.derived += len(derived)  # what is owned elsewhere counts too
        self._new += len(new)

    def _entered(self, table: Fixpoint, derived: list[tuple[Tuple, Edge]]) -> list[Derivation]:
        """Enter edges here, or where their head is owned; returns the tuples that are new here."""
        rows: dict[Tuple, Any] = table.rows
        sent: dict[Tuple, Any] = self.ships[table.name].rows
        owner, here, number = self.routers[table.name], self.partition, self.number_of_home[table.name]
        lazy = self.lazy
        new: list[Any] = []
        for t, edge in derived:
            edges = rows.get(t)
            if edges is None and lazy:
                edges = sent.get(t)
            if edges is not None:
                edges[edge] = None
                continue
            destination = owner(t)
            if destination == here:
                rows[t] = edges = {edge: None}
                new.append((t, edges))
            elif lazy:
                sent[t] = edges = {edge: None}
                self._ship(destination, number, t, edges)
            else:
                self._ship(destination, number, t, (edge,))
        return new

    def _selected(self, table: Fixpoint, derived: list[tuple[Tuple, Edge]]) -> list[Derivation]:
        """The same where only the best tuples of a group go on."""
        wrapped: list[Any] = [(t, {edge: None}) for t, edge in derived]
        if self.partitions > 1:
            shares = self.routers[table.name].split(wrapped)
            wrapped = shares.pop(self.partition, [])
            ship = self.ships[table.name]
            for destination, share in shares.items():
                ship.arrive(share)
                self._post(table.name, destination, ship.take())
        return table.arrive(wrapped)

    def _shipped(self, source: int, table: Fixpoint, derived: list[tuple[Tuple, Edge]]) -> int:
        """Take in edges from another partition; returns how many tuples are new."""
        assert isinstance(table.ledger, EdgeLedger)
        if table.selection is not None:
            entries: list[Any] = [(t, {source: edge} if self.lazy else {edge: None}) for t, edge in derived]
            return len(table.arrive(entries))
        new = table.ledger.add_from(source, derived) if self.lazy else table.ledger.add(derived)
        table.enter(new)
        return len(new)

    def copy(self, wiring: Wiring, batch: list[Derivation]) -> None:
        for router, number in wiring.copies:
            here: list[Any] = []
            for t, _ in batch:
                for destination in self.targets(router, t):
                    if destination == self.partition:
                        here.append((t, BASE))
                    else:
                        self._ship(destination, number, t, BASE)
            self.tables[number].arrive(here)

    def _ship(self, destination: int, number: int, t: Tuple, edges: Any) -> None:
        self.outgoing.setdefault((destination, number), []).append((t, edges))

    def flush(self) -> None:
        outgoing: dict[tuple[int, int], list[Any]] = self.outgoing
        for (destination, number), batch in outgoing.items():
            if number not in self._derivable:
                self.send(destination, "put", number, [t for t, _ in batch])
            elif self.lazy:
                self.send(destination, "edges", number, [t + next(iter(edges)) for t, edges in batch])
            else:
                self.send(destination, "edges", number, [t + edge for t, edges in batch for edge in edges])
        outgoing.clear()

    # --- looking in ------------------------------------------------------------------------------------------

    def size(self, annotation: Any) -> int:
        """Bytes of a tuple's edges, each with the partition that shipped it where that is kept."""
        if not annotation:
            return 0
        return len(_encode([key if edge is None else (key, edge) for key, edge in annotation.items()]))

    def check(self) -> None:
        """Also that the edges that are kept are those that the tables derive."""
        super().check()
        for name, rules in self.rules.items():
            found: dict[Tuple, set[Edge]] = {}
            for rule in rules:
                for t, edge in _all_edges(rule, self.provenance):
                    found.setdefault(t, set()).add(edge)
            holders: list[Fixpoint | MinShip] = [self.home[name]]
            holders += [self.ships[name]] if name in self.ships else []
            kept: dict[Tuple, Any] = {}
            for holder in holders:
                kept.update(holder.rows)
                kept.update(holder.selection.held.first if holder.selection is not None else {})
            for t, edges in found.items():
                if self.lazy or self.routers[name](t) == self.partition or self.plan.relations[name].selection:
                    assert edges <= kept[t].keys(), f"an edge of {name}{t} is missing"
            for t, edges in kept.items():
                assert edges, f"{name}{t} has no edge"
                own = {key for key, edge in edges.items() if edge is None}
                assert (own == found.get(t, set())) or not (self.lazy or self.partitions == 1), f"{name}{t}: {own}"


def _all_edges(rule: PipelinedHashJoin | Projection, provenance: Any) -> list[Any]:
    """Every edge that a rule makes of what is in its tables."""
    if isinstance(rule, Projection):
        return rule.derive(list(rule.table.rows.items()), {}, {})
    return rule.derive("left", list(rule.left.rows.items()), {}, {}, provenance)
