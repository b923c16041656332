"""Which comparisons with nested aggregates an index can keep, and how: the patterns of `planner.plan.NestedRule`.

A comparison has two sides. An *uncorrelated* aggregate is the same for every row of the body; a *correlated* one reads
variables of the body. Recognised is a comparison where one side differs from row to row and the other does not (or only
from kind to kind), in one of three ways:

- the one side is made of one correlated aggregate, whose rows are tied to the outer row by equations alone: all rows of
  a kind pass together (`answer`);
- the one side is made of columns of the outer row, the other of aggregates that are uncorrelated, or tied to the outer
  row by equations (`value`);
- the one side is made of one sum or count, whose rows are tied to the outer row by one inequality `q <= k` (and by any
  number of equations), and goes one way with it (`sum`).

Other comparisons of such aggregates are tried for each distinct row (`each`), and whatever else there is runs as
lookups: an answer for every key that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from datalog.ast import Comparison, Expression, Variable, variables
from operators.monoids import parameter_of
from planner.draft import Body, Lookup
from planner.monotone import growth
from planner.rewrite import substitute
from planner.translate import Translator

__all__ = ["Pattern", "Refusal", "Ties", "recognise", "recognise_each"]

NUMERIC = ("number", "unsigned", "float")
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class Refusal(Exception):
    """Why a comparison is left to the general algorithm."""


@dataclass(frozen=True, slots=True)
class Ties:
    """What ties the inner rows of an aggregate to an outer row.

    `equal`: pairs of an outer and an inner expression. `order`: `(q, op, k)`, with q inner and k outer.
    """

    equal: tuple[tuple[Expression, Expression], ...]
    order: tuple[Expression, str, Expression] | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A recognised comparison: `compared op threshold`.

    `key`: what is computed from the outer row, the value that is compared or the key of a running sum. `falls`: the
    compared side shrinks when the sum grows. `asked`, `columns` (of the outer row) and `reason` are for comparisons
    whose rows are tried one by one.
    """

    comparison: Comparison
    method: Literal["answer", "value", "sum", "each"]
    lookup: Lookup | None
    ties: Ties
    scalars: tuple[Lookup, ...]
    key: Expression | None
    compared: Expression
    op: str
    threshold: Expression
    falls: bool
    asked: tuple[tuple[Lookup, Ties], ...] = ()
    columns: tuple[str, ...] = ()
    reason: str = ""

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """All aggregates that are compared."""
        one = () if self.lookup is None else (self.lookup,)
        return (*one, *(lookup for lookup, _ in self.asked), *self.scalars)

    def outer(self, body: Body) -> set[str]:
        """The variables of the outer row that are read."""
        nodes: list[Expression] = [Variable(name) for name in self.columns]
        for ties in (self.ties, *(ties for _, ties in self.asked)):
            nodes += [one for one, _ in ties.equal]
            if ties.order is not None:
                nodes.append(ties.order[2])
        if self.key is not None:
            nodes.append(self.key)
        return {root for node in nodes for root in body.roots(node)}


def recognise(
    comparison: Comparison, body: Body, lookups: Iterable[Lookup], translator: Translator, types: Mapping[str, str]
) -> Pattern | None:
    """The pattern of a comparison in a body; None if no aggregate is in it, or no row. Raises `Refusal`.

    `types` are those of the variables that atoms bind.
    """
    results = {lookup.result: lookup for lookup in lookups if lookup.result is not None}
    sides = [(node, body.roots(node)) for node in (comparison.left, comparison.right)]
    used = {name for _, roots in sides for name in roots if name in results}
    correlated = [name for name in sorted(used) if results[name].needs]
    rows = [roots - results.keys() for _, roots in sides]
    if not used or not (correlated or rows[0] or rows[1]):
        return None
    if comparison.op not in MIRRORED:
        raise Refusal("what differs from a threshold is no range")
    if len(correlated) > 1:
        both = all(roots.intersection(correlated) for _, roots in sides)
        raise Refusal("both sides are correlated" if both else "a side has two correlated aggregates")
    # the side that differs from row to row goes left
    moving = {*correlated} if correlated and not (rows[0] or rows[1]) else {*rows[0], *rows[1]}
    on = [bool(roots & moving) for _, roots in sides]
    if all(on):
        raise Refusal("both sides differ from row to row")
    (compared, own), (threshold, other) = sides if on[0] else reversed(sides)
    op = comparison.op if on[0] else MIRRORED[comparison.op]
    if own & results.keys() - moving:
        raise Refusal("an aggregate stands on the side of what differs from row to row")
    scalars = tuple(results[name] for name in sorted(other & results.keys()) if not results[name].needs)
    for lookup in scalars:
        _closed(lookup)
    if not correlated:
        return _value(comparison, None, Ties((), None), scalars, compared, op, threshold, translator, types)
    lookup = results[correlated[0]]
    ties = _ties(lookup)
    if rows[0] or rows[1]:
        if ties.order is not None:
            raise Refusal("a running sum is compared with columns")
        return _value(comparison, lookup, ties, scalars, compared, op, threshold, translator, types)
    if ties.order is None:
        if op != "=" and translator.type(compared, {correlated[0]: lookup.type}) not in NUMERIC:
            raise Refusal("it is not known that numbers are compared")
        return Pattern(comparison, "answer", lookup, ties, scalars, None, compared, op, threshold, False)
    return _sum(comparison, lookup, ties, scalars, compared, op, threshold, body, translator, types)


def recognise_each(
    comparison: Comparison,
    body: Body,
    lookups: Iterable[Lookup],
    translator: Translator,
    types: Mapping[str, str],
    reason: str,
) -> Pattern:
    """The pattern of a comparison that is no range: its distinct rows can be tried together. Raises `Refusal`.

    That pays where a change concerns many rows at once: through a running sum, or through an aggregate of all rows.
    """
    results = {lookup.result: lookup for lookup in lookups if lookup.result is not None}
    roots = body.roots(comparison)
    used = [results[name] for name in sorted(roots & results.keys())]
    scalars = tuple(lookup for lookup in used if not lookup.needs)
    asked = tuple((lookup, _ties(lookup)) for lookup in used if lookup.needs)
    for lookup in scalars:
        _closed(lookup)
    for lookup, ties in asked:
        if ties.order is not None:
            _numbers(lookup, ties, translator, types)
    if not scalars and all(ties.order is None for _, ties in asked):
        raise Refusal(reason)
    columns = tuple(sorted(roots - results.keys()))
    return Pattern(
        comparison,
        "each",
        None,
        Ties((), None),
        scalars,
        None,
        comparison.left,
        comparison.op,
        comparison.right,
        False,
        asked,
        columns,
        reason,
    )


def _value(
    comparison: Comparison,
    lookup: Lookup | None,
    ties: Ties,
    scalars: tuple[Lookup, ...],
    compared: Expression,
    op: str,
    threshold: Expression,
    translator: Translator,
    types: Mapping[str, str],
) -> Pattern:
    if op != "=" and translator.type(compared, types) not in NUMERIC:
        raise Refusal("it is not known that numbers are compared")
    return Pattern(comparison, "value", lookup, ties, scalars, compared, compared, op, threshold, False)


def _sum(
    comparison: Comparison,
    lookup: Lookup,
    ties: Ties,
    scalars: tuple[Lookup, ...],
    compared: Expression,
    op: str,
    threshold: Expression,
    body: Body,
    translator: Translator,
    types: Mapping[str, str],
) -> Pattern:
    assert ties.order is not None and lookup.result is not None
    _numbers(lookup, ties, translator, types)
    grows = growth(compared, lookup.result, (), body.definitions)
    if not grows:
        raise Refusal("the compared side may go up and down with the sum")
    key = ties.order[2]
    return Pattern(comparison, "sum", lookup, ties, scalars, key, compared, op, threshold, grows < 0)


def _numbers(lookup: Lookup, ties: Ties, translator: Translator, types: Mapping[str, str]) -> None:
    """Refuse what is no running sum of numbers along numbers."""
    assert ties.order is not None
    q, _, k = ties.order
    if lookup.function not in ("sum", "count"):
        raise Refusal(f"the {parameter_of(lookup.function)[0]} of the rows up to a key is no running sum")
    inner = Translator(translator.program, lookup.body.definitions, translator.functions)
    bound = _types(lookup.body, translator)
    kinds = [translator.type(k, types), inner.type(q, bound), lookup.type]
    if lookup.function == "sum" and inner.type(lookup.target, bound) != lookup.type:
        kinds.append("any")
    if not set(kinds) <= set(NUMERIC):
        raise Refusal("it is not known that numbers are summed up and compared: declare the relation")


def _types(body: Body, translator: Translator) -> dict[str, str]:
    """The types of the variables that the atoms of a body bind."""
    types: dict[str, str] = {}
    for atom in body.atoms:
        for argument, column in zip(atom.arguments, translator.program.relations[atom.relation].columns, strict=True):
            types[argument.name] = column.type
    for lookup in body.lookups:
        if lookup.result is not None:
            types[lookup.result] = lookup.type
    return types


def _closed(lookup: Lookup) -> set[str]:
    """The variables that an aggregate's own body binds. Refused if an aggregate inside reads the rows around it."""
    body = lookup.body
    if not body.atoms and not body.lookups:
        raise Refusal("an aggregate reads no relation")
    inside = {name for atom in body.atoms for name in variables(atom)}
    for nested in body.lookups:
        if not {root for need in nested.needs for root in body.roots(Variable(need))} <= inside:
            raise Refusal("an aggregate inside an aggregate is correlated with the outermost row")
        if nested.result is not None:
            inside = inside | {nested.result}
    return inside


def _ties(lookup: Lookup) -> Ties:
    """What ties the rows of a correlated aggregate to the outer row."""
    body, inside = lookup.body, _closed(lookup)
    equal: list[tuple[Expression, Expression]] = [
        (Variable(name), Variable(name)) for name in lookup.needs if name in inside
    ]
    outside = set(lookup.needs) - inside
    if lookup.target is not None and lookup.function != "count" and body.roots(lookup.target) & outside:
        raise Refusal("what is aggregated depends on the outer row")
    order: tuple[Expression, str, Expression] | None = None
    for condition in body.filters:
        roots = [body.roots(side) for side in (condition.left, condition.right)]
        if not (roots[0] | roots[1]) & outside:
            continue
        if all(r & outside for r in roots) or any(r & outside and r & inside for r in roots):
            raise Refusal("a condition of the aggregate mixes inner and outer columns on one side")
        inner_left = not roots[0] & outside
        q, k = (condition.left, condition.right) if inner_left else (condition.right, condition.left)
        while set(variables(k)) & body.definitions.keys():  # the outer row does not know the inner definitions
            k = substitute(k, body.definitions)
        if condition.op == "=":
            equal.append((k, q))
        elif condition.op not in MIRRORED:
            raise Refusal("an aggregate over all rows but some is neither a kind nor a running sum")
        elif order is not None:
            raise Refusal("two inequalities tie the aggregate to the outer row")
        else:
            order = (q, condition.op if inner_left else MIRRORED[condition.op], k)
    return Ties(tuple(equal), order)
