"""What a file of GT-ITM holds, and how it becomes a graph and is taken from one.

Both forms of GT-ITM number the nodes from 0 and give each a name and perhaps a position; an edge has a length and
perhaps a policy weight. Neither has a place for latencies or kinds. In a transit-stub network they follow from the
names ("T:0.1", "S:0.1/2.5"), and are restored from them; in any other network the latency is the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import networkx as nx

from topologies.edges import LATENCY, edge_kind
from topologies.flat import Point

__all__ = ["Arc", "Vertex", "arcs_of", "build", "graph_id", "vertices_of"]

_NAME = re.compile(r"(?:T:(?P<domain>\d+)\.\d+|S:(?P<transit>\d+\.\d+)/(?P<stub>\d+)\.\d+)")


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node: its name, and its position if there is one."""

    name: str
    pos: Point | None = None


@dataclass(frozen=True, slots=True)
class Arc:
    """One direction of an edge, from node to node by number."""

    source: int
    target: int
    length: int
    policy: int | None = None


def build(vertices: list[Vertex], arcs: Iterable[Arc], identity: str) -> nx.Graph:
    """The graph: undirected if every arc has its opposite of the same length, and directed otherwise.

    Of several arcs between the same nodes the shortest counts; loops, which GT-ITM may draw among its extra edges, are
    left out.

    >>> graph = build([Vertex("a"), Vertex("b")], [Arc(0, 1, 5), Arc(1, 0, 5), Arc(1, 1, 2)], "example")
    >>> graph.is_directed(), list(graph.edges(data=True))
    (False, [(0, 1, {'length': 5, 'latency': 5})])
    """
    best: dict[tuple[int, int], Arc] = {}
    for arc in arcs:
        ends = (arc.source, arc.target)
        if arc.source != arc.target and (ends not in best or arc.length < best[ends].length):
            best[ends] = arc
    both = all((b, a) in best and best[b, a].length == arc.length for (a, b), arc in best.items())
    graph = nx.Graph(id=identity) if both else nx.DiGraph(id=identity)
    for number, vertex in enumerate(vertices):
        graph.add_node(number, label=vertex.name, **({} if vertex.pos is None else {"pos": vertex.pos}))
    layered = _restore_domains(graph)
    for (a, b), arc in sorted(best.items()):
        if both and a > b:
            continue
        data: dict[str, Any] = {"kind": edge_kind(graph, a, b)} if layered else {}
        data["length"] = arc.length
        data["latency"] = LATENCY[data["kind"]] if layered else max(1, arc.length)
        if arc.policy is not None:
            data["policy"] = arc.policy
        graph.add_edge(a, b, **data)
    return graph


def _restore_domains(graph: nx.Graph) -> bool:
    """Set `kind`, `domain` and `transit` if all names are those of a transit-stub network; whether they are."""
    numbers = {label: number for number, label in graph.nodes(data="label")}
    attributes: dict[int, dict[str, Any]] = {}
    for label, number in numbers.items():
        match = _NAME.fullmatch(label)
        if match is None:
            return False
        if match["domain"] is not None:
            attributes[number] = {"kind": "transit", "domain": f"T:{match['domain']}", "transit": number}
        elif (above := numbers.get(f"T:{match['transit']}")) is None:
            return False
        else:
            domain = f"S:{match['transit']}/{match['stub']}"
            attributes[number] = {"kind": "stub", "domain": domain, "transit": above}
    if not numbers or len(numbers) < len(graph):
        return False
    nx.set_node_attributes(graph, attributes)
    return True


def vertices_of(graph: nx.Graph) -> dict[Any, Vertex]:
    """The nodes of a graph in the order of their numbers: 0, 1, ... where these are the nodes, else as they come.

    >>> vertices_of(nx.path_graph(2))
    {0: Vertex(name='0', pos=None), 1: Vertex(name='1', pos=None)}
    """
    order = list(graph)
    if set(order) == set(range(len(order))):
        order.sort()
    found = {}
    placed = all(pos is not None for _, pos in graph.nodes(data="pos"))
    for node in order:
        label = graph.nodes[node].get("label")
        pos = graph.nodes[node]["pos"] if placed else None
        if pos is not None and not (len(pos) == 2 and all(isinstance(x, int) for x in pos)):
            raise ValueError(f"the position of {node!r} is not a pair of whole numbers, which is all the form can hold")
        found[node] = Vertex(str(node) if label is None else str(label), pos)
    return found


def arcs_of(graph: nx.Graph, order: Iterable[Any]) -> list[Arc]:
    """The arcs of a graph: of an undirected edge both, next to each other."""
    numbers = {node: number for number, node in enumerate(order)}
    weighted = all(policy is not None for *_, policy in graph.edges(data="policy"))
    arcs: list[tuple[Arc, ...]] = []
    for a, b, data in graph.edges(data=True):
        if a == b:
            raise ValueError(f"the node {a!r} has an edge to itself, which a network does not have")
        length = data.get("length", data.get("latency", 1))
        if not isinstance(length, int):
            raise ValueError(f"the length of the edge from {a!r} to {b!r} is not a whole number: {length!r}")
        policy = data["policy"] if weighted else None
        first, second = numbers[a], numbers[b]
        if not graph.is_directed():
            first, second = min(first, second), max(first, second)
            arcs.append((Arc(first, second, length, policy), Arc(second, first, length, policy)))
        else:
            arcs.append((Arc(first, second, length, policy),))
    return [arc for pair in sorted(arcs, key=lambda pair: (pair[0].source, pair[0].target)) for arc in pair]


def graph_id(graph: nx.Graph) -> str:
    """What a file says of the graph as a whole."""
    return str(graph.graph.get("id") or graph.graph.get("name") or "topologies")
