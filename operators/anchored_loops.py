"""The loops of an anchored lineage join, generated: see `operators.anchored`.

In the generated code `cell` is one of the anchor, `j` a junction and `key` its lineage key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from operators.cells import adding, finding, sum_names, touching
from operators.delta import Mode
from operators.expr import Col, Expr
from operators.lineage_loops import Forms, Product, product_texts, reads_only
from operators.source import Source, key_text
from operators.sums import named_amounts, of_row, walking

__all__ = ["anchor_of", "junction_class", "meeting", "taking_in"]


def anchor_of(forms: Forms, where: Sequence[Expr], outputs: Sequence[Expr]) -> int | None:
    """The side whose rows say what they contribute to, if all pairs count and the other side has sums alone."""
    for side in (0, 1):
        plain = all(isinstance(e, Col) and reads_only(side, forms, e) for e in outputs)
        if plain and not where and forms[side].kept and not forms[1 - side].kept:
            return side
    return None


@lru_cache(maxsize=256)
def junction_class(width: int) -> type:
    """Junctions with so many sums of the other side."""
    sums = _sums(width)
    source = Source()
    source.line(0, "class Junction:")
    source.line(1, f"__slots__ = {['cells', 'odd', *sums]!r}")
    source.line(1, "def __init__(self):")
    source.line(2, "self.cells = None")
    source.line(2, f"self.odd = {' = '.join(f'self.{name}' for name in sums)} = 0")
    return source.compile("Junction")  # type: ignore[no-any-return]


def _sums(width: int) -> list[str]:
    return [f"v{i}" for i in range(width)]


def taking_in(
    anchor: int, forms: Forms, outputs: Sequence[Expr], products: Sequence[Product], mode: Mode | None
) -> Callable[..., None]:
    """The loop `(batch, table, join, rows, make, touch)` that lets rows of the anchor in and adds what they contribute.

    A row meets at most one partner, so that there is nothing to be gained by adding rows up beforehand. Without a
    `mode` the batch has sums that were made elsewhere, as pairs of (key columns..., kept columns...) and vector.
    """
    form = forms[anchor]
    theirs = [f"j.{name}" for name in _sums(len(forms[1 - anchor].factors))]
    source = Source()
    source.line(0, "def take(batch, table, join, rows, make, touch):")
    source.line(1, "find, known = rows.get, table.get")
    if mode is None:
        walking(source, (), "weighted")
        first = len(form.key)
        key, kept = [[of_row(i) for i in r] for r in (range(first), range(first, first + len(form.kept)))]
        own = ["w"] if form.bare else [f"a{i}" for i in range(len(form.factors))]
        if not form.bare:
            source.line(2, f"{', '.join(own)} = w")
    else:
        walking(source, form.where, mode)
        key, kept = [of_row(c) for c in form.key], [source.expression(e, of_row) for e in form.kept]
        own = named_amounts(source, form.factors, mode)
    columns = key + kept if anchor == 0 else key + [""] * len(forms[0].kept) + kept
    source.line(2, f"key = {key_text(key)}")
    finding(source, 2, [columns[e.index] for e in outputs if isinstance(e, Col)])
    source.line(2, "j = known(key)")
    source.line(2, "if j is None: j = table[key] = join()")
    _file(source, own, theirs)
    met = [f"m{i}" for i in range(len(theirs))]
    for name, text in zip(met, theirs, strict=True):
        source.line(2, f"{name} = {text}")
    source.line(2, f"if {' or '.join(met)}:")
    touching(source, 3)
    sides = (own, met) if anchor == 0 else (met, own)
    adding(source, 3, product_texts(products, *(part.__getitem__ for part in sides)))
    return source.compile("take")  # type: ignore[no-any-return]


def _file(source: Source, own: Sequence[str], theirs: Sequence[str]) -> None:
    """The lines that add the vector of a row to what junction `j` has for `cell`."""
    bare = len(own) == 1
    vector = own[0] if bare else f"[{', '.join(own)}]"
    source.line(2, "bucket = j.cells")
    source.line(2, "if bucket is None:")
    source.line(3, f"j.cells = {{cell: {vector}}}")
    source.line(3, "cell.uses += 1")
    if bare and vector != "1":
        source.line(3, f"if {vector} != 1: j.odd += 1")
    source.line(2, "else:")
    if own == ["-1"]:
        _unfile(source, theirs)
        return
    source.line(3, "v = bucket.get(cell)")
    source.line(3, "if v is None:")
    source.line(4, f"bucket[cell] = {vector}")
    source.line(4, "cell.uses += 1")
    if bare and vector != "1":
        source.line(4, f"if {vector} != 1: j.odd += 1")
    source.line(3, "else:")
    if bare:
        source.line(4, "if v != 1: j.odd -= 1")
        source.line(4, f"v += {vector}")
        source.line(4, "if v:")
        source.line(5, "bucket[cell] = v")
        source.line(5, "if v != 1: j.odd += 1")
    else:
        for i, amount in enumerate(own):
            source.line(4, f"v[{i}] += {amount}")
        # a count of nothing is not enough: rows that came and went may differ in what is summed
        source.line(4, "if v[0] or any(v): pass")
    source.line(4, "else:")
    source.line(5, "del bucket[cell]")
    _left(source, 5, theirs)


def _unfile(source: Source, theirs: Sequence[str]) -> None:
    """The same for a row that goes: nearly always it was there once, and is gone when it is looked for."""
    source.line(3, "v = bucket.pop(cell, 0)")
    source.line(3, "if v == 1:")
    _left(source, 4, theirs)
    source.line(3, "else:")
    source.line(4, "if v: j.odd -= 1")
    source.line(4, "else: cell.uses += 1")
    source.line(4, "bucket[cell] = v - 1")
    source.line(4, "if v != 2: j.odd += 1")


def _left(source: Source, depth: int, theirs: Sequence[str]) -> None:
    """The lines for a `cell` that has left the `bucket` of junction `j`."""
    source.line(depth, "cell.uses -= 1")
    touching(source, depth)  # perhaps nobody uses it any more
    source.line(depth, "if not bucket:")
    source.line(depth + 1, "j.cells = None")
    source.line(depth + 1, f"if not ({' or '.join(theirs)}): del table[key]")


def meeting(anchor: int, forms: Forms, products: Sequence[Product], spread: bool = False) -> Callable[..., None]:
    """The loop `(changes, table, join, touched, spread)` for summed changes of the other side: it lets them in, and
    adds what they contribute to the cells under the same key. What is the same for all of these is for the compiled
    loop to `spread`, if there is one.

    Most changes have some zero in them (a row takes the place of another, and the count stays), and most rows of the
    anchor are there once: only what is in them is added, and nothing is multiplied where no row is `odd`.
    """
    width = len(forms[1 - anchor].factors)
    changed = ["d"] if width == 1 else [f"d{i}" for i in range(width)]
    sums = [f"j.{name}" for name in _sums(width)]

    def texts(mine: Callable[[int], str]) -> list[str]:
        return product_texts(products, *((mine, changed.__getitem__) if anchor == 0 else (changed.__getitem__, mine)))

    bare = forms[anchor].bare
    amounts = texts(lambda i: "lv" if bare else f"lv[{i}]")
    once = texts(lambda i: "1")
    source = Source()

    def loop(depth: int, entries: Sequence[int]) -> None:
        if bare:
            source.line(depth, "if not j.odd:")
            if spread:
                for k in entries:
                    source.line(depth + 1, f"spread(met, {k}, {once[k]}, touched)")
            else:
                source.line(depth + 1, "for cell in met:")
                add(depth + 2, entries, once)
            source.line(depth, "else:")
            depth += 1
        source.line(depth, "for cell, lv in met.items():")
        add(depth + 1, entries, amounts)

    def add(depth: int, entries: Sequence[int], way: Sequence[str]) -> None:
        touching(source, depth)
        for k in entries:
            source.line(depth, f"cell.{names[k]} += {way[k]}")

    names = sum_names(len(products))
    source.line(0, "def meet(changes, table, join, touched, spread):")
    source.line(1, "known, touch = table.get, touched.append")
    source.line(1, "for key, d in changes:")
    if width > 1:
        source.line(2, f"{', '.join(changed)} = d")
    source.line(2, "j = known(key)")
    source.line(2, "if j is None: j = table[key] = join()")
    for name, amount in zip(sums, changed, strict=True):
        source.line(2, f"if {amount}: {name} += {amount}")
    source.line(2, "met = j.cells")
    source.line(2, "if met is None:")
    source.line(3, f"if not ({' or '.join(sums)}): del table[key]")
    source.line(3, "continue")
    source.line(2, f"if {' and '.join(changed)}:")
    loop(3, range(len(products)))
    if width > 1:
        source.line(3, "continue")
        for k, product in enumerate(products):
            parts = dict.fromkeys(changed[(i, j)[1 - anchor]] for _, i, j in product)
            source.line(2, f"if {' or '.join(parts)}:")
            loop(3, [k])
    return source.compile("meet")  # type: ignore[no-any-return]
