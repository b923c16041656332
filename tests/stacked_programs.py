"""Draws programs whose views ask for absences and aggregates of views that do so themselves, a few levels deep.

There a part of the facts brings tuples that all of them together do not: what explanations have to see to.
"""

from __future__ import annotations

import random

from tests.oracle import Row

DOMAIN = range(4)
BASE = {"a": 1, "b": 1, "e": 2, "f": 2}
AGGREGATES = ("count", "count", "sum", "max", "min", "avg", "count_distinct", "collect")


def draw_stacked(rng: random.Random) -> tuple[str, dict[str, list[Row]]]:
    """The text of a program, and facts for it."""
    arities = dict(BASE)
    lines = [".decl a(x: number)", ".decl b(x: number) bag" if rng.random() < 0.4 else ".decl b(x: number)",
             ".decl e(x: number, y: number)", ".decl f(x: number, y: number) bag" if rng.random() < 0.4
             else ".decl f(x: number, y: number)"]  # fmt: skip
    views: list[str] = []
    for number in range(rng.randint(3, 6)):
        name, arity = f"v{number}", rng.randint(1, 2)
        for _ in range(rng.choice((1, 1, 2))):
            lines.append(_rule(rng, name, arity, arities, views))
        if arity == 2 and rng.random() < 0.25:
            lines.append(f"{name}(x, y) :- {name}(x, z), {name}(z, y).")
        arities[name] = arity
        views.append(name)
    facts: dict[str, list[Row]] = {}
    for name, arity in BASE.items():
        facts[name] = [tuple(rng.choice(DOMAIN) for _ in range(arity)) for _ in range(rng.randint(1, 3 + 3 * arity))]
    return "\n".join(lines) + "\n", facts


def _rule(rng: random.Random, name: str, arity: int, arities: dict[str, int], views: list[str]) -> str:
    def some() -> str:
        return rng.choice(views[-2:]) if views and rng.random() < 0.7 else rng.choice(list(arities))

    def atom(relation: str, *names: str) -> str:
        return f"{relation}({', '.join(names[: arities[relation]])})"

    body = [atom(rng.choice(list(arities) if rng.random() < 0.5 else list(BASE)), "x", "y")]
    bound = "y" if arities[body[0].partition("(")[0]] == 2 else "x"
    for _ in range(rng.choice((0, 1, 1, 2))):
        body.append("!" + atom(some(), *rng.choice((("x", bound), (bound, "x"), ("x", "_"), ("_", bound), ("1", "x")))))
    if rng.random() < 0.35:
        inner = some()
        inside = [atom(inner, *rng.choice((("x", "u"), ("u", "x"), ("u", "w"), (bound, "u"))))]
        known = [n for n in ("u", "w") if n in inside[0]]
        if known and rng.random() < 0.3:
            inside.append("!" + atom(some(), known[0], "_"))
        target = known[0] if known else "1"
        function = rng.choice(AGGREGATES)
        text = "count" if function == "count" else f"{function} {target}"
        op = rng.choice(("< 2", "> 0", "!= 1", "= 1", "<= 3")) if function != "collect" else "!= [1]"
        body.append(f"{text} : {{ {', '.join(inside)} }} {op}")
    if arity == 2 and rng.random() < 0.3:
        return f"{name}(x, {rng.choice(('sum', 'count', 'min', 'max'))}<{bound}>) :- {', '.join(body)}."
    head = "x" if arity == 1 else f"x, {bound}"
    return f"{name}({head}) :- {', '.join(body)}."
