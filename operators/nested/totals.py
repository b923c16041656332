"""Totals: outer rows of one group, of which any range of keys is summed up in O(log n)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import add, sub
from typing import Any

from operators.indexes import RPAIVectors
from operators.nested.cuts import BOTTOM, NOTHING, TOP, Cut, Range
from operators.nested.heads import Heads
from operators.nested.outer import Entry, Tuple, Vector

__all__ = ["Totals"]


class Totals:
    """Rows of one group. O(log n) a change and a range.

    Most kinds have few rows: up to FEW keys they stand in a dict, which is searched through.

    >>> from operators.nested.heads import Copies
    >>> heads = Copies(); totals = Totals(heads, 1)
    >>> totals.add(5, ("g",), [1]); totals.add(7, ("g",), [1]); totals.show((BOTTOM, (0, 7, 1))); heads.flush()
    ([], [('g',), ('g',)])
    """

    FEW = 24
    __slots__ = ("_few", "_group", "_heads", "_shown", "_since", "_tree", "_width", "_within")

    def __init__(self, heads: Heads, width: int) -> None:
        self._heads = heads
        self._width = width
        self._few: dict[Any, Vector] = {}
        self._tree: RPAIVectors | None = None
        self._group: Tuple = ()
        self._shown: Vector = (0,) * width
        self._within: Range = NOTHING
        self._since: Vector | None = ()  # what came into the range since it was shown, if anything; None: not known

    def add(self, key: Any, group: Tuple, vector: Vector) -> None:
        self._group = group
        tree, since = self._tree, self._since
        if tree is not None:
            tree.add(key, vector)
            if since is not None:
                low, high = self._within
                if low <= (0, key, 0) < high:
                    self._since = tuple(map(add, since, vector)) if since else vector
            return
        self._since = None
        few = self._few
        old = few.get(key)
        if old is None:
            few[key] = vector
            if len(few) > self.FEW:
                self._tree = RPAIVectors.from_items([(k, tuple(v)) for k, v in few.items()], self._width)
                few.clear()
            return
        left = list(map(add, old, vector))
        if any(left):
            few[key] = left
        else:
            del few[key]

    def load(self, rows: list[Entry]) -> None:
        """Take in many rows at once."""
        if len(rows) <= self.FEW or (self._tree is not None and len(self._tree) > 4 * len(rows)):
            for row in rows:
                self.add(*row)
            return
        known = self._few.items() if self._tree is None else self._tree.items()
        entries = [(k, tuple(v)) for k, v in known] + [(k, tuple(v)) for k, _, v in rows]
        self._group = rows[0][1]
        self._since = None
        self._tree = RPAIVectors.from_items(entries, self._width)
        self._few.clear()

    def show(self, within: Range) -> None:
        since = self._since
        if since is not None and within == self._within:
            if since:
                self._since = ()
                self._shown = tuple(map(add, self._shown, since))
                self._heads.change(self._group, since, 1)
            return
        low, high = within
        if self._tree is None:
            found = [v for k, v in self._few.items() if low <= (0, k, 0) < high]
            now: Vector = tuple(map(sum, zip(*found, strict=True))) if found else (0,) * self._width
        elif low >= high:
            now = self._tree.zero
        else:
            now = self._below(high)
            if low != BOTTOM:
                now = tuple(map(sub, now, self._below(low)))
        self._within, self._since = within, ()
        self._publish(now)

    def _below(self, cut: Cut) -> Vector:
        tree = self._tree
        assert tree is not None
        if cut == TOP:
            return tree.total
        if cut == BOTTOM:
            return tree.zero
        return tree.get_sum(cut[1]) if cut[2] else tree.get_sum_below(cut[1])

    def pick(self, chosen: Collection[Any]) -> None:
        found = [v for k, v in self._entries() if k in chosen]
        self._within, self._since = NOTHING, None
        self._publish(tuple(map(sum, zip(*found, strict=True))) if found else (0,) * self._width)

    def _publish(self, now: Vector) -> None:
        if now != self._shown:
            self._heads.change(self._group, tuple(map(sub, now, self._shown)), 1)
            self._shown = now

    def _entries(self) -> Iterator[tuple[Any, Vector]]:
        return iter(self._few.items()) if self._tree is None else self._tree.items()

    def items(self) -> Iterator[Entry]:
        return ((key, self._group, vector) for key, vector in self._entries())

    def keys(self) -> Iterator[Any]:
        return (k for k, _ in self._entries())

    def __len__(self) -> int:
        return len(self._few) if self._tree is None else len(self._tree)

    def check(self) -> None:
        if self._tree is not None:
            self._tree.check()
