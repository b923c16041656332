"""Runs a plan as it is written down, naively, on any number of partitions: to test the planner without the engine.

Every relation is kept per partition, where its partition columns put its tuples; a rule sees on a partition only
what `Input.at` brings there. So a plan that forgets to ship something, or ships it to the wrong place, gives
a wrong result here. Whatever a rule's docstring promises about places is asserted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from operators.expr import Apply, Col, Expr
from operators.monoids import factory
from operators.partition import Router
from planner.passes.stratify import inputs_of
from planner.plan import (
    BROADCAST,
    GroupRule,
    Input,
    JoinRule,
    LineageRule,
    LookupRule,
    MapRule,
    NestedRule,
    Partial,
    Plan,
    PlanRule,
    Selection,
)
from tests.cases import Pruned
from tests.oracle_values import COMPARE, aggregate

Row = tuple[Any, ...]
Rows = Counter[Row]  # tuple -> weight


def value(expr: Expr, row: Row) -> Any:
    if isinstance(expr, Col):
        return row[expr.index]
    if isinstance(expr, Apply):
        return expr.function(*(value(a, row) for a in expr.arguments))
    return expr.value


def holds(where: Iterable[Expr], row: Row) -> bool:
    return all(value(condition, row) for condition in where)


class Interpreter:
    """`relations` holds, per relation and partition, tuples and weights."""

    def __init__(self, plan: Plan, partitions: int, limit: int = 200) -> None:
        self.plan = plan
        self.partitions = partitions
        self.limit = limit
        self.relations: dict[str, list[Rows]] = {name: self.empty() for name in plan.relations}

    def empty(self) -> list[Rows]:
        return [Counter() for _ in range(self.partitions)]

    def run(self, facts: Mapping[str, Mapping[Row, int]]) -> dict[str, set[Row]]:
        """Every relation of the program, given its base relations."""
        for name, rows in facts.items():
            self.store(name, self.relations[name], rows.items())
        for name, fixed in self.plan.facts.items():
            if name not in facts:
                self.store(name, self.relations[name], ((row, 1) for row in dict.fromkeys(fixed)))
        for stratum in self.plan.strata:
            if stratum.method == "counting":
                assert len(stratum.relations) == 1
            for _ in range(self.limit):
                before = {name: self.relations[name] for name in stratum.relations}
                made = {name: self.empty() for name in stratum.relations}
                for rule in stratum.rules:
                    self.apply(rule, made[rule.head])
                for name in stratum.relations:
                    self.relations[name] = self.settled(name, made[name], before[name])
                if all(self.relations[name] == before[name] for name in stratum.relations):
                    break
                if stratum.method == "counting":
                    break
            else:
                raise AssertionError(f"no fixpoint: {stratum.relations}")
        return {name: {row for rows in parts for row in rows} for name, parts in self.relations.items()}

    def settled(self, name: str, made: list[Rows], before: list[Rows]) -> list[Rows]:
        """What a relation holds after a round: a set unless it is weighted, only winners under a selection."""
        relation = self.plan.relations[name]
        if relation.weighted:
            return made
        sets = [Counter(dict.fromkeys(rows, 1)) for rows in made]
        if relation.selection is None:
            return sets
        known = {row for rows in (*sets, *before) for row in rows}
        best = winners(relation.selection, known)
        fresh = self.empty()
        self.store(name, fresh, ((row, 1) for row in best))
        return fresh

    # --- places

    def store(self, name: str, into: list[Rows], rows: Iterable[tuple[Row, int]]) -> None:
        """Each tuple at home; the derivations of one tuple meet there."""
        route = Router(self.plan.relations[name].partition, self.partitions)
        for row, weight in rows:
            assert len(row) == self.plan.relations[name].arity
            into[route(row)][row] += weight

    def met(self, source: Input) -> list[Rows]:
        """What a rule sees of an input, per partition."""
        parts = self.relations[source.relation]
        if source.at == BROADCAST:
            everything: Rows = Counter()
            for rows in parts:
                everything.update(rows)
            return [everything] * self.partitions
        route = Router(source.at, self.partitions)
        result = self.empty()
        for rows in parts:
            for row, weight in rows.items():
                result[route(row)][row] += weight
        if source.at == self.plan.relations[source.relation].partition:
            assert result == parts, "home is not where the tuples are"
        return result

    # --- rules

    def apply(self, rule: PlanRule, made: list[Rows]) -> None:
        results: Iterator[tuple[int, Row, int]]
        if isinstance(rule, MapRule):
            results = self.map(rule)
        elif isinstance(rule, JoinRule):
            results = self.join(rule)
        elif isinstance(rule, GroupRule):
            results = self.group(rule)
        elif isinstance(rule, LineageRule):
            results = self.lineage(rule)
        elif isinstance(rule, NestedRule):
            results = self.nested(rule)
        else:
            results = self.lookup(rule)
        route = Router(self.plan.relations[rule.head].partition, self.partitions)
        for partition, row, weight in results:
            if isinstance(rule, (LookupRule, NestedRule)):
                assert route(row) == partition, "an answer is not at home where it is made"
            assert len(row) == self.plan.relations[rule.head].arity
            made[route(row)][row] += weight

    def map(self, rule: MapRule) -> Iterator[tuple[int, Row, int]]:
        for partition, rows in enumerate(self.met(rule.input)):
            for row, weight in rows.items():
                if holds(rule.where, row):
                    yield partition, tuple(value(e, row) for e in rule.outputs), weight

    def join(self, rule: JoinRule) -> Iterator[tuple[int, Row, int]]:
        assert rule.left.key or BROADCAST in (rule.left.at, rule.right.at)
        for partition, (left, right) in enumerate(zip(self.met(rule.left), self.met(rule.right), strict=True)):
            index: dict[Row, list[Row]] = defaultdict(list)
            for row in right:
                index[tuple(row[c] for c in rule.right.key)].append(row)
            for one in left:
                for other in index.get(tuple(one[c] for c in rule.left.key), ()):
                    row = one + other
                    if holds(rule.where, row):
                        yield partition, tuple(value(e, row) for e in rule.outputs), left[one] * right[other]

    def group(self, rule: GroupRule) -> Iterator[tuple[int, Row, int]]:
        seen: set[Row] = set()
        for partition, rows in enumerate(self.met(rule.input)):
            groups: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
            for row, weight in rows.items():
                if holds(rule.where, row):
                    groups[tuple(value(e, row) for e in rule.group)].append((row, weight))
            assert seen.isdisjoint(groups), "a group is on two partitions"
            seen.update(groups)
            for group, members in groups.items():
                results = [self.fold(function, argument, members) for function, argument in rule.aggregates]
                entries = (*group, *results)
                head = tuple(entries[i] for i in rule.layout)
                if holds(rule.having, head):
                    yield partition, head, 1

    def lineage(self, rule: LineageRule) -> Iterator[tuple[int, Row, int]]:
        """Contributions of pairs of partial sums, made as the rule says; groups meet at the head's home."""
        home = Router(tuple(rule.layout[c] for c in self.plan.relations[rule.head].partition), self.partitions)
        groups: dict[Row, list[tuple[Row, list[list[int] | None], int]]] = defaultdict(list)
        sides = [self.partial(s, p) for s, p in zip((rule.left, rule.right), rule.partials, strict=True)]
        for left, right in zip(*sides, strict=True):
            for key, one in left.items():
                for other, y in right.get(key, {}).items():
                    for mine, x in one.items():
                        row = key + mine + other
                        if holds(rule.filters, row):
                            made = tuple(value(e, row) for e in rule.outputs)
                            vectors = [
                                None if s is None else [sum(c * x[i] * y[j] for c, i, j in entry) for entry in s]
                                for s in rule.sums
                            ]
                            groups[made[: len(rule.group)]].append((made, vectors, x[0] * y[0]))
        types = self.plan.relations[rule.head].types
        for group, members in groups.items():
            results, position = [], len(rule.group)
            for i, (function, _) in enumerate(rule.aggregates):
                state: Any = factory(function, self.plan.aggregates, types[rule.layout.index(len(rule.group) + i)])()
                for made, vectors, weight in members:
                    vector = vectors[i]
                    if vector is None:
                        state.add(made[position], weight)
                    else:
                        state.absorb(tuple(vector), 1)
                position += rule.sums[i] is None
                results.append(state.result())
            entries = (*group, *results)
            yield home(group), tuple(entries[i] for i in rule.layout), 1

    def partial(self, source: Input, kept: Partial) -> list[dict[Row, dict[Row, list[int]]]]:
        """The partial sums of one side, per partition."""
        result: list[dict[Row, dict[Row, list[int]]]] = []
        for rows in self.met(source):
            table: dict[Row, dict[Row, list[int]]] = {}
            for row, weight in rows.items():
                if holds(kept.where, row):
                    by = tuple(value(e, row) for e in kept.kept)
                    vector = table.setdefault(tuple(row[c] for c in source.key), {})
                    sums = vector.setdefault(by, [0] * len(kept.factors))
                    for i, factor in enumerate(kept.factors):
                        amount = 1 if factor.value is None else value(factor.value, row)
                        sums[i] += weight * (amount if factor.lift is None else factor.lift(amount)[factor.entry])
            result.append(table)
        return result

    def lookup(self, rule: LookupRule) -> Iterator[tuple[int, Row, int]]:
        seen: set[Row] = set()
        matched = len(rule.inner.key)
        for partition, (left, inner) in enumerate(zip(self.met(rule.left), self.met(rule.inner), strict=True)):
            keys = {tuple(row[c] for c in rule.left.key) for row in left}
            assert seen.isdisjoint(keys), "a key asks on two partitions"
            seen |= keys
            for key in keys:
                members = [
                    (key + row, weight)
                    for row, weight in inner.items()
                    if key[:matched] == tuple(row[c] for c in rule.inner.key) and holds(rule.where, key + row)
                ]
                if rule.function == "absent":
                    if not members:
                        yield partition, key, 1
                    continue
                result = self.fold(rule.function, rule.value, members)
                if result is not None:
                    yield partition, (*key, result), 1

    def nested(self, rule: NestedRule) -> Iterator[tuple[int, Row, int]]:
        """Every outer row is compared with its aggregates, one by one."""
        sources = [self.met(source) for source in inputs_of(rule)]
        for partition, (outer, *others) in enumerate(zip(*sources, strict=True)):
            groups: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
            for row, weight in outer.items():
                if holds(rule.where, row) and self.passes(rule, row, others):
                    groups[tuple(value(e, row) for e in rule.group)].append((row, weight))
            for group, members in groups.items():
                if rule.shows == "rows":
                    yield partition, group, sum(weight for _, weight in members)
                    continue
                results = [self.fold(function, argument, members) for function, argument, _ in rule.aggregates]
                entries = (*group, *results)
                yield partition, tuple(entries[i] for i in rule.layout), 1

    def passes(self, rule: NestedRule, row: Row, others: list[Rows]) -> bool:
        """Whether an outer row passes the comparison."""
        key = None if rule.key is None else value(rule.key, row)
        kind = [value(e, row) for e in rule.equal]
        answers = []
        for inner, rows in zip(rule.inners, others, strict=True):
            members = [(r, weight) for r, weight in rows.items() if holds(inner.where, r)]
            for asked in rule.asked:
                if inner is asked.inner:
                    kind = [value(rule.free[i], row) for i in asked.equal]
                    key = None if asked.key is None else value(rule.free[asked.key], row)
            if inner not in rule.scalars:
                members = [m for m in members if [value(e, m[0]) for e in inner.equal] == kind]
            if inner.order is not None:
                op, left = inner.order
                members = [m for m in members if COMPARE[op](value(left, m[0]), key)]
            answers.append(self.fold(inner.function, inner.value, members))
        if None in answers:
            return False
        if rule.method == "each":
            return bool(value(rule.threshold, (*(value(e, row) for e in rule.free), *answers)))
        if rule.method == "value":
            return bool(COMPARE[rule.op](key, value(rule.threshold, tuple(answers))))
        first, *scalars = answers
        compared = first if rule.compared is None else value(rule.compared, (first,))
        return bool(COMPARE[rule.op](compared, value(rule.threshold, tuple(scalars))))

    def fold(self, function: str, argument: Expr | None, members: list[tuple[Row, int]]) -> Any:
        values = [(None if argument is None else value(argument, row), weight) for row, weight in members]
        if function in self.plan.aggregates:
            return self.plan.aggregates[function]([v for v, n in values for _ in range(n)]) if values else None
        return aggregate(function, values)


def winners(selection: Selection, rows: set[Row]) -> set[Row]:
    return Pruned(selection.group, selection.values).winners(rows)
