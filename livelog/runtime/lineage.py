"""Lineage: the node of a LineageRule on one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livelog.runtime.grouping import states
from livelog.runtime.node import Links, Weights
from operators.delta import Delta
from operators.exact import pack
from operators.groupby import GroupBy, Sums
from operators.lineage import LineageJoin, Partials, Product
from planner.plan import BROADCAST, LineageRule, Placement, Plan

__all__ = ["Lineage"]

Tuple = tuple[Any, ...]

GROUPS = 2  # the port for contributions; 0 and 1 are those for changes of the two sides


class Lineage:
    """A LineageRule: changes are summed up where they lie, meet the other side where the join key says, and contribute
    to the groups, which live where their heads do."""

    ports = 3

    def __init__(self, rule: LineageRule, plan: Plan, links: Links) -> None:
        self._rule = rule
        self._links = links
        left, right = (
            Partials(rule.text, source.key, partial.where, partial.kept, partial.factors)
            for source, partial in zip((rule.left, rule.right), rule.partials, strict=True)
        )
        products, sums = _slots(rule)
        self._join = LineageJoin(rule.text, left, right, rule.filters, rule.outputs, products)
        self._groups = GroupBy(rule.text, len(rule.group), states(rule, plan), rule.layout, sums)
        self._home = tuple(rule.layout[c] for c in plan.relations[rule.head].partition)
        self._at = [self._placement(source, plan) for source in (rule.left, rule.right)]

    def _placement(self, source: Any, plan: Plan) -> Placement | None:
        """Where partial sums of a side go, by the columns of the key; None if they stay."""
        if self._links.alone or source.at == plan.relations[source.relation].partition:
            return None
        return BROADCAST if source.at == BROADCAST else tuple(source.key.index(c) for c in source.at)

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        out: dict[Tuple, Any] = {}
        for port, source in enumerate((self._rule.left, self._rule.right)):
            if delta := deltas.get(source.relation):
                side, at = self._join.sides[port], self._at[port]
                if at is None:
                    self._join.take(port, delta, out)
                else:
                    self._links.deliver(self, port, side.sent(side.summed(delta)), at, vectors=not side.bare)
        self._contribute(out)

    def receive(self, port: int, rows: Weights) -> None:
        if port == GROUPS:
            self._groups.update(rows)
            return
        out: dict[Tuple, Any] = {}
        self._join.change(port, self._join.sides[port].received(rows), out)
        self._contribute(out)

    def _contribute(self, out: dict[Tuple, Any]) -> None:
        if out:
            self._links.deliver(self, GROUPS, out.items(), self._home, vectors=not self._join.bare)

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        return self._groups.flush()

    def stats(self) -> dict[str, int]:
        return {**self._join.stats(), **self._groups.stats()}

    def kept(self) -> Iterator[Any]:
        for side in self._join.sides:
            for row, vector in side.items():
                yield row, vector if side.bare else [pack(entry) for entry in vector]
        yield from self._groups.kept()

    def check(self) -> None:
        self._join.check()
        self._groups.check()


def _slots(rule: LineageRule) -> tuple[list[Product], list[Sums | None]]:
    """The different sums that contributions carry, the count first, and by aggregate where in them its entries are."""
    products: list[Product] = [((1, 0, 0),)]
    found: list[Sums | None] = []
    for sums in rule.sums:
        products += [entry for entry in dict.fromkeys(sums or ()) if entry and entry not in products]
        slots = None if sums is None else tuple(((1, products.index(e)),) if e else () for e in sums)
        found.append(slots)
    return products, found
