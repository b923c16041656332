"""Python's cycle collector: it does not walk over what the engine keeps, and still finds the garbage of others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

import datalog
import livelog
from livelog.runtime import collecting

PROGRAM = ".decl e(x: number, y: number)\nq(x, sum<y>, count<*>) :- e(x, y)."


class Knot:
    """A piece of garbage that only the collector can find."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def session() -> Iterator[livelog.Session]:
    assert gc.isenabled()
    with livelog.open(datalog.parse(PROGRAM)) as session:
        gc.collect()
        yield session


def collections() -> list[int]:
    return [generation["collections"] for generation in gc.get_stats()]


def rows(number: int, size: int) -> list[tuple[int, int]]:
    return [(x, x) for x in range(number * size, (number + 1) * size)]


def test_what_the_engine_makes_is_not_walked_over(session: livelog.Session) -> None:
    batches = [rows(number, 1000) for number in range(60)]
    gc.collect()
    before = collections()
    for batch in batches:  # 60,000 groups, each an object of its own
        session.load("e", batch)
    assert collections()[1:] == before[1:]
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_the_garbage_of_others_is_found_between_large_transactions(session: livelog.Session) -> None:
    """Too little for Python to look at it before the next transaction moves it out of its sight."""
    knots: list[weakref.ref[Knot]] = []
    for number in range(400):
        knots += [weakref.ref(Knot()) for _ in range(100)]
        session.load("e", rows(number, 600))
    assert sum(knot() is not None for knot in knots) < 30_000 < len(knots)


def test_the_garbage_of_others_is_found_between_small_transactions(session: livelog.Session) -> None:
    knots: list[weakref.ref[Knot]] = []
    for number in range(3000):
        knots.append(weakref.ref(Knot()))
        session.load("e", rows(number, 2))
    assert sum(knot() is not None for knot in knots) < 1000


def test_what_is_off_stays_off_and_what_is_frozen_stays_frozen(session: livelog.Session) -> None:
    gc.disable()
    try:
        session.load("e", rows(0, 5000))
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        session.load("e", rows(1, 5000))
        assert gc.get_freeze_count() > frozen // 2  # some of it has died in the meantime
    finally:
        gc.unfreeze()
    assert gc.isenabled()


def test_a_failing_transaction_resumes_it(session: livelog.Session) -> None:
    with pytest.raises(livelog.FactProblem), session.transaction() as tx:
        tx.insert_all("e", [(1, "a")])
    assert gc.isenabled()
    with pytest.raises(livelog.RuntimeProblem):
        session.load("e", [(1, 2**62), (1, 2**62 + 1)])
    assert gc.isenabled()


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_when_it_should_run_again(
    session: livelog.Session, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    real = collecting._resume

    def interrupted() -> None:
        if after:
            real()
        raise KeyboardInterrupt

    monkeypatch.setattr(collecting, "_resume", interrupted)
    with pytest.raises(KeyboardInterrupt), session.transaction() as tx:
        tx.insert_all("e", rows(0, 200))
    assert gc.isenabled()
    with pytest.raises(KeyboardInterrupt), session.transaction() as tx:
        tx.insert("e", (1, 1))
    assert gc.isenabled()


def test_pauses_do_not_nest() -> None:
    def inner() -> tuple[bool, bool]:
        return collecting.without_collections(gc.isenabled), gc.isenabled()

    assert collecting.without_collections(inner) == (False, False) and gc.isenabled()
