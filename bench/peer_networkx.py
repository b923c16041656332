"""Recompute by networkx. The graph is changed in place; every change computes the view from it anew, as a list of rows.

- `reachable`: strongly connected components and the closure of the graph between them; then the rows are pairs of
  members. Measured and left out, all slower: `descendants` of every node, `transitive_closure`.
- `minCost`: `floyd_warshall_numpy`, then the rows of the matrix. Measured and left out, slower at both sizes:
  `all_pairs_dijkstra_path_length`, `johnson`. The diagonal is the cheapest way back to a node, as the rules say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import networkx as nx
import numpy as np

from bench.peer_kit import CostLink

__all__ = ["Networkx"]


class Networkx:
    """A graph and the rows computed from it last."""

    def __init__(self, view: str) -> None:
        self._compute = {"reachable": self._reachable, "minCost": self._min_cost}[view]
        self._graph = nx.DiGraph()
        self._rows: list[tuple[Any, ...]] = []

    def load(self, links: Sequence[CostLink]) -> None:
        self._graph.add_weighted_edges_from(links)
        self._renew()

    def delete(self, link: CostLink) -> None:
        self._graph.remove_edge(link[0], link[1])
        self._renew()

    def insert(self, link: CostLink) -> None:
        self._graph.add_edge(link[0], link[1], weight=link[2])
        self._renew()

    def _renew(self) -> None:
        self._rows = []  # the old ones go first: two answers in memory would only cost time
        self._rows = self._compute()

    def rows(self) -> Iterable[tuple[Any, ...]]:
        return self._rows

    def close(self) -> None:
        self._rows = []

    def _reachable(self) -> list[tuple[Any, ...]]:
        graph, rows = self._graph, list[tuple[Any, ...]]()
        components = nx.condensation(graph)
        members: dict[int, set[int]] = dict(components.nodes(data="members"))
        below: dict[int, set[int]] = {}
        for component in reversed(list(nx.topological_sort(components))):
            reached: set[int] = set()
            for child in components[component]:
                reached.add(child)
                reached |= below[child]
            below[component] = reached
            targets = [y for child in reached for y in members[child]]
            inside = members[component]
            if len(inside) > 1 or any(graph.has_edge(x, x) for x in inside):
                targets.extend(inside)
            rows.extend(product(inside, targets))
        return rows

    def _min_cost(self) -> list[tuple[Any, ...]]:
        graph = self._graph
        nodes = list(graph)
        place = {node: number for number, node in enumerate(nodes)}
        distance = nx.floyd_warshall_numpy(graph, nodes)
        back = np.full(len(nodes), np.inf)
        for source, target, cost in graph.edges(data="weight"):
            row = place[target]
            back[row] = min(back[row], distance[row, place[source]] + cost)
        np.fill_diagonal(distance, back)
        sources, targets = np.nonzero(np.isfinite(distance))
        names = np.array(nodes)
        costs = distance[sources, targets].astype(np.int64).tolist()
        return list(zip(names[sources].tolist(), names[targets].tolist(), costs, strict=True))
