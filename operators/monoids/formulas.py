"""Answers of linear aggregates, as functions of their vectors: sums are exact, and rounded once."""

from __future__ import annotations

import math
from typing import Any

from operators.exact import COARSE, FACTOR, SCALE
from operators.source import HIGHEST, LOWEST, overflow

__all__ = ["NARROW", "UNIT", "WIDE", "deviation_of", "mean_of", "sum_of", "total_of", "variance_of"]

UNIT = 1.0 / FACTOR
WIDE = 1 << 1000
NARROW = -WIDE
"""A number of coarse units between these, multiplied by UNIT, is the nearest float: that does not round again."""


def sum_of(unsigned: bool, integers: int, floats: int, large: int, small: int) -> Any:
    """The sum behind a vector of `Sum`."""
    total = integers
    if floats or large or small:
        parts, unit = _fraction(integers, large, small)
        if floats > 0 or parts % unit:
            return _divided(parts, unit, "sum")
        total = parts // unit  # an int came back as a float that is equal to it
    if unsigned and 0 <= total < 2**64:
        return total
    return total if LOWEST <= total <= HIGHEST else overflow(total)


def total_of(integers: int) -> int | float:
    """The sum of whole numbers, infinite where it is out of range: that compares as it should, and travels."""
    return integers if LOWEST <= integers <= HIGHEST else math.copysign(math.inf, integers)


def mean_of(count: int, integers: int, large: int, small: int) -> float:
    """The mean behind a vector of `Sum`."""
    if not (large or small):
        return integers / count
    total, unit = _fraction(integers, large, small)
    return _divided(total, count * unit, "mean")


def variance_of(count: int, *sums: int) -> float:
    """The variance behind a vector of `Variance`."""
    return _divided(*_spread(count, *sums), "variance")


def deviation_of(count: int, *sums: int) -> float:
    """Its square root."""
    return _root(*_spread(count, *sums))


def _spread(
    count: int, integers: int, integers2: int, large: int, large2: int, small: int, small2: int
) -> tuple[int, int]:
    """The variance as a fraction, (n * squares - sum**2) / n**2, in the largest unit that does."""
    if small or small2:
        scale = SCALE
        total = _units(integers, large, small)
        squares = (((integers2 << 2 * COARSE) + large2) << 2 * (SCALE - COARSE)) + small2
    elif large or large2:
        scale = COARSE
        total = (integers << COARSE) + large
        squares = (integers2 << 2 * COARSE) + large2
    else:
        scale, total, squares = 0, integers, integers2
    return count * squares - total * total, count * count << 2 * scale


def _fraction(integers: int, large: int, small: int) -> tuple[int, int]:
    """A sum as a fraction."""
    if small:
        return _units(integers, large, small), 1 << SCALE
    return (integers << COARSE) + large, 1 << COARSE


def _units(integers: int, large: int, small: int) -> int:
    """A sum in units of 2**-1074."""
    return (((integers << COARSE) + large) << (SCALE - COARSE)) + small


def _divided(numerator: int, denominator: int, what: str) -> float:
    try:
        return numerator / denominator  # of ints: correctly rounded
    except OverflowError:
        raise OverflowError(f"overflow: the {what} is too large for a float") from None


def _root(numerator: int, denominator: int) -> float:
    """The float nearest to the square root of a fraction.

    The root is taken of a whole number, of so many bits that it has more than a float has; what is cut off makes the
    last bit odd, so that it cannot be mistaken for a tie.

    >>> _root(2, 1) == 2**0.5, _root(1, 4), _root(0, 1)
    (True, 0.5, 0.0)
    """
    shift = max(0, 64 - (numerator.bit_length() - denominator.bit_length()) // 2)
    square, rest = divmod(numerator << 2 * shift, denominator)
    root = math.isqrt(square)
    if rest or root * root != square:
        root |= 1
    return _divided(root, 1 << shift, "standard deviation")
