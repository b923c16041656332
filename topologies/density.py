"""The `dense` and `sparse` networks of the absorption paper: so many nodes, four or two links a node.

Both start from a transit-stub graph of the paper's default shape (4 nodes per transit domain, 3 stubs per transit
node, 8 nodes per stub: 100 nodes per transit domain) that grows by transit domains. A link here is a `link` fact, one
direction of an edge. The generator's own graphs have about 3.5 links a node, so `dense` adds edges until there are
four, and `sparse` takes edges away until there are two.

Two links a node is hardly more than a tree: n nodes need n - 1 edges, which are 2n - 2 links. So the edges to take away
cannot be drawn blindly. A *backbone* is fixed first: a random spanning tree of every domain, the edge by which every
stub hangs on its transit node, and a random spanning tree over the transit domains. Then edges outside the backbone are
taken away at random. The network stays connected, and so does every domain by itself: it is still transit-stub.
"""

from __future__ import annotations

import math
import random

import networkx as nx

from topologies.edges import add_edge, add_stub_stub_edges, edge_kind, stub_stub_room
from topologies.flat import Seed, generator
from topologies.transit_stub import Shape, transit_stub

__all__ = ["dense", "shape_for", "sparse", "with_links"]

PAPER = Shape(1, 4, 3, 8)


def dense(nodes: int = 100, links: int | None = None, seed: Seed = None) -> nx.Graph:
    """A network with four links a node, or with exactly so many `links` (both directions of an edge count).

    >>> graph = dense(100, links=394, seed=1)
    >>> len(graph), 2 * graph.number_of_edges(), nx.is_connected(graph)
    (100, 394, True)
    """
    return _network(nodes, 4 * nodes if links is None else links, links is None, seed)


def sparse(nodes: int = 100, links: int | None = None, seed: Seed = None) -> nx.Graph:
    """A network with two links a node, or with exactly so many `links`, and still connected.

    >>> graph = sparse(100, seed=1)
    >>> len(graph), 2 * graph.number_of_edges(), nx.is_connected(graph)
    (100, 200, True)
    """
    return _network(nodes, 2 * nodes if links is None else links, links is None, seed)


def _network(nodes: int, links: int, default: bool, seed: Seed) -> nx.Graph:
    if default:  # a handful of nodes cannot have four links each
        links = min(links, nodes * (nodes - 1))
    rng = generator(seed)
    shape = shape_for(nodes)
    graph = transit_stub(shape.transit_domains, shape.transit_nodes, shape.stubs, shape.stub_nodes, seed=rng)
    return with_links(graph, links, rng)


def shape_for(nodes: int) -> Shape:
    """The shape nearest to the paper's that has exactly so many nodes, any number of transit domains allowed.

    >>> shape_for(400)
    Shape(transit_domains=4, transit_nodes=4, stubs=3, stub_nodes=8)
    >>> shape_for(97)
    Shape(transit_domains=1, transit_nodes=1, stubs=6, stub_nodes=16)
    """
    if nodes < 1:
        raise ValueError(f"a network needs at least one node, got {nodes}")
    shapes = [
        Shape(nodes // under // t, t, k, s)
        for under in _divisors(nodes)
        for t in _divisors(nodes // under)
        for k, s in ([(k, (under - 1) // k) for k in _divisors(under - 1)] if under > 1 else [(0, 1)])
    ]
    return min(shapes, key=_strangeness)


def _strangeness(shape: Shape) -> tuple[float, int]:
    """How far a shape is from the paper's: the factors by which its sizes differ, in squared logarithms."""
    return (
        sum(
            math.log(max(getattr(shape, name), 0.5) / getattr(PAPER, name)) ** 2
            for name in ("transit_nodes", "stubs", "stub_nodes")
        ),
        shape.transit_domains,
    )


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def with_links(graph: nx.Graph, links: int, seed: Seed = None) -> nx.Graph:
    """A copy of a transit-stub graph with exactly so many links: edges added, or taken away from outside a backbone.

    Added edges join different stubs, as GT-ITM's extra stub-stub edges do; when all of these exist, any two nodes.

    >>> graph = transit_stub(1, 4, 3, 8, seed=1)
    >>> with_links(graph, 300, seed=1).number_of_edges()
    150
    >>> with_links(graph, 150, seed=1)
    Traceback (most recent call last):
        ...
    ValueError: 100 nodes need at least 198 links to be connected, got 150
    """
    nodes = len(graph)
    if links % 2:
        raise ValueError(f"an edge is two links, one in each direction: links must be even, got {links}")
    if links < 2 * (nodes - 1):
        raise ValueError(f"{nodes} nodes need at least {2 * (nodes - 1)} links to be connected, got {links}")
    if links > nodes * (nodes - 1):
        raise ValueError(f"{nodes} nodes have at most {nodes * (nodes - 1)} links, got {links}")
    rng = generator(seed)
    result = graph.copy()
    missing = links // 2 - result.number_of_edges()
    if missing < 0:
        keep = {frozenset(edge) for edge in _backbone(result, rng)}
        spare = [edge for edge in result.edges if frozenset(edge) not in keep]
        result.remove_edges_from(rng.sample(spare, -missing))
    elif missing > 0:
        across = min(missing, stub_stub_room(result))
        add_stub_stub_edges(result, across, rng)
        if missing > across:
            absent = list(nx.non_edges(result))
            for a, b in rng.sample(absent, missing - across):
                add_edge(result, a, b, edge_kind(result, a, b))
    return result


def _backbone(graph: nx.Graph, rng: random.Random) -> list[tuple[int, int]]:
    """A random spanning tree that holds a spanning tree of every domain: Kruskal's method, domains first."""
    order = {"stub": 0, "transit": 0, "transit-stub": 1, "inter-domain": 1, "stub-stub": 2}
    edges = list(graph.edges(data="kind"))
    rng.shuffle(edges)
    edges.sort(key=lambda edge: order[edge[2]])
    parts = nx.utils.UnionFind(graph)
    tree = []
    for a, b, _ in edges:
        if parts[a] != parts[b]:
            parts.union(a, b)
            tree.append((a, b))
    return tree
