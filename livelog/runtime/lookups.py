"""From a LookupRule of the plan to a Lookup operator, and to a node of a counting stratum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livelog.runtime.node import Links, Weights
from operators.delta import Delta
from operators.lookup import Lookup, matcher
from operators.monoids import factory, of_nothing
from planner.plan import LookupRule, Plan

__all__ = ["Asking", "build_lookup"]

Tuple = tuple[Any, ...]

INNER, ASK = 0, 1  # the ports


def build_lookup(rule: LookupRule, plan: Plan) -> Lookup:
    """The operator that answers a rule's questions on one partition."""
    width = len(rule.left.key)
    absent = rule.function == "absent"
    return Lookup(
        rule.text,
        rule.inner.key,
        matcher(rule.where, width, rule.value),
        None if absent else factory(rule.function, plan.aggregates, plan.relations[rule.head].types[-1]),
        None if absent else of_nothing(rule.function, plan.aggregates),
    )


class Asking:
    """A LookupRule: how much asks about each key, and the keys touched in this transaction.

    Answers are at home where they are made: `planner.passes.place` sees to it.
    """

    ports = 2

    def __init__(self, rule: LookupRule, plan: Plan, links: Links) -> None:
        self._rule = rule
        self._links = links
        self._lookup = build_lookup(rule, plan)
        self._askers: dict[Tuple, int] = {}
        self._touched: dict[Tuple, None] = {}

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        for port, source in ((INNER, self._rule.inner), (ASK, self._rule.left)):
            if delta := deltas.get(source.relation):
                self._links.deliver(self, port, delta.items(), source.at)

    def receive(self, port: int, rows: Weights) -> None:
        if port == INNER:
            self._lookup.change(rows)
            return
        key_columns, askers, touched = self._rule.left.key, self._askers, self._touched
        for t, w in rows:
            key = tuple([t[c] for c in key_columns])
            askers[key] = askers.get(key, 0) + w
            touched[key] = None

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        """All changes are in: forget the keys that nobody asks about, and take in the new answers."""
        idle = [key for key in self._touched if not self._askers[key]]
        for key in idle:
            del self._askers[key]
        forgotten = self._lookup.forget(idle)
        gone, new = self._lookup.settle()
        new += self._lookup.ask([key for key in self._touched if key in self._askers])
        self._touched.clear()
        return forgotten + gone, new

    def stats(self) -> dict[str, int]:
        return self._lookup.stats()

    def kept(self) -> Iterator[Any]:
        return self._lookup.rows()

    def check(self) -> None:
        self._lookup.check()
