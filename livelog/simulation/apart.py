"""Run a job in a process of its own, and read its reports as they come."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from datalog.errors import LivelogError
from livelog.memory import resident
from livelog.simulation.job import Job, decode_report, frame, split
from livelog.simulation.reports import Done, Failed, PhaseEnd, PhaseName, Report, Stopped, Why

__all__ = ["Apart", "RunFailed"]

POLL = 0.5
"""Seconds between two looks at the memory of the process."""

ROOM = 1.25
"""The factor over the memory limit at which a process that has not noticed is ended."""


class RunFailed(LivelogError):
    """A program failed on its facts, or the process that ran it did; the text is as it was rendered there."""

    def __init__(self, text: str, strategy: str) -> None:
        super().__init__(text)
        self.strategy = strategy

    def render(self) -> str:
        return f"{self.message}\nnote: with the strategy {self.strategy}"


class Apart:
    """A job in a process of its own; iterate over it for the reports.

    `interrupt` asks the process to stop where it is and to tell what it has reached; the second time, it is ended.
    Leaving the `with` block ends it, too.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._strategy = job.strategy if job.ship is None else f"{job.strategy}/{job.ship}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in __exit__)
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        # A fixed hash seed: what is measured must not depend on the order in which sets are gone through.
        # A session of its own, so that Ctrl-C reaches it only through `interrupt`.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "livelog.simulation.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}, start_new_session=True,
        )  # fmt: skip
        self._begun = self._interrupted = self._stopped = False
        self._why: Why | None = None
        # What is known of the phase, in case the process cannot say so itself.
        self._phase: PhaseName = "load"
        self._transactions = self._bytes = self._frames = 0
        self._seconds = 0.0

    def interrupt(self) -> None:
        """Stop soon and tell what has been reached; or, when asked again, at once."""
        if self._interrupted or not self._begun:  # before its first report it may not listen yet
            self._end("interrupted")
        else:
            self._interrupted = True
            self._process.send_signal(signal.SIGINT)

    def __iter__(self) -> Iterator[Report]:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(frame(self.job))
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it is gone already: how it ended tells why
        for report in self._reports():
            self._note(report)
            if isinstance(report, Failed):
                raise RunFailed(report.text, self._strategy)
            yield report
        code = self._process.wait()
        if code and not self._stopped:
            yield self._ended(code)

    def _reports(self) -> Iterator[Report]:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        buffer = bytearray()
        while True:
            readable, _, _ = select.select([source], [], [], POLL)
            if readable:
                data = os.read(source, 1 << 20)
                if not data:
                    return
                buffer += data
                yield from map(decode_report, split(buffer))
            limit = self.job.memory_limit
            if limit is not None and not self._stopped and resident(self._process.pid) > ROOM * limit:
                self._end("memory")

    def _note(self, report: Report) -> None:
        self._begun = True
        self._stopped = self._stopped or isinstance(report, Stopped)
        if isinstance(report, Done):
            self._transactions = report.number
            self._seconds += report.seconds
            self._bytes += report.bytes_shipped
            self._frames += report.frames
        elif isinstance(report, PhaseEnd):
            self._phase = "change"
            self._transactions = self._bytes = self._frames = 0
            self._seconds = 0.0

    def _ended(self, code: int) -> Stopped:
        """The process did not end by itself: the report that it could not make."""
        why = self._why
        if code == -signal.SIGXCPU:
            why = "time"
        elif why is None and code == -signal.SIGKILL:
            why = "memory"  # this is how the system ends a process when it has no memory left
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        if why is None and said.rpartition("\n")[2].startswith("MemoryError"):
            why = "memory"
        if why is None:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise RunFailed(f"error: the process ended unexpectedly ({how}){said and chr(10) + said}", self._strategy)
        seconds = max(self._seconds, self.job.time_limit or 0.0) if why == "time" else self._seconds
        return Stopped(why, self._phase, self._transactions, seconds, self._bytes, self._frames)

    def _end(self, why: Why) -> None:
        if self._process.poll() is None:
            self._why = why
            self._process.kill()

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._errors.close()
