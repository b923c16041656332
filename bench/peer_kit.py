"""What the peers of `peers.py` share: what a peer does, and how one of them is driven through the whole workload.

Every peer runs by itself in a process of its own, so that no memory, thread or garbage of one weighs on another. It
keeps the time on the wall, since some of them use several threads, and the processor time of all its threads beside it.
"""

from __future__ import annotations

import importlib
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.harness import apart, settle

__all__ = ["CHECK_EVERY", "VIEWS", "CostLink", "Lap", "Peer", "Run", "difference", "drive", "drive_apart", "pack"]

CostLink = tuple[int, int, int]
Row = tuple[Any, ...]

VIEWS = {"reachable": 2, "minCost": 3}  # with the number of their columns
CHECK_EVERY = 10


class Peer(Protocol):
    """Somebody who keeps a view. Each call returns when the whole all-pairs answer is right again.

    Everybody is given `link(source, target, cost)`; who keeps `reachable` does not look at the cost.
    """

    def load(self, links: Sequence[CostLink]) -> None: ...

    def delete(self, link: CostLink) -> None: ...

    def insert(self, link: CostLink) -> None: ...

    def rows(self) -> Iterable[Row]:
        """The answer as rows; this is for checks and is not timed."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds on the wall, and of the processor in all threads."""

    wall: float
    cpu: float


@dataclass(slots=True)
class Run:
    """One peer's way through the workload. `snapshots`: what was being done -> the whole view after it, packed."""

    load: Lap = Lap(0.0, 0.0)
    deletions: list[Lap] = field(default_factory=list)
    insertions: list[Lap] = field(default_factory=list)
    snapshots: dict[str, bytes] = field(default_factory=dict)


def pack(rows: Iterable[Row]) -> bytes:
    """A view as bytes: its rows in order, each number in eight bytes. Equal views have equal bytes.

    >>> pack([(2, 1), (1, 2.0)]) == pack([(1, 2), (2, 1)])
    True
    """
    return array("q", [int(value) for row in sorted(rows) for value in row]).tobytes()


def difference(left: bytes, right: bytes, width: int) -> tuple[list[Row], list[Row]]:
    """The rows that only one of two packed views has.

    >>> difference(pack([(1, 2), (3, 4)]), pack([(3, 4), (5, 6)]), 2)
    ([(1, 2)], [(5, 6)])
    """
    one, other = _unpack(left, width), _unpack(right, width)
    return sorted(one - other), sorted(other - one)


def _unpack(packed: bytes, width: int) -> set[Row]:
    values = array("q", packed)
    return set(zip(*(values[column::width] for column in range(width)), strict=True))


@contextmanager
def _timed(laps: list[Lap]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    laps.append(Lap(time.perf_counter() - wall, time.process_time() - cpu))


def drive(where: str, view: str, links: Sequence[CostLink], victims: Sequence[CostLink]) -> Run:
    """Load the links, delete the victims one at a time, insert them again one at a time.

    `where` names the peer's module and class, so that only the process that runs it imports what it needs.
    """
    module, name = where.split(":")
    run, load = Run(), list[Lap]()
    peer: Peer = getattr(importlib.import_module(module), name)(view)
    try:
        with settle():
            with _timed(load):
                peer.load(links)
            run.load = load[0]
            run.snapshots["the load"] = pack(peer.rows())
            for what, laps, change in (
                ("deletion", run.deletions, peer.delete),
                ("re-insertion", run.insertions, peer.insert),
            ):
                for number, link in enumerate(victims, 1):
                    with _timed(laps):
                        change(link)
                    if number % CHECK_EVERY == 0 or number == len(victims):
                        run.snapshots[f"{what} {number}"] = pack(peer.rows())
    finally:
        peer.close()
    return run


def drive_apart(where: str, view: str, links: Sequence[CostLink], victims: Sequence[CostLink]) -> Run:
    """The same in a fresh process."""
    return apart(drive, where, view, links, victims)
