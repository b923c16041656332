"""`.approx`: changes below a threshold are not passed on, and the error that this makes is bounded."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import datalog
import livelog
from datalog.approx import approximations
from datalog.errors import LivelogError, RuntimeProblem
from operators.approx import Approx, ApproxGroups
from operators.delta import Delta
from operators.groupby import GroupBy
from operators.monoids import Count, Extreme, Sum
from tests.harness import METHODS, accumulate, difference

PAGERANK = """
    .decl link(y: number, x: number)
    .decl page(x: number)
    pages(count<*>) :- page(_).
    degree(y, count<*>) :- link(y, _).
    rank(0, x, 1.0 / n) :- page(x), pages(n).
    inflow(i, x, sum<r / d>) :- rank(i, y, r), degree(y, d), link(y, x), i < 6.
    rank(i + 1, x, 0.15 / n + 0.85 * s) :- inflow(i, x, s), pages(n).
    rank(i + 1, x, 0.15 / n) :- rank(i, x, _), !link(_, x), pages(n), i < 6.
    pagerank(x, r) :- rank(6, x, r).
"""
LEADS = """
    .decl link(y: number, x: number)
    .decl page(x: number)
    pages(count<*>) :- page(_).
    degree(y, count<*>) :- link(y, _).
    leads(y, x) :- link(y, x).
    leads(-1, x) :- page(x).
    rank(0, x, 1.0 / n) :- page(x), pages(n).
    share(0, -1, 0.15 / n) :- pages(n).
    share(i + 1, -1, v) :- share(i, -1, v), i < 5.
    share(i, y, 0.85 * r / d) :- rank(i, y, r), degree(y, d), i < 6.
    rank(i + 1, x, sum<v>) :- share(i, y, v), leads(y, x).
    pagerank(x, r) :- rank(6, x, r).
"""
FORMS = pytest.mark.parametrize("form", [PAGERANK, LEADS], ids=["mapped", "grouped"])
"""Ranks that are computed of sums, and ranks that are sums: groups hold small changes back themselves."""
NODES = 40


def network(seed: int, count: int = 160) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    found: dict[tuple[int, int], None] = {}
    while len(found) < count:
        found[rng.randrange(NODES), rng.randrange(NODES)] = None
    return list(found)


def start(text: str, links: list[tuple[int, int]], **how: Any) -> Any:
    return livelog.open(datalog.parse(text), facts={"page": [(i,) for i in range(NODES)], "link": links}, **how)


def changed(session: Any, *operations: tuple[str, tuple[int, int]]) -> Any:
    with session.transaction() as tx:
        for sign, link in operations:
            (tx.insert if sign == "+" else tx.delete)("link", link)
    return tx.changes


def rounds(seed: int) -> list[list[tuple[str, tuple[int, int]]]]:
    """Transactions that insert a few new links and delete a few old ones."""
    links = network(seed, 200)
    rng = random.Random(seed)
    return [
        [("+", link) for link in links[160 + 4 * k : 164 + 4 * k]] + [("-", rng.choice(links[:160]))] for k in range(6)
    ]


# --- what is promised ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [1e-12, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("partitions", [1, 3])
@FORMS
def test_the_error_is_bounded(form: str, threshold: float, partitions: int) -> None:
    """Each layer adds at most the threshold a page, and hands on at most 0.85 of what was off before it."""
    exact = start(form, network(1))
    with start(f"{form} .approx rank {threshold}", network(1), partitions=partitions) as session:
        assert set(session["rank"]) == set(exact["rank"])  # a load is exact
        total: dict[str, set[Any]] = {view: set() for view in session.views}
        assert not accumulate(total, session.initial, session.views)
        for operations in rounds(1):
            changes = changed(session, *operations)
            changed(exact, *operations)
            assert not accumulate(total, changes, session.views)
            for view in session.views:
                assert not difference(set(session[view]), total[view])
            session.check()  # each value is within the threshold of what its rule says
            right = {(i, x): r for i, x, r in exact["rank"]}
            for k in range(7):
                error = sum(abs(r - right[i, x]) for i, x, r in session["rank"] if i == k)
                assert error <= NODES * threshold * (1 - 0.85 ** (k + 1)) / (1 - 0.85) + 1e-12


@FORMS
def test_small_changes_stop(form: str) -> None:
    """Half of the changes do not come through; none at all do if the threshold is larger than anything."""
    counts = []
    for threshold in (1e-12, 1e-3, 2.0):
        with start(f"{form} .approx rank {threshold}", network(2)) as session:
            counts.append(sum(len(changed(session, *operations)["rank"].inserted) for operations in rounds(2)))
    assert counts[0] > 2 * counts[1] > 0 and counts[2] == 0


def test_many_small_changes_come_through() -> None:
    """What is shown is compared with what is true, not with what was true before: nothing drifts away unseen."""
    text = ".approx total 1.0  .decl sale(n: number, v: float)  total(sum<v>) :- sale(_, v)."
    with livelog.open(datalog.parse(text)) as session:
        told = []
        for k in range(100):
            with session.transaction() as tx:
                tx.insert("sale", (k, 0.3))
            told += [row[0] for row in tx.changes["total"].inserted]
            (shown,) = next(iter(session["total"]))
            assert abs(shown - 0.3 * (k + 1)) <= 1.0
        assert len(told) == 25
        with session.transaction() as tx:
            for k in range(100):
                tx.delete("sale", (k, 0.3))
        assert list(session["total"]) == []


@pytest.mark.parametrize("method", METHODS, ids=lambda m: "-".join(filter(None, m)))
@pytest.mark.parametrize("form", [f"{PAGERANK} .approx inflow 5e-4", f"{LEADS} .approx share 1e-4"])
def test_every_strategy_shows_the_same(form: str, method: tuple[str, str | None]) -> None:
    """Even `recompute`, which evaluates everything anew: what was published stays where it is still close enough."""
    text = f"{form} .approx rank 1e-3"
    with start(text, network(3)) as one, start(text, network(3), strategy=method[0], ship=method[1]) as other:
        for operations in rounds(3):
            mine, others = changed(one, *operations), changed(other, *operations)
            for view in one.views:
                assert set(one[view]) == set(other[view])
                assert set(mine[view].inserted) == set(others[view].inserted)


@pytest.mark.everywhere(spark=1)
def test_on_every_runtime() -> None:
    with start(f"{PAGERANK} .approx rank 1e-3", network(1)) as session:
        exact = start(PAGERANK, network(1))
        for operations in rounds(1)[:3]:
            changed(session, *operations)
            changed(exact, *operations)
        right = dict(exact["pagerank"])
        assert sum(abs(r - right[x]) for x, r in session["pagerank"]) <= NODES * 1e-3 * (1 - 0.85**7) / 0.15
        session.check()


# --- transactions that fail ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("strategy", ["absorption", "recompute"])
@FORMS
def test_what_was_published_survives_a_rollback(form: str, strategy: str, partitions: int) -> None:
    """The views are evaluated anew, and still show what they showed before, though that is not exact."""
    text = f"{form} .approx rank 2e-3  bad(1 / (x - y)) :- link(x, y), x > 100."
    with start(text, network(4), strategy=strategy, partitions=partitions) as session:
        for operations in rounds(4)[:3]:
            changed(session, *operations)
        before = {view: set(session[view]) for view in session.views}
        with start(form, list(session["link"])) as fresh:
            assert set(fresh["rank"]) != before["rank"]
        for _ in range(2):
            with pytest.raises(RuntimeProblem):
                changed(session, ("+", (1, 2)), ("-", network(4)[3]), ("+", (200, 200)))
            assert {view: set(session[view]) for view in session.views} == before
        session.check()
        total = {view: set(rows) for view, rows in before.items()}
        for operations in rounds(4)[3:]:
            assert not accumulate(total, changed(session, *operations), session.views)
            assert {view: set(session[view]) for view in session.views} == total
        session.check()


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_group_that_fails_when_others_have_told(partitions: int) -> None:
    """What they told did not come to pass."""
    text = ".approx total 10  .decl sale(x: number, n: number, v: number)  total(x, sum<v>) :- sale(x, n, v)."
    with livelog.open(datalog.parse(text), partitions=partitions) as session:
        exact: dict[int, int] = {}
        rng = random.Random(1)
        for n in range(12):
            rows = [(x, n, rng.randrange(8)) for x in range(20)]
            with session.transaction() as tx:
                for row in rows:
                    tx.insert("sale", row)
            exact = {x: exact.get(x, 0) + v for x, _, v in rows}
            assert all(abs(v - exact[x]) <= 10 for x, v in session["total"])
            before = set(session["total"])
            with pytest.raises(RuntimeProblem, match="overflow"), session.transaction() as tx:
                for x in range(20):
                    tx.insert("sale", (x, 1000, 2**62 if x == 13 else 100))
                tx.insert("sale", (13, 1001, 2**62))
            assert set(session["total"]) == before
            session.check()
        assert before != {(x, v) for x, v in exact.items()}


@pytest.mark.parametrize("seed", range(5))
def test_numbers_that_one_layer_sums_and_another_groups_by(seed: int) -> None:
    """Both are values, so that tuples of several groups have one key. What is shown is as close as promised."""
    text = """
        .decl e(x: number, v: number, w: number)
        .approx a 3
        a(0, x, sum<v>, w) :- e(x, v, w).
        a(i + 1, x, v, sum<w>) :- a(i, x, v, w), i < 2.
    """
    rng = random.Random(seed)
    facts = {(rng.randrange(4), rng.randrange(20), rng.randrange(3)) for _ in range(40)}
    with livelog.open(datalog.parse(text), facts={"e": list(facts)}) as session:
        total = {view: set(session[view]) for view in session.views}
        for _ in range(12):
            with session.transaction() as tx:
                for row in rng.sample(sorted(facts), 3):
                    tx.delete("e", row)
                    facts.discard(row)
                for _ in range(3):
                    row = (rng.randrange(4), rng.randrange(20), rng.randrange(3))
                    tx.insert("e", row)
                    facts.add(row)
            assert not accumulate(total, tx.changes, session.views)
            assert {view: set(session[view]) for view in session.views} == total
            session.check()


def test_an_error_that_only_the_way_there_makes() -> None:
    """Two tuples that are never there together: the new facts alone are fine, and the changes still add up."""
    text = f"{PAGERANK} .approx rank 2e-3  ratio(x, 1 / n) :- pages(n), only(x), n = 1 * n."
    text = text.replace("pages(n), only(x), n = 1 * n", "only(x), link(x, y), n = y - 5")
    program = datalog.parse(f".decl only(x: number) {text}")
    facts = {"page": [(i,) for i in range(NODES)], "link": network(4)}
    with livelog.open(program, facts=facts) as session:
        changed(session, *rounds(4)[0])
        total = {view: set(session[view]) for view in session.views}
        with session.transaction() as tx:
            for link in [link for link in session["link"] if link[1] == 5]:
                tx.delete("link", link)
            for x in range(NODES):
                tx.insert("only", (x,))
        assert not accumulate(total, tx.changes, session.views)
        assert {view: set(session[view]) for view in session.views} == total
        session.check()


@FORMS
def test_why(form: str) -> None:
    for how in ({}, {"strategy": "dred"}):
        with start(f"{form} .approx rank 1e-3", network(5), **how) as session:  # type: ignore[arg-type]
            for operations in rounds(5):
                changed(session, *operations)
            row = max(session["pagerank"], key=lambda row: row[1])
            reasons = session.why("pagerank", row)
            assert ("page", (row[0],)) in reasons and any(name == "link" for name, _ in reasons)


# --- the directive -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, values",
    [
        (".approx a 1  a(x, sum<v>, count<*>) :- e(x, v).", (1, 2)),
        (".approx a 1  a(x, 2.5 * v) :- e(x, v).", (1,)),
        (".approx a 1  a(0, x, 1.0) :- e(x, _). a(i + 1, x, sum<v>) :- a(i, x, v), i < 3.", (2,)),
    ],
)
def test_values(text: str, values: tuple[int, ...]) -> None:
    assert approximations(datalog.check(datalog.parse(text)))["a"].values == values


@pytest.mark.parametrize(
    "text, message",
    [
        (".approx a 0  a(x, sum<v>) :- e(x, v).", "must be more than 0"),
        (".approx a 1 .approx a 2  a(x, sum<v>) :- e(x, v).", "`a` is approximated twice"),
        (".approx e 1  a(x, sum<v>) :- e(x, v).", "no rule defines `e`"),
        (".approx b 1  a(x, sum<v>) :- e(x, v).", "unknown relation `b`"),
        (".approx a 1  a(x) :- e(x, _).", "`a` has no numbers to approximate"),
        (".approx a 1  a(x, 1.5) :- e(x, _). a(y, v) :- a(x, v), e(x, y).", "`a` is recursive"),
        (".approx a 1  a(0, x, 1.0) :- e(x, _). a(i, y, v) :- a(i, x, v), e(x, y). "
         "a(i + 1, x, sum<v>) :- a(i, x, v), i < 3.", "`a` is recursive"),
        (".approx a  a(x, sum<v>) :- e(x, v).", "expected a number"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(LivelogError, match=message):
        datalog.check(datalog.parse(text))


def test_it_is_written_back() -> None:
    text = datalog.format_program(datalog.parse(".approx a 1e-9 a(x, sum<v>) :- e(x, v)."))
    assert datalog.parse(text).directives[0].parameters == {"threshold": 1e-9}


# --- the operator --------------------------------------------------------------------------------------------------


def test_tuples_with_one_key() -> None:
    """They are compared in the order of their values, and published together."""
    a = Approx(2, (1,), 1.0)
    assert a.publish(Delta([("k", 10), ("k", 20)], [])).gained == [("k", 10), ("k", 20)]
    a.commit()
    assert not a.publish(Delta([("k", 20.5), ("k", 9.5)], [("k", 10), ("k", 20)]))
    a.check([("k", 9.5), ("k", 20.5)])
    assert a.exact_of(("k", 20)) == ("k", 20.5)
    delta = a.publish(Delta([("k", 30)], []))
    assert (delta.lost, delta.gained) == ([("k", 10), ("k", 20)], [("k", 9.5), ("k", 20.5), ("k", 30)])
    assert a.remembered() == {"k": (("k", 10), ("k", 20))}


def test_several_values() -> None:
    a = Approx(3, (0, 2), 0.5)
    a.publish(Delta([(1.0, "k", 1.0)], []))
    a.commit()
    assert not a.publish(Delta([(1.5, "k", 0.5)], [(1.0, "k", 1.0)]))
    assert a.publish(Delta([(1.5, "k", 0.4)], [(1.5, "k", 0.5)])).lost == [(1.0, "k", 1.0)]


def test_a_random_history_of_the_operator() -> None:
    rng = random.Random(1)
    approx, exact = Approx(2, (1,), 5.0), dict[int, set[int]]()
    shown: set[tuple[int, int]] = set()
    for _ in range(300):
        gained, lost = [], []
        for key in rng.sample(range(6), 3):
            old = exact.setdefault(key, set())
            new = {rng.randrange(30) for _ in range(rng.choice((0, 1, 1, 1, 2)))}
            gained += [(key, v) for v in new - old]
            lost += [(key, v) for v in old - new]
            exact[key] = new
        delta = approx.publish(Delta(gained, lost))
        assert set(delta.lost) <= shown and not shown & set(delta.gained)
        shown = (shown - set(delta.lost)) | set(delta.gained)
        if rng.random() < 0.1:  # an evaluation from scratch, with what the last commit showed in mind
            again = Approx(2, (1,), 5.0, approx.remembered())
            again.publish(Delta([(k, v) for k, values in exact.items() for v in values], []))
            approx, shown = again, set(again.rows)
        approx.commit()
        approx.check((k, v) for k, values in exact.items() for v in values)
        assert shown == set(approx.rows)


def test_a_random_history_of_groups() -> None:
    """Sums, counts and the largest by group; the largest is no value, so a head does not stand when it changes."""
    rng = random.Random(2)
    rows: Counter[tuple[int, int]] = Counter()
    new = lambda: GroupBy("", 1, (Sum, Count, lambda: Extreme(largest=True)), (1, 0, 3, 2))  # noqa: E731
    groups = new()
    approx, shown = ApproxGroups(groups, (0, 3), 4), set[Any]()
    for step in range(300):
        batch = [(rng.randrange(5), rng.randrange(6), rng.choice((1, 1, -1))) for _ in range(rng.randrange(5))]
        changes = Counter[tuple[int, int]]()
        for g, v, w in batch:
            if rows[g, v] + changes[g, v] + w >= 0:
                changes[g, v] += w
        groups.update([((g, v, v, v), w) for (g, v), w in changes.items() if w])
        gone, told = groups.flush()
        delta = approx.publish(Delta(told, gone))
        if step % 7 == 3:  # a rollback: an evaluation from scratch, with what the last commit showed in mind
            memory = approx.remembered()
            assert set(memory.values()) == shown
            groups = new()
            approx = ApproxGroups(groups, (0, 3), 4, memory)
            groups.update([((g, v, v, v), w) for (g, v), w in rows.items() if w])
            gone, told = groups.flush()
            assert set(approx.publish(Delta(told, gone)).gained) == shown
        else:
            assert set(delta.lost) <= shown and not shown & set(delta.gained)
            shown = (shown - set(delta.lost)) | set(delta.gained)
            rows += changes
            rows = +rows
        approx.commit()
        approx.check()
        groups.check()
        assert shown == set(approx.rows)
        exact = {g: [v for (h, v), w in rows.items() if h == g for _ in range(w)] for g, _ in rows}
        assert {head[1] for head in shown} == exact.keys()
        for total, g, largest, count in shown:
            assert abs(total - sum(exact[g])) <= 4 and abs(count - len(exact[g])) <= 4 and largest == max(exact[g])
            assert approx.exact_of((total, g, largest, count)) == (sum(exact[g]), g, max(exact[g]), len(exact[g]))
