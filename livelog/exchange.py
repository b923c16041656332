"""Tuples out, as columns: the tables of Arrow and the frames of pandas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy
import pyarrow

from datalog.format import format_value
from livelog.columns import Column, Names, Numbers, Texts, are_many, sample_of, texts
from livelog.ordering import order_of
from livelog.values import sort_rows

try:
    from operators.compiled import columns as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

__all__ = ["arrow_table", "pandas_frame"]

Tuple = tuple[Any, ...]

NUMBERS = {"number": "int64", "unsigned": "uint64", "float": "float64"}
LARGEST = 2**63 - 1
LONGEST = 2**31 - 1
"""Bytes of a column: more texts do not fit into one array of Arrow."""
SOME = 4096
KINDS = {int: "number", float: "float", str: "symbol"}
ARRAYS: dict[str, Callable[[list[Any]], Any]] = {
    "symbol": partial(pyarrow.array, type=pyarrow.string()),
    **{kind: partial(numpy.fromiter, dtype=dtype) for kind, dtype in NUMBERS.items()},
}


def arrow_table(rows: list[Tuple], names: Sequence[str], types: Sequence[str]) -> pyarrow.Table:
    """Rows as an Arrow table, in order. Lists become their text, unless all their values have one type.

    >>> arrow_table([("b", 1), ("a", 2)], ["x", "y"], ["symbol", "number"]).to_pydict()
    {'x': ['a', 'b'], 'y': [2, 1]}
    """
    if not names:
        return pyarrow.table([pyarrow.nulls(len(rows))], names=[""]).select([])
    columns = _columns(rows, types)
    if columns is None:
        ordered = sort_rows(rows)
        arrays = [_guessed(list(map(itemgetter(i), ordered)), kind) for i, kind in enumerate(types)]
    else:
        order = order_of(columns)
        arrays = [column.arrow(order) for column in columns]
    return pyarrow.Table.from_arrays(arrays, names=list(names))


def pandas_frame(rows: list[Tuple], names: Sequence[str], types: Sequence[str]) -> Any:
    """Rows as a pandas DataFrame, in order. Texts and lists are Python's own."""
    import pandas

    columns = _columns(rows, types)
    if columns is None:
        return pandas.DataFrame(sort_rows(rows), columns=list(names))
    if not columns:
        return pandas.DataFrame(index=range(len(rows)))
    order = order_of(columns)
    frame = pandas.DataFrame({i: column.numpy(order) for i, column in enumerate(columns)}, copy=False)
    frame.columns = pandas.Index(list(names))
    return frame


def _columns(rows: list[Tuple], types: Sequence[str]) -> list[Column] | None:
    """The columns of rows; None if one has values of several types, or such as there is no array for."""
    if compiled is not None and rows and (found := _walked(rows, types)) is not None:
        return found
    kinds = [_kind(rows, i) if kind not in (*NUMBERS, "symbol") else kind for i, kind in enumerate(types)]
    if not all(kinds):
        return None
    parts: list[list[Any]] = [[] for _ in kinds]
    work = list(zip(parts, map(itemgetter, range(len(types))), map(ARRAYS.__getitem__, kinds), strict=True))
    try:
        # Some rows at a time: their values are still in the processor's cache when the next column is made.
        for start in range(0, len(rows), SOME):
            some = rows[start : start + SOME]
            for part, value, array in work:
                part.append(array(list(map(value, some))))
    except OverflowError:
        return None
    if any(sum(array.nbytes for array in part) > LONGEST for part in parts):
        return None
    return [
        texts(pyarrow.concat_arrays([pyarrow.array([], "string"), *part])) if kind == "symbol"
        else Numbers(numpy.concatenate([numpy.empty(0, NUMBERS[kind]), *part]))
        for part, kind in zip(parts, kinds, strict=True)
    ]  # fmt: skip


def _walked(rows: list[Tuple], types: Sequence[str]) -> list[Column] | None:
    """What `_columns` finds, in one compiled walk over the rows. None if they are not as simple as most are."""
    kinds: list[str] = []
    for i, given in enumerate(types):
        kind = given if given in compiled.KINDS else KINDS.get(type(rows[0][i]), "")
        if not kind:
            return None
        if kind == "symbol" and not are_many([row[i] for row in rows[sample_of(len(rows))]]):
            kind = "name"
        kinds.append(kind)
    try:
        found = compiled.columns_of(rows, bytes([compiled.KINDS[kind] for kind in kinds]))
    except UnicodeEncodeError:
        return None
    if found is None:
        return None
    return [_column(rows, i, kind, held) for i, (kind, held) in enumerate(zip(kinds, found, strict=True))]


def _column(rows: list[Tuple], i: int, kind: str, held: Any) -> Column:
    """A column from what `operators.compiled.columns` holds of it."""
    if kind == "name":
        codes, words = held
        return Names(pyarrow.array(words, pyarrow.string()), numpy.frombuffer(codes, "uint32"))
    return _Walked(rows, i, held) if kind == "symbol" else Numbers(numpy.frombuffer(held, NUMBERS[kind]))


class _Walked(Texts):
    """A column of texts that was found in a walk over the rows, where they are as objects too."""

    def __init__(self, rows: list[Tuple], i: int, held: tuple[bytearray, bytearray]) -> None:
        self._rows, self._i, self._held = rows, i, held
        super().__init__(self._arrow(held))

    def _arrow(self, held: tuple[bytearray, bytearray]) -> Any:
        buffers = [None, *map(pyarrow.py_buffer, held)]
        return pyarrow.Array.from_buffers(pyarrow.string(), len(self._rows), buffers)

    def arrow(self, order: Any = None) -> Any:
        return self._array if order is None else self._arrow(compiled.texts_in_order(*self._held, order))

    def numpy(self, order: Any) -> Any:
        found = numpy.empty(len(self._rows), object)
        compiled.put_in_order(self._rows, self._i, order, found)
        return found


def _kind(rows: list[Tuple], i: int) -> str:
    """The kind of a column whose type is open: "" if it has values of several types, or lists, or no values."""
    found = set(map(type, map(itemgetter(i), rows)))
    kind = KINDS.get(found.pop(), "") if len(found) == 1 else ""
    return _whole(list(map(itemgetter(i), rows))) if kind == "number" else kind


def _whole(values: list[Any]) -> str:
    """The kind of whole numbers: those above the numbers are unsigned."""
    return "unsigned" if max(values) > LARGEST and min(values) >= 0 else "number"


def _guessed(values: list[Any], kind: str) -> Any:
    """A column of no single type, or one beside such a column, as Arrow has it."""
    if kind in NUMBERS:
        return pyarrow.array(values, NUMBERS[kind])
    if values and set(map(type, values)) == {int}:
        return pyarrow.array(values, NUMBERS[_whole(values)])
    try:
        return pyarrow.array(values, pyarrow.string() if kind == "symbol" or not values else None)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
        return pyarrow.array([v if isinstance(v, str) else format_value(v) for v in values])
