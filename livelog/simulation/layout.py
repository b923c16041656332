"""Where to draw the nodes of a network."""

from __future__ import annotations

import math
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
    points: dict[Any, Point] = {}
    for node, data in graph.nodes(data=True):
        point = data.get("pos", (data.get("Longitude"), data.get("Latitude")))
        try:
            x, y = (float(value) for value in point)
        except (TypeError, ValueError):
            return None
        points[node] = (x, y)
    return points


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
