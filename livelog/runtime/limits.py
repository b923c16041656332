"""Limits on the memory of a session and on the time of a transaction.

The loops that evaluate rules ask nobody whether they may go on: a look at the clock for each tuple would cost more than
the tuple. Instead a *watchdog*, one thread for the whole process, looks now and then at what every transaction under
way takes, and raises `Exceeded` in the thread of one that takes too much. It sees by the stacks of the threads who
evaluates something, so that a transaction that is over before it looks costs nothing at all.

An exception that another thread raises can come anywhere. It must not come when the evaluation is over; so the watchdog
says that it is about to raise (`firing`) before it looks at the stack, and who has left the function that the watchdog
knows looks at that, and takes back what has not come yet.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from threading import get_ident
from types import CodeType, FrameType, TracebackType
from typing import Any
from weakref import WeakSet

from datalog.errors import UsageProblem
from livelog.memory import Memory, resident
from operators.errors import Exhausted
from planner.plan import Plan

__all__ = ["Exceeded", "Watch", "make_room", "watched"]

LOOK, SELDOM = 0.05, 0.25
"""Seconds between two looks of the watchdog: while something is evaluated, or was a second ago, and otherwise."""

AGAIN = 1.0
"""Seconds until it raises again what somebody has swallowed."""

_raise = ctypes.pythonapi.PyThreadState_SetAsyncExc
_marked: set[CodeType] = set()


class Exceeded(BaseException):
    """A transaction takes too much. Not an `Exception`, so that nobody takes it for a failure of a rule."""


def watched(method: Callable[..., Any]) -> None:
    """From now on the watchdog knows a method: what runs inside it is watched by the `_watch` of its object.

    Calls belong to the same transaction if the `_transaction` of the object is the same; if it has none, if they have
    the same argument.
    """
    _marked.add(method.__code__)


class _TakenBack(BaseException):
    """Comes in place of what was to be raised in this thread."""


def _take_back() -> None:
    """What is yet to be raised in this thread by another one is not.

    Setting it to nothing is not enough: CPython looks for it at every call from then on, finds nothing, and looks again
    (for ever, if the call is traced, by a debugger say). It only stops when something has come.
    """
    own = ctypes.c_ulong(get_ident())
    try:
        _raise(own, ctypes.py_object(_TakenBack))
        while True:  # it comes at once
            pass
    except _TakenBack:
        return
    except BaseException:  # an interrupt was faster
        _raise(own, None)
        raise


class Watch:
    """What one runtime may take: memory of the process, and seconds for each transaction. None is no limit.

    Whoever calls a method that is `watched` calls `calm` after it, if there is something `firing`, and asks about every
    error what is to be `told`; and if `Exceeded` comes right then, about that.
    """

    __slots__ = ("__weakref__", "_checked", "_lock", "_since", "_why", "firing", "memory", "plan", "timeout")

    def __init__(self, plan: Plan, memory: Memory | None = None, timeout: float | None = None) -> None:
        if timeout is not None and not (isinstance(timeout, (int, float)) and 0 < timeout < float("inf")):
            raise UsageProblem(f"the timeout must be a positive number of seconds, not {timeout!r}")
        self.plan = plan  # of which messages name a rule
        self.memory = memory
        self.timeout = timeout
        self.firing = False
        self._lock = threading.Lock()
        self._since: tuple[Any, float] = (None, 0.0)  # the transaction that was seen last, and when it was seen first
        self._checked = 0.0
        self._why = ""
        if memory is not None or timeout is not None:
            _watchdog.begin(self)

    def calm(self) -> None:
        """Nothing is evaluated any more: what was raised in this thread, and has not come yet, must not come.

        (Or it comes here, and the transaction has failed.)
        """
        with self._lock:
            _take_back()
            self.firing = False

    def told(self, error: BaseException) -> BaseException:
        """What to say of an error: if it is the watchdog's, one that names the limit and the rule."""
        fired = self.firing
        if fired:
            self.calm()
        if not isinstance(error, Exceeded) or not fired:  # (it may be that of another session around this one)
            return error
        rule = rule_at(error.__traceback__, self.plan)
        doing = "" if rule else _doing(error.__traceback__)
        if error.__traceback__ is not None:  # its frames hold what has been made, and there is little room left
            traceback.clear_frames(error.__traceback__)
            error.__traceback__ = None
        return Exhausted(self._why + doing, rule)

    def passed(self, transaction: Any, now: float, held: int) -> str:
        """Which limit a transaction has passed, as the beginning of a message; `held` is the memory of the process."""
        seen, first = self._since
        if seen is not transaction:
            self._since = (transaction, now)
            first = now
        if self.timeout is not None and now - first > self.timeout:
            return f"the transaction takes longer than {self.timeout:g} s"
        if self.memory is not None and self.memory.passed(held):
            return f"the session takes more than {self.memory}"
        return ""

    def check(self, transaction: Any, rule: Callable[[], str]) -> None:
        """The same between the parts of a transaction: they may be too short for the watchdog, which runs when the
        thread waits."""
        if (now := time.monotonic()) - self._checked > LOOK:
            self._checked = now
            if why := self.passed(transaction, now, resident()):
                raise Exhausted(why, rule())

    # --- what the watchdog does ------------------------------------------------------------------------------

    def fire(self, why: str, frame: FrameType, thread: int) -> bool:
        """Raise in a thread, if that still runs the frame."""
        with self._lock:
            self._why, self.firing = why, True
            if any(at is frame for at in _stack(sys._current_frames().get(thread))):
                _raise(ctypes.c_ulong(thread), ctypes.py_object(Exceeded))
                return True
            self.firing = False
            return False

    def forget(self) -> None:
        """Hold on to no argument of a call that is over. (A transaction of several may be between two of them.)"""
        if type(self._since[0]) is not object:
            self._since = (None, 0.0)

    def begin_anew(self) -> None:
        """In a process that was forked."""
        self._lock = threading.Lock()
        self.firing = False


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


class _Watchdog:
    """The thread that looks after all watches of this process, as long as there are any."""

    def __init__(self) -> None:
        self.watches: WeakSet[Watch] = WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, watch: Watch) -> None:
        """Look after one more."""
        with self._lock:
            self.watches.add(watch)
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="livelog limits", daemon=True)
                thread.start()
                self._thread = thread

    def _serve(self) -> None:
        busy = 0.0
        fired: dict[Watch, tuple[Any, float]] = {}
        while True:
            now = time.monotonic()
            try:
                found = self._look(now, fired)
            except MemoryError:  # there is not even room for a look: whoever takes it all hears of it, too
                found = True
            if found:
                busy = now
            else:
                fired.clear()
                with self._lock:
                    if not self.watches:
                        self._thread = None
                        return
            time.sleep(LOOK if now - busy < 1 else SELDOM)

    def _look(self, now: float, fired: dict[Watch, tuple[Any, float]]) -> bool:
        """One look at everything that is evaluated; whether there was anything."""
        held = 0
        found = self._found()
        for watch, (frame, transaction, thread) in found.items():
            if watch.memory is None and watch.timeout is None:
                continue
            held = held or resident()
            last, when = fired.get(watch, (None, 0.0))
            if last is not transaction or now - when > AGAIN:
                why = watch.passed(transaction, now, held)
                if why and watch.fire(why, frame, thread):
                    fired[watch] = transaction, now
        with self._lock:  # nobody may add one meanwhile
            watches = list(self.watches)
        for watch in watches:
            if watch not in found:
                watch.forget()
        return bool(found)

    @staticmethod
    def _found() -> dict[Watch, tuple[FrameType, Any, int]]:
        """What is evaluated, by the stacks of all threads: in which frame, of which transaction, in which thread."""
        found = {}
        own = get_ident()
        for thread, top in sys._current_frames().items():
            for frame in _stack(top) if thread != own else ():
                values = list(frame.f_locals.values()) if frame.f_code in _marked else []
                if len(values) > 1:  # otherwise it has ended while we look
                    owner, argument = values[:2]
                    found[owner._watch] = frame, getattr(owner, "_transaction", argument), thread
        return found


_watchdog = _Watchdog()


def _begin_anew() -> None:
    """A process that was forked has no thread yet."""
    global _watchdog
    watches = list(_watchdog.watches)
    _watchdog = _Watchdog()
    for watch in watches:
        watch.begin_anew()
        _watchdog.begin(watch)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def make_room(error: BaseException) -> None:
    """Let go of what a transaction had made that ran out of memory: the frames of its error hold all of it.

    Whoever goes back needs room, and so does Python itself: with none at all it tries for ever to raise an error.
    """
    chain: BaseException | None = error
    errors: list[BaseException] = []
    while chain is not None and len(errors) < 10:
        errors.append(chain)
        chain = chain.__cause__ or chain.__context__
    if any(isinstance(e, MemoryError) for e in errors):
        for e in errors:
            traceback.clear_frames(e.__traceback__)


# --- whose fault it is ---------------------------------------------------------------------------------------

_OURS = ("livelog.", "operators.", "planner.")


def rule_at(trace: TracebackType | None, plan: Plan) -> str:
    """The text of the rule that was being evaluated where a traceback ends; "" if it was none.

    The functions that run the loop of a rule have its text at hand, or an operator that has. Elsewhere it is a rule of
    the stratum: the one that derived most, if that is known.
    """
    texts = {rule.text for stratum in plan.strata for rule in stratum.rules}
    frames = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
            frames.append(trace.tb_frame.f_locals)
        trace = trace.tb_next
    for names in reversed(frames):
        for value in (names.get("text"), getattr(names.get("self"), "text", None), *map(_text, names.values())):
            if isinstance(value, str) and value in texts:
                return value
    for names in reversed(frames):
        stratum = getattr(names.get("self"), "stratum", None)
        if stratum is not None and stratum.rules:
            return str(getattr(names["self"], "busiest", stratum.rules[0].text))
    for names in reversed(frames):  # between two steps of a stratum
        i, workers = names.get("i"), getattr(names.get("self"), "workers", None)
        if isinstance(i, int) and workers:
            return str(workers[0].busiest(i))
    return ""


def _doing(trace: TracebackType | None) -> str:
    """What was being done where a traceback ends, if that was no rule."""
    found = ""
    while trace is not None:
        names = trace.tb_frame.f_locals
        where = trace.tb_frame.f_globals.get("__name__"), trace.tb_frame.f_code.co_name
        if where == ("livelog.runtime.worker", "apply") and (relation := names.get("name") or names.get("relation")):
            found = f", where facts of `{relation}` come and go"
        trace = trace.tb_next
    return found


def _text(value: Any) -> Any:
    """The text of an operator or of a rule of the plan."""
    return getattr(value, "text", None) if type(value).__module__.startswith(_OURS) else None
