"""Which comparisons with nested aggregates are kept by an index, what `explain` says, and why others are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import datalog
import planner
from planner.plan import BROADCAST, LookupRule, NestedRule, Plan
from planner.validate import problems

EXAMPLES = Path(__file__).parent.parent / "examples"
DECLARED = ".decl r(id: number, g: number, p: number, v: number)\n"
TOTAL = "t = sum v0 : { r(_, _, _, v0) }"


def plan_of(text: str) -> Plan:
    return planner.plan(datalog.check(datalog.parse(text)))


def nested(plan: Plan) -> list[NestedRule]:
    return [rule for stratum in plan.strata for rule in stratum.rules if isinstance(rule, NestedRule)]


def of(view: str, plan: Plan) -> list[NestedRule]:
    """The nested rules of one view of the program, its steps included."""
    return [rule for rule in nested(plan) if rule.id.split("/")[0] == view]


def lookups(view: str, plan: Plan) -> list[LookupRule]:
    rules = [rule for stratum in plan.strata for rule in stratum.rules if isinstance(rule, LookupRule)]
    return [rule for rule in rules if rule.id.split("/")[0] == view]


@pytest.mark.parametrize(
    "example, view, methods, words",
    [
        ("13_majority", "half", ["answer"], "PAI: what has the same inner value by that value"),
        ("13_majority", "halves", ["answer"], "PAI: what has the same inner value by that value"),
        ("14_order_book", "vwap", ["sum"], "RPAI: the rows that pass are a range of keys"),
        ("14_order_book", "mst", ["sum", "sum"], "RPAI: the rows that pass are a range of keys"),
        ("14_order_book", "psp", ["value", "value"], "RPAI: rows by their key"),
        ("14_order_book", "nq1", ["sum", "sum"], "RPAI: the rows that pass are a range of keys"),
        ("14_order_book", "sq2", ["sum"], "RPAI: the rows that pass are a range of keys"),
        ("14_order_book", "sq1", ["each"], "general algorithm, free and bound maps: both sides are correlated"),
        ("15_part_orders", "small", ["value"], "RPAI: rows by their key"),
        ("15_part_orders", "q18", [], "q18/1: what it aggregates is compared too: grouped once, as q18/1.groups"),
    ],
)
def test_the_queries_of_the_paper(example: str, view: str, methods: list[str], words: str) -> None:
    plan = plan_of((EXAMPLES / f"{example}.dl").read_text())
    assert [rule.method for rule in of(view, plan)] == methods
    assert not lookups(view, plan)
    assert words in planner.explain(plan)


def test_what_is_correlated_with_the_outermost_row_runs_the_general_algorithm() -> None:
    plan = plan_of((EXAMPLES / "14_order_book.dl").read_text())
    assert lookups("nq2", plan)
    assert "an aggregate inside an aggregate is correlated with the outermost row" in planner.explain(plan)


@pytest.mark.parametrize(
    "body, reason",
    [
        ("b = avg w : { r(_, _, q, w), q <= p }, b < v", "the avg of the rows up to a key is no running sum"),
        (f"{TOTAL}, b = max w : {{ r(_, _, q, w), q <= p }}, b < t", "the max of the rows up to a key is no running"),
        (f"{TOTAL}, b = sum w : {{ r(_, h, q, w), q <= p, h <= g }}, b < t", "two inequalities tie the aggregate"),
        (f"{TOTAL}, b = sum w * p : {{ r(_, _, q, w), q <= p }}, b < t", "what is aggregated depends on the outer row"),
        (f"{TOTAL}, b = sum w : {{ r(_, _, q, w), q + p <= 3 }}, b < t", "mixes inner and outer columns on one side"),
        (f"{TOTAL}, b = sum w : {{ r(_, _, q, w), q != p }}, b < t", "neither a kind nor a running sum"),
        ("a = min w : { r(_, g, _, w) }, b = max w2 : { r(_, g, _, w2) }, a < b - v", "both sides are correlated"),
    ],
)
def test_why_a_comparison_is_left_to_the_general_algorithm(body: str, reason: str) -> None:
    plan = plan_of(DECLARED + f"q(sum<v>) :- r(_, g, p, v), {body}.")
    assert not nested(plan) and lookups("q", plan)
    assert any("by the general algorithm" in note and reason in note for note in plan.notes), plan.notes


@pytest.mark.parametrize(
    "body, reason",
    [
        ("a = sum w : { r(_, _, o, w), o > p }, b = sum x : { r(_, _, q, x), q <= p }, b < a", "both sides are"),
        (f"{TOTAL}, b = sum w : {{ r(_, _, q, w), q <= p }}, b * b > t", "may go up and down with the sum"),
        (f"{TOTAL}, b = sum w : {{ r(_, _, q, w), q <= p }}, b != t", "what differs from a threshold is no range"),
        (f"{TOTAL}, b = sum w : {{ r(_, _, q, w), q <= p }}, b - t > 3", "an aggregate stands on the side of what"),
    ],
)
def test_why_rows_are_tried_one_by_one(body: str, reason: str) -> None:
    (rule,) = nested(plan_of(DECLARED + f"q(sum<v>) :- r(_, g, p, v), {body}."))
    assert rule.method == "each" and reason in rule.reason


def test_relations_whose_types_are_not_known_are_not_indexed() -> None:
    plan = plan_of("q(sum<v>) :- r(p, v), t = sum w : { r(_, w) }, b = sum w2 : { r(p2, w2), p2 <= p }, b > t / 2.")
    assert not nested(plan)
    assert any("declare the relation" in note for note in plan.notes)


def test_equalities_place_rows_and_groups() -> None:
    text = ".decl r(g: number, v: number)\n"
    text += "q(g, sum<v>) :- r(g, v), a = avg w : { r(g, w) }, v < a."
    (rule,) = nested(plan_of(text))
    assert rule.inner is not None and rule.outer.at == rule.inner.input.at == (0,)
    (rule,) = nested(plan_of(text.replace("v < a.", "t = sum x : { r(_, x) }, v < a + t.")))
    assert rule.scalars[0].input.at == BROADCAST


def test_groups_without_the_equality_are_made_on_one_partition() -> None:
    (rule,) = nested(plan_of(DECLARED + "q(p, sum<v>) :- r(_, g, p, v), a = avg w : { r(_, g, _, w) }, v < a."))
    assert rule.outer.at == () and rule.head != "q"


def test_parts_are_joined_first_or_filtered_first() -> None:
    plan = plan_of((EXAMPLES / "15_part_orders.dl").read_text())
    (small,) = of("small", plan)
    assert plan.relations[small.outer.relation].kind == "auxiliary"  # lineitem with part, which is far smaller
    text = (EXAMPLES / "15_part_orders.dl").read_text().replace("q18(name, c, o, date, price,", "q18(name, c, o, date,")
    plan = plan_of(text)  # a group may be several orders now
    (q18,) = of("q18", plan)
    assert (q18.outer.relation, q18.shows) == ("orders", "rows")
    assert "no index: rows with the same inner value pass a constant together" in planner.explain(plan)


def test_a_broken_rule_is_found_out() -> None:
    body = f"{TOTAL}, b = sum w : {{ r(_, _, o, w), o <= p }}, b > t - 1"
    plan = plan_of(DECLARED + f"q(sum<v>) :- r(_, g, p, v), {body}.")
    (rule,) = nested(plan)
    assert rule.inner is not None
    assert not list(problems(plan))
    for broken in (
        replace(rule, outer=replace(rule.outer, at=(2,))),
        replace(rule, scalars=(replace(rule.scalars[0], input=replace(rule.scalars[0].input, at=(1,))),)),
        replace(rule, inner=replace(rule.inner, input=replace(rule.inner.input, at=(1,)))),
        replace(rule, layout=(1,)),
    ):
        strata = tuple(replace(s, rules=(broken,)) for s in plan.strata)
        assert list(problems(replace(plan, strata=strata)))
