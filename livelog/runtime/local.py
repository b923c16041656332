"""The embedded runtime: all partitions in one process, with FIFO channels between them.

What crosses a channel is really encoded and decoded, so the bytes are those that a network would carry. With a
seed, messages are delivered in a random order that respects each channel, to show that no order matters.
"""

from __future__ import annotations

import gc
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from livelog.runtime.component import Component
from livelog.runtime.frames import decode, encode
from livelog.runtime.worker import Method, Operation, Worker
from operators.errors import Outgrown, RuleFailure
from operators.partition import Router
from planner.plan import Plan

__all__ = ["LocalRuntime"]

Tuple = tuple[Any, ...]
Sides = tuple[list[Tuple], list[Tuple]]
"""What came into a view, and what left it."""


LARGE = 50_000  # operations or changes that make a transaction a large one


@contextmanager
def _without_collections() -> Iterator[list[int]]:
    """No work for the cycle collector: a transaction makes no cycles, and what it leaves behind is there to stay.

    After a large one (the caller says how large by appending to the list), freezing and unfreezing moves everything
    to the oldest generation without the walk over all of it that would come otherwise. It also makes the collector
    start counting anew, so small transactions must not do it, or it would never run.
    """
    sizes: list[int] = []
    if not gc.isenabled():
        yield sizes
        return
    gc.disable()
    try:
        yield sizes
    finally:
        if sum(sizes) > LARGE and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()


class LocalRuntime:
    """The partitions of a session in this process."""

    def __init__(
        self,
        plan: Plan,
        partitions: int,
        method: Method,
        limit: int | None,
        seed: int | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.plan = plan
        self.partitions = partitions
        self.stale = False  # whether the views have yet to be evaluated from the facts
        self._published = frozenset(plan.published)
        self._sizes = sizes or {}  # how many tuples a relation may have
        self._method = method
        self._limit = limit
        self.bytes_shipped = [0] * partitions
        self.frames_shipped = [0] * partitions
        self._random = None if seed is None else random.Random(seed)
        self._channels: dict[tuple[int, int], deque[bytes]] = {}
        self._order: deque[tuple[int, int]] = deque()  # the channel of each frame, in order of sending
        self._owners = {name: Router(r.partition, partitions) for name, r in plan.relations.items()}
        self.workers = [Worker(plan, i, partitions, method, limit, self._sender(i)) for i in range(partitions)]

    def _sender(self, source: int) -> Any:
        def send(destination: int, stratum: int, kind: str, target: int, rows: list[Any]) -> None:
            frame = encode(stratum, kind, target, rows)
            self.bytes_shipped[source] += len(frame)
            self.frames_shipped[source] += 1
            channel = (source, destination)
            self._channels.setdefault(channel, deque()).append(frame)
            self._order.append(channel)

        return send

    # --- transactions ----------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation]) -> dict[str, Sides]:
        """Run one transaction; returns per view the tuples (inserted, deleted). All or nothing."""
        shares: list[list[Operation]] = [[] for _ in range(self.partitions)]
        for operation in operations:
            if operation[0] == "@":
                for share in shares:
                    share.append(operation)
            else:
                shares[self._owners[operation[1]](operation[2])].append(operation)
        with _without_collections() as sizes:
            self.restore()
            try:
                for worker, share in zip(self.workers, shares, strict=True):
                    worker.apply(share)
                changes = self._work()
            except BaseException:
                self._roll_back()
                raise
            for worker in self.workers:
                worker.commit()
            sizes.extend(len(side) for sides in changes.values() for side in sides)
            return changes

    def _measure(self) -> None:
        for relation, limit in self._sizes.items():
            size = self.count(relation)
            if size > limit:
                raise Outgrown(relation, size, limit)

    def _work(self) -> dict[str, Sides]:
        """Evaluate, and tell the changes."""
        try:
            self._evaluate()
            self._measure()
            return self._changes()
        except RuleFailure:
            # It may have failed on two tuples that are never there together: one that the transaction brings, and
            # one that it takes away. The program fails only if it does on the new facts alone.
            tuples = sum(stratum.stats()["tuples"] for worker in self.workers for stratum in worker.strata)
            self._start_over(None if self._limit is None else self._limit + tuples)
            self._evaluate()
            self._measure()
            return self._difference()

    def _evaluate(self) -> None:
        """Bring every stratum up to date, bottom up."""
        for i in range(len(self.plan.strata)):
            if any(worker.concerns(i) for worker in self.workers):
                for step in (Worker.prepare, Worker.begin):
                    for worker in self.workers:
                        step(worker, i)
                    self._deliver(i)
                level = 0
                while level < self.workers[0].levels(i):
                    if any([worker.resume(i, level) for worker in self.workers]):
                        self._deliver(i)
                        level = 0
                    else:
                        level += 1
                for worker in self.workers:
                    worker.finish(i)

    def _start_over(self, limit: int | None = None) -> None:
        """Forget all but the facts, and make them the change to be worked in, with another limit for once."""
        self._order.clear()
        self._channels.clear()
        for worker in self.workers:
            worker.reset(limit)
            worker.reload()

    def _difference(self) -> dict[str, Sides]:
        """The changes of the views, found by evaluating the facts of the last commit beside this runtime."""
        former = LocalRuntime(self.plan, 1, self._method, None)
        facts = [fact for worker in self.workers for fact in worker.former()]
        former.run([("+", name, t) for name, t, copies in facts for _ in range(copies)])
        changes: dict[str, Sides] = {}
        for name in self._published:
            old, new = set(former.rows(name)), set(self.rows(name))
            changes[name] = (list(new - old), list(old - new))
        return changes

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

    def _changes(self) -> dict[str, Sides]:
        changes: dict[str, Sides] = {}
        for worker in self.workers:
            for name, delta in worker.deltas.items():
                if name in self._published:
                    inserted, deleted = changes.setdefault(name, ([], []))
                    inserted.extend(delta.gained)
                    deleted.extend(delta.lost)
        return changes

    def _roll_back(self) -> None:
        """Back to the last commit: the facts are restored, and the views evaluated anew from them."""
        for worker in self.workers:
            worker.rollback()
        self.stale = True
        self.restore()

    def restore(self) -> None:
        """If a rollback was not completed (a function that goes on failing, a second Ctrl-C), complete it."""
        if self.stale:
            self._start_over()
            self._evaluate()
            for worker in self.workers:
                worker.commit()
            self.stale = False

    def close(self) -> None:
        """Let go of all state."""
        for worker in self.workers:
            worker.clear()
        self.workers = []

    # --- looking in ------------------------------------------------------------------------------------------

    @property
    def clock(self) -> float:
        return self.workers[0].clock

    def rows(self, relation: str) -> list[Tuple]:
        """All tuples of a relation, in no particular order."""
        return [t for worker in self.workers for t in worker.rows(relation)]

    def count(self, relation: str) -> int:
        return sum(worker.count(relation) for worker in self.workers)

    def has(self, relation: str, t: Tuple) -> bool:
        return self.workers[self._owners[relation](t)].has(relation, t)

    def check(self) -> None:
        """Assert the invariants of all partitions, that every tuple is with its owner, and that nothing rests on
        a variable that is dead."""
        for i in range(len(self.plan.strata)):
            components = [w.strata[i] for w in self.workers if isinstance(w.strata[i], Component)]
            alive = {v for c in components for v in c.variables()}  # type: ignore[union-attr]
            for c in components:
                assert c.mentioned() <= alive, f"stratum {i}: a dead variable is mentioned"  # type: ignore[union-attr]
        for worker in self.workers:
            worker.check()
            for name in self.plan.relations:
                owner = self._owners[name]
                assert all(owner(t) == worker.partition for t in worker.rows(name)), f"{name}: a stray tuple"
