"""What the base relations of drawn programs about aggregates hold: values that are made to hurt."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.oracle import Row

# Kinds of columns are letters: "k" and "s" are keys, "m" is ints and floats mixed, "l" a list.
TYPES = {"k": "number", "n": "number", "u": "unsigned", "f": "float", "s": "symbol"}
KEYS = "ks"
NUMBERS = "knufm"
TRAP = 99  # a key that makes a transaction fail
SPANS: dict[str, tuple[Any, ...]] = {
    "small": (0, 1, 2, 3, 5, 8),
    "signed": (-7, -3, -1, 0, 0, 1, 2, 3, 7),
    "edge": (2**63 - 1, -(2**63), 2**62, -(2**62), 1, 0, -1),
}
FLOATS: dict[str, tuple[float, ...]] = {
    "tenths": (0.1, 0.2, 0.3, 0.7, -0.1, 1.5, 2.0),
    "mixed": (1e16, -1e16, 1.0, 0.1, 5e-324, -5e-324, 1e-300, 3.5),
    "zeros": (0.0, -0.0, 1.0, -1.0, 0.5),
    "edge": (1.7e308, -1.7e308, 1.0, 0.1, 1e292),
}


@dataclass(frozen=True)
class Relation:
    """A relation that rules may read. `kinds` has a letter for each column."""

    name: str
    kinds: str


@dataclass
class Data:
    """The values that a program's base relations draw from, by kind."""

    rng: random.Random
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng
        self.values = {
            "k": tuple(range(rng.randint(2, 5))),
            "s": tuple("abcd"[: rng.randint(2, 4)]),
            "n": SPANS[rng.choice(("small", "signed", "signed", "edge") if rng.random() < 0.4 else ("signed",))],
            "u": (0, 1, 2, 5, 2**63, 2**64 - 1) if rng.random() < 0.3 else (0, 1, 2, 5),
            "m": (1, 1.0, 0.5, 2, 2.0, -3, 0),
            "f": FLOATS[rng.choice(("tenths", "tenths", "mixed", "mixed", "zeros", "edge"))],
        }

    def edge(self, kinds: set[str]) -> bool:
        """Whether whole numbers of such kinds may overflow at once."""
        return "u" in kinds or ("n" in kinds and 2**62 in self.values["n"])

    def constant(self, kind: str) -> str:
        value = self.rng.choice(self.values[kind])
        if kind == "u":
            return str(min(value, 5))
        return f'"{value}"' if kind == "s" else repr(value)

    def rows(self, kinds: str, count: int) -> list[Row]:
        """Rows to draw from. 1 and 1.0, and 0.0 and -0.0, are two of them, although they are equal."""
        rows = [tuple(self.rng.choice(self.values[kind]) for kind in kinds) for _ in range(count)]
        return [row for _, row in sorted({repr(row): row for row in rows}.items())]
