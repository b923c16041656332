"""Draws programs with recursion through an index: each value of the index is a layer over the ones before it.

A rule is written with `@` for the index. `IndexCase` writes the program with a variable in its place, and for the
oracle, which need know nothing of this, once for every value: `r(@ + 1, x) :- r(@, x), @ < 2` becomes
`r__1(x) :- r__0(x)` and so on, with `r` the union of these.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.aggregate_data import Relation
from tests.aggregate_programs import OPERATORS, Draw
from tests.cases import Case, RuleText
from tests.oracle import Row
from tests.oracle_values import COMPARE

_INDEX = re.compile(r"@( [+-] \d+)?")
_CONSTANT = re.compile(r"(-?\d+) (<|<=|>|>=|=|!=) (-?\d+)")


@dataclass(frozen=True)
class IndexCase(Case):
    """A case whose rules for the relations of `widths` are written with `@`.

    `widths` tells how many columns these relations have, `span` between which values of the index all layers are.
    `last`: the index is their last column, not the first. `named`: the next index has a name, `j = i + 1`.
    """

    span: tuple[int, int] = (0, 0)
    widths: tuple[tuple[str, int], ...] = ()
    last: bool = False
    named: bool = False

    @property
    def text(self) -> str:
        rules = self.rules
        if self.named:
            rules = tuple(_with_name(rule) for rule in rules)
        return self._turned("\n".join([*self.lines, *(rule.text().replace("@", "i") for rule in rules)]) + "\n")

    def _turned(self, text: str) -> str:
        if not self.last:
            return text
        names = "|".join(name for name, _ in self.widths)
        return re.sub(rf"\b({names})\(([^(),]*), ([^()]*)\)", r"\1(\3, \2)", text)

    @property
    def reference(self) -> str:
        indexed = dict(self.widths)
        own = [rule for rule in self.rules if rule.head.partition("(")[0] in indexed]
        instances = [instance for rule in own for instance in self._instances(rule)]
        layers: set[str] = set()
        while True:  # a layer that nothing is derived into is not there
            alive = [(head, body) for head, body in instances if all(self._lives(part, layers) for part in body)]
            found = {head.partition("(")[0] for head, _ in alive}
            if found == layers:
                break
            layers = found
        lines = [*self.lines, *(rule.text() for rule in self.rules if rule not in own)]
        for head, body in alive:
            kept = tuple(part for part in body if not self._missing(part.removeprefix("!"), layers))
            lines.append(RuleText(head, kept).text())
        declared = {line.split()[1].partition("(")[0]: line for line in self.lines}
        for name, width in self.widths:
            columns = ", ".join(f"x{i}" for i in range(width - 1))
            for value in range(self.span[0], self.span[1] + 1):
                if _name(name, value) in layers:
                    lines.append(f"{name}({value}, {columns}) :- {_name(name, value)}({columns}).")
                    if name in declared:
                        lines.append(declared[name].replace(f"{name}(i: number, ", f"{_name(name, value)}("))
        return self._turned("\n".join(lines) + "\n")

    def _instances(self, rule: RuleText) -> Iterator[tuple[str, tuple[str, ...]]]:
        """A rule for every value of its index, without the comparisons of constants; none where one of them fails."""
        for value in range(self.span[0], self.span[1] + 1) if "@" in rule.text() else (0,):
            head, *body = (
                _INDEX.sub(lambda m, at=value: str(at + _offset(m)), part)  # type: ignore[misc]
                for part in (rule.head, *rule.body)
            )
            constants = [m for part in body if (m := _CONSTANT.fullmatch(part))]
            if all(COMPARE[m[2]](int(m[1]), int(m[3])) for m in constants):
                yield self._layer(head), tuple(self._layer(part) for part in body if not _CONSTANT.fullmatch(part))

    def _layer(self, text: str) -> str:
        names = "|".join(name for name, _ in self.widths)
        return re.sub(rf"\b({names})\((-?\d+), ", lambda m: f"{_name(m[1], int(m[2]))}(", text)

    def _missing(self, literal: str, layers: set[str]) -> bool:
        return any(name not in layers for name in re.findall(r"\b\w+__m?\d+", literal))

    def _lives(self, literal: str, layers: set[str]) -> bool:
        return literal.startswith("!") or not self._missing(literal, layers)


def _with_name(rule: RuleText) -> RuleText:
    found = re.search(r"\((@ [+-] \d+), ", rule.head)
    if found is None:
        return rule
    return RuleText(rule.head.replace(found[1], "j", 1), (*rule.body, f"j = {found[1]}"))


def _offset(found: re.Match[str]) -> int:
    return int((found[1] or "0").replace(" ", ""))


def _name(relation: str, value: int) -> str:
    return f"{relation}__{value}".replace("-", "m")


class IndexDraw(Draw):
    """A program with layers. `r` is the relation that all go through, `s` and `t` belong to the same layers."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.step = rng.choice((1, 1, 1, 2, -1))
        self.start = rng.choice((0, 0, 1)) if self.step > 0 else rng.choice((3, 4))
        self.last = self.start + self.step * rng.randint(2, 4)
        self.widths = {"r": 3}
        self.integers = rng.random() < 0.5
        self.declaring = not self.integers or rng.random() < 0.5

    @property
    def span(self) -> tuple[int, int]:
        return min(self.start, self.last) - 2, max(self.start, self.last) + 2

    def next(self) -> str:
        return f"@ {'+' if self.step > 0 else '-'} {abs(self.step)}"

    def bound(self) -> str:
        """Steps from the last layer on are not taken."""
        last = self.last
        if self.step < 0:
            return self.rng.choice((f"@ > {last}", f"@ >= {last + 1}", f"{last} < @", f"@ - 1 >= {last}"))
        return self.rng.choice((f"@ < {last}", f"@ <= {last - 1}", f"{last} > @", f"{self.next()} <= {last}"))

    def layers_base(self) -> None:
        value = "n" if self.integers else "f"
        self.data.values["n"] = (0, 1, 1, 2, 3, -1)
        self.data.values["f"] = (0.1, 0.2, 0.5, 1.0, -0.3, 3.0)
        self.data.values["k"] = tuple(range(self.rng.randint(3, 5)))
        self.base_relations(("kk" + self.rng.choice(("", value)), "k" + value, "kk" + value), self.declaring)

    def declare(self) -> None:
        """Layers of integers may be inferred. With floats they are declared: a layer must not be of integers alone."""
        kind = "number" if self.integers else "float"
        columns = {"r": f"x: number, v: {kind}", "t": f"n: {kind}", "s": "x: number", "q": f"x: number, v: {kind}",
                   "p": "x: number, y: number"}  # fmt: skip
        self.lines += [f".decl {name}(i: number, {columns[name]})" for name in self.widths]

    def some(self, *texts: str) -> str:
        """One of these; one without floats if all is to be integers."""
        return self.rng.choice([t for t in texts if not self.integers or ("0." not in t and "avg" not in t)])

    def edge(self, x: str, y: str) -> tuple[str, str]:
        """An atom over the edges, and a weight."""
        if len(self.base[0].kinds) == 2:
            return f"e0({x}, {y})", "2"
        return f"e0({x}, {y}, w)", "w"

    def rule(self, head: str, *body: str) -> None:
        self.rules.append(RuleText(head, body))

    def program(self) -> None:
        rng = self.rng
        self.layers_base()
        self.rule(f"r({self.start}, x, {self.some('v', 'v', '1', '0.5')})", "e1(x, v)")
        if rng.random() < 0.2:
            self.rule(f"r({self.start + self.step}, x, {rng.choice(('v', '1'))})", "e1(x, v)", "v > 0")
        if rng.random() < 0.1:
            self.rule(f"r({self.start}, 0, 1)")
        for _ in range(rng.choice((1, 1, 1, 2))):
            steps = [self.flow, self.flow, self.walk, self.totals, self.blocked, self.looked_up, self.two_back]
            steps += [self.mutual, *([self.given, self.given] if self.declaring else [])]
            rng.choice(steps)()
        if rng.random() < 0.3:
            self.closure()
        if self.declaring:
            self.declare()
        self.readers()

    # --- what leads from layer to layer

    def flow(self) -> None:
        """Aggregates of what comes along the edges, as in PageRank."""
        rng = self.rng
        edge, weight = self.edge("x", "y")
        results = [f"sum<v * {weight}>", "sum<v>", "sum<v * 0.5>", "min<v + 1>", "max<v>", "avg<v>", "count<*>"]
        target, group = rng.choice((("y", "x"), ("y", "x"), ("x", "y")))
        body = [f"r(@, {group}, v)", edge, self.bound()]
        if rng.random() < 0.3:
            self.rules.append(RuleText("d(x, count<*>)", (edge,)))
            body.append(f"d({group}, n)")
            results = ["sum<v / n>", "sum<0.85 * v / n>", "max<v * n>"]
        if rng.random() < 0.2:
            body.append(f"v {rng.choice(OPERATORS[:4])} {rng.choice((0, 1, 0.5))}")
        rng.shuffle(body)
        self.rule(f"r({self.next()}, {target}, {self.some(*results)})", *body)

    def walk(self) -> None:
        """Rows that come along the edges one by one."""
        edge, weight = self.edge("x", "y")
        value = self.rng.choice(("v", f"{weight}", "v - 1", "@", "v * @"))
        self.rule(f"r({self.next()}, y, {value})", "r(@, x, v)", edge, self.bound())

    def totals(self) -> None:
        """A number for the whole layer, which the next one is measured by."""
        self.widths["t"] = 2
        self.rule(f"t(@, {self.some('sum<v>', 'max<v>', 'count<*>', 'avg<v>')})", "r(@, x, v)")
        value = self.some("v - n", "n", "v + 1", "v * 0.5")
        self.rule(f"r({self.next()}, x, {value})", "r(@, x, v)", "t(@, n)", self.bound())

    def blocked(self) -> None:
        """A negation of what the layer itself has."""
        rng = self.rng
        self.widths["s"] = 2
        self.rule("s(@, x)", "r(@, x, v)", f"v {rng.choice(OPERATORS[:4])} {rng.choice((0, 1, 0.5, 2))}")
        edge, _ = self.edge("x", "y")
        self.rule(f"r({self.next()}, y, v)", "r(@, x, v)", edge, f"!s(@, {rng.choice('xy')})", self.bound())

    def looked_up(self) -> None:
        """An aggregate in the body over the layer before."""
        rng = self.rng
        edge, _ = self.edge("y", "x")
        function = self.some("sum u", "count", "max u", "avg u")
        inner = rng.choice((edge, "u <= v", "y != x"))
        body = ["r(@, x, v)", f"m = {function} : {{ r(@, y, u), {inner} }}", self.bound()]
        self.rule(f"r({self.next()}, x, m)", *body)

    def two_back(self) -> None:
        """Two layers meet in the next one."""
        back = f"@ {'-' if self.step > 0 else '+'} {abs(self.step)}"
        value = self.rng.choice(("sum<v + u>", "v - u", "max<u>"))
        self.rule(f"r({self.next()}, x, {value})", "r(@, x, v)", f"r({back}, x, u)", self.bound())
        self.rule(f"r({self.start + self.step}, x, 1)", "e1(x, _)")

    def given(self) -> None:
        """Facts say in which layer they come in; some are outside of all. And a negation of the layer before."""
        low, high = sorted((self.start, self.last))
        within = (f"{low} <= @", f"@ < {high}")
        self.rule("r(@, x, v)", "e2(@, x, v)", *within)
        self.rule(f"r({self.next()}, x, v)", "e2(@, x, v)", f"!r(@, {self.rng.choice('x_')}, _)", *within)
        self.flow()

    def mutual(self) -> None:
        """Two relations that feed each other from layer to layer."""
        edge, weight = self.edge("x", "y")
        self.widths["s"] = 2
        self.widths["q"] = 3
        self.rule(f"q(@, x, {self.rng.choice(('v', 'count<*>', 'sum<v>'))})", "r(@, x, v)")
        self.rule("s(@, x)", "q(@, x, v)", "v > 0")
        self.rule(f"r({self.next()}, y, sum<v * {weight}>)", "q(@, x, v)", "s(@, x)", edge, self.bound())

    def closure(self) -> None:
        """Recursion within a layer."""
        self.widths["p"] = 3
        edge, _ = self.edge("x", "y")
        back, _ = self.edge("y", "z")
        self.rule("p(@, x, y)", "r(@, x, _)", edge)
        self.rule("p(@, x, z)", "p(@, x, y)", back)
        if self.rng.random() < 0.5:
            self.rule(f"r({self.next()}, y, count<*>)", "p(@, x, y)", self.bound())

    def readers(self) -> None:
        rng = self.rng
        for body in rng.sample((f"r({self.last}, x, v)", "r(x, _, v)", "r(_, x, v)"), rng.randint(1, 2)):
            view = self.named("kf")
            head = rng.choice(("(x, v)", "(x, max<v>)", "(sum<v>, count<*>)", "(x, avg<v>, min<v>)"))
            self.rules.append(RuleText(f"{view.name}{head}", (body, *(("e1(x, _)",) if rng.random() < 0.3 else ()))))
        if rng.random() < 0.2:
            self.trap(Relation("r", "kkf"))


def draw_layers(rng: random.Random) -> tuple[Case, dict[str, list[Row]]]:
    """A program with layers, and the rows to draw facts from."""
    draw = IndexDraw(rng)
    draw.program()
    widths = tuple(draw.widths.items())
    case = IndexCase(
        0, tuple(draw.lines), tuple(draw.rules), (), (), span=draw.span, widths=widths, last=rng.random() < 0.25,
        named=rng.random() < 0.25,
    )  # fmt: skip
    return case, draw.pools
