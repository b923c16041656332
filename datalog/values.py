"""Values of the language: what of Python has a place in a relation, of which type, and how long it may be.

What is made here raises `ValueError` or `OverflowError` with a plain sentence; who evaluates the rule adds its name.
"""

from __future__ import annotations

import math
from typing import Any

from datalog.arithmetic import NUMBER_RANGE, UNSIGNED_RANGE, in_range
from datalog.ast import DEEPEST
from datalog.format import brief_value

__all__ = [
    "LONGEST_LIST", "LONGEST_TEXT", "OWN", "TOO_DEEP", "brief", "check_list", "check_nested", "check_text",
    "own_value", "text_length", "typed_value", "value_of",
]  # fmt: skip

LONGEST_TEXT = 16 << 20
"""Characters of a text that a rule makes, unless `longest` says otherwise."""

LONGEST_LIST = 1 << 20
"""Elements of a list that a rule makes, those of lists inside it included, unless `longest` says otherwise."""

TOO_DEEP = f"a list is nested more than {DEEPEST} levels deep (`concat` makes flat ones)"

OWN = frozenset((int, float, str, bool, tuple, list, type(None)))
"""Types of values that nobody needs to look at twice."""

MORE = "a higher `longest=` or `--longest` allows more"


def brief(value: Any, most: int = 60) -> str:
    """Any value of Python for a message, where it need not be whole.

    >>> brief("a" * 100, 5), brief(10**5000), brief(-3)
    ("'aaaa ...", 'a number of more than 4300 digits', '-3')
    """
    try:
        text = repr(value)
    except ValueError:  # more digits than Python writes
        return brief_value(value)
    return text if len(text) <= most else f"{text[:most]} ..."


# --- from Python ---------------------------------------------------------------------------------------------


def own_value(value: Any) -> Any:
    """A scalar or an array of numpy, or a scalar of Arrow, as a value of Python's own; everything else as it is.

    >>> import numpy
    >>> own_value(numpy.int64(3)), own_value(numpy.array([1.5, 2])), own_value("a")
    (3, [1.5, 2.0], 'a')
    """
    kind = type(value)
    if kind in OWN:
        return value
    origin = kind.__module__.partition(".")[0]
    if origin == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    if origin == "pyarrow" and hasattr(value, "as_py"):
        return value.as_py()
    return value


def value_of(value: Any, what: str, depth: int = 0, longest: int | None = None) -> Any:
    """A Python value as a value of the language; raises ValueError for what has no place in a relation.

    >>> value_of([1, [2.5, "x"]], "f")
    (1, (2.5, 'x'))
    """
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (list, tuple)):
        if depth >= DEEPEST:
            raise ValueError(f"{what}: {TOO_DEEP}")
        check_list(what, len(value), longest)
        made = tuple([value_of(element, what, depth + 1, longest) for element in value])
        if not depth and tuple in map(type, made):
            check_nested(what, made, longest)
        return made
    if isinstance(value, str):
        check_text(what, len(value), longest)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{what} returned {brief(value)}, which is not valid Unicode text") from None
        return str(value)
    if isinstance(value, int) and UNSIGNED_RANGE[1] >= value >= NUMBER_RANGE[0]:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (int, float)):
        raise OverflowError(f"overflow: {what} returned {brief(value)}")
    own = own_value(value)
    if own is not value:
        return value_of(own, what, depth, longest)
    raise ValueError(f"{what} returned {brief(value)}, which is not a number, a string or a list")


_TYPES: dict[str, tuple[type, ...]] = {
    "number": (int,),
    "unsigned": (int,),
    "float": (float,),
    "numeric": (int, float),
    "symbol": (str,),
    "list": (tuple,),
}
_NAMES = {int: "a number", float: "a float", str: "a symbol", tuple: "a list"}


def typed_value(value: Any, type_: str, what: str, wanted: str) -> Any:
    """A value of the language, if it is of a type; `wanted` says in a message who wants that. An int becomes a float.

    `integer` is any whole number: what `int` says in Python. `any` is anything.

    >>> typed_value(3, "float", "f", "it says float"), typed_value(3, "any", "f", "")
    (3.0, 3)
    >>> typed_value("a", "integer", "f", "its annotation says int")
    Traceback (most recent call last):
    ValueError: f returned "a", a symbol, but its annotation says int
    """
    if type_ == "any" or (type_ == "integer" and type(value) is int):
        return value
    if type_ == "float" and type(value) is int:
        return float(value)
    kinds = _TYPES.get(type_, (int,))
    if type(value) not in kinds:
        raise ValueError(f"{what} returned {brief_value(value)}, {_NAMES[type(value)]}, but {wanted}")
    if type_ in ("number", "unsigned") and not in_range(value, type_):
        raise OverflowError(f"overflow: {what} returned {value}, but {wanted}")
    return value


# --- how long values may be ----------------------------------------------------------------------------------


def check_text(what: str, length: int, longest: int | None = None) -> None:
    """Raise if a text of so many characters is too long to be made.

    >>> check_text("cat", 20, 10)
    Traceback (most recent call last):
    ValueError: cat makes a text of 20 characters, more than the 10 that are allowed; a higher `longest=` or ...
    """
    most = LONGEST_TEXT if longest is None else longest
    if length > most:
        raise ValueError(
            f"{what} makes a text of {length:,} characters, more than the {most:,} that are allowed; {MORE}"
        )


def check_list(what: str, length: int, longest: int | None = None) -> None:
    """Raise if a list of so many elements is too long to be made."""
    most = LONGEST_LIST if longest is None else longest
    if length > most:
        raise ValueError(
            f"{what} makes a list of {length:,} elements, more than the {most:,} that are allowed; {MORE}"
        )


def check_nested(what: str, value: tuple[Any, ...], longest: int | None = None) -> None:
    """Raise if a list with lists inside it is nested too deep, or has too many elements in all.

    An inner list counts wherever it stands, even if it is the same: who walks the list walks it each time.
    """
    most = LONGEST_LIST if longest is None else longest
    count = len(value)
    level = [value]
    for _ in range(DEEPEST):
        inner: list[tuple[Any, ...]] = []
        for outer in level:
            found = [element for element in outer if type(element) is tuple]
            count += sum(map(len, found))
            if count > most:
                raise ValueError(
                    f"{what} makes a list of more than {most:,} elements, with those of the lists inside it; {MORE}"
                )
            inner += found
        if not inner:
            return
        level = inner
    raise ValueError(TOO_DEEP)


def text_length(value: Any, most: int) -> int:
    """How many characters a value takes as text, at least; the count ends when it is above `most`.

    >>> text_length(("ab", ("c",)), 100) <= len('["ab", ["c"]]')
    True
    """
    length, left = 0, [value]
    while left and length <= most:
        value = left.pop()
        if isinstance(value, tuple):
            length += 2 * len(value)
            left.extend(value)
        else:
            length += len(value) + 2 if isinstance(value, str) else 1
    return length
