"""The process that runs one job: `python -m livelog.simulation.child`, the job on standard input.

Reports go to what was standard output; whatever else is printed goes to standard error. A timer that counts processor
time looks after the limits from inside, so that a run that passes one can still tell what it had reached. Where a
single step of C code takes so long that Python never gets to look, the system ends the process a little later.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from math import ceil
from typing import Any, NoReturn

from datalog.errors import LivelogError
from livelog.memory import resident
from livelog.simulation.job import Job, decode_job, frame, open_job, workload_of
from livelog.simulation.measure import Meter
from livelog.simulation.reports import Failed, Report, Why

__all__ = ["main"]

TICK = 0.1
"""Seconds of processor time between two looks at the limits."""

GRACE = 30.0
"""Seconds of processor time without a look at the limits after which the system ends the process."""


class Child:
    """A job under way."""

    def __init__(self, job: Job, out: int) -> None:
        self.job = job
        self._out = out
        self._parent = os.getppid()
        self._meter: Meter | None = None
        self._pending: Why | None = None

    def run(self) -> None:
        job = self.job
        signal.signal(signal.SIGINT, self._interrupted)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open_job(job) as session:
            meter = self._meter = Meter(session, rows=job.rows)
            signal.signal(signal.SIGPROF, self._tick)
            signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
            for report in meter.run(workload_of(job), job.batches):
                self.send(report)
                self._look()
                if self._pending is not None:
                    self._stop(self._pending)
            signal.setitimer(signal.ITIMER_PROF, 0)

    def send(self, report: Report) -> None:
        data = memoryview(frame(report))
        while data:
            data = data[os.write(self._out, data) :]

    # --- limits ----------------------------------------------------------------------------------------------

    def _tick(self, *_: Any) -> None:
        if os.getppid() != self._parent:  # nobody listens any more
            os._exit(1)
        _extend()
        self._look()
        # Only inside a transaction: elsewhere a report may be half written.
        if self._pending is not None and self._meter is not None and self._meter.inside:
            self._stop(self._pending)

    def _interrupted(self, *_: Any) -> None:
        self._pending = self._pending or "interrupted"
        if self._meter is not None and self._meter.inside:
            self._stop(self._pending)

    def _look(self) -> None:
        """Notice that a limit is passed."""
        assert self._meter is not None
        time_limit, memory_limit = self.job.time_limit, self.job.memory_limit
        if time_limit is not None and self._meter.spent() > time_limit:
            self._pending = "time"
        elif memory_limit is not None and resident() > memory_limit:
            self._pending = "memory"

    def _stop(self, why: Why) -> NoReturn:
        """Tell what was reached, measure the state if that is possible, and be gone without cleaning up."""
        assert self._meter is not None
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.send(self._meter.stopped(why))
        _extend()
        try:
            self.send(self._meter.figures())
        except Exception as error:  # in the middle of a transaction the tables need not agree with each other
            print(f"the state could not be measured: {error!r}", file=sys.stderr)
        os._exit(0)


def _extend() -> None:
    """Put off the moment at which the system ends this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = ceil(time.process_time() + GRACE)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def main() -> int:
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    child = Child(decode_job(sys.stdin.buffer.read()[4:]), out)
    try:
        child.run()
    except LivelogError as error:
        child.send(Failed(error.render()))
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
