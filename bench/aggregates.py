"""What does a batch of new facts cost a view that summarises, against recomputing it, and what does the load cost?

The groupBy and the join-groupBy of the MRQL paper (section 13), over pairs of whole numbers from 0 to 9,999. Data are
bags, as in the paper; `set` rows in the table show what it takes to keep facts apart from their doubles.

- `groupBy`: the mean of y by x, over 1,000,000 rows. Increments are 10,000 new rows, nine of them one after the other;
  then the same rows leave again, batch by batch: the decrements. All of that three times over.
- `join`: the mean of d by a, over s1(a, b) and s2(b, d) of 100,000 rows each. A batch is 10,000 rows of `s1`, the side
  that has the groups; or of `s2`, each of which changes about ten groups; or half and half.
- recomputing is opening a session on files with all the rows, the new ones included: the fastest batch path there is.
  The load of `groupBy` adds columns up and leaves the rows uncounted; the first increment counts them (`first ms`).
  Growth is therefore held against the cheaper one of the first two increments.
- pandas reads the same file with `read_csv`, and groups it, in turns with our loads.

Every run is a fresh process, which does all of it small first, to have everything imported. Results are held against
a loop in plain Python, outside of what is timed. `--quick` runs it small.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import datalog
import livelog
from bench.harness import Bar, Result, Stopwatch, apart, finish, progress, settle, typical

SEED = 1
VALUES = 10_000
INCREMENTS = 9
ROUNDS = 3

FASTER = 0.1  # of the time of recomputing
GROWTH = 1.3
DECREMENT = 1.3
LOAD = 3.0

GROUP_BY = """.decl s(x: number, y: number){bag}
.input s
.output q
q(x, avg<y>) :- s(x, y).
"""
JOIN = """.decl s1(a: number, b: number){bag}
.decl s2(b: number, d: number){bag}
.input s1
.input s2
.output q
q(a, avg<d>) :- s1(a, b), s2(b, d).
"""

Row = tuple[int, int]
Rows = dict[str, list[Row]]


class Timed(NamedTuple):
    """Seconds: of a load, of the very first increment, of each increment and each decrement in every round, and of a
    load with one increment more."""

    load: float
    first: float
    increments: list[list[float]]
    decrements: list[list[float]]
    again: float


def draw(rng: random.Random, count: int) -> list[Row]:
    return [(rng.randrange(VALUES), rng.randrange(VALUES)) for _ in range(count)]


@contextmanager
def files(facts: Rows) -> Iterator[Path]:
    """A folder with a file for each relation."""
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in facts.items():
            text = "".join(f"{a},{b}\n" for a, b in rows)
            (Path(folder) / f"{name}.csv").write_text(text, encoding="utf-8")
        yield Path(folder)


def change(session: livelog.Session, rows: Rows, sign: str) -> None:
    with session.transaction() as transaction:
        for name, batch in rows.items():
            (transaction.insert_all if sign == "+" else transaction.delete_all)(name, batch)


def means(facts: Rows, bag: bool) -> dict[int, float]:
    """The answer, by a loop."""
    kept = {name: rows if bag else list(dict.fromkeys(rows)) for name, rows in facts.items()}
    pairs: Iterator[Row]
    if "s" in kept:
        pairs = iter(kept["s"])
    else:
        partners: dict[int, list[int]] = {}
        for b, d in kept["s2"]:
            partners.setdefault(b, []).append(d)
        pairs = ((a, d) for a, b in kept["s1"] for d in partners.get(b, ()))
    sums: dict[int, list[int]] = {}
    for group, value in pairs:
        entry = sums.setdefault(group, [0, 0])
        entry[0] += 1
        entry[1] += value
    return {group: total / count for group, (count, total) in sums.items()}


def measure(program: str, facts: Rows, batches: Sequence[Rows], bag: bool) -> Timed:
    """What it takes when it has been done once before."""
    few = {name: rows[:100] for name, rows in facts.items()}
    go_through(program, few, [{name: rows[:100] for name, rows in batches[0].items()}], bag)
    return go_through(program, facts, batches, bag)


def go_through(program: str, facts: Rows, batches: Sequence[Rows], bag: bool) -> Timed:
    """Load, let the batches in, take them out again, and load once more with the first of them in the files."""
    parsed = datalog.parse(program.format(bag=" bag" if bag else ""))
    load, changes, again = Stopwatch(), Stopwatch(), Stopwatch()
    more = {name: rows + batches[0].get(name, []) for name, rows in facts.items()}
    with settle(), files(facts) as folder:
        with load:
            session = livelog.open(parsed, facts=folder)
        with session:
            for k in range(ROUNDS):
                for batch in batches:
                    with changes:
                        change(session, batch, "+")
                if k == 0:  # held against the loop later: its garbage would lie where decrements allocate
                    full = dict(session["q"])
                for batch in reversed(batches):
                    with changes:
                        change(session, batch, "-")
            complete = {n: rows + [r for b in batches for r in b.get(n, [])] for n, rows in facts.items()}
            assert full == means(complete, bag)
            if bag:  # a set has lost the rows that it had before and that came again
                assert dict(session["q"]) == means(facts, bag)
    with settle(), files(more) as folder:
        with again:
            session = livelog.open(parsed, facts=folder)
        session.close()
    laps = [changes.laps[at : at + len(batches)] for at in range(0, len(changes.laps), len(batches))]
    return Timed(load.laps[0], laps[0][0], laps[::2], laps[1::2], again.laps[0])


class Typical(NamedTuple):
    """What they take when nothing disturbs them."""

    load: float
    first: float
    increments: list[float]
    decrements: list[float]
    again: float


def middle(runs: Sequence[Timed]) -> Typical:
    """The median of several runs, lap by lap, and of all their rounds."""
    return Typical(
        statistics.median(r.load for r in runs),
        statistics.median(r.first for r in runs),
        typical([laps for r in runs for laps in r.increments]),
        typical([laps for r in runs for laps in r.decrements]),
        statistics.median(r.again for r in runs),
    )


def pandas_seconds(rows: list[Row]) -> float:
    """The time of pandas for reading and grouping the same rows, when it has done so once before."""
    import pandas

    if len(rows) > 100:
        pandas_seconds(rows[:100])
    watch = Stopwatch()
    with settle(), files({"s": rows}) as folder, watch:
        frame = pandas.read_csv(folder / "s.csv", header=None, names=["x", "y"])
        answer = frame.groupby("x")["y"].mean()
    assert answer.to_dict() == means({"s": rows}, True)
    return watch.laps[0]


def row(name: str, timed: Typical) -> dict[str, Any]:
    increment = statistics.median(timed.increments)
    return {
        "query": name,
        "load s": timed.load,
        "first ms": timed.first * 1000,
        "increment ms": increment * 1000,
        "recompute / increment": timed.again / increment,
        "ninth / first": timed.increments[-1] / min(timed.increments[:2]),
        "decrement / increment": statistics.median(timed.decrements) / increment,
    }


def bars(name: str, timed: Typical) -> list[Bar]:
    increment = statistics.median(timed.increments)
    return [
        Bar(f"{name}: increment / recomputing", increment / timed.again, FASTER),
        Bar(f"{name}: ninth increment / first", timed.increments[-1] / min(timed.increments[:2]), GROWTH),
        Bar(f"{name}: decrement / increment", statistics.median(timed.decrements) / increment, DECREMENT),
    ]


def run(quick: bool = False) -> Result:
    scale, times = (100, 1) if quick else (1, 5)
    rng = random.Random(SEED)
    many, few, batch = 1_000_000 // scale, 100_000 // scale, 10_000 // scale
    facts: Rows = {"s": draw(rng, many)}
    joined: Rows = {name: draw(rng, few) for name in ("s1", "s2")}
    halves = (batch // 2, batch // 2)
    cases = {
        "groupBy": (GROUP_BY, facts, [{"s": draw(rng, batch)} for _ in range(INCREMENTS)], True),
        "groupBy, set": (GROUP_BY, facts, [{"s": draw(rng, batch)} for _ in range(INCREMENTS)], False),
        "join, s1": (JOIN, joined, [{"s1": draw(rng, batch)} for _ in range(INCREMENTS)], True),
        "join, s1, set": (JOIN, joined, [{"s1": draw(rng, batch)} for _ in range(INCREMENTS)], False),
        "join, s2": (JOIN, joined, [{"s2": draw(rng, batch)} for _ in range(INCREMENTS)], True),
        "join, both": (
            JOIN,
            joined,
            [{n: draw(rng, k) for n, k in zip(joined, halves, strict=True)} for _ in range(INCREMENTS)],
            True,
        ),
    }
    found: dict[str, Typical] = {}
    peers: list[float] = []
    for name, (program, rows, batches, bag) in cases.items():
        progress(f"{name}: {sum(map(len, rows.values())):,} rows, {len(batches)} batches of {batch:,}")
        runs = []
        for _ in range(times):
            runs.append(apart(measure, program, rows, batches, bag))
            if name == "groupBy":
                peers.append(apart(pandas_seconds, facts["s"]))
        found[name] = middle(runs)
    peer = statistics.median(peers)
    limits = [bar for name in ("groupBy", "join, s1", "join, s2", "join, both") for bar in bars(name, found[name])]
    limits.append(Bar("groupBy: load / pandas", found["groupBy"].load / peer, LOAD))
    return Result(
        "aggregates",
        "What does a batch of new facts cost a view that summarises, against recomputing it?",
        limits,
        [row(name, timed) for name, timed in found.items()],
        {"pandas s": peer},
    )


if __name__ == "__main__":
    raise SystemExit(finish(partial(run, quick="--quick" in sys.argv[1:])))
