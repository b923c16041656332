"""How does the engine compare with a hand-written loop on all-pairs cheapest cost?

`minCost` of the paper's Query 2 without the path column, on the networks of `reach.py` with the latencies as costs: all
links in one transaction, then a fifth of them deleted, one transaction each. The loop: `cost_loop.py`.

Bar: within 5x of the loop, load and mean deletion, at both sizes.
"""

from __future__ import annotations

import random
import statistics
from typing import Any

import topologies
from bench.cost_loop import CostLink, CostLoop
from bench.harness import Bar, Result, finish, progress, typical
from bench.programs import MIN_COST, delete, engine, insert_all, time_engine, time_loop
from bench.reach import SEED, SIZES

REPETITIONS = {100: 9, 400: 3}
BAR = 5.0


def workload(nodes: int) -> tuple[list[CostLink], list[CostLink]]:
    """The links of a network and the fifth of them that will be deleted."""
    links = topologies.links(topologies.dense(nodes, links=SIZES[nodes], seed=SEED), cost="latency")
    return links, random.Random(SEED).sample(links, len(links) // 5)


def assert_equal_results(links: list[CostLink], victims: list[CostLink]) -> None:
    """Engine and loop side by side: same changes after every deletion, same view at the start, on the way and last."""
    loop, session = CostLoop(), engine(MIN_COST)
    with session:
        loop.load(links)
        insert_all(session, links)
        assert set(session["minCost"]) == loop.rows()
        for number, link in enumerate(victims, 1):
            gone, come = loop.delete(link)
            changes = delete(session, "minCost", link)
            assert list(changes.deleted) == sorted(gone)
            assert list(changes.inserted) == sorted(come)
            if number % 50 == 0 or number == len(victims):
                assert set(session["minCost"]) == loop.rows()


def run() -> Result:
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for nodes in SIZES:
        links, victims = workload(nodes)
        progress(f"{nodes} nodes, {len(links):,} links: asserting equal results")
        assert_equal_results(links, victims)
        runs: dict[str, list[tuple[float, list[float]]]] = {"engine": [], "loop": []}
        for repetition in range(REPETITIONS[nodes]):
            progress(f"{nodes} nodes: run {repetition + 1} of {REPETITIONS[nodes]}")
            runs["engine"].append(time_engine(MIN_COST, "minCost", links, victims))
            runs["loop"].append(time_loop(CostLoop(), links, victims))
        load = {who: statistics.median(run[0] for run in each) for who, each in runs.items()}
        deletion = {who: statistics.mean(typical([run[1] for run in each])) for who, each in runs.items()}
        bars.append(Bar(f"load, {nodes} nodes, engine / loop", load["engine"] / load["loop"], BAR))
        bars.append(Bar(f"mean deletion, {nodes} nodes, engine / loop", deletion["engine"] / deletion["loop"], BAR))
        rows += [
            {"nodes": nodes, "who": who, "load s": load[who], "deletion ms, mean": deletion[who] * 1e3} for who in runs
        ]
    return Result("min_cost", "How does the engine compare with a hand-written loop on cheapest cost?", bars, rows)


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
