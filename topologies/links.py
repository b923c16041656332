"""From a graph to the facts of a `link` relation, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx

__all__ = ["links", "network_of", "pairs"]


def pairs(graph: nx.Graph) -> list[tuple[Any, Any]]:
    """The `link(src, dst)` facts of a graph, sorted: an undirected edge gives one fact for each direction.

    >>> pairs(nx.path_graph(3))
    [(0, 1), (1, 0), (1, 2), (2, 1)]
    >>> pairs(nx.path_graph(3, create_using=nx.DiGraph))
    [(0, 1), (1, 2)]
    """
    return [(source, target) for source, target, _ in _arcs(graph)]


def links(graph: nx.Graph, cost: str = "latency") -> list[tuple[Any, Any, Any]]:
    """The `link(src, dst, cost)` facts of a graph, sorted; `cost` names the edge attribute that holds it.

    >>> graph = nx.Graph(); graph.add_edge("a", "b", latency=10)
    >>> links(graph)
    [('a', 'b', 10), ('b', 'a', 10)]
    >>> links(graph, cost="length")
    Traceback (most recent call last):
        ...
    ValueError: the edge from 'a' to 'b' has no attribute 'length'; it has: latency
    """
    rows = []
    for source, target, data in _arcs(graph):
        if cost not in data:
            known = ", ".join(sorted(data)) or "none"
            raise ValueError(f"the edge from {source!r} to {target!r} has no attribute {cost!r}; it has: {known}")
        rows.append((source, target, data[cost]))
    return rows


def network_of(rows: Iterable[Sequence[Any]]) -> nx.Graph:
    """The network that facts of a `link` relation describe; the third column, if there is one, is the latency.

    It is undirected if every link has its opposite with the same latency. Of several facts about one link the one with
    the least latency counts; loops are left out.

    >>> list(network_of([("a", "b"), ("b", "a")]).edges(data=True))
    [('a', 'b', {'latency': 1})]
    >>> network_of([("a", "b", 3), ("b", "a", 4)]).is_directed()
    True
    """
    arcs: dict[tuple[Any, Any], Any] = {}
    for row in rows:
        source, target, latency = row if len(row) > 2 else (*row, 1)
        if source != target and latency <= arcs.get((source, target), latency):
            arcs[source, target] = latency
    both = all(arcs.get((b, a)) == latency for (a, b), latency in arcs.items())
    graph = nx.Graph() if both else nx.DiGraph()
    for (a, b), latency in sorted(arcs.items()):
        graph.add_edge(a, b, latency=latency)
    return graph


def _arcs(graph: nx.Graph) -> list[tuple[Any, Any, dict[str, Any]]]:
    """(source, target, attributes) in both directions of an undirected edge, a self loop once."""
    arcs = {(a, b): data for a, b, data in graph.edges(data=True)}
    if not graph.is_directed():
        arcs |= {(b, a): data for (a, b), data in arcs.items()}
    return [(a, b, arcs[a, b]) for a, b in sorted(arcs)]
