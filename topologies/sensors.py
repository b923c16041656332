"""Sensors on a square field, as in the region query of the absorption paper: seed sensors, and some of them triggered.

The paper's field is 100 m x 100 m, with five regions that each start at one seed sensor; two sensors belong together
when they are less than k = 20 m apart. It does not say how many sensors there are: by default one every 10 m, which
are 10 x 10.
"""

from __future__ import annotations

import math
import random

import networkx as nx

from topologies.flat import Point, Seed, distance, generator

__all__ = ["FIELD", "sensor_grid"]

FIELD = 100
"""The side of the field in metres."""


def sensor_grid(
    sensors: int | None = None,
    *,
    spacing: float | None = None,
    jitter: float = 0.0,
    seeds: int = 5,
    triggered: float = 0.5,
    near: float = 20,
    field: int = FIELD,
    seed: Seed = None,
) -> nx.Graph:
    """A grid of sensors with seed sensors and trigger state.

    So many `sensors`, or as many as fit with a `spacing` in metres (10 if neither is given). They stand in the middles
    of the cells of a regular grid, on whole metres; `jitter` moves each by up to that share of the spacing, in both
    directions. `seeds` of them, drawn at random, are the seeds of regions. All seeds are triggered, and so is the
    share `triggered` of the others. `near` is the k of the query: it decides which sensors are joined by edges, that is
    all that are less than so many metres apart.

    Nodes are "s1", "s2", ...; their attributes are `pos` (whole metres), `triggered` and `region` (of a seed, else
    None). Edges have `length` and `latency` (both the rounded distance). The graph attribute `regions` leads from the
    name of each region ("r1", "r2", ...) to its seed, and `near` and `field` are kept there too.

    >>> graph = sensor_grid(seed=1)
    >>> len(graph), len(graph.graph["regions"])
    (100, 5)
    >>> graph.nodes["s1"]["pos"], graph.nodes["s2"]["pos"], graph.nodes["s11"]["pos"]
    ((5, 5), (15, 5), (5, 15))
    >>> sum(triggered for _, triggered in graph.nodes(data="triggered"))
    53
    >>> len(sensor_grid(30, seed=1)), len(sensor_grid(spacing=20, seed=1))
    (30, 25)
    """
    columns, rows, count, cell = _layout(sensors, spacing, field)
    for name, share in (("jitter", jitter), ("triggered", triggered)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is a share between 0 and 1, got {share}")
    if not 0 <= seeds <= count:
        raise ValueError(f"{count} sensors cannot be the seeds of {seeds} regions")
    rng = generator(seed)
    points = _positions(columns, rows, count, field, jitter * cell, rng)
    graph = nx.Graph(near=near, field=field)
    names = [f"s{number}" for number in range(1, count + 1)]
    chosen = sorted(rng.sample(range(count), seeds))
    others = [index for index in range(count) if index not in set(chosen)]
    active = {*chosen, *rng.sample(others, round(triggered * len(others)))}
    regions = {names[index]: f"r{number}" for number, index in enumerate(chosen, 1)}
    graph.graph["regions"] = {region: name for name, region in regions.items()}
    for index, (name, point) in enumerate(zip(names, points, strict=True)):
        graph.add_node(name, pos=point, triggered=index in active, region=regions.get(name))
    for i, one in enumerate(points):
        for j in range(i + 1, count):
            if math.dist(one, points[j]) < near:
                length = distance(one, points[j])
                graph.add_edge(names[i], names[j], length=length, latency=length)
    return graph


def _layout(sensors: int | None, spacing: float | None, field: int) -> tuple[int, int, int, float]:
    """Columns, rows, number of sensors and the smaller side of a cell."""
    if field < 1:
        raise ValueError(f"the field must be at least 1 m wide, got {field}")
    if sensors is not None and spacing is not None:
        raise ValueError("give the number of sensors or their spacing, not both")
    if sensors is None:
        step = 10.0 if spacing is None else spacing
        if not 1 <= step <= field:
            raise ValueError(f"the spacing must be between 1 and {field} m, got {step}")
        side = int(field // step)
        return side, side, side * side, field / side
    if not 1 <= sensors <= field * field:
        raise ValueError(f"a field of {field} x {field} m takes 1 to {field * field} sensors, got {sensors}")
    columns = math.ceil(math.sqrt(sensors))
    rows = math.ceil(sensors / columns)
    return columns, rows, sensors, field / max(columns, rows)


def _positions(columns: int, rows: int, count: int, field: int, moved: float, rng: random.Random) -> list[Point]:
    """The middles of the cells, row by row, each moved by up to so many metres; two may come to stand together."""
    def place(index: int, cells: int) -> int:
        offset = rng.uniform(-moved, moved) if moved else 0.0
        return min(field - 1, max(0, int((index + 0.5) * field / cells + offset)))

    return [(place(index % columns, columns), place(index // columns, rows)) for index in range(count)]
