"""An index of skinned views: which of them can contain a query, without a look at each.

Views over the same atoms, joined in the same way, are on one `Shelf`. There they are kept by sync, then by the
*shape* of their conditions: constants, residual conditions, and what is bounded from which side. All views of a shape
stand in order of the limit of the first bound, so the narrowest one that is wide enough is found by bisection. A
query looks at the shapes that ask for nothing more than it does itself: at all of them while they are few, else at
those that its own conditions can make up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import inf, isqrt
from typing import Any

from planner.sharing.points import Syncs
from planner.sharing.skin import Grouped, Skin
from planner.sharing.terms import Limit, Side, Term, places

__all__ = ["Candidate", "Shelf"]

FEW = 32
"""So many shapes, or syncs, are looked at one by one, and so many combinations of conditions are tried beyond that."""

TRIED = 32
"""Views of one shape that are held against a query whose first bound they fit."""

Shape = tuple[frozenset[Any], frozenset[Term], tuple[Side, ...]]
Shown = tuple[bool, frozenset[Any]]


@dataclass(frozen=True, order=True)
class Candidate:
    """A view that may contain a query, the best first: what is narrower, and what is read at the same points."""

    rank: tuple[Any, ...]
    name: str = field(compare=False)


@dataclass
class _Row:
    """The views of one shape that show the same: the limits of their bounds, and which view it is."""

    sides: tuple[Side, ...]
    entries: list[tuple[Any, int, str]] = field(default_factory=list)
    limits: dict[str, tuple[Limit, ...]] = field(default_factory=dict)

    def fitting(self, query: Skin, fixed: frozenset[Side]) -> Iterator[tuple[int, str, float]]:
        """The views of which the bounds contain the query's, the narrowest first, and how much wider each is.

        What is `fixed` must be bounded as the query does.
        """
        if not fixed <= set(self.sides):
            return
        if not self.sides:
            yield from ((order, name, 0.0) for _, order, name in self.entries[:TRIED])
            return
        first, known = self.sides[0], query.known
        found = self.near(first[1], known[first], first in fixed)
        for _, order, name in islice(found, TRIED):
            gap = 0.0
            for own, side in zip(self.limits[name], self.sides, strict=True):
                wanted = known[side]
                if own != wanted:
                    if side in fixed or (wanted < own if side[1] == "lower" else wanted > own):
                        break
                    gap += 0.0 if isinstance(own[0], str) else abs(wanted[0] - own[0])
            else:
                yield order, name, gap

    def near(self, side: str, limit: Limit, exactly: bool) -> Iterator[tuple[Any, int, str]]:
        """The views of which the first bound contains the limit: narrow ones first, equal ones in order of text."""
        entries = self.entries
        start, end = bisect_left(entries, (limit, -1)), bisect_right(entries, (limit, inf))
        if exactly or side == "upper":
            yield from islice(entries, start, end if exactly else None)
            return
        while end:
            start = bisect_left(entries, (entries[end - 1][0], -1))
            yield from islice(entries, start, end)
            end = start


class Shelf:
    """The views with the same atoms and joins. `names`: all of them, as they came."""

    def __init__(self, syncs: Syncs) -> None:
        self.syncs = syncs
        self.names: dict[str, None] = {}
        self._racks: dict[Any, dict[Shape, dict[Shown, _Row]]] = {}
        self._called: dict[Any, str] = {}
        self._periods: dict[Any, list[Any]] = {}
        self._others: list[Any] = []

    # --- views ---------------------------------------------------------------------------------------------------

    def add(self, skin: Skin, order: int) -> None:
        """One more view. O(log n) and a move of pointers."""
        self.names[skin.name] = None
        rack = self.syncs.canonical(skin.sync)
        if rack not in self._racks:
            self._racks[rack], self._called[rack] = {}, skin.sync
            points = self.syncs.period(skin.sync)
            if points is None:
                self._others.append(rack)
            else:
                self._periods.setdefault(points.period, []).append(rack)
        shape, shown = _shape(skin), _shown(skin)
        row = self._racks[rack].setdefault(shape, {}).setdefault(shown, _Row(shape[2]))
        row.limits[skin.name] = tuple([skin.sides[side] for side in shape[2]])
        insort(row.entries, _entry(row, skin, order))

    def remove(self, skin: Skin, order: int) -> None:
        del self.names[skin.name]
        shape = _shape(skin)
        row = self._racks[self.syncs.canonical(skin.sync)][shape][_shown(skin)]
        row.entries.remove(_entry(row, skin, order))
        del row.limits[skin.name]

    # --- queries -------------------------------------------------------------------------------------------------

    def candidates(self, query: Skin) -> list[Candidate]:
        """The views that may contain a query, the best first."""
        found = []
        known: dict[tuple[Shape, Shown], frozenset[Side] | None] = {}
        for rack in self._containing(query.sync):
            shapes = self._racks[rack]
            called = self._called[rack]
            same = self.syncs.same(called, query.sync)
            points = None if same else self.syncs.period(called)
            coarse = 0 if points is None else -points.period
            for shape in _within(query, shapes):
                asked = len(shape[0]) + len(shape[1]) + len(shape[2])
                for shown, row in shapes[shape].items():
                    if (shape, shown) not in known:
                        known[shape, shown] = _fixed(query, shape, shown)
                    fixed = known[shape, shown]
                    if fixed is not None:
                        fitting = (f for f in row.fitting(query, fixed) if f[1] != query.name)
                        for order, name, gap in islice(fitting, 2):
                            rank = (not shown[0], not same, -asked, gap, coarse, order)
                            found.append(Candidate(rank, name))
        return sorted(found)

    def _containing(self, sync: str) -> Iterator[Any]:
        """The syncs of views that have all the given points."""
        points = self.syncs.period(sync)
        racks: Iterable[Any] = self._racks
        if points is not None and len(self._racks) > FEW:
            racks = [*[r for p in self._divisors(points.period) for r in self._periods[p]], *self._others[:FEW]]
        return (rack for rack in racks if self.syncs.within(sync, self._called[rack]))

    def _divisors(self, period: Any) -> list[Any]:
        """The periods of views that divide one."""
        if not isinstance(period, int) or isqrt(period) > len(self._periods):
            return [p for p in self._periods if period % p == 0]
        small = [d for d in range(1, isqrt(period) + 1) if period % d == 0]
        return [d for d in dict.fromkeys([*small, *(period // d for d in small)]) if d in self._periods]


def _shape(skin: Skin) -> Shape:
    return skin.constants, skin.residual, tuple(sorted(skin.sides, key=repr))


def _shown(skin: Skin) -> Shown:
    return skin.groups, frozenset([e.what if isinstance(e, Grouped) else e for e in skin.head])


def _entry(row: _Row, skin: Skin, order: int) -> tuple[Any, int, str]:
    return (row.limits[skin.name][0] if row.sides else (), order, skin.name)


def _within(query: Skin, shapes: dict[Shape, Any]) -> Iterator[Shape]:
    """The shapes that ask for nothing that the query does not ask for."""
    if len(shapes) <= FEW:
        for shape in shapes:
            constants, residual, sides = shape
            if constants <= query.constants and residual <= query.residual and query.known.keys() >= set(sides):
                yield shape
        return
    own = [*query.constants, *query.residual, *query.known]
    kinds = [0] * len(query.constants) + [1] * len(query.residual) + [2] * len(query.known)
    subsets = (chosen for size in range(len(own), -1, -1) for chosen in combinations(range(len(own)), size))
    for chosen in islice(subsets, FEW * FEW):
        parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for i in chosen:
            parts[kinds[i]].append(own[i])
        shape = (frozenset(parts[0]), frozenset(parts[1]), tuple(sorted(parts[2], key=repr)))
        if shape in shapes:
            yield shape


def _fixed(query: Skin, shape: Shape, shown: Shown) -> frozenset[Side] | None:
    """The bounds of a query that must be those of a view with this shape as well, as they cannot be seen in what it
    shows; None if the view does not have what the query needs."""
    groups, entries = shown
    constants = {number for number, _ in shape[0]}

    def has(term: Any) -> bool:
        return term in entries or all(
            ("v", p) in entries or p in constants or p == query.clock for p in places(term)
        )

    if groups and not query.groups:
        return None
    for entry in query.head:
        if not isinstance(entry, Grouped):
            needed = has(entry)
        elif groups:
            needed = entry.what in entries
        else:
            needed = entry.target is None or has(entry.target)
        if not needed:
            return None
    if any(number not in constants and ("v", number) not in entries for number, _ in query.constants):
        return None
    return frozenset([(key, side) for key, side in query.sides if not all(has(t) for t in key if isinstance(t, tuple))])
