"""Pathway (differential dataflow), kept up to date: one commit per change, `pw.iterate` for the recursion.

The run lives in a thread of its own; changes go in through a Python connector without automatic commits, and a
subscriber collects the changes of the view. A change is done when the subscriber is told that its time is complete. It
is told only if the view changed, and most deletions leave `reachable` as it was: so every commit carries one link
between two nodes of its own beside the change, and there is always something to see.

Measured and left out: starting the iteration from the links instead of from nothing; the recursive rule with the
links on the right; two workers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import pathway as pw

from bench.peer_kit import CostLink

__all__ = ["Pathway"]

PATIENCE = 300.0  # seconds for one commit: longer than any of them takes


class Link(pw.Schema):
    """The input; the key makes a deletion find its row."""

    src: int = pw.column_definition(primary_key=True)
    dst: int = pw.column_definition(primary_key=True)
    cost: int


class Source(pw.io.python.ConnectorSubject):
    """Stays open until told otherwise; whoever holds it sends the changes."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    @property
    def _deletions_enabled(self) -> bool:
        return True  # they come from outside `run`, where Pathway does not look for them

    def run(self) -> None:
        self.over.wait()


def reachable(paths: Any, links: Any) -> Any:
    """One step of the iteration: the links, and a link before every path known."""
    longer = links.join(paths, links.dst == paths.src).select(src=links.src, dst=paths.dst)
    pairs = longer.groupby(pw.this.src, pw.this.dst).reduce(pw.this.src, pw.this.dst)
    return pairs.update_rows(links.select(pw.this.src, pw.this.dst))  # the same pair has the same key in both


def min_cost(paths: Any, links: Any) -> Any:
    """One step of the iteration: of each pair, the cheapest among its link and a link before every path known."""
    longer = links.join(paths, links.dst == paths.src).select(
        src=links.src, dst=paths.dst, cost=links.cost + paths.cost
    )
    either = links.concat_reindex(longer)
    return either.groupby(pw.this.src, pw.this.dst).reduce(
        pw.this.src, pw.this.dst, cost=pw.reducers.min(pw.this.cost)
    )


class Pathway:
    """A run that goes on until `close`."""

    def __init__(self, view: str) -> None:
        logging.disable(logging.WARNING)
        self._source = Source()
        self._done = threading.Semaphore(0)
        self._failure: BaseException | None = None
        self._known: dict[Any, tuple[Any, ...]] = {}
        self._news: list[tuple[Any, dict[str, Any], bool]] = []
        self._commits = 0
        links = pw.io.python.read(self._source, schema=Link, autocommit_duration_ms=None)
        columns = ("src", "dst") if view == "reachable" else ("src", "dst", "cost")
        nothing = links.filter(links.cost < 0).select(*(pw.this[name] for name in columns))  # no cost is negative
        step = {"reachable": reachable, "minCost": min_cost}[view]
        answer = pw.iterate(step, paths=pw.iterate_universe(nothing), links=links)
        pw.io.subscribe(answer, on_change=self._changed, on_time_end=self._complete)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

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

    def load(self, links: Sequence[CostLink]) -> None:
        for source, target, cost in links:
            self._source.next(src=source, dst=target, cost=cost)
        self._commit()

    def delete(self, link: CostLink) -> None:
        self._source.delete(src=link[0], dst=link[1], cost=link[2])
        self._commit()

    def insert(self, link: CostLink) -> None:
        self._source.next(src=link[0], dst=link[1], cost=link[2])
        self._commit()

    def _commit(self) -> None:
        """Commit what was sent and wait until all that follows from it has been told."""
        self._commits += 1
        self._source.next(src=-2 * self._commits, dst=-2 * self._commits - 1, cost=0)
        self._source.commit()
        if not self._done.acquire(timeout=PATIENCE):
            raise TimeoutError(f"Pathway did not finish a commit within {PATIENCE:g} seconds")
        if self._failure is not None or not self._thread.is_alive():
            raise RuntimeError("the Pathway run ended before its time") from self._failure

    def rows(self) -> Iterable[tuple[Any, ...]]:
        for key, row, is_addition in self._news:  # a changed row is told as an addition and a removal, in any order
            if is_addition:
                self._known[key] = tuple(row.values())
            elif self._known.get(key) == tuple(row.values()):
                del self._known[key]
        self._news.clear()
        return [row for row in self._known.values() if row[0] >= 0]

    def close(self) -> None:
        self._source.over.set()
        self._thread.join()
