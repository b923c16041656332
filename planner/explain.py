"""A plan in words: what runs where, what is shipped, and how a lost tuple is found again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from datalog.format import format_value
from operators.expr import Apply, Col, Const, Expr
from planner.passes.stratify import inputs_of
from planner.plan import (
    BROADCAST,
    GroupRule,
    Input,
    JoinRule,
    LookupRule,
    MapRule,
    Plan,
    PlanRule,
    RelationPlan,
    Stratum,
)

__all__ = ["explain"]


def explain(plan: Plan) -> str:
    """The plan as text, the same for the same program.

    >>> import datalog, planner
    >>> program = '''reachable(x, y) :- link(x, y).
    ... reachable(x, y) :- link(x, z), reachable(z, y).'''
    >>> print(explain(planner.plan(datalog.check(datalog.parse(program)))))
    relations
      view reachable(x, y) by x, output
      base link(x, y) by x
    <BLANKLINE>
    stratum 1: reachable
      recursive: Fixpoint with absorption provenance
      reads link
    <BLANKLINE>
      reachable/1: reachable(x, y) :- link(x, y).
        map link[home]
        -> reachable(link.x, link.y)
        nothing shipped
    <BLANKLINE>
      reachable/2: reachable(x, y) :- link(x, z), reachable(z, y).
        join link[by y] with reachable[home] on link.y = reachable.x
        -> reachable(link.x, reachable.y)
        ships link to y; MinShip of reachable to x
        a lost tuple is found again in link, by x
    """
    parts = ["\n".join(["relations", *(f"  {_relation(r, plan)}" for r in plan.relations.values())])]
    parts += [_stratum(s, plan) for s in plan.strata]
    if plan.notes:
        parts.append("\n".join(["notes", *(f"  {note}" for note in plan.notes)]))
    return "\n\n".join(parts)


def _relation(relation: RelationPlan, plan: Plan) -> str:
    words = [f"{relation.kind} {relation.name}({', '.join(relation.columns)})", _by(relation, relation.partition)]
    if relation.key:
        words.append(f"key {_names(relation, relation.key)}")
    if relation.ttl is not None:
        words.append(f"ttl {relation.ttl:g}")
    if relation.bag:
        words.append("bag")
    elif relation.weighted:
        words.append("counts its bindings")
    if relation.name in plan.outputs:
        words.append("output")
    if relation.selection is not None:
        words.append("of which only the best tuples are kept")
    if count := len(plan.facts.get(relation.name, ())):
        words.append(f"{count} fact{'s' if count > 1 else ''} in the program")
    return f"{words[0]} {', '.join(words[1:])}"


def _stratum(stratum: Stratum, plan: Plan) -> str:
    lines = [f"stratum {stratum.index + 1}: {', '.join(stratum.relations)}", f"  {_method(stratum, plan)}"]
    for name in stratum.relations:
        relation = plan.relations[name]
        if relation.selection is not None:
            best = ", ".join(f"{function} {relation.columns[c]}" for c, function in relation.selection.values)
            group = _names(relation, relation.selection.group)
            strict = ", strictly" if relation.selection.strict else ""
            lines.append(f"  + AggSel in {name}: {best}" + (f" by {group}" if group else "") + strict)
    if stratum.inputs:
        lines.append(f"  reads {', '.join(stratum.inputs)}")
    for rule in stratum.rules:
        lines += ["", f"  {_title(rule, plan)}"]
        lines += [f"    {line}" for line in EXPLAIN[type(rule)](rule, plan, stratum)]
    return "\n".join(lines)


def _title(rule: PlanRule, plan: Plan) -> str:
    """The rule as it stands in the program; a step on the way to it is only named."""
    if plan.relations[rule.head].kind == "auxiliary":
        return f"a step of {rule.head.rpartition('.')[0]}"
    return f"{rule.id}: {' '.join(rule.text.split())}"


def _method(stratum: Stratum, plan: Plan) -> str:
    if stratum.method == "absorption":
        return "recursive: Fixpoint with absorption provenance"
    if all(isinstance(rule, LookupRule) for rule in stratum.rules):
        return "lookup: one answer for each key that is asked for"
    if any(isinstance(rule, GroupRule) for rule in stratum.rules):
        return "group by" if len(stratum.rules) == 1 else "group by, and counting"
    return "counting"


# --- rules ---------------------------------------------------------------------------------------------------


def _map(rule: MapRule, plan: Plan, stratum: Stratum) -> list[str]:
    row = _row(rule, plan)
    head = f"-> {rule.head}({_list(rule.outputs, row)})"
    return [f"map {_at(rule.input, plan)}", *_where(rule.where, row), head, _ships(rule, plan, stratum)]


def _join(rule: JoinRule, plan: Plan, stratum: Stratum) -> list[str]:
    row = _row(rule, plan)
    width = plan.relations[rule.left.relation].arity
    on = " and ".join(f"{row[a]} = {row[width + b]}" for a, b in zip(rule.left.key, rule.right.key, strict=True))
    left, right = _at(rule.left, plan), _at(rule.right, plan)
    kind = f"join {left} with {right} on {on}" if on else f"product of {left} and {right}"
    lines = [kind, *_where(rule.where, row), f"-> {rule.head}({_list(rule.outputs, row)})"]
    lines.append(_ships(rule, plan, stratum))
    if stratum.method == "absorption":
        side, start = (rule.left, 0) if rule.probe == "left" else (rule.right, width)
        relation = plan.relations[side.relation]
        fixed = sorted({e.index - start for e in rule.outputs if isinstance(e, Col)} & set(range(relation.arity)))
        by = f", by {_names(relation, fixed)}" if fixed else ""
        lines.append(f"a lost tuple is found again in {side.relation}{by}")
    return lines


def _group(rule: GroupRule, plan: Plan, stratum: Stratum) -> list[str]:
    row = _row(rule, plan)
    entries = [_expr(e, row) for e in rule.group]
    entries += [f"{function}<{'*' if e is None else _expr(e, row)}>" for function, e in rule.aggregates]
    head = ", ".join(entries[i] for i in rule.layout)
    by = f" by {_list(rule.group, row)}" if rule.group else " as a whole"
    return [
        f"group {_at(rule.input, plan)}{by}",
        *_where(rule.where, row),
        f"-> {rule.head}({head})",
        _ships(rule, plan, stratum),
    ]


def _lookup(rule: LookupRule, plan: Plan, stratum: Stratum) -> list[str]:
    asking = plan.relations[rule.left.relation]
    inner = plan.relations[rule.inner.relation]
    keys = [asking.columns[c] for c in rule.left.key]
    row = [*keys, *(f"{inner.name}.{c}" for c in inner.columns)]
    matches = [f"{row[len(keys) + c]} = {keys[i]}" for i, c in enumerate(rule.inner.key)]
    matches += [_expr(e, row) for e in rule.where]
    value = "" if rule.value is None else " " + _expr(rule.value, row)
    asks = f"for each {', '.join(keys)} of {_at(rule.left, plan)}" if keys else "once"
    given = f" with {' and '.join(matches)}" if matches else ""
    return [
        f"lookup {asks}: {rule.function}{value} in {_at(rule.inner, plan)}{given}",
        f"-> {rule.head}({', '.join(plan.relations[rule.head].columns)})",
        _ships(rule, plan, stratum),
    ]


EXPLAIN: dict[type, Callable[[Any, Plan, Stratum], list[str]]] = {
    MapRule: _map,
    JoinRule: _join,
    GroupRule: _group,
    LookupRule: _lookup,
}
"""How each kind of rule is explained."""


# --- what is shipped -----------------------------------------------------------------------------------------


def _ships(rule: PlanRule, plan: Plan, stratum: Stratum) -> str:
    words = []
    for source in inputs_of(rule):
        relation = plan.relations[source.relation]
        if source.at == BROADCAST:
            words.append(f"ships {source.relation} to every partition")
        elif source.at != relation.partition:
            words.append(f"ships {source.relation} to {_names(relation, source.at) or 'one partition'}")
    if not isinstance(rule, LookupRule) and not _stays(rule, plan):
        head = plan.relations[rule.head]
        verb = "MinShip of" if stratum.method == "absorption" else "ships"
        words.append(f"{verb} {rule.head} to {_names(head, head.partition) or 'one partition'}")
    return "; ".join(dict.fromkeys(words)) or "nothing shipped"


def _stays(rule: MapRule | JoinRule | GroupRule, plan: Plan) -> bool:
    """Whether the head's home is the partition on which it is made."""
    partition = plan.relations[rule.head].partition
    if isinstance(rule, GroupRule):
        entries: Sequence[Expr | None] = [*rule.group, *(None for _ in rule.aggregates)]
        outputs = [entries[rule.layout[c]] for c in partition]
    else:
        outputs = [rule.outputs[c] for c in partition]
    places: list[tuple[int, ...]] = []
    start = 0
    for source in inputs_of(rule):
        if source.at != BROADCAST:
            places.append(tuple(start + c for c in source.at))
        start += plan.relations[source.relation].arity
    return any(list(place) == [e.index if isinstance(e, Col) else None for e in outputs] for place in places)


# --- words ---------------------------------------------------------------------------------------------------


def _row(rule: MapRule | JoinRule | GroupRule, plan: Plan) -> list[str]:
    """What the columns of a rule's row are called: the second copy of a relation gets a prime."""
    names: list[str] = []
    seen: set[str] = set()
    for source in inputs_of(rule):
        label = source.relation + ("'" if source.relation in seen else "")
        seen.add(source.relation)
        names += [f"{label}.{column}" for column in plan.relations[source.relation].columns]
    return names


def _at(source: Input, plan: Plan) -> str:
    relation = plan.relations[source.relation]
    if source.at == BROADCAST:
        return f"{source.relation}[everywhere]"
    if source.at == relation.partition:
        return f"{source.relation}[home]"
    return f"{source.relation}[{_by(relation, source.at)}]"


def _by(relation: RelationPlan, at: Sequence[int]) -> str:
    return f"by {_names(relation, at)}" if at else "on one partition"


def _names(relation: RelationPlan, columns: Sequence[int]) -> str:
    return ", ".join(relation.columns[c] for c in columns)


def _where(where: Sequence[Expr], row: Sequence[str]) -> list[str]:
    return [f"where {' and '.join(_expr(e, row) for e in where)}"] if where else []


def _list(expressions: Sequence[Expr], row: Sequence[str]) -> str:
    return ", ".join(_expr(e, row) for e in expressions)


def _expr(expr: Expr, row: Sequence[str], inside: bool = False) -> str:
    if isinstance(expr, Col):
        return row[expr.index]
    if isinstance(expr, Const):
        return format_value(expr.value)
    assert isinstance(expr, Apply)
    if expr.name == "list":
        return f"[{_list(expr.arguments, row)}]"
    if len(expr.arguments) != 2 or expr.name.strip("+-*/%^=!<>"):
        return f"{expr.name}({_list(expr.arguments, row)})"
    symbol = "=" if expr.name == "==" else expr.name
    text = f" {symbol} ".join(_expr(a, row, True) for a in expr.arguments)
    return f"({text})" if inside else text
