"""Lineage: the node of a LineageRule on one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livelog.runtime.grouping import states
from livelog.runtime.node import Links, Weights
from operators.cells import Cells
from operators.delta import Delta
from operators.exact import pack
from operators.groupby import GroupBy, Sums
from operators.intake import Intake
from operators.lineage import lineage_join
from operators.lineage_loops import Product
from planner.plan import BROADCAST, LineageRule, Placement, Plan

__all__ = ["Lineage", "intakes", "slots"]

Tuple = tuple[Any, ...]

GROUPS = 2  # the port for contributions; 0 and 1 are those for changes of the two sides


class Lineage:
    """A LineageRule: changes are summed up where they lie, meet the other side where the join key says, and contribute
    to the groups, which live where their heads do."""

    ports = 3

    def __init__(self, rule: LineageRule, plan: Plan, links: Links) -> None:
        self._rule = rule
        self._links = links
        products, sums = slots(rule)
        self._groups = GroupBy(rule.text, len(rule.group), states(rule, plan), rule.layout, sums, len(products))
        self.heads = self._groups
        # where groups are sums and live here, contributions are added to them at once
        self._at_once = links.alone and None not in sums
        self._cells = self._groups.cells if self._at_once else Cells(len(rule.outputs), len(products))
        self._join = lineage_join(rule.text, intakes(rule), rule.filters, rule.outputs, products, self._cells)
        self._home = tuple(rule.layout[c] for c in plan.relations[rule.head].partition)
        self._at = [self._placement(source, plan) for source in (rule.left, rule.right)]

    def _placement(self, source: Any, plan: Plan) -> Placement | None:
        """Where partial sums of a side go, by the columns of the key; None if they stay."""
        if self._links.alone or source.at == plan.relations[source.relation].partition:
            return None
        return BROADCAST if source.at == BROADCAST else tuple(source.key.index(c) for c in source.at)

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        for port, source in enumerate((self._rule.left, self._rule.right)):
            if delta := deltas.get(source.relation):
                side, at = self._join.sides[port], self._at[port]
                if at is None:
                    self._join.take(port, delta)
                else:
                    self._links.deliver(self, port, side.sent(side.summed(delta)), at, vectors=not side.bare)
        self._contribute()

    def receive(self, port: int, rows: Weights) -> None:
        if port == GROUPS:
            self._groups.update(rows)
            return
        self._join.receive(port, rows)
        self._contribute()

    def _contribute(self) -> None:
        if not self._at_once and (out := self._cells.drain()):
            self._links.deliver(self, GROUPS, out, self._home, vectors=self._cells.width > 1)

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        return self._groups.flush()

    def stats(self) -> dict[str, int]:
        return {**self._join.stats(), **self._groups.stats()}

    def kept(self) -> Iterator[Any]:
        for side in (0, 1):
            for row, vector in self._join.items(side):
                yield row, [pack(entry) for entry in vector] if isinstance(vector, list) else vector
        yield from self._groups.kept()

    def check(self) -> None:
        self._join.check()
        self._groups.check()


def intakes(rule: LineageRule) -> tuple[Intake, Intake]:
    """What the two sides of a rule take in."""
    left, right = (
        Intake(rule.text, source.key, partial.where, partial.kept, partial.factors)
        for source, partial in zip((rule.left, rule.right), rule.partials, strict=True)
    )
    return left, right


def slots(rule: LineageRule) -> tuple[list[Product], list[Sums | None]]:
    """The different sums that contributions carry, the count first, and by aggregate where in them its entries are."""
    products: list[Product] = [((1, 0, 0),)]
    found: list[Sums | None] = []
    for sums in rule.sums:
        products += [entry for entry in dict.fromkeys(sums or ()) if entry and entry not in products]
        slots = None if sums is None else tuple(((1, products.index(e)),) if e else () for e in sums)
        found.append(slots)
    return products, found
