"""A NestedRule in words: what is compared, which index keeps it, and what a change costs."""

from __future__ import annotations

from operators.expr import Expr
from planner.plan import Inner, NestedRule, Plan
from planner.words import aggregated, at, conditions, expression

__all__ = ["explain_nested"]


def explain_nested(rule: NestedRule, plan: Plan) -> list[str]:
    """The lines of a rule with nested aggregates.

    >>> import datalog, planner
    >>> text = '''.decl bids(price: number, volume: number)
    ... vwap(sum<p * v>) :- bids(p, v), total = sum v1 : { bids(_, v1) },
    ...     below = sum v2 : { bids(p2, v2), p2 <= p }, 0.75 * total < below.'''
    >>> plan = planner.plan(datalog.check(datalog.parse(text)))
    >>> print(*explain_nested(plan.strata[0].rules[0], plan), sep="\\n")
    rows of bids[on one partition] with inner > 0.75 * scalar1
    inner: sum bids.volume in bids[on one partition] with bids.price <= key
    key: bids.price
    scalar1: sum bids.volume in bids[on one partition]
    -> vwap(sum<bids.price * bids.volume>)
    RPAI: the rows that pass are a range of keys; it ends where the running sum passes the threshold
    O(log n) a change; O(n) while a negative value is summed up
    """
    relation = plan.relations[rule.outer.relation]
    row = [f"{relation.name}.{column}" for column in relation.columns]
    scalars = [f"scalar{i}" for i, _ in enumerate(rule.scalars, 1)]
    if rule.method == "each":
        return _each(rule, plan, row, scalars)
    known = ["inner", *scalars] if rule.method == "value" and rule.inner is not None else scalars
    if rule.method == "value":
        compared = "key"
    else:
        compared = "inner" if rule.compared is None else expression(rule.compared, ["inner"], True)
    lines = [f"rows of {at(rule.outer, plan)} with {compared} {rule.op} {expression(rule.threshold, known)}"]
    lines += conditions(rule.where, row)
    if rule.inner is not None:
        tied = [
            f"{_own(other, rule.inner, plan)} = {expression(one, row)}'"
            for one, other in zip(rule.equal, rule.inner.equal, strict=True)
        ]
        if rule.inner.order is not None:
            op, left = rule.inner.order
            tied.append(f"{_own(left, rule.inner, plan)} {op} key")
        lines.append(f"inner: {_aggregate(rule.inner, plan, tied)}")
    if rule.key is not None:
        lines.append(f"key: {expression(rule.key, row)}")
    lines += [f"{name}: {_aggregate(x, plan, [])}" for name, x in zip(scalars, rule.scalars, strict=True)]
    lines.append(f"-> {rule.head}({_head(rule, row)})")
    return [*lines, _index(rule), _cost(rule)]


def _each(rule: NestedRule, plan: Plan, row: list[str], scalars: list[str]) -> list[str]:
    """The lines of a rule that tries every distinct row."""
    inners = [f"inner{i}" for i, _ in enumerate(rule.asked, 1)]
    free = [expression(e, row) for e in rule.free]
    lines = [f"rows of {at(rule.outer, plan)} with {expression(rule.threshold, [*free, *inners, *scalars])}"]
    lines += conditions(rule.where, row)
    for name, asked in zip(inners, rule.asked, strict=True):
        pairs = zip(asked.inner.equal, asked.equal, strict=True)
        tied = [f"{_own(other, asked.inner, plan)} = {free[i]}'" for other, i in pairs]
        if asked.inner.order is not None and asked.key is not None:
            op, left = asked.inner.order
            tied.append(f"{_own(left, asked.inner, plan)} {op} {free[asked.key]}'")
        lines.append(f"{name}: {_aggregate(asked.inner, plan, tied)}")
    lines += [f"{name}: {_aggregate(x, plan, [])}" for name, x in zip(scalars, rule.scalars, strict=True)]
    lines.append(f"-> {rule.head}({_head(rule, row)})")
    return [
        *lines,
        f"general algorithm, free and bound maps: {rule.reason}",
        f"O(distinct {', '.join(free)}) a change",
    ]


def _own(e: Expr, inner: Inner, plan: Plan) -> str:
    relation = plan.relations[inner.input.relation]
    return expression(e, [f"{relation.name}.{column}" for column in relation.columns])


def _aggregate(inner: Inner, plan: Plan, tied: list[str]) -> str:
    function, parameter = aggregated(inner.function)
    value = "" if inner.value is None else f" {_own(inner.value, inner, plan)}{parameter}"
    matches = [*tied, *(_own(condition, inner, plan) for condition in inner.where)]
    given = f" with {' and '.join(matches)}" if matches else ""
    return f"{function}{value} in {at(inner.input, plan)}{given}"


def _head(rule: NestedRule, row: list[str]) -> str:
    entries = [expression(e, row) for e in rule.group]
    for name, argument, _ in rule.aggregates:
        function, parameter = aggregated(name)
        entries.append(f"{function}<{'*' if argument is None else expression(argument, row)}{parameter}>")
    return ", ".join(entries[i] for i in rule.layout)


def _index(rule: NestedRule) -> str:
    if rule.method == "sum":
        return "RPAI: the rows that pass are a range of keys; it ends where the running sum passes the threshold"
    if rule.method == "answer" and not rule.scalars:
        return "no index: rows with the same inner value pass a constant together, or do not"
    what = "what has the same inner value" if rule.method == "answer" else "rows"
    if rule.op == "=":
        return f"PAI: {what} by {'that value' if rule.method == 'answer' else 'their key'}, looked up by the threshold"
    if rule.method == "answer":
        return "RPAI: what has the same inner value by that value; those that pass are a range"
    return "RPAI: rows by their key; those that pass are a range, which ends at the threshold"


def _cost(rule: NestedRule) -> str:
    fixed = rule.method == "answer" and not rule.scalars
    cost = "O(1)" if fixed or (rule.op == "=" and rule.method != "sum") else "O(log n)"
    moved = "" if rule.single else ", and what the ends of the range pass over"
    many = " for each kind" if rule.method != "answer" and rule.equal and rule.scalars else ""
    again = "; O(n) while a negative value is summed up" if rule.method == "sum" and _signed(rule) else ""
    return f"{cost} a change{many}{moved}{again}"


def _signed(rule: NestedRule) -> bool:
    return rule.inner is not None and rule.inner.value is not None and rule.inner.type != "unsigned"
