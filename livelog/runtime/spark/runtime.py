"""SparkRuntime: the partitions of a session are the tasks of one barrier stage.

Every transaction is in the journal before a worker hears of it, and its outcome before they are told to commit: what
the log says is what came of it, whoever is told, and whoever dies. When a worker is lost, all of them are started
again: they load the newest checkpoint, absorb the facts of the transactions after it, evaluate once, and the
transaction that was under way is run again. Who waits for it notices nothing but the time.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.operations import Operation
from livelog.planned import Planned
from livelog.runtime.journaled import Unavailable
from livelog.runtime.limits import Watch
from livelog.runtime.runtime import OPEN, WHOLE
from livelog.runtime.spark.clients import Clients
from livelog.runtime.spark.config import Spark
from livelog.runtime.spark.crew import Lost
from livelog.runtime.spark.messages import Share, encode
from livelog.runtime.spark.staff import ATTEMPTS, INTERRUPTED
from livelog.runtime.steps import PassedStep
from livelog.runtime.worker import Method, Sides
from livelog.store.formats import Batch, BatchFile, Description, Entry
from livelog.store.layout import sync_folder
from livelog.store.parts import Part
from planner.plan import Plan

__all__ = ["Pushed", "SparkRuntime"]

Pushed = tuple[str, list[Any]]
"""The folder to which rows were pushed, and their files."""

STASH = 8 << 20
"""Bytes of operations in a message, unless a single one has more."""


class SparkRuntime(Clients):
    """A session's partitions over Spark. Made by the session."""

    def __init__(
        self,
        plan: Plan | Planned,
        method: Method,
        limit: int | None,
        sizes: Mapping[str, int],
        config: Spark,
        description: Description | None,
        data: Any = None,
        allowed: Watch | None = None,
    ) -> None:
        self._listening = False  # whether the workers are known to wait for the next step, after an error
        self._since = 0  # transactions since the last checkpoint
        self._begun = False  # whether what is applied next belongs to a later step of its transaction
        super().__init__(plan, method, limit, sizes, config, description, data, allowed)
        if description is None:
            try:
                self._resume()
            except BaseException:
                self.close()
                raise

    def _resume(self) -> None:
        """Go on where another driver stopped; what it had begun is run now."""
        manifest = self.journal.newest()
        before = self.journal.description.partitions if manifest is None else manifest.partitions
        if self.journal.follows and before != self.partitions:
            raise UsageProblem(
                f"changes of {', '.join(self.journal.follows)} are kept by {before} partitions: "
                f"go on with as many, not with {self.partitions}"
            )
        self._finish_undecided()
        self._alive()
        self.journal.publish(self.journal.number)
        if before != self.partitions:
            self.checkpoint()  # from here on, so many partitions it is

    def _finish_undecided(self) -> None:
        inside, self._inside = self._inside, True
        try:
            super()._finish_undecided()
        finally:
            self._inside = inside

    # --- transactions ----------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation], **origin: Any) -> dict[str, Sides]:
        with self.lock:
            if self.state:
                self.restore()
            self._release()
            return super().run(operations, **origin)

    def _due(self) -> bool:
        self._since += 1
        return self._since >= self.config.checkpoint_every

    def _execute(self, entry: Entry) -> dict[str, Sides]:
        """Run a transaction of the journal, on new workers if need be."""
        inside, self._inside = self._inside, True
        try:
            for _ in range(ATTEMPTS):
                try:
                    if self._crew is None or self._crew.stage.over:
                        self._recover(before=entry.number)
                    return self._perform(entry)
                except Lost as lost:
                    self._lose(lost)
                    if self.journal.waiting is None and self.decided is not None:
                        return self.decided  # the log has it, and so will the workers that come
                    reason = str(lost)
        finally:
            self._inside = inside
        raise RuntimeProblem(f"the workers died {ATTEMPTS} times in this transaction, which was given up: {reason}")

    def _announce(self, entry: Entry) -> None:
        """Let readers see a transaction, once the workers have recorded its changes where somebody follows them.

        One without operations has none. It is a micro-batch of a query, which may read these changes itself: if it were
        announced, that would go round for ever.
        """
        number = entry.number
        if not entry.operations and entry.batch is None:
            self.journal.acknowledge(number)
            return
        if self._crew is None and self.journal.follows:
            try:
                self._alive()
            except RuntimeProblem as error:
                self._note(f"transaction {number} was committed, and its changes are published later: {error.message}")
                return
        super()._announce(entry)

    def _perform(self, entry: Entry) -> dict[str, Sides]:
        """Run a transaction on the workers that are there. All or nothing."""
        self._number = entry.number
        self._time = self._time_after(entry)
        self._listening = False
        return self._transact(self._shares_of(entry))

    def _undo(self, error: BaseException) -> None:
        """After an interrupt nobody waits until busy workers listen, and of one in a commit, nobody knows who has."""
        if isinstance(error, Lost):
            self._lose(error)
        self._listening = isinstance(error, Exception) and not isinstance(error, Lost) and self.state == OPEN
        self.restore()

    def restore(self) -> None:
        """As everywhere; workers that cannot be told to roll back are replaced by some that go by the log."""
        with self.lock:
            if self.state and self._listening:
                inside, self._inside = self._inside, True
                try:
                    super().restore()
                except Lost as lost:  # then it is undone even more thoroughly
                    self._lose(lost)
                    self._listening = False
                finally:
                    self._inside = inside
            if self.state and not self._listening:
                self._lose(Lost(INTERRUPTED), 0.5)
                entry = self.journal.waiting
                if self.state == OPEN or (entry is not None and entry.number == self._number):
                    self.decided = None
                else:
                    self.clock, self.committed = self._time, self.state
                self.state = WHOLE

    def _shares_of(self, entry: Entry) -> list[Share]:
        files = [] if entry.batch is None else list(entry.batch.files)
        return [Share(operations, files) for operations in self._shares(entry.operations)]

    def _commit(self) -> None:
        """Nobody waits for the commit, unless changes are followed: these must be there before they are announced."""
        arguments = [(self._number,)] * self.partitions
        if self.journal.follows:
            self._crew_now().call("commit", arguments)
        else:
            self._crew_now().tell("commit", arguments)

    def _stashed(self, shares: list[Share]) -> list[Any]:
        """Shares, encoded, that fit into a message each; what does not fit is sent ahead."""
        rest = []
        for i, share in enumerate(shares):
            *ahead, last = _pieces(share.operations)
            for piece in ahead:
                self._crew_now().one(i, "stash", (piece,))
            rest.append((last, share.files))
        return rest

    def _segments(self, shares: list[Share]) -> list[tuple[float, list[Any]]]:
        """As everywhere; rows that were pushed come last."""
        found = super()._segments([share.operations for share in shares])
        parts = [(when, [Share(operations, []) for operations in mine]) for when, mine in found]
        when, last = parts[-1]
        parts[-1] = when, [Share(a.operations, b.files) for a, b in zip(last, shares, strict=True)]
        return parts

    def _move_to(self, when: float) -> Share:
        return Share([("@", None, when)], [])

    def _step(self, clock: float, shares: list[Any], begun: bool, anew: bool, steps: list[PassedStep]) -> bool:
        self._begun = begun
        return super()._step(clock, shares, begun, anew, steps)

    def _apply(self, shares: list[Any]) -> set[int]:
        begun, self._begun = self._begun, False
        concerned = super()._apply(self._stashed(shares))
        if self._data is not None and self._number == 1 and not begun:
            concerned = concerned.union(*[list(c) for c in self._all("input")])
        return concerned

    # --- recovery --------------------------------------------------------------------------------------------

    def _recover(self, before: int | None = None) -> None:
        """Start workers and bring them to where the journal is, or to where it was before a transaction."""
        if before is None:
            undecided = self.journal.waiting
            before = self.journal.number + (1 if undecided is None else 0)
        untold = self.decided, self.steps  # what is run again below is told already
        for attempt in range(ATTEMPTS):
            try:
                self._start()
                self._replay(before)
                self.journal.publish(before - 1)
                return
            except Lost as lost:
                self._lose(lost)
                if attempt == ATTEMPTS - 1:
                    raise Unavailable(f"the workers could not be started: {lost}") from lost
            except BaseException as error:
                # whatever they have got to by now, it is not where they should be
                self._lose(Lost(f"recovery failed: {error}"))
                raise
            finally:
                self.decided, self.steps = untold

    def _load(self, number: int | None, clock: float, partitions: int) -> None:
        self._all("load", number, clock, partitions)

    def _absorb(self, entry: Entry) -> None:
        self._each("absorb", [(share,) for share in self._stashed(self._shares_of(entry))])

    def _alone(self, entry: Entry) -> bool:
        """Rows that come in with the stage are where workers look for them in its first transaction."""
        return super()._alone(entry) or (self._data is not None and entry.number == 1)

    def _begin_to_follow(self, view: str, number: int, whole: bool, before: int | None = None) -> list[int]:
        return self._all("follow", view, number, whole, before)

    def _cease_to_follow(self, view: str) -> None:
        with suppress(Lost):  # what is left of it then is written anew
            self._all("unfollow", view)

    # --- checkpoints -----------------------------------------------------------------------------------------

    def _write_checkpoint(self, follows: Iterable[str] | None = None, description: Description | None = None) -> None:
        for _ in range(ATTEMPTS):
            self._alive()
            inside, self._inside = self._inside, True
            try:
                super()._write_checkpoint(follows, description)
                self._since = 0
                self._data = None
                return
            except Lost as lost:
                self._lose(lost)
            finally:
                self._inside = inside
        raise RuntimeProblem("the workers died again and again while a checkpoint was written")

    def _write_facts(self, number: int) -> list[tuple[str, int, Part]]:
        return [part for written in self._all("checkpoint", number) for part in written]

    # --- DataFrames ------------------------------------------------------------------------------------------

    def push_frames(self, frames: list[Any], query: tuple[str, int] | None = None) -> Pushed:
        """Bring the rows of DataFrames that were hashed to their owners there, for `run_pushed`.

        Spark's tasks push them; they never pass the driver. Nothing is pushed of a batch that was applied before.
        """
        from livelog.runtime.spark.dataframes import push  # needs pyspark

        if self.applied(query):
            return "", []
        self._check_slots(beside=True)
        for attempt in range(ATTEMPTS):
            # Without the lock: the rows may come from a view of this very session.
            folder = f"push-{secrets.token_hex(8)}"
            try:
                tls = self.config.tls
                return folder, [f for df in frames for f in push(df, self.addresses, self._secret, folder, tls)]
            except Exception:
                if attempt == ATTEMPTS - 1 or not self._over():
                    raise
        raise AssertionError("the last attempt returns or raises")

    def run_pushed(self, pushed: Pushed, query: tuple[str, int] | None = None) -> dict[str, Sides]:
        """One transaction with rows that were pushed. A batch of a query that was applied before changes nothing."""
        folder, files = pushed
        layout = self.journal.layout
        with self.lock:
            if self.applied(query):
                return {}
            number = self.journal.number + 1
            if files:
                shutil.rmtree(layout.batch(number), ignore_errors=True)  # of one that could not be begun
                os.rename(layout.batches / folder, layout.batch(number))
                sync_folder(layout.batches)
            batch = Batch(tuple(
                BatchFile(relation, sign, f"{number}/{name.partition('/')[2]}", owner, self.partitions)
                for relation, sign, name, owner, _ in files
            ))  # fmt: skip
            return self.run((), batch=batch, query=query)

    def _over(self) -> bool:
        return self._crew is None or self._crew.stage.over

    def applied(self, query: tuple[str, int] | None) -> bool:
        """Whether a batch of a streaming query was applied before."""
        return query is not None and query[1] <= self.journal.queries.get(query[0], -1)


def _pieces(operations: list[Operation], size: int = 20_000) -> Iterator[msgspec.Raw]:
    """Operations as msgpack, in pieces that fit into a message each; at least one piece."""
    for start in range(0, max(1, len(operations)), size):
        some = operations[start : start + size]
        data = encode(some)
        if len(data) > STASH and len(some) > 1:
            yield from _pieces(some, max(1, size // 16))
        else:
            yield msgspec.Raw(data)
