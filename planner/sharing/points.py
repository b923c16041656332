"""Which points of time are among which others: containment of what stands behind `at`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datalog.ast import Aggregate, Atom, Program, Read, Relation, Rule, Ticks, expressions
from operators.schedule import Points, Schedule
from planner.draft import Draft, reads
from planner.passes.clocks import clocks

__all__ = ["ALWAYS", "Syncs"]

ALWAYS = ""
"""The sync of what is read at every commit."""

NOW = "now"

Entails = Callable[[Rule, Rule], bool]


class Syncs:
    """What is known of points of time, and of what a program reads at them.

    It grows with `add`, a program or a part of one at a time; what has been found out stays. `entails` says whether a
    rule gives no points but those of another one, by their conditions.
    """

    def __init__(self, entails: Entails) -> None:
        self.relations: dict[str, Relation] = {}
        self.reads: dict[str, Read] = {}
        self.clocks: dict[str, Ticks | None] = {}
        self.rules: dict[str, list[Rule]] = {}
        self.filled: set[str] = set()
        self.functions: Mapping[str, Any] = {}
        self._entails = entails
        self._of_time: dict[str, bool] = {}
        self._schedules: dict[str, Schedule | None] = {}
        self._within: dict[tuple[str, str], bool] = {}

    def add(self, program: Program) -> None:
        """More rules, with the relations and reads that occur in them. Linear in their size."""
        self.relations.update(program.relations)
        self.reads.update(program.reads)
        self.clocks.update(program.clocks)
        self.functions = {**self.functions, **program.functions}
        for rule in program.rules:
            if rule.body:
                self.rules.setdefault(rule.head.relation, []).append(rule)
            else:
                self.filled.add(rule.head.relation)
        self.filled.update(d.relation for d in program.directives_of("input"))

    def remove(self, view: str) -> None:
        """A view is gone, which nothing reads."""
        self.rules.pop(view, None)
        self._of_time.pop(view, None)
        self._schedules.pop(view, None)
        self._within = {pair: found for pair, found in self._within.items() if view not in pair}

    # --- reads ---------------------------------------------------------------------------------------------------

    def taken_apart(self, name: str) -> tuple[str, str]:
        """What a relation of a rule is the read of, and at which points."""
        read = self.reads.get(name)
        return (read.relation, read.sync) if read is not None and read.kind == "at" else (name, ALWAYS)

    def is_bag(self, name: str) -> bool:
        """Whether a relation has copies of its tuples."""
        while name in self.reads:
            name = self.reads[name].relation
        return self.relations[name].bag

    def of_time(self, name: str) -> bool:
        """Whether a relation is about the clock alone: nothing that happens changes it."""
        if name in self.clocks:
            return True
        if name not in self._of_time:
            self._of_time[name] = False  # a recursive one is not
            rules = self.rules.get(name, ())
            self._of_time[name] = bool(rules) and name not in self.filled and all(
                map(self.of_time, {self.taken_apart(read)[0] for rule in rules for read in reads(rule)})
            )  # fmt: skip
        return self._of_time[name]

    # --- points --------------------------------------------------------------------------------------------------

    def schedule(self, name: str) -> Schedule | None:
        """All points of a name behind `at`, if the clock alone gives them."""
        if name not in self._schedules:
            ticks = self.clocks.get(name)
            if ticks is not None:
                self._schedules[name] = Schedule.of(ticks.period, ticks.start)
            else:
                self._schedules[name] = self._recognised(name) if self.of_time(name) else None
        return self._schedules[name]

    def _recognised(self, name: str) -> Schedule | None:
        """The schedule of a view over the clock, which the pass `clocks` recognises."""
        rules: list[Rule] = []
        relations: dict[str, Relation] = {}
        waiting = [name]
        while waiting:
            view = waiting.pop()
            if view not in relations:
                relations[view] = self.relations[view]
                rules += self.rules.get(view, ())
                waiting += {read for rule in self.rules.get(view, ()) for read in reads(rule)}
        if any(_is_aggregated(rule) or self.reads.keys() & reads(rule) for rule in rules):
            return None
        program = Program(tuple(rules), relations, clocks=self.clocks, functions=self.functions, checked=True)
        draft = clocks(Draft.start(program))
        return draft.schedules.get(name) if name not in draft.mixed else None

    def canonical(self, name: str) -> Any:
        """Something that is equal for names with the same schedule."""
        return name if name == ALWAYS else self.schedule(name) or name

    def period(self, name: str) -> Points | None:
        """The one progression without an end that the points are, if they are that."""
        schedule = None if name == ALWAYS else self.schedule(name)
        if schedule is None or len(schedule.parts) != 1:
            return None
        (points,) = schedule.parts
        return points if points.plain and points.exact and points.end is None else None

    # --- containment ---------------------------------------------------------------------------------------------

    def same(self, one: str, other: str) -> bool:
        return one == other or (self.within(one, other) and self.within(other, one))

    def within(self, one: str, other: str) -> bool:
        """Whether every point of one is one of the other. True is proved; False may only mean that it is not."""
        if one == other or other == ALWAYS:
            return True
        if one == ALWAYS:
            return False
        pair = (one, other)
        if pair not in self._within:
            self._within[pair] = False  # as long as it is being looked for
            self._within[pair] = self._is_within(one, other)
        return self._within[pair]

    def _is_within(self, one: str, other: str) -> bool:
        known, wanted = self.schedule(one), self.schedule(other)
        if known is not None and wanted is not None:
            return known.within(wanted)
        if self._has_all(other, one):
            return True
        rules = self.rules.get(one)
        return bool(rules) and one not in self.filled and all(self._reaches(rule, other) for rule in rules or ())

    def _has_all(self, view: str, name: str) -> bool:
        """Whether a rule of a view hands on all points that are within what it reads."""
        for rule in self.rules.get(view, ()):
            if len(rule.body) == 1 and isinstance(rule.body[0], Atom) and rule.head.arguments == rule.body[0].arguments:
                source = rule.body[0].relation
                if self._is_live(source) and self.within(name, source):
                    return True
        return False

    def _reaches(self, rule: Rule, other: str) -> bool:
        """Whether all points that a rule gives are the other's."""
        for literal in rule.body:
            if not isinstance(literal, Atom) or literal.arguments != rule.head.arguments:
                continue
            if self._is_live(literal.relation) and self.within(literal.relation, other):
                return True
        return any(self._entails(rule, known) for known in self.rules.get(other, ()))

    def _is_live(self, name: str) -> bool:
        return name not in self.reads and name != NOW and self.relations[name].arity == 1


def _is_aggregated(rule: Rule) -> bool:
    return bool(rule.aggregates) or any(isinstance(e, Aggregate) for e in expressions(rule))
