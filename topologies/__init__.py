"""Networks as networkx graphs, seeded, and streams of changes to them; nothing here knows of Datalog.

>>> import topologies
>>> graph = topologies.dense(100, links=394, seed=1)
>>> len(topologies.pairs(graph))
394
>>> load = topologies.workload("failures", graph, {"link": 2}, steps=3, seed=1)
>>> [len(step.operations) for step in load.steps]
[2, 2, 2]
"""

from topologies.density import dense, shape_for, sparse, with_links
from topologies.edges import LATENCY
from topologies.facts import facts, labelled
from topologies.flat import EdgeMethod, flat_random
from topologies.formats import FormatProblem, read, write
from topologies.latency import jitter
from topologies.links import links, network_of, pairs
from topologies.networks import DENSITIES, NETWORKS, network
from topologies.order_book import order_book
from topologies.presets import PRESETS, ts20, ts100, ts600, ts1000
from topologies.rmat import rmat
from topologies.sensors import sensor_grid
from topologies.streams import Arrivals, Operation, Step, Steps, Workload, exponential, heavy_tailed, write_script
from topologies.transit_stub import Shape, transit_stub
from topologies.workloads import WORKLOADS, workload

__all__ = [
    "DENSITIES",
    "LATENCY",
    "NETWORKS",
    "PRESETS",
    "WORKLOADS",
    "Arrivals",
    "EdgeMethod",
    "FormatProblem",
    "Operation",
    "Shape",
    "Step",
    "Steps",
    "Workload",
    "dense",
    "exponential",
    "facts",
    "flat_random",
    "heavy_tailed",
    "jitter",
    "labelled",
    "links",
    "network",
    "network_of",
    "order_book",
    "pairs",
    "read",
    "rmat",
    "sensor_grid",
    "shape_for",
    "sparse",
    "transit_stub",
    "ts20",
    "ts100",
    "ts600",
    "ts1000",
    "with_links",
    "workload",
    "write",
    "write_script",
]
