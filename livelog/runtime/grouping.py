"""Groups: the node of a GroupRule on one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livelog.runtime.node import Links, Weights
from operators.delta import Delta
from operators.expr import Const
from operators.groupby import GroupBy, Sums
from operators.monoids import factory
from operators.sums import Summing
from operators.tally import Tally
from planner.plan import GroupRule, LineageRule, Plan

__all__ = ["Groups", "states"]

Tuple = tuple[Any, ...]


class Groups:
    """A GroupRule: contributions are summed up where the input lies, and the groups live where their heads do."""

    ports = 1

    def __init__(self, rule: GroupRule, plan: Plan, links: Links) -> None:
        self._rule = rule
        self._links = links
        arguments = [e for (_, e), sums in zip(rule.aggregates, rule.sums, strict=True) if sums is None]
        kept = (*rule.group, *[Const(None) if e is None else e for e in arguments])
        self._summing = Summing(rule.text, rule.where, None, kept, rule.factors)
        self._vectors = len(rule.factors) > 1
        self._home = tuple(rule.layout[c] for c in plan.relations[rule.head].partition)
        sums: list[Sums | None] = [
            None if s is None else tuple(tuple((c, factor) for c, factor, _ in entry) for entry in s)
            for s in rule.sums
        ]
        self._groups = GroupBy(
            rule.text, len(rule.group), states(rule, plan), rule.layout, sums, len(rule.factors), rule.having
        )
        self.heads = self._groups
        # where groups are sums and live here, rows are added to them one by one
        self._tally = None
        if links.alone and None not in sums:
            self._tally = Tally(rule.text, rule.where, rule.group, rule.factors, self._groups.cells)

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        delta = deltas.get(self._rule.input.relation)
        if not delta:
            return
        if self._tally is not None and delta.columns is None:
            self._tally(delta)
        else:
            self._links.deliver(self, 0, self._summing(delta).items(), self._home, vectors=self._vectors)

    def receive(self, port: int, rows: Weights) -> None:
        self._groups.update(rows)

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        return self._groups.flush()

    def stats(self) -> dict[str, int]:
        return self._groups.stats()

    def kept(self) -> Iterator[Any]:
        return self._groups.kept()

    def check(self) -> None:
        self._groups.check()


def states(rule: GroupRule | LineageRule, plan: Plan) -> tuple[Any, ...]:
    """What makes the empty states of a rule's aggregates."""
    types = plan.relations[rule.head].types
    kinds = {entry: types[c] for c, entry in enumerate(rule.layout)}
    return tuple(
        factory(name, plan.aggregates, kinds.get(len(rule.group) + i, "any"))
        for i, (name, _) in enumerate(rule.aggregates)
    )
