"""Complete output: all of a view at each of its refreshes, in place of what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from livelog.changes import Changes
from livelog.values import sort_rows

__all__ = ["FORMS", "Refresh", "refreshes"]

Tuple = tuple[Any, ...]

FORMS = ("streamed", "complete")
"""What a view may tell: what changed, or all that is in it."""


class Refresh(Changes):
    """The changes of a view in one step, and with them all that is in the view after it.

    >>> (first, second) = refreshes([Changes("r", [(1,)], []), Changes("r", [(3,)], [(1,)])], [(2,), (3,)])
    >>> first.rows, second.rows, second.deleted
    ([(1,), (2,)], [(2,), (3,)], [(1,)])
    """

    __slots__ = ("_history", "_index")

    def __init__(self, changes: Changes, history: _History, index: int) -> None:
        super().__init__(
            changes._relation, changes._inserted, changes._deleted, changes._transaction, changes._clock, changes._key,
            changes._full,
        )  # fmt: skip
        self._history = history
        self._index = index

    @property
    def rows(self) -> list[Tuple]:
        """All tuples of the view after the step, sorted. O(view), and O(changes of the steps before)."""
        return sort_rows(self._history.after(self._index))


class _History:
    """What a view was before a transaction, and the steps of it. What it was after one of them is made when it is asked
    for, from what it was after another one: whoever asks in order takes each step once."""

    def __init__(self, steps: Sequence[Changes], after: Iterable[Tuple]) -> None:
        rows = dict.fromkeys(after)
        for changes in reversed(steps):
            _turn(rows, changes._deleted, changes._inserted)
        self._steps = steps
        self._before = rows
        self._known = 0, rows  # so many steps, and the rows after them; replaced as one, threads may ask at once

    def after(self, index: int) -> Iterable[Tuple]:
        """The rows after this step."""
        done, rows = self._known
        if done > index + 1:
            done, rows = 0, self._before
        if done <= index:
            rows = dict(rows)
            for changes in self._steps[done : index + 1]:
                _turn(rows, changes._inserted, changes._deleted)
            self._known = index + 1, rows
        return rows


def _turn(rows: dict[Tuple, None], came: Iterable[Tuple], went: Iterable[Tuple]) -> None:
    for t in went:
        rows.pop(t, None)
    rows.update(dict.fromkeys(came))


def refreshes(steps: Iterable[Changes], after: Iterable[Tuple]) -> list[Refresh]:
    """The steps of a transaction that changed a view, each with the view as it was after it. `after` is what it is now.

    O(view + changes); the rows are told apart when they are asked for.
    """
    some = [changes for changes in steps if changes]
    if not some:
        return []
    history = _History(some, after)
    return [Refresh(changes, history, i) for i, changes in enumerate(some)]
