"""What does a transaction of one row cost?

The least that a program pays for a fact: `with session.transaction() as tx: tx.insert(...)`, with rules that hardly do
anything. Rows are inserted and then deleted again, and somebody looks at the changes of the view.

    python -m bench.transactions --against ../before

measures another checkout beside this one, and says what the difference is. One process for each takes turns with the
other, lap by lap, so that what slows the machine down slows both; and there are several such pairs, because no two
processes have the same memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import datalog
import livelog
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle, typical

BASE = ".decl r(a: number, b: number)\n.decl s(b: number, c: number)\n"
PROGRAMS = {
    "no view": "other(x) :- s(x, _).",
    "a copy": "view(a, b) :- r(a, b).",
    "a total per group": "view(a, sum<b>) :- r(a, b).",
    "a join of two": "view(a, c) :- r(a, b), s(b, c).",
    "a total over a join": "view(a, sum<c>) :- r(a, b), s(b, c).",
}
ROWS = 10_000  # that are there already
BATCH = 500
HERE = Path(__file__).parents[1]
MORE = 1.05
"""What a transaction may cost in this checkout, where it costs 1 in the one that it is measured against."""


def run(batches: int = 20, runs: int = 3) -> Result:
    rows = []
    for name, text in PROGRAMS.items():
        progress(name)
        laps = typical([timed(text, batches) for _ in range(runs)])
        rows.append({"program": name, "µs per transaction": sum(laps) / len(laps) / BATCH * 1e6})
    return Result("transactions", "What does a transaction of one row cost?", (), rows)


def timed(text: str, batches: int) -> list[float]:
    """Laps of `BATCH` transactions each."""
    return list(islice(laps(text, BATCH), batches))


def laps(text: str, batch: int) -> Iterator[float]:
    """Seconds for so many transactions, again and again."""
    facts = {"r": [(i % 1000, i) for i in range(ROWS)], "s": [(i, i) for i in range(ROWS)]}
    watch = Stopwatch()
    with settle(), livelog.open(datalog.parse(BASE + text), facts=facts) as session:
        watched = session.views[0]
        follows = watched == "view"
        while True:
            with watch:
                for i in range(batch // 2):
                    with session.transaction() as tx:
                        tx.insert("r", (ROWS + i, i))
                    assert bool(tx.changes[watched]) == follows
                for i in range(batch // 2):
                    with session.transaction() as tx:
                        tx.delete("r", (ROWS + i, i))
                    assert bool(tx.changes[watched]) == follows
            yield watch.laps[-1]


# --- before and after ----------------------------------------------------------------------------------------

SHORT = 40  # transactions of a turn: of many short ones, some are not disturbed

# The engine comes from the checkout that is measured, and this file from here, whatever the other one has in its place.
SERVE = """\
import sys
sys.path.insert(0, sys.argv[1])
import livelog
sys.path[0] = sys.argv[2]
from bench.transactions import serve
serve()
"""


def serve() -> None:
    """The process of one checkout: it takes its turn whenever it reads a line, which names the program."""
    clocks: dict[str, Iterator[float]] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in clocks:
            for clock in clocks.values():
                clock.close()  # type: ignore[attr-defined]
            clocks = {name: laps(PROGRAMS[name], SHORT)}
        print(next(clocks[name]), flush=True)


class Checkout:
    """A checkout under measurement, in a process of its own."""

    def __init__(self, path: Path, seed: int) -> None:
        command = [sys.executable, "-c", SERVE, str(path), str(HERE)]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            command, cwd=path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def turn(self, program: str) -> float:
        """Microseconds of a transaction in one turn."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None and told is not None
        asked.write(program + "\n")
        asked.flush()
        return float(told.readline()) / SHORT * 1e6

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(before: Path, pairs: int = 6, turns: int = 300) -> Result:
    """This checkout and another one, in so many pairs of processes that take so many turns with each program.

    Of a process the best turn counts, and of the pairs' ratios the median.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    for seed in range(pairs):
        progress(f"pair {seed + 1} of {pairs}")
        checkouts = [Checkout(before, seed), Checkout(HERE, seed)]
        try:
            for name, best in found.items():
                times = [[c.turn(name) for c in checkouts] for _ in range(turns)]
                best.append((min(old for old, _ in times), min(new for _, new in times)))
        finally:
            for checkout in checkouts:
                checkout.close()
    rows = []
    for name, best in found.items():
        rows.append({
            "program": name,
            "µs before": statistics.median(old for old, _ in best),
            "µs after": statistics.median(new for _, new in best),
            "ratio": statistics.median(new / old for old, new in best),
            "lowest": min(new / old for old, new in best),
            "highest": max(new / old for old, new in best),
        })  # fmt: skip
    ratio = statistics.geometric_mean(float(row["ratio"]) for row in rows)
    bars = [Bar("a transaction of one row, after and before", ratio, MORE)]
    return Result("transactions-against", "What does a transaction of one row cost more than before?", bars, rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.transactions", description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="CHECKOUT", type=Path, help="measure this checkout beside another one")
    parser.add_argument("--pairs", metavar="N", type=int, default=6, help="of processes, with --against")
    args = parser.parse_args()
    if args.against is None:
        return finish(run)
    if not (args.against / "livelog").is_dir():
        parser.error(f"{args.against} is no checkout of Livelog")
    return finish(lambda: compare(args.against.resolve(), args.pairs), None)


if __name__ == "__main__":
    raise SystemExit(main())
