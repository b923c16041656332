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
        rows = list(rows)
        try:
            self._file(rows)
        except Exception:
            for t in rows:
                with suppress(Exception):
                    self._file([t])

    def _file(self, batch: list[Tuple]) -> None:
        for rows, when in self._last(batch):
            if when[0] != inf:
                self._put(when, rows)

    def _last(self, batch: list[Tuple]) -> list[tuple[list[Tuple], When]]:
        """Tuples with when the last window lets go of them, in batches for which that is the same."""
        found: list[Any] = []
        first, *others = self._leave
        first(batch, found)
        last = [(rows, (time, late)) for rows, _, _, time, late in found]
        for leave in others:
            finer = []
            for rows, when in last:
                found = []
                leave(rows, found)
                finer += [(same, max(when, (time, late))) for same, _, _, time, late in found]
            last = finer
        return last

    def _put(self, when: When, some: Iterable[Tuple]) -> None:
        rows = self._rows.get(when)
        if rows is None:
            heappush(self._times, when)
            self._rows[when] = set(some)
        else:
            rows.update(some)

    def over(self, now: float) -> Iterator[set[Tuple]]:
        """The tuples that may go now that the clock is there. A batch is let go of when the next one is asked for."""
        times = self._times
        while times and times[0] < (now, True):
            rows = self._rows.get(times[0], set())  # empty, if it was interrupted here
            if self._ticks:
                staying = {t for t, _ in self.staying([(t, 1) for t in rows], now)}
                points = [p for ticks in self._ticks if (p := ticks.next_after(now)) is not None]
                if staying and points:  # if there are none, they stay for ever
                    self._put((min(points), False), staying)
                rows = rows - staying
            yield rows
            self._rows.pop(times[0], None)
            heappop(times)

    def staying(self, batch: list[tuple[Tuple, int]], now: float) -> list[tuple[Tuple, int]]:
        """Those of some tuples, with weights, that a window may show now or later. O(1) each"""
        rows = [t for t, _ in batch]
        shown: list[bool] = []
        for until, leave in zip(self._until, self._leave, strict=True):
            point = now if until.ticks is None else until.ticks.last_at(now)
            found: list[Any] = []
            try:
                leave(rows, found)
            except Exception:
                return batch
            here: list[bool] = []
            for same, _, _, time, late in found:
                here += [point is None or not (time, late) < (point, True)] * len(same)
            shown = list(map(or_, shown, here)) if shown else here
        return [entry for entry, stays in zip(batch, shown, strict=True) if stays]
