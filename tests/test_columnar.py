"""Lineage joins by columns: the same as those by cells, in large and small batches, and with sums of any size."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import datalog
import livelog
from datalog.errors import RuntimeProblem
from livelog.runtime.columnar import Columnar
from operators.columnar import groups as groups_module
from operators.columnar import join as join_module
from operators.columnar import pairs as pairs_module
from operators.columnar.groups import ColumnGroups
from operators.columnar.join import ColumnJoin
from operators.columnar.numbers import Numbers
from operators.columnar.pairs import Pairs
from operators.delta import Delta
from operators.errors import RuleFailure
from operators.expr import Col
from operators.intake import Intake
from operators.sums import COUNT, Factor
from tests.cases import states
from tests.harness import Configuration, run
from tests.test_lineage import BAGS, NUMBERS, history

PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "average": (NUMBERS, "q(a, avg<d>) :- r(a, b), s(b, d)."),
    "bags": (BAGS, "q(a, avg<d>, count<*>, sum<d>) :- r(a, b), s(b, d)."),
    "the other side first": (NUMBERS, "q(sum<a>, d, count<*>) :- r(a, b), s(b, d)."),
    "a group of two": (NUMBERS, "q(b, sum<d>, a) :- r(a, b), s(b, d)."),
    "computed sums": (BAGS, "q(a, sum<d * d>, avg<d>) :- r(a, b), s(b, d)."),
    "filters": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d), a > 0, d < 3, b != 1."),
    "with itself": (NUMBERS, "q(a, sum<y>) :- r(a, b), r(b, y)."),
    "weights": (BAGS, "v(x, y) :- r(x, y). q(a, sum<d>) :- v(a, b), s(b, d). p(a, count<*>) :- r(a, b), s(b, _)."),
    "two rules": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d). q(a, sum<e>) :- r(a, d), t(d, e)."),
    "read by a join": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d). w(a, x, y) :- q(a, x), r(a, y)."),
}
WAYS = {
    "large": {(join_module, "MANY"): 1, (groups_module, "MANY"): 0, (pairs_module, "RECENT"): 3},
    "large, seldom sorted": {(join_module, "MANY"): 1, (groups_module, "MANY"): 0},
    "small": {(join_module, "MANY"): 10**9, (groups_module, "MANY"): 10**9, (pairs_module, "RECENT"): 3},
    "both": {(join_module, "MANY"): 3, (groups_module, "MANY"): 3, (pairs_module, "RECENT"): 5},
    "keys with many groups": {(join_module, "MANY"): 10**9, (join_module, "REACH"): 1, (pairs_module, "RECENT"): 0},
    "wide": {(join_module, "HIGHEST"): 20, (join_module, "MANY"): 2},
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What counts as a large batch, and when columns count as full."""
    for (module, name), value in WAYS[request.param].items():
        monkeypatch.setattr(module, name, value)
    return str(request.param)


def columnar(session: livelog.Session) -> list[Columnar]:
    """The nodes of a session that use columns."""
    strata: list[Any] = session._runtime.workers[0].strata  # type: ignore[attr-defined]
    return [node for s in strata for _, node in getattr(s, "nodes", ()) if isinstance(node, Columnar)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_after_any_history(name: str, way: str) -> None:
    lines, rules = PROGRAMS[name]
    for seed in range(3):
        case = history(name, lines, rules, seed, transactions=12)
        run(case, Configuration("absorption", "demand", 1), states(case))


@pytest.mark.parametrize("name", PROGRAMS)
def test_these_programs_use_columns(name: str) -> None:
    lines, rules = PROGRAMS[name]
    with livelog.open(datalog.parse("\n".join((*lines, rules)))) as session:
        assert columnar(session)


@pytest.mark.parametrize(
    "rule",
    [
        "q(a, sum<d>) :- r(a, b), f(b, d).",  # floats
        "q(a, max<d>) :- r(a, b), s(b, d).",  # not a sum
        "q(a, sum<d>, variance<d>) :- r(a, b), s(b, d).",  # not one of ours
        "q(a, sum<a * d>) :- r(a, b), s(b, d).",  # rows of the anchor do not just count
        "q(a, d, count<*>) :- r(a, b), s(b, d).",  # no anchor
        "q(a, sum<x>) :- r(a, b), u(b, x).",  # whole numbers of another kind
        ".approx q 2\nq(a, sum<d>) :- r(a, b), s(b, d).",  # shown only when it moves
    ],
)
def test_others_do_not(rule: str) -> None:
    lines = (*NUMBERS, ".decl f(b: number, d: float)", ".decl u(b: number, x: unsigned)", rule)
    with livelog.open(datalog.parse("\n".join(lines))) as session:
        assert not columnar(session)


def test_large_batches_against_small_ones() -> None:
    """The same history in batches of thousands, and row by row."""
    rng = random.Random(5)
    program = datalog.parse("\n".join((*BAGS, "q(a, avg<d>, sum<d>, count<*>) :- r(a, b), s(b, d).")))

    def rows(count: int) -> list[tuple[int, int]]:
        return [(rng.randrange(40), rng.randrange(-200, 200)) for _ in range(count)]

    live: dict[str, list[tuple[int, int]]] = {"r": [], "s": []}
    with livelog.open(program) as large, livelog.open(program) as small:
        for step in range(12):
            relation = "rs"[step % 2]
            new, known = [(b, a % 40) if relation == "r" else (a, b) for a, b in rows(700)], live[relation]
            rng.shuffle(known)
            old = [known.pop() for _ in range(min(len(known), rng.choice((0, 300, 600))))]
            known += new
            with large.transaction() as tx:
                tx.insert_all(relation, new)
                tx.delete_all(relation, old)
            for sign, batch in (("insert", new), ("delete", old)):
                for row in batch:
                    with small.transaction() as one:
                        getattr(one, sign)(relation, row)
            assert set(large["q"]) == set(small["q"]) and len(large["q"]) == len(small["q"])
            assert not set(tx.changes["q"].inserted) & set(tx.changes["q"].deleted)
            large.check()
        small.check()
        (node,) = columnar(large)
        assert node.stats() == columnar(small)[0].stats()
        for relation, batch in live.items():
            with large.transaction() as tx:
                tx.delete_all(relation, batch)
        large.check()
        assert not len(large["q"]) and set(node.stats().values()) == {0}


def test_what_has_gone_leaves_nothing_behind() -> None:
    """Keys and groups that come and go have the numbers of those that went before."""
    program = datalog.parse("\n".join((*NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d).")))
    with livelog.open(program) as session:
        for size in (1, 100):
            for k in range(30):
                rows = [(k * size + i, k * size + i) for i in range(size)]
                for change in ("insert_all", "delete_all"):
                    with session.transaction() as tx:
                        for relation in "rs":
                            getattr(tx, change)(relation, rows)
                    assert len(session["q"]) == (size if change == "insert_all" else 0)
            (node,) = columnar(session)
            assert len(node.heads.numbers.names) == size
            session.check()


def test_sums_of_any_size() -> None:
    """Beyond 64 bits on the way, exact in the end; and an error where a total is."""
    program = datalog.parse("\n".join((*BAGS, "q(a, sum<d>, avg<d>) :- r(a, b), s(b, d).")))
    big = 2**62
    for many in (1, 50):
        with livelog.open(program, facts={"r": [(1, 1), (2, 2)], "s": [(1, 5), (2, 7)]}) as session:
            with session.transaction() as tx:
                tx.insert_all("s", [(1, big), (2, -big)] * many + [(1, -big), (2, big)] * (many - 1))
            assert list(session["q"]) == [(1, big + 5, (big + 5) / (2 * many)), (2, 7 - big, (7 - big) / (2 * many))]
            with pytest.raises(RuntimeProblem, match="overflow") as failure, session.transaction() as tx:
                tx.insert("s", (1, big))
            assert "at the tuple (1)" in str(failure.value)
            assert len(session["q"]) == 2
            with session.transaction() as tx:
                tx.insert("s", (1, -1))
            assert (1, big + 4, (big + 4) / (2 * many + 1)) in session["q"]
            session.check()


def test_counts_of_any_size() -> None:
    """Weights beyond 64 bits, which views with many derivations have."""
    left = Intake("", (1,), (), (Col(0),), (COUNT,))
    right = Intake("", (0,), (), (), (COUNT, Factor(Col(1))))
    groups = ColumnGroups("", 1, [("count", 0), ("sum", 1)], (0, 1, 2), 2)
    join = ColumnJoin("", (left, right), 0, (Col(1),), (0, 1), groups)
    join.take(0, Delta([("a", 1), ("b", 2)], []))
    join.take(0, Delta.weighted([(("a", 1), 2**70), (("c", 3), 2**65)]))
    join.take(1, Delta.weighted([((1, 10), 1), ((2, 5), 2**64)]))
    with pytest.raises(RuleFailure, match="overflow"):
        join.settle()
    join.take(0, Delta.weighted([(("a", 1), -(2**70)), (("c", 3), -(2**65))]))
    join.take(1, Delta.weighted([((2, 5), 3 - 2**64)]))
    groups.touched.update(groups.numbers.values())
    assert join.settle() == ([], [("a", 1, 10), ("b", 3, 15)])
    join.check()
    groups.check()


def test_averages_that_no_float_has() -> None:
    """The quotient of whole numbers is rounded once."""
    program = datalog.parse("\n".join((*BAGS, "q(a, avg<d>) :- r(a, b), s(b, d).")))
    rows = [(1, 2**53 + 1), (1, 2**53 + 3), (1, 1)]
    with livelog.open(program, facts={"r": [(i, 1) for i in range(100)], "s": rows}) as session:
        assert set(session["q"]) == {(i, sum(d for _, d in rows) / 3) for i in range(100)}


def test_small_sessions_need_no_numpy() -> None:
    code = (
        "import sys, datalog, livelog\n"
        "s = livelog.open(datalog.parse('.decl r(a: number, b: number) .decl s(b: number, d: number) "
        "q(a, sum<d>) :- r(a, b), s(b, d).'), facts={'r': [(1, 2)], 's': [(2, 3)]})\n"
        "with s.transaction() as tx: tx.insert('r', (4, 2))\n"
        "s.check()\n"
        "assert list(s['q']) == [(1, 3), (4, 3)] and s.stats().aggregates\n"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("recent", [0, 4_000])
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([-2, -1, 1, 1, 2])), max_size=30),
    st.integers(0, 40),
)
def test_pairs_are_counted(recent: int, changes: list[tuple[int, int, int]], wide: int) -> None:
    """Sorted by numpy or by hand; from change number `wide` on, with counts of any size."""
    with mock.patch.object(pairs_module, "RECENT", recent):
        count_pairs(changes, wide)


def count_pairs(changes: list[tuple[int, int, int]], wide: int) -> None:
    import numpy as np

    pairs, expected = Pairs(), Counter[tuple[int, int]]()
    for i, (key, group, count) in enumerate(changes):
        if i == wide:
            pairs.widen()
        if i % 3 or i >= wide:
            pairs.add(key, group, count)
        else:
            pairs.add_all(*(np.array([value]) for value in (key, group, count)))
        expected[key, group] += count
        if i % 7 == 6:
            pairs.sort()
    for key in range(6):
        found = Counter[tuple[int, int]]()
        for group, count in pairs.of(key):
            found[key, group] += count
        assert {pair: n for pair, n in found.items() if n} == {p: n for p, n in expected.items() if n and p[0] == key}
        if wide < len(changes):
            continue
        marked = np.arange(6) == key
        again = Counter[tuple[int, int]]()
        for *pair, count in zip(*(part.tolist() for part in pairs.under(marked)), strict=True):
            again[tuple(pair)] += count
        assert found == again or {p: n for p, n in found.items() if n} == {p: n for p, n in again.items() if n}
    assert {(key, group): count for key, group, count in pairs} == {p: n for p, n in expected.items() if n}
    assert pairs.weight == sum(map(abs, expected.values()))


def test_numbers_are_given_out_again() -> None:
    numbers = Numbers("q")
    assert [numbers[key] for key in "abca"] == [0, 1, 2, 0]
    numbers.give_back(1)
    numbers.give_back(1)
    assert numbers["d"] == 1 and numbers["e"] == 3 and "b" not in numbers
    numbers.check()
    numbers.widen()
    numbers.columns[0][3] += 2**70
    assert numbers["f"] == 4 and numbers.columns == [[0, 0, 0, 2**70, 0]]
