"""Failures and recoveries mixed, and links that flap."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import networkx as nx

from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.board import Board, switches
from topologies.streams.failures import needed
from topologies.streams.step import Step, Steps

__all__ = ["churn", "flapping"]


def churn(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
    down: float = 0.1,
) -> Steps:
    """Failures and recoveries for ever, such that in the long run about the share `down` is down.

    Every link that is up fails at the same rate, every link that is down recovers at the same rate, and the two rates
    are as `down` to `1 - down`. A step is one failure or one recovery.

    >>> from itertools import islice
    >>> steps = list(islice(churn(nx.cycle_graph(9), {"link": 2}, down=0.5), 100))
    >>> sorted({step.about.split()[-1] for step in steps})
    ['fails', 'recovers']
    """
    if not 0 < down < 1:
        raise ValueError(f"down is a share between 0 and 1, got {down}")
    every = needed(switches(graph, relations, directed))

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        board = Board(every)
        for time in arrivals.times(rng):
            failing, recovering = len(board.on) * down, len(board.off) * (1 - down)
            if rng.random() * (failing + recovering) < failing:
                switch = rng.choice(board.on)
                yield Step(time, tuple(board.turn_off(switch)), f"{switch.name} {switch.verbs[0]}")
            else:
                switch = rng.choice(board.off)
                yield Step(time, tuple(board.turn_on(switch)), f"{switch.name} {switch.verbs[1]}")

    return Steps(draw)


def flapping(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
    links: int = 3,
) -> Steps:
    """A few links that go down and come back again and again, for ever, while all others stay as they are.

    Each step, one of the flapping `links` changes over. If there are not so many, all of them flap.

    >>> from itertools import islice
    >>> [step.about for step in islice(flapping(nx.path_graph(3), {"link": 2}, links=1), 3)]
    ['link 1 - 2 fails', 'link 1 - 2 recovers', 'link 1 - 2 fails']
    """
    if links < 1:
        raise ValueError(f"at least one link has to flap, got {links}")
    every = needed(switches(graph, relations, directed))

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        board = Board(every)
        chosen = rng.sample(every, min(links, len(every)))
        for time in arrivals.times(rng):
            switch = rng.choice(chosen)
            if switch in board.on:
                yield Step(time, tuple(board.turn_off(switch)), f"{switch.name} {switch.verbs[0]}")
            else:
                yield Step(time, tuple(board.turn_on(switch)), f"{switch.name} {switch.verbs[1]}")

    return Steps(draw)
