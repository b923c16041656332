"""Several threads use a session: whoever reads sees the state after some transaction, and never a part of one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import datalog
import livelog

ACCOUNTS = """
.decl account(id: number, amount: number) key(id)
.decl mark(x: number, y: number)
total(sum<a>) :- account(_, a).
rich(id) :- account(id, a), a > 100.
linked(x, y) :- mark(x, y).
linked(x, y) :- mark(x, z), linked(z, y).
"""
N = 60
FACTS = {"account": [(i, 100) for i in range(N)], "mark": [(0, 1), (1, 2)]}
WAYS: dict[str, dict[str, Any]] = {
    "one": {},
    "two partitions": {"partitions": 2},
    "dred": {"strategy": "dred", "partitions": 2},
    "relative": {"strategy": "relative"},
    "recompute": {"strategy": "recompute"},
}


def together(*tasks: Callable[[threading.Event], None]) -> None:
    """Run tasks in a thread each; the first one's end is told to the others. Raises what one of them raised."""
    over = threading.Event()
    errors: list[BaseException] = []

    def guarded(task: Callable[[threading.Event], None], last: bool) -> None:
        try:
            task(over)
        except BaseException as error:
            errors.append(error)
            over.set()
        finally:
            if last:
                over.set()

    threads = [threading.Thread(target=guarded, args=(t, i == 0), daemon=True) for i, t in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("way", WAYS)
def test_readers_see_committed_states_only(way: str) -> None:
    """Money moves between accounts, and a chain grows and shrinks by two links: totals stay, lengths stay odd."""
    rng = random.Random(way)
    looks: list[int] = []
    transactions = 40 if way == "recompute" else 200
    with livelog.open(datalog.parse(ACCOUNTS), facts=FACTS, **WAYS[way]) as session:

        def write(over: threading.Event) -> None:
            amounts, length = dict.fromkeys(range(N), 100), 2
            for _ in range(transactions):
                with session.transaction() as tx:
                    for _ in range(30):
                        a, b, amount = rng.randrange(N), rng.randrange(N), rng.randrange(50)
                        amounts[a] -= amount
                        amounts[b] += amount
                        for account in (a, b):
                            tx.insert("account", (account, amounts[account]))
                    change = tx.insert if length < 4 or (length < 20 and rng.random() < 0.5) else tx.delete
                    start = length if change == tx.insert else length - 2
                    for i in (0, 1):
                        change("mark", (start + i, start + i + 1))
                    length = start + 2 if change == tx.insert else start

        def read(over: threading.Event) -> None:
            totals, accounts, linked = session["total"], session["account"], session["linked"]
            before = 0
            while not over.is_set():
                assert list(totals) == [(100 * N,)] and (100 * N,) in totals
                assert sum(a for _, a in accounts) == 100 * N and len(accounts) == N
                assert accounts.to_arrow().num_rows == N
                for count in (len(linked), len(list(linked))):  # n links in a chain make n * (n + 1) / 2 pairs
                    links = round((8 * count + 1) ** 0.5 - 1) // 2
                    assert links * (links + 1) == 2 * count and links % 2 == 0
                assert session.why("linked", (0, 2)) == [("mark", (0, 1)), ("mark", (1, 2))]
                now = session.stats().transactions
                assert before <= now
                before = now
                looks.append(now)
                assert session.clock == 0.0

        together(write, read, read)
        session.check()
    assert looks, "nobody has looked"


@pytest.mark.parametrize("partitions", [1, 2])
def test_what_is_rolled_back_was_never_there(partitions: int) -> None:
    """While a transaction is evaluated that is going to fail, another thread looks for what it brings."""
    seen: list[Any] = []

    def look() -> None:
        view = session["e"]
        seen.extend([len(view), list(view), (7,) in view, view.to_pandas().shape[0], session.clock])

    readers = [threading.Thread(target=look, daemon=True) for _ in range(2)]

    def fail(x: int) -> int:
        if x == 7:
            for reader in readers:
                if reader.ident is None:  # it is asked again, before the transaction is given up
                    reader.start()
                    reader.join(0.1)
            raise ValueError("not this one")
        return x

    text = ".decl e(x: number) ttl(100)\nr(y) :- e(x), y = fail(x)."
    facts = {"e": [(1,)]}
    with livelog.open(datalog.parse(text), facts=facts, functions={"fail": fail}, partitions=partitions) as session:
        with pytest.raises(livelog.RuntimeProblem, match="not this one"), session.transaction() as tx:
            tx.advance_to(5)
            tx.insert("e", (7,))
        for reader in readers:
            reader.join(20)
    assert seen == [1, [(1,)], False, 1, 0.0] * 2


def test_reading_a_pruned_view_while_others_commit() -> None:
    """It is evaluated aside, from facts that must be of one state."""
    text = """
    path(x, y, c) :- link(x, y, c).
    path(x, y, c + d) :- link(x, z, c), path(z, y, d), c + d < 12.
    best(x, y, min<c>) :- path(x, y, c).
    """
    with livelog.open(datalog.parse(text), facts={"link": [(0, 1, 1), (1, 2, 1)]}) as session:
        assert "path" in session.plan.pruned

        def write(over: threading.Event) -> None:
            for i in range(60):
                with session.transaction() as tx:
                    change = tx.insert if i % 2 == 0 else tx.delete
                    for k in range(2, 8):
                        change("link", (k, k + 1, 1))

        def read(over: threading.Event) -> None:
            while not over.is_set():
                assert len(list(session["path"])) in (3, 36)
                assert (0, 8, 8) not in session["path"] or len(session["path"]) in (3, 36)

        together(write, read)


def test_a_reader_is_not_disturbed_in_the_middle() -> None:
    with livelog.open(datalog.parse("r(x) :- e(x)."), facts={"e": [(1,), (2,)]}) as session:
        rows = iter(session["r"])
        assert next(rows) == (1,)
        session.load("e", [(0,), (3,)])
        assert list(rows) == [(2,)]


def test_closing_waits_for_the_commit_under_way() -> None:
    """What has begun goes to its end, and what comes later finds the session closed."""
    entered, go = threading.Event(), threading.Event()

    def slow(x: int) -> int:
        if x == 7:
            entered.set()
            assert go.wait(20)
        return x

    session = livelog.open(datalog.parse("r(y) :- e(x), y = slow(x)."), functions={"slow": slow})
    view = session["r"]
    closing = threading.Thread(target=session.close, daemon=True)

    def write(over: threading.Event) -> None:
        with session.transaction() as tx:
            tx.insert("e", (7,))
        assert tx.changes["r"].inserted == [(7,)]

    def close(over: threading.Event) -> None:
        assert entered.wait(20)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        go.set()
        closing.join(20)

    together(write, close)
    for use in (lambda: len(view), lambda: list(view), lambda: (7,) in view, lambda: session.load("e", [(1,)])):
        with pytest.raises(livelog.UsageProblem, match="the session is closed"):
            use()


def test_readers_find_a_session_open_or_closed() -> None:
    """Never empty, as one that is being taken apart would be."""
    for _ in range(20):
        session = livelog.open(datalog.parse("r(x) :- e(x)."), facts={"e": [(i,) for i in range(500)]})
        view = session["r"]
        started = threading.Event()

        def close(over: threading.Event, session: Any = session, started: Any = started) -> None:
            assert started.wait(20)
            session.close()

        def read(over: threading.Event, view: Any = view, started: Any = started) -> None:
            with pytest.raises(livelog.UsageProblem, match="the session is closed"):
                while True:
                    assert len(list(view)) == len(view) == 500
                    started.set()

        together(close, read, read)


def test_several_threads_sort_the_same_changes() -> None:
    rng = random.Random(3)
    with livelog.open(datalog.parse("r(x) :- e(x).")) as session:
        for _ in range(20):
            rows = [(rng.randrange(10**9),) for _ in range(2000)]
            changes = session.load("e", rows)

            def read(over: threading.Event, changes: Any = changes) -> None:
                assert changes["r"].inserted == sorted(set(changes["r"].inserted))

            together(read, read, read)
            with session.transaction() as tx:
                tx.delete_all("e", rows)
