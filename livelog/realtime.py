"""Real time: the clock of the machine as the clock of a session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from datalog.errors import UsageProblem
from livelog.operations import Operation
from livelog.subscribers import SubscriberProblem

if TYPE_CHECKING:
    from livelog.session import Session

__all__ = ["TICK", "RealClock", "milliseconds"]

TICK = 0.1
"""Seconds after which the clock is moved when nothing else moves it."""

Time = Callable[[], float]


def milliseconds(now: Time = time.time) -> float:
    """The seconds since 1970, to the millisecond: what comes within one comes at the same time.

    >>> milliseconds(lambda: 12.3456)
    12.345
    """
    return int(now() * 1000) / 1000


class RealClock:
    """A session's clock that goes with the machine's, in a `with` block. Made by `Session.follow_clock`.

    A thread moves it every `tick` seconds, in a transaction of its own, which subscribers hear of like any other; and
    every transaction begins with moving it. It never goes back: when the machine's does, it stands until that has
    caught up.

    When the clock cannot be moved, because a rule fails on what is true then, it stops. The next transaction raises
    what was wrong, and so does the end of the block if no transaction did. What a subscriber raises does not stop it,
    and is raised in the same way, once.
    """

    def __init__(self, session: Session, tick: float = TICK, now: Time = time.time) -> None:
        if isinstance(tick, bool) or not isinstance(tick, (int, float)) or not 0 < tick < threading.TIMEOUT_MAX:
            raise UsageProblem(f"`tick` is a number of seconds, not {tick!r}")
        self._session = session
        self._tick = tick
        self._now = now
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        self._told = False  # whether somebody has heard of the problem

    def now(self) -> float:
        """The time of the machine, in seconds since 1970, to the millisecond."""
        return milliseconds(self._now)

    def tick(self) -> bool:
        """Move the session's clock now, if the machine's went on; whether it did. The thread does this by itself.

        The clock of a session that is kept in a folder is moved when something happens, so that its log does not grow
        with the time.
        """
        session = self._session
        if (now := self.now()) <= session.clock or session._idle(now):
            return False
        session._commit([])  # which begins with the time
        return True

    def stamp(self, operations: list[Operation], first: float | None, clock: float) -> None:
        """Let a transaction begin at the time that it is. With the session's lock held."""
        if first is not None:
            raise UsageProblem(
                "the clock of the session follows real time: operations have the time at which they are committed, and "
                "cannot be given another one"
            )
        if self._thread is not threading.current_thread():
            self._raise()
        if (now := self.now()) > clock:
            operations.insert(0, ("@", None, now))

    def _raise(self) -> None:
        problem = self._problem
        if problem is None:
            return
        self._told = True
        if isinstance(problem, SubscriberProblem):
            self._problem = None
        raise problem

    def _run(self) -> None:
        while not self._stop.wait(self._tick):
            try:
                self.tick()
            except SubscriberProblem as problem:
                self._problem, self._told = problem, False
            except Exception as error:
                if not self._session._closed:
                    self._problem, self._told = error, False
                return

    def __enter__(self) -> RealClock:
        session = self._session
        with session._lock:
            session._alive()
            if session._real is not None:
                raise UsageProblem("the clock of the session follows real time already")
            if self._thread is not None:
                raise UsageProblem("this clock has been followed; `follow_clock` makes another one")
            self._thread = threading.Thread(target=self._run, daemon=True, name="livelog clock")
            session._follow(self)
        try:
            self.tick()
            self._thread.start()
        except BaseException:
            session._follow(None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        self._session._follow(None)
        if kind is None and not self._told:
            self._raise()
