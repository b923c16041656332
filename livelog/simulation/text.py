"""Figures as a person reads them: sizes, times, ratios, tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

__all__ = ["duration", "ratio", "size", "table"]


def size(count: float | None) -> str:
    """Bytes with three digits and a unit.

    >>> size(0), size(999), size(1234), size(98_765_432), size(None)
    ('0 B', '999 B', '1.23 kB', '98.8 MB', '?')
    """
    if count is None:
        return "?"
    units = ("B", "kB", "MB", "GB", "TB")
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(units) - 1:
        value /= 1000
        unit += 1
    return f"{_digits(value)} {units[unit]}"


def duration(seconds: float) -> str:
    """A time with three digits and a unit.

    >>> duration(0.00012), duration(0.0123), duration(4.5), duration(300)
    ('0.12 ms', '12.3 ms', '4.5 s', '300 s')
    """
    return f"{_digits(seconds * 1000)} ms" if seconds < 0.9995 else f"{_digits(seconds)} s"


def ratio(value: float | None, base: float | None) -> str:
    """How many times the base a value is; nothing where that makes no sense.

    >>> ratio(3, 2), ratio(250, 2), ratio(1, 8), ratio(1, 0), ratio(0, 0)
    ('1.5x', '125x', '0.12x', '', '')
    """
    return "" if not base or value is None else f"{_digits(value / base)}x"


def _digits(value: float) -> str:
    """About three digits, and no more of the fraction than is needed."""
    if value == 0 or value >= 99.95:
        return f"{value:.0f}"
    places = 1 if value >= 9.995 else 2 if value >= 0.1 else 1 - floor(log10(value))
    return f"{value:.{places}f}".rstrip("0").rstrip(".")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Aligned lines; the first `left` columns to the left, figures to the right.

    >>> print(*table(["who", "ms"], [["a", "1"], ["bcde", "10.5"]]), sep="\\n")
    who     ms
    a        1
    bcde  10.5
    """
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
