"""How much faster than evaluating anew are ranks kept up to date while links come?

PageRank of `examples/11_pagerank.dl` (ten steps, damping 0.85) over an R-MAT graph of 5,000 pages and 50,000 links,
with the odds that MRQL was measured with; then increments of 100 new links each. Against it: opening a session over all
the links, without `.approx`, so with exact ranks.

Bars: an increment takes at most a third of that, and no rank is off by more than 1e-6.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import datalog
import livelog
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle, typical
from topologies.rmat import rmat

PAGES = 5_000
LINKS = 50_000
INCREMENT = 100
INCREMENTS = 5
RUNS = 5
SEED = 1
THRESHOLD = 1.7e-3
"""Of ranks that are 1 on average: 3.4e-7 of the ranks in the end, which add up to 1."""
ANYWHERE = -1
"""The page that leads to all others; the others are numbered from 0."""

PROGRAM = Path(__file__).parents[1] / "examples" / "11_pagerank.dl"


def program(threshold: float | None) -> datalog.Program:
    """The program of the example over numbered pages, with another threshold or with none."""
    text = PROGRAM.read_text(encoding="utf-8")
    text = text.replace("from: symbol, to: symbol", "from: number, to: number").replace(".input link", "")
    directive = "" if threshold is None else f".approx rank {threshold}"
    return datalog.parse(text.replace(".approx rank 1e-9", directive))


def start(links: list[tuple[int, int]], threshold: float | None) -> livelog.Session:
    return livelog.open(program(threshold), facts={"link": links}, constants={"anywhere": ANYWHERE})


def measure(links: list[tuple[int, int]]) -> tuple[list[float], list[float], list[dict[str, Any]]]:
    """Laps of the increments and of the evaluations anew, in turns; how much changed, and how far off it is."""
    watch, anew = Stopwatch(), Stopwatch()
    rows: list[dict[str, Any]] = []
    with settle(), start(links[:LINKS], THRESHOLD) as session:
        for k in range(INCREMENTS):
            upto = LINKS + INCREMENT * (k + 1)
            with watch, session.transaction() as tx:
                for link in links[upto - INCREMENT : upto]:
                    tx.insert("link", link)
            with anew:
                exact = start(links[:upto], None)
            with exact:
                right = dict(exact["pagerank"])
            got = dict(session["pagerank"])
            assert got.keys() == right.keys()
            changed, error = len(tx.changes["rank"].inserted), max(abs(got[page] - right[page]) for page in right)
            rows.append({"links": upto, "ranks that changed": changed, "largest error": error})
    return watch.laps, anew.laps, rows


def run() -> Result:
    links = rmat(PAGES, LINKS + INCREMENT * INCREMENTS, seed=SEED)
    increments, evaluations = [], []
    for k in range(RUNS):
        progress(f"run {k + 1} of {RUNS}: {LINKS:,} links, {INCREMENTS} times {INCREMENT} more")
        some, others, rows = measure(links)
        increments.append(some)
        evaluations.append(others)
    ours, anew = typical(increments), typical(evaluations)
    for row, increment, evaluation in zip(rows, ours, anew, strict=True):
        row |= {"increment s": increment, "anew s": evaluation}
    ratio = statistics.median(ours) / statistics.median(anew)
    error = max(row["largest error"] for row in rows)
    bars = [
        Bar(f"an increment of {INCREMENT} links / evaluating anew", ratio, 1 / 3),
        Bar("largest error of a rank, in millionths", error * 1e6, 1.0, ""),
    ]
    notes = {"pages": PAGES, "threshold": THRESHOLD, "steps": 10}
    return Result("pagerank", "How much faster than evaluating anew are ranks kept up to date?", bars, rows, notes)


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
