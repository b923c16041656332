"""Nodes: the rules of a counting stratum that keep state of their own, and how they reach their like elsewhere.

A map or a join of a counting stratum only changes counts. Groups, lookups, lineage joins and nested aggregates keep
more, and their heads are known only when all changes of a transaction are in. They are *nodes*: every partition has
the same nodes in the same order, and each is one rule's share of that partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from operators.delta import Delta
from operators.exact import pack, unpack
from operators.partition import Router
from planner.plan import BROADCAST, Placement

__all__ = ["Links", "Node", "Weights", "unpacked"]

Tuple = tuple[Any, ...]
Weights = Iterable[tuple[Tuple, Any]]
Send = Callable[[int, str, int, list[Any]], None]


class Node(Protocol):
    """One rule with state on one partition. Its life, transaction by transaction:

    1. `begin(deltas)`: the net changes of lower relations, as far as this partition owns them. The node does what it
       can do here (filter, compute, sum up) and hands the outcome to `Links.deliver`, which brings each row to where
       the node wants it: to `receive` of this very node, at once, or of the same node on another partition.
    2. `receive(port, rows)`: rows for one of its `ports`, from this partition or another, in any order and in any
       number of calls; a node may deliver again from here, to a *higher* port. Nothing may be concluded yet: the rows
       of a transaction are consistent only when all of them are in.
    3. `settle()`: everybody is quiescent. The heads that are no longer true and those that are now, each exactly once,
       on the partition that owns them. From here on nothing can be sent.

    Between transactions nothing is pending: `check` asserts so. A failed transaction throws the nodes away; new ones
    see all facts as one change. A node is made by a class or function `(rule, plan, links)`, listed by the type of
    its rule in `livelog.runtime.counting.NODES`.

    `ports` is how many kinds of rows it receives. Rows are pairs of a tuple and a weight, or, where it delivers with
    `vectors=True`, of a tuple and a sequence of ints of any size.
    """

    ports: int

    def begin(self, deltas: Mapping[str, Delta]) -> None:
        """Take in the changes below."""

    def receive(self, port: int, rows: Weights) -> None:
        """Take in rows for a port."""

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        """The heads that fall and those that rise in this transaction."""

    def stats(self) -> dict[str, int]:
        """How many entries each part of the state has, by a name for people ("groups", "left partials")."""

    def kept(self) -> Iterator[Any]:
        """All that is kept, as plain values, to measure its size."""

    def check(self) -> None:
        """Assert the invariants that hold between transactions."""


class Links:
    """How one node reaches the same node on all partitions.

    Messages name a port by its number among all ports of the stratum: `first` is that of the node's port 0.
    """

    def __init__(self, first: int, partition: int, partitions: int, send: Send) -> None:
        self.alone = partitions == 1
        self.partition = partition
        self.partitions = partitions
        self._first = first
        self._send = send
        self._routers: dict[tuple[int, ...], Router] = {}

    def deliver(self, node: Node, port: int, rows: Weights, at: Placement, *, vectors: bool = False) -> None:
        """Bring rows to a port of the node wherever the columns `at` of their tuples say (or everywhere).

        Rows that stay here are handed over as they are: on a single partition nothing is copied.
        """
        if self.alone:
            node.receive(port, rows)
            return
        rows = rows if isinstance(rows, list) else list(rows)
        if at == BROADCAST:
            shares = dict.fromkeys(range(self.partitions), rows)
        else:
            router = self._routers.get(at)
            if router is None:
                router = self._routers[at] = Router(at, self.partitions)
            shares = router.split(rows)
        for destination, share in shares.items():
            if destination == self.partition:
                node.receive(port, share)
            elif vectors:
                packed = [[t, [pack(entry) for entry in vector]] for t, vector in share]
                self._send(destination, "vector", self._first + port, packed)
            else:
                self._send_weights(destination, self._first + port, share)

    def _send_weights(self, destination: int, port: int, rows: Weights) -> None:
        try:
            self._send(destination, "node", port, [[t, w] for t, w in rows])
        except OverflowError:  # weights beyond 64 bits
            self._send(destination, "vector", port, [[t, [pack(w)]] for t, w in rows])


def unpacked(rows: Weights) -> list[tuple[Tuple, Any]]:
    """Rows with vectors as they are after the journey; a vector of one entry is a weight.

    >>> unpacked([(("a",), [1, [3, 1072]]), (("b",), [[1, 64]])]) == [(("a",), [1, 3 << 1072]), (("b",), 1 << 64)]
    True
    """
    return [
        (t, [unpack(entry) for entry in vector] if len(vector) > 1 else unpack(vector[0])) for t, vector in rows
    ]
