"""A scenario: a network by its name, its facts for a program, and a stream of changes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datalog
from datalog.errors import UsageProblem
from datalog.report import suggestion
from livelog.simulation.chosen import chosen_failures

if TYPE_CHECKING:
    import networkx as nx

    from topologies import Workload

__all__ = ["STEPS", "Scenario", "scenario"]

Row = tuple[Any, ...]
STEPS = 20
"""Steps of a stream, unless the caller says otherwise."""

_SENSORS = ("sensor", "isTriggered")
_NODES = ("link", "edge", "node")
"""Relations whose first column holds a node."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A network under change, for one program. `title` says in a line what it is, `notes` what one should know."""

    title: str
    graph: nx.Graph
    workload: Workload
    notes: tuple[str, ...] = ()


def scenario(
    program: datalog.Program,
    *,
    topology: str | None = None,
    density: str | None = None,
    nodes: int | None = None,
    workload: str | None = None,
    steps: int | None = STEPS,
    seed: int = 0,
    facts: Mapping[str, Sequence[tuple[Any, ...]]] | None = None,
    fail: Sequence[str] = (),
) -> Scenario:
    """A network for a checked program, and changes to it.

    `topology` is one of `topologies.NETWORKS` or a file with a network; by default the links in `facts`, if there are
    any, or else a sensor grid if the program is about sensors, and `ts100` otherwise. `workload` is one of
    `topologies.WORKLOADS`; by default sensors that are triggered and released on a sensor grid, and links that fail
    otherwise. `fail` are failures that somebody chose, `link("a", "b")`, one after the other, in place of a workload.
    `facts` are loaded together with the network's own.

    >>> program = datalog.check(datalog.parse("r(x, y) :- link(x, y). r(x, y) :- link(x, z), r(z, y)."))
    >>> found = scenario(program, topology="ts20", steps=1, seed=1)
    >>> found.title
    'ts20 (20 nodes, ... edges), failures, 1 step, seed 1'
    >>> [len(step.operations) for step in found.workload.steps]
    [2]
    """
    import topologies

    relations = {name: program.relations[name].arity for name in sorted(program.base)}
    given = {name: [tuple(row) for row in rows] for name, rows in (facts or {}).items() if rows}
    own = next((name for name in ("link", "edge") if name in given and name in relations), None)
    if topology is None and own is not None and density is None and nodes is None:
        shown, graph = f"the facts of {own}", _own_network(own, given[own])
    else:
        own = None
        if topology is None:
            topology = "sensor-grid" if any(name in relations for name in _SENSORS) else "ts100"
        shown, graph = Path(topology).name, _network(topology, density, nodes, seed)
        if any(program.relations[n].columns[0].type == "symbol" for n in _NODES if relations.get(n)):
            graph = topologies.labelled(graph)
    if fail and workload is not None:
        raise UsageProblem("failures that were chosen take the place of a workload: leave one of the two out")
    if workload is None:
        workload = "sensors" if "regions" in graph.graph and "isTriggered" in relations else "failures"
    if workload not in topologies.WORKLOADS and (near := suggestion(workload, topologies.WORKLOADS)):
        raise UsageProblem(f"unknown workload {workload!r}{near}")
    options: dict[str, Any] = {}
    if workload == "ttl":
        options["ttl"] = _ttl(program, relations)
    if workload == "costs":
        # where a link has a key, another cost is an update; elsewhere the old row has to be deleted
        options["keyed"] = any(program.relations[n].key for n in ("link", "edge") if n in relations)
    try:
        found = topologies.workload(workload, graph, relations, steps=steps, seed=seed, **options)
        loaded, notes = _together(given, found.facts, own, shown)
        # Drawn once, so that all strategies see the same and its length is known.
        stream = chosen_failures(fail, program, loaded, graph) if fail else list(found.steps)
    except ValueError as error:
        raise UsageProblem(str(error)) from None
    shape = ", ".join(filter(None, (density, f"{len(graph)} nodes", f"{graph.number_of_edges()} edges")))
    count = f"{len(stream)} {'chosen failure' if fail else 'step'}{'' if len(stream) == 1 else 's'}"
    title = f"{shown} ({shape}), {count}" if fail else f"{shown} ({shape}), {workload}, {count}, seed {seed}"
    return Scenario(title, graph, topologies.Workload(loaded, stream), tuple(notes))


def _together(
    given: Mapping[str, list[Row]], network: Mapping[str, list[Row]], own: str | None, shown: str
) -> tuple[dict[str, list[Row]], list[str]]:
    """The facts that a person gave and those of the network, and what has to be said of relations that have both."""
    loaded = {name: list(rows) for name, rows in given.items()}
    notes = []
    for name, rows in network.items():
        if name == own:
            continue  # the network was made of them
        before = set(loaded.get(name, ()))
        if before and (more := [row for row in rows if row not in before]) and own is None:
            both = f"{len(more)} facts of the network ({shown}) beside the {len(before)} that were given"
            notes.append(f"`{name}` has {both}")
        loaded[name] = [*loaded.get(name, ()), *(row for row in rows if row not in before)]
    return loaded, notes


def _own_network(relation: str, rows: list[Row]) -> nx.Graph:
    import topologies

    if len(rows[0]) not in (2, 3):
        raise UsageProblem(f"a network is made of link(src, dst) or link(src, dst, cost), and `{relation}` has "
                           f"{len(rows[0])} columns")  # fmt: skip
    return topologies.network_of(rows)


def _network(topology: str, density: str | None, nodes: int | None, seed: int) -> nx.Graph:
    import topologies

    if topology not in topologies.NETWORKS and not Path(topology).suffix:
        near = suggestion(topology, topologies.NETWORKS)
        if near:
            raise UsageProblem(f"unknown network {topology!r}{near}")
    try:
        return topologies.network(topology, density=density, nodes=nodes, seed=seed)
    except OSError as error:
        raise UsageProblem(f"cannot read the network {topology!r}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def _ttl(program: datalog.Program, relations: Mapping[str, int]) -> float:
    """How long the facts live that the stream has to refresh."""
    name = next((n for n in ("link", "edge", "isTriggered") if n in relations), None)
    if name is None:
        return 30.0  # the stream itself will say what it needs
    ttl = program.relations[name].ttl
    if ttl is None:
        raise UsageProblem(f"with the workload ttl facts expire, so `{name}` must be declared with one: "
                           f".decl {name}(...) ttl(30)")  # fmt: skip
    return float(ttl)
