"""Declare the program's relations in the plan, and put the facts of its text aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from datalog.ast import HeadAggregate, Relation, Rule
from operators.expr import Col
from planner.draft import Draft
from planner.plan import Input, MapRule, PlanRule, RelationPlan
from planner.translate import Translator, as_float

__all__ = ["declare"]


def declare(draft: Draft) -> Draft:
    """Every relation of the program, with its partition columns; facts go to the relation that holds them.

    A view may have facts as well, in the text or from files: they live in a base relation `<view>#facts` that one
    more rule copies into the view.

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
    derived = program.derived
    grouped = {rule.head.relation: rule for rule in reversed(program.rules) if rule.aggregates}
    for name, relation in program.relations.items():
        view = name in derived
        plan = _relation(relation, view, grouped)
        if name in draft.layers:
            plan = replace(plan, kind="auxiliary", layer=draft.layers[name])
        if (near := draft.tolerances.get(name)) is not None:
            key = tuple(c for c in range(plan.arity) if c not in near.columns)  # one key must stay on one partition
            kept = plan.partition if set(plan.partition) <= set(key) else key[:1]
            plan = replace(plan, tolerance=near, partition=kept)
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
        columns = program.relations[name].columns
        row = []
        for argument, column in zip(rule.head.arguments, columns, strict=True):
            value = translator.constant(argument, rule)
            row.append(as_float(value) if column.type == "float" else value)
        facts.setdefault(holder_name, []).append(tuple(row))
    return replace(
        draft,
        relations=relations,
        facts={name: tuple(rows) for name, rows in facts.items()},
        rules=tuple(rules),
        notes=tuple(notes),
    )


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
        return tuple(i for i, a in enumerate(grouped.head.arguments) if not isinstance(a, HeadAggregate))[:1]
    return (0,) if relation.columns else ()
