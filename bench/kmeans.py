"""How much faster than evaluating anew are clusters kept up to date while points come?

k-means of `examples/12_kmeans.dl` (ten steps) over 100,000 points in four squares, [2, 4] or [6, 8] in either
direction, around four centroids; then increments of 1,000 new points each. Against it: opening a session over all the
points, without `.approx`, so with exact centroids.

Bars: an increment takes at most a tenth of that, and no centroid is off by more than 1e-2.
"""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

import datalog
import livelog
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle

POINTS = 100_000
INCREMENT = 1_000
INCREMENTS = 5
SEED = 1
THRESHOLD = 2e-3
STARTS = [("sw", 2.5, 2.5), ("nw", 3.5, 7.5), ("se", 6.5, 3.5), ("ne", 7.5, 6.5)]

PROGRAM = Path(__file__).parents[1] / "examples" / "12_kmeans.dl"

Point = tuple[int, float, float]


def nearest(x: float, y: float, centroids: tuple[tuple[str, float, float], ...]) -> str:
    """The name of the nearest centroid."""
    least, found = float("inf"), ""
    for name, a, b in centroids:
        a -= x
        b -= y
        far = a * a + b * b
        if far < least:
            least, found = far, name
    return found


def points(count: int, seed: int) -> list[Point]:
    """Points in the four squares."""
    rng = random.Random(seed)
    return [(k, rng.choice((2, 6)) + 2 * rng.random(), rng.choice((2, 6)) + 2 * rng.random()) for k in range(count)]


def start(some: list[Point], threshold: float | None) -> livelog.Session:
    """The program of the example with another threshold or with none."""
    directive = "" if threshold is None else f".approx centroid {threshold}"
    text = PROGRAM.read_text(encoding="utf-8").replace(".approx centroid 1e-3", directive)
    text = text.replace(".input point", "").replace(".input start", "")
    return livelog.open(datalog.parse(text), facts={"point": some, "start": STARTS}, functions={"nearest": nearest})


def clusters(session: livelog.Session) -> dict[str, tuple[float, float]]:
    return {name: (x, y) for name, x, y in session["cluster"]}


def run() -> Result:
    all_points = points(POINTS + INCREMENT * INCREMENTS, SEED)
    watch, anew = Stopwatch(), Stopwatch()
    rows: list[dict[str, Any]] = []
    progress(f"loading {POINTS:,} points")
    with settle(), start(all_points[:POINTS], THRESHOLD) as session:
        for k in range(INCREMENTS):
            upto = POINTS + INCREMENT * (k + 1)
            with watch, session.transaction() as tx:
                for point in all_points[upto - INCREMENT : upto]:
                    tx.insert("point", point)
            progress(f"increment {k + 1} of {INCREMENTS}: {watch.laps[-1]:.2f} s")
            with anew:
                exact = start(all_points[:upto], None)
            with exact:
                right = clusters(exact)
            got = clusters(session)
            assert got.keys() == right.keys()
            rows.append(
                {
                    "points": upto,
                    "increment s": watch.laps[-1],
                    "anew s": anew.laps[-1],
                    "centroids that moved": len(tx.changes["centroid"].inserted),
                    "largest error": max(abs(a - b) for c in right for a, b in zip(got[c], right[c], strict=True)),
                }
            )
    ratio = statistics.median(watch.laps) / statistics.median(anew.laps)
    error = max(row["largest error"] for row in rows)
    bars = [
        Bar(f"an increment of {INCREMENT:,} points / evaluating anew", ratio, 1 / 10),
        Bar("largest error of a centroid, in hundredths", error * 1e2, 1.0, ""),
    ]
    notes = {"threshold": THRESHOLD, "steps": 10, "centroids": len(STARTS)}
    return Result("kmeans", "How much faster than evaluating anew are clusters kept up to date?", bars, rows, notes)


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
