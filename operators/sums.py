"""Vectors of partial sums: what a batch of rows adds up to, by the columns that are kept of them.

A *vector* belongs to a combination of kept columns. Its entry 0 is the number of rows (with their weights), the others
are sums over these rows, and all of them are Python ints: exact, and taken back exactly. A vector of the count alone is
that number itself, without a list around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from operators.columns import column_sums
from operators.delta import Delta, Mode
from operators.exact import FACTOR, coarse
from operators.expr import Expr
from operators.guard import guarded
from operators.source import Source, key_text, tuple_text

__all__ = ["COUNT", "Factor", "Summing", "named_amounts", "of_row", "summing", "walking"]

Tuple = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """One entry of a vector: what a row adds to it, for each unit of its weight.

    That is an int, the `value`, or entry `entry` of what `lift` makes of it. Without a value it is 1. An `exact` value
    is a whole number that is not checked for its range. A float is lifted by `operators.exact.coarse`.
    """

    value: Expr | None = None
    lift: Callable[[Any], Sequence[int]] | None = None
    entry: int = 0
    exact: bool = False


COUNT = Factor()
"""The number of rows."""


def summing(
    where: Sequence[Expr],
    key: Sequence[int] | None,
    kept: Sequence[Expr],
    factors: Sequence[Factor],
    mode: Mode,
) -> Callable[[Iterable[Any], dict[Any, Any]], None]:
    """The loop `(batch, out)` that adds rows up.

    With a `key`, `out` maps the key (as `operators.source.key_of` spells it) to a dict from the kept columns to their
    vector, or, where none are kept, to the vector. Without, it maps the kept columns to the vector. A batch has pairs
    of tuple and weight if it is `weighted`, otherwise the tuples that were `gained` or `lost`.

    >>> from operators.expr import Col
    >>> loop, out = summing((), (1,), (Col(0),), (COUNT, Factor(Col(2))), "weighted"), {}
    >>> loop([(("a", "k", 5), 1), (("a", "k", 7), 2), (("b", "k", 1), 1)], out); out
    {'k': {('a',): [3, 19], ('b',): [1, 1]}}
    """
    source = Source()
    source.line(0, "def kernel(batch, out):")
    source.line(1, "find = out.get")
    walking(source, where, mode)
    initial, later = _amounts(source, factors, mode)
    bare = len(factors) == 1
    vector = initial[0] if bare else f"[{', '.join(initial)}]"
    row = tuple_text([source.expression(e, of_row) for e in kept])
    at = None if key is None else key_text([of_row(c) for c in key])
    table, entry = "out", row
    if at is not None and kept:
        source.line(2, f"at = {at}")
        source.line(2, "bucket = find(at)")
        source.line(2, f"if bucket is None: out[at] = {{{row}: {vector}}}; continue")
        table = "bucket"
    elif at is not None:
        entry = at
    source.line(2, f"row = {entry}")
    if bare:
        get = "bucket.get(row, 0)" if table == "bucket" else "find(row, 0)"
        source.line(2, f"{table}[row] = {get} + {vector}")
    else:
        source.line(2, "v = bucket.get(row)" if table == "bucket" else "v = find(row)")
        source.line(2, f"if v is None: {table}[row] = {vector}; continue")
        for i, amount in enumerate(later):
            source.line(2, f"v[{i}] {amount}")
    return source.compile("kernel")  # type: ignore[no-any-return]


def of_row(i: int) -> str:
    """How loops over rows spell a column."""
    return f"t[{i}]"


def walking(source: Source, where: Sequence[Expr], mode: Mode) -> None:
    """The lines of a loop over those rows `t` of a batch, each perhaps with a weight `w`, that meet some conditions."""
    source.line(1, "for t, w in batch:" if mode == "weighted" else "for t in batch:")
    for condition in where:
        source.line(2, f"if not {source.expression(condition, of_row)}: continue")


def _amounts(source: Source, factors: Sequence[Factor], mode: Mode) -> tuple[list[str], list[str]]:
    """By entry of a vector, what a row puts into a new one, and how it changes one that is there."""
    lifted: dict[tuple[Any, Any], str] = {}
    initial, later = [], []
    for factor in factors:
        if factor.value is None:
            amount = "1"
        elif factor.lift is None:
            amount = source.expression(factor.value, of_row, factor.exact)
        else:
            name = lifted.get((factor.lift, factor.value))
            if name is None:
                name = lifted[factor.lift, factor.value] = f"lifted_{len(lifted)}"
                value = source.expression(factor.value, of_row, factor.exact)
                if factor.lift is coarse:
                    _scaling(source, name, value)
                else:
                    source.line(2, f"{name} = {source.name(factor.lift, 'f')}({value})")
            amount = f"{name}_{factor.entry}" if factor.lift is coarse else f"{name}[{factor.entry}]"
        if mode == "weighted":
            amount = "w" if factor.value is None else f"w * {amount}"
        initial.append(f"-{amount}" if mode == "lost" else amount)
        later.append(f"{'-' if mode == 'lost' else '+'}= {amount}")
    return initial, later


def named_amounts(source: Source, factors: Sequence[Factor], mode: Mode) -> list[str]:
    """The lines that compute what a row adds to each entry of a vector, and the names of that.

    Whatever raises does so here, before anything is added.
    """
    own, _ = _amounts(source, factors, mode)
    for i in range(1, len(own)):
        sign = "-" if own[i].startswith("-") else ""  # subtracting is less than adding what was negated
        source.line(2, f"a{i} = {own[i].removeprefix(sign)}")
        own[i] = f"{sign}a{i}"
    return own


def _scaling(source: Source, name: str, value: str) -> None:
    """The lines of `operators.exact.coarse`, without a call for nearly all floats."""
    scale, otherwise = source.name(FACTOR, "k"), source.name(coarse, "f")
    source.line(2, f"scaled = {value} * {scale}")
    source.line(2, f"if scaled.is_integer(): {name}_0 = int(scaled); {name}_1 = 0")
    source.line(2, f"else: {name}_0, {name}_1 = {otherwise}({value})")


class Summing:
    """The loops over the changes of one relation; `text` is the rule whose row is named if one raises.

    >>> from operators.expr import Col
    >>> Summing("", (), None, (Col(0),), (COUNT, Factor(Col(1))))(Delta([("a", 5), ("a", 2)], [("b", 1)]))
    {('b',): [-1, -1], ('a',): [2, 7]}
    """

    def __init__(
        self,
        text: str,
        where: Sequence[Expr],
        key: Sequence[int] | None,
        kept: Sequence[Expr],
        factors: Sequence[Factor],
    ) -> None:
        self._text = text
        self._plan = (tuple(where), None if key is None else tuple(key), tuple(kept), tuple(factors))
        self._by_column = not where and key is None
        self._loops: dict[Mode, Callable[..., None]] = {}

    def __call__(self, delta: Delta) -> dict[Any, Any]:
        """What the changes add up to."""
        if delta.columns is not None and self._by_column:
            summed = column_sums(delta.columns, *self._plan[2:])
            if summed is not None:
                return summed
        out: dict[Any, Any] = {}
        for mode, batch in delta.runs():
            self._run(mode, batch, out)
        return out

    def _run(self, mode: Mode, batch: list[Any], out: dict[Any, Any]) -> None:
        loop = self._loops.get(mode)
        if loop is None:
            loop = self._loops[mode] = summing(*self._plan, mode)
        guarded(self._text, loop, batch, out, bare=mode != "weighted")
