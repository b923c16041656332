"""The embedded runtime: all partitions in one process, with FIFO channels between them.

What crosses a channel is really encoded and decoded, so the bytes are those that a network would carry. With a
seed, messages are delivered in a random order that respects each channel, to show that no order matters.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from livelog.edits import Edit
from livelog.operations import Operation
from livelog.planned import Planned
from livelog.runtime.collecting import without_collections
from livelog.runtime.editing import Adoption
from livelog.runtime.frames import decode, encode
from livelog.runtime.limits import Watch
from livelog.runtime.runtime import WHOLE, Runtime
from livelog.runtime.worker import Method, Sides, Worker
from planner.plan import Plan

__all__ = ["LocalRuntime"]


class LocalRuntime(Runtime):
    """The partitions of a session in this process."""

    bulk = True

    def __init__(
        self,
        plan: Plan | Planned,
        partitions: int,
        method: Method,
        limit: int | None,
        seed: int | None = None,
        sizes: Mapping[str, int] | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(plan, partitions, method, limit, sizes, watch)
        self._bytes = [0] * partitions
        self._frames = [0] * partitions
        self._random = None if seed is None else random.Random(seed)
        self._open_channels()
        self.workers = [
            Worker(self.plan, i, partitions, self._method, limit, self._sender(i), sizes) for i in range(partitions)
        ]

    def _open_channels(self) -> None:
        self._channels: dict[tuple[int, int], deque[bytes]] = {}
        self._order: deque[tuple[int, int]] = deque()  # the channel of each frame, in order of sending

    def _sender(self, source: int) -> Any:
        channels, order, sent, frames = self._channels, self._order, self._bytes, self._frames

        def send(destination: int, stratum: int, kind: str, target: int, rows: list[Any]) -> None:
            frame = encode(stratum, kind, target, rows)
            sent[source] += len(frame)
            frames[source] += 1
            channel = (source, destination)
            channels.setdefault(channel, deque()).append(frame)
            order.append(channel)

        return send

    def _rebuild(self, limit: int | None = None) -> None:
        """Evaluate the views from the facts alone, aside: on new workers, which then take the place of the others.

        Messages that are under way belong to an attempt that failed, and stay behind.
        """
        aside = copy(self)
        aside._open_channels()
        aside.workers = [worker.renewed(limit, aside._sender(worker.partition)) for worker in self.workers]
        try:
            aside._evaluate({i for worker in aside.workers for i in worker.start_over()})
        except BaseException:
            LocalRuntime.close(aside)  # there may be little room left: do not wait for the collector
            raise
        self._channels, self._order, self.workers = aside._channels, aside._order, aside.workers

    # --- steps -----------------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation], **origin: Any) -> dict[str, Sides]:
        """As everywhere. The session holds the lock."""
        alone = self.partitions == 1 and type(operations) is list
        return without_collections(self._transact, [operations] if alone else self._shares(operations))

    def edit(self, edit: Edit, planned: Planned) -> dict[str, Sides]:
        """As everywhere. The session holds the lock."""
        return without_collections(self._transact, Adoption(edit, planned))

    def _retract(self) -> None:
        self._channels.clear()  # messages that are under way belong to an attempt that failed
        self._order.clear()
        super()._retract()

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

    def _apply(self, shares: list[Any]) -> set[int]:
        if len(self.workers) > 1:
            return super()._apply(shares)
        return set(self.workers[0].apply(shares[0]))

    def _first_due(self, before: float) -> float:
        return super()._first_due(before) if len(self.workers) > 1 else self.workers[0].due(before)

    def _evaluate(self, concerned: set[int]) -> None:
        if len(self.workers) > 1:
            super()._evaluate(concerned)
            return
        worker = self.workers[0]
        while concerned:
            if len(concerned) == 1:
                i = concerned.pop()
            else:
                i = min(concerned)
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

    def _complete(self) -> None:
        workers = self.workers
        self.clock = workers[0].clock
        for worker in workers:
            worker.commit()
        if self.coming is not None:
            self._stand()
        self.committed = self.state
        self.state = WHOLE

    def facts_with(self, relation: str, bound: Mapping[int, Any]) -> list[tuple[Any, ...]]:
        key = self.plan.relations[relation].key
        if not key or not bound.keys() >= set(key):
            return super().facts_with(relation, bound)
        found = [worker.base[relation].with_key(bound) for worker in self.workers]
        return [t for t in found if t is not None and all(t[i] == value for i, value in bound.items())]

    def remember(self, relation: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Before anything is evaluated: what another runtime shows of an approximated relation."""
        (worker,) = self.workers
        worker.remember(relation, rows)

    def export(self) -> Iterator[tuple[str, tuple[Any, ...], int, float | None]]:
        """All facts, with their multiplicities and the times at which they expire. What is kept with them is none."""
        for worker in self.workers:
            for name, table in worker.base.items():
                for t, copies, when in table.export() if self.plan.relations[name].kind == "base" else ():
                    yield name, t, copies, when

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
