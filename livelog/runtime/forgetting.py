"""Forgetting: the tuples of a stream that have left all windows which read it, and that nobody will ask for again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from math import inf
from operator import or_
from typing import Any

from operators.window import intervals
from planner.plan import RelationPlan

__all__ = ["Forgetting"]

Tuple = tuple[Any, ...]
When = tuple[Any, bool]
"""A time, and whether only what is behind it counts."""


class Forgetting:
    """When the tuples of a relation with `until` may go: filed when they come, and forgotten by their tables at commit.

    Nothing may fail there. A tuple for which a bound cannot be computed stays: a window will say so when it gets there.

    `_rows` has them by the time at which the last of the windows lets go of them, `_times` is a heap of these times. A
    window with ticks stands still between them: then tuples are filed anew for the next one. Filing a tuple twice does
    no harm.

    >>> from operators.expr import Col; from planner.plan import Bound, Leaving
    >>> until = (Leaving((Bound(Col(1), False),)),)             # n <= t
    >>> passing = Forgetting(RelationPlan("s", ("x", "t"), ("symbol", "number"), "base", (0,), until=until))
    >>> passing.file([("a", 3), ("b", 5)]); list(passing.over(3.0)), list(passing.over(4.0)), list(passing.over(9.0))
    ([], [{('a', 3)}], [{('b', 5)}])
    """

    def __init__(self, relation: RelationPlan) -> None:
        self._until = relation.until
        self._leave = [intervals((), [(b.time, b.strict) for b in u.leaves]) for u in relation.until]
        self._ticks = [u.ticks for u in relation.until if u.ticks is not None]
        self._rows: dict[When, set[Tuple]] = {}
        self._times: list[When] = []

    def file(self, rows: Iterable[Tuple]) -> None:
        """Tuples came. O(1) each, and O(log n) for each new time."""
        batch = [(t, 1) for t in rows]
        try:
            self._file(batch)
        except Exception:
            for entry in batch:
                with suppress(Exception):
                    self._file([entry])

    def _file(self, batch: list[tuple[Tuple, int]]) -> None:
        last: list[When] = []
        for leave in self._leave:
            found: list[Any] = []
            leave(batch, found)
            times = [(time, late) for _, _, _, _, time, late in found]
            last = list(map(max, last, times)) if last else times
        for (t, _), when in zip(batch, last, strict=True):
            if when[0] != inf:
                self._put(when, t)

    def _put(self, when: When, t: Tuple) -> None:
        rows = self._rows.get(when)
        if rows is None:
            heappush(self._times, when)
            self._rows[when] = {t}
        else:
            rows.add(t)

    def over(self, now: float) -> Iterator[set[Tuple]]:
        """The tuples that may go now that the clock is there. A batch is let go of when the next one is asked for."""
        times = self._times
        while times and times[0] < (now, True):
            rows = self._rows.get(times[0], set())  # empty, if it was interrupted here
            if self._ticks:
                staying = {t for t, _ in self.staying([(t, 1) for t in rows], now)}
                points = [p for ticks in self._ticks if (p := ticks.next_after(now)) is not None]
                if staying and points:  # if there are none, they stay for ever
                    for t in staying:
                        self._put((min(points), False), t)
                rows = rows - staying
            yield rows
            self._rows.pop(times[0], None)
            heappop(times)

    def staying(self, batch: list[tuple[Tuple, int]], now: float) -> list[tuple[Tuple, int]]:
        """Those of some tuples, with weights, that a window may show now or later. O(1) each"""
        shown: list[bool] = []
        for until, leave in zip(self._until, self._leave, strict=True):
            point = now if until.ticks is None else until.ticks.last_at(now)
            found: list[Any] = []
            try:
                leave(batch, found)
            except Exception:
                return batch
            here = [point is None or not (time, late) < (point, True) for _, _, _, _, time, late in found]
            shown = list(map(or_, shown, here)) if shown else here
        return [entry for entry, stays in zip(batch, shown, strict=True) if stays]
