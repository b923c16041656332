"""Tuples from Parquet files. Columns are matched by name, or in order if none of the names is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datalog.ast import Relation
from datalog.errors import FactProblem
from livelog.io.columns import BadValue
from operators.columns import Bulk

__all__ = ["read_parquet"]


def read_parquet(path: Path, relation: Relation) -> list[tuple[Any, ...]]:
    """All tuples of a Parquet file, in order, with duplicates."""
    # Arrow takes a moment to import, and most programs never meet a Parquet file.
    import pyarrow as pa
    import pyarrow.parquet

    from livelog.io.arrow import ArrowColumns
    from livelog.io.tables import convert_arrow, match_columns

    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FactProblem(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    names = [column.name for column in relation.columns]
    try:
        positions = match_columns(relation.name, names, relation.declared, table.column_names, table.num_columns, True)
    except FactProblem as problem:
        raise FactProblem(f"{path}: {problem.message}") from None
    if not names:
        return Bulk([()] * table.num_rows, None)
    columns = []
    for index, (column, position) in enumerate(zip(relation.columns, positions, strict=True)):
        kind = "numeric" if column.type == "any" and column.numeric else column.type
        try:
            columns.append(convert_arrow(table.column(position), kind))
        except BadValue as bad:
            where = "" if bad.row < 0 else f"row {bad.row + 1}: "
            raise FactProblem(f"{path}: {where}column {index + 1} ({column.name}): {bad.message}") from None
    if any(isinstance(column, list) for column in columns):
        rows = zip(*[c if isinstance(c, list) else c.to_pylist() for c in columns], strict=True)
        return list(rows)
    made = ArrowColumns(columns)
    return Bulk(made.rows(), made)
