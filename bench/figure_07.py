"""What does provenance cost while links are inserted, and what does it save when they are deleted? (Figures 7 and 8)

`reachable` over a dense transit-stub network of 100 nodes with 400 `link` tuples, 12 partitions.

- insert: the links in random order, up to half of them in one transaction, up to three quarters in the next, then all;
- load: all of them in one transaction, several times over, the strategies of the bar in turns; the median time;
- delete: `link` tuples deleted one at a time, from the whole network; each in a transaction of its own.

The limit is 30 s for each. A strategy that passes it while links are inserted has nothing to delete from.

Bars: deletions: demand ships at most a tenth of the bytes of DRed, in at most a tenth of the time. Load in one
transaction: demand takes at most twice the time of DRed, and ships at most three times the bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import topologies
from bench.figures import LIMIT, PARTITIONS, SEED, SHORT, STRATEGIES, Entry, Prefix, prefixes, race, ratio, row
from bench.harness import Bar, Result, progress
from bench.programs import REACHABLE
from livelog.simulation import Run

NAME = "figure_07"
DEMAND, DRED = "absorption/demand", "dred"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: nodes, ratios and deletions at which to measure, loads of the two strategies that have a bar."""

    strategies: tuple[str, ...]
    nodes: int
    ratios: tuple[float, ...]
    deletions: tuple[int, ...]
    loads: int
    limit: float
    repeat: int


FULL = Size(STRATEGIES, 100, (0.5, 0.75, 1.0), (20, 40, 80), 9, LIMIT, 3)
QUICK = Size((DEMAND, DRED), 20, (1.0,), (2,), 0, 5.0, 1)


def deletions(rows: Iterable[Entry]) -> list[int]:
    """The numbers of deletions that were measured."""
    return sorted({entry["x"] for entry in rows if entry["phase"] == "delete"})


def load_rows(loads: Iterable[Run]) -> list[Entry]:
    """One row for each strategy: the median time of its loads. All else is the same each time."""
    by: dict[str, list[Run]] = {}
    for load in loads:
        by.setdefault(load.strategy, []).append(load)
    return [
        row(runs[0], PARTITIONS, phase="load", x=1.0) | {"seconds": statistics.median(run.seconds for run in runs)}
        for runs in by.values()
    ]


def bars(rows: list[Entry]) -> list[Bar]:
    """Demand against DRed: after the most deletions, and for the load in one transaction."""
    last = {"phase": "delete", "x": deletions(rows)[-1]}
    return [
        Bar(f"{what} of {last['x']} deletions, demand / DRed", ratio(rows, column, DEMAND, DRED, **last), 0.1)
        for what, column in (("bytes shipped", "shipped MB"), ("time", "seconds"))
    ] + [
        Bar(f"{what} of the load, demand / DRed", ratio(rows, column, DEMAND, DRED, phase="load"), limit)
        for what, column, limit in (("bytes shipped", "shipped MB", 3.0), ("time", "seconds", 2.0))
    ]


def run(quick: bool = False) -> Result:
    size = QUICK if quick else FULL
    graph = topologies.dense(size.nodes, seed=SEED)
    limits = dict.fromkeys(size.strategies, size.limit)

    insertion = topologies.workload("insert", graph, {"link": 2}, seed=SEED, fractions=size.ratios)
    wanted = [Prefix(number, {"phase": "insert", "x": share}) for number, share in enumerate(size.ratios, 1)]
    inserted, _, left = prefixes(REACHABLE, insertion.facts, list(insertion.steps), wanted, limits, repeat=size.repeat)

    failures = topologies.workload("failures", graph, {"link": 2}, seed=SEED, directed=True)
    wanted = [Prefix(count, {"phase": "delete", "x": count}) for count in size.deletions]
    limits = dict.fromkeys(left, size.limit)
    steps = list(failures.steps)
    deleted, loads, _ = prefixes(REACHABLE, failures.facts, steps, wanted, limits, repeat=size.repeat)

    alone = topologies.Workload(failures.facts, [])
    for repetition in range(size.loads):
        progress(f"load {repetition + 1} of {size.loads}")
        for load, _ in race(REACHABLE, alone, dict.fromkeys((DEMAND, DRED), size.limit), about="load").values():
            loads.append(load)
    rows = inserted + load_rows(loads) + deleted
    return Result(
        NAME,
        "What does provenance cost while links are inserted, and what does it save when they are deleted?",
        bars(rows),
        rows,
        {
            "setting": f"{size.nodes} nodes, {len(failures.facts['link'])} link tuples, {PARTITIONS} partitions",
            "limit": f"{size.limit:g} s for each phase",
            "runs": f"the median of {size.repeat} where a run takes less than {SHORT:g} s; of the load in one "
            f"transaction, of at least {size.loads + len(size.deletions)} for demand and DRed",
        },
    )


if __name__ == "__main__":
    from bench.__main__ import main

    raise SystemExit(main([NAME]))
