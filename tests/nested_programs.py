"""Draws programs whose rules compare nested aggregates: the queries that section 4 of the RPAI paper is about.

Each outer relation has comparisons of its own. A side of a comparison is a constant, columns of the outer row, an
aggregate that is the same for all rows, or one that is correlated with the row: by an equality, by an inequality on
either side of it, or by both; and any of these with arithmetic around. What is aggregated may be negative or zero, and
prices tie. Some rules aggregate the rows that they compare an aggregate of.
"""

from __future__ import annotations

import random

from tests.aggregate_data import FLOATS, NUMBERS, SPANS, Relation
from tests.aggregate_programs import GIVES, OPERATORS, Body, Draw
from tests.cases import Case, RuleText
from tests.oracle import Row

SHAPES = (
    ("nn",), ("knn",), ("knn",), ("kff",), ("knf",), ("nf",), ("snn",), ("unk",), ("nn", "nn"), ("knn", "knn"),
    ("kn", "knn"), ("ff", "fn"), ("k", "knn"), ("nnn", "n"),
)  # fmt: skip


FUNCTIONS = ("sum",) * 16 + ("count",) * 7 + ("avg", "min", "max") * 2 + (
    "median", "quantile", "variance", "stddev", "count_distinct", "any", "all", "checksum", "divisor", "spread",
)  # fmt: skip


class Nested:
    """The comparisons of one rule. `classic`: running sums against something fixed, which an RPAI tree is for."""

    def __init__(self, body: Body, classic: bool) -> None:
        self.body, self.rng, self.draw = body, body.rng, body.draw
        self.classic = classic
        self.locals = 0

    def constant(self) -> str:
        return self.rng.choice(("0", "1", "2", "3", "-2", "5", "0.5", "2.5", "10"))

    def inner(self, relation: Relation) -> tuple[list[str], list[str]]:
        """New variables for a relation inside of an aggregate."""
        self.locals += 1
        names = [f"i{self.locals}{kind}{at}" for at, kind in enumerate(relation.kinds)]
        return names, [n for n, kind in zip(names, relation.kinds, strict=True) if kind in NUMBERS]

    def aggregate(self, row: tuple[Relation, list[str]] | None, depth: int = 0) -> str:
        """An aggregate in braces, correlated with a row of the outer relation if one is given."""
        rng = self.rng
        relations = self.draw.base if rng.random() < 0.4 or row is None else [row[0]]
        relation = rng.choice(relations)
        names, numbers = self.inner(relation)
        arguments, literals = list(names), []
        if row is not None:
            literals = self.correlations(row, relation, names, arguments)
            numbers = [name for name in numbers if name in arguments]
        if rng.random() < 0.12 and numbers:
            literals.append(f"{rng.choice(numbers)} {rng.choice(OPERATORS)} {self.constant()}")
        if depth == 0 and rng.random() < (0.03 if self.classic else 0.08) and numbers:
            inside = (relation, names) if rng.random() < 0.6 else row
            literals.append(f"{self.aggregate(inside, 1)} {rng.choice(OPERATORS)} {rng.choice((*numbers, '2'))}")
        used = {name for name in names if any(name in literal for literal in literals)}
        if rng.random() < (0.03 if self.classic else 0.1):
            other = rng.choice(self.draw.base)
            own, _ = self.inner(other)
            shared = [(i, n) for i, kind in enumerate(other.kinds) for n, k in zip(names, relation.kinds, strict=True)
                      if kind == k and n in arguments]  # fmt: skip
            if shared:
                at, name = rng.choice(shared)
                own[at] = name
            literals.append(f"{other.name}({', '.join(own)})")
            used |= set(own)
        function = rng.choice(("sum", "sum", "count") if self.classic else FUNCTIONS)
        target = rng.choice(numbers) if numbers else "1"
        if len(numbers) > 1 and rng.random() < 0.2:
            target = f"{numbers[0]} * {numbers[-1]}"
        if function == "count" or target == "1":
            head = "count"
        else:
            head = f"{function} {target}{', 0.75' if function == 'quantile' else ''}"
            used |= set(numbers)
        arguments = [a if a in used or a not in names or rng.random() < 0.3 else "_" for a in arguments]
        atom = f"{relation.name}({', '.join(arguments)})"
        return f"{head} : {{ {', '.join([atom, *literals])} }}"

    def correlations(
        self, row: tuple[Relation, list[str]], relation: Relation, names: list[str], arguments: list[str]
    ) -> list[str]:
        """Equalities (in the arguments, or written out) and inequalities between an inner row and the outer one."""
        rng, literals = self.rng, []
        outer = list(zip(row[1], row[0].kinds, strict=True))
        pairs = []
        for at, kind in enumerate(relation.kinds):
            same = [name for name, k in outer if k == kind or (k in NUMBERS and kind in NUMBERS and rng.random() < 0.2)]
            pairs += [(at, name) for name in same]
        if not pairs:
            return []
        ties = [["<"]] * 5 + [["=", "<"]] * 2
        if not self.classic:
            ties += [["="]] * 3 + [["<", "<"], ["!="]]
        for style in rng.choice(ties):
            at, name = rng.choice(pairs)
            if style == "=" and rng.random() < 0.7:
                arguments[at] = name
                continue
            inner = arguments[at]
            if style == "<" and inner == name:
                continue
            operator = rng.choice(("<", "<=", ">", ">=")) if style == "<" else style
            left, right = (inner, name) if rng.random() < 0.7 else (name, inner)
            if rng.random() < 0.1 and relation.kinds[at] in NUMBERS:
                right = f"{right} + 1"
            literals.append(f"{left} {operator} {right}")
        return literals

    def named(self, text: str) -> str:
        """The aggregate in place, or by a name of its own."""
        if self.rng.random() < 0.5:
            return text
        self.locals += 1
        name = f"a{self.locals}"
        self.body.literals.append(f"{name} = {text}")
        return name

    def side(self, row: tuple[Relation, list[str]], kind: str) -> str:
        rng = self.rng
        # no arithmetic on unsigned numbers: which rows it fails for would depend on the order of the conditions
        columns = [name for name, k in zip(row[1], row[0].kinds, strict=True) if k in NUMBERS and k != "u"]
        if kind == "constant":
            return self.constant()
        if kind == "columns" and columns:
            one, two = rng.choice(columns), rng.choice(columns)
            return rng.choice((one, one, f"2 * {one}", f"{one} + {two}", f"{one} - 1"))
        text = self.named(self.aggregate(row if kind == "correlated" else None))
        roll = rng.random()
        if roll < 0.25:
            return f"{rng.choice(('0.75', '0.25', '2', '-1', '0.5'))} * {text}"
        if roll < 0.35:
            return f"{text} {rng.choice(('+', '-'))} {rng.choice((*columns, '1', '2'))}"
        if roll < 0.42:
            if "u" in "".join(relation.kinds for relation in self.draw.base):
                return text
            other = self.aggregate(rng.choice((row, None)), 1)
            return f"{text} {rng.choice(('+', '-'))} {self.named(other)}"
        return text

    def comparison(self, row: tuple[Relation, list[str]]) -> str:
        rng = self.rng
        left = rng.choice(("fixed",) * 4 + ("constant",) + ("columns", "columns", "correlated") * (not self.classic))
        right = "correlated" if self.classic or rng.random() < 0.9 else "fixed"
        sides = [self.side(row, left), self.side(row, right)]
        if rng.random() < 0.4:
            sides.reverse()
        return f"{sides[0]} {rng.choice(('<', '<', '<', '<=', '<=', '<=', '>', '>', '>=', '>=', '=', '!='))} {sides[1]}"


class NestedDraw(Draw):
    """A program with one or two rules of nested aggregates."""

    def outer(self) -> tuple[Body, list[tuple[Relation, list[str]]]]:
        rng, body, outer = self.rng, Body(self), []
        for _ in range(rng.choice((1, 1, 1, 2, 2) if len(self.base) > 1 else (1, 1, 1, 1, 2))):
            relation = rng.choice(self.base)
            before = [name for name, kind in body.bound.items() if kind in "ks"]
            names = []
            for kind in relation.kinds:
                meets = [name for name in before if body.bound[name] == kind]
                names.append(rng.choice(meets) if meets and rng.random() < 0.5 else body.new(kind))
            body.sides.append(names)
            body.literals.append(f"{relation.name}({', '.join(names)})")
            outer.append((relation, names))
        return body, outer

    def nested(self) -> Relation:
        rng = self.rng
        body, outer = self.outer()
        nested = Nested(body, rng.random() < 0.5)
        for row in outer:
            for _ in range(rng.choice((1, 1, 1, 2))):
                body.literals.append(nested.comparison(row))
        if rng.random() < 0.15:
            body.comparison()
        plain = rng.random() < 0.2
        groups = [body.group() for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
        results = [body.result() for _ in range(0 if plain else rng.choice((1, 1, 2)))]
        if plain:
            groups = [(name, kind) for name, kind in body.bound.items()][:3]
        parts = groups + results
        view = self.named("".join(kind for _, kind in parts))
        self.rules.append(RuleText(f"{view.name}({', '.join(text for text, _ in parts)})", tuple(body.literals)))
        return view

    def having(self) -> Relation:
        """Rows of one relation, joined with a few others, aggregated and compared by an aggregate of the same rows."""
        rng = self.rng
        body, outer = self.outer()
        relation, names = rng.choice(outer)
        own = [name for name in dict.fromkeys(names) if not any(name in other for r, other in outer if other != names)]
        values = rng.sample(own, rng.randint(1, len(own))) if own else []
        inner = [f"h{i}" if name in values else name for i, name in enumerate(names)]
        numbers = [(n, i) for n, i in zip(names, inner, strict=True) if n in values and body.bound[n] in NUMBERS]
        parts = [(name, kind) for name, kind in body.bound.items() if name not in values and rng.random() < 0.95]
        for _ in range(rng.choice((1, 1, 2))):
            function = rng.choice(("sum", "sum", "avg", "min", "max", "count", "median"))
            target, compared = rng.choice(numbers) if numbers else ("*", "")
            function = function if numbers else "count"
            kind = body.bound.get(target, "n")
            parts.append((f"{function}<{target}>", GIVES.get(function, "n" if kind == "k" else kind)))
            shown = "" if function == "count" else f" {compared}"
            aggregate = f"{function}{shown} : {{ {relation.name}({', '.join(inner)}) }}"
            body.literals.append(f"{rng.choice('01235')} {rng.choice(OPERATORS)} {aggregate}")
        rng.shuffle(parts)
        view = self.named("".join(kind for _, kind in parts))
        self.rules.append(RuleText(f"{view.name}({', '.join(text for text, _ in parts)})", tuple(body.literals)))
        return view

    def program(self) -> None:
        rng = self.rng
        values = self.data.values
        values["n"] = SPANS["small"] if rng.random() < 0.5 else SPANS["signed"]
        values["f"] = FLOATS[rng.choice(("tenths", "tenths", "mixed", "zeros"))]
        values["u"] = (0, 1, 2, 5)
        self.base_relations(rng.choice(SHAPES), rng.random() < 0.75)
        for _ in range(rng.choice((1, 1, 1, 2))):
            view = self.having() if rng.random() < 0.15 else self.nested()
            if rng.random() < 0.2:
                self.trap(view)
            if rng.random() < 0.12:
                self.over(view)
            if rng.random() < 0.1:
                self.low.append(view)
                self.aggregate(rng.choice((1, 2)), [view, *self.base])


def draw_nested(rng: random.Random) -> tuple[Case, dict[str, list[Row]]]:
    """A program with nested aggregates, and the rows to draw facts from."""
    draw = NestedDraw(rng)
    draw.program()
    return Case(0, tuple(draw.lines), tuple(draw.rules), (), ()), draw.pools
