"""Windows: the tuples that are within their bounds, while the clock moves on.

A bound is a time over the columns of a tuple. So every tuple has an interval that does not change: from when it is in
the window, and until when. What has yet to enter and what has yet to leave waits in agendas, ordered by time: a move of
the clock costs what enters and leaves, however much is in the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from math import floor, inf, isfinite
from typing import Any

from operators.expr import Expr
from operators.guard import guarded
from operators.source import Source

__all__ = ["Agenda", "Interval", "Window", "intervals"]

Tuple = tuple[Any, ...]
Interval = tuple[Any, bool, Any, bool]
"""When a tuple enters a window, and whether only behind that time, not at it; and the same of when it has left it."""

Limits = Iterable[tuple[Expr, bool]]
"""Bounds: expressions over a tuple, and whether they are strict."""


class Agenda:
    """Tuples with their weights by time, the earliest first.

    `_rows` has them by time. Most times come in ascending order, and wait in `_order`; the others in a heap, `_early`.
    Both may hold times of which all tuples are gone again.

    >>> agenda = Agenda(); agenda.add(5, ("a",), 1); agenda.add(3, ("b",), 2); agenda.add(5, ("c",), 1)
    >>> agenda.first(), agenda.add(3, ("b",), -2), agenda.first()
    (3, None, 5)
    >>> [sorted(rows) for rows in agenda.up_to(5)], agenda.first()
    ([[('a',), ('c',)]], inf)
    """

    __slots__ = ("_early", "_order", "_rows")

    def __init__(self) -> None:
        self._rows: dict[Any, dict[Tuple, int]] = {}
        self._order: deque[Any] = deque()
        self._early: list[Any] = []

    def add(self, time: Any, t: Tuple, weight: int) -> None:
        """Change a weight at a time. O(1), and O(log times) where one comes before others that are there."""
        rows = self._rows.get(time)
        if rows is None:
            self._rows[time] = {t: weight}
            self._put(time)
            return
        left = rows.get(t, 0) + weight
        if left:
            rows[t] = left
        else:
            del rows[t]
            if not rows:
                del self._rows[time]
                if len(self._order) + len(self._early) > 4 * len(self._rows) + 64:
                    self._order, self._early = deque(sorted(self._rows)), []

    def _put(self, time: Any) -> None:
        if not self._order or time >= self._order[-1]:
            self._order.append(time)
        else:
            heappush(self._early, time)

    def first(self) -> Any:
        """The earliest time; infinite if there is none. Amortised O(1)"""
        rows, order, early = self._rows, self._order, self._early
        while order and order[0] not in rows:
            order.popleft()
        while early and early[0] not in rows:
            heappop(early)
        if early and (not order or early[0] < order[0]):
            return early[0]
        return order[0] if order else inf

    def up_to(self, now: Any, before: bool = False) -> Iterator[dict[Tuple, int]]:
        """Take out the tuples up to a time, or `before` it, time by time."""
        while (time := self.first()) < now or (time == now and not before):
            if time == inf:
                return
            yield self._rows.pop(time)

    def items(self) -> Iterator[tuple[Any, Tuple, int]]:
        """All tuples, in no particular order."""
        for time, rows in self._rows.items():
            for t, weight in rows.items():
                yield time, t, weight

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def check(self) -> None:
        """Assert that every time is in its place."""
        assert all(self._rows.values()), "a time without tuples"
        assert all(weight > 0 for _, _, weight in self.items()), "a weight is not positive"
        assert self._rows.keys() <= {*self._order, *self._early}, "a time is nowhere"
        assert list(self._order) == sorted(self._order), "times are not in order"


def intervals(enters: Limits, leaves: Limits) -> Callable[[Iterable[tuple[Tuple, int]], list[Any]], None]:
    """The loop `(batch, out)` that writes down for pairs of a tuple and a weight: both, and the tuple's `Interval`.

    A tuple is in the window from all `enters` on (a strict one: behind it), and no more at a strict one of `leaves`, or
    behind one that is not.

    >>> from operators.expr import Col; out = []
    >>> intervals([(Col(0), False)], [(Col(1), True), (Col(2), False)])([((1, 7, 5), 1), ((1, 5, 5), 2)], out); out
    [((1, 7, 5), 1, 1, False, 5, True), ((1, 5, 5), 2, 1, False, 5, False)]
    """
    source = Source()

    def later(name: str, picks: str, limits: list[Expr], none: str) -> None:
        texts = [source.expression(e, lambda i: f"t[{i}]") for e in limits]
        chosen = none if not texts else texts[0] if len(texts) == 1 else f"{picks}({', '.join(texts)})"
        source.line(2, f"{name} = {chosen}")

    enters, leaves = list(enters), list(leaves)
    source.values["INF"] = inf
    source.line(0, "def file(batch, out):")
    source.line(1, "for t, w in batch:")
    later("a", "max", [e for e, strict in enters if not strict], "-INF")
    later("b", "max", [e for e, strict in enters if strict], "-INF")
    later("c", "min", [e for e, strict in leaves if strict], "INF")
    later("d", "min", [e for e, strict in leaves if not strict], "INF")
    enter = "a, False" if not any(s for _, s in enters) else "(b if b >= a else a), b >= a"
    leave = "c, False" if all(s for _, s in leaves) else "(c if c <= d else d), c > d"
    source.line(2, f"out.append((t, w, {enter}, {leave}))")
    return source.compile("file")  # type: ignore[no-any-return]


class Window:
    """The tuples of a window, and what waits to enter it.

    `now` is the time as of which it stands: None before there is one. A tuple is in one of three places, which its
    interval tells: it has yet to enter (`_coming`), it is in the window and has yet to leave (`_going`; one that never
    does is nowhere), or it has left, and nothing is known of it any more. So a deletion finds it in O(1).
    Each agenda is there twice: for times at which something happens, and for those behind which it does.

    >>> from operators.expr import Col
    >>> window = Window("", [(Col(0), False)], [(Col(1), False)])                   # from t[0] to t[1]
    >>> window.move(1.0); window.change([((0, 2), 1), ((2, 9), 1), ((3, 4), 2)]); window.told()
    ([(0, 2)], [])
    >>> window.due(1.0), window.waits(2.0); window.move(2.5); window.told()
    (2, True)
    ([(2, 9)], [(0, 2)])
    >>> window.change([((3, 4), -1)]); window.due(2.5), window.move(3.0), window.told(), window.due(3.0)
    (3, None, ([(3, 4)], []), 5)
    """

    def __init__(self, text: str, enters: Limits, leaves: Limits) -> None:
        self.text = text  # that of its rule
        self.now: Any = None
        self._intervals = intervals(enters, leaves)
        self._coming = (Agenda(), Agenda())
        self._going = (Agenda(), Agenda())
        self._came: list[Tuple] = []
        self._went: list[Tuple] = []

    def firsts(self) -> tuple[Any, Any]:
        """The first time at which something happens, and the first one behind which something does."""
        (coming, behind), (going, after) = self._coming, self._going
        return min(coming.first(), going.first()), min(behind.first(), after.first())

    def due(self, now: float) -> Any:
        """When something happens next, behind `now`. What happens behind a time does at the next whole one."""
        at, behind = self.firsts()
        return at if not isfinite(behind) else min(at, floor(behind) + 1)

    def waits(self, now: Any) -> bool:
        """Whether something happens when the clock moves there."""
        at, behind = self.firsts()
        return bool(at <= now or behind < now)

    def move(self, now: Any) -> None:
        """The clock is there now: what is due enters and leaves. O(what does)"""
        self.now = now
        for agenda, before in zip(self._going, (False, True), strict=True):
            for rows in agenda.up_to(now, before):
                self._tell(rows.items(), self._went)
        for agenda, before in zip(self._coming, (False, True), strict=True):
            for rows in agenda.up_to(now, before):
                self.change(rows.items())

    def change(self, batch: Iterable[tuple[Tuple, int]]) -> None:
        """Change weights, of tuples that are in the window or not. O(1) each"""
        found: list[Any] = []
        guarded(self.text, self._intervals, batch, found)
        now = self.now
        going, after = self._going
        came, went = self._came, self._went
        for t, w, enter, behind, leave, late in found:
            if now is None or enter > now or (behind and enter == now):
                if (enter < leave or (late and not behind and enter == leave)) and enter != inf:  # there is such a time
                    self._coming[behind].add(enter, t, w)
            elif leave > now or (late and leave == now):
                if w == 1:
                    came.append(t)
                elif w > 0:
                    came += [t] * w
                else:
                    went += [t] * -w
                if leave != inf:
                    (after if late else going).add(leave, t, w)

    @staticmethod
    def _tell(rows: Iterable[tuple[Tuple, int]], told: list[Tuple]) -> None:
        for t, w in rows:
            if w == 1:
                told.append(t)
            else:
                told += [t] * w

    def told(self) -> tuple[list[Tuple], list[Tuple]]:
        """What came and what went since the last time, as often as it did."""
        came, went, self._came, self._went = self._came, self._went, [], []
        return came, went

    def stats(self) -> dict[str, int]:
        """How many tuples wait to enter, and how many to leave."""
        return {"coming": sum(map(len, self._coming)), "going": sum(map(len, self._going))}

    def kept(self) -> Iterator[Any]:
        for agenda in (*self._coming, *self._going):
            yield from agenda.items()

    def check(self) -> None:
        """Assert that everything waits where its interval says, and that nothing is due or untold."""
        assert not self._came and not self._went, "something is untold"
        at, behind = self.firsts()
        assert self.now is None or (at > self.now and behind >= self.now), "something is overdue"
        for place, agendas in (("coming", self._coming), ("going", self._going)):
            for late, agenda in enumerate(agendas):
                agenda.check()
                for time, t, _ in agenda.items():
                    found: list[Any] = []
                    self._intervals([(t, 1)], found)
                    told = found[0][2:4] if place == "coming" else found[0][4:]
                    assert told == (time, bool(late)), f"{t} waits at the wrong time"
