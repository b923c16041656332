"""Live feeds: when what comes in line by line is committed, at what time, and where lines go that cannot be applied."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from queue import Empty, Queue
from typing import TextIO, TypeVar

from datalog.errors import FactProblem
from livelog.realtime import milliseconds

__all__ = ["Arrivals", "Cadence", "Rejected", "parse_cadence", "timed"]


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
    take = _reader(lines, lambda line: line)
    due: float | None = None
    while True:
        try:
            found = take(None if due is None else max(0.0, due - time.monotonic()))
        except Empty:
            due = None
            yield None
            continue
        if found is None:
            return
        if due is None:
            due = time.monotonic() + seconds
        yield found
        if due is not None and time.monotonic() >= due:  # lines come faster than the time goes by
            due = None
            yield None


T = TypeVar("T")


def _reader(lines: Iterable[str], noted: Callable[[str], T]) -> Callable[[float | None], T | None]:
    """Reads lines in a thread of its own, and makes a note of each when it comes.

    Returns a function that takes the next note: it waits so many seconds at most, and raises `Empty` then; None is the
    end.
    """
    waiting: Queue[T | BaseException | None] = Queue(maxsize=10_000)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(noted(line))
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    def take(seconds: float | None) -> T | None:
        found = waiting.get(timeout=seconds)
        if isinstance(found, BaseException):
            raise found
        return found

    threading.Thread(target=read, daemon=True, name="livelog feed").start()
    return take


Arrival = tuple[str, float]
Take = Callable[["float | None"], "Arrival | None"]


class Arrivals:
    """Lines as they come, in real time; and None where the clock is to go on, and what has come is to be committed.

    `time` is when what was given out last came: the time of the machine, in seconds since 1970. It never goes back.
    None comes `tick` seconds after the last one; where lines have come since, `wait` seconds after the first of them.
    """

    def __init__(
        self, lines: Iterable[str], tick: float, wait: float | None = None, now: Callable[[], float] = milliseconds,
        take: Take | None = None, timer: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`take` brings the lines in place of a thread that reads them, `timer` tells how much time has passed."""
        self.time = -inf
        self._lines = lines
        self._tick = tick
        self._wait = tick if wait is None else wait
        self._now = now
        self._take = take
        self._timer = timer

    def __iter__(self) -> Iterator[str | None]:
        now, timer = self._now, self._timer
        take: Take = self._take or _reader(self._lines, lambda line: (line, now()))
        due, idle = timer() + self._tick, True
        while True:
            try:
                found = take(max(0.0, due - timer()))
            except Empty:
                found = None
            else:
                if found is None:
                    return
                line, when = found
                self.time = max(self.time, when)
                if idle:
                    due, idle = timer() + self._wait, False
                yield line
                if timer() < due:
                    continue
            self.time = max(self.time, now())
            due, idle = timer() + self._tick, True
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

