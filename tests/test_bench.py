"""The yardsticks of the benchmarks are right themselves: the hand-written loops against networkx."""

from __future__ import annotations

import random

import networkx as nx
import pytest

import topologies

pytest.importorskip("dd.cudd", reason="the loops use CUDD itself")

from bench.cost_loop import CostLoop
from bench.hand_loop import HandLoop


def closure(links: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs with a path of at least one link."""
    graph = nx.DiGraph(links)
    return {(x, y) for x in graph for z in graph[x] for y in {z, *nx.descendants(graph, z)}}


def cheapest(links: list[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    """Pairs with the cost of the cheapest path of at least one link."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(links)
    distance = dict(nx.all_pairs_dijkstra_path_length(graph))
    best: dict[tuple[int, int], int] = {}
    for x, z, cost in links:
        for y, rest in distance[z].items():
            best[x, y] = min(best.get((x, y), cost + rest), cost + rest)
    return {(x, y, cost) for (x, y), cost in best.items()}


@pytest.mark.parametrize("seed", range(3))
def test_reachability_loop(seed: int) -> None:
    links = topologies.pairs(topologies.sparse(30, links=70, seed=seed))
    loop, before = HandLoop(), closure(links)
    loop.load(links)
    assert loop.view.keys() == before
    for link in random.Random(seed).sample(links, len(links)):
        links.remove(link)
        after = closure(links)
        affected = loop.affected(link)
        gone = loop.delete(link)
        assert set(gone) == before - after and len(gone) <= affected
        assert loop.view.keys() == loop.mask.keys() == after
        before = after


@pytest.mark.parametrize("seed", range(3))
def test_cost_loop(seed: int) -> None:
    links = topologies.links(topologies.dense(30, seed=seed), cost="length")
    loop, before = CostLoop(), cheapest(links)
    loop.load(links)
    assert loop.rows() == before
    for link in random.Random(seed).sample(links, len(links)):
        links.remove(link)
        after = cheapest(links)
        gone, come = loop.delete(link)
        assert set(gone) == before - after and set(come) == after - before
        assert loop.rows() == after
        before = after
