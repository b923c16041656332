"""Sessions over Spark: what a person can do with one, held against the local runtime, and how things go wrong there.

What programs mean there is tested by the tests that run everywhere (see `tests/conftest.py`).
"""

from __future__ import annotations

import _thread
import gc
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime.spark.slots import slots
from tests.cases import program_of
from tests.harness import METHODS, apply
from tests.oracle import Base, Operation, evaluate
from tests.runs import WAYS

Open = Callable[..., livelog.Session]

MIXED = """
.decl link(x: number, y: number)
.decl shut(x: number)
.decl cost(x: number, c: number) key(x)
reach(x, y) :- link(x, y), !shut(x).
reach(x, y) :- reach(x, z), reach(z, y).
degree(x, count<*>) :- reach(x, _).
bill(x, d * c) :- degree(x, d), cost(x, c).
total(sum<b>, max<b>) :- bill(_, b).
"""
REACH = "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."
DEEP: Any = (1, (2, (3, (4, (5, (6, (7, (8, (9, (10, (11, (12,))))))))))))


@pytest.fixture
def over(spark: Any) -> Iterator[Open]:
    """Opens a session over Spark on program text; closes it after the test."""
    sessions: list[livelog.Session] = []

    def open_(text: str, partitions: int = 3, facts: Any = None, **options: Any) -> livelog.Session:
        runtime = livelog.Spark(spark, partitions=partitions)
        sessions.append(livelog.open(datalog.parse(text), facts=facts, runtime=runtime, **options))
        return sessions[-1]

    yield open_
    for session in sessions:
        session.close()


def views(session: livelog.Session) -> dict[str, list[Any]]:
    return {name: list(session[name]) for name in session.views}


def changed(log: livelog.ChangeLog) -> dict[str, Any]:
    return {name: (list(change.inserted), list(change.deleted)) for name, change in log.items()}


# --- the same answers ----------------------------------------------------------------------------------------


def drawn(seed: Any) -> list[Operation]:
    """The operations of a transaction over `MIXED`."""
    rng = random.Random(str(seed))
    operations: list[Operation] = []
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        name, width = rng.choice((("link", 2), ("link", 2), ("link", 2), ("shut", 1), ("cost", 2)))
        row = tuple(rng.randrange(12) for _ in range(width))
        operations.append(("insert" if rng.random() < 0.6 else "delete", name, row))
    return operations


@pytest.mark.parametrize(("strategy", "ship"), METHODS)
def test_many_transactions_say_the_same_as_the_local_runtime(over: Open, strategy: str, ship: str | None) -> None:
    options = {"strategy": strategy, "ship": ship}
    there, here = over(MIXED, **options), livelog.open(datalog.parse(MIXED), **options)
    for step in range(12 if ship == "eager" else 40):
        logs = []
        for session in (there, here):
            with session.transaction() as tx:
                apply(tx, drawn((strategy, step)))
            logs.append(changed(tx.changes))
        assert logs[0] == logs[1], f"transaction {step}"
        assert views(there) == views(here), f"transaction {step}"
    there.check()
    stats = there.stats(), here.stats()
    for field in ("transactions", "ignored_inserts", "ignored_deletes"):
        assert getattr(stats[0], field) == getattr(stats[1], field), field


def test_values_arrive_as_they_are(over: Open) -> None:
    text = """
    .decl b(n: number, u: unsigned, f: float, s: symbol)
    r(n, u, f, s) :- b(n, u, f, s).
    low(n - 1) :- b(n, _, _, _), n > 9223372036854775806.
    """
    rows = [
        (2**63 - 1, 2**64 - 1, 1.7976931348623157e308, "é\x00\n\t\"'"),
        (-(2**63), 0, -0.0, ""),
        (0, 2**63, 5e-324, "\U0001f600" * 3),
    ]
    with over(text, facts={"b": rows}) as session:
        assert list(session["r"]) == sorted(rows) and list(session["b"]) == sorted(rows)
        assert [type(v) for v in next(iter(session["r"]))] == [int, int, float, str]
        assert all(row in session["r"] for row in rows) and (0, 0, 0.0, "") not in session["r"]
        assert list(session["low"]) == [(2**63 - 2,)]
        with session.transaction() as tx:
            tx.delete("b", rows[0])
        assert tx.changes["r"].deleted == rows[:1]


def test_lists_in_lists(over: Open) -> None:
    rows = [(DEEP,), ((),), ("x",), (1.5,), (1,)]
    with over("d(x, [x, x]) :- l(x).", facts={"l": rows}) as session:
        assert set(session["l"]) == set(rows)
        assert set(session["d"]) == {(x, (x, x)) for (x,) in rows} and (DEEP, (DEEP, DEEP)) in session["d"]
        assert session.load("l", [((DEEP, DEEP),)])["d"].inserted == [((DEEP, DEEP), ((DEEP, DEEP),) * 2)]
        with session.transaction() as tx:
            tx.delete("l", (DEEP,))
        assert tx.changes["d"].deleted == [(DEEP, (DEEP, DEEP))]
        assert session.why("d", ((), ((), ()))) == [("l", ((),))]
        session.check()


def test_anything_can_be_asked_for(over: Open) -> None:
    odd = [None, 2**70, -(2**70), "1", (1,), (None,), float("nan"), float("inf"), "\ud800", 0.5, b"1"]
    with over("r(x) :- b(x).", 2, {"b": [(1,)]}) as session:
        assert (1,) in session["r"] and (1.0,) in session["r"] and (True,) in session["r"]
        assert [value for value in odd if (value,) in session["r"]] == []
        assert (1, 2) not in session["r"] and 1 not in session["r"] and [1] not in session["r"]


@pytest.mark.parametrize("text", ["", ".decl e(x: number)", "r(x) :- e(x).", "r(1). s(x) :- r(x)."])
def test_next_to_nothing(over: Open, text: str) -> None:
    with over(text) as session:
        assert views(session) == views(livelog.open(datalog.parse(text)))
        with session.transaction():
            pass
        with session.transaction() as tx:
            tx.advance_to(3)
        assert session.clock == 3.0 and session.stats().transactions == 2
        session.check()


# --- functions -----------------------------------------------------------------------------------------------


def test_functions_and_aggregates_travel(over: Open) -> None:
    """Lambdas, closures, methods and classes of a module that the workers do not have under that name."""
    factor, table = 3, {"a": 1, "b": 2}

    class Scale:
        def __init__(self, by: int) -> None:
            self.by = by

        def times(self, x: int) -> int:
            return x * self.by

    def spread(values: list[int]) -> int:
        return max(values) - min(values) + factor - 3

    text = """
    .decl n(s: symbol, x: number)
    r(s, y) :- n(s, x), y = tripled(x) + number_of(s) + scaled(x).
    q(spread<y>) :- r(_, y).
    """
    with over(
        text, facts={"n": [("a", 1), ("b", 10), ("a", 5)]},
        functions={"tripled": lambda x: factor * x, "number_of": table.__getitem__, "scaled": Scale(10).times},
        aggregates={"spread": spread},
    ) as session:  # fmt: skip
        assert list(session["r"]) == [("a", 14), ("a", 66), ("b", 132)] and list(session["q"]) == [(118,)]
        assert session.load("n", [("b", 0)])["q"].inserted == [(130,)]


class Refused(Exception):
    """An error that only the tests know."""


def picky(x: int) -> int:
    if x == 13:
        raise Refused("not that one")
    return x


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_raises_fails_the_transaction(over: Open, way: str) -> None:
    text = "r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y), picky(y) > 0. n(count<*>) :- r(_, _)."
    facts = {"e": [(i, i + 1) for i in range(1, 10)]}
    with over(text, facts=facts, functions={"picky": picky}, **WAYS[way]) as session:
        before = views(session), list(session["e"])
        for _ in range(2):
            with pytest.raises(livelog.RuntimeProblem, match="Refused: not that one") as problem:
                session.load("e", [(9, 13), (20, 21)])
            told = str(problem.value)
            assert problem.value.rule == "r(x, y) :- r(x, z), e(z, y), picky(y) > 0."
            # `picky` is asked about bindings of the whole body
            assert re.search(r"at the tuples \(\d, 9\) and \(9, 13\)", told) and "rolled back" in told
            assert "Traceback" not in told and "py4j" not in told
            assert (views(session), list(session["e"])) == before
            session.check()
        assert session.load("e", [(10, 11)])["r"].inserted == [(i, 11) for i in range(1, 11)]
        assert session._runtime.generation == 1, "no worker was lost over it"


def test_the_tuple_may_be_nested_deeply(over: Open) -> None:
    with over("r(x, picky(n)) :- l(x, n).", facts={"l": [(DEEP, 1)]}, functions={"picky": picky}) as session:
        with pytest.raises(livelog.RuntimeProblem, match="Refused: not that one"):
            session.load("l", [(DEEP, 13)])
        assert list(session["r"]) == [(DEEP, 1)] and session._runtime.generation == 1
    with over("r(x) :- l(x). r([x]) :- r(x).", limit=60) as session:
        with pytest.raises(livelog.RuntimeProblem, match="no end") as problem:
            session.load("l", [((),)])
        assert problem.value.rule == "r([x]) :- r(x)."
        assert list(session["r"]) == [] and session._runtime.generation == 1


ODD: dict[str, Callable[[], BaseException]] = {
    "surrogates": lambda: ValueError("\ud800"),
    "long": lambda: ValueError("x" * 1_000_000),
    "two arguments": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    "group": lambda: ExceptionGroup("several", [ValueError("one"), ValueError("two")]),
    "chained": lambda: RuntimeError("outer"),
    "stop": lambda: StopIteration(3),
}


def test_whatever_is_raised_can_be_told(over: Open) -> None:
    def odd(kind: str) -> int:
        if kind == "fine":
            return 1
        raise ODD[kind]() from (KeyError("inner") if kind == "chained" else None)

    with over("r(odd(k)) :- b(k).", facts={"b": [("fine",)]}, functions={"odd": odd}) as session:
        for kind in ODD:
            with pytest.raises(livelog.RuntimeProblem) as problem:
                session.load("b", [(kind,)])
            assert "at the tuple" in str(problem.value), kind
            assert problem.value.rule == "r(odd(k)) :- b(k).", kind
        assert list(session["r"]) == [(1,)] and session._runtime.generation == 1


def test_a_function_that_leaves_is_as_good_as_a_dead_worker(over: Open) -> None:
    def leave(x: int) -> int:
        if x == 13:
            raise SystemExit(3)
        return x

    with over("r(leave(x)) :- b(x).", facts={"b": [(1,)]}, partitions=2, functions={"leave": leave}) as session:
        with pytest.raises(livelog.RuntimeProblem):
            session.load("b", [(13,)])
        assert list(session["r"]) == [(1,)]
        assert session.load("b", [(2,)])["r"].inserted == [(2,)]


def test_a_function_that_cannot_travel_says_so(over: Open) -> None:
    lock = threading.Lock()

    def held(x: int) -> int:
        with lock:
            return x

    with pytest.raises(livelog.LivelogError) as problem:
        over("r(held(x)) :- b(x).", facts={"b": [(1,)]}, functions={"held": held})
    assert "held" in str(problem.value)


# --- slots ---------------------------------------------------------------------------------------------------


def test_more_partitions_than_slots(over: Open) -> None:
    with pytest.raises(livelog.UsageProblem, match=r"needs 5 task slots, and Spark has 4: .*local\[5\]"):
        over("r(x) :- e(x).", partitions=5)


def test_two_sessions_that_do_not_fit_together(over: Open) -> None:
    with over("r(x) :- e(x).", facts={"e": [(1,)]}):
        started = time.monotonic()
        with pytest.raises(livelog.UsageProblem, match="other sessions hold 3"):
            over("r(x) :- e(x).", partitions=2)
        assert time.monotonic() - started < 20
    with over("r(x) :- e(x).", partitions=4):
        pass


def test_a_closed_session_gives_its_slots_back(over: Open, spark: Any) -> None:
    for i in range(5):
        with over(REACH, 4, facts={"e": [(i, i + 1)]}) as session:
            assert list(session["r"]) == [(i, i + 1)]
        with pytest.raises(livelog.RuntimeProblem, match="division by zero"):  # so does one that never opened
            over("r(1 / x) :- e(x).", 4, facts={"e": [(0,)]})
    assert slots(spark) == 4
    assert spark.sparkContext.parallelize(range(8), 4).map(lambda x: x * x).sum() == 140


def test_a_forgotten_session_gives_them_back_too(over: Open, spark: Any) -> None:
    for _ in range(2):
        session = livelog.open(datalog.parse(REACH), runtime=livelog.Spark(spark, partitions=3))
        assert list(session["r"]) == []
        del session
        gc.collect()


def test_what_is_no_spark(spark: Any) -> None:
    program = datalog.parse(REACH)
    wrong: list[Callable[[], Any]] = [
        lambda: livelog.open(program, runtime=spark),
        lambda: livelog.open(program, runtime=livelog.Spark("local[4]")),  # type: ignore[arg-type]
        lambda: livelog.open(program, runtime=livelog.Spark(spark, partitions="2")),  # type: ignore[arg-type]
        lambda: livelog.open(program, runtime=livelog.Spark(spark, partitions=0)),
        lambda: livelog.open(program, runtime=livelog.Spark(spark, partitions=2), partitions=3),
    ]
    for act in wrong:
        with pytest.raises(livelog.UsageProblem) as problem:
            act()
        assert "\n" not in problem.value.message


def test_two_sessions_at_once(over: Open) -> None:
    with over(REACH, 2, {"e": [(1, 2)]}) as one, over("s(sum<x>) :- e(x, _).", 2, {"e": [(5, 0)]}) as other:
        for i in range(2, 10):
            assert one.load("e", [(i, i + 1)])["r"].inserted == [(j, i + 1) for j in range(1, i + 1)]
            assert other.load("e", [(1, i)])["s"].inserted == [(5 + i - 1,)]
        one.close()
        assert list(other["s"]) == [(13,)]
        with pytest.raises(livelog.UsageProblem, match="closed"):
            one.load("e", [(1, 2)])
        assert len(other["e"]) == 9


# --- interrupts and threads ----------------------------------------------------------------------------------


def interrupting(session: livelog.Session, rows: list[Any], here: Path, go: Path) -> None:
    """Load rows whose function waits for a file, and be interrupted meanwhile."""

    def strike() -> None:
        while not here.exists():
            time.sleep(0.01)
        go.touch()  # it ends soon; who was interrupted does not wait for it before
        _thread.interrupt_main()

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, shells have it ignored
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.load("e", rows)
            time.sleep(5)  # should it be over before it strikes
            raise AssertionError("nothing struck")
    finally:
        here.touch()
        thread.join()
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("way", ["absorption-demand", "relative-lazy", "dred", "recompute"])
def test_ctrl_c_rolls_back(over: Open, way: str, tmp_path: Path) -> None:
    here, go = tmp_path / "here", tmp_path / "go"

    def wait(x: int) -> int:
        if x == 13:
            here.touch()
            deadline = time.monotonic() + 20
            while not go.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)
        return x

    text = "r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y), wait(y) > 0. n(count<*>) :- r(_, _)."
    facts = {"e": [(i, i + 1) for i in range(1, 9)]}
    with over(text, facts=facts, functions={"wait": wait}, **WAYS[way]) as session:
        before = views(session)
        interrupting(session, [(9, 13), (13, 14)], here, go)
        assert views(session) == before and session.stats().transactions == 0
        session.check()
        assert len(session.load("e", [(9, 13), (13, 14)])["r"].inserted) == 10 + 9


def test_ctrl_c_at_any_time(over: Open) -> None:
    """Wherever it strikes, a transaction has happened as a whole or not at all, and the session goes on."""
    rng = random.Random(1)
    program = program_of(MIXED)
    base = Base(program)
    base.load({"link": [(i, (i * 7 + 3) % 12) for i in range(12)]})
    session = over(MIXED, facts={name: list(rows) for name, rows in base.facts().items()})
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    struck = step = 0
    try:
        while struck < 4 and step < 100:
            step += 1
            after = base.copy()
            tx = session.transaction()
            operations = drawn(("interrupts", step))
            apply(tx, operations)
            after.apply(operations)
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, 0.01))
                tx.commit()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                struck += 1
                found = {name: dict.fromkeys(session[name], 1) for name in program.base}
                if found == base.facts():
                    after = base
                assert found == after.facts(), f"a part of {operations} in step {step}"
            base = after
            expected = evaluate(program, base.facts())
            assert {name: set(rows) for name, rows in views(session).items()} == {
                name: expected[name] for name in session.views
            }, f"step {step}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert struck, "every transaction was over before it struck"
    session.check()


def test_threads_share_a_session(over: Open) -> None:
    """Two write, three by three; others read, and never see a part of a transaction."""
    errors: list[BaseException] = []
    counts: set[int] = set()
    over_ = threading.Event()
    with over(REACH + " n(count<*>) :- r(_, _).") as session:

        def write(base: int) -> None:
            for i in range(25):
                k = base + 10 * i
                session.load("e", [(k, k + 1), (k + 2, k + 3), (k + 4, k + 5)])

        def read() -> None:
            while not over_.is_set():
                counts.add(len(session["r"]))
                counts.add(len(list(session["e"])))
                session.stats()
                assert (10, 11) not in session["r"] or (12, 13) in session["r"]

        def guarded(act: Callable[..., None], *arguments: Any) -> None:
            try:
                act(*arguments)
            except BaseException as error:
                errors.append(error)

        writers = [threading.Thread(target=guarded, args=(write, base)) for base in (0, 10_000)]
        readers = [threading.Thread(target=guarded, args=(read,)) for _ in range(2)]
        for thread in (*writers, *readers):
            thread.start()
        for thread in writers:
            thread.join(60)
        over_.set()
        for thread in readers:
            thread.join(60)
        assert not errors, errors
        assert not any(thread.is_alive() for thread in (*writers, *readers))
        assert len(session["r"]) == 150 and all(count % 3 == 0 for count in counts)
        assert len(counts) > 2
        session.check()


# --- figures -------------------------------------------------------------------------------------------------


def test_figures_by_partition(over: Open) -> None:
    rng = random.Random(2)
    links = sorted({(rng.randrange(60), rng.randrange(60)) for _ in range(150)})
    largest = []
    for partitions in (1, 2, 4):
        with over(REACH, partitions, {"e": links}) as session:
            stats = session.stats()
            assert [p.partition for p in stats.partitions] == list(range(partitions))
            assert all(p.bytes_shipped > 0 for p in stats.partitions) == (partitions > 1)
            assert session.bytes_shipped == tuple(p.bytes_shipped for p in stats.partitions)
            assert session.frames_shipped == tuple(p.frames_shipped for p in stats.partitions)
            largest.append(max(p.state_bytes for p in stats.partitions))
            shipped = stats.bytes_shipped
            with session.transaction() as tx:
                for row in links[:20]:
                    tx.delete("e", row)
            assert (session.stats().bytes_shipped > shipped) == (partitions > 1)
    assert largest[0] > 1.15 * largest[1] > 1.15**2 * largest[2], largest


def test_subscribers_hear_what_transactions_tell(over: Open) -> None:
    heard: list[Any] = []
    with over(REACH) as session:
        stop = session.subscribe("r", lambda change: heard.append((list(change.inserted), list(change.deleted))))
        for rows in ([(1, 2)], [(2, 3)], [(1, 2)]):
            session.load("e", rows)
        stop()
        session.load("e", [(5, 6)])
    assert heard == [([(1, 2)], []), ([(1, 3), (2, 3)], [])]
