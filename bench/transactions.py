"""What does a transaction of one row cost?

The least that a program pays for a fact: `with session.transaction() as tx: tx.insert(...)`, with rules that hardly do
anything. Rows are inserted and then deleted again, and somebody looks at the changes of the view.
"""

from __future__ import annotations

import datalog
import livelog
from bench.harness import Result, Stopwatch, finish, progress, settle, typical

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


def run(batches: int = 20, runs: int = 3) -> Result:
    rows = []
    for name, text in PROGRAMS.items():
        progress(name)
        laps = typical([timed(text, batches) for _ in range(runs)])
        rows.append({"program": name, "µs per transaction": sum(laps) / len(laps) / BATCH * 1e6})
    return Result("transactions", "What does a transaction of one row cost?", (), rows)


def timed(text: str, batches: int) -> list[float]:
    """Laps of `BATCH` transactions each."""
    facts = {"r": [(i % 1000, i) for i in range(ROWS)], "s": [(i, i) for i in range(ROWS)]}
    watch = Stopwatch()
    with settle(), livelog.open(datalog.parse(BASE + text), facts=facts) as session:
        watched = session.views[0]
        follows = watched == "view"
        for _ in range(batches):
            with watch:
                for i in range(BATCH // 2):
                    with session.transaction() as tx:
                        tx.insert("r", (ROWS + i, i))
                    assert bool(tx.changes[watched]) == follows
                for i in range(BATCH // 2):
                    with session.transaction() as tx:
                        tx.delete("r", (ROWS + i, i))
                    assert bool(tx.changes[watched]) == follows
    return watch.laps


if __name__ == "__main__":
    raise SystemExit(finish(run))
