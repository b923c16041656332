"""Transactions in steps of time, end to end: what is expected is written by hand, from what the language means."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import LivelogError
from livelog.runtime.local import LocalRuntime
from livelog.runtime.runtime import Runtime
from livelog.runtime.steps import PassedStep, frozen, net
from operators.delta import Delta, Loaded
from tests.harness import METHODS

Told = list[tuple[Any, dict[str, tuple[list[Any], list[Any]]]]]

WAYS = [(strategy, ship, partitions) for strategy, ship in METHODS for partitions in (1, 3)]


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(map(str, way)))
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    strategy, ship, partitions = request.param
    return {"strategy": strategy, "ship": ship, "partitions": partitions, "seed": 7 if partitions > 1 else None}


def opened(text: str, facts: Any = None, **how: Any) -> Any:
    return livelog.open(datalog.parse(text), facts=facts, **how)


def run(session: Any, *operations: tuple[Any, ...]) -> Told:
    """Commit operations; what each step tells. `(8,)` moves the clock, others are a sign, a relation and a row."""
    with session.transaction() as tx:
        for operation in operations:
            if len(operation) == 1:
                tx.advance_to(*operation)
            else:
                (tx.insert if operation[0] == "+" else tx.delete)(*operation[1:])
    session.check()
    return told(tx.steps, session)


def told(steps: Any, session: Any) -> Told:
    """The time and the changes of each step, as far as they are shown."""
    shown = session.plan.outputs
    return [(s.time, {view: (s[view].inserted, s[view].deleted) for view in shown if s[view]}) for s in steps]


HOT = """
.decl temp(room: symbol, value: number) key(room)
.output hot
hot(r, v) :- temp(r, v) at every(2), v > 80.
"""


def test_a_relation_as_of_the_last_point(way: dict[str, Any]) -> None:
    session = opened(HOT, {"temp": [("a", 90), ("b", 70)]}, **way)
    assert told(session.initial_steps, session) == [(0, {"hot": ([("a", 90)], [])})]
    # between two points nothing happens, whatever comes and goes
    assert run(session, (1,), ("+", "temp", ("a", 95)), ("+", "temp", ("b", 85)), ("+", "temp", ("b", 86))) == []
    assert list(session["hot"]) == [("a", 90)]
    assert run(session, ("-", "temp", ("a", 95))) == []
    # at the next one, what is left of it; what comes at the end of the jump waits
    assert run(session, (3,), ("+", "temp", ("c", 99))) == [(2, {"hot": ([("b", 86)], [("a", 90)])})]
    assert run(session, (4,), ("+", "temp", ("d", 91))) == [(4, {"hot": ([("c", 99), ("d", 91)], [])})]
    # while the clock stands at a point every commit is a refresh
    assert run(session, ("-", "temp", ("d", 91))) == [(4, {"hot": ([], [("d", 91)])})]
    assert run(session, (1_000_000_000,)) == []
    assert list(session["hot"]) == [("b", 86), ("c", 99)]


def test_operations_have_the_time_of_their_place(way: dict[str, Any]) -> None:
    session = opened(HOT, **way)
    assert run(
        session,
        ("+", "temp", ("a", 90)), (3,), ("+", "temp", ("b", 90)), ("-", "temp", ("a", 90)), (5,), (6.5,),
        ("+", "temp", ("c", 90)), (8,), ("-", "temp", ("b", 90)),
    ) == [
        (0, {"hot": ([("a", 90)], [])}),
        (4, {"hot": ([("b", 90)], [("a", 90)])}),
        (8, {"hot": ([("c", 90)], [("b", 90)])}),
    ]  # fmt: skip


def test_the_net_of_the_steps(way: dict[str, Any]) -> None:
    session = opened(HOT, {"temp": [("a", 90)]}, **way)
    with session.transaction() as tx:
        tx.advance_to(1)
        tx.insert("temp", ("a", 95))
        tx.insert("temp", ("b", 95))
        tx.advance_to(3)
        tx.insert("temp", ("a", 90))
        tx.insert("temp", ("c", 99))
        tx.advance_to(10)
    assert told(tx.steps, session) == [
        (2, {"hot": ([("a", 95), ("b", 95)], [("a", 90)])}),
        (4, {"hot": ([("a", 90), ("c", 99)], [("a", 95)])}),
    ]
    assert (tx.changes["hot"].inserted, tx.changes["hot"].deleted) == ([("b", 95), ("c", 99)], [])


EVENTS = """
.decl reading(sensor: symbol, value: number) stream
.decl deadline(at: number)
.decl item(x: number)
.output seen
.output late
alarm(t) :- reading(_, v)@t, v > 120.
seen(x) :- item(x) at alarm.
late(x) :- item(x) at deadline.
"""


def test_points_that_are_events(way: dict[str, Any]) -> None:
    session = opened(EVENTS, {"item": [(1,), (2,)]}, **way)
    assert told(session.initial_steps, session) == []
    assert run(session, (5,), ("+", "reading", ("s", 120))) == []
    assert run(session, (6,), ("+", "reading", ("s", 121))) == [(6, {"seen": ([(1,), (2,)], [])})]
    assert run(session, ("+", "item", (3,))) == [(6, {"seen": ([(3,)], [])})]
    assert run(session, (7,), ("+", "item", (4,))) == []
    assert run(session, (9.5,), ("-", "item", (1,)), ("+", "reading", ("s", 200))) == [
        (9.5, {"seen": ([(4,)], [(1,)])})
    ]


def test_points_that_are_known_before(way: dict[str, Any]) -> None:
    session = opened(EVENTS, {"item": [(1,)], "deadline": [(3,), (8,), (12,)]}, **way)
    assert run(session, (2,), ("+", "item", (2,))) == []
    assert run(session, (6,), ("+", "item", (3,))) == [(3, {"late": ([(1,), (2,)], [])})]
    assert run(session, ("-", "deadline", (8,)), ("+", "deadline", (6,))) == [(6, {"late": ([(3,)], [])})]
    # a point that is taken away again has passed all the same
    assert run(session, ("-", "deadline", (6,)), ("+", "item", (4,))) == []
    assert run(session, (100,), ("+", "deadline", (50,)), ("-", "item", (1,))) == [(12, {"late": ([(4,)], [])})]
    assert list(session["late"]) == [(1,), (2,), (3,), (4,)]


WINDOW = """
.decl s(x: symbol) stream
.output w
.output n
w(x, ts) :- s(x)@ts, now(t), t - 5 < ts, ts <= t.
n(count<*>) :- s(_)@ts, now(t), t <= ts + 5.
"""


def test_tuples_leave_a_window_on_the_way(way: dict[str, Any]) -> None:
    session = opened(WINDOW, **way)
    assert run(session, (1,), ("+", "s", ("a",)), ("+", "s", ("a",)), (2.5,), ("+", "s", ("b",))) == [
        (1, {"w": ([("a", 1)], []), "n": ([(2,)], [])}),
        (2.5, {"w": ([("b", 2.5)], []), "n": ([(3,)], [(2,)])}),
    ]
    # closed: it is still there at 6 itself, and goes at the next whole tick, or where the clock stops
    assert run(session, (6,)) == [(6, {"w": ([], [("a", 1)])})]
    assert run(session, (6.25,)) == [(6.25, {"n": ([(1,)], [(3,)])})]
    assert run(session, (100,)) == [
        (7.5, {"w": ([], [("b", 2.5)])}),
        (8, {"n": ([], [(1,)])}),
    ]


def test_tumbling_windows_and_landmarks(way: dict[str, Any]) -> None:
    session = opened(
        """
        .decl s(x: number) stream
        .output tumbling
        .output landmark
        tumbling(sum<x>) :- s(x)@ts, now(t), ts >= t - t % 10.
        landmark(count<*>) :- s(_)@ts, ts >= 12.
        """,
        **way,
    )
    arrivals = (3,), ("+", "s", (1,)), (9,), ("+", "s", (2,)), (10,), ("+", "s", (4,)), (12,), ("+", "s", (8,))
    assert run(session, *arrivals) == [
        (3, {"tumbling": ([(1,)], [])}),
        (9, {"tumbling": ([(3,)], [(1,)])}),
        (10, {"tumbling": ([(4,)], [(3,)])}),
        (12, {"tumbling": ([(12,)], [(4,)]), "landmark": ([(1,)], [])}),
    ]
    assert run(session, (31,)) == [(20, {"tumbling": ([], [(12,)])})]


def test_times_of_tuples(way: dict[str, Any]) -> None:
    session = opened(
        """
        .decl keyed(x: symbol, v: number) key(x)
        .decl plain(x: symbol)
        .decl soft(x: symbol) ttl(10)
        .output k
        .output p
        .output f
        .output v
        k(x, v, t) :- keyed(x, v)@t.
        p(x, t) :- plain(x)@t.
        f(x, t) :- soft(x)@t.
        large(x) :- keyed(x, v), v > 5.
        v(x, t) :- large(x)@t.
        """,
        **way,
    )
    assert run(session, (1,), ("+", "keyed", ("a", 1)), ("+", "plain", ("a",)), ("+", "soft", ("a",))) == [
        (1, {"k": ([("a", 1, 1)], []), "p": ([("a", 1)], []), "f": ([("a", 1)], [])})
    ]
    # a keyed or soft fact is refreshed, a plain one keeps its first time
    again = ("+", "keyed", ("a", 1)), ("+", "plain", ("a",)), ("+", "soft", ("a",))
    assert run(session, (4.5,), *again) == [
        (4.5, {"k": ([("a", 1, 4.5)], [("a", 1, 1)]), "f": ([("a", 4.5)], [("a", 1)])})
    ]
    assert run(session, (6,), ("+", "keyed", ("a", 7))) == [
        (6, {"k": ([("a", 7, 6)], [("a", 1, 4.5)]), "v": ([("a", 6)], [])})
    ]
    # a view has the time at which the tuple came into it, however often its facts change
    assert run(session, (8,), ("+", "keyed", ("a", 8)), ("-", "plain", ("a",)), (14.5,)) == [
        (8, {"k": ([("a", 8, 8)], [("a", 7, 6)]), "p": ([], [("a", 1)])}),
        (14.5, {"f": ([], [("a", 4.5)])}),
    ]
    assert list(session["v"]) == [("a", 6)]
    assert run(session, ("-", "keyed", ("a", 8)), ("+", "plain", ("a",))) == [
        (14.5, {"k": ([], [("a", 8, 8)]), "p": ([("a", 14.5)], []), "v": ([], [("a", 6)])})
    ]


def test_views_of_views_have_the_time_of_release(way: dict[str, Any]) -> None:
    session = opened(
        """
        .decl temp(room: symbol, value: number) key(room)
        .output when
        hot(r, v) :- temp(r, v) at every(4), v > 80.
        when(r, t) :- hot(r, _)@t at every(6).
        """,
        **way,
    )
    assert run(session, (1,), ("+", "temp", ("a", 90)), (30,)) == [(4, {}), (6, {"when": ([("a", 4)], [])})]


def test_negation_recursion_and_aggregates_over_regulated_relations(way: dict[str, Any]) -> None:
    session = opened(
        """
        .decl link(x: number, y: number)
        .decl node(x: number)
        .decl banned(x: number)
        .output reach
        .output lone
        .output degree
        reach(x, y) :- link(x, y) at every(2).
        reach(x, y) :- reach(x, z), link(z, y) at every(3), !banned(y) at every(5).
        lone(x) :- node(x), !reach(x, _).
        degree(x, n) :- node(x), n = count : { link(x, _) at every(3) }.
        """,
        {"node": [(1,), (4,)], "banned": [(3,)]},
        **way,
    )
    assert told(session.initial_steps, session) == [
        (0, {"lone": ([(1,), (4,)], []), "degree": ([(1, 0), (4, 0)], [])})
    ]
    links = [("+", "link", pair) for pair in ((1, 2), (2, 3), (3, 4))]
    assert run(session, (1,), *links, ("-", "banned", (3,)), (6,)) == [
        (2, {"reach": ([(1, 2), (2, 3), (3, 4)], []), "lone": ([], [(1,)])}),
        (3, {"reach": ([(2, 4)], []), "degree": ([(1, 1)], [(1, 0)])}),
        (5, {"reach": ([(1, 3), (1, 4)], [])}),
    ]
    assert run(session, ("-", "link", (2, 3))) == [
        (6, {"reach": ([], [(1, 3), (1, 4), (2, 3), (2, 4)])})
    ]


def test_the_clock_as_data(way: dict[str, Any]) -> None:
    session = opened(
        """
        .decl e(x: number)
        .output square
        .output odd
        square(t * t) :- now(t), e(_), t < 4.
        odd(t) :- clock(t), t % 2 = 1, e(_), t < 8.
        """,
        **way,
    )
    assert run(session, ("+", "e", (0,)), (2.5,)) == [
        (0, {"square": ([(0,)], [])}),
        (1, {"square": ([(1,)], [(0,)]), "odd": ([(1,)], [])}),
        (2, {"square": ([(4,)], [(1,)])}),
        (2.5, {"square": ([(6.25,)], [(4,)])}),
    ]
    assert [time for time, _ in run(session, (100,))] == [3, 4, 5, 7]
    assert list(session["odd"]) == [(1,), (3,), (5,), (7,)]


def test_expiry_on_the_way(way: dict[str, Any]) -> None:
    session = opened(
        """
        .decl soft(x: number) ttl(3)
        .output r
        .output now_and_then
        r(x) :- soft(x).
        now_and_then(x) :- soft(x) at every(10).
        """,
        **way,
    )
    assert run(session, (1,), ("+", "soft", (1,)), (2.5,), ("+", "soft", (2,)), (9,), ("+", "soft", (3,)), (11,)) == [
        (1, {"r": ([(1,)], [])}),
        (2.5, {"r": ([(2,)], [])}),
        (4, {"r": ([], [(1,)])}),
        (5.5, {"r": ([], [(2,)])}),
        (9, {"r": ([(3,)], [])}),
        (10, {"now_and_then": ([(3,)], [])}),
    ]


def test_a_program_that_only_expires_takes_one_step(way: dict[str, Any]) -> None:
    session = opened(".decl soft(x: number) ttl(3)\nr(x) :- soft(x).\n", **way)
    assert run(session, ("+", "soft", (1,)), (1,), ("+", "soft", (2,)), (3.5,)) == [(3.5, {"r": ([(2,)], [])})]
    assert session._runtime.steps == ()


# --- failures ------------------------------------------------------------------------------------------------

FAILS = """
.decl temp(room: symbol, value: number) key(room)
.decl s(x: number) stream
.decl dated(x: number) key(x)
.output share
.output w
.output d
share(r, 100 / v) :- temp(r, v) at every(5).
w(x, ts) :- s(x)@ts, now(t), t - 4 < ts, ts <= t.
d(x, t) :- dated(x)@t.
"""


def state(session: Any) -> Any:
    facts = sorted(session._runtime.facts())
    tables = [sorted((name, sorted(t.export())) for name, t in w.base.items()) for w in session._runtime.workers]
    return session.clock, {view: list(session[view]) for view in session.views}, facts, tables


def test_an_error_at_a_later_step_undoes_all_of_them(way: dict[str, Any]) -> None:
    session, twin = opened(FAILS, **way), opened(FAILS, **way)
    first = [("+", "temp", ("a", 10)), (3,), ("+", "s", (1,)), ("+", "dated", (1,)), ("+", "temp", ("b", 20))]
    assert run(session, *first) == run(twin, *first)
    before = state(session)
    with pytest.raises(LivelogError, match="division by zero"):
        run(
            session,
            ("+", "s", (2,)), (4,), ("+", "dated", (1,)), ("+", "s", (3,)), ("+", "temp", ("a", 50)), (6,),
            ("+", "dated", (2,)), ("+", "temp", ("c", 0)), (12,),
        )  # fmt: skip
    assert state(session) == before
    session.check()
    for operations in (
        [(4,), ("+", "temp", ("a", 25))], [(5,), ("-", "temp", ("b", 20))], [(20,)], [("+", "temp", ("a", 4))],
    ):  # fmt: skip
        assert run(session, *operations) == run(twin, *operations)
        assert state(session) == state(twin)


def test_a_failure_in_the_middle_of_a_step_is_none() -> None:
    """One rule fails on tuples that are never there together; all steps are done again, from the facts alone."""
    text = """
    .decl l(x: number)
    .decl r(x: number)
    .output h
    .output p
    h(x, y, z) :- l(x) at every(2), r(y) at every(2), z = x / y.
    p(x, t) :- l(x)@t.
    """
    for strategy, ship in METHODS:
        session = opened(text, {"r": [(0,)]}, strategy=strategy, ship=ship)
        changed = [("-", "r", (0,)), ("+", "r", (5,)), ("+", "l", (10,))]
        assert run(session, (1,), *changed, (3,), ("+", "l", (20,)), (4,)) == [
            (1, {"p": ([(10, 1)], [])}),
            (2, {"h": ([(10, 5, 2)], [])}),
            (3, {"p": ([(20, 3)], [])}),
            (4, {"h": ([(20, 5, 4)], [])}),
        ]
        assert run(session, (5,), ("-", "l", (10,)), (6,)) == [
            (5, {"p": ([], [(10, 1)])}), (6, {"h": ([], [(10, 5, 2)])})
        ]  # fmt: skip


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_interrupt_between_steps(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    session, twin = opened(FAILS, partitions=partitions), opened(FAILS, partitions=partitions)
    first = [("+", "temp", ("a", 10)), ("+", "s", (0,)), (3,), ("+", "s", (1,)), ("+", "temp", ("b", 20))]
    run(session, *first)
    run(twin, *first)
    jump = [("+", "dated", (7,)), (4.5,), ("+", "temp", ("a", 40)), ("-", "temp", ("b", 20)), (21,), ("+", "s", (9,))]
    before, real = state(session), Runtime._step
    for count in range(1, 8):
        left = iter(range(count))

        def step(self: Runtime, *arguments: Any, left: Iterator[int] = left) -> bool:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return real(self, *arguments)

        monkeypatch.setattr(Runtime, "_step", step)
        try:
            told = run(session, *jump)
        except KeyboardInterrupt:
            assert state(session) == before
            session.check()
        else:
            break
    monkeypatch.undo()
    assert count > 3, "there were no steps to interrupt"
    assert told == run(twin, *jump) and state(session) == state(twin)


# --- folders -------------------------------------------------------------------------------------------------

ALL = """
.decl temp(room: symbol, value: number) key(room)
.decl s(x: number) stream
.decl soft(x: number) ttl(7)
.decl deadline(at: number)
.output hot
.output w
.output d
.output late
.output times
.output twice
hot(r, v, t) :- temp(r, v)@t at every(5), v > 3.
w(x, ts) :- s(x)@ts, now(t), t - 6 < ts, ts <= t.
d(x, t) :- soft(x)@t.
late(x) :- s(x) at deadline.
times(r, t) :- hot(r, _, _)@t.
twice(x, ts, t) :- w(x, ts) at every(3), now(t), t <= ts + 8.
"""


def drawn(rng: random.Random, clock: float) -> list[tuple[Any, ...]]:
    operations: list[tuple[Any, ...]] = []
    for _ in range(rng.randrange(1, 5)):
        if rng.random() < 0.4:
            clock += rng.choice([0.5, 1, 2, 7])
            operations.append((clock,))
        room, value = rng.choice("abc"), rng.randrange(8)
        operations.append(rng.choice([
            ("+", "temp", (room, value)), ("-", "temp", (room, value)), ("+", "s", (value,)), ("+", "soft", (value,)),
            ("-", "soft", (value,)), ("+", "deadline", (round(clock) + value,)), ("-", "deadline", (value,)),
        ]))  # fmt: skip
    return operations


@pytest.mark.parametrize("seed", range(4))
def test_a_folder_has_what_the_session_had(seed: int, tmp_path: Path) -> None:
    """Closed, opened by its log or by a checkpoint, in another way and over other partitions: it goes on the same."""
    rng = random.Random(seed)
    twin, session = opened(ALL), opened(ALL, store=tmp_path)
    for _ in range(30):
        operations = drawn(rng, twin.clock)
        assert run(session, *operations) == run(twin, *operations)
        if rng.random() < 0.3:
            session.checkpoint()
        if rng.random() < 0.4:
            session.close()
            strategy, ship = rng.choice(METHODS)
            session = opened(ALL, store=tmp_path, strategy=strategy, ship=ship, partitions=rng.choice([1, 3]))
            session.check()
            assert {view: list(session[view]) for view in session.views} == {v: list(twin[v]) for v in twin.views}
            assert sorted(session._runtime.facts()) == sorted(twin._runtime.facts())
    session.close()


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["", " at every(10)"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_window_over_an_endless_stream_does_not_grow(read: str, partitions: int) -> None:
    session = opened(
        f".decl s(x: number) stream\n.output n\nn(count<*>) :- s(_)@ts{read}, now(t), t - 100 < ts, ts <= t.\n",
        partitions=partitions,
    )
    sizes = []
    for i in range(20_000):
        with session.transaction() as tx:
            tx.advance_to(i)
            tx.insert("s", (i,))
        if i % 4_000 == 3_999:
            workers = session._runtime.workers
            sizes.append((sum(m["tuples"] for m in session._runtime.measures()), len(session._runtime.facts())))
            assert all(len(f._times) <= 101 for w in workers for f in w._passing.values())
    session.check()
    assert sizes[0] == sizes[-1] and max(facts for _, facts in sizes) <= 100
    assert list(session["n"]) == [(100 if not read else 91,)]


UNREAD = ".decl s(x: symbol) stream\n.decl d(t: number)\n.output w\nw(x) :- s(x)@ts at d, now(t), t - 3 < ts.\n"


@pytest.mark.parametrize("more", ["", ".output all\nall(x) :- s(x).\n"])
def test_what_waits_for_a_point_is_forgotten_when_no_window_can_show_it(more: str) -> None:
    """Whether the stream itself forgets it or is read by somebody else, who needs all of it."""
    session = opened(UNREAD + more)
    run(session, ("+", "s", ("a",)), (1,), ("+", "s", ("b",)), ("+", "d", (1,)), (2,), ("+", "s", ("c",)), (9,))
    (waiting,) = [s for s in session._runtime.workers[0].strata if hasattr(s, "_buffer")]
    assert not waiting._buffer and not waiting.table.rows
    assert len(session._runtime.facts()) == (4 if more else 1)
    assert run(session, ("+", "d", (9,)), ("+", "s", ("d",)))[-1:] == [
        (9, {"w": ([("d",)], []), **({"all": ([("d",)], [])} if more else {})})
    ]


def test_what_was_there_at_opening_is_forgotten_too(tmp_path: Path) -> None:
    for checkpoint in (False, True):
        session = opened(WINDOW, store=tmp_path / str(checkpoint))
        run(session, (1,), ("+", "s", ("a",)), (2,), ("+", "s", ("b",)))
        if checkpoint:
            session.checkpoint()
        session.close()
        session = opened(WINDOW, store=tmp_path / str(checkpoint))
        assert len(session._runtime.facts()) == 2
        run(session, (7,))
        assert session._runtime.facts() == [("s", ("b", 2), 1)]
        session.close()


def test_a_buffer_keeps_net_changes() -> None:
    session = opened(HOT)
    for i in range(1000):
        run(session, (1 + i / 1000,), ("+", "temp", ("a", 90 + i)))
    (waiting,) = [s for s in session._runtime.workers[0].strata if hasattr(s, "_buffer")]
    assert waiting._buffer == {("a", 1089): 1}
    assert run(session, (2,)) == [(2, {"hot": ([("a", 1089)], [])})]


def test_passed_events_are_not_kept() -> None:
    session = opened(EVENTS, {"item": [(1,)]})
    for i in range(300):
        run(session, (i,), ("+", "deadline", (i,)), ("+", "deadline", (i + 5,)), ("-", "deadline", (i + 4,)))
    regulated = [s for s in session._runtime.workers[0].strata if hasattr(s, "_points")]
    assert all(len(s._points) <= 8 and len(s._coming) <= 100 for s in regulated)


# --- what the runtime tells ----------------------------------------------------------------------------------


def test_points_of_a_step_and_the_next_ones() -> None:
    session = opened(HOT + EVENTS, {"item": [(1,)], "deadline": [(4,)]})
    runtime = session._runtime
    assert isinstance(runtime, LocalRuntime)
    session.transaction().commit()
    assert runtime.next_due(["temp at every(2)"]) == 2
    assert runtime.next_due(["item at alarm", "item at deadline"]) is None
    with session.transaction() as tx:
        tx.insert("temp", ("a", 90))
        tx.insert("item", (2,))
        tx.advance_to(4)
        tx.insert("reading", ("s", 130))
    assert [(step.time, sorted(step.points)) for step in runtime.steps] == [
        (0, ["temp at every(2)"]),
        (4, ["item at alarm", "item at deadline", "temp at every(2)"]),
    ]
    assert runtime.next_due(["temp at every(2)", "item at alarm"]) == 6


def test_steps_are_told_as_they_were() -> None:
    """A change that is read from a table is what it was at its step, and not what the table has since."""
    rows = {(1,): 2}
    sides = frozen({"r": Loaded(rows, True), "q": ([], []), "p": ([(5,)], [])})
    rows[(2,)] = 1
    assert sides.keys() == {"r", "p"} and list(sides["r"]) == [[(1,)], []]
    steps = [PassedStep(0.0, frozenset(), sides), PassedStep(1.0, frozenset(), {"r": Delta.weighted([((1,), -2)])})]
    found = net([step.changes for step in steps])
    assert {name: list(s) for name, s in found.items()} == {"p": [[(5,)], []]}
