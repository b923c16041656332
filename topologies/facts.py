"""From a network to the facts of a program, by the names of its relations.

==========================================  ===================================================================
`link` or `edge` (src, dst)                 one fact for each direction of an edge
`link` or `edge` (src, dst, cost)           the same with the edge's `latency`
`node` (n)                                  one fact for each node
`sensor` (id, position)                     of a `sensor_grid`: the position is a pair of whole metres
`mainSensorInRegion` (region, id)           of a `sensor_grid`: the seed sensors
`isTriggered` (id)                          of a `sensor_grid`: the sensors that are triggered to begin with
==========================================  ===================================================================

Nodes appear under their own names. Where a program wants symbols and the nodes are numbers, use `labelled(graph)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx

from topologies.links import links, pairs

__all__ = ["LINKS", "SENSORS", "facts", "has_sensors", "labelled", "link_relation", "sensor_relations"]

LINKS = ("link", "edge")
"""The names under which a program may have its links; the first that it has is taken."""

SENSORS: Mapping[str, int] = {"sensor": 2, "mainSensorInRegion": 2, "isTriggered": 1}
"""The relations of a program about sensors, with their numbers of columns."""


def facts(graph: nx.Graph, relations: Mapping[str, int]) -> dict[str, list[tuple[Any, ...]]]:
    """The facts of a network for those of a program's base relations that are about networks.

    `relations` says how many columns each base relation has. Relations of other names get no facts.

    >>> graph = nx.path_graph(2)
    >>> facts(graph, {"link": 2, "node": 1, "price": 2})
    {'link': [(0, 1), (1, 0)], 'node': [(0,), (1,)]}
    >>> facts(graph, {"road": 2})
    Traceback (most recent call last):
        ...
    ValueError: a network fills link(src, dst), link(src, dst, cost) or node(n), but the program has only road/2
    >>> facts(graph, {"isTriggered": 1})
    Traceback (most recent call last):
        ...
    ValueError: the relation isTriggered is about sensors, and this network has none: use a sensor grid
    """
    result: dict[str, list[tuple[Any, ...]]] = {}
    for name, columns in sorted(relations.items()):
        if name in LINKS:
            result[name] = _link_facts(graph, name, columns)
        elif name == "node":
            _expect(name, columns, 1)
            result[name] = [(node,) for node in sorted(graph)]
        elif name in SENSORS:
            _expect(name, columns, SENSORS[name])
            result[name] = _sensor_facts(graph, name)
    if not result:
        known = ", ".join(f"{name}/{columns}" for name, columns in sorted(relations.items())) or "no base relations"
        only = "only " if relations else ""
        shape = ("sensor(id, position), mainSensorInRegion(region, id) or isTriggered(id)" if has_sensors(graph)
                 else "link(src, dst), link(src, dst, cost) or node(n)")
        raise ValueError(f"a network fills {shape}, but the program has {only}{known}")
    return result


def labelled(graph: nx.Graph) -> nx.Graph:
    """The same network with strings for nodes: their `label` attributes if all differ, otherwise their names.

    >>> graph = nx.path_graph(2)
    >>> sorted(labelled(graph))
    ['0', '1']
    >>> nx.set_node_attributes(graph, {0: "rome", 1: "oslo"}, "label")
    >>> sorted(labelled(graph).edges)
    [('rome', 'oslo')]
    """
    labels = {node: label for node, label in graph.nodes(data="label") if label}
    if len(set(labels.values())) < len(graph):
        labels = {node: node for node in graph}
    return nx.relabel_nodes(graph, {node: str(label) for node, label in labels.items()}, copy=True)


def link_relation(relations: Mapping[str, int]) -> tuple[str, int] | None:
    """The relation that holds the links, with its number of columns, or None.

    >>> link_relation({"node": 1, "edge": 3})
    ('edge', 3)
    """
    return next(((name, relations[name]) for name in LINKS if name in relations), None)


def sensor_relations(relations: Mapping[str, int]) -> list[str]:
    """Those of the sensor relations that a program has.

    >>> sensor_relations({"isTriggered": 1, "link": 2})
    ['isTriggered']
    """
    return [name for name in SENSORS if name in relations]


def has_sensors(graph: nx.Graph) -> bool:
    """Whether a network is a sensor grid.

    >>> has_sensors(nx.path_graph(2))
    False
    """
    return "regions" in graph.graph


def _expect(name: str, columns: int, wanted: int) -> None:
    if columns != wanted:
        raise ValueError(f"the relation {name} is filled with {wanted} columns, but the program's has {columns}")


def _link_facts(graph: nx.Graph, name: str, columns: int) -> list[tuple[Any, ...]]:
    if columns == 2:
        return list(pairs(graph))
    if columns == 3:
        return list(links(graph))
    raise ValueError(f"the relation {name} is filled with two columns (src, dst) or three (src, dst, cost), "
                     f"but the program's has {columns}")


def _sensor_facts(graph: nx.Graph, name: str) -> list[tuple[Any, ...]]:
    if not has_sensors(graph):
        raise ValueError(f"the relation {name} is about sensors, and this network has none: use a sensor grid")
    if name == "sensor":
        return [(node, tuple(position)) for node, position in sorted(graph.nodes(data="pos"))]
    if name == "mainSensorInRegion":
        return sorted(graph.graph["regions"].items())
    return [(node,) for node, triggered in sorted(graph.nodes(data="triggered")) if triggered]
