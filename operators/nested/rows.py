"""Rows and Points: outer rows of many groups, of which those come and go that the ends of a range pass over."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import add
from typing import Any

from sortedcontainers import SortedDict

from operators.indexes import PAIVectors
from operators.nested.cuts import BOTTOM, NOTHING, TOP, Cut, Range, inside
from operators.nested.heads import Heads
from operators.nested.outer import Entry, Tuple, Vector

__all__ = ["Points", "Rows"]


class Rows:
    """Rows of many groups: key -> group -> vector. O(log n), and O(1) for each vector that the range's ends pass.

    >>> from operators.nested.heads import Copies
    >>> heads = Copies(); rows = Rows(heads)
    >>> rows.add(5, ("a",), [1]); rows.add(7, ("b",), [1]); rows.show((BOTTOM, (0, 7, 0))); heads.flush()
    ([], [('a',)])
    >>> rows.show(((0, 6, 0), TOP)); heads.flush()
    ([('a',)], [('b',)])
    """

    __slots__ = ("_chosen", "_entries", "_heads", "_within")

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._entries: Any = SortedDict()
        self._within: Range = NOTHING
        self._chosen: Collection[Any] | None = None  # the keys that qualify, where they are no range

    def _qualifies(self, key: Any) -> bool:
        return inside(key, self._within) if self._chosen is None else key in self._chosen

    def add(self, key: Any, group: Tuple, vector: Vector) -> None:
        if self._qualifies(key):
            self._heads.change(group, vector, 1)
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = {group: vector}
        else:
            _put(entry, group, vector)
            if not entry:
                del self._entries[key]

    def load(self, rows: list[Entry]) -> None:
        """Take in many rows at once: new keys are sorted in together."""
        entries = self._entries
        fresh: dict[Any, dict[Tuple, Vector]] = {}
        for key, group, vector in rows:
            if self._qualifies(key):
                self._heads.change(group, vector, 1)
            entry = entries.get(key)
            if entry is None:
                _put(fresh.setdefault(key, {}), group, vector)
            else:
                _put(entry, group, vector)
                if not entry:
                    del entries[key]
        entries.update((key, entry) for key, entry in fresh.items() if entry)

    def show(self, within: Range) -> None:
        if self._chosen is not None:
            for key in self._entries:
                self._turn(key, key in self._chosen, inside(key, within))
            self._chosen = None
        elif within != self._within:
            (low, high), (new_low, new_high) = self._within, within
            self._pass(low, min(high, new_low), -1)
            self._pass(max(low, new_high), high, -1)
            self._pass(new_low, min(new_high, low), 1)
            self._pass(max(new_low, high), new_high, 1)
        self._within = within

    def pick(self, chosen: Collection[Any]) -> None:
        for key in self._entries:
            self._turn(key, self._qualifies(key), key in chosen)
        self._chosen = chosen
        self._within = NOTHING

    def _turn(self, key: Any, before: bool, now: bool) -> None:
        if before != now:
            for group, vector in self._entries[key].items():
                self._heads.change(group, vector, 1 if now else -1)

    def _pass(self, low: Cut, high: Cut, sign: int) -> None:
        """Let what lies between two cuts in or out."""
        if low >= high:
            return
        start, stop = (None if cut in (BOTTOM, TOP) else cut[1] for cut in (low, high))
        for key in self._entries.irange(start, stop, (low == BOTTOM or not low[-1], high == TOP or bool(high[-1]))):
            for group, vector in self._entries[key].items():
                self._heads.change(group, vector, sign)

    def items(self) -> Iterator[Entry]:
        return ((key, group, vector) for key, entry in self._entries.items() for group, vector in entry.items())

    def keys(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def check(self) -> None:
        for entry in self._entries.values():
            assert entry and all(any(v) for v in entry.values()), "an empty entry"


class Points:
    """Rows by a key that is only met by equality. O(1), and O(1) for each group of the key that qualifies.

    >>> from operators.nested.heads import Copies
    >>> heads = Copies(); points = Points(heads, 1)
    >>> points.add(5, ("a",), [1]); points.add(7, ("b",), [1]); points.show(((0, 5, 0), (0, 5, 1))); heads.flush()
    ([], [('a',)])
    """

    __slots__ = ("_groups", "_heads", "_index", "_there")

    def __init__(self, heads: Heads, width: int) -> None:
        self._heads = heads
        self._index = PAIVectors(width)  # (key, group) -> vector
        self._groups: dict[Any, dict[Tuple, None]] = {}  # key -> the groups that it has
        self._there: Any = _NOWHERE

    def add(self, key: Any, group: Tuple, vector: Vector) -> None:
        if key == self._there:
            self._heads.change(group, vector, 1)
        self._index.add((key, group), tuple(vector))
        held = self._groups.setdefault(key, {})
        if any(self._index.get((key, group))):
            held[group] = None
            return
        held.pop(group, None)
        if not held:
            del self._groups[key]

    def load(self, rows: list[Entry]) -> None:
        """Take in many rows at once."""
        for row in rows:
            self.add(*row)

    def show(self, within: Range) -> None:
        there = _NOWHERE if within == NOTHING else within[0][1]
        if there == self._there:
            return
        self._turn(self._there, -1)
        self._turn(there, 1)
        self._there = there

    def pick(self, chosen: Collection[Any]) -> None:
        raise AssertionError("points are met one at a time")

    def _turn(self, key: Any, sign: int) -> None:
        for group in self._groups.get(key, ()):
            self._heads.change(group, self._index.get((key, group)), sign)

    def items(self) -> Iterator[Entry]:
        return ((key, group, self._index.get((key, group))) for key, held in self._groups.items() for group in held)

    def keys(self) -> Iterator[Any]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def check(self) -> None:
        self._index.check()
        assert len(self._index) == sum(map(len, self._groups.values())), "keys and groups do not match"


_NOWHERE = object()


def _put(entry: dict[Tuple, Vector], group: Tuple, vector: Vector) -> None:
    """Add a vector to what a group has; a group with nothing is not kept."""
    old = entry.get(group)
    now = vector if old is None else list(map(add, old, vector))
    if any(now):
        entry[group] = now
    elif old is not None:
        del entry[group]
