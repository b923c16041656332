"""Draws random stratified programs, as text in pieces.

A program is drawn component by component, each over the relations below it: flat views, linear and non-linear
recursion, mutual recursion, head aggregates, with comparisons, arithmetic that stays bounded, negation, body
aggregates, disjunction and several heads strewn in.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

from tests.cases import RuleText

TYPES = {"n": "number", "s": "symbol", "f": "float"}
LETTERS = "abcdef"


@dataclass
class Relation:
    name: str
    types: str  # one letter per column
    aggregate: bool = False  # has a float column: fine to read, not to compute with


class Body:
    """The body of a rule while it grows: literals, and the variables that they bind, by type."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.rng = draw.rng
        self.literals: list[str] = []
        self.bound: list[tuple[str, str]] = []
        self.names = iter("xyzwuvpqrt")

    def of(self, kind: str) -> list[str]:
        return [name for name, type_ in self.bound if type_ == kind]

    def new(self, kind: str) -> str:
        name = next(self.names, None)
        if name is None:
            return self.rng.choice(self.of(kind) or ["_"])
        self.bound.append((name, kind))
        return name

    def atom(self, relation: Relation) -> None:
        rng, arguments = self.rng, []
        before = {name for name, _ in self.bound}
        forced = bool(before) and rng.random() < 0.85
        positions = list(range(len(relation.types)))
        rng.shuffle(positions)
        chosen: dict[int, str] = {}
        for position in positions:
            kind = relation.types[position]
            known = self.of(kind)
            old = [name for name in known if name in before]
            roll = rng.random()
            if forced and old:
                chosen[position], forced = rng.choice(old), False
            elif old and roll < 0.25:
                chosen[position] = rng.choice(old)
            elif known and roll < 0.30:
                chosen[position] = rng.choice(known)  # perhaps one of this very atom: a repeated variable
            elif roll < 0.40:
                chosen[position] = "_"
            elif roll < 0.44:
                chosen[position] = self.draw.constant(kind)
            elif roll < 0.47 and kind == "n" and old:
                chosen[position] = f"({rng.choice(old)} + 1) % {rng.randint(2, 4)}"
            else:
                chosen[position] = self.new(kind)
        arguments = [chosen[i] for i in range(len(relation.types))]
        self.literals.append(f"{relation.name}({', '.join(arguments)})")

    def alternatives(self, relation: Relation) -> None:
        """Turn the last atom into a disjunction with another one over the same variables."""
        rng = self.rng
        atom = self.literals.pop()
        inside = atom[atom.index("(") + 1 : -1]
        arguments = inside.split(", ") if inside else []
        others = [r for r in self.draw.low if r.types == relation.types] or [relation]
        swapped = list(arguments)
        same = [(i, j) for i in range(len(arguments)) for j in range(i) if relation.types[i] == relation.types[j]]
        if same:
            i, j = rng.choice(same)
            swapped[i], swapped[j] = swapped[j], swapped[i]
        other = f"{rng.choice(others).name}({', '.join(swapped)})"
        if rng.random() < 0.3 and self.bound and "_" not in arguments:
            other += ", " + self.comparison_text()
        self.literals.append(f"({atom} ; {other})")

    def comparison_text(self) -> str:
        rng = self.rng
        name, kind = rng.choice(self.bound)
        others = [other for other in self.of(kind) if other != name]
        right = rng.choice(others) if others and rng.random() < 0.7 else self.draw.constant(kind)
        return f"{name} {rng.choice(['=', '!=', '!=', '<', '<=', '>', '>='])} {right}"

    def arithmetic(self) -> None:
        rng, numbers = self.rng, self.of("n")
        if not numbers:
            return
        x, y = rng.choice(numbers), rng.choice(numbers)
        count = len(self.bound)
        t, m = self.new("n"), rng.randint(2, 5)
        if len(self.bound) == count:
            return
        options: list[list[str]] = [
            [f"{t} = ({x} + 1) % {m}"],
            [f"{t} = {x} * {y} % {m}"],
            [f"{t} = {x} + {y}", f"{t} < 6"],
            [f"{x} - 1 = {t}", f"{t} >= 0"],
            [f"{t} = max({x}, {y})"],
            [f"{t} = min({x}, {m})"],
            [f"{t} = {x} / 2"],
            [f"{t} = abs({x} - {y}) % 7"],
            [f"{x} < {m}", f"{t} = {x} ^ 2 % 5"],
            [f"{t} = -{x} % {m}"],
        ]
        self.literals.extend(rng.choice(options))

    def negation(self) -> None:
        self.literals.append(self.negation_text(self.rng.choice(self.draw.low), self.bound))

    def negation_text(self, relation: Relation, bound: list[tuple[str, str]]) -> str:
        rng, arguments = self.rng, []
        for kind in relation.types:
            known = [name for name, type_ in bound if type_ == kind]
            roll = rng.random()
            if known and roll < 0.75:
                arguments.append(rng.choice(known))
            else:
                arguments.append("_" if roll < 0.9 else self.draw.constant(kind))
        return f"!{relation.name}({', '.join(arguments)})"

    def aggregate(self, depth: int = 0) -> None:
        """A body aggregate, correlated or not, bound to a new variable or compared in place."""
        rng = self.rng
        text, kind = self.aggregate_text(self.bound, depth)
        roll = rng.random()
        if roll < 0.6:
            count = len(self.bound)
            name = self.new(kind)
            if len(self.bound) > count:
                form = rng.choice(["{n} = {t}", "{n} = {t}", "{t} = {n}", "{n} = 1 + {t}", "{n} = 2 * {t}"])
                self.literals.append(form.format(n=name, t=text))
                return
        numbers = [n for n in self.of("n") if kind == "n"]
        right = rng.choice(numbers) if numbers and rng.random() < 0.5 else str(rng.randint(0, 4))
        self.literals.append(f"{text} {rng.choice(['<', '<=', '>', '>=', '=', '!='])} {right}")

    def aggregate_text(self, outside: list[tuple[str, str]], depth: int) -> tuple[str, str]:
        rng = self.rng
        serial = itertools.count(0 if rng.random() < 0.5 else 10 * self.draw.fresh())
        local: list[tuple[str, str]] = []
        literals = []
        for relation in rng.sample(self.draw.low, min(len(self.draw.low), 1 if rng.random() < 0.75 else 2)):
            arguments = []
            for kind in relation.types:
                outer = [n for n, t in outside if t == kind]
                inner = [n for n, t in local if t == kind]
                roll = rng.random()
                if outer and roll < 0.3:
                    arguments.append(rng.choice(outer))
                elif inner and roll < 0.45:
                    arguments.append(rng.choice(inner))
                elif roll < 0.55:
                    arguments.append("_")
                elif roll < 0.6:
                    arguments.append(self.draw.constant(kind))
                else:
                    local.append((f"l{depth}{next(serial)}", kind))
                    arguments.append(local[-1][0])
            literals.append(f"{relation.name}({', '.join(arguments)})")
        if local and rng.random() < 0.45:
            name, kind = rng.choice(local)
            outer = [n for n, t in outside if t == kind]
            right = rng.choice(outer) if outer and rng.random() < 0.8 else self.draw.constant(kind)
            literals.append(f"{name} {rng.choice(['<', '<=', '>', '>=', '!=', '='])} {right}")
        if rng.random() < 0.15:
            literals.append(self.negation_text(rng.choice(self.draw.low), local + outside))
        if depth == 0 and rng.random() < 0.08:
            inner_text, _ = self.aggregate_text(local + outside, 1)
            literals.append(f"{inner_text} {rng.choice(['<', '>=', '!='])} {rng.randint(0, 3)}")
        numbers = [n for n, t in local if t in "nf"]
        function = rng.choice(["count", "sum", "min", "max", "avg"]) if numbers else "count"
        if function == "count":
            return f"count : {{ {', '.join(literals)} }}", "n"
        target = rng.choice(numbers)
        floating = function == "avg" or (target, "f") in local
        if not floating and rng.random() < 0.2:
            target = f"{target} * {target}"
        return f"{function} {target} : {{ {', '.join(literals)} }}", "f" if floating else "n"

    def decorate(self, chance: float) -> None:
        """Some of the literals that filter or compute."""
        rng = self.rng
        if self.bound and rng.random() < chance:
            self.literals.append(self.comparison_text())
        if rng.random() < chance * 0.7:
            self.arithmetic()
        if rng.random() < chance * 0.8:
            self.negation()
        if rng.random() < chance * 0.6:
            self.aggregate()
            if rng.random() < 0.15:
                self.aggregate()

    def term(self, kind: str, used: list[str]) -> str:
        """An argument for a head, rather a variable that the head does not have yet."""
        rng, known = self.rng, self.of(kind)
        if rng.random() < 0.8:
            known = [name for name in known if name not in used] or known
        if not known or rng.random() < 0.04:
            return self.draw.constant(kind)
        name = rng.choice(known)
        if kind == "n" and rng.random() < 0.07:
            return f"({name} + 1) % {rng.randint(2, 5)}"
        return name

    def shuffled(self) -> tuple[str, ...]:
        if self.rng.random() < 0.3:
            self.rng.shuffle(self.literals)
        return tuple(self.literals)


class Draw:
    """One program being drawn. `low` holds the relations that are complete: base ones and lower views."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        size = rng.randint(3, 5)
        numbers: list[Any] = list(range(size))
        if rng.random() < 0.2:
            numbers[-1] = -2
        floats = [0.1, 0.2, 0.7, 1e16, -1e16, 2.5]
        self.domain: dict[str, list[Any]] = {"n": numbers, "s": list(LETTERS[:size]), "f": floats}
        self.declaring = rng.random() < 0.7  # otherwise everything is inferred
        self.main = rng.choice("nns")  # the type of most columns, so that joins meet
        self.lines: list[str] = []
        self.rules: list[RuleText] = []
        self.low: list[Relation] = []
        self.base: list[Relation] = []
        self.views: list[Relation] = []
        self.serial = 0
        self.fallible = False

    def fresh(self) -> int:
        self.serial += 1
        return self.serial

    def constant(self, kind: str) -> str:
        value = self.rng.choice(self.domain[kind])
        return f'"{value}"' if kind == "s" else str(value)

    def types(self, low: int, high: int) -> str:
        other = "s" if self.main == "n" else "n"
        return "".join(
            self.main if self.rng.random() < 0.8 else other for _ in range(self.rng.randint(low, high))
        )

    def declare(self, relation: Relation, qualifiers: str) -> None:
        columns = ", ".join(f"c{i}: {TYPES[kind]}" for i, kind in enumerate(relation.types))
        self.lines.append(f".decl {relation.name}({columns}){qualifiers}")

    def base_relations(self) -> None:
        rng = self.rng
        for i in range(rng.randint(1, 4)):
            types = self.main * 2 if i == 0 and rng.random() < 0.8 else self.types(0 if rng.random() < 0.3 else 1, 3)
            if types and self.declaring and rng.random() < 0.12:
                types = types[:-1] + "f"
            relation = Relation(f"b{i}", types)
            if self.declaring:
                if "f" not in types and rng.random() < 0.1:
                    self.lines.append(f".input {relation.name}")
                else:
                    self.declare(relation, self.qualifiers(len(types)))
            self.base.append(relation)
            self.low.append(relation)

    def qualifiers(self, arity: int) -> str:
        rng, text = self.rng, ""
        if rng.random() < 0.15:
            text += " bag"
        else:
            if arity > 1 and rng.random() < 0.25:
                columns = sorted(rng.sample(range(arity), rng.randint(1, arity - 1)))
                text += f" key({', '.join(f'c{i}' for i in columns)})"
            if rng.random() < 0.2:
                text += f" ttl({rng.choice([1, 2, 2.5, 5])})"
        return text + self.partition(arity)

    def partition(self, arity: int) -> str:
        if not arity or self.rng.random() < 0.75:
            return ""
        columns = self.rng.sample(range(arity), self.rng.randint(1, arity))
        return f" partition({', '.join(f'c{i}' for i in columns)})"

    def view(self, types: str) -> Relation:
        relation = Relation(f"v{len(self.views)}", types)
        self.views.append(relation)
        if self.declaring and self.rng.random() < 0.4:
            self.declare(relation, self.partition(len(types)))
        if self.rng.random() < 0.1 and "f" not in types:
            self.rules.append(RuleText(f"{relation.name}({', '.join(self.constant(t) for t in types)})"))
        return relation

    def atoms(self, own: list[Relation], recursive: int) -> Body:
        """A body with `recursive` atoms over the relations of the component and some over lower ones."""
        rng, body = self.rng, Body(self)
        lower = rng.choice([0, 1, 1, 2, 2, 3]) if recursive else rng.choice([1, 1, 2, 2, 3, 4])
        chosen = [rng.choice(own) for _ in range(recursive)]
        for _ in range(min(lower, 4 - recursive)):
            chosen.append(self.base[0] if rng.random() < 0.3 else rng.choice(self.low))
        rng.shuffle(chosen)
        for relation in chosen:
            body.atom(relation)
            if not recursive and rng.random() < 0.08:
                body.alternatives(relation)
        return body

    def head(self, view: Relation, body: Body) -> str:
        terms: list[str] = []
        for kind in view.types:
            terms.append(body.term(kind, terms))
        return f"{view.name}({', '.join(terms)})"

    def rule(self, view: Relation, own: list[Relation], recursive: int, chance: float) -> None:
        body = self.atoms(own, recursive)
        body.decorate(chance)
        heads = [self.head(view, body)]
        if len(own) > 1 and self.rng.random() < 0.15:
            heads.append(self.head(self.rng.choice(own), body))
        self.rules.append(RuleText(", ".join(heads), body.shuffled()))

    def chain(self, view: Relation, own: list[Relation]) -> None:
        """A recursive rule of the classic shape, `v(x, y) :- b(x, z), w(z, y)`, or non-linear, either way round."""
        rng, body = self.rng, Body(self)
        steps = [r for r in self.low if r.types == self.main * 2] or [self.base[0]]
        x, y, z = (body.new(self.main) for _ in range(3))
        left = rng.choice(own) if rng.random() < 0.35 else rng.choice(steps)
        right = rng.choice(own)
        pairs = [(left, x, z), (right, z, y)]
        if rng.random() < 0.3:
            pairs = [(right, x, z), (left, z, y)]
        for relation, a, b in pairs:
            arguments = [a, b] + ["_"] * len(relation.types)
            body.literals.append(f"{relation.name}({', '.join(arguments[: len(relation.types)])})")
        body.decorate(0.2)
        self.rules.append(RuleText(f"{view.name}({x}, {y})", body.shuffled()))

    def component(self) -> None:
        rng = self.rng
        kind = rng.choice(["flat", "recursive", "recursive", "mutual", "aggregate"])
        if kind == "aggregate":
            self.aggregated()
            return
        if kind == "flat":
            own = [self.view(self.types(0, 3))]
            for _ in range(rng.choice([1, 1, 2, 3])):
                self.rule(own[0], own, 0, 0.5)
        else:
            count = 1 if kind == "recursive" else rng.choice([2, 2, 3])
            classic = self.base[0].types == self.main * 2 and rng.random() < 0.6
            own = [self.view(self.main * 2 if classic else self.types(1, 3)) for _ in range(count)]
            for i, view in enumerate(own):
                if i == 0 or rng.random() < 0.5:
                    self.rule(view, own, 0, 0.25)
                others = own if rng.random() < 0.3 else [own[(i + 1) % count]]
                for _ in range(rng.choice([1, 1, 2])):
                    if classic and rng.random() < 0.7:
                        self.chain(view, others)
                    else:
                        self.rule(view, others, rng.choice([1, 1, 1, 2]), 0.3)
        self.low.extend(own)

    def aggregated(self) -> None:
        rng = self.rng
        body = self.atoms([], 0)
        body.decorate(0.3)
        numbers = body.of("n") + body.of("f")
        groups = [rng.choice(body.bound) for _ in range(rng.choice([0, 1, 1, 2]))] if body.bound else []
        groups = [(name, kind) for name, kind in groups if kind != "f"]
        types, parts = "", []
        for _ in range(rng.choice([1, 1, 2, 3])):
            function = rng.choice(["min", "max", "sum", "count", "avg", "mean"]) if numbers else "count"
            target = rng.choice(numbers) if numbers else "*"
            if function == "count" and rng.random() < 0.6:
                target = "*"
            floating = function in ("avg", "mean") or (function != "count" and (target, "f") in body.bound)
            if function != "count" and not floating and rng.random() < 0.25:
                target = rng.choice([f"{target} + 1", f"{target} * {target}"])
            parts.append((f"{function}<{target}>", "f" if floating else "n"))
        parts += groups
        if rng.random() < 0.7:
            parts = groups + parts[: len(parts) - len(groups)]
        types = "".join(kind for _, kind in parts)
        view = self.view(types)
        head = f"{view.name}({', '.join(text for text, _ in parts)})"
        self.rules.append(RuleText(head, body.shuffled()))
        if rng.random() < 0.2 and "f" not in types:
            self.rule(view, [view], 0, 0.2)
        self.low.append(view)

    def division(self) -> bool:
        """A rule that fails, and the transaction with it, when a certain value turns up."""
        relation = self.rng.choice(self.low)
        if "n" not in relation.types:
            return False
        arguments = ["_"] * len(relation.types)
        arguments[relation.types.index("n")] = "x"
        body = (f"{relation.name}({', '.join(arguments)})",)
        self.rules.append(RuleText(f"quotient(100 / (x - ({self.constant('n')})))", body))
        return True

    def program(self) -> None:
        rng = self.rng
        self.base_relations()
        while not self.views or (len(self.rules) < 7 and rng.random() < 0.65):
            self.component()
        for relation in self.base:
            if rng.random() < 0.15 and "f" not in relation.types:
                row = ", ".join(self.constant(kind) for kind in relation.types)
                self.rules.append(RuleText(f"{relation.name}({row})"))
        if rng.random() < 0.15:
            self.fallible = self.division()
        if rng.random() < 0.2:
            for view in rng.sample(self.views, rng.randint(1, len(self.views))):
                self.lines.append(f".output {view.name}")
