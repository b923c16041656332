"""How much faster than evaluating anew are ranks kept up to date while links come?

PageRank of `examples/11_pagerank.dl` (ten steps, damping 0.85) over an R-MAT graph of 5,000 pages and 50,000 links,
with the odds that MRQL was measured with; then increments of 100 new links each. Against it: opening a session over all
the links, without `.approx`, so with exact ranks. Both are measured in turns, each in a fresh process.

Bars: an increment takes at most a third of that, and no rank is off by more than 1e-6.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import datalog
import livelog
from bench.harness import Bar, Result, Stopwatch, apart, finish, progress, settle, typical
from topologies.rmat import rmat

Link = tuple[int, int]
Ranks = dict[int, float]

PAGES = 5_000
LINKS = 50_000
INCREMENT = 100
INCREMENTS = 5
SIZES = range(LINKS + INCREMENT, LINKS + INCREMENT * INCREMENTS + 1, INCREMENT)
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


def start(links: list[Link], threshold: float | None) -> livelog.Session:
    return livelog.open(program(threshold), facts={"link": links}, constants={"anywhere": ANYWHERE})


def increments(links: list[Link]) -> tuple[list[float], list[tuple[int, Ranks]]]:
    """Laps of the increments; after each, how many ranks it changed, and what they are."""
    watch = Stopwatch()
    found = []
    with settle(), start(links[:LINKS], THRESHOLD) as session:
        for upto in SIZES:
            with watch, session.transaction() as tx:
                for link in links[upto - INCREMENT : upto]:
                    tx.insert("link", link)
            found.append((len(tx.changes["rank"].inserted), dict(session["pagerank"])))
    return watch.laps, found


def evaluations(links: list[Link]) -> tuple[list[float], list[Ranks]]:
    """Laps of evaluating anew, after as many links, and the ranks."""
    watch = Stopwatch()
    found = []
    for upto in SIZES:
        with settle(), watch:
            session = start(links[:upto], None)
        with session:
            found.append(dict(session["pagerank"]))
    return watch.laps, found


def off(got: Ranks, right: Ranks) -> float:
    """The largest error of a rank."""
    assert got.keys() == right.keys()
    return max(abs(got[page] - right[page]) for page in right)


def run() -> Result:
    links = rmat(PAGES, LINKS + INCREMENT * INCREMENTS, seed=SEED)
    incremental, anew = [], []
    for k in range(RUNS):
        progress(f"run {k + 1} of {RUNS}: {LINKS:,} links, {INCREMENTS} times {INCREMENT} more")
        laps, ranks = apart(increments, links)
        others, right = apart(evaluations, links)
        incremental.append(laps)
        anew.append(others)
    ours, theirs = typical(incremental), typical(anew)
    rows = [
        {"links": upto, "ranks that changed": n, "largest error": off(got, exact), "increment s": one, "anew s": other}
        for upto, (n, got), exact, one, other in zip(SIZES, ranks, right, ours, theirs, strict=True)
    ]
    ratio = statistics.median(ours) / statistics.median(theirs)
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
