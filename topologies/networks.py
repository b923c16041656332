"""A network by its name or from a file: what a command takes as `--topology`."""

from __future__ import annotations

import os
from pathlib import Path

import networkx as nx

from topologies.density import dense, shape_for, sparse, with_links
from topologies.flat import Seed, generator
from topologies.formats import READERS, read
from topologies.presets import PRESETS
from topologies.sensors import sensor_grid
from topologies.transit_stub import transit_stub

__all__ = ["DENSITIES", "NETWORKS", "network"]

DENSITIES = {"dense": 4, "sparse": 2}
"""Links a node of the two densities (an edge is two links)."""

SIZED = {"transit-stub": "a transit-stub network", "dense": "four links a node", "sparse": "two links a node",
         "sensor-grid": "sensors on a field of 100 x 100 m"}

NETWORKS = (*PRESETS, *SIZED)
"""The names that `network` knows."""


def network(
    name_or_path: str | os.PathLike[str], *, density: str | None = None, nodes: int | None = None, seed: Seed = 0
) -> nx.Graph:
    """A network by name ("ts20", "ts100", "ts600", "ts1000", "transit-stub", "dense", "sparse", "sensor-grid"), or the
    one in a file (`.graphml`, `.gb`, `.alt`, or a table of links, `.csv` or `.tsv`).

    `density` ("dense": four links a node, "sparse": two) adds or takes away links of a transit-stub network. `nodes`
    is for the last four names; their default is 100.

    >>> graph = network("ts100", density="sparse", seed=1)
    >>> len(graph), graph.number_of_edges()
    (100, 100)
    >>> network("ts99")
    Traceback (most recent call last):
        ...
    ValueError: unknown network 'ts99': choose ts20, ts100, ts600, ts1000, transit-stub, dense, sparse, sensor-grid \
or a file that ends in .alt, .csv, .gb, .graphml, .tsv
    """
    name = os.fspath(name_or_path)
    if density is not None and density not in DENSITIES:
        raise ValueError(f"unknown density {density!r}: choose {' or '.join(DENSITIES)}")
    rng = generator(seed)
    if name in NETWORKS:
        graph = _by_name(name, nodes, rng)
    elif Path(name).suffix.lower() in READERS:
        if nodes is not None:
            raise ValueError(f"the number of nodes is given by the file {name}, it cannot be chosen")
        graph = read(name)
    else:
        raise ValueError(f"unknown network {name!r}: choose {', '.join(NETWORKS)} or a file that ends in "
                         f"{', '.join(sorted(READERS))}")
    if density is None:
        return graph
    if any(domain is None for _, domain in graph.nodes(data="domain")):
        raise ValueError(f"only a transit-stub network can be made {density}, and {name} is none")
    return with_links(graph, min(DENSITIES[density] * len(graph), len(graph) * (len(graph) - 1)), rng)


def _by_name(name: str, nodes: int | None, rng: Seed) -> nx.Graph:
    if name in PRESETS:
        if nodes is not None:
            raise ValueError(f"{name} has a fixed number of nodes: choose {', '.join(SIZED)} to have {nodes}")
        return PRESETS[name](rng)
    if name == "sensor-grid":
        return sensor_grid(nodes, seeds=min(5, 100 if nodes is None else nodes), seed=rng)
    count = 100 if nodes is None else nodes
    if name == "transit-stub":
        shape = shape_for(count)
        return transit_stub(shape.transit_domains, shape.transit_nodes, shape.stubs, shape.stub_nodes, seed=rng)
    return (dense if name == "dense" else sparse)(count, seed=rng)
