"""Arrow and Spark columns as tuples of a relation, and back.

What a type of the language becomes in Spark: `number` is a long, `unsigned` a decimal(20,0) since Spark has no unsigned
integers, `float` a double, `symbol` a string. Lists, and columns that may hold anything, become strings: symbols as
they are, everything else as the language writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from datalog.errors import FactProblem, UsageProblem
from datalog.format import format_value
from livelog.values import Coercer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

__all__ = ["RowReader", "arrow_array", "column_positions", "select_columns", "spark_type"]

Row = tuple[Any, ...]

_SPARK = {"number": "bigint", "unsigned": "decimal(20,0)", "float": "double", "symbol": "string"}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "float", "double", "decimal")
_ACCEPTED: dict[str, tuple[str, ...]] = {
    "number": _NUMBERS,
    "unsigned": _NUMBERS,
    "float": _NUMBERS,
    "numeric": _NUMBERS,
    "symbol": ("string", "char", "varchar"),
    "list": ("array",),
}
_ANYTHING = (*_NUMBERS, "string", "char", "varchar", "array", "boolean")
_ELEMENTS = (*_INTEGERS, "float", "double", "string", "array")


# --- into a session ------------------------------------------------------------------------------------------


def select_columns(df: DataFrame, relation: str, columns: Sequence[str], kinds: Sequence[str]) -> DataFrame:
    """The columns of a relation, by name or else by position. Raises `UsageProblem` if one cannot hold its values."""
    from pyspark.sql import functions as f

    positions = column_positions(df, relation, columns, kinds)
    plain = df.toDF(*[f"c{i}" for i in range(len(df.columns))])  # names may be anything, even the same twice
    return plain.select(*[f"c{i}" for i in positions]) if positions else plain.select(f.lit(0).alias("c0"))


def column_positions(df: DataFrame, relation: str, columns: Sequence[str], kinds: Sequence[str]) -> list[int]:
    """Where the columns of a relation are in a DataFrame, checked as `select_columns` says."""
    names, fields = df.columns, df.schema.fields
    if set(columns) <= set(names):
        positions = [names.index(c) for c in columns]
    elif len(names) == len(columns):
        positions = list(range(len(names)))
    else:
        raise UsageProblem(
            f"`{relation}` has {_count(len(columns))} ({', '.join(columns)}), "
            f"but the DataFrame has {_count(len(names))} ({', '.join(names)})"
        )
    for column, kind, position in zip(columns, kinds, positions, strict=True):
        field = fields[position]
        if not _accepts(kind, field.dataType):
            known = "" if field.name == column else f" (the DataFrame's `{field.name}`)"
            wanted = "a value of the language" if kind == "any" else f"{_article(kind)} {kind}"
            raise UsageProblem(
                f"column `{column}` of `{relation}` is {wanted}, which {field.dataType.simpleString()}{known} is not: "
                "cast it, or select other columns"
            )
    return positions


def _accepts(kind: str, spark: DataType) -> bool:
    return _spelled(spark) in _ACCEPTED.get(kind, _ANYTHING) and _plain(spark)


def _plain(spark: DataType) -> bool:
    """Whether an array has elements that a list can have, at all depths."""
    element = getattr(spark, "elementType", None)
    return element is None or (_spelled(element) in _ELEMENTS and _plain(element))


def _spelled(spark: DataType) -> str:
    """A type of Spark without what is in parentheses or brackets, or a collation."""
    return spark.simpleString().partition("(")[0].partition("<")[0].partition(" ")[0]


def _count(n: int) -> str:
    return f"{n} column{'' if n == 1 else 's'}"


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


class RowReader:
    """Tuples of a relation from Arrow batches whose columns are the relation's, in its order.

    Values are what `livelog.values.Coercer` makes of them; it is only asked where Arrow's type does not vouch for a
    whole column.
    """

    def __init__(self, relation: str, columns: Sequence[str], kinds: Sequence[str], sign: str = "+") -> None:
        self.relation = relation
        self.sign = sign
        self._columns = tuple(columns)
        self._kinds = tuple(kinds)
        self._coerce = Coercer(relation, self._columns, self._kinds)

    def rows(self, batch: Any) -> list[Row]:
        """The tuples of a batch, in order. Raises `FactProblem` at the first bad value."""
        if not self._columns:
            return [()] * batch.num_rows
        for name, array in zip(self._columns, batch.columns, strict=True):
            if array.null_count:
                self._refuse_null(batch, name, array)
        quick = [_vouched(array, kind) for array, kind in zip(batch.columns, self._kinds, strict=True)]
        if None not in quick:
            return list(zip(*quick, strict=True))
        columns = [_values(array, kind) for array, kind in zip(batch.columns, self._kinds, strict=True)]
        return [self._coerce(row) for row in zip(*columns, strict=True)]

    def groups(self, batch: Any) -> dict[tuple[str, str], list[Row]]:
        """The tuples of a batch by sign and relation, both of which are the same for all."""
        return {(self.sign, self.relation): self.rows(batch)}

    def _refuse_null(self, batch: Any, name: str, array: Any) -> None:
        row = array.is_valid().index(False).as_py()
        values = [column[row].as_py() for column in batch.columns]
        shown = ", ".join("null" if v is None else format_value(_value(v)) for v in values)
        raise FactProblem(f"{self.relation}({shown}): column `{name}` is null, and a relation has no nulls")


def _vouched(array: Any, kind: str) -> list[Any] | None:
    """A column as Python values if nothing can be wrong with any of them, by Arrow's account."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types, type_ = pa.types, array.type
    if types.is_signed_integer(type_) and (
        kind in ("number", "any", "numeric") or (kind == "unsigned" and pc.min(array).as_py() >= 0)
    ):
        return list(array.to_pylist())
    if types.is_floating(type_) and kind in ("float", "any", "numeric") and pc.all(pc.is_finite(array)).as_py():
        return list(array.to_pylist())
    if (types.is_string(type_) or types.is_large_string(type_)) and kind in ("symbol", "any"):
        # One Python string per distinct symbol, not per row.
        encoded = array.dictionary_encode()
        words = _values(encoded.dictionary, kind)
        return [words[i] for i in encoded.indices.to_pylist()]
    return None


def _values(array: Any, kind: str) -> list[Any]:
    try:
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError as e:
        raise FactProblem(f"a text in the DataFrame is not valid Unicode: {e.object!r}") from None
    return [_number(v, kind) for v in values] if values and isinstance(values[0], Decimal) else values


def _number(value: Decimal, kind: str) -> int | float:
    """A decimal as what the language has for it: an integer where one is wanted or no fraction is possible."""
    whole = value == value.to_integral_value()
    return int(value) if whole and (kind in ("number", "unsigned") or value.as_tuple().exponent == 0) else float(value)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value, value))
    return _number(value, "any") if isinstance(value, Decimal) else value


# --- out of a session ----------------------------------------------------------------------------------------


def spark_type(kind: str) -> str:
    """The type of a column in Spark.

    >>> spark_type("number"), spark_type("list")
    ('bigint', 'string')
    """
    return _SPARK.get(kind, "string")


def arrow_array(values: Sequence[Any], kind: str) -> Any:
    """A column of a relation as Arrow, of the type that `spark_type` says."""
    import pyarrow as pa

    if kind == "number":
        return pa.array(values, pa.int64())
    if kind == "unsigned":
        return pa.array(list(map(Decimal, values)), pa.decimal128(20, 0))
    if kind == "float":
        return pa.array(values, pa.float64())
    if kind == "symbol":
        return pa.array(values, pa.string())
    return pa.array([v if isinstance(v, str) else format_value(v) for v in values], pa.string())
