"""Recursion through an index: what is accepted, what it means, and that it is maintained."""

from __future__ import annotations

import random
from typing import Any

import pytest

import datalog
import livelog
import planner
from datalog.errors import LivelogError, RuntimeProblem, StratificationProblem
from datalog.indexed import MOST_LAYERS, iterations
from tests.harness import METHODS, accumulate, difference
from tests.oracle import Base, evaluate

# All over edges e(x, y) of small numbers, with what can make an iteration hard: aggregates and negations of the layer
# before and of the same one, recursion inside a layer, several relations, an index that falls, comes last, has a name,
# jumps, starts in the data, or stands in other atoms and values.
PROGRAMS = {
    "pagerank": """
        degree(y, count<*>) :- e(y, _).
        rank(0, x, 1.0) :- e(x, _).
        rank(0, x, 1.0) :- e(_, x).
        inflow(i, x, sum<r / d>) :- rank(i, y, r), degree(y, d), e(y, x), i < 4.
        rank(i + 1, x, 0.15 + 0.85 * s) :- inflow(i, x, s).
        rank(i + 1, x, 0.15) :- rank(i, x, _), !e(_, x), i < 4.
        last(x, r) :- rank(4, x, r).
    """,
    "one rule": "n(0, x, 1) :- e(x, _). n(i + 1, y, sum<c>) :- n(i, x, c), e(x, y), i < 5.",
    "falling": "a(4, x) :- e(x, _). a(i - 1, y) :- a(i, _), e(_, y), !a(i, y), i > 0.",
    "last column": "a(x, 1) :- e(x, _). a(y, j) :- a(x, i), e(x, y), j = 1 + i, n = count : { a(_, i) }, n < 4, 4 > i.",
    "recursion inside": """
        r(0, x, y) :- e(x, y).
        r(i, x, z) :- r(i, x, y), r(i, y, z).
        r(i + 1, x, y) :- e(x, _), e(_, y), !r(i, x, y), r(i, _, _), i + 1 <= 3.
    """,
    "jumps": """
        a(0, 1). a(1, 2).
        a(i + 2, sum<x>) :- a(i, x), e(x, _), i < 6.
        a(i + 2, max<x>) :- a(i, x), a(i + 1, _), i < 6.
        seen(x) :- a(_, x), !a(0, x).
        few(n) :- n = count : { a(4, _) }.
    """,
    "starts in the data": """
        .decl e(x: number, y: number)
        a(i, x, 1) :- e(i, x), 0 <= i, i <= 3.
        a(i + 1, y, min<c>) :- a(i, x, c), e(x, y), i < 4.
    """,
    "the first layer again": "a(0, x) :- e(x, _). a(i + 1, y) :- a(i, x), e(x, y), !a(0, y), i < 4. b(x) :- a(2, x).",
    "values of the index": """
        .decl e(x: number, y: number)
        a(0, x, 0) :- e(x, _).
        a(i + 1, y, sum<c + i>) :- a(i, x, c), e(x, y), e(i, _), i < 4.
    """,
    "several": """
        even(0, x) :- e(x, _).
        odd(i + 1, y) :- even(i, x), e(x, y), !even(i, y), i < 5.
        even(i + 1, y) :- odd(i, x), e(y, x), i < 5, n = sum c : { odd(j, c), j = i - 2 }, n < 9.
        both(i, x) :- even(i, x), e(x, x).
    """,
    "inside an aggregate": """
        a(0, x, 1) :- e(x, _).
        a(i + 1, x, n) :- a(i, x, _), n = sum c : { a(i, y, c), e(y, x) }, i < 3.
    """,
}


def check(text: str) -> Any:
    return datalog.check(datalog.parse(text))


def history(seed: int, count: int = 6) -> list[list[tuple[str, tuple[int, int]]]]:
    """Transactions of insertions and deletions of edges; the first is the load."""
    rng = random.Random(seed)
    there: set[tuple[int, int]] = set()
    steps = []
    for k in range(count):
        step = []
        for _ in range(6 if k == 0 else 3):
            edge = (rng.randrange(5), rng.randrange(5))
            step.append(("-" if edge in there else "+", edge))
            there ^= {edge}
        steps.append(step)
    return steps


def play(text: str, number: int, **how: Any) -> None:
    """A random history, with every state held against the oracle, and the sum of the changes too."""
    program = check(text)
    base = Base(program)
    with livelog.open(program, **how) as session:
        views = list(session.plan.outputs)
        total: dict[str, set[Any]] = {view: set() for view in views}
        assert not accumulate(total, session.initial, views)
        for step in history(number):
            with session.transaction() as tx:
                for sign, edge in step:
                    (tx.insert if sign == "+" else tx.delete)("e", edge)
            base.apply([("insert" if sign == "+" else "delete", "e", edge) for sign, edge in step])
            expected = evaluate(program, base.facts())
            assert not accumulate(total, tx.changes, views)
            for view in views:
                assert not difference(expected[view], set(session[view])), (view, step)
                assert not difference(expected[view], total[view]), (view, step)
                assert len(session[view]) == len(expected[view])
        session.check()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("partitions, order", [(1, None), (3, None), (3, 7)])
def test_histories(name: str, partitions: int, order: int | None) -> None:
    for number in range(2):
        play(PROGRAMS[name], number, partitions=partitions, seed=None if order is None else order + number)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: "-".join(filter(None, m)))
def test_every_strategy(method: tuple[str, str | None]) -> None:
    for name in ("pagerank", "recursion inside", "several"):
        play(PROGRAMS[name], 5, strategy=method[0], ship=method[1], partitions=2)


@pytest.mark.everywhere(spark=2, cluster=1)
@pytest.mark.parametrize("name", ["pagerank", "recursion inside"])
def test_on_every_runtime(name: str) -> None:
    play(PROGRAMS[name], 1)


# --- what is accepted ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        "a(i + 1, sum<x>) :- a(i, x), i < 3.",
        "a(1 + i, sum<x>) :- a(i, x), 3 > i.",
        "a(j, sum<x>) :- a(i, x), j = i + 1, i <= 2.",
        "a(i + 1, sum<x>) :- a(i, x), i + 1 <= n.",
        "a(i + 1, sum<x>) :- a(i, x), i != 3.",
        "a(i + 1, sum<x>) :- a(i, x), i * i < 9.",
        "a(k, sum<x>) :- a(i, x), j = i + 2, k = j - 1, j < 5.",
    ],
)
def test_bounds(rule: str) -> None:
    program = datalog.check(datalog.parse(f".const n = 3  a(0, 5). {rule}"))
    assert [i.layers for i in iterations(program)] == [{"a": (0, 1, 2, 3)}]
    with livelog.open(program) as session:
        assert list(session["a"]) == [(i, 5) for i in range(4)]


def test_a_constant_sets_the_number_of_layers() -> None:
    text = ".const n = 2  a(0, 1). a(i + 1, sum<x>) :- a(i, x), i < n."
    assert len(livelog.open(datalog.check(datalog.parse(text), constants={"n": 7}))["a"]) == 8


def test_programs_that_stratify_are_not_touched() -> None:
    """An index that nothing needs stays an ordinary column, also where nothing bounds it but the data."""
    program = check("a(0, x) :- e(x). a(i + 1, x) :- a(i, x), i < 3. b(i, count<*>) :- a(i, _).")
    assert not iterations(program)
    assert not any("@" in name for name in planner.plan(program).relations)


@pytest.mark.parametrize(
    "text, missing",
    [
        ("a(0, 1). a(i + 1, sum<x>) :- a(i, x).", "nothing bounds `i` here"),
        ("a(0, 1). a(i - 1, sum<x>) :- a(i, x), i < 3.", "such as i > 0"),
        (f"a(0, 1). a(i + 1, sum<x>) :- a(i, x), i < {MOST_LAYERS + 5}.", f"more than {MOST_LAYERS} layers"),
        ("a(i, x) :- e(i, x). a(i + 1, sum<x>) :- a(i, x), i < 3.", "nothing says where this starts"),
        ("a(0, 1). a(i + 1, x) :- a(i, x), i < 3. a(i, max<x>) :- a(i, x).", "in the same layer"),
        ("a(0.5, 1). a(i + 1, sum<x>) :- a(i, x), i < 3.", "0.5 must be a whole number"),
        ("a(0, 1). a(i * 2, sum<x>) :- a(i, x), i < 3.", "an argument counted the steps"),
        (
            "a(0, 1). a(i + 1, sum<x>) :- a(i, x), i < 3. a(i + 1, x) :- a(_, x), a(i, x), i < 3.",
            "an argument counted the steps",
        ),
        ("a(x) :- e(x, y), !a(y).", "an argument counted the steps"),
    ],
)
def test_what_is_missing(text: str, missing: str) -> None:
    with pytest.raises(StratificationProblem) as caught:
        check(text)
    assert missing in caught.value.notes[-1].message


@pytest.mark.parametrize("type_", ["float", "symbol"])
def test_the_index_is_a_number(type_: str) -> None:
    with pytest.raises(LivelogError):
        check(f".decl p(i: {type_}, x: number) a(i, x) :- p(i, x), 0 <= i, i < 3. a(i + 1, sum<x>) :- a(i, x), i < 3.")


# --- facts of layered relations ------------------------------------------------------------------------------------

FROM_FILES = """
    .decl a(i: number, x: number)
    .input a
    .decl e(x: number, y: number)
    a(i + 1, sum<y>) :- a(i, x), e(x, y), 0 <= i, i < 3.
"""


@pytest.mark.parametrize("partitions", [1, 3])
def test_facts_from_files(partitions: int) -> None:
    """Those outside of all layers are in the relation and lead to nothing."""
    program = check(FROM_FILES)
    facts = {"a": [(0, 1), (2, 3), (-7, 1), (50, 1), (4, 1)], "e": [(1, 2), (2, 3), (3, 1)]}
    expected = evaluate(program, {"e": facts["e"], "a": facts["a"]})
    with livelog.open(program, facts=facts, partitions=partitions) as session:
        got = set(session["a"])
        assert {(-7, 1), (50, 1), (4, 1)} <= got and (3, 1) in got
        assert got == expected["a"] | set(facts["a"])
        assert ("a", (0, 1)) in session.why("a", (3, 1))
        session.check()


def test_facts_of_the_text_only() -> None:
    """Without `.input` nothing bounds the index from below, and facts that would be read by no layer are refused."""
    program = check("a(0, 1). a(i + 1, sum<x>) :- a(i, x), i < 3.")
    with livelog.open(program, facts={"a": [(2, 5)]}) as session:
        assert set(session["a"]) == {(0, 1), (1, 1), (2, 1), (2, 5), (3, 6)}
    with pytest.raises(RuntimeProblem, match="the index -5 is outside of the layers of a, 0 to 3"):
        livelog.open(program, facts={"a": [(-5, 1)]})


# --- around it -----------------------------------------------------------------------------------------------------


def test_why() -> None:
    facts = {"e": [(1, 2), (2, 3), (7, 8)]}
    for how in ({}, {"strategy": "dred", "partitions": 2}):
        with livelog.open(check(PROGRAMS["one rule"]), facts=facts, **how) as session:  # type: ignore[arg-type]
            assert session.why("n", (2, 3, 1)) == [("e", (1, 2)), ("e", (2, 3))]


def test_an_error_names_the_rule_as_written_and_is_rolled_back() -> None:
    text = "a(0, x, 8) :- e(x, _). a(i + 1, y, sum<c / d>) :- a(i, x, c), e(x, y), d = y - x - i, i < 3."
    with livelog.open(check(text), facts={"e": [(0, 5)]}) as session:
        before = {view: list(session[view]) for view in session.views}
        with pytest.raises(RuntimeProblem) as caught, session.transaction() as tx:
            tx.insert("e", (5, 6))
        assert "sum<c / d>) :- a(i, x, c), e(x, y)" in str(caught.value)
        assert {view: list(session[view]) for view in session.views} == before
        session.check()
        with session.transaction() as tx:
            tx.insert("e", (5, 9))
        assert (2, 9, 0) in set(session["a"])


def test_many_layers() -> None:
    text = "a(0, x, 1) :- e(x, _). a(i + 1, y, max<c>) :- a(i, x, c), e(x, y), i < 400. b(x) :- a(400, x, _)."
    with livelog.open(check(text), facts={"e": [(1, 2), (2, 1)]}) as session:
        assert len(session["a"]) == 802 and set(session["b"]) == {(1,), (2,)}
        with session.transaction() as tx:
            tx.delete("e", (2, 1))
        assert set(session["a"]) == {(0, 1, 1), (1, 2, 1)}
        assert len(planner.explain(session.plan).splitlines()) < 100


def test_readers_of_one_layer_read_just_that() -> None:
    plan = planner.plan(check(PROGRAMS["pagerank"]))
    stratum = next(s for s in plan.strata if s.relations == ("last",))
    assert stratum.inputs == ("rank@4",)
    assert "iteration: layers 0 to 3 of inflow by i, 0 to 4 of rank by i" in plan.notes
