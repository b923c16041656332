"""R-MAT: random directed graphs with hubs, drawn edge by edge (Chakrabarti, Zhan and Faloutsos, SDM 2004).

The adjacency matrix is cut into four quarters, one of them is chosen with the odds `a`, `b`, `c` and `d` (upper left,
upper right, lower left, lower right), and so on inside of it, until one cell is left: the edge. The more `a` outweighs
the others, the more edges meet at the nodes with the smallest numbers.
"""

from __future__ import annotations

import random

__all__ = ["rmat"]


def rmat(
    nodes: int,
    edges: int,
    *,
    a: float = 0.30,
    b: float = 0.25,
    c: float = 0.25,
    d: float = 0.20,
    seed: int = 0,
) -> list[tuple[int, int]]:
    """Different edges from node to another node, in the order in which they were drawn: a shorter list is a prefix.

    Nodes are numbered from 0. Some may have no edge. The odds are those of the Kronecker graphs on which MRQL's
    PageRank was measured.

    >>> rmat(8, 5, seed=1)
    [(3, 2), (0, 3), (6, 0), (2, 3), (4, 1)]
    >>> rmat(8, 3, seed=1) == rmat(8, 5, seed=1)[:3]
    True
    """
    if min(a, b, c, d) < 0 or abs(a + b + c + d - 1) > 1e-9:
        raise ValueError(f"the odds of the four quarters must add up to 1, not {a + b + c + d:g}")
    if edges > nodes * (nodes - 1):
        raise ValueError(f"{nodes} nodes have at most {nodes * (nodes - 1)} edges, not {edges}")
    rng = random.Random(seed)
    levels = max(nodes - 1, 0).bit_length()
    found: dict[tuple[int, int], None] = {}
    while len(found) < edges:
        source = target = 0
        for _ in range(levels):
            draw = rng.random()
            lower, right = draw >= a + b, a <= draw < a + b or draw >= a + b + c
            source, target = 2 * source + lower, 2 * target + right
        if source != target and source < nodes and target < nodes:
            found[source, target] = None
    return list(found)
