"""Schedules: sets of points of time that are not listed but known.

A schedule is a union of arithmetic progressions, `Points`. Union, intersection and difference of progressions are
progressions again, as long as their numbers are exact (whole, or fractions by a power of two); what is not is a test of
each point. So the next point after a time is found in a step for each part, however far away it is. Only where there
are tests, points are tried one by one, up to the limit that was given.

>>> two, three = Schedule.of(2), Schedule.of(3)
>>> (two & three).parts, (two & three).next_after(10**9)
((Points(period=6, start=0, end=None, where=(), without=()),), 1000000002)
>>> both = two | three
>>> [t for t in range(13) if both.holds(t)], both.last_at(7), two.minus(three).next_after(10)
([0, 2, 3, 4, 6, 8, 9, 10, 12], 6, 14)
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from math import gcd, inf, lcm
from typing import Any

import msgspec
from msgspec.structs import replace

from operators.expr import Apply, Col, Const, Expr

__all__ = ["EMPTY", "MOST", "Passing", "Points", "Schedule", "Test", "whole"]

MOST = 100
"""A difference writes out so many progressions instead of one; beyond that, points are tested."""

FARTHEST = 10_000
"""So many points are tried where no limit is given. Behind them there may be more."""

FINEST = 2**20
"""Fractions by at most this are computed with exactly, for any number of periods that matters."""


class Points(msgspec.Struct, frozen=True):
    """`start`, `start + period`, ... up to `end` (None: for ever): those that meet `where` and are not in `without`.

    The expressions are over a row that has nothing but the point. Point k is `start + k * period`, so that errors of
    floats do not add up; a point that is whole is an int.

    >>> Points(0.5, 1).point(1), Points(0.5, 1).point(2), Points(0.1, 0).point(3)
    (1.5, 2, 0.30000000000000004)
    """

    period: Any
    start: Any
    end: Any = None
    where: tuple[Expr, ...] = ()
    without: tuple[Schedule, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether nothing has to be tested."""
        return not self.where and not self.without

    @property
    def exact(self) -> bool:
        """Whether its points are computed without rounding."""
        return all(_is_exact(x) for x in (self.period, self.start))

    def point(self, k: int) -> Any:
        return whole(self.start + k * self.period)

    def number(self, t: Any) -> int:
        """The largest k, below 0 too, of which the point is not behind t.

        >>> [Points(5, 3).number(t) for t in (2.5, 3, 7.9, 8)], Points(0.1, 0).number(0.3)
        ([-1, 0, 0, 1], 2)
        """
        k = int((t - self.start) // self.period)
        if self.point(k) > t:
            return k - 1
        return k + 1 if self.point(k + 1) <= t else k

    def holds(self, t: Any) -> bool:
        if t < self.start or (self.end is not None and t > self.end):
            return False
        point = self.point(self.number(t))  # an int where t may be a float: conditions tell these apart
        return bool(point == t) and self.passes(point)

    def passes(self, t: Any) -> bool:
        """Whether a point of the progression passes the tests."""
        return self.plain or (
            all(_value(e, t) for e in self.where) and not any(other.holds(t) for other in self.without)
        )

    def next_after(self, t: Any, limit: Any = None) -> Any:
        """The first point behind t; None if there is none up to the limit."""
        ends = [x for x in (self.end, limit) if x is not None]
        last = min(ends) if ends else None
        k = max(0, self.number(t) + 1)
        tries = FARTHEST if limit is None and not self.plain else None
        while last is None or self.point(k) <= last:
            if self.passes(self.point(k)):
                return self.point(k)
            if tries is not None:
                tries -= 1
                if not tries:
                    return None
            k += 1
        return None

    def is_finite(self, t: Any) -> bool:
        """Whether so few points are left behind t that all of them are tried."""
        return self.end is not None and self.number(self.end) - self.number(t) < FARTHEST

    def last_at(self, t: Any) -> Any:
        """The last point that is not behind t, or None."""
        k = self.number(t if self.end is None else min(t, self.end))
        while k >= 0:
            if self.passes(self.point(k)):
                return self.point(k)
            k -= 1
        return None

    def after(self, t: Any) -> Points | None:
        """The points behind t, as a progression; None if there are none."""
        return _some(replace(self, start=self.point(max(0, self.number(t) + 1))))

    def before(self, t: Any) -> Points | None:
        """The points before t, as a progression; None if there are none."""
        k = self.number(t)
        last = self.point(k - 1 if self.point(k) == t else k)
        return _some(replace(self, end=last if self.end is None else min(last, self.end)))


class Schedule(msgspec.Struct, frozen=True):
    """The union of some `Points`. Without parts it has none. What it does costs a step for each part (or pair of them).

    >>> hours = Schedule.of(60) & Schedule.of(1).between(100, 400)
    >>> hours.next_after(0), hours.next_after(360), hours.next_after(0, limit=100)
    (120, None, None)
    """

    parts: tuple[Points, ...] = ()

    @classmethod
    def of(cls, period: Any, start: Any = 0, end: Any = None) -> Schedule:
        return cls((Points(whole(period), whole(start), end),))

    @classmethod
    def at(cls, t: Any) -> Schedule:
        """One point.

        >>> Schedule.at(5).holds(5), Schedule.at(5).next_after(5)
        (True, None)
        """
        return cls.of(1, t, whole(t))

    # --- points --------------------------------------------------------------------------------------------------

    def holds(self, t: Any) -> bool:
        """Whether t is a point. What is no number is none."""
        return isinstance(t, (int, float)) and any([part.holds(t) for part in self.parts])

    def next_after(self, t: Any, limit: Any = None) -> Any:
        """The first point behind t, and at most at the limit; None if there is none.

        Where points are tried and no limit is given, None may also mean that it is too far away (`FARTHEST`).
        """
        best = None
        for part in self.parts:
            found = part.next_after(t, limit)
            if found is not None:
                best = limit = found
        return best

    def is_over(self, t: Any) -> bool:
        """Whether it is known that there is no point behind t.

        >>> Schedule.of(2, 0, 8).is_over(7), Schedule.of(2, 0, 8).is_over(8)
        (False, True)
        """
        return self.next_after(t) is None and all([part.is_finite(t) for part in self.parts])

    def last_at(self, t: Any) -> Any:
        """The last point that is not behind t, or None."""
        return max([p for part in self.parts if (p := part.last_at(t)) is not None], default=None)

    # --- schedules -----------------------------------------------------------------------------------------------

    def __or__(self, other: Schedule) -> Schedule:
        """The points of either.

        >>> (Schedule.of(2) | Schedule.of(4)) == Schedule.of(2)
        True
        """
        parts: list[Points] = []
        for part in (*self.parts, *other.parts):
            if not any(_inside(part, known) for known in parts):
                parts = [known for known in parts if not _inside(known, part)] + [part]
        return Schedule(tuple(parts))

    def __and__(self, other: Schedule) -> Schedule:
        """The points of both.

        >>> (Schedule.of(10, 3) & Schedule.of(4, 1)).parts[0].start, (Schedule.of(10, 3) & Schedule.of(4)).parts
        (13, ())
        """
        pairs = [_meet(one, two) for one in self.parts for two in other.parts]
        return reduce(Schedule.__or__, [Schedule((part,)) for part in pairs if part is not None], EMPTY)

    def minus(self, other: Schedule) -> Schedule:
        """The points that the other one does not have.

        >>> Schedule.of(2).minus(Schedule.of(4)) == Schedule.of(4, 2)
        True
        """
        parts = list(self.parts)
        for taken in other.parts:
            parts = [rest for part in parts for rest in _without(part, taken)]
        return Schedule(tuple(parts))

    def between(self, low: Any = None, high: Any = None) -> Schedule:
        """The points from low on, up to high.

        >>> Schedule.of(5).between(1, 10) == Schedule.of(5, 5, 10)
        True
        """
        parts: list[Points | None] = list(self.parts)
        for i, part in enumerate(parts):
            if part is not None and low is not None and part.start < low:
                k = part.number(low)
                part = _some(replace(part, start=part.point(k if part.point(k) == low else k + 1)))
            if part is not None and high is not None:
                last = part.point(part.number(high))
                part = _some(replace(part, end=last if part.end is None else min(last, part.end)))
            parts[i] = part
        return Schedule(tuple([part for part in parts if part is not None]))

    def where(self, *conditions: Expr) -> Schedule:
        """The points that meet the conditions, too."""
        return Schedule(tuple([replace(p, where=tuple(dict.fromkeys((*p.where, *conditions)))) for p in self.parts]))

    def within(self, other: Schedule) -> bool:
        """Whether all its points are the other's. True is proved; False may only mean that it is not.

        >>> four, two, one = Schedule.of(4), Schedule.of(2), Schedule.of(1)
        >>> four.within(two), two.within(four), one.within(two | Schedule.of(2, 1)), (two & one).within(one)
        (True, False, True, True)
        """
        for part in self.parts:
            known = Schedule(tuple([
                Points(q.period, q.start, q.end)
                for q in other.parts
                if set(q.where) <= set(part.where) and set(q.without) <= set(part.without)
            ]))
            if Schedule((part,)).minus(known).parts and not any(_inside(part, q) for q in other.parts):
                return False
        return True

    def join(self, other: Schedule) -> Schedule:
        """One progression, as coarse as can be, that has all points of both: by the greatest common divisor.

        Where there is none, because numbers are not exact, it is the union.

        >>> [Schedule.of(4).join(other).parts[0].period for other in (Schedule.of(6), Schedule.of(6, 3))]
        [2, 1]
        """
        parts = [*self.parts, *other.parts]
        if not parts or not all(part.exact for part in parts):
            return self | other
        first = parts[0]
        starts = [Fraction(part.start) for part in parts]
        steps = [Fraction(p.period) for p in parts if p.end is None or p.end > p.start]
        found = reduce(_gcd, [*steps, *(abs(s - starts[0]) for s in starts)], Fraction(0)) or Fraction(first.period)
        ends = [part.end for part in parts]
        return Schedule.of(_number(found), _number(min(starts)), None if None in ends else max(ends))


EMPTY = Schedule()


class Passing:
    """A schedule that a clock goes along, which asks the same at every time: it is computed once for each point.

    In between `_since` and `_until` there are no points. There is one at `_until` if `_is_next` says so. Where points
    are tried one by one, nobody looks farther ahead than he is asked to.

    >>> five = Passing(Schedule.of(5)); five.next_after(1, 2), five.next_after(1, 9), five.holds(4), five.holds(5)
    (None, 5, False, True)
    """

    __slots__ = ("_asked", "_is_next", "_plain", "_schedule", "_since", "_until")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._plain = all(part.plain for part in schedule.parts)
        self._since: Any = 0
        self._until: Any = 0
        self._is_next = False
        self._asked: tuple[Any, bool] = (None, False)  # the last time that was computed, and whether it is a point

    def holds(self, t: Any) -> bool:
        """Whether a time is a point."""
        if self._since < t <= self._until:
            return bool(t == self._until) and self._is_next
        if self._asked[0] != t:
            self._asked = t, self._schedule.holds(t)
        return self._asked[1]

    def next_after(self, t: Any, limit: Any) -> Any:
        """The first point behind a time, if it is at most at the limit; else None."""
        if not self._since <= t < self._until:
            self._since = t
            self._look(t, limit)
        elif not self._is_next and self._until < limit:
            self._look(self._until, limit)
        return self._until if self._is_next and self._until <= limit else None

    def _look(self, t: Any, limit: Any) -> None:
        point = self._schedule.next_after(t, None if self._plain else limit)
        self._is_next = point is not None
        self._until = point if point is not None else inf if self._plain else limit


class Test(msgspec.Struct, frozen=True):
    """Whether a value is a point of the schedule, as rules compute: 1 or 0.

    >>> Test(Schedule.of(2))(4), Test(Schedule.of(2))(5), Test(Schedule.of(2))("a")
    (1, 0, 0)
    """

    __test__ = False  # it is none of pytest's
    schedule: Schedule

    def __call__(self, t: Any) -> int:
        return int(self.schedule.holds(t))


def whole(t: Any) -> Any:
    """The same time, as an int if it is whole.

    >>> whole(2.0), whole(2.5), whole(2)
    (2, 2.5, 2)
    """
    return int(t) if isinstance(t, float) and t.is_integer() else t


# --- two progressions ----------------------------------------------------------------------------------------


def _meet(one: Points, two: Points) -> Points | None:
    """The points of both."""
    if one.period < two.period:
        one, two = two, one
    where, without = _all(one.where, two.where), _all(one.without, two.without)
    ends = [x.end for x in (one, two) if x.end is not None]
    end = min(ends) if ends else None
    if not (one.exact and two.exact):
        inside = Apply("is a point", Test(Schedule((Points(two.period, two.start, two.end),))), (Col(0),))
        return _some(Points(one.period, one.start, end, _all(where, (inside,)), without))
    scale = lcm(*[Fraction(x).denominator for p in (one, two) for x in (p.period, p.start)])
    p, a, q, b = [int(Fraction(x) * scale) for x in (one.period, one.start, two.period, two.start)]
    common = gcd(p, q)
    if (b - a) % common:
        return None
    step = q // common
    k = (b - a) // common * (pow(p // common, -1, step) if step > 1 else 0) % step
    period, start = p * step, a + k * p
    start += -((start - max(a, b)) // period) * period  # the first that is not before either
    return _some(Points(_number(Fraction(period, scale)), _number(Fraction(start, scale)), end, where, without))


def _without(part: Points, taken: Points) -> Iterable[Points]:
    """The points of a progression that are not in another one."""
    if not taken.plain or not (part.exact and taken.exact):
        return (replace(part, without=_all(part.without, (Schedule((taken,)),))),)
    met = _meet(Points(part.period, part.start, part.end), taken)
    if met is None:
        return (part,)
    if met.end == met.start:
        return [x for x in (part.before(met.start), part.after(met.start)) if x is not None]
    classes = int(Fraction(met.period) / Fraction(part.period))
    if classes > MOST:
        return (replace(part, without=_all(part.without, (Schedule((taken,)),))),)
    rest: list[Points | None] = []
    for i in range(classes):
        own = _some(replace(part, period=met.period, start=part.point(i)))
        if own is not None and (Fraction(met.start) - Fraction(own.start)) % Fraction(met.period) == 0:
            rest.append(own.before(met.start))
            if taken.end is not None:
                rest.append(own.after(taken.end))
        else:
            rest.append(own)
    return [x for x in rest if x is not None]


def _inside(one: Points, two: Points) -> bool:
    """Whether all points of one are seen to be the other's."""
    if not (set(two.where) <= set(one.where) and set(two.without) <= set(one.without)):
        return False
    if two.end is not None and (one.end is None or one.end > two.end):
        return False
    if (one.period, one.start) == (two.period, two.start):
        return True
    if one.start < two.start or not (one.exact and two.exact):
        return False
    if (Fraction(one.start) - Fraction(two.start)) % Fraction(two.period):
        return False
    return one.end == one.start or Fraction(one.period) % Fraction(two.period) == 0


def _some(points: Points) -> Points | None:
    """The progression, unless it is empty. One of a single point has period 1, so that equal ones look alike."""
    if points.end is None:
        return points
    last = points.point(points.number(points.end))
    if last < points.start:
        return None
    return replace(points, end=last, period=1 if last == points.start else points.period)


def _all(one: tuple[Any, ...], two: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *two)))


# --- numbers -------------------------------------------------------------------------------------------------


def _is_exact(x: Any) -> bool:
    return isinstance(x, int) or Fraction(x).denominator <= FINEST


def _number(x: Fraction) -> Any:
    return int(x) if x.denominator == 1 else float(x)


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _value(expr: Expr, t: Any) -> Any:
    """The value of an expression over a point."""
    if isinstance(expr, Apply):
        return expr.function(*[_value(a, t) for a in expr.arguments])
    return expr.value if isinstance(expr, Const) else t
