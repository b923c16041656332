"""The programs that are timed, and the engine as the benchmarks use it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import datalog
import livelog

__all__ = ["MIN_COST", "REACHABLE", "delete", "engine", "insert_all"]

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
