"""Facts from which alone a tuple follows: a trace, tried out, and mended as long as something is missing.

Taking facts away can only take tuples away, as long as nothing is negated or aggregated. Where a rule asks for the
absence or for an aggregate of what itself depends on absences or aggregates, a part of the facts may bring tuples that
all of them together do not: `!b(x)` with `b(x) :- c(x), !d(x)` may need a fact that makes `d(x)` hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from livelog.runtime.local import LocalRuntime
from livelog.runtime.runtime import Runtime
from livelog.values import sort_key
from livelog.why.instant import Instant
from livelog.why.reason import Reason
from livelog.why.rows import Fact, Rows, Tuple
from livelog.why.telling import told
from livelog.why.trace import Trace
from livelog.why.ways import Ways
from operators.errors import OperatorError
from planner.draft import UNIT
from planner.passes.stratify import inputs_of
from planner.plan import JoinRule, MapRule, Plan

__all__ = ["explain"]

ABSORPTION = ("absorption", "demand")
ROUNDS = 50  # of mending, before all facts are taken
BLOCKS = 12  # of mending, that are each tried without

Wanted = list[tuple[list[Fact], bool]]
"""Tuples that a trace has to reach, and whether their copies count."""


def explain(
    runtime: Runtime, relation: str, t: Tuple, limit: int | None, instant: Instant | None = None
) -> Reason:
    """Why a tuple of a runtime that keeps annotations is there. It must be. `instant` is what the plan of the runtime
    is one of, if it is.

    O(tuples on the way), and a few passes over each relation on the way. Where the trace must be tried out, the
    program is evaluated from its facts alone, once and then again after each mending.
    """
    rows = Rows(runtime, instant)
    if not rows.instant.timed:
        return _Proof(rows, (relation, t), limit).reason()
    return _through_time(rows, (relation, t), limit)


def _through_time(rows: Rows, fact: Fact, limit: int | None) -> Reason:
    """The same in a program that knows times: what rests on tuples that windows show, or that were there, rests on the
    relations that they are of, as far as these are there now."""
    instant = rows.instant
    facts: Counter[Fact] = Counter()
    reason = Reason()
    seen = {fact}
    waiting = [fact]
    while waiting:
        fact = waiting.pop()
        here = Reason([fact]) if fact[0] in instant.heads else _Proof(rows, fact, limit).reason()
        for parent, copies in Counter(here).items():
            below = instant.source(parent) or parent
            if below != parent and (below[0] in instant.heads or rows.plan.relations[below[0]].kind != "base"):
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)
            else:
                facts[below] = max(facts[below], copies)
        reason.absent += [shown for other in here.absent if (shown := instant.shown(other)) is not None]
        reason.groups += here.groups
    told = [shown for known in facts.elements() if (shown := instant.shown(known)) is not None]
    return Reason(sorted(told, key=sort_key), dict.fromkeys(reason.absent), reason.groups)


class _Proof:
    """The search for the facts of one tuple."""

    def __init__(self, rows: Rows, fact: Fact, limit: int | None) -> None:
        self._plan = rows.plan
        self._fact = fact
        self._limit = limit
        self._ways = Ways(rows)
        self._below = _below(self._plan, fact[0])
        strata = [stratum for stratum in self._plan.strata if not self._below.isdisjoint(stratum.relations)]
        self._smaller = replace(self._plan, strata=tuple(replace(s, index=i) for i, s in enumerate(strata)))

    def reason(self) -> Reason:
        wanted: Wanted = [([self._fact], False)]
        trace = self._followed(wanted)
        if not self._fragile(trace):
            return told(trace)
        for _ in range(ROUNDS):
            alone = self._alone(trace)
            if alone is None:
                break
            if alone.has(*self._fact):
                return told(self._without_spare(wanted, trace))
            more = list(self._mending(trace, alone))
            alone.close()
            if not more:
                break
            wanted += more
            for facts, counted in more:
                trace.follow(facts, counted)
        trace.follow(self._everything(), True)
        return told(trace)

    def _followed(self, wanted: Wanted) -> Trace:
        trace = Trace(self._ways)
        for facts, counted in wanted:
            trace.follow(facts, counted)
        return trace

    # --- trying out ------------------------------------------------------------------------------------------

    def _fragile(self, trace: Trace) -> bool:
        """Whether something that must not be there could be, if only the facts of the trace are."""
        growing = _growing(self._plan)
        return any(
            rule is not None and not isinstance(rule, (MapRule, JoinRule))
            and any(source.relation not in growing for source in inputs_of(rule))
            for rule in trace.nodes.values()
        )  # fmt: skip

    def _alone(self, trace: Trace) -> LocalRuntime | None:
        """What the tuple depends on, evaluated from the facts of a trace; None if a rule fails on them."""
        runtime = LocalRuntime(self._smaller, 1, ABSORPTION, self._limit)
        for name in self._below:
            if self._plan.relations[name].tolerance is not None:  # it should show what is shown with all facts
                runtime.remember(name, [t for known, t in trace.nodes if known == name])
        stated = [(name, t) for name, rows in self._plan.facts.items() if name == UNIT or "#" in name for t in rows]
        facts = dict.fromkeys(stated, 1) | trace.facts
        try:
            runtime.run([("+", name, t) for (name, t), copies in facts.items() for _ in range(copies)])
        except OperatorError:
            return None
        return runtime

    def _everything(self) -> list[Fact]:
        """All facts that the tuple could depend on."""
        bases = [name for name in sorted(self._below) if self._plan.relations[name].kind == "base"]
        return [(name, t) for name in bases for t in self._ways.rows.matching(name)]

    def _without_spare(self, wanted: Wanted, trace: Trace) -> Trace:
        """What was mended later may have made something superfluous that was mended before."""
        if len(wanted) - 1 > BLOCKS:
            return trace
        for mended in wanted[:0:-1]:
            rest = [entry for entry in wanted if entry is not mended]
            fewer = self._followed(rest)
            if len(fewer.facts) < len(trace.facts):
                alone = self._alone(fewer)
                if alone is not None and alone.has(*self._fact):
                    alone.close()
                    wanted, trace = rest, fewer
        return trace

    # --- mending ---------------------------------------------------------------------------------------------

    def _mending(self, trace: Trace, alone: LocalRuntime) -> Iterator[tuple[list[Fact], bool]]:
        """What the trace needs so that the lowest of its answers that are wrong can be right.

        Such an answer is about a tuple that is there with the facts of the trace, and not with all. That rests on an
        absence or a group that is another one with all facts: what makes it so is needed.
        """
        there = Ways(Rows(alone))
        wrong = [fact for fact, rule in trace.nodes.items() if _asks(rule) and not alone.has(*fact)]
        for level in sorted({trace.level(name) for name, _ in wrong}):
            found = False
            seen: set[Fact] = set()
            for fact in wrong:
                rule = trace.nodes[fact]
                if trace.level(fact[0]) != level or rule is None:
                    continue
                for parent in Trace(there).inputs(rule, fact):
                    for stray in self._strays(there, parent):
                        if stray not in seen:
                            seen.add(stray)
                            for needed in self._against(trace, there, stray):
                                found = True
                                yield needed
            if found:
                return

    def _strays(self, there: Ways, fact: Fact) -> Iterator[Fact]:
        """Tuples that are there with the facts of the trace only, and make another one count more than it should."""
        if not self._ways.rows.has(fact):
            yield fact
        elif self._plan.relations[fact[0]].weighted:
            for facts in there.all(fact):
                for parent in facts:
                    yield from self._strays(there, parent)

    def _against(self, trace: Trace, there: Ways, stray: Fact) -> Iterator[tuple[list[Fact], bool]]:
        """What takes away a derivation of a tuple that should not be there."""
        derivation = Trace(there)
        derivation.follow([stray])
        for fact in sorted(derivation.nodes, key=lambda fact: derivation.level(fact[0])):
            rule = derivation.nodes[fact]
            if rule is not None and _asks(rule) and not self._ways.rows.has(fact):
                facts, counted = trace.settling(rule, fact)
                if any(self._is_new(trace, known, counted) for known in facts):
                    yield facts, counted
                    return

    def _is_new(self, trace: Trace, fact: Fact, counted: bool) -> bool:
        return fact not in trace.nodes or (counted and trace.facts.get(fact, 1) < self._ways.weight(fact))


def _asks(rule: object) -> bool:
    """Whether a rule asks for an absence or an aggregate."""
    return rule is not None and not isinstance(rule, (MapRule, JoinRule))


def _below(plan: Plan, relation: str) -> set[str]:
    """The relations that one is made of, and itself."""
    found: set[str] = set()
    for stratum in reversed(plan.strata):
        if relation in stratum.relations or not found.isdisjoint(stratum.relations):
            found.update(stratum.relations, stratum.inputs)
    return found | {relation}


def _growing(plan: Plan) -> set[str]:
    """The relations that only grow when facts are added: nothing below them is negated or aggregated."""
    growing = {name for name, r in plan.relations.items() if r.kind == "base"}
    for stratum in plan.strata:
        plain = all(isinstance(rule, (MapRule, JoinRule)) for rule in stratum.rules)
        if plain and all(name in growing for name in stratum.inputs):
            growing.update(stratum.relations)
    return growing
