"""Rows and values at the border: what a person hands in becomes tuples of the right types, or a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import float_info
from typing import Annotated, Any, cast

import msgspec

from datalog.ast import DEEPEST
from datalog.errors import FactProblem
from datalog.functions import TOO_DEEP
from livelog.io.values import brief_row
from operators.source import Source

try:
    from operators.compiled import rows as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

__all__ = ["Coercer", "sort_rows"]

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
            raise ValueError(f"{value} is outside the range of {'an' if kind == 'unsigned' else 'a'} {kind}")
        return int(value)

    return convert


def _float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a float")
    value = float(value)
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
    """Turns rows of one relation into tuples of its types.

    >>> Coercer("link", ("src", "cost"), ("symbol", "float"))(["a", 3])
    ('a', 3.0)
    """

    def __init__(self, relation: str, columns: Sequence[str], types: Sequence[str]) -> None:
        self.relation = relation
        self._columns = columns
        self._types = types
        self._converters = [_CONVERTERS.get(kind, _any) for kind in types]
        self._is_plain = _is_plain(types)
        self._batch = _batch_type(types)
        self._kinds = _kinds(types)
        self._symbols = [i for i, kind in enumerate(types) if kind in ("symbol", "any")]

    def __reduce__(self) -> tuple[Any, ...]:
        return Coercer, (self.relation, self._columns, self._types)  # executors make the rest anew

    def all(self, rows: Iterable[Iterable[Any]]) -> list[Tuple]:
        """Many rows as tuples. What is not as simple as most rows are is looked at row by row."""
        given = rows if isinstance(rows, list) else list(rows)
        if self._kinds is not None and compiled.are_plain(given, self._kinds):
            return cast(list[Tuple], list(given))  # the list is its owner's
        if self._batch is not None:
            try:
                batch: list[Tuple] = msgspec.convert({"rows": given}, self._batch).rows
            except (msgspec.MsgspecError, UnicodeError):
                pass
            else:
                if all(_texts([row[i] for row in batch]) for i in self._symbols):
                    return batch
        plain = self._is_plain
        return [row if plain(row) else self(row) for row in given]  # type: ignore[misc]

    def __call__(self, row: Iterable[Any]) -> Tuple:
        if self._is_plain(row):
            return row  # type: ignore[return-value]
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise FactProblem(f"a row of `{self.relation}` is a tuple, not {row!r}")
        values = tuple(row)
        if len(values) != len(self._converters):
            wanted = len(self._converters)
            raise FactProblem(
                f"`{self.relation}` has {wanted} column{'' if wanted == 1 else 's'} "
                f"({', '.join(self._columns)}), the row {brief_row(self.relation, values)} has {len(values)}"
            )
        try:
            return tuple([convert(v) for convert, v in zip(self._converters, values, strict=True)])
        except ValueError:
            for name, convert, v in zip(self._columns, self._converters, values, strict=True):
                try:
                    convert(v)
                except ValueError as e:
                    where = brief_row(self.relation, values)
                    raise FactProblem(f"{where}: column `{name}`: {e}") from None
            raise


_RANKS = {int: 0, float: 0, bool: 0, str: 1, tuple: 2}


def _sort_key(value: Any) -> Any:
    rank = _RANKS.get(type(value), 3)
    return (rank, tuple([_sort_key(v) for v in value])) if rank == 2 else (rank, value)


def sort_rows(rows: Iterable[Tuple]) -> list[Tuple]:
    """Rows in order; where a column mixes types, numbers come before symbols before lists.

    >>> sort_rows([("b",), (2,), ("a",), (1.5,)])
    [(1.5,), (2,), ('a',), ('b',)]
    """
    rows = list(rows)
    try:
        return sorted(rows)
    except TypeError:
        return sorted(rows, key=_sort_key)
