"""Known recursive programs on random graphs: denser recursion and longer histories than drawn programs have.

The second half are programs whose recursive relation feeds a minimum but may not be pruned, or only with care: a
filter that a loser passes and the winner does not, a reader of the losers, a step that is not monotone.
"""

from __future__ import annotations

import random
from itertools import product

from tests.cases import Pruned, RuleText
from tests.oracle import Row

RECURSION = (
    """r(x, y) :- e(x, y). | r(x, y) :- e(x, z), r(z, y).""",
    """r(x, y) :- e(x, y). | r(x, y) :- r(x, z), e(z, y).""",
    """r(x, y) :- e(x, y). | r(x, y) :- r(x, z), r(z, y).""",
    """r(x) :- s(x). | r(y) :- r(x), e(x, y). | lost(x) :- e(x, _), !r(x).""",
    """r(x) :- s(x). | r(y) :- r(x), e(x, y), !w(y). | n(count<*>) :- r(_).""",
    """odd(x, y) :- e(x, y). | even(x, y) :- odd(x, z), e(z, y). | odd(x, y) :- even(x, z), e(z, y).
       | both(x) :- odd(x, y), even(x, y).""",
    """r(x, x) :- s(x). | r(x, y) :- e(p, x), r(p, q), e(q, y).""",
    """r(x, y) :- e(x, y). | r(x, y) :- e(x, z), r(z, y). | same(x, y) :- r(x, y), r(y, x).
       | size(x, count<*>, min<y>) :- same(x, y).""",
    """p(v, o) :- s(o), e(v, o). | p(v, o) :- e(v, u), p(u, o). | h(o, q) :- e(a, b), w(a), p(a, o), p(b, q).
       | p(v, q) :- e(v, b), p(b, o), h(o, q). | alias(v, u) :- p(v, o), p(u, o), v < u.""",
    """r(x, y) :- e(x, y). | r(x, y) :- e(x, z), r(z, y), !w(z). | un(x, y) :- e(x, _), e(_, y), !r(x, y).
       | u(x, y) :- un(x, y). | u(x, y) :- u(x, z), un(z, y).""",
    """r(x, y, 0) :- e(x, y). | r(x, y, d) :- r(x, z, c), e(z, y), d = c + 1, d < 5. | far(x, max<d>) :- r(x, _, d).""",
    """a(x) :- s(x). | b(y) :- a(x), e(x, y). | c(y) :- b(x), e(x, y). | a(y) :- c(x), e(x, y), !w(y).
       | k(n) :- n = count : { a(x), !b(x) }.""",
    """r(x, y) :- e(x, y), count : { e(x, _) } < 4. | r(x, y) :- r(x, z), e(z, y), count : { e(_, z) } < 3.""",
    """t(x, y, z) :- e(x, y), e(y, z), e(z, x). | r(x, y) :- t(x, y, _). | r(x, y) :- r(x, z), r(z, y), !t(x, y, z).""",
    """r(x, y) :- e(x, y). | r(y, x) :- r(x, y), w(x). | r(x, y) :- r(x, z), s(z), r(z, y).""",
)

SELECTION = (
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = b + z + 1, c <= B.
       | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), b > 2, c = b + z + 1, c <= B.
       | p(x, y, c) :- e(x, y), c = y + 4. | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = 1. | p(x, y, c) :- e(x, z), p(z, y, b), b != 2, c = b + 1, c <= B.
       | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, y, c) :- e(x, y), c = x + 1. | p(x, y, z, c) :- e(x, z), p(z, y, h, b), h != x, c = b + z, c <= B.
       | m(x, y, min<c>) :- p(x, y, _, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = b + z + 1, c <= B.
       | m(x, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = b + z + 1, c <= B.
       | m(x, y, min<c>) :- p(x, y, c). | l(x, y) :- p(x, y, c), c > 4.""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = b + z + 1, c <= B.
       | m(x, y, min<c>) :- p(x, y, c). | n(x, count<*>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = (7 * b + z) % B.
       | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = B - b, c >= 0.
       | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), w(b), c = b + 1, c <= B.
       | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = b + 1, c <= B.
       | m(x, y, max<c>) :- p(x, y, c). | k(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- p(x, z, a), p(z, y, b), c = a + b, c <= B.
       | m(x, y, min<c>) :- p(x, y, c). | q(x, y) :- m(x, y, c), !p(x, y, c + 1).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), !w(b), c = b + 1, c <= B.
       | m(x, y, min<c>) :- p(x, y, c). | j(x, y, d) :- p(x, y, d), m(x, y, c), d = c.""",
    """p(x, y, c) :- e(x, y), c = x + 1. | q(x, y, c) :- p(x, y, c).
       | p(x, y, c) :- e(x, z), q(z, y, b), c = b + z + 1, c <= B. | m(x, y, min<c>) :- p(x, y, c).""",
    """p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = max(b, z).
       | m(x, y, min<c>) :- p(x, y, c). | i(x, y, c) :- m(x, y, c), p(y, x, c).""",
    """p(0, 0, 9). | p(x, y, c) :- e(x, y), c = x + 1. | p(x, y, c) :- e(x, z), p(z, y, b), c = b + 1, c <= B.
       | m(x, y, min<c>, max<c>) :- p(x, y, c).""",
)


def _rule(text: str) -> RuleText:
    """A rule in pieces: the literals are separated by commas outside of brackets."""
    head, _, body = text.strip().removesuffix(".").partition(" :- ")
    parts, depth, start = [], 0, 0
    for i, mark in enumerate(body):
        depth += (mark in "({") - (mark in ")}")
        if mark == "," and not depth:
            parts.append(body[start:i].strip())
            start = i + 1
    return RuleText(head, (*parts, body[start:].strip()) if body else ())


def draw_classic(
    rng: random.Random,
) -> tuple[list[str], list[RuleText], dict[str, list[Row]], dict[str, Pruned]]:
    """A program of these and the rows to draw facts from."""
    selecting = rng.random() < 0.45
    text = rng.choice(SELECTION if selecting else RECURSION).replace("B", str(rng.randint(6, 9)))
    rules = [_rule(part) for part in " ".join(text.split()).split("|")]
    nodes = rng.randint(3, 5) if selecting else rng.randint(4, 7)
    pairs: list[Row] = list(product(range(nodes), repeat=2))
    lines = []
    if rng.random() < 0.5:
        for name, columns in (("e", "x: number, y: number"), ("s", "x: number"), ("w", "x: number")):
            extras = ["", "", " ttl(3)", " partition(y)", " key(x)"]
            lines.append(f".decl {name}({columns}){rng.choice(extras if name == 'e' else extras[:3])}")
    pools = {
        "e": rng.sample(pairs, min(len(pairs), rng.randint(5, 12 if selecting else 18))),
        "s": [(i,) for i in range(nodes)],
        "w": [(i,) for i in range(nodes)],
    }
    if selecting and rng.random() < 0.3:
        lines.append(".output m")
    group = (0,) if "m(x, min<c>)" in text else (0, 1)
    best = tuple((-1, function) for function in ("min", "max") if f"{function}<c>" in text)
    return lines, rules, pools, {name: Pruned(group, best, surely=False) for name in "pq"} if selecting else {}
