"""Pathway (differential dataflow), kept up to date: one commit for each point.

`Pathway` says the window by `forget`, which lets go of rows whose time is over as of the last commit; an ordinary count
and an ordinary join behind it follow. `PathwayWindows` says it by the temporal operators that are made for it,
`windowby` with sliding windows and `window_join`, which keep an answer for every window that has not ended: a row
belongs to as many of these as there are points in a window. What has ended is forgotten, and its results with it.

The run lives in a thread of its own; rows go in through a Python connector without automatic commits, and a subscriber
is told the changes. A point is done when the subscriber is told that its time is complete.

Measured and left out, slower: sliding windows that tell each result once, when the window ends; an interval join, with
results kept and forgotten; two connectors for the two streams of the join, whose commits are not one; the whole stream
as a table with times, given to Pathway beforehand, without a connector.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

import pathway as pw

from bench.stream_tasks import Batch, Row

__all__ = ["Pathway", "PathwayWindows"]

PATIENCE = 300.0  # seconds for one commit: longer than any of them takes


class Arrival(pw.Schema):
    """The input: both streams of the join go through it, so that a commit is one of both."""

    stream: int
    k: int
    x: int
    t: int


class Source(pw.io.python.ConnectorSubject):
    """Stays open until told otherwise; whoever holds it sends the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    @property
    def _deletions_enabled(self) -> bool:
        return False

    def run(self) -> None:
        self.over.wait()


class Pathway:
    """A run that goes on until `close`."""

    def __init__(self, task: str, window: int) -> None:
        logging.disable(logging.WARNING)
        self._source = Source()
        self._done = threading.Semaphore(0)
        self._failure: BaseException | None = None
        self._news: list[tuple[Any, dict[str, Any], bool]] = []
        self._known: dict[Any, Row] = {}
        self._window = window
        self._now = 0
        arrivals = pw.io.python.read(self._source, schema=Arrival, autocommit_duration_ms=None)
        if task == "count":
            result = self.count(arrivals)
        else:
            result = self.join(arrivals.filter(pw.this.stream == 0), arrivals.filter(pw.this.stream == 1))
        pw.io.subscribe(result, on_change=self._changed, on_time_end=self._complete)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _recent(self, s: Any) -> Any:
        """What is left of the last points. A commit goes by the time of the one before it, which is one less."""
        return s.forget(s.t, self._window - 1)

    def count(self, s: Any) -> Any:
        return self._recent(s).groupby(pw.this.k).reduce(pw.this.k, n=pw.reducers.count())

    def join(self, a: Any, b: Any) -> Any:
        a, b = self._recent(a), self._recent(b)
        return a.join(b, a.k == b.k).select(x=a.x, y=b.x)

    def _run(self) -> None:
        try:
            pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        except BaseException as error:
            self._failure = error
        self._done.release()  # whoever waits must not wait for ever

    def _changed(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        self._news.append((key, row, is_addition))

    def _complete(self, time: int) -> None:
        self._done.release()

    def point(self, now: int, batch: Batch) -> None:
        self._now = now
        send = self._source.next
        for number, rows in enumerate(batch.values()):
            for k, x in rows:
                send(stream=number, k=k, x=x, t=now)
        self._source.commit()
        if not self._done.acquire(timeout=PATIENCE):
            raise TimeoutError(f"Pathway did not finish a commit within {PATIENCE:g} seconds")
        if self._failure is not None or not self._thread.is_alive():
            raise RuntimeError("the Pathway run ended before its time") from self._failure

    def after(self) -> None:
        """Take in what was told."""
        for key, row, is_addition in self._news:  # a changed row is told as an addition and a removal, in any order
            values = tuple(row.values())
            if is_addition:
                self._known[key] = values
            elif self._known.get(key) == values:
                del self._known[key]
        self._news.clear()

    def answer(self) -> Iterable[Row]:
        return list(self._known.values())

    def close(self) -> None:
        self._source.over.set()
        self._thread.join()


class PathwayWindows(Pathway):
    """The same by the operators of `pw.temporal`. The answer is that of the window that ends behind now."""

    def _sliding(self) -> Any:
        return pw.temporal.sliding(hop=1, duration=self._window)

    def count(self, s: Any) -> Any:
        behavior = pw.temporal.common_behavior(cutoff=0, keep_results=False)
        counted = s.windowby(s.t, window=self._sliding(), behavior=behavior, instance=s.k)
        return counted.reduce(k=pw.this._pw_instance, n=pw.reducers.count(), end=pw.this._pw_window_end)

    def join(self, a: Any, b: Any) -> Any:
        a, b = self._recent(a), self._recent(b)
        pairs = pw.temporal.window_join(a, b, a.t, b.t, self._sliding(), a.k == b.k)
        return pairs.select(x=a.x, y=b.x, end=pw.this._pw_window_end)

    def answer(self) -> Iterable[Row]:
        return [row[:-1] for row in self._known.values() if row[-1] == self._now + 1]
