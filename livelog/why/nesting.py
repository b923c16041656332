"""Rows that pass a comparison with nested aggregates, and what they are compared with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from livelog.why.rows import Fact, Tuple
from operators.expr import Col, Expr
from operators.monoids import factory, of_nothing
from planner.plan import Inner, NestedRule

if TYPE_CHECKING:
    from livelog.why.ways import Ways

__all__ = ["Answer", "Nesting"]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What an inner aggregate says about an outer row: of so many rows, with the columns that tie it to the row."""

    inner: Inner
    key: tuple[tuple[str, Any], ...]
    value: Any
    rows: int


class Nesting:
    """The outer rows of nested rules with their answers, found naively.

    For each group of rows that an inner aggregate is over, O(n log n): running sums are added up in the order of keys.
    """

    def __init__(self, ways: Ways) -> None:
        self._ways = ways

    def outer(self, rule: NestedRule, t: Tuple) -> list[Tuple]:
        """The outer rows of the group that a tuple is about, whether they pass or not."""
        ways, name = self._ways, rule.outer.relation
        layout = rule.layout if rule.shows == "results" else range(len(rule.group))
        wanted = {k: value for k, value in zip(layout, t, strict=True) if k < len(rule.group)}
        holds = ways.test(rule, rule.where, ways.plan.relations[name].arity)
        group = ways.function(rule, "group", rule.group)
        fixed = [(e.index, wanted[k]) for k, e in enumerate(rule.group) if k in wanted and isinstance(e, Col)]
        rows = [row for row in ways.rows.matching(name, fixed) if holds(row, ())]
        return [row for row in rows if all(group(row)[k] == value for k, value in wanted.items())]

    def passing(self, rule: NestedRule, t: Tuple) -> list[Tuple]:
        """The outer rows that make a tuple."""
        rows = self.outer(rule, t)
        answers, _ = self.compared(rule, rows)
        return [row for row in rows if self.passes(rule, row, answers[row])]

    def compared(self, rule: NestedRule, rows: list[Tuple]) -> tuple[dict[Tuple, list[Answer]], list[Fact]]:
        """By outer row, the answers that it is compared with; and all inner rows that these are over."""
        answers: dict[Tuple, list[Answer]] = {row: [] for row in rows}
        facts: dict[Fact, None] = {}
        for number, (inner, equal, key) in enumerate(_tied(rule)):
            kind = self._ways.function(rule, f"kind {number}", equal)
            place = self._ways.expression(rule, f"key {number}", key)
            asked: dict[Tuple, dict[Any, None]] = {}
            for row in rows:
                asked.setdefault(kind(row), {})[place(row)] = None
            found = {k: self._answers(rule, number, inner, k, list(keys), facts) for k, keys in asked.items()}
            names = [self._name(rule, e) for e in equal] + ([] if key is None else [self._name(rule, key)])
            for row in rows:
                value, count = found[kind(row)][place(row)]
                values = (*kind(row), *(() if key is None else (place(row),)))
                answers[row].append(Answer(inner, tuple(zip(names, values, strict=True)), value, count))
        return answers, list(facts)

    def _answers(
        self, rule: NestedRule, number: int, inner: Inner, kind: Tuple, keys: list[Any], facts: dict[Fact, None]
    ) -> dict[Any, tuple[Any, int]]:
        """What an inner aggregate says about each key, of the rows of one kind; these are added to the facts."""
        ways, name = self._ways, inner.input.relation
        own = ways.function(rule, f"own {number}", inner.equal)
        value = ways.expression(rule, f"value {number}", inner.value)
        holds = ways.test(inner, inner.where, ways.plan.relations[name].arity)
        fixed = [(e.index, v) for e, v in zip(inner.equal, kind, strict=True) if isinstance(e, Col)]
        rows = [r for r in ways.rows.matching(name, fixed) if holds(r, ()) and own(r) == kind]
        state, count = factory(inner.function, ways.plan.aggregates, inner.type)(), 0
        result: dict[Any, tuple[Any, int]] = {}
        for key, more in self._steps(rule, number, inner, rows, keys):
            for row in more:
                facts[name, row] = None
                weight = ways.weight((name, row))
                state.add(value(row), weight)
                count += weight
            result[key] = (state.result() if count else of_nothing(inner.function, ways.plan.aggregates), count)
        return result

    def _steps(
        self, rule: NestedRule, number: int, inner: Inner, rows: list[Tuple], keys: list[Any]
    ) -> Iterator[tuple[Any, list[Tuple]]]:
        """The keys in an order in which each has all rows of those before it, with what it has besides."""
        if inner.order is None:
            yield keys[0], rows
            return
        op, q = inner.order
        place, holds = self._ways.expression(rule, f"order {number}", q), COMPARE[op]
        falling = op in (">", ">=")
        rows, at = sorted(rows, key=place, reverse=falling), 0
        for key in sorted(keys, reverse=falling):
            start = at
            while at < len(rows) and holds(place(rows[at]), key):
                at += 1
            yield key, rows[start:at]

    def passes(self, rule: NestedRule, row: Tuple, answers: list[Answer]) -> bool:
        """Whether an outer row passes the comparison with its answers."""
        values = tuple([answer.value for answer in answers])
        if None in values:
            return False
        if rule.method == "each":
            free = self._ways.function(rule, "free", rule.free)
            return bool(self._threshold(rule, free(row) + values))
        if rule.method == "value":
            key = self._ways.expression(rule, "key", rule.key)(row)
            return COMPARE[rule.op](key, self._threshold(rule, values))
        first = values[0]
        if rule.compared is not None:
            first = self._ways.expression(rule, "compared", rule.compared)(values[:1])
        return COMPARE[rule.op](first, self._threshold(rule, values[1:]))

    def _threshold(self, rule: NestedRule, row: Tuple) -> Any:
        return self._ways.expression(rule, "threshold", rule.threshold)(row)

    def _name(self, rule: NestedRule, expression: Expr) -> str:
        columns = self._ways.plan.relations[rule.outer.relation].columns
        return columns[expression.index] if isinstance(expression, Col) else "key"


def _tied(rule: NestedRule) -> Iterable[tuple[Inner, tuple[Expr, ...], Expr | None]]:
    """The inner aggregates, as in `NestedRule.inners`: what ties each to the outer row, and the key of its order."""
    if rule.inner is not None:
        yield rule.inner, rule.equal, rule.key if rule.inner.order is not None else None
    for asked in rule.asked:
        key = None if asked.key is None else rule.free[asked.key]
        yield asked.inner, tuple(rule.free[i] for i in asked.equal), key
    for scalar in rule.scalars:
        yield scalar, (), None
