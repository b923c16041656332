"""What does aggregate selection save on shortest paths? (Figure 14)

Cheapest cost, fewest hops, and every path that has one of them (`examples/04_shortest_paths.dl` without its last rule),
over 100 nodes, dense and sparse, 12 partitions, absorption/demand: a load in one transaction, then links deleted one at
a time. Four ways to ask for the same, and one that asks for less:

- multi: one recursion, of which only tuples go on that are best by cost or best by hops;
- single: two recursions, one pruned by cost, one by hops: pruned by one, a recursion cannot answer for the other;
- single, cost only: the first of the two, which answers half of the question;
- none: `path` itself is asked for as well, so nothing may be dropped. The rules do not forbid to walk in circles: on a
  network with a cycle this never ends, and how far it comes before its limit is all that can be said.

Answers of multi and single are asserted equal after every transaction. The paper keeps one winner of each group; ours
keeps ties, as the rules say. So that ties are rare, latencies are counted in microseconds and each is moved by less
than 1%. Hops tie all the same: there, all paths with the fewest hops are kept. The limit is 30 s, or 4 GB.

Bars: multi ships at most what single does, dense and sparse; none does not finish on the dense network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx

import topologies
from bench.figure_11 import NETWORKS
from bench.figures import LIMIT, PARTITIONS, SEED, Entry, assert_equal, find, race, row
from bench.harness import Bar, Result
from livelog.simulation import Run

NAME = "figure_14"
STRATEGY = "absorption/demand"
MEMORY = 4 * 10**9
JITTER = 0.01

PATH = """
    {path}(x, y, p, c, l) :- link(x, y, c), p = concat([x, y], nil), l = 1.
    {path}(x, y, p, c, l) :- link(x, z, c0), {path}(z, y, p1, c1, l1), c = c0 + c1, p = concat([x], p1), l = 1 + l1.
"""
BY_COST = """
    minCost(x, y, min<c>)    :- {path}(x, y, p, c, l).
    cheapestPath(x, y, p, c) :- {path}(x, y, p, c, l), minCost(x, y, c).
    .output minCost, cheapestPath
"""
BY_HOPS = """
    minHops(x, y, min<l>)  :- {path}(x, y, p, c, l).
    fewestHops(x, y, p, l) :- {path}(x, y, p, c, l), minHops(x, y, l).
    .output minHops, fewestHops
"""
MULTI, SINGLE, COST_ONLY, NONE = "multi", "single", "single, cost only", "none"
PROGRAMS = {
    MULTI: (PATH + BY_COST + BY_HOPS).format(path="path"),
    SINGLE: (PATH + BY_COST).format(path="pathC") + (PATH + BY_HOPS).format(path="pathH"),
    COST_ONLY: (PATH + BY_COST).format(path="pathC"),
    NONE: (PATH + BY_COST + BY_HOPS).format(path="path") + "    .output path\n",
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    densities: tuple[str, ...]
    nodes: int
    deletions: int
    limit: float
    memory: int


FULL = Size(("dense", "sparse"), 100, 20, LIMIT, MEMORY)
QUICK = Size(("dense",), 12, 2, 0.4, MEMORY)


def walks(graph: nx.Graph, most: int) -> int:
    """How many walks of at most so many links a network has: what none would find if it stopped there.

    >>> walks(nx.path_graph(3), 2)
    10
    """
    ending = dict.fromkeys(graph, 1)
    total = 0
    for _ in range(most):
        ending = {node: sum(ending[other] for other in graph[node]) for node in graph}
        total += sum(ending.values())
    return total


def longest(graph: nx.Graph) -> int:
    """The most links that a cheapest path between two different nodes has.

    >>> longest(nx.path_graph(4))
    3
    """
    every = nx.all_pairs_dijkstra_path(graph, weight="latency")
    return max(len(path) - 1 for _, paths in every for path in paths.values())


def measure(size: Size, density: str, graph: nx.Graph) -> Iterator[Entry]:
    """The rows of one network."""
    options: dict[str, Any] = {"steps": size.deletions, "seed": SEED, "directed": True}
    workload = topologies.workload("failures", graph, {"link": 3}, **options)
    runs: dict[str, tuple[Run, Run]] = {}
    for name, program in PROGRAMS.items():
        about = f"{density}, {name}"
        runs |= {name: race(program, workload, {STRATEGY: size.limit}, memory_limit=size.memory, about=about)[STRATEGY]}
    assert_equal({name: runs[name] for name in (MULTI, SINGLE)})
    assert_equal({name: runs[name] for name in (MULTI, COST_ONLY)}, ["minCost", "cheapestPath"])
    for name, pair in runs.items():
        for one, phase in zip(pair, ("load", "delete"), strict=True):
            if one.begun:
                yield row(one, PARTITIONS, phase=phase, density=density, selection=name)


def bars(rows: list[Entry]) -> list[Bar]:
    found = []
    for density in dict.fromkeys(entry["density"] for entry in rows):
        multi, single = (find(rows, phase="load", density=density, selection=name) for name in (MULTI, SINGLE))
        assert multi and single
        # of a single that was stopped, what it had reached: less than it would have shipped
        figure = multi["shipped MB"] / single["shipped MB"] if multi["finished"] and single["shipped MB"] else math.inf
        found.append(Bar(f"bytes shipped of the load, {density}, multi / single", figure, 1.0))
    none = find(rows, phase="load", density="dense", selection=NONE)
    assert none is not None
    return [*found, Bar("dense loads that finished without selection", float(none["finished"]), 0.0, "")]


def run(quick: bool = False) -> Result:
    size = QUICK if quick else FULL
    rows: list[Entry] = []
    notes: dict[str, Any] = {
        "setting": f"{size.nodes} nodes, {PARTITIONS} partitions, {STRATEGY}",
        "jitter": f"latencies in microseconds, each moved by less than {JITTER:.0%}",
        "limit": f"{size.limit:g} s for each phase, {size.memory / 1e9:g} GB",
        "deletions": size.deletions,
    }
    for density in size.densities:
        graph = topologies.jitter(NETWORKS[density](size.nodes, seed=SEED), JITTER, seed=SEED)
        most = longest(graph)
        notes[f"walks, {density}"] = (
            f"{walks(graph, most):.1e} of at most {most} links, as many as the longest of the cheapest paths has"
        )
        rows += measure(size, density, graph)
    return Result(NAME, "What does aggregate selection save on shortest paths?", bars(rows), rows, notes)


if __name__ == "__main__":
    from bench.__main__ import main

    raise SystemExit(main([NAME]))
