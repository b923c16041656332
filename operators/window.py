"""Windows: the tuples that are within their bounds, while the clock moves on.

A bound is a time over the columns of a tuple. So every tuple has an interval that does not change: from when it is in
the window, and until when. What has yet to enter and what has yet to leave waits in agendas, ordered by time: a move of
the clock costs what enters and leaves, however much is in the window. Tuples that came together mostly have the same
interval, and are handed on together.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import groupby
from math import floor, inf, isfinite
from operator import itemgetter
from typing import Any

from operators.expr import Expr, columns
from operators.facts import PlainFacts
from operators.guard import guarded
from operators.source import Source, key_of

__all__ = ["Agenda", "Window", "intervals"]

Tuple = tuple[Any, ...]

Limits = Iterable[tuple[Expr, bool]]
"""Bounds: expressions over a tuple, and whether they are strict."""


class Agenda:
    """Tuples by time, the earliest first; one that is there several times counts as often.

    `_rows` has them by time: as a list, until some of them are taken out. Most times come in ascending order, and wait
    in `_order`; the others in a heap, `_early`. Both may hold times of which all tuples are gone again.

    >>> agenda = Agenda(); agenda.add(5, [("a",)]); agenda.add(3, [("b",), ("b",)]); agenda.add(5, [("c",)])
    >>> agenda.first(), agenda.take_out(3, [("b",), ("b",)]), agenda.first()
    (3, None, 5)
    >>> list(agenda.up_to(5)), agenda.first()
    ([[('a',), ('c',)]], inf)
    """

    __slots__ = ("_early", "_order", "_rows")

    def __init__(self) -> None:
        self._rows: dict[Any, list[Tuple] | PlainFacts] = {}
        self._order: deque[Any] = deque()
        self._early: list[Any] = []

    def add(self, time: Any, rows: list[Tuple]) -> None:
        """Tuples for a time; the list is the agenda's own from then on. O(log times) where one comes before others that
        are there, and O(tuples) where some wait for the same time already."""
        known = self._rows.get(time)
        if known is None:
            self._rows[time] = rows
            if not self._order or time >= self._order[-1]:
                self._order.append(time)
            else:
                heappush(self._early, time)
        elif isinstance(known, list):
            known += rows
        else:
            known.count_in(rows)

    def take_out(self, time: Any, rows: list[Tuple]) -> None:
        """Take tuples out again. O(1) each, after the first ones of a time."""
        known = self._counted(time)
        known.take_out(rows, [])
        if not known:
            del self._rows[time]
            if len(self._order) + len(self._early) > 4 * len(self._rows) + 64:
                self._order, self._early = deque(sorted(self._rows)), []

    def _counted(self, time: Any) -> PlainFacts:
        """The tuples of a time with their weights."""
        known = self._rows[time]
        if isinstance(known, list):
            rows, known = known, PlainFacts()
            known.count_in(rows)
            self._rows[time] = known
        return known

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

    def up_to(self, now: Any, before: bool = False) -> Iterator[list[Tuple]]:
        """Take out the tuples up to a time, or `before` it, time by time."""
        while (time := self.first()) < now or (time == now and not before):
            if time == inf:
                return
            rows = self._rows.pop(time)
            yield rows if isinstance(rows, list) else list(Counter(rows).elements())

    def weight(self, time: Any, t: Tuple) -> int:
        """How often a tuple waits for a time. O(1), after the first question about a time."""
        return self._counted(time).get(t, 0) if time in self._rows else 0

    def items(self) -> Iterator[tuple[Any, Tuple, int]]:
        """All tuples with their times and weights, in no particular order."""
        for time, rows in self._rows.items():
            for t, weight in Counter(rows).items():
                yield time, t, weight

    def __len__(self) -> int:
        """How many different tuples wait. O(tuples)"""
        return sum(len(rows) if isinstance(rows, PlainFacts) else len(set(rows)) for rows in self._rows.values())

    def check(self) -> None:
        """Assert that every time is in its place."""
        assert all(self._rows.values()), "a time without tuples"
        assert all(weight > 0 for _, _, weight in self.items()), "a weight is not positive"
        assert self._rows.keys() <= {*self._order, *self._early}, "a time is nowhere"
        assert list(self._order) == sorted(self._order), "times are not in order"


def intervals(enters: Limits, leaves: Limits) -> Callable[[Iterable[Tuple], list[Any]], None]:
    """The loop `(tuples, out)` that writes down batches of tuples, each with the interval that all of them have.

    That is: when they enter a window, and whether only behind that time, not at it; and the same of when they have left
    it. They are in the window from all `enters` on (a strict one: behind it), and no more at a strict one of `leaves`,
    or behind one that is not. A batch are tuples that follow each other and agree in the columns that the bounds read.

    >>> from operators.expr import Col; out = []
    >>> intervals([(Col(0), False)], [(Col(1), True), (Col(2), False)])([(1, 7, 5), (1, 7, 5), (1, 5, 5)], out)
    >>> out
    [([(1, 7, 5), (1, 7, 5)], 1, False, 5, True), ([(1, 5, 5)], 1, False, 5, False)]
    """
    source = Source()

    def later(name: str, picks: str, limits: list[Expr], none: str) -> None:
        texts = [source.expression(e, lambda i: f"t[{i}]") for e in limits]
        chosen = none if not texts else texts[0] if len(texts) == 1 else f"{picks}({', '.join(texts)})"
        source.line(2, f"{name} = {chosen}")

    enters, leaves = list(enters), list(leaves)
    read = sorted({c for e, _ in (*enters, *leaves) for c in columns(e)})
    source.values |= {"INF": inf, "groupby": groupby, "key": itemgetter(*read) if read else key_of(())}
    source.line(0, "def file(tuples, out):")
    source.line(1, "for _, same in groupby(tuples, key):")
    source.line(2, "rows = list(same)")
    source.line(2, "t = rows[0]")
    later("a", "max", [e for e, strict in enters if not strict], "-INF")
    later("b", "max", [e for e, strict in enters if strict], "-INF")
    later("c", "min", [e for e, strict in leaves if strict], "INF")
    later("d", "min", [e for e, strict in leaves if not strict], "INF")
    enter = "a, False" if not any(s for _, s in enters) else "(b if b >= a else a), b >= a"
    leave = "c, False" if all(s for _, s in leaves) else "(c if c <= d else d), c > d"
    source.line(2, f"out.append((rows, {enter}, {leave}))")
    return source.compile("file")  # type: ignore[no-any-return]


class Window(Mapping[Tuple, int]):
    """The tuples of a window, with their weights, and what waits to enter it.

    `now` is the time as of which it stands: None before there is one. A tuple is in one of four places, which its
    interval tells: it has yet to enter (`_coming`), it is in the window and has yet to leave (`_going`) or never does
    (`_staying`), or it has left, and nothing is known of it any more. So a deletion finds it in O(1).
    Each agenda is there twice: for times at which something happens, and for those behind which it does.

    >>> from operators.expr import Col
    >>> window = Window("", [(Col(0), False)], [(Col(1), False)])                   # from t[0] to t[1]
    >>> window.move(1.0); window.change([(0, 2), (2, 9), (3, 4), (3, 4)], []); window.told()
    ([(0, 2)], [])
    >>> window.due(1.0), window.waits(2.0); window.move(2.5); window.told()
    (2, True)
    ([(2, 9)], [(0, 2)])
    >>> window.change([], [(3, 4)]); window.due(2.5), window.move(3.0), window.told(), window.due(3.0)
    (3, None, ([(3, 4)], []), 5)
    >>> window[3, 4], (0, 2) in window, sorted(window)
    (1, False, [(2, 9), (3, 4)])
    """

    def __init__(self, text: str, enters: Limits, leaves: Limits) -> None:
        self.text = text  # that of its rule
        self.now: Any = None
        self._intervals = intervals(enters, leaves)
        self._coming = (Agenda(), Agenda())
        self._going = (Agenda(), Agenda())
        self._staying = Agenda()
        self._came: list[Tuple] = []
        self._went: list[Tuple] = []
        self._crossed = False  # whether something may be in both

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
                self._went += rows
        for agenda, before in zip(self._coming, (False, True), strict=True):
            for rows in agenda.up_to(now, before):
                self.change(rows, [])

    def change(self, came: list[Tuple], went: list[Tuple]) -> None:
        """Tuples came and went below, whether they are in the window or not. O(1) each"""
        for rows, shown, agenda, time in self._places(went):
            if shown:
                self._crossed |= bool(self._came)
                self._went += rows
            agenda.take_out(time, rows)
        for rows, shown, agenda, time in self._places(came):
            if shown:
                self._came += rows
            agenda.add(time, rows)

    def _places(self, batch: Iterable[Tuple]) -> Iterator[tuple[list[Tuple], bool, Agenda, Any]]:
        """Where tuples are, as far as they are anywhere: whether in the window, in which agenda, and at what time."""
        found: list[Any] = []
        guarded(self.text, self._intervals, batch, found, bare=True)
        now = self.now
        for rows, enter, behind, leave, late in found:
            if now is None or enter > now or (behind and enter == now):
                if (enter < leave or (late and not behind and enter == leave)) and enter != inf:  # there is such a time
                    yield rows, False, self._coming[behind], enter
            elif leave == inf:
                yield rows, True, self._staying, leave
            elif leave > now or (late and leave == now):
                yield rows, True, self._going[late], leave

    def told(self) -> tuple[list[Tuple], list[Tuple]]:
        """What came and what went since the last time, as often as it did."""
        came, went, self._came, self._went = self._came, self._went, [], []
        if self._crossed:  # what entered and is gone at the same time is no change
            self._crossed = False
            more, less = Counter(came), Counter(went)
            return [*(more - less).elements()], [*(less - more).elements()]
        return came, went

    # --- looking in ---

    def __getitem__(self, t: Tuple) -> int:
        for _, shown, agenda, time in self._places([t]):
            if shown and (weight := agenda.weight(time, t)):
                return weight
        raise KeyError(t)

    def __iter__(self) -> Iterator[Tuple]:
        return (t for agenda in (*self._going, self._staying) for _, t, _ in agenda.items())

    def __len__(self) -> int:
        return sum(map(len, (*self._going, self._staying)))

    def items(self) -> ItemsView[Tuple, int]:
        return {t: weight for agenda in (*self._going, self._staying) for _, t, weight in agenda.items()}.items()

    def stats(self) -> dict[str, int]:
        """How many different tuples wait to enter, and how many to leave."""
        return {"coming": sum(map(len, self._coming)), "going": sum(map(len, self._going))}

    def kept(self) -> Iterator[Any]:
        """What is not in the window."""
        for agenda in self._coming:
            yield from agenda.items()

    def check(self) -> None:
        """Assert that everything waits where its interval says, and that nothing is due or untold."""
        assert not self._came and not self._went and not self._crossed, "something is untold"
        at, behind = self.firsts()
        assert self.now is None or (at > self.now and behind >= self.now), "something is overdue"
        for agenda in (*self._coming, *self._going, self._staying):
            agenda.check()
            for time, t, _ in agenda.items():
                ((_, _, place, when),) = self._places([t])
                assert place is agenda and when == time, f"{t} waits at the wrong time"
