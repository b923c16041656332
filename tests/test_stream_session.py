"""Sessions in which time matters: steps, operations at a time, streams without their times, complete views, validity,
and a clock that is real."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

import livelog
from datalog.errors import FactProblem
from livelog.changes import ChangeLog, Changes, Step, SteppedLog, modifications
from livelog.complete import refreshes
from livelog.realtime import milliseconds

ROOMS = """
.decl roomTemp(room: symbol, temp: number) key(room)
.decl door(room: symbol)
.decl reading(room: symbol, temp: number) stream
.decl hot(room: symbol, temp: number) key(room)
hot(r, v) :- roomTemp(r, v) at every(2), v > 80.
open(r) :- hot(r, _), door(r) at every(3).
recent(r, v) :- reading(r, v)@t, now(n), n - 3 < t.
"""
PLAIN = "r(x) :- e(x).\n"


def told(steps: tuple[Step, ...], view: str) -> list[tuple[Any, ...]]:
    """The operations on a view, each with its time, and whether it was full."""
    return [(step.time, step[view].full, op, *row) for step in steps for op, row in step[view].operations]


@pytest.fixture
def rooms() -> Iterator[livelog.Session]:
    with livelog.open(ROOMS) as session:
        yield session


# --- steps -------------------------------------------------------------------------------------------------------


def test_steps_tell_what_happened_when(rooms: livelog.Session) -> None:
    with rooms.transaction() as tx:
        tx.insert("roomTemp", ("a", 90), at=1)
        tx.insert("door", ("a",))
        tx.insert("roomTemp", ("b", 99))
        tx.insert("roomTemp", ("a", 95), at=3)
        tx.insert("roomTemp", ("b", 50), at=5.5)
        tx.advance_to(6.25)
    assert told(tx.steps, "hot") == [
        (2, True, "+", "a", 90), (2, True, "+", "b", 99), (4, True, "u", "a", 95), (6, True, "-", "b", 99)
    ]  # fmt: skip
    # `open` knows the doors since 3, which is no point of its rooms
    assert told(tx.steps, "open") == [(3, False, "+", "a")]
    assert [step.time for step in tx.steps] == [2, 3, 4, 6] and [step.full for step in tx.steps] == [
        True, False, True, True
    ]  # fmt: skip
    assert [type(step.time) for step in tx.steps] == [int] * 4
    assert str(tx.steps[1]) == '@3 +open("a") partial' and "partial" in repr(tx.steps[1])
    assert str(tx.steps[2]) == '@4 u hot("a", 95)'
    # and the net of it
    assert tx.changes["hot"].operations == [("+", ("a", 95))] and tx.changes["hot"].full
    assert tx.changes["hot"].time == 6.25 and tx.changes.clock == 6.25 and not tx.changes["open"].full
    assert all(step.transaction == tx.changes.transaction == step["hot"].transaction for step in tx.steps)
    assert tx.changes.steps is tx.changes.steps, "they are made once"


def test_a_plain_program_has_one_step(rooms: livelog.Session) -> None:
    with livelog.open(PLAIN, facts={"e": [(1,)]}) as session:
        (first,) = session.initial_steps
        assert (first.time, first.full, first["r"].operations) == (0, True, [("+", (1,))])
        with session.transaction() as tx:
            tx.insert("e", (2,), at=3)
            tx.delete("e", (1,))
            tx.insert("e", (3,), at=4.5)
        (step,) = tx.steps
        assert (step.time, step["r"].operations) == (4.5, [("-", (1,)), ("+", (2,)), ("+", (3,))])
        assert step.steps == (step,) and step["r"].inserted == tx.changes["r"].inserted
        with session.transaction() as tx:
            tx.insert("e", (2,))
        assert tx.steps == ()
        with pytest.raises(livelog.UsageProblem, match="not been committed"):
            session.transaction().steps  # noqa: B018
        assert session.load("e", [(7,)]).steps[0]["r"].inserted == [(7,)]


def test_what_nobody_asks_for_is_not_made(rooms: livelog.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of a plain program makes one change log, and no steps; one with steps makes them when asked."""
    made: Counter[str] = Counter()
    for kind in (ChangeLog, Changes, Step, SteppedLog):
        def counting(self: Any, *arguments: Any, real: Any = kind.__init__, name: str = kind.__name__) -> None:
            made[name] += 1
            real(self, *arguments)

        monkeypatch.setattr(kind, "__init__", counting)
    with livelog.open(PLAIN) as session:
        made.clear()
        with session.transaction() as tx:
            tx.insert("e", (1,))
        assert made == {"ChangeLog": 1}
        assert tx.steps and made["Step"] == 1
    made.clear()
    with rooms.transaction() as tx:
        tx.insert("roomTemp", ("a", 90))
        tx.advance_to(1_000_000)
    assert made == {"SteppedLog": 1, "ChangeLog": 1}
    assert len(tx.steps) == made["Step"] == 1


def test_an_error_undoes_all_steps() -> None:
    text = ".decl k(x: number) key(x)\n.decl v(x: number, y: number)\nv(x, 10 / x) :- k(x) at every(2).\n"
    with livelog.open(text) as session:
        with pytest.raises(livelog.RuntimeProblem, match="rolled back"), session.transaction() as tx:
            tx.insert("k", (1,), at=1)
            tx.insert("k", (0,), at=3)
            tx.advance_to(9)
        assert session.clock == 0 and not list(session["v"]) and not list(session["k"])
        with session.transaction() as tx:
            tx.insert("k", (5,), at=1)
            tx.advance_to(2)
        assert told(tx.steps, "v") == [(2, True, "+", 5, 2)] and tx.changes.transaction == 1


def test_several_moves_to_one_time_are_one_step(rooms: livelog.Session) -> None:
    with rooms.transaction() as tx:
        for i in range(5):
            tx.insert("reading", ("a", i), at=7)
        tx.advance_to(7)
        tx.insert("reading", ("b", 1))
    assert [step.time for step in tx.steps] == [7] and len(tx.steps[0]["recent"]) == 6
    with rooms.transaction() as tx:
        tx.insert("reading", ("c", 1), at=7)
    assert told(tx.steps, "recent") == [(7, True, "+", "c", 1)]


# --- modify operations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("inserted", "deleted", "key", "expected"), [
    ([], [], (0,), []),
    ([(1, 2)], [(1, 1)], (0,), [("u", (1, 2))]),
    ([(1, 2)], [(1, 1)], (), [("-", (1, 1)), ("+", (1, 2))]),
    ([(1, 1)], [(1, 2)], (), [("+", (1, 1)), ("-", (1, 2))]),
    ([(2, 1)], [(1, 1)], (1,), [("u", (2, 1))]),
    ([(1, 2), (3, 4)], [(1, 1), (2, 2)], (0,), [("u", (1, 2)), ("-", (2, 2)), ("+", (3, 4))]),
    # a key that tells nothing apart
    ([(1, 2), (1, 3)], [(1, 1)], (0,), [("-", (1, 1)), ("+", (1, 2)), ("+", (1, 3))]),
    ([(1, 2), (1, 3)], [], (0,), [("+", (1, 2)), ("+", (1, 3))]),
    # values of several types are in the order of `sort_rows`
    ([("b",), (2,)], [(("l",),), (1.5,)], (), [("-", (1.5,)), ("+", (2,)), ("+", ("b",)), ("-", (("l",),))]),
])  # fmt: skip
def test_operations(inserted: Any, deleted: Any, key: Any, expected: Any) -> None:
    assert modifications(inserted, deleted, key) == expected
    assert Changes("r", inserted, deleted, 1, 2.0, key).operations == expected


def test_the_key_of_aggregates_and_of_base_relations() -> None:
    text = ".decl e(x: symbol, y: number) key(x)\n.output e, total\ntotal(y, sum<n>) :- e(_, y), n = y.\n"
    with livelog.open(text, facts={"e": [("a", 1), ("b", 2)]}) as session:
        with session.transaction() as tx:
            tx.update("e", ("a", 2))
            tx.update("e", ("c", 1))
        assert tx.changes["e"].operations == [("u", ("a", 2)), ("+", ("c", 1))]
        assert tx.changes["total"].operations == [("u", (2, 4))]


# --- operations at a time ----------------------------------------------------------------------------------------


def test_an_operation_that_is_late_is_named(rooms: livelog.Session) -> None:
    with rooms.transaction() as tx:
        tx.advance_to(8)
    late: list[tuple[Callable[[livelog.Transaction], Any], str]] = [
        (lambda tx: tx.insert("reading", ("a", 3), at=5), '+reading("a", 3) at 5 is late: the clock stands at 8 and'),
        (lambda tx: tx.insert("reading", ["a", 3], at=7.5), '+reading("a", 3) at 7.5 is late'),
        (lambda tx: tx.insert("roomTemp", {"room": "a", "temp": 1}, at=5), '+roomTemp("a", 1) at 5 is late'),
        (lambda tx: tx.update("roomTemp", ("a", 1), at=5), '+roomTemp("a", 1) at 5 is late'),
        (lambda tx: tx.delete("door", ("a",), at=5), '-door("a") at 5 is late'),
        (lambda tx: tx.delete("roomTemp", {"room": "a"}, at=5), '-roomTemp(room="a") at 5 is late'),
        (lambda tx: tx.delete_matching("roomTemp", ("a", livelog.ANY), at=5), '-roomTemp("a", _) at 5 is late'),
        (lambda tx: tx.insert_all("reading", [("a", 3)], at=5), "+reading(...) at 5 is late"),
        (lambda tx: tx.delete_all("door", [("a",)], at=5), "-door(...) at 5 is late"),
        (lambda tx: tx.replace("door", [("a",)], at=5), "=door(...) at 5 is late"),
        (lambda tx: tx.advance_to(5), "the clock stands at 8 and cannot go back to 5"),
    ]
    for operation, message in late:
        tx = rooms.transaction()
        with pytest.raises(livelog.UsageProblem) as caught:
            operation(tx)
        assert message in str(caught.value) and len(tx) == 0, message
    # within a transaction as well, and what was refused leaves it as it was
    with rooms.transaction() as tx:
        tx.insert("reading", ("a", 1), at=12)
        with pytest.raises(livelog.UsageProblem, match=r"at 11 is late: the clock stands at 12"):
            tx.insert("reading", ("b", 2), at=11)
        with pytest.raises(FactProblem):
            tx.insert("reading", ("b", "x"), at=20)
        for when in ("3", None, True, float("nan"), float("inf"), 10**400):
            if when is not None:
                with pytest.raises(livelog.UsageProblem, match="the clock needs a"):
                    tx.insert("reading", ("b", 2), at=when)  # type: ignore[arg-type]
    assert rooms.clock == 12 and list(rooms["reading"]) == [("a", 1)]


def test_who_is_overtaken_by_another_transaction(rooms: livelog.Session) -> None:
    slow = rooms.transaction()
    slow.insert("reading", ("a", 3), at=5)
    with rooms.transaction() as tx:
        tx.advance_to(9)
    with pytest.raises(livelog.UsageProblem) as caught:
        slow.commit()
    late = '+reading("a", 3) at 5 is late: the clock stands at 9 by now and cannot go back'
    assert f"{late}: the transaction was not applied" in str(caught.value)
    assert not list(rooms["reading"])


def test_many_at_a_time(rooms: livelog.Session) -> None:
    with rooms.transaction() as tx:
        tx.insert_all("reading", [("a", 1), ("b", 2)], at=1)
        tx.insert_all("roomTemp", [("a", 99)], at=2)
        tx.insert_all("door", [("a",), ("b",)], at=2)
        tx.delete_all("door", [("b",)], at=3)
    assert told(tx.steps, "recent") == [(1, True, "+", "a", 1), (1, True, "+", "b", 2)]
    assert told(tx.steps, "open") == [(3, False, "+", "a")]


# --- streams and keys --------------------------------------------------------------------------------------------


def test_nothing_is_deleted_from_a_stream(rooms: livelog.Session) -> None:
    tx = rooms.transaction()
    tries: list[Callable[[], Any]] = [
        lambda: tx.delete("reading", ("a", 1)), lambda: tx.delete("reading", {"room": "a", "temp": 1}),
        lambda: tx.delete_all("reading", []), lambda: tx.delete_matching("reading", ("a", livelog.ANY)),
        lambda: tx.replace("reading", []),
    ]  # fmt: skip
    for attempt in tries:
        with pytest.raises(livelog.UsageProblem, match=r"`reading` is a stream.*cannot be deleted.*ttl.*window.*key"):
            attempt()
    with pytest.raises(livelog.UsageProblem, match="is a view"):
        tx.delete("hot", ("a", 1))
    with pytest.raises(livelog.UsageProblem, match="no relation `nothing`"):
        tx.delete("nothing", ("a", 1))


def test_nobody_sees_the_times_of_a_stream(tmp_path: Path) -> None:
    text = ROOMS + ".input reading\n.output reading, recent\n"
    (tmp_path / "reading.csv").write_text("temp,room\n5,f\n")
    with livelog.open(text, facts=tmp_path) as session:
        assert session.initial["reading"].inserted == [("f", 5)]
    (tmp_path / "reading.facts").write_text("f\t5\n")
    (tmp_path / "reading.csv").unlink()
    with livelog.open(text, facts=tmp_path) as session:
        assert list(session["reading"]) == [("f", 5)]
    frame = pandas.DataFrame({"temp": [1, 2], "room": ["a", "b"]})
    given: list[Any] = [[("a", 1), ["b", 2]], [{"temp": 1, "room": "a"}, {"room": "b", "temp": 2}], frame]
    for rows in given:
        with livelog.open(text, facts={"reading": rows}) as session:
            assert list(session["reading"]) == [("a", 1), ("b", 2)]
            session.load("reading", rows)
            with session.transaction() as tx:
                tx.insert_all("reading", rows, at=1)
                tx.insert("reading", ("a", 1), at=2)
                tx.insert("reading", {"room": "a", "temp": 1})
            view = session["reading"]
            assert view.columns == ("room", "temp") and view.types == ("symbol", "number")
            assert repr(view) == "<View reading(room, temp): 8 tuples>"
            assert list(view) == [("a", 1)] * 5 + [("b", 2)] * 3 and len(view) == 8
            assert ("a", 1) in view and ("a", 2) not in view and ("a", 1, 0) not in view
            assert list(view.to_pandas()["temp"]) == [1] * 5 + [2] * 3
            assert told(tx.steps, "reading") == [
                (1, True, "+", "a", 1), (1, True, "+", "b", 2), (2, True, "+", "a", 1), (2, True, "+", "a", 1)
            ]  # fmt: skip
            assert {len(row) for row in tx.changes["reading"].inserted} == {2}
    with livelog.open(text) as session, pytest.raises(FactProblem, match=r"has 2 columns \(room, temp\)"):
        session.load("reading", [("a", 1, 0)])


def test_relations_that_stand_for_others_are_not_seen(rooms: livelog.Session) -> None:
    shown = ["door", "hot", "open", "reading", "recent", "roomTemp"]
    for hidden in ("roomTemp at every(2)", "every(2)", "now", "reading@", "clock"):
        assert hidden not in rooms
        with pytest.raises(KeyError, match=r"it has door, hot, open, reading, recent, roomTemp\)"):
            rooms[hidden]
    assert [name for name in shown if name in rooms] == shown
    with livelog.open("even(t) :- clock(t), t % 2 = 0.\nr(x) :- e(x) at even.\n") as session:
        assert "even" in session
        with pytest.raises(KeyError, match=r"not kept; `.output even`"):
            session["even"]


def test_what_has_no_effect_is_counted(rooms: livelog.Session) -> None:
    def ignored() -> tuple[int, int]:
        stats = rooms.stats()
        return stats.ignored_inserts, stats.ignored_deletes

    with rooms.transaction() as tx:
        tx.update("roomTemp", ("a", 1))  # nobody has seen the key before
        tx.delete("roomTemp", ("b", 1))
        tx.delete("roomTemp", {"room": "c"})
        tx.delete("roomTemp", ("a", 2))  # the key is there, this tuple is not
    assert ignored() == (0, 3) and list(rooms["roomTemp"]) == [("a", 1)]
    assert "3 deletes" in str(rooms.stats())
    tx = rooms.transaction()
    tx.delete("roomTemp", {"room": "c"})
    tx.rollback()
    assert ignored() == (0, 3), "what is forgotten was never done"
    with rooms.transaction() as tx:
        tx.delete("roomTemp", {"room": "a"})
        tx.delete("roomTemp", {"room": "a"})
    assert ignored() == (0, 4) and not list(rooms["roomTemp"])


def test_an_update_needs_a_key(rooms: livelog.Session) -> None:
    with pytest.raises(livelog.UsageProblem, match=r"`door` has no key.*declare it with key"):
        rooms.transaction().update("door", ("a",))
    with rooms.transaction() as tx:
        tx.update("roomTemp", ("a", 1), at=1)
        tx.update("roomTemp", {"room": "a", "temp": 99})
        tx.advance_to(2)
    assert told(tx.steps, "hot") == [(2, True, "+", "a", 99)], "the last one counts"


def test_all_rows_of_a_relation(rooms: livelog.Session) -> None:
    with rooms.transaction() as tx:
        tx.insert_all("roomTemp", [("a", 1), ("b", 2), ("c", 3)])
    with rooms.transaction() as tx:
        tx.insert("roomTemp", ("d", 4))
        tx.replace("roomTemp", [("a", 1), {"room": "b", "temp": 5}, ("e", 6)], at=1)
        assert len(tx) == 7, "the clock moves; and what is there already is left alone"
    assert list(rooms["roomTemp"]) == [("a", 1), ("b", 5), ("e", 6)]
    with livelog.open(".decl e(x: number) bag\nn(count<x>) :- e(x).\n", facts={"e": [(1,), (1,), (2,)]}) as session:
        with session.transaction() as tx:
            tx.replace("e", [(1,), (3,), (3,)])
        assert list(session["n"]) == [(3,)]


# --- subscribers -------------------------------------------------------------------------------------------------


def test_subscribers_hear_of_every_step(rooms: livelog.Session) -> None:
    heard: list[Any] = []
    rooms.subscribe("hot", lambda c: heard.append(("hot", c.time, c.operations)))
    rooms.subscribe("open", lambda c: heard.append(("open", c.time, c.full, c.operations)))
    rooms.subscribe("hot", lambda c: heard.append(("whole", c.time, c.rows, c.operations)), form="complete")
    with rooms.transaction() as tx:
        tx.insert("roomTemp", ("a", 90), at=1)
        tx.insert("door", ("a",))
        tx.insert("roomTemp", ("b", 91), at=3)
        tx.insert("roomTemp", ("a", 10), at=5)
        tx.advance_to(100)
    assert heard == [
        ("hot", 2, [("+", ("a", 90))]), ("whole", 2, [("a", 90)], [("+", ("a", 90))]),
        ("open", 3, False, [("+", ("a",))]),
        ("hot", 4, [("+", ("b", 91))]), ("whole", 4, [("a", 90), ("b", 91)], [("+", ("b", 91))]),
        ("hot", 6, [("-", ("a", 90))]), ("open", 6, True, [("-", ("a",))]),
        ("whole", 6, [("b", 91)], [("-", ("a", 90))]),
    ]  # fmt: skip
    heard.clear()
    with rooms.transaction() as tx:
        tx.insert("roomTemp", ("c", 99))  # the clock stands at a point
    assert heard == [
        ("hot", 100, [("+", ("c", 99))]), ("whole", 100, [("b", 91), ("c", 99)], [("+", ("c", 99))]),
    ]  # fmt: skip


def test_what_a_subscriber_commits_is_told_after_all_steps(rooms: livelog.Session) -> None:
    heard: list[Any] = []

    def hear(changes: Changes) -> None:
        heard.append((changes.transaction, changes.time))
        if len(heard) == 1:
            with rooms.transaction() as tx:
                tx.insert("roomTemp", ("z", 99), at=20)

    rooms.subscribe("hot", hear)
    with rooms.transaction() as tx:
        tx.insert("roomTemp", ("a", 90), at=1)
        tx.insert("roomTemp", ("a", 91), at=3)
        tx.advance_to(10)
    assert heard == [(1, 2), (1, 4), (2, 20)]


def test_complete_rows_can_be_asked_for_at_any_time(rooms: livelog.Session) -> None:
    kept: list[Any] = []
    rooms.subscribe("hot", kept.append, form="complete")
    rng = random.Random(5)
    shown: dict[Any, list[Any]] = {}
    for _ in range(20):
        with rooms.transaction() as tx:
            for _ in range(10):
                tx.insert("roomTemp", (rng.choice("abcd"), rng.randrange(70, 120)), at=tx_time(tx, rng))
        rows: dict[Any, Any] = {}
        for number, step in enumerate(tx.steps):
            rows = dict(shown.get("last", {})) if number == 0 else rows
            for op, row in step["hot"].operations:
                assert (row[0] in rows) is (op != "+")
                if op == "-":
                    del rows[row[0]]
                else:
                    rows[row[0]] = row
            if step["hot"]:
                shown.setdefault("all", []).append(sorted(rows.values()))
                shown["last"] = dict(rows)  # type: ignore[assignment]
        assert sorted(shown.get("last", {}).values()) == list(rooms["hot"])  # type: ignore[attr-defined]
    assert len(shown["all"]) > 20
    order = list(range(len(kept)))
    rng.shuffle(order)
    for i in order:
        assert kept[i].rows == shown["all"][i], "whatever was asked before"


def tx_time(tx: livelog.Transaction, rng: random.Random) -> float:
    """Some time that is not before the last one."""
    now = tx._times[1] if tx._times else tx._session.clock
    return now + rng.choice((0, 0.5, 1, 3))


def test_refreshes_leave_out_what_changes_nothing() -> None:
    steps = [Changes("r", [(1,)], []), Changes("r", [], []), Changes("r", [(2,)], [(1,)])]
    assert [refresh.rows for refresh in refreshes(steps, [(2,), (5,)])] == [[(1,), (5,)], [(2,), (5,)]]
    assert refreshes([], [(1,)]) == refreshes([Changes("r", [], [])], [(1,)]) == []


def test_forms_of_subscriptions(rooms: livelog.Session) -> None:
    with pytest.raises(livelog.UsageProblem, match="streamed or complete, and not 'whole'"):
        rooms.subscribe("hot", print, form="whole")
    with livelog.open(".decl s(x: number) stream\n.decl b(x: number) bag\n.output s, b\n") as session:
        for name in "sb":
            with pytest.raises(livelog.UsageProblem, match="may have a row more than once"):
                session.subscribe(name, print, form="complete")
    with livelog.open(PLAIN, facts={"e": [(1,)]}) as session:
        heard: list[Any] = []
        session.subscribe("r", lambda c: heard.append(c.rows), form="complete")
        for i in (2, 3):
            with session.transaction() as tx:
                tx.insert("e", (i,))
                tx.delete("e", (1,))
        with session.transaction() as tx:
            tx.insert("e", (3,))
    assert heard == [[(2,)], [(2,), (3,)]]


# --- validity ----------------------------------------------------------------------------------------------------


VALID = """
.decl k(x: symbol, y: number) key(x)
.decl s(x: symbol) stream
.decl deadline(t: number)
alarm(t) :- s("alarm")@t.
odd(t) :- clock(t), t % 2 = 1, t < 10.
even(x) :- k(x, _) at every(2).
fine(x) :- k(x, _) at every(0.5, from=0.25).
few(x) :- k(x, _) at odd.
slow(x) :- even(x) at every(4).
two(x) :- k(x, _) at every(2), s(x) at every(3).
some(x) :- even(x), s(x).
event(x) :- k(x, _) at alarm.
planned(x) :- k(x, _) at deadline.
mixed(x) :- k(x, _) at every(2), s(x) at alarm.
window(x) :- s(x)@t, now(n), n < t + 5.
plain(x) :- k(x, _).
stated("a").
stated(x) :- k(x, _) at every(2).
"""


@pytest.mark.parametrize(("view", "clock", "expected"), [
    ("even", 0, (1, 2)), ("even", 5, (5, 6)), ("even", 4.5, (5, 6)), ("even", 5.5, (5.5, 6)), ("even", 6, (7, 8)),
    ("fine", 4, (4, 4.25)), ("fine", 4.5, (4.5, 4.75)), ("slow", 5, (7, 8)), ("two", 4, (5, 6)), ("two", 8, (8, 9)),
    ("few", 5, (6, 7)), ("few", 20, (float("inf"), None)), ("stated", 5, (5, 6)),
    # what others may change at any time
    ("some", 5, (5, 6)), ("mixed", 5, (5, 6)), ("event", 5, (5, None)), ("planned", 5, (5, None)),
    ("window", 5, (5, None)), ("plain", 5, (5, None)), ("k", 5, (5, None)), ("s", 5, (5, None)),
])  # fmt: skip
def test_how_long_a_view_is_valid(view: str, clock: float, expected: Any) -> None:
    with livelog.open(VALID) as session:
        with session.transaction() as tx:
            tx.advance_to(clock)
        valid = session[view].valid
        assert valid == expected and valid.through == expected[0] and valid.next == expected[1]
        assert [type(t) for t in valid if t in (5, 6)] == [int] * len([t for t in valid if t in (5, 6)])


def test_a_view_is_as_it_says() -> None:
    """Whatever facts come, nothing changes up to the time through which it is valid; and at the next time it may."""
    rng = random.Random(11)
    changed = set()
    with livelog.open(VALID) as session:
        for _ in range(200):
            valid = {view: session[view].valid for view in session.views}
            with session.transaction() as tx:
                tx.insert("k", (rng.choice("abc"), rng.randrange(3)), at=session.clock + rng.choice((0.25, 0.5, 1, 2)))
                tx.insert("s", (rng.choice(("a", "b", "alarm")),))
            for step in tx.steps:
                for view in session.views:
                    if step[view]:
                        assert step.time > valid[view].through, view
                        assert valid[view].next is None or view in ("some", "mixed") or step.time >= valid[view].next
                        changed.add((view, step.time == valid[view].next))
    assert {("even", True), ("slow", True), ("two", True), ("event", False), ("fine", True)} <= changed


# --- a clock that is real ----------------------------------------------------------------------------------------


class Now:
    """A machine's clock that goes when it is told."""

    def __init__(self, time: float) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time


NEVER = 10_000.0  # seconds until the thread ticks by itself


def test_milliseconds() -> None:
    assert milliseconds(Now(1795061908.8459)) == 1795061908.845
    assert milliseconds(Now(5)) == 5


def test_transactions_are_stamped() -> None:
    now = Now(1000.5)
    with livelog.open(ROOMS, clock=1000, facts={"reading": [("old", 1)]}) as session:
        assert session.clock == 1000 and [step.time for step in session.initial_steps] == [1000]
        with session.follow_clock(NEVER, now) as clock:
            assert session.clock == 1000.5 and clock.now() == 1000.5
            now.time = 1001.2345
            with session.transaction() as tx:
                tx.insert("reading", ("a", 1))
                tx.insert("roomTemp", ("a", 99))
            assert told(tx.steps, "recent") == [(1001.234, True, "+", "a", 1)]
            now.time = 1001.9
            session.load("reading", [("b", 2)])
            assert session.clock == 1001.9
            now.time = 1010
            assert clock.tick() and not clock.tick() and session.clock == 1010
            assert list(session["hot"]) == [("a", 99)] and not list(session["recent"])
            now.time = 1005  # the machine's clock was set back: the session's stands
            assert not clock.tick()
            with session.transaction() as tx:
                tx.insert("reading", ("c", 3))
            assert told(tx.steps, "recent") == [(1010, True, "+", "c", 3)]
        now.time = 2000
        session.load("reading", [("d", 4)])
        assert session.clock == 1010, "it does not follow any more"


def test_no_other_times_with_a_real_clock(rooms: livelog.Session) -> None:
    with rooms.follow_clock(NEVER, Now(5)):
        for operate in (lambda tx: tx.advance_to(7), lambda tx: tx.insert("reading", ("a", 1), at=7)):
            tx = rooms.transaction()
            operate(tx)
            with pytest.raises(livelog.UsageProblem, match="the clock of the session follows real time"):
                tx.commit()
        with pytest.raises(livelog.UsageProblem, match="follows real time already"), rooms.follow_clock():
            pass
        rooms.load("reading", [("b", 1)])
    for tick in (0, -1, "1", True, float("inf")):
        with pytest.raises(livelog.UsageProblem, match="`tick` is a number of seconds"):
            rooms.follow_clock(tick)  # type: ignore[arg-type]
    once = rooms.follow_clock(NEVER, Now(9))
    with once:
        pass
    with pytest.raises(livelog.UsageProblem, match="makes another one"), once:
        pass


def test_the_clock_goes_on_by_itself(rooms: livelog.Session) -> None:
    """A thread moves it, and subscribers hear of that."""
    gone, now = threading.Event(), Now(0)
    heard: list[Any] = []

    def hear(changes: Changes) -> None:
        heard.extend((changes.time, *operation) for operation in changes.operations)
        if changes.deleted:
            gone.set()

    rooms.subscribe("recent", hear)
    with rooms.follow_clock(0.001, now):
        rooms.load("reading", [("a", 1)])
        now.time = 2.5
        with rooms.transaction() as tx:
            tx.insert("reading", ("b", 1))
        now.time = 3.25
        assert gone.wait(60)
    assert heard == [(0, "+", ("a", 1)), (2.5, "+", ("b", 1)), (3, "-", ("a", 1))]


FAILS = ".decl s(x: number) stream\nlater(x, 10 / x) :- s(x)@t, now(n), n >= t + 5.\n"


def test_a_clock_that_cannot_go_on_says_so() -> None:
    failed, now = threading.Event(), Now(0)
    with livelog.open(FAILS) as session:
        with pytest.raises(livelog.RuntimeProblem, match="division by zero"), session.follow_clock(NEVER, now) as clock:
            session.load("s", [(0,)])
            now.time = 6
            clock.tick()  # here it is raised at once
        assert session.clock == 0
    now = Now(0)
    for swallow in (False, True):
        with livelog.open(FAILS) as session:
            clock = session.follow_clock(0.001, now)
            real = clock.tick

            def tick(real: Callable[[], bool] = real) -> bool:
                try:
                    return real()
                except BaseException:
                    failed.set()
                    raise

            clock.tick = tick  # type: ignore[method-assign]
            failed.clear()
            now.time = 0
            if not swallow:
                with pytest.raises(livelog.RuntimeProblem, match="division by zero"), clock:
                    session.load("s", [(0,)])
                    now.time = 6
                    assert failed.wait(60)
            else:
                with clock:
                    session.load("s", [(0,)])
                    now.time = 6
                    assert failed.wait(60)
                    clock._thread.join(60)  # type: ignore[union-attr]
                    for _ in range(2):
                        with pytest.raises(livelog.RuntimeProblem, match="division by zero"):
                            session.load("s", [(1,)])
            assert session.clock == 0 and list(session["s"]) == [(0,)]
            session.load("s", [(1,)])  # without a clock it goes on


def test_what_a_subscriber_raises_in_a_tick_is_told_once(rooms: livelog.Session) -> None:
    told_of, now = threading.Event(), Now(0)

    def fail(changes: Changes) -> None:
        if changes.deleted:
            told_of.set()
            raise ValueError("boom")

    rooms.subscribe("recent", fail)
    with rooms.follow_clock(0.001, now) as clock:
        rooms.load("reading", [("a", 1)])
        now.time = 4
        assert told_of.wait(60)
        while clock._problem is None:
            pass
        with pytest.raises(livelog.SubscriberProblem, match="boom"):
            rooms.load("reading", [("b", 1)])
        rooms.load("reading", [("c", 1)])
        now.time = 5
        while rooms.clock < 5:
            pass
    assert rooms.clock == 5


def test_a_session_may_be_closed_while_its_clock_goes() -> None:
    session = livelog.open(ROOMS)
    with session.follow_clock(0.001, Now(3)):
        session.close()
    with pytest.raises(livelog.UsageProblem, match="closed"), session.follow_clock():
        pass


def test_a_log_does_not_grow_with_the_time(tmp_path: Path) -> None:
    now = Now(0)
    with livelog.open(ROOMS, store=tmp_path / "s") as session, session.follow_clock(NEVER, now) as clock:
        session.load("reading", [("a", 1)])
        number = session._with_journal.journal.number
        for time in (1, 2, 2.5, 2.999):
            now.time = time
            assert not clock.tick()
        assert session._with_journal.journal.number == number
        now.time = 3
        assert clock.tick() and not list(session["recent"])
        assert session._with_journal.journal.number == number + 1


# --- other rooms -------------------------------------------------------------------------------------------------


def test_a_session_begins_at_some_time() -> None:
    text = ".decl e(x: number) ttl(10)\n.decl s(x: number) stream\nr(x) :- e(x).\nw(x) :- s(x)@t, now(n), n < t + 5.\n"
    with livelog.open(text, facts={"e": [(1,)], "s": [(2,)]}, clock=100) as session:
        assert session.clock == 100 and list(session["r"]) == [(1,)] and list(session["w"]) == [(2,)]
        with session.transaction() as tx:
            tx.advance_to(110)
        assert told(tx.steps, "w") == [(105, True, "-", 2)] and told(tx.steps, "r") == [(110, True, "-", 1)]
    for clock in ("1", float("nan"), True):
        with pytest.raises(livelog.UsageProblem, match="the clock needs a"):
            livelog.open(text, clock=clock)  # type: ignore[arg-type]


def test_a_session_in_a_folder(tmp_path: Path) -> None:
    text = ROOMS + ".output reading, hot, open, recent\n"
    with livelog.open(text, store=tmp_path / "s", facts={"reading": [("i", 0)]}) as session:
        with session.transaction() as tx:
            tx.insert("reading", ("x", 3), at=1)
            tx.insert("roomTemp", ("a", 99))
            tx.advance_to(5)
        session.checkpoint()
        with session.transaction() as tx:
            tx.update("roomTemp", ("a", 100))
            tx.advance_to(6)
        assert told(tx.steps, "hot") == [(6, True, "u", "a", 100)]
        assert [c.operations for c in session.changes("hot")] == [[("+", ("a", 99))], [("u", ("a", 100))]]
        assert [c.operations for c in session.changes("reading")] == [[("+", ("i", 0))], [("+", ("x", 3))]]
        before = {view: list(session[view]) for view in session.views}
    with livelog.resume(tmp_path / "s") as session:
        assert {view: list(session[view]) for view in session.views} == before and session.clock == 6
        assert session.initial_steps == () and session["hot"].valid == (7, 8)
        with session.transaction() as tx:
            tx.insert("roomTemp", ("b", 90), at=7)
            tx.delete("roomTemp", {"room": "a"})
            tx.advance_to(9)
        assert told(tx.steps, "hot") == [(8, True, "-", "a", 100), (8, True, "+", "b", 90)]
