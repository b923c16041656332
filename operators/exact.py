"""Exact numbers: sums of floats without rounding, and a plain form of them that fits into a tuple.

Every finite float is a whole number of *units* of 2**-1074, so sums of floats are sums of Python ints: exact, without
drift, and independent of the order. They are rounded once, when somebody asks.

Nearly all floats that people sum up are whole numbers of much larger units too, of 2**-128: all from 3e-23 upwards, to
begin with. Sums in those are a sixth as long, and a float is brought there by one multiplication: `coarse`.
"""

from __future__ import annotations

__all__ = ["COARSE", "FACTOR", "SCALE", "coarse", "pack", "rounded", "units", "unpack"]

SCALE = 1074
COARSE = 128
FACTOR = 2.0**COARSE
_ONE = 1 << SCALE
_SMALL = 1 << 63

Packed = int | tuple[int | str, int]


def units(value: float) -> int:
    """A number in units of 2**-1074. O(1).

    >>> rounded(units(0.1) + units(0.2) - units(0.1))
    0.2
    """
    if isinstance(value, float):
        numerator, denominator = value.as_integer_ratio()
        return numerator << (SCALE - denominator.bit_length() + 1)
    return value << SCALE


def coarse(value: float) -> tuple[int, int]:
    """A float as two numbers, one of which is 0: of units of 2**-128, and of 2**-1074. O(1).

    >>> coarse(0.5) == (2**127, 0), coarse(2.0**-1000) == (0, 2**74)
    (True, True)
    """
    scaled = value * FACTOR  # exact but for an overflow, and infinity is not whole
    return (int(scaled), 0) if scaled.is_integer() else (0, units(value))


def rounded(total: int) -> float:
    """The float that is nearest to a number of units.

    >>> rounded(units(1e100) + units(1.0) - units(1e100))
    1.0
    """
    try:
        return total / _ONE
    except OverflowError:
        raise OverflowError("overflow: the sum is too large for a float") from None


def pack(total: int) -> Packed:
    """An int of any size as a value that can stand in a tuple and travel: itself, or (odd part, power of two).

    >>> pack(5), pack(units(0.75)), unpack(pack(units(0.75))) == units(0.75)
    (5, (3, 1072), True)
    >>> unpack(pack(-(3**100))) == -(3**100)
    True
    """
    if -_SMALL <= total < _SMALL:
        return total
    power = (total & -total).bit_length() - 1
    odd = total >> power
    return (odd if -_SMALL <= odd < _SMALL else hex(odd), power)


def unpack(value: Packed) -> int:
    """The int behind a packed one."""
    if isinstance(value, int):
        return value
    odd, power = value
    return (int(odd, 16) if isinstance(odd, str) else odd) << power
