"""Nesting: the node of a NestedRule on one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from livelog.runtime.node import Links, Weights
from operators.delta import Delta
from operators.errors import RuleFailure
from operators.exact import pack
from operators.monoids import factory, of_nothing
from operators.nested import ByAnswer, ByOrder, Copies, Each, Heads, Measures, Results
from operators.nested.answers import Answers, answers
from operators.nested.each import EachAnswer, EachSum, trial
from operators.nested.gather import gather_outer, gather_running, limit, number
from operators.nested.outer import Outer
from operators.nested.ranges import AtSum, AtThreshold, Lifted
from operators.nested.rows import Points, Rows
from operators.nested.running import Flat, Running, Sums
from operators.nested.totals import Totals
from planner.passes.stratify import inputs_of
from planner.plan import Asked, Inner, NestedRule, Placement, Plan

__all__ = ["Nesting"]

Tuple = tuple[Any, ...]


class Nesting:
    """A NestedRule: the operator, and the aggregates that are the same for all rows.

    Its ports are the outer rows, then the correlated aggregates, then the scalars. Outer and inner rows come to where
    their values of the equality say. Of a scalar, every partition needs all rows.
    """

    def __init__(self, rule: NestedRule, plan: Plan, links: Links) -> None:
        self._links = links
        self._text = rule.text
        inputs = inputs_of(rule)
        self.ports = len(inputs)
        correlated = self.ports - 1 - len(rule.scalars)
        self._scalars = [_answers(rule, scalar, plan) for scalar in rule.scalars]
        self._values: Tuple = ()
        self._fresh = True  # whether the scalars have not been asked yet
        self._operator = _operator(rule, plan)
        by_relation: dict[str, list[tuple[int, Placement]]] = {}
        for port, source in enumerate(inputs):
            by_relation.setdefault(source.relation, []).append((port, source.at))
        self._takers: list[Callable[[Any], None]] = [self._operator.change_outer]
        self._takers += [self._operator.taker(i) for i in range(correlated)]
        self._takers += [scalar.receive for scalar in self._scalars]
        self._inputs = [(name, ports, [self._takers[p] for p, _ in ports]) for name, ports in by_relation.items()]

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        alone = self._links.alone
        for relation, ports, takers in self._inputs:
            delta = deltas.get(relation)
            if delta is None:
                continue
            rows = delta.items()
            if alone:
                for take in takers:
                    take(rows)
            else:
                for port, at in ports:
                    self._links.deliver(self, port, rows, at)

    def receive(self, port: int, rows: Weights) -> None:
        self._takers[port](rows)

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        changed = touched = self._fresh
        scalars, values = self._scalars, self._values
        for scalar in scalars:
            if scalar.settle():
                touched = True
        if touched:
            try:
                now = (scalars[0].of(None),) if len(scalars) == 1 else tuple([scalar.of(None) for scalar in scalars])
            except ArithmeticError as error:  # a sum that is out of range
                raise RuleFailure(self._text, None, error) from error
            if changed or now != values:
                changed = True
                self._values = values = now
                self._fresh = False
        return self._operator.settle(values, changed)

    def stats(self) -> dict[str, int]:
        return self._operator.stats()

    def kept(self) -> Iterator[Any]:
        for key, group, vector in self._operator.items():
            yield key, group, tuple(map(pack, vector))

    def check(self) -> None:
        for scalar in self._scalars:
            scalar.check()
        self._operator.check()


def _operator(rule: NestedRule, plan: Plan) -> ByAnswer | ByOrder | Each:
    """The operator of a rule, with its heads and its index."""
    heads, group, factors = _heads(rule, plan)
    if rule.method == "each":
        kernel = gather_outer(rule.where, (), rule.free, group, factors)
        partial = [of_nothing(asked.inner.function, plan.aggregates) is None for asked in rule.asked]
        test = trial(rule.threshold, len(rule.free), partial)
        return Each(rule.text, kernel, [_asked(rule, asked, plan) for asked in rule.asked], test, heads)
    width = 1 + len(factors)
    kernel = gather_outer(rule.where, rule.equal, rule.key, group, factors)
    threshold = limit(rule.text, rule.threshold)
    apart = len(group) > len(rule.group)  # arguments of aggregates that are not linear tell rows of a group apart

    def index() -> Outer:
        if rule.op == "=" and rule.method != "sum":
            return Points(heads, width)
        return Totals(heads, width) if rule.single and not apart else Rows(heads)

    compared = None if rule.compared is None else number(rule.compared)
    inner = rule.inner
    if rule.method == "answer":
        assert inner is not None
        kinds = index() if rule.scalars else None
        return ByAnswer(rule.text, kernel, _answers(rule, inner, plan), compared, rule.op, threshold, heads, kinds)
    if rule.method == "value":
        ranges: Any = AtThreshold(rule.op, threshold, None if inner is None else _answers(rule, inner, plan))
    else:
        assert inner is not None
        sums = _sums(rule, inner)
        ranges = AtSum(rule.text, rule.op, threshold, sums, None if compared is None else Lifted(compared, rule.falls))
    return ByOrder(rule.text, kernel, ranges, heads, index)


def _heads(rule: NestedRule, plan: Plan) -> tuple[Heads, tuple[Any, ...], tuple[Any, ...]]:
    """The heads of a rule, and what is gathered for them: the columns that tell groups apart, and what is summed up."""
    if rule.shows == "rows":
        return Copies(), rule.group, ()
    types = plan.relations[rule.head].types
    kinds = {entry: types[c] for c, entry in enumerate(rule.layout)}
    measures = Measures(
        [
            (factory(function, plan.aggregates, kinds[len(rule.group) + i]), argument, kind)
            for i, (function, argument, kind) in enumerate(rule.aggregates)
        ]
    )
    heads = Results(rule.text, len(rule.group), measures, rule.layout)
    return heads, (*rule.group, *measures.apart), tuple(measures.entries)


def _asked(rule: NestedRule, asked: Asked, plan: Plan) -> EachAnswer | EachSum:
    if asked.key is None:
        return EachAnswer(_answers(rule, asked.inner, plan), asked.equal)
    return EachSum(_sums(rule, asked.inner, Flat), asked.equal, asked.key)


def _sums(rule: NestedRule, inner: Inner, make: Callable[[], Any] = Running) -> Sums:
    assert inner.order is not None
    op, key = inner.order
    kernel = gather_running(inner.where, inner.equal, key, inner.value, inner.type)
    return Sums(rule.text, kernel, op, inner.type, make)


def _answers(rule: NestedRule, inner: Inner, plan: Plan) -> Answers:
    make = factory(inner.function, plan.aggregates, inner.type)
    default = of_nothing(inner.function, plan.aggregates)
    return answers(rule.text, inner.where, inner.equal, (make, inner.value, inner.of), default)
