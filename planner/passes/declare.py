"""Declare the program's relations in the plan, and put the facts of its text aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from datalog.ast import HeadAggregate, Relation, Rule
from operators.expr import Col
from operators.schedule import EMPTY
from planner.draft import Draft
from planner.plan import BROADCAST, Input, MapRule, PlanRule, RelationPlan, StampRule, SyncRule
from planner.translate import Translator, as_float

__all__ = ["declare"]


def declare(draft: Draft) -> Draft:
    """Every relation of the program, with its partition columns; facts go to the relation that holds them.

    A view may have facts as well, in the text or from files: they live in a base relation `<view>#facts` that one
    more rule copies into the view. Reads with times and at points are relations that are kept; with windows, and what
    is known of the clock, they come last.

    >>> from planner.show import sketch
    >>> print(sketch(declare, "e(1, 2). r(0, 0). r(x, y) :- e(x, y)."))
    base e(x, y) by x: (1, 2)
    view r(x, y) by x
    base r#facts(x, y) by x: (0, 0)
    r :- r#facts
    """
    program = draft.program
    notes = list(draft.notes)
    relations: dict[str, RelationPlan] = {}
    facts: dict[str, list[tuple[Any, ...]]] = {}
    rules: list[PlanRule] = []
    mixed = {f.head.relation for f in program.facts} | {d.relation for d in program.directives_of("input")}
    derived = program.derived | draft.mixed
    grouped = {rule.head.relation: rule for rule in reversed(program.rules) if rule.aggregates}
    count = Counter(rule.head.relation for rule in program.rules)
    made = {*program.reads, *draft.clocks, *draft.windows}
    for name, relation in program.relations.items():
        if name in made:
            continue
        view = name in derived
        plan = _relation(relation, view, grouped)
        if name in draft.hidden:
            plan = replace(plan, kind="auxiliary")
        if name in draft.layers:
            plan = replace(plan, kind="auxiliary", layer=draft.layers[name])
        if (near := draft.tolerances.get(name)) is not None:
            key = tuple(c for c in range(plan.arity) if c not in near.columns)  # one key must stay on one partition
            kept = plan.partition if set(plan.partition) <= set(key) else key[:1]
            plan = replace(plan, tolerance=near, partition=kept)
        if plan.kind == "view" and not plan.key and count[name] == 1 and name not in mixed:
            plan = replace(plan, key=_groups(grouped[name]) if name in grouped else draft.groups.get(name, ()))
        relations[name] = plan
        if relation.partition is not None and plan.partition != relation.partition:
            used = ", ".join(plan.columns[c] for c in plan.partition)
            notes.append(f"{name} is partitioned by {used}: one of its declared partition columns is not in its key")
        if view and name in mixed:
            holder, copy = facts_of(plan)
            relations[holder.name] = holder
            rules.append(copy)
    translator = Translator(program, {}, draft.functions)
    for rule in program.facts:
        name = rule.head.relation
        holder_name = f"{name}#facts" if name in derived else name
        columns = program.relations[name].shown
        row = []
        for argument, column in zip(rule.head.arguments, columns, strict=True):
            value = translator.constant(argument, rule)
            row.append(as_float(value) if column.type == "float" else value)
        facts.setdefault(holder_name, []).append(tuple(row))
    _of_time(draft, relations, rules)
    return replace(
        draft,
        relations=relations,
        facts={name: tuple(rows) for name, rows in facts.items()},
        rules=tuple(rules),
        notes=tuple(notes),
    )


def _of_time(draft: Draft, relations: dict[str, RelationPlan], rules: list[PlanRule]) -> None:
    """Add the relations that clocks, reads and windows make, each where its input lives, and their rules."""
    program = draft.program
    for name, rule in draft.clocks.items():
        columns = tuple(c.name for c in program.relations[name].columns)
        relations[name] = RelationPlan(name, columns, ("any",), "auxiliary", ())
        rules.append(rule)
    for read in program.reads.values():
        source = relations[read.relation]
        relation = _derived(program.relations[read.name], source, "kept")
        taken = Input(source.name, source.partition)
        if read.kind == "at":
            relations[read.name] = replace(relation, bag=source.bag, weighted=source.weighted)
            events = () if read.sync in draft.schedules.keys() - draft.mixed else (Input(read.sync, BROADCAST),)
            ticks = draft.schedules.get(read.sync, EMPTY)
            text = f"{read.relation} as of the last point of {read.sync}"
            rules.append(SyncRule(read.name, read.name, taken, ticks, events, text))
        elif source.kind == "base":
            key = source.key or tuple(range(source.arity))
            relations[read.name] = replace(relation, key=key, ttl=source.ttl)
            relations[source.name] = replace(source, stamped=read.name)
        else:
            relations[read.name] = replace(relation, key=tuple(range(source.arity)))
            text = f"{read.relation} with the times of its tuples"
            rules.append(StampRule(read.name, read.name, taken, text))
    for name, window in draft.windows.items():
        source = relations[window.input.relation]
        relation = _derived(program.relations[name], source, "auxiliary")
        relations[name] = replace(relation, weighted=source.weighted)
        rules.append(replace(window, input=Input(source.name, source.partition)))


def _derived(relation: Relation, source: RelationPlan, kind: Literal["auxiliary", "kept"]) -> RelationPlan:
    """A relation that has the tuples of another one, and perhaps their times, where that lives."""
    columns = relation.columns[source.arity :]
    names = (*source.columns, *(c.name for c in columns))
    types = (*source.types, *(c.type for c in columns))
    return RelationPlan(relation.name, names, types, kind, source.partition)


def _groups(rule: Rule) -> tuple[int, ...]:
    """The columns of a head that are not aggregated: they tell its tuples apart."""
    return tuple(i for i, a in enumerate(rule.head.arguments) if not isinstance(a, HeadAggregate))


def facts_of(view: RelationPlan) -> tuple[RelationPlan, MapRule]:
    """The base relation for the facts of a view, and the rule that copies them."""
    name = f"{view.name}#facts"
    holder = RelationPlan(name, view.columns, view.types, "base", view.partition)
    outputs = tuple(Col(i) for i in range(view.arity))
    return holder, MapRule(name, view.name, Input(name, view.partition), (), outputs, f"the facts of {view.name}")


def _relation(relation: Relation, view: bool, grouped: Mapping[str, Rule]) -> RelationPlan:
    return RelationPlan(
        relation.name,
        tuple(c.name for c in relation.columns),
        tuple(c.type for c in relation.columns),
        "view" if view else "base",
        _partition(relation, grouped.get(relation.name)),
        relation.key,
        relation.ttl,
        relation.bag,
        relation.bag,
        stream=relation.stream,
    )


def _partition(relation: Relation, grouped: Rule | None) -> tuple[int, ...]:
    """The declared partition columns, else the first column; but a key, or a group, must stay on one partition.

    `grouped` is the first rule of the relation that has aggregates in its head.
    """
    if relation.key:
        wanted = relation.partition or (0,)
        return wanted if set(wanted) <= set(relation.key) else relation.key[:1]
    if relation.partition is not None:
        return relation.partition
    if grouped is not None:
        return _groups(grouped)[:1]
    return (0,) if relation.columns else ()
