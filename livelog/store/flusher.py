"""Flusher: a thread that writes now and then what a journal has gathered."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from datalog.errors import RuntimeProblem

if TYPE_CHECKING:
    from livelog.store.journal import Journal

__all__ = ["Flusher"]

_log = logging.getLogger(__name__)


class Flusher:
    """Flushes a journal every so many seconds, until it is stopped or nobody holds the journal any more.

    What cannot be written is told by the next transaction; here it is only noted, once.
    """

    def __init__(self, journal: Journal, interval: float) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_run, args=(weakref.ref(journal), interval, self._stop), name="livelog-flusher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """No more flushes from here; one that is under way is waited for."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _run(reference: weakref.ref[Journal], interval: float, stop: threading.Event) -> None:
    troubled = False
    while not stop.wait(interval):
        journal = reference()
        if journal is None:
            return
        try:
            journal.flush()
            troubled = False
        except Exception as problem:  # whatever it was, the next one may do better
            if not troubled:
                _log.warning("%s", problem.message if isinstance(problem, RuntimeProblem) else repr(problem))
            troubled = True
        del journal
