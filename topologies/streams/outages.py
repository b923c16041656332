"""Many failures at once: bursts all over the network, and outages of a whole neighbourhood or domain."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx

from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.board import Board, Switch, switches
from topologies.streams.failures import needed
from topologies.streams.step import Step, Steps

__all__ = ["bursts", "outages"]


def bursts(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
    size: int = 5,
) -> Steps:
    """So many failures in one transaction, anywhere in the network, and in the next one they all recover; for ever.

    >>> from itertools import islice
    >>> [step.about for step in islice(bursts(nx.cycle_graph(9), {"link": 2}, size=4), 2)]
    ['4 links fail', '4 links recover']
    """
    if size < 1:
        raise ValueError(f"a burst has at least one failure, got {size}")
    every = needed([switch for switch in switches(graph, relations, directed) if switch.on])

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        board = Board(every)
        times = arrivals.times(rng)
        while True:
            chosen = rng.sample(board.on, min(size, len(board.on)))
            yield from _down_and_up(board, chosen, times, "")

    return Steps(draw)


def outages(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
    radius: int | None = None,
) -> Steps:
    """All links around a place fail in one transaction, and in the next one they recover; then another place, for ever.

    The place is a domain of a transit-stub network, a stub or a transit domain, with all links that have an end in it.
    With a `radius`, and in a network without domains, it is the nodes at most so many hops from some node (1 if there
    is no radius).

    >>> from itertools import islice
    >>> [step.about for step in islice(outages(nx.complete_graph(4), {"link": 2}, seed=1, radius=0), 2)]
    ['3 links around 1 fail', '3 links around 1 recover']
    """
    if radius is not None and radius < 0:
        raise ValueError(f"the radius of an outage is a number of hops, got {radius}")
    every = needed([switch for switch in switches(graph, relations, directed) if switch.on])
    # a place where nothing can fail would be a step without operations
    touched = {end for switch in every for end in switch.ends}
    places = [(name, nodes) for name, nodes in _places(graph, radius) if touched & nodes]

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        board = Board(every)
        times = arrivals.times(rng)
        while True:
            name, nodes = rng.choice(places)
            chosen = [switch for switch in every if not nodes.isdisjoint(switch.ends)]
            yield from _down_and_up(board, chosen, times, f" {name}")

    return Steps(draw)


def _places(graph: nx.Graph, radius: int | None) -> list[tuple[str, set[Any]]]:
    """Every place where an outage can be: its name and its nodes."""
    domains: dict[str, set[Any]] = {}
    for node, domain in graph.nodes(data="domain"):
        domains.setdefault(domain, set()).add(node)
    if radius is None and None not in domains:
        return [(f"of {domain}", nodes) for domain, nodes in sorted(domains.items())]
    whole = graph.to_undirected(as_view=True)
    hops = 1 if radius is None else radius
    return [
        (f"around {node}", set(nx.single_source_shortest_path_length(whole, node, cutoff=hops)))
        for node in sorted(graph)
    ]


def _down_and_up(board: Board, chosen: list[Switch], times: Iterator[float], where: str) -> Iterator[Step]:
    noun = f"{len(chosen)} {chosen[0].name.split()[0]}{'s' if len(chosen) > 1 else ''}{where}"
    fail, recover = ({"fails": "fail", "recovers": "recover"}.get(verb, verb.replace("is ", "are "))
                     if len(chosen) > 1 else verb for verb in chosen[0].verbs)
    yield Step(next(times), tuple(board.turn_off(*chosen)), f"{noun} {fail}")
    yield Step(next(times), tuple(board.turn_on(*chosen)), f"{noun} {recover}")
