"""The edges of a transit-stub graph: their attributes, and the extra ones beyond the hierarchy."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx

from topologies.flat import Seed, distance, generator

__all__ = [
    "LATENCY",
    "add_edge",
    "add_new_edges",
    "add_stub_stub_edges",
    "add_transit_stub_edges",
    "edge_kind",
    "stub_stub_room",
]

LATENCY = {"inter-domain": 50, "transit": 50, "transit-stub": 10, "stub": 2, "stub-stub": 10}
"""Milliseconds by kind of edge, as section 7.1 of the absorption paper sets them.

The paper names three kinds: between transit nodes, between a transit and a stub node, inside a stub. An extra edge
between two stubs leaves its stub as a transit-stub edge does, so it gets the same 10 ms.
"""


def add_edge(graph: nx.Graph, a: int, b: int, kind: str) -> None:
    """Add an edge with its kind, its length (from the positions of its ends) and its latency (from its kind).

    >>> graph = nx.Graph()
    >>> graph.add_node(0, pos=(0, 0)); graph.add_node(1, pos=(6, 8))
    >>> add_edge(graph, 0, 1, "transit"); graph.edges[0, 1]
    {'kind': 'transit', 'length': 10, 'latency': 50}
    """
    length = distance(graph.nodes[a]["pos"], graph.nodes[b]["pos"])
    graph.add_edge(a, b, kind=kind, length=length, latency=LATENCY[kind])


def edge_kind(graph: nx.Graph, a: int, b: int) -> str:
    """The kind of an edge between any two nodes of a transit-stub network.

    >>> from topologies import transit_stub
    >>> edge_kind(transit_stub(1, 1, 2, 4, seed=1), 0, 1)
    'transit-stub'
    """
    one, other = graph.nodes[a], graph.nodes[b]
    if one["kind"] != other["kind"]:
        return "transit-stub"
    if one["domain"] == other["domain"]:
        return str(one["kind"])
    return "inter-domain" if one["kind"] == "transit" else "stub-stub"


def add_new_edges(graph: nx.Graph, count: int, kind: str, draw: Callable[[], tuple[int, int] | None]) -> None:
    """Draw pairs until `count` of them were new edges. The caller knows that there are so many."""
    while count:
        pair = draw()
        if pair is not None and not graph.has_edge(*pair):
            add_edge(graph, *pair, kind)
            count -= 1


def add_transit_stub_edges(graph: nx.Graph, count: int, seed: Seed = None) -> None:
    """Add so many edges between a transit node and a stub node that is not under it, in place."""
    rng = generator(seed)
    above = {node: transit for node, transit in graph.nodes(data="transit") if node != transit}
    transits, members = [n for n in graph if n not in above], list(above)
    owner = graph.nodes(data="transit")
    taken = sum(1 for a, b, kind in graph.edges(data="kind") if kind == "transit-stub" and owner[a] != owner[b])
    room = len(members) * (len(transits) - 1) - taken
    if count > room:
        raise ValueError(f"room for {room} extra transit-stub edges, not for {count}: each joins a transit node "
                         "and a stub node that is not under it")

    def draw() -> tuple[int, int] | None:
        transit, member = rng.choice(transits), rng.choice(members)
        return None if above[member] == transit else (transit, member)

    add_new_edges(graph, count, "transit-stub", draw)


def add_stub_stub_edges(graph: nx.Graph, count: int, seed: Seed = None) -> None:
    """Add so many edges between nodes of different stubs, in place.

    >>> from topologies import transit_stub
    >>> graph = transit_stub(1, 1, 2, 4, seed=1)
    >>> add_stub_stub_edges(graph, stub_stub_room(graph), seed=1)
    >>> add_stub_stub_edges(graph, 1, seed=1)
    Traceback (most recent call last):
        ...
    ValueError: room for 0 extra stub-stub edges, not for 1: each joins nodes of two different stubs
    """
    domain = {node: data["domain"] for node, data in graph.nodes(data=True) if data["kind"] == "stub"}
    if count > (room := stub_stub_room(graph)):
        raise ValueError(
            f"room for {room} extra stub-stub edges, not for {count}: each joins nodes of two different stubs"
        )
    rng = generator(seed)
    members = list(domain)

    def draw() -> tuple[int, int] | None:
        a, b = rng.choice(members), rng.choice(members)
        return None if domain[a] == domain[b] else (a, b)

    add_new_edges(graph, count, "stub-stub", draw)


def stub_stub_room(graph: nx.Graph) -> int:
    """How many more stub-stub edges the graph can take.

    >>> from topologies import transit_stub
    >>> stub_stub_room(transit_stub(1, 1, 2, 1, seed=1))
    1
    """
    sizes: dict[str, int] = {}
    for _, data in graph.nodes(data=True):
        if data["kind"] == "stub":
            sizes[data["domain"]] = sizes.get(data["domain"], 0) + 1
    total = sum(sizes.values())
    pairs = (total * total - sum(size * size for size in sizes.values())) // 2
    return pairs - sum(1 for _, _, kind in graph.edges(data="kind") if kind == "stub-stub")
