"""What programs mean, one rule at a time, on the engine itself, in every strategy and ship mode, on every runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import LivelogError, RuntimeProblem, UsageProblem
from tests.harness import METHODS

pytestmark = pytest.mark.everywhere

Open = Callable[..., Any]


@pytest.fixture(params=[(*m, n) for m in METHODS for n in (1, 3)], ids=lambda p: "-".join(map(str, p)))
def start(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a session on program text; closes it after the test."""
    strategy, ship, partitions = request.param
    sessions = []

    def open_(text: str, **options: Any) -> Any:
        facts = {name: options.pop(name) for name in list(options) if isinstance(options[name], list)}
        session = livelog.open(
            datalog.parse(text), facts=facts, strategy=strategy, ship=ship, partitions=partitions, **options
        )
        sessions.append(session)
        return session

    yield open_
    for session in sessions:
        session.close()


def insert(session: Any, relation: str, *rows: tuple[Any, ...]) -> Any:
    with session.transaction() as transaction:
        for row in rows:
            transaction.insert(relation, row)
    return transaction


def delete(session: Any, relation: str, *rows: tuple[Any, ...]) -> Any:
    with session.transaction() as transaction:
        for row in rows:
            transaction.delete(relation, row)
    return transaction


def advance(session: Any, time: float) -> Any:
    with session.transaction() as transaction:
        transaction.advance_to(time)
    return transaction


# --- values --------------------------------------------------------------------------------------------------


@pytest.mark.everywhere(spark=4)
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("x / 2", 3), ("-x / 2", -3), ("x / -2", -3), ("x / 2.0", 3.5), ("x % 3", 1), ("-x % 3", -1), ("x % -3", 1),
        ("x ^ 2", 49), ("x + 0.5", 7.5), ("x * 1.0", 7.0), ("min(x, 3)", 3), ("max(x, 3)", 7), ("abs(-x)", 7),
        ('cat("a", to_string(x))', "a7"), ('strlen("abc") + x', 10), ('substr("abcdef", 1, 2)', "bc"),
        ('to_number("12") + x', 19), ('ord("a")', 97), ("distance([0, 0], [3, 4])", 5.0), ("distance(x, 3)", 4.0),
        ("concat([x], [1, 2])", (7, 1, 2)), ("[x, x]", (7, 7)), ("concat(nil, nil)", ()), ("x - 8", -1),
        ("2 ^ x", 128), ("4 ^ 0.5", 2.0), ("-x", -7), ("(x + 1) * (x - 1)", 48),
    ],
)
def test_functions(expression: str, value: Any) -> None:
    with livelog.open(datalog.parse(f"r({expression}) :- b(x)."), facts={"b": [(7,)]}) as session:
        ((got,),) = list(session["r"])
    assert got == value and type(got) is type(value)


def test_an_int_in_a_float_column_becomes_a_float(start: Open) -> None:
    session = start(".decl b(x: float)\n.decl s(x: float)\nr(x / 2) :- b(x). s(y) :- b(x), y = 3.", b=[(3,)])
    assert list(session["r"]) == [(1.5,)]
    ((value,),) = list(session["s"])
    assert isinstance(value, float)


def test_numbers_and_floats_meet_in_a_join(start: Open) -> None:
    text = ".decl a(x: number)\n.decl b(x: float)\nr(x) :- a(x), b(y), x = y."
    session = start(text, a=[(1,), (2,)], b=[(2.0,), (2.5,)])
    assert list(session["r"]) == [(2,)]


@pytest.mark.everywhere(spark=7, cluster=2)
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("10 / x", "zero"), ("10 % x", "zero"), ("10.0 / x", "zero"), ("9223372036854775807 + (1 - x)", "overflow"),
        ("2 ^ (x - 1)", "."), ("1.0e300 * (1.0e300 / (x * 1.0e300 + 1.0))", "overflow"),
        ("-9223372036854775807 - (2 - x)", "overflow"),
    ],
)
def test_an_error_names_the_rule_and_changes_nothing(start: Open, expression: str, message: str) -> None:
    session = start(f"r(x, {expression}) :- b(x). s(x) :- b(x).", b=[(1,)])
    before = list(session["r"]), list(session["s"]), list(session["b"])
    with pytest.raises(RuntimeProblem, match=message) as caught, session.transaction() as transaction:
        transaction.insert("b", (5,))
        transaction.insert("b", (0,))
    assert "r(x," in str(caught.value)
    assert (list(session["r"]), list(session["s"]), list(session["b"])) == before
    assert insert(session, "b", (2,)).changes["s"].inserted == [(2,)]
    session.check()


def test_a_sum_that_overflows(start: Open) -> None:
    session = start("r(sum<x>) :- b(_, x).", b=[(1, 2**62)])
    with pytest.raises(RuntimeProblem, match="overflow"):
        insert(session, "b", (2, 2**62))
    assert list(session["r"]) == [(2**62,)]
    assert delete(session, "b", (1, 2**62)).changes["r"].deleted == [(2**62,)]


def test_symbols_compare_by_code_point(start: Open) -> None:
    session = start('r(x) :- b(x), x >= "b", x != "c".', b=[("a",), ("b",), ("c",), ("cc",), ("Z",)])
    assert list(session["r"]) == [("b",), ("cc",)]


# --- rules ---------------------------------------------------------------------------------------------------


def test_nullary_relations(start: Open) -> None:
    session = start("alarm() :- on(), b(x), x > 2. calm() :- b(_), !alarm().", b=[(1,), (3,)])
    assert list(session["alarm"]) == [] and list(session["calm"]) == [()]
    changes = insert(session, "on", ()).changes
    assert changes["alarm"].inserted == [()] and changes["calm"].deleted == [()]
    assert () in session["alarm"] and len(session["alarm"]) == 1
    assert delete(session, "b", (3,)).changes["alarm"].deleted == [()]


def test_several_heads_and_disjunction(start: Open) -> None:
    session = start("r(x), s(y) :- b(x, y), (x = 1 ; y = 1).", b=[(1, 2), (2, 1), (3, 3)])
    assert list(session["r"]) == [(1,), (2,)] and list(session["s"]) == [(1,), (2,)]
    changes = delete(session, "b", (1, 2)).changes
    assert changes["r"].deleted == [(1,)] and changes["s"].deleted == [(2,)]


def test_facts_of_a_view_stay(start: Open) -> None:
    session = start("r(1). r(2). r(x) :- b(x).", b=[(2,), (3,)])
    assert list(session["r"]) == [(1,), (2,), (3,)]
    assert delete(session, "b", (2,), (3,)).changes["r"].deleted == [(3,)]


def test_facts_of_the_text_in_a_base_relation_can_be_deleted(start: Open) -> None:
    session = start("b(1). b(2). r(x) :- b(x).")
    assert list(session["r"]) == [(1,), (2,)]
    assert delete(session, "b", (1,)).changes["r"].deleted == [(1,)]


def test_a_view_cannot_be_changed_by_hand(start: Open) -> None:
    session = start("r(x) :- b(x).", b=[(1,)])
    for change in (insert, delete):
        with pytest.raises(LivelogError):
            change(session, "r", (1,))
    with pytest.raises(LivelogError):
        insert(session, "nowhere", (1,))
    with pytest.raises(LivelogError):
        insert(session, "b", (1, 2))
    assert list(session["r"]) == [(1,)]


def test_negation(start: Open) -> None:
    session = start("lonely(x) :- n(x), !e(x, _).", n=[(1,), (2,)], e=[(1, 2), (1, 3)])
    assert list(session["lonely"]) == [(2,)]
    assert not delete(session, "e", (1, 2)).changes["lonely"]
    assert delete(session, "e", (1, 3)).changes["lonely"].inserted == [(1,)]
    assert insert(session, "e", (1, 1), (2, 2)).changes["lonely"].deleted == [(1,), (2,)]


@pytest.mark.everywhere(spark=2, cluster=1)
def test_negation_in_a_recursive_rule(start: Open) -> None:
    text = "r(x) :- s(x). r(y) :- r(x), e(x, y), !wall(y)."
    session = start(text, s=[(0,)], e=[(0, 1), (1, 2), (2, 0), (0, 2)], wall=[(1,)])
    assert list(session["r"]) == [(0,), (2,)]
    assert delete(session, "wall", (1,)).changes["r"].inserted == [(1,)]
    assert insert(session, "wall", (0,), (2,)).changes["r"].deleted == [(2,)]
    assert list(session["r"]) == [(0,), (1,)]


@pytest.mark.everywhere(spark=7, cluster=2)
def test_a_cycle_does_not_keep_itself_alive(start: Open) -> None:
    text = "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."
    session = start(text, e=[(0, 1), (1, 2), (2, 1)])
    assert delete(session, "e", (0, 1)).changes["r"].deleted == [(0, 1), (0, 2)]
    assert delete(session, "e", (1, 2)).changes["r"].deleted == [(1, 1), (1, 2), (2, 2)]
    assert list(session["r"]) == [(2, 1)]


# --- aggregates ----------------------------------------------------------------------------------------------


@pytest.mark.everywhere(spark=2, cluster=1)
def test_head_aggregates(start: Open) -> None:
    session = start("r(g, min<v>, max<v>, sum<v>, count<*>, avg<v>) :- b(g, _, v).", b=[("x", 1, 5), ("x", 2, 5)])
    assert list(session["r"]) == [("x", 5, 5, 10, 2, 5.0)]
    changes = insert(session, "b", ("x", 3, 2), ("y", 1, 1)).changes["r"]
    assert changes.deleted == [("x", 5, 5, 10, 2, 5.0)]
    assert changes.inserted == [("x", 2, 5, 12, 3, 4.0), ("y", 1, 1, 1, 1, 1.0)]
    changes = delete(session, "b", ("x", 1, 5), ("x", 2, 5), ("y", 1, 1)).changes["r"]
    assert changes.inserted == [("x", 2, 2, 2, 1, 2.0)]


def test_an_aggregate_of_nothing(start: Open) -> None:
    text = """
    c(count<*>) :- b(_).  n(x) :- x = count : { b(_) }.
    s(x) :- x = sum y : { b(y) }.  m(x) :- x = max y : { b(y) }.
    """
    session = start(text)
    assert [list(session[v]) for v in "cnsm"] == [[], [(0,)], [(0,)], []]
    insert(session, "b", (4,))
    assert [list(session[v]) for v in "cnsm"] == [[(1,)], [(1,)], [(4,)], [(4,)]]
    delete(session, "b", (4,))
    assert [list(session[v]) for v in "cnsm"] == [[], [(0,)], [(0,)], []]


def test_aggregates_range_over_all_variables(start: Open) -> None:
    session = start("r(sum<v>) :- b(_, v). s(count<v>) :- b(_, v).", b=[(1, 5), (2, 5)])
    assert list(session["r"]) == [(10,)] and list(session["s"]) == [(2,)]


def test_each_rule_aggregates_on_its_own(start: Open) -> None:
    session = start("r(count<*>) :- a(_). r(count<*>) :- b(_).", a=[(1,), (2,)], b=[(1,)])
    assert list(session["r"]) == [(1,), (2,)]
    changes = insert(session, "b", (9,)).changes["r"]
    assert changes.deleted == [(1,)] and changes.inserted == []


def test_sums_of_floats_are_rounded_once(start: Open) -> None:
    session = start("r(sum<v>) :- b(_, v).", b=[(i, 0.1) for i in range(10)])
    assert list(session["r"]) == [(1.0,)]
    insert(session, "b", (10, 1e16))
    delete(session, "b", (10, 1e16))
    assert list(session["r"]) == [(1.0,)]


def test_correlated_aggregates(start: Open) -> None:
    text = "r(x, s) :- n(x), s = sum v : { b(y, v), y < x }. q(x) :- n(x), 2 * count : { b(x, _) } > 3."
    session = start(text, n=[(1,), (2,), (3,)], b=[(1, 10), (2, 20), (2, 5)])
    assert list(session["r"]) == [(1, 0), (2, 10), (3, 35)] and list(session["q"]) == [(2,)]
    changes = delete(session, "b", (2, 5)).changes
    assert changes["r"].deleted == [(3, 35)] and changes["r"].inserted == [(3, 30)]
    assert changes["q"].deleted == [(2,)]


@pytest.mark.everywhere(spark=2, cluster=1)
def test_aggregates_over_recursion_and_under_it(start: Open) -> None:
    text = """
    r(x, y) :- e(x, y), w(n), count : { e(x, _) } <= n.  r(x, y) :- r(x, z), r(z, y).
    size(x, count<*>) :- r(x, _).
    """
    session = start(text, e=[(0, 1), (1, 2), (2, 0)], w=[(1,)])
    assert list(session["size"]) == [(0, 3), (1, 3), (2, 3)]
    changes = insert(session, "e", (2, 1)).changes["size"]  # two edges from 2: neither counts any more
    assert changes.inserted == [(0, 2), (1, 1)] and changes.deleted == [(0, 3), (1, 3), (2, 3)]


# --- aggregate selection -------------------------------------------------------------------------------------

QUERY_2 = """
path(x,y,p,c,l) :- link(x,y,c), p=concat([x,y],nil), l=1.
path(x,y,p,c,l) :- link(x,z,c0), path(z,y,p1,c1,l1), c=c0+c1, p=concat([x],p1), l=1+l1.
minCost(x,y,min<c>) :- path(x,y,p,c,l).
cheapestPath(x,y,p,c) :- path(x,y,p,c,l), minCost(x,y,c).
"""


@pytest.mark.everywhere(spark=2, cluster=1)
def test_ties_are_all_kept(start: Open) -> None:
    session = start(QUERY_2, link=[("a", "b", 1), ("b", "c", 1), ("a", "c", 2), ("c", "a", 1)])
    ways = [("a", "c", ("a", "b", "c"), 2), ("a", "c", ("a", "c"), 2)]
    assert [row for row in session["cheapestPath"] if row[:2] == ("a", "c")] == ways
    changes = delete(session, "link", ("a", "c", 2)).changes
    assert ways[1] in changes["cheapestPath"].deleted and not changes["minCost"]
    delete(session, "link", ("a", "b", 1))
    changes = insert(session, "link", ("a", "c", 7)).changes
    assert ("a", "c", 7) in changes["minCost"].inserted


def test_an_output_is_not_pruned(start: Open) -> None:
    text = """
    .output path
    .output best
    path(x, y, c) :- link(x, y, c).  path(x, y, a + b) :- link(x, z, a), path(z, y, b).
    best(x, y, min<c>) :- path(x, y, c).
    """
    session = start(text, link=[(1, 2, 1), (2, 3, 1), (1, 3, 5)])
    assert list(session["path"]) == [(1, 2, 1), (1, 3, 2), (1, 3, 5), (2, 3, 1)]
    assert list(session["best"]) == [(1, 2, 1), (1, 3, 2), (2, 3, 1)]


@pytest.mark.everywhere(spark=2, cluster=1)
def test_a_program_that_does_not_end_names_its_rule(start: Open) -> None:
    session = start("n(x) :- b(x). n(x + 1) :- n(x). ok(x) :- b(x).", limit=500)
    with pytest.raises(RuntimeProblem) as caught:
        insert(session, "b", (0,))
    assert "n(x + 1) :- n(x)" in str(caught.value)
    assert [list(session[v]) for v in ("n", "ok", "b")] == [[], [], []]
    session.check()


# --- base relations ------------------------------------------------------------------------------------------


def test_an_insert_with_a_known_key_replaces(start: Open) -> None:
    session = start(".decl b(k: symbol, v: number) key(k)\nr(v) :- b(_, v).", b=[("a", 1), ("b", 2)])
    changes = insert(session, "b", ("a", 5)).changes["r"]
    assert changes.deleted == [(1,)] and changes.inserted == [(5,)]
    assert list(session["b"]) == [("a", 5), ("b", 2)]
    assert not delete(session, "b", ("a", 1)).changes["r"]  # the old row is gone
    assert delete(session, "b", ("a", 5)).changes["r"].deleted == [(5,)]
    changes = insert(session, "b", ("c", 1), ("c", 2), ("c", 3)).changes["r"]
    assert changes.inserted == [(3,)] and changes.deleted == []


@pytest.mark.everywhere(spark=1, cluster=1)
def test_rows_expire(start: Open) -> None:
    session = start(".decl b(x: number) ttl(10)\nr(x) :- b(x).", b=[(1,)])
    assert not advance(session, 9.5).changes["r"]
    insert(session, "b", (2,))
    assert advance(session, 10).changes["r"].deleted == [(1,)]
    assert session.clock == 10
    assert not insert(session, "b", (2,)).changes["r"]  # refreshed: it now lives until 20
    assert not advance(session, 19.75).changes["r"]
    assert advance(session, 25).changes["r"].deleted == [(2,)]


def test_expiry_and_insertion_in_one_transaction(start: Open) -> None:
    session = start(".decl b(x: number) ttl(10)\nr(x) :- b(x).", b=[(1,), (2,)])
    with session.transaction() as transaction:
        transaction.insert("b", (1,))
        transaction.advance_to(10)
        transaction.insert("b", (2,))
    assert transaction.changes["r"].deleted == [(1,)]
    assert list(session["b"]) == [(2,)]


def test_a_keyed_row_that_expires_is_refreshed_by_its_successor(start: Open) -> None:
    session = start(".decl b(k: number, v: number) key(k) ttl(10)\nr(v) :- b(_, v).", b=[(1, 1)])
    with session.transaction() as transaction:
        transaction.advance_to(8)
        transaction.insert("b", (1, 2))
    assert transaction.changes["r"].inserted == [(2,)]
    assert not advance(session, 12).changes["r"]
    assert advance(session, 18).changes["r"].deleted == [(2,)]


@pytest.mark.everywhere(spark=2, cluster=1)
def test_bags_count_copies(start: Open) -> None:
    text = ".decl b(x: number) bag\nr(x) :- b(x). c(count<*>, sum<x>) :- b(x). a(x, n) :- r(x), n = count : { b(x) }."
    session = start(text, b=[(2,), (2,), (3,)])
    assert list(session["c"]) == [(3, 7)] and list(session["a"]) == [(2, 2), (3, 1)]
    changes = delete(session, "b", (2,)).changes
    assert not changes["r"] and changes["c"].inserted == [(2, 5)] and changes["a"].inserted == [(2, 1)]
    changes = delete(session, "b", (2,)).changes
    assert changes["r"].deleted == [(2,)] and changes["a"].deleted == [(2, 1)]
    assert not delete(session, "b", (2,)).changes["c"]
    changes = insert(session, "b", (3,), (3,)).changes
    assert changes["c"].inserted == [(3, 9)] and not changes["r"]


def test_absent_and_present_rows_change_nothing(start: Open) -> None:
    session = start("r(x) :- b(x).", b=[(1,)])
    changes = delete(session, "b", (7,), (7,)).changes
    assert not changes["r"] and changes["r"].deleted == []
    assert not insert(session, "b", (1,)).changes["r"]
    assert delete(session, "b", (1,)).changes["r"].deleted == [(1,)]
    assert insert(session, "b", (7,)).changes["r"].inserted == [(7,)]


def test_only_net_changes_are_published(start: Open) -> None:
    session = start("r(x) :- b(x).", b=[(1,)])
    with session.transaction() as transaction:
        transaction.insert("b", (2,))
        transaction.delete("b", (2,))
        transaction.delete("b", (1,))
        transaction.insert("b", (1,))
    assert not transaction.changes["r"]
    assert list(session["r"]) == [(1,)]


# --- sessions ------------------------------------------------------------------------------------------------


def test_an_exception_in_the_block_rolls_back(start: Open) -> None:
    session = start(".decl b(x: number) ttl(5)\nr(x) :- b(x).", b=[(1,)])
    with pytest.raises(ZeroDivisionError), session.transaction() as transaction:
        transaction.insert("b", (2,))
        transaction.delete("b", (1,))
        transaction.advance_to(100)
        raise ZeroDivisionError
    assert list(session["r"]) == [(1,)] == list(session["b"])
    assert session.clock == 0
    assert advance(session, 5).changes["r"].deleted == [(1,)]


def test_the_initial_changes_are_the_views(start: Open) -> None:
    session = start("r(x) :- b(x). s(x) :- b(x), x > 5.", b=[(2,), (1,)])
    assert session.initial["r"].inserted == [(1,), (2,)] and not session.initial["s"]


def test_subscribers_hear_of_changes_only(start: Open) -> None:
    session = start("r(x) :- b(x), x < 5. s(x) :- b(x).", b=[(1,)])
    heard: list[Any] = []
    stop = session.subscribe("r", heard.append)
    insert(session, "b", (7,))
    insert(session, "b", (2,))
    assert [(list(c.inserted), list(c.deleted)) for c in heard] == [([(2,)], [])]
    stop()
    insert(session, "b", (3,))
    assert len(heard) == 1


def test_views_are_sorted_collections(start: Open) -> None:
    session = start("r(x, y) :- b(x, y).", b=[(2, "b"), (1, "z"), (1, "a")])
    view = session["r"]
    assert list(view) == [(1, "a"), (1, "z"), (2, "b")] and len(view) == 3
    assert (1, "a") in view and (3, "a") not in view
    assert view.to_arrow().num_rows == 3 and len(view.to_pandas()) == 3


def test_registered_functions_and_constants(start: Open) -> None:
    session = start(
        ".const k = 3\nr(twice(x)) :- b(x), x < k.", b=[(1,), (2,), (5,)], functions={"twice": lambda x: 2 * x},
        constants={"k": 2},
    )
    assert list(session["r"]) == [(2,)]


QUERY2_PATH = """
    path(x, y, p, c) :- link(x, y, c), p = concat([x, y], nil).
    path(x, y, p, c) :- link(x, z, c0), path(z, y, p1, c1), c = c0 + c1, p = concat([x], p1).
    minCost(x, y, min<c>) :- path(x, y, p, c).
"""


def test_a_pruned_relation_is_whole_to_who_asks_for_it(start: Open) -> None:
    session = start(QUERY2_PATH, link=[("a", "b", 1), ("b", "c", 1), ("a", "c", 5)])
    assert session.plan.pruned == ("path",)
    assert "path" not in session.plan.outputs and "path" not in session.initial
    assert list(session["path"]) == [
        ("a", "b", ("a", "b"), 1), ("a", "c", ("a", "b", "c"), 2), ("a", "c", ("a", "c"), 5), ("b", "c", ("b", "c"), 1),
    ]  # fmt: skip
    assert session.why("path", ("a", "c", ("a", "c"), 5)) == [("link", ("a", "c", 5))]
    with session.transaction() as tx:
        tx.delete("link", ("a", "b", 1))
    assert len(session["path"]) == 2 and ("a", "c", 5) in session["minCost"]
    with pytest.raises(UsageProblem, match=r"\.output path"):
        session.subscribe("path", print)


def test_a_pruned_relation_without_end_cannot_be_shown(start: Open) -> None:
    session = start(QUERY2_PATH, link=[("a", "b", 1), ("b", "a", 1)], limit=1_000)
    assert list(session["minCost"]) == [("a", "a", 2), ("a", "b", 1), ("b", "a", 1), ("b", "b", 2)]
    with pytest.raises(RuntimeProblem, match="only the best tuples of `path` are kept"):
        len(session["path"])
    assert len(session["minCost"]) == 4


def test_limitsize_rolls_back_the_transaction(start: Open) -> None:
    session = start(".limitsize r(n=2)\nr(x) :- e(x).", e=[(1,), (2,)])
    with pytest.raises(RuntimeProblem, match=r"r has 3 tuples, more than its \.limitsize of 2"):
        insert(session, "e", (3,))
    assert list(session["r"]) == list(session["e"]) == [(1,), (2,)]
    session.check()


def test_an_output_may_be_a_base_relation(start: Open) -> None:
    session = start(".output e\n.output r\nr(x) :- e(x).", e=[(1,)])
    assert session.initial["e"].inserted == [(1,)]
    assert insert(session, "e", (2,)).changes["e"].inserted == [(2,)]


@pytest.mark.everywhere(spark=2)
def test_an_error_needs_two_tuples_that_are_there_together(start: Open) -> None:
    session = start("h(x, y, z) :- l(x), r(y), z = x / y.", r=[(0,)])
    with session.transaction() as tx:
        tx.delete("r", (0,))
        tx.insert("r", (2,))
        tx.insert("l", (10,))
    assert tx.changes["h"].inserted == [(10, 2, 5)] and list(session["h"]) == [(10, 2, 5)]
    session.check()


@pytest.mark.everywhere(spark=2, cluster=1)
def test_a_function_that_goes_on_failing_loses_nothing(start: Open, tmp_path: Path) -> None:
    down = tmp_path / "down"  # a file, since the function may run in another process

    def f(x: int) -> int:
        if down.exists():
            raise ConnectionError("down")
        return x + 1

    session = start("h(x, y) :- l(x), y = f(x).", l=[(1,), (2,)], functions={"f": f})
    down.touch()
    with pytest.raises(RuntimeProblem, match="down"):
        insert(session, "l", (3,))
    down.unlink()
    assert list(session["h"]) == [(1, 2), (2, 3)]
    assert insert(session, "l", (4,)).changes["h"].inserted == [(4, 5)]


def test_operations_without_effect_are_counted(start: Open) -> None:
    session = start("r(x) :- b(x).", b=[(1,)])
    delete(session, "b", (7,), (7,))
    insert(session, "b", (1,))
    stats = session.stats()
    assert (stats.ignored_inserts, stats.ignored_deletes) == (1, 2)


@pytest.mark.everywhere(spark=1, cluster=1)
def test_registered_aggregates(start: Open) -> None:
    def middle(values: list[Any]) -> Any:
        return sorted(values)[len(values) // 2]

    session = start("r(middle<x>) :- b(x).", b=[(1,), (5,), (9,)], aggregates={"middle": middle})
    assert list(session["r"]) == [(5,)]
    changes = delete(session, "b", (1,)).changes["r"]
    assert changes.inserted == [(9,)] and changes.deleted == [(5,)]
