"""Tuples from Parquet files. Columns are matched by name, or by position when the names differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datalog.ast import Relation
from datalog.errors import FactProblem
from livelog.io.columns import BadValue, convert_values

__all__ = ["read_parquet"]


def read_parquet(path: Path, relation: Relation) -> list[tuple[Any, ...]]:
    """All tuples of a Parquet file, in order, with duplicates."""
    # Arrow takes a moment to import, and most programs never meet a Parquet file.
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FactProblem(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    names = [column.name for column in relation.columns]
    if set(names) <= set(table.column_names):
        table = table.select(names)
    elif table.num_columns != relation.arity:
        raise FactProblem(
            f"{path}: {relation.name} has {relation.arity} columns ({', '.join(names)}), "
            f"but the file has {table.num_columns} ({', '.join(table.column_names)})"
        )
    if not names:
        return [()] * table.num_rows
    columns = []
    for index, column in enumerate(relation.columns):
        data = table.column(index)
        if pa.types.is_dictionary(data.type):
            data = data.cast(data.type.value_type)
        try:
            columns.append(_values(pa, data, column.type))
        except BadValue as bad:
            raise FactProblem(
                f"{path}: row {bad.row + 1}: column {index + 1} ({column.name}): {bad.message}"
            ) from None
    return list(zip(*columns, strict=True))


def _values(pa: Any, data: Any, type_: str) -> list[Any]:
    """A column as Python values, without a look at each one where Arrow's type already vouches for them all."""
    kinds = pa.types
    if not data.null_count:
        if kinds.is_signed_integer(data.type) and type_ in ("number", "any"):
            return list(data.to_pylist())
        if type_ in ("symbol", "any") and (kinds.is_string(data.type) or kinds.is_large_string(data.type)):
            # One Python string per distinct symbol, not per row.
            encoded = data.combine_chunks().dictionary_encode()
            words = encoded.dictionary.to_pylist()
            return [words[i] for i in encoded.indices.to_pylist()]
    return convert_values(data.to_pylist(), type_)
