"""Following: the change log of one view, kept from the moment somebody asks for it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from datalog.errors import UsageProblem
from livelog.changes import Changes
from livelog.runtime.journaled import Journaled
from livelog.shown import timeless
from livelog.store.followers import Follower

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["POLL", "Following"]

POLL = 0.05
"""Seconds between two looks whether there is anything new."""


class Following:
    """The changes of a view, transaction by transaction. Made by `Session.changes`.

    Iterating over it gives the changes of each transaction that was not read yet, and ends where there are no more;
    `follow` waits for those to come. They are in files of the session's folder, and so are there after a crash and
    after the session. A view that was not followed before is from here on: the first transaction then inserts it as
    it is.
    """

    def __init__(self, runtime: Journaled, relation: str, since: int | None = None, name: str | None = None) -> None:
        if since is not None and (isinstance(since, bool) or not isinstance(since, int) or not 0 <= since < 2**63):
            raise UsageProblem(f"`since` is the number of a transaction, not {since!r}")
        if name is not None and (not isinstance(name, str) or not name):
            raise UsageProblem(f"the name of a follower is a text, not {name!r}")
        self._runtime = runtime
        self.relation = relation
        self.since = runtime.follow(relation, True)
        """The transaction with which the log begins, or that it had reached if it was kept already."""
        self._begin = since, name
        self._follower: Follower | None = None
        if since is not None or name is not None:
            self._follower = self._made()

    def _made(self) -> Follower:
        follower = Follower(self._runtime.journal.layout, self.relation, *self._begin)
        weakref.finalize(self, follower.close)
        return follower

    def __iter__(self) -> Iterator[Changes]:
        if self._follower is None:
            self._follower = self._made()
        if not self._runtime.closed:
            self._runtime.journal.flush()
        plan = self._runtime.plan.relations[self.relation]
        for number, inserted, deleted in self._follower.changes():
            if plan.stream:
                inserted, deleted = timeless(inserted), timeless(deleted)
            yield Changes(self.relation, inserted, deleted, number, key=plan.key)

    def follow(self, timeout: float | None = None) -> Iterator[Changes]:
        """The same, and then those to come, until the session is closed, or nothing came for so many seconds."""
        while True:
            last = self._runtime.closed
            until = None if timeout is None else time.monotonic() + timeout
            for changes in self:
                yield changes
                until = None if timeout is None else time.monotonic() + timeout
            if last or (until is not None and not self._wait(until)):
                return
            if until is None:
                time.sleep(POLL)

    def _wait(self, until: float) -> bool:
        """Wait for a transaction; whether one came in time."""
        seen = self._runtime.journal.published
        while (left := until - time.monotonic()) > 0:
            if self._runtime.journal.published != seen or self._runtime.closed:
                return True
            time.sleep(min(POLL, left))
        return False

    def close(self) -> None:
        """Read no more: what was kept for this reader alone may go."""
        if self._follower is not None:
            self._follower.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def to_spark_stream(self, starting: int | str | None = None) -> DataFrame:
        """A streaming DataFrame: `_transaction`, `_change` ("+" or "-") and the view's columns, one row per change.

        `starting` is the first transaction to read, or "latest" for those still to come; else all that is kept.
        """
        from livelog.runtime.spark.runtime import SparkRuntime
        from livelog.runtime.spark.source import read_changes_stream

        runtime = self._runtime
        if not isinstance(runtime, SparkRuntime):
            raise UsageProblem("a stream of Spark needs a session over Spark: here, iterate, or `follow()`")
        return read_changes_stream(runtime.config.spark, str(runtime.directory), self.relation, starting)

    def __repr__(self) -> str:
        return f"<Following {self.relation} since transaction {self.since}>"
