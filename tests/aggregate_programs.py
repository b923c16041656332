"""Draws programs about aggregates: every aggregate over every shape of join, and views over those views.

A drawn program has two to four base relations whose key columns meet (numbers from a small range, or texts) and whose
value columns are made to hurt: negative numbers, ties, 0.1s, floats of very different size, now and then a number at
the edge of its type. Over them come head aggregates, and over these come filters, joins, further aggregates and
recursion. Programs with nested aggregates are drawn in `tests/nested_programs.py`, those with recursion through an
index in `tests/index_programs.py`.
"""

from __future__ import annotations

import random

from tests.aggregate_data import KEYS, NUMBERS, TRAP, TYPES, Data, Relation
from tests.cases import Case, RuleText
from tests.oracle import Row

OPERATORS = ("<", "<=", ">", ">=", "=", "!=")
FUNCTIONS = (
    "sum", "sum", "sum", "count", "count", "avg", "avg", "mean", "min", "max", "min", "max", "variance", "stddev",
    "median", "quantile", "top", "bottom", "collect", "count_distinct", "all", "any", "spread", "checksum", "divisor",
)  # fmt: skip
OF_ANYTHING = ("count_distinct", "min", "max", "top", "bottom", "collect")
GIVES = {
    **dict.fromkeys(("avg", "mean", "variance", "stddev", "median", "quantile", "spread"), "f"),
    **dict.fromkeys(("count", "count_distinct", "all", "any", "checksum", "divisor"), "n"),
    **dict.fromkeys(("top", "bottom", "collect"), "l"),
}


class Body:
    """A rule's body while it is drawn: its literals, and what its variables are."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.rng = draw, draw.rng
        self.literals: list[str] = []
        self.bound: dict[str, str] = {}
        self.sides: list[list[str]] = []

    def of(self, kinds: str, among: list[str] | None = None) -> list[str]:
        return [name for name, kind in self.bound.items() if kind in kinds and (among is None or name in among)]

    def new(self, kind: str) -> str:
        name = f"{kind}{len(self.bound)}"
        self.bound[name] = kind
        return name

    def atom(self, relation: Relation) -> None:
        """An atom that meets the ones before it in a key column, or, now and then, does not."""
        rng, before = self.rng, list(self.bound)
        meeting = [i for i, kind in enumerate(relation.kinds) if kind in KEYS and self.of(kind, before)]
        chosen = rng.choice(meeting) if meeting and rng.random() < 0.9 else None
        arguments: list[str] = []
        for i, kind in enumerate(relation.kinds):
            roll = rng.random()
            if i == chosen:
                arguments.append(rng.choice(self.of(kind, before)))
            elif kind in KEYS and before and self.of(kind) and roll < 0.15:
                arguments.append(rng.choice(self.of(kind)))
            elif roll < 0.25 and kind in KEYS:
                arguments.append("_" if roll < 0.22 else self.draw.data.constant(kind))
            elif roll < 0.28:
                arguments.append("_")
            else:
                arguments.append(self.new(kind))
        self.sides.append([name for name in self.bound if name not in before])
        self.literals.append(f"{relation.name}({', '.join(arguments)})")

    def comparison(self) -> None:
        rng, known = self.rng, [(name, kind) for name, kind in self.bound.items() if kind != "l"]
        if not known:
            return
        name, kind = rng.choice(known)
        family = NUMBERS if kind in NUMBERS else kind
        others = [other for other in self.of(family) if other != name]
        right = rng.choice(others) if others and rng.random() < 0.6 else self.draw.data.constant(kind)
        self.literals.append(f"{name} {rng.choice(OPERATORS)} {right}")

    def negation(self, relation: Relation) -> None:
        rng, arguments = self.rng, []
        for kind in relation.kinds:
            known = self.of(kind)
            arguments.append(rng.choice(known) if known and rng.random() < 0.7 else "_")
        self.literals.append(f"!{relation.name}({', '.join(arguments)})")

    def number(self) -> tuple[str, str]:
        """An expression with its kind, rather one over several sides of the join."""
        rng = self.rng
        names = [rng.choice(of) for side in self.sides if (of := self.of(NUMBERS, side))]
        rng.shuffle(names)
        if not names:
            return rng.choice((("1", "n"), ("2", "n"), ("0.5", "f")))
        one = names[0]
        two = names[1] if len(names) > 1 and rng.random() < 0.8 else rng.choice(names)
        kinds = {self.bound[one], self.bound[two]}
        both = "m" if "m" in kinds else "f" if "f" in kinds else "n"
        alone = self.bound[one]
        options = [(one, alone)] * 4
        # Of whole numbers at the edge of their type only sums are tried: where their products are part of an aggregate
        # over a join, only the total must fit. Differences of unsigned numbers are likewise left out.
        if not self.draw.data.edge(kinds):
            options += [(f"{one} * {two}", both)] * 3 + [(f"{one} - {two}", both)] * 2
            options += [(f"{one} + {two} + 1", both), (f"{one} * 0.1", "f"), (f"abs({one})", alone), ("1", "n")]
            if rng.random() < 0.08:
                options = [(f"100 / {one}", both), (f"fragile({one})", "n") if alone in "kn" else (one, alone)]
        return rng.choice(options)

    def group(self) -> tuple[str, str]:
        """A group column: a variable mostly, or an expression over keys, or a constant."""
        rng, known = self.rng, self.of(KEYS)
        roll = rng.random()
        keys = self.of("k")
        if keys and roll < 0.15:
            return f"({rng.choice(keys)} + {rng.choice(keys)}) % 3", "k"
        if roll < 0.2 or not self.bound:
            return rng.choice((('"all"', "s"), ("7", "k")))
        if roll < 0.3:
            name = rng.choice(list(self.bound))
            return name, self.bound[name]
        name = rng.choice(known or list(self.bound))
        return name, self.bound[name]

    def result(self) -> tuple[str, str]:
        """An aggregate of a head, with the kind of its value."""
        rng = self.rng
        function = rng.choice(FUNCTIONS)
        if function == "count":  # it never looks at what it counts
            return f"count<{rng.choice(('*', '*', *self.bound))}>", "n"
        symbols = self.of("s")
        if function in OF_ANYTHING and symbols and rng.random() < 0.4:
            target, kind = rng.choice(symbols), "s"
        else:
            target, kind = self.number()
        parameter = {"quantile": ", 0.25", "top": ", 2", "bottom": ", 3"}.get(function, "")
        gives = GIVES.get(function, "n" if kind == "k" else kind)
        return f"{function}<{target}{parameter}>", gives

    def shuffled(self) -> tuple[str, ...]:
        if self.rng.random() < 0.3:
            self.rng.shuffle(self.literals)
        return tuple(self.literals)


class Draw:
    """One program being drawn; `low` are the relations that a rule may read."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.data = Data(rng)
        self.lines: list[str] = []
        self.rules: list[RuleText] = []
        self.low: list[Relation] = []
        self.base: list[Relation] = []
        self.pools: dict[str, list[Row]] = {}
        self.views = 0

    # --- base relations

    def base_relations(self, shapes: tuple[str, ...] = (), declaring: bool = True) -> None:
        rng = self.rng
        value = rng.choice("nnfffu" if declaring else "nnffm")
        key = rng.choice("kks")
        if not shapes:
            patterns = [key + value, key + key, key + key + value, key + value + value, "ks" + value, value + key, key]
            shapes = tuple(rng.choice(patterns) for _ in range(rng.randint(2, 3)))
        for number, kinds in enumerate(shapes):
            relation = Relation(f"e{number}", kinds)
            self.base.append(relation)
            self.pools[relation.name] = self.data.rows(kinds, rng.randint(4, 14))
            if declaring:
                columns = ", ".join(f"c{i}: {TYPES[kind]}" for i, kind in enumerate(kinds))
                self.lines.append(f".decl {relation.name}({columns}){self.qualifiers(kinds)}")
        self.low = list(self.base)

    def qualifiers(self, kinds: str) -> str:
        rng = self.rng
        roll, text = rng.random(), ""
        if roll < 0.2:
            text = " bag"
        elif roll < 0.3:
            text = f" key({', '.join(f'c{i}' for i in range(rng.randint(1, len(kinds))))})"
        if "bag" not in text and rng.random() < 0.15:
            text += f" ttl({rng.randint(1, 3)})"
        if rng.random() < 0.2:
            text += f" partition(c{rng.randrange(len(kinds))})"
        return text

    # --- rules

    def named(self, kinds: str) -> Relation:
        self.views += 1
        return Relation(f"v{self.views}", kinds)

    def body(self, atoms: int, most: list[Relation] | None = None) -> Body:
        rng, body = self.rng, Body(self)
        for _ in range(atoms):
            body.atom(rng.choice(most or self.low))
        if rng.random() < 0.3:
            body.comparison()
        if rng.random() < 0.15:
            body.negation(rng.choice(self.low))
        if rng.random() < 0.15 and (numbers := body.of("k")):
            name = rng.choice(numbers)
            body.literals.append(f"{body.new('k')} = {name} * 2 % 3")
        return body

    def aggregate(self, atoms: int | None = None, most: list[Relation] | None = None) -> Relation:
        """A view with head aggregates over a join."""
        rng = self.rng
        body = self.body(atoms or rng.choice((1, 1, 2, 2, 2, 2, 3, 3, 4)), most)
        groups = [body.group() for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        results = [body.result() for _ in range(rng.choice((1, 1, 2, 3)))]
        parts = groups + results
        if rng.random() < 0.3:
            rng.shuffle(parts)
        view = self.named("".join(kind for _, kind in parts))
        self.rules.append(RuleText(f"{view.name}({', '.join(text for text, _ in parts)})", body.shuffled()))
        if rng.random() < 0.1 and all(kind in "kn" for kind in view.kinds):
            self.rules.append(RuleText(f"{view.name}({', '.join(['0'] * len(view.kinds))})"))
        return view

    def over(self, view: Relation) -> Relation:
        """A view over an aggregate view: a filter on its values, a join with it, or its negation."""
        rng, body = self.rng, Body(self)
        body.atom(view)
        if rng.random() < 0.7 and (values := body.of("nufm")):
            name = rng.choice(values)
            body.literals.append(f"{name} {rng.choice(OPERATORS)} {self.data.constant(body.bound[name])}")
        if rng.random() < 0.4:
            body.atom(rng.choice(self.low))
        if rng.random() < 0.2:
            body.negation(rng.choice(self.low))
        names = rng.sample(list(body.bound), min(len(body.bound), rng.randint(1, 3)))
        head = self.named("".join(body.bound[name] for name in names))
        self.rules.append(RuleText(f"{head.name}({', '.join(names)})", tuple(body.literals)))
        return head

    def recursive(self, below: list[Relation]) -> Relation | None:
        """The transitive closure over two key columns of one of these."""
        rng = self.rng
        edges = [(r, i, j) for r in below for i, a in enumerate(r.kinds) for j, b in enumerate(r.kinds)
                 if i != j and a == b and a in KEYS]  # fmt: skip
        if not edges:
            return None
        relation, i, j = rng.choice(edges)
        view = self.named(relation.kinds[i] * 2)

        def step(a: str, b: str) -> str:
            return f"{relation.name}({', '.join({i: a, j: b}.get(at, '_') for at in range(len(relation.kinds)))})"

        self.rules.append(RuleText(f"{view.name}(x, y)", (step("x", "y"),)))
        self.rules.append(RuleText(f"{view.name}(x, y)", (step("x", "z"), f"{view.name}(z, y)")))
        return view

    def trap(self, view: Relation) -> None:
        """A rule that fails when a certain row turns up, and a view has been changed for it already."""
        rng = self.rng
        relations = [r for r in self.base if "k" in r.kinds and f"{r.name}(" in " ".join(map(str, self.rules))]
        if not relations:
            return
        relation = rng.choice(relations)
        at = relation.kinds.index("k")
        row = list(rng.choice(self.pools[relation.name]))
        row[at] = TRAP
        self.pools[relation.name].append(tuple(row))
        arguments = ", ".join("x" if i == at else "_" for i in range(len(relation.kinds)))
        some = f"{view.name}({', '.join('_' * len(view.kinds))})"
        self.rules.append(RuleText(f"trap(100 / (x - {TRAP}))", (some, f"{relation.name}({arguments})")))

    def program(self) -> None:
        """Base relations, perhaps recursion over them, aggregates, and views over aggregates."""
        rng = self.rng
        self.base_relations(declaring=rng.random() < 0.75)
        if rng.random() < 0.2 and (view := self.recursive(self.base)):
            self.low.append(view)
        for _ in range(rng.choice((1, 1, 2))):
            view = self.aggregate()
            above = [view]
            if rng.random() < 0.35:
                above.append(self.over(view))
            if rng.random() < 0.25:
                self.low.append(view)
                above.append(self.aggregate(rng.choice((1, 2)), [view, *self.base]))
            if rng.random() < 0.12 and (closure := self.recursive(above)):
                above.append(closure)
            self.low += [relation for relation in above if relation not in self.low]
            if rng.random() < 0.2:
                self.trap(rng.choice(above))


def draw_aggregates(rng: random.Random) -> tuple[Case, dict[str, list[Row]]]:
    """A program with head aggregates, and the rows to draw facts from."""
    draw = Draw(rng)
    draw.program()
    return Case(0, tuple(draw.lines), tuple(draw.rules), (), ()), draw.pools
