"""Windows and clocks: the nodes of WindowRules and ClockRules on one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor, inf
from typing import Any

from livelog.runtime.node import Links, Weights
from operators.dated import time_of
from operators.delta import Delta
from operators.partition import Router
from operators.schedule import Schedule
from operators.window import Window
from planner.plan import ClockRule, Plan, WindowRule

__all__ = ["Clocked", "Windowed"]

Tuple = tuple[Any, ...]


class Windowed:
    """A WindowRule: a `Window`, as of the clock or as of the last one of its ticks."""

    ports = 0

    def __init__(self, rule: WindowRule, plan: Plan, links: Links) -> None:
        self._input = rule.input.relation
        self._ticks = rule.ticks
        self._now = 0.0
        enters, leaves = ([(b.time, b.strict) for b in bounds] for bounds in (rule.enters, rule.leaves))
        self.heads = self.window = Window(rule.text, enters, leaves)

    # --- the clock -------------------------------------------------------------------------------------------

    def due(self, before: float) -> Any:
        if self._ticks is None:
            return self.window.due(self._now)
        at, behind = self.window.firsts()
        if not (at < before or behind < before):
            return inf
        now, ticks = self._now, self._ticks
        if now < at < before and ticks.holds(at):
            return min(at, _next(ticks, max(behind, now), before))
        return _next(ticks, max(min(at, behind), now), before)

    def pass_to(self, now: float, releases: bool) -> bool:
        self._now = now
        if not self.window.waits(now):
            return False
        return self._ticks is None or ((point := _last(self._ticks, now)) is not None and self.window.waits(point))

    # --- a transaction ---------------------------------------------------------------------------------------

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        window = self.window
        now = self._now if self._ticks is None else _last(self._ticks, self._now)
        if now is not None and now != window.now:
            window.move(now)
        delta = deltas.get(self._input)
        if delta:
            window.change(*delta.copies())

    def receive(self, port: int, rows: Weights) -> None:
        raise AssertionError("a window is where its input is")

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        came, went = self.window.told()
        return went, came

    def stats(self) -> dict[str, int]:
        return self.window.stats()

    def kept(self) -> Iterator[Any]:
        return self.window.kept()

    def check(self) -> None:
        self.window.check()


class Clocked:
    """A ClockRule: the time itself, as a relation of one row, or of all points that have passed.

    It is made anew from the clock alone. Each row is where it belongs: the node has those of its partition.
    """

    ports = 0

    def __init__(self, rule: ClockRule, plan: Plan, links: Links) -> None:
        self._what = rule.what
        self._ticks = rule.ticks
        self._now = 0.0
        self._upto: Any = None  # as of when the rows are
        self._rows: dict[Tuple, None] = {}
        self._owner = Router(plan.relations[rule.head].partition, links.partitions)
        self._partition = links.partition

    # --- the clock -------------------------------------------------------------------------------------------

    def due(self, before: float) -> Any:
        if self._upto is None:
            return self._now
        return floor(self._now) + 1 if self._what == "now" else _next(self._ticks, self._now, before)

    def pass_to(self, now: float, releases: bool) -> bool:
        self._now = now
        since = self._upto
        if since is None or since == now or self._what == "now":
            return bool(since != now)
        if _next(self._ticks, since, now) <= now:
            return True
        self._upto = now
        return False

    # --- a transaction ---------------------------------------------------------------------------------------

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        """The rows are known when they are asked for."""

    def receive(self, port: int, rows: Weights) -> None:
        raise AssertionError("everybody has a clock")

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        """The rows that the time takes away, and those that it brings. O(points that passed)"""
        now, since = self._now, self._upto
        self._upto = now
        if since == now:
            return [], []
        found = [row for time in self._times(since, now) if self._owner(row := (time_of(time),)) == self._partition]
        gone = [row for row in self._rows if row not in found] if self._what != "all" else []
        new = [row for row in found if row not in self._rows]
        for row in gone:
            del self._rows[row]
        self._rows.update(dict.fromkeys(new))
        return gone, new

    def _times(self, since: Any, now: float) -> list[Any]:
        if self._what == "now":
            return [now]
        if self._what == "last":
            point = _last(self._ticks, now)
            return [] if point is None else [point]
        found = [0] if since is None and self._ticks.holds(0) else []
        point = 0 if since is None else since
        while (point := _next(self._ticks, point, now)) <= now:
            found.append(point)
        return found

    def stats(self) -> dict[str, int]:
        return {"times": len(self._rows)}

    def kept(self) -> Iterator[Any]:
        return iter(self._rows)

    def check(self) -> None:
        assert self._upto == self._now, "the clock is elsewhere"
        assert self._what == "all" or len(self._rows) <= 1, "there are two times"


def _next(ticks: Schedule, after: Any, limit: Any) -> Any:
    """The first point behind a time; infinite if there is none up to the limit."""
    point = ticks.next_after(after, limit) if after < limit else None
    return inf if point is None else point


def _last(ticks: Schedule, now: Any) -> Any:
    """The last point that has passed: the clock begins at 0."""
    point = ticks.last_at(now)
    return None if point is None or point < 0 else point
