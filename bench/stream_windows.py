"""What a tick costs: with a large and a small window, and where nothing is due.

A window over a stream in which 100 tuples arrive at every tick, as a view of its tuples and as counts of them per
group. It is filled until as many leave as arrive; then a tick is one transaction that brings arrivals, until its sorted
changes can be read. The large and the small window have processes of their own and take turns.

A tick at which nothing is due moves the clock of a program with a window, a synchronised read and facts that expire,
all of them with tuples that have long to stay; and so does a jump of a billion ticks.
"""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

import datalog
import livelog
from bench.harness import Bar, Stopwatch, progress, settle
from bench.turns import Apart

__all__ = ["Sliding", "windows"]

ARRIVALS = 100
GROUPS = 100
SIZES = (10_000, 1_000_000)
MICRO = 1e6
TICK_BAR = 1.5
IDLE_BAR = 20.0
JUMP_BAR = 10.0
JUMP = 10**9
PAUSE = 10**15  # longer than all jumps together

WINDOW = ".decl arrival(id: number) stream\n"
VIEWS = {
    "the tuples": "view(x) :- arrival(x)@t, now(n), n - {ticks} < t.",
    "a count per group": f"view(x % {GROUPS}, count<*>) :- arrival(x)@t, now(n), n - {{ticks}} < t.",
}
IDLE = f"""
.decl arrival(id: number) stream
.decl lasting(id: number) ttl({PAUSE})
.decl state(id: number, value: number) key(id)
recent(x) :- arrival(x)@t, now(n), n - {PAUSE} < t.
released(x, v) :- state(x, v) at every(2), v >= 0.
known(x) :- lasting(x).
"""


class Sliding:
    """A window of so many tuples, full."""

    def __init__(self, view: str, size: int) -> None:
        self._ticks = size // ARRIVALS
        self._session = livelog.open(datalog.parse(WINDOW + VIEWS[view].format(ticks=self._ticks)))
        self._counts = "count" in view
        self._now = 0
        for _ in range(self._ticks):
            self._tick(Stopwatch())

    def _tick(self, watch: Stopwatch) -> tuple[int, int]:
        """How many tuples of the view came and went."""
        self._now += 1
        rows = [(self._now * ARRIVALS + i,) for i in range(ARRIVALS)]
        with watch:
            with self._session.transaction() as tx:
                tx.insert_all("arrival", rows, at=self._now)
            changes = tx.changes["view"]
            sides = changes.inserted, changes.deleted
        return len(sides[0]), len(sides[1])

    def turn(self, ticks: int) -> list[float]:
        """Seconds of each of some ticks."""
        watch = Stopwatch()
        with settle():
            for _ in range(ticks):
                came, went = self._tick(watch)
                assert self._counts or came == went == ARRIVALS, "the window is not full"
        return watch.laps

    def size(self) -> int:
        """How many tuples are in the window, when it was seen that these are the right ones."""
        there = range((self._now - self._ticks + 1) * ARRIVALS, (self._now + 1) * ARRIVALS)
        rows = set(self._session["view"])
        if self._counts:
            assert rows == set(Counter(x % GROUPS for x in there).items())
        else:
            assert rows == {(x,) for x in there}
        return len(there)


def windows(sizes: tuple[int, int] = SIZES, ticks: int = 50, turns: int = 20) -> tuple[list[Bar], list[dict[str, Any]]]:
    """Ticks in windows of two sizes, and where nothing is due."""
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for view in VIEWS:
        progress(f"a window of {sizes[1]:,} and one of {sizes[0]:,}: {view}")
        small, large = Apart("bench.stream_windows:Sliding", view, sizes[0]), Apart(
            "bench.stream_windows:Sliding", view, sizes[1]
        )
        laps: list[list[float]] = [[], []]
        with small, large:
            for _ in range(turns):
                for window, known in zip((small, large), laps, strict=True):
                    known += window.ask("turn", ticks)
            rows += [
                {"part": "window", "what": view, "tuples": window.ask("size"), "µs": statistics.median(known) * MICRO}
                for window, known in zip((small, large), laps, strict=True)
            ]
        ratio = rows[-1]["µs"] / rows[-2]["µs"]
        bars.append(Bar(f"a tick with {ARRIVALS} arrivals, {view}, {sizes[1]:,} / {sizes[0]:,}", ratio, TICK_BAR))
    progress("ticks at which nothing is due")
    idle, jump = nothing_due(sizes[0], 20 * ticks)
    rows += [
        {"part": "window", "what": "a tick at which nothing is due", "tuples": 3 * sizes[0], "µs": idle},
        {"part": "window", "what": f"a jump of {JUMP:,} such ticks", "tuples": 3 * sizes[0], "µs": jump},
    ]
    bars.append(Bar("a tick at which nothing is due", idle, IDLE_BAR, " µs"))
    bars.append(Bar(f"a jump of {JUMP:,} ticks in which nothing is due", jump / idle, JUMP_BAR, " such ticks"))
    return bars, rows


def nothing_due(size: int, ticks: int) -> tuple[float, float]:
    """Microseconds of a tick, and of a jump, in turns."""
    facts = [(i,) for i in range(size)]
    step, leap = Stopwatch(), Stopwatch()
    with settle(), livelog.open(datalog.parse(IDLE)) as session:
        with session.transaction() as tx:
            tx.insert_all("arrival", facts)
            tx.insert_all("lasting", facts)
            tx.insert_all("state", [(i, i) for (i,) in facts])
            tx.advance_to(2)
        now = 2
        for _ in range(ticks):
            for watch, by in ((step, 1), (leap, JUMP)):
                now += by
                with watch, session.transaction() as tx:
                    tx.advance_to(now)
                assert not tx.changes and session.clock == now
        assert [len(session[view]) for view in ("recent", "released", "known")] == [size] * 3
    return statistics.median(step.laps) * MICRO, statistics.median(leap.laps) * MICRO
