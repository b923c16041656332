"""The loops of a lineage join, generated: what changes of one side contribute with the other side.

Rows that expressions see are (key columns..., kept columns of the left..., of the right...). In the generated code
`key` is the lineage key, `l` and `r` are the kept columns and `lv` and `rv` the vectors of the two sides, and `cell`
is the one that they contribute to (`operators.cells`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from operators.cells import adding, finding, touching
from operators.expr import Apply, Col, Expr, columns
from operators.source import Source
from operators.sums import Factor

__all__ = ["Form", "Forms", "Product", "combining", "product_texts", "reads_only"]

Product = tuple[tuple[int, int, int], ...]
"""An entry of a contribution: a sum of (coefficient, entry of the left vector, entry of the right vector)."""


@dataclass(frozen=True, slots=True)
class Form:
    """What the loops need to know of one side: its join key, conditions, what is kept and what is summed up, over its
    own columns. Vectors that are counts alone are `bare`."""

    key: tuple[int, ...]
    where: tuple[Expr, ...]
    kept: tuple[Expr, ...]
    factors: tuple[Factor, ...]

    @property
    def bare(self) -> bool:
        return len(self.factors) == 1


Forms = tuple[Form, Form]


class _Pair:
    """The two sides as the loops spell them: `side` is the one that changes, `own`, and the other is `other`."""

    def __init__(self, side: int, forms: Forms) -> None:
        self.forms = forms
        self.mine, self.theirs = forms[side], forms[1 - side]
        self.own, self.other = "lr"[side], "lr"[1 - side]

    def column(self, i: int) -> str:
        left, _ = self.forms
        width = len(left.key)
        if i < width:
            return "key" if width == 1 else f"key[{i}]"
        i -= width
        return f"l[{i}]" if i < len(left.kept) else f"r[{i - len(left.kept)}]"

    def outside(self, expr: Expr) -> bool:
        """Whether the other side has no part in an expression."""
        return not any(self.column(i).startswith(f"{self.other}[") for i in columns(expr))

    def row(self, outputs: Sequence[Expr]) -> str:
        """Where the outputs are just the kept columns of one side, the name of that very tuple."""
        first = len(self.forms[0].key)
        for name, form in zip("lr", self.forms, strict=True):
            if form.kept and list(outputs) == [Col(first + i) for i in range(len(form.kept))]:
                return name
            first += len(form.kept)
        return ""

    def products(self, products: Sequence[Product]) -> list[str]:
        """The entries of a contribution."""
        left, right = self.forms
        return product_texts(
            products,
            lambda i: "lv" if left.bare else f"lv[{i}]",
            lambda j: "rv" if right.bare else f"rv[{j}]",
        )


def reads_only(side: int, forms: Forms, expr: Expr) -> bool:
    """Whether an expression over the row reads the key and what one side keeps, and nothing of the other side."""
    return _Pair(side, forms).outside(expr)


def product_texts(
    products: Sequence[Product], left: Callable[[int], str], right: Callable[[int], str]
) -> list[str]:
    """The entries of a contribution; `left` and `right` say how the entries of the two vectors are spelt."""
    sums = []
    for product in products:
        terms = []
        for coefficient, i, j in product:
            factors = [f for f in (str(coefficient), left(i), right(j)) if f != "1"] or ["1"]
            terms.append("-" + factors[1] if factors[:-1] == ["-1"] else " * ".join(factors))
        sums.append(" + ".join(terms))
    return sums


def combining(
    side: int, forms: Forms, where: Sequence[Expr], outputs: Sequence[Expr], products: Sequence[Product]
) -> Callable[..., None]:
    """The loop `(changes, theirs, rows, make, touch)` for changes of one side; `theirs` is the `get` of the other
    side's table, the rest is of the cells.

    What the inner partner has no part in is decided and computed outside the inner loop, unless it could raise.
    """
    pair = _Pair(side, forms)

    def early_enough(expr: Expr) -> bool:
        # what can raise waits until all else that is asked of the pair holds
        return pair.outside(expr) and _harmless(expr)

    source = Source()
    early = [w for w in where if early_enough(w)]
    late = [w for w in where if w not in early]
    hoisted = all(map(pair.outside if not late else early_enough, outputs))

    def find_cell(depth: int) -> None:
        finding(source, depth, [source.expression(e, pair.column) for e in outputs], pair.row(outputs))

    source.line(0, "def combine(changes, theirs, rows, make, touch):")
    source.line(1, "find = rows.get")
    source.line(1, f"for key, {'mine' if pair.mine.kept else pair.own + 'v'} in changes:")
    found = "met" if pair.theirs.kept else pair.other + "v"
    source.line(2, f"{found} = theirs(key)")
    source.line(2, f"if {found} is None: continue")
    depth = 2
    if pair.mine.kept:
        source.line(depth, f"for {pair.own}, {pair.own}v in mine.items():")
        depth += 1
    for w in early:
        source.line(depth, f"if not {source.expression(w, pair.column)}: continue")
    if hoisted and not late:
        find_cell(depth)
    elif hoisted:  # not before a partner passes: a cell that nobody touches would stay for ever
        source.line(depth, "cell = None")
    if pair.theirs.kept:
        source.line(depth, f"for {pair.other}, {pair.other}v in met.items():")
        depth += 1
    for w in late:
        source.line(depth, f"if not {source.expression(w, pair.column)}: continue")
    if not hoisted:
        find_cell(depth)
    elif late:
        source.line(depth, "if cell is None:")
        find_cell(depth + 1)
    touching(source, depth)
    adding(source, depth, pair.products(products))
    return source.compile("combine")  # type: ignore[no-any-return]


def _harmless(expr: Expr) -> bool:
    """Whether an expression is nothing that could raise."""
    return not isinstance(expr, Apply) or expr.sure
