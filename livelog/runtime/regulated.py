"""Kept strata: relations of which the content follows from what was there once.

A `SyncRule` has its input as of the last point of a synchronisation stream, a `StampRule` has the tuples of its input
with the times at which they came. Neither can be evaluated again from the facts. So what they hold is a base table of
their worker, and goes with the facts through commits, rollbacks and checkpoints; here is how it follows the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Any

from livelog.runtime.forgetting import Forgetting
from operators.base import BaseTable
from operators.dated import time_of
from operators.delta import Delta, Loaded
from operators.schedule import Passing
from planner.plan import Plan, StampRule, Stratum, SyncRule

__all__ = ["Dated", "Kept", "Regulated", "kept"]

Tuple = tuple[Any, ...]
Weights = Iterable[tuple[Tuple, int]]
Send = Callable[[int, str, int, list[Any]], None]


class Kept:
    """One kept relation on one partition: its table, and what of its input is not in there yet.

    `_buffer` is how the input differs from the table, by tuple: what comes and goes again before it is released leaves
    nothing behind. A new stratum takes what is in the table from it, and then hears of the whole input: whatever
    differs has yet to be released. Where it is evaluated for the first time, those who read it hear of all that is in
    the table; later, of what is released.

    `passing` tells which tuples the worker forgets, if it does not forget them in the input as well: they count as ones
    that are not there.
    """

    def __init__(
        self, stratum: Stratum, plan: Plan, table: BaseTable, touched: set[str], passing: Forgetting | None = None
    ) -> None:  # fmt: skip
        self.stratum = stratum
        self.limit: int | None = None  # nothing is added here that was not counted below
        (self.name,) = stratum.relations
        (rule,) = stratum.rules
        assert isinstance(rule, (SyncRule, StampRule))
        source = plan.relations[rule.input.relation]
        self.source = source.name
        self._weighted = source.bag or source.weighted
        self._passing = self._apart(plan, passing)
        self.table = table
        self._touched = touched
        self.released = False
        self._now = 0.0
        self._releases = False
        self._fresh = True
        self._buffer: dict[Tuple, int] = {}

    # --- what inherits fills in ------------------------------------------------------------------------------

    def _content(self) -> Weights:
        """What is in the table, as the input has it."""
        return self.table.rows.items()

    def _is_due(self) -> bool:
        """Whether what is in the buffer is released now."""
        raise AssertionError("a relation has its rule")

    def _release(self) -> Delta:
        """Bring what is in the buffer into the table; returns what that changes in it."""
        raise AssertionError("a relation has its rule")

    def due(self, before: float) -> Any:
        """When what is in the buffer is released."""
        return inf

    # --- the clock -------------------------------------------------------------------------------------------

    def pass_to(self, now: float, releases: bool) -> bool:
        self._now = now
        self._releases = releases
        self.released = False
        return bool(self._buffer) and self._is_due()

    # --- a transaction ---------------------------------------------------------------------------------------

    def prepare(self, deltas: dict[str, Delta]) -> None:
        """Nothing has to be in place before `begin`."""

    def begin(self, deltas: dict[str, Delta]) -> None:
        """Take in the changes of the input. O(changes)"""
        self._touched.add(self.name)  # before anything is
        buffer = self._buffer
        if self._fresh:
            content = list(self._content())
            if self._passing is not None:
                content = self._passing.staying(content, self._now)
            buffer.update((t, -n) for t, n in content)
        delta = deltas.get(self.source)
        if not delta:
            return
        if self._passing is not None:
            items = self._passing.staying(delta.items(), self._now)
            self._passing.file(t for t, _ in items)
            _add(buffer, items)
        elif self._weighted or buffer:
            _add(buffer, delta.items())
        else:
            buffer.update(dict.fromkeys(delta.lost, -1))
            buffer.update(dict.fromkeys(delta.gained, 1))

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        raise AssertionError("what is kept here follows from what is here")

    def work(self) -> None:
        """There is nothing to do before everybody is quiescent."""

    def resume(self, level: int) -> bool:
        """Nothing waits for anything."""
        return False

    def finish(self) -> dict[str, Delta]:
        """Everybody is quiescent: release, if this is the time."""
        delta: Delta | None = None
        if self._releases and self._buffer and self._is_due():
            delta = self._release()
            self._buffer = {}
            self.released = True
        if self._fresh:
            self._fresh = False
            delta = Loaded(self.table.rows, self.table.bag)
        return {self.name: delta} if delta else {}

    # --- other readers -----------------------------------------------------------------------------------------

    def _apart(self, plan: Plan, passing: Forgetting | None) -> Forgetting | None:
        return passing if plan.relations[self.name].until != plan.relations[self.source].until else None

    @property
    def waiting(self) -> dict[Tuple, int]:
        """A copy of what waits."""
        return dict(self._buffer)

    def read_by_others(
        self, plan: Plan, passing: Forgetting | None, source: Mapping[Tuple, int], now: float
    ) -> None:  # fmt: skip
        """Others read the relation now than before, or its input. What those before had no use for, and the input still
        has, is released with what waits. O(input)"""
        self._passing = self._apart(plan, passing)
        items = list(source.items())
        if self._passing is not None:
            items = self._passing.staying(items, now)
            self._passing.file(t for t, _ in items)
            self._buffer = dict(self._passing.staying(list(self._buffer.items()), now))
        known = dict(self._content())
        for t, n in items:
            if missing := n - known.get(t, 0) - self._buffer.get(t, 0):
                self._buffer[t] = self._buffer.get(t, 0) + missing

    def go_back(self, plan: Plan, passing: Forgetting | None, waiting: dict[Tuple, int]) -> None:
        """It is read as before after all, and this is what waited then."""
        self._passing = self._apart(plan, passing)
        self._buffer = waiting

    def forget(self, rows: Iterable[Tuple]) -> None:
        """Nobody will ask for these tuples again."""
        for t in rows if self._buffer else ():
            self._buffer.pop(t, None)

    def clear(self) -> None:
        """Let go of all state; the table is the worker's."""
        self._buffer = {}

    # --- looking in ------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """How many tuples wait."""
        return {"tuples": len(self._buffer)}

    def state_bytes(self, size: Callable[[Any], int]) -> int:
        """Bytes of what waits; `size` measures a value."""
        return sum(size(entry) for entry in self._buffer.items())

    def check(self, source: Mapping[Tuple, int]) -> None:
        """Assert that the table and what waits are the input together."""
        if self._passing is not None:
            source = dict(self._passing.staying(list(source.items()), self._now))
            assert len(self._passing.staying(list(self._buffer.items()), self._now)) == len(self._buffer), "too late"
        known = dict(self._content())
        for t, w in self._buffer.items():
            known[t] = known.get(t, 0) + w
        assert {t: n for t, n in known.items() if n} == dict(source.items()), f"{self.name}: not what it is made of"


def _add(buffer: dict[Tuple, int], items: Iterable[tuple[Tuple, int]]) -> None:
    """Add changes of weights, of which each tuple has one, to others."""
    if not buffer:
        buffer.update(items)
        return
    take = buffer.pop
    for t, w in items:
        if left := take(t, 0) + w:
            buffer[t] = left


class Regulated(Kept):
    """The input as of the last point: what changes between two points waits for the second of them.

    A point is a time of a schedule, or a tuple of one of the `events`. Every partition has all events, as far as they
    are not over: `_points` counts by time in how many of them it is, `_coming` is a heap of these times.
    """

    def __init__(
        self, stratum: Stratum, plan: Plan, table: BaseTable, touched: set[str], passing: Forgetting | None,
        partition: int, partitions: int, send: Send,
    ) -> None:  # fmt: skip
        super().__init__(stratum, plan, table, touched, passing)
        (rule,) = stratum.rules
        assert isinstance(rule, SyncRule)
        self._ticks = Passing(rule.ticks)
        self._events = [event.relation for event in rule.events]
        self._points: dict[Any, int] = {}
        self._coming: list[Any] = []
        self._partition = partition
        self._partitions = partitions
        self._send = send

    def is_point(self, now: float) -> bool:
        """Whether a time is a point, as far as is known by now."""
        return self._ticks.holds(now) or now in self._points

    def _is_due(self) -> bool:
        return self.is_point(self._now)

    def pass_to(self, now: float, releases: bool) -> bool:
        coming, points = self._coming, self._points
        while coming and coming[0] < now:
            points.pop(heappop(coming), None)
        return super().pass_to(now, releases)

    def due(self, before: float) -> Any:
        """The next point that is known, if there is anything to release. Amortised O(log n)"""
        if not self._buffer:
            return inf
        event = self._next_event()
        point = self._ticks.next_after(self._now, min(event, before))
        return event if point is None else min(event, point)

    def _next_event(self) -> Any:
        """The first event that is known and lies behind the clock; infinite if there is none."""
        coming, points, now = self._coming, self._points, self._now
        here = now in points
        while coming and (coming[0] == now or coming[0] not in points):  # some are there twice, or are gone
            heappop(coming)
        first = coming[0] if coming else inf
        if here:
            heappush(coming, now)
        return first

    def begin(self, deltas: dict[str, Delta]) -> None:
        super().begin(deltas)
        for number, name in enumerate(self._events):
            if delta := deltas.get(name):
                rows = [(t, w) for t, w in delta.items() if t[0] >= self._now]
                if not rows:
                    continue
                for destination in range(self._partitions):
                    if destination != self._partition:
                        self._send(destination, "side", number, [[t, w] for t, w in rows])
                self.receive(self._partition, "side", number, rows)

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        """Take in events. O(log n) each"""
        points = self._points
        for (time,), w in rows:
            left = points.get(time, 0) + w
            if left:
                if time not in points and time != inf:
                    heappush(self._coming, time)
                points[time] = left
            else:
                del points[time]
        if len(self._coming) > 4 * len(points) + 64:
            self._coming = sorted(points)

    def _release(self) -> Delta:
        weights = list(self._buffer.items())
        if self._weighted:
            delta = Delta.weighted(weights)
            came, went = delta.copies()
        else:
            delta = Delta([t for t, w in weights if w > 0], [t for t, w in weights if w < 0])
            came, went = delta.gained, delta.lost
        self.table.insert_all(came, self._now)
        self.table.delete_all(went)
        return delta

    def clear(self) -> None:
        super().clear()
        self._points, self._coming = {}, []

    def stats(self) -> dict[str, int]:
        return {"tuples": len(self._buffer) + len(self._points)}

    def state_bytes(self, size: Callable[[Any], int]) -> int:
        return super().state_bytes(size) + sum(size(entry) for entry in self._points.items())


class Dated(Kept):
    """The tuples of the input, each with the time of the step in which it came. They are the key of the table."""

    def _content(self) -> Weights:
        return [(t[:-1], n) for t, n in self.table.rows.items()]

    def _is_due(self) -> bool:
        return True

    def _release(self) -> Delta:
        table, time = self.table, (time_of(self._now),)
        lost = [dated for t, w in self._buffer.items() if w < 0 and (dated := table.like(t)) is not None]
        gained = [t + time for t, w in self._buffer.items() if w > 0]
        table.change([*((t, -1) for t in lost), *((t, 1) for t in gained)])
        return Delta(gained, lost)


def kept(
    stratum: Stratum, plan: Plan, table: BaseTable, touched: set[str], passing: Forgetting | None, partition: int,
    partitions: int, send: Send,
) -> Kept:  # fmt: skip
    """A kept stratum, by its rule. It enters its relation among those whose tables were `touched`."""
    if isinstance(stratum.rules[0], StampRule):
        return Dated(stratum, plan, table, touched)
    return Regulated(stratum, plan, table, touched, passing, partition, partitions, send)
