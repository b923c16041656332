"""Sensors triggered and released, one at a time."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from topologies.facts import has_sensors
from topologies.streams.arrivals import EVERY_SECOND, Arrivals
from topologies.streams.churn import churn
from topologies.streams.step import Steps

__all__ = ["triggers"]


def triggers(
    graph: nx.Graph,
    relations: Mapping[str, int],
    *,
    seed: int = 0,
    arrivals: Arrivals = EVERY_SECOND,
    triggered: float = 0.5,
) -> Steps:
    """Each step, a sensor is triggered or released, such that about the share `triggered` is triggered; for ever.

    >>> from itertools import islice
    >>> from topologies.sensors import sensor_grid
    >>> [step] = islice(triggers(sensor_grid(seed=1), {"isTriggered": 1}, seed=2), 1)
    >>> step.about, step.operations
    ('sensor s12 is triggered', (('+', 'isTriggered', ('s12',)),))
    """
    if "isTriggered" not in relations or not has_sensors(graph):
        raise ValueError("triggers need a sensor grid, and a program with a relation isTriggered with one column")
    if not 0 < triggered < 1:
        raise ValueError(f"triggered is a share between 0 and 1, got {triggered}")
    return churn(graph, {"isTriggered": relations["isTriggered"]}, seed=seed, arrivals=arrivals, down=1 - triggered)
