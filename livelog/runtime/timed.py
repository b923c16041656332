"""Timed: what has something to do when the clock moves, whether or not there are changes to work in."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Timed"]


class Timed(Protocol):
    """A part of a stratum whose state follows from the clock, too. Its stratum is evaluated where it `waits`.

    Before it is part of an evaluation it is told the time, by `pass_to`; nothing else tells it. Both questions are
    asked at every move of the clock, so they cost next to nothing where nothing is due.
    """

    def due(self, before: float) -> Any:
        """When there is something to do next, behind the time that was told last. If not `before`: any later time."""

    def pass_to(self, now: float, releases: bool) -> bool:
        """The clock is there now; whether there is something to do. `releases`: this is a step of a transaction, and
        not the evaluation of what was there at the last commit."""
