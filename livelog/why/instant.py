"""Instant: a program at one moment. What the clock shows then, and what was kept from before, are facts of it.

A window shows some of the tuples of a relation, a read at points has a relation as it was, and a read with times has
the times beside the tuples. None of them follows from the facts as they are now. So whoever asks what follows from what
takes their tuples for facts, which they are at this moment; and tells of them by the names that the program has.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from livelog.runtime.local import LocalRuntime
from livelog.runtime.runtime import Runtime
from planner.plan import ClockRule, Plan, RelationPlan, StampRule, Stratum, SyncRule, WindowRule

__all__ = ["Instant", "tuples_of"]

Tuple = tuple[Any, ...]
Fact = tuple[str, Tuple]
Timed = ClockRule | StampRule | SyncRule | WindowRule


class Instant:
    """The plan of a program at one moment. `plan` has the relations of `heads` as base relations, and no clock.

    Of a program that knows no times it is the plan itself.
    """

    def __init__(self, plan: Plan) -> None:
        self.heads: dict[str, Timed | None] = {name: None for name, r in plan.relations.items() if r.kind == "kept"}
        strata: list[Stratum] = []
        for stratum in plan.strata:
            timed = {rule.head: rule for rule in stratum.rules if isinstance(rule, Timed)}
            self.heads |= timed
            if not timed:
                strata.append(replace(stratum, index=len(strata)))
        self._whole = plan
        self._stamped = {r.stamped: name for name, r in plan.relations.items() if r.stamped}
        streams = any(r.stream for r in plan.relations.values())
        if self.heads or streams:
            relations = {name: _settled(r, name in self.heads) for name, r in plan.relations.items()}
            plan = replace(plan, relations=relations, strata=tuple(strata))
        self.plan = plan

    @property
    def timed(self) -> bool:
        """Whether the program knows times."""
        return self.plan is not self._whole

    def source(self, fact: Fact) -> Fact | None:
        """The tuple that a window, or a read with times, shows; None for any other."""
        name, t = fact
        rule = self.heads.get(name)
        if isinstance(rule, WindowRule):
            return rule.input.relation, t
        if isinstance(rule, StampRule):
            return rule.input.relation, t[:-1]
        if name in self._stamped:
            return self._stamped[name], t[:-1]
        return None

    def shown(self, fact: Fact) -> Fact | None:
        """A fact as the program names it, without times that it does not write; None for the time itself."""
        name, t = fact
        rule = self.heads.get(name)
        if isinstance(rule, ClockRule):
            return None
        if isinstance(rule, SyncRule):
            inner = self.shown((rule.input.relation, t))
            read = name.split(" at ", 1)[-1]
            return None if inner is None else (f"{inner[0]} at {read}", inner[1])
        if (source := self.source(fact)) is not None:
            return self.shown(source)
        relation = self._whole.relations.get(name)
        return (name, t[:-1]) if relation is not None and relation.stream else fact


def _settled(relation: RelationPlan, head: bool) -> RelationPlan:
    """A relation that operations change in no other way than as they say."""
    bag = relation.bag or (head and relation.weighted)
    kind = "base" if head else relation.kind
    return replace(
        relation, kind=kind, bag=bag, key=() if head else relation.key, ttl=None, stream=False, stamped="", until=()
    )


def tuples_of(runtime: Runtime, instant: Instant, name: str) -> Counter[Tuple]:
    """The tuples of one of the `heads` as they are in a runtime, and how often. O(facts)"""
    rows = Counter(dict.fromkeys(runtime.rows(name), 1))
    if not instant.plan.relations[name].bag:
        return rows
    rule = instant.heads[name]
    if isinstance(rule, WindowRule):  # it has the copies that its input has
        below = rule.input.relation
        known = tuples_of(runtime, instant, below) if below in instant.heads else Counter(
            {t: n for relation, t, n in runtime.facts() if relation == below}
        )  # fmt: skip
        return Counter({t: known.get(t, 1) for t in rows})
    if isinstance(runtime, LocalRuntime):
        return Counter({t: n for worker in runtime.workers for t, n in worker.base[name].rows.items()})
    return rows
