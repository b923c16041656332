"""SparkRuntime: the partitions of a session are the tasks of one barrier stage.

Every transaction is in the journal before a worker hears of it. When a worker is lost, all of them are started
again: they load the newest checkpoint, absorb the facts of the transactions after it, evaluate once, and the
transaction that was under way is run again. Who waits for it notices nothing but the time.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.spark.clients import Clients
from livelog.runtime.spark.config import Spark
from livelog.runtime.spark.crew import Lost
from livelog.runtime.spark.formats import Batch, BatchFile, Description, Entry
from livelog.runtime.spark.layout import sync_folder
from livelog.runtime.spark.messages import Share, encode
from livelog.runtime.spark.staff import ATTEMPTS, INTERRUPTED
from livelog.runtime.worker import Method, Operation, Sides
from operators.errors import OperatorError
from planner.plan import Plan

__all__ = ["SparkRuntime"]

STASH = 8 << 20
"""Bytes of operations in a message, unless a single one has more."""


class NoWorkers(RuntimeProblem):
    """Spark does not start the workers."""


class SparkRuntime(Clients):
    """A session's partitions over Spark. Made by the session."""

    def __init__(
        self,
        plan: Plan,
        method: Method,
        limit: int | None,
        sizes: Mapping[str, int],
        config: Spark,
        description: Description | None,
        data: Any = None,
    ) -> None:
        self.rerun: tuple[Entry, dict[str, Sides]] | None = None  # what another driver had begun
        self._number = 0  # of the transaction under way
        self._committed = 0  # the last one that workers were told to commit
        self._since = 0  # transactions since the last checkpoint
        super().__init__(plan, method, limit, sizes, config, description, data)
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
        if before != self.partitions:
            self.checkpoint()  # from here on, so many partitions it is

    def _finish_undecided(self) -> None:
        entry = self.journal.undecided()
        if entry is None:
            return
        self._inside = True
        try:
            self.rerun = entry, self._execute(entry)
            self.journal.end(entry.number, committed=True)
        except NoWorkers:
            raise
        except (OperatorError, RuntimeProblem) as error:
            self._note(f"transaction {entry.number}, which was under way, failed and was rolled back: {error}")
            self.journal.end(entry.number, committed=False)
        finally:
            self._inside = False

    # --- transactions ----------------------------------------------------------------------------------------

    def run(
        self,
        operations: Iterable[Operation],
        **origin: Any,
    ) -> dict[str, Sides]:
        """`origin` is what `Journal.begin` takes: `batch`, `query`, `source`, `position`."""
        with self.lock:
            self._release()
            entry = self.journal.begin(operations, **origin)
            self._inside = True
            try:
                changes = self._execute(entry)
                self.journal.end(entry.number, committed=True)
            except BaseException as error:
                if self.journal.undecided() is None:
                    raise  # an interrupt that came too late
                if self._committed == entry.number:
                    self._lose(Lost(f"a commit was interrupted: {type(error).__name__}"))
                self.journal.end(entry.number, committed=False)
                raise
            finally:
                self._inside = False
            self._since += 1
            if self._since >= self.config.checkpoint_every:
                try:
                    self.checkpoint()
                except RuntimeProblem as error:  # no fault of this transaction's; the next one tries again
                    self._note(f"no checkpoint was written: {error}")
            return changes

    def _execute(self, entry: Entry) -> dict[str, Sides]:
        """Run a transaction of the journal, on new workers if need be."""
        for _ in range(ATTEMPTS):
            try:
                if self._crew is None or self._crew.stage.over:
                    self._recover(before=entry.number)
                return self._perform(entry)
            except Lost as lost:
                self._lose(lost)
                reason = str(lost)
        raise RuntimeProblem(f"the workers died {ATTEMPTS} times in this transaction, which was given up: {reason}")

    def _perform(self, entry: Entry) -> dict[str, Sides]:
        """Run a transaction on the workers that are there. All or nothing."""
        clock = self.clock
        self._number = entry.number
        return self._transact(self._shares_of(entry), clock)

    def _undo(self, error: BaseException) -> None:
        if not isinstance(error, Exception):  # an interrupt: nobody waits until busy workers listen
            self._lose(Lost(INTERRUPTED), 0.5)
        elif not isinstance(error, Lost):
            with suppress(Lost):  # then it is undone even more thoroughly
                self._roll_back()

    def _shares_of(self, entry: Entry) -> list[Share]:
        files = [] if entry.batch is None else list(entry.batch.files)
        return [Share(operations, files) for operations in self._shares(entry.operations)]

    def _commit(self) -> None:
        """Nobody waits for the commit, unless changes are followed: these must be there before they are announced."""
        arguments = [(self._number,)] * self.partitions
        self._committed = self._number  # some may have, from here on
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

    def _apply(self, shares: list[Any]) -> set[int]:
        concerned = super()._apply(self._stashed(shares))
        if self._data is not None and self._number == 1:
            concerned = concerned.union(*[list(c) for c in self._all("input")])
        return concerned

    # --- recovery --------------------------------------------------------------------------------------------

    def _recover(self, before: int | None = None) -> None:
        """Start workers and bring them to where the journal is, or to where it was before a transaction."""
        for attempt in range(ATTEMPTS):
            try:
                self._start()
                self._replay(self.journal.number + 1 if before is None else before)
                return
            except Lost as lost:
                self._lose(lost)
                if attempt == ATTEMPTS - 1:
                    raise NoWorkers(f"the workers could not be started: {lost}") from lost
            except BaseException as error:
                # whatever they have got to by now, it is not where they should be
                self._lose(Lost(f"recovery failed: {error}"))
                raise

    def _replay(self, before: int) -> None:
        manifest = self.journal.newest()
        self.clock = 0.0 if manifest is None else manifest.clock
        self.stale = False
        number = None if manifest is None else manifest.number
        self._all("load", number, self.clock, self.partitions if manifest is None else manifest.partitions)
        done = number or 0
        last = done
        if self.journal.follows:
            last = max([done, *(e.number for e in self.journal.entries(done) if e.number < before)])
        # What a transaction recorded that was given up, or is run again, does not count.
        recorded = [self._all("follow", view, done, False, last + 1) for view in self.journal.follows]
        # Changes that are followed and were not recorded everywhere are made again, one transaction after the other.
        certain = max([done, *([min(map(min, recorded))] if recorded else [before])])
        behind = number is not None  # whether the views have yet to be evaluated
        for entry in self.journal.entries(done):
            if entry.number >= before:
                break
            if entry.number <= certain and not (self._data is not None and entry.number == 1):
                self._each("absorb", [(share,) for share in self._stashed(self._shares_of(entry))])
                behind = True
            else:
                if behind:
                    self._catch_up()
                behind = False
                self._perform(entry)
        if behind:
            self._catch_up()

    def _catch_up(self) -> None:
        """Evaluate the facts that were absorbed."""
        self._evaluate(self._start_over())
        if self._recompute:
            self._all("keep")
        self._all("commit")

    # --- checkpoints -----------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write all facts, and start the log over."""
        with self.lock:
            for _ in range(ATTEMPTS):
                self._alive()
                inside, self._inside = self._inside, True
                try:
                    number, _ = self.journal.start_checkpoint()
                    parts = [part for written in self._all("checkpoint", number) for part in written]
                    self.journal.finish_checkpoint(number, self.clock, parts, self.partitions)
                    self._since = 0
                    self._data = None
                    return
                except Lost as lost:
                    self._lose(lost)
                finally:
                    self._inside = inside
            raise RuntimeProblem("the workers died again and again while a checkpoint was written")

    # --- DataFrames ------------------------------------------------------------------------------------------

    def load_frames(
        self, frames: list[Any], *, query: tuple[str, int] | None = None
    ) -> dict[str, Sides] | None:
        """One transaction with the rows of DataFrames that were hashed to their owners.

        Spark's tasks push them; they never pass the driver. None: this batch of the query was applied before.
        """
        from livelog.runtime.spark.dataframes import push  # needs pyspark

        if self.applied(query):
            return None
        self._check_slots(beside=True)
        layout = self.journal.layout
        for attempt in range(ATTEMPTS):
            # Without the lock: the rows may come from a view of this very session.
            folder = f"push-{secrets.token_hex(8)}"
            try:
                files = [f for df in frames for f in push(df, self.addresses, self._secret, folder)]
                break
            except Exception:
                if attempt == ATTEMPTS - 1 or not self._over():
                    raise
        with self.lock:
            if self.applied(query):
                return None
            number = self.journal.number + 1
            if files:
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
