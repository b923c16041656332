"""Subscribers are told of every transaction, in the order of transactions, whatever any of them does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import datalog
import livelog
from livelog.changes import Changes

TEXT = "r(x) :- e(x). s(x) :- e(x), x > 100."


def opened(text: str = TEXT, **options: Any) -> livelog.Session:
    return livelog.open(datalog.parse(text), **options)


def insert(session: livelog.Session, *values: int) -> livelog.Transaction:
    with session.transaction() as tx:
        for value in values:
            tx.insert("e", (value,))
    return tx


def failing(error: BaseException) -> Callable[[Changes], None]:
    def callback(changes: Changes) -> None:
        raise error

    return callback


class Heard:
    """A list that subscribers write to: who heard of which tuples, of one transaction after the other."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []

    def by(self, name: str, then: Callable[[Changes], object] = lambda changes: None) -> Callable[[Changes], None]:
        def callback(changes: Changes) -> None:
            self.calls.append((name, [row[0] for row in changes.inserted]))
            then(changes)

        return callback


# --- failures ------------------------------------------------------------------------------------------------


@pytest.mark.everywhere
def test_a_failure_is_raised_after_all_were_told_and_the_transaction_stands() -> None:
    heard = Heard()
    boom = ValueError("boom")
    with opened() as session:
        session.subscribe("r", heard.by("first"))
        session.subscribe("r", failing(boom))
        session.subscribe("s", heard.by("other view"))
        session.subscribe("r", heard.by("last"))
        tx = session.transaction()
        tx.insert("e", (101,))
        with pytest.raises(livelog.SubscriberProblem) as caught:
            tx.commit()
        number = tx.changes.transaction
        message = f"error: transaction {number} stands, but a subscriber of `r` failed: ValueError: boom"
        assert str(caught.value) == message and isinstance(caught.value, livelog.LivelogError)
        assert caught.value.failures == ((number, "r", boom),) and caught.value.__cause__ is boom
        assert heard.calls == [("first", [101]), ("other view", [101]), ("last", [101])]
        assert tx.changes["r"].inserted == [(101,)] == list(session["r"])
        assert session.stats().transactions == 1
        # and on as if nothing had been
        with pytest.raises(livelog.SubscriberProblem):
            insert(session, 1)
        assert heard.calls[3:] == [("first", [1]), ("last", [1])]


def test_failures_are_collected() -> None:
    with opened() as session:
        for i in range(12):
            session.subscribe("r", failing(KeyError(i)))
        with pytest.raises(livelog.SubscriberProblem) as caught:
            insert(session, 1)
    assert [failure.error.args for failure in caught.value.failures] == [(i,) for i in range(12)]
    text = str(caught.value).splitlines()
    assert text[0] == "error: transaction 1 stands, but subscribers failed 12 times"
    assert text[1] == "note: transaction 1: a subscriber of `r` failed: KeyError: 0"
    assert text[-1] == "note: and 2 more" and len(text) == 12


def test_load_says_that_it_stands_too() -> None:
    with opened() as session:
        session.subscribe("r", failing(ValueError("boom")))
        with pytest.raises(livelog.SubscriberProblem, match="transaction 1 stands"):
            session.load("e", [(1,), (2,)])
        assert len(session["r"]) == 2


def test_a_transaction_that_fails_is_not_told() -> None:
    heard = Heard()
    with opened("r(y) :- e(x), y = 10 / x.") as session:
        session.subscribe("r", heard.by("r"))
        with pytest.raises(livelog.RuntimeProblem):
            insert(session, 1, 0)
        assert insert(session, 5).changes.transaction == 1, "one that was rolled back has no number"
    assert heard.calls == [("r", [2])]


# --- callbacks that use the session --------------------------------------------------------------------------


@pytest.mark.everywhere
def test_what_a_callback_commits_is_told_afterwards() -> None:
    heard = Heard()
    nested: list[livelog.Transaction] = []
    with opened() as session:

        def commit(changes: Changes) -> None:
            if changes.inserted[0][0] < 3:
                nested.append(insert(session, changes.inserted[0][0] + 1))
                assert nested[-1].changes["r"].inserted == list(session["r"])[-1:], "the commit is over when it returns"

        session.subscribe("r", heard.by("a", commit))
        session.subscribe("r", heard.by("b"))
        insert(session, 1)
        assert heard.calls == [(name, [i]) for i in (1, 2, 3) for name in "ab"]
        assert [tx.changes["r"].inserted for tx in nested] == [[(2,)], [(3,)]]


def test_the_outermost_commit_raises_what_went_wrong() -> None:
    with opened() as session:

        def commit(changes: Changes) -> None:
            if changes.transaction == 1:
                insert(session, 2)
            raise ValueError(changes.transaction)

        session.subscribe("r", commit)
        tx = session.transaction()
        tx.insert("e", (1,))
        with pytest.raises(livelog.SubscriberProblem, match="transactions 1 to 2 stand") as caught:
            tx.commit()
        assert [(f.transaction, f.error.args) for f in caught.value.failures] == [(1, (1,)), (2, (2,))]
        assert tx.changes["r"].inserted == [(1,)]


@pytest.mark.everywhere
def test_subscriptions_that_begin_and_end_in_callbacks() -> None:
    heard = Heard()
    stops: dict[str, Callable[[], None]] = {}
    with opened() as session:

        def change(changes: Changes) -> None:
            if changes.inserted == [(1,)]:
                stops["later"] = session.subscribe("r", heard.by("later"))
                stops["self"]()
                stops["other"]()
                stops["other"]()

        stops["self"] = session.subscribe("r", heard.by("self", change))
        stops["other"] = session.subscribe("r", heard.by("other"))
        session.subscribe("r", heard.by("always"))
        insert(session, 1)
        insert(session, 2)
        assert heard.calls == [("self", [1]), ("always", [1]), ("always", [2]), ("later", [2])]
        stops["later"]()
        insert(session, 3)
        assert heard.calls[4:] == [("always", [3])]


def test_a_subscription_begins_with_the_next_transaction_not_with_what_is_queued() -> None:
    heard = Heard()
    with opened() as session:

        def change(changes: Changes) -> None:
            if changes.transaction == 1:
                insert(session, 2)
                session.subscribe("r", heard.by("late"))
                insert(session, 3)

        session.subscribe("r", heard.by("early", change))
        insert(session, 1)
        assert heard.calls == [("early", [1]), ("early", [2]), ("early", [3]), ("late", [3])]


def test_the_same_function_may_subscribe_twice() -> None:
    heard = Heard()
    callback = heard.by("both")
    with opened() as session:
        stop = session.subscribe("r", callback)
        session.subscribe("r", callback)
        insert(session, 1)
        stop()
        stop()
        insert(session, 2)
    assert heard.calls == [("both", [1])] * 2 + [("both", [2])]


def test_a_callback_may_close_the_session() -> None:
    heard = Heard()
    session = opened()
    session.subscribe("r", heard.by("a", lambda changes: session.close()))
    session.subscribe("r", heard.by("b"))
    assert insert(session, 1).changes["r"].inserted == [(1,)]
    assert heard.calls == [("a", [1]), ("b", [1])]
    with pytest.raises(livelog.UsageProblem, match="closed"):
        len(session["r"])


# --- what they get -------------------------------------------------------------------------------------------


def test_nobody_can_change_what_another_gets() -> None:
    with opened() as session:
        found: list[Any] = []

        def greedy(changes: Changes) -> None:
            found.append(changes.inserted)
            changes.inserted.clear()
            changes.deleted.append((99,))

        session.subscribe("r", greedy)
        session.subscribe("r", lambda changes: found.append((changes.inserted, changes.deleted)))
        tx = insert(session, 2, 1)
        assert found == [[(1,), (2,)], ([(1,), (2,)], [])]
        assert (tx.changes["r"].inserted, tx.changes["r"].deleted) == ([(1,), (2,)], [])
        for name in ("inserted", "deleted", "relation", "transaction", "clock", "other"):
            with pytest.raises(AttributeError):
                setattr(tx.changes["r"], name, None)
        for name in ("transaction", "clock"):
            with pytest.raises(AttributeError):
                setattr(tx.changes, name, None)


@pytest.mark.everywhere
def test_changes_have_the_number_and_the_clock() -> None:
    with opened(".decl e(x: number) ttl(10)\nr(x) :- e(x).", facts={"e": [(1,)]}) as session:
        told: list[tuple[int, float, int]] = []
        session.subscribe("r", lambda c: told.append((c.transaction, c.clock, len(c))))
        first = insert(session, 2).changes
        with session.transaction() as tx:
            tx.insert("e", (3,))
            tx.advance_to(4.5)
        assert session.initial["r"].transaction == session.initial.transaction < first.transaction
        assert first.transaction < tx.changes.transaction
        assert (first.clock, tx.changes.clock, tx.changes["r"].clock) == (0.0, 4.5, 4.5)
        assert told == [(first.transaction, 0.0, 1), (tx.changes.transaction, 4.5, 1)]


def test_transactions_are_numbered_from_one() -> None:
    with opened(facts={"e": [(1,)]}) as session:
        assert session.initial.transaction == 0
        assert [insert(session, i).changes.transaction for i in (1, 2, 3)] == [1, 2, 3]
        assert session.stats().transactions == 3


def test_over_spark_numbers_are_those_of_the_log(spark: Any) -> None:
    from livelog.runtime.spark.runtime import SparkRuntime

    told: list[int] = []
    with opened(runtime=livelog.Spark(spark, partitions=2)) as session:
        assert isinstance(session._runtime, SparkRuntime)
        session.subscribe("r", lambda changes: told.append(changes.transaction))
        log = session.load("e", spark.createDataFrame([(1,), (2,)], "x long"))
        assert log.transaction == session._runtime.journal.number and log["r"].inserted == [(1,), (2,)]
        session.checkpoint()
        assert insert(session, 3).changes.transaction == session._runtime.journal.number
        session.subscribe("r", failing(ValueError("boom")))
        with pytest.raises(livelog.SubscriberProblem, match=f"transaction {told[-1] + 1} stands"):
            session.load("e", spark.createDataFrame([(4,)], "x long"))
        assert len(session["r"]) == 4 and told == sorted(set(told)) and len(told) == 3


def test_changes_stay_as_they_were() -> None:
    """The changes of a base relation that nobody else looks at refer to its table until they are asked for."""
    for bag in ("", " bag"):
        with opened(f".decl e(x: number){bag}\n.output e\n.decl f(x: number)\nr(x) :- f(x).", facts={"e": [(1,)]}) as s:
            filled = s.initial
            s.load("e", [(2,)])
            with s.transaction() as tx:
                tx.delete_all("e", [(1,), (2,)])
            s.load("e", [(3,), (4,)])
            assert (filled["e"].inserted, tx.changes["e"].deleted) == ([(1,)], [(1,), (2,)])


# --- interrupts ----------------------------------------------------------------------------------------------


def test_an_interrupt_in_a_callback_is_raised_when_all_were_told() -> None:
    heard = Heard()
    with opened() as session:
        stop = session.subscribe("r", failing(KeyboardInterrupt()))
        session.subscribe("r", failing(ValueError("boom")))
        session.subscribe("r", heard.by("b"))
        tx = session.transaction()
        tx.insert("e", (1,))
        with pytest.raises(KeyboardInterrupt) as caught:
            tx.commit()
        assert isinstance(caught.value.__cause__, livelog.SubscriberProblem)
        assert heard.calls == [("b", [1])] and tx.changes["r"].inserted == [(1,)]
        stop()
        with pytest.raises(livelog.SubscriberProblem):
            insert(session, 2)
        assert heard.calls == [("b", [1]), ("b", [2])]


def test_a_second_interrupt_leaves_the_rest_to_the_next_delivery() -> None:
    heard = Heard()
    with opened() as session:
        stops = [session.subscribe("r", heard.by(name, failing(KeyboardInterrupt()))) for name in "ab"]
        session.subscribe("r", heard.by("c"))
        with pytest.raises(KeyboardInterrupt):
            insert(session, 1)
        assert heard.calls == [("a", [1]), ("b", [1])]
        for stop in stops:
            stop()
        insert(session, 2)
        assert heard.calls[2:] == [("c", [1]), ("c", [2])], "nothing is lost, and nothing told twice"


def test_what_is_left_is_told_after_a_transaction_that_changes_nothing() -> None:
    heard = Heard()
    with opened() as session:
        stops = [session.subscribe("r", failing(KeyboardInterrupt())) for _ in range(2)]
        session.subscribe("r", heard.by("c"))
        with pytest.raises(KeyboardInterrupt):
            insert(session, 1)
        for stop in stops:
            stop()
        insert(session)
        assert heard.calls == [("c", [1])]


def test_callbacks_that_go_on_for_ever_can_be_interrupted() -> None:
    calls: list[int] = []
    with opened() as session:

        def again(changes: Changes) -> None:
            calls.append(changes.transaction)
            insert(session, changes.transaction)
            if len(calls) == 50:
                raise KeyboardInterrupt

        stop = session.subscribe("r", again)
        with pytest.raises(KeyboardInterrupt):
            insert(session, 0)
        # what was queued when it came is told, and what that committed waits
        assert calls == list(range(1, 52)) and len(session["r"]) == 52
        stop()
        insert(session, -1)
        assert len(calls) == 51


# --- threads -------------------------------------------------------------------------------------------------


@pytest.mark.everywhere
def test_transactions_of_several_threads_are_told_in_their_order() -> None:
    numbers: list[int] = []
    rows: set[Any] = set()
    inside: list[int] = []
    overlaps: list[int] = []
    with opened() as session:

        def callback(changes: Changes) -> None:
            inside.append(1)
            overlaps.append(len(inside))
            numbers.append(changes.transaction)
            rows.update(changes.inserted)
            inside.pop()

        session.subscribe("r", callback)

        def write(base: int) -> None:
            for i in range(100):
                insert(session, base + i)

        threads = [threading.Thread(target=write, args=(1000 * i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert numbers == sorted(set(numbers)) and len(numbers) == 300 and set(overlaps) == {1}
        assert rows == set(session["r"])


def test_a_callback_may_wait_for_another_thread_that_commits() -> None:
    heard = Heard()
    with opened() as session:

        def hand_over(changes: Changes) -> None:
            if changes.transaction == 1:
                thread = threading.Thread(target=insert, args=(session, 2), daemon=True)
                thread.start()
                thread.join(20)
                assert not thread.is_alive(), "it waits for this one"
                assert len(session["r"]) == 2

        session.subscribe("r", heard.by("a", hand_over))
        session.subscribe("r", heard.by("b"))
        insert(session, 1)
        assert heard.calls == [("a", [1]), ("b", [1]), ("a", [2]), ("b", [2])]
