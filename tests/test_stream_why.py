"""Why a tuple is there in a program that knows times: windows and times rest on the relations that they are of,
and what is read at points on these as they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import livelog
from livelog.why.instant import Instant
from tests.harness import METHODS

TEXT = """
.decl reading(room: symbol, temp: number) stream
.decl roomTemp(room: symbol, temp: number) key(room)
.decl door(room: symbol)
.decl cost(x: symbol, y: symbol, c: number)
hot(r, v) :- roomTemp(r, v) at every(2), v > 80.
hotter(r, v) :- hot(r, v) at every(4), v > 90.
recent(r, v) :- reading(r, v)@t, now(n), n - 3 < t.
seen(r, count<*>) :- reading(r, _)@t, now(n), n - 3 < t.
fresh(r) :- hot(r, v)@t, now(n), n < t + 5, !recent(r, v).
link(x, y) :- reading(x, _)@t, now(n), n - 3 < t, reading(y, _)@_ at every(2).
reach(x, y) :- link(x, y).
reach(x, y) :- link(x, z), reach(z, y).
when(r, t) :- roomTemp(r, _)@t.
quiet(r) :- door(r), !hot(r, _) at every(2).
age(r, n) :- door(r), now(n).
late(r) :- recent(r, _)@t at every(2), t > 2.
cheapest(x, y, min<c>) :- path(x, y, c).
path(x, y, c) :- cost(x, y, c) at every(2).
path(x, y, c + d) :- cost(x, z, c) at every(2), path(z, y, d).
"""
A, X, Y = ("roomTemp at every(2)", ("a", 95)), ("reading at every(2)", ("a", 5)), ("reading at every(2)", ("b", 5))
B, C = ("reading", ("b", 5)), ("reading", ("c", 5))
REASONS: dict[tuple[str, tuple[Any, ...]], list[Any]] = {
    ("hot", ("a", 95)): [A],
    ("hotter", ("a", 95)): [("hot at every(4)", ("a", 95))],
    ("recent", ("b", 5)): [B],
    ("seen", ("b", 3)): [B, B, ("reading", ("b", 6))],
    ("fresh", ("a",)): [A],
    ("link", ("c", "a")): [C, X],
    ("when", ("a", 5)): [("roomTemp", ("a", 10))],
    ("quiet", ("x",)): [("door", ("x",))],
    ("age", ("x", 5)): [("door", ("x",))],
    ("late", ("b",)): [("recent at every(2)", ("b", 5))],
    ("cheapest", ("p", "r", 3)): [("cost at every(2)", ("p", "q", 1)), ("cost at every(2)", ("q", "r", 2))],
    ("path", ("p", "r", 3)): [("cost at every(2)", ("p", "q", 1)), ("cost at every(2)", ("q", "r", 2))],
    ("reading", ("b", 5)): [B],
    ("roomTemp", ("a", 10)): [("roomTemp", ("a", 10))],
}  # fmt: skip


def opened(strategy: str, ship: str | None, partitions: int) -> Iterator[livelog.Session]:
    with livelog.open(TEXT, strategy=strategy, ship=ship, partitions=partitions) as session:
        with session.transaction() as tx:
            tx.insert("roomTemp", ("a", 95), at=1)
            tx.insert("reading", ("a", 5))
            tx.insert_all("cost", [("p", "q", 1), ("q", "r", 2), ("p", "r", 9)])
            for row in (("b", 5), ("b", 5), ("b", 6)):
                tx.insert("reading", row, at=3)
            tx.insert("door", ("x",))
            tx.advance_to(4)
            tx.update("roomTemp", ("a", 10), at=5)
            tx.insert("reading", ("c", 5))
        yield session


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(("strategy", "ship"), METHODS)
def test_reasons(strategy: str, ship: str | None, partitions: int) -> None:
    for session in opened(strategy, ship, partitions):
        found = {(view, row): sorted(session.why(view, row)) for view, row in REASONS}
        assert found == {fact: sorted(reason) for fact, reason in REASONS.items()}
        reason = session.why("reach", ("c", "b"))  # there are several ways
        assert {C, Y} <= set(reason) <= {B, C, X, Y}
        for view in session.views:
            for row in session[view]:
                for name, told in session.why(view, row):
                    assert len(told) == len(session[name.partition(" at ")[0]].columns), "nobody sees hidden times"


def test_what_is_told_besides() -> None:
    for session in opened("absorption", None, 1):
        fresh = session.why("fresh", ("a",))
        assert fresh.absent == [("recent", ("a", 95))]
        assert str(fresh) == 'roomTemp("a", 95) at every(2)\n!recent("a", 95)'
        assert str(session.why("quiet", ("x",))) == 'door("x")\n!hot("x", _) at every(2)'
        (group,) = session.why("seen", ("b", 3)).groups
        assert (group.aggregate, group.value, group.rows, group.key) == ("count", 3, 3, {"r": "b"})
        with pytest.raises(livelog.UsageProblem, match="does not hold"):
            session.why("hot", ("a", 10))


def test_points_of_the_clock() -> None:
    with livelog.open("even(t) :- clock(t), t % 2 = 0.\nr(x) :- e(x) at even.\ne(1).\n") as session:
        assert session.why("r", (1,)) == [("e at even", (1,))]
        with pytest.raises(livelog.UsageProblem, match="not kept"):
            session.why("even", (0,))


def test_a_program_that_knows_no_times_is_as_it_is() -> None:
    with livelog.open("r(x, y) :- e(x, y).\nr(x, y) :- e(x, z), r(z, y).\n") as session:
        instant = Instant(session.plan)
        assert instant.plan is session.plan and not instant.timed and not instant.heads
