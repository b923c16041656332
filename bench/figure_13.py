"""What changes when the same network is spread over more partitions? (Figure 13)

`reachable` over the dense network of Figures 7 and 8, on 1 to 24 partitions: all links loaded in one transaction, then
`link` tuples deleted one at a time. Bytes shipped and state are per partition. The partitions live in one process, so
seconds are the work of all of them together: more partitions cannot make it less.
"""

from __future__ import annotations

from dataclasses import dataclass

import topologies
from bench.figures import LIMIT, SEED, Entry, race, row
from bench.harness import Result
from bench.programs import REACHABLE

NAME = "figure_13"
MODES = ("absorption/demand", "absorption/lazy", "dred")


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    strategies: tuple[str, ...]
    nodes: int
    deletions: int
    partitions: tuple[int, ...]
    limit: float


FULL = Size(MODES, 100, 40, (1, 4, 8, 12, 16, 24), LIMIT)
QUICK = Size(("absorption/demand", "dred"), 20, 2, (1, 3), 5.0)


def run(quick: bool = False) -> Result:
    size = QUICK if quick else FULL
    graph = topologies.dense(size.nodes, seed=SEED)
    workload = topologies.workload("failures", graph, {"link": 2}, steps=size.deletions, seed=SEED, directed=True)
    rows: list[Entry] = []
    limits = dict.fromkeys(size.strategies, size.limit)
    for partitions in size.partitions:
        runs = race(REACHABLE, workload, limits, partitions=partitions, about=f"{partitions} partitions")
        rows += [
            row(one, partitions, phase=phase, x=partitions)
            for pair in runs.values()
            for one, phase in zip(pair, ("load", "delete"), strict=True)
            if one.begun
        ]
    return Result(
        NAME,
        "What changes when the same network is spread over more partitions?",
        (),
        rows,
        {
            "setting": f"{size.nodes} nodes, {len(workload.facts['link'])} link tuples, {size.deletions} deleted",
            "limit": f"{size.limit:g} s for each phase",
        },
    )


if __name__ == "__main__":
    from bench.__main__ import main

    raise SystemExit(main([NAME]))
