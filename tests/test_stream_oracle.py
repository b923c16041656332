"""The oracle of programs with times, by hand: what each sentence about their meaning comes to in a small case."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.cases import program_of
from tests.oracle import Operation, OracleError
from tests.oracle_streams import Timeline, rests

KEYED = ".decl room(r: symbol, v: number) key(r)\n"
STREAM = ".decl s(x: number) stream\n"


def insert(name: str, *row: Any) -> Operation:
    return ("insert", name, row)


def delete(name: str, *row: Any) -> Operation:
    return ("delete", name, row)


def to(time: float) -> Operation:
    return ("advance", time)


def seen(text: str, view: str, *transactions: list[Operation], grid: float = 1) -> list[tuple[float, list[Any]]]:
    """The times at which a view changes, each with its rows then."""
    timeline = Timeline(program_of(text), grid)
    moments = [timeline.load({})]
    for operations in transactions:
        moments += timeline.run(operations)
    result: list[tuple[float, list[Any]]] = []
    for moment in moments:
        rows = sorted(moment.relations[view])
        if not result or result[-1][1] != rows:
            result.append((moment.time, rows))
    return result


# --- synchronised reads --------------------------------------------------------------------------------------


def test_a_read_is_what_was_there_at_the_last_point() -> None:
    text = KEYED + "hot(r, v) :- room(r, v) at every(2), v > 80."
    operations = [to(1), insert("room", "a", 90), to(3), insert("room", "b", 85), insert("room", "a", 70), to(4)]
    assert seen(text, "hot", operations) == [(0, []), (2, [("a", 90)]), (4, [("b", 85)])]


def test_what_came_and_went_between_two_points_was_never_there() -> None:
    text = KEYED + "hot(r, v) :- room(r, v) at every(5)."
    assert seen(text, "hot", [to(1), insert("room", "a", 90), to(2), delete("room", "a", 90), to(9)]) == [(0, [])]


def test_before_the_first_point_there_is_nothing() -> None:
    text = KEYED + "hot(r, v) :- room(r, v) at every(5, from=3)."
    assert seen(text, "hot", [insert("room", "a", 1), to(9)]) == [(0, []), (3, [("a", 1)])]


def test_while_the_clock_stands_at_a_point_every_commit_is_seen() -> None:
    text = KEYED + "hot(v) :- room(_, v) at every(2)."
    one, other, third = insert("room", "a", 1), insert("room", "a", 2), insert("room", "a", 3)
    found = seen(text, "hot", [to(2), one], [other], [to(3), third])
    assert found == [(0, []), (2, [(1,)]), (2, [(2,)])]


def test_points_of_events() -> None:
    """The point is at the event, which is seen at it with all that came before and with it."""
    text = STREAM + ".decl k(x: number)\nevent(t) :- s(x)@t, x > 5. w(x) :- k(x) at event."
    first = [to(1), insert("k", 1), to(2), insert("s", 3), to(3), insert("s", 9), insert("k", 2), to(7)]
    found = seen(text, "w", first, [insert("k", 3)], [to(8), insert("s", 6)])
    assert found == [(0, []), (3, [(1,), (2,)]), (8, [(1,), (2,), (3,)])]


def test_a_point_that_comes_with_a_later_commit_at_the_same_time() -> None:
    text = STREAM + ".decl k(x: number)\nevent(t) :- s(_)@t. w(x) :- k(x) at event."
    assert seen(text, "w", [to(1), insert("k", 1)], [insert("s", 1)]) == [(0, []), (1, [(1,)])]


def test_points_that_are_known_ahead() -> None:
    text = ".decl k(x: number)\n.decl deadline(t: number)\nw(x) :- k(x) at deadline."
    found = seen(text, "w", [insert("deadline", 4), insert("deadline", 6), insert("k", 1), to(5), insert("k", 2)],
                 [delete("deadline", 6), to(9)], [insert("deadline", 7)])  # fmt: skip
    assert found == [(0, []), (4, [(1,)])]


def test_unions_intersections_and_differences_of_points() -> None:
    text = """.decl k(x: number)
    two(t) :- clock(t), t % 2 = 0. three(t) :- clock(t), t % 3 = 0.
    both(t) :- two(t), three(t). some(t) :- two(t). some(t) :- three(t). but(t) :- two(t), !three(t).
    b(x) :- k(x) at both. s(x) :- k(x) at some. d(x) :- k(x) at but.
    """
    operations = [operation for i in range(1, 8) for operation in (to(i), insert("k", i), delete("k", i - 1))]
    assert seen(text, "b", operations) == [(0, []), (6, [(6,)])]
    assert [time for time, _ in seen(text, "s", operations)] == [0, 2, 3, 4, 6]
    assert [time for time, _ in seen(text, "d", operations)] == [0, 2, 4]


def test_several_points_in_one_rule() -> None:
    text = """.decl k(x: number)  .decl l(x: number)
    w(x) :- k(x) at every(2), !l(x) at every(3)."""
    operations = [insert("k", 1), insert("k", 2), to(1), insert("l", 1), delete("k", 2), to(9)]
    found = seen(text, "w", [insert("k", 1), insert("k", 2)], operations)
    assert found == [(0, []), (0, [(1,), (2,)]), (2, [(1,)]), (3, [])]


def test_recursion_over_synchronised_links() -> None:
    text = """.decl link(x: number, y: number)
    reach(x, y) :- link(x, y) at every(4). reach(x, y) :- link(x, z) at every(4), reach(z, y)."""
    found = seen(text, "reach", [to(1), insert("link", 1, 2), to(5), insert("link", 2, 1), to(8)])
    assert found == [(0, []), (4, [(1, 2)]), (8, [(1, 1), (1, 2), (2, 1), (2, 2)])]


def test_aggregates_of_synchronised_reads() -> None:
    text = STREAM + "n(count<*>) :- s(_)@_ at every(2). m(c) :- c = count : { s(_) at every(3) }."
    operations = [to(1), insert("s", 1), insert("s", 1), to(3), insert("s", 1), to(4)]
    assert seen(text, "n", operations) == [(0, []), (2, [(2,)]), (4, [(3,)])]
    assert seen(text, "m", operations) == [(0, [(0,)]), (3, [(3,)])]


def test_a_view_of_a_view() -> None:
    text = KEYED + "a(r, v) :- room(r, v) at every(2). b(r, v) :- a(r, v) at every(3)."
    found = seen(text, "b", [to(1), insert("room", "x", 1), to(5), insert("room", "x", 2), to(7)])
    assert found == [(0, []), (3, [("x", 1)]), (6, [("x", 2)])]


# --- times of tuples -----------------------------------------------------------------------------------------


def test_every_arrival_in_a_stream_has_its_time() -> None:
    text = STREAM + "w(x, t) :- s(x)@t."
    assert seen(text, "w", [insert("s", 1), to(2), insert("s", 1), to(2.5), insert("s", 2)])[-1] == (
        2.5, [(1, 0), (1, 2), (2, 2.5)]
    )  # fmt: skip


def test_times_that_are_whole_are_ints() -> None:
    timeline = Timeline(program_of(STREAM + ".decl k(x: number)\nw(t) :- s(_)@t. v(t) :- k(_)@t. n(t) :- now(t)."))
    timeline.load({})
    (*_, moment) = timeline.run([to(2.0), insert("s", 1), insert("k", 1)])
    for view in "wvn":
        assert repr(moment.relations[view]) == "{(2,)}"
    (*_, moment) = timeline.run([to(2.5), insert("k", 2)])
    assert repr(moment.relations["n"]) == "{(2.5,)}" and moment.relations["v"] == {(2,), (2.5,)}


@pytest.mark.parametrize(
    ("qualifier", "after"), [("", [1, 1, 4]), (" key(x)", [1, 2, 4]), (" ttl(9)", [1, 2, 4])],
)  # fmt: skip
def test_the_last_insertion_of_a_fact(qualifier: str, after: list[int]) -> None:
    text = f".decl k(x: number){qualifier}\nw(x, t) :- k(x)@t."
    timeline = Timeline(program_of(text))
    timeline.load({})
    times = []
    one = insert("k", 7)
    for operations in ([to(1), one], [to(2), one], [to(3), delete("k", 7), to(4), one]):
        ((_, time),) = timeline.run(operations)[-1].relations["w"]
        times.append(time)
    assert times == after


def test_a_tuple_of_a_view_has_the_time_of_its_release() -> None:
    text = KEYED + """hot(r) :- room(r, v) at every(2), v > 80.
    since(r, t) :- hot(r)@t. first(r, t) :- room(r, _)@t at every(2)."""
    operations = [to(1), insert("room", "a", 90), to(3), insert("room", "a", 95), to(5), insert("room", "a", 1), to(7),
                  insert("room", "a", 99), to(8)]  # fmt: skip
    assert seen(text, "since", operations) == [(0, []), (2, [("a", 2)]), (6, []), (8, [("a", 8)])]
    found = seen(text, "first", operations)
    assert found == [(0, []), (2, [("a", 1)]), (4, [("a", 3)]), (6, [("a", 5)]), (8, [("a", 7)])]


# --- windows -------------------------------------------------------------------------------------------------


def test_a_sliding_window() -> None:
    text = STREAM + "w(x) :- s(x)@t, now(n), n - 5 < t, t <= n."
    found = seen(text, "w", [to(1), insert("s", 1), to(3), insert("s", 2), to(4)], [to(1000)])
    assert found == [(0, []), (1, [(1,)]), (3, [(1,), (2,)]), (6, [(2,)]), (8, [])]


def test_open_and_closed_bounds() -> None:
    text = STREAM + """open(x) :- s(x)@t, now(n), n < t + 2. closed(x) :- s(x)@t, now(n), n <= t + 2.
    late(x) :- s(x)@t, now(n), n > t + 1."""
    operations = [to(1), insert("s", 1), to(9)]
    assert seen(text, "open", operations) == [(0, []), (1, [(1,)]), (3, [])]
    assert seen(text, "closed", operations) == [(0, []), (1, [(1,)]), (4, [])]
    assert seen(text, "late", operations) == [(0, []), (3, [(1,)])]


def test_a_window_that_slides_over_what_was_released() -> None:
    """Range five, slide two: as wide as the range, moved and filled at every second tick."""
    text = STREAM + """two(t) :- clock(t), t % 2 = 0. slide(max<t>) :- two(t).
    w(x) :- s(x)@t at two, slide(n), n - 5 < t, t <= n."""
    found = seen(text, "w", [to(1), insert("s", 1), to(3), insert("s", 3), to(9)])
    assert found == [(0, []), (2, [(1,)]), (4, [(1,), (3,)]), (6, [(3,)]), (8, [])]


def test_windows_of_a_join_and_over_other_columns() -> None:
    text = STREAM + """.decl r(x: number) stream  .decl e(x: number, when: number)
    w(x, y) :- s(x)@a, r(y)@b, a - 2 < b, b < a + 2.
    v(x) :- e(x, t), now(n), n >= t, n < t + 3."""
    operations = [to(1), insert("s", 1), to(2), insert("r", 2), to(3), insert("r", 3), to(5), insert("s", 5)]
    found = seen(text, "w", operations)
    assert found == [(0, []), (2, [(1, 2)])]
    assert seen(text, "v", [insert("e", 1, 4), to(9)]) == [(0, []), (4, [(1,)]), (7, [])]


def test_fractions_of_ticks() -> None:
    text = STREAM + "w(x) :- s(x)@t, now(n), n < t + 1.5. v(x) :- w(x) at every(0.5, from=0.25)."
    operations = [to(0.5), insert("s", 1), to(3)]
    assert seen(text, "w", operations, grid=0.25) == [(0, []), (0.5, [(1,)]), (2, [])]
    assert seen(text, "v", operations, grid=0.25) == [(0, []), (0.75, [(1,)]), (2.25, [])]


# --- the clock -----------------------------------------------------------------------------------------------


def test_the_clock_as_a_number() -> None:
    text = STREAM + "age(x, n - t) :- s(x)@t, now(n). ticks(count<*>) :- clock(_)."
    assert seen(text, "age", [to(1), insert("s", 7), to(3.5)]) == [
        (0, []), (1, [(7, 0)]), (2, [(7, 1)]), (3, [(7, 2)]), (3.5, [(7, 2.5)])
    ]  # fmt: skip
    assert seen(text, "ticks", [to(2.5)]) == [(0, [(1,)]), (1, [(2,)]), (2, [(3,)])]


def test_expiry() -> None:
    text = """.decl k(x: number) ttl(3)
    .decl s(x: number) stream ttl(2)
    w(x) :- k(x). v(x) :- s(x). u(x) :- k(x) at every(2)."""
    operations = [insert("k", 1), insert("s", 1), to(1), insert("k", 2), insert("s", 1), to(2), insert("k", 1), to(9)]
    assert seen(text, "w", operations)[1:] == [(0, [(1,)]), (1, [(1,), (2,)]), (4, [(1,)]), (5, [])]
    assert seen(text, "v", operations)[1:] == [(0, [(1,)]), (3, [])]
    assert seen(text, "u", operations)[1:] == [(0, [(1,)]), (2, [(1,), (2,)]), (4, [(1,)]), (6, [])]


def test_what_is_refused() -> None:
    for operations in ([to(2), to(1)], [insert("s", 1), delete("s", 1)], [insert("s", 1), ("raise",)]):
        with pytest.raises(OracleError):
            Timeline(program_of(STREAM + "w(x) :- s(x).")).run(operations)


def test_an_error_on_the_way_is_an_error() -> None:
    text = KEYED + "w(r, 12 / v) :- room(r, v) at every(4)."
    passing = [to(3), insert("room", "a", 0), delete("room", "a", 0), to(5)]
    failing = [to(3), insert("room", "a", 0), to(5), delete("room", "a", 0)]
    assert seen(text, "w", passing) == [(0, [])]
    with pytest.raises(OracleError):
        seen(text, "w", failing)


def test_a_copy_goes_its_own_way() -> None:
    timeline = Timeline(program_of(STREAM + "w(x) :- s(x) at every(2). v(x, t) :- w(x)@t."))
    timeline.load({})
    timeline.run([insert("s", 1)])
    other = timeline.copy()
    (*_, moved) = other.run([to(1), insert("s", 2), to(4)])
    (*_, stood) = timeline.run([to(4)])
    assert moved.relations["v"] == {(1, 0), (2, 2)} and stood.relations["v"] == {(1, 0)}


# --- full and partial ----------------------------------------------------------------------------------------


def test_points_are_full_if_they_are_points_of_all_reads() -> None:
    text = KEYED + """.decl k(r: symbol)
    a(r) :- room(r, _) at every(2), k(r) at every(3). b(r) :- a(r). c(r) :- b(r) at every(4), k(r). d(r) :- k(r).
    e(count<*>) :- a(_), n = count : { k(_) at every(5) }, n > 0.
    """
    timeline = Timeline(program_of(text))
    timeline.load({})
    moments = {moment.time: moment for moment in timeline.run([to(60)])}
    for view, period in {"a": 6, "b": 6, "c": math.lcm(2, 3, 4), "d": 1, "e": 30}.items():
        assert [time for time, moment in moments.items() if moment.full[view]] == [*range(period, 61, period)], view


def test_what_a_view_rests_on() -> None:
    text = "a(r) :- room(r, _) at every(2). b(r) :- !a(r)@_ at every(3), room(r, _). c(r) :- room(r, _)."
    program = program_of(KEYED + text)
    found = rests(program)
    assert found["c"] == found["room"] == frozenset()
    assert len(found["a"]) == 1 and len(found["b"]) == 2 and found["a"] < found["b"]
