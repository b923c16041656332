"""Failures one at a time: each for good, or each followed by its recovery."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import networkx as nx

from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.board import Board, Switch, switches
from topologies.streams.step import Step, Steps

__all__ = ["isolated", "needed", "sequence"]


def sequence(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
) -> Steps:
    """Failures in sequence, in random order, without recovery, until nothing is left.

    These are the deletions of the absorption paper's section 7.2; there, each is one `link` tuple: `directed=True`.

    >>> [step.about for step in sequence(nx.path_graph(3), {"link": 2}, seed=1)]
    ['link 0 - 1 fails', 'link 1 - 2 fails']
    """
    every = switches(graph, relations, directed)

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        board = Board(every)
        for time, switch in zip(arrivals.times(rng), rng.sample(board.on, len(board.on)), strict=False):
            yield Step(time, tuple(board.turn_off(switch)), f"{switch.name} {switch.verbs[0]}")

    return Steps(draw)


def isolated(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
) -> Steps:
    """Failures in isolation, for ever: one fails, recovers in the next step, and then the next one fails.

    >>> from itertools import islice
    >>> [step.about for step in islice(isolated(nx.path_graph(2), {"link": 2}), 3)]
    ['link 0 - 1 fails', 'link 0 - 1 recovers', 'link 0 - 1 fails']
    """
    every = needed([switch for switch in switches(graph, relations, directed) if switch.on])

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        board = Board(every)
        times = arrivals.times(rng)
        while True:
            switch = rng.choice(board.on)
            yield Step(next(times), tuple(board.turn_off(switch)), f"{switch.name} {switch.verbs[0]}")
            yield Step(next(times), tuple(board.turn_on(switch)), f"{switch.name} {switch.verbs[1]}")

    return Steps(draw)


def needed(every: list[Switch]) -> list[Switch]:
    """The same list, which must not be empty: a stream that never ends has to have something to do.

    >>> needed([])
    Traceback (most recent call last):
        ...
    ValueError: the network has no link or triggered sensor that could fail
    """
    if not every:
        raise ValueError("the network has no link or triggered sensor that could fail")
    return every
