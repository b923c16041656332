"""The sample graphs that come with GT-ITM, by their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import networkx as nx

from topologies.flat import PURE, EdgeMethod, Seed
from topologies.transit_stub import transit_stub

__all__ = ["PRESETS", "ts20", "ts100", "ts600", "ts1000"]


def ts20(seed: Seed = None) -> nx.Graph:
    """20 nodes: one transit domain of 2 nodes, 3 stubs of 3 nodes on each; about 22 edges.

    >>> len(ts20(seed=1))
    20
    """
    return _pure(1, 2, 3, 3, 0.5, 0.6, 0.42, seed)


def ts100(seed: Seed = None) -> nx.Graph:
    """100 nodes: one transit domain of 4 nodes, 3 stubs of 8 nodes on each; 166 to 193 edges in the published samples.

    >>> len(ts100(seed=1))
    100
    """
    return _pure(1, 4, 3, 8, 0.5, 0.6, 0.42, seed)


def ts600(seed: Seed = None) -> nx.Graph:
    """600 nodes: 3 transit domains of 8 nodes, 3 stubs of 8 nodes on each; 1164 to 1250 edges in the published samples.

    >>> len(ts600(seed=1))
    600
    """
    return _pure(3, 8, 3, 8, 1.0, 0.5, 0.5, seed)


def ts1000(seed: Seed = None) -> nx.Graph:
    """1000 nodes: 2 transit domains of 20 nodes, 3 stubs of 8 nodes on each; about 1900 edges.

    >>> len(ts1000(seed=1))
    1000
    """
    return _pure(2, 20, 3, 8, 1.0, 0.6, 0.42, seed)


def _pure(n: int, t: int, k: int, s: int, top: float, transit: float, stub: float, seed: Seed) -> nx.Graph:
    """All of the samples use the pure random method on all three levels."""
    return transit_stub(n, t, k, s, top=EdgeMethod(PURE, top), transit=EdgeMethod(PURE, transit),
                        stub=EdgeMethod(PURE, stub), seed=seed)


PRESETS: Mapping[str, Callable[[Seed], nx.Graph]] = MappingProxyType(
    {"ts20": ts20, "ts100": ts100, "ts600": ts600, "ts1000": ts1000}
)
"""The presets by name, for commands that take a name."""
