"""Windows against the plainest model of them: a list of rows, and a look at the bounds of each at every time."""

from __future__ import annotations

import random
from collections import Counter
from math import floor, inf
from operator import add, truediv
from typing import Any

import pytest

from livelog.runtime.forgetting import Forgetting
from livelog.runtime.node import Links
from livelog.runtime.windows import Clocked, Windowed
from operators.delta import Delta
from operators.errors import RuleFailure
from operators.expr import Apply, Col, Const
from operators.schedule import Schedule
from operators.window import Agenda, Window
from planner.plan import Bound, ClockRule, Input, Leaving, Plan, RelationPlan, WindowRule

Row = tuple[Any, ...]
Limits = list[tuple[Any, bool]]

BOUNDS: dict[str, tuple[Limits, Limits]] = {
    "closed, open": ([(Col(0), False)], [(Col(1), True)]),
    "closed, closed": ([(Col(0), False)], [(Col(1), False)]),
    "open, open": ([(Col(0), True)], [(Col(1), True)]),
    "open, closed": ([(Col(0), True)], [(Col(1), False)]),
    "from then on": ([(Col(0), False)], []),
    "till then": ([], [(Col(1), False)]),
    "always": ([], []),
    "several": ([(Col(0), False), (Col(2), True)], [(Col(1), True), (Apply("+", add, (Col(2), Const(3)), "+"), False)]),
}


TICKS = [Schedule.of(3), Schedule.of(2, 1) | Schedule.of(7, 4), Schedule.of(2.5, 1), Schedule.at(9)]


def shows(bounds: tuple[Limits, Limits], row: Row, now: float | None) -> bool:
    """Whether a row is in the window, by its bounds."""

    def value(e: Any) -> Any:
        return row[e.index] if isinstance(e, Col) else row[e.arguments[0].index] + e.arguments[1].value

    if now is None:
        return False
    enters, leaves = bounds
    return all(now > value(e) if strict else now >= value(e) for e, strict in enters) and all(
        now < value(e) if strict else now <= value(e) for e, strict in leaves
    )


def content(bounds: tuple[Limits, Limits], rows: Counter[Row], now: float | None) -> Counter[Row]:
    return Counter({row: n for row, n in rows.items() if shows(bounds, row, now)})


def counted(came: list[Row], went: list[Row]) -> Counter[Row]:
    found = Counter(came)
    found.subtract(Counter(went))
    return found


def change_of(rows: Counter[Row], change: Counter[Row]) -> Counter[Row]:
    """The rows that are there after a change of weights."""
    rows = Counter(rows)
    rows.update(change)
    assert all(n >= 0 for n in rows.values())
    return +rows


def drawn(rng: random.Random) -> Row:
    start = rng.randrange(60) / rng.choice([1, 1, 2, 4])
    return (start, start + rng.randrange(-2, 9) / rng.choice([1, 1, 2]), rng.randrange(40))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("seed", range(3))
def test_windows_show_what_their_bounds_say(name: str, seed: int) -> None:
    rng, bounds = random.Random(seed), BOUNDS[name]
    window, rows, shown, now = Window("rule", *bounds), Counter[Row](), Counter[Row](), 0.0
    window.move(now)
    for _ in range(120):
        if rng.random() < 0.6:
            due = window.due(now)
            grid = [now + k / 4 for k in range(1, 60) if now + k / 4 < due]
            # what is behind a time may have changed before that is due, but never at a whole tick
            assert all(content(bounds, rows, t) == shown for t in grid if t == floor(t)), f"{due} is too late"
            now = due if due < now + 5 and rng.random() < 0.5 else now + rng.choice([0.25, 0.5, 1, 3])
            assert window.waits(now) == (content(bounds, rows, now) != shown or overdue(window, now))
            window.move(now)
        change = Counter[Row]()
        for _ in range(rng.randrange(4)):
            row = drawn(rng)
            change[row] += rng.choice([1, 1, 2])
        for row, n in list(rows.items()):
            if rng.random() < 0.2:
                change[row] -= rng.randint(1, n)
        window.change([*(+change).elements()], [*(-change).elements()])
        rows = change_of(rows, change)
        shown.update(counted(*window.told()))
        assert +shown == +content(bounds, rows, now)
        shown = +shown
        assert dict(window.items()) == dict(shown) and len(window) == len(shown) and set(window) == set(shown)
        assert all(window.get(row, 0) == shown[row] for row in (*rows, drawn(rng)))
        window.check()
        assert len(window._coming[0]) + len(window._coming[1]) <= len(rows)


def overdue(window: Window, now: float) -> bool:
    """Whether something waits that is gone before anybody sees it: it enters and leaves between two times."""
    at, behind = window._coming
    return any(time <= now for time, _, _ in at.items()) or any(time < now for time, _, _ in behind.items())


def test_what_has_left_is_forgotten() -> None:
    window = Window("rule", [(Col(1), False)], [(Apply("+", add, (Col(1), Const(100)), "+"), True)])
    for now in range(20_000):
        window.move(float(now))
        window.change([(now, now)], [])
    assert window.stats() == {"coming": 0, "going": 100}
    assert len(window._going[0]._order) + len(window._going[0]._early) <= 101
    window.change([(7, 7)], [(5, 5)])  # long gone: nothing happens
    assert window.stats() == {"coming": 0, "going": 100}


def test_times_that_come_and_go_do_not_pile_up() -> None:
    agenda = Agenda()
    for i in range(10_000):
        agenda.add(10_000 - i, [(i,)])
        agenda.take_out(10_000 - i, [(i,)])
    agenda.check()
    assert len(agenda._order) + len(agenda._early) <= 100 and agenda.first() == inf


def test_times_in_any_order() -> None:
    rng, agenda, model = random.Random(3), Agenda(), dict[int, Counter[Row]]()
    for _ in range(2000):
        time, row = rng.randrange(300), (rng.randrange(3),)
        known = model.setdefault(time, Counter())
        w = 1 if not known[row] or rng.random() < 0.6 else -1
        if w > 0:
            agenda.add(time, [row])
        else:
            agenda.take_out(time, [row])
        known[row] += w
        assert agenda.weight(time, row) == known[row]
        times = [t for t, rows in model.items() if +rows]
        assert agenda.first() == min(times, default=inf)
        if rng.random() < 0.05:
            upto, before = rng.randrange(300), rng.random() < 0.5
            taken = [Counter(rows) for rows in agenda.up_to(upto, before)]
            passed = sorted(t for t in times if t < upto or (t == upto and not before))
            assert taken == [+model.pop(t) for t in passed]
        agenda.check()


def test_large_whole_numbers_are_compared_exactly() -> None:
    big = 2**60
    window = Window("rule", [(Col(0), True)], [])
    window.move(float(big))
    window.change([(big + 1,), (big - 1,), (big,)], [])
    assert window.told() == ([(big - 1,)], []) and window.due(float(big)) == big + 1


def test_a_bound_at_infinity_is_never_reached() -> None:
    window = Window("rule", [(Col(0), False)], [(Col(1), True)])
    window.move(1.0)
    window.change([(inf, inf), (0.0, inf), (-inf, 5.0)], [])
    assert sorted(window.told()[0]) == [(-inf, 5.0), (0.0, inf)]
    assert window.stats() == {"coming": 0, "going": 1} and window.due(1.0) == 5.0


def test_a_bound_that_fails_names_rule_and_row() -> None:
    window = Window("the rule", [(Apply("/", truediv, (Const(1), Col(0))), False)], [])
    window.move(0.0)
    with pytest.raises(RuleFailure, match="division by zero") as caught:
        window.change([(1,), (0,)], [])
    assert (caught.value.rule, caught.value.row) == ("the rule", (0,))


def test_what_enters_and_is_gone_at_the_same_time_is_no_change() -> None:
    window = Window("rule", [(Col(0), False)], [])
    window.move(0.0)
    window.change([(3,), (3,), (4,)], [])
    window.move(4.0)
    window.change([(2,)], [(3,)])
    assert [sorted(rows) for rows in window.told()] == [[(2,), (3,), (4,)], []]
    window.change([], [(3,)])
    assert window.told() == ([], [(3,)]) and dict(window.items()) == {(2,): 1, (4,): 1}
    window.check()


# --- nodes ---------------------------------------------------------------------------------------------------


def _plan(*relations: RelationPlan) -> Plan:
    return Plan({r.name: r for r in relations}, (), (), {}, {})


def _silent(*message: Any) -> None:
    raise AssertionError("nothing is sent")


def windowed(bounds: tuple[Limits, Limits], ticks: Schedule | None) -> Windowed:
    enters, leaves = (tuple(Bound(e, strict) for e, strict in limits) for limits in bounds)
    rule = WindowRule("w", "w", Input("s", (0,)), enters, leaves, ticks, "rule")
    return Windowed(rule, _plan(), Links(0, 0, 1, _silent))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("ticks", TICKS)
def test_windows_that_stand_still_between_points(name: str, ticks: Schedule) -> None:
    rng, bounds = random.Random(name), BOUNDS[name]
    node, rows, shown, now = windowed(bounds, ticks), Counter[Row](), Counter[Row](), 0.0

    def as_of(time: float) -> Counter[Row]:
        return content(bounds, rows, ticks.last_at(time))  # of the rows as they are by then

    for _ in range(120):
        limit = now + 30
        due = node.due(limit)
        grid = [now + k / 4 for k in range(1, 120) if now + k / 4 < min(due, limit)]
        assert all(as_of(t) == shown for t in grid), f"{due} is too late"
        if due < limit:
            assert ticks.holds(due), "nothing happens between points"
        now = due if due < limit and rng.random() < 0.4 else now + rng.choice([0.25, 0.5, 1, 2, 4])
        waits = node.pass_to(now, True)
        assert waits or as_of(now) == shown
        change = Counter[Row]()
        for _ in range(rng.randrange(3)):
            change[drawn(rng)] += 1
        for row, n in list(rows.items()):
            if rng.random() < 0.2:
                change[row] -= n
        changed = [(row, n) for row, n in change.items() if n]
        if waits or changed:
            node.begin({"s": Delta.weighted(changed)} if changed else {})
            rows = change_of(rows, change)
            went, came = node.settle()
            shown.update(counted(came, went))
            shown = +shown
        assert shown == +as_of(now)
        node.check()


def clocked(what: Any, ticks: Schedule, partition: int = 0, partitions: int = 1) -> Clocked:
    relation = RelationPlan("c", ("t",), ("any",), "auxiliary", (0,))
    rule = ClockRule("c", "c", what, ticks, "rule")
    return Clocked(rule, _plan(relation), Links(0, partition, partitions, _silent))


def told(node: Clocked, now: float) -> tuple[list[Row], list[Row]]:
    """What a clock loses and gains when it is asked where it waits."""
    return node.settle() if node.pass_to(now, True) else ([], [])


def test_the_time_as_a_relation() -> None:
    node = clocked("now", Schedule.of(1))
    assert node.due(9.0) == 0 and told(node, 0.0) == ([], [(0,)])
    assert node.due(9.0) == 1 and told(node, 2.5) == ([(0,)], [(2.5,)])
    assert told(node, 2.5) == ([], []) and node.due(9.0) == 3
    assert type(told(node, 3.0)[1][0][0]) is int
    node.check()


def test_the_last_point_as_a_relation() -> None:
    node = clocked("last", Schedule.of(4, 2))
    assert told(node, 0.0) == ([], []) and node.due(1e9) == 2 and node.due(1.5) == inf
    assert told(node, 2.0) == ([], [(2,)]) and told(node, 5.0) == ([], []) and node.due(1e9) == 6
    assert told(node, 20.5) == ([(2,)], [(18,)])
    fresh = clocked("last", Schedule.of(4, 2))
    assert told(fresh, 20.5) == ([], [(18,)])


def test_points_before_the_clock_begins_have_not_passed() -> None:
    node = clocked("last", Schedule.of(10, -5))
    assert told(node, 0.0) == ([], []) and node.due(9.0) == 5


def test_all_points_as_a_relation() -> None:
    node = clocked("all", Schedule.of(2.5))
    assert told(node, 0.0) == ([], [(0,)])
    assert told(node, 2.0) == ([], []) and told(node, 5.0) == ([], [(2.5,), (5,)])
    fresh = clocked("all", Schedule.of(2.5))
    assert told(fresh, 6.0) == ([], [(0,), (2.5,), (5,)])


def test_each_point_is_on_one_partition() -> None:
    for what in ("now", "last", "all"):
        nodes = [clocked(what, Schedule.of(1), partition, 3) for partition in range(3)]
        shown = Counter[Row]()
        for now in range(30):
            for node in nodes:
                went, came = told(node, float(now))
                shown.update(counted(came, went))
            expected = range(now + 1) if what == "all" else [now]
            assert +shown == Counter((t,) for t in expected)


# --- forgetting ----------------------------------------------------------------------------------------------


def forgetting(*until: Leaving) -> Forgetting:
    return Forgetting(RelationPlan("s", ("x", "t"), ("any", "any"), "base", (0,), until=until))


def test_tuples_go_when_the_last_window_lets_go_of_them() -> None:
    later = Apply("+", add, (Col(1), Const(5)), "+")
    passing = forgetting(Leaving((Bound(later, True), Bound(Col(0), True))), Leaving((Bound(Col(1), False),)))
    passing.file([(4, 3), (90, 3), (1, 3)])
    assert list(passing.over(3.0)) == []
    assert list(passing.over(3.5)) == [{(1, 3)}]
    assert list(passing.over(7.9)) == [{(4, 3)}]
    assert list(passing.over(8.0)) == [{(90, 3)}] and not passing._times and not passing._rows


def test_windows_with_ticks_let_go_at_their_points() -> None:
    passing = forgetting(Leaving((Bound(Col(1), True),), Schedule.of(10)), Leaving((Bound(Col(1), True),)))
    passing.file([("a", 3), ("b", 10), ("c", 11)])
    assert [t for rows in passing.over(9.0) for t in rows] == []
    assert sorted(t for rows in passing.over(10.0) for t in rows) == [("a", 3), ("b", 10)]
    assert [t for rows in passing.over(19.0) for t in rows] == []
    assert [t for rows in passing.over(25.0) for t in rows] == [("c", 11)]
    assert not passing._times and not passing._rows


def test_what_is_filed_twice_goes_once_and_what_cannot_be_computed_stays() -> None:
    inverse = Apply("/", truediv, (Const(1), Col(0)))
    passing = forgetting(Leaving((Bound(inverse, True),)))
    passing.file([(1, 0), (0, 0)])
    passing.file([(1, 0)])
    assert list(passing.over(5.0)) == [{(1, 0)}]
