"""Where to draw the nodes of a network."""

from __future__ import annotations

import math
import statistics
from contextlib import suppress
from typing import Any

import networkx as nx

__all__ = ["positions"]

Point = tuple[float, float]

SEED = 1
INNER = 0.42
"""How far from the middle transit nodes are drawn; stubs are drawn around 1."""


def positions(graph: nx.Graph) -> dict[Any, Point]:
    """A point for each node, the same every time.

    A transit-stub network is drawn as what it is: transit nodes in the middle, each stub a small ring outside of the
    transit node that it hangs on. (The generator's own positions put the domains on top of each other.) Other networks
    are drawn by `pos`, by longitude and latitude, or, where nodes have neither, by springs.

    >>> import topologies
    >>> points = positions(topologies.ts20(seed=1))
    >>> len(set(points.values()))
    20
    >>> positions(topologies.sensor_grid(4, seeds=1, seed=1))["s2"]
    (75.0, 25.0)
    """
    for found in (_by_domains(graph), _by_attribute(graph)):
        if found is not None:
            return found
    points = nx.spring_layout(graph, seed=SEED) if len(graph) < 500 else nx.circular_layout(graph)
    return {node: (float(x), float(y)) for node, (x, y) in points.items()}


def _by_attribute(graph: nx.Graph) -> dict[Any, Point] | None:
    """By coordinates, if half of the nodes have some: the others go between their neighbours.

    >>> graph = nx.path_graph(3); nx.set_node_attributes(graph, {0: (0, 0), 2: (4, 2)}, "pos")
    >>> _by_attribute(graph)
    {0: (0.0, 0.0), 2: (4.0, 2.0), 1: (2.0, 1.0)}
    """
    points: dict[Any, Point] = {}
    on_globe = False
    for node, data in graph.nodes(data=True):
        point = data.get("pos") or (data.get("Longitude"), data.get("Latitude"))
        with suppress(TypeError, ValueError):
            x, y = (float(value) for value in point)
            if math.isfinite(x) and math.isfinite(y):
                points[node] = (x, y)
                on_globe = on_globe or "Latitude" in data
    if not points or len(points) < len(graph) / 2:
        return None
    if on_globe:  # a degree of longitude is shorter than one of latitude
        stretch = 1 / max(0.2, math.cos(math.radians(statistics.mean(y for _, y in points.values()))))
        points = {node: (x, y * stretch) for node, (x, y) in points.items()}
    return _filled_in(graph, points)


def _filled_in(graph: nx.Graph, points: dict[Any, Point]) -> dict[Any, Point]:
    """Points for the other nodes as well: the mean of those neighbours that have one, outwards from these."""
    waiting = [node for node in graph if node not in points]
    sides = graph.to_undirected(as_view=True)
    while waiting:
        found: dict[Any, Point] = {}
        for node in waiting:
            around = [points[other] for other in sides[node] if other in points]
            if around:
                x, y = (statistics.fmean(axis) for axis in zip(*around, strict=True))
                found[node] = (x, y) if len(around) > 1 else _aside(points, around[0], len(points) + len(found))
        if not found:  # a part of the network that is nowhere: in a row below the map
            low, left = min(y for _, y in points.values()), min(x for x, _ in points.values())
            step = (max(x for x, _ in points.values()) - left or 1.0) / (len(waiting) + 1)
            found = {node: (left + step * i, low - 2 * step) for i, node in enumerate(waiting, 1)}
        points |= found
        waiting = [node for node in waiting if node not in found]
    return points


def _aside(points: dict[Any, Point], of: Point, number: int) -> Point:
    """A point a little beside another one, in a direction of its own."""
    xs = [x for x, _ in points.values()]
    away = 0.025 * (max(xs) - min(xs) or 1.0)
    x, y = _polar(away, number * 0.381966)  # the golden angle: neighbours in number are far apart
    return of[0] + x, of[1] + y


def _by_domains(graph: nx.Graph) -> dict[Any, Point] | None:
    """By the labels that GT-ITM gives: the stub "S:0.1/2" hangs on the transit node "T:0.1"."""
    owners: dict[str, Any] = {}
    stubs: dict[str, list[Any]] = {}
    for node, data in graph.nodes(data=True):
        label, domain = str(data.get("label", "")), str(data.get("domain", ""))
        if domain.startswith("T:") and label.startswith("T:"):
            owners[label] = node
        elif domain.startswith("S:") and "/" in domain:
            stubs.setdefault(domain, []).append(node)
        else:
            return None
    under: dict[str, list[str]] = {label: [] for label in owners}
    for domain in stubs:
        owner = "T:" + domain[2:].partition("/")[0]
        if owner not in under:
            return None
        under[owner].append(domain)
    slots = sum(max(1, len(domains)) for domains in under.values())
    crowded = slots > 24
    room = 0.8 * math.pi / max(slots, 8) * (1.5 if crowded else 1.0)
    points: dict[Any, Point] = {}
    slot = 0
    for label, domains in under.items():
        width = max(1, len(domains))
        points[owners[label]] = _polar(INNER, (slot + (width - 1) / 2) / slots) if len(under) > 1 else (0.0, 0.0)
        for place, domain in enumerate(domains):
            # Two rows of rings where one would be too crowded.
            away = 1.0 + (0.3 * ((slot + place) % 2) if crowded else 0.0)
            centre = _polar(away, (slot + place) / slots)
            members = stubs[domain]
            for number, node in enumerate(members):
                x, y = _polar(room if len(members) > 1 else 0.0, number / len(members))
                points[node] = (centre[0] + x, centre[1] + y)
        slot += width
    return points


def _polar(radius: float, turn: float) -> Point:
    return radius * math.cos(2 * math.pi * turn), radius * math.sin(2 * math.pi * turn)
