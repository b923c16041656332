"""Schedules: sets of points of time that are not listed but known."""

from __future__ import annotations

from typing import Any

import msgspec

from operators.expr import Expr

__all__ = ["Points", "Schedule"]


class Points(msgspec.Struct, frozen=True):
    """`start`, `start + period`, ... up to `end` (None: for ever), those that meet `where` and are in none of `without`.

    The expressions are over a row that has nothing but the point.
    """

    period: Any
    start: Any
    end: Any = None
    where: tuple[Expr, ...] = ()
    without: tuple[Schedule, ...] = ()


class Schedule(msgspec.Struct, frozen=True):
    """The union of some `Points`. Without parts it has none."""

    parts: tuple[Points, ...] = ()
