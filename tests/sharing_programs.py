"""Draws views that have much in common: the same atoms under other conditions, at other points, shown in other ways."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.cases import RuleText
from tests.oracle_base import Operation
from tests.stream_cases import StreamCase

BASE = (
    ".decl temp(room: symbol, value: number) key(room)",
    ".decl reading(room: symbol, value: number) stream",
    ".decl door(room: symbol, state: number)",
    ".decl level(room: symbol, height: float)",
    ".decl deadline(t: number)",
)

ROOMS = ("a", "b", "c")
BODIES = (
    (("temp(r, v)",), ("r", "v"), ()),
    (("temp(r, v)",), ("r", "v"), ()),
    (("temp(r, v)",), ("r", "v"), ()),
    (("reading(r, v)@t",), ("r", "v", "t"), ("t",)),
    (("reading(r, v)",), ("r", "v"), ()),
    (("reading(r, v)",), ("r", "v"), ()),
    (("temp(r, v)@t",), ("r", "v", "t"), ("t",)),
    (("temp(r, v)", "door(r, w)"), ("r", "v", "w"), ()),
    (("temp(r, v)", "temp(q, w)"), ("r", "v", "q", "w"), ()),
    (("temp(r, v)", "reading(r, w)@t"), ("r", "v", "w", "t"), ("t",)),
    (("level(r, v)",), ("r", "v"), ()),
)  # fmt: skip
"""Atoms, the variables that they bind, and which of these are times."""


@dataclass
class Draw:
    """One program while it grows. `syncs`: what may stand behind `at`; `grouped`: how many views have aggregates."""

    rng: random.Random
    rules: list[RuleText] = field(default_factory=list)
    syncs: list[str] = field(default_factory=list)
    grouped: float = 0.3

    def program(self) -> None:
        self.points()
        self.grouped = self.rng.choice([0.2, 0.2, 0.9])
        bodies = self.rng.sample(BODIES, self.rng.choice([1, 1, 2]))
        for i in range(self.rng.randint(5, 10)):
            self.view(f"w{i}", *self.rng.choice(bodies))

    def points(self) -> None:
        rng = self.rng
        self.syncs = ["every(2)", "every(4)", "every(6)", "every(3)", "every(4, from=2)"]
        self.rules += [RuleText("even(t)", ("clock(t)", "t % 2 = 0")), RuleText("four(t)", ("clock(t)", "t % 4 = 0"))]
        self.syncs += ["even", "four"]
        if rng.random() < 0.6:
            self.rules += [
                RuleText("high(t)", ("reading(_, v)@t", "v > 2")), RuleText("higher(t)", ("reading(_, v)@t", "v > 3")),
                RuleText("due(t)", ("deadline(t)", "t > 5")), RuleText("both(t)", ("high(t)", "even(t)")),
                RuleText("any(t)", ("high(t)",)), RuleText("any(t)", ("even(t)",)),
            ]  # fmt: skip
            self.syncs += ["high", "higher", "deadline", "due", "any", "both"]
        self.syncs = rng.sample(self.syncs, rng.randint(2, 4))

    def view(self, name: str, atoms: tuple[str, ...], bound: tuple[str, ...], times: tuple[str, ...]) -> None:
        rng = self.rng
        sync = rng.choice(["", *(f" at {s}" for s in self.syncs * 2)])
        syncs = [sync] * len(atoms)
        if rng.random() < 0.05:
            syncs[0] = rng.choice(["", f" at {rng.choice(self.syncs)}"])
        rename = dict(zip(bound, rng.sample([*bound, "x", "y", "z"], len(bound)), strict=True))
        order = rng.sample(range(len(atoms)), len(atoms))
        literals = [renamed(atoms[i], rename) + syncs[i] for i in order]
        conditions = self.conditions(bound, times, sync)
        if rng.random() < 0.12:
            conditions.append(f"!door(r, {rng.randint(0, 1)}){sync}")
        literals += [renamed(c, rename) for c in conditions]
        first = literals[: len(atoms)]
        rest = literals[len(atoms) :]
        rng.shuffle(rest)
        head = ", ".join(renamed(x, rename) for x in self.head(bound, times))
        self.rules.append(RuleText(f"{name}({head})", (*first, *rest)))

    def conditions(self, bound: tuple[str, ...], times: tuple[str, ...], sync: str) -> list[str]:
        rng, found = self.rng, []
        if rng.random() < 1 - self.grouped:
            limit = rng.randint(0, 3)
            found.append(rng.choice([f"v > {limit}", f"v >= {limit}", f"{limit} < v"]))
        if rng.random() < 0.15:
            found.append(f"v < {rng.randint(2, 5)}")
        if rng.random() < 0.15:
            found.append(rng.choice(['r = "a"', 'r != "b"', "v * 2 > 4", "v % 2 = 0", "v != 0"]))
        if "w" in bound and rng.random() < 0.5:
            found.append(rng.choice(["v < w", "w > v", "v = w", "w > 0", "v + 1 < w", "w > v + 2"]))
        if times and rng.random() < 0.6:
            width = rng.randint(2, 6)
            found += ["now(n)", rng.choice([f"n - {width} < t", f"t > n - {width}", f"t >= n - {width}"])]
            found += ["t <= n"] * (rng.random() < 0.5)
        return found

    def head(self, bound: tuple[str, ...], times: tuple[str, ...]) -> list[str]:
        rng = self.rng
        if rng.random() < self.grouped:
            groups = rng.sample(bound, rng.choice([0, 1, 1, 2]))
            functions = ["count<*>", "sum<v>", "sum<v>", "min<v>", "max<v>", "avg<v>", "count_distinct<v>"]
            functions.append("sum<v + 1>")
            return [*groups, *rng.sample(functions, rng.choice([1, 2, 3]))]
        shown = list(bound) if rng.random() < 0.6 else rng.sample(bound, rng.randint(1, len(bound)))
        if rng.random() < 0.3:
            rng.shuffle(shown)
        if rng.random() < 0.1:
            shown.append("v + 1")
        return shown


def renamed(text: str, names: dict[str, str]) -> str:
    """The text with single letters that are variables renamed; names of relations and functions are longer."""
    out, i = [], 0
    while i < len(text):
        if text[i] == '"':
            end = text.index('"', i + 1) + 1
            out.append(text[i:end])
            i = end
        elif text[i].isalpha():
            end = i
            while end < len(text) and (text[end].isalnum() or text[end] in "_"):
                end += 1
            out.append(names.get(text[i:end], text[i:end]))
            i = end
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def history(rng: random.Random, length: int = 60) -> tuple[tuple[Operation, ...], ...]:
    """Transactions over the relations of `BASE`, with moves of the clock by whole ticks."""
    clock, done = 0, []
    doors: list[tuple[str, int]] = []
    while length > 0:
        operations: list[Operation] = []
        for _ in range(rng.randint(1, 7)):
            length -= 1
            roll = rng.random()
            room, value = rng.choice(ROOMS), rng.randint(0, 5)
            if roll < 0.35:
                clock += rng.choice([1, 1, 1, 2, 2, 3, 9])
                operations.append(("advance", clock))
            elif roll < 0.6:
                operations.append(("insert", "temp", (room, value)))
            elif roll < 0.8:
                operations.append(("insert", "reading", (room, value)))
            elif roll < 0.85:
                operations.append(("insert", "deadline", (clock + rng.randint(-1, 6),)))
            elif roll < 0.9:
                operations.append(("insert", "level", (room, rng.choice([0.1, 0.2, 0.3, 2.5, 1e16]))))
            elif roll < 0.95 or not doors:
                row = (room, value % 3)
                doors.append(row)
                operations.append(("insert", "door", row))
            else:
                operations.append(("delete", "door", doors.pop(rng.randrange(len(doors)))))
        done.append(tuple(operations))
    return tuple(done)


def sharing_case(seed: int) -> StreamCase:
    """A program and a history over the relations that it has."""
    rng = random.Random(f"sharing {seed}")
    draw = Draw(rng)
    draw.program()
    return StreamCase(-1, BASE, tuple(draw.rules), (), history(rng))
