"""The oracle itself: cases computed by hand for every feature, and networkx as a second opinion."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import networkx as nx
import pytest

import datalog
from tests.cases import program_of
from tests.oracle import Base, OracleError, OracleLimit, evaluate, strata


def rows(text: str, relation: str, **facts: Any) -> list[tuple[Any, ...]]:
    """The rows of one relation of a program, sorted."""
    return sorted(evaluate(program_of(text), facts)[relation])


# --- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3), ("-7 / 2", -3), ("7 / -2", -3), ("-7 / -2", 3), ("7 / 2.0", 3.5), ("7 % 3", 1), ("-7 % 3", -1),
        ("7 % -3", 1), ("-7.5 % 2", -1.5), ("2 ^ 10", 1024), ("2 ^ 0.5", 2**0.5), ("2.0 ^ -1", 0.5), ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9), ("1 + 0.5", 1.5), ("min(3, 2)", 2), ("max(3.0, 2.5)", 3.0), ("abs(-4)", 4), ("-(3 - 5)", 2),
        ('cat("ab", "c")', "abc"), ('strlen("abc")', 3), ('substr("abcdef", 2, 3)', "cde"), ('to_number("12")', 12),
        ("to_string(12)", "12"), ('ord("a")', 97), ('ord("")', 0), ("distance([0, 0], [3, 4])", 5.0),
        ("distance(1, 4)", 3.0), ("concat([1], [2, 3])", (1, 2, 3)), ("concat([1], nil)", (1,)), ("nil", ()),
    ],
)
def test_functions(expression: str, value: Any) -> None:
    ((got,),) = rows(f"r({expression}) :- b(1).", "r", b=[(1,)])
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "expression", ["1 / x", "1 % x", "1.0 / x", "2 ^ (x - 1)", "9223372036854775807 + 1 + x", "10.0 ^ 400 + x"]
)
def test_errors_of_arithmetic(expression: str) -> None:
    with pytest.raises(OracleError):
        rows(f"r({expression}) :- b(x).", "r", b=[(0,)])


def test_an_int_in_a_float_column_becomes_a_float() -> None:
    text = ".decl b(x: float)\nr(x / 2) :- b(x)."
    assert rows(text, "r", b=[(3,)]) == [(1.5,)]


def test_comparisons() -> None:
    text = 'r(x) :- b(x), x >= "b", x != "c", x < "d".'
    assert rows(text, "r", b=[("a",), ("b",), ("c",), ("cc",), ("d",)]) == [("b",), ("cc",)]


# --- rules ---------------------------------------------------------------------------------------------------


def test_joins_constants_and_repeated_variables() -> None:
    facts = {"e": [(1, 2), (2, 2), (2, 3), (3, 1)]}
    assert rows("r(x) :- e(x, x).", "r", **facts) == [(2,)]
    assert rows("r(y) :- e(2, y).", "r", **facts) == [(2,), (3,)]
    assert rows("r(x) :- e(x, _).", "r", **facts) == [(1,), (2,), (3,)]
    assert rows("r(x, z) :- e(x, y), e(y, z), x != y, y != z.", "r", **facts) == [(1, 3), (2, 1), (3, 2)]
    assert rows("r(x, y) :- e(x, y), e(y, x + 1).", "r", **facts) == [(1, 2), (2, 2)]


def test_binding_by_equality_either_way() -> None:
    assert rows("r(x, y) :- e(x), y = x + 1.", "r", e=[(1,)]) == [(1, 2)]
    assert rows("r(x, y) :- x * 2 = y, e(x).", "r", e=[(3,)]) == [(3, 6)]


def test_facts_disjunction_several_heads_and_nullary_relations() -> None:
    text = """
    b(1). b(2). r(9).
    r(x), s(x) :- b(x), x > 1.
    t(x) :- b(x), (x = 1 ; x = 2), go().
    go() :- b(2).
    """
    program = program_of(text)
    result = evaluate(program)
    assert result["r"] == {(2,), (9,)} and result["s"] == {(2,)}
    assert result["t"] == {(1,), (2,)} and result["go"] == {()}
    assert evaluate(program, {"b": []})["r"] == {(9,)}


def test_recursion_of_all_kinds() -> None:
    edges = {"e": [(0, 1), (1, 2), (2, 0), (2, 3)]}
    linear = "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."
    square = "r(x, y) :- e(x, y). r(x, y) :- r(x, z), r(z, y)."
    mutual = "r(x, y) :- e(x, y). r(x, y) :- s(x, y). s(x, y) :- r(x, z), e(z, y)."
    expected = [(x, y) for x in range(3) for y in range(4)]
    for text in (linear, square, mutual):
        assert rows(text, "r", **edges) == expected


def test_negation() -> None:
    text = "lonely(x) :- n(x), !e(x, _). un(x, y) :- n(x), n(y), !e(x, y), x != y."
    facts = {"n": [(1,), (2,)], "e": [(1, 2)]}
    assert rows(text, "lonely", **facts) == [(2,)]
    assert rows(text, "un", **facts) == [(2, 1)]


def test_strata_are_in_order() -> None:
    program = program_of("a(x) :- b(x). c(x) :- a(x), !d(x). d(x) :- a(x), d(x). d(x) :- b(x), x > 1.")
    order = strata(program)
    assert order.index(frozenset({"c"})) > order.index(frozenset({"d"})) > order.index(frozenset({"a"}))


def test_a_cycle_through_a_negation_has_no_result() -> None:
    program = datalog.parse("p(x) :- b(x), !q(x). q(x) :- b(x), !p(x).")
    with pytest.raises(OracleError):
        strata(program)


def test_the_limit() -> None:
    with pytest.raises(OracleLimit):
        evaluate(program_of("n(x) :- b(x). n(x + 1) :- n(x)."), {"b": [(0,)]}, limit=1000)


# --- aggregates ----------------------------------------------------------------------------------------------


def test_head_aggregates() -> None:
    facts = {"b": [("x", 1, 5), ("x", 2, 5), ("y", 1, 2)]}
    text = "r(g, min<v>, max<v>, sum<v>, count<*>, avg<v>) :- b(g, _, v)."
    assert rows(text, "r", **facts) == [("x", 5, 5, 10, 2, 5.0), ("y", 2, 2, 2, 1, 2.0)]
    assert rows("r(sum<v>, g, count<v>) :- b(g, i, v), i > 1.", "r", **facts) == [(5, "x", 1)]
    assert rows("r(count<*>) :- b(_, _, v), v > 9.", "r", **facts) == []
    assert rows("r(mean<v * 2>) :- b(_, _, v).", "r", **facts) == [(8.0,)]


def test_sums_of_floats_are_rounded_once() -> None:
    assert rows("r(sum<v>) :- b(_, v).", "r", b=[(i, 0.1) for i in range(10)]) == [(1.0,)]
    assert rows("r(sum<v>) :- b(_, v).", "r", b=[(0, 1), (1, 0.5)]) == [(1.5,)]


def test_each_rule_aggregates_on_its_own() -> None:
    assert rows("r(count<*>) :- a(_). r(count<*>) :- b(_).", "r", a=[(1,), (2,)], b=[(1,)]) == [(1,), (2,)]


def test_copies_in_a_bag_count() -> None:
    text = """
    .decl b(x: number) bag
    r(count<*>, sum<x>, avg<x>) :- b(x).  s(n) :- n = sum x * x : { b(x) }.  t(x) :- b(x).
    """
    facts = {"b": Counter({(2,): 3, (4,): 1})}
    assert rows(text, "r", **facts) == [(4, 10, 2.5)]
    assert rows(text, "s", **facts) == [(28,)]
    assert rows(text, "t", **facts) == [(2,), (4,)]
    assert rows(".decl b(x: number) bag\nr(count<*>) :- b(x), b(x).", "r", **facts) == [(10,)]


def test_body_aggregates() -> None:
    facts = {"b": [(1, 10), (2, 20), (2, 5)], "n": [(1,), (2,), (3,)]}
    assert rows("r(x, c) :- n(x), c = count : { b(x, _) }.", "r", **facts) == [(1, 1), (2, 2), (3, 0)]
    assert rows("r(x, s) :- n(x), s = sum v : { b(x, v) }.", "r", **facts) == [(1, 10), (2, 25), (3, 0)]
    assert rows("r(x, s) :- n(x), s = min v : { b(x, v) }.", "r", **facts) == [(1, 10), (2, 5)]
    assert rows("r(x, s) :- n(x), s = sum v : { b(y, v), y < x }.", "r", **facts) == [(1, 0), (2, 10), (3, 35)]
    assert rows("r(x) :- n(x), 2 * count : { b(x, _) } > 3.", "r", **facts) == [(2,)]
    assert rows("r(m) :- m = max v : { b(_, v), !n(v) }.", "r", **facts) == [(20,)]
    assert rows("r(s) :- s = sum v : { b(x, v), v > avg w : { b(x, w) } }.", "r", **facts) == [(20,)]


def test_vwap() -> None:
    text = """
    vwap(sum<p * v>) :- bids(_, v, p), total = sum v1 : { bids(_, v1, _) },
        below = sum v2 : { bids(_, v2, p2), p2 <= p }, 0.75 * total < below.
    """
    facts = [(1, 10, 100), (2, 20, 101), (3, 5, 102), (4, 5, 102)]  # total 40; below: 10, 30, 40, 40
    assert rows(text, "vwap", bids=facts) == [(102 * 5 + 102 * 5,)]


# --- the base relations --------------------------------------------------------------------------------------


def test_keys_bags_and_expirations() -> None:
    program = program_of(
        """
        .decl k(x: number, y: number) key(x) ttl(5)
        .decl b(x: number) bag
        .decl t(x: number) ttl(2)
        r(x) :- k(x, _), b(x), t(x), s(x).
        s(7).
        """
    )
    base = Base(program)
    base.apply([("insert", "k", (1, 1)), ("insert", "k", (1, 2)), ("insert", "b", (1,)), ("insert", "b", (1,))])
    base.apply([("insert", "t", (1,)), ("advance", 1.0), ("insert", "t", (2,)), ("insert", "k", (2, 2))])
    assert base.facts() == {"k": {(1, 2): 1, (2, 2): 1}, "b": {(1,): 2}, "t": {(1,): 1, (2,): 1}, "s": {(7,): 1}}
    base.apply([("advance", 1.5), ("insert", "t", (1,)), ("advance", 3.0)])  # the first is refreshed
    assert set(base.facts()["t"]) == {(1,)} and base.present == 1
    base.apply([("advance", 5.0), ("delete", "b", (1,)), ("delete", "b", (9,)), ("delete", "s", (7,))])
    assert base.facts() == {"k": {(2, 2): 1}, "b": {(1,): 1}, "t": {}, "s": {}} and base.absent == 1


# --- a second opinion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_networkx_agrees(seed: int) -> None:
    rng = random.Random(seed)
    graph = nx.gnp_random_graph(9, 0.2, seed=seed, directed=True)
    edges = [(x, y, rng.randint(1, 5)) for x, y in graph.edges]
    graph.add_weighted_edges_from(edges)
    text = """
    r(x, y) :- e(x, y, _).  r(x, y) :- e(x, z, _), r(z, y).
    p(x, y, c) :- e(x, y, c).  p(x, y, c) :- e(x, z, a), p(z, y, b), c = a + b, c <= 45.
    d(x, y, min<c>) :- p(x, y, c).
    scc(x, y) :- r(x, y), r(y, x).
    """
    result = evaluate(program_of(text), {"e": edges})
    closure = {(x, y) for x in graph for y in graph if any(y == z or nx.has_path(graph, z, y) for z in graph[x])}
    assert result["r"] == closure
    for x, y, cost in result["d"]:
        if x != y:
            assert cost == nx.shortest_path_length(graph, x, y, weight="weight")
    assert {(x, y) for x, y, _ in result["d"]} == closure
    same = {(x, y) for part in nx.strongly_connected_components(graph) for x in part for y in part if x != y}
    assert {(x, y) for x, y in result["scc"] if x != y} == same
