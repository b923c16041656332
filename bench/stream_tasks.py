"""What Livelog and its peers do on a stream, how one of them is driven, and what the right answers are.

At every point of time 1,000 rows arrive, and the answer is to be right again for the rows of the last so many points:

- count: rows `(k, x)` of one stream; how many there are of each of 100 keys;
- join: half of the rows are of a stream `a`, half of `b`; the pairs `(x, y)` of a row of each with the same key. There
  are so many keys that a row finds about one partner.
"""

from __future__ import annotations

import importlib
import random
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

from bench.harness import settle
from bench.peer_kit import Lap, pack

__all__ = ["ARRIVALS", "STREAMS", "Driven", "Peer", "Row", "expected"]

Row = tuple[Any, ...]
Batch = dict[str, list[Row]]
"""By stream, what arrives at a point."""

STREAMS = {"count": ("s",), "join": ("a", "b")}
ARRIVALS = 1_000
GROUPS = 100
SEED = 1


class Peer(Protocol):
    """Somebody who keeps the answer of a task, for a window of so many points."""

    def __init__(self, task: str, window: int) -> None: ...

    def point(self, now: int, batch: Batch) -> None:
        """Rows arrive at a time; returns when the answer is right again."""

    def after(self) -> None:
        """What is to be done between two points, and not timed."""

    def answer(self) -> Iterable[Row]:
        """The answer as rows, for checks."""

    def close(self) -> None: ...


def arrivals(task: str, window: int, now: int) -> Batch:
    """What arrives at a point: the same for everybody."""
    rng = random.Random(SEED * 1_000_003 + now)
    keys = GROUPS if task == "count" else window * ARRIVALS // 2
    rows = [(rng.randrange(keys), now * ARRIVALS + i) for i in range(ARRIVALS)]
    streams = STREAMS[task]
    return {name: rows[i :: len(streams)] for i, name in enumerate(streams)}


def expected(task: str, window: int, now: int) -> bytes:
    """The right answer at a point, packed."""
    batches = [arrivals(task, window, t) for t in range(max(1, now - window + 1), now + 1)]
    if task == "count":
        return pack(Counter(k for batch in batches for k, _ in batch["s"]).items())
    partners: dict[int, list[int]] = {}
    for batch in batches:
        for k, y in batch["b"]:
            partners.setdefault(k, []).append(y)
    return pack((x, y) for batch in batches for k, x in batch["a"] for y in partners.get(k, ()))


class Driven:
    """A peer, by its module and class, with the clock that it is driven by."""

    def __init__(self, where: str, task: str, window: int) -> None:
        module, name = where.split(":")
        self._peer: Peer = getattr(importlib.import_module(module), name)(task, window)
        self._task = task
        self._window = window
        self._now = 0

    def turn(self, points: int) -> list[Lap]:
        """What each of the next points took."""
        laps = []
        with settle():
            for _ in range(points):
                self._now += 1
                batch = arrivals(self._task, self._window, self._now)
                wall, cpu = time.perf_counter(), time.process_time()
                self._peer.point(self._now, batch)
                laps.append(Lap(time.perf_counter() - wall, time.process_time() - cpu))
                self._peer.after()
        return laps

    def answer(self) -> bytes:
        return pack(self._peer.answer())

    def close(self) -> None:
        self._peer.close()
