"""Many facts into a table, or out of it, with a few loops in C instead of one in Python.

A table is a dict from facts to multiplicities. All functions change it, and most tell what has come of it.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice, repeat
from typing import Any, cast

__all__ = ["count_in", "let_in", "take_out"]

Tuple = tuple[Any, ...]


def count_in(known: dict[Tuple, int], rows: list[Tuple]) -> None:
    """Insert copies of facts into a bag, and tell nothing.

    >>> table = {("a",): 1}; count_in(table, [("b",), ("a",)]); table
    {('a',): 2, ('b',): 1}
    """
    Counter.update(cast("Counter[Tuple]", known), rows)


def let_in(known: dict[Tuple, int], rows: list[Tuple], bag: bool) -> dict[Tuple, int]:
    """Insert facts; returns what came. A set takes a fact once, and of a fact that it has nothing comes.

    >>> table = {("a",): 1}
    >>> let_in(table, [("b",), ("a",), ("c",), ("b",)], bag=False), table
    ({('b',): 1, ('c',): 1}, {('a',): 1, ('b',): 1, ('c',): 1})
    >>> let_in(table, [("a",), ("d",), ("d",)], bag=True) == {("a",): 1, ("d",): 2}, table[("a",)], table[("d",)]
    (True, 2, 2)
    """
    if bag:
        came: dict[Tuple, int] = Counter(rows)
        more = {t: known[t] + came[t] for t in known.keys() & came.keys()}
        dict.update(known, came)  # the table may be a Counter, which would add up fact by fact
        dict.update(known, more)
        return came
    size = len(known)
    came = dict.fromkeys(rows, 1)
    known.update(came)
    new = len(known) - size
    if new < len(came):  # the new ones stand at the end
        came = dict.fromkeys([*islice(reversed(known), new)][::-1], 1)
    return came


def take_out(known: dict[Tuple, int], rows: list[Tuple]) -> list[Tuple]:
    """Delete facts, one copy for each time that they are named; returns those that were there.

    >>> table = {("a",): 1, ("b",): 3, ("c",): 2}
    >>> take_out(table, [("b",), ("a",), ("b",), ("a",), ("d",)]), table
    ([('b',), ('a',), ('b',)], {('c',): 2, ('b',): 1})
    """
    counts = list(map(known.pop, rows, repeat(0)))  # most facts have one copy, and are named once
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
    dict.update(known, {t: count for t, count in left.items() if count})
    return there + rows[begin:] if begin else rows


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
