"""Run a job over Spark, steered from this process, and read its reports as they come.

The seconds are those of the clock on the wall: the processors that work are not this process's. A timer looks after
the limits. It interrupts the wait for the workers, and closing the session then ends them, wherever they are.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from datalog.errors import LivelogError
from livelog.memory import resident
from livelog.simulation.apart import Apart, RunFailed
from livelog.simulation.job import Job, open_job, workload_of
from livelog.simulation.measure import Meter
from livelog.simulation.reports import Report, Why
from livelog.simulation.strategies import Strategy

if TYPE_CHECKING:
    import livelog

__all__ = ["Over", "runner"]

TICK = 0.25
"""Seconds between two looks at the limits."""

GRACE = 2.0
"""Seconds that the workers get to take a transaction back that was broken off. Nobody needs them afterwards."""


def runner(job: Job, runtime: livelog.Spark | None) -> Apart | Over:
    """What runs a job: a process of its own, or Spark."""
    return Apart(job) if runtime is None else Over(job, runtime)


class Enough(BaseException):
    """Breaks off a transaction. Not an `Exception`: nothing on the way out may take it for a failure of its own."""


class Over:
    """A job over Spark; iterate over it for the reports.

    `interrupt`, called from a signal handler, stops where it is and tells what has been reached; the second time, or
    before there is anything to tell, it raises `KeyboardInterrupt`. Limits are looked at during a transaction where the
    main thread iterates, and between transactions elsewhere.
    """

    def __init__(self, job: Job, runtime: livelog.Spark) -> None:
        self.job = job
        self._strategy = str(Strategy(job.strategy, job.ship))
        if runtime.checkpoint is not None:  # each session has a folder of its own
            runtime = replace(runtime, checkpoint=Path(runtime.checkpoint) / self._strategy.replace("/", "-"))
        self._runtime = runtime
        self._meter: Meter | None = None
        self._pending: Why | None = None
        self._raised: float | None = None
        self._spent = 0.0
        self._reading: Generator[Report] | None = None
        self._workers: list[int] = []
        self._peak: int | None = None

    def interrupt(self) -> None:
        """Stop and tell what has been reached; or, when asked again, at once."""
        if self._meter is None or self._pending == "interrupted":
            raise KeyboardInterrupt
        self._pending = "interrupted"
        self._break_off()

    def __iter__(self) -> Iterator[Report]:
        self._reading = self._run()
        return self._reading

    def _run(self) -> Generator[Report]:
        try:
            with open_job(self.job, self._runtime) as session:
                meter = self._meter = Meter(
                    session, rows=self.job.rows, clock=time.perf_counter, memory=lambda: self._peak
                )
                with self._ticking():
                    yield from self._reports(meter)
        except LivelogError as error:
            raise RunFailed(error.render(), self._strategy) from None

    def _reports(self, meter: Meter) -> Iterator[Report]:
        self._find_workers()
        reports = meter.run(workload_of(self.job), self.job.batches)
        try:
            for report in reports:
                yield report
                self._find_workers()
                self._look()
                if self._pending is not None:
                    break
        except Enough:
            pass
        if self._pending is None:
            return
        stopped = meter.stopped(self._pending)
        if meter.inside:  # in the middle of a transaction there is nothing to be measured
            yield msgspec.structs.replace(stopped, seconds=self._spent)
        else:
            yield stopped
            yield meter.figures()

    # --- limits ----------------------------------------------------------------------------------------------

    @contextmanager
    def _ticking(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _tick(self, *_: Any) -> None:
        self._look()
        self._break_off()

    def _break_off(self) -> None:
        """Leave the transaction under way; and leave it at once, if taking it back takes too long."""
        if self._pending is None or self._meter is None or not self._meter.inside:
            return
        if self._raised is None:
            self._spent = self._meter.spent()
        elif time.monotonic() - self._raised < GRACE:
            return
        self._raised = time.monotonic()
        raise Enough

    def _look(self) -> None:
        """Notice that a limit is passed."""
        assert self._meter is not None
        held = sum(map(resident, self._workers))
        if held:
            self._peak = max(self._peak or 0, held)
        time_limit, memory_limit = self.job.time_limit, self.job.memory_limit
        if self._pending is not None:
            return
        if time_limit is not None and self._meter.spent() > time_limit:
            self._pending = "time"
        elif memory_limit is not None and held > memory_limit:
            self._pending = "memory"

    def _find_workers(self) -> None:
        """The processes of the partitions, as far as they are on this machine."""
        assert self._meter is not None
        if re.match(r"local(\[|$)", str(self._runtime.spark.sparkContext.master)):
            self._workers = self._meter.session._spark.pids

    def __enter__(self) -> Over:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session, wherever the reading of the reports has stopped."""
        if self._reading is not None:
            self._reading.close()
