"""How do the ship modes grow with the network? (Figures 11 and 12)

`reachable` over transit-stub networks, 12 partitions: `dense` with four links a node, `sparse` with two, for the same
numbers of nodes. All links are loaded in one transaction. Then a fifth of them is to be deleted, one at a time. At most
40 are, and what they cost is multiplied up to the fifth (`scaled` says by how much); that flatters whoever gets slower
from deletion to deletion.

A ship mode that passes its limit is not tried on larger networks. The limit is 30 s for `eager` and `lazy`, for the
load and again for the deletions, and 300 s for `demand`; on the dense network with 800 links, which is the paper's own
point, it is 300 s for all three.

Bars: at 800 links dense, demand loads in at most a tenth of the time of lazy, and eager does not finish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx

import topologies
from bench.figures import EAGER, LIMIT, PARTITIONS, SEED, Entry, find, race, ratio, row
from bench.harness import Bar, Result
from bench.programs import REACHABLE
from livelog.simulation import TIME_LIMIT

NAME = "figure_11"
DEMAND, LAZY = "absorption/demand", "absorption/lazy"
MODES = (DEMAND, LAZY, EAGER)
NETWORKS: dict[str, Callable[..., nx.Graph]] = {"dense": topologies.dense, "sparse": topologies.sparse}
SHARE = 0.2
MOST = 40
MEMORY = 12 * 10**9
"""Bytes: the largest view has millions of tuples."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: nodes, per density, and the limits; `barred` is the dense network where all have the long one."""

    nodes: dict[str, tuple[int, ...]]
    barred: int
    limit: float
    long: float


FULL = Size(
    {"dense": (25, 50, 100, 200, 400, 800, 1600), "sparse": (25, 50, 100, 200, 400, 800)}, 200, LIMIT, TIME_LIMIT
)
QUICK = Size({"dense": (12,), "sparse": (12,)}, 12, 0.4, 0.4)


def measure(size: Size, density: str, nodes: int, modes: list[str]) -> list[Entry]:
    """The rows of one network."""
    graph = NETWORKS[density](nodes, seed=SEED)
    links = 2 * graph.number_of_edges()
    fifth = round(SHARE * links)
    workload = topologies.workload("failures", graph, {"link": 2}, steps=min(fifth, MOST), seed=SEED, directed=True)
    all_long = density == "dense" and nodes == size.barred
    limits = {mode: size.long if all_long or mode == DEMAND else size.limit for mode in modes}
    runs = race(REACHABLE, workload, limits, memory_limit=MEMORY, about=f"{density}, {links:,} links")
    rows: list[Entry] = []
    for pair in runs.values():
        for one, phase in zip(pair, ("load", "delete"), strict=True):
            if one.begun:
                scale = fifth / one.planned if phase == "delete" else 1.0
                where = {"phase": phase, "density": density, "nodes": nodes, "x": links}
                # of a run that was stopped, only what it had reached can be told
                rows.append(row(one, PARTITIONS, scale=scale if one.finished else 1.0, **where) | {"scaled": scale})
    return rows


def bars(rows: list[Entry], nodes: int) -> list[Bar]:
    at = {"phase": "load", "density": "dense", "nodes": nodes}
    eager = find(rows, strategy=EAGER, **at)
    assert eager is not None
    return [
        Bar(f"load at {eager['x']} links dense, demand / lazy", ratio(rows, "seconds", DEMAND, LAZY, **at), 0.1),
        Bar(f"loads at {eager['x']} links dense that eager finished", float(eager["finished"]), 0.0, ""),
    ]


def run(quick: bool = False) -> Result:
    size = QUICK if quick else FULL
    rows: list[Entry] = []
    for density, sizes in size.nodes.items():
        left = list(MODES)
        for nodes in sizes:
            # everybody is there for the bar
            modes = list(MODES) if density == "dense" and nodes == size.barred else left
            more = measure(size, density, nodes, modes)
            rows += more
            left = [mode for mode in left if all(e["finished"] for e in more if e["strategy"] == mode)]
    return Result(
        NAME,
        "How do the ship modes grow with the network?",
        bars(rows, size.barred),
        rows,
        {
            "setting": f"four links a node (dense) or two (sparse), {PARTITIONS} partitions",
            "limit": f"{size.limit:g} s for each phase; {size.long:g} s for demand, and for all on the dense network "
            f"of {size.barred} nodes",
            "deletions": f"{SHARE:.0%} of the links; at most {MOST} were done, and their cost multiplied up to all, "
            "which flatters whoever gets slower from one to the next",
        },
    )


if __name__ == "__main__":
    from bench.__main__ import main

    raise SystemExit(main([NAME]))
