"""A fire front that crosses a field of sensors: they are triggered as it comes, and burn out behind it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping

import networkx as nx

from topologies.facts import facts, has_sensors
from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.step import Operation, Step, Steps

__all__ = ["fire_front"]


def fire_front(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    depth: float = 25.0,
    advance: float = 5.0,
) -> Steps:
    """A straight front comes over the field from a random direction, moving on by `advance` metres each step.

    It triggers the sensors that it reaches; `depth` metres behind it they have burnt out and are released for good. A
    sensor that was triggered before the fire came stays so until it has burnt out. When all have, the stream ends; a
    step in which no sensor changes is left out.

    >>> from topologies.sensors import sensor_grid
    >>> grid = sensor_grid(seed=1, triggered=0)
    >>> steps = list(fire_front(grid, {"isTriggered": 1}, seed=1))
    >>> steps[0].about, steps[-1].about
    ('the fire reaches 1 sensor', '1 sensor has burnt out')
    """
    if "isTriggered" not in relations or not has_sensors(graph):
        raise ValueError("a fire needs a sensor grid, and a program with a relation isTriggered with one column")
    for name, metres in (("depth", depth), ("advance", advance)):
        if not metres > 0:
            raise ValueError(f"{name} must be greater than 0 m, got {metres}")
    burning_at_first = {row[0] for row in facts(graph, {"isTriggered": relations["isTriggered"]})["isTriggered"]}

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        angle = rng.uniform(0, 2 * math.pi)
        along = {node: x * math.cos(angle) + y * math.sin(angle) for node, (x, y) in graph.nodes(data="pos")}
        waiting = sorted(graph, key=lambda node: (along[node], node), reverse=True)
        triggered = set(burning_at_first)
        burning: list[str] = []
        front = along[waiting[-1]] - advance if waiting else 0.0
        times = arrivals.times(rng)
        while waiting or burning:
            time = next(times)
            front += advance
            reached = []
            while waiting and along[waiting[-1]] <= front:
                reached.append(waiting.pop())
            burnt = [node for node in burning + reached if along[node] <= front - depth]
            burning = [node for node in burning + reached if along[node] > front - depth]
            lit = [node for node in reached if node not in triggered and node in burning]
            out = [node for node in burnt if node in triggered]
            triggered = (triggered | set(lit)) - set(out)
            operations: list[Operation] = [("+", "isTriggered", (node,)) for node in sorted(lit)]
            operations += [("-", "isTriggered", (node,)) for node in sorted(out)]
            if operations:
                yield Step(time, tuple(operations), _about(len(lit), len(out)))

    return Steps(draw)


def _about(lit: int, out: int) -> str:
    parts = [f"the fire reaches {lit} sensor{'s' if lit > 1 else ''}"] if lit else []
    parts += [f"{out} sensor{'s have' if out > 1 else ' has'} burnt out"] if out else []
    return ", ".join(parts)
