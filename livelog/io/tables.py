"""Tables in: frames of pandas and polars, tables of Arrow, arrays of numpy, whatever streams Arrow; and Parquet.

They stay columns for as long as nobody needs their rows. A column goes to its place by its name, or in order where
there are no names to go by; what is in between is an error, not a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow
import pyarrow.compute

from datalog.errors import FactProblem
from livelog.io.arrow import ArrowColumns
from livelog.io.columns import BadValue, convert_values
from operators.columns import Bulk

__all__ = ["convert_arrow", "match_columns", "table_columns", "table_rows"]

PLAIN = {"number": pyarrow.int64(), "unsigned": pyarrow.uint64(), "float": pyarrow.float64()}
BATCH = 1 << 16
"""Rows that are made at a time: what lies between a column and its tuples stays in the processor's cache."""

Names = list[str] | None


def table_rows(
    given: Any, relation: str, columns: Sequence[str], kinds: Sequence[str], named: bool
) -> tuple[Bulk, bool]:
    """The rows of a table for a relation, and whether there is nothing left to check in them.

    >>> table_rows(pyarrow.table({"b": [1, 2], "a": ["x", "y"]}), "r", ("a", "b"), ("symbol", "number"), True)
    ([('x', 1), ('y', 2)], True)
    """
    names, data, size = table_columns(given)
    positions = match_columns(relation, columns, named, names, len(data))
    if not columns:
        return Bulk([()] * size, None), True
    found = []
    for column, kind, position in zip(columns, kinds, positions, strict=True):
        try:
            found.append(convert_arrow(data[position], kind))
        except BadValue as bad:
            where = "" if bad.row < 0 else f"row {bad.row + 1}, "
            raise FactProblem(f"{where}column `{column}` of `{relation}`: {bad.message}") from None
    if any(isinstance(column, list) for column in found):
        rows = zip(*[c if isinstance(c, list) else c.to_pylist() for c in found], strict=True)
        return Bulk(rows, None), False
    made = ArrowColumns(found)
    return Bulk(made.rows(BATCH), made), True


# --- whatever it is, as columns ------------------------------------------------------------------------------


def table_columns(given: Any) -> tuple[Names, list[Any], int]:
    """The names of a table's columns if it has any, the columns (of Arrow, or lists), and how many rows there are."""
    origin = type(given).__module__.partition(".")[0]
    if origin == "pandas":
        if given.ndim == 1:
            return None, [_series(given)], len(given)
        columns = [_series(given.iloc[:, i]) for i in range(given.shape[1])]
        return list(map(str, given.columns)), columns, len(given)
    if origin == "numpy":
        if given.dtype.names is not None:
            columns = [_numpy(given[name].ravel()) for name in given.dtype.names]
            return list(given.dtype.names), columns, given.size
        if given.ndim not in (1, 2):
            raise FactProblem(f"an array of facts has two dimensions, not {given.ndim}")
        columns = [_numpy(given)] if given.ndim == 1 else [_numpy(given[:, i]) for i in range(given.shape[1])]
        return None, columns, len(given)
    try:
        table = pyarrow.table(given) if hasattr(given, "__arrow_c_stream__") else pyarrow.record_batch(given)
    except (TypeError, ValueError, pyarrow.ArrowException):  # a column alone
        column = pyarrow.chunked_array(given if hasattr(given, "__arrow_c_stream__") else [pyarrow.array(given)])
        return None, [column], len(column)
    return list(table.schema.names), list(table.columns), table.num_rows


def _series(series: Any) -> Any:
    try:
        return pyarrow.array(series, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):  # of several types
        return [None if value != value else value for value in series.tolist()]


def _numpy(array: Any) -> Any:
    try:
        return pyarrow.array(array)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return array.tolist()


# --- which column is which -----------------------------------------------------------------------------------


def match_columns(
    relation: str, columns: Sequence[str], named: bool, names: Names, width: int, extra: bool = False
) -> list[int]:
    """Where the columns of a relation are. By name if the names are the same (or there are `extra` ones and that is
    fine); in order if there are no names to go by, or none of them is known.

    >>> match_columns("r", ("a", "b"), True, ["b", "a"], 2), match_columns("r", ("a", "b"), True, ["x", "y"], 2)
    ([1, 0], [0, 1])
    """
    known = [] if names is None or not named else [name for name in columns if name in names]
    if names is not None and known == list(columns) and (extra or width == len(columns)):
        if twice := next((name for name in columns if names.count(name) > 1), None):
            raise FactProblem(f"the table has the column `{twice}` twice ({', '.join(names)})")
        return [names.index(name) for name in columns]
    if known or width != len(columns):
        raise FactProblem(_lists(relation, columns, names, width))
    return list(range(width))


def _lists(relation: str, columns: Sequence[str], names: Names, width: int) -> str:
    wanted = f"{relation} has {len(columns)} column{'' if len(columns) == 1 else 's'} ({', '.join(columns)})"
    return f"{wanted}, but the table has {width}" + ("" if names is None else f" ({', '.join(names)})")


# --- values --------------------------------------------------------------------------------------------------


def convert_arrow(data: Any, kind: str) -> Any:
    """A column as the type of its relation's column: an array of Arrow where all values are plain, else a list.

    Raises `BadValue`; its row is -1 if the whole column is to blame.
    """
    if isinstance(data, list):
        return convert_values(data, kind)
    types = pyarrow.types
    if types.is_dictionary(data.type):
        data = _decoded(data)
    elif types.is_run_end_encoded(data.type):
        data = pyarrow.compute.run_end_decode(data)
    type_ = data.type
    if types.is_temporal(type_):
        raise BadValue(-1, f"the language has no times, and this is {type_}: make it a number or a text")
    if types.is_decimal(type_):
        raise BadValue(-1, f"the language has no decimals, and this is {type_}: make it a float or a whole number")
    if data.null_count:
        row = pyarrow.compute.index(pyarrow.compute.is_valid(data), False).as_py()
        raise BadValue(row, "a null is not a value (in a frame of pandas, that is what NaN and None are)")
    wanted = _wanted(type_, kind)
    if wanted is not None:
        try:
            # A whole number as a float is as near as it can be; anything else is exact, or it is not a case for this.
            found = data.cast(wanted, safe=not types.is_floating(wanted))
            if types.is_string(wanted):
                found.validate(full=True)
            if not types.is_floating(wanted) or pyarrow.compute.all(pyarrow.compute.is_finite(found)).as_py():
                return found
        except pyarrow.ArrowInvalid:
            pass
    try:
        return convert_values(data.to_pylist(), kind)
    except UnicodeDecodeError as error:
        raise BadValue(-1, f"a text is not valid Unicode: {error.object!r}") from None


def _decoded(data: Any) -> Any:
    chunks = data.chunks if isinstance(data, pyarrow.ChunkedArray) else [data]
    kind = data.type.value_type
    if pyarrow.types.is_string_view(kind):
        kind = pyarrow.string()  # what Arrow can do with views of texts is little
    return pyarrow.chunked_array([chunk.dictionary.cast(kind).take(chunk.indices) for chunk in chunks], kind)


def _wanted(type_: Any, kind: str) -> Any:
    """The plain type for a column of a kind, if Arrow can convert to it."""
    types = pyarrow.types
    if types.is_integer(type_) or types.is_floating(type_):
        if kind in PLAIN:
            return PLAIN[kind]
        if kind in ("any", "numeric"):
            return PLAIN["float" if types.is_floating(type_) else "number"]
    elif kind in ("symbol", "any") and (
        types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    ):
        return pyarrow.string()
    return None
