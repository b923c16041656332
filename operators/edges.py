"""What is remembered of tuples by their derivation edges: which tuples each is an immediate consequence of.

An *edge* is one application of a rule: `(number of the rule, values...)`, with just those values that, together with
the head, tell the parents (`operators.kernels.parents`). The edges of a tuple are a dict in order of arrival. Its keys
are the edges; or, for an edge that another partition shipped as the one it stands by, the number of that partition,
with the edge as the value. So each can be taken back without a search.

The first edge of a tuple is its *support*. Supports never run in a circle: the parents were there before the tuple.
So a tuple that loses another edge is still derivable, and only one that loses its support is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operators.ledger import Derivation, Ledger
from operators.provenance import Provenance

__all__ = ["BASE", "Edge", "EdgeLedger", "Edges", "promote"]

Tuple = tuple[Any, ...]
Edge = tuple[Any, ...]
Edges = dict[Any, Any]
"""edge -> None, or partition -> the edge that it shipped."""

BASE: tuple[()] = ()
"""The annotation of a tuple that nothing in here derives: of a lower stratum, an answer, or a copy of a tuple."""


class EdgeLedger(Ledger):
    """Tuples with all their edges.

    `every`: further edges of a known tuple are passed on too (what is shipped eagerly).

    >>> kept = EdgeLedger(Provenance())
    >>> kept.add([(("a", "c"), (1, "b")), (("a", "c"), (1, "d"))])
    [(('a', 'c'), {(1, 'b'): None, (1, 'd'): None})]
    >>> kept.add_from(3, [(("a", "c"), (1, "e"))]), kept.first["a", "c"][3]
    ([], (1, 'e'))
    """

    mode = "edges"

    def __init__(self, provenance: Provenance) -> None:
        super().__init__(provenance)
        self.every = False

    def add(self, derived: Iterable[tuple[Tuple, Edge]]) -> list[Derivation]:
        """Take in edges; returns the tuples that are new."""
        first: dict[Tuple, Any] = self.first
        new: list[Any] = []
        for t, edge in derived:
            edges = first.get(t)
            if edges is None:
                first[t] = edges = {edge: None}
                new.append((t, edges))
            else:
                edges[edge] = None
        return new

    def add_from(self, source: int, derived: Iterable[tuple[Tuple, Edge]]) -> list[Derivation]:
        """Take in the edges that a partition stands by, one a tuple; returns the tuples that are new."""
        first: dict[Tuple, Any] = self.first
        new: list[Any] = []
        for t, edge in derived:
            edges = first.get(t)
            if edges is None:
                first[t] = edges = {source: edge}
                new.append((t, edges))
            else:
                edges[source] = edge
        return new

    def offer(
        self, derived: Iterable[Derivation], remote: bool = False
    ) -> tuple[list[Derivation], list[Derivation]]:
        """Take in tuples, each with a dict of edges, or `BASE`."""
        first: dict[Tuple, Any] = self.first
        on: list[Any] = []
        created: list[Any] = []
        for entry in derived:
            t, edges = entry
            known = first.get(t)
            if known is None:
                first[t] = dict(edges) if self.every else edges  # what is passed on must not grow
                created.append(entry)
                on.append(entry)
            else:
                known.update(edges)
                if self.every:
                    on.append(entry)
        return on, created

    def pop(self, t: Tuple) -> list[Derivation]:
        edges = self.first.pop(t, None)
        return [] if edges is None else [(t, edges)]

    def variables(self, t: Tuple) -> set[int]:
        return set()

    def check(self) -> None:
        assert not self.rest, "an edge waits beside the others"


def promote(edges: Edges, key: Any) -> None:
    """Make an edge the first one. O(edges), unless it is that already.

    >>> edges = {(0,): None, (1, "b"): None}
    >>> promote(edges, (1, "b")); list(edges)
    [(1, 'b'), (0,)]
    """
    if next(iter(edges)) != key:
        others = {k: v for k, v in edges.items() if k != key}
        value = edges[key]
        edges.clear()
        edges[key] = value
        edges.update(others)
