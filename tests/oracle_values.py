"""The oracle's own functions and aggregates, written down from the definition of the language."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any


class OracleError(Exception):
    """The program has no result: a division by zero, an overflow, a cycle through a negation."""


class OracleLimit(OracleError):
    """More work than the caller allowed: the program may not terminate."""


def in_range(value: Any, type_: str | None) -> Any:
    """The result of an arithmetic operation, or an error when its type cannot hold it."""
    if isinstance(value, float):
        if math.isinf(value) or math.isnan(value):
            raise OracleError("overflow of a float")
    elif isinstance(value, int):
        low, high = (0, 2**64) if type_ == "unsigned" else (-(2**63), 2**63)
        if not low <= value < high:
            raise OracleError("overflow")
    return value


def _divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise OracleError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return a / b


def _modulo(a: Any, b: Any) -> Any:
    if b == 0:
        raise OracleError("modulo by zero")
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))
    return math.fmod(a, b)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            raise OracleError("negative exponent of an integer")
        if abs(a) > 1 and b > 64:
            raise OracleError("overflow")
        return a**b
    try:
        result = float(a) ** float(b)
    except (OverflowError, ZeroDivisionError) as error:
        raise OracleError("overflow of a float") from error
    if isinstance(result, complex):
        raise OracleError("power is not a number")
    return result


def _distance(a: Any, b: Any) -> float:
    if isinstance(a, tuple):
        if len(a) != len(b):
            raise OracleError("distance of lists of different length")
        return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return float(abs(a - b))


def _substring(text: str, start: int, length: int) -> str:
    return "".join(text[i] for i in range(start, start + length) if 0 <= i < len(text))


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OverflowError as error:
            raise OracleError("overflow of a float") from error

    return apply


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": _checked(operator.add),
    "-": _checked(operator.sub),
    "*": _checked(operator.mul),
    "/": _checked(_divide),
    "%": _checked(_modulo),
    "^": _power,
    "neg": operator.neg,
    "list": lambda *items: tuple(items),
    "concat": lambda a, b: tuple(a) + tuple(b),
    "min": min,
    "max": max,
    "abs": abs,
    "cat": lambda *parts: "".join(parts),
    "strlen": len,
    "substr": _substring,
    "to_number": int,
    "to_string": str,
    "ord": lambda text: ord(text[0]) if text else 0,
    "distance": _distance,
}

ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "^", "neg", "abs"})

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def aggregate(function: str, values: list[tuple[Any, int]], type_: str | None = None) -> Any:
    """The aggregate of (value, copies) pairs; `None` when it has no value (min, max or avg of nothing).

    The name of one with a parameter holds it: `top(3)`.
    """
    copies = sum(n for _, n in values)
    if function == "count":
        return in_range(copies, type_)
    if function == "sum":
        return _sum(values, type_)
    if function == "count_distinct":
        return len({value for value, _ in values})
    if function == "all":
        return int(all(value != 0 for value, _ in values))
    if function == "any":
        return int(any(value != 0 for value, _ in values))
    every = [value for value, n in values for _ in range(n)]
    if function == "collect":
        return tuple(sorted(every))
    function, _, parameter = function.removesuffix(")").partition("(")
    if function == "top":
        return tuple(sorted(every, reverse=True)[: int(parameter)])
    if function == "bottom":
        return tuple(sorted(every)[: int(parameter)])
    if not copies:
        return None
    if function == "variance":
        return _float(statistics.pvariance(map(Fraction, every)))
    if function == "stddev":
        return _float(statistics.pstdev(map(Fraction, every)))
    if function == "median":
        return _float(statistics.median(map(Fraction, every)))
    if function == "quantile":
        return _quantile(sorted(map(Fraction, every)), Decimal(parameter))
    if function in ("avg", "mean"):
        return float(sum(Fraction(value) * n for value, n in values) / copies)
    if function == "min":
        return min(value for value, _ in values)
    if function == "max":
        return max(value for value, _ in values)
    raise OracleError(f"unknown aggregate {function}")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise OracleError("overflow of a float") from error


def _quantile(values: list[Fraction], fraction: Decimal) -> float:
    """By definition: the piecewise linear function through the points (i / (n - 1), value i)."""
    if len(values) == 1:
        return float(values[0])
    for i, (low, high) in enumerate(pairwise(values)):
        left, right = Fraction(i, len(values) - 1), Fraction(i + 1, len(values) - 1)
        if left <= Fraction(fraction) <= right:
            return _float(low + (high - low) * (Fraction(fraction) - left) / (right - left))
    raise OracleError(f"{fraction} is not between 0 and 1")


def _sum(values: list[tuple[Any, int]], type_: str | None) -> Any:
    if any(isinstance(value, float) for value, _ in values):
        try:  # exactly: math.fsum gives up on sums that leave the range on their way
            return float(sum(Fraction(value) * n for value, n in values))
        except OverflowError as error:
            raise OracleError("overflow of a float") from error
    return in_range(sum(value * n for value, n in values), type_)
