"""A scenario: a network by its name, its facts for a program, and a stream of changes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datalog
from datalog.errors import UsageProblem
from datalog.report import suggestion

if TYPE_CHECKING:
    import networkx as nx

    from topologies import Workload

__all__ = ["STEPS", "Scenario", "scenario"]

STEPS = 20
"""Steps of a stream, unless the caller says otherwise."""

_SENSORS = ("sensor", "isTriggered")
_NODES = ("link", "edge", "node")
"""Relations whose first column holds a node."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A network under change, for one program. `title` says in a line what it is."""

    title: str
    graph: nx.Graph
    workload: Workload


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
) -> Scenario:
    """A network for a checked program, and changes to it.

    `topology` is one of `topologies.NETWORKS` or a file with a network; by default a sensor grid if the program is
    about sensors, and `ts100` otherwise. `workload` is one of `topologies.WORKLOADS`; by default sensors that are
    triggered and released on a sensor grid, and links that fail otherwise. `facts` are loaded together with the
    network's own.

    >>> program = datalog.check(datalog.parse("r(x, y) :- link(x, y). r(x, y) :- link(x, z), r(z, y)."))
    >>> found = scenario(program, topology="ts20", steps=1, seed=1)
    >>> found.title
    'ts20 (20 nodes, ... edges), failures, 1 step, seed 1'
    >>> [len(step.operations) for step in found.workload.steps]
    [2]
    """
    import topologies

    relations = {name: program.relations[name].arity for name in sorted(program.base)}
    if topology is None:
        topology = "sensor-grid" if any(name in relations for name in _SENSORS) else "ts100"
    graph = _network(topology, density, nodes, seed)
    if any(program.relations[n].columns[0].type == "symbol" for n in _NODES if relations.get(n)):
        graph = topologies.labelled(graph)
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
        loaded = {name: [tuple(row) for row in rows] for name, rows in (facts or {}).items()}
        for name, rows in found.facts.items():
            loaded.setdefault(name, []).extend(rows)
        # Drawn once, so that all strategies see the same and its length is known.
        stream = list(found.steps)
    except ValueError as error:
        raise UsageProblem(str(error)) from None
    shape = ", ".join(filter(None, (density, f"{len(graph)} nodes", f"{graph.number_of_edges()} edges")))
    count = f"{len(stream)} step{'' if len(stream) == 1 else 's'}"
    title = f"{Path(topology).name} ({shape}), {workload}, {count}, seed {seed}"
    return Scenario(title, graph, topologies.Workload(loaded, stream))


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
