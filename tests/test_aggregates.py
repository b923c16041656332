"""All aggregates of the language and a person's own, in heads and bodies, on every strategy and runtime."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import RuntimeProblem, UsageProblem
from tests.harness import METHODS, Configuration, accumulate, apply, difference
from tests.oracle import Base, evaluate

CONFIGURATIONS = [Configuration(strategy, ship, n, 5) for strategy, ship in METHODS for n in (1, 3)]

HEADS = """
.decl r(g: symbol, i: number, x: number, y: float)
.const upper = 0.9
spread(g, variance<x>, stddev<y>) :- r(g, _, x, y).
middle(g, median<x>, quantile<y, upper>, quantile<x, 0.25>, avg<x>) :- r(g, _, x, y).
ends(top<[x, g], 3>, bottom<y, 2>, g) :- r(g, _, x, y).
kinds(g, count_distinct<x>, count<*>, all<x>, any<x>) :- r(g, _, x, _).
lists(collect<x>, count_distinct<g>) :- r(g, _, x, _).
parity(x % 2, collect<[g, i]>, sum<y>) :- r(g, i, x, y).
"""

BODIES = """
.decl r(g: symbol, i: number, x: number, y: float)
.decl g(g: symbol, k: number)
spread(g, v, s) :- g(g, _), v = variance x : { r(g, _, x, _) }, s = stddev y : { r(g, _, _, y) }.
middle(g, m, q) :- g(g, _), m = median x : { r(g, _, x, _) }, q = quantile y, 0.1 : { r(g, _, _, y) }.
ends(g, t, b) :- g(g, k), t = top [x, i], 2 : { r(g, i, x, _), x <= k }, b = bottom x + k, 3 : { r(g, _, x, _) }.
kinds(g, n, a, o) :- g(g, k), n = count_distinct x : { r(g, _, x, _) }, a = all x - k : { r(g, _, x, _) },
    o = any x - k : { r(_, _, x, _) }.
lists(g, l) :- g(g, k), l = collect x : { r(_, _, x, _), x < k }.
busy(g) :- g(g, k), k < median x : { r(g, _, x, _) } + count_distinct i : { r(_, i, _, _) }.
"""

CHAINED = """
.decl link(x: symbol, y: symbol, c: number) bag
reach(x, y) :- link(x, y, _).
reach(x, y) :- link(x, z, _), reach(z, y).
degrees(x, count_distinct<y>, collect<y>) :- reach(x, y).
prices(x, median<c>, top<c, 2>, variance<c>) :- link(x, _, c).
typical(median<d>) :- degrees(_, d, _).
rich(x) :- prices(x, m, _, _), typical(t), m > t.
twice(x, quantile<c * d, 0.5>) :- link(x, y, c), link(y, _, d).
"""


def law(text: str, rows: Any, configuration: Configuration, seed: int, **options: Any) -> None:
    """A random history: after each transaction views and sums of changes are what the oracle says."""
    program = datalog.check(datalog.parse(text), **options)
    rng, base = random.Random(seed), Base(program)
    with configuration.open(program) as session:
        views = list(session.plan.outputs)
        total: dict[str, set[Any]] = {view: set() for view in views}
        inside: list[tuple[str, Any]] = []
        for _ in range(6):
            operations: list[Any] = []
            for _ in range(rng.randint(1, 9)):
                if inside and rng.random() < 0.45:
                    operations.append(("delete", *inside.pop(rng.randrange(len(inside)))))
                else:
                    inside.append(rows(rng))
                    operations.append(("insert", *inside[-1]))
            with session.transaction() as transaction:
                apply(transaction, operations)
            base.apply(operations)
            expected = evaluate(program, base.facts())
            assert not accumulate(total, transaction.changes, views)
            for view in views:
                assert not difference(expected[view], set(session[view])), view
                assert not difference(expected[view], total[view]), view
        session.check()


def measurement(rng: random.Random) -> tuple[str, tuple[Any, ...]]:
    return "r", (rng.choice("ab"), rng.randrange(3), rng.randrange(-2, 5), rng.choice([0.1, 0.2, 1.0, 2.5, -1e10]))


def row(rng: random.Random) -> tuple[str, tuple[Any, ...]]:
    return ("g", (rng.choice("abc"), rng.randrange(4))) if rng.random() < 0.2 else measurement(rng)


def link(rng: random.Random) -> tuple[str, tuple[Any, ...]]:
    return "link", (rng.choice("abcd"), rng.choice("abcd"), rng.randrange(3))


@pytest.mark.everywhere(spark=3)
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: f"{c.strategy}-{c.ship}-{c.partitions}")
@pytest.mark.parametrize("text", [HEADS, BODIES, CHAINED], ids=["heads", "bodies", "chained"])
def test_histories(text: str, configuration: Configuration) -> None:
    rows = {HEADS: measurement, BODIES: row, CHAINED: link}[text]
    law(text, rows, configuration, seed=CONFIGURATIONS.index(configuration))


def angle(state: tuple[int, int]) -> int:
    return (state[0] - state[1]) % 360


OWN: dict[str, Any] = {
    "gcd": livelog.aggregate(0, math.gcd, type=int),
    "turn": livelog.aggregate(
        (0, 0), lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda a, b: (a[0] - b[0], a[1] - b[1]), angle,
        lambda v: (v, 0) if v > 0 else (0, -v),
    ),
    "ends": lambda values: [values[0], values[-1]],
}

OWN_PROGRAM = """
.decl r(g: symbol, i: number, x: number, y: float)
.decl g(g: symbol, k: number)
heads(g, gcd<x>, turn<x>, ends<x>, sum<x>) :- r(g, _, x, _).
bodies(g, a, b, c) :- g(g, k), a = gcd x + k : { r(g, _, x, _) }, b = turn x : { r(g, _, x, _), x < k + 2 },
    c = ends [x, i] : { r(_, i, x, _) }.
joined(g, gcd<x * k>, turn<k>) :- r(g, _, x, _), g(_, k).
"""


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: f"{c.strategy}-{c.ship}-{c.partitions}")
def test_histories_of_a_persons_own(configuration: Configuration) -> None:
    law(OWN_PROGRAM, row, configuration, 100 + CONFIGURATIONS.index(configuration), aggregates=OWN)


@pytest.mark.everywhere
@pytest.mark.parametrize("partitions", [1, 3])
def test_what_aggregates_say_of_nothing(partitions: int) -> None:
    """Those with a zero say it, the others have no answer; in heads there are no empty groups."""
    text = """
    .decl g(g: symbol)
    .decl r(g: symbol, x: number)
    zeros(g, a, b, c, d, e, f, h, i) :- g(g), a = count : { r(g, _) }, b = sum x : { r(g, x) },
        c = count_distinct x : { r(g, x) }, d = any x : { r(g, x) }, e = all x : { r(g, x) },
        f = collect x : { r(g, x) }, h = top x, 2 : { r(g, x) }, i = bottom x, 2 : { r(g, x) }.
    v1(g, v) :- g(g), v = variance x : { r(g, x) }.
    v2(g, v) :- g(g), v = stddev x : { r(g, x) }.
    v3(g, v) :- g(g), v = median x : { r(g, x) }.
    v4(g, v) :- g(g), v = quantile x, 0.5 : { r(g, x) }.
    v5(g, v) :- g(g), v = gcd x : { r(g, x) }.
    v6(g, top<x, 1>, all<x>) :- g(g), r(g, x).
    """
    program = datalog.parse(text)
    with livelog.open(program, facts={"g": [("a",)]}, aggregates=OWN, partitions=partitions) as session:
        empty = [("a", 0, 0, 0, 0, 1, (), (), ())]
        for _ in range(2):
            assert list(session["zeros"]) == empty
            assert not any(len(session[f"v{i}"]) for i in range(1, 7))
            with session.transaction() as tx:
                tx.insert("r", ("a", 4))
            assert list(session["zeros"]) == [("a", 1, 4, 1, 1, 1, (4,), (4,), (4,))]
            assert [list(session[f"v{i}"]) for i in (1, 3, 5, 6)] == [
                [("a", 0.0)], [("a", 4.0)], [("a", 4)], [("a", (4,), 1)]]
            with session.transaction() as tx:
                tx.delete("r", ("a", 4))


def test_types_of_results() -> None:
    program = datalog.check(datalog.parse("""
        .decl r(g: symbol, x: number)
        a(variance<x>, stddev<x>, median<x>, quantile<x, 0.5>, count_distinct<g>, all<x>, any<x>, top<g, 1>,
          bottom<x, 1>, collect<x>, gcd<x>, turn<x>, ends<x>) :- r(g, x).
    """), aggregates=OWN)
    assert [column.type for column in program.relations["a"].columns] == [
        *["float"] * 4, *["number"] * 3, *["list"] * 3, "number", "number", "any"]


def test_other_names_are_not_reserved() -> None:
    """Relations and variables may be called like the aggregates that are no words of the language."""
    text = "top(any, all) :- median(any, all), any < all. collect(x) :- x = collect y : { median(_, y) }."
    with livelog.open(datalog.parse(text), facts={"median": [(1, 2), (2, 1)]}) as session:
        assert (list(session["top"]), list(session["collect"])) == ([(1, 2)], [((1, 2),)])


def test_a_parameter_can_be_set_from_outside() -> None:
    program = datalog.parse(".const k = 1 v(top<x, k>, quantile<x, q>) :- r(x).")
    with livelog.open(program, facts={"r": [(1,), (2,), (3,)]}, constants={"k": 2, "q": 0}) as session:
        assert list(session["v"]) == [((3, 2), 1.0)]
    with pytest.raises(datalog.LivelogError, match="the second argument of `top` must be a whole number, at least 1"):
        livelog.open(program, constants={"k": 0, "q": 0})


def test_one_of_ones_own_hides_the_languages() -> None:
    program = datalog.parse("v(median<x>) :- r(x).")
    with livelog.open(program, facts={"r": [(1,), (2,)]}, aggregates={"median": max}) as session:
        assert list(session["v"]) == [(2,)]


def test_formatted_programs_parse_to_the_same() -> None:
    minus = "r(v, w) :- v = median (-x) : { s(x) }, w = top (-x) * x, 2 : { s(x) }, count : s(-1) < 2 * sum -x : s(x)."
    for text in (HEADS, BODIES, minus):
        program = datalog.parse(text)
        assert datalog.parse(datalog.format_program(program)).rules == program.rules


def test_explain_shows_parameters() -> None:
    from planner import explain

    with livelog.open(datalog.parse(HEADS)) as session:
        text = explain(session.plan)
    assert "quantile<r.y, 0.9>" in text and "top<[r.x, r.g], 3>" in text
    with livelog.open(datalog.parse(BODIES)) as session:
        assert "quantile r.y, 0.1 in r" in explain(session.plan)


def test_what_groups_keep_is_measured() -> None:
    """The sums of a group are small, however many values there are; what needs all values says so."""
    declaration = ".decl r(g: symbol, i: number, x: number, y: float)"

    def size(rule: str, n: int) -> int:
        facts = {"r": [("a", 1, i, i / 7) for i in range(n)]}
        with livelog.open(datalog.parse(declaration + rule), facts=facts, aggregates=OWN) as session:
            return int(session.stats().state_bytes)

    sizes = {
        (aggregate, n): size(f" v({aggregate}) :- r(_, _, x, y).", n) - size("", n)
        for n in (100, 1000)
        for aggregate in ("sum<x>", "stddev<y>", "all<x>", "median<x>", "count_distinct<x>", "max<x>", "gcd<x>")
    }
    for aggregate in ("sum<x>", "stddev<y>", "all<x>"):
        assert 0 < sizes[aggregate, 1000] < sizes[aggregate, 100] + 50 < 300
    for aggregate in ("median<x>", "count_distinct<x>", "max<x>", "gcd<x>"):
        assert sizes[aggregate, 1000] > 5 * sizes[aggregate, 100] > 500


# --- a person's own ------------------------------------------------------------------------------------------


def test_a_change_costs_a_merge_with_an_inverse_and_a_fold_without() -> None:
    calls: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return function(*arguments)

        return call

    own = {
        "total": livelog.aggregate(0, counted("merge", lambda a, b: a + b), counted("inverse", lambda a, b: a - b)),
        "folded": livelog.aggregate(0, counted("fold", lambda a, b: a + b)),
    }
    program = datalog.parse("v(g, total<x>) :- r(g, x). w(g, folded<x>) :- r(g, x).")
    rows = [("a", i) for i in range(500)] + [("b", i) for i in range(500)]
    with livelog.open(program, facts={"r": rows}, aggregates=own) as session:
        calls.clear()
        with session.transaction() as tx:
            tx.insert("r", ("a", 1000))
            tx.delete("r", ("a", 7))
        assert set(session["v"]) == set(session["w"]) == {("a", 125_743), ("b", 124_750)}
    assert calls["merge"] == calls["inverse"] == 1
    assert 499 < calls["fold"] < 510, "only the group that changed, once"


@pytest.mark.everywhere
@pytest.mark.parametrize("where", ["merge", "answer", "unit"])
def test_a_failure_in_a_persons_code_names_the_rule_and_rolls_back(where: str) -> None:
    def fragile(name: str, function: Any) -> Any:
        return (lambda *arguments: function(*arguments) // (0 if 13 in arguments else 1)) if name == where else function

    own = livelog.aggregate(
        0, fragile("merge", lambda a, b: a + b), lambda a, b: a - b, fragile("answer", lambda a: a),
        fragile("unit", lambda a: a),
    )
    program = datalog.parse("v(g, own<x>) :- r(g, x). w(n) :- n = own x : { r(_, x) }.")
    facts = {"r": [("a", 1), ("a", 2), ("b", 4)]}
    before = {("a", 3), ("b", 4)}
    with livelog.open(program, facts=facts, aggregates={"own": own}) as session:
        assert set(session["v"]) == before
        rules = r"v\(g, own<x>\) :- r\(g, x\)\.|w\(n\) :- n = own"
        with pytest.raises(RuntimeProblem, match=rules), session.transaction() as tx:
            tx.insert("r", ("c", 5))
            tx.insert("r", ("b", 9))
            tx.insert("r", ("d", 13))
        assert set(session["v"]) == before and list(session["w"]) == [(7,)]
        with session.transaction() as tx:
            tx.insert("r", ("e", 1))
        assert ("e", 1) in session["v"]


@pytest.mark.everywhere
def test_an_inverse_that_fails_is_done_without() -> None:
    """The facts that are left have an answer, and evaluating them anew finds it."""

    def inverse(a: int, b: int) -> int:
        return (a - b) // (0 if b == 13 else 1)

    own = livelog.aggregate(0, lambda a, b: a + b, inverse)
    program = datalog.parse("v(g, own<x>) :- r(g, x).")
    with livelog.open(program, facts={"r": [("a", 1), ("a", 2), ("a", 13)]}, aggregates={"own": own}) as session:
        with session.transaction() as tx:
            tx.delete("r", ("a", 13))
        assert list(session["v"]) == [("a", 3)]
        assert (tx.changes["v"].inserted, tx.changes["v"].deleted) == ([("a", 3)], [("a", 16)])


def test_results_become_values_of_the_language() -> None:
    own = {
        "pair": livelog.aggregate((), lambda a, b: a + b, unit=lambda v: (v,), answer=lambda s: [True, [*sorted(s)]]),
        "none": livelog.aggregate(0, lambda a, b: a + b, answer=lambda s: None),
    }
    with livelog.open(datalog.parse("v(pair<x>) :- r(x)."), facts={"r": [(2,), (1,)]}, aggregates=own) as session:
        assert list(session["v"]) == [((1, (1, 2)),)]
    with pytest.raises(RuntimeProblem, match="none returned None, which is not a number, a string or a list"):
        livelog.open(datalog.parse("v(none<x>) :- r(x)."), facts={"r": [(2,)]}, aggregates=own)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"merge": 3}, "`merge` must be a function, not 3"),
        ({"merge": max, "inverse": "min"}, "`inverse` must be a function, not 'min'"),
        ({"merge": max, "answer": 1}, "`answer` must be a function, not 1"),
        ({"merge": max, "type": "number"}, "`type` must be int, float, str or list, not 'number'"),
    ],
)
def test_what_cannot_be_a_monoid(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageProblem, match="livelog.aggregate: " + message):
        livelog.aggregate(0, **arguments)


def test_the_type_of_the_answer_is_that_of_its_annotation() -> None:
    def answer(state: int) -> float:
        return state / 2

    assert livelog.aggregate(0, max, answer=answer).result_type == "float"
    assert livelog.aggregate(0, max, answer=answer, type=list).result_type == "list"
    assert livelog.aggregate(0, max).result_type == "any"
