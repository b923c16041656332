"""Live feeds: when to commit what comes in line by line, and where the lines go that cannot be applied."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import TextIO

from datalog.errors import FactProblem

__all__ = ["Cadence", "Rejected", "parse_cadence", "timed"]


@dataclass(frozen=True, slots=True)
class Cadence:
    """When a transaction ends, besides where the script says so: after so many operations, or after so much time."""

    most: int | None = None
    seconds: float | None = None


def parse_cadence(text: str) -> Cadence:
    """`line`, a number of operations, or seconds.

    >>> parse_cadence("line"), parse_cadence("100"), parse_cadence("0.5s")
    (Cadence(most=1, seconds=None), Cadence(most=100, seconds=None), Cadence(most=None, seconds=0.5))
    """
    if text == "line":
        return Cadence(most=1)
    if re.fullmatch(r"[0-9]{1,15}", text) and int(text):
        return Cadence(most=int(text))
    if (match := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s", text)) and float(match[1]):
        return Cadence(seconds=float(match[1]))
    raise ValueError(f"expected line, a number of operations, or seconds as in 0.5s, not {text!r}")


def timed(lines: Iterable[str], seconds: float) -> Generator[str | None, None, None]:
    """The lines as they come, and None whenever so many seconds have passed since the first after the last None.

    A thread of its own reads them, so that time passes while nothing comes.
    """
    waiting: Queue[str | BaseException | None] = Queue(maxsize=10_000)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True, name="livelog feed").start()
    due: float | None = None
    while True:
        try:
            found = waiting.get(timeout=None if due is None else max(0.0, due - time.monotonic()))
        except Empty:
            due = None
            yield None
            continue
        if found is None:
            return
        if isinstance(found, BaseException):
            raise found
        if due is None:
            due = time.monotonic() + seconds
        yield found
        if due is not None and time.monotonic() >= due:  # lines come faster than the time goes by
            due = None
            yield None


class Rejected:
    """A file of the lines that were not applied, each below a comment that says why: an update script to be mended.

    It is made when there is something to write, and added to if it is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.numbers: set[int] = set()
        """The lines of the transaction that is being read; whoever ends it forgets them."""
        self._file: TextIO | None = None

    def add(self, name: str, number: int, text: str, reason: str) -> None:
        """Note a line, at once: whoever looks on sees it."""
        try:
            if self._file is None:
                self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
            self._file.write(f"// {name}:{number}: {' '.join(reason.split())}\n{text}\n")
            self._file.flush()
        except OSError as error:
            raise FactProblem(f"{self.path}: cannot be written: {error.strerror}") from None
        self.count += 1
        self.numbers.add(number)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

