"""Staff: the workers of a session over Spark, whoever they are at the moment.

They are started, reached, given up and replaced here, and lists too long to be sent stay with them. What they are told
to do is up to `livelog.runtime.spark.runtime`.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.planned import Planned
from livelog.runtime.journaled import Journaled
from livelog.runtime.limits import Watch
from livelog.runtime.spark.config import Spark
from livelog.runtime.spark.crew import Crew, Lost
from livelog.runtime.spark.hub import Hub
from livelog.runtime.spark.jvm import hush_accumulators, lives, quiet, talking
from livelog.runtime.spark.messages import Held
from livelog.runtime.spark.remote import Remote
from livelog.runtime.spark.slots import check_slots, slots
from livelog.runtime.spark.task import Assignment
from livelog.runtime.worker import Method, Sides
from livelog.store.formats import Description
from livelog.store.journal import Journal
from livelog.store.layout import write_atomically
from planner.plan import Plan

__all__ = ["ATTEMPTS", "INTERRUPTED", "Staff"]

ATTEMPTS = 4
"""How often something is tried with workers that die."""

FETCHED = 200_000
"""Changes of a view up to so many rows come to the driver with the transaction; more of them when they are read."""

INTERRUPTED = "interrupted"

_log = logging.getLogger("livelog")
_open: weakref.WeakSet[Staff] = weakref.WeakSet()


class Staff(Journaled):
    """The workers, the folder and the door of a session. Whoever inherits fills in `_recover` and `_answer`."""

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
        """`description` is what is opened; None: go on with what is in the directory. `data` are DataFrames' rows,
        hashed to their owners, that come in with the stage. What is `allowed`, workers watch over."""
        super().__init__(plan, config.partitions, method, limit, sizes)
        self.config = config
        self.generation = 0
        self.notices: deque[str] = deque(maxlen=1000)
        self._data = data
        self._first = self.planned  # the program as it was opened
        self._allowed = allowed or Watch(self.plan)
        self._crew: Crew | None = None
        self._closed = False
        self._inside = False  # whether a transaction or a recovery is under way
        self._bytes_before = [0] * self.partitions
        self._frames_before = [0] * self.partitions
        self._released: deque[tuple[int, int, int]] = deque()  # (generation, partition, held)
        self._check_slots(beside=False)
        self._temporary = None if config.checkpoint is not None else tempfile.mkdtemp(prefix="livelog-")
        # also at the end of the process, for those who forget to close a session
        self._remove_temporary = weakref.finalize(self, shutil.rmtree, self._temporary or "", ignore_errors=True)
        directory = self._temporary or str(config.checkpoint)
        sync = "always" if self._temporary is None else "never"
        try:
            if description is None:
                self.journal = Journal.open(directory, sync=sync, accept_loss=config.accept_loss)
            else:
                self.journal = Journal.create(directory, description, sync=sync)
        except BaseException:
            self._remove_temporary()
            raise
        _open.add(self)
        self._secret = secrets.token_bytes(32)
        conf = config.spark.sparkContext.getConf()
        # All of `local[n]` is this machine; elsewhere everybody listens where Spark does.
        self._host = "127.0.0.1" if re.match(r"local(\[|$)", config.spark.sparkContext.master or "") else None
        here = self._host or str(conf.get("spark.driver.host"))
        bind = self._host or conf.get("spark.driver.bindAddress") or here
        try:
            self._hub = Hub(bind, self._secret, self._answer, self._note, config.tls)
            self._address = (here, self._hub.port)
            running: dict[str, Any] = {"address": list(self._address), "secret": self._secret.hex(), "pid": os.getpid()}
            if config.tls is not None:
                running["tls"] = config.tls.paths()
            write_atomically(self.journal.layout.running, msgspec.json.encode(running))
        except BaseException:
            self.close()
            raise

    # --- what is filled in -----------------------------------------------------------------------------------

    def _recover(self, before: int | None = None) -> None:
        """Start workers and bring them to where the journal is, or to where it was before a transaction."""
        raise AssertionError("a runtime recovers")

    def _answer(self, question: list[Any]) -> Any:
        """Answer a client at the door."""
        raise AssertionError("a runtime answers")

    # --- who is there ----------------------------------------------------------------------------------------

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

    # --- long lists ------------------------------------------------------------------------------------------

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
            if str(lost) != INTERRUPTED and lives(self.config.spark):  # else none is started again
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
        self._wait_for_slots()
        manifest = self.journal.newest()
        assignment = Assignment(
            self.plan, self.partitions, self._method, self._limit, str(self.directory), self._address,
            self.generation, self._secret, self._host, dict(self._sizes),
            None if self._allowed.memory is None else self._allowed.memory.size, self._allowed.timeout,
            self.config.tls,
        )  # fmt: skip
        data = self._data if manifest is None else None
        name = self.journal.description.name
        spark = self.config.spark
        hush_accumulators(spark.sparkContext)
        with talking(spark), quiet(spark.sparkContext):
            self._crew = Crew(spark, assignment, name, data, self._hub, self.config.patience)
        if not all(self._all("see", str(self.journal.layout.session))):
            raise UsageProblem(
                f"not all executors see the folder {self.directory}: checkpoint= must be one that the driver and "
                "all executors reach under the same path, as the same user"
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

    @property
    def closed(self) -> bool:
        return self._closed

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
