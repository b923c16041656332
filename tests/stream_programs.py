"""Draws random programs with times, as text in pieces.

A program has a few base relations of every kind, some streams of time points, and views over all of them that read what
is below them as it is, as of points of time, with times, and in windows.

Programs are `whole` or not: those that are not have no conditions that take effect at whole ticks only, which are open
bounds on the clock, and the clock as a number among others.
"""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field
from typing import Any

from tests.cases import RuleText
from tests.stream_bodies import Body, Relation
from tests.stream_points import draw_points, tick_conditions

VARIABLE = r"\b([xvt])(\d+)\b"


@dataclass
class Draw:
    """One program being drawn. `low`: the relations that are complete; `syncs`: what may stand behind `at`;
    `points`: streams of time points that have a name; `slides`: views with the last point."""

    rng: random.Random
    whole: bool
    lines: list[str] = field(default_factory=list)
    rules: list[RuleText] = field(default_factory=list)
    base: list[Relation] = field(default_factory=list)
    low: list[Relation] = field(default_factory=list)
    views: list[Relation] = field(default_factory=list)
    syncs: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    slides: list[str] = field(default_factory=list)
    fallible: bool = False

    def __post_init__(self) -> None:
        rng = self.rng
        self.names = rng.random() < 0.5
        self.size = rng.randint(2, 3)
        self.serial = itertools.count()

    # -- values

    def values(self, kind: str) -> list[Any]:
        if kind == "x":
            return list("abc"[: self.size]) if self.names else list(range(self.size))
        return list(range(5)) if kind == "v" else list(range(16)) if self.whole else [i / 2 for i in range(24)]

    def constant(self, kind: str) -> str:
        value = self.rng.choice(self.values(kind)[: 8 if kind == "t" else None])
        return f'"{value}"' if isinstance(value, str) else str(value)

    def number(self, low: int, high: int) -> str:
        """A stretch of time."""
        if self.whole:
            return str(self.rng.randint(low, high))
        return f"{self.rng.randint(2 * low, 2 * high) / 2:g}"

    def at(self, relation: Relation, sync: bool | None) -> str:
        """How a relation is read: ` at ...`, or nothing."""
        rng = self.rng
        if not (rng.random() < 0.45 if sync is None else sync):
            return ""
        if not self.syncs or rng.random() < 0.25:
            return f" at {self.every()}"
        if rng.random() < 0.03:
            return " at clock"
        return f" at {rng.choice(self.syncs)}"

    def every(self) -> str:
        period = self.number(2, 5)
        return f"every({period})" if self.rng.random() < 0.6 else f"every({period}, from={self.number(0, 4)})"

    # -- base relations

    def base_relations(self) -> None:
        rng = self.rng
        kinds = ["stream", "key", rng.choice(["plain", "edge", "stream"]), *rng.choices(
            ["plain", "edge", "stream", "key", "bag", "event", "deadline", "flag"], k=rng.randint(0, 2))]  # fmt: skip
        if rng.random() < 0.3:
            kinds = rng.sample(kinds, rng.randint(1, len(kinds)))
        for kind in kinds:
            i = len(self.base)
            columns = rng.choice(["xv", "xv", "xxv", "x"])
            columns = {"edge": "xx", "event": "xt", "deadline": "t", "bag": "x", "flag": ""}.get(kind, columns)
            if kind == "key" and len(columns) < 2:
                columns = "xv"
            qualifiers = {"stream": " stream", "key": f" key({', '.join(f'c{j}' for j in range(len(columns) - 1))})",
                          "bag": " bag", "event": rng.choice(["", " stream", " key(c0)"])}.get(kind, "")  # fmt: skip
            if kind not in ("bag", "deadline") and rng.random() < 0.2:
                qualifiers += f" ttl({self.number(1, 6)})"
            if len(columns) > 1 and rng.random() < 0.15:
                qualifiers += f" partition(c{rng.randrange(len(columns))})"
            relation = Relation(
                f"{kind[0]}{i}", columns, stream="stream" in qualifiers, bag=kind == "bag", key="key(" in qualifiers
            )
            self.declare(relation, qualifiers)
            self.base.append(relation)
            self.low.append(relation)
            if kind == "deadline":
                self.syncs.append(relation.name)
                self.points.append(relation.name)

    def declare(self, relation: Relation, qualifiers: str) -> None:
        types = {"x": "symbol" if self.names else "number", "v": "number", "t": "number" if self.whole else "float"}
        columns = ", ".join(f"c{i}: {types[kind]}" for i, kind in enumerate(relation.kinds))
        self.lines.append(f".decl {relation.name}({columns}){qualifiers}")

    # -- views

    def view(self, kinds: str, key: int = 0) -> Relation:
        relation = Relation(f"w{len(self.views)}", kinds, view=True)
        self.views.append(relation)
        if key or self.rng.random() < 0.15:
            self.declare(relation, f" key({', '.join(f'c{i}' for i in range(key))})" if key else "")
        return relation

    def body(self) -> Body:
        rng, body = self.rng, Body(self)
        for _ in range(rng.choice([1, 1, 2, 2, 2, 3])):
            body.atom(rng.choice(self.low))
        if rng.random() < 0.35:
            body.filter()
        if rng.random() < 0.2:
            body.negation()
        if rng.random() < 0.15:
            body.aggregate()
        if body.of("t") and rng.random() < 0.15:
            body.window(rng.choice(body.of("t")))
        return body

    def head(self, view: Relation, body: Body) -> str:
        terms: list[str] = []
        for kind in view.kinds:
            terms.append(body.term(kind, terms))
        return f"{view.name}({', '.join(terms)})"

    def kinds(self, body: Body) -> str:
        """The kinds of a view of some of the variables of a body."""
        found = [kind for _, kind in body.bound]
        self.rng.shuffle(found)
        return "".join(sorted(found[: self.rng.randint(1, 3)], key="xvt".index)) or "x"

    def flat(self) -> Relation:
        body = self.body()
        view = self.view(self.kinds(body))
        self.rules.append(RuleText(self.head(view, body), body.shuffled()))
        if self.rng.random() < 0.2:
            body = self.body()
            self.rules.append(RuleText(self.head(view, body), body.shuffled()))
        return view

    def copied(self) -> Relation | None:
        """A view with the key of a relation that has one."""
        rng = self.rng
        keyed = [r for r in self.base if r.key]
        if not keyed:
            return None
        relation, body = rng.choice(keyed), Body(self)
        terms = [body.new(kind) for kind in relation.kinds]
        body.literals.append(f"{relation.name}({', '.join(terms)}){self.at(relation, rng.random() < 0.7)}")
        if rng.random() < 0.5:
            body.literals.append(f"{terms[-1]} {rng.choice(['<', '>', '!='])} {self.constant(relation.kinds[-1])}")
        view = self.view(relation.kinds, key=len(terms) - 1)
        self.rules.append(RuleText(f"{view.name}({', '.join(terms)})", body.shuffled()))
        return view

    def windowed(self) -> Relation | None:
        """A window over one relation, or one over each of two."""
        rng, body = self.rng, Body(self)
        stamped = [r for r in self.low if not r.bag]
        streams = [r for r in stamped if r.stream]
        if not stamped:
            return None
        relation = rng.choice(streams if streams and rng.random() < 0.6 else stamped)
        time = body.atom(relation, time=True, sync=rng.random() < 0.3)
        assert time is not None
        others = body.of("t")
        if rng.random() < 0.15 and len(others) > 1:
            time = rng.choice(others)
        n = body.window(time)
        if rng.random() < 0.35:
            second = body.atom(rng.choice(stamped), time=True, sync=rng.random() < 0.3)
            if n and rng.random() < 0.6:
                body.literals.append(f"{n} - {self.number(1, 5)} < {second}")
            if rng.random() < 0.4:
                body.literals.append(f"{time} < {second} + {self.number(1, 3)}")
        if rng.random() < 0.2:
            body.filter()
        if rng.random() < 0.15:
            body.negation()
        return self.shown(body)

    def joined(self) -> Relation | None:
        """Tuples of two relations that came near each other."""
        rng, body = self.rng, Body(self)
        stamped = [r for r in self.low if not r.bag]
        if not stamped:
            return None
        one = body.atom(rng.choice(stamped), time=True, sync=rng.random() < 0.3)
        other = body.atom(rng.choice(stamped), time=True, sync=rng.random() < 0.3)
        width = self.number(1, 5)
        body.literals += rng.choice([
            [f"{one} - {width} < {other}", f"{other} < {one} + {width}"],
            [f"{one} <= {other}", f"{other} < {one} + {width}"],
            [f"{one} < {other}"], [f"{other} - {one} <= {width}"],
        ])  # fmt: skip
        return self.shown(body)

    def shown(self, body: Body) -> Relation:
        """A view of a body: rows, or aggregates over groups."""
        rng = self.rng
        numbers = body.of("vt")
        if rng.random() < 0.4:
            groups = rng.sample(body.of("xv"), min(len(body.of("xv")), rng.choice([0, 1, 1])))
            functions = ["count<*>"]
            if numbers:
                functions += [f"{f}<{rng.choice(numbers)}>" for f in ("sum", "min", "max")]
            kinds = "".join(kind for name in groups for n, kind in body.bound if n == name)
            view = self.view(kinds + "v")
            self.rules.append(RuleText(f"{view.name}({', '.join([*groups, rng.choice(functions)])})", body.shuffled()))
            return view
        view = self.view(self.kinds(body))
        self.rules.append(RuleText(self.head(view, body), body.shuffled()))
        return view

    def grouped(self) -> Relation:
        return self.shown(self.body())

    def clocked(self) -> Relation:
        """The clock as a number among others."""
        rng, body = self.rng, Body(self)
        relation = rng.choice(self.low)
        if self.whole and rng.random() < 0.6:
            time = body.atom(relation, time=not relation.bag)
            n = body.new("t")
            body.literals.append(f"now({n})")
            if time is not None and rng.random() < 0.6:
                body.literals.append(f"{body.new('v')} = {n} - {time}")
            elif rng.random() < 0.5:
                body.literals.append(f"{n} % 3 = {rng.randrange(3)}")
        else:
            body.atom(relation)
            roll = rng.random()
            if roll < 0.4:
                t = body.new("t")
                body.literals += [f"clock({t})", *tick_conditions(rng, t), f"{t} < 9"]
            elif roll < 0.55:
                points = ", ".join(["clock(q)", *tick_conditions(rng, "q")])
                if self.points and rng.random() < 0.6:
                    points = f"{rng.choice(self.points)}(q)"
                function = rng.choice(["count", "max q", "min q", "sum q"])
                body.literals.append(f"{body.new('v')} = {function} : {{ {points} }}")
            elif roll < 0.7 and body.of("vt"):
                body.literals.append(f"{rng.choice(['', '!'])}clock({rng.choice(body.of('vt'))})")
            elif self.points:
                body.literals.append(f"{rng.choice(self.points)}({body.new('t')})")
            else:
                body.literals.append(f"{rng.choice(['', '!'])}clock({rng.randint(2, 9)})")
        return self.shown(body)

    def recursive(self) -> Relation | None:
        edges = [r for r in self.low if r.kinds == "xx"]
        if not edges:
            return None
        rng, view = self.rng, self.view("xx")
        one, other = rng.choice(edges), rng.choice(edges)
        self.rules.append(RuleText(f"{view.name}(x, y)", (f"{one.name}(x, y){self.at(one, None)}",)))
        step = f"{other.name}(x, z){self.at(other, None)}"
        body = [step, f"{view.name}(z, y)"] if rng.random() < 0.8 else [f"{view.name}(x, z)", f"{view.name}(z, y)"]
        unary = [r for r in self.low if r.kinds.startswith("x") and r.kinds != "xx"]
        if unary and rng.random() < 0.35:
            relation = rng.choice(unary)
            rest = ", _" * (len(relation.kinds) - 1)
            body.append(f"{rng.choice(['', '!'])}{relation.name}(z{rest}){self.at(relation, None)}")
        self.rules.append(RuleText(f"{view.name}(x, y)", tuple(body)))
        return view

    def variant(self) -> Relation | None:
        """The body of a view again, under other names: perhaps narrower, at other points, with another head."""
        rng, body = self.rng, Body(self)
        rules = [rule for rule in self.rules if rule.head.startswith("w") and rule.body]
        rule = rng.choice(rules) if rules else RuleText("")
        text = "; ".join(rule.body)
        if not rules or "{" in text or rule.head.partition("(")[0] in text:
            return None
        if rng.random() < 0.4:
            text = re.sub(r" at \w+(?=;|$)", lambda found: rng.choice([self.at(self.base[0], True), found[0]]), text)
        if rng.random() < 0.3:
            text = re.sub(VARIABLE, r"\g<1>1\2", text)
        body.literals = text.split("; ")
        positive = ", ".join(literal for literal in body.literals if re.match(r"\w+\(", literal))
        body.bound = [(kind + digits, kind) for kind, digits in dict.fromkeys(re.findall(VARIABLE, positive))]
        if body.bound and rng.random() < 0.5:
            body.filter()
        if rng.random() < 0.1:
            body.negation()
        return self.shown(body)

    def failing(self) -> Relation | None:
        """A division by what may be zero."""
        valued = [r for r in self.low if r.kinds.endswith("v") and not r.view]
        if not valued:
            return None
        self.fallible = True
        relation, body = self.rng.choice(valued), Body(self)
        terms = [body.new(kind) for kind in relation.kinds]
        text = f"{relation.name}({', '.join(terms)})"
        if relation.stream and self.rng.random() < 0.6:
            text += f"@{body.new('t')}"
        body.literals.append(text + self.at(relation, self.rng.random() < 0.7))
        if body.of("t"):
            body.window(body.of("t")[0])
        view = self.view("v")
        self.rules.append(RuleText(f"{view.name}(12 / {terms[-1]})", body.shuffled()))
        return view

    def program(self) -> None:
        rng = self.rng
        self.base_relations()
        for _ in range(rng.randint(0, 3)):
            draw_points(self)
        makers = [self.flat, self.flat, self.copied, self.windowed, self.windowed, self.joined, self.grouped,
                  self.clocked, self.recursive, self.recursive, self.variant, self.variant, self.variant]  # fmt: skip
        if rng.random() < 0.08:
            makers = [*makers, *[self.failing] * 8]
        for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 5])):
            view = rng.choice(makers)()
            if view is not None and view not in self.low:
                self.low.append(view)
            if rng.random() < 0.3:
                draw_points(self)
        if rng.random() < 0.15:
            relation = rng.choice(self.base)
            row = ", ".join(self.constant(kind) for kind in relation.kinds)
            self.rules.append(RuleText(f"{relation.name}({row})"))
        if self.views and rng.random() < 0.8:
            shown = rng.sample(self.views, rng.randint(1, len(self.views)))
            self.lines += [f".output {view.name}" for view in shown]
            if rng.random() < 0.15 and not (relation := rng.choice(self.base)).bag:
                self.lines.append(f".output {relation.name}")
