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
        try:
            with self.lock:
                clock = self.clock
                return self._transact(self._shares(operations), clock)
        finally:
            if collecting:
                resume_collections()

    def _all(self, step: str, *arguments: Any) -> list[Any]:
        method = getattr(Worker, step)
        return [method(worker, *arguments) for worker in self.workers]

    def _each(self, step: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        method = getattr(Worker, step)
        return [method(worker, *given) for worker, given in zip(self.workers, arguments, strict=True)]

    def _one(self, partition: int, step: str, *arguments: Any) -> Any:
        return getattr(self.workers[partition], step)(*arguments)

    def _run(self, step: str, i: int, *arguments: Any) -> list[Any]:
        results = self._all(step, i, *arguments)
        if self._order:
            self._deliver(i)
        return results

    # A single worker sends nothing, so it is quiescent after every step, and its results are those of all. The steps of
    # every transaction are plain calls then: small ones consist of little else.

    def _shares(self, operations: Iterable[Operation]) -> list[Any]:
        if len(self.workers) > 1:
            return super()._shares(operations)
        return [operations if isinstance(operations, list) else list(operations)]

    def _apply(self, shares: list[Any]) -> set[int]:
        if len(self.workers) > 1:
            return super()._apply(shares)
        worker = self.workers[0]
        concerned = worker.apply(shares[0])
        self.clock = worker.clock
        return set(concerned)

    def _evaluate(self, concerned: set[int]) -> None:
        if len(self.workers) > 1:
            super()._evaluate(concerned)
            return
        worker = self.workers[0]
        while concerned:
            i = min(concerned) if len(concerned) > 1 else next(iter(concerned))
            concerned.remove(i)
            if self._prepares[i]:
                worker.prepare(i)
            worker.begin(i)
            level, levels = 0, self._levels[i]
            while level < levels:
                level = 0 if worker.resume(i, level) else level + 1
            concerned.update(worker.finish(i))

    def _changes(self) -> dict[str, Sides]:
        return super()._changes() if len(self.workers) > 1 else self.workers[0].changes()

    def _commit(self) -> None:
        if len(self.workers) > 1:
            super()._commit()
        else:
            self.workers[0].commit()

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
