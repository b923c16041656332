"""Recompute by rustworkx. The graph is changed in place; every change computes the view from it anew.

`Rustworkx` ends with a list of rows, as networkx does and as the engine's view can be read:

- `reachable`: strongly connected components, the closure between them, pairs of members. Measured and left out, slower:
  the hop matrix and its non-zero entries, `descendants` of every node.
- `minCost`: `digraph_all_pairs_dijkstra_path_lengths` and the rows of that mapping, with the cheapest way back to each
  node, which it leaves out. Measured and left out, slower: `digraph_floyd_warshall_numpy`.

`RustworkxOwn` stops earlier, with the answer in the library's own form: a matrix of hops, or the mapping. Nobody has
the rows then; they are made from it, outside the clock, for the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product, repeat
from typing import Any

import numpy as np
import rustworkx as rx

from bench.peer_kit import CostLink

__all__ = ["Rustworkx", "RustworkxOwn"]

Row = tuple[Any, ...]


def reachable_rows(graph: Any) -> list[Row]:
    """Pairs with a path of at least one link."""
    rows: list[Row] = []
    components = rx.strongly_connected_components(graph)  # those that can be reached come first
    number = {node: n for n, members in enumerate(components) for node in members}
    below: list[set[int]] = []
    for n, members in enumerate(components):
        near = {number[y] for x in members for y in graph.successor_indices(x)}
        again = n in near
        near.discard(n)
        reached = near.union(*(below[child] for child in near))
        below.append(reached)
        targets = [y for child in reached for y in components[child]]
        if again:
            targets.extend(members)
        rows.extend(product(members, targets))
    return rows


def cost_rows(graph: Any, lengths: Any) -> list[Row]:
    """Pairs with the cost of the cheapest path of at least one link."""
    rows: list[Row] = []
    for x, reached in lengths.items():
        rows.extend(zip(repeat(x), reached.keys(), reached.values(), strict=False))
        back = [reached[p] + cost if p != x else cost for p, _, cost in graph.in_edges(x) if p == x or p in reached]
        if back:
            rows.append((x, x, min(back)))
    return rows


class Rustworkx:
    """A graph and the rows computed from it last."""

    def __init__(self, view: str) -> None:
        self.view = view
        self._graph = rx.PyDiGraph(multigraph=False)
        self._answer: Any = None

    def load(self, links: Sequence[CostLink]) -> None:
        nodes = 1 + max(max(source, target) for source, target, _ in links)
        self._graph.add_nodes_from(range(nodes))  # node and index are the same number
        self._graph.add_edges_from([(source, target, float(cost)) for source, target, cost in links])
        self._renew()

    def delete(self, link: CostLink) -> None:
        self._graph.remove_edge(link[0], link[1])
        self._renew()

    def insert(self, link: CostLink) -> None:
        self._graph.add_edge(link[0], link[1], float(link[2]))
        self._renew()

    def _renew(self) -> None:
        self._answer = None  # the old one goes first: two answers in memory would only cost time
        self._answer = self._compute()

    def _compute(self) -> Any:
        if self.view == "reachable":
            return reachable_rows(self._graph)
        return cost_rows(self._graph, rx.digraph_all_pairs_dijkstra_path_lengths(self._graph, float))

    def rows(self) -> Iterable[Row]:
        rows: list[Row] = self._answer
        return rows

    def close(self) -> None:
        self._answer = None


class RustworkxOwn(Rustworkx):
    """A graph and the answer computed from it last, in the library's own form."""

    def _compute(self) -> Any:
        if self.view == "reachable":
            return rx.digraph_distance_matrix(self._graph, null_value=0.0)
        return rx.digraph_all_pairs_dijkstra_path_lengths(self._graph, float)

    def rows(self) -> Iterable[Row]:
        if self.view == "minCost":
            return cost_rows(self._graph, self._answer)
        sources, targets = np.nonzero(self._answer)
        others = list(zip(sources.tolist(), targets.tolist(), strict=True))
        return others + [(x, y) for x, y in reachable_rows(self._graph) if x == y]  # the matrix says 0 for those
