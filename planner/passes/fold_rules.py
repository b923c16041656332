"""Evaluate the rules that read no relation: their heads are facts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from datalog.ast import Constant
from planner.draft import Clause, Draft
from planner.passes.declare import facts_of
from planner.translate import Translator, as_float

__all__ = ["fold_rules"]


def fold_rules(draft: Draft) -> Draft:
    """A rule whose body is only comparisons becomes a fact of its view, or nothing.

    >>> from planner.show import sketch
    >>> print(sketch(fold_rules, "r(x) :- x = 1 + 2, x < 9. r(x) :- x = 4, x > 9."))
    view r(x) by x
    base r#facts(x) by x: (3)
    r :- r#facts
    """
    relations, facts, rules = dict(draft.relations), dict(draft.facts), list(draft.rules)
    rest = []
    for clause in draft.clauses:
        body = clause.normal
        if body.atoms or body.lookups or clause.rule.aggregates:
            rest.append(clause)
            continue
        view = relations[clause.rule.head.relation]
        holder, copy = facts_of(view)
        if holder.name not in relations:
            relations[holder.name] = holder
            rules.append(copy)
        row = _evaluate(draft, clause)
        known = facts.setdefault(holder.name, ())
        if row is not None and row not in known:
            facts[holder.name] = (*known, row)
    return replace(draft, clauses=tuple(rest), relations=relations, facts=facts, rules=tuple(rules))


def _evaluate(draft: Draft, clause: Clause) -> tuple[Any, ...] | None:
    translator = Translator(draft.program, clause.normal.definitions, draft.functions)
    for condition in clause.normal.filters:
        left = Constant(translator.constant(condition.left, clause.rule))
        right = Constant(translator.constant(condition.right, clause.rule))
        if not translator.holds(replace(condition, left=left, right=right), clause.rule):
            return None
    columns = draft.program.relations[clause.rule.head.relation].columns
    row = [translator.constant(argument, clause.rule) for argument in clause.rule.head.arguments]
    return tuple(as_float(v) if c.type == "float" else v for v, c in zip(row, columns, strict=True))
