"""Facts: a table of facts with their multiplicities, into and out of which whole batches go.

There are two of them. `PlainFacts` is a dictionary that does much with a few loops in C, instead of one in Python. The
compiled table (`operators/compiled/facts.pyx`) takes half the time and less. `Facts` is the better one that is there.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, cast

__all__ = ["Facts", "Note", "PlainFacts"]

Tuple = tuple[Any, ...]


class Note:
    """The way back from a batch: what it needs is noted before the table changes, so it is there wherever it fails."""

    __slots__ = ("counts", "rows")

    def __init__(self) -> None:
        self.rows: list[Tuple] = []
        self.counts: list[int] = []

    def take(self, table: PlainFacts, rows: list[Tuple]) -> None:
        """How often each fact of a batch is there."""
        self.counts = list(map(table.get, rows, repeat(0)))
        self.rows = rows


class PlainFacts(dict[Tuple, int]):
    """A mapping from facts to multiplicities, in the order in which the facts came.

    Whoever wants to go back from a batch gives it a `note`, and the note to `revert`, whether the batch was let in and
    taken out as a whole, in part because an error was raised in the middle, or not at all. That can be done again if it
    fails itself.

    >>> table = PlainFacts({("a",): 2, ("b",): 1}); note = table.note()
    >>> table.take_out([("a",), ("b",)], [], note), table
    (([('a',), ('b',)], []), {('a',): 1})
    >>> table.revert(note); table.revert(note); table
    {('a',): 2, ('b',): 1}
    """

    __slots__ = ()

    def note(self) -> Note:
        """A note for one batch."""
        return Note()

    def revert(self, note: Note) -> None:
        """Go back to before a batch; nothing else has changed the table since."""
        for t, count in zip(note.rows, note.counts, strict=True):
            if count:
                self[t] = count
            else:
                self.pop(t, None)

    def let_in(self, rows: list[Tuple], note: Note | None = None) -> list[Tuple]:
        """Insert facts of a set, which takes a fact once; returns those that were not there, in their order.

        That may be the list that was given.

        >>> table = PlainFacts({("a",): 1})
        >>> table.let_in([("b",), ("a",), ("c",), ("b",)]), table
        ([('b',), ('c',)], {('a',): 1, ('b',): 1, ('c',): 1})
        """
        if note is not None:
            note.take(self, rows)
        size = len(self)
        named = dict.fromkeys(rows, 1)
        self.update(named)
        new = len(self) - size
        if new == len(rows):
            return rows
        return list(named) if new == len(named) else [*islice(reversed(self), new)][::-1]  # they stand at the end

    def count_in(self, rows: list[Tuple], note: Note | None = None) -> None:
        """Insert copies of facts into a bag.

        >>> table = PlainFacts({("a",): 1}); table.count_in([("b",), ("a",)]); table
        {('a',): 2, ('b',): 1}
        """
        if note is not None:
            note.take(self, rows)
        Counter.update(cast("Counter[Tuple]", self), rows)

    def take_out(
        self, rows: list[Tuple], came: list[Tuple], note: Note | None = None
    ) -> tuple[list[Tuple], list[Tuple]]:
        """Delete facts, one copy for each time that they are named; returns those that were there.

        That may be the list that was given. Besides, it is told which of them are among those of a set that `came`
        last; all of these must still be there.

        >>> table = PlainFacts({("a",): 1, ("b",): 3, ("c",): 2})
        >>> table.take_out([("b",), ("a",), ("b",), ("a",), ("d",)], []), table
        (([('b',), ('a',), ('b',)], []), {('c',): 2, ('b',): 1})
        >>> table = PlainFacts(dict.fromkeys([("a",), ("b",), ("c",)], 1))
        >>> table.take_out([("c",), ("a",)], [("b",), ("c",)]), table
        (([('c',), ('a',)], [('c',)]), {('b',): 1})
        """
        if note is not None:
            note.take(self, rows)
        counts = list(map(self.pop, rows, repeat(0)))  # most facts have one copy, and are named once
        left: dict[Tuple, int] = {}  # of the others, the copies that are still there
        there: list[Tuple] = []
        begin = 0
        for place in _others(counts):
            t = rows[place]
            if count := counts[place] or left.get(t, 0):
                left[t] = count - 1
            else:  # it is not there, and what stands before it is
                there += rows[begin:place]
                begin = place + 1
        self.update({t: count for t, count in left.items() if count})
        out = there + rows[begin:] if begin else rows
        return out, list(set(out).intersection(came)) if came else []


def _others(counts: list[int]) -> list[int]:
    """Where a list has other numbers than 1. They are few: a search in C finds them, as long as they fit into bytes.

    >>> _others([1, 0, 1, 2]), _others([1, 1000, 1])
    ([1, 3], [1])
    """
    try:
        return [found.start() for found in _OTHER.finditer(bytes(counts))]
    except ValueError:
        return [place for place, count in enumerate(counts) if count != 1]


_OTHER = re.compile(b"[^\x01]", re.DOTALL)

if TYPE_CHECKING:
    Facts = PlainFacts
else:
    try:
        from operators.compiled.facts import Facts
    except ImportError:
        Facts = PlainFacts
