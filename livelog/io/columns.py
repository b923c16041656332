"""Columns of text, or of Arrow, turned into values of a column's type: a whole column at a time.

The quick way converts a column with one C loop and then proves that nothing slipped through that only
Python accepts (`1_000`, `nan`). When anything is wrong, `BadValue` names the first row to blame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from datalog.arithmetic import NUMBER_RANGE, UNSIGNED_RANGE
from datalog.values import own_value
from livelog.io.values import INTEGERS, TextProblem, parse_value

__all__ = ["BadValue", "convert_column", "convert_values", "infer_type"]

INTEGER_RANGES = {"number": NUMBER_RANGE, "unsigned": UNSIGNED_RANGE}

_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*", re.ASCII)
_LIST = re.compile(r"\s*(?:\[.*\]|nil)\s*", re.DOTALL)


class BadValue(Exception):
    """A value that its column cannot hold. `row` counts from 0 within the column that was converted."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row
        self.message = message


def infer_type(texts: Sequence[str]) -> str:
    """The type of a column that the program says nothing about, from all of its texts.

    >>> infer_type(["1", "-2"]), infer_type(["1", "2.5"]), infer_type(["1", "x"]), infer_type(["[1, 2]", "nil"])
    ('number', 'float', 'symbol', 'list')
    """
    if not texts:
        return "symbol"
    for type_, pattern in (("number", _INTEGER), ("float", _FLOAT)):
        if all(map(pattern.fullmatch, texts)):
            return type_
    if all(map(_LIST.fullmatch, texts)) and any(text.lstrip().startswith("[") for text in texts):
        try:
            for text in texts:
                parse_value(text)
        except TextProblem:
            return "symbol"
        return "list"
    return "symbol"


def convert_column(texts: Sequence[str], type_: str, memo: dict[str, str] | None = None) -> Sequence[Any]:
    """The values of a column of texts. `memo` lets equal symbols of a file share one string.

    >>> convert_column(["1", " 2"], "number"), convert_column(["1", "2.5"], "float")
    ([1, 2], [1.0, 2.5])
    >>> convert_column(["1", "1_000"], "number")
    Traceback (most recent call last):
    livelog.io.columns.BadValue: '1_000' is not a number
    """
    if type_ == "any":
        type_ = infer_type(texts)
    if type_ == "symbol":
        if memo is None:
            return texts
        share = memo.setdefault
        return [share(text, text) for text in texts]
    if type_ in INTEGER_RANGES:
        return _integers(texts, type_)
    if type_ == "float":
        return _floats(texts)
    return _each(texts, _list)


def _integers(texts: Sequence[str], type_: str) -> list[int]:
    low, high = INTEGER_RANGES[type_]
    joined = "".join(texts)
    if joined.isascii() and "_" not in joined:
        try:
            values = list(map(int, texts))
        except ValueError:
            pass
        else:
            if not values or (min(values) >= low and max(values) <= high):
                return values

    def integer(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"{_shown(text)} is not {_A[type_]}")
        # Python refuses to convert texts of thousands of digits; none of them is in range.
        value = int(text) if len(text) < 400 else high + 1
        if not low <= value <= high:
            raise ValueError(f"{_shown(text)} is out of the range of {type_} ({_RANGE_TEXT[type_]})")
        return value

    return _each(texts, integer)


def _floats(texts: Sequence[str]) -> list[float]:
    if "_" not in (joined := "".join(texts)) and joined.isascii():
        try:
            values = list(map(float, texts))
        except ValueError:
            pass
        else:
            if all(map(isfinite, values)):
                return values

    def real(text: str) -> float:
        if not _FLOAT.fullmatch(text):
            raise ValueError(f"{_shown(text)} is not a float")
        if not isfinite(value := float(text)):
            raise ValueError(f"{_shown(text)} is out of the range of float")
        return value

    return _each(texts, real)


def _list(text: str) -> tuple[Any, ...]:
    try:
        value = parse_value(text)
    except TextProblem as problem:
        raise ValueError(f"{_shown(text)} is not a list: {problem.message}") from None
    if not isinstance(value, tuple):
        raise ValueError(f"{_shown(text)} is not a list; a list is written [1, 2]")
    return value


def _each(items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    values = []
    for row, item in enumerate(items):
        try:
            values.append(function(item))
        except ValueError as error:
            raise BadValue(row, str(error)) from None
    return values


# --- values that already have a type (Parquet) ---------------------------------------------------------------


def convert_values(values: Sequence[Any], type_: str) -> list[Any]:
    """The values of a column that came with Python types, as the column's own type.

    >>> convert_values([1, 2], "float"), convert_values([[1, "a"]], "list")
    ([1.0, 2.0], [(1, 'a')])
    """
    if type_ == "any" and float in (kinds := set(map(type, values))) and kinds <= {int, float}:
        type_ = "float"
    return _each(values, lambda value: _value(value, type_))


def _value(value: Any, type_: str) -> Any:
    value = own_value(value)
    if value is None:
        raise ValueError("a null is not a value")
    if isinstance(value, bool) or not isinstance(value, (int, float, str, list, tuple)):
        raise ValueError(f"{_shown(value)} ({type(value).__name__}) is not a number, a symbol or a list")
    if isinstance(value, (list, tuple)):
        value = tuple(_value(item, "any") for item in value)
    elif type_ == "list" and isinstance(value, str):  # so are lists of mixed values written, which Arrow has not
        value = _list(value)
    if type_ == "float" and isinstance(value, int):
        value = float(value)
    elif type_ in INTEGER_RANGES and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, _PYTHON[type_]):
        raise ValueError(f"{_shown(value)} is not {_A[type_]}")
    if isinstance(value, int):
        low, high = INTEGER_RANGES.get(type_, INTEGERS)
        if not low <= value <= high:
            raise ValueError(f"{value} is out of the range of {type_} ({_RANGE_TEXT.get(type_, '64 bits')})")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return value


_A = {
    "numeric": "a number, and a rule computes with it", "number": "a number",
    "unsigned": "an unsigned number", "float": "a float", "symbol": "a symbol", "list": "a list",
}  # fmt: skip
_PYTHON: dict[str, Any] = {"number": int, "unsigned": int, "float": float, "symbol": str, "list": tuple, "any": object}
_PYTHON["numeric"] = (int, float)
_RANGE_TEXT = {"number": "-2^63 to 2^63-1", "unsigned": "0 to 2^64-1"}


def _shown(value: Any) -> str:
    """A value for a message: quoted, and cut when it is very long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:50] + "..." + text[-1]
