"""What updates between two points cost: those who read `at` the points, at the point, and everybody before it.

Rooms with their temperature, and three views behind one synchronised read: a filter, a join and totals per group. One
room is updated between two points, once or 1,000 times, in a transaction for each update or in one for all, and its
temperature ends up as another one. What is timed is the step at the point: the transaction that moves the clock there,
until the changes of all views can be read. All take turns in one session. Where a room is updated once, the other 999
updates are of facts that no view reads: otherwise the step would find more of what it needs in the caches than behind
1,000 updates, and be faster for that alone.

Beside it stands what an update costs until then, which is the transaction itself and the buffer, and what it costs
where the same views are not synchronised and follow every update.
"""

from __future__ import annotations

import statistics
from typing import Any

import datalog
import livelog
from bench.harness import Bar, Stopwatch, progress, settle

__all__ = ["updates"]

ROOMS = 10_000
FLOORS = 100
UPDATES = 1_000
PERIOD = 10
MICRO = 1e6
UPDATES_BAR = 1.2

PROGRAM = """
.decl temp(room: number, degrees: number) key(room)
.decl floor(room: number, level: number) key(room)
.decl unread(room: number, degrees: number) key(room)
hot(r, v)             :- temp(r, v){at}, v > 500.
place(r, l, v)        :- temp(r, v){at}, floor(r, l).
total(l, sum<v>)      :- temp(r, v){at}, floor(r, l).
"""
VIEWS = ("hot", "place", "total")


class Rooms:
    """A session with rooms, which get other temperatures; `synchronised`: the views follow only at points."""

    def __init__(self, rooms: int, synchronised: bool) -> None:
        at = f" at every({PERIOD})" if synchronised else ""
        self.temps = {room: room % 1000 for room in range(rooms)}
        facts = {"temp": list(self.temps.items()), "floor": [(room, room % FLOORS) for room in range(rooms)]}
        self.session = livelog.open(datalog.parse(PROGRAM.format(at=at)), facts=facts)
        self._now = 0
        self._synchronised = synchronised
        self._turn = 0

    def updated(self, times: int, others: int, before: Stopwatch, point: Stopwatch, together: bool = False) -> None:
        """Go on to the next point, after so many updates of another room, and of something that no view reads."""
        self._turn += 1
        room = self._turn * 37 % len(self.temps)
        last = (self.temps[room] + 501) % 1000
        rows = [("unread", (room, i)) for i in range(others)]
        rows += [("temp", (room, (last + i) % 1000)) for i in range(times - 1, -1, -1)]
        self._now += 1
        for batch in [rows] if together else [[row] for row in rows]:
            with before:
                with self.session.transaction() as tx:
                    for relation, row in batch:
                        tx.insert(relation, row, at=self._now)
                if not self._synchronised:
                    self._read(tx.changes, room)
        self._now += PERIOD - self._now % PERIOD
        with point:
            with self.session.transaction() as tx:
                tx.advance_to(self._now)
            if self._synchronised:
                told = self._read(tx.changes, room)
        if self._synchronised:
            assert told == (self.temps[room], last), "the last update is what counts"
        self.temps[room] = last

    @staticmethod
    def _read(changes: livelog.ChangeLog, room: int) -> tuple[int, int]:
        """The former and the new temperature of a room, and all other changes looked at as well."""
        for view in ("hot", "total"):
            _ = changes[view].deleted, changes[view].inserted
        ((_, _, old),), ((_, _, new),) = changes["place"].deleted, changes["place"].inserted
        return old, new

    def check(self) -> None:
        """The views are what the temperatures say."""
        totals: dict[int, int] = {}
        for room, v in self.temps.items():
            totals[room % FLOORS] = totals.get(room % FLOORS, 0) + v
        assert set(self.session["hot"]) == {(r, v) for r, v in self.temps.items() if v > 500}
        assert set(self.session["place"]) == {(r, r % FLOORS, v) for r, v in self.temps.items()}
        assert set(self.session["total"]) == set(totals.items())


def updates(rooms: int = ROOMS, count: int = UPDATES, turns: int = 100) -> tuple[list[Bar], list[dict[str, Any]]]:
    """One update between two points, and many, in turns."""
    progress(f"{count:,} updates of one key between two points")
    synchronised, following = Rooms(rooms, True), Rooms(rooms, False)
    ways = {
        "1 update, transactions of one row": (synchronised, 1, False),
        f"{count:,} updates, transactions of one row": (synchronised, count, False),
        "1 update, in one transaction": (synchronised, 1, True),
        f"{count:,} updates, in one transaction": (synchronised, count, True),
        f"{count:,} updates, views not synchronised": (following, count, False),
    }
    before, point = ({name: Stopwatch() for name in ways} for _ in range(2))
    with settle():
        for _ in range(turns):
            for name, (those, times, together) in ways.items():
                those.updated(times, count - times, before[name], point[name], together)
    for those in (synchronised, following):
        those.check()
        those.session.close()
    rows = [
        {
            "part": "updates",
            "what": name,
            "µs": statistics.median(point[name].laps) * MICRO if those is synchronised else None,
            "µs of an update before": sum(before[name].laps) / (count * turns) * MICRO if times == count else None,
        }
        for name, (those, times, _) in ways.items()
    ]
    bars = [
        Bar(f"a point behind {many['what']} / 1 update", many["µs"] / one["µs"], UPDATES_BAR)
        for one, many in (rows[0:2], rows[2:4])
    ]
    return bars, rows
