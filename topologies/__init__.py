"""Seeded generators of networks, as networkx graphs; they know nothing of Datalog.

>>> import topologies
>>> graph = topologies.dense(100, links=394, seed=1)
>>> len(topologies.pairs(graph))
394
"""

from topologies.density import dense, shape_for, sparse, with_links
from topologies.edges import LATENCY
from topologies.flat import EdgeMethod, flat_random
from topologies.links import links, pairs
from topologies.presets import PRESETS, ts20, ts100, ts600, ts1000
from topologies.transit_stub import Shape, transit_stub

__all__ = [
    "LATENCY",
    "PRESETS",
    "EdgeMethod",
    "Shape",
    "dense",
    "flat_random",
    "links",
    "pairs",
    "shape_for",
    "sparse",
    "transit_stub",
    "ts20",
    "ts100",
    "ts600",
    "ts1000",
    "with_links",
]
