"""Plans: golden explanations, what the planner promises, and plans run by an interpreter against the oracle."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, get_args

import pytest

import datalog
import planner
from datalog.errors import RuntimeProblem
from planner.explain import EXPLAIN, explain
from planner.passes.stratify import inputs_of
from planner.plan import BROADCAST, GroupRule, JoinRule, LookupRule, MapRule, Plan, PlanRule
from planner.validate import problems
from tests.cases import program_of, states
from tests.generate import generate
from tests.oracle import Base, evaluate
from tests.plan_interpreter import Interpreter, winners

PLANS = sorted((Path(__file__).parent / "plans").glob("*.dl"))
SEEDS = 160  # random programs in chunks of CHUNK
CHUNK = 20


def plan_of(text: str, **options: Any) -> Plan:
    return planner.plan(datalog.check(datalog.parse(text), **options))


def rules(plan: Plan) -> list[PlanRule]:
    return [rule for stratum in plan.strata for rule in stratum.rules]


def rows(text: str, relation: str, partitions: int = 3) -> list[tuple[Any, ...]]:
    """What the plan of a program with facts in it gives for a relation, by interpretation."""
    program = program_of(text)
    result = Interpreter(planner.plan(program), partitions).run({})
    expected = evaluate(program, Base(program).facts())[relation]
    assert result[relation] == expected
    return sorted(result[relation])


# --- golden --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PLANS, ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    text = explain(plan_of(path.read_text())) + "\n"
    golden = path.with_suffix(".txt")
    if os.environ.get("LIVELOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_rule_is_explained() -> None:
    assert set(EXPLAIN) == set(get_args(PlanRule))


# --- against the oracle --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_random_programs(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        case = generate(seed)
        program = program_of(case.text)
        plan = planner.plan(program)
        assert not list(problems(plan))
        explain(plan)
        for name, pruned in case.pruned.items():
            if pruned.surely:
                selection = plan.relations[name].selection
                assert selection is not None, (seed, plan.notes)
                assert (selection.group, set(selection.values)) == (pruned.group, set(pruned.best))
        base = Base(program)
        base.load(case.loaded)
        expected = states(case)
        look = {0, random.Random(seed).randrange(len(expected)), len(expected) - 1}
        for number, state in enumerate(expected):
            if number and not state.failed:
                base.apply(case.history[number - 1])
            if number not in look:
                continue
            got = Interpreter(plan, 1 + number % 3).run(base.facts())
            for view in program.derived:
                selection = plan.relations[view].selection
                right = state.relations[view]
                assert got[view] == (right if selection is None else winners(selection, right)), (seed, number, view)


# --- rules without atoms, and facts of views -----------------------------------------------------------------


def test_a_rule_of_comparisons_is_a_fact() -> None:
    plan = plan_of("r(x) :- x = 1 + 2. r(x) :- x = 4, x > 5.")
    assert plan.facts == {"r#facts": ((3,),)}
    assert [type(rule) for rule in rules(plan)] == [MapRule]


def test_an_error_in_a_rule_of_comparisons_names_it() -> None:
    with pytest.raises(RuntimeProblem, match=r"division by zero[^$]*r\(x\) :- x = 1 / 0"):
        plan_of("r(x) :- x = 1 / 0.")


def test_a_condition_protects_a_computation() -> None:
    assert Interpreter(plan_of("a(0). a(2). r(8 / x) :- a(x), 8 / x > 1, x != 0."), 1).run({})["r"] == {(4,)}
    assert rows("r(x) :- y = 0, y != 0, x = 1 / y.", "r") == []


def test_facts_of_a_view() -> None:
    plan = plan_of("r(1). r(x) :- a(x). .input r")
    assert plan.facts == {"r#facts": ((1,),)} and plan.relations["r#facts"].kind == "base"
    assert plan_of(".input r\nr(x) :- a(x).").relations["r#facts"].kind == "base"
    assert "a#facts" not in plan.relations


def test_numbers_become_floats_in_float_columns() -> None:
    plan = plan_of(".decl r(x: float)\n.decl b(x: float)\nb(1). r(2). r(x) :- a(x). r(count<*>) :- a(_). a(7).")
    assert [type(v) for (v,) in plan.facts["b"] + plan.facts["r#facts"]] == [float, float]
    result = Interpreter(plan, 2).run({})["r"]
    assert sorted(result) == [(1.0,), (2.0,), (7.0,)] and all(type(v) is float for (v,) in result)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r(n) :- n = count : { b(_) }.", [(2,)]),
        ("r(n) :- n = count : { b(x), x > 5 }.", [(0,)]),
        ("r(1) :- !b(7).", [(1,)]),
        ("r(count<*>) :- 1 < 2.", [(1,)]),
        ("r(s + n) :- s = sum x : { b(x) }, n = count : { b(_) }.", [(5,)]),
        ("r(x) :- b(x), 5 < max y : { b(y), x < y }.", []),
        ("r(x) :- b(x), n = count : { x < 2 }, n = 1.", [(1,)]),
        ("r(x) :- b(x), x = min y : { b(y) }.", [(1,)]),
    ],
)
def test_lookups_without_atoms_around_or_inside(text: str, expected: list[Any]) -> None:
    assert rows(f"b(1). b(2). {text}", "r") == expected


# --- joins ---------------------------------------------------------------------------------------------------


def test_what_does_not_recur_is_joined_below_the_recursion() -> None:
    plan = plan_of("r(x, y) :- e(x, y). r(x, y) :- r(x, z), a(z, u), b(u, v), c(v, y).")
    assert [(s.method, s.relations) for s in plan.strata] == [
        ("counting", ("r/2.1",)),
        ("counting", ("r/2.2",)),
        ("absorption", ("r",)),
    ]
    assert plan.relations["r/2.2"].columns == ("z", "y")


def test_no_product_while_parts_are_connected() -> None:
    plan = plan_of("r(x, w) :- a(x), d(w), b(x, y), c(y, w).")
    assert all(rule.left.key for rule in rules(plan) if isinstance(rule, JoinRule))


def test_columns_that_nobody_needs_are_dropped() -> None:
    plan = plan_of("r(x) :- a(x, y, u), b(y, z, v), c(z, w), u < v, w != 3.")
    assert plan.relations["r/1.1"].columns == ("y", "v")  # b and c first: c has a condition of its own


def test_bindings_are_counted_on_the_way_to_an_aggregate() -> None:
    plan = plan_of("r(x, count<*>) :- a(x, y), b(y, z), c(z, _).")
    assert [r.weighted for name, r in plan.relations.items() if name.startswith("r/")] == [True]
    plan = plan_of("r(x) :- a(x, y), b(y, z), c(z, _).")
    assert [r.weighted for name, r in plan.relations.items() if name.startswith("r/")] == [False]


def test_an_equation_is_a_join() -> None:
    joins = [rule for rule in rules(plan_of("r(x, y) :- a(x, t), b(y, u), u = t + 1.")) if isinstance(rule, JoinRule)]
    assert [(rule.left.key, rule.right.key, rule.where) for rule in joins] == [((1,), (1,), ())]


def test_the_answers_of_a_lookup_stand_for_the_part_that_asked() -> None:
    plan = plan_of("r(x) :- a(x, y), !b(y, x).")
    assert [type(rule) for rule in rules(plan)] == [LookupRule, MapRule]
    plan = plan_of("r(x, z) :- a(x, y, z), !b(y, x).")
    assert [type(rule) for rule in rules(plan)] == [LookupRule, JoinRule]


def test_lookups_go_below_the_recursion_if_they_can() -> None:
    below = plan_of("r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y), !b(y).")
    inside = plan_of("r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y), !b(x).")
    assert [s.method for s in below.strata] == ["counting", "counting", "absorption"]
    assert [s.method for s in inside.strata] == ["absorption"]


def test_a_group_in_a_recursive_relation_is_complete_before() -> None:
    plan = plan_of("r(x, min<c>) :- e(x, c). r(y, c) :- r(x, c), f(x, y).")
    assert [(s.method, [type(r) for r in s.rules]) for s in plan.strata] == [
        ("counting", [GroupRule]),
        ("absorption", [MapRule, JoinRule]),
    ]


def test_lookups_in_lookups_over_the_recursion() -> None:
    text = """
        e(1, 2). e(2, 3). e(3, 4). b(1). b(2). b(9). c(3, 1). c(4, 2). d(4, 9).
        r(x, y) :- e(x, y).
        r(x, y) :- r(x, z), e(z, y), n = count : { b(w), !c(y, w), m = count : { d(y, w) }, m < 1 }, n = 2.
    """
    for partitions in (1, 2, 5):
        assert rows(text, "r", partitions) == [(1, 2), (1, 3), (2, 3), (3, 4)]


# --- places --------------------------------------------------------------------------------------------------


def test_the_recursive_side_stays_at_home() -> None:
    plan = plan_of("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    (join,) = [rule for rule in rules(plan) if isinstance(rule, JoinRule)]
    assert (join.left.at, join.right.at, join.probe) == ((1,), (0,), "left")


def test_both_sides_at_home() -> None:
    (join,) = rules(plan_of("r(x, y, z) :- a(x, y), b(x, z)."))
    assert isinstance(join, JoinRule) and (join.left.at, join.right.at) == ((0,), (0,))


def test_declared_partitions() -> None:
    plan = plan_of(
        ".decl a(x: number, y: number) partition(y, x)\n"
        ".decl b(y: number, x: number) partition(y, x)\n"
        "r(x, y) :- a(x, y), b(y, x)."
    )
    (join,) = rules(plan)
    assert isinstance(join, JoinRule) and (join.left.at, join.right.at) == ((1, 0), (0, 1))


def test_partitions_keep_keys_together() -> None:
    plan = plan_of(
        ".decl a(x: number, y: number, z: number) key(y, z)\n"
        ".decl b(x: number, y: number) key(y) partition(x)\n"
        "r(x) :- a(x, _, _), b(x, _)."
    )
    assert plan.relations["a"].partition == (1,) and plan.relations["b"].partition == (1,)
    assert any("b is partitioned by y" in note for note in plan.notes)


def test_a_product_ships_the_smaller_side() -> None:
    plan = plan_of("r(x, y) :- a(x, p), t(x), b(y, q), distance(p, q) < 2.")
    (product,) = [rule for rule in rules(plan) if isinstance(rule, JoinRule) and not rule.left.key]
    assert (product.left.relation, product.left.at) == ("r/1.1", BROADCAST)


def test_views_of_a_total_live_on_one_partition() -> None:
    plan = plan_of("total(sum<x>) :- a(x, _). by(g, sum<x>) :- a(x, g). yes() :- a(_, _).")
    assert [plan.relations[name].partition for name in ("total", "by", "yes")] == [(), (0,), ()]


def test_a_total_goes_to_the_others() -> None:
    plan = plan_of("size(g, count<*>) :- a(g, _). most(max<n>) :- size(_, n). top(g) :- size(g, n), most(n).")
    (join,) = [rule for rule in rules(plan) if isinstance(rule, JoinRule)]
    assert (join.left.at, join.right.at) == ((0,), BROADCAST)


def test_a_view_partitioned_by_a_result() -> None:
    text = ".decl m(x: number, c: number) partition(c)\na(1, 2). a(1, 3). a(2, 3).\nm(x, min<c>) :- a(x, c)."
    assert rows(text.replace("a(1", ".decl a(x: number, c: number)\na(1", 1), "m") == [(1, 2), (2, 3)]


def test_the_same_auxiliary_is_made_once() -> None:
    plan = plan_of("r(x) :- a(x, y), b(y, z), c(z). s(z) :- a(x, y), b(y, z), c(z), x < 3.")
    assert [name for name, r in plan.relations.items() if r.kind == "auxiliary"] == ["r/1.1", "s/1.1"]
    plan = plan_of("r(x) :- a(x, y), b(y, z), c(z). s(x, 1) :- a(x, y), b(y, z), c(z).")
    assert [name for name, r in plan.relations.items() if r.kind == "auxiliary"] == ["r/1.1"]


def test_every_input_is_met_somewhere_sensible() -> None:
    for path in PLANS:
        plan = plan_of(path.read_text())
        for rule in rules(plan):
            if isinstance(rule, MapRule):
                assert [s.at for s in inputs_of(rule)] == [plan.relations[rule.input.relation].partition]


# --- functions -----------------------------------------------------------------------------------------------


def test_functions_and_aggregates_of_the_user() -> None:
    def double(n: int) -> int:
        return 2 * n

    def spread(values: list[int]) -> int:
        return max(values) - min(values)

    plan = plan_of(
        "a(1). a(4). r(double(x)) :- a(x). s(spread<x>) :- a(x).", functions={"double": double},
        aggregates={"spread": spread},
    )
    result = Interpreter(plan, 2).run({})
    assert (sorted(result["r"]), sorted(result["s"])) == ([(2,), (8,)], [(3,)])


def test_unsigned_arithmetic_is_not_inlined() -> None:
    plan = plan_of(".decl a(x: unsigned)\n.decl r(x: unsigned)\nr(x - 1) :- a(x).")
    (rule,) = rules(plan)
    assert isinstance(rule, MapRule)
    (output,) = rule.outputs
    assert output.inline is None  # type: ignore[union-attr]
