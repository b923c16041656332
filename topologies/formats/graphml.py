"""GraphML, read through networkx and made usable for real maps such as those of the Topology Zoo."""

from __future__ import annotations

import io
import math
from collections import Counter
from contextlib import suppress
from typing import Any
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import ExpatError, ParserCreate

import networkx as nx

from topologies.formats.problems import FormatProblem

__all__ = ["ATTRIBUTES", "KM_PER_MS", "kilometres", "parse_graphml"]

ATTRIBUTES = ("latency", "weight", "LinkLabel")
"""Edge attributes that may hold the latency, the first that all edges have as a number greater than 0 is taken."""

KM_PER_MS = 200
"""How far light gets in a glass fibre in a millisecond, about: two thirds of its speed in empty space."""

_NEEDED = {"node": ("id",), "edge": ("source", "target")}


def parse_graphml(data: bytes, name: str = "<graphml>") -> nx.Graph:
    """The network in a GraphML file; `name` is for messages.

    Several edges between two nodes become one, that with the least latency; loops are dropped. A directed graph in
    which every edge has its opposite with the same latency becomes undirected, any other stays directed. Nodes are
    named by their `label`; where several share one, their ids are added ("Paris #12"); without labels the ids are the
    names.

    Every edge gets a `latency`: from the first of `latency`, `weight` and `LinkLabel` that all edges have as a
    number greater than 0; or else from `Latitude` and `Longitude` of its ends, as great-circle distance in fibre, in
    whole milliseconds and at least 1 (the distance in km is its `length` then); or else it is 1. Nodes with coordinates
    have them as `pos` (longitude, latitude), so that a drawing looks like the map.

    >>> file = io.BytesIO(); graph = nx.Graph()
    >>> graph.add_node("n0", label="Oslo", Latitude=59.9, Longitude=10.7)
    >>> graph.add_node("n1", label="Rome", Latitude=41.9, Longitude=12.5)
    >>> graph.add_edge("n0", "n1"); nx.write_graphml(graph, file)
    >>> list(parse_graphml(file.getvalue()).edges(data=True))
    [('Oslo', 'Rome', {'length': 2005, 'latency': 10})]
    >>> parse_graphml(b"<graphml><graph>", "map.graphml")
    Traceback (most recent call last):
        ...
    topologies.formats.problems.FormatProblem: map.graphml:1: not valid XML: no element found
    """
    raw = _read(data, name)
    names = _names(raw)
    arcs: dict[tuple[str, str], dict[str, Any]] = {}
    attribute = next((key for key in ATTRIBUTES if raw.number_of_edges() and all(
        _number(values.get(key)) is not None for *_, values in raw.edges(data=True))), None)
    for a, b, values in raw.edges(data=True):
        if a == b:
            continue
        known = {key: value for key, value in values.items() if key != "id"}
        known |= _latency(raw.nodes[a], raw.nodes[b], None if attribute is None else _number(values[attribute]))
        ends = (names[a], names[b]) if raw.is_directed() else (min(names[a], names[b]), max(names[a], names[b]))
        if ends not in arcs or known["latency"] < arcs[ends]["latency"]:
            arcs[ends] = known
    both = not raw.is_directed() or all(
        (b, a) in arcs and arcs[b, a]["latency"] == known["latency"] for (a, b), known in arcs.items())
    graph = nx.Graph() if both else nx.DiGraph()
    graph.graph["id"] = str(raw.graph.get("Network") or raw.graph.get("name") or raw.graph.get("label") or "")
    for node, values in raw.nodes(data=True):
        place = _place(values)
        graph.add_node(names[node], **({"label": names[node]} | ({} if place is None else {"pos": place[::-1]})))
    for (a, b), known in sorted(arcs.items()):
        if not (both and graph.has_edge(a, b)):
            graph.add_edge(a, b, **known)
    return graph


def kilometres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The great-circle distance of two places, each a latitude and a longitude in degrees.

    >>> round(kilometres((0, 0), (0, 90)))  # a quarter of the equator
    10008
    """
    (lat1, lon1), (lat2, lon2) = (tuple(map(math.radians, place)) for place in (one, other))
    chord = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371 * math.asin(min(1.0, math.sqrt(chord)))


def _check_ends(data: bytes, name: str) -> None:
    """Refuse a node without an id and an edge without an end, of which networkx makes a node called None."""
    parser = ParserCreate(namespace_separator=" ")

    def check(element: str, attributes: dict[str, str]) -> None:
        kind = element.rpartition(" ")[2]
        for attribute in _NEEDED.get(kind, ()):
            if not attributes.get(attribute):
                raise FormatProblem(name, parser.CurrentLineNumber, f"this {kind} has no {attribute}")

    parser.StartElementHandler = check
    with suppress(ExpatError):  # what is no XML is said by who reads it
        parser.Parse(data, True)


def _read(data: bytes, name: str) -> nx.Graph:
    _check_ends(data, name)
    try:
        return nx.read_graphml(io.BytesIO(data))
    except ParseError as error:
        raise FormatProblem(name, error.position[0], f"not valid XML: {str(error).split(':')[0]}") from None
    except (nx.NetworkXError, KeyError, ValueError, TypeError, StopIteration) as error:
        raise FormatProblem(name, None, f"no GraphML that can be read: {error or type(error).__name__}") from None


def _names(raw: nx.Graph) -> dict[str, str]:
    labels = {node: str(label).strip() for node, label in raw.nodes(data="label") if label is not None}
    shared = Counter(labels.values())
    names = {
        node: str(node) if not labels.get(node)
        else labels[node] if shared[labels[node]] == 1
        else f"{labels[node]} #{node}"
        for node in raw
    }
    return names if len(set(names.values())) == len(names) else {node: str(node) for node in raw}


def _number(value: Any) -> int | float | None:
    """A number greater than 0, also if it is written as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if not 0 < number < math.inf:
        return None
    return int(number) if number.is_integer() else number


def _place(values: dict[str, Any]) -> tuple[float, float] | None:
    try:
        latitude, longitude = float(values["Latitude"]), float(values["Longitude"])
    except (KeyError, TypeError, ValueError):
        return None
    return (latitude, longitude) if -90 <= latitude <= 90 and -360 <= longitude <= 360 else None


def _latency(one: dict[str, Any], other: dict[str, Any], given: int | float | None) -> dict[str, Any]:
    """The latency of an edge, and its length if the ends have places."""
    here, there = _place(one), _place(other)
    if here is None or there is None:
        return {"latency": 1 if given is None else given}
    distance = kilometres(here, there)
    return {"length": max(1, round(distance)),
            "latency": max(1, round(distance / KM_PER_MS)) if given is None else given}
