"""Plans of programs with times: what they are made of, and what they mean, by interpretation against the oracle."""

from __future__ import annotations

import random
from math import inf, nextafter
from typing import Any

import pytest

import datalog
import planner
from datalog.ast import Comparison, Constant, Program, variables
from operators.schedule import EMPTY, Schedule, whole
from planner.bounds import CLOCK, solved
from planner.plan import BROADCAST, ClockRule, Input, Plan, StampRule, SyncRule, WindowRule
from planner.rewrite import substitute
from planner.translate import Translator, evaluate
from planner.validate import problems
from tests.oracle_base import Operation
from tests.oracle_streams import Moment, Timeline
from tests.oracle_values import OracleError
from tests.stream_cases import states
from tests.stream_generate import generate
from tests.stream_interpreter import TimedInterpreter, is_inside
from tests.stream_plan_programs import BASE, PROGRAMS

SEEDS = 120  # random programs in chunks of CHUNK
CHUNK = 12
HISTORIES = 6


def program_of(text: str) -> Program:
    return datalog.check(datalog.parse(text))


def plan_of(text: str) -> Plan:
    return planner.plan(program_of(text), share=False)


def rule(plan: Plan, head: str) -> Any:
    (found,) = [r for s in plan.strata for r in s.rules if r.head == head]
    return found


def made(plan: Plan, kind: type) -> list[Any]:
    return [r for s in plan.strata for r in s.rules if isinstance(r, kind)]


# --- against the oracle --------------------------------------------------------------------------------------


class Both(Timeline):
    """The oracle and an interpreter of the plan side by side: at every time they must say the same."""

    def __init__(self, program: Program, partitions: int, grid: float = 1) -> None:
        super().__init__(program, grid, 5_000_000)
        self.plan = planner.plan(program, share=False)
        assert not list(problems(self.plan))
        planner.explain(self.plan)
        self.interpreter = TimedInterpreter(self.plan, partitions)
        self.names = [n for n in self.plan.published if n in program.relations and n in program.derived]

    def copy(self) -> Both:
        other = super().copy()
        both = Both.__new__(Both)
        both.__dict__.update(other.__dict__, plan=self.plan, names=self.names, interpreter=self.interpreter.copy())
        return both

    def _look(self) -> Moment:
        moment = super()._look()
        got = self.interpreter.look(self.base)
        for name in self.names:
            assert got[name] == moment.relations[name], (name, moment.time)
            needed = set(self.plan.syncs.get(name, ()))
            assert moment.full[name] == (needed <= self.interpreter.points), (name, moment.time)
        return moment


def drawn_history(rng: random.Random, names: dict[str, int]) -> list[Operation]:
    """Operations over small numbers, and moves of the clock by whole ticks, one far."""
    clock, there, history = 0, [], []
    for _ in range(60):
        roll = rng.random()
        if roll < 0.4:
            clock += rng.choice([1, 1, 1, 2, 3, 7])
            history.append(("advance", clock))
        elif roll < 0.5 and there:
            history.append(("delete", *there.pop(rng.randrange(len(there)))))
        else:
            name = rng.choice(list(names))
            row = tuple(rng.randrange(4 if name != "e" else 25) for _ in range(names[name]))
            row = (*row[:-1], rng.randrange(30)) if name == "d" else row
            history.append(("insert", name, row))
            if name != "s":
                there.append((name, row))
    return history


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program = program_of(BASE + PROGRAMS[name])
    bases = {n: len(program.relations[n].shown) for n in "skedl" if n in program.base}
    for seed in range(HISTORIES):
        both = Both(program, 1 + seed % 3)
        both.load({})
        rng = random.Random(f"{name} {seed}")
        history = drawn_history(rng, bases)
        while history:
            count = rng.randint(1, 8)
            both.run(history[:count])
            del history[:count]


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_random_programs(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        case = generate(seed)
        both = Both(program_of(case.text), 1 + seed % 3, case.grid)
        both.load(case.loaded)
        for operations, expected in zip(case.history, states(case)[1:], strict=True):
            after = both.copy()
            try:
                after.run(operations)
            except (OracleError, ArithmeticError, ValueError):
                assert expected.failed
            else:
                assert not expected.failed
                both = after


# --- reads at points and with times --------------------------------------------------------------------------

ROOMS = """
.decl room(r: symbol, v: number) key(r)
.decl reading(r: symbol, v: number) stream ttl(9)
two(t) :- clock(t), t % 2 = 0.
hot(t) :- reading(_, v)@t, v > 120.
"""


def test_a_read_at_points_of_the_clock() -> None:
    plan = plan_of(ROOMS + "h(r, v) :- room(r, v) at two, v > 80.")
    read = rule(plan, "room at two")
    assert isinstance(read, SyncRule) and read.input == Input("room", (0,))
    assert read.ticks == Schedule.of(2) and read.events == ()
    relation = plan.relations["room at two"]
    assert relation.kind == "kept" and relation.partition == (0,) and not relation.weighted and not relation.key
    (stratum,) = [s for s in plan.strata if "room at two" in s.relations]
    assert stratum.method == "kept" and stratum.inputs == ("room",)
    assert plan.timed and plan.syncs == {"h": ("room at two",)}
    assert "two" not in plan.relations and "two" not in plan.outputs and "clock" not in plan.relations


def test_a_read_at_events() -> None:
    plan = plan_of(ROOMS + "h(r, v) :- reading(r, v) at hot.")
    read = rule(plan, "reading at hot")
    assert read.ticks == EMPTY and read.events == (Input("hot", BROADCAST),)
    assert plan.relations["reading at hot"].bag and plan.relations["reading at hot"].weighted
    assert plan.relations["hot"].kind == "view" and "hot" in plan.outputs


def test_a_read_at_points_and_events() -> None:
    text = ROOMS + "either(t) :- two(t). either(t) :- hot(t). h(r) :- room(r, _) at either.\n.output h"
    plan = plan_of(text)
    read = rule(plan, "room at either")
    assert read.ticks == Schedule.of(2) and read.events == (Input("either", BROADCAST),)
    assert "either" not in plan.published and plan.outputs == ("h",)


def test_every() -> None:
    plan = plan_of(ROOMS + "h(r) :- room(r, _) at every(2.5, from=1), room(r, _) at every(10).")
    assert rule(plan, "room at every(2.5, from=1)").ticks == Schedule.of(2.5, 1)
    assert rule(plan, "room at every(10)").ticks == Schedule.of(10)
    assert plan.syncs["h"] == ("room at every(2.5, from=1)", "room at every(10)")


def test_what_a_view_rests_on() -> None:
    plan = plan_of(ROOMS + """
        a(r) :- room(r, _) at two.  b(r) :- a(r) at every(4).  c(r) :- b(r), room(r, _)@_.  d(r) :- room(r, _).
        e(t) :- a(_)@t.  f(r) :- room(r, _) at e.""")
    assert plan.syncs == {
        "a": ("room at two",),
        "b": ("a at every(4)", "room at two"),
        "c": ("a at every(4)", "room at two"),
        "e": ("room at two",),
        "f": ("room at e",),
    }


def test_times_of_tuples() -> None:
    plan = plan_of(ROOMS + """
        .decl plain(x: number, y: number) ttl(5) partition(y)
        a(r, t) :- room(r, _)@t.  b(x, t) :- plain(x, _)@t.  c(x, t) :- b(x, _)@t at two.  d(t) :- reading(_, _)@t.""")
    assert plan.relations["room"].stamped == "room@" and plan.relations["plain"].stamped == "plain@"
    stamped = plan.relations["plain@"]
    assert (stamped.kind, stamped.key, stamped.ttl, stamped.partition) == ("kept", (0, 1), 5, (1,))
    assert plan.relations["room@"].key == (0,) and plan.relations["room@"].columns[-1] == "@"
    (stamp,) = made(plan, StampRule)
    assert (stamp.head, stamp.input.relation) == ("b@", "b") and plan.relations["b@"].kind == "kept"
    assert rule(plan, "b@ at two").input.relation == "b@"
    stream = plan.relations["reading"]
    assert stream.stream and stream.bag and stream.weighted and stream.ttl == 9 and not stream.stamped


def test_facts_of_streams_have_no_time() -> None:
    plan = plan_of(".decl s(x: number, y: float) stream  s(1, 2). s(1, 2). r(x, t) :- s(x, _)@t.")
    assert plan.facts["s"] == ((1, 2.0), (1, 2.0)) and plan.relations["s"].arity == 3


def test_a_program_without_times_is_none() -> None:
    plan = plan_of(".decl e(x: number) ttl(3)  r(x) :- e(x).")
    assert not plan.timed and plan.syncs == {}


# --- points as data ------------------------------------------------------------------------------------------


def test_points_are_data_only_where_they_must_be() -> None:
    plan = plan_of("two(t) :- clock(t), t % 2 = 0. r(t, x) :- two(t), e(x), t > x, t % 3 = 0. q(x) :- e(x), two(x).")
    (points,) = made(plan, ClockRule)[:1]
    assert points.what == "all" and points.ticks == Schedule.of(6)
    assert plan.relations[points.head].partition == ()
    assert "two" not in plan.relations and "clock" not in plan.relations


def test_a_view_of_points_that_is_named_is_shown() -> None:
    text = "two(t) :- clock(t), t % 2 = 0. four(t) :- two(t), t % 4 = 0. r(x) :- e(x) at four."
    plan = plan_of(text + "\n.output two\n.output r")
    assert plan.relations["two"].kind == "view" and plan.published == ("two", "r") and plan.outputs == ("two", "r")
    assert [(c.what, c.ticks) for c in made(plan, ClockRule)] == [("all", Schedule.of(2))]
    assert rule(plan, "e at four").ticks == Schedule.of(4)


def test_the_clock_as_data() -> None:
    (clock,) = made(plan_of("r(x, n) :- e(x), now(n)."), ClockRule)
    assert (clock.head, clock.what, clock.ticks) == ("now", "now", EMPTY)
    (last,) = made(plan_of("r(max<t>) :- clock(t), t % 5 = 3."), ClockRule)
    assert (last.what, last.ticks) == ("last", Schedule.of(5, 3))


# --- windows -------------------------------------------------------------------------------------------------

STREAM = ".decl s(x: number, v: number) stream\n"


def test_a_window() -> None:
    plan = plan_of(STREAM + "r(x) :- s(x, _)@t, now(n), n - 5 < t, t <= n.")
    (window,) = made(plan, WindowRule)
    assert window.input.relation == "s" and window.ticks is None
    assert [(b.strict, evaluate(b.time, (0, 0, 7))) for b in window.enters] == [(False, 7)]
    assert [(b.strict, evaluate(b.time, (0, 0, 7))) for b in window.leaves] == [(True, 12)]
    relation = plan.relations[window.head]
    assert relation.kind == "auxiliary" and relation.weighted and relation.partition == (0,)
    assert made(plan, ClockRule) == [] and "now" not in plan.relations
    assert "a queue by time" in planner.explain(plan)


def test_equal_windows_are_one() -> None:
    plan = plan_of(STREAM + """
        r(x) :- s(x, _)@t, now(n), n - 5 < t, t <= n.
        q(x, count<*>) :- s(x, _)@u, now(m), m >= u, u > m - 5.
        p(x) :- s(x, _)@u, now(m), m >= u, u > m - 6.""")
    assert len(made(plan, WindowRule)) == 2


def test_a_window_behind_the_last_point() -> None:
    plan = plan_of(STREAM + """
        two(t) :- clock(t), t % 2 = 0.  slide(max<t>) :- two(t).
        r(x) :- s(x, _)@t, slide(n), n - 5 < t, t <= n.
        q(x) :- s(x, _)@t, slide(n), now(m), n - 5 < t, m - 3 < t.""")
    assert [w.ticks for w in made(plan, WindowRule)] == [Schedule.of(2), Schedule.of(2), None]
    assert [type(r) for r in (rule(plan, "r"), rule(plan, "q"))] == [type(rule(plan, "slide"))] * 2


def test_a_view_of_the_last_point_that_only_windows_read_is_not_made() -> None:
    """Or each of its points would be due."""
    text = STREAM + """
        two(t) :- clock(t), t % 2 = 0.  slide(1, max<t>) :- two(t).  again(n) :- slide(_, n).
        r(x) :- s(x, _)@t at two, again(n), n - 5 < t, t <= n.
        """
    plan = plan_of(text + "\n.output r")
    assert made(plan, ClockRule) == [] and not plan.relations.keys() & {"slide", "again", "now"}
    assert [w.ticks for w in made(plan, WindowRule)] == [Schedule.of(2)]
    assert plan_of(text).outputs == ("slide", "again", "r")
    assert plan_of(text + ".output r\n.output slide").outputs == ("r", "slide")
    assert "slide" in plan_of(text + "q(n) :- slide(_, n), n > 3.\n.output r").relations


@pytest.mark.parametrize(
    "body",
    [
        "s(x, _)@t, now(n), n * 2 < t",
        "s(x, _)@t, now(n), n / 2 < t",
        "s(x, _)@t, now(n), n != t",
        "s(x, v)@t, k(v, w), now(n), n - w < t",
        "k(x, w), now(n), n > 100",
        "s(x, v)@t, now(n), n < t + 12 / v",
    ],
)
def test_what_is_not_solved_is_joined_with_the_clock(body: str) -> None:
    plan = plan_of(STREAM + f".decl k(x: number, y: number)\nr(x) :- {body}.")
    assert made(plan, WindowRule) == [] and [c.what for c in made(plan, ClockRule)] == ["now"]


def test_aggregate_selection_keeps_what_is_read_at_points() -> None:
    text = """c(x, y, v) :- l(x, y, v).  c(x, z, v + w) :- c(x, y, v), l(y, z, w).
        .decl l(x: number, y: number, v: number)
        best(x, y, min<v>) :- c(x, y, v).\n.output best\n"""
    assert plan_of(text).relations["c"].selection is not None
    for reader in ("r(x) :- c(x, _, _) at every(3).", "r(t) :- c(_, _, _)@t.", "r(x) :- c(x, _, v), now(n), v > n."):
        assert plan_of(text + reader).relations["c"].selection is None


def test_tuples_that_meet_the_clock_are_a_window() -> None:
    plan = plan_of(".decl d(x: number, t: number)\nr(x) :- d(x, t), now(t).")
    (window,) = made(plan, WindowRule)
    assert window.enters == window.leaves and not window.enters[0].strict and made(plan, ClockRule) == []


CONDITIONS = [
    "now - 5 < a", "a <= now", "now < a", "a < now", "now - a < 3", "now - a <= 0.3", "now <= a + b", "a + b * 2 > now",
    "now - b >= a - 1", "5 - now < a", "a - now <= 0.1", "now - now % 4 <= a", "a < now - now % 4 + 4", "now = a + 0.7",
    "now - now % 3 = a - a % 3", "now - now % 0.7 > a", "a + 0.1 >= now - now % 0.3", "-now < a - 7", "now > a - a % 5",
    "max(a, 3) > now", "now - 0.1 < a", "now - 1000 < a", "now - now % 3 >= a", "a > now - now % 3",
]  # fmt: skip


@pytest.mark.parametrize("text", CONDITIONS)
def test_bounds_say_what_the_condition_says(text: str) -> None:
    """For numbers of every kind, and the clock right before, at and behind each bound."""
    (condition,) = datalog.parse(f"r(a) :- {text}.").rules[0].body
    assert isinstance(condition, Comparison)
    translator = Translator(Program((), {}), {})
    solution = solved(condition, {"a": 0, "b": 1}, translator)
    assert solution is not None
    bounds = (*solution.enters, *solution.leaves)
    window = WindowRule("w", "w", Input("s", ()), solution.enters, solution.leaves, None, "")
    rng = random.Random(text)
    kinds = [lambda: rng.randrange(40), lambda: rng.randrange(160) / 4, lambda: rng.randrange(400) / 10, rng.random]
    for _ in range(300):
        row = (rng.choice(kinds)(), rng.choice(kinds)())
        places = {"a": row[0], "b": row[1]}
        times = [evaluate(bound.time, row) for bound in bounds]
        exact = "." not in text and all(isinstance(places[n], int) for n in variables(condition) if n != CLOCK)
        assert not exact or all(type(t) is int for t in times)
        for t in (*times, *(rng.choice(kinds)() for _ in range(5))):
            for now in (t, t + 1, t - 1, t + 0.1, *(() if exact else (nextafter(t, inf), nextafter(t, -inf)))):
                if now >= 0:
                    now = whole(now)
                    values = {name: Constant(value) for name, value in (*places.items(), (CLOCK, now))}
                    holds = evaluate(translator.comparison(substitute(condition, values), {}))
                    assert is_inside(window, now, row) is holds, (row, now, times)


# --- what is forgotten ---------------------------------------------------------------------------------------

SOURCE = ".decl s(x: number, v: number) stream\n.decl k(x: number, v: number) key(x)\n"


def forgotten(text: str) -> dict[str, int]:
    """By relation, how many windows its tuples must have left."""
    return {name: len(r.until) for name, r in plan_of(SOURCE + text).relations.items() if r.until}


def test_streams_that_only_windows_read_forget() -> None:
    text = "r(x) :- s(x, _)@t, now(n), n - 5 < t. q(x) :- s(x, _)@t at every(2), now(n), n - 9 < t.\n"
    assert forgotten(text) == {"s": 2, "s at every(2)": 1}
    plan = plan_of(SOURCE + text)
    (near, far) = plan.relations["s"].until
    assert {evaluate(x.leaves[0].time, (0, 0, 3)) for x in (near, far)} == {8, 12} and near.ticks is None
    assert "forgets what has left all windows" in planner.explain(plan)


@pytest.mark.parametrize(
    "text",
    [
        "p(x) :- s(x, _).",
        "p(x) :- s(x, _) at every(2).",
        "p(x) :- s(x, _)@t, now(n), t < n.",
        "p(x) :- k(x, _), !s(x, _).",
        "p(x) :- k(x, _), 3 < count : { s(x, _) }.",
        ".output s",
        ".limitsize s(n=5)",
        "h(t) :- s(_, v)@t, v > 3. p(x) :- k(x, _) at h.",
        "h(t) :- s(_, v)@t, v > 3. p(x) :- k(x, _) at h.\n.output h\n.output r",
        "h(t) :- s(_, v)@t, v > 3. p(x) :- k(x, _) at h. p(t) :- h(t).\n.output p",
        "h(t) :- s(_, v)@t, v > 3. p(x) :- k(x, _) at h. p(t) :- h(_)@t.\n.output p",
        "h(t) :- s(_, v)@t, v > 3. p(x) :- k(x, _) at h. g(u) :- h(t), u = t + 1. q(x) :- k(x, _) at g.\n.output p",
    ],
)
def test_streams_that_others_read_do_not(text: str) -> None:
    assert forgotten("r(x) :- s(x, _)@t, now(n), n - 5 < t.\n" + text) == {}


def test_points_that_have_passed_need_no_stream() -> None:
    text = SOURCE + """
        hot(t) :- s(_, v)@t, v > 3.  cold(t) :- s(_, v)@t at every(2), v < 1.
        mild(t) :- hot(t), !cold(t).
        r(x, v) :- k(x, v) at mild.
        .output r"""
    plan = plan_of(text)
    assert {name: len(r.until) for name, r in plan.relations.items() if r.until} == {"s": 1, "s at every(2)": 1}
    (leaving,) = plan.relations["s"].until
    (bound,) = leaving.leaves
    assert not bound.strict and evaluate(bound.time, (0, 0, 7)) == 7
    assert [plan.relations[n].kind for n in ("hot", "cold", "mild")] == ["auxiliary"] * 3 and plan.published == ("r",)


# --- keys of views -------------------------------------------------------------------------------------------


def test_keys_of_views() -> None:
    plan = plan_of("""
        .decl named(x: number, y: number, z: number) key(x, y)
        .decl e(x: number, y: number)
        named(x, y, 1) :- e(x, y).
        grouped(x, max<y>, y) :- e(x, y).
        two(x, max<y>) :- e(x, y).  two(x, min<y>) :- e(y, x).
        filled(x, max<y>) :- e(x, y).  filled(1, 2).
        total(count<*>) :- e(_, _).
        plain(x) :- e(x, _).
        f(x, max<y>) :- named(x, y, _)@t, t > 3.
        last(2, max<t>, 1) :- clock(t), t % 3 = 0.""")
    keys = {name: r.key for name, r in plan.relations.items() if r.kind == "view" and r.key}
    assert keys == {"named": (0, 1), "grouped": (0, 2), "f": (0,), "last": (0, 2)}
    assert plan.relations["named@"].key == (0, 1, 2)


# --- explained -----------------------------------------------------------------------------------------------


def test_schedules_are_told_in_words() -> None:
    text = planner.explain(plan_of("""
        .decl k(x: number, v: number) key(x)
        odd(t) :- clock(t), t % 2 = 1, t > 8.  odd(t) :- clock(t), t = 4.
        low(t) :- clock(t), t * t % 7 = 1.
        r(x) :- k(x, _) at odd, k(x, _) at low.  q(t) :- k(_, _)@t, odd(t).  p(t) :- k(_, _)@t, !odd(t)."""))
    assert "at each point: every 2 from 9 and at 4" in text
    assert "every 1 from 0 where ((t * t) % 7) = 1" in text
    assert "where k@.@ in (every 2 from 9 and at 4)" in text
    assert "where k@.@ not in (every 2 from 9 and at 4)" in text
