"""Ours, as a peer among the others: the engine as a user gets it, one transaction per change, sorted changes read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import livelog
from bench.peer_kit import VIEWS, CostLink
from bench.programs import MIN_COST, REACHABLE, engine, insert_all

__all__ = ["Ours"]

PROGRAMS = {"reachable": REACHABLE, "minCost": MIN_COST}


class Ours:
    """A session with the program of a view."""

    def __init__(self, view: str) -> None:
        self.view = view
        self._width = VIEWS[view]  # reachable has links without a cost
        self._session = engine(PROGRAMS[view])

    def load(self, links: Sequence[CostLink]) -> None:
        insert_all(self._session, [link[: self._width] for link in links])

    def delete(self, link: CostLink) -> None:
        with self._session.transaction() as tx:
            tx.delete("link", link[: self._width])
        self._read(tx.changes[self.view])

    def insert(self, link: CostLink) -> None:
        with self._session.transaction() as tx:
            tx.insert("link", link[: self._width])
        self._read(tx.changes[self.view])

    def _read(self, changes: livelog.Changes) -> tuple[list[Any], list[Any]]:
        """What a user reads is sorted on first use: part of the price."""
        return changes.deleted, changes.inserted

    def rows(self) -> Iterable[tuple[Any, ...]]:
        return self._session[self.view]

    def close(self) -> None:
        self._session.close()
