"""The functions that rules can call: what they take, what they give, and what they compute.

`FUNCTIONS` holds the built-in ones by name, the operators among them (`+ - * / % ^`, `neg`, `list`). Their
implementations raise `ArithmeticError` or `ValueError` with a plain sentence; who evaluates the rule adds its
name. `AGGREGATES` are the names of the built-in aggregates.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from datalog.errors import UsageProblem

__all__ = [
    "AGGREGATES", "FUNCTIONS", "Function", "NUMBER_RANGE", "UNSIGNED_RANGE", "in_range", "result_type",
    "user_functions", "value_of",
]

AGGREGATES = frozenset({"min", "max", "sum", "count", "avg", "mean"})
NUMBER_RANGE = (-(2**63), 2**63 - 1)
UNSIGNED_RANGE = (0, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    `least` and `most` bound the number of arguments (`most` is None if there is no bound). `parameters` are
    the types of the arguments, the last one repeated as needed: `number` stands for any kind of number,
    `same` for one type that all such arguments share, `measure` for the same with lists or numbers only.
    `result` is a type, `numeric` (the kind of number that the arguments promote to) or `same`.
    """

    name: str
    call: Callable[..., Any]
    least: int
    most: int | None
    parameters: tuple[str, ...]
    result: str
    usage: str = ""

    def parameter(self, index: int) -> str:
        """The type of the argument at a position.

        >>> FUNCTIONS["substr"].parameter(0), FUNCTIONS["substr"].parameter(2)
        ('symbol', 'number')
        """
        return self.parameters[min(index, len(self.parameters) - 1)]

    def accepts(self, count: int) -> bool:
        """Whether the function can be given so many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def for_type(self, type_: str | None) -> Callable[..., Any]:
        """The implementation for a call of this static type: `unsigned` has a range of its own.

        >>> FUNCTIONS["-"].for_type("number")(1, 2)
        -1
        >>> FUNCTIONS["-"].for_type("unsigned")(1, 2)
        Traceback (most recent call last):
            ...
        OverflowError: overflow: 1 - 2 does not fit in an unsigned

        Where `min` and `max` meet integers and floats, the result is a float in either case:

        >>> FUNCTIONS["min"].for_type("float")(1, 2.5)
        1.0
        """
        if type_ == "unsigned":
            return _UNSIGNED.get(self.name, self.call)
        if type_ == "float" and self.result == "same":
            return lambda *values: float(self.call(*values))
        return self.call


# --- ranges --------------------------------------------------------------------------------------------------


def in_range(value: Any, type_: str = "number") -> bool:
    """Whether a number fits its type: integers by their range, floats if they are finite.

    >>> in_range(2**63), in_range(2**63, "unsigned"), in_range(float("inf"))
    (False, True, False)
    """
    if isinstance(value, float):
        return math.isfinite(value)
    low, high = UNSIGNED_RANGE if type_ == "unsigned" else NUMBER_RANGE
    return low <= value <= high


def _fit(value: Any, text: Callable[[], str], low: int, high: int) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError(f"overflow: {text()} does not fit in a float")
    elif not low <= value <= high:
        raise OverflowError(f"overflow: {text()} does not fit in {'a number' if low else 'an unsigned'}")
    return value


def _numbers(symbol: str, *values: Any) -> None:
    for value in values:
        if not isinstance(value, (int, float)):
            raise ValueError(f"{symbol} needs numbers, not {_show(value)}")


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_show, value)) + "]"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


# --- arithmetic ----------------------------------------------------------------------------------------------


def _checked(symbol: str, compute: Callable[[Any, Any], Any], low: int, high: int) -> Callable[[Any, Any], Any]:
    """An operator over two numbers that refuses results outside the range."""

    def apply(a: Any, b: Any) -> Any:
        _numbers(symbol, a, b)
        try:
            value = compute(a, b)
        except OverflowError:
            raise OverflowError(f"overflow: {a} {symbol} {b} does not fit in a float") from None
        return _fit(value, lambda: f"{a} {symbol} {b}", low, high)

    apply.__name__ = symbol
    return apply


def _divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} / {b}")
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    quotient = abs(a) // abs(b)  # truncates toward zero, as C and Souffle
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: Any, b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} % {b}")
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    remainder = abs(a) % abs(b)  # the sign of the dividend, as C and Souffle
    return -remainder if a < 0 else remainder


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            raise ValueError(f"{a} ^ {b}: an integer cannot be raised to a negative power; use a float, {a}.0 ^ {b}")
        # No power beyond 64 of anything but 0, 1 and -1 fits; do not compute millions of digits to find out.
        return a**b if abs(a) < 2 or b <= 64 else 2**64 * a
    if a == 0 and b < 0:
        raise ZeroDivisionError(f"division by zero: {a} ^ {b}")
    value = a**b
    if isinstance(value, complex):
        raise ValueError(f"{a} ^ {b} is not a real number")
    return float(value)


def _negate(low: int, high: int) -> Callable[[Any], Any]:
    def neg(a: Any) -> Any:
        _numbers("-", a)
        return _fit(-a, lambda: f"-({a})", low, high)

    return neg


def _abs(a: Any) -> Any:
    _numbers("abs", a)
    return _fit(abs(a), lambda: f"abs({a})", *NUMBER_RANGE) if a < 0 else a


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _modulo,
    "^": _power,
}
_SIGNED = {symbol: _checked(symbol, compute, *NUMBER_RANGE) for symbol, compute in _OPERATORS.items()}
_UNSIGNED: Mapping[str, Callable[..., Any]] = {
    **{symbol: _checked(symbol, compute, *UNSIGNED_RANGE) for symbol, compute in _OPERATORS.items()},
    "neg": _negate(*UNSIGNED_RANGE),
}


# --- everything else -----------------------------------------------------------------------------------------


def _extreme(pick: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        try:
            return pick(values)
        except TypeError:
            raise ValueError(f"{name} cannot compare {', '.join(map(_show, values))}") from None

    return extreme


def _symbol(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} needs a symbol, not {_show(value)}")
    return value


def _cat(*parts: Any) -> str:
    return "".join(_symbol("cat", part) for part in parts)


def _strlen(text: Any) -> int:
    return len(_symbol("strlen", text))


def _substr(text: Any, start: Any, length: Any) -> str:
    """Characters from `start` (counted from 0), at most `length` of them; "" if there are none."""
    _symbol("substr", text)
    if start < 0 or length < 0:
        raise ValueError(f"substr({_show(text)}, {start}, {length}): start and length cannot be negative")
    return str(text[int(start) : int(start) + int(length)])


def _to_number(text: Any) -> int:
    try:
        value = int(_symbol("to_number", text).strip().replace("_", "?"))
    except ValueError:
        raise ValueError(f"to_number({_show(text)}): this is not a number") from None
    return int(_fit(value, lambda: f"to_number({_show(text)})", *NUMBER_RANGE))


def _to_string(value: Any) -> str:
    return value if isinstance(value, str) else _show(value)


def _ord(text: Any) -> int:
    return ord(text[0]) if _symbol("ord", text) else 0


def _distance(a: Any, b: Any) -> float:
    try:
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                raise ValueError(f"distance of lists of different length: {_show(a)}, {_show(b)}")
            return float(_fit(math.dist(a, b), lambda: f"distance({_show(a)}, {_show(b)})", *NUMBER_RANGE))
        return float(abs(a - b))
    except TypeError:
        raise ValueError(f"distance needs two numbers or two lists of numbers, not {_show(a)}, {_show(b)}") from None


def _concat(*lists: Any) -> tuple[Any, ...]:
    for value in lists:
        if not isinstance(value, tuple):
            raise ValueError(f"concat needs lists, not {_show(value)}")
    return tuple(element for value in lists for element in value)


def _list(*elements: Any) -> tuple[Any, ...]:
    return elements


def _table(*functions: Function) -> dict[str, Function]:
    return {function.name: function for function in functions}


FUNCTIONS: Mapping[str, Function] = _table(
    *(Function(symbol, call, 2, 2, ("number",), "numeric", f"a {symbol} b") for symbol, call in _SIGNED.items()),
    Function("neg", _negate(*NUMBER_RANGE), 1, 1, ("number",), "numeric", "-a"),
    Function("list", _list, 0, None, ("any",), "list", "[a, b]"),
    Function("min", _extreme(min, "min"), 2, None, ("same",), "same", "min(a, b)"),
    Function("max", _extreme(max, "max"), 2, None, ("same",), "same", "max(a, b)"),
    Function("abs", _abs, 1, 1, ("number",), "numeric", "abs(a)"),
    Function("cat", _cat, 1, None, ("symbol",), "symbol", "cat(s, t, ...)"),
    Function("strlen", _strlen, 1, 1, ("symbol",), "number", "strlen(s)"),
    Function("substr", _substr, 3, 3, ("symbol", "number"), "symbol", "substr(s, start, length)"),
    Function("to_number", _to_number, 1, 1, ("symbol",), "number", "to_number(s)"),
    Function("to_string", _to_string, 1, 1, ("number",), "symbol", "to_string(n)"),
    Function("ord", _ord, 1, 1, ("symbol",), "number", "ord(s)"),
    Function("distance", _distance, 2, 2, ("measure",), "float", "distance(a, b)"),
    Function("concat", _concat, 2, None, ("list",), "list", "concat(a, b)"),
)


# --- functions of the user -----------------------------------------------------------------------------------

_ANNOTATIONS: Mapping[Any, str] = {int: "number", float: "float", str: "symbol", tuple: "list", list: "list"}


def _annotated(annotation: Any) -> str:
    origin = typing.get_origin(annotation) or annotation
    return _ANNOTATIONS.get(origin, "any") if isinstance(origin, (type, types.GenericAlias)) else "any"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (TypeError, NameError, AttributeError):
        return {}


def result_type(function: Callable[..., Any]) -> str:
    """The type of what a Python function returns, by its annotation; `any` if it has none.

    >>> def area(w: int, h: int) -> float: ...
    >>> result_type(area)
    'float'
    """
    return _annotated(_hints(function).get("return"))


def value_of(value: Any, what: str) -> Any:
    """A Python value as a value of the language; raises ValueError for what has no place in a relation.

    >>> value_of([1, [2.5, "x"]], "f")
    (1, (2.5, 'x'))
    """
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (list, tuple)):
        return tuple(value_of(element, what) for element in value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and UNSIGNED_RANGE[1] >= value >= NUMBER_RANGE[0]:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (int, float)):
        raise OverflowError(f"overflow: {what} returned {value}")
    raise ValueError(f"{what} returned {value!r}, which is not a number, a string or a list")


def user_functions(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Function]:
    """Functions that a user registered, by name, with types from their annotations.

    >>> def half(n: int) -> float:
    ...     return n / 2
    >>> f = user_functions({"half": half})["half"]
    >>> f.parameters, f.result, f.call(3)
    (('number',), 'float', 1.5)
    """
    return {name: _user_function(name, function) for name, function in functions.items()}


def _user_function(name: str, function: Callable[..., Any]) -> Function:
    if not callable(function):
        raise UsageProblem(f"the function `{name}` cannot be called: {function!r}")

    def call(*arguments: Any) -> Any:
        return value_of(function(*arguments), name)

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return Function(name, call, 0, None, ("any",), "any", f"{name}(...)")
    hints = _hints(function)
    least, most = 0, 0
    parameters: list[str] = []
    for parameter in signature.parameters.values():
        kind = _annotated(hints.get(parameter.name))
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            least, most = least + (parameter.default is parameter.empty), most + 1
            parameters.append("number" if kind == "float" else kind)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            parameters.append("number" if kind == "float" else kind)
            return Function(name, call, least, None, tuple(parameters), _annotated(hints.get("return")), f"{name}(...)")
    usage = f"{name}({', '.join(list(signature.parameters)[:most])})"
    return Function(name, call, least, most, tuple(parameters) or ("any",), _annotated(hints.get("return")), usage)
