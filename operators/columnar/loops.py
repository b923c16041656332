"""The loops of a join by columns, generated: what batches are as columns, and how small ones are worked in.

In the generated code `j` is the number of a lineage key and `g` that of a group; `v0`, `v1` and so on are the sums of
keys, and `s0`, `s1` and so on those of groups, each a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from operators.delta import Mode
from operators.expr import Col, Expr
from operators.lineage_loops import Form, Forms
from operators.monoids.formulas import sum_of
from operators.source import Source, key_text, tuple_text
from operators.sums import of_row

__all__ = ["Answer", "anchor_columns", "flushing", "meeting", "other_columns", "taking_in"]

Answer = tuple[Literal["count", "sum", "avg"], int]
"""An aggregate, and the sum that it is made of: sum 0 is the count."""


def anchor_columns(anchor: int, forms: Forms, outputs: Sequence[Expr], mode: Mode) -> Callable[..., None]:
    """The loop `(batch, out)` for rows of the anchor: their keys, counts (None if all are the same) and groups."""
    form = forms[anchor]
    source = Source()
    kept = [source.expression(e, of_row) for e in form.kept]
    key = [of_row(c) for c in form.key]
    parts = key + kept if anchor == 0 else key + [""] * len(forms[0].kept) + kept
    return _columns(source, form, mode, [key_text([parts[e.index] for e in outputs if isinstance(e, Col)])])


def other_columns(anchor: int, forms: Forms, outputs: Sequence[Expr], mode: Mode) -> Callable[..., None]:
    """The same for rows of the other side: their keys, counts and what they add to each sum but the count."""
    form = forms[1 - anchor]
    source = Source()
    weight = "w * " if mode == "weighted" else ""
    values = [source.expression(f.value, of_row, f.exact) for f in form.factors[1:] if f.value is not None]
    return _columns(source, form, mode, [weight + value for value in values])


def _columns(source: Source, form: Form, mode: Mode, columns: Sequence[str]) -> Callable[..., None]:
    each = "t, w" if mode == "weighted" else "t"
    texts = [key_text([of_row(c) for c in form.key]), *columns]
    source.line(0, "def columns(batch, out):")
    if form.where:
        where = " and ".join(source.expression(w, of_row) for w in form.where)
        source.line(1, f"batch = [{'(t, w)' if mode == 'weighted' else 't'} for {each} in batch if {where}]")
    first, *rest = [f"[{text} for {each} in batch]" for text in texts]
    counts = "[w for t, w in batch]" if mode == "weighted" else "None"
    source.line(1, f"out[:] = {', '.join([first, counts, *rest])}")
    return source.compile("columns")  # type: ignore[no-any-return]


def taking_in(reads: Sequence[int]) -> Callable[..., None]:
    """The loop `(rows, keys, groups, add, touch, leave, of_keys, of_groups)` for rows of the anchor, each with its key,
    count and group. `keys` and `groups` are `Numbers`, the last two their columns; `leave` is told of keys that lose
    something."""
    used = sorted(set(reads))
    source = Source()
    source.line(0, "def take(rows, keys, groups, add, touch, leave, of_keys, of_groups):")
    source.line(1, f"here, {_names('v', max(used) + 1)}, *_ = of_keys")
    source.line(1, f"uses, {_names('s', len(reads))}, *_ = of_groups")
    source.line(1, "for key, n, group in rows:")
    source.line(2, "j = keys[key]")
    source.line(2, "g = groups[group]")
    source.line(2, "add(j, g, n)")
    source.line(2, "here[j] += n")
    source.line(2, "uses[g] += n")
    source.line(2, "touch(g)")
    source.line(2, "if n < 0: leave(j)")
    source.line(2, f"if {' or '.join(f'v{k}[j]' for k in used)}:")
    for i, k in enumerate(reads):
        source.line(3, f"s{i}[g] += n * v{k}[j]")
    return source.compile("take")  # type: ignore[no-any-return]


def meeting(width: int, reads: Sequence[int]) -> Callable[..., None]:
    """The loop `(changes, keys, of, touch, leave, of_keys, of_groups)` for changes of V by key; `of` has the groups of
    a key, with their counts."""
    source = Source()
    source.line(0, "def meet(changes, keys, of, touch, leave, of_keys, of_groups):")
    source.line(1, f"here, {_names('v', width)} = of_keys")
    source.line(1, f"uses, {_names('s', len(reads))}, *_ = of_groups")
    source.line(1, f"for key, [{_names('d', width)}] in changes:")
    source.line(2, "j = keys[key]")
    for k in range(width):
        source.line(2, f"v{k}[j] += d{k}")
    source.line(2, "if not v0[j]: leave(j)")
    source.line(2, "for g, n in of(j):")
    source.line(3, "touch(g)")
    for i, k in enumerate(reads):
        source.line(3, f"s{i}[g] += n * d{k}")
    return source.compile("meet")  # type: ignore[no-any-return]


def flushing(group: int, answers: Sequence[Answer], layout: Sequence[int], width: int) -> Callable[..., None]:
    """The loop `(touched, names, columns, give_back, gone, new)` that tells heads of groups that were touched.

    The columns are: how many rows use a group, its sums, whether it has told a head, and the results in that.
    """
    source = Source()
    results = [f"r{i}" for i in range(len(answers))]
    shown = [f"shown{i}" for i in range(len(answers))]

    def head(values: Sequence[str]) -> str:
        name = [f"name[{k}]" for k in range(group)] if group > 1 else ["name"] * group
        whole = [*name, *values]
        return tuple_text([whole[k] for k in layout])

    source.line(0, "def flush(touched, names, columns, give_back, gone, new):")
    source.line(1, f"{', '.join(['uses', _names('s', width), 'told', *shown])} = columns")
    source.line(1, "lose, win = gone.append, new.append")
    source.line(1, "for g in touched:")
    source.line(2, "name, c = names[g], s0[g]")
    source.line(2, "if c:")
    for name, (kind, k) in zip(results, answers, strict=True):
        source.line(3, f"{name} = {_answer(source, kind, k)}")
    source.line(3, "if told[g]:")
    same = " and ".join(f"{r} == {column}[g]" for r, column in zip(results, shown, strict=True)) or "True"
    source.line(4, f"if {same}: continue")
    old = head([f"{column}[g]" for column in shown])
    source.line(4, f"lose({old})")
    source.line(3, "else: told[g] = 1")
    source.line(3, f"win({head(results)})")
    for name, column in zip(results, shown, strict=True):
        source.line(3, f"{column}[g] = {name}")
    source.line(2, "else:")
    source.line(3, "if told[g]:")
    source.line(4, f"lose({old})")
    source.line(4, " = ".join(["told[g]", *[f"{column}[g]" for column in shown], "0"]))
    source.line(3, "if not uses[g]: give_back(g)")
    return source.compile("flush")  # type: ignore[no-any-return]


def _answer(source: Source, kind: str, k: int) -> str:
    if kind == "avg":
        return f"s{k}[g] / c"
    careful = f"{source.name(_total, 'f')}(q)" if kind == "sum" else "overflow(q)"
    return f"(q if LOWEST <= (q := s{k}[g]) <= HIGHEST else {careful})"


def _total(total: int) -> Any:
    return sum_of(False, total, 0, 0, 0)


def _names(letter: str, count: int) -> str:
    return ", ".join(f"{letter}{i}" for i in range(count))
