"""Workloads by name: a network's facts, and a stream of changes to them, for the relations that a program has."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import networkx as nx

from topologies import streams
from topologies.facts import facts, has_sensors, link_relation
from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.step import Steps, Workload

__all__ = ["WORKLOADS", "Kind", "workload"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A workload: what happens, the stream that does it, what it `needs` of program and network, if it ever ends."""

    about: str
    stream: Callable[..., Steps]
    needs: str
    ends: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The options that `workload` passes on to the stream, beside the seed."""
        parameters = inspect.signature(self.stream).parameters.values()
        return tuple(sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "seed"))


_SWITCHES = "a relation link with two or three columns (or, on a sensor grid, isTriggered with one)"
_COSTS = "a relation link with three columns"
_SENSORS = "a sensor grid and a relation isTriggered with one column"

WORKLOADS: Mapping[str, Kind] = MappingProxyType({
    "failures": Kind("links fail one after the other, for good", streams.sequence, _SWITCHES, ends=True),
    "recoveries": Kind("a link fails and recovers, then the next", streams.isolated, _SWITCHES),
    "churn": Kind("failures and recoveries mixed", streams.churn, _SWITCHES),
    "bursts": Kind("several links fail at once, and recover at once", streams.bursts, _SWITCHES),
    "outages": Kind("all links around a place or of a domain fail, and recover", streams.outages, _SWITCHES),
    "flapping": Kind("a few links go down and up again and again", streams.flapping, _SWITCHES),
    "insert": Kind("an empty network whose links are inserted in fractions", streams.insertion, _SWITCHES, ends=True),
    "costs": Kind("the costs of links change", streams.cost_changes, _COSTS),
    "ttl": Kind("links are refreshed, fall silent, expire and return", streams.refreshes, _SWITCHES),
    "sensors": Kind("sensors are triggered and released", streams.triggers, _SENSORS),
    "fire": Kind("a fire front crosses a field of sensors", streams.fire_front, _SENSORS, ends=True),
})
"""The workloads by name, for commands that take a name."""


def workload(
    name: str,
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    steps: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Workload:
    """The facts of a network for a program with these base relations (name to number of columns), and changes to them.

    At most so many `steps`; those that end by themselves (`failures`, `insert`, `fire`) may go without a limit.
    `insert` splits the network into so many equal steps, or into the paper's fractions without a number. `options` go
    to the stream: see `WORKLOADS[name].options` and the functions in `topologies.streams`.

    >>> graph = nx.path_graph(3)
    >>> load = workload("failures", graph, {"link": 2}, steps=1, seed=1)
    >>> load.facts
    {'link': [(0, 1), (1, 0), (1, 2), (2, 1)]}
    >>> [(step.about, step.operations) for step in load.steps]
    [('link 0 - 1 fails', (('-', 'link', (0, 1)), ('-', 'link', (1, 0))))]
    >>> workload("costs", graph, {"link": 2}, steps=1)
    Traceback (most recent call last):
        ...
    ValueError: the workload 'costs' needs a relation link with three columns, and the program has link/2
    """
    kind = WORKLOADS.get(name)
    if kind is None:
        raise ValueError(f"unknown workload {name!r}: choose {', '.join(WORKLOADS)}")
    for option in sorted(options):
        if option not in kind.options:
            raise ValueError(f"the workload {name!r} has no option {option!r}; it has: {', '.join(kind.options)}")
    if steps is not None and steps < 0:
        raise ValueError(f"the number of steps must not be negative, got {steps}")
    if steps is None and not kind.ends:
        raise ValueError(f"the workload {name!r} never ends by itself: say how many steps to take")
    if not isinstance(options.get("arrivals", EVERY_SECOND), Arrivals):
        raise ValueError(f"arrivals must be topologies.Arrivals, got {options['arrivals']!r}")
    _check(name, kind, graph, relations)
    loaded = facts(graph, relations)
    if name == "insert":
        changed = link_relation(relations)
        loaded["isTriggered" if changed is None else changed[0]] = []
        if steps and "fractions" not in options:
            options["fractions"] = [number / steps for number in range(1, steps + 1)]
    if name == "fire" and steps and not {"advance", "depth"} & options.keys():
        # the front has to cross the field and its own depth in so many steps, whatever its direction
        options["advance"] = max(1.0, (graph.graph["field"] * math.sqrt(2) + 25) / steps)
    stream = kind.stream(graph, relations, seed=seed, **options)
    return Workload(loaded, Steps(stream.draw, steps))


def _check(name: str, kind: Kind, graph: nx.Graph, relations: Mapping[str, int]) -> None:
    """What a stream would say in its own words is said here with the name of the workload."""
    found = link_relation(relations)
    columns = None if found is None else found[1]
    triggers = relations.get("isTriggered") == 1 and has_sensors(graph)
    fits = {_SWITCHES: columns in (2, 3) or (columns is None and triggers), _COSTS: columns == 3, _SENSORS: triggers}
    if not fits[kind.needs]:
        known = ", ".join(f"{relation}/{count}" for relation, count in sorted(relations.items())) or "no base relations"
        grid = "" if has_sensors(graph) or kind.needs != _SENSORS else "; the network has no sensors"
        raise ValueError(f"the workload {name!r} needs {kind.needs}, and the program has {known}{grid}")
