"""The checker: what it finds out about good programs. What it says of wrong ones is in `test_errors.py`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog
from datalog.ast import Aggregate, Call, Comparison, Constant, HeadAggregate, Program, expressions
from datalog.errors import CheckProblem, LivelogError, ProgramErrors, StratificationProblem, UsageProblem
from datalog.stratify import components

QUERY_1 = """
reachable(x,y) :- link(x,y).
reachable(x,y) :- link(x,z), reachable(z,y).
"""
QUERY_2 = """
path(x,y,p,c,l) :- link(x,y,c), p=concat([x,y],nil), l=1.
path(x,y,p,c,l) :- link(x,z,c0), path(z,y,p1,c1,l1), c=c0+c1, p=concat([x],p1), l=1+l1.
minCost(x,y,min<c>) :- path(x,y,p,c,l).
minHops(x,y,min<l>) :- path(x,y,p,c,l).
cheapestPath(x,y,p,c) :- path(x,y,p,c,l), minCost(x,y,c).
fewestHops(x,y,p,l) :- path(x,y,p,c,l), minHops(x,y,l).
shortestCheapestPath(x,y,p1,c,p2,l) :- cheapestPath(x,y,p1,c), fewestHops(x,y,p2,l).
"""
QUERY_3 = """
activeRegion(rid,x) :- sensor(x,posx), mainSensorInRegion(rid,x), isTriggered(x).
activeRegion(rid,y) :- sensor(x,posx), sensor(y,posy), isTriggered(x),
  activeRegion(rid, x), distance(posx, posy) < k.
regionSizes(rid, count<x>) :- activeRegion(rid, x).
largestRegion(max<size>) :- regionSizes(rid, size).
largestRegions(rid) :- regionSizes(rid, size), largestRegion(size).
"""
VWAP = """
.decl bids(t: number, id: number, broker: number, volume: number, price: float) bag
vwap(sum<p * v>) :- bids(_, _, _, v, p),
    total = sum v1 : { bids(_, _, _, v1, _) },
    below = sum v2 : { bids(_, _, _, v2, p2), p2 <= p },
    0.75 * total < below.
"""


def check(text: str, **options: Any) -> Program:
    return datalog.check(datalog.parse(text, "test.dl"), **options)


def types(program: Program, relation: str) -> str:
    """The types of the columns of a relation, as one string."""
    return " ".join(column.type for column in program.relations[relation].columns)


def names(program: Program, relation: str) -> str:
    return " ".join(column.name for column in program.relations[relation].columns)


def problems(text: str, **options: Any) -> list[str]:
    """The messages of all problems of a program."""
    with pytest.raises(LivelogError) as caught:
        check(text, **options)
    error = caught.value
    return [p.message for p in (error.problems if isinstance(error, ProgramErrors) else [error])]


# --- the queries of the papers -------------------------------------------------------------------------------


def test_query_1() -> None:
    program = check(QUERY_1)
    assert program.checked and program.outputs == ("reachable",)
    assert program.derived == {"reachable"} and program.base == {"link"}
    assert not program.relations["link"].declared
    assert (names(program, "link"), types(program, "link")) == ("x y", "any any")


def test_query_2() -> None:
    program = check(QUERY_2)
    assert types(program, "path") == "any any list any number"
    assert [c.numeric for c in program.relations["path"].columns] == [False, False, False, True, True]
    assert types(program, "minHops") == "any any number"
    assert names(program, "minCost") == "x y c"
    assert program.outputs == (
        "path", "minCost", "minHops", "cheapestPath", "fewestHops", "shortestCheapestPath")


def test_query_2_with_facts_knows_the_type_of_costs() -> None:
    assert types(check(QUERY_2 + 'link("a", "b", 3).'), "minCost") == "symbol symbol number"
    program = check(QUERY_2 + 'link("a", "b", 3). link("b", "c", 0.5).')
    assert types(program, "path") == "symbol symbol list float number"


@pytest.mark.parametrize("how", ["given", "const", "both"])
def test_query_3(how: str) -> None:
    text = QUERY_3 if how == "given" else ".const k = 20\n" + QUERY_3
    program = check(text, constants=None if how == "const" else {"k": 20})
    assert program.constants == {"k": 20}
    last = program.rules[1].body[-1]
    assert isinstance(last, Comparison) and last.right == Constant(20)
    assert types(program, "regionSizes") == "any number"


def test_vwap() -> None:
    program = check(VWAP)
    assert types(program, "vwap") == "float"
    calls = {c.function: c.type for c in expressions(program.rules[0]) if isinstance(c, (Call, Aggregate))}
    assert calls == {"*": "float", "sum": "number"}


# --- constants -----------------------------------------------------------------------------------------------


def test_given_constants_win() -> None:
    assert check(".const k = 20 r(k).", constants={"k": 25}).rules[0].head.arguments == (Constant(25),)
    assert check("r(k, [k, 1]).", constants={"k": "a"}).rules[0].head.arguments == (Constant("a"), Constant(("a", 1)))


def test_unknown_constants_are_a_usage_error() -> None:
    with pytest.raises(UsageProblem, match=r"no constant `limt` in test\.dl: did you mean `limit`"):
        check(".const limit = 3 r(limit).", constants={"limt": 4})
    with pytest.raises(UsageProblem, match="cannot be None"):
        check("r(k).", constants={"k": None})


def test_constants_of_a_checked_program_are_settled() -> None:
    program = check("r(k).", constants={"k": 1})
    assert datalog.check(program, constants={"k": 1}) == program
    with pytest.raises(UsageProblem, match="can no longer be set"):
        datalog.check(program, constants={"k": 2})


# --- relations -----------------------------------------------------------------------------------------------


def test_undeclared_programs_may_read_anything() -> None:
    assert set(check("a(x) :- b(x), !c(x).").relations) == {"a", "b", "c"}


def test_one_declaration_makes_the_checker_strict() -> None:
    assert problems(".decl a(x: number) a(x) :- b(x).") == ["unknown relation `b`"]
    for known in (".decl b(x: number)", "b(1).", "b(x) :- a(x).", ".input b"):
        assert check(f".decl a(x: number) a(x) :- b(x). {known}").checked


def test_names_of_inferred_columns() -> None:
    program = check('a(x, x) :- b(x, 1). a(y, z) :- b(y, z). c("k", 1). d(x) :- e(_, x), !f(x, x).')
    assert names(program, "a") == "y z"
    assert names(program, "b") == "y z"
    assert names(program, "c") == "c0 c1"
    assert names(program, "e") == "c0 x" and names(program, "f") == "x c1"
    assert names(check("m(x, min<c>, count<*>) :- r(x, c)."), "m") == "x min count"


def test_heads_name_columns_before_bodies_do() -> None:
    assert names(check("r(a) :- s(a). s(b) :- t(b)."), "s") == "b"


def test_declared_relations_without_use_are_kept() -> None:
    program = check(".decl a(x: number) .decl b(y: symbol) key(y)")
    assert list(program.relations) == ["a", "b"] and program.relations["b"].key == (0,)


def test_directives_are_kept() -> None:
    program = check(".input a .output b .printsize b .limitsize b(n=3) b(x) :- a(x).")
    assert [d.kind for d in program.directives] == ["input", "output", "printsize", "limitsize"]


def test_type_aliases_disappear() -> None:
    assert types(check(".type Node <: Name .type Name = symbol .decl a(x: Node, y: number)"), "a") == "symbol number"


def test_a_relation_used_in_two_ways_is_one_problem() -> None:
    assert problems("a(x, x) :- b(x). c(x) :- a(x).") == ["`a` has 2 columns, but 1 is given"]


# --- types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r(1).", "number"), ("r(1.5).", "float"), ('r("a").', "symbol"), ("r([1]).", "list"), ("r(nil).", "list"),
        ("r(1). r(2.5).", "float"), ("r(x) :- b(x).", "any"), ("r(x) :- b(x), x = 1.", "any"),
        ("r(x) :- n(x).", "number"), ("r(x) :- f(x).", "float"), ("r(x) :- u(x).", "unsigned"),
        ("r(x) :- n(x). r(x) :- f(x).", "float"), ("r(x) :- u(x). r(x) :- n(x).", "number"),
        ("r(x) :- n(x). r(y) :- r(x), y = x / 2.0, x > 1.", "float"),
        ("r(x + 1) :- u(x).", "unsigned"), ("r(x - 1) :- u(x).", "unsigned"), ("r(-x) :- u(x).", "number"),
        ("r(x + y) :- u(x), n(y).", "number"), ("r(x + y) :- n(x), f(y).", "float"), ("r(1 - 2).", "number"),
        ("r(x ^ 0.5) :- n(x).", "float"), ("r(min(x, 2)) :- n(x).", "number"), ("r(max(x, 2.5)) :- n(x).", "float"),
        ("r(min(x, y)) :- s(x), s(y).", "symbol"), ("r(abs(x)) :- f(x).", "float"), ("r(abs(x)) :- b(x).", "any"),
        ("r(strlen(x)) :- b(x).", "number"), ('r(cat(x, "a")) :- b(x).', "symbol"),
        ("r(to_string(x)) :- b(x).", "symbol"),
        ("r(distance(x, y)) :- n(x), n(y).", "float"), ("r([x]) :- b(x).", "list"),
        ("r(concat(x, nil)) :- b(x).", "list"),
        ("r(count<*>) :- b(_).", "number"), ("r(avg<x>) :- n(x).", "float"), ("r(mean<x>) :- n(x).", "float"),
        ("r(sum<x>) :- n(x).", "number"), ("r(sum<x>) :- f(x).", "float"), ("r(sum<x>) :- u(x).", "unsigned"),
        ("r(min<x>) :- s(x).", "symbol"), ("r(max<x>) :- f(x).", "float"), ("r(sum<1>) :- n(_).", "number"),
        ("r(v) :- v = sum x : { n(x) }.", "number"), ("r(v) :- v = min x : { s(x) }.", "symbol"),
        ("r(v) :- v = count : { b(_) }.", "number"), ("r(v) :- v = 0.5 * count : { b(_) }.", "float"),
        ("r(v) :- n(x), v = max x + y : { f(y) }.", "float"), ("r(x) :- n(x), f(x).", "float"),
        ("r(x) :- x = y, y = z, z = 2.5.", "float"), ("r(18446744073709551615).", "unsigned"),
        ("r(x) :- n(x), x = 2.0.", "number"), ("r(x) :- r(x), x > 1.", "any"),
    ],
)
def test_inferred_types(text: str, expected: str) -> None:
    declarations = ".decl n(x: number) .decl f(x: float) .decl u(x: unsigned) .decl s(x: symbol) .input b q() :- b(_). "
    assert types(check(declarations + text), "r") == expected


def test_relations_loaded_from_files_can_hold_any_number() -> None:
    assert types(check("r(1). r(x) :- s(x). s(x) :- r(x), x > 0. .input r"), "r") == "any"


def test_types_of_calls_and_aggregates_are_filled_in() -> None:
    program = check("""
        .decl n(x: number)
        r(sum<x * 2.0>, count<*>) :- n(x), y = strlen(to_string(x)), y < max z + 1 : { n(z), [z] != nil }.
    """)
    rule = program.rules[0]
    assert [a.type for a in rule.aggregates] == ["float", "number"]
    found = {(e.function, e.type) for e in expressions(rule) if isinstance(e, (Call, Aggregate, HeadAggregate))}
    assert found == {("*", "float"), ("strlen", "number"), ("to_string", "symbol"), ("max", "number"), ("+", "number"),
                     ("list", "list")}


def test_variables_of_different_aggregates_have_types_of_their_own() -> None:
    program = check("""
        .decl n(x: number) .decl s(x: symbol)
        r(a, b) :- a = max v : { n(v) }, b = max v : { s(v) }.
    """)
    assert types(program, "r") == "number symbol"


def test_unsigned_and_number_mix() -> None:
    assert check(".decl u(x: unsigned) .decl n(x: number) n(x) :- u(x). u(x) :- n(x), x >= 0. q(x) :- u(x), n(x).")


def test_one_clash_per_mistake() -> None:
    assert problems('r(x) :- s(x, y), x < y, t(x). s("a", 1).') == [
        "type clash: `1` is a number, but column 2 of `s` is a symbol"]
    assert len(problems(".decl s(x: symbol) r(x + 1) :- s(x).")) == 1


def test_facts_are_evaluated() -> None:
    program = check('.decl r(x: float, y: number, z: symbol) .const k = 3 r(1 + k, -7 / 2, cat("a", to_string(k))).')
    (fact,) = program.facts
    assert [a.value for a in fact.head.arguments] == [4.0, -3, "a3"]
    assert isinstance(fact.head.arguments[0].value, float)


def test_integers_in_float_columns_of_facts_become_floats() -> None:
    values = [fact.head.arguments[0].value for fact in check("r(1). r(2.5).").facts]
    assert values == [1.0, 2.5] and isinstance(values[0], float)


# --- functions and aggregates of the user --------------------------------------------------------------------


def shout(text: str, times: int = 1) -> str:
    return text + "!" * times


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def test_user_functions() -> None:
    program = check('r(shout(x), shout(x, 2), anything(x)) :- s(x). t(shout("a")).',
                    functions={"shout": shout, "anything": lambda x: x})
    assert types(program, "r") == "symbol symbol any"
    assert types(program, "s") == "symbol"
    assert program.facts[0].head.arguments == (Constant("a!"),)
    assert program.functions["shout"] is shout


def test_user_functions_are_checked_like_others() -> None:
    assert problems("r(shout(x, 1, 2)) :- s(x).", functions={"shout": shout}) == [
        "`shout` takes 1 to 2 arguments, but 3 are given"]
    assert problems("r(shout(3)).", functions={"shout": shout}) == [
        "type clash: `3` is a number, but `shout` takes symbols"]
    assert problems("r(fail(3)).", functions={"fail": lambda x: {}[x]}) == ["the function failed: KeyError(3)"]
    assert problems("r(fail(3)).", functions={"fail": lambda x: None}) == [
        "fail returned None, which is not a number, a string or a list"]


def test_user_aggregates() -> None:
    program = check("r(median<x>) :- s(x). t(v) :- v = median x : { s(x) }.", aggregates={"median": median})
    assert types(program, "r") == types(program, "t") == "float"
    assert program.aggregates["median"].__wrapped__ is median
    assert problems("r(x) :- s(x), x < median(x).", aggregates={"median": median}) == [
        "`median` is an aggregate: write median x : { ... } in a body, median<x> in a head"]


@pytest.mark.parametrize("name", ["min", "cat", "sum", "two words", "nil", "1st", ""])
def test_names_that_cannot_be_registered(name: str) -> None:
    with pytest.raises(UsageProblem):
        check("r(1).", functions={name: shout})
    with pytest.raises(UsageProblem):
        check("r(1).", aggregates={name: median})


def test_what_is_registered_must_be_callable() -> None:
    with pytest.raises(UsageProblem, match="cannot be called"):
        check("r(1).", functions={"f": 3})


# --- safety --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "r(x) :- x = 3.", "r(y) :- y = x + 1, x = 2.", "r(z) :- s(x), y = x, z = y.", "r(x) :- 3 = x.",
        "r(x) :- s(x), !t(x, _).", "r(n) :- n = count : { s(_) }.", "r(x, n) :- s(x), n = count : { t(x, y), y < x }.",
        "r(x) :- s(x), x < max y : { t(x, y), y > min z : { t(y, z), z > x } }.", "r(x + y) :- s(x), s(y).",
        "r(x) :- s(x), t(x + 1, _).", "r(a, b) :- a = sum v : { s(v) }, b = a + sum v : { s(v), v < a }.",
        "r(count<*>) :- s(_).", "r(sum<x * y>) :- t(x, y).", "r() :- !s(1).",
        "r(x) :- t(x, y), n = count : { s(y) }, n > 0.",
    ],
)
def test_safe_rules(text: str) -> None:
    assert check(text).checked


@pytest.mark.parametrize(
    ("text", "names_"),
    [
        ("r(x) :- s(y).", "x"), ("r(x) :- !s(x).", "x"), ("r(x) :- x < 3.", "x"), ("r(x) :- s(y), x = z.", "x z"),
        ("r(x) :- s(x), y < 3.", "y"), ("r(x) :- x = x.", "x"), ("r(x) :- x = x + 1.", "x"),
        ("r(y) :- [y] = x, s(x).", "y"),
        ("r(x) :- t(x + 1).", "x"), ("r(y) :- n = count : { s(y) }.", "y"), ("r(n) :- n = sum v : { s(w) }.", "v"),
        ("r(n) :- n = count : { s(v), v < w }.", "w"), ("r(sum<v>) :- s(w).", "v"),
        ("r(x) :- x = count : { s(y) }, y = x + 1.", "x y"), ("r(n) :- n = count : { !s(v) }.", "v"),
    ],
)
def test_unsafe_rules(text: str, names_: str) -> None:
    found = [message for message in problems(text) if message.startswith("unsafe variable")]
    assert sorted(message.split("`")[1] for message in found) == names_.split()


# --- strata --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a(x) :- b(x), !c(x). c(x) :- b(x), !d(x).",
        "a(x) :- a(x). b(x) :- s(x), !a(x). b(x) :- b(x).",
        "a(x, count<*>) :- b(x). c(x) :- a(x, n), n > max m : { a(_, m) }.",
    ],
)
def test_stratified(text: str) -> None:
    assert check(text).checked


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a(x) :- b(x), !a(x).", 1),
        ("a(x) :- b(x), !c(x). c(x) :- a(x).", 2),
        ("a(x) :- b(x). a(x) :- c(x). b(x) :- d(x), 1 < count : { a(x) }. c(x) :- a(x).", 2),
        ("a(count<x>) :- a(x).", 1),
        ("a(x) :- s(x), 1 < count : { t(x), !a(x) }.", 1),
        ("a(x) :- s(x), 1 < count : { t(x), x < sum y : { a(y) } }.", 1),
    ],
)
def test_not_stratified(text: str, steps: int) -> None:
    with pytest.raises(StratificationProblem) as caught:
        check(text)
    placed = [note for note in caught.value.notes if note.span]
    assert len(placed) == (steps if steps > 1 else 0)


def test_every_cycle_is_reported_once() -> None:
    text = "a(x) :- s(x), !b(x). b(x) :- s(x), !a(x). c(x) :- s(x), !c(x)."
    assert [message.split("`")[1] for message in problems(text)] == ["a", "c"]


def test_a_long_chain_of_relations() -> None:
    rules = "".join(f"r{i}(x) :- r{i + 1}(x).\n" for i in range(3000))
    assert check(rules).checked
    with pytest.raises(StratificationProblem) as caught:
        check(rules + "r3000(x) :- s(x), !r0(x).")
    assert len(caught.value.notes) == 3002  # the cycle, and that what would make it an iteration


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4)))
@settings(max_examples=200, deadline=None)
def test_components_are_strongly_connected(edges: dict[str, list[str]]) -> None:
    reach = {a: {a} for a in "abcdef"}
    for _ in range(6):
        for a, after in edges.items():
            for b in after:
                reach[a] |= reach[b]
    found = components(edges)
    for a in found:
        for b in found:
            assert (found[a] == found[b]) == (a in reach[b] and b in reach[a])
            assert b not in reach[a] or found[b] <= found[a]


# --- the whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [QUERY_1, QUERY_2, QUERY_3, VWAP, ".const k = 3 r(k, 1 + k). s(mean<x>) :- r(x, _)."])
def test_checking_twice_changes_nothing(text: str) -> None:
    program = check(text, constants={"k": 20} if text is QUERY_3 else None)
    assert datalog.check(program) is program
    # Registering a function makes the checker run again; it must come to the same result.
    assert datalog.check(program, functions={"shout": shout}) == program


def test_checked_programs_survive_formatting() -> None:
    for text in (QUERY_1, QUERY_2, VWAP):
        program = check(text)
        again = check(datalog.format_program(program))
        assert again.rules == program.rules and again.relations == program.relations


def test_check_does_not_touch_its_argument() -> None:
    program = datalog.parse(".const k = 3 r(x) :- s(x), x < k.")
    datalog.check(program, constants={"k": 4})
    assert program.constants == {"k": 3} and not program.checked and program.relations == {}


def test_problems_of_all_phases_come_together() -> None:
    found = problems("""
        .decl a(x: number) key(y)
        b(x) :- a(x, 1).
        c(x) :- a(y).
        d(x) :- a(x), x = "s".
        e(x) :- a(x), !e(x).
        f(g(x)) :- a(x).
    """)
    starts = ["unknown column `y`", "`a` has 1 column", "unsafe variable `x`", "type clash", "cannot stratify",
              "unknown function `g`"]
    assert len(found) == len(starts)
    assert all(message.startswith(start) for message, start in zip(found, starts, strict=True))


def test_a_huge_program_is_checked() -> None:
    text = "\n".join(f"r{i % 200}(x, y + {i}) :- s{i % 300}(x, z), r{i % 199}(z, y)." for i in range(2000))
    program = check(text)
    assert types(program, "r7") == "any number"


def test_problem_is_also_a_check_problem() -> None:
    with pytest.raises(CheckProblem):
        check("a(x) :- b(x), !a(x).")
