"""Random programs of the shortest-path family, where aggregate selection prunes a recursive relation.

On a cyclic graph the walks never end, so the oracle gets one literal more per recursive rule: with positive costs
the best walk visits no node twice, so a bound that every such walk meets leaves the winners alone.
"""

from __future__ import annotations

import random
from itertools import product

from tests.cases import Pruned, RuleText
from tests.oracle import Row

READERS = (
    ("far(x, max<c>)", "best(x, y, c)"),
    ("total(sum<c>, count<*>)", "best(x, y, c)"),
    ("near(x, y)", "best(x, y, c)", "c <= 3"),
    ("unlinked(x, y)", "best(x, y, _)", "!link(x, y, _)"),
    ("twoway(x, y, a + b)", "best(x, y, a)", "best(y, x, b)"),
    ("closer(x, n)", "best(x, _, c)", "n = count : { best(x, _, d), d < c }"),
    ("even(x, y)", "best(x, y, c)", "c % 2 = 0"),
)


def _readers(rng: random.Random) -> list[RuleText]:
    return [RuleText(head, body) for head, *body_ in rng.sample(READERS, rng.randint(0, 2)) for body in [tuple(body_)]]


def _costs(rng: random.Random, nodes: int, most: int) -> list[RuleText]:
    """Cost only: linear either way, or non-linear; sometimes blocked nodes; all pairs."""
    bound = f"c <= {nodes * most}"
    body = rng.choice([
        ("link(x, z, a)", "path(z, y, b)", "c = a + b"),
        ("path(x, z, a)", "link(z, y, b)", "c = a + b"),
        ("path(x, z, a)", "path(z, y, b)", "c = a + b"),
    ])
    if rng.random() < 0.3:
        body = (*body, "!blocked(z)")
    head = "path(x, y, c)"
    if rng.random() < 0.4:
        head, body, bound = "path(x, y, a + b)", tuple(b for b in body if b != "c = a + b"), bound.replace("c", "a + b")
    return [
        RuleText("path(x, y, c)", ("link(x, y, c)",)),
        RuleText(head, body, bound),
        RuleText("best(x, y, min<c>)", ("path(x, y, c)",)),
    ]


def _witness(rng: random.Random, nodes: int, most: int) -> list[RuleText]:
    """The first hop rides along; ties give several rows."""
    return [
        RuleText("path(x, y, y, c)", ("link(x, y, c)",)),
        RuleText("path(x, y, z, c)", ("link(x, z, a)", "path(z, y, _, b)", "c = a + b"), f"c <= {nodes * most}"),
        RuleText("best(x, y, min<c>)", ("path(x, y, h, c)",)),
        RuleText("hop(x, y, h)", ("path(x, y, h, c)", "best(x, y, c)")),
    ]


def _query2(rng: random.Random, nodes: int, most: int) -> list[RuleText]:
    """The paper's Query 2: the whole path as a list, two aggregates."""
    return [
        RuleText("path(x,y,p,c,l)", ("link(x,y,c)", "p=concat([x,y],nil)", "l=1")),
        RuleText(
            "path(x,y,p,c,l)",
            ("link(x,z,c0)", "path(z,y,p1,c1,l1)", "c=c0+c1", "p=concat([x],p1)", "l=1+l1"),
            f"l <= {nodes}",
        ),
        RuleText("best(x,y,min<c>)", ("path(x,y,p,c,l)",)),
        RuleText("minHops(x,y,min<l>)", ("path(x,y,p,c,l)",)),
        RuleText("cheapestPath(x,y,p,c)", ("path(x,y,p,c,l)", "best(x,y,c)")),
        RuleText("fewestHops(x,y,p,l)", ("path(x,y,p,c,l)", "minHops(x,y,l)")),
        RuleText("shortestCheapestPath(x,y,p1,c,p2,l)", ("cheapestPath(x,y,p1,c)", "fewestHops(x,y,p2,l)")),
    ]


def _source(rng: random.Random, nodes: int, most: int) -> list[RuleText]:
    """From the sources only; the group is the node."""
    return [
        RuleText("path(x, 0)", ("source(x)",)),
        RuleText("path(y, c)", ("path(x, a)", "link(x, y, b)", "c = a + b"), f"c <= {nodes * most}"),
        RuleText("best(x, x, min<c>)", ("path(x, c)",)),
    ]


def _widest(rng: random.Random, nodes: int, most: int) -> list[RuleText]:
    """The widest path: finitely many values, so it ends with or without pruning."""
    return [
        RuleText("path(x, y, c)", ("link(x, y, c)",)),
        RuleText("path(x, y, c)", ("link(x, z, a)", "path(z, y, b)", "c = min(a, b)")),
        RuleText("best(x, y, max<c>)", ("path(x, y, c)",)),
    ]


def _longest(rng: random.Random, nodes: int, most: int) -> list[RuleText]:
    """The longest path over a graph without cycles, by construction of the pool."""
    return [
        RuleText("path(x, y, c)", ("link(x, y, c)",)),
        RuleText("path(x, y, c)", ("link(x, z, a)", "path(z, y, b)", "c = a + b")),
        RuleText("best(x, y, max<c>)", ("path(x, y, c)",)),
    ]


def draw_path(
    rng: random.Random,
) -> tuple[list[str], list[RuleText], dict[str, list[Row]], dict[str, Pruned]]:
    """A program of the family: declarations, rules, rows to draw facts from, what is pruned."""
    shape = rng.choice([_costs, _costs, _witness, _query2, _source, _widest, _longest])
    nodes, most = (rng.randint(3, 4), 3) if shape is _query2 else (rng.randint(3, 5), rng.choice([2, 4]))
    names: list[str | int] = list("abcde"[:nodes]) if rng.random() < 0.5 else list(range(nodes))
    rules = shape(rng, nodes, most) + _readers(rng)
    pruned = {
        _query2: Pruned((0, 1), ((3, "min"), (4, "min"))),
        _witness: Pruned((0, 1), ((3, "min"),)),
        _costs: Pruned((0, 1), ((2, "min"),)),
        _source: Pruned((0,), ((1, "min"),)),
        _widest: Pruned((0, 1), ((2, "max"),), surely=False),
        _longest: Pruned((0, 1), ((2, "max"),), surely=False),
    }[shape]
    kind = "symbol" if isinstance(names[0], str) else "number"
    lines = []
    if rng.random() < 0.5:
        key = " key(s, d)" if rng.random() < 0.5 else ""
        ttl = " ttl(3)" if rng.random() < 0.25 else ""
        lines.append(f".decl link(s: {kind}, d: {kind}, c: number){key}{ttl}")
        lines.append(f".decl source(s: {kind})")
        lines.append(f".decl blocked(s: {kind})")
    low = -1 if shape is _longest and rng.random() < 0.5 else 1
    if shape in (_costs, _witness, _source) and rng.random() < 0.25:
        low = 0  # a cycle may cost nothing: no better, no worse
    rows: list[Row] = [
        (a, b, c)
        for (i, a), (j, b) in product(enumerate(names), repeat=2)
        for c in range(low, most + 1)
        if shape is not _longest or i < j
    ]
    most_links = rng.randint(5, 8 if shape is _query2 else 12)
    pools: dict[str, list[Row]] = {"link": rng.sample(rows, min(len(rows), most_links))}
    pools["source"] = pools["blocked"] = [(name,) for name in names]
    return lines, rules, pools, {"path": pruned}
