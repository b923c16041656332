"""Trace: from a tuple down to facts, through one derivation of everything on the way.

In a recursive component the annotation of a tuple tells at once what it stands on. In the other strata
derivations are only counted, so one is searched for, rule by rule, among the tuples that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from livelog.why.rows import Fact, Tuple
from livelog.why.ways import Aggregating, Member, Ways
from planner.draft import UNIT
from planner.plan import GroupRule, JoinRule, LineageRule, LookupRule, MapRule, NestedRule, PlanRule

__all__ = ["Trace"]

Parents = tuple[PlanRule, list[Fact], bool]
"""The rule that makes a tuple, the tuples that it makes it of, and whether copies of these count."""


class Trace:
    """The tuples that something rests on, as they are in one runtime that keeps annotations.

    `nodes` has them all with the rule that makes them, None for facts and for tuples of a recursive component. `facts`
    are the facts among them, with the number of copies that count.

    Tuples are followed from the highest stratum down, so those of a recursive component are asked for
    all at once. Every absence and every group is a tuple here too: it is the answer that a rule's lookup gives.
    """

    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        self.plan = ways.plan
        self.nodes: dict[Fact, PlanRule | None] = {}
        self.facts: dict[Fact, int] = {}
        self._strata = {name: stratum for stratum in self.plan.strata for name in stratum.relations}
        for stratum in self.plan.strata:  # answers inside a recursion are relations of its stratum
            self._strata.update({rule.head: stratum for rule in stratum.rules})

    def follow(self, wanted: Iterable[Fact], counted: bool = False) -> None:
        """Add tuples and all that they rest on; `counted`: with all copies. Tuples must be there."""
        pending: dict[int, dict[Fact, bool]] = {}

        def push(facts: Iterable[Fact], counted: bool) -> None:
            for fact in facts:
                waiting = pending.setdefault(self.level(fact[0]), {})
                waiting[fact] = waiting.get(fact, False) or counted

        push(wanted, counted)
        while pending:
            level = max(pending)
            waiting = pending.pop(level)
            if level < 0:
                self._end(waiting)
                continue
            recursive: list[Fact] = []
            for fact in waiting:
                if fact in self.nodes:
                    continue
                if self._annotated(fact[0]):
                    self.nodes[fact] = None
                    recursive.append(fact)
                elif (made := self._made(fact)) is not None:
                    self.nodes[fact], parents, counted = made
                    push(parents, counted)
            if recursive:
                push(self.ways.rows.runtime.derivation(recursive), False)

    def level(self, relation: str) -> int:
        """The number of a relation's stratum; -1 for facts."""
        stratum = self._strata.get(relation)
        return -1 if stratum is None else stratum.index

    def _end(self, waiting: dict[Fact, bool]) -> None:
        for fact, counted in waiting.items():
            if fact[0] != UNIT:
                self.nodes[fact] = None
                copies = self.ways.rows.copies(fact) if counted else 1
                self.facts[fact] = max(copies, self.facts.get(fact, 0))

    def _annotated(self, relation: str) -> bool:
        """Whether tuples of a relation have annotations. Answers inside a recursion are made by a rule, like others."""
        return self._strata[relation].method != "counting" and not any(
            isinstance(rule, LookupRule) for rule in self.ways.rules.get(relation, ())
        )

    # --- rule by rule ----------------------------------------------------------------------------------------

    def _made(self, fact: Fact) -> Parents | None:
        """A rule that makes a tuple, and of what; None for an approximation that nothing derives any more."""
        exact = self.exact(fact)
        if exact is None:
            return None
        rules = self.ways.rules[fact[0]]
        if self.plan.relations[fact[0]].weighted:
            # readers count its derivations: one of them is not enough
            return rules[0], [parent for rule in rules for parent in self._every(rule, exact)], True
        for rule in rules:
            if (parents := self._by(rule, exact)) is not None:
                return rule, *parents
        raise AssertionError(f"no rule derives {exact[0]}{exact[1]}")

    def exact(self, fact: Fact) -> Fact | None:
        """The tuple that rules derive, where another one that is near enough may be shown."""
        if self.plan.relations[fact[0]].tolerance is None:
            return fact
        t = self.ways.rows.runtime.exact(*fact)
        return None if t is None else (fact[0], t)

    def _by(self, rule: PlanRule, fact: Fact) -> tuple[list[Fact], bool] | None:
        """What a rule makes a tuple of, and whether copies count; None if it does not."""
        t = fact[1]
        if isinstance(rule, (MapRule, JoinRule)):
            way = next(self.ways.of(rule, t), None)
            return None if way is None else (way, False)
        if isinstance(rule, NestedRule):
            return self._nested(rule, fact)
        assert isinstance(rule, (GroupRule, LineageRule, LookupRule))  # what depends on the clock is a fact here
        members = self.ways.members(rule, t)
        if isinstance(rule, LookupRule):
            return [*self._asking(rule, fact), *self._parts(rule, members)], not self.ways.extreme(rule)
        if not self.ways.answers(rule, t, members):
            return None
        return self._parts(rule, members), not self.ways.extreme(rule)

    def _parts(self, rule: Aggregating, members: list[Member]) -> list[Fact]:
        return [fact for facts, _ in self.ways.enough(rule, members) for fact in facts]

    def _asking(self, rule: LookupRule, fact: Fact) -> list[Fact]:
        """A tuple that asks for an answer. In a recursion, whatever rests on the answer rests on its question too."""
        name = rule.left.relation
        if self.level(name) == self.level(rule.head):
            return []
        found = self.ways.rows.matching(name, [(c, fact[1][i]) for i, c in enumerate(rule.left.key)])
        return [(name, row) for row in found[:1]]

    def _nested(self, rule: NestedRule, fact: Fact) -> tuple[list[Fact], bool] | None:
        """An outer row that passes, or all of a group whether they pass or not; and all that they are compared with."""
        rows = self.ways.nesting.outer(rule, fact[1])
        answers, facts = self.ways.nesting.compared(rule, rows)
        passing = [row for row in rows if self.ways.nesting.passes(rule, row, answers[row])]
        if not passing or not self._results(rule, fact, passing):
            return None
        if rule.shows == "rows":
            rows = passing[:1]
            _, facts = self.ways.nesting.compared(rule, rows)
        return [*((rule.outer.relation, row) for row in rows), *facts], True

    def _results(self, rule: NestedRule, fact: Fact, passing: list[Tuple]) -> bool:
        """Whether the aggregates of the rows that pass are those of the tuple, where other rules might have made it."""
        if rule.shows == "rows" or len(self.ways.rules[rule.head]) == 1:
            return True
        found = [(row, self.ways.weight((rule.outer.relation, row))) for row in passing]
        for column, entry in enumerate(rule.layout):
            if entry >= len(rule.group):
                i = entry - len(rule.group)
                function, argument, _ = rule.aggregates[i]
                value = self.ways.expression(rule, f"argument {i}", argument)
                kind = self.plan.relations[rule.head].types[column]
                if self.ways.fold(function, value, found, kind) != fact[1][column]:
                    return False
        return True

    def _every(self, rule: PlanRule, fact: Fact) -> Iterator[Fact]:
        """What a rule makes a tuple of, in every way that counts."""
        if isinstance(rule, (MapRule, JoinRule)):
            for way in self.ways.of(rule, fact[1]):
                yield from way
        else:
            yield from self.inputs(rule, fact)

    # --- whole groups ----------------------------------------------------------------------------------------

    def inputs(self, rule: PlanRule, fact: Fact) -> list[Fact]:
        """All tuples that the answer a tuple gives depends on: of its group, by a rule that needs all of them."""
        if isinstance(rule, NestedRule):
            rows = self.ways.nesting.outer(rule, fact[1])
            _, facts = self.ways.nesting.compared(rule, rows)
            return [*((rule.outer.relation, row) for row in rows), *facts]
        assert isinstance(rule, (GroupRule, LineageRule, LookupRule))
        return [parent for facts, _ in self.ways.members(rule, fact[1]) for parent in facts]

    def settling(self, rule: PlanRule, fact: Fact) -> tuple[list[Fact], bool]:
        """Of these, some that suffice for the answer to be what it is here; and whether copies count."""
        if isinstance(rule, NestedRule):
            return self.inputs(rule, fact), True
        assert isinstance(rule, (GroupRule, LineageRule, LookupRule))
        members = self.ways.members(rule, fact[1])
        if isinstance(rule, LookupRule) and rule.function == "absent":
            return [parent for facts, _ in members[:1] for parent in facts], False
        return self._parts(rule, members), not self.ways.extreme(rule)
