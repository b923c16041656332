"""Aggregates over joins: exact under any history, and kept as partial sums of the two sides, never as joined rows."""

from __future__ import annotations

import random
from typing import Any

import pytest

import datalog
import livelog
import planner
from datalog.errors import RuntimeProblem
from operators.cells import Cells
from operators.delta import Delta
from operators.expr import Apply, Col
from operators.intake import Intake
from operators.lineage import Partials, lineage_join
from operators.monoids import Sum, factory
from operators.sums import COUNT, Factor
from planner.lineage import Split
from planner.plan import GroupRule, LineageRule
from tests.cases import Case, small_case, states
from tests.harness import Configuration, run

NUMBERS = (".decl r(a: number, b: number)", ".decl s(b: number, d: number)", ".decl t(d: number, e: number)")
BAGS = (".decl r(a: number, b: number) bag", ".decl s(b: number, d: number) bag", ".decl t(d: number, e: number)")
FLOATS = (".decl r(a: number, b: number)", ".decl s(b: number, d: float)", ".decl t(d: float, e: float)")
UNTYPED = ()

PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "average": (NUMBERS, "q(a, avg<d>) :- r(a, b), s(b, d)."),
    "bags": (BAGS, "q(a, avg<d>, count<*>, min<d>) :- r(a, b), s(b, d)."),
    "floats": (FLOATS, "q(a, avg<d>, sum<d>, variance<d>) :- r(a, b), s(b, d)."),
    "untyped": (UNTYPED, "q(a, sum<d>, avg<d>, stddev<d>) :- r(a, b), s(b, d), t(_, _)."),
    "several": (NUMBERS, "q(sum<d>, a, max<d>, count<*>, median<d>, avg<a>) :- r(a, b), s(b, d)."),
    "a product of both sides": (NUMBERS, "q(a, sum<a * d - b * d + 2 * b>) :- r(a, b), s(b, d)."),
    "products of floats": (FLOATS, "q(sum<b * d>, sum<a * d>, avg<a / 2 + d>) :- r(a, b), s(b, d)."),
    "an int into a float": (FLOATS, "q(a, sum<a + d>, sum<d * b>) :- r(a, b), s(b, d)."),
    "no key": (NUMBERS, "q(sum<a * d>, count<*>) :- r(a, _), s(_, d)."),
    "no key, compared": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(c, d), b <= c."),
    "compared and joined": (NUMBERS, "q(a, sum<d>, min<d>) :- r(a, b), s(b, d), a != d."),
    "a filter on the key": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d), b > 1."),
    "filters on the sides": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d), a > 0, d < 3."),
    "with itself": (NUMBERS, "q(a, sum<y>) :- r(a, b), r(b, y)."),
    "with itself, one column": (NUMBERS, "q(count<*>) :- r(a, b), r(c, b), a < c."),
    "three atoms": (NUMBERS, "q(a, sum<e>, count<*>) :- r(a, b), s(b, d), t(d, e)."),
    "four atoms": (NUMBERS, "q(a, sum<e * x>) :- r(a, b), s(b, d), t(d, e), r(x, b)."),
    "a triangle": (NUMBERS, "q(a, count<*>) :- r(a, b), s(b, c), t(c, a)."),
    "computed groups": (NUMBERS, "q(a + d, sum<b>) :- r(a, b), s(b, d)."),
    "groups on one side, computed": (NUMBERS, "q(a % 2, sum<d>) :- r(a, b), s(b, d)."),
    "grouped by the key": (NUMBERS, "q(b, sum<d>, count<*>) :- r(_, b), s(b, d)."),
    "of the key": (NUMBERS, "q(a, sum<b>, min<b>) :- r(a, b), s(b, _)."),
    "division": (NUMBERS, "q(a, sum<12 / b>) :- r(a, b), s(b, d), b != 0."),
    "a constant": (NUMBERS, "q(a, sum<2>, avg<3>) :- r(a, b), s(b, _)."),
    "having": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d). big(a, x) :- q(a, x), x > 3. q2(count<*>) :- big(_, _)."),
    "over an aggregate view": (
        NUMBERS,
        "q(b, sum<d>) :- s(b, d). v(a, avg<x>) :- r(a, b), q(b, x). w(max<m>) :- v(_, m).",
    ),
    "two aggregate views joined": (
        NUMBERS,
        "q(b, sum<d>) :- s(b, d). p(b, count<*>) :- r(_, b). v(sum<x * n>) :- q(b, x), p(b, n).",
    ),
    "over a recursive view": (
        NUMBERS,
        "reach(x, y) :- r(x, y). reach(x, y) :- r(x, z), reach(z, y). q(x, sum<d>, count<*>) :- reach(x, b), s(b, d).",
    ),
    "under a recursive view": (
        NUMBERS,
        "w(a, sum<d>) :- r(a, b), s(b, d). go(x) :- w(x, n), n > 2. go(y) :- go(x), r(x, y), w(x, _).",
    ),
    "negation": (NUMBERS, "q(a, sum<b>) :- r(a, b), !s(b, _)."),
    "a body aggregate": (NUMBERS, "q(a, sum<n>) :- r(a, b), n = count : { s(b, _) }."),
    "two rules": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d). q(a, sum<e>) :- r(a, d), t(d, e)."),
    "two rules, one plain": (NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d). q(a, b) :- t(a, b)."),
    "keyed": (
        (".decl r(a: number, b: number) key(a)", ".decl s(b: number, d: number)", ".decl t(d: number, e: number)"),
        "q(a, sum<d>) :- r(a, b), s(b, d).",
    ),
    "partitioned by a result": (
        (*NUMBERS, ".decl q(total: number, a: number)"),
        "q(sum<d>, a) :- r(a, b), s(b, d).",
    ),
}


def history(name: str, lines: tuple[str, ...], rules: str, seed: int, transactions: int = 7) -> Case:
    """Few values, so that joins are of many with many, and deletions find something."""
    rng = random.Random(f"{name} {seed}")

    def value(column: str) -> Any:
        number = rng.randrange(4)
        declared = " ".join(lines)
        if not lines:
            return rng.choice((number, number + 0.5, float(number)))
        return number + rng.choice((0.0, 0.1, 0.25)) if f"{column}: float" in declared else number

    def row(relation: str) -> tuple[Any, ...]:
        return tuple(value(c) for c in {"r": "ab", "s": "bd", "t": "de"}[relation])

    return small_case(rng, (*lines, rules), "rrsst", row, transactions)


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_after_any_history(name: str) -> None:
    lines, rules = PROGRAMS[name]
    for seed in range(2):
        case = history(name, lines, rules, seed)
        expected = states(case)
        for partitions in (1, 3):
            run(case, Configuration("absorption", "demand", partitions, seed if partitions > 1 else None), expected)


@pytest.mark.parametrize("strategy", ["recompute", "dred"])
def test_other_strategies(strategy: str) -> None:
    lines, rules = PROGRAMS["several"]
    run(history("several", lines, rules, 9), Configuration(strategy, None, 2))


def insert(session: Any, relation: str, row: tuple[Any, ...]) -> None:
    with session.transaction() as transaction:
        transaction.insert(relation, row)


def plan(program: str) -> planner.Plan:
    return planner.plan(datalog.check(datalog.parse(program)))


def lineage(program: str) -> LineageRule:
    (rule,) = (r for s in plan(program).strata for r in s.rules if isinstance(r, LineageRule))
    return rule


# --- the state -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_state_is_that_of_the_partial_sums(partitions: int) -> None:
    """100 keys, each with 20 x 50 joined rows: 100,000 of them, and 2,000 + 100 partial sums."""
    facts = {
        "r": [(a, b) for b in range(100) for a in range(b, b + 20)],
        "s": [(b, d) for b in range(100) for d in range(50)],
    }
    program = "\n".join((*NUMBERS, "q(a, avg<d>) :- r(a, b), s(b, d)."))
    with livelog.open(datalog.parse(program), facts=facts, partitions=partitions) as session:
        assert session.stats().aggregates == {"q": {"left": 2000, "right": 100, "groups": 119}}
        assert "aggregates of q    2000 left, 100 right, 119 groups" in str(session.stats())
        assert session.stats().tuples < 2000 + 5000 + 3000
        with session.transaction() as transaction:
            for d in range(50):
                transaction.delete("s", (0, d))
        assert session.stats().aggregates == {"q": {"left": 2000, "right": 99, "groups": 118}}
        session.check()


def test_what_is_kept() -> None:
    rule = lineage("\n".join((*NUMBERS, "q(a, avg<d>, sum<a * d>) :- r(a, b), s(b, d), a < 9.")))
    left, right = rule.partials
    assert (left.kept, len(left.where), left.factors) == ((Col(0),), 1, (COUNT, Factor(Col(0))))
    assert (right.kept, right.factors) == ((), (COUNT, Factor(Col(1))))
    assert rule.outputs == (Col(1),)


def test_floats_are_multiplied_row_by_row() -> None:
    rule = lineage("\n".join((*FLOATS, "q(sum<a * d>) :- r(a, b), s(b, d).")))
    assert [p.kept for p in rule.partials] == [(Col(0),), (Col(1),)]
    assert rule.sums == (None,)


def test_a_filter_on_the_key_is_met_by_both_sides() -> None:
    rule = lineage("\n".join((*NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d), b > 1.")))
    assert [len(p.where) for p in rule.partials] == [1, 1]
    assert not rule.filters


def test_keys_of_different_types_meet() -> None:
    program = """.decl r(a: number, b: number)
    .decl s(b: float, d: number)
    q(b, sum<d>) :- r(_, b), s(b, d)."""
    with livelog.open(datalog.parse(program), facts={"r": [(1, 2)], "s": [(2.0, 5), (2.5, 6)]}) as session:
        assert [repr(row) for row in session["q"]] == ["(2.0, 5)"]


def test_one_part_is_grouped_as_it_is() -> None:
    rules = [r for s in plan("\n".join((*NUMBERS, "q(a, sum<b * a>) :- r(a, b)."))).strata for r in s.rules]
    assert [type(r) for r in rules] == [GroupRule]
    assert isinstance(rules[0], GroupRule) and len(rules[0].factors) == 2


def test_many_products() -> None:
    """Beyond a limit an argument is not written out: its columns are kept."""
    times = " * ".join(["(a + d)"] * 6)
    rule = lineage("\n".join((*NUMBERS, f"q(sum<{times}>) :- r(a, b), s(b, d).")))
    assert rule.sums == (None,)
    times = " * ".join(["(a + d)"] * 3)
    rule = lineage("\n".join((*NUMBERS, f"q(sum<{times}>) :- r(a, b), s(b, d).")))
    assert rule.sums[0] is not None and sorted(c for c, _, _ in rule.sums[0][1]) == [1, 1, 3, 3]
    facts = {"r": [(2, 1), (5, 1)], "s": [(1, 3), (1, 4)]}
    with livelog.open(datalog.parse("\n".join((*NUMBERS, f"q(sum<{times}>) :- r(a, b), s(b, d)."))), facts=facts) as s:
        assert list(s["q"]) == [(sum((a + d) ** 3 for a in (2, 5) for d in (3, 4)),)]


# --- errors ----------------------------------------------------------------------------------------------------


def test_an_error_names_the_rule_and_leaves_everything_as_it_was() -> None:
    program = "\n".join((*NUMBERS, "q(a, sum<12 / (a - d)>) :- r(a, b), s(b, d)."))
    with livelog.open(datalog.parse(program), facts={"r": [(1, 1)], "s": [(1, 2)]}) as session:
        with pytest.raises(RuntimeProblem, match="division by zero"), session.transaction() as transaction:
            transaction.insert("r", (2, 1))
            transaction.insert("s", (3, 3))
        assert list(session["q"]) == [(1, -12)]
        session.check()
        insert(session, "r", (3, 1))
        assert set(session["q"]) == {(1, -12), (3, 12)}


def test_what_can_raise_waits_for_a_partner() -> None:
    program = "\n".join((*NUMBERS, "q(sum<12 / d>) :- r(a, b), s(b, d)."))
    with livelog.open(datalog.parse(program), facts={"r": [(1, 1)], "s": [(1, 2), (7, 0)]}) as session:
        assert list(session["q"]) == [(6,)]
        with pytest.raises(RuntimeProblem, match="division by zero"):
            insert(session, "r", (1, 7))


def test_a_total_that_overflows() -> None:
    program = "\n".join((*NUMBERS, "q(sum<a * d>) :- r(a, b), s(b, d)."))
    with livelog.open(datalog.parse(program), facts={"r": [(2**40, 1)], "s": [(1, 2**22)]}) as session:
        assert list(session["q"]) == [(2**62,)]
        with pytest.raises(RuntimeProblem, match="overflow"):
            insert(session, "s", (1, 2**22 + 1))
        assert list(session["q"]) == [(2**62,)]


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ("q(sum<d + d>) :- r(a, b), s(b, d).", {"s": [(1, 1.7e308)]}),
        ("q(any<100 / d>) :- r(a, b), s(b, d).", {"s": [(1, 0.0)]}),
        ("q(count<*>) :- r(a, b), s(b, d), 10 / b > 1.", {"s": [(0, 1.0)]}),
        ("q(avg<100 / a>) :- r(a, b), r(a, c), b < c.", {"r": [(0, 1)]}),
        ("q(100 / a, count<*>) :- r(a, b), r(a, c), b < c.", {"r": [(0, 1)]}),
    ],
)
def test_nothing_is_computed_of_rows_that_are_not_joined(rule: str, facts: dict[str, Any]) -> None:
    with livelog.open(datalog.parse("\n".join((*FLOATS, rule))), facts=facts) as session:
        assert list(session["q"]) == []


def test_whole_numbers_are_exact_on_the_way() -> None:
    facts = {"r": [(2**40, 1), (-(2**40), 1)], "s": [(1, 2**30)]}
    program = "\n".join((*NUMBERS, "q(sum<a * d>, sum<a * a>) :- r(a, b), s(b, d)."))
    with pytest.raises(RuntimeProblem, match="overflow"):
        livelog.open(datalog.parse(program), facts=facts)
    program = "\n".join((*NUMBERS, "q(sum<a * d>) :- r(a, b), s(b, d)."))
    with livelog.open(datalog.parse(program), facts=facts) as session:
        assert list(session["q"]) == [(0,)]


def test_equal_numbers_of_different_types_are_one() -> None:
    program = datalog.parse("v(k, variance<y>, count<*>) :- e(k, x), e(k, y).")
    with livelog.open(program, facts={"e": [("a", 2)]}) as session:
        with session.transaction() as transaction:
            transaction.delete("e", ("a", 2.0))
        assert list(session["v"]) == []
        session.check()


def test_counts_beyond_64_bits_travel() -> None:
    names = "abcdefgh"
    program = "m(avg<1>) :- " + ", ".join(f"{name}(_)" for name in names) + "."
    facts = {name: [(i,) for i in range(300)] for name in names}
    for partitions in (1, 2):
        with livelog.open(datalog.parse(program), facts=facts, partitions=partitions) as session:
            assert list(session["m"]) == [(1.0,)]


# --- why -------------------------------------------------------------------------------------------------------


def test_why_tells_the_rows_behind_a_group() -> None:
    program = "\n".join((*NUMBERS, "q(a, sum<d>) :- r(a, b), s(b, d). least(a, min<d>) :- r(a, b), s(b, d)."))
    facts = {"r": [(1, 1), (1, 2), (2, 1)], "s": [(1, 5), (2, 6), (3, 7)]}
    with livelog.open(datalog.parse(program), facts=facts) as session:
        assert session.why("q", (1, 11)) == [("r", (1, 1)), ("r", (1, 2)), ("s", (1, 5)), ("s", (2, 6))]
        assert session.why("least", (1, 5)) == [("r", (1, 1)), ("s", (1, 5))]


# --- the operators -----------------------------------------------------------------------------------------------


def test_partials_travel() -> None:
    rng = random.Random(5)
    for key, kept in (((0,), (Col(1),)), ((0, 1), ()), ((), (Col(0), Col(2))), ((2, 0), (Col(1),))):
        for factors in ((COUNT,), (COUNT, Factor(Col(2)))):
            side = Intake("", key, (), kept, factors)
            changes = side.summed(Delta([tuple(rng.randrange(3) for _ in range(3)) for _ in range(9)], []))
            assert side.received(side.sent(changes)) == changes


def test_a_row_that_changes_what_is_summed_leaves_no_trace() -> None:
    side = Intake("", (0,), (), (), (COUNT, Factor(Col(1))))
    partials = Partials(side)
    partials.merge(side.summed(Delta([("k", 1)], [])))
    partials.merge(side.summed(Delta([("k", 5)], [("k", 1)])))
    assert partials.rows == {"k": [1, 5]}
    partials.merge(side.summed(Delta([], [("k", 5)])))
    assert partials.rows == {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_either_side_may_come_first(order: tuple[int, int]) -> None:
    sides = (Intake("", (0,), (), (Col(1),), (COUNT,)), Intake("", (0,), (), (Col(1),), (COUNT,)))
    cells = Cells(2, 1)
    join = lineage_join("", sides, (), (Col(1), Col(2)), (((1, 0, 0),),), cells)
    batches = (Delta([("k", "a"), ("k", "b"), ("l", "c")], []), Delta([("k", 1), ("k", 2), ("m", 3)], []))
    for side in order:
        join.take(side, batches[side])
    assert dict(cells.drain()) == dict.fromkeys([("a", 1), ("a", 2), ("b", 1), ("b", 2)], 1)
    join.check()


def test_the_entries_of_a_vector() -> None:
    times = Apply("*", int.__mul__, (Col(0), Col(3)), "*")
    assert Split(2, ("number",) * 4, ((1, 0),)).sums(Sum, times) == (((1, 0, 0),), ((1, 1, 1),), (), (), ())
    assert Split(2, ("float",) * 4, ((1, 0),)).sums(Sum, times) is None
    assert Split(2, ("number",) * 4).sums(factory("max", {}), Col(0)) is None
    floats = Split(2, ("float",) * 4).sums(Sum, Col(3))
    assert floats is not None and floats[:3] == (((1, 0, 0),), (), ((1, 0, 0),))  # all of them floats: as many as rows
