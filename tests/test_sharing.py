"""Views that read one another: what is matched with what, why, and that it changes no answer."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

import datalog
import planner
from datalog.ast import Program
from datalog.format import format_rule
from datalog.growth import defined, dropped
from planner.draft import COMMON
from planner.sharing import Catalogue, Shared, Sharing
from planner.validate import problems
from tests.cases import program_of
from tests.oracle_streams import Moment, Timeline
from tests.sharing_programs import sharing_case
from tests.stream_harness import configurations, run
from tests.stream_interpreter import TimedInterpreter

BASE = """
.decl temp(room: symbol, value: number) key(room)
.decl reading(room: symbol, value: number) stream
.decl door(room: symbol, state: number)
.decl level(room: symbol, height: float)
.decl deadline(t: number)
even(t) :- clock(t), t % 2 = 0.
four(t) :- clock(t), t % 4 = 0.
three(t) :- clock(t), t % 3 = 0.
high(t) :- reading(_, v)@t, v > 100.
higher(t) :- reading(_, v)@t, v > 120.
either(t) :- high(t). either(t) :- even(t).
both(t) :- high(t), even(t).
"""

SEEDS = 60  # random programs in chunks of CHUNK
CHUNK = 10


def sharing_of(rules: str) -> Sharing:
    return Sharing.of(datalog.check(datalog.parse(BASE + rules)))


def text_of(shared: Shared) -> str:
    return "" if shared.rule is None else format_rule(shared.rule)


# --- what is contained in what, by hand ----------------------------------------------------------------------

# Two views `v` and `q`: the rule that `q` becomes, and why.
CONTAINED: dict[str, tuple[str, str, str]] = {
    "conditions and points": (
        "v(r, x) :- temp(r, x) at even, x > 80.  q(r, v) :- temp(r, v) at four, v > 100.",
        "q(r, v) :- v(r, v) at four, v > 100.",
        "v > 100 is within v > 80, four within even",
    ),
    "the same points are read at once": (
        "v(r, x) :- temp(r, x) at even, x > 80.  q(r, x) :- temp(r, x) at every(2), x > 100.",
        "q(r, x) :- v(r, x), x > 100.",
        "x > 100 is within x > 80, every(2) is even",
    ),
    "every commit has all points": (
        "v(r, x) :- temp(r, x).  q(r, x) :- temp(r, x) at high, x > 100.",
        "q(r, x) :- v(r, x) at high, x > 100.",
        "v has all of it, high within every commit",
    ),
    "events with more conditions": (
        "v(r, x) :- temp(r, x) at high.  q(r, x) :- temp(r, x) at higher.",
        "q(r, x) :- v(r, x) at higher.",
        "the same data, higher within high",
    ),
    "an intersection": (
        "v(r, x) :- temp(r, x) at high.  q(r, x) :- temp(r, x) at both.",
        "q(r, x) :- v(r, x) at both.",
        "the same data, both within high",
    ),
    "a union": (
        "v(r, x) :- temp(r, x) at either.  q(r, x) :- reading(r, x) at four, temp(r, x) at four.",
        "",
        "nothing else has its data",
    ),
    "points of the clock in a union": (
        "v(r, x) :- temp(r, x), x > 1.  w(r, x) :- temp(r, x) at either.  q(r, x) :- temp(r, x) at higher, x > 0.",
        "q(r, x) :- w(r, x) at higher, x > 0.",
        "w has all of it, higher within either",
    ),
    "points that are known ahead": (
        "due(t) :- deadline(t), t > 9.  v(r, x) :- temp(r, x) at deadline.  q(r) :- temp(r, x) at due, x > 1.",
        "q(r) :- v(r, x) at due, x > 1.",
        "v has all of it, due within deadline",
    ),
    "renamed, and in another order": (
        "v(b, a) :- temp(a, b), door(a, s), s > 0.  q(y, x) :- door(x, z), z > 0, temp(x, y).",
        "q(y, x) :- v(y, x).",
        "the same data",
    ),
    "an equation": (
        'v(r, x) :- temp(r, x), x > 3.  q(x) :- temp("a", x), x > 3.',
        'q(x) :- v(room, x), room = "a".',
        "v has all of it",
    ),
    "columns that are equal": (
        "v(r, s, x, y) :- temp(r, x), door(s, y).  q(r) :- temp(r, x), door(r, x).",
        "q(r) :- v(r, r, x, x).",
        "the same data",
    ),
    "a number within a range": (
        "v(r, x) :- temp(r, x), x > 3, x <= 9.  q(r) :- temp(r, 5).",
        "q(r) :- v(r, value), value = 5.",
        "value = 5 is within value > 3, value = 5 is within value <= 9",
    ),
    "ranges on both sides": (
        "v(r, x) :- temp(r, x), x > 3, 9 > x.  q(r) :- temp(r, x), x >= 4, x < 9.",
        "q(r) :- v(r, x), x >= 4.",
        "x >= 4 is within x > 3",
    ),
    "what is not equal to something": (
        "v(r, x) :- temp(r, x), x != 3.  q(r, x) :- temp(r, x), x > 3.",
        "q(r, x) :- v(r, x), x > 3.",
        "v has all of it",
    ),
    "expressions, defined or written out": (
        "v(r, x) :- temp(r, x), x * 2 > 10.  q(r, y) :- temp(r, x), y = x * 2, y > 11.",
        "q(r, x * 2) :- v(r, x), x * 2 > 11.",
        "x * 2 > 11 is within x * 2 > 10",
    ),
    "what the view has computed": (
        "v(r, x * 2) :- temp(r, x).  q(r, x * 2 + 1) :- temp(r, x), x * 2 > 11.",
        "q(r, c1 + 1) :- v(r, c1), c1 > 11.",
        "v has all of it",
    ),
    "negation": (
        "v(r, x) :- temp(r, x) at even, !door(r, 1) at even."
        "  q(r, x) :- temp(r, x) at four, !door(r, 1) at four, x > 1, !door(r, 0) at four.",
        "q(r, x) :- v(r, x) at four, x > 1, !door(r, 0) at four.",
        "v has all of it, four within even",
    ),
    "conditions word by word": (
        "v(r, x) :- temp(r, x), x % 2 = 0.  q(r, x) :- temp(r, x), 0 = x % 2, x > 1.",
        "q(r, x) :- v(r, x), x > 1.",
        "v has all of it",
    ),
    "a self-join, turned round": (
        "v(r, s, x, y) :- temp(r, x), temp(s, y), x < y.  q(r, s) :- temp(r, x), temp(s, y), x > y, r != s.",
        "q(r, s) :- v(s, r, _, _), r != s.",
        "v has all of it",
    ),
    "a window in a window": (
        "v(r, t) :- reading(r, _)@t, now(n), n - 10 < t, t <= n.  q(r) :- reading(r, _)@t, now(n), n - 5 < t, t <= n.",
        "q(r) :- v(r, t), now(n), n - 5 < t.",
        "n - 5 < t is within n - 10 < t",
    ),
    "a window at the same points": (
        "v(r, t) :- reading(r, _)@t at even, now(n), t > n - 10.  q(r) :- reading(r, _)@t at even, now(n), n - 5 < t.",
        "q(r) :- v(r, t), now(n), n - 5 < t.",
        "n - 5 < t is within t > n - 10",
    ),
    "a window over what was read at other points": (
        "v(r, t) :- reading(r, _)@t at even.  q(r) :- reading(r, _)@t at four, now(n), n - 5 < t.",
        "q(r) :- v(r, t) at four, now(n), n - 5 < t.",
        "v has all of it, four within even",
    ),
    "slides": (
        "slide(max<t>) :- even(t).  v(r, t) :- reading(r, _)@t at even, slide(n), n - 9 < t."
        "  q(r) :- reading(r, _)@t at even, slide(n), n - 3 < t.  w(n) :- slide(n).",
        "",
        "not from v: v does not show n",
    ),
    "a time as a column": (
        "v(r, t) :- temp(r, _)@t at even.  q(r) :- temp(r, _)@t at four, t > 5.",
        "q(r) :- v(r, t) at four, t > 5.",
        "v has all of it, four within even",
    ),
    "rows for an aggregate": (
        "v(r, x) :- temp(r, x) at even, x > 1.  q(count<*>, sum<x>) :- temp(r, x) at four, x > 1.",
        "q(count<*>, sum<x>) :- v(_, x) at four.",
        "the same data, four within even",
    ),
    "a least value needs no copies": (
        "v(x) :- reading(_, x).  q(min<x>, max<x>) :- reading(_, x) at even.",
        "q(min<x>, max<x>) :- v(x) at even.",
        "the same data, even within every commit",
    ),
    "counts add up": (
        "v(r, x, count<*>) :- reading(r, x)@_ at even.  q(r, count<*>) :- reading(r, x) at four, x > 2.",
        "q(r, sum<count>) :- v(r, x, count) at four, x > 2.",
        "count<*> is the sum of v's count, four within even",
    ),
    "sums, least and greatest values of groups": (
        "v(r, sum<x>, min<x>, max<x>) :- reading(r, x).  q(max<x>, sum<x>, min<x>) :- reading(_, x).",
        "q(max<max>, sum<sum>, min<min>) :- v(_, sum, min, max).",
        "max<x> is the max of v's max, sum<x> is the sum of v's sum, min<x> is the min of v's min",
    ),
    "the same groups": (
        "v(r, avg<x>, sum<x>) :- level(r, x) at even.  q(r, sum<x>, avg<x>) :- level(r, x) at four.",
        "q(r, sum, avg) :- v(r, avg, sum) at four.",
        "the same data, four within even",
    ),
    "one of the groups": (
        'v(r, avg<x>) :- temp(r, x).  q(r, avg<x>) :- temp(r, x), r = "a".',
        'q(r, avg) :- v(r, avg), r = "a".',
        "v has all of it",
    ),
}  # fmt: skip

# The same where `q` cannot be read from `v`, or should not be.
APART: dict[str, tuple[str, str]] = {
    "a wider range": ("v(r, x) :- temp(r, x), x > 80.  q(r, x) :- temp(r, x), x > 50.", "x > 50 is not within x > 80"),
    "the limit itself": (
        "v(r, x) :- temp(r, x), x > 80.  q(r, x) :- temp(r, x), x >= 80.", "x >= 80 is not within x > 80"),
    "no range": ("v(r, x) :- temp(r, x), x > 80.  q(r, x) :- temp(r, x).", "x > 80 is not asked for"),
    "another side": ("v(r, x) :- temp(r, x), x > 80.  q(r, x) :- temp(r, x), x < 90.", "x > 80 is not asked for"),
    "another constant": ('v(x) :- temp("a", x).  q(x) :- temp("b", x).', 'room = "a" is not asked for'),
    "another equation": (
        "v(r) :- temp(r, x), door(r, x).  q(r) :- temp(r, x), door(r, _).", "state = x is not asked for"),
    "another condition": (
        "v(r, x) :- temp(r, x), x % 2 = 0.  q(r, x) :- temp(r, x), x % 4 = 0.", "x % 2 = 0 is not asked for"),
    "another negation": (
        "v(r, x) :- temp(r, x), !door(r, 1).  q(r, x) :- temp(r, x), !door(r, 2).", "!door(r, 1) is not asked for"),
    "a column that is not shown": ("v(r) :- temp(r, x).  q(r) :- temp(r, x), x > 3.", "v does not show x"),
    "an equation over a column that is not shown": (
        "v(r, x) :- temp(r, x), door(s, y).  q(r) :- temp(r, x), door(r, y).", "v does not show s"),
    "points that are not among them": (
        "v(r, x) :- temp(r, x) at three.  q(r, x) :- temp(r, x) at four.", "four is not within three"),
    "every commit": ("v(r, x) :- temp(r, x) at even.  q(r, x) :- temp(r, x).", "every commit is not within even"),
    "events that are more": (
        "v(r, x) :- temp(r, x) at higher.  q(r, x) :- temp(r, x) at high.", "high is not within higher"),
    "a union is more than its parts": (
        "v(r, x) :- temp(r, x) at high.  q(r, x) :- temp(r, x) at either.", "either is not within high"),
    "partial points": (
        "v(r) :- temp(r, x) at even, door(r, x) at three.  q(r) :- temp(r, x) at even, door(r, x) at three, x > 1.",
        "partial points are needed: even and three"),
    "points and every commit": (
        "v(r) :- temp(r, x) at even, door(r, x).  q(r) :- temp(r, x) at even, door(r, x).",
        "partial points are needed: even and every commit"),
    "a window moves between points": (
        "v(r, t) :- reading(r, _)@t, now(n), n - 10 < t.  q(r) :- reading(r, _)@t at even, now(n), n - 5 < t.",
        "v moves with the clock between the points of even"),
    "a window at other points": (
        "v(r, t) :- reading(r, _)@t at even, now(n), n - 10 < t.  q(r) :- reading(r, _)@t at four, now(n), n - 5 < t.",
        "v moves with the clock between the points of four"),
    "points that slide, read as they are": (
        "slide(max<t>) :- three(t).  v(r, t, n) :- reading(r, _)@t, slide(n), n - 9 < t."
        "  q(r) :- reading(r, _)@t at even, slide(n), n - 3 < t.", "nothing else has its data"),
    "a window that is larger": (
        "v(r, t) :- reading(r, _)@t, now(n), n - 5 < t.  q(r) :- reading(r, _)@t, now(n), n - 10 < t.",
        "n - 10 < t is not within n - 5 < t"),
    "a window that is computed in another way": (
        "v(r, t) :- reading(r, _)@t, now(n), n < t + 10.  q(r) :- reading(r, _)@t, now(n), n - 5 < t.",
        "n < t + 10 is not asked for"),
    "the limit of what may round": (
        "v(r, t) :- reading(r, _)@t, now(n), n - 10 < t.  q(r) :- reading(r, _)@t, now(n), n - 5 <= t.",
        "n - 5 <= t is not within n - 10 < t"),
    "counts of copies": (
        "v(r, x) :- reading(r, x).  q(r, count<*>) :- reading(r, x).",
        "count depends on how often a row occurs, and v is a set of rows"),
    "counts of what is not shown": (
        "v(r) :- temp(r, x).  q(r, count<*>) :- temp(r, x).",
        "count depends on how often a row occurs, and v does not show x"),
    "means do not add up": (
        "v(r, avg<x>) :- temp(r, x).  q(avg<x>) :- temp(r, x).",
        "avg<x> of a group does not follow from those of its parts"),
    "sums that round do not add up": (
        "v(r, sum<x>) :- level(r, x).  q(sum<x>) :- level(r, x).",
        "sum<x> rounds, and a sum of rounded sums is another one"),
    "groups that are finer": (
        "v(count<*>) :- temp(r, x).  q(r, count<*>) :- temp(r, x).", "v does not show r"),
    "a condition below the groups": (
        "v(r, count<*>) :- temp(r, x).  q(r, count<*>) :- temp(r, x), x > 1.", "v does not show x"),
    "another aggregate": ("v(r, min<x>) :- temp(r, x).  q(r, max<x>) :- temp(r, x).", "v does not show max<x>"),
    "rows from groups": ("v(r, count<*>) :- temp(r, x).  q(r) :- temp(r, x).", "v has aggregates"),
    "a column of another type": (
        ".decl v(r: symbol, x: float)  v(r, x) :- temp(r, x).  q(r, x) :- temp(r, x), x > 3.", "v does not show x"),
    "several rules": ("v(r) :- temp(r, _). v(r) :- door(r, _).  q(r) :- temp(r, _).", "nothing else has its data"),
    "facts": ('v(r) :- temp(r, _). v("z").  q(r) :- temp(r, _).', "nothing else has its data"),
    "recursion": ("v(r) :- temp(r, _), v(r).  q(r) :- temp(r, _).", "nothing else has its data"),
    "an aggregate in the body": (
        "v(r) :- temp(r, _).  q(r) :- temp(r, _), 1 < count : { door(r, _) }.", "it has an aggregate in its body"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINED)
def test_contained(name: str) -> None:
    rules, expected, why = CONTAINED[name]
    sharing = sharing_of(rules)
    shared = sharing.views["q"]
    assert (text_of(shared), ", ".join(shared.why) or "nothing else has its data") == (expected, why)
    assert_same(sharing_of(rules), datalog.check(datalog.parse(BASE + rules)), name)


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    rules, why = APART[name]
    shared = sharing_of(rules).views["q"]
    assert shared.rule is None
    others = [reason for reason in shared.why if not reason.startswith("not from v: ")]
    reasons = [reason.removeprefix("not from v: ") for reason in shared.why if reason not in others]
    assert reasons == [why] or (not reasons and why in (*others, "nothing else has its data"))


def assert_same(sharing: Sharing, program: Program, seed: Any, views: Iterable[str] = ()) -> None:
    """The program with its views shared gives the same as without, at every time, full points included."""
    rng = random.Random(f"same {seed}")
    one, other = Timeline(program), Timeline(sharing.program)
    moments = [(one.load({}), other.load({}))]
    clock = 0
    for _ in range(90):
        roll, room, value = rng.random(), rng.choice("abc"), rng.choice([1, 2, 3, 4, 5, 7, 11, 101, 121, 125, 130])
        clock += (roll < 0.3) * rng.choice([1, 1, 2, 3, 9])
        operation: Any = ("advance", clock)
        if roll > 0.3:
            operation = ("insert", *rng.choice([
                ("temp", (room, value)), ("temp", (room, value)), ("reading", (room, value)),
                ("reading", (room, value)), ("door", (room, rng.choice([0, 1, value]))),
                ("level", (room, value / 10)), ("deadline", (clock + value,)),
            ]))  # fmt: skip
        moments += zip(one.run([operation]), other.run([operation]), strict=True)
    for mine, theirs in moments:
        for view in views or program.derived:
            assert mine.relations[view] == theirs.relations[view], (view, mine.time)
            assert mine.full[view] == theirs.full[view], (view, mine.time)
    assert any(mine.relations["q"] for mine, _ in moments) or views, "nothing was ever in the view"


# --- which view is read --------------------------------------------------------------------------------------


def reading(rules: str) -> dict[str, str]:
    return {name: shared.reads for name, shared in sharing_of(rules).views.items() if shared.reads}


def test_the_narrowest_view_is_read() -> None:
    """Whatever the order of the text is; so there are chains."""
    assert reading("""
        b(r, x) :- temp(r, x) at even, x > 80.  d(r, x) :- temp(r, x) at four, x > 120.
        a(r, x) :- temp(r, x) at even, x > 50.  c(r, x) :- temp(r, x) at four, x > 100.""") == {
            "b": "a", "c": "b", "d": "c"}
    assert reading("""
        a(r, x, y) :- temp(r, x), door(r, y), x > 1.  b(r, x, y) :- temp(r, x), door(r, y), x > 1, y > 5.
        c(r, x, y) :- temp(r, x), door(r, y), x > 2, y > 6.""") == {"b": "a", "c": "b"}


def test_what_is_read_at_the_same_points_comes_first() -> None:
    """Then nothing is kept twice."""
    found = reading("a(r, x) :- temp(r, x) at even, x > 90.  b(r, x) :- temp(r, x) at four, x > 50."
                    "  c(r, x) :- temp(r, x) at four, x > 100.")
    assert found["c"] == "b"


def test_groups_are_smaller_than_rows() -> None:
    found = reading("a(r, x) :- temp(r, x).  b(r, count<*>) :- temp(r, x).  c(count<*>) :- temp(r, x).")
    assert found == {"b": "a", "c": "b"}


def test_of_equal_views_the_later_reads_the_earlier() -> None:
    assert reading("a(r, x) :- temp(r, x).  b(x, r) :- temp(r, x).  c(s, y) :- temp(s, y).") == {"b": "a", "c": "a"}
    # one that shows more is not equal, wherever it stands
    assert reading("a(r) :- temp(r, x).  b(x, r) :- temp(r, x).") == {"a": "b"}


def test_what_a_view_rests_on_never_reads_it() -> None:
    """The points of `v` depend on `q`, which `v` contains: but that would be a circle."""
    rules = """
        hot(t) :- q(_)@t.  some(t) :- hot(t). some(t) :- four(t).
        q(r) :- temp(r, x) at four, x > 2.  v(r) :- temp(r, x) at some, x > 2."""
    assert reading(rules) == {}
    assert_same(sharing_of(rules), datalog.check(datalog.parse(BASE + rules)), 0, ["q", "v"])
    recursive = rules.replace("hot(t) :- q(_)@t.", "hot(t) :- far(_)@t.  far(r) :- q(r). far(r) :- far(s), door(s, r).")
    assert reading(recursive.replace("door(s, r)", "door(s, _), door(r, _)")) == {}


def test_a_stream_of_points_reads_other_points_only() -> None:
    """Points of a view may be those that it is read at."""
    rules = "late(t, t) :- deadline(t), t > 9.  due(t) :- deadline(t), t > 20.  v(r) :- temp(r, _) at due."
    assert reading(rules) == {}
    assert reading(rules.replace("(t, t)", "(t)") + "  w(r) :- door(r, _) at late.") == {"due": "late"}


# --- common views --------------------------------------------------------------------------------------------


def common(rules: str) -> list[tuple[str, ...]]:
    return [made.lines() for made in sharing_of(rules).common]


def test_views_at_points_that_do_not_contain_each_other_share_a_common_one() -> None:
    rules = '''a(r, x) :- temp(r, x) at every(4), x > 80, r != "z".
        b(r) :- temp(r, x) at every(6, from=2), x > 90, r != "z".'''
    assert common(rules) == [(
        'shared.1(r, x) :- temp(r, x) at every(2), r != "z", x > 80.', "  made for a, b",
        "  at the greatest common divisor of every(4), every(6, from=2)",
    )]  # fmt: skip
    sharing = sharing_of(rules)
    assert text_of(sharing.views["b"]) == "b(r) :- shared.1(r, x) at every(6, from=2), x > 90."
    assert set(sharing.program.reads) == {"temp at every(2)", "shared.1 at every(4)", "shared.1 at every(6, from=2)"}
    plan = planner.plan(datalog.check(datalog.parse(BASE + rules)))
    assert plan.relations["shared.1"].kind == "auxiliary" and "shared.1" not in {*plan.outputs, *plan.published}


@pytest.mark.parametrize("rules", [
    "a(r, x) :- temp(r, x) at every(4).  b(r) :- temp(r, x) at every(6), x > 90.",  # nothing in common
    "a(r, x) :- temp(r, x) at every(4), x > 90.  b(r) :- temp(r, x) at every(2), x > 100.",  # one has all points
    "a(r, x) :- temp(r, x) at every(97), x > 90.  b(r) :- temp(r, x) at every(89), x > 100.",  # too many points
    "a(r, x) :- temp(r, x) at every(4), x > 90.  b(r) :- temp(r, x) at high, x > 100.",  # events
    "a(r, x) :- temp(r, x) at every(4), x > 90.  b(r) :- door(r, x) at every(6), x > 100.",  # other data
])  # fmt: skip
def test_there_is_no_common_view(rules: str) -> None:
    assert common(rules) == []


def test_a_common_view_keeps_copies() -> None:
    """Two arrivals at one time are counted twice, though views are sets."""
    rules = "a(r, count<*>) :- reading(r, x) at every(4), x > 1.  b(r, sum<x>) :- reading(r, x) at every(6), x > 2."
    program = datalog.check(datalog.parse(BASE + rules))
    both = Both(program, Sharing.of(program), 2)
    both.load({})
    both.run([("advance", 3), *[("insert", "reading", ("a", 3))] * 3, ("insert", "reading", ("a", 2)), ("advance", 9)])
    assert both.moment.relations["a"] == {("a", 4)} and both.moment.relations["b"] == {("a", 9)}
    assert both.plan.relations[f"{COMMON}1"].weighted


# --- against the oracle --------------------------------------------------------------------------------------


class Both(Timeline):
    """The oracle of a program, and beside it an interpreter of its plan with views shared."""

    def __init__(self, program: Program, sharing: Sharing, partitions: int) -> None:
        super().__init__(program)
        self.plan = planner.plan(program, share=sharing)
        assert not list(problems(self.plan))
        self.interpreter = TimedInterpreter(self.plan, partitions)

    def _look(self) -> Moment:
        self.moment = moment = super()._look()
        got = self.interpreter.look(self.base)
        for name in self.plan.published:
            if name in self.program.derived:
                assert got[name] == moment.relations[name], (name, moment.time)
                needed = set(self.plan.syncs.get(name, ()))
                assert moment.full[name] == (needed <= self.interpreter.points), (name, moment.time)
        return moment


def drawn(chunk: int) -> Iterable[tuple[int, Any, Program, Sharing]]:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        case = sharing_case(seed)
        program = program_of(case.text)
        yield seed, case, program, Sharing.of(program)


def test_random_programs_are_shared() -> None:
    """A good part of the views of random programs reads another one, some a common one."""
    found = [shared for chunk in range(SEEDS // CHUNK) for *_, s in drawn(chunk) for shared in s.views.values()]
    views = [shared for shared in found if shared.view.startswith("w")]
    assert sum(shared.rule is not None for shared in views) > 0.25 * len(views)
    assert any(shared.reads.startswith(COMMON) for shared in views)
    assert any(shared.key for shared in views) and any("sum of" in " ".join(shared.why) for shared in views)


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_random_programs(chunk: int) -> None:
    """What the rewritten rules say is what the program says: at every time, with the points that are full."""
    for seed, case, program, sharing in drawn(chunk):
        if any(r.bag and name not in program.relations for name, r in sharing.program.relations.items()):
            continue  # views of the oracle are sets
        one, other = Timeline(program), Timeline(sharing.program)
        one.load({}), other.load({})
        for operations in case.history:
            for mine, theirs in zip(one.run(operations), other.run(operations), strict=True):
                for view in program.derived:
                    assert mine.relations[view] == theirs.relations[view], (seed, view, mine.time)
                    assert mine.full[view] == theirs.full[view], (seed, view, mine.time)


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_random_plans(chunk: int) -> None:
    for seed, case, program, sharing in drawn(chunk):
        unshared = planner.plan(program, share=False)
        both = Both(program, sharing, 1 + seed % 3)
        for name in unshared.published:
            assert both.plan.relations[name].key == unshared.relations[name].key, (seed, name)
        assert both.plan.outputs == unshared.outputs
        both.load({})
        for operations in case.history:
            both.run(operations)


@pytest.mark.parametrize("seed", range(12))
def test_random_sessions(seed: int) -> None:
    run(sharing_case(seed), configurations(seed, 1)[0])


# --- what is found, and what it costs ------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_the_index_finds_what_there_is(chunk: int) -> None:
    """Against every view held against every other one. Only that a bound rules out a value may be overlooked."""
    missed = found = 0
    for _, _, program, _ in drawn(chunk):
        catalogue = Catalogue(program)
        for name, shared in catalogue.match_all().items():
            query = catalogue.skins.get(name)
            if query is None or not name.startswith("w"):
                continue  # points read nothing but points
            there = {
                other for other, view in catalogue.skins.items()
                if other != name and catalogue.read_from(query, view) is not None
                and (catalogue.orders[other] < catalogue.orders[name] or catalogue.read_from(view, query) is None)
            }  # fmt: skip
            assert shared.rule is None or shared.reads in there
            found += shared.rule is not None
            missed += shared.rule is None and any(
                "!=" not in format_rule(catalogue.skins[other].rule) for other in there
            )
    assert found and not missed


def queries(count: int) -> str:
    """Standing queries over three relations: limits, groups, and points drawn at random."""
    rng = random.Random(7)
    lines = [f".decl {name}(x: symbol, f: number, v: number) {kind}" for name, kind in
             (("a", "key(x)"), ("b", "key(x)"), ("c", "stream"))]  # fmt: skip
    for i in range(count):
        head = rng.choice(["x, f, v", "x, v", "x, f, v", "f, count<*>", "x, max<v>", "f, avg<v>"])
        limit, period = rng.randrange(1000), rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 12, 20, 30, 60])
        rest = rng.choice(["", "", f", f = {rng.randrange(6)}", f", v < {limit + rng.randint(1, 300)}"])
        lines.append(f"q{i}({head}) :- {rng.choice('abc')}(x, f, v) at every({period}), v > {limit}{rest}.")
    return "\n".join(lines)


def steps(work: Callable[[], Any]) -> int:
    """The calls of Python functions that something takes."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_four_times_the_queries_take_about_four_times_the_steps() -> None:
    small, large = (datalog.check(datalog.parse(queries(n))) for n in (100, 400))
    assert steps(lambda: Sharing.of(large)) < 7 * steps(lambda: Sharing.of(small))


def test_many_queries_are_shared() -> None:
    program = datalog.check(datalog.parse(queries(300)))
    sharing = Sharing.of(program)
    assert all(shared.rule is not None for shared in sharing.views.values())
    base = [read for read in sharing.program.reads.values() if read.relation in "abc"]
    assert len(base) == 3, "each relation is read at points once"


def test_the_thousandth_definition_costs_as_much_as_the_tenth() -> None:
    """At most twice as much: what a definition brings is matched, and tables of names are copied."""
    lines = queries(1000).split("\n")
    costs = []
    for count in (12, 1002):
        program = datalog.check(datalog.parse("\n".join(lines[:count])))
        sharing = Sharing.of(program)
        cost = []
        for line in lines[count - 9 : count]:
            more, names = defined(program, line.replace("q", "p", 1))
            cost.append(steps(lambda: sharing.defined(more, names)))  # noqa: B023
        costs.append(sum(cost))
    assert costs[1] < 2 * costs[0]


# --- views that come and go ----------------------------------------------------------------------------------


def test_views_that_come_and_go() -> None:
    """Whatever has happened, the views that are left say what their text says."""
    reused = held = 0
    for seed in range(25):
        rng = random.Random(f"come and go {seed}")
        case = sharing_case(seed)
        rules = [rule.text() for rule in case.rules]
        named = [r for r in rules if r.startswith("w")]
        given = rng.sample(named, len(named) // 3)
        program = program_of("\n".join([*case.lines, *(r for r in rules if r not in named), *given]))
        sharing = Sharing.of(program)
        for _ in range(16):
            there = {name for name in program.derived if name.startswith("w")}
            if there and rng.random() < 0.4:
                name = rng.choice(sorted(there))
                program = dropped(program, [name])
                sharing = sharing.dropped(program, [name])
                assert name not in sharing.program.outputs
            else:
                text = rng.choice(named)
                if text.partition("(")[0] in there:
                    continue
                program, names = defined(program, text)
                sharing = sharing.defined(program, names)
                reused += any(sharing.views[name].rule is not None for name in names)
            held += len(sharing.kept)
            assert {*sharing.views} == program.derived | sharing.kept
            assert all(name in sharing.program.relations for name in program.relations if name not in program.reads)
        if any(r.bag and name not in program.relations for name, r in sharing.program.relations.items()):
            continue
        one, other = Timeline(program), Timeline(sharing.program)
        one.load({}), other.load({})
        for operations in case.history:
            for mine, theirs in zip(one.run(operations), other.run(operations), strict=True):
                for view in program.derived:
                    assert mine.relations[view] == theirs.relations[view], (seed, view, mine.time)
    assert reused > 10 and held > 3


def test_a_view_that_others_read_stays_until_they_go() -> None:
    text = BASE + "v(r, x) :- temp(r, x) at even, x > 1.  q(r, x) :- temp(r, x) at four, x > 2."
    first = Sharing.of(datalog.check(datalog.parse(text)))
    assert first.readers("v") == ("q",)
    without = dropped(datalog.check(datalog.parse(text)), ["v"])
    second = first.dropped(without, ["v"])
    assert second.kept == {"v"} and "v" not in second.program.outputs and "temp at even" in second.program.reads
    nothing = dropped(without, ["q"])
    third = second.dropped(nothing, ["q"])
    assert not third.kept and not third.program.reads and "v" not in third.program.relations
    program, names = defined(nothing, "v(r) :- temp(r, x) at even, x > 5.")
    assert text_of(third.defined(program, names).views["v"]) == ""


def test_a_definition_reads_what_is_kept_anyhow() -> None:
    """Another read, of a view, would be empty until its next point, and cost more."""
    text = BASE + "v(r, x) :- temp(r, x) at even, x > 1.  w(r, x) :- temp(r, x) at four."
    program = datalog.check(datalog.parse(text))
    first = Sharing.of(program)
    assert first.views["v"].rule is first.views["w"].rule is None
    for query, expected in (
        ("q(r, x) :- temp(r, x) at even, x > 2.", "q(r, x) :- v(r, x), x > 2."),
        ("q(r, x) :- temp(r, x) at four, x > 2.", "q(r, x) :- w(r, x), x > 2."),
        ("q(r, x) :- temp(r, x) at every(8), x > 2.", "q(r, x) :- v(r, x) at every(8), x > 2."),
        ("q(r, count<*>) :- temp(r, x) at four, x > 2, !door(r, _) at four.",
         "q(r, count<*>) :- w(r, x), x > 2, !door(r, _) at four."),
    ):
        more, names = defined(program, query)
        assert text_of(first.defined(more, names).views["q"]) == expected
    program = datalog.check(datalog.parse(text.replace("w(r, x)", "w(r, count<*>)")))
    more, names = defined(program, "q(r, x) :- temp(r, x) at four, x > 2.")
    assert text_of(Sharing.of(program).defined(more, names).views["q"]) == ""


def test_definitions_of_a_program_without_times() -> None:
    """A catalogue is made once there is a need of one; what was there before is read, and reads nothing else."""
    program = datalog.check(datalog.parse("v(r, x) :- temp(r, x), x > 1.  w(r, x) :- temp(r, x), x > 2."))
    first = Sharing.of(program)
    assert first.program is program and not first.views
    more, names = defined(program, "q(r, x) :- temp(r, x) at every(2), x > 3.")
    second = first.defined(more, names)
    assert text_of(second.views["q"]) == "q(r, x) :- w(r, x) at every(2), x > 3."
    assert [format_rule(rule) for rule in second.program.rules[:2]] == [format_rule(rule) for rule in program.rules]


# --- plans ---------------------------------------------------------------------------------------------------


def test_programs_without_times_are_left_alone() -> None:
    program = datalog.check(datalog.parse("a(x) :- e(x, y), y > 1.  b(x) :- e(x, y), y > 1, y > 2."))
    assert Sharing.of(program).program is program
    assert planner.plan(program) == planner.plan(program, share=False) and not planner.plan(program).sharing


def test_sharing_can_be_switched_off() -> None:
    rules = BASE + "v(r, x) :- temp(r, x) at even, x > 1.  q(r, x) :- temp(r, x) at four, x > 2."
    program = datalog.check(datalog.parse(rules))
    assert "v at four" in planner.plan(program).relations and "temp at four" not in planner.plan(program).relations
    apart = planner.plan(program, share=False)
    assert "temp at four" in apart.relations and "v at four" not in apart.relations and not apart.sharing


def test_the_key_of_groups_that_are_read_as_they_are() -> None:
    """They are no groups any more, and updates are told all the same."""
    rules = BASE + "v(r, avg<x>) :- temp(r, x) at even.  q(avg<x>, r) :- temp(r, x) at four."
    plan = planner.plan(datalog.check(datalog.parse(rules)))
    assert plan.relations["q"].key == (1,) and plan.relations["v"].key == (0,)


def test_explained() -> None:
    rules = """
        hot(r, v) :- temp(r, v) at even, v > 80.  hot100(r, v) :- temp(r, v) at four, v > 100.
        warm(r, v) :- temp(r, v) at even, v > 50, r != "x".
        part(r) :- temp(r, v) at even, door(r, v) at three.  times(r) :- reading(r, _)@t, t > 5, !door(r, _)."""
    text = planner.explain(planner.plan(datalog.check(datalog.parse(BASE + rules))))
    title = "views that may be computed from one another"
    lines = text[text.index(title) :].split("\n\n")[0].split("\n")
    assert "\n".join(line for line in lines if "clock alone" not in line) == f"""{title}
  high(t) :- reading(_, v)@t, v > 100.
    at every commit
    not from higher: v > 100 is not within v > 120
    not from times: t > 5 is not asked for
  higher(t) :- reading(_, v)@t, v > 120.
    at every commit
    not from high: high does not show v
    not from times: t > 5 is not asked for
  either: it has 2 rules
  both: t stands in columns of different types
  hot(r, v) :- temp(r, v), v > 80.
    at even
    not from hot100: v > 80 is not within v > 100
    not from warm: r != "x" is not asked for
  hot100(r, v) :- temp(r, v), v > 100.
    at four
    reads hot: v > 100 is within v > 80, four within even
    hot100(r, v) :- hot(r, v) at four, v > 100.
  warm(r, v) :- temp(r, v), v > 50, r != "x".
    at even
    not from hot: v > 50 is not within v > 80
    not from hot100: v > 50 is not within v > 100
  part: partial points are needed: even and three
  times(r) :- reading(r, _)@t, t > 5, !door(r, _).
    at every commit
    not from high: value > 100 is not asked for
    not from higher: value > 120 is not asked for"""
