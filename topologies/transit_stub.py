"""Transit-stub graphs as GT-ITM draws them: transit domains joined to each other, stub domains hanging on them.

The steps follow the original generator; `Shape` holds its parameters. What it does, in order:

1. the top graph, one node per transit domain: each of its edges becomes two edges between the two domains;
2. every transit domain, a flat random graph; the sizes vary around their mean and keep their sum;
3. under every transit node its stubs, flat random graphs, each hung on it by one edge to one of its nodes;
4. extra edges, transit-stub and stub-stub, that make the graph less of a tree.

The result is a simple undirected graph: where the original may draw the same edge twice, the second is drawn anew.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx

from topologies.edges import add_edge, add_stub_stub_edges, add_transit_stub_edges
from topologies.flat import PURE, EdgeMethod, Seed, flat_random, generator

__all__ = ["Shape", "jitter", "transit_stub"]

TOP, TRANSIT, STUB = EdgeMethod(PURE, 0.5), EdgeMethod(PURE, 0.6), EdgeMethod(PURE, 0.42)
"""The edge methods of GT-ITM's 100-node samples."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size parameters of a transit-stub graph; all but the first are means.

    >>> Shape(1, 4, 3, 8).nodes
    100
    """

    transit_domains: int
    transit_nodes: int
    stubs: int
    stub_nodes: int

    def __post_init__(self) -> None:
        for name, least in (("transit_domains", 1), ("transit_nodes", 1), ("stubs", 0), ("stub_nodes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")

    @property
    def nodes(self) -> int:
        """The number of nodes: exact, whatever the seed."""
        return self.transit_domains * self.transit_nodes * (1 + self.stubs * self.stub_nodes)

    @property
    def scales(self) -> tuple[int, int, int]:
        """The sides of the grids of the top graph, of a transit domain and of a stub.

        >>> Shape(1, 4, 3, 8).scales
        (89, 44, 36)
        """
        top = round(math.sqrt(80 * self.nodes))
        outer = self.transit_nodes + 3 * self.transit_domains
        stub = round(math.sqrt(16 * (self.stub_nodes + 3 * (self.stubs + 3 * outer))))
        return top, max(1, round(top / 2)), stub


def transit_stub(
    transit_domains: int,
    transit_nodes: int,
    stubs: int,
    stub_nodes: int,
    *,
    top: EdgeMethod = TOP,
    transit: EdgeMethod = TRANSIT,
    stub: EdgeMethod = STUB,
    extra_transit_stub: int = 0,
    extra_stub_stub: int = 0,
    seed: Seed = None,
) -> nx.Graph:
    """A transit-stub graph of exactly N * T * (1 + K * S) nodes.

    N `transit_domains` of T `transit_nodes` each on average; K `stubs` per transit node, of S `stub_nodes` each on
    average. `top`, `transit` and `stub` are the edge methods of the three levels. The defaults are those of GT-ITM's
    100-node samples.

    Nodes are numbers from 0, transit nodes first. Their attributes: `kind` ("transit" or "stub"), `domain` and `label`
    as GT-ITM writes them (transit domain "T:0" with nodes "T:0.1"; third stub of that node "S:0.1/2" with nodes
    "S:0.1/2.5"), `transit` (the transit node a stub hangs on, or the node itself), `pos` (a point of the integer grid).

    Edges have `kind` ("inter-domain", "transit", "transit-stub", "stub", "stub-stub"), `length` (the rounded distance
    of the positions) and `latency` (by kind, see `topologies.LATENCY`).

    >>> graph = transit_stub(1, 4, 3, 8, seed=7)
    >>> len(graph), nx.is_connected(graph)
    (100, True)
    >>> graph.nodes[0]["label"], graph.nodes[4]["label"]
    ('T:0.0', 'S:0.0/0.0')
    >>> sorted({data["kind"] for _, _, data in graph.edges(data=True)})
    ['stub', 'transit', 'transit-stub']
    """
    shape = Shape(transit_domains, transit_nodes, stubs, stub_nodes)
    for name, count in (("extra_transit_stub", extra_transit_stub), ("extra_stub_stub", extra_stub_stub)):
        if count < 0:
            raise ValueError(f"{name} must not be negative, got {count}")
    rng = generator(seed)
    graph = nx.Graph()
    domains = _add_transit_domains(graph, shape, top, transit, rng)
    _add_stubs(graph, shape, domains, stub, rng)
    add_transit_stub_edges(graph, extra_transit_stub, rng)
    add_stub_stub_edges(graph, extra_stub_stub, rng)
    return graph


def jitter(entries: int, mean: int, seed: Seed = None) -> list[int]:
    """Sizes around a mean, each at least 1, whose sum is entries * mean.

    All start at the mean; then, three times per entry, one unit moves from a random entry that can spare it to a random
    entry (perhaps the same). A single entry, and a mean of 0, stay as they are.

    >>> sizes = jitter(4, 8, seed=1)
    >>> sum(sizes), min(sizes) >= 1
    (32, True)
    """
    rng = generator(seed)
    sizes = [mean] * entries
    if entries >= 2:
        for _ in range(3 * entries):
            source = rng.randrange(entries)
            if sizes[source] > 1:
                sizes[source] -= 1
                sizes[rng.randrange(entries)] += 1
    return sizes


class _Place(NamedTuple):
    """Where a flat graph goes: its names, the centre of its grid, and the transit node it hangs on (None: itself)."""

    kind: str
    domain: str
    centre: tuple[int, int]
    scale: int
    transit: int | None


def _add_flat(graph: nx.Graph, flat: nx.Graph, place: _Place) -> list[int]:
    """Copy a flat graph in, its grid centred on the place's point. Its nodes, numbered on from the last."""
    first = len(graph)
    half = place.scale // 2
    for node, (x, y) in flat.nodes(data="pos"):
        graph.add_node(first + node, kind=place.kind, domain=place.domain, label=f"{place.domain}.{node}",
                       transit=first + node if place.transit is None else place.transit,
                       pos=(place.centre[0] + x - half, place.centre[1] + y - half))
    for a, b in flat.edges:
        add_edge(graph, first + a, first + b, place.kind)
    return list(range(first, len(graph)))


def _add_transit_domains(
    graph: nx.Graph, shape: Shape, top: EdgeMethod, transit: EdgeMethod, rng: random.Random
) -> list[list[int]]:
    """The transit domains and the edges between them; the nodes of each domain."""
    top_scale, transit_scale, _ = shape.scales
    tops = flat_random(shape.transit_domains, top_scale, top, rng)
    sizes = jitter(shape.transit_domains, shape.transit_nodes, rng)
    domains = [
        _add_flat(graph, flat_random(size, transit_scale, transit, rng),
                  _Place("transit", f"T:{domain}", tops.nodes[domain]["pos"], transit_scale, None))
        for domain, size in enumerate(sizes)
    ]
    for a, b in tops.edges:
        # GT-ITM stores an undirected edge as two arcs and draws one inter-domain edge for each of them
        ends = [(one, other) for one in domains[a] for other in domains[b]]
        for one, other in rng.sample(ends, min(2, len(ends))):
            add_edge(graph, one, other, "inter-domain")
    return domains


def _add_stubs(graph: nx.Graph, shape: Shape, domains: list[list[int]], method: EdgeMethod, rng: random.Random) -> None:
    """The stubs of every transit node, each hung on it by one edge."""
    scale = shape.scales[2]
    for nodes in domains:
        for transit, count in zip(nodes, jitter(len(nodes), shape.stubs, rng), strict=True):
            above = graph.nodes[transit]
            for stub, size in enumerate(jitter(count, shape.stub_nodes, rng)):
                domain = f"S:{above['label'][2:]}/{stub}"
                members = _add_flat(graph, flat_random(size, scale, method, rng),
                                    _Place("stub", domain, above["pos"], scale, transit))
                add_edge(graph, transit, rng.choice(members), "transit-stub")
