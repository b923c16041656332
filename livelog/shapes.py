"""What a row may be: values in order, or by the names of the columns; and values that other libraries bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MappingView, Sequence, Set
from typing import Any

from datalog.errors import FactProblem, RowProblem

__all__ = ["ANY", "in_no_order", "is_table", "row_values"]


class _Any:
    """What stands for any value in a deletion."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


ANY = _Any()


def is_table(rows: Any) -> bool:
    """Whether rows come as columns: a frame, a table, an array; without importing any of what makes such things.

    >>> import numpy, pyarrow
    >>> is_table(numpy.zeros((2, 2))), is_table(pyarrow.table({})), is_table([(1, 2)])
    (True, True, False)
    """
    kind = type(rows)
    origin = kind.__module__.partition(".")[0]
    if origin == "livelog":  # the rows of a view are at hand
        return False
    if hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__"):
        return True
    return origin in ("numpy", "pandas") and hasattr(rows, "dtype" if origin == "numpy" else "iloc")


def in_no_order(kind: type) -> bool:
    """Whether iterating over such a thing says nothing of which value belongs to which column.

    >>> in_no_order(set), in_no_order(dict), in_no_order(type({}.values())), in_no_order(list)
    (True, True, True, False)
    """
    return issubclass(kind, (Set, Mapping, MappingView))


def row_values(relation: str, columns: Sequence[str], named: bool, row: Any) -> tuple[Any, ...]:
    """The values of a row in the order of the columns. `named` says whether the program declares their names.

    >>> row_values("link", ("src", "dst"), True, {"dst": "b", "src": "a"})
    ('a', 'b')
    """
    if isinstance(row, Mapping):
        if not named:
            raise FactProblem(
                f"`{relation}` is not declared, so its columns have no names: give its rows as tuples, or declare it "
                f"with .decl {relation}(...)"
            )
        if row.keys() != set(columns):
            _refuse_names(relation, columns, row)
        return tuple([row[name] for name in columns])
    if isinstance(row, (Set, MappingView)):
        raise RowProblem(
            f"a row of `{relation}` is a tuple, or a dict by column name: {_brief(row)} has its values in no order"
        )
    if isinstance(row, (str, bytes, bytearray)) or not isinstance(row, Iterable):
        raise RowProblem(f"a row of `{relation}` is a tuple, not {_brief(row)}")
    return tuple(row)


def _refuse_names(relation: str, columns: Sequence[str], row: Mapping[Any, Any]) -> None:
    missing = ", ".join(f"`{name}`" for name in columns if name not in row)
    unknown = ", ".join(f"`{name}`" for name in row if name not in columns)
    said = [f"lacks {missing}"] if missing else []
    said += [f"has {unknown}, which `{relation}` has not"] if unknown else []
    known = ", ".join(columns) or "none"
    raise FactProblem(f"a row of `{relation}` {' and '.join(said)} (its columns: {known}): {_brief(row)}")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + " ..."
