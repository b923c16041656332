"""Draws programs of one rule in which something may fail, under guards: negations, atoms, comparisons, aggregates."""

from __future__ import annotations

import random
from typing import Any

from tests.oracle import Base

__all__ = ["FUNCTIONS", "OPTIONS", "draw_facts", "draw_program", "draw_transaction"]

DECLARATIONS = (
    ".decl e(a: number, b: number)", ".decl f(a: number, b: number)", ".decl h(a: number, b: number)",
    ".decl g(a: number)",
)
VALUES = (0, 1, 2, 3, -1)
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"partitions": 2}, {"partitions": 3, "strategy": "dred"}, {"strategy": "relative"}, {"strategy": "recompute"},
    {"strategy": "dred"}, {"partitions": 2, "strategy": "relative"},
)


def part(x: int) -> int:
    """A function that fails for some numbers."""
    if x == 2:
        raise KeyError("two")
    return 6 // x


FUNCTIONS = {"part": part}


class Drawn:
    """The body of a rule while it grows. `bound` are the variables of its atoms."""

    def __init__(self, rng: random.Random, recursive: str | None) -> None:
        self.rng = rng
        self.literals: list[str] = []
        self.bound: list[str] = []
        for _ in range(rng.randint(1, 3)):
            relation = rng.choice("ef") if recursive is None or rng.random() < 0.6 else recursive
            one = rng.choice(self.bound) if self.bound and rng.random() < 0.9 else rng.choice("xyzw")
            both = [one, rng.choice("xyzw")]
            rng.shuffle(both)
            self.literals.append(f"{relation}({', '.join(both)})")
            self.bound += [name for name in both if name not in self.bound]
        self.shown = rng.choice(self.bound)

    def guard(self) -> str:
        rng, i = self.rng, len(self.literals)
        one, other = rng.choice(self.bound), rng.choice([*self.bound, "0", "1", "2"])
        return rng.choice([
            f"!g({one})", f"!g({one})", f"g({one})", f"h({one}, _)", f"h({one}, _)",
            f"{one} {rng.choice(['<', '!=', '>=', '='])} {other}",
            f"n{i} = count : {{ e({one}, k{i}) }}, n{i} > {rng.randint(0, 1)}",
        ])

    def expression(self) -> str:
        one, other = self.rng.choice(self.bound), self.rng.choice(self.bound)
        return self.rng.choice([
            f"6 / {one}", f"{one} / {other}", f"part({one})", f"{one} % {other}", f"{one} * 4000000000000000000",
            f"{one} + 9223372036854775806", f"to_number(to_string(6 / {one}))",
        ])

    def risk(self) -> str:
        """A literal that may fail; or the head shows what may."""
        rng, i, e = self.rng, len(self.literals), self.expression()
        one, least = rng.choice(self.bound), rng.randint(0, 3)
        op = rng.choice(["<", "!=", ">="])
        kinds = [
            f"{e} {op} {least}", f"{e} = {least}", f"d{i} = {e}, d{i} {op} {least}", f"[{e}] != [{least}]",
            f"!g({e})", f"e({e}, {one})",
            f"m{i} = {rng.choice(['sum', 'max', 'min'])} 6 / q{i} : {{ f({one}, q{i}) }}, m{i} >= {least}",
            f"m{i} = count : {{ f({one}, q{i}), e(q{i}, p{i}), 6 / p{i} > {least} }}, m{i} >= 1",
            f"m{i} = count : {{ f({one}, q{i}), !g(6 / q{i}) }}, m{i} >= {least}",
            f"m{i} = count : {{ f(_, q{i}), 6 / q{i} > {one} }}, m{i} >= {least}",
            f"m{i} = sum q{i} : {{ f(_, q{i}) }}, c{i} = count : {{ f(_, p{i}) }}, {one} {op} m{i} / c{i}",
            f"d{i} = {e}, c{i} = 6 / d{i}, c{i} {op} {least}, d{i} != 0",
            "",
        ]
        chosen = rng.choice(kinds)
        if not chosen:
            self.shown = e
        return chosen


def draw_program(rng: random.Random) -> str:
    """A program of one rule, perhaps recursive, perhaps with an aggregate in its head."""
    recursive = "t" if rng.random() < 0.4 else None
    drawn = Drawn(rng, recursive)
    drawn.literals += [drawn.guard() for _ in range(rng.randint(0, 3))]
    drawn.literals += [risk for _ in range(rng.choice([1, 1, 1, 2])) if (risk := drawn.risk())]
    rng.shuffle(drawn.literals)
    body, group = ", ".join(drawn.literals), rng.choice(drawn.bound)
    rules = []
    if recursive:
        rules.append("t(x, y) :- e(x, y).")
    if recursive and drawn.shown in drawn.bound:
        rules.append(f"t({group}, {drawn.shown}) :- {body}.")
    elif rng.random() < 0.4:
        rules.append(f"r({group}, {rng.choice(['min', 'max', 'count'])}<{drawn.shown}>) :- {body}.")
    else:
        rules.append(f"r({group}, {drawn.shown}) :- {body}.")
    return "\n".join([*DECLARATIONS, *rules])


def row(rng: random.Random, relation: str) -> tuple[int, ...]:
    return tuple(rng.choice(VALUES) for _ in range(1 if relation == "g" else 2))


def draw_facts(rng: random.Random) -> list[tuple[str, str, tuple[int, ...]]]:
    """A few facts of every relation."""
    most = {"e": 12, "f": 12, "h": 12, "g": 3}
    return [("insert", name, row(rng, name)) for name in most for _ in range(rng.randint(0, most[name]))]


def draw_transaction(rng: random.Random, base: Base) -> list[tuple[str, str, tuple[int, ...]]]:
    """A few facts that come, and a few that go."""
    known = [("delete", name, tuple(fact)) for name in "efhg" for fact in base.copies.get(name, ())]
    gone = rng.sample(known, min(len(known), rng.randint(0, 2)))
    return [*gone, *(("insert", name, row(rng, name)) for name in rng.choices("efhg", k=rng.randint(1, 3)))]
