"""Limits: on new tuples, on rounds that bring none, on the length of values, on memory, on time."""

from __future__ import annotations

import itertools

import pytest

import datalog
import livelog
from livelog.runtime import component

METHODS = [
    ("absorption", "demand"),
    ("absorption", "lazy"),
    ("absorption", "eager"),
    ("relative", "lazy"),
    ("dred", None),
]
CHAIN = "n(x) :- start(x). n(x + 1) :- n(x), x < {0}."


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(("strategy", "ship"), METHODS)
def test_a_finite_recursion_may_take_more_rounds_than_are_allowed_without_a_new_tuple(
    strategy: str, ship: str | None, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(component, "ROUNDS", 20)
    program = datalog.parse(CHAIN.format(300))
    with livelog.open(
        program, facts={"start": [(0,)]}, limit=301, strategy=strategy, ship=ship, partitions=partitions
    ) as session:
        assert len(session["n"]) == 301


def test_the_limit_on_new_tuples_stands_and_can_be_raised() -> None:
    program = datalog.parse(CHAIN.format(300))
    with pytest.raises(livelog.RuntimeProblem, match="251 tuples in one transaction: the recursion seems"):
        livelog.open(program, facts={"start": [(0,)]}, limit=250)
    assert len(livelog.open(program, facts={"start": [(0,)]}, limit=301)["n"]) == 301


def test_rounds_that_bring_nothing_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component, "ROUNDS", 3)
    inputs = "abcde"
    program = datalog.parse(" ".join(f"r(x) :- r(y), {name}(x, y)." for name in inputs) + " r(x) :- seed(x).")
    facts = {name: [(1, 2)] for name in inputs}
    with pytest.raises(livelog.RuntimeProblem, match="0 tuples and 4 rounds without a new one in one transaction"):
        livelog.open(program, facts=facts, limit=1)
    livelog.open(program, facts=facts, limit=len(inputs))  # a higher limit allows more of them, too


# --- views that are not recursive ----------------------------------------------------------------------------

CROSS = "r(x, y) :- a(x), b(y)."


def pair(n: int) -> dict[str, list[tuple[int]]]:
    return {name: [(i,) for i in range(n)] for name in "ab"}


@pytest.mark.parametrize("strategy", ["absorption", "recompute"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_cross_product_ends_at_the_limit_long_before_it_is_made(strategy: str, partitions: int) -> None:
    session = livelog.open(datalog.parse(CROSS), limit=1000, partitions=partitions, strategy=strategy)
    with session.transaction() as tx:
        tx.insert_all("a", [(0,)])
        tx.insert_all("b", [(0,), (1,)])
    with pytest.raises(livelog.RuntimeProblem) as caught, session.transaction() as tx:
        tx.insert_all("a", [(i,) for i in range(2000)])
        tx.insert_all("b", [(i,) for i in range(2000)])
    text = str(caught.value)
    assert "more than the limit of 1,000" in text and f"in the rule {CROSS}" in text and "`--limit`" in text
    made = int(text.split(" new tuples")[0].rpartition(" ")[2].replace(",", ""))
    assert 1000 < made < 100_000, "of 4,000,000"
    assert list(session["r"]) == [(0, 0), (0, 1)]
    session.check()


def test_a_cross_product_of_a_hundred_thousand_ends() -> None:
    with pytest.raises(livelog.RuntimeProblem, match="more than the limit of 50,000 beside the 200,000 tuples"):
        livelog.open(datalog.parse(CROSS), facts=pair(100_000), limit=50_000)


@pytest.mark.parametrize(
    "text",
    [
        "r(x, y) :- a(x), b(y), c(x, y). c(x, y) :- a(x), b(y).",
        "r(x, y) :- a(x), b(y). r(x, y) :- r(y, x).",
        "r(x, y) :- a(x), b(y). s(x) :- r(x, y), !a(y).",
        "t(x, y, z) :- a(x), b(y), a(z).",
    ],
)
def test_wherever_a_cross_product_is(text: str) -> None:
    with pytest.raises(livelog.RuntimeProblem, match=r"in the rule \w\(x, y(, z)?\) :- a\(x\), b\(y\)"):
        livelog.open(datalog.parse(text), facts=pair(500), limit=1000)


def test_the_end_does_not_depend_on_how_long_batches_are() -> None:
    """Tuples by tuples, a transaction that adds one more than it may is refused; and one that does not, is not."""
    program = datalog.parse(CROSS)
    assert len(livelog.open(program, facts=pair(10), limit=80)["r"]) == 100  # 20 are read
    with pytest.raises(livelog.RuntimeProblem, match="100 new tuples in one transaction, more than the limit of 79"):
        livelog.open(program, facts=pair(10), limit=79)


def test_what_is_read_may_be_copied_and_what_is_derived_often_counts_once() -> None:
    facts = {"e": [(i, i) for i in range(3000)]}
    assert len(livelog.open(datalog.parse("r(x) :- e(x, y)."), facts=facts, limit=1)["r"]) == 3000
    program = datalog.parse("r(x) :- a(x), b(y), x < 3.")
    assert len(livelog.open(program, facts=pair(500), limit=1)["r"]) == 3
    many = datalog.parse("r(x % 7) :- a(x), b(y).")  # a quarter of a million derivations
    session = livelog.open(many, facts=pair(500), limit=1)
    assert len(session["r"]) == 7
    with session.transaction() as tx:
        tx.delete_all("a", [(i,) for i in range(500) if i % 7])
    assert list(session["r"]) == [(0,)]
    session.check()


@pytest.mark.parametrize("partitions", [1, 2])
def test_limitsize_ends_a_cross_product_early(partitions: int) -> None:
    program = datalog.parse(CROSS + " .limitsize r(n=100)")
    session = livelog.open(program, partitions=partitions)
    with pytest.raises(livelog.RuntimeProblem, match=r"r has \d+ tuples") as caught:
        session.load("a", [(i,) for i in range(2000)])
        session.load("b", [(i,) for i in range(2000)])
    assert "more than its .limitsize of 100" in str(caught.value) and f"in the rule {CROSS}" in str(caught.value)
    assert int(str(caught.value).split("r has ")[1].split()[0]) < 100_000
    assert not session["r"] and len(session["a"]) == 2000
    with session.transaction() as tx:  # what goes makes room for what comes
        tx.delete_all("a", [(i,) for i in range(1, 2000)])
        tx.insert_all("b", [(i,) for i in range(100)])
    assert len(session["r"]) == 100


# --- .limitsize of a recursion -------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(("strategy", "ship"), [*METHODS, ("recompute", None)])
def test_limitsize_ends_a_recursion_that_has_no_end(strategy: str, ship: str | None, partitions: int) -> None:
    program = datalog.parse("n(x) :- start(x). n(x + 1) :- n(x). .limitsize n(n=500)")
    session = livelog.open(program, strategy=strategy, ship=ship, partitions=partitions, limit=10**12, timeout=60)
    with pytest.raises(livelog.RuntimeProblem) as caught:
        session.load("start", [(0,)])
    text = str(caught.value)
    assert "more than its .limitsize of 500" in text and "in the rule n(x + 1) :- n(x)." in text
    assert 500 < int(text.split("n has ")[1].split()[0]) <= 502
    assert not session["n"] and not session["start"]
    session.check()


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(("strategy", "ship"), METHODS)
def test_what_goes_makes_room_in_a_recursion(strategy: str, ship: str | None, partitions: int) -> None:
    program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y). .limitsize r(n=55)")
    chains = [[(10 * n + i, 10 * n + i + 1) for i in range(10)] for n in (0, 10, 20)]  # 55 tuples each
    with livelog.open(
        program, facts={"e": chains[0]}, strategy=strategy, ship=ship, partitions=partitions
    ) as session:
        for old, new in itertools.pairwise([*chains, chains[0]]):
            with session.transaction() as tx:
                tx.insert_all("e", new)
                tx.delete_all("e", old)
            assert len(session["r"]) == 55
            with pytest.raises(livelog.RuntimeProblem, match=r"r has \d+ tuples( already)?, more than its"):
                session.load("e", [(-1, new[0][0])])
            session.check()


def test_limitsize_stops_a_wide_step_of_a_recursion() -> None:
    """One round would make four million tuples."""
    program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y). .limitsize r(n=9000)")
    facts = {"e": [(i, -1) for i in range(2000)] + [(-1, -i) for i in range(2, 2002)]}
    with pytest.raises(livelog.RuntimeProblem, match=r"r has (\d+) tuples already, more than its") as caught:
        livelog.open(program, facts=facts)
    assert int(str(caught.value).split("r has ")[1].split()[0]) < 1_000_000
