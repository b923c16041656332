"""Lookups inside a lookup whose variables nobody below the recursion can list.

Take `n = count : { b(y), !c(x, y) }` in a recursive rule where only the recursion binds `x`. The inner body cannot be
made a relation before the recursion: it has no `x` to ask `c` about. What can be made is, for each `y`, the list
of all rows `c(_, y)`; whether `x` is in it is then decided by a function, when the outer lookup asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from datalog.ast import Atom, Call, Comparison, Constant, Expression, Variable, variables
from operators.expr import Col, Expr
from operators.monoids import factory, of_nothing
from planner.build import Builder, Part
from planner.draft import Body, Lookup
from planner.risk import Risks
from planner.translate import Translator, evaluate

__all__ = ["ROWS", "collected", "rows"]

ROWS = "#rows"
"""The aggregate that lists the rows of a group."""


def rows(values: list[Any]) -> tuple[Any, ...]:
    """All rows of a group, with repetitions, as one value.

    >>> rows([(1, 2), (1, 2)])
    ((1, 2), (1, 2))
    """
    return tuple(values)


def collected(builder: Builder, body: Body, risks: Risks, inner: Callable[[Lookup], tuple[Part, Body]]) -> Body:
    """The body with each lookup that needs outer variables replaced by a listing of rows and a function of it.

    So is one that may fail: the function is called for the rows that are asked for, and for no others.
    """
    bound = {name for atom in body.atoms for name in variables(atom)}
    closed: list[Lookup] = []
    waiting = list(body.lookups)
    while ready := [
        n for n in waiting if all(body.roots(Variable(v)) <= bound for v in n.needs) and not risks.lookup(n)
    ]:
        closed += ready
        waiting = [n for n in waiting if n not in ready]
        bound |= {n.result for n in ready if n.result is not None}
    definitions: dict[str, Expression] = dict(body.definitions)
    guards: list[Comparison] = []
    for lookup in waiting:
        part, late = inner(lookup)
        listing, fold = _split(builder, body, risks, lookup, part, late, bound)
        closed.append(listing)
        if lookup.result is not None:
            definitions[lookup.result] = fold
        if of_nothing(lookup.function, builder.program.aggregates) is None:
            has = Call(_register(builder, _is_true), (fold,), type="number")
            guards.append(Comparison("=", has, Constant(1)))
    return replace(
        body, lookups=tuple(closed), definitions=definitions, filters=(*guards, *body.filters)
    )


def _is_true(value: Any) -> int:
    """Whether a lookup has an answer: nothing is absent, or the aggregate has a value."""
    return int(value is not None and value is not False)


def _split(
    builder: Builder, outer: Body, risks: Risks, lookup: Lookup, part: Part, late: Body, bound: set[str]
) -> tuple[Lookup, Call]:
    """The listing of the rows of `part` that may match, and what to make of them once all variables are known."""
    columns = {name: Variable(name) for name in part.variables}
    known = {n for n in lookup.needs if outer.roots(Variable(n)) <= bound and not risks.of(Variable(n))}
    inside = risks.inside(replace(lookup, body=late))
    early = tuple(f for f in late.filters if late.roots(f) <= known | columns.keys() and not inside.of(f))
    result = f"rows'{len(builder.functions) + 1}"
    listing = Lookup(
        ROWS,
        Call("list", tuple(columns.values()), type="list"),
        Body((Atom(part.relation, tuple(columns.values())),), late.definitions, (), early),
        result,
        tuple(n for n in lookup.needs if n in known),
        "list",
    )
    builder.aggregates[ROWS] = rows

    translator = Translator(builder.program, late.definitions, builder.functions)
    row: dict[str, Expr] = {n: Col(len(lookup.needs) + i) for i, n in enumerate(part.variables)}
    # a need that is also a column must be equal to it: that is how an inner row matches
    same = [(i, len(lookup.needs) + part.variables.index(n)) for i, n in enumerate(lookup.needs) if n in columns]
    row.update({n: Col(i) for i, n in enumerate(lookup.needs) if n not in columns})
    where = [translator.comparison(f, row) for f in late.filters if f not in early]
    target = None
    if lookup.target is not None and lookup.function != "count":
        target = translator.expression(lookup.target, row)
    fold = _folding(lookup.function, same, where, target, builder.program.aggregates)
    arguments = (Variable(result), *(Variable(n) for n in lookup.needs))
    return listing, Call(_register(builder, fold), arguments, type=lookup.type)


def _register(builder: Builder, function: Callable[..., Any]) -> str:
    name = f"fold'{len(builder.functions) + 1}"
    builder.functions[name] = function
    return name


def _folding(
    function: str,
    same: Sequence[tuple[int, int]],
    where: Sequence[Expr],
    target: Expr | None,
    registered: Mapping[str, Any],
) -> Callable[..., Any]:
    """A function of the listed rows and the variables that the lookup needs."""

    def fold(listed: tuple[tuple[Any, ...], ...], *needs: Any) -> Any:
        matching = [
            needs + row
            for row in listed
            if all((needs + row)[a] == (needs + row)[b] for a, b in same)
            and all(evaluate(condition, needs + row) for condition in where)
        ]
        if function == "absent":
            return not matching
        state = factory(function, registered, "any")()
        for row in matching:
            state.add(None if target is None else evaluate(target, row), 1)
        return state.result()

    return fold
