"""Rows and values at the border: what a person hands in becomes tuples of the right types, or a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from sys import float_info
from typing import Annotated, Any, cast

import msgspec

from datalog.ast import DEEPEST
from datalog.errors import FactProblem
from datalog.values import OWN, TOO_DEEP, brief, own_value
from livelog.io.values import brief_row
from livelog.shapes import ANY, in_no_order, is_table, row_values
from operators.source import Source

try:
    from operators.compiled import rows as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

__all__ = ["Coercer", "sort_key", "sort_rows"]

Tuple = tuple[Any, ...]

_RANGES = {"number": (-(2**63), 2**63 - 1), "unsigned": (0, 2**64 - 1)}


def _integer(kind: str) -> Callable[[Any], Any]:
    low, high = _RANGES[kind]

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            else:
                raise ValueError(f"{value!r} is not a{'n' if kind == 'unsigned' else ''} {kind}")
        if not low <= value <= high:
            which = "an unsigned" if kind == "unsigned" else "a number"
            raise ValueError(f"{brief(value)} is outside the range of {which}")
        return int(value)

    return convert


def _float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a float")
    try:
        value = float(value)
    except OverflowError:
        raise ValueError(f"{brief(value)} is too large for a float") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} is not a finite float")
    return value


def _symbol(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a symbol (a string)")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{value!r} is not valid Unicode text") from None
    return str(value)


def _any(value: Any, depth: int = 0) -> Any:
    value = own_value(value)
    if isinstance(value, (list, tuple)):
        if depth >= DEEPEST:
            raise ValueError(TOO_DEEP)
        return tuple([_any(v, depth + 1) for v in value])
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return _integer("number")(int(value))
    return _symbol(value)


def _numeric(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number, and a rule computes with it")
    return _any(value)


def _list(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{value!r} is not a list")
    return _any(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "number": _integer("number"),
    "unsigned": _integer("unsigned"),
    "float": _float,
    "symbol": _symbol,
    "list": _list,
    "numeric": _numeric,
}


_WHOLE = "type({0}) is int and {1} <= {0} <= {2}"
_TEXT = "type({0}) is str and {0}.isascii()"
_PLAIN = {
    **{kind: _WHOLE.replace("{1}", str(low)).replace("{2}", str(high)) for kind, (low, high) in _RANGES.items()},
    "float": "type({0}) is float and -inf < {0} < inf",
    "symbol": _TEXT,
    "list": "False",
}
_PLAIN["numeric"] = _PLAIN["number"]
"""By type, what a value must be to stay as it is. Whatever else it is, it is converted."""


def _is_plain(types: Sequence[str]) -> Callable[[Any], bool]:
    """A function that tells rows that need no conversion, without a loop: most rows are such, and come one by one.

    >>> plain = _is_plain(["number", "symbol"])
    >>> plain((1, "a")), plain([1, "a"]), plain((True, "a")), plain((2**63, "a")), plain((1, "ä")), plain((1,))
    (True, False, False, False, False, False)
    """
    anything = f"({_PLAIN['number']} or {_TEXT})"
    tests = [_PLAIN.get(kind, anything).format(f"row[{i}]") for i, kind in enumerate(types)]
    source = Source()
    source.values["inf"] = float("inf")
    source.line(0, "def plain(row):")
    source.line(1, "return " + " and ".join(["type(row) is tuple", f"len(row) == {len(types)}", *tests]))
    plain: Callable[[Any], bool] = source.compile("plain")
    return plain


_WHOLE_NUMBER = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_REAL_NUMBER = Annotated[float, msgspec.Meta(ge=-float_info.max, le=float_info.max)]
_BATCHED: dict[str, Any] = {
    "number": _WHOLE_NUMBER,
    "unsigned": Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)],  # larger ones are no case for msgspec
    "float": _REAL_NUMBER,
    "symbol": str,
    "numeric": _WHOLE_NUMBER | _REAL_NUMBER,
    "any": _WHOLE_NUMBER | _REAL_NUMBER | str,
}
"""By type, what msgspec takes and turns into the same as the converters do, or refuses; see `_texts` for strings."""


def _batch_type(types: Sequence[str]) -> Any:
    """A struct around rows of these types, because msgspec looks at such a type only once. None if there is none.

    >>> msgspec.convert({"rows": [[1, 2], (3, 4)]}, _batch_type(["number", "float"])).rows
    [(1, 2.0), (3, 4.0)]
    """
    if not types or not all(kind in _BATCHED for kind in types):
        return None
    row = tuple.__class_getitem__(tuple(_BATCHED[kind] for kind in types))
    return msgspec.defstruct("Batch", [("rows", list.__class_getitem__(row))])


def _kinds(types: Sequence[str]) -> bytes | None:
    """What `operators.compiled.rows` wants to know of the columns. None if it cannot help."""
    if compiled is None or not all(kind in compiled.KINDS for kind in types):
        return None
    return bytes([compiled.KINDS[kind] for kind in types])


def _texts(column: Iterable[Any]) -> bool:
    """Whether all strings among some values are plain ones, and valid Unicode."""
    texts = [value for value in column if isinstance(value, str)]
    if not set(map(type, texts)) <= {str}:
        return False
    joined = "".join(texts)
    if not joined.isascii():
        try:
            joined.encode()
        except UnicodeEncodeError:
            return False
    return True


class Coercer:
    """Turns rows of one relation into tuples of its types. If its columns are `named`, a row may be a dict.

    >>> coerce = Coercer("link", ("src", "cost"), ("symbol", "float"))
    >>> coerce(["a", 3]), coerce({"cost": 2.5, "src": "b"})
    (('a', 3.0), ('b', 2.5))
    """

    def __init__(self, relation: str, columns: Sequence[str], types: Sequence[str], named: bool = True) -> None:
        self.relation = relation
        self._columns = columns
        self._named = named
        self._types = types
        self._converters = [_CONVERTERS.get(kind, _any) for kind in types]
        self._is_plain = _is_plain(types)
        self._kinds = _kinds(types)
        self._symbols = [i for i, kind in enumerate(types) if kind in ("symbol", "any")]

    @cached_property
    def _batch(self) -> Any:
        """What `msgspec` converts many rows to. It takes a while to make, and a program may have many relations."""
        return _batch_type(self._types)

    def __reduce__(self) -> tuple[Any, ...]:
        return Coercer, (self.relation, self._columns, self._types, self._named)  # executors make the rest anew

    def all(self, rows: Iterable[Any]) -> list[Tuple]:
        """Many rows as tuples. What is not as simple as most rows are is looked at row by row."""
        if not isinstance(rows, list) and is_table(rows):
            return self._table(rows)
        given = rows if isinstance(rows, list) else list(rows)
        if self._kinds is not None and compiled.are_plain(given, self._kinds):
            return cast(list[Tuple], list(given))  # the list is its owner's
        shapes = set(map(type, given))
        if shapes == {dict}:
            return self.all([row_values(self.relation, self._columns, self._named, row) for row in given])
        if not any(map(in_no_order, shapes)) and (batch := self._converted(given)) is not None:
            return batch
        plain = self._is_plain
        return [row if plain(row) else self(row) for row in given]

    def _converted(self, rows: list[Any]) -> list[Tuple] | None:
        """Rows as msgspec converts them, all at once. None if one of them is not as simple as that."""
        if self._batch is None:
            return None
        try:
            batch: list[Tuple] = msgspec.convert({"rows": rows}, self._batch).rows
        except (msgspec.MsgspecError, UnicodeError):
            return None
        return batch if all(_texts([row[i] for row in batch]) for i in self._symbols) else None

    def _table(self, table: Any) -> list[Tuple]:
        """The rows of what comes as columns, which they stay for whoever can do with columns."""
        from livelog.io.tables import table_rows  # Arrow takes a moment to import

        rows, checked = table_rows(table, self.relation, self._columns, self._types, self._named)
        return rows if checked else self.all(list(rows))

    def bound(self, row: Any) -> dict[int, Any]:
        """The values that a row says, by column: it may have `ANY` among its values, or be a dict without some columns.

        >>> from livelog.shapes import ANY
        >>> coerce = Coercer("link", ("src", "cost"), ("symbol", "float"))
        >>> coerce.bound(("a", ANY)), coerce.bound({"cost": 3})
        ({0: 'a'}, {1: 3.0})
        """
        if self._named and isinstance(row, Mapping) and row.keys() < set(self._columns):
            row = tuple([row.get(name, ANY) for name in self._columns])
        values = row_values(self.relation, self._columns, self._named, row)
        known = [i for i, value in enumerate(values) if value is not ANY]
        if len(values) != len(self._converters):
            self(values)  # which says so
        part = Coercer(self.relation, [self._columns[i] for i in known], [self._types[i] for i in known])
        return dict(zip(known, part(tuple([values[i] for i in known])), strict=True))

    def by_key(self, row: Mapping[Any, Any], key: Sequence[int]) -> bool:
        """Whether a row by name has the columns of the key, and not all the others."""
        names = {self._columns[i] for i in key}
        return self._named and bool(key) and names <= row.keys() < set(self._columns)

    def __call__(self, row: Iterable[Any]) -> Tuple:
        if self._is_plain(row):
            return row  # type: ignore[return-value]
        return self._fitted(row)

    def _fitted(self, row: Iterable[Any]) -> Tuple:
        """A row whose values are to be converted, or refused."""
        values = row_values(self.relation, self._columns, self._named, row)
        if not OWN.issuperset(map(type, values)):
            values = tuple(map(own_value, values))
        if len(values) != len(self._converters):
            raise self._misfit(values)
        try:
            return tuple([convert(v) for convert, v in zip(self._converters, values, strict=True)])
        except ValueError:
            self._blame(values)
            raise

    def _misfit(self, values: Tuple) -> FactProblem:
        wanted = len(self._converters)
        return FactProblem(
            f"`{self.relation}` has {wanted} column{'' if wanted == 1 else 's'} "
            f"({', '.join(self._columns)}), the row {brief_row(self.relation, values)} has {len(values)}"
        )

    def _blame(self, values: Tuple) -> None:
        """Say which column of a row has a value that does not fit."""
        for name, convert, v in zip(self._columns, self._converters, values, strict=True):
            try:
                convert(v)
            except ValueError as e:
                raise FactProblem(f"{brief_row(self.relation, values)}: column `{name}`: {e}") from None


_RANKS = {int: 0, float: 0, bool: 0, str: 1, tuple: 2}


def sort_key(value: Any) -> Any:
    """What `sort_rows` compares where a column mixes types."""
    rank = _RANKS.get(type(value), 3)
    return (rank, tuple([sort_key(v) for v in value])) if rank == 2 else (rank, value)


def sort_rows(rows: Iterable[Tuple]) -> list[Tuple]:
    """Rows in order; where a column mixes types, numbers come before symbols before lists.

    >>> sort_rows([("b",), (2,), ("a",), (1.5,)])
    [(1.5,), (2,), ('a',), ('b',)]
    """
    rows = list(rows)
    try:
        return sorted(rows)
    except TypeError:
        return sorted(rows, key=sort_key)
