"""From a graph to the facts of a `link` relation."""

from __future__ import annotations

from typing import Any

import networkx as nx

__all__ = ["links", "pairs"]


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


def _arcs(graph: nx.Graph) -> list[tuple[Any, Any, dict[str, Any]]]:
    """(source, target, attributes) in both directions of an undirected edge, a self loop once."""
    arcs = {(a, b): data for a, b, data in graph.edges(data=True)}
    if not graph.is_directed():
        arcs |= {(b, a): data for (a, b), data in arcs.items()}
    return [(a, b, arcs[a, b]) for a, b in sorted(arcs)]
