"""The loops of a lineage join, generated: what changes of one side contribute with the other side.

Rows that expressions see are (key columns..., kept columns of the left..., of the right...). In the generated code
`key` is the lineage key, `l` and `r` are the kept columns and `lv` and `rv` the vectors of the two sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from operators.expr import Apply, Col, Expr, columns
from operators.source import Source, key_text, tuple_text
from operators.sums import Mode

__all__ = ["Form", "Product", "combining", "flowing"]

Product = tuple[tuple[int, int, int], ...]
"""An entry of a contribution: a sum of (coefficient, entry of the left vector, entry of the right vector)."""


@dataclass(frozen=True, slots=True)
class Form:
    """What the loops need to know of one side: its join key, conditions and what is kept, over its own columns.

    `bare`: its vectors are counts alone.
    """

    key: tuple[int, ...]
    where: tuple[Expr, ...]
    kept: tuple[Expr, ...]
    bare: bool


class _Pair:
    """The two sides as the loops spell them: `side` is the one that changes, `own`, and the other is `other`."""

    def __init__(self, side: int, forms: tuple[Form, Form]) -> None:
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

    def row(self, source: Source, outputs: Sequence[Expr]) -> str:
        """The tuple of the outputs; where it is just the kept columns of one side, that very tuple."""
        first = len(self.forms[0].key)
        for name, form in zip("lr", self.forms, strict=True):
            if form.kept and list(outputs) == [Col(first + i) for i in range(len(form.kept))]:
                return name
            first += len(form.kept)
        return tuple_text([source.expression(e, self.column) for e in outputs])

    def contribute(self, source: Source, depth: int, products: Sequence[Product]) -> None:
        """The lines that add the products to what `out` has for `row`."""
        amounts = [self._product(p) for p in products]
        if len(products) == 1:
            source.line(depth, f"out[row] = get(row, 0) + {amounts[0]}")
            return
        source.line(depth, "v = get(row)")
        source.line(depth, f"if v is None: out[row] = [{', '.join(amounts)}]")
        source.line(depth, "else:")
        for i, amount in enumerate(amounts):
            source.line(depth + 1, f"v[{i}] += {amount}")

    def _product(self, product: Product) -> str:
        left, right = self.forms
        terms = []
        for coefficient, i, j in product:
            factors = ["lv" if left.bare else f"lv[{i}]", "rv" if right.bare else f"rv[{j}]"]
            terms.append(" * ".join(([] if coefficient == 1 else [f"({coefficient})"]) + factors))
        return " + ".join(terms)


def combining(
    side: int,
    forms: tuple[Form, Form],
    where: Sequence[Expr],
    outputs: Sequence[Expr],
    products: Sequence[Product],
) -> Callable[..., None]:
    """The loop `(changes, find, out)` for changes of one side; `find` is the `get` of the other side's table.

    What the inner partner has no part in is decided and computed outside the inner loop, unless it could raise.
    """
    pair = _Pair(side, forms)

    def early_enough(expr: Expr) -> bool:
        # what can raise waits until all else that is asked of the pair holds
        return pair.outside(expr) and _harmless(expr)

    source = Source()
    source.line(0, "def combine(changes, find, out):")
    source.line(1, "get = out.get")
    source.line(1, f"for key, {'mine' if pair.mine.kept else pair.own + 'v'} in changes:")
    found = "theirs" if pair.theirs.kept else pair.other + "v"
    source.line(2, f"{found} = find(key)")
    source.line(2, f"if {found} is None: continue")
    depth = 2
    early = [w for w in where if early_enough(w)]
    late = sorted((w for w in where if w not in early), key=lambda w: not _harmless(w))
    row = pair.row(source, outputs)
    hoisted = all(map(pair.outside if not late else early_enough, outputs))
    if pair.mine.kept:
        source.line(depth, f"for {pair.own}, {pair.own}v in mine.items():")
        depth += 1
    for w in early:
        source.line(depth, f"if not {source.expression(w, pair.column)}: continue")
    if hoisted:
        source.line(depth, f"row = {row}")
    if pair.theirs.kept:
        source.line(depth, f"for {pair.other}, {pair.other}v in theirs.items():")
        depth += 1
    for w in late:
        source.line(depth, f"if not {source.expression(w, pair.column)}: continue")
    if not hoisted:
        source.line(depth, f"row = {row}")
    pair.contribute(source, depth, products)
    return source.compile("combine")  # type: ignore[no-any-return]


def flowing(
    side: int,
    forms: tuple[Form, Form],
    where: Sequence[Expr],
    outputs: Sequence[Expr],
    products: Sequence[Product],
    mode: Mode,
) -> Callable[..., None]:
    """The loop `(batch, table, find, out)` that lets tuples of one side in and adds what they contribute, in one go.

    For a side that keeps columns and counts, where the other one keeps sums alone: a tuple then meets at most one
    partner, and there is nothing to be gained by adding tuples up beforehand.
    """
    pair = _Pair(side, forms)
    source = Source()

    def column(i: int) -> str:
        return f"t[{i}]"

    weight = {"gained": "1", "lost": "-1", "weighted": f"{pair.own}v"}[mode]
    source.line(0, "def flow(batch, table, find, out):")
    source.line(1, "get, known = out.get, table.get")
    if mode != "weighted":
        source.line(1, f"{pair.own}v = {weight}")
    source.line(1, f"for t, {pair.own}v in batch:" if mode == "weighted" else "for t in batch:")
    for w in pair.mine.where:
        source.line(2, f"if not {source.expression(w, column)}: continue")
    source.line(2, f"key = {key_text([column(c) for c in pair.mine.key])}")
    source.line(2, f"{pair.own} = {tuple_text([source.expression(e, column) for e in pair.mine.kept])}")
    source.line(2, "bucket = known(key)")
    source.line(2, f"if bucket is None: table[key] = {{{pair.own}: {weight}}}")
    source.line(2, "else:")
    source.line(3, f"left = bucket.get({pair.own}, 0) + {weight}")
    source.line(3, f"if left: bucket[{pair.own}] = left")
    source.line(3, "else:")
    source.line(4, f"del bucket[{pair.own}]")
    source.line(4, "if not bucket: del table[key]")
    source.line(2, f"{pair.other}v = find(key)")
    source.line(2, f"if {pair.other}v is None: continue")
    for w in sorted(where, key=lambda w: not _harmless(w)):
        source.line(2, f"if not {source.expression(w, pair.column)}: continue")
    source.line(2, f"row = {pair.row(source, outputs)}")
    pair.contribute(source, 2, products)
    return source.compile("flow")  # type: ignore[no-any-return]


def _harmless(expr: Expr) -> bool:
    """Whether an expression is a column or compares some: nothing that could raise."""
    if not isinstance(expr, Apply):
        return True
    return expr.inline in ("==", "!=", "<", "<=", ">", ">=") and all(map(_harmless, expr.arguments))
