"""Ways: from a tuple back to the tuples that a rule makes it of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from livelog.why.nesting import Nesting
from livelog.why.rows import Fact, Rows, Tuple
from operators.expr import Col, Const, Expr
from operators.kernels import condition, row_function
from operators.monoids import factory, of_nothing
from planner.plan import GroupRule, JoinRule, LineageRule, LookupRule, MapRule, NestedRule, PlanRule

__all__ = ["Aggregating", "Member", "Ways"]

Fixed = list[tuple[int, Any]]
"""Columns and the values that they must have."""

Member = tuple[list[Fact], Tuple]
"""What is counted once in a group: the tuples that it is made of, and the row that the rule's expressions are over."""

Aggregating = GroupRule | LineageRule | LookupRule
EXTREMES = ("min", "max")


class Ways:
    """Reads rules backwards, over the tuples that are there.

    Where a head copies columns of an input, the tuples of that input are asked for by these columns; otherwise all of
    them are looked at. A join costs O(tuples of the side that the head says more about, and their partners).
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.plan = rows.plan
        self.rules: dict[str, list[PlanRule]] = {}
        for stratum in self.plan.strata:
            for rule in stratum.rules:
                self.rules.setdefault(rule.head, []).append(rule)
        self.nesting = Nesting(self)
        self._functions: dict[tuple[int, str], Callable[..., Any]] = {}

    # --- one derivation --------------------------------------------------------------------------------------

    def of(self, rule: MapRule | JoinRule, t: Tuple) -> Iterator[list[Fact]]:
        """The ways in which a rule derives a tuple."""
        if any(isinstance(e, Const) and e.value != value for e, value in zip(rule.outputs, t, strict=True)):
            return
        outputs = self.function(rule, "outputs", rule.outputs)
        copied = [(e.index, value) for e, value in zip(rule.outputs, t, strict=True) if isinstance(e, Col)]
        for facts, row in self._mapped(rule, copied) if isinstance(rule, MapRule) else self._joined(rule, copied):
            if outputs(row) == t:
                yield facts

    def _mapped(self, rule: MapRule | GroupRule, fixed: Fixed) -> Iterator[Member]:
        name = rule.input.relation
        holds = self.test(rule, rule.where, self._arity(name))
        for row in self.rows.matching(name, fixed):
            if holds(row, ()):
                yield [(name, row)], row

    def _joined(self, rule: JoinRule | LineageRule, fixed: Fixed) -> Iterator[Member]:
        """Pairs of tuples that a rule joins, with these values in some columns of their row."""
        one, other = rule.left.relation, rule.right.relation
        width = self._arity(one)
        holds = self.test(rule, rule.where, width + self._arity(other))
        left = [(c, value) for c, value in fixed if c < width]
        right = [(c - width, value) for c, value in fixed if c >= width]
        sides: Iterable[tuple[Tuple, Tuple]]
        if len(left) >= len(right):
            sides = (
                (row, partner)
                for row in self.rows.matching(one, left)
                for partner in self._partners(other, right, rule.right.key, row, rule.left.key)
            )
        else:
            sides = (
                (partner, row)
                for row in self.rows.matching(other, right)
                for partner in self._partners(one, left, rule.left.key, row, rule.right.key)
            )
        for row, partner in sides:
            both = row + partner
            if holds(both, ()):
                yield [(one, row), (other, partner)], both

    def _partners(
        self, relation: str, fixed: Fixed, key: Sequence[int], row: Tuple, by: Sequence[int]
    ) -> list[Tuple]:
        known = dict(fixed)
        for c, b in zip(key, by, strict=True):
            if known.setdefault(c, row[b]) != row[b]:
                return []
        return self.rows.matching(relation, known.items())

    # --- groups ----------------------------------------------------------------------------------------------

    def members(self, rule: Aggregating, t: Tuple) -> list[Member]:
        """What is in the group that a tuple is about."""
        if isinstance(rule, LookupRule):
            key, name = t[: len(rule.left.key)], rule.inner.relation
            holds = self.test(rule, rule.where, len(key))
            found = self.rows.matching(name, [(c, key[i]) for i, c in enumerate(rule.inner.key)])
            return [([(name, row)], key + row) for row in found if holds(key, row)]
        wanted = {rule.layout[i]: value for i, value in enumerate(t) if rule.layout[i] < len(rule.group)}
        fixed = [(e.index, wanted[i]) for i, e in enumerate(rule.group) if i in wanted and isinstance(e, Col)]
        group = self.function(rule, "group", rule.group)
        ways = self._mapped(rule, fixed) if isinstance(rule, GroupRule) else self._joined(rule, fixed)
        return [way for way in ways if all(group(way[1])[i] == value for i, value in wanted.items())]

    def enough(self, rule: Aggregating, members: list[Member]) -> list[Member]:
        """Those of a group that give the same answer alone: a winner, where only extremes are asked for."""
        if not self.extreme(rule) or not members:
            return members
        chosen = []
        for i, (function, _) in enumerate(_aggregates(rule)):
            value = self.values(rule, i)
            chosen.append((min if function == "min" else max)(members, key=lambda member: value(member[1])))
        return chosen

    def extreme(self, rule: Aggregating) -> bool:
        """Whether a rule asks for extremes only; copies do not count then."""
        return all(function in EXTREMES for function, _ in _aggregates(rule))

    def answers(self, rule: GroupRule | LineageRule, t: Tuple, members: list[Member]) -> bool:
        """Whether the aggregates of these members are those of the tuple: a relation may have several such rules."""
        if len(self.rules[rule.head]) == 1 or not members:
            return bool(members)
        types = self.plan.relations[rule.head].types
        found = [(row, self.product(facts)) for facts, row in members]
        for column, entry in enumerate(rule.layout):
            if entry >= len(rule.group):
                i = entry - len(rule.group)
                value = self.fold(rule.aggregates[i][0], self.values(rule, i), found, types[column])
                if value != t[column]:
                    return False
        return True

    def values(self, rule: Aggregating, i: int) -> Callable[[Tuple], Any]:
        """What aggregate i of a rule is over, of the row of a member."""
        return self.expression(rule, f"argument {i}", _aggregates(rule)[i][1])

    def fold(
        self, function: str, value: Callable[[Tuple], Any], rows: Iterable[tuple[Tuple, int]], kind: str
    ) -> Any:
        """An aggregate over rows with weights; None if it has no answer."""
        state, count = factory(function, self.plan.aggregates, kind)(), 0
        for row, weight in rows:
            state.add(value(row), weight)
            count += weight
        return state.result() if count else of_nothing(function, self.plan.aggregates)

    # --- weights ---------------------------------------------------------------------------------------------

    def weight(self, fact: Fact) -> int:
        """How often a tuple counts: a copy of a fact in a bag, or a derivation of what the planner has to count."""
        relation = self.plan.relations[fact[0]]
        if relation.kind == "base":
            return self.rows.copies(fact)
        if not relation.weighted:
            return 1
        return sum(self.product(facts) for facts in self.all(fact))

    def all(self, fact: Fact) -> Iterator[list[Fact]]:
        """All derivations of a tuple that counts by them."""
        for rule in self.rules[fact[0]]:
            if isinstance(rule, (MapRule, JoinRule)):
                yield from self.of(rule, fact[1])
            else:
                assert isinstance(rule, NestedRule), "what counts by its derivations has no aggregates"
                yield from ([(rule.outer.relation, row)] for row in self.nesting.passing(rule, fact[1]))

    def product(self, facts: Iterable[Fact]) -> int:
        """How often tuples that are joined count together."""
        total = 1
        for fact in facts:
            total *= self.weight(fact)
        return total

    # --- functions -------------------------------------------------------------------------------------------

    def function(self, rule: Any, what: str, expressions: tuple[Expr, ...]) -> Callable[[Tuple], Tuple]:
        """The values of expressions over a row; `what` says which ones of the rule they are."""
        known = self._functions.get((id(rule), what))
        if known is None:
            known = self._functions[id(rule), what] = row_function(expressions)
        return known

    def expression(self, rule: Any, what: str, expression: Expr | None) -> Callable[[Tuple], Any]:
        """The value of one expression over a row; None if there is none."""
        if expression is None:
            return lambda row: None
        values = self.function(rule, what, (expression,))
        return lambda row: values(row)[0]

    def test(self, rule: Any, where: tuple[Expr, ...], width: int) -> Callable[[Tuple, Tuple], bool]:
        """Whether conditions hold of a row, which comes in two parts; `width` is that of the first."""
        known = self._functions.get((id(rule), "where"))
        if known is None:
            known = self._functions[id(rule), "where"] = condition(where, width) or (lambda one, other: True)
        return known

    def _arity(self, relation: str) -> int:
        return self.plan.relations[relation].arity


def _aggregates(rule: Aggregating) -> tuple[tuple[str, Expr | None], ...]:
    """The aggregates of a rule, with what they are over."""
    return ((rule.function, rule.value),) if isinstance(rule, LookupRule) else rule.aggregates
