"""The programs that are timed, and how the engine and the loops beside it are put to work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import datalog
import livelog
from bench.harness import Stopwatch, settle

__all__ = ["MIN_COST", "REACHABLE", "delete", "engine", "insert_all", "time_engine", "time_loop"]

REACHABLE = """
    reachable(x, y) :- link(x, y).
    reachable(x, y) :- link(x, z), reachable(z, y).
"""

MIN_COST = """
    cost(x, y, c) :- link(x, y, c).
    cost(x, y, c) :- link(x, z, c0), cost(z, y, c1), c = c0 + c1.
    minCost(x, y, min<c>) :- cost(x, y, c).
    .output minCost
"""


def engine(program: str) -> livelog.Session:
    """The engine as a user gets it: absorption, demand, one partition. Empty."""
    return livelog.open(datalog.parse(program))


def insert_all(session: livelog.Session, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert links in one transaction."""
    with session.transaction() as tx:
        for row in rows:
            tx.insert("link", row)


def delete(session: livelog.Session, view: str, row: tuple[Any, ...]) -> livelog.Changes:
    """Delete one link in a transaction of its own; the changes of a view, sorted as a user would read them."""
    with session.transaction() as tx:
        tx.delete("link", row)
    changes = tx.changes[view]
    changes.deleted  # noqa: B018  (sorted on first use: part of the price)
    return changes


class Loop(Protocol):
    """A loop that was written by hand for one program."""

    def load(self, links: Iterable[Any]) -> None: ...

    def delete(self, link: Any) -> Any: ...


def time_engine(program: str, view: str, links: list[Any], victims: list[Any]) -> tuple[float, list[float]]:
    """Seconds to load, seconds of each deletion. Making the session (parse, check, plan) is not part of either."""
    load, deletions = Stopwatch(), Stopwatch()
    with settle(), engine(program) as session:
        with load:
            insert_all(session, links)
        for link in victims:
            with deletions:
                delete(session, view, link)
    return load.laps[0], deletions.laps


def time_loop(loop: Loop, links: list[Any], victims: list[Any]) -> tuple[float, list[float]]:
    """The same of a loop that is still empty."""
    load, deletions = Stopwatch(), Stopwatch()
    with settle():
        with load:
            loop.load(links)
        for link in victims:
            with deletions:
                loop.delete(link)
    return load.laps[0], deletions.laps
