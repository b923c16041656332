"""Schedules against lists of points."""

from __future__ import annotations

import operator
import pickle
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from operators.expr import Apply, Col, Const
from operators.schedule import EMPTY, FARTHEST, Passing, Points, Schedule, Test

FAR = 80


def is_low(t: Any) -> bool:
    return bool(t % 7 < 3)


LOW = Apply("low", is_low, (Col(0),))


class Listed:
    """A schedule, and its points up to FAR, made in the plainest way."""

    def __init__(self, schedule: Schedule, points: set[Any]) -> None:
        self.schedule = schedule
        self.points = points


def drawn(rng: random.Random, numbers: list[Any], starts: list[Any]) -> Listed:
    if rng.random() < 0.1:
        t = rng.choice(starts)
        return Listed(Schedule.at(t), {t})
    period, start = rng.choice(numbers), rng.choice(starts)
    end = rng.choice([None, None, None, rng.choice(starts) + 20])
    points = {start + k * period for k in range(int(FAR / period) + 1)}
    schedule = Schedule.of(period, start, end)
    return Listed(schedule, {t for t in points if t <= FAR and (end is None or t <= end)})


def combined(rng: random.Random, one: Listed, other: Listed, tested: bool) -> Listed:
    roll = rng.random()
    if roll < 0.3:
        return Listed(one.schedule | other.schedule, one.points | other.points)
    if roll < 0.6:
        return Listed(one.schedule & other.schedule, one.points & other.points)
    if roll < 0.8:
        return Listed(one.schedule.minus(other.schedule), one.points - other.points)
    low, high = rng.choice([None, rng.uniform(0, 30), 7]), rng.choice([None, rng.uniform(30, FAR), 61])
    kept = {t for t in one.points if (low is None or t >= low) and (high is None or t <= high)}
    if tested and rng.random() < 0.5:
        return Listed(one.schedule.between(low, high).where(LOW), {t for t in kept if is_low(t)})
    return Listed(one.schedule.between(low, high), kept)


def check(listed: Listed, rng: random.Random, grid: list[Any]) -> None:
    schedule, points = listed.schedule, sorted(listed.points)
    assert [t for t in grid if schedule.holds(t)] == points
    t: Any = -1
    found = []
    while (t := schedule.next_after(t, FAR)) is not None:
        found.append(t)
        assert type(t) is (int if t == int(t) else float)
    assert found == points
    for t in [*rng.sample(grid, 10), rng.uniform(-1, FAR)]:
        assert schedule.last_at(t) == max((p for p in points if p <= t), default=None)
        limit = rng.uniform(t, FAR)
        assert schedule.next_after(t, limit) == min((p for p in points if t < p <= limit), default=None)


def listed(schedule: Schedule, limit: int) -> Iterator[Any]:
    t: Any = -1
    while (t := schedule.next_after(t, limit)) is not None:
        yield t


SHAPES: dict[str, tuple[list[Any], list[Any], int]] = {
    "whole": ([1, 2, 3, 4, 6, 7, 10, 60], list(range(20)), 1),
    "halves": ([0.5, 1, 1.5, 2, 0.25, 3], [0, 0.5, 1, 2.25, 7, 12.5], 4),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tested", [False, True])
def test_operations_against_lists(shape: str, tested: bool) -> None:
    numbers, starts, parts = SHAPES[shape]
    grid = [Fraction(i, parts) for i in range(FAR * parts + 1)]
    times: list[Any] = [int(t) if t.denominator == 1 else float(t) for t in grid]
    rng = random.Random(f"{shape} {tested}")
    for _ in range(400):
        pool = [drawn(rng, numbers, starts) for _ in range(3)]
        for _ in range(rng.randint(0, 3)):
            one, other = rng.sample(pool, 2)
            pool.append(combined(rng, one, other, tested))
        check(pool[-1], rng, times)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_within_has_no_other_points(shape: str) -> None:
    numbers, starts, _ = SHAPES[shape]
    rng = random.Random(f"within {shape}")
    proved = 0
    for _ in range(600):
        pool = [drawn(rng, numbers, starts) for _ in range(4)]
        one, other = combined(rng, pool[0], pool[1], True), combined(rng, pool[2], pool[3], True)
        if rng.random() < 0.5:
            other = combined(rng, one, other, True)
        if one.schedule.within(other.schedule):
            proved += 1
            assert one.points <= other.points
        elif one.schedule.parts and all(p.plain for s in (one, other) for p in s.schedule.parts):
            assert any(not other.schedule.holds(t) for t in listed(one.schedule, 1000))
        joined = one.schedule.join(other.schedule)
        assert one.schedule.within(joined) and other.schedule.within(joined)
    assert proved > 50


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tested", [False, True])
def test_a_clock_that_goes_along_a_schedule_finds_the_same(shape: str, tested: bool) -> None:
    (numbers, starts, _), rng = SHAPES[shape], random.Random(f"{shape} {tested} passing")
    for _ in range(60):
        schedule = combined(rng, drawn(rng, numbers, starts), drawn(rng, numbers, starts), tested).schedule
        passing, now = Passing(schedule), 0.0
        for _ in range(40):
            if rng.random() < 0.5:
                limit = now + rng.choice([0.5, 1, 3, 20])
                assert passing.next_after(now, limit) == schedule.next_after(now, limit)
            if rng.random() < 0.7:
                assert passing.holds(now) == schedule.holds(now)
            following = schedule.next_after(now, now + 10)
            now = rng.choice([now, now + 0.5, now + 1, now + 2.25, now + 1 if following is None else following])


def test_joined_at_the_greatest_common_divisor() -> None:
    assert Schedule.of(4).join(Schedule.of(6)) == Schedule.of(2)
    assert Schedule.of(10, 3).join(Schedule.of(10, 8)) == Schedule.of(5, 3)
    assert Schedule.of(1.5).join(Schedule.of(2)) == Schedule.of(0.5)
    assert EMPTY.join(Schedule.of(3)) == Schedule.of(3)


def test_far_away_points_cost_no_more() -> None:
    seldom = Schedule.of(86_400, 7) & Schedule.of(1_000_003, 11)
    (part,) = seldom.parts
    assert part.period == 86_400 * 1_000_003
    t = seldom.next_after(10**15)
    assert t > 10**15 and t % 86_400 == 7 and t % 1_000_003 == 11
    assert Schedule.of(1).minus(Schedule.of(2)).next_after(10**18) == 10**18 + 1


def test_periods_that_floats_round() -> None:
    tenths = Schedule.of(0.1)
    assert tenths.holds(3 * 0.1) and not tenths.holds(0.3)
    assert tenths.next_after(0.25) == 3 * 0.1
    t, count = 0, 0
    while (t := tenths.next_after(t, 1000)) is not None:
        count += 1
        assert t == count * 0.1
    assert count == 10_000
    both = tenths & Schedule.of(1)
    assert both.next_after(0) == 1 and both.holds(7) and not both.holds(0.5)
    assert tenths.minus(Schedule.of(1)).next_after(0.95) == 11 * 0.1


def test_points_that_are_tested_are_tried_up_to_the_limit() -> None:
    never = Schedule.of(1).where(Apply("<", operator.lt, (Col(0), Const(0)), "<"))
    assert never.next_after(0, 1000) is None and not never.holds(3)
    squares = Schedule.of(1).where(Apply("square", lambda t: int(t**0.5) ** 2 == t, (Col(0),)))
    assert squares.next_after(16) == 25 and squares.last_at(24) == 16
    assert FARTHEST > 1000
    late = Schedule.of(1).where(Apply("<", operator.lt, (Const(2 * FARTHEST), Col(0)), "<"))
    assert late.next_after(0) is None and not late.is_over(0)  # too far away to be sure
    assert late.next_after(0, 3 * FARTHEST) == 2 * FARTHEST + 1
    assert never.between(high=50).is_over(0) and not late.between(high=3 * FARTHEST).is_over(0)


def test_conditions_are_about_whole_numbers_where_the_clock_is_a_float() -> None:
    ints = Schedule.of(1).where(Apply("is int", lambda t: isinstance(t, int), (Col(0),)))
    assert ints.holds(7.0) and ints.next_after(6.0) == ints.last_at(7.5) == 7


def test_texts_are_no_points() -> None:
    assert not Schedule.of(1).holds("a") and Test(Schedule.of(1))("a") == 0


def test_schedules_are_plain_data() -> None:
    schedule = (Schedule.of(2) | Schedule.of(5, 3, 40)).where(LOW).minus(Schedule.of(0.3))
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert hash(schedule) == hash(pickle.loads(pickle.dumps(schedule)))
    assert Points(2, 0) == Points(2, 0)
