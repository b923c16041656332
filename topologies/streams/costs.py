"""Links whose costs change: as updates of a relation with a key, or as a deletion and an insertion."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx

from topologies.facts import facts, link_relation
from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.board import switches
from topologies.streams.failures import needed
from topologies.streams.step import Operation, Step, Steps

__all__ = ["cost_changes"]


def cost_changes(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    directed: bool = False,
    keyed: bool = False,
    spread: float = 0.5,
) -> Steps:
    """Each step, one link has a new cost, in both directions unless `directed`; for ever.

    The new cost differs from the one before it and lies within the share `spread` of the one in the network; whole
    numbers stay whole, and at least 1. With `keyed`, a step only inserts: in a relation with `key(src, dst)` that
    replaces the row of the same ends. Without, it deletes the old row first, which is right for every program.

    >>> from itertools import islice
    >>> graph = nx.Graph(); graph.add_edge("a", "b", latency=10)
    >>> [step] = islice(cost_changes(graph, {"link": 3}, seed=1, keyed=True), 1)
    >>> step.about, step.operations
    ('link a - b costs 9', (('+', 'link', ('a', 'b', 9)), ('+', 'link', ('b', 'a', 9))))
    >>> [step] = islice(cost_changes(graph, {"link": 3}, seed=1, directed=True), 1)
    >>> step.operations
    (('-', 'link', ('a', 'b', 10)), ('+', 'link', ('a', 'b', 9)))
    """
    found = link_relation(relations)
    if found is None or found[1] != 3:
        raise ValueError("costs can change in a relation link with three columns (src, dst, cost) only")
    if not 0 < spread < 1:
        raise ValueError(f"spread is a share between 0 and 1, got {spread}")
    relation = found[0]
    every = needed(switches(graph, {relation: 3}, directed))
    first = {row[:2]: row[2] for row in facts(graph, {relation: 3})[relation]}

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        costs = dict(first)
        for time in arrivals.times(rng):
            switch = rng.choice(every)
            now = costs[switch.rows[0][:2]]
            new = _another(first[switch.rows[0][:2]], now, spread, rng)
            operations: list[Operation] = []
            for source, target, _ in switch.rows:
                if not keyed:
                    operations.append(("-", relation, (source, target, costs[source, target])))
                operations.append(("+", relation, (source, target, new)))
                costs[source, target] = new
            yield Step(time, tuple(operations), f"{switch.name} costs {new}")

    return Steps(draw)


def _another(base: Any, now: Any, spread: float, rng: random.Random) -> Any:
    """A cost near the base that is not the one now."""
    if not isinstance(base, int):
        return base * rng.uniform(1 - spread, 1 + spread)
    low = max(1, math.ceil(base * (1 - spread)))
    high = max(low + 1, math.floor(base * (1 + spread)))
    return rng.choice([cost for cost in range(low, high + 1) if cost != now])
