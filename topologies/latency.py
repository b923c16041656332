"""Latencies that hardly ever tie: scaled to a finer unit and jittered, still whole numbers."""

from __future__ import annotations

import math

import networkx as nx

from topologies.flat import Seed, generator

__all__ = ["jitter"]


def jitter(graph: nx.Graph, fraction: float = 0.01, seed: Seed = None, *, scale: int = 1000) -> nx.Graph:
    """A copy of a network whose latencies are `scale` times as great, each moved by less than the given fraction of it.

    Milliseconds become microseconds by default. Latencies stay whole numbers, so that sums along paths are exact, and
    two paths that cost the same before are very unlikely to do so now. A greater scale makes it unlikelier still.

    >>> graph = nx.Graph(); graph.add_edge("a", "b", latency=50)
    >>> cost = jitter(graph, seed=1).edges["a", "b"]["latency"]
    >>> isinstance(cost, int), 49500 < cost < 50500
    (True, True)
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"the fraction must be at least 0 and less than 1, got {fraction}")
    if scale < 1:
        raise ValueError(f"the scale must be at least 1, got {scale}")
    rng = generator(seed)
    result = graph.copy()
    for a, b, data in result.edges(data=True):
        if "latency" not in data:
            raise ValueError(f"the edge from {a!r} to {b!r} has no attribute 'latency'")
        whole = round(data["latency"] * scale)
        most = max(0, math.ceil(fraction * whole) - 1)
        data["latency"] = whole + rng.randint(-most, most)
    return result
