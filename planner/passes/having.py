"""Let a condition on an aggregate of the very rows that a head aggregates be a condition on groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf

from msgspec.structs import replace

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Expression,
    HeadAggregate,
    Literal,
    Relation,
    Rule,
    Variable,
    expressions,
    variables,
)
from planner.draft import Clause, Draft, components
from planner.plan import RelationPlan
from planner.rewrite import fresh_after, outside, substitute

__all__ = ["having"]

CHECKED = "checked'"
SAFE = {"count", "min", "max", "avg", "sum"}
"""Aggregates that cannot fail, but for the range of a sum of whole numbers."""


def having(draft: Draft) -> Draft:
    """Rows that are aggregated twice, in the head and in a condition, are grouped once, in an auxiliary of groups.

    That is so where all other variables of the body stand in the head, so that each of its groups is one group of
    these rows, and where no other aggregate is compared, which takes an index. Groups that nobody reads must not fail:
    so it is columns that are aggregated, and whether a sum is in the range of a number is looked at where it is read.

    >>> from planner.show import before_and_after
    >>> before_and_after(having, '''.decl order(o: number, c: symbol)
    ... .decl line(o: number, x: number)
    ... q(o, c, sum<x>) :- order(o, c), line(o, x), v = sum y : { line(o, y) }, v > 9.''')
    q(o, c, sum<x>) :- order(o, c), line(o, x), v = sum y'1 : { line(o, y'1) }, v > 9.
    q/1.groups(o, sum'<x>) :- line(o, x).
    q(o, c, checked'(v)) :- order(o, c), q/1.groups(o, v), v > 9.
    """
    if not any(clause.rule.aggregates for clause in draft.clauses):
        return draft
    recursive = components(draft.program)
    notes = list(draft.notes)
    known = dict(draft.program.relations)
    planned = dict(draft.relations)
    clauses: list[Clause] = []
    for clause in draft.clauses:
        name = clause.rule.head.relation
        exempt = name in recursive or name in draft.tolerances or name in draft.layers
        found = None if exempt or not clause.rule.aggregates else _grouped(clause, known)
        if found is not None:
            relation, groups, clause = found
            known[relation.name] = relation
            columns, types = tuple(c.name for c in relation.columns), tuple(c.type for c in relation.columns)
            planned[relation.name] = RelationPlan(relation.name, columns, types, "auxiliary", (0,))
            clauses.append(groups)
            notes.append(f"{clause.id}: what it aggregates is compared too: grouped once, as {relation.name}")
        clauses.append(clause)
    if len(clauses) == len(draft.clauses):
        return draft
    rules = (*draft.program.facts, *(clause.rule for clause in clauses))
    program = replace(draft.program, rules=rules, relations=known)
    functions = {**draft.functions, CHECKED: _checked}
    return replace(
        draft, program=program, clauses=tuple(clauses), relations=planned, functions=functions, notes=tuple(notes)
    )


def _checked(total: int | float) -> int | float:
    """A sum that is read (`operators.monoids.linear.Total`)."""
    if isinf(total):
        raise OverflowError("overflow: the sum is outside the range of a number")
    return total


def _grouped(clause: Clause, relations: Mapping[str, Relation]) -> tuple[Relation, Clause, Clause] | None:
    """The auxiliary, its rule, and the rule that reads it; None if it cannot be so."""
    for atom in clause.rule.body:
        if isinstance(atom, Atom) and len(names := _names(atom)) == len(atom.arguments):
            rows = _rows(clause.rule, atom, names)
            if rows.results and _apart(rows) and _once(rows, relations) and _safe(rows, relations):
                return _split(clause, rows, relations)
    return None


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one atom of a rule, grouped by some of its variables, the `keys`.

    `results`: of the aggregates in the body over just these rows, what they are called and what they would be in the
    head. `rest`: the body without the atom and them.
    """

    rule: Rule
    atom: Atom
    keys: tuple[str, ...]
    results: Mapping[str, HeadAggregate]
    rest: tuple[Literal, ...]

    @property
    def own(self) -> set[str]:
        """The variables that are only there to be aggregated."""
        return set(variables(self.atom)) - set(self.keys)


def _rows(rule: Rule, atom: Atom, names: list[str]) -> _Rows:
    """The rows of an atom with these variables, and the aggregates over them that have the same keys."""
    around = {name for literal in rule.body for name in outside(literal)}
    keys: tuple[str, ...] = ()
    results: dict[str, HeadAggregate] = {}
    rest: list[Literal] = []
    for literal in rule.body:
        node = literal.right if isinstance(literal, Comparison) else None
        if isinstance(node, Aggregate):
            (inner, *more) = node.body
            others = _names(inner) if isinstance(inner, Atom) and inner.relation == atom.relation else []
            pairs = list(zip(names, others, strict=False))
            by = tuple(a for a, b in pairs if a == b)
            local: dict[str, Expression] = {b: Variable(a) for a, b in pairs if a != b}
            if not more and len(others) == len(names) and by == (keys or by) != () and not local.keys() & around:
                (result,) = variables(literal.left)  # type: ignore[union-attr]
                keys = by
                results[result] = HeadAggregate(node.function, substitute(node.target, local), node.span, node.type)
                continue
        if literal is not atom:
            rest.append(literal)
    return _Rows(rule, atom, keys, results, tuple(rest))


def _apart(rows: _Rows) -> bool:
    """Whether these aggregates are all there are, and they read just these rows, of which nobody else reads more."""
    if any(isinstance(e, Aggregate) for literal in rows.rest for e in expressions(literal)):
        return False
    plain = [a for a in rows.rule.head.arguments if not isinstance(a, HeadAggregate)]
    elsewhere = {name for node in (*plain, *rows.rest) for name in variables(node)}
    joined = {name for x in rows.rest if isinstance(x, Atom) for name in variables(x)}
    read = {name for a in (*rows.rule.aggregates, *rows.results.values()) for name in variables(a)}
    inside = set(variables(rows.atom))
    return read <= inside and not rows.own & elsewhere and not rows.results.keys() & (joined | inside)


def _once(rows: _Rows, relations: Mapping[str, Relation]) -> bool:
    """Whether a group of the head has these rows once: it tells all that the rest of the body binds."""
    told = {a.name for a in rows.rule.head.arguments if isinstance(a, Variable)}
    atoms = [x for x in rows.rest if isinstance(x, Atom)]
    bound = {name for atom in atoms for name in variables(atom)} | {*rows.keys}
    return bound <= told and not any(relations[atom.relation].bag for atom in atoms)


def _safe(rows: _Rows, relations: Mapping[str, Relation]) -> bool:
    """Whether the types of all results are known, and neither a result nor a condition on it can fail."""
    head = rows.rule.head
    if any(isinstance(e, Call) for x in rows.rest if rows.results.keys() & {*variables(x)} for e in expressions(x)):
        return False
    columns = zip(head.arguments, relations[head.relation].columns, strict=True)
    results = [(a, column.type) for a, column in columns if isinstance(a, HeadAggregate)]
    results += [(a, a.type or "any") for a in rows.results.values()]
    return all(
        a.function in SAFE and kind != "any" and isinstance(a.target, Variable | None)
        and (a.function != "sum" or (a.type == kind == "number"))
        for a, kind in results
    )  # fmt: skip


def _split(clause: Clause, rows: _Rows, relations: Mapping[str, Relation]) -> tuple[Relation, Clause, Clause]:
    """The auxiliary, its rule, and the rule that reads it."""
    rule, name = rows.rule, f"{clause.id}.groups"
    types = {a.name: c for a, c in zip(rows.atom.arguments, relations[rows.atom.relation].columns, strict=True)}
    columns = {key: replace(types[key], name=key) for key in rows.keys}
    columns |= {result: Column(result, a.type or "any") for result, a in rows.results.items()}
    results = dict(rows.results)
    arguments = list(rule.head.arguments)
    fresh = fresh_after(rule)
    for i, node in enumerate(arguments):
        if isinstance(node, HeadAggregate):
            kind = relations[rule.head.relation].columns[i].type
            known = next((r for r, a in results.items() if _alike(a, node) and columns[r].type == kind), None)
            if known is None:
                known = fresh(node.function.partition("(")[0])
                results[known], columns[known] = node, Column(known, kind)
            arguments[i] = Variable(known, node.span)
    keys = tuple(map(Variable, rows.keys))
    whole = [replace(a, function="sum'") if a.function == "sum" else a for a in results.values()]
    made = Rule(Atom(name, (*keys, *whole)), (rows.atom,), rule.span, rule.text)
    read = Atom(name, (*keys, *map(Variable, results)), rows.atom.span)
    sums = {r: Call(CHECKED, (Variable(r),), type="number") for r, a in results.items() if a.function == "sum"}
    head = replace(rule.head, arguments=substitute(tuple(arguments), sums))
    body = tuple(read if x is rows.atom else x for x in rule.body if x is rows.atom or any(x is y for y in rows.rest))
    new = replace(clause, rule=replace(rule, head=head, body=body))
    return Relation(name, tuple(columns.values())), Clause(name, made), new


def _alike(one: HeadAggregate, other: HeadAggregate) -> bool:
    return one.function == other.function and (one.function == "count" or one.target == other.target)


def _names(atom: Atom) -> list[str]:
    """The variables among the arguments of an atom, each once."""
    return list(dict.fromkeys(a.name for a in atom.arguments if isinstance(a, Variable)))
