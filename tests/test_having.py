"""Rules that aggregate rows and compare an aggregate of the same rows: grouped once where that does, and exact."""

from __future__ import annotations

import random
from typing import Any

import pytest

import datalog
import livelog
import planner
from tests.cases import Case, small_case, states
from tests.harness import Configuration, run

TYPES = (
    ".decl c(k: number, n: symbol)",
    ".decl o(id: number, k: number)",
    ".decl l(id: number, pos: number, x: number)",
)
BAG = (*TYPES[:2], ".decl l(id: number, pos: number, x: number) bag")
FLOATS = (*TYPES[:2], ".decl l(id: number, pos: number, x: float)")

GROUPED: dict[str, tuple[tuple[str, ...], str]] = {
    "three atoms": (
        TYPES,
        "q(n, k, i, sum<x>) :- c(k, n), o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "alone": (TYPES, "q(i, sum<x>) :- l(i, _, x), v = sum y : { l(i, _, y) }, v > 3."),
    "inside a comparison": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }."),
    "a bag of rows": (BAG, "q(i, k, sum<x>, count<*>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 2."),
    "floats": (FLOATS, "q(i, k, avg<x>) :- o(i, k), l(i, _, x), v = avg y : { l(i, _, y) }, v < 1.5."),
    "into a float": (
        (*TYPES, ".decl q(i: number, k: number, highest: float)"),
        "q(i, k, max<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v >= 2.",
    ),
    "another aggregate": (
        TYPES,
        "q(i, k, sum<x>, min<x>, avg<i>) :- o(i, k), l(i, _, x), v = count : { l(i, _, _) }, v > 1.",
    ),
    "two conditions": (
        TYPES,
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, m = max y : { l(i, _, y) }, v > m.",
    ),
    "the result twice": (
        TYPES,
        "q(i, k, v, sum<x>, sum<x>, v * 2) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v != 2.",
    ),
    "two keys": (
        TYPES,
        "q(i, p, k, sum<x>) :- o(i, k), l(i, p, x), v = sum y : { l(i, p, y) }, v > 0.",
    ),
    "compared with a column": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > k."),
    "negation": (TYPES, "q(i, k, sum<x>) :- o(i, k), !c(k, _), l(i, _, x), v = sum y : { l(i, _, y) }, v > 1."),
    "over a view": (
        TYPES,
        "w(i, x) :- l(i, _, x), x > 0. q(i, k, sum<x>) :- o(i, k), w(i, x), v = sum y : { w(i, y) }, v > 2.",
    ),
    "two rules": (
        TYPES,
        """q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.
        q(i, k, max<x>) :- o(i, k), l(i, _, x).""",
    ),
    "two rules that share": (
        TYPES,
        """q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.
        p(i, sum<x>) :- l(i, _, x), v = sum y : { l(i, _, y) }, v < 3.""",
    ),
}

LEFT_ALONE: dict[str, tuple[tuple[str, ...], str]] = {
    "another aggregate beside it": (
        TYPES,
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > count : { o(_, k) }.",
    ),
    "a bag beside it": (
        (".decl o(id: number, k: number) bag", TYPES[0], TYPES[2]),
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "a column that the head does not tell": (
        TYPES,
        "q(i, sum<x>) :- o(i, _), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "a key that the head does not tell": (
        TYPES,
        "q(k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "a condition on a row": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, p, x), p > 1, 3 < sum y : { l(i, _, y) }."),
    "a condition inside": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 1 < sum y : { l(i, _, y), y > 1 }."),
    "a sum of floats": (FLOATS, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < 1.5."),
    "a computed value": (TYPES, "q(i, k, max<x * 2>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < 2."),
    "a sum into a float": (
        (*TYPES, ".decl q(i: number, k: number, total: float)"),
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v >= 2.",
    ),
    "another function": (TYPES, "q(i, k, variance<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < 2."),
    "a condition that may fail": (
        TYPES,
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, 100 / (v + 1) > 30.",
    ),
    "a value of both": (TYPES, "q(i, k, sum<x * k>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }."),
    "correlated by a row": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, p, x), 2 < count : { l(_, p, _) }."),
    "other rows": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 1 < count : { o(i, _) }."),
    "all rows": (TYPES, "q(i, sum<x>) :- l(i, _, x), 9 < sum y : { l(_, _, y) }."),
    "not typed": ((), "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }. p(n) :- c(_, n)."),
    "a result that is joined": (
        TYPES,
        "q(i, k, v, w, sum<x>) :- o(i, k), o(v, w), l(i, _, x), v = sum y : { l(i, _, y) }.",
    ),
    "approximated": (
        (*TYPES, ".approx q 0.5"),
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }.",
    ),
}


def history(name: str, lines: tuple[str, ...], rules: str, seed: int, transactions: int = 8) -> Case:
    """Few values, so that groups come and go and pass their conditions in both directions."""
    rng = random.Random(f"{name} {seed}")
    shapes = {"c": "kn", "o": "ik", "l": "ipx"}

    def value(column: str) -> Any:
        if column == "n":
            return rng.choice("ab")
        number = rng.randrange(3)
        return number + rng.choice((0.0, 0.1, 0.5)) if column == "x" and "x: float" in " ".join(lines) else number

    def row(relation: str) -> tuple[Any, ...]:
        return tuple(value(c) for c in shapes[relation])

    return small_case(rng, (*lines, rules), "colll", row, transactions)


def plan(lines: tuple[str, ...], rules: str) -> planner.Plan:
    return planner.plan(datalog.check(datalog.parse("\n".join((*lines, ".input c, o, l", rules)))))


def grouped(lines: tuple[str, ...], rules: str) -> list[str]:
    return [name for name in plan(lines, rules).relations if name.endswith(".groups")]


@pytest.mark.parametrize("name", GROUPED)
def test_grouped_once(name: str) -> None:
    assert grouped(*GROUPED[name]) == ["q/1.groups"]


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    assert grouped(*LEFT_ALONE[name]) == []


@pytest.mark.parametrize("name", [*GROUPED, *LEFT_ALONE])
def test_exact_after_any_history(name: str) -> None:
    lines, rules = (GROUPED | LEFT_ALONE)[name]
    if "approx" in " ".join(lines):
        lines = tuple(line for line in lines if "approx" not in line)  # exact without it, and still the law
    for seed in range(4):
        case = history(name, lines, rules, seed)
        expected = states(case)
        for partitions in (1, 3):
            run(case, Configuration("absorption", "demand", partitions, seed if partitions > 1 else None), expected)


@pytest.mark.parametrize("strategy", ["recompute", "dred"])
def test_other_strategies(strategy: str) -> None:
    run(history("three atoms", *GROUPED["three atoms"], 9), Configuration(strategy, None, 2))


def test_it_is_explained_and_shown_as_what_it_is() -> None:
    lines, rules = GROUPED["three atoms"]
    text = planner.explain(plan(lines, rules))
    assert "what it aggregates is compared too: grouped once, as q/1.groups" in text
    assert "nested" not in text and "-> q/1.groups(l.id, sum'<l.x>)" in text
    facts = {"c": [(1, "a")], "o": [(7, 1)], "l": [(7, 1, 3), (7, 2, 2), (8, 1, 9)]}
    with livelog.open(datalog.parse("\n".join((*lines, rules))), facts=facts) as session:
        assert session.views == ("q",)
        assert list(session["q"]) == [("a", 1, 7, 5)]
        assert set(session.why("q", ("a", 1, 7, 5))) == {
            ("c", (1, "a")), ("o", (7, 1)), ("l", (7, 1, 3)), ("l", (7, 2, 2)),
        }  # fmt: skip
        with pytest.raises(KeyError):
            session["q/1.groups"]
        with session.transaction() as tx:
            tx.delete("l", (7, 1, 3))
        assert tx.changes["q"].deleted == [("a", 1, 7, 5)] and not list(session["q"])
        session.check()


HUGE = [(1, position, 2**62) for position in range(9)]


def test_a_sum_out_of_range_is_an_error_of_the_rule_that_reads_it() -> None:
    lines, rules = GROUPED["alone"]
    with livelog.open(datalog.parse("\n".join((*lines, rules)))) as session:
        with pytest.raises(livelog.RuntimeProblem, match="overflow: the sum is outside") as caught:
            session.load("l", HUGE)
        assert "in the rule q(i, sum<x>) :- l(i, _, x), v = sum y" in str(caught.value)
        assert not list(session["l"])


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_sum_that_nobody_reads_is_no_error(partitions: int) -> None:
    lines, rules = GROUPED["three atoms"]
    with livelog.open(datalog.parse("\n".join((*lines, rules))), partitions=partitions) as session:
        session.load("l", HUGE)
        session.load("o", [(1, 5)])
        with pytest.raises(livelog.RuntimeProblem, match="overflow"):
            session.load("c", [(5, "a")])
        with session.transaction() as tx:
            tx.insert("c", (5, "a"))
            tx.delete_all("l", HUGE[1:])
        assert tx.changes["q"].inserted == [("a", 5, 1, 2**62)]
        session.check()
