"""Random bodies of rules: atoms that are read at once, as of points and with times; conditions on times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.stream_programs import Draw


@dataclass(frozen=True)
class Relation:
    """`kinds` has a letter for each column: `x` for names of things, `v` for small numbers, `t` for times."""

    name: str
    kinds: str
    stream: bool = False
    bag: bool = False
    key: bool = False
    view: bool = False


class Body:
    """The body of a rule while it grows: literals, and the variables that they bind, by kind."""

    def __init__(self, draw: Draw, letter: str = "") -> None:
        self.draw, self.rng, self.letter = draw, draw.rng, letter
        self.literals: list[str] = []
        self.bound: list[tuple[str, str]] = []

    def of(self, kinds: str) -> list[str]:
        return [name for name, kind in self.bound if kind in kinds]

    def new(self, kind: str) -> str:
        name = f"{self.letter}{kind}{sum(k == kind for _, k in self.bound)}"
        self.bound.append((name, kind))
        return name

    def atom(self, relation: Relation, time: bool | None = None, sync: bool | None = None) -> str | None:
        """Add an atom; `time` and `sync`: whether it has them. The variable of the time, if there is one."""
        rng, before = self.rng, list(self.bound)
        joined = bool(before) and rng.random() < 0.85
        arguments: list[str] = []
        for kind in relation.kinds:
            known = [name for name, k in before if k == kind]
            roll = rng.random()
            if known and (joined or roll < 0.3):
                arguments.append(rng.choice(known))
                joined = False
            elif roll < 0.42:
                arguments.append("_")
            elif roll < 0.48:
                arguments.append(self.draw.constant(kind))
            else:
                arguments.append(self.new(kind))
        variable, text = None, f"{relation.name}({', '.join(arguments)})"
        if not relation.bag and (rng.random() < 0.4 if time is None else time):
            known = [name for name, k in before if k == "t"]
            roll = rng.random()
            if time is None and known and roll < 0.12:
                variable = rng.choice(known)
            elif time is None and roll < 0.16:
                text += rng.choice(["@_", f"@{self.draw.constant('t')}"])
            else:
                variable = self.new("t")
            text += f"@{variable}" if variable is not None else ""
        self.literals.append(text + self.draw.at(relation, sync))
        return variable

    def filter(self) -> None:
        rng = self.rng
        if not self.bound:
            return
        name, kind = rng.choice(self.bound)
        others = [n for n, k in self.bound if n != name and (k == kind or {k, kind} <= {"v", "t"})]
        right = rng.choice(others) if others and rng.random() < 0.5 else self.draw.constant(kind)
        self.literals.append(f"{name} {rng.choice(['=', '!=', '!=', '<', '<=', '>', '>='])} {right}")

    def negation(self) -> None:
        self.literals.append(self.negation_text(self.bound))

    def negation_text(self, bound: list[tuple[str, str]]) -> str:
        rng = self.rng
        relation = rng.choice(self.draw.low)
        arguments = []
        for kind in relation.kinds:
            known = [name for name, k in bound if k == kind]
            roll = rng.random()
            plain = "_" if roll < 0.85 else self.draw.constant(kind)
            arguments.append(rng.choice(known) if known and roll < 0.7 else plain)
        text = f"!{relation.name}({', '.join(arguments)})"
        times = [name for name, k in bound if k == "t"]
        if not relation.bag and rng.random() < 0.2:
            text += f"@{rng.choice(times)}" if times and rng.random() < 0.7 else "@_"
        return text + self.draw.at(relation, None)

    def aggregate(self) -> None:
        """A body aggregate, correlated or not, with the clock in it now and then."""
        rng, inner = self.rng, Body(self.draw, "l")
        before = list(self.bound)
        inner.bound = list(before) if rng.random() < 0.7 else []
        given = len(inner.bound)
        for _ in range(rng.choice([1, 1, 2])):
            inner.atom(rng.choice(self.draw.low))
        local = [(name, kind) for name, kind in inner.bound[given:] if kind in "vt"]
        if local and rng.random() < 0.3:
            inner.literals.append(f"{rng.choice(local)[0]} {rng.choice(['<', '>=', '!='])} {self.draw.constant('v')}")
        times = [name for name, kind in local if kind == "t"]
        if times and rng.random() < 0.3:
            inner.window(rng.choice(times), slid=None if self.draw.whole else True)
        function = rng.choice(["count", "sum", "min", "max"]) if local else "count"
        target = "" if function == "count" else f" {rng.choice(local)[0]}"
        text = f"{function}{target} : {{ {', '.join(inner.literals)} }}"
        self.literals.append(f"{self.new('v')} = {text}" if rng.random() < 0.7 else f"{text} > {rng.randint(0, 2)}")

    def window(self, time: str, slid: bool | None = None) -> str:
        """Conditions on the clock, or on what slides along with it, and a time. The variable of the clock."""
        rng, draw = self.rng, self.draw
        if slid is None:
            slid = bool(draw.slides) and rng.random() < 0.35
        name = rng.choice(draw.slides) if slid and draw.slides else "now"
        if name == "now" and not draw.whole and slid:
            return ""
        closed = name == "now" and not draw.whole  # then nobody else may have the clock
        n = f"{self.letter}n{len(self.literals)}" if closed else self.new("t")
        self.literals.append(f"{name}({n})")
        width, delay = draw.number(1, 6), draw.number(1, 3)
        options = [
            [f"{n} - {width} < {time}", f"{time} <= {n}"],
            [f"{n} - {width} < {time}", f"{time} <= {n}"],
            [f"{time} > {n} - {width}"],
            [f"{n} < {time} + {width}"],
            [f"{n} - {time} < {width}"],
            [f"{time} + {delay} <= {n}", f"{n} < {time} + {width} + {delay}"],
            [f"{n} >= {time} + {delay}"],
            [f"{time} >= {width}", f"{time} <= {n}"],
            [f"{n}e = {time} + {width}", f"{n} < {n}e"],
            [f"{n}e = {n} - {width}", f"{n}e < {time}"],
            [f"{n} - {n} % {width} <= {time}"],
            [f"-{time} < {width} - {n}"],
            [f"{time} > {n} - {width}", f"{n} - {n} % {delay} >= {time}"],
        ]
        if values := self.of("v"):
            options.append([f"{n} < {time} + {rng.choice(values)}"])
            options.append([f"{n} - {width} < max({time}, {rng.choice(values)})"])
            options.append([f"{n} < {time} + abs({rng.choice(values)} - {delay})"])
            options.append([f"{n} < {time} + {rng.choice(values)} + {delay}", f"{n} >= {time} + {rng.choice(values)}"])
        if not closed:
            options += [
                [f"{n} <= {time} + {width}"],
                [f"{n} - {width} <= {time}"],
                [f"{time} + {delay} < {n}", f"{n} <= {time} + {width} + {delay}"],
                [f"{time} < {n}"],
                [f"{time} >= {width}", f"{time} <= {n}", f"{n} < {delay} * 4"],
                [f"{n} >= {width} + {delay}"],
                [f"{n} - {width} <= {time}", f"{time} < {n}"],
                [f"{n} = {time} + {delay}"],
                [f"{n} > {width}", f"{time} < {n}"],
                [f"{n} % {rng.randint(2, 4)} = 0", f"{time} + {width} > {n}"],
                [f"{time} / 4 = {n} / 4"],
                [f"{n} - {n} % {width} = {time} - {time} % {width}"],
                [f"{n} - {n} % {width} < {time} + {delay}", f"{n}e = {time} + {width}", f"{n} <= {n}e"],
                [f"{n} = {time}"],
                [f"{n} != {time} + {delay}"],
                [f"2 * {n} < 2 * {time} + {width}"],
            ]
            if others := [name for name in self.of("t") if name not in (n, time)]:
                options.append([f"{n} - {time} < {rng.choice(others)}"])
        self.literals.extend(rng.choice(options))
        return n

    def term(self, kind: str, used: list[str]) -> str:
        rng = self.rng
        known = self.of(kind) or (self.of("vt") if kind in "vt" else [])
        known = [name for name in known if name not in used] or known
        if not known or rng.random() < 0.04:
            return self.draw.constant(kind)
        return rng.choice(known)

    def shuffled(self) -> tuple[str, ...]:
        if self.rng.random() < 0.3:
            self.rng.shuffle(self.literals)
        return tuple(self.literals)


def renamed(literal: str, old: str, new: str) -> str:
    """A literal with another name for a variable: names of these are of a letter and a digit, other words are not."""
    words, word = [], ""
    for character in literal + " ":
        if character.isalnum() or character == "_":
            word += character
        else:
            words += [new if word == old else word, character]
            word = ""
    return "".join(words)[:-1]
