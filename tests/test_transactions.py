"""What a transaction promises beside its operations: a clock that never goes back, and where it comes from."""

from __future__ import annotations

import math
from typing import Any

import pytest

import datalog
import livelog

TEXT = ".decl e(x: number) ttl(10)\nr(x) :- e(x)."


@pytest.mark.everywhere
def test_of_two_open_transactions_the_slower_one_cannot_move_the_clock_back() -> None:
    with livelog.open(datalog.parse(TEXT), facts={"e": [(1,)]}) as session:
        heard: list[Any] = []
        session.subscribe("r", heard.append)
        slow, fast = session.transaction(), session.transaction()
        slow.insert("e", (2,))
        slow.advance_to(5)
        slow.advance_to(20)  # where it ends up does not matter
        fast.advance_to(7)
        fast.commit()
        with pytest.raises(livelog.UsageProblem, match=r"stands at 7 by now and cannot go back to 5.*not applied"):
            slow.commit()
        assert session.clock == 7.0 and list(session["r"]) == [(1,)] and not heard
        with pytest.raises(livelog.UsageProblem, match="not been committed"):
            _ = slow.changes
        with pytest.raises(livelog.UsageProblem, match="over"):
            slow.commit()
        session.check()
        assert session.stats().transactions == 1
        with session.transaction() as tx:
            tx.insert("e", (2,))
            tx.advance_to(7)  # to where it stands is not back
        assert tx.changes.clock == 7.0
        with session.transaction() as tx:
            tx.advance_to(10)
        assert tx.changes["r"].deleted == [(1,)]


def test_one_that_does_not_move_the_clock_may_be_slow() -> None:
    with livelog.open(datalog.parse(TEXT)) as session:
        slow = session.transaction()
        slow.insert("e", (1,))
        with session.transaction() as tx:
            tx.advance_to(7)
        assert slow.commit()["r"].inserted == [(1,)]
        with session.transaction() as tx:
            tx.advance_to(16.5)
        assert not tx.changes["r"], "it lives from the time of its commit"


@pytest.mark.parametrize("when", [math.inf, -math.inf, math.nan, True, "5", None, [5], 1j])
def test_times_that_are_none(when: Any) -> None:
    with livelog.open(datalog.parse(TEXT), facts={"e": [(1,)]}) as session:
        with pytest.raises(livelog.UsageProblem, match="the clock needs a"), session.transaction() as tx:
            tx.insert("e", (2,))
            tx.advance_to(when)
        assert session.clock == 0.0 and list(session["r"]) == [(1,)]


def test_the_clock_goes_forward_in_one_transaction_as_well() -> None:
    with livelog.open(datalog.parse(TEXT)) as session:
        tx = session.transaction()
        tx.advance_to(5)
        with pytest.raises(livelog.UsageProblem, match="stands at 5 and cannot go back to 4"):
            tx.advance_to(4)
        tx.commit()
        with pytest.raises(livelog.UsageProblem, match=r"stands at 5 and cannot go back to 3\.5"):
            session.transaction().advance_to(3.5)


@pytest.mark.everywhere
def test_positions_of_sources() -> None:
    with livelog.open(datalog.parse("r(y) :- e(x), y = 10 / x."), facts={"e": [(1,)]}) as session:
        assert session.position("feed") == 0
        for position in (3, 8):
            with session.transaction(source="feed", position=position) as tx:
                tx.insert("e", (position,))
        with session.transaction(source="other", position=1):
            pass
        with session.transaction(source="other"):  # without one: it comes from there, and nobody counts
            pass
        assert (session.position("feed"), session.position("other"), session.position("none")) == (8, 1, 0)
        # what is not committed does not count
        with pytest.raises(livelog.RuntimeProblem, match="division"), session.transaction("feed", 9) as tx:
            tx.insert("e", (0,))
        with pytest.raises(ZeroDivisionError), session.transaction("feed", 10):
            raise ZeroDivisionError
        session.transaction("feed", 11).rollback()
        assert session.position("feed") == 8
        with session.transaction("feed", 5):  # the last one counts, not the largest: a feed may be read again
            pass
        assert session.position("feed") == 5
