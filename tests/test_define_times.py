"""Definitions with times, at points and in windows: what they find, what they share, and what goes with them."""

from __future__ import annotations

import random
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import CheckProblem, UsageProblem
from operators.dated import Stamped
from tests.cases import program_of
from tests.defining import Group, Pieces
from tests.harness import METHODS, Configuration, Mismatch, OnPurpose
from tests.stream_cases import states
from tests.stream_generate import generate
from tests.stream_harness import Followed, apply, compare
from tests.test_define_histories import untouched

PROGRAM = """
.decl temp(room: symbol, value: number) key(room)
.decl reading(x: number) stream
.decl plain(x: number)
.decl mortal(x: number) ttl(5)
big(r) :- temp(r, v), v > 50.
"""


class Session:
    """A session, and its steps as (time, {view: (inserted, deleted)})."""

    def __init__(self, text: str = PROGRAM, partitions: int = 1) -> None:
        self.session: Any = livelog.open(datalog.parse(text), partitions=partitions)

    def __call__(self, *operations: Any) -> list[Any]:
        with self.session.transaction() as tx:
            for operation in operations:
                if isinstance(operation, (int, float)):
                    tx.advance_to(operation)
                elif operation[0] == "-":
                    tx.delete(*operation[1:])
                else:
                    tx.insert(*operation)
        self.session.check()
        return self.told(tx.changes)

    def told(self, log: Any) -> list[Any]:
        return [(s.time, {v: (s[v].inserted, s[v].deleted) for v in s if s[v]}) for s in log.steps]

    def define(self, text: str) -> list[Any]:
        with untouched(self.session):
            log = self.session.define(text)
        self.session.check()
        return self.told(log)

    def drop(self, *names: str) -> None:
        with untouched(self.session):
            self.session.drop(*names)
        self.session.check()

    def __getitem__(self, name: str) -> list[Any]:
        return list(self.session[name])


@pytest.fixture(params=[1, 3])
def s(request: pytest.FixtureRequest) -> Session:
    return Session(partitions=request.param)


def test_new_points_begin_with_the_next_one(s: Session) -> None:
    s(3, ("temp", ("a", 90)))
    assert s.define("hot(r, v) :- temp(r, v) at every(2), v > 80.") == [] and s["hot"] == []
    assert s(4) == [(4, {"hot": ([("a", 90)], [])})]
    assert s(5, ("temp", ("a", 95))) == []
    assert s(6) == [(6, {"hot": ([("a", 95)], [("a", 90)])})]


def test_a_point_at_which_the_clock_stands_is_one(s: Session) -> None:
    s(4, ("temp", ("a", 90)))
    assert s.define("hot(r, v) :- temp(r, v) at every(4), v > 80.") == [(4, {"hot": ([("a", 90)], [])})]
    assert s.session["hot"].valid.next == 8


def test_reads_at_points_are_shared_as_they_stand(s: Session) -> None:
    s.define("hot(r, v) :- temp(r, v) at every(2), v > 80.")
    s(2, ("temp", ("a", 90)))
    s(3, ("temp", ("a", 95)), ("temp", ("b", 99)))
    kept = [r for r, plan in s.session.plan.relations.items() if plan.kind == "kept"]
    s.define("hotter(r, v) :- temp(r, v) at every(2), v > 85.")
    assert [r for r, plan in s.session.plan.relations.items() if plan.kind == "kept"] == kept
    assert s["hotter"] == s["hot"] == [("a", 90)]
    assert s(4) == [(4, {name: ([("a", 95), ("b", 99)], [("a", 90)]) for name in ("hot", "hotter")})]
    s.drop("hot")
    assert [r for r, plan in s.session.plan.relations.items() if plan.kind == "kept"] == kept
    s.drop("hotter")
    assert not [r for r, plan in s.session.plan.relations.items() if plan.kind == "kept"]


def test_times_that_nobody_asked_for_are_those_of_the_definition(s: Session) -> None:
    s(3, ("plain", (1,)), ("mortal", (1,)), ("temp", ("a", 90)), ("reading", (1,)))
    s(4)
    s.define("p(x, t) :- plain(x)@t. m(x, t) :- mortal(x)@t. b(r, t) :- big(r)@t. r(x, t) :- reading(x)@t.")
    assert (s["p"], s["m"], s["b"], s["r"]) == ([(1, 4)], [(1, 4)], [("a", 4)], [(1, 3)])
    s(6, ("plain", (1,)), ("plain", (2,)), ("mortal", (2,)), ("temp", ("b", 60)))
    assert (s["p"], s["m"]) == ([(1, 4), (2, 6)], [(1, 4), (2, 6)]) and s["b"] == [("a", 4), ("b", 6)]
    assert s(8) == [(8, {"m": ([], [(1, 4)])})]  # what was there has expired when it would have
    s.define("p2(x, t) :- plain(x)@t, t > 5.")
    assert s["p2"] == [(2, 6)]
    s.drop("p", "p2", "m", "b", "r")
    worker = s.session._runtime.workers[0]
    assert not any(isinstance(table, Stamped) for table in worker.base.values())
    assert set(worker.base) == {"temp", "reading", "plain", "mortal"}
    s(9, ("plain", (3,)), ("-", "plain", (1,)))
    s.define("p(x, t) :- plain(x)@t.")
    assert s["p"] == [(2, 9), (3, 9)]


def test_windows_over_what_is_still_there(s: Session) -> None:
    s.define("w(x) :- reading(x)@t, now(n), n - 5 < t, t <= n.")
    s(3, ("reading", (1,)))
    s(6, ("reading", (2,)))
    s(9, ("reading", (3,)))
    assert s["w"] == [(2,), (3,)]
    s.define("wide(x) :- reading(x)@t, now(n), n - 20 < t, t <= n.")
    assert s["wide"] == [(2,), (3,)]  # the first one had left all windows
    assert s(14) == [(11, {"w": ([], [(2,)])}), (14, {"w": ([], [(3,)])})]
    assert s["wide"] == [(2,), (3,)] and len(s.session["reading"]) == 2
    s.drop("wide")
    s(15)
    assert len(s.session["reading"]) == 0
    s.define("all(x) :- reading(x).")
    s(16, ("reading", (4,)))
    s(30)
    assert s["all"] == [(4,)] and s["w"] == []


def test_synchronised_windows_whose_readers_change(s: Session) -> None:
    s.define("w(x) :- reading(x)@t at every(2), now(n), n - 5 < t, t <= n.")
    for n in range(1, 9):
        s(n, ("reading", (n,)))
    assert s["w"] == [(x,) for x in range(4, 9)]
    s.define("all(x) :- reading(x) at every(2).")
    s(9), s(10)
    assert set(s["all"]) <= {(x,) for x in range(1, 9)} and set(s["all"]) >= {(x,) for x in range(5, 9)}
    s(10.5, ("reading", (20,))), s(12)
    assert (20,) in s["all"] and (20,) in s["w"]
    s.drop("w")
    s(13, ("reading", (21,))), s(14)
    assert (21,) in s["all"]
    s.define("w(x) :- reading(x)@t at every(2), now(n), n - 5 < t, t <= n.")
    assert s["w"] == [(20,), (21,)]
    s.drop("all")
    s(40)
    assert s["w"] == [] and len(s.session["reading"]) == 0


def test_events_and_sync_streams_that_are_defined(s: Session) -> None:
    s(1, ("temp", ("a", 90)))
    s.define("alarm(t) :- reading(x)@t, x > 7.")
    s.define("then(r, v) :- temp(r, v) at alarm.")
    with pytest.raises(UsageProblem, match="`alarm` cannot be dropped: `then` reads it"):
        s.drop("alarm")
    assert s(2, ("reading", (3,))) == []
    assert s(3, ("reading", (8,)))[-1] == (3, {"alarm": ([(3,)], []), "then": ([("a", 90)], [])})
    s.define("also(r) :- temp(r, _) at alarm.")
    assert s["also"] == [("a",)]
    s.drop("then", "also")
    s.drop("alarm")
    s.define("every2(t) :- clock(t), t % 2 = 0.")
    s.define("hot(r) :- temp(r, _) at every2.")
    with pytest.raises(UsageProblem, match="`every2` cannot be dropped: `hot` reads it"):
        s.drop("every2")
    assert s(4) == [(4, {"hot": ([("a",)], [])})]


def test_the_time_as_data(s: Session) -> None:
    s(7)
    s.define(".output ten\n.output moment\nten(t) :- clock(t), t % 3 = 0. moment(n) :- now(n).")
    assert s["ten"] == [(0,), (3,), (6,)] and s["moment"] == [(7,)]
    assert s(9)[-1] == (9, {"ten": ([(9,)], []), "moment": ([(9,)], [(8,)])})
    s.drop("moment")
    assert s(12) == [(12, {"ten": ([(12,)], [])})]


def test_a_definition_cannot_take_the_time_away(s: Session) -> None:
    s.define("moment(x, n) :- plain(x), now(n).")
    with pytest.raises(CheckProblem, match="`now` is the time itself here"):
        s.session.define("now(x) :- plain(x).")
    s.drop("moment")
    s.session.define("now(x) :- plain(x).")


def test_views_that_are_not_whole_cannot_be_read_so() -> None:
    """A view of which only what its readers need is there."""
    s = Session(
        """.decl reading(x: number) stream\n.decl temp(r: symbol, v: number) key(r)\n.output hot
        alarm(t) :- reading(x)@t, x > 7.   hot(r) :- temp(r, _) at alarm."""
    )
    relation = s.session.plan.relations.get("alarm")
    if relation is not None and relation.kind == "auxiliary":
        with pytest.raises(CheckProblem, match=r"`\.output alarm` in the program keeps it whole"):
            s.session.define("alarms(t) :- alarm(t).")
    s.define("hotter(r, v) :- temp(r, v) at alarm, v > 80.")
    s(3, ("temp", ("a", 90)), ("reading", (8,)))
    assert s["hotter"] == [("a", 90)]


def test_an_untimed_session_becomes_a_timed_one_and_back() -> None:
    s = Session(".decl e(x: number)\nr(x) :- e(x).")
    assert not s.session.plan.timed
    s(1, ("e", (1,)))
    s.define("at2(x) :- e(x) at every(2).")
    assert s(5, ("e", (2,))) == [(2, {"at2": ([(1,)], [])}), (5, {"r": ([(2,)], [])})]
    s.drop("at2")
    assert not s.session.plan.timed and s(8, ("e", (3,))) == [(8, {"r": ([(3,)], [])})]


# --- random programs -----------------------------------------------------------------------------------------


def run(seed: int, configuration: Configuration) -> int:
    """Views that are defined before anything happens are what they would be in a program that had them from the
    beginning, at every time; and those that are dropped later leave the others alone."""
    case = generate(seed)
    expected, rng = states(case), random.Random(f"define {seed}")
    program, pieces = program_of(case.text), Pieces(case)
    session = configuration.open(program_of(pieces.text), facts=case.loaded, limit=200_000)
    there: list[Group] = []
    at = -1
    try:
        with session:
            while len(there) < len(pieces.groups):
                new, _ = pieces.choice(rng, there)
                if new is None:
                    continue
                try:
                    with untouched(session):
                        session.define(new.text)
                except CheckProblem as problem:
                    assert "only what its readers need" in problem.message, problem
                    return 0
                there.append(new)
            followed = Followed(program, session)
            for view in session.views:
                for known in (followed.rows, followed.told, followed.net):
                    known[view] = set(expected[0].relations[view])
            wrong = compare(case, expected[0], session)
            assert not wrong, f"after the definitions: {wrong}"
            for at, operations in enumerate(case.history):
                try:
                    with session.transaction() as tx:
                        apply(tx, operations, rng)
                    if expected[at + 1].failed:  # over a view that was dropped
                        assert len(there) < len(pieces.groups)
                        return len(there)
                    wrong = followed.transaction(expected[at + 1].moments, tx.steps, tx.changes)
                except (OnPurpose, livelog.LivelogError):
                    if not expected[at + 1].failed:
                        raise
                assert not (wrong := wrong + compare(case, expected[at + 1], session)), wrong
                _, old = pieces.choice(rng, there)
                if old is not None and rng.random() < 0.2:
                    with untouched(session):
                        session.drop(*old.names)
                    there.remove(old)
                    followed.timed = session.plan.timed
                    followed.views = [view for view in followed.views if view not in old.names]
                session.check()
    except Exception as error:
        text = f"{error}\n{configuration}, {[g.names for g in there]}\n{case.show(at)}"
        raise Mismatch(type(error).__name__, text) from error
    return len(there)


@pytest.mark.parametrize("first", range(0, 63, 7))
def test_views_that_are_defined_at_the_beginning(first: int) -> None:
    for seed in range(first, first + 7):
        method = METHODS[seed % len(METHODS)]
        partitions = (1, 3)[seed // 7 % 2]
        run(seed, Configuration(*method, partitions, seed if partitions > 1 else None))
