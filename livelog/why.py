"""Why a tuple is in a view: the facts of one derivation.

In a recursive component the tuple's annotation tells at once. In the other strata derivations are only
counted, so one is searched for, rule by rule, among the tuples that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from livelog.runtime.runtime import Runtime
from livelog.values import sort_rows
from operators.expr import Col, Expr
from operators.kernels import condition, key_of, row_function
from planner.plan import GroupRule, JoinRule, LookupRule, MapRule

__all__ = ["Explainer"]

Tuple = tuple[Any, ...]
Fact = tuple[str, Tuple]


class Explainer:
    """Explains tuples of one runtime's views, as they are now. The runtime keeps annotations."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._plan = runtime.plan
        self._strata = {name: stratum for stratum in runtime.plan.strata for name in stratum.relations}
        self._seen: set[Fact] = set()
        self._facts: dict[str, set[Tuple]] = {}

    def why(self, relation: str, t: Tuple) -> list[Fact]:
        """The facts of one derivation, sorted. The tuple must be there."""
        stack: list[Fact] = [(relation, t)]
        while stack:
            fact = stack.pop()
            if fact in self._seen:
                continue
            self._seen.add(fact)
            if self._plan.relations[fact[0]].kind == "base":
                # facts of a relation that also has rules are kept apart under a name of their own
                self._facts.setdefault(fact[0].removesuffix("#facts"), set()).add(fact[1])
            else:
                stack.extend(self._parents(*fact))
        return [(name, row) for name in sorted(self._facts) for row in sort_rows(self._facts[name])]

    def _parents(self, relation: str, t: Tuple) -> list[Fact]:
        """Tuples of lower strata that suffice for a tuple."""
        stratum = self._strata[relation]
        answer = any(isinstance(rule, LookupRule) and rule.head == relation for rule in stratum.rules)
        if stratum.method != "counting" and not answer:
            return self._runtime.derivation(relation, t)
        # an auxiliary under an aggregate counts its derivations: there, one of them is not enough
        every = self._plan.relations[relation].weighted
        parents: list[Fact] = []
        for rule in stratum.rules:
            if rule.head == relation:
                parents += self._by_rule(rule, t, every)
                if parents and not every:
                    break
        return parents

    def _by_rule(self, rule: Any, t: Tuple, every: bool) -> list[Fact]:
        """The tuples that a rule of a counting stratum derives `t` from, once or in every way; none if not at all."""
        if isinstance(rule, (MapRule, JoinRule)):
            ways = self._mapped(rule, t) if isinstance(rule, MapRule) else self._joined(rule, t)
            return [fact for way in (ways if every else islice(ways, 1)) for fact in way]
        if isinstance(rule, GroupRule):
            return self._grouped(rule, t)
        assert isinstance(rule, LookupRule)
        return self._looked_up(rule, t)

    def _mapped(self, rule: MapRule, t: Tuple) -> Iterator[list[Fact]]:
        name = rule.input.relation
        holds, outputs = _where(rule.where, self._arity(name)), row_function(rule.outputs)
        for row in self._agreeing(name, rule.outputs, t, 0):
            if holds(row) and outputs(row) == t:
                yield [(name, row)]

    def _joined(self, rule: JoinRule, t: Tuple) -> Iterator[list[Fact]]:
        left, right = rule.left.relation, rule.right.relation
        width = self._arity(left)
        holds = _where(rule.where, width + self._arity(right))
        outputs = row_function(rule.outputs)
        by_key: dict[Any, list[Tuple]] = {}
        key = key_of(rule.right.key)
        for row in self._agreeing(right, rule.outputs, t, width):
            by_key.setdefault(key(row), []).append(row)
        key = key_of(rule.left.key)
        for row in self._agreeing(left, rule.outputs, t, 0):
            for partner in by_key.get(key(row), ()):
                both = row + partner
                if holds(both) and outputs(both) == t:
                    yield [(left, row), (right, partner)]

    def _grouped(self, rule: GroupRule, t: Tuple) -> list[Fact]:
        """The rows of the group; one of them is enough where all aggregates are the same extreme's."""
        name = rule.input.relation
        width = len(rule.group)
        wanted = {rule.layout[i]: value for i, value in enumerate(t)}
        holds, group = _where(rule.where, self._arity(name)), row_function(rule.group)
        # (a group's columns may be computed, so that its rows cannot be asked for by value)
        rows = [r for r in self._runtime.rows(name) if holds(r)]
        rows = [r for r in rows if all(group(r)[i] == wanted[i] for i in range(width) if i in wanted)]
        (function, argument), *others = rule.aggregates
        if function in ("min", "max") and not others and argument is not None:
            value = row_function((argument,))
            rows = [r for r in rows if value(r)[0] == wanted[width]][:1]
        return [(name, r) for r in rows]

    def _looked_up(self, rule: LookupRule, t: Tuple) -> list[Fact]:
        """The rows that an answer is about: none for absence."""
        if rule.function == "absent":
            return []
        name = rule.inner.relation
        width = len(rule.left.key)
        key = t[:width]
        holds = condition(rule.where, width)
        match = [(c, key[i]) for i, c in enumerate(rule.inner.key)]
        rows = [r for r in self._runtime.matching(name, match) if holds is None or holds(key, r)]
        if rule.function in ("min", "max") and rule.value is not None:
            value = row_function((rule.value,))
            rows = [r for r in rows if value(key + r)[0] == t[width]][:1]
        return [(name, r) for r in rows]

    def _agreeing(self, relation: str, outputs: tuple[Expr, ...], t: Tuple, offset: int) -> list[Tuple]:
        """The tuples of an input that agree with the head in the columns that the rule copies."""
        arity = self._arity(relation)
        fixed = [
            (e.index - offset, t[i])
            for i, e in enumerate(outputs)
            if isinstance(e, Col) and offset <= e.index < offset + arity
        ]
        return self._runtime.matching(relation, fixed)

    def _arity(self, relation: str) -> int:
        return self._plan.relations[relation].arity


def _where(where: Iterable[Expr], arity: int) -> Any:
    holds = condition(tuple(where), arity)
    return (lambda row: True) if holds is None else (lambda row: holds(row, ()))
