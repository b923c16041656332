"""From a trace, which is about relations of the plan, to a reason, which is about those of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from livelog.values import sort_rows
from livelog.why.nesting import Answer
from livelog.why.reason import Group, Reason
from livelog.why.rows import Fact, Tuple
from livelog.why.trace import Trace
from operators.expr import Apply, Col, Expr, columns
from operators.kernels import row_function
from planner.collect import ROWS
from planner.passes.stratify import inputs_of
from planner.plan import GroupRule, LineageRule, LookupRule, MapRule, NestedRule, Plan, PlanRule

__all__ = ["told"]


def told(trace: Trace) -> Reason:
    """The facts of a trace in order, then the absences and the groups among its tuples."""
    facts: dict[str, list[Tuple]] = {}
    for (name, t), copies in trace.facts.items():
        # facts of a relation that also has rules are kept apart under a name of their own
        facts.setdefault(name.removesuffix("#facts"), []).extend([t] * copies)
    absent: dict[Fact, None] = {}
    groups: dict[str, Group] = {}
    for shown, rule in sorted(trace.nodes.items(), key=lambda node: (-trace.level(node[0][0]), repr(node[0]))):
        fact = trace.exact(shown) or shown
        if isinstance(rule, LookupRule) and rule.function == "absent":
            absent.update(dict.fromkeys(_absence(trace.plan, rule, fact[1])))
        elif rule is not None:
            groups.update((repr(group), group) for group in _groups(trace, rule, fact))
    return Reason([(name, row) for name in sorted(facts) for row in sort_rows(facts[name])], absent, groups.values())


def _absence(plan: Plan, rule: LookupRule, key: Tuple) -> Iterator[Fact]:
    """What must not be there, if it is a relation of the program that is asked about."""
    name, width = rule.inner.relation, len(rule.left.key)
    row: list[Any] = [None] * plan.relations[name].arity
    for i, c in enumerate(rule.inner.key):
        row[c] = key[i]
    for condition in rule.where:
        assert isinstance(condition, Apply)
        one, other = condition.arguments
        if isinstance(other, Col) and other.index >= width:
            one, other = other, one
        if condition.inline == "==" and isinstance(one, Col) and one.index >= width > max(columns(other), default=-1):
            row[one.index - width] = _value(other, key)
    layer = plan.relations[name].layer
    if layer is not None:
        row.insert(layer.column, layer.value)
        yield layer.relation, tuple(row)
    elif name.endswith("#none"):  # a layer that no rule fills
        name, _, value = name.removesuffix("#none").rpartition("@")
        layers = (r.layer for r in plan.relations.values() if r.layer is not None)
        row.insert(next(other.column for other in layers if other.relation == name), int(value))
        yield name, tuple(row)
    elif plan.relations[name].kind != "auxiliary":
        yield name.removesuffix("#facts"), tuple(row)


def _value(expression: Expr, row: Tuple) -> Any:
    (value,) = row_function((expression,))(row)
    return value


def _count(trace: Trace, rule: GroupRule | LineageRule | LookupRule, fact: Fact) -> int | None:
    """How many bindings a group has; None where only the best are kept."""
    if any(trace.plan.relations[source.relation].selection is not None for source in inputs_of(rule)):
        return None
    return sum(trace.ways.product(facts) for facts, _ in trace.ways.members(rule, fact[1]))


def _groups(trace: Trace, rule: PlanRule, fact: Fact) -> Iterator[Group]:
    """The answers that a tuple is made of by a rule."""
    if isinstance(rule, LookupRule):
        width, names = len(rule.left.key), trace.plan.relations[rule.head].columns
        key = dict(zip(names[:width], fact[1][:width], strict=True))
        yield _group(trace.plan, rule.head, rule.function, key, fact[1][width], _count(trace, rule, fact), rule.text)
    elif isinstance(rule, (GroupRule, LineageRule)):
        yield from _heads(trace.plan, rule, [f for f, _ in rule.aggregates], fact, _count(trace, rule, fact))
    elif isinstance(rule, NestedRule):
        yield from _nested(trace, rule, fact)
    elif isinstance(rule, MapRule):
        yield from _winner(trace.plan, rule, fact)


def _winner(plan: Plan, rule: MapRule, fact: Fact) -> Iterator[Group]:
    """An extreme that is read off the winners that its relation is pruned to (`planner.passes.read_winners`)."""
    selection = plan.relations[rule.input.relation].selection
    if selection is not None:
        cells = list(zip(rule.outputs, plan.relations[rule.head].columns, fact[1], strict=True))
        key = {name: value for e, name, value in cells if isinstance(e, Col) and e.index in selection.group}
        best = dict(selection.values)
        for e, _, value in cells:
            if isinstance(e, Col) and e.index in best and e.index not in selection.group:
                yield _group(plan, rule.head, best[e.index], key, value, None, rule.text)


def _nested(trace: Trace, rule: NestedRule, fact: Fact) -> Iterator[Group]:
    """The answers of the aggregates in the head, if there are any, and of those that its rows are compared with."""
    nesting, plan = trace.ways.nesting, trace.plan
    outer = nesting.outer(rule, fact[1])
    answers, _ = nesting.compared(rule, outer)
    rows = [row for row in outer if nesting.passes(rule, row, answers[row])]
    if rule.shows == "results":
        count = sum(trace.ways.weight((rule.outer.relation, row)) for row in rows)
        yield from _heads(plan, rule, [function for function, _, _ in rule.aggregates], fact, count)
    elif not plan.relations[rule.head].weighted:
        rows = rows[:1]
    told: dict[tuple[int, Tuple], Answer] = {}
    for row in rows:
        for number, answer in enumerate(answers[row]):
            told.setdefault((number, answer.key), answer)
    for answer in told.values():
        yield _group(plan, rule.head, answer.inner.function, dict(answer.key), answer.value, answer.rows, rule.text)


def _heads(
    plan: Plan, rule: GroupRule | LineageRule | NestedRule, aggregates: list[str], fact: Fact, rows: int | None
) -> Iterator[Group]:
    width, names = len(rule.group), plan.relations[rule.head].columns
    cells = list(zip(rule.layout, names, fact[1], strict=True))
    key = {name: value for entry, name, value in cells if entry < width}
    for entry, _, value in cells:
        if entry >= width:
            yield _group(plan, rule.head, aggregates[entry - width], key, value, rows, rule.text)


def _group(plan: Plan, head: str, function: str, key: dict[str, Any], value: Any, rows: int | None, text: str) -> Group:
    """A group, named as the program names things."""
    relation = head.partition("/")[0]
    layer = plan.relations[relation].layer
    if layer is not None:
        relation = layer.relation
        key = {plan.relations[relation].columns[layer.column]: layer.value, **key}
    aggregate = "rows" if function == ROWS else function.removesuffix("'")
    return Group(relation, aggregate, {name.partition("'")[0]: v for name, v in key.items()}, value, rows, text)
