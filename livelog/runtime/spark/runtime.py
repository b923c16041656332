"""SparkRuntime: the partitions of a session are the tasks of one barrier stage.

Every transaction is in the journal before a worker hears of it. When a worker is lost, all of them are started
again: they load the newest checkpoint, absorb the facts of the transactions after it, evaluate once, and the
transaction that was under way is run again. Who waits for it notices nothing but the time.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.runtime import Runtime
from livelog.runtime.skew import join_rules
from livelog.runtime.spark.config import Spark
from livelog.runtime.spark.crew import Crew, Lost
from livelog.runtime.spark.formats import Batch, BatchFile, Description, Entry
from livelog.runtime.spark.hub import Hub
from livelog.runtime.spark.journal import Journal
from livelog.runtime.spark.layout import sync_folder, write_atomically
from livelog.runtime.spark.messages import Held, Share, encode
from livelog.runtime.spark.remote import Remote
from livelog.runtime.spark.slots import check_slots, slots
from livelog.runtime.spark.task import Assignment
from livelog.runtime.worker import Method, Operation, Sides
from operators.errors import OperatorError
from planner.plan import Plan

__all__ = ["SparkRuntime"]

ATTEMPTS = 4
"""How often a transaction is tried on workers that die."""

FETCHED = 200_000
"""Changes of a view up to so many rows come to the driver with the transaction; more of them when they are read."""

STASH = 8 << 20
"""Bytes of operations in a message, unless a single one has more."""

INTERRUPTED = "interrupted"

HOLDS = 16
"""How many snapshots of views are kept for readers; older ones are let go."""

_log = logging.getLogger("livelog")


_open: weakref.WeakSet[SparkRuntime] = weakref.WeakSet()


class NoWorkers(RuntimeProblem):
    """Spark does not start the workers."""


class SparkRuntime(Runtime):
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
        """`description` is what is opened; None: go on with what is in the directory. `data` are DataFrames' rows,
        hashed to their owners, that come in with the stage."""
        super().__init__(plan, config.partitions, method, limit, sizes)
        self.config = config
        self.generation = 0
        self.notices: deque[str] = deque(maxlen=1000)
        self._data = data
        self._crew: Crew | None = None
        self._closed = False
        self._number = 0  # of the transaction under way
        self.rerun: tuple[Entry, dict[str, Sides]] | None = None  # what another driver had begun
        self._committed = 0  # the last one that workers were told to commit
        self._counts: list[Any] = []
        self._started = time.monotonic()
        self._inside = False  # whether a transaction or a recovery is under way
        self._bytes_before = [0] * self.partitions
        self._frames_before = [0] * self.partitions
        self._released: deque[tuple[int, int, int]] = deque()  # (generation, partition, held)
        self._holds: deque[list[tuple[int, Any]]] = deque()
        self._check_slots(beside=False)
        self._temporary = None if config.checkpoint is not None else tempfile.mkdtemp(prefix="livelog-")
        # also at the end of the process, for those who forget to close a session
        self._remove_temporary = weakref.finalize(self, shutil.rmtree, self._temporary or "", ignore_errors=True)
        directory = self._temporary or str(config.checkpoint)
        durable = self._temporary is None
        try:
            if description is None:
                self.journal = Journal.open(directory, durable=durable)
            else:
                self.journal = Journal.create(directory, description, durable=durable)
        except BaseException:
            self._remove_temporary()
            raise
        _open.add(self)
        self._since = 0  # transactions since the last checkpoint
        self._secret = secrets.token_bytes(32)
        conf = config.spark.sparkContext.getConf()
        # All of `local[n]` is this machine; elsewhere everybody listens where Spark does.
        self._host = "127.0.0.1" if re.match(r"local(\[|$)", config.spark.sparkContext.master or "") else None
        here = self._host or str(conf.get("spark.driver.host"))
        bind = self._host or conf.get("spark.driver.bindAddress") or here
        try:
            self._hub = Hub(bind, self._secret, self._answer, self._note)
            self._address = (here, self._hub.port)
            running = {"address": list(self._address), "secret": self._secret.hex(), "pid": os.getpid()}
            write_atomically(self.journal.layout.running, msgspec.json.encode(running), mode=0o600)
            if description is None:
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

    @property
    def directory(self) -> Path:
        """Where the log and the checkpoints are."""
        return self.journal.layout.directory

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The workers' doors."""
        return [hello.address for hello in self._alive().hellos]

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [hello.pid for hello in self._alive().hellos]

    def _note(self, text: str) -> None:
        self.notices.append(text)
        _log.warning("%s", text)

    # --- steps -----------------------------------------------------------------------------------------------

    def _each(self, step: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        results: list[Any] = self._surely(lambda crew: self._whole(step, crew.call(step, arguments)))
        return results

    def _one(self, partition: int, step: str, *arguments: Any) -> Any:
        return self._surely(lambda crew: crew.one(partition, step, arguments))

    def _run(self, step: str, i: int, *arguments: Any) -> list[Any]:
        results: list[Any] = self._surely(lambda crew: crew.run(step, (i, *arguments)))
        return results

    def _surely(self, act: Callable[[Crew], Any]) -> Any:
        """Do something with the workers; between transactions, with new ones if they are gone."""
        with self.lock:
            if self._inside:
                return act(self._crew_now())
            for _ in range(ATTEMPTS):
                try:
                    return act(self._alive())
                except Lost as lost:
                    self._lose(lost)
            raise RuntimeProblem("the workers died again and again")

    def _crew_now(self) -> Crew:
        if self._crew is None:
            raise Lost("there are no workers")
        return self._crew

    def _alive(self) -> Crew:
        """The workers, started again if they are gone."""
        with self.lock:
            if self._crew is not None and self._crew.stage.over:
                self._lose(Lost(self._crew.stage.error or "the stage ended"))
            if self._crew is None:
                inside, self._inside = self._inside, True
                try:
                    self._recover()
                finally:
                    self._inside = inside
            return self._crew_now()

    def _whole(self, step: str, results: list[Any]) -> list[Any]:
        """Results with the lists that are held for the driver fetched."""
        if step in ("rows", "facts", "matching"):
            return [self._fetched(i, r, step) if isinstance(r, Held) else r for i, r in enumerate(results)]
        return results

    def _fetched(self, partition: int, held: Held, step: str = "rows") -> list[Any]:
        rows = list(self._pages(partition, held, "fact_page" if step == "facts" else "page"))
        self._released.append((self.generation, partition, held.held))
        return rows

    def _pages(self, partition: int, held: Held, step: str = "page") -> Iterator[Any]:
        start = 0
        while start < held.count:
            page = self._crew_now().one(partition, step, (held.held, start))
            yield from page
            start += len(page)

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

    def _merged(self, results: list[dict[str, Any]]) -> dict[str, Sides]:
        """The changes of all partitions; long lists stay there until somebody looks."""
        pieces: dict[str, tuple[list[Any], list[Any]]] = {}
        for i, result in enumerate(results):
            for name, sides in result.items():
                both = pieces.setdefault(name, ([], []))
                for side, rows in zip(both, sides, strict=True):
                    side.append((i, rows))
        return {
            name: (self._joined(gained, name in self.wanted), self._joined(lost, name in self.wanted))
            for name, (gained, lost) in pieces.items()
        }

    def _joined(self, pieces: list[tuple[int, Any]], wanted: bool) -> list[Any]:
        count = sum(rows.count if isinstance(rows, Held) else len(rows) for _, rows in pieces)
        if wanted or count <= FETCHED:  # now, while the transaction can still be run again if a worker is lost
            pieces = [(i, self._fetched(i, rows) if isinstance(rows, Held) else rows) for i, rows in pieces]
        if any(isinstance(rows, Held) for _, rows in pieces):
            generation = self.generation
            return Remote(
                pieces,
                lambda partition, held: self._read_held(generation, partition, held),
                lambda held: self._released.extend((generation, i, h.held) for i, h in held),
            )
        return [t for _, rows in pieces for t in rows]

    def _read_held(self, generation: int, partition: int, held: Held) -> list[Any]:
        with self.lock:
            if generation != self.generation or self._crew is None:
                raise RuntimeProblem(
                    "the worker that kept these changes is gone; follow the view (`session.changes(view)`) to keep them"
                )
            return list(self._pages(partition, held))

    def _release(self) -> None:
        """Tell the workers which lists nobody reads any more."""
        if not self._released or self._crew is None:
            return
        unread: list[list[int]] = [[] for _ in range(self.partitions)]
        while self._released:
            generation, partition, held = self._released.popleft()
            if generation == self.generation:
                unread[partition].append(held)
        with suppress(Lost):
            self._crew.tell("release", [(held,) for held in unread])

    # --- workers come and go ---------------------------------------------------------------------------------

    def _lose(self, lost: Lost, wait: float = 5.0) -> None:
        """The workers are gone, or as good as gone. Those that live have so many seconds to end by themselves."""
        if self._crew is not None:
            if str(lost) != INTERRUPTED:
                self._note(f"a worker was lost and all are started again: {lost}")
            self._count_shipped()
            self._crew.dismiss(wait)
            self._crew = None

    def _count_shipped(self) -> None:
        for i, gauge in enumerate(self._crew.gauges if self._crew else ()):
            self._bytes_before[i] += gauge.bytes_shipped
            self._frames_before[i] += gauge.frames_shipped

    def _start(self) -> None:
        """Submit the stage."""
        self.generation += 1
        self._holds.clear()
        self._wait_for_slots()
        manifest = self.journal.newest()
        assignment = Assignment(
            self.plan, self.partitions, self._method, self._limit, str(self.directory), self._address,
            self.generation, self._secret, self._host,
        )  # fmt: skip
        data = self._data if manifest is None else None
        name = self.journal.description.name
        self._crew = Crew(self.config.spark, assignment, name, data, self._hub, self.config.patience)
        if not all(self._all("see", str(self.journal.layout.session))):
            raise UsageProblem(
                f"not all executors see the folder {self.directory}: checkpoint= must be one that the driver and "
                "all executors reach under the same path"
            )

    def _wait_for_slots(self) -> None:
        """An executor that died comes back; until then the stage could not start."""
        deadline = time.monotonic() + self.config.patience
        while slots(self.config.spark) < self.partitions + self._held_by_others():
            if time.monotonic() > deadline:
                self._check_slots(beside=False)
            time.sleep(0.05)

    def _held_by_others(self) -> int:
        """The slots of other sessions over the same Spark."""
        context = self.config.spark.sparkContext
        return sum(r.partitions for r in _open if r is not self and r.config.spark.sparkContext is context)

    def _check_slots(self, beside: bool) -> None:
        check_slots(self.config.spark, self.partitions, beside, held=self._held_by_others())

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

    # --- clients ---------------------------------------------------------------------------------------------

    def _answer(self, question: list[Any]) -> Any:
        """Answer a client at the door."""
        kind, *arguments = question
        try:
            if kind == "describe":
                return {"relations": self._described(), "transaction": self.journal.number}
            if kind == "hold":
                return self.hold(str(arguments[0]))
            if kind == "latest":
                return {"transaction": self._latest}
            if kind == "follow":
                return {"transaction": self.follow(str(arguments[0]), bool(arguments[1]))}
            if kind == "top":
                return self.top()
        except (UsageProblem, RuntimeProblem) as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": f"there is no question {kind!r}"}

    @property
    def _latest(self) -> int:
        undecided = self.journal.undecided()
        return self.journal.number if undecided is None else undecided.number - 1

    def _described(self) -> dict[str, Any]:
        relations = self.plan.relations.items()
        return {name: {"columns": r.columns, "types": r.types} for name, r in relations if r.kind != "auxiliary"}

    def hold(self, relation: str) -> dict[str, Any]:
        """A snapshot of a relation between two transactions, kept by the workers for readers that come soon."""
        if relation not in self._described():
            raise UsageProblem(f"the program has no relation `{relation}`")
        if relation in self.plan.pruned:
            raise UsageProblem(
                f"of `{relation}` only the best tuples are kept (aggregate selection); `.output {relation}` in the "
                "program keeps it whole"
            )
        with self.lock:
            self._check_slots(beside=True)
            self.restore()
            held = self._all("hold", relation)
            self._holds.append(list(enumerate(held)))
            while len(self._holds) > HOLDS:
                self._released.extend((self.generation, i, h["held"]) for i, h in self._holds.popleft())
            parts = [[*address, h["held"], h["count"]] for address, h in zip(self.addresses, held, strict=True)]
            return {"transaction": self._latest, "parts": parts}

    def follow(self, view: str, whole: bool) -> int:
        """Record the changes of a view from here on; returns the last transaction before that."""
        with self.lock:
            if view not in self.plan.published:
                raise UsageProblem(f"`{view}` is not a view whose changes are published")
            if view not in self.journal.follows:
                self.restore()
                entry = self.journal.begin((), follow=view)
                try:
                    self._all("follow", view, entry.number, whole)
                except BaseException:
                    self.journal.end(entry.number, committed=False)
                    raise
                self.journal.end(entry.number, committed=True)
            return self._latest

    def top(self) -> dict[str, Any]:
        """What `livelog top` shows. While a transaction runs, what was known last."""
        busy = not self.lock.acquire(timeout=0.05)
        if not busy:
            try:
                self._counts = self._all("gauge")
            finally:
                self.lock.release()
        crew = self._crew
        partitions = []
        for i in range(self.partitions if crew else 0):
            hello, gauge = crew.hellos[i], crew.gauges[i]  # type: ignore[union-attr]
            known: dict[str, Any] = {
                "partition": i,
                "host": hello.host,
                "pid": hello.pid,
                "bytes_shipped": self.bytes_shipped[i],
                "frames_shipped": self.frames_shipped[i],
                "queue": gauge.queue,
                "outbox": gauge.outbox,
                "busy_seconds": gauge.busy_seconds,
                **(self._counts[i] if self._counts else {"tuples": 0, "relations": {}}),
            }
            partitions.append(known)
        return {
            "transaction": self._latest,
            "generation": self.generation,
            "seconds": time.monotonic() - self._started,
            "busy": busy,
            "program": self.journal.description.name,
            "partitions": partitions,
            "joins": join_rules(self.plan),
        }

    # --- the rest --------------------------------------------------------------------------------------------

    @property
    def bytes_shipped(self) -> list[int]:
        gauges = self._crew.gauges if self._crew else []
        return [b + (gauges[i].bytes_shipped if gauges else 0) for i, b in enumerate(self._bytes_before)]

    @property
    def frames_shipped(self) -> list[int]:
        gauges = self._crew.gauges if self._crew else []
        return [f + (gauges[i].frames_shipped if gauges else 0) for i, f in enumerate(self._frames_before)]

    def close(self) -> None:
        with self.lock:
            if self._closed:
                return
            self._closed = True
            _open.discard(self)
            if self._crew is not None:
                with suppress(Exception):  # Spark itself may be gone
                    self._crew.stop()
                self._crew = None
            if hasattr(self, "_hub"):
                self._hub.close()
            with suppress(OSError):
                os.unlink(self.journal.layout.running)
            self.journal.close()
            self._remove_temporary()


def _pieces(operations: list[Operation], size: int = 20_000) -> Iterator[msgspec.Raw]:
    """Operations as msgpack, in pieces that fit into a message each; at least one piece."""
    for start in range(0, max(1, len(operations)), size):
        some = operations[start : start + size]
        data = encode(some)
        if len(data) > STASH and len(some) > 1:
            yield from _pieces(some, max(1, size // 16))
        else:
            yield msgspec.Raw(data)
