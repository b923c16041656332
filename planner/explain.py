"""A plan in words: what runs where, what is shipped, and how a lost tuple is found again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from operators.expr import Col, Expr
from planner.alike import alike, runs
from planner.explain_nested import explain_nested
from planner.explain_sharing import explain_sharing
from planner.homomorphism import Homomorphism, homomorphisms
from planner.passes.stratify import inputs_of
from planner.plan import (
    BROADCAST,
    ClockRule,
    GroupRule,
    JoinRule,
    LineageRule,
    LookupRule,
    MapRule,
    NestedRule,
    Plan,
    PlanRule,
    RelationPlan,
    StampRule,
    Stratum,
    SyncRule,
    WindowRule,
)
from planner.words import aggregated, at, by, conditions, expression, listed, names, row_of, schedule_words

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
    parts = ["\n".join(["relations", *_relations(plan)])]
    found = homomorphisms(plan)
    for text, same in alike((s.relations[0], _stratum(s, plan, found)) for s in plan.strata):
        title, _, rest = text.partition("\n")
        parts.append(f"{title}, and the same for {runs(same)}\n{rest}" if same else text)
    if plan.sharing:
        parts.append("\n".join(explain_sharing(plan)))
    if plan.notes:
        parts.append("\n".join(["notes", *(f"  {note}" for note in plan.notes)]))
    return "\n\n".join(parts)


def _relations(plan: Plan) -> list[str]:
    told = alike((name, _relation(r, plan)) for name, r in plan.relations.items())
    return [f"  {text}" + (f"; the same for {runs(same)}" if same else "") for text, same in told]


def _relation(relation: RelationPlan, plan: Plan) -> str:
    words = [f"{relation.kind} {relation.name}({', '.join(relation.columns)})", by(relation, relation.partition)]
    if relation.key and relation.kind != "view":
        words.append(f"key {names(relation, relation.key)}")
    if relation.ttl is not None:
        words.append(f"ttl {relation.ttl:g}")
    if relation.stream:
        words.append("stream")
    elif relation.bag:
        words.append("bag")
    elif relation.weighted:
        words.append("counts its bindings")
    if relation.stamped:
        words.append(f"its times are in {relation.stamped}")
    if relation.until:
        words.append("forgets what has left all windows")
    if relation.name in plan.outputs:
        words.append("output")
    if relation.selection is not None:
        words.append("of which only the best tuples are kept")
    if relation.tolerance is not None:
        words.append(f"{names(relation, relation.tolerance.columns)} within {relation.tolerance.threshold:g}")
    if count := len(plan.facts.get(relation.name, ())):
        words.append(f"{count} fact{'s' if count > 1 else ''} in the program")
    return f"{words[0]} {', '.join(words[1:])}"


def _stratum(stratum: Stratum, plan: Plan, found: Mapping[str, Homomorphism]) -> str:
    lines = [f"stratum {stratum.index + 1}: {', '.join(stratum.relations)}", f"  {_method(stratum, plan)}"]
    for name in stratum.relations:
        relation = plan.relations[name]
        if relation.selection is not None:
            best = ", ".join(f"{function} {relation.columns[c]}" for c, function in relation.selection.values)
            group = names(relation, relation.selection.group)
            strict = ", strictly" if relation.selection.strict else ""
            lines.append(f"  + AggSel in {name}: {best}" + (f" by {group}" if group else "") + strict)
    if stratum.inputs:
        lines.append(f"  reads {runs(stratum.inputs)}")
    layers = [r for r in stratum.rules if _is_layer(r, plan)]
    if layers:
        lines += ["", f"  the layers of {layers[0].head}: {runs(i.relation for r in layers for i in inputs_of(r))}"]
    for rule in (r for r in stratum.rules if not _is_layer(r, plan)):
        *told, ships = EXPLAIN[type(rule)](rule, plan, stratum)
        inferred = found[rule.id].lines() if rule.id in found else []
        lines += ["", f"  {_title(rule, plan)}", *(f"    {line}" for line in (*told, *inferred, ships))]
    return "\n".join(lines)


def _is_layer(rule: PlanRule, plan: Plan) -> bool:
    """Whether a rule puts a layer into the relation that it is a layer of."""
    layer = plan.relations[rule.input.relation].layer if isinstance(rule, MapRule) else None
    return layer is not None and layer.relation == rule.head


def _title(rule: PlanRule, plan: Plan) -> str:
    """The rule as it stands in the program; a step on the way to it is only named."""
    if isinstance(rule, (SyncRule, StampRule, WindowRule, ClockRule)):
        return rule.text
    head = plan.relations[rule.head]
    if head.kind == "auxiliary" and head.layer is None and "/" in head.name:
        return f"a step of {rule.head.rpartition('.')[0]}"
    return f"{rule.id}: {' '.join(rule.text.split())}"


def _method(stratum: Stratum, plan: Plan) -> str:
    if stratum.method == "absorption":
        return "recursive: Fixpoint with absorption provenance"
    if stratum.method == "kept":
        return "kept from one point to the next"
    if all(isinstance(rule, (WindowRule, ClockRule)) for rule in stratum.rules):
        return "a window" if isinstance(stratum.rules[0], WindowRule) else "the clock"
    if all(isinstance(rule, LookupRule) for rule in stratum.rules):
        return "lookup: one answer for each key that is asked for"
    if all(isinstance(rule, NestedRule) for rule in stratum.rules):
        return "nested aggregates: an index over what is compared"
    if any(isinstance(rule, (GroupRule, LineageRule)) for rule in stratum.rules):
        return "group by" if len(stratum.rules) == 1 else "group by, and counting"
    return "counting"


# --- rules ---------------------------------------------------------------------------------------------------


def _map(rule: MapRule, plan: Plan, stratum: Stratum) -> list[str]:
    row = row_of(rule, plan)
    head = f"-> {rule.head}({listed(rule.outputs, row)})"
    return [f"map {at(rule.input, plan)}", *conditions(rule.where, row), head, _ships(rule, plan, stratum)]


def _join(rule: JoinRule, plan: Plan, stratum: Stratum) -> list[str]:
    row = row_of(rule, plan)
    lines = [_met(rule, plan), *conditions(rule.where, row), f"-> {rule.head}({listed(rule.outputs, row)})"]
    lines.append(_ships(rule, plan, stratum))
    if stratum.method == "absorption":
        width = plan.relations[rule.left.relation].arity
        side, start = (rule.left, 0) if rule.probe == "left" else (rule.right, width)
        relation = plan.relations[side.relation]
        fixed = sorted({e.index - start for e in rule.outputs if isinstance(e, Col)} & set(range(relation.arity)))
        where = f", by {names(relation, fixed)}" if fixed else ""
        lines.append(f"a lost tuple is found again in {side.relation}{where}")
    return lines


def _met(rule: JoinRule | LineageRule, plan: Plan) -> str:
    """How two sides meet."""
    row = row_of(rule, plan)
    width = plan.relations[rule.left.relation].arity
    on = " and ".join(f"{row[a]} = {row[width + b]}" for a, b in zip(rule.left.key, rule.right.key, strict=True))
    left, right = at(rule.left, plan), at(rule.right, plan)
    return f"join {left} with {right} on {on}" if on else f"product of {left} and {right}"


def _group(rule: GroupRule | LineageRule, plan: Plan, stratum: Stratum) -> list[str]:
    row = row_of(rule, plan)
    entries = [expression(e, row) for e in rule.group]
    for name, argument in rule.aggregates:
        function, parameter = aggregated(name)
        entries.append(f"{function}<{'*' if argument is None else expression(argument, row)}{parameter}>")
    head = ", ".join(entries[i] for i in rule.layout)
    grouped = f" by {listed(rule.group, row)}" if rule.group else " as a whole"
    told = conditions(rule.where, row)
    if isinstance(rule, GroupRule):
        source = f"group {at(rule.input, plan)}{grouped}"
        told += conditions(rule.having, plan.relations[rule.head].columns, "having")
    else:
        source = f"{_met(rule, plan)}, in partial sums, and group{grouped}"
    return [source, *told, f"-> {rule.head}({head})", _ships(rule, plan, stratum)]


def _lookup(rule: LookupRule, plan: Plan, stratum: Stratum) -> list[str]:
    asking = plan.relations[rule.left.relation]
    inner = plan.relations[rule.inner.relation]
    keys = [asking.columns[c] for c in rule.left.key]
    row = [*keys, *(f"{inner.name}.{c}" for c in inner.columns)]
    matches = [f"{row[len(keys) + c]} = {keys[i]}" for i, c in enumerate(rule.inner.key)]
    matches += [expression(e, row) for e in rule.where]
    function, parameter = aggregated(rule.function)
    value = "" if rule.value is None else f" {expression(rule.value, row)}{parameter}"
    asks = f"for each {', '.join(keys)} of {at(rule.left, plan)}" if keys else "once"
    given = f" with {' and '.join(matches)}" if matches else ""
    return [
        f"lookup {asks}: {function}{value} in {at(rule.inner, plan)}{given}",
        f"-> {rule.head}({', '.join(plan.relations[rule.head].columns)})",
        _ships(rule, plan, stratum),
    ]


def _synchronised(rule: SyncRule, plan: Plan, stratum: Stratum) -> list[str]:
    points = [schedule_words(rule.ticks)] if rule.ticks.parts else []
    points += [f"each tuple of {at(event, plan)}" for event in rule.events]
    return [f"keep {at(rule.input, plan)} as it is at each point: {', '.join(points)}", _ships(rule, plan, stratum)]


def _stamped(rule: StampRule, plan: Plan, stratum: Stratum) -> list[str]:
    return [f"keep {at(rule.input, plan)} with the time at which each tuple came", _ships(rule, plan, stratum)]


def _window(rule: WindowRule, plan: Plan, stratum: Stratum) -> list[str]:
    what = "" if rule.ticks is None else f", where now is the last point of {schedule_words(rule.ticks)}"
    queue = f"keep what {at(rule.input, plan)} has while the conditions hold: a queue by time{what}"
    return [queue, _ships(rule, plan, stratum)]


def _clock(rule: ClockRule, plan: Plan, stratum: Stratum) -> list[str]:
    points = schedule_words(rule.ticks)
    told = {"now": "where the clock stands", "last": f"the last point of {points}", "all": f"{points}, as it passes"}
    return [told[rule.what], _ships(rule, plan, stratum)]


def _nested(rule: NestedRule, plan: Plan, stratum: Stratum) -> list[str]:
    return [*explain_nested(rule, plan), _ships(rule, plan, stratum)]


EXPLAIN: dict[type, Callable[[Any, Plan, Stratum], list[str]]] = {
    MapRule: _map,
    JoinRule: _join,
    GroupRule: _group,
    LineageRule: _group,
    LookupRule: _lookup,
    NestedRule: _nested,
    SyncRule: _synchronised,
    StampRule: _stamped,
    WindowRule: _window,
    ClockRule: _clock,
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
            words.append(f"ships {source.relation} to {names(relation, source.at) or 'one partition'}")
    if isinstance(rule, (MapRule, JoinRule, GroupRule, LineageRule)) and not _stays(rule, plan):
        head = plan.relations[rule.head]
        verb = "MinShip of" if stratum.method == "absorption" else "ships"
        words.append(f"{verb} {rule.head} to {names(head, head.partition) or 'one partition'}")
    return "; ".join(dict.fromkeys(words)) or "nothing shipped"


def _stays(rule: MapRule | JoinRule | GroupRule | LineageRule, plan: Plan) -> bool:
    """Whether the head's home is the partition on which it is made."""
    partition = plan.relations[rule.head].partition
    if isinstance(rule, (GroupRule, LineageRule)):
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
