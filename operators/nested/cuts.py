"""Cuts between keys in order, and the range of keys that a comparison lets through.

A cut is `BOTTOM`, `TOP`, or `(0, key, side)`: just before the key (side 0) or just after it (side 1). Cuts compare as
they lie. A range is a pair of cuts; the key k is in it if `low <= (0, k, 0) < high`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BOTTOM", "NOTHING", "TOP", "Cut", "Range", "inside", "passing"]

Cut = tuple[Any, ...]
Range = tuple[Cut, Cut]

BOTTOM: Cut = (-1,)
TOP: Cut = (1,)
NOTHING: Range = (TOP, TOP)


def passing(op: str, threshold: Any) -> Range:
    """The keys with `key op threshold`; none if there is no threshold.

    >>> passing("<=", 5)
    ((-1,), (0, 5, 1))
    >>> [k for k in (4, 5, 6) if inside(k, passing("=", 5))]
    [5]
    """
    if threshold is None:
        return NOTHING
    before, after = (0, threshold, 0), (0, threshold, 1)
    if op == "<":
        return BOTTOM, before
    if op == "<=":
        return BOTTOM, after
    if op == ">":
        return after, TOP
    if op == ">=":
        return before, TOP
    assert op == "=", op
    return before, after


def inside(key: Any, within: Range) -> bool:
    """Whether a key lies in a range.

    >>> inside(5, passing(">", 5)), inside(6, passing(">", 5))
    (False, True)
    """
    return within[0] <= (0, key, 0) < within[1]
