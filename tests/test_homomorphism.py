"""The split of every aggregate view into a homomorphism and an answer function, as `explain` tells it."""

from __future__ import annotations

from typing import Any

import pytest

import datalog
import livelog
import planner
from datalog.aggregates import AGGREGATES
from planner.homomorphism import _LINEAR, _MULTISET, homomorphisms

DECLARED = """.decl s(x: symbol, y: number)
.decl r(x: symbol, b: number)
.decl w(b: number, d: float)
"""


def lines(rules: str, rule: str = "q/1", **registered: Any) -> dict[str, str]:
    program = datalog.check(datalog.parse(DECLARED + rules), aggregates=registered)
    found = homomorphisms(planner.plan(program))[rule].lines()
    return dict(line.split(": ", 1) for line in found)


@pytest.mark.parametrize(
    ("aggregate", "state", "merge", "diminisher", "answer"),
    [
        ("count<*>", "count", "+", "-", "count"),
        ("sum<y>", "count, sum y", "+", "-", "sum y"),
        ("avg<y>", "count, sum y", "+", "-", "sum y / count"),
        ("mean<2 * y>", "count, sum 2 * y", "+", "-", "sum 2 * y / count"),
        ("variance<y>", "count, sum y, sum y^2", "+", "-", "sum y^2 / count - (sum y / count)^2"),
        ("all<y>", "count, how many y are true", "+", "-", "as many as the count"),
        ("min<y>", "ordered multiset of y", "multiset union", "multiset difference", "smallest"),
        ("max<y>", "ordered multiset of y", "multiset union", "multiset difference", "largest"),
        ("median<y>", "ordered multiset of y", "multiset union", "multiset difference", "the one in the middle"),
        ("top<y, 3>", "ordered multiset of y", "multiset union", "multiset difference", "the 3 largest"),
        ("count_distinct<y>", "multiset of y", "multiset union", "multiset difference", "how many are different"),
    ],
)
def test_the_monoid_of_an_aggregate(aggregate: str, state: str, merge: str, diminisher: str, answer: str) -> None:
    found = lines(f"q(x, {aggregate}) :- s(x, y).")
    assert found == {
        "state": f"per x: {state}",
        "lineage": "x",
        "merge": f"{merge} on each",
        "diminisher": f"{diminisher} on each",
        "answer": answer,
    }


def test_every_aggregate_has_one() -> None:
    assert set(AGGREGATES) - {"mean"} | {"sum'"} == set(_LINEAR) | set(_MULTISET)  # with the planner's own


def test_a_product_of_monoids() -> None:
    found = lines("q(x, avg<y>, min<y>, count<*>) :- s(x, y).")
    assert found["state"] == "per x: count, sum y, ordered multiset of y"
    assert found["merge"] == "+ on sums, multiset union on ordered multiset of y"
    assert found["diminisher"] == "- on sums, multiset difference on ordered multiset of y"
    assert found["answer"] == "avg<y>: sum y / count; min<y>: smallest; count<*>: count"


def test_a_join_keeps_partial_states_under_its_lineage() -> None:
    found = lines("q(x, avg<d>) :- r(x, b), w(b, d).")
    assert found["state"] == "r per (b, x): count; w per b: count, sum d; groups per r.x: count, sum w.d"
    assert found["lineage"] == "b"


def test_what_is_not_linear_keeps_its_column() -> None:
    found = lines("q(x, max<d>) :- r(x, b), w(b, d).")
    assert found["state"] == "r per (b, x): count; w per (b, d): count; groups per r.x: ordered multiset of w.d"
    assert found["merge"] == "+ on sums, multiset union on ordered multiset of w.d"


def test_a_total_has_no_lineage() -> None:
    assert lines("q(sum<y>) :- s(_, y).")["state"] == "count, sum y"
    assert lines("q(sum<y>) :- s(_, y).")["lineage"] == "none, all facts together"


def test_a_view_over_an_aggregate_view_is_one_over_its_changes() -> None:
    found = lines("p(x, sum<y>) :- s(x, y). q(count<*>) :- p(x, n), n > 3.")
    assert (found["over"], found["state"]) == ("the changes of p", "count")
    assert "over" not in lines("p(x, y) :- s(x, y), y > 3. q(x, sum<y>) :- p(x, y).")


def test_a_view_over_a_recursive_view_too() -> None:
    rules = "p(x, y) :- w(x, y). p(x, z) :- p(x, y), w(y, z). q(x, count<*>) :- p(x, _)."
    assert lines(rules)["over"] == "the changes of p"


def test_an_aggregate_deep_below_is_seen_through_other_views() -> None:
    rules = "p(x, sum<y>) :- s(x, y). o(x) :- p(x, n), n > 3. q(count<*>) :- o(x), s(x, _)."
    assert lines(rules)["over"] == "the changes of p"


def test_aggregates_of_the_user() -> None:
    def add(a: Any, b: Any) -> Any:
        return a + b

    def subtract(a: Any, b: Any) -> Any:
        return a - b

    found = lines("q(x, total<y>) :- s(x, y).", total=livelog.aggregate(0, add, subtract))
    assert found["state"] == "per x: state of total of y"
    assert (found["merge"], found["diminisher"]) == ("the user's on each", "the user's inverse on each")
    found = lines("q(x, total<y>) :- s(x, y).", total=livelog.aggregate(0, add))
    assert (found["state"], found["merge"]) == ("per x: multiset of y", "multiset union on each")
    assert found["answer"] == "the user's, of all of them merged by the user's function"
    found = lines("q(x, total<y>) :- s(x, y).", total=sum)
    assert found["answer"] == "the user's function of the list of them"


def test_explain_prints_it() -> None:
    text = planner.explain(planner.plan(datalog.check(datalog.parse(DECLARED + "q(x, avg<y>) :- s(x, y)."))))
    assert "    state: per x: count, sum y\n    lineage: x\n    merge: + on each\n    diminisher: - on each\n" in text
    assert "    answer: sum y / count\n" in text
