"""A sliding count and a window join, by Livelog and by what people would use instead.

A stream of 1,000,000 arrivals, 1,000 at each point, and an answer that is to be right at every point
(`stream_tasks.py`). Everybody has a process of its own, and they take turns of some points each; what counts is the
median of the points at which the window is full, in processor time of all threads. The clock on the wall stands beside
it. Answers are compared with those of plain loops.

- livelog (`stream_ours.py`): a window condition over times of arrival, one transaction for each point, its sorted
  changes read; and the same through reads `at` the points;
- duckdb (`stream_duckdb.py`): the window evaluated again, into a table, from tables or from arrays;
- pathway (`stream_pathway.py`): kept up to date, by `forget`, or by the operators of `pw.temporal`. The latter keep an
  answer for every window that overlaps with the last one: they are measured for the smallest window alone, and not over
  the whole stream.

Re-evaluation costs what is in the window, and an update what enters and leaves it. So against DuckDB it depends on the
window who is faster. The bars are for the largest window, half of the stream; the others show from where on. For the
smallest one re-evaluation, column by column, takes less for 10,000 rows of a join than Python does to look at each of
1,000 that come and 1,000 that go.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.harness import Bar, progress
from bench.peer_kit import Lap, difference
from bench.stream_tasks import ARRIVALS, STREAMS, expected
from bench.turns import Apart

__all__ = ["OURS", "PEERS", "peers"]

OURS = "livelog"
PEERS = {
    OURS: "bench.stream_ours:Ours",
    "livelog, at points": "bench.stream_ours:OursAtPoints",
    "duckdb, tables": "bench.stream_duckdb:DuckDB",
    "duckdb, arrays": "bench.stream_duckdb:DuckDBArrays",
    "pathway, forget": "bench.stream_pathway:Pathway",
    "pathway, windows": "bench.stream_pathway:PathwayWindows",
}
WINDOWS = (10, 100, 500)  # points
POINTS = 1_000
SHORT = {"pathway, windows": 60}  # the points of who takes too long, and only the smallest window
LIMIT = 1 / 3
MICRO = 1e6


def peers(
    windows: Sequence[int] = WINDOWS, points: int = POINTS, turn: int = 20, who: Sequence[str] = tuple(PEERS)
) -> tuple[list[Bar], list[dict[str, Any]]]:
    """Both tasks, for windows of several sizes. The bars are for the last."""
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for task in STREAMS:
        for window in windows:
            taking = [name for name in who if window == windows[0] or name not in SHORT]
            progress(f"{task}, a window of {window * ARRIVALS:,}: {', '.join(taking)}")
            more = figures(task, window, raced(task, window, points, turn, taking))
            rows += more
            if window == windows[-1]:
                bars += limits(task, more)
    return bars, rows


def raced(task: str, window: int, points: int, turn: int, who: Sequence[str]) -> dict[str, list[Lap]]:
    """What each point took, with everybody in turns; answers are seen to be right."""
    laps: dict[str, list[Lap]] = {name: [] for name in who}
    drivers: dict[str, Apart] = {}
    try:
        for name in who:
            drivers[name] = Apart("bench.stream_tasks:Driven", PEERS[name], task, window)
        for now in range(turn, points + 1, turn):
            right = expected(task, window, now) if now % (10 * turn) == 0 or now + turn > points else None
            for name, driver in drivers.items():
                if now <= SHORT.get(name, points):
                    laps[name] += driver.ask("turn", turn)
                    if right is not None or now + turn > SHORT.get(name, points):
                        check(f"{task}, {name}, at {now}", driver.ask("answer"), right or expected(task, window, now))
    finally:
        for driver in drivers.values():
            driver.close()
    return laps


def check(where: str, found: bytes, right: bytes) -> None:
    """Compare packed answers."""
    if found != right:
        missing, wrong = difference(right, found, 2)
        raise AssertionError(f"{where}: {len(missing)} rows are missing, such as {missing[:3]}, and {len(wrong)} are "
                             f"wrong, such as {wrong[:3]}")


def figures(task: str, window: int, laps: Mapping[str, list[Lap]]) -> list[dict[str, Any]]:
    """One row of the table for everybody: the points at which the window is full, or the last half of them."""
    found = []
    for name, each in laps.items():
        full = each[min(window, len(each) // 2) :]
        found.append({
            "part": "peers",
            "what": task,
            "tuples": window * ARRIVALS,
            "who": name,
            "µs": statistics.median(lap.cpu for lap in full) * MICRO,
            "µs on the wall": statistics.median(lap.wall for lap in full) * MICRO,
            "times": len(full),
        })
    return found


def limits(task: str, rows: Sequence[dict[str, Any]]) -> list[Bar]:
    """Ours against the best of what each of the others can do.

    >>> rows = [{"who": name, "µs": 1.0, "tuples": 500} for name in PEERS]; rows[2]["µs"] = 4.0
    >>> print(*limits("count", rows), sep="\\n")
    MISSED count, a window of 500, livelog / duckdb, arrays: 1.00x (at most 0.333333x)
    MISSED count, a window of 500, livelog / pathway, forget: 1.00x (at most 0.333333x)
    """
    ours = next(row for row in rows if row["who"] == OURS)
    bars = []
    for package in dict.fromkeys(row["who"].split(",")[0] for row in rows):
        if package != OURS:
            best = min((row for row in rows if row["who"].startswith(package)), key=lambda row: row["µs"])
            name = f"{task}, a window of {ours['tuples']:,}, {OURS} / {best['who']}"
            bars.append(Bar(name, ours["µs"] / best["µs"], LIMIT))
    return bars
