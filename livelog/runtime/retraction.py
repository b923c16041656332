"""Derivation edges that are lost: followed forward from tuples that fall, through the joins and to other partitions.

Every edge that uses a fallen tuple is removed where it was made, and the owner of its head is told if that is another
partition: with eager shipping of each edge; with lazy shipping only if the edge that was shipped is lost, and then
another one that waited takes its place. A tuple without edges falls too. One that lost its support is in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.edges import Edge
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.minship import MinShip

if TYPE_CHECKING:
    from livelog.runtime.network import Wiring
    from livelog.runtime.relative import Relative

__all__ = ["Retraction"]

Tuple = tuple[Any, ...]


class Retraction:
    """What is being retracted of one component on one partition.

    `_fallen`: by table, tuples that have left it and whose consequences are still to be followed. `_cuts`: by
    partition and table, what it is to be told of lost edges (just the tuples, with lazy shipping). `_changed`: by
    relation, the shipped tuples whose shipped edge was lost.
    """

    def __init__(self, component: Relative) -> None:
        self._c = component
        self._fallen: dict[int, list[Tuple]] = {}
        self._cuts: dict[tuple[int, int], list[Tuple]] = {}
        self._changed: dict[str, dict[Tuple, None]] = {}

    def fall(self, table: Fixpoint, tuples: list[Tuple]) -> None:
        """Take tuples out of a table; `follow` does the rest."""
        fallen = table.remove(tuples)
        if fallen:
            self._fallen.setdefault(self._c.number_of[id(table)], []).extend(fallen)

    def cut(self, table: Fixpoint, cuts: list[tuple[Tuple, Any]]) -> None:
        """Remove edges, by their keys, of tuples that this partition owns."""
        rows: dict[Tuple, Any] = table.rows
        held: dict[Tuple, Any] = table.selection.held.first if table.selection is not None else {}
        gone: list[Tuple] = []
        for t, key in cuts:
            edges = rows.get(t)
            if edges is None:
                if t in held:
                    _cut_held(table, t, key)
            elif key in edges:
                support = next(iter(edges)) == key
                del edges[key]
                if not edges:
                    gone.append(t)
                elif support:
                    self._c.derivability.doubt(table.name, t)
        self.fall(table, gone)

    def shift(self, source: int, table: Fixpoint, shifted: list[tuple[Tuple, Edge]]) -> None:
        """A partition lost the edges by which it stood by tuples, and now stands by them with other ones."""
        rows: dict[Tuple, Any] = table.rows
        held: dict[Tuple, Any] = table.selection.held.first if table.selection is not None else {}
        for t, edge in shifted:
            edges = rows.get(t)
            if edges is not None:
                edges[source] = edge
                if next(iter(edges)) == source:
                    self._c.derivability.doubt(table.name, t)
            elif t in held:
                held[t][source] = edge
            # else it was found not to be derivable, and what is left of its edges there is about to be lost

    def follow(self) -> None:
        """Remove the edges that use a fallen tuple, and what falls by that; tell other partitions."""
        c, fallen = self._c, self._fallen
        while fallen:
            number = next(iter(fallen))
            tuples = fallen.pop(number)
            wiring = c.wiring[number]
            batch: list[Any] = [(t, None) for t in tuples]
            self._drop_copies(wiring, tuples)
            for join in wiring.left:
                self._lose(join, join.derive("left", batch, None, None, c.provenance))
            for join in wiring.right:
                self._lose(join, join.derive("right", batch, None, None, c.provenance))
            for projection in wiring.maps:
                self._lose(projection, projection.derive(batch, None, None))
            # only now: two that fall together must still find each other
            c.tables[number].sweep(tuples)
        for name, changed in self._changed.items():
            self._tell(name, changed)
        self._changed.clear()
        for (destination, number), rows in self._cuts.items():
            c.send(destination, "cut", number, rows)
        self._cuts.clear()

    def _drop_copies(self, wiring: Wiring, tuples: list[Tuple]) -> None:
        """Take back the copies of tuples at other placements."""
        c = self._c
        for router, number in wiring.copies:
            drops: dict[int, list[Tuple]] = {}
            for t in tuples:
                for destination in c.targets(router, t):
                    drops.setdefault(destination, []).append(t)
            self.fall(c.tables[number], drops.pop(c.partition, []))
            for destination, share in drops.items():
                c.send(destination, "drop", number, share)

    def _lose(self, rule: PipelinedHashJoin | Projection, lost: list[tuple[Tuple, Edge]]) -> None:
        """These edges of a rule are no more."""
        if not lost:
            return
        c = self._c
        if c.partitions > 1:
            shares = c.routers[rule.head].split(lost)
            lost = shares.pop(c.partition, [])
            for destination, share in shares.items():
                self._lose_shipped(c.ships[rule.head], destination, share)
        self.cut(c.home[rule.head], lost)

    def _lose_shipped(self, ship: MinShip, destination: int, lost: list[tuple[Tuple, Edge]]) -> None:
        """Edges of tuples that another partition owns are no more."""
        lazy = self._c.lazy
        told: list[Tuple] = []
        rows: dict[Tuple, Any] = ship.rows
        held: dict[Tuple, Any] = ship.selection.held.first if ship.selection is not None else {}
        if not lazy and ship.selection is None:  # nothing was kept: the owner has them all
            told = [t + edge for t, edge in lost]
            lost = []
        for t, edge in lost:
            edges = rows.get(t)
            if edges is None:
                if t in held:
                    _cut_held(ship, t, edge)
            elif edge in edges:
                if not lazy:
                    told.append(t + edge)
                elif next(iter(edges)) == edge:
                    self._changed.setdefault(ship.name, {})[t] = None
                del edges[edge]
                if not edges:
                    ship.remove([t])
        if told:
            self._cuts.setdefault((destination, self._c.number_of_home[ship.name]), []).extend(told)

    def _tell(self, name: str, changed: dict[Tuple, None]) -> None:
        """Tuples lost the edge that was shipped: ship another one that waited, or say that there is none."""
        rows: dict[Tuple, Any] = self._c.ships[name].rows
        number = self._c.number_of_home[name]
        for destination, share in self._c.routers[name].split([(t,) for t in changed]).items():
            shifts = [t + next(iter(rows[t])) for (t,) in share if t in rows]
            if shifts:
                self._c.send(destination, "shift", number, shifts)
            if len(shifts) < len(share):
                self._cuts[destination, number] = [t for (t,) in share if t not in rows]


def _cut_held(holder: Fixpoint | MinShip, t: Tuple, key: Any) -> None:
    """Remove an edge of a tuple that is held."""
    assert holder.selection is not None
    edges: Any = holder.selection.held.first[t]
    edges.pop(key, None)
    if not edges:
        holder.selection.unhold(t)
