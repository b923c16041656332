"""Nested aggregates that are kept by an index: from recognised comparisons to rules of the plan.

A comparison is kept either by the groups of a rule themselves (`take`: the head's aggregates are sums over ranges of an
index), or by a part of a body (`nest_parts`: an auxiliary of those rows of the part that pass). The first is for bodies
that come down to one part. Where several parts have comparisons of their own, each is filtered alone and only then
joined; and so is a part whose rows pass a comparison with a constant or not, since few may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from datalog.ast import Comparison, HeadAggregate, Variable
from datalog.format import format_literal
from planner.build import Part
from planner.chain import Chain
from planner.nest import Nest, Rows
from planner.recognise import Pattern, Refusal, recognise, recognise_each
from planner.risk import overflows

__all__ = ["nest_parts", "take"]


# --- recognising ---------------------------------------------------------------------------------------------


def _patterns(chain: Chain) -> list[Pattern]:
    """The comparisons of a chain that an index can keep; why others cannot goes to the notes."""
    if not chain.lookups:
        return []
    types = {name: kind for part in chain.parts for name, kind in zip(part.variables, part.types, strict=True)}
    found = []
    for condition in chain.filters:
        try:
            pattern = _pattern(chain, condition, types)
        except Refusal as reason:
            note = f"{chain.clause.id}: {format_literal(condition)} by the general algorithm: {reason}"
            chain.builder.notes[note] = None
        else:
            if pattern is not None and pattern.outer(chain.body) <= types.keys() and _unguarded(chain, pattern):
                found.append(pattern)
    return found


def _unguarded(chain: Chain, pattern: Pattern) -> bool:
    """Whether a comparison may be looked at before the rest of the body.

    An index computes what it compares for all rows there are, and must not fail where the body would not have come to
    it. Where running sums are compared, it is not looked at whether they, or what they are compared with, get out of
    range: no condition beside them is worth the index. Other answers of aggregates wait for negations and comparisons.
    (They do not wait for atoms: it is worth too much to filter a part before it is joined.)
    """
    found = chain.risk(pattern.comparison)
    sums = any(isinstance(item, tuple) and item[1] == "sum" for item in found)
    if sums and pattern.method != "sum" and chain.has_conditions():
        return False
    risk = {item for item in found if not overflows(item)}
    if not risk or any(isinstance(item, tuple) for item in risk):
        return not risk
    one = len(chain.parts) == len(chain.filters) == 1
    return one and len(chain.lookups) == len(pattern.lookups)


def _pattern(chain: Chain, condition: Comparison, types: Mapping[str, str]) -> Pattern | None:
    given = (condition, chain.body, chain.lookups, chain.translator, types)
    try:
        return recognise(*given)
    except Refusal as reason:
        return recognise_each(*given, str(reason))


def take(chain: Chain) -> Nest | None:
    """Take a comparison out of a chain that the groups over its last step are to keep, if that is the best way."""
    patterns = _patterns(chain)
    if not patterns or any(part.recursive for part in chain.parts):
        return None
    *_, pattern = patterns
    if not all(_total(chain, a) for a in chain.clause.rule.head.arguments):
        return None  # what may raise is computed of the rows that pass, and of no others
    if len(chain.parts) > 1:
        homes = {_home(chain, p) for p in patterns}
        if len(homes) > 1 or not _connected(chain) or (pattern.method == "answer" and not pattern.scalars):
            return None
    _without(chain, pattern)
    chain.wanted = (*chain.wanted, *sorted(pattern.outer(chain.body)))
    return Nest(pattern)


def _total(chain: Chain, node: Any) -> bool:
    """Whether an expression of the head has a value for every row: sums are exact, and only the total can overflow."""
    if not isinstance(node, HeadAggregate):
        return not chain.risks.of(node)
    return node.function == "count" or all(
        overflows(item) and node.function in ("sum", "avg") for item in chain.risks.of(node.target)
    )


def _home(chain: Chain, pattern: Pattern) -> int | None:
    """The first part that has all that a comparison reads of the outer row; None if it takes several."""
    read = pattern.outer(chain.body)
    return next((i for i, part in enumerate(chain.parts) if read <= set(part.variables)), None)


def _connected(chain: Chain) -> bool:
    """Whether the parts of a chain hang together by variables, or by equations between them."""
    conditions = [chain.body.roots(f) for f in chain.filters if f.op == "="]

    def linked(one: set[str], other: set[str]) -> bool:
        return bool(one & other) or any(r & one and r & other and r <= one | other for r in conditions)

    first, *apart = [set(part.variables) for part in chain.parts]
    reached = [first]
    while apart and (found := [other for other in apart if any(linked(one, other) for one in reached)]):
        apart = [other for other in apart if other not in found]
        reached += found
    return not apart


def _without(chain: Chain, pattern: Pattern) -> None:
    """Take a comparison out of a chain, and the aggregates that are compared nowhere else.

    (An aggregate without a value fails the body. One that stays behind still does; one that goes does so in the rule.)
    """
    chain.filters = [f for f in chain.filters if f is not pattern.comparison]
    used = {root for f in chain.filters for root in chain.body.roots(f)}
    used |= {root for name in chain.wanted for root in chain.body.roots(Variable(name))}
    used |= {root for lookup in chain.lookups for need in lookup.needs for root in chain.body.roots(Variable(need))}
    chain.lookups = [x for x in chain.lookups if x not in pattern.lookups or x.result in used]


# --- parts ---------------------------------------------------------------------------------------------------


def nest_parts(chain: Chain, rows: Rows) -> None:
    """Filter the parts of a chain by the comparisons that an index can keep.

    A part becomes an auxiliary of those of its rows that pass, with the columns that are still needed.
    """
    for pattern in _patterns(chain):
        read = pattern.outer(chain.body)
        candidates = [p for p in chain.parts if read <= set(p.variables) and not p.recursive and not p.lookup]
        if not candidates:
            continue
        relations = {atom.relation for lookup in pattern.lookups for atom in lookup.body.atoms}
        part = min(candidates, key=lambda p: (p.relation in relations, p.position))
        _filter(chain, part, pattern, rows)


def _filter(chain: Chain, part: Part, pattern: Pattern, rows: Rows) -> None:
    position = chain.parts.index(part)
    chain.parts.remove(part)
    _without(chain, pattern)
    step = chain.step(part)
    kept = tuple(chain.needed(step.row))
    types = {name: step.types[name] for name in kept}
    head = chain.builder.auxiliary(chain.clause, kept, types, chain.weighted)
    group = tuple(step.row[name] for name in kept)
    chain.builder.add(Nest(pattern).rule(chain, step, rows, head, "rows", group, layout=tuple(range(len(group)))))
    made = replace(
        part,
        relation=head,
        variables=kept,
        types=tuple(types[name] for name in kept),
        size=part.size + step.conditions + 1,
        single=False,
    )
    chain.builder.sizes[head] = made.size
    chain.parts.insert(position, made)

