"""What does it cost to bring a million facts in, and a view of a million tuples out, as columns?

Facts are two names and a number, and come as rows, as a table of Arrow and as frames of pandas and polars. A view of
them leaves as a table of Arrow and as a frame of pandas, in its order. One view is a copy of the facts, whose rows lie
in memory in the order in which they were drawn; another is derived by a join, and its rows come in the order of the
engine's own set; and a list of the facts is shuffled, so that every row is somewhere else in memory. Beside it stands
how long it takes to sort the rows one by one. What comes out is compared with what is expected before that is timed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow

import livelog
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle
from livelog.exchange import arrow_table, pandas_frame
from livelog.values import Coercer

ROWS = 1_000_000
OUT_BAR = 0.5  # seconds of processor time
PROGRAM = """
.decl e(a: symbol, b: symbol, c: number)
.decl view(a: symbol, b: symbol, c: number)
view(a, b, c) :- e(a, b, c).
.decl left(a: symbol, k: number)
.decl right(k: number, b: symbol, c: number)
.decl joined(a: symbol, b: symbol, c: number)
joined(a, b, c) :- left(a, k), right(k, b, c).
"""
SIDE = 10
SHAPES: dict[str, Callable[[random.Random], tuple[Any, ...]]] = {
    "few names": lambda rng: (f"n{rng.randrange(2000)}", f"n{rng.randrange(2000)}", rng.randrange(1000)),
    "many names": lambda rng: (f"n{rng.randrange(200_000)}", f"e{rng.randrange(10**6)}", rng.randrange(1000)),
}


def run(count: int = ROWS, runs: int = 3) -> Result:
    rows, bars = [], []
    for name, draw in SHAPES.items():
        progress(name)
        figures = measured(draw, count, runs)
        rows += [{"facts": name, **figure} for figure in figures]
        for figure in figures:
            if figure["what"].startswith("out: to_"):
                bars.append(Bar(f"{figure['what'][5:]}, {name}", figure["seconds"], OUT_BAR, " s"))
    return Result("exchange", "Facts and views as columns", bars, rows)


def measured(draw: Callable[[random.Random], tuple[Any, ...]], count: int, runs: int) -> list[dict[str, Any]]:
    rng = random.Random(1)
    facts = list(dict.fromkeys(draw(rng) for _ in range(count)))
    names = ("a", "b", "c")
    table = pyarrow.table(dict(zip(names, map(list, zip(*facts, strict=True)), strict=True)))
    given = {"rows": facts, "a table of Arrow": table, "a frame of pandas": table.to_pandas()}
    try:
        import polars

        given["a frame of polars"] = polars.DataFrame(table)
    except ImportError:
        pass
    coerce = Coercer("e", names, ("symbol", "symbol", "number"))
    found = []
    keys = range(len(facts) // SIDE**2)
    sides = {  # their join has as many rows as there are facts
        "left": [(f"{facts[k][0]}.{j}", k) for k in keys for j in range(SIDE)],
        "right": [(i % len(keys), b, c) for i, (_, b, c) in enumerate(facts[::SIDE])],
    }
    with settle(), livelog.open(PROGRAM, facts={"e": facts, **sides}) as session:
        for what, rows in given.items():
            assert coerce.all(rows) == facts
            found.append((f"in: {what}, as facts", len(facts), best(lambda rows=rows: coerce.all(rows), runs)))
        view, joined = session["view"], session["joined"]
        shuffled = random.Random(2).sample(facts, len(facts))
        shapes = {"as drawn": view._rows, "derived": joined._rows, "shuffled": lambda: shuffled}
        for shape, rows_of in shapes.items():
            expected = sorted(rows_of())
            assert len(expected) >= 0.9 * count
            for what, make in (("to_arrow", arrow_table), ("to_pandas", pandas_frame)):
                work = lambda make=make, rows_of=rows_of: make(rows_of(), names, view.types)  # noqa: E731
                out = work()
                columns = [out[name].tolist() if what == "to_pandas" else out[name].to_pylist() for name in names]
                assert list(zip(*columns, strict=True)) == expected
                found.append((f"out: {what}, {shape}", len(expected), best(work, runs)))
        found.append(("out: rows, sorted", len(facts), best(lambda: list(view), 1)))
    return [{"what": what, "rows": length, "seconds": seconds} for what, length, seconds in found]


def best(work: Callable[[], Any], runs: int) -> float:
    """Seconds of processor time that some work takes when the neighbours leave the caches alone."""
    watch = Stopwatch()
    for _ in range(runs):
        with watch:
            work()
    return min(watch.laps)


if __name__ == "__main__":
    raise SystemExit(finish(run))
