"""What does a session pay for being kept in a folder?

A transaction of one row, in the programs of `transactions.py`: of a session without a store, of one that is durable a
moment later (`sync="interval"`), and of one that is durable before it is told (`sync="always"`), beside one write of as
many bytes to the same disk, and one fsync. The first two are compared by processor time, the flusher's included; the
others wait for the disk, so it is the clock that counts. All take turns, some tens of transactions each.

And opening a session again with a view of a million tuples, beside loading the same facts from Parquet without a
store: copies of numbers and of names, and what is reachable in a network. Each opening has a process of its own.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import livelog
import topologies
from bench.harness import Bar, Result, Stopwatch, apart, finish, progress
from bench.transactions import BASE, PROGRAMS, ROWS

DURABLE_BAR = 1.3
INTERVAL_BAR = 1.5
OPEN_BAR = 1.2
TURN = 50  # transactions
SIZE = 1_000_000
HERE = Path(__file__).parent  # a folder for temporary files may be in memory, where an fsync costs nothing

NETWORK = """
.decl link(a: number, b: number)
.input link
.output reachable
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""
COPY = ".decl link(a: {0}, b: {0})\n.input link\n.output view\nview(a, b) :- link(a, b).\n"


def run(turns: int = 200, size: int = SIZE, runs: int = 5) -> Result:
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".store-") as folder:
        for name, text in PROGRAMS.items():
            progress(name)
            row = {"program": name, **transaction(BASE + text, Path(folder) / name, turns)}
            rows.append(row)
            bars.append(Bar(f"{name}, durable / a write and an fsync", row["durable µs"] / row["disk µs"], DURABLE_BAR))
            ratio = row["interval µs of cpu"] / row["no store µs of cpu"]
            bars.append(Bar(f"{name}, interval / no store", ratio, INTERVAL_BAR))
        for name in OPENINGS:
            progress(f"opening {name}")
            row = opening(name, Path(folder) / f"opening {name}", size, runs)
            rows.append(row)
            ratio = row["stored s"] / row["from Parquet s"]
            bars.append(Bar(f"opening {name}, stored / from Parquet", ratio, OPEN_BAR))
    keys = {key: None for row in rows for key in row}
    return Result(
        "store", "What does a session pay for being kept in a folder?", bars,
        [{**keys, **row} for row in rows],
    )  # fmt: skip


# --- transactions --------------------------------------------------------------------------------------------


def transaction(text: str, folder: Path, turns: int) -> dict[str, float]:
    """Microseconds of a transaction of one row, and of one write of what it logs, with an fsync."""
    facts = {"r": [(i % 1000, i) for i in range(ROWS)], "s": [(i, i) for i in range(ROWS)]}
    folder.mkdir()
    size = logged(text, facts, folder / "sample")
    none = livelog.open(text, facts=facts)
    interval = livelog.open(text, facts=facts, store=folder / "interval", sync="interval")
    always = livelog.open(text, facts=facts, store=folder / "always")
    cpu: dict[str, list[float]] = {"none": [], "interval": []}
    clock: dict[str, list[float]] = {"always": [], "disk": []}
    with none, interval, always, (folder / "disk").open("wb", buffering=0) as disk:
        for turn in range(turns):
            for name, session in (("none", none), ("interval", interval)):
                watch = Stopwatch()
                with watch:
                    insert_and_delete(session)
                cpu[name] += watch.laps
            if turn % 4 == 0:
                started = time.perf_counter()
                insert_and_delete(always)
                clock["always"].append(time.perf_counter() - started)
                started = time.perf_counter()
                for _ in range(TURN):
                    disk.write(b"x" * size)
                    os.fsync(disk.fileno())
                clock["disk"].append(time.perf_counter() - started)
        views = [sorted(s[s.views[0]]) for s in (none, interval, always)]
        assert views[0] == views[1] == views[2]
    return {
        "no store µs of cpu": statistics.mean(cpu["none"]) / TURN * 1e6,
        "interval µs of cpu": statistics.mean(cpu["interval"]) / TURN * 1e6,
        "disk µs": statistics.median(clock["disk"]) / TURN * 1e6,
        "durable µs": statistics.median(clock["always"]) / TURN * 1e6,
    }


def insert_and_delete(session: livelog.Session) -> None:
    """`TURN` transactions of one row, after which the facts are as before."""
    watched = session.views[0]
    for i in range(TURN // 2):
        with session.transaction() as tx:
            tx.insert("r", (ROWS + i, i))
        bool(tx.changes[watched])
    for i in range(TURN // 2):
        with session.transaction() as tx:
            tx.delete("r", (ROWS + i, i))
        bool(tx.changes[watched])


def logged(text: str, facts: dict[str, Any], folder: Path) -> int:
    """Bytes that a transaction takes in the log."""
    with livelog.open(text, facts=facts, store=folder) as session:
        insert_and_delete(session)
    (log,) = (folder / "log").iterdir()
    return round(log.stat().st_size / TURN)


# --- opening -------------------------------------------------------------------------------------------------


def numbers(size: int) -> Iterator[tuple[Any, Any]]:
    rng = random.Random(1)
    return ((rng.randrange(10**6), rng.randrange(10**6)) for _ in range(size))


def names(size: int) -> Iterator[tuple[Any, Any]]:
    rng = random.Random(1)
    return ((f"n{rng.randrange(20_000)}", f"m{rng.randrange(20_000)}") for _ in range(size))


def links(size: int) -> Iterator[tuple[Any, Any]]:
    return iter(topologies.pairs(topologies.dense(round(size**0.5), seed=1)))


OPENINGS = {
    "a copy of numbers": (COPY.format("number"), numbers),
    "a copy of names": (COPY.format("symbol"), names),
    "what is reachable": (NETWORK, links),
}


def opening(name: str, folder: Path, size: int, runs: int) -> dict[str, Any]:
    """Seconds to open a session that is kept, and to load the same facts from Parquet: the best of runs in turns."""
    import pyarrow
    import pyarrow.parquet

    text, draw = OPENINGS[name]
    (folder / "facts").mkdir(parents=True)
    drawn = list(dict.fromkeys(draw(size)))
    table = pyarrow.table({"a": [a for a, _ in drawn], "b": [b for _, b in drawn]})
    pyarrow.parquet.write_table(table, folder / "facts" / "link.parquet")
    (folder / "p.dl").write_text(text)
    founded, tuples = apart(opened, folder, True)
    loads, opens = [], []
    for _ in range(runs):
        loaded, kept = apart(opened, folder, False), apart(opened, folder, True)
        assert loaded[1] == kept[1] == tuples
        loads.append(loaded[0])
        opens.append(kept[0])
    seconds = {"from Parquet s": min(loads), "stored s": min(opens), "first opening s": founded}
    return {"program": name, "tuples": tuples, **seconds}


def opened(folder: Path, stored: bool) -> tuple[float, int]:
    """Seconds of processor time to open a session, and the size of its view."""
    options: dict[str, Any] = {"facts": folder / "facts"}
    if stored:
        options["store"] = folder / "store"
    watch = Stopwatch()
    with watch:
        session = livelog.open(folder / "p.dl", **options)
    with session:
        return watch.laps[0], len(session[session.plan.outputs[0]])


if __name__ == "__main__":
    raise SystemExit(finish(run))
