"""Flat random graphs on an integer grid: the six edge methods of GT-ITM, redrawn until connected.

A transit-stub graph is made of these: the graph of the transit domains, every transit domain and every stub
domain is one flat random graph. Nodes are 0 to n - 1 and sit on distinct points of a scale x scale grid.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import networkx as nx

__all__ = [
    "DOAR_LESLIE",
    "EXPONENTIAL",
    "LOCALITY",
    "PURE",
    "WAXMAN",
    "WAXMAN_RANDOM",
    "EdgeMethod",
    "Seed",
    "distance",
    "flat_random",
    "generator",
]

WAXMAN_RANDOM, WAXMAN, PURE, EXPONENTIAL, DOAR_LESLIE, LOCALITY = range(1, 7)
"""The edge methods, numbered as in GT-ITM's parameter files."""

METHOD_NAMES = {
    WAXMAN_RANDOM: "Waxman with random distances",
    WAXMAN: "Waxman",
    PURE: "pure random",
    EXPONENTIAL: "exponential",
    DOAR_LESLIE: "Doar-Leslie",
    LOCALITY: "locality",
}

MAX_DRAWS = 20_000
"""Draws after which a graph is taken for one that will not come out connected (a sane one takes a few)."""

Seed = int | random.Random | None
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EdgeMethod:
    """How likely an edge is between two nodes of a flat random graph.

    With d the distance of the two nodes and L = sqrt(2) * scale the longest there can be:

    ===  ==========================  ==============================================================
    1    Waxman, random distances    alpha * exp(-e / (L * beta)), e uniform in [0, L]
    2    Waxman                      alpha * exp(-d / (L * beta))
    3    pure random                 alpha
    4    exponential                 alpha * exp(-d / (L - d))
    5    Doar-Leslie                 (gamma / n) * alpha * exp(-d / (L * beta))
    6    locality                    alpha if d <= L * gamma, else beta
    ===  ==========================  ==============================================================

    >>> EdgeMethod(PURE, 0.6)
    EdgeMethod(method=3, alpha=0.6, beta=0.0, gamma=0.0)
    >>> EdgeMethod(WAXMAN, 0.6)
    Traceback (most recent call last):
        ...
    ValueError: the Waxman edge method (2) needs beta > 0, got 0.0
    """

    method: int
    alpha: float
    beta: float = 0.0
    gamma: float = 0.0

    def __post_init__(self) -> None:
        if self.method not in METHOD_NAMES:
            raise ValueError(f"unknown edge method {self.method!r}: choose 1 to 6")
        name = f"the {METHOD_NAMES[self.method]} edge method ({self.method})"
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"{name} needs 0 <= alpha <= 1, got {self.alpha}")
        if self.method in (WAXMAN_RANDOM, WAXMAN, DOAR_LESLIE) and not self.beta > 0:
            raise ValueError(f"{name} needs beta > 0, got {self.beta}")
        if self.method == DOAR_LESLIE and not self.gamma > 0:
            raise ValueError(f"{name} needs gamma > 0, got {self.gamma}")
        if self.method == LOCALITY and not 0 <= self.beta <= 1:
            raise ValueError(f"{name} needs 0 <= beta <= 1, got {self.beta}")
        if self.method == LOCALITY and not self.gamma >= 0:
            raise ValueError(f"{name} needs gamma >= 0, got {self.gamma}")

    def probability(self, d: float, scale: int, n: int, rng: random.Random) -> float:
        """The probability of an edge of length d in a graph of n nodes; method 1 draws its own distance.

        >>> EdgeMethod(LOCALITY, alpha=0.9, beta=0.1, gamma=0.5).probability(3.0, 10, 8, random.Random(0))
        0.9
        """
        longest = math.sqrt(2) * scale
        match self.method:
            case 1:
                return self.alpha * math.exp(-rng.uniform(0, longest) / (longest * self.beta))
            case 2:
                return self.alpha * math.exp(-d / (longest * self.beta))
            case 3:
                return self.alpha
            case 4:
                return self.alpha * math.exp(-d / (longest - d))
            case 5:
                return self.gamma / n * self.alpha * math.exp(-d / (longest * self.beta))
            case _:
                return self.alpha if d <= longest * self.gamma else self.beta


def generator(seed: Seed) -> random.Random:
    """The random generator of a `seed` argument: a number, a generator to go on with, or None.

    >>> generator(1).random() == generator(1).random()
    True
    """
    return seed if isinstance(seed, random.Random) else random.Random(seed)


def distance(a: Point, b: Point) -> int:
    """The length of an edge: the Euclidean distance, rounded, and never 0 (it serves as a cost).

    >>> distance((0, 0), (3, 4)), distance((2, 2), (2, 2))
    (5, 1)
    """
    return max(1, round(math.dist(a, b)))


def flat_random(n: int, scale: int, method: EdgeMethod, seed: Seed = None) -> nx.Graph:
    """A connected flat random graph of n nodes, each with its grid point as attribute `pos`.

    Positions and edges are drawn together, again and again until the graph is connected, as GT-ITM does: the
    graphs are those of the edge method on condition that they are connected.

    >>> graph = flat_random(8, 20, EdgeMethod(PURE, 0.42), seed=1)
    >>> len(graph), nx.is_connected(graph)
    (8, True)
    >>> flat_random(3, 20, EdgeMethod(PURE, 0.0), seed=1)
    Traceback (most recent call last):
        ...
    ValueError: no connected graph of 3 nodes in 20000 draws of the pure random edge method (3): raise its alpha
    """
    if n < 1:
        raise ValueError(f"a graph needs at least one node, got {n}")
    if n > scale * scale:
        raise ValueError(f"{n} nodes do not fit on a grid of {scale} x {scale} points: raise the scale")
    rng = generator(seed)
    for _ in range(MAX_DRAWS):
        graph = _draw(n, scale, method, rng)
        if nx.is_connected(graph):
            return graph
        if method.alpha == 0 and (method.method != LOCALITY or method.beta == 0):
            break  # no edge will ever come: do not draw on
    name = METHOD_NAMES[method.method]
    raise ValueError(f"no connected graph of {n} nodes in {MAX_DRAWS} draws of the {name} edge method "
                     f"({method.method}): raise its alpha")


def _draw(n: int, scale: int, method: EdgeMethod, rng: random.Random) -> nx.Graph:
    """One draw, connected or not."""
    points = [divmod(cell, scale) for cell in rng.sample(range(scale * scale), n)]
    graph = nx.Graph()
    for node, point in enumerate(points):
        graph.add_node(node, pos=point)
    for i in range(n):
        for j in range(i + 1, n):
            if rng.random() < method.probability(math.dist(points[i], points[j]), scale, n, rng):
                graph.add_edge(i, j)
    return graph
