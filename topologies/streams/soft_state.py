"""Soft state: facts live as long as they are refreshed, and expire when they fall silent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import networkx as nx

from topologies.streams.board import Switch, switches
from topologies.streams.failures import needed
from topologies.streams.step import Operation, Step, Steps

__all__ = ["refreshes"]


def refreshes(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    directed: bool = False,
    ttl: float = 30.0,
    period: float | None = None,
    silent: float = 0.02,
) -> Steps:
    """Rounds of refreshes, one step every `period` (a third of the `ttl` by default), for ever.

    In each round every link that is alive is inserted again, except that it falls silent with the probability `silent`.
    A silent link expires when the `ttl` has passed since its last refresh; the program's relation has to be declared
    with that `ttl`, since nothing is deleted here. When it has expired, it returns with even odds in each round.

    >>> from itertools import islice
    >>> for step in islice(refreshes(nx.cycle_graph(9), {"link": 2}, ttl=30, silent=0.2, seed=3), 5):
    ...     print(step.time, step.about)
    10.0 7 links refreshed, 2 fall silent
    20.0 6 links refreshed, 1 falls silent
    30.0 5 links refreshed, 1 falls silent, 2 expired
    40.0 4 links refreshed, 1 falls silent, 1 expired
    50.0 4 links refreshed, 1 expired
    """
    if not ttl > 0:
        raise ValueError(f"a ttl is a time greater than 0, got {ttl}")
    gap = ttl / 3 if period is None else period
    if not 0 < gap < ttl:
        raise ValueError(f"refreshes have to come more often than facts expire: 0 < period < {ttl}, got {gap}")
    if not 0 <= silent <= 1:
        raise ValueError(f"silent is a share between 0 and 1, got {silent}")
    every = needed([switch for switch in switches(graph, relations, directed) if switch.on])
    noun = every[0].name.split()[0]

    def draw() -> Iterator[Step]:
        rng = random.Random(seed)
        alive: list[Switch] = list(every)
        quiet: dict[Switch, float] = {}  # those that fell silent, with their last refresh
        gone: list[Switch] = []
        number = 0
        while True:
            number += 1
            now, before = number * gap, (number - 1) * gap
            expired = [switch for switch, last in quiet.items() if last + ttl <= now]
            returning = [switch for switch in gone if rng.random() < 0.5]
            falling = [switch for switch in alive if rng.random() < silent]
            alive = [switch for switch in alive if switch not in falling] + returning
            gone = [switch for switch in gone if switch not in returning] + expired
            quiet = {switch: last for switch, last in quiet.items() if switch not in expired}
            quiet |= dict.fromkeys(falling, before)
            operations: list[Operation] = []
            for switch in alive:
                operations += switch.insert()
            about = [_count(len(alive), noun) + " refreshed"]
            about += [f"{len(falling)} {'falls' if len(falling) == 1 else 'fall'} silent"] if falling else []
            about += [f"{len(expired)} expired"] if expired else []
            about += [f"{len(returning)} {'returns' if len(returning) == 1 else 'return'}"] if returning else []
            yield Step(now, tuple(operations), ", ".join(about))

    return Steps(draw)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
