"""How does the engine compare with a hand-written loop on reachability?

Transit-stub networks of 100 nodes / 394 links and 400 nodes / 1,578 links; all links in one transaction, then a fifth
of them deleted, one transaction each. Engine: absorption provenance, `demand`, one partition. Loop: `hand_loop.py`.

Bars: load at most 3x the loop's time, mean deletion at most 3x at 100 nodes and at most 1x at 400 nodes, where the
loop's look at every tuple costs more than the engine's walk along the affected ones.
"""

from __future__ import annotations

import random
import statistics
from typing import Any

import topologies
from bench.hand_loop import HandLoop, Link
from bench.harness import Bar, Result, finish, progress, typical
from bench.programs import REACHABLE, delete, engine, insert_all, time_engine, time_loop

SEED = 1
SIZES = {100: 394, 400: 1578}
REPETITIONS = {100: 9, 400: 3}
DELETION_BAR = {100: 3.0, 400: 1.0}
LOAD_BAR = 3.0


def workload(nodes: int) -> tuple[list[Link], list[Link]]:
    """The links of a network and the fifth of them that will be deleted."""
    links = topologies.pairs(topologies.dense(nodes, links=SIZES[nodes], seed=SEED))
    return links, random.Random(SEED).sample(links, len(links) // 5)


def assert_equal_results(links: list[Link], victims: list[Link]) -> None:
    """Engine and loop side by side: same changes after every deletion, same view at the start, on the way and last."""
    loop, session = HandLoop(), engine(REACHABLE)
    with session:
        loop.load(links)
        insert_all(session, links)
        assert set(session["reachable"]) == loop.view.keys()
        for number, link in enumerate(victims, 1):
            gone = loop.delete(link)
            changes = delete(session, "reachable", link)
            assert not changes.inserted
            assert list(changes.deleted) == sorted(gone)
            assert len(session["reachable"]) == len(loop.view)
            if number % 50 == 0 or number == len(victims):
                assert set(session["reachable"]) == loop.view.keys()


def compare(nodes: int) -> tuple[list[Bar], list[dict[str, Any]]]:
    """One size: equal results first, then the two in turns, so that both see the same moods of the machine."""
    links, victims = workload(nodes)
    progress(f"{nodes} nodes, {len(links):,} links: asserting equal results")
    assert_equal_results(links, victims)
    runs: dict[str, list[tuple[float, list[float]]]] = {"engine": [], "loop": []}
    for repetition in range(REPETITIONS[nodes]):
        progress(f"{nodes} nodes: run {repetition + 1} of {REPETITIONS[nodes]}")
        runs["engine"].append(time_engine(REACHABLE, "reachable", links, victims))
        runs["loop"].append(time_loop(HandLoop(), links, victims))
    figures = {
        who: {
            "load": statistics.median(load for load, _ in each),
            "mean": statistics.mean(typical([laps for _, laps in each])),
            "median": statistics.median(typical([laps for _, laps in each])),
        }
        for who, each in runs.items()
    }
    ratio = {name: figures["engine"][name] / figures["loop"][name] for name in ("load", "mean", "median")}
    bars = [
        Bar(f"load, {nodes} nodes, engine / loop", ratio["load"], LOAD_BAR),
        Bar(f"mean deletion, {nodes} nodes, engine / loop", ratio["mean"], DELETION_BAR[nodes]),
    ]
    rows = [
        {
            "nodes": nodes,
            "who": who,
            "load s": figure["load"],
            "µs per derivation": figure["load"] / (nodes * len(links)) * 1e6,
            "deletion ms, mean": figure["mean"] * 1e3,
            "median": figure["median"] * 1e3,
        }
        for who, figure in figures.items()
    ]
    return bars, rows


def run() -> Result:
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for nodes in SIZES:
        more_bars, more_rows = compare(nodes)
        bars += more_bars
        rows += more_rows
    return Result("reach", "How does the engine compare with a hand-written loop on reachability?", bars, rows)


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
