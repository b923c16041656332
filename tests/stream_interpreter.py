"""Runs the plan of a program with times, naively: everything is evaluated anew at each time that is looked at.

What is kept from one time to the next is what the plan says is kept, and what it says may be forgotten is forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from planner.plan import Bound, ClockRule, Leaving, Plan, PlanRule, StampRule, SyncRule, WindowRule
from tests.oracle_base import Base, time_of
from tests.plan_interpreter import Interpreter, Row, Rows, value


class TimedInterpreter(Interpreter):
    """`kept`: by SyncRule head, what was released last. `born`: by StampRule head, when a tuple came."""

    def __init__(self, plan: Plan, partitions: int, limit: int = 200) -> None:
        super().__init__(plan, partitions, limit)
        self.now: Any = 0
        self.kept: dict[str, list[Rows]] = {}
        self.born: dict[str, dict[Row, Any]] = {}
        self.points: set[str] = set()

    def copy(self) -> TimedInterpreter:
        other = TimedInterpreter(self.plan, self.partitions, self.limit)
        other.kept = dict(self.kept)
        other.born = {name: dict(born) for name, born in self.born.items()}
        return other

    def look(self, base: Base) -> dict[str, set[Row]]:
        """Every relation as it is where the clock of the base relations stands."""
        self.now = time_of(base.clock)
        self.relations = {name: self.empty() for name in self.plan.relations}
        self.points = set()
        facts: dict[str, Any] = {}
        for name, rows in base.facts().items():
            relation = self.plan.relations.get(name)
            if relation is None:
                continue
            facts[name] = Counter({row: n for row, n in rows.items() if not self.is_gone(relation.until, row)})
            if relation.stamped:
                facts[relation.stamped] = {(*row, time_of(base.born[name][row])): 1 for row in rows}
        return self.run(facts)

    # --- times

    def is_gone(self, until: Iterable[Leaving], row: Row) -> bool:
        leavings = list(until)
        return bool(leavings) and all(self.has_left(x, row) for x in leavings)

    def has_left(self, leaving: Leaving, row: Row) -> bool:
        clock = self.now if leaving.ticks is None else leaving.ticks.last_at(self.now)
        return clock is not None and not all(_before(clock, bound, row) for bound in leaving.leaves)

    def apply(self, rule: PlanRule, made: list[Rows]) -> None:
        if isinstance(rule, SyncRule):
            self.synchronise(rule, made)
        elif isinstance(rule, StampRule):
            self.store(rule.head, made, ((row, 1) for row in self.stamped(rule)))
        elif isinstance(rule, WindowRule):
            clock = self.now if rule.ticks is None else rule.ticks.last_at(self.now)
            for rows, into in zip(self.met(rule.input), made, strict=True):
                for row, weight in rows.items():
                    if clock is not None and is_inside(rule, clock, row):
                        into[row] += weight
        elif isinstance(rule, ClockRule):
            self.store(rule.head, made, ((row, 1) for row in self.clock(rule)))
        else:
            super().apply(rule, made)

    def synchronise(self, rule: SyncRule, made: list[Rows]) -> None:
        events = {row for event in rule.events for rows in self.met(event) for row in rows}
        if rule.ticks.holds(self.now) or (self.now,) in events:
            self.points.add(rule.head)
            self.kept[rule.head] = [Counter(rows) for rows in self.met(rule.input)]
        until = self.plan.relations[rule.head].until
        for rows, into in zip(self.kept.get(rule.head, ()), made, strict=False):
            into.update({row: n for row, n in rows.items() if not self.is_gone(until, row)})

    def stamped(self, rule: StampRule) -> Iterator[Row]:
        before = self.born.get(rule.head, {})
        present = {row for rows in self.met(rule.input) for row in rows}
        self.born[rule.head] = {row: before.get(row, self.now) for row in present}
        return ((*row, time) for row, time in self.born[rule.head].items())

    def clock(self, rule: ClockRule) -> list[Row]:
        if rule.what == "now":
            return [(self.now,)]
        last = rule.ticks.last_at(self.now)
        if last is None:
            return []
        if rule.what == "last":
            return [(last,)]
        found, t = [], -1
        while (t := rule.ticks.next_after(t, self.now)) is not None:
            found.append((t,))
        return found


def is_inside(window: WindowRule, clock: Any, row: Row) -> bool:
    """Whether a tuple is in a window when the clock, or what stands for it, is there."""
    return all(_behind(clock, b, row) for b in window.enters) and all(_before(clock, b, row) for b in window.leaves)


def _behind(clock: Any, bound: Bound, row: Row) -> bool:
    time = value(bound.time, row)
    return bool(clock > time if bound.strict else clock >= time)


def _before(clock: Any, bound: Bound, row: Row) -> bool:
    time = value(bound.time, row)
    return bool(clock < time if bound.strict else clock <= time)
