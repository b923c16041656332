"""A network that comes up piece by piece: its links (or triggers) inserted in fractions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import networkx as nx

from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.board import switches
from topologies.streams.step import Operation, Step, Steps

__all__ = ["FRACTIONS", "insertion"]

FRACTIONS = (0.5, 0.75, 1.0)
"""The insertion ratios at which the absorption paper's figures 7 and 9 measure."""


def insertion(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
    fractions: Sequence[float] = FRACTIONS,
) -> Steps:
    """The links of a network in random order, inserted up to each of the fractions in one transaction.

    It starts without any. Of a sensor grid, the sensors that are triggered are inserted. A fraction that adds nothing,
    in a very small network, is left out.

    >>> for step in insertion(nx.cycle_graph(8), {"link": 2}):
    ...     print(step.about, len(step.operations))
    4 of 8 links inserted (50%) 8
    6 of 8 links inserted (75%) 4
    8 of 8 links inserted (100%) 4
    >>> insertion(nx.cycle_graph(8), {"link": 2}, fractions=(0.5, 0.4))
    Traceback (most recent call last):
        ...
    ValueError: fractions have to grow, from above 0 to at most 1, got 0.5, 0.4
    """
    if not fractions or list(fractions) != sorted(set(fractions)) or not 0 < fractions[0] <= fractions[-1] <= 1:
        raise ValueError(f"fractions have to grow, from above 0 to at most 1, got {', '.join(map(str, fractions))}")
    every = [switch for switch in switches(graph, relations, directed) if switch.on]
    noun = every[0].name.split()[0] if every else "link"

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        order = rng.sample(every, len(every))
        done = 0
        for time, fraction in zip(arrivals.times(rng), fractions, strict=False):
            end = round(fraction * len(order))
            operations: list[Operation] = []
            for switch in order[done:end]:
                operations += switch.insert()
            if operations:
                yield Step(time, tuple(operations), f"{end} of {len(order)} {noun}s inserted ({fraction:.0%})")
            done = end

    return Steps(draw)
