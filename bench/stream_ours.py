"""Ours, as a peer among the others: a transaction for each point, until its sorted changes can be read.

The window is a condition on the times of arrival. `OursAtPoints` reads the streams as they were at the last point of a
schedule, which here is every time at which something arrives: what that costs is the buffer in between.
"""

from __future__ import annotations

from collections.abc import Iterable

import datalog
import livelog
from bench.stream_tasks import Batch, Row

__all__ = ["Ours", "OursAtPoints"]

PROGRAMS = {
    "count": """
        .decl s(k: number, x: number) stream
        answer(k, count<*>) :- s(k, _)@t{at}, now(n), n - {window} < t.
    """,
    "join": """
        .decl a(k: number, x: number) stream
        .decl b(k: number, y: number) stream
        answer(x, y) :- a(k, x)@t{at}, b(k, y)@u{at}, now(n), n - {window} < t, n - {window} < u.
    """,
}


class Ours:
    """A session with the program of a task."""

    at = ""

    def __init__(self, task: str, window: int) -> None:
        self._session = livelog.open(datalog.parse(PROGRAMS[task].format(window=window, at=self.at)))

    def point(self, now: int, batch: Batch) -> None:
        with self._session.transaction() as tx:
            for name, rows in batch.items():
                tx.insert_all(name, rows, at=now)
        changes = tx.changes["answer"]
        _ = changes.deleted, changes.inserted

    def after(self) -> None:
        """Nothing is left to be done."""

    def answer(self) -> Iterable[Row]:
        return self._session["answer"]

    def close(self) -> None:
        self._session.close()


class OursAtPoints(Ours):
    """The same with synchronised reads."""

    at = " at every(1)"
