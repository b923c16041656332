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
from planner.plan import GroupRule, JoinRule, LineageRule, LookupRule, MapRule, NestedRule

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
        if self._plan.relations[relation].tolerance is not None:
            exact = self._runtime.exact(relation, t)
            if exact is None:
                return []
            t = exact
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
        if isinstance(rule, (GroupRule, LineageRule)):
            return self._grouped(rule, t)
        if isinstance(rule, NestedRule):
            return self._nested(rule, t)
        assert isinstance(rule, LookupRule)
        return self._looked_up(rule, t)

    def _mapped(self, rule: MapRule, t: Tuple) -> Iterator[list[Fact]]:
        name = rule.input.relation
        holds, outputs = _where(rule.where, self._arity(name)), row_function(rule.outputs)
        for row in self._agreeing(name, rule.outputs, t, 0):
            if holds(row) and outputs(row) == t:
                yield [(name, row)]

    def _joined(self, rule: JoinRule, t: Tuple) -> Iterator[list[Fact]]:
        outputs = row_function(rule.outputs)
        width = self._arity(rule.left.relation)
        left = self._agreeing(rule.left.relation, rule.outputs, t, 0)
        right = self._agreeing(rule.right.relation, rule.outputs, t, width)
        for way, both in self._pairs(rule, left, right):
            if outputs(both) == t:
                yield way

    def _pairs(
        self, rule: JoinRule | LineageRule, left: Iterable[Tuple], right: Iterable[Tuple]
    ) -> Iterator[tuple[list[Fact], Tuple]]:
        """Pairs of tuples that a rule joins, and their row."""
        one, other = rule.left.relation, rule.right.relation
        holds = _where(rule.where, self._arity(one) + self._arity(other))
        by_key: dict[Any, list[Tuple]] = {}
        key = key_of(rule.right.key)
        for row in right:
            by_key.setdefault(key(row), []).append(row)
        key = key_of(rule.left.key)
        for row in left:
            for partner in by_key.get(key(row), ()):
                if holds(row + partner):
                    yield [(one, row), (other, partner)], row + partner

    def _grouped(self, rule: GroupRule | LineageRule, t: Tuple) -> list[Fact]:
        """The rows of the group; one of them is enough where all aggregates are the same extreme's."""
        width = len(rule.group)
        wanted = {rule.layout[i]: value for i, value in enumerate(t)}
        group = row_function(rule.group)
        # (a group's columns may be computed, so that its rows cannot be asked for by value)
        ways: Iterator[tuple[list[Fact], Tuple]]
        if isinstance(rule, GroupRule):
            name = rule.input.relation
            holds = _where(rule.where, self._arity(name))
            ways = (([(name, r)], r) for r in self._runtime.rows(name) if holds(r))
        else:
            ways = self._pairs(rule, *(self._runtime.rows(s.relation) for s in (rule.left, rule.right)))
        found = [w for w in ways if all(group(w[1])[i] == wanted[i] for i in range(width) if i in wanted)]
        (function, argument), *others = rule.aggregates
        if function in ("min", "max") and not others and argument is not None:
            value = row_function((argument,))
            found = [w for w in found if value(w[1])[0] == wanted[width]][:1]
        return list(dict.fromkeys(fact for way, _ in found for fact in way))

    def _nested(self, rule: NestedRule, t: Tuple) -> list[Fact]:
        """The outer rows of the group, whether they pass or not, and all that they are compared with."""
        group, kind = row_function(rule.group), row_function(rule.equal)
        wanted = {k: t[c] for c, k in enumerate(rule.layout) if k < len(rule.group)}
        name = rule.outer.relation
        holds = _where(rule.where, self._arity(name))
        rows = [r for r in self._runtime.rows(name) if holds(r)]
        rows = [r for r in rows if all(group(r)[k] == value for k, value in wanted.items())]
        facts: list[Fact] = [(name, r) for r in rows]
        kinds = {kind(r) for r in rows}
        for inner in rule.inners:
            name, own = inner.input.relation, row_function(inner.equal)
            holds = _where(inner.where, self._arity(name))
            found = [r for r in self._runtime.rows(name) if holds(r)]
            facts += [(name, r) for r in found if inner is not rule.inner or own(r) in kinds]
        return facts

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
