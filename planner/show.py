"""Drafts as short text: what the doctests of the passes print."""

from __future__ import annotations

from collections.abc import Callable

import datalog
from datalog.ast import Variable
from datalog.format import format_expression, format_literal, format_rule, format_value
from planner.draft import Body, Clause, Draft, Lookup
from planner.passes.stratify import inputs_of
from planner.plan import BROADCAST, GroupRule, Input, JoinRule, LookupRule, PlanRule
from planner.words import conditions

__all__ = ["before_and_after", "draft_of", "notes", "sketch"]

Pass = Callable[[Draft], Draft]


def draft_of(text: str, until: Pass | None = None) -> Draft:
    """The draft of a program as it is before the pass `until`, or after all of them."""
    from planner.passes import PASSES

    draft = Draft.start(datalog.check(datalog.parse(text)))
    for step in PASSES:
        if step is until:
            break
        draft = step(draft)
    return draft


def before_and_after(step: Pass, text: str) -> None:
    """Print what a pass changes, before and after it: the rules of the program, or else those of the plan."""
    before = draft_of(text, step)
    after = step(before)
    if before.clauses != after.clauses:
        for draft in (before, after):
            print(*map(_clause, draft.clauses), sep="\n")
        return
    for draft in (before, after):
        if draft.strata and not before.strata:
            print(*(f"{s.index + 1}. {s.method}: {', '.join(s.relations)}" for s in draft.strata), sep="\n")
        elif draft.rules:
            print(*(_rule(r, draft, bool(before.strata) and draft is after) for r in draft.rules), sep="\n")
        else:
            print(*map(_clause, draft.clauses), sep="\n")


def sketch(step: Pass, text: str) -> str:
    """The relations, facts and plan rules after a pass."""
    draft = step(draft_of(text, step))
    lines = []
    for r in draft.relations.values():
        rows = ", ".join("(" + ", ".join(map(format_value, row)) + ")" for row in draft.facts.get(r.name, ()))
        by = "".join(f" by {r.columns[c]}" for c in r.partition)
        lines.append(f"{r.kind} {r.name}({', '.join(r.columns)}){by}" + (f": {rows}" if rows else ""))
    return "\n".join([*lines, *(_rule(r, draft, False) for r in draft.rules)])


def notes(text: str) -> None:
    """Print the selections that were pushed into a program, and the notes."""
    draft = draft_of(text)
    for r in draft.relations.values():
        if r.selection is not None:
            values = ", ".join(f"{function} {r.columns[c]}" for c, function in r.selection.values)
            print(f"{r.name}: {values} by {', '.join(r.columns[c] for c in r.selection.group)}")
    for note in draft.notes:
        print(note)


def _clause(clause: Clause) -> str:
    if clause.body is None:
        return format_rule(clause.rule)
    head = format_rule(clause.rule).split(" :- ")[0].removesuffix(".")
    return f"{head} :- {_body(clause.body)}."


def _body(body: Body) -> str:
    parts = [format_literal(a) for a in body.atoms]
    parts += [f"{name} := {format_expression(e)}" for name, e in body.definitions.items()]
    parts += [_lookup(x) for x in body.lookups]
    parts += [format_literal(f) for f in body.filters]
    return ", ".join(parts)


def _lookup(lookup: Lookup) -> str:
    target = "" if lookup.target is None else " " + format_expression(lookup.target)
    result = "" if lookup.result is None else format_expression(Variable(lookup.result)) + " := "
    return f"{result}{lookup.function}{target} {{ {_body(lookup.body)} }}"


def _rule(rule: PlanRule, draft: Draft, placed: bool) -> str:
    inputs = [i.relation + (_at(i, draft) if placed else "") for i in inputs_of(rule)]
    probe = ""
    if placed and isinstance(rule, JoinRule):
        probe = f", probe {rule.left.relation if rule.probe == 'left' else rule.right.relation}"
    function = f" {rule.function}" if isinstance(rule, LookupRule) else ""
    having = rule.having if isinstance(rule, GroupRule) else ()
    passing = conditions(having, draft.relations[rule.head].columns, "having")
    return " ".join([f"{rule.head} :-{function} {', '.join(inputs)}{probe}", *passing])


def _at(source: Input, draft: Draft) -> str:
    relation = draft.relations[source.relation]
    if source.at == BROADCAST:
        return "[everywhere]"
    if source.at == relation.partition:
        return "[home]"
    return f"[by {', '.join(relation.columns[c] for c in source.at)}]"
