"""Columnar: the node of a LineageRule over whole numbers, where there is one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livelog.runtime.lineage import Lineage, intakes, slots
from livelog.runtime.node import Links, Node, Weights
from operators.anchored_loops import anchor_of
from operators.columnar.groups import ColumnGroups
from operators.columnar.join import ColumnJoin, columns_read
from operators.columnar.loops import Answer
from operators.delta import Delta
from operators.groupby import Sums
from planner.plan import LineageRule, Plan

__all__ = ["Columnar", "lineage"]

Tuple = tuple[Any, ...]


def lineage(rule: LineageRule, plan: Plan, links: Links) -> Node:
    """The node of a rule: with columns if that will do."""
    return _columnar(rule, plan, links) or Lineage(rule, plan, links)


def _columnar(rule: LineageRule, plan: Plan, links: Links) -> Node | None:
    sides = intakes(rule)
    forms = (sides[0].form, sides[1].form)
    anchor = anchor_of(forms, rule.filters, rule.outputs)
    if not links.alone or anchor is None or plan.relations[rule.head].tolerance is not None:
        return None
    products, sums = slots(rule)
    reads, answers = columns_read(forms, anchor, products), _answers(rule, plan, sums)
    if reads is None or answers is None:
        return None
    groups = ColumnGroups(rule.text, len(rule.group), answers, rule.layout, len(products))
    return Columnar(rule, ColumnJoin(rule.text, sides, anchor, rule.outputs, reads, groups))


def _answers(rule: LineageRule, plan: Plan, sums: list[Sums | None]) -> list[Answer] | None:
    """The aggregates of a rule as columns know them; None if there are others."""
    types = plan.relations[rule.head].types
    found: list[Answer] = []
    for i, ((name, _), entries) in enumerate(zip(rule.aggregates, sums, strict=True)):
        if name in plan.aggregates or entries is None:
            return None
        if name == "count":
            found.append(("count", 0))
            continue
        kind = types[rule.layout.index(len(rule.group) + i)]
        floats = any(entries[2:])  # the sums of whole numbers are the second entry
        if floats or len(entries) != 5 or len(entries[1]) != 1:
            return None
        ((coefficient, at),) = entries[1]
        if coefficient != 1 or (name, kind) not in (("sum", "number"), ("avg", "float")):
            return None
        found.append(("sum" if name == "sum" else "avg", at))
    return found


class Columnar:
    """A LineageRule whose sums are whole numbers in columns: changes contribute to the groups at once."""

    ports = 3  # as every LineageRule's node has them, though nothing comes from elsewhere

    def __init__(self, rule: LineageRule, join: ColumnJoin) -> None:
        self._inputs = (rule.left.relation, rule.right.relation)
        self._join = join
        self.heads = join.groups

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        for side, relation in enumerate(self._inputs):
            if delta := deltas.get(relation):
                self._join.take(side, delta)

    def receive(self, port: int, rows: Weights) -> None:
        raise AssertionError("there is nobody else to send anything")

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        return self._join.settle()

    def stats(self) -> dict[str, int]:
        return {**self._join.stats(), **self.heads.stats()}

    def kept(self) -> Iterator[Any]:
        for side in (0, 1):
            yield from self._join.items(side)
        yield from self.heads.kept()

    def check(self) -> None:
        self._join.check()
        self.heads.check()
