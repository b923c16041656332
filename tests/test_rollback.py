"""All or nothing: whatever fails in a transaction, and wherever, the session is as it was, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime.worker import Worker
from tests.cases import program_of
from tests.harness import METHODS
from tests.oracle import evaluate
from tests.runs import WAYS

# Three strata: a recursion, a negation over it, and an aggregate whose rule divides. Errors come from any of them.
TEXT = """
.decl link(x: number, y: number)
.decl node(x: number) ttl(10)
.decl share(x: number, n: number) key(x)
.decl lone(x: number)
reach(x, y) :- link(x, y), 10 / (x + 1) >= 0.
reach(x, y) :- reach(x, z), reach(z, y).
lone(x) :- node(x), !reach(x, _).
degree(x, count<*>) :- reach(x, _).
load(x, total / n) :- degree(x, total), share(x, n).
heavy(sum<v>) :- load(_, v).
"""
FACTS: dict[str, list[tuple[int, ...]]] = {
    "link": [(1, 2), (2, 3), (3, 1), (4, 5)],
    "node": [(1,), (4,), (6,)],
    "share": [(1, 2), (4, 1)],
}
LARGEST = 2**63 - 1
FAILURES: dict[str, Callable[[Any], None]] = {
    "first stratum": lambda tx: tx.insert("link", (-1, 1)),
    "last but one": lambda tx: tx.insert("share", (3, 0)),
    "by an update": lambda tx: tx.insert("share", (1, 0)),
    "by a deletion": lambda tx: (tx.insert("share", (9, 0)), tx.insert("link", (9, 9)), tx.delete("link", (1, 2))),
}
CONFIGURATIONS = [
    {"strategy": strategy, "ship": ship, "partitions": partitions}
    for strategy, ship in METHODS
    for partitions in (1, 3)
]


INCREMENTAL = [way for way in WAYS if way != "recompute"]


def views(session: Any) -> dict[str, list[Any]]:
    return {name: list(session[name]) for name in session.views}


def everything(session: Any) -> Any:
    """What a person can see of a session, less the bytes and seconds that a failed attempt costs."""
    stats = session.stats()
    return (
        views(session), {name: list(session[name]) for name in FACTS}, session.clock, stats.transactions,
        stats.ignored_inserts, stats.ignored_deletes, stats.tuples, stats.variables,
    )


def expected(session: Any, facts: dict[str, set[tuple[int, ...]]]) -> dict[str, list[Any]]:
    found = evaluate(program_of(TEXT), facts)
    return {name: sorted(found[name]) for name in session.views}


def name_of(configuration: dict[str, Any]) -> str:
    return "-".join(str(v) for v in configuration.values())


@pytest.mark.everywhere(spark=8, cluster=2)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=name_of)
def test_a_failed_transaction_leaves_nothing_behind(configuration: dict[str, Any], failure: str) -> None:
    with livelog.open(program_of(TEXT), facts=FACTS, seed=3, **configuration) as session:
        with session.transaction() as tx:
            tx.advance_to(4.0)
            tx.insert("node", (1,))  # expires at 14, the others at 10
        before = everything(session)
        published: list[Any] = []
        session.subscribe("reach", published.append)
        with pytest.raises(livelog.RuntimeProblem, match="division by zero") as problem, session.transaction() as tx:
            tx.insert("link", (3, 4))
            tx.delete("link", (2, 3))
            tx.insert("node", (77,))
            tx.insert("node", (77,))
            tx.delete("node", (78,))
            tx.advance_to(11.0)
            FAILURES[failure](tx)
        assert problem.value.rule and "rolled back" in str(problem.value)
        assert everything(session) == before and not published
        session.check()
        with pytest.raises(livelog.UsageProblem):
            _ = tx.changes
        # and on as if nothing had happened, expirations included
        facts = {name: set(rows) for name, rows in FACTS.items()}
        with session.transaction() as tx:
            tx.insert("link", (3, 4))
            tx.delete("link", (2, 3))
            tx.advance_to(11.0)
        facts["link"] = {(1, 2), (3, 1), (4, 5), (3, 4)}
        facts["node"] = {(1,)}
        want = expected(session, facts)
        assert views(session) == want
        for name, rows in before[0].items():
            assert tx.changes[name].inserted == sorted(set(want[name]) - set(rows))
            assert tx.changes[name].deleted == sorted(set(rows) - set(want[name]))
        session.check()
        assert len(published) == 1


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=name_of)
def test_failures_again_and_again(configuration: dict[str, Any]) -> None:
    with livelog.open(program_of(TEXT), facts=FACTS, **configuration) as session:
        before = everything(session)
        for _ in range(2):
            for failure in FAILURES.values():
                with pytest.raises(livelog.RuntimeProblem), session.transaction() as tx:
                    failure(tx)
        assert everything(session) == before
        session.check()


@pytest.mark.everywhere(spark=1, cluster=1)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_load_that_fails(partitions: int) -> None:
    with pytest.raises(livelog.RuntimeProblem, match="division by zero"):
        livelog.open(program_of(TEXT), facts={**FACTS, "share": [(1, 0)]}, partitions=partitions)


# --- Python functions ----------------------------------------------------------------------------------------

CALLS = """
.decl link(x: number, y: number)
reach(x, y) :- link(x, y).
reach(x, y) :- link(x, z), reach(z, y), ask(x) > 0.
big(x, count<*>) :- reach(x, _), ask(x) > 0.
"""


class Oracle:
    """A function that raises what it is told to, a given number of times."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.times = 0

    def __call__(self, x: int) -> int:
        if self.error is not None and self.times:
            self.times -= 1
            raise self.error
        return 1


class Service:
    """A function that fails while there is a file with something in it, wherever the function runs."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "down"

    def __call__(self, x: int) -> int:
        if self._file.exists():
            raise ConnectionError(self._file.read_text())
        return 1

    def down(self, why: str) -> None:
        self._file.write_text(why)

    def up(self) -> None:
        self._file.unlink()


def asking(ask: Callable[[int], int], partitions: int, **options: Any) -> Any:
    links = [(i, i + 1) for i in range(5)]
    return livelog.open(
        datalog.parse(CALLS), facts={"link": links}, functions={"ask": ask}, partitions=partitions, **options
    )


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("way", INCREMENTAL)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), MemoryError()], ids=lambda e: type(e).__name__)
def test_interrupts_roll_back(error: BaseException, way: str, partitions: int) -> None:
    oracle = Oracle()
    session = asking(oracle, partitions, **WAYS[way])
    before = views(session)
    for change in ("insert", "delete"):
        # a failing rule gets a second try with the new facts, an interrupt does not
        oracle.error, oracle.times = error, 1 if not isinstance(error, Exception) else 10**6
        wanted = type(error) if not isinstance(error, Exception) else livelog.RuntimeProblem
        with pytest.raises(wanted), session.transaction() as tx:
            getattr(tx, change)("link", (2, 3) if change == "delete" else (5, 0))
        oracle.times = 0
        assert views(session) == before
        session.check()
    session.load("link", [(5, 0)])
    assert len(session["reach"]) == 36


@pytest.mark.everywhere(spark=7, cluster=1)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_fails_for_a_while(way: str, partitions: int, tmp_path: Path) -> None:
    """Even the way back needs it: until it answers again there is an error, and never a wrong view."""
    service = Service(tmp_path)
    session = asking(service, partitions, **WAYS[way])
    before = views(session)
    service.down("no answer")
    for _ in range(2):
        with pytest.raises(livelog.RuntimeProblem, match="no answer"):
            session.load("link", [(5, 6)])
        with pytest.raises(livelog.RuntimeProblem, match="no answer"):
            list(session["reach"])
    service.up()
    assert views(session) == before
    session.check()
    assert session.load("link", [(5, 6)])["reach"].inserted == [(i, 6) for i in range(6)]


@pytest.mark.everywhere(spark=6)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("way", INCREMENTAL)
def test_an_error_while_a_death_is_followed_names_the_rule(way: str, partitions: int, tmp_path: Path) -> None:
    service = Service(tmp_path)
    session = asking(service, partitions, **WAYS[way])
    before = views(session)
    service.down("out of order")
    with pytest.raises(livelog.RuntimeProblem, match="out of order") as problem, session.transaction() as tx:
        tx.delete("link", (2, 3))
    assert problem.value.rule and "ask(x)" in problem.value.rule
    service.up()
    assert views(session) == before


@pytest.mark.everywhere
def test_an_exception_inside_the_block_changes_nothing() -> None:
    session = asking(Oracle(), 1)
    before = views(session)
    with pytest.raises(ZeroDivisionError), session.transaction() as tx:
        tx.insert("link", (5, 6))
        _ = 1 // 0
    assert views(session) == before
    with pytest.raises(livelog.UsageProblem):
        tx.insert("link", (5, 6))


# --- interrupts of what should not be interrupted ------------------------------------------------------------


def struck(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, at: int, times: int = 1) -> None:
    """Let a method be interrupted instead of called, at its call of that number and the next ones."""
    real, calls = getattr(owner, name), 0

    def method(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if at <= calls < at + times:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(owner, name, method)


LINKS = [(i, i + 1) for i in range(5)]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("at", [1, 2])
def test_an_interrupt_between_the_commits_of_partitions(
    monkeypatch: pytest.MonkeyPatch, at: int, times: int
) -> None:
    """Everything is evaluated: the commit goes to its end, by this transaction or by whoever comes next."""
    session = asking(Oracle(), 2)
    told: list[Any] = []
    session.subscribe("reach", told.append)
    struck(monkeypatch, Worker, "commit", at, times)
    with pytest.raises(KeyboardInterrupt), session.transaction() as tx:
        tx.insert("link", (5, 6))
    assert tx.changes["reach"].inserted == [(i, 6) for i in range(6)] == told[0].inserted
    if times == 3:  # the commit, its completion, and the first look
        with pytest.raises(KeyboardInterrupt):
            list(session["reach"])
    assert len(session["reach"]) == 21 and session.stats().transactions == 1
    session.check()
    assert session.load("link", [(6, 7)])["reach"].inserted == [(i, 7) for i in range(7)]


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", ["apply", "rollback", "renewed", "start_over", "begin", "finish"])
def test_a_second_interrupt_in_the_rollback(
    monkeypatch: pytest.MonkeyPatch, step: str, way: str, partitions: int
) -> None:
    oracle = Oracle()
    session = asking(oracle, partitions, **WAYS[way])
    before = views(session)
    with monkeypatch.context() as patch:
        struck(patch, Worker, "changes" if way != "recompute" else "differences", partitions)
        struck(patch, Worker, step, 1 + partitions * (step in ("apply", "begin", "finish")), 2)
        with pytest.raises(KeyboardInterrupt), session.transaction() as tx:
            tx.insert("link", (5, 6))
            tx.delete("link", (1, 2))
        with pytest.raises(livelog.UsageProblem):
            _ = tx.changes
    assert views(session) == before and list(session["link"]) == LINKS and session.stats().transactions == 0
    session.check()
    assert session.load("link", [(5, 6)])["reach"].inserted == [(i, 6) for i in range(6)]


def test_a_rule_cannot_look_at_its_own_session() -> None:
    """What it would see is neither before the transaction nor after it."""
    asked: list[str] = []

    def ask(x: int) -> int:
        if session is not None and x > 4:
            for look in (lambda: len(session["reach"]), lambda: session.load("link", [(7, 8)]), lambda: session.clock):
                with pytest.raises(livelog.UsageProblem, match="in the middle of a transaction") as problem:
                    look()
                asked.append(str(problem.value))
        return 1

    session: Any = None
    session = asking(ask, 1)
    session.load("link", [(5, 6), (6, 7)])
    assert asked and len(session["reach"]) == 28
    session.check()


# --- errors that are none ------------------------------------------------------------------------------------

PASSING: dict[str, tuple[str, dict[str, list[Any]], list[tuple[Any, ...]], str, list[Any]]] = {
    "join": (
        "h(x, y, z) :- l(x), r(y), z = x / y.",
        {"r": [(0,)], "l": []},
        [("delete", "r", (0,)), ("insert", "r", (2,)), ("insert", "l", (10,))],
        "h", [(10, 2, 5)],
    ),
    "sum": (
        ".decl q(x: number)\n.decl big(k: number, v: number) partition(v)\nh(x, s) :- q(x), s = sum v : { big(x, v) }.",
        {"q": [(1,)], "big": [(1, LARGEST)]},
        [("delete", "big", (1, LARGEST)), ("insert", "big", (1, LARGEST - 1)), ("insert", "big", (1, 1))],
        "h", [(1, LARGEST)],
    ),
    "recursion": (
        """.decl a(x: number, w: number) partition(w)
        .decl e(x: number, y: number)
        p(x, y) :- a(x, y).
        p(x, y) :- p(z, w), e(z, x), y = 100 / w.""",
        {"a": [(1, 0), (1, 9)], "e": []},
        [("delete", "a", (1, 0)), ("insert", "e", (1, 2)), ("insert", "a", (1, 3))],
        "p", [(1, 3), (1, 9), (2, 11), (2, 33)],
    ),
    "sum in a recursion": (
        """.decl q(x: number)
        .decl big(k: number, v: number) partition(v)
        p(x, y) :- q(x), y = 0.
        p(x, y) :- p(z, y), x = z + 1, x < 6, s = sum v : { big(z, v) }, 100 / s > 0.""",
        {"q": [(1,)], "big": [(i, i * i + 3) for i in range(1, 7)]},
        [("delete", "big", (2, 7)), ("insert", "big", (2, 6))],
        "p", [(i, 0) for i in range(1, 6)],
    ),
}  # fmt: skip


@pytest.mark.everywhere(spark=4)
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PASSING)
def test_tuples_that_are_never_there_together_cannot_fail(name: str, way: str, partitions: int) -> None:
    """A new tuple may meet one that the same transaction takes away: what they give is nobody's business."""
    text, facts, operations, view, want = PASSING[name]
    program = program_of(text if "l(" not in text else ".decl l(x: number)\n.decl r(x: number)\n" + text)
    for seed in (None, 1, 2):
        with livelog.open(program, facts=facts, partitions=partitions, seed=seed, **WAYS[way]) as session:
            before = set(session[view])
            with session.transaction() as tx:
                for operation, relation, row in operations:
                    getattr(tx, operation)(relation, row)
            assert list(session[view]) == want
            assert tx.changes[view].inserted == sorted(set(want) - before)
            assert tx.changes[view].deleted == sorted(before - set(want))
            session.check()


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_lost_tuple_is_not_found_where_it_cannot_be_derived(way: str, partitions: int) -> None:
    """A number meets a float: the head holds both, and a search must not take two that differ for a pair."""
    text = """
    .decl l(x: number)
    .decl r(y: float)
    .decl a(x: number, y: float)
    .decl c(x: number, y: number)
    .decl p(x: number, y: float)
    p(x, y) :- a(x, y).
    p(x, y) :- l(x), r(y), x = y.
    p(z, y) :- p(x, y), c(x, z).
    """
    facts = {"a": [(1, 2.0), (3, 3.0)], "l": [(1,), (3,)], "r": [(2.0,), (3.0,)], "c": [(5, 6)]}
    with livelog.open(program_of(text), facts=facts, partitions=partitions, **WAYS[way]) as session:
        with session.transaction() as tx:
            tx.delete("a", (1, 2.0))
            tx.delete("a", (3, 3.0))
        assert list(session["p"]) == [(3, 3.0)]
        assert session.why("p", (3, 3.0)) == [("l", (3,)), ("r", (3.0,))]


# --- limits --------------------------------------------------------------------------------------------------

COUNTER = """
.decl start(p: number, x: number)
.decl n(p: number, x: number)
n(p, x) :- start(p, x).
n(1 - p, x + 1) :- n(p, x), x < 3000.
"""


@pytest.mark.everywhere(spark=3, cluster=1)
@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_the_limit_counts_what_others_own(way: str, partitions: int) -> None:
    with livelog.open(program_of(COUNTER), partitions=partitions, limit=500, **WAYS[way]) as session:
        with pytest.raises(livelog.RuntimeProblem, match="no end") as problem:
            session.load("start", [(0, 0)])
        assert problem.value.rule == "n(1 - p, x + 1) :- n(p, x), x < 3000."
        assert list(session["n"]) == []
        assert len(session.load("start", [(0, 2990)])["n"].inserted) == 11


@pytest.mark.everywhere(spark=3)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("way", INCREMENTAL)
def test_a_rollback_is_not_held_to_the_limit(way: str, partitions: int) -> None:
    """The state grew past it in steps; it was evaluated before, so it has an end."""
    text = """.decl e(x: number, y: number)
    r(x, y) :- e(x, y).
    r(x, y) :- e(x, z), r(z, y), 100 / x > 0 - 1000."""
    with livelog.open(program_of(text), limit=100, partitions=partitions, **WAYS[way]) as session:
        for base in (1, 101, 201):
            session.load("e", [(base + i, base + i + 1) for i in range(12)])
        assert len(session["r"]) == 3 * 78
        with pytest.raises(livelog.RuntimeProblem, match="division by zero"):
            session.load("e", [(0, 1)])
        assert len(session["r"]) == 3 * 78
        assert session.load("e", [(300, 301)])["r"].inserted == [(300, 301)]
        with pytest.raises(livelog.RuntimeProblem, match="no end"):
            session.load("e", [(i, i + 1) for i in range(400, 440)])
        assert len(session["r"]) == 3 * 78 + 1


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("strategy", ["absorption", "relative", "dred", "recompute"])
def test_changes_after_a_relation_outgrew_its_limit(strategy: str) -> None:
    text = ".decl e(x: number)\n.decl r(x: number)\n.output r\n.limitsize r(n=2)\nr(x) :- e(x)."
    with livelog.open(program_of(text), strategy=strategy, facts={"e": [(1,)]}) as session:
        with pytest.raises(livelog.RuntimeProblem, match="limitsize"):
            session.load("e", [(2,), (3,)])
        assert session.load("e", [(2,)])["r"].inserted == [(2,)]
