"""Python functions and aggregates that the programs of random cases may use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import livelog
from tests.oracle_values import OracleError

_PRIME = 1009


def fragile(value: int) -> int:
    """The value, unless it is 3: then it fails, and the transaction with it."""
    if value == 3:
        raise OracleError("three")
    return value


def spread(values: list[Any]) -> float:
    """An aggregate that is a function of the list of values."""
    return float(max(values) / 2 - min(values) / 2)


def _residue(value: Any) -> int:
    return hash(value) % _PRIME  # of numbers: 1 and 1.0 have the same


FUNCTIONS: dict[str, Callable[..., Any]] = {"fragile": fragile}
AGGREGATES: dict[str, Callable[..., Any]] = {
    "spread": spread,
    "checksum": livelog.aggregate(  # a monoid with an inverse
        0, lambda a, b: (a + b) % _PRIME, lambda a, b: (a - b) % _PRIME, answer=lambda state: 2 * state, unit=_residue,
        type=int,
    ),
    "divisor": livelog.aggregate(0, math.gcd, unit=_residue, type=int),  # one without
}
