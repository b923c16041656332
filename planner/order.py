"""Which two parts of a body to join next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from datalog.ast import Comparison
from planner.build import Part
from planner.draft import Body
from planner.plan import RelationPlan

__all__ = ["choose", "equations", "more_outside"]

Score = tuple[int, ...]

ASKED, OUTSIDE, LOOSE = 1, 2, 3  # the first three preferences of `choose`


def choose(
    parts: Sequence[Part], body: Body, filters: Sequence[Comparison], relations: Mapping[str, RelationPlan]
) -> tuple[int, int]:
    """The positions in `parts` of the two to join next: greedy, and always the same for the same body.

    In this order of preference:

    1. a lookup's answer with the part that asked;
    2. parts outside the recursion that share variables, so that the recursion meets one relation made of them;
    3. parts outside the recursion that only a comparison connects (`distance(p, q) < k`), where one of them has
       nothing else to hold on to;
    4. any parts that share variables; then any that an equation, then that another comparison connects;
    5. a product, with a part of at most one tuple if there is one.

    Among equals: where the declared key of one side finds at most one partner, then more shared columns, then
    more conditions, then the order of the text.
    """
    best: tuple[Score, tuple[int, int]] | None = None
    for i, j in combinations(range(len(parts)), 2):
        score = _score(parts, i, j, body, filters, relations)
        if best is None or (score, (i, j)) < best:
            best = (score, (i, j))
    assert best is not None, "there are two parts to choose from"
    return best[1]


def more_outside(
    parts: Sequence[Part], body: Body, filters: Sequence[Comparison], relations: Mapping[str, RelationPlan]
) -> bool:
    """Whether the next join is one of parts outside the recursion."""
    if len(parts) < 2:
        return False
    i, j = choose(parts, body, filters, relations)
    return _score(parts, i, j, body, filters, relations)[0] <= LOOSE and not parts[i].recursive | parts[j].recursive


def _score(
    parts: Sequence[Part],
    i: int,
    j: int,
    body: Body,
    filters: Sequence[Comparison],
    relations: Mapping[str, RelationPlan],
) -> Score:
    left, right = parts[i], parts[j]
    shared = set(left.variables) & set(right.variables)
    outside = not left.recursive and not right.recursive
    if left.lookup != right.lookup and left.position == right.position:
        rank = ASKED
    elif shared:
        rank = OUTSIDE if outside else 4
    elif any(True for _ in equations(left, right, body, filters)):
        rank = LOOSE if outside and _loose(parts, i, j) else 5
    elif any(_connects(left, right, body, f) for f in filters):
        rank = LOOSE if outside and _loose(parts, i, j) else 6
    else:
        rank = 7 if left.single or right.single else 8
    functional = any(_finds_one(part, shared, relations[part.relation]) for part in (left, right))
    return (rank, 0 if functional else 1, -len(shared), -(left.size + right.size))


def _loose(parts: Sequence[Part], i: int, j: int) -> bool:
    """Whether one of two parts shares no variable with any further part."""
    others = [set(p.variables) for k, p in enumerate(parts) if k not in (i, j)]
    return any(not any(others_ & set(parts[k].variables) for others_ in others) for k in (i, j))


def _finds_one(part: Part, shared: set[str], relation: RelationPlan) -> bool:
    return bool(relation.key) and {part.variables[k] for k in relation.key} <= shared


def _connects(left: Part, right: Part, body: Body, condition: Comparison) -> bool:
    a, b = set(left.variables), set(right.variables)
    roots = body.roots(condition, a | b)
    return condition.op != "!=" and roots <= a | b and bool(roots & a - b) and bool(roots & b - a)


def equations(
    left: Part, right: Part, body: Body, filters: Sequence[Comparison]
) -> Iterator[tuple[Comparison, bool]]:
    """The filters `e = f` with `e` over one part and `f` over the other, and whether `e` is over the right one."""
    a, b = set(left.variables), set(right.variables)
    for condition in filters:
        if condition.op == "=":
            one, other = body.roots(condition.left, a | b), body.roots(condition.right, a | b)
            if one and other:
                if one <= a and other <= b:
                    yield condition, False
                elif one <= b and other <= a:
                    yield condition, True
