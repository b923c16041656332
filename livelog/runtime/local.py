"""The embedded runtime: all partitions in one process, with FIFO channels between them.

What crosses a channel is really encoded and decoded, so the bytes are those that a network would carry. With a
seed, messages are delivered in a random order that respects each channel, to show that no order matters.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from livelog.runtime.collecting import pause_collections, resume_collections
from livelog.runtime.frames import decode, encode
from livelog.runtime.runtime import Runtime
from livelog.runtime.worker import Method, Operation, Sides, Worker
from planner.plan import Plan

__all__ = ["LocalRuntime"]


class LocalRuntime(Runtime):
    """The partitions of a session in this process."""

    bulk = True

    def __init__(
        self,
        plan: Plan,
        partitions: int,
        method: Method,
        limit: int | None,
        seed: int | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(plan, partitions, method, limit, sizes)
        self._bytes = [0] * partitions
        self._frames = [0] * partitions
        self._random = None if seed is None else random.Random(seed)
        self._channels: dict[tuple[int, int], deque[bytes]] = {}
        self._order: deque[tuple[int, int]] = deque()  # the channel of each frame, in order of sending
        self.workers = [Worker(plan, i, partitions, self._method, limit, self._sender(i)) for i in range(partitions)]

    def _sender(self, source: int) -> Any:
        def send(destination: int, stratum: int, kind: str, target: int, rows: list[Any]) -> None:
            frame = encode(stratum, kind, target, rows)
            self._bytes[source] += len(frame)
            self._frames[source] += 1
            channel = (source, destination)
            self._channels.setdefault(channel, deque()).append(frame)
            self._order.append(channel)

        return send

    # --- steps -----------------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation], **origin: Any) -> dict[str, Sides]:
        collecting = pause_collections()
        changes: dict[str, Sides] = {}
        try:
            changes = super().run(operations)
            return changes
        finally:
            if collecting:
                size = 0
                for gained, lost in changes.values():
                    size += len(gained) + len(lost)
                resume_collections(size)

    def _all(self, step: str, *arguments: Any) -> list[Any]:
        workers = self.workers
        if len(workers) == 1:  # no loop: small transactions consist of little else
            return [getattr(workers[0], step)(*arguments)]
        method = getattr(Worker, step)
        return [method(worker, *arguments) for worker in workers]

    def _each(self, step: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        if len(arguments) == 1:
            return self._all(step, *arguments[0])
        method = getattr(Worker, step)
        return [method(worker, *given) for worker, given in zip(self.workers, arguments, strict=True)]

    def _one(self, partition: int, step: str, *arguments: Any) -> Any:
        return getattr(self.workers[partition], step)(*arguments)

    def _run(self, step: str, i: int, *arguments: Any) -> list[Any]:
        results = self._all(step, i, *arguments)
        if self._order:
            self._deliver(i)
        return results

    def remember(self, relation: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Before anything is evaluated: what another runtime shows of an approximated relation."""
        (worker,) = self.workers
        worker.remember(relation, rows)

    def _drop_messages(self) -> None:
        self._order.clear()
        self._channels.clear()

    def _deliver(self, i: int) -> None:
        """Deliver the messages of stratum i until none is under way: then everybody is quiescent."""
        if self._random is not None:
            self._shuffle(i, self._random)
            return
        while self._order:
            inboxes: dict[int, list[tuple[int, bytes]]] = {}
            for channel in self._order:
                inboxes.setdefault(channel[1], []).append((channel[0], self._channels[channel].popleft()))
            self._order.clear()
            for destination, inbox in inboxes.items():
                worker = self.workers[destination]
                for source, frame in inbox:
                    worker.receive(source, *decode(frame))
                worker.work(i)

    def _shuffle(self, i: int, rng: random.Random) -> None:
        """The same in random order, and with work that begins after any number of messages."""
        gathered: set[int] = set()
        while self._order or gathered:
            if self._order and (not gathered or rng.random() < 0.7):
                at = rng.randrange(len(self._order))
                source, destination = channel = self._order[at]
                del self._order[at]
                self.workers[destination].receive(source, *decode(self._channels[channel].popleft()))
                gathered.add(destination)
            else:
                destination = rng.choice(sorted(gathered))
                gathered.discard(destination)
                self.workers[destination].work(i)

    # --- the rest --------------------------------------------------------------------------------------------

    @property
    def bytes_shipped(self) -> list[int]:
        return self._bytes

    @property
    def frames_shipped(self) -> list[int]:
        return self._frames

    def close(self) -> None:
        for worker in self.workers:
            worker.clear()
        self.workers = []
