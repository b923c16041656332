"""What does it take from the text of a large program to an open session?

One rule of 1,000 atoms in several shapes, and programs of 10,000 rules: the text is parsed, checked and planned, and a
session is opened with a few facts. Programs of this size are written by other programs.

Bar: 2 seconds for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import datalog
import livelog
from bench.harness import Bar, Result, Stopwatch, apart, finish, progress

ATOMS = 1_000
RULES = 10_000
BAR = 2.0

Facts = Mapping[str, list[tuple[Any, ...]]]
Shape = Callable[[int], tuple[str, Facts, int]]
"""A program of a size: its text, its facts, and how many tuples its view `r` then has."""


def listed(parts: list[str]) -> str:
    return ", ".join(parts)


def chain(n: int) -> tuple[str, Facts, int]:
    body = listed([f"e(x{i}, x{i + 1})" for i in range(n)])
    return f".decl e(a: number, b: number)\nr(x0, x{n}) :- {body}.", {"e": [(0, 0), (0, 1)]}, 2


def star(n: int) -> tuple[str, Facts, int]:
    body = listed([f"e(x, y{i})" for i in range(n)])
    return f".decl e(a: number, b: number)\nr(x) :- {body}.", {"e": [(0, 0), (1, 1)]}, 2


def wheel(n: int) -> tuple[str, Facts, int]:
    body = listed([f"e(x, y{i}, y{(i + 1) % n})" for i in range(n)])
    return f".decl e(a: number, b: number, c: number)\nr(x) :- {body}.", {"e": [(0, 0, 0), (1, 0, 1)]}, 1


def clique(n: int) -> tuple[str, Facts, int]:
    size = next(k for k in range(n + 2) if k * (k - 1) // 2 >= n)
    pairs = [(i, j) for j in range(size) for i in range(j)][:n]
    body = listed([f"e(x{i}, x{j})" for i, j in pairs])
    return f".decl e(a: number, b: number)\nr(x0) :- {body}.", {"e": [(0, 0), (1, 2)]}, 1


def apart_from_each_other(n: int) -> tuple[str, Facts, int]:
    body = listed([f"e(x{i})" for i in range(n)])
    return f".decl e(a: number)\nr(x0) :- {body}.", {"e": [(0,)]}, 1


def negations(n: int) -> tuple[str, Facts, int]:
    body = listed([f"!g(x, {i})" for i in range(n)])
    return f".decl e(a: number)\n.decl g(a: number, b: number)\nr(x) :- e(x), {body}.", {"e": [(0,)], "g": [(1, 1)]}, 1


def aggregates(n: int) -> tuple[str, Facts, int]:
    body = listed([f"v{i} = sum z{i} : {{ g(x, z{i}) }}" for i in range(n)])
    text = f".decl e(a: number)\n.decl g(a: number, b: number)\nr(x, v0) :- e(x), {body}."
    return text, {"e": [(0,)], "g": [(0, 1), (0, 2)]}, 1


def comparisons(n: int) -> tuple[str, Facts, int]:
    body = listed([f"x + {i} != y" for i in range(n)])
    return f".decl e(a: number, b: number)\nr(x) :- e(x, y), {body}.", {"e": [(0, -1), (0, 1)]}, 1


def equations(n: int) -> tuple[str, Facts, int]:
    body = listed([f"x{i} = x + {i}, x{i} != y" for i in range(n)])
    return f".decl e(a: number, b: number)\nr(x) :- e(x, y), {body}.", {"e": [(0, -1), (0, 1)]}, 1


def alternatives(n: int) -> tuple[str, Facts, int]:
    body = "; ".join(f"e(x, {i})" for i in range(n))
    return f".decl e(a: number, b: number)\nr(x) :- {body}.", {"e": [(0, 0), (1, 1)]}, min(n, 2)


def one_view(n: int) -> tuple[str, Facts, int]:
    rules = [f"r(x, {i}) :- e(x, y), f(y, {i})." for i in range(n)]
    text = ".decl e(a: number, b: number)\n.decl f(a: number, b: number)\n" + "\n".join(rules)
    return text, {"e": [(0, 0)], "f": [(0, 0)]}, 1


def many_views(n: int) -> tuple[str, Facts, int]:
    rules = ["r0(x, y) :- e(x, y).", *(f"r{i}(x, y) :- r{i - 1}(x, y)." for i in range(1, n - 1))]
    text = ".decl e(a: number, b: number)\n" + "\n".join(rules) + f"\nr(x, y) :- r{n - 2}(x, y)."
    return text, {"e": [(0, 0)]}, 1


def one_component(n: int) -> tuple[str, Facts, int]:
    rules = [f"r{i}(x, y) :- r{(i + 1) % (n - 1)}(x, z), e(z, y)." for i in range(n - 1)]
    text = ".decl e(a: number, b: number)\n" + "\n".join(rules) + "\nr0(x, y) :- e(x, y).\nr(x, y) :- r1(x, y)."
    return text, {"e": [(0, 1), (1, 2)]}, 0


def many_facts(n: int) -> tuple[str, Facts, int]:
    facts = [f"e({i}, {i + 1})." for i in range(n)]
    return ".decl e(a: number, b: number)\n" + "\n".join(facts) + "\nr(x) :- e(x, _).", {}, n


SHAPES: dict[str, tuple[Shape, int]] = {
    "a chain of atoms": (chain, ATOMS),
    "a star of atoms": (star, ATOMS),
    "a wheel of atoms": (wheel, ATOMS),
    "atoms that share much": (clique, ATOMS),
    "atoms that share nothing": (apart_from_each_other, ATOMS),
    "negations": (negations, ATOMS),
    "aggregates": (aggregates, ATOMS),
    "comparisons": (comparisons, ATOMS),
    "equations": (equations, ATOMS),
    "alternatives": (alternatives, ATOMS),
    "rules of one view": (one_view, RULES),
    "views one above the other": (many_views, RULES),
    "views of one recursion": (one_component, RULES),
    "facts in the text": (many_facts, RULES),
}


def timed(name: str) -> tuple[float, float, float]:
    """Seconds to parse and check, to plan, and all in all until the session is open."""
    shape, size = SHAPES[name]
    text, facts, expected = shape(size)
    watch = Stopwatch()
    livelog.open(datalog.parse("r(x) :- e(x, y), y < 1."), facts={"e": [(0, 0)]}).close()
    with watch:
        program = datalog.check(datalog.parse(text))
    with watch:
        session = livelog.open(program, facts=facts)
    with session:
        assert len(session["r"]) == expected, (name, len(session["r"]))
    return watch.laps[0], watch.laps[1], sum(watch.laps)


def run() -> Result:
    rows, bars = [], []
    for name, (_, size) in SHAPES.items():
        progress(f"{size:,} {name}")
        checked, opened, total = min((apart(timed, name) for _ in range(2)), key=lambda times: times[2])
        rows.append({"program": name, "size": size, "parsed and checked s": checked, "planned and opened s": opened})
        bars.append(Bar(f"{size:,} {name}, from text to session", total, BAR, " s"))
    return Result("planning", "What does it take from the text of a large program to an open session?", bars, rows)


if __name__ == "__main__":
    raise SystemExit(finish(run))
