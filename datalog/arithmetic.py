"""Arithmetic as rules mean it: 64 bit integers, C's division, errors instead of wrong numbers.

`SIGNED` and `UNSIGNED` hold the operators by name, checked against the range of `number` and of `unsigned`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from datalog.format import brief_value

__all__ = ["NUMBER_RANGE", "SIGNED", "UNSIGNED", "UNSIGNED_RANGE", "absolute", "fit", "in_range"]

NUMBER_RANGE = (-(2**63), 2**63 - 1)
UNSIGNED_RANGE = (0, 2**64 - 1)



def in_range(value: Any, type_: str = "number") -> bool:
    """Whether a number fits its type: integers by their range, floats if they are finite.

    >>> in_range(2**63), in_range(2**63, "unsigned"), in_range(float("inf"))
    (False, True, False)
    """
    if isinstance(value, float):
        return math.isfinite(value)
    low, high = UNSIGNED_RANGE if type_ == "unsigned" else NUMBER_RANGE
    return bool(low <= value <= high)


def fit(value: Any, text: Callable[[], str], low: int, high: int) -> Any:
    """The value, if it is inside the range; `text` is the computation for the message of the error."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError(f"overflow: {text()} does not fit in a float")
    elif not low <= value <= high:
        raise OverflowError(f"overflow: {text()} does not fit in {'a number' if low else 'an unsigned'}")
    return value


def _need_numbers(symbol: str, *values: Any) -> None:
    for value in values:
        if not isinstance(value, (int, float)):
            raise ValueError(f"{symbol} needs numbers, not {brief_value(value)}")


# --- arithmetic ----------------------------------------------------------------------------------------------


def _checked(symbol: str, compute: Callable[[Any, Any], Any], low: int, high: int) -> Callable[[Any, Any], Any]:
    """An operator over two numbers that refuses results outside the range."""

    def apply(a: Any, b: Any) -> Any:
        _need_numbers(symbol, a, b)
        try:
            value = compute(a, b)
        except OverflowError:
            raise OverflowError(f"overflow: {a} {symbol} {b} does not fit in a float") from None
        return fit(value, lambda: f"{a} {symbol} {b}", low, high)

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
        _need_numbers("-", a)
        return fit(-a, lambda: f"-({a})", low, high)

    return neg


def absolute(a: Any) -> Any:
    """The number without its sign.

    >>> absolute(-3), absolute(2.5)
    (3, 2.5)
    """
    _need_numbers("abs", a)
    return fit(abs(a), lambda: f"abs({a})", *NUMBER_RANGE) if a < 0 else a


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _modulo,
    "^": _power,
}


def _operators(low: int, high: int) -> dict[str, Callable[..., Any]]:
    checked = {symbol: _checked(symbol, compute, low, high) for symbol, compute in _OPERATORS.items()}
    return {**checked, "neg": _negate(low, high)}


SIGNED: Mapping[str, Callable[..., Any]] = _operators(*NUMBER_RANGE)
UNSIGNED: Mapping[str, Callable[..., Any]] = _operators(*UNSIGNED_RANGE)
