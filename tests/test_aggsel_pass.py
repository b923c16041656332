"""The pass that pushes min and max into a recursion: what it proves, and what it must refuse."""

from __future__ import annotations

import pytest

import datalog
import planner
from planner.plan import Plan, Selection
from tests.cases import program_of
from tests.oracle import Base, evaluate
from tests.plan_interpreter import Interpreter

QUERY2 = """
path(x,y,p,c,l) :- link(x,y,c), p=concat([x,y],nil), l=1.
path(x,y,p,c,l) :- link(x,z,c0), path(z,y,p1,c1,l1), c=c0+c1, p=concat([x],p1), l=1+l1.
minCost(x,y,min<c>) :- path(x,y,p,c,l).
minHops(x,y,min<l>) :- path(x,y,p,c,l).
cheapestPath(x,y,p,c) :- path(x,y,p,c,l), minCost(x,y,c).
fewestHops(x,y,p,l) :- path(x,y,p,c,l), minHops(x,y,l).
shortestCheapestPath(x,y,p1,c,p2,l) :- cheapestPath(x,y,p1,c), fewestHops(x,y,p2,l).
"""

EXIT = "path(x, y, c) :- link(x, y, c). best(x, y, min<c>) :- path(x, y, c)."
WITNESS = "path(x, y, y, c) :- link(x, y, c). best(x, y, min<c>) :- path(x, y, _, c)."


def plan_of(text: str) -> Plan:
    return planner.plan(datalog.check(datalog.parse(text)))


def pushed(text: str) -> Selection | None:
    """The selection in `path`; there is a note exactly if there is none."""
    plan = plan_of(text)
    selection = plan.relations["path"].selection
    assert (selection is None) == any("not pushed into path" in note for note in plan.notes)
    return selection


def refused(text: str) -> str:
    """Why there is no selection in `path`."""
    assert pushed(text) is None
    (note,) = [note for note in plan_of(text).notes if "is not pushed" in note]
    return note.removeprefix("aggregate selection is not pushed into path: ")


def test_query2() -> None:
    assert pushed(QUERY2) == Selection((0, 1), ((3, "min"), (4, "min")), strict=True)


@pytest.mark.parametrize("kind", ["output", "printsize", "limitsize"])
def test_an_output_is_refused(kind: str) -> None:
    parameters = "(n=9)" if kind == "limitsize" else ""
    assert refused(QUERY2 + f".{kind} path{parameters}\n") == f".{kind} path asks for all of its tuples"


def test_outputs_above_it_do_not_matter() -> None:
    assert pushed(QUERY2 + ".output cheapestPath\n.printsize minCost\n") is not None


WEAK = (
    "path(x, y, max(a, b)) :- link(x, z, a), path(z, y, b).",
    "path(x, y, max(a, b)) :- path(x, z, a), path(z, y, b).",
    "path(x, y, max(b, b + a)) :- link(x, z, a), path(z, y, b).",
    "path(x, y, c) :- link(x, z, a), path(z, y, b), d = max(b, b + a), c = 1 + d.",
    "path(x, y, b / 2) :- link(x, z, _), path(z, y, b).",
    "path(x, y, a) :- link(x, z, a), path(z, y, _).",
    "path(x, y, a + b) :- link(x, z, a), path(z, y, b). path(x, y, a) :- link(x, z, a), path(z, y, _).",
)
"""Steps that may end at the same value although they start from a worse one, or are not seen not to."""


@pytest.mark.parametrize(
    "step",
    [
        *WEAK,
        "path(x, y, c + d) :- link(x, z, c), path(z, y, d).",
        "path(x, y, d + c) :- path(x, z, c), link(z, y, d).",
        "path(x, y, c) :- link(x, z, a), path(z, y, b), c = b + 2 * a.",
        "path(x, y, b - a) :- link(x, z, a), path(z, y, b).",
        "path(x, y, 2 * b + 1) :- link(x, z, _), path(z, y, b).",
        "path(x, y, b) :- link(x, z, _), path(z, y, b).",
        "path(x, y, a + b) :- path(x, z, a), path(z, y, b).",
        "path(x, y, -(7 - b)) :- link(x, z, _), path(z, y, b).",
        "path(x, y, a + b) :- link(x, z, a), path(z, y, b), !blocked(z).",
        "path(x, y, a + b) :- link(x, z, a), path(z, y, b), n = count : { link(z, _, _) }, n < 3.",
        "path(x, y, a + b + n) :- link(x, z, a), path(z, y, b), n = count : { link(z, _, _) }.",
        "path(x, y, a + b) :- link(x, z, a), path(z, y, b), x != y.",
        "path(x, y, a + b) :- link(x, z, a), path(z, w, b), alias(w, y).",
        "path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b, c < 100.",
        "path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b, a >= c - 9.",
        "path(x, y, a + b) :- link(x, z, a), path(z, y, b), 100 - b > 0.",
        "path(x, y, c) :- extra(x, y, c). path(x, y, a + b) :- link(x, z, a), path(z, y, b).",
    ],
)
def test_steps_that_are_proved(step: str) -> None:
    assert pushed(EXIT + step) == Selection((0, 1), ((2, "min"),), strict=step not in WEAK)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("path(x, y, a - b) :- link(x, z, a), path(z, y, b).", "is not seen to grow"),
        ("path(x, y, a * b) :- link(x, z, a), path(z, y, b).", "is not seen to grow"),
        ("path(x, y, b % 5) :- link(x, z, _), path(z, y, b).", "is not seen to grow"),
        ("path(x, y, -1 * b) :- link(x, z, _), path(z, y, b).", "is not seen to grow"),
        ("path(x, y, b - b) :- link(x, z, _), path(z, y, b).", "is not seen to grow"),
        ("path(x, b, b) :- link(x, z, _), path(z, y, b).", "group column y depends on a value"),
        ("path(x, y, b) :- link(x, z, b), path(z, y, b).", "joins on b"),
        ("path(x, y, a + b) :- path(x, z, a), path(z, y, b), a < b.", "may fail"),
        ("path(x, y, a + b) :- link(x, z, a), path(z, y, b), b > 3.", "may fail"),
        ("path(x, y, a + b) :- link(x, z, a), path(z, y, b), b != 3.", "may fail"),
        ("path(x, y, a + 3) :- link(x, z, a), path(z, y, 3).", "may fail"),
        ("path(x, y, a + b) :- link(x, z, a), path(z, y, b), !toll(b).", "looks at a value"),
        ("path(x, y, a + b) :- link(x, z, a), path(z, y, b), 0 = count : { toll(t), t < b }.", "looks at a value"),
    ],
)
def test_steps_that_are_refused(step: str, reason: str) -> None:
    assert reason in refused(EXIT + step)


@pytest.mark.parametrize(
    ("condition", "function", "proved"),
    [("c < 9", "min", True), ("c > 9", "min", False), ("9 >= c", "min", True), ("9 < c", "min", False),
     ("c < 9", "max", False), ("c > 9", "max", True), ("9 >= c", "max", False), ("9 < c", "max", True)],
)
def test_the_direction_of_a_condition(condition: str, function: str, proved: bool) -> None:
    text = EXIT.replace("min", function)
    step = f"path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b, {condition}."
    assert (pushed(text + step) is not None) == proved


def test_max_of_a_sum() -> None:
    step = "path(x, y, a + b) :- link(x, z, a), path(z, y, b)."
    assert pushed(EXIT.replace("min", "max") + step) == Selection((0, 1), ((2, "max"),), strict=True)


@pytest.mark.parametrize(
    ("value", "proved"),
    [("a + b", True), ("b - a", True), ("2 * b", True), ("max(a, b)", False), ("min(a, b)", False), ("b / 2", False),
     ("a", False)],
)
def test_with_witness_columns_growth_must_be_strict(value: str, proved: bool) -> None:
    text = WITNESS + f"path(x, y, z, {value}) :- link(x, z, a), path(z, y, _, b)."
    if proved:
        assert pushed(text) == Selection((0, 1), ((3, "min"),), strict=True)
    else:
        assert "may stay the same" in refused(text)


def test_a_bottleneck_with_and_without_witness() -> None:
    step = "path(x, y, max(a, b)) :- link(x, z, a), path(z, y, b)."
    assert pushed(EXIT + step) is not None
    assert "may stay the same" in refused(WITNESS + "path(x, y, z, max(a, b)) :- link(x, z, a), path(z, y, _, b).")


def test_two_values_are_columns_to_tie_in() -> None:
    """(c, l): with max(..) for c, a path that ties in c and differs in l may come from one that is not best."""
    text = """
        path(x, y, c, 1) :- link(x, y, c).
        path(x, y, max(a, b), l + 1) :- link(x, z, a), path(z, y, b, l).
        best(x, y, min<c>) :- path(x, y, c, _).
        hops(x, y, min<l>) :- path(x, y, _, l).
    """
    assert "may stay the same" in refused(text)
    assert pushed(text.replace("max(a, b)", "a + b")) == Selection((0, 1), ((2, "min"), (3, "min")), strict=True)
    limited = text.replace("max(a, b)", "a + b").replace("path(z, y, b, l).", "path(z, y, b, l), l < 5.")
    assert "may fail" in refused(limited)


def test_min_and_max_of_one_column() -> None:
    text = EXIT + "worst(x, y, max<c>) :- path(x, y, c). path(x, y, a + b) :- link(x, z, a), path(z, y, b)"
    assert pushed(text + ".") == Selection((0, 1), ((2, "min"), (2, "max")), strict=True)
    assert "may fail" in refused(text + ", b < 9.")


STEP = "path(x, y, z, a + b) :- link(x, z, a), path(z, y, _, b)."


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        ("all(p) :- path(_, _, p, _).", "all/1 may use tuples of it that are not best"),
        ("n(x, count<*>) :- path(x, _, _, _).", "n/1 may use tuples"),
        ("n(x, y, sum<c>) :- path(x, y, _, c).", "n/1 may use tuples"),
        ("some(x, y) :- path(x, y, _, c), best(y, x, c).", "some/1 may use tuples"),
        ("some(x, y) :- path(x, y, _, c), best(x, y, d), c < 2 * d.", "some/1 may use tuples"),
        ("two(p, q) :- path(x, y, p, c), best(x, y, c), path(x, y, q, _).", "two/1 may use tuples"),
        ("lone(x) :- node(x), !path(x, _, _, _).", "lone/1 negates it"),
        ("n(x, k) :- node(x), k = min c : { path(x, _, _, c) }.", "n/1 negates it or aggregates"),
        ("near(x, min<c>) :- path(x, _, _, c).", "different columns"),
        ("cheap(x, y, min<c>) :- path(x, y, _, c), c > 3.", "cheap/1 may use tuples"),
        ("cheap(x, y, min<c>) :- path(x, y, _, c), node(y).", "cheap/1 may use tuples"),
        ("cheap(x, y, min<2 * c>) :- path(x, y, _, c).", "cheap/1 may use tuples"),
        ("best(x, y, 0) :- node(x), node(y). use(h) :- path(x, y, h, c), best(x, y, c).", "may use tuples"),
    ],
)
def test_readers_that_need_more_than_winners(reader: str, reason: str) -> None:
    assert reason in refused(WITNESS + STEP + reader)


@pytest.mark.parametrize(
    "reader",
    [
        "hop(x, y, h) :- path(x, y, h, c), best(x, y, c).",
        "hop(x, y, h) :- best(x, y, d), path(x, y, h, c), c = d.",
        "ways(x, y, count<*>) :- path(x, y, h, c), best(x, y, c), node(h), !dead(h).",
        "two(p, q) :- path(x, y, p, c), best(x, y, c), path(y, x, q, d), best(y, x, d).",
        "worst(y, x, min<c>) :- path(x, y, _, c).",
        "total(sum<c>) :- best(_, _, c).",
    ],
)
def test_readers_that_need_only_winners(reader: str) -> None:
    assert pushed(WITNESS + STEP + reader) is not None


def test_groups_and_joins_on_witnesses() -> None:
    assert "group column y depends on a value or witness" in refused(
        WITNESS + "path(x, h, z, a + b) :- link(x, z, a), path(z, y, h, b)."
    )
    assert "joins on h" in refused(WITNESS + "path(x, y, z, a + b) :- link(x, z, a), path(z, y, h, b), node(h).")
    assert "may fail" in refused(WITNESS + "path(x, y, z, a + b) :- link(x, z, a), path(z, y, h, b), h != x.")


def test_mutual_recursion_is_refused() -> None:
    text = EXIT + "path(x, y, c) :- road(x, y, c). road(x, y, a + b) :- link(x, z, a), path(z, y, b)."
    assert refused(text) == "it is recursive through road as well"


def test_no_note_without_min_or_max() -> None:
    assert plan_of("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y). n(count<*>) :- r(_, _).").notes == ()


def test_floats_are_told() -> None:
    plan = plan_of(".decl link(x: symbol, y: symbol, c: float)\n" + WITNESS + STEP)
    assert plan.relations["path"].selection is not None
    assert any("is a float" in note for note in plan.notes)


def test_strictness_matters() -> None:
    """What condition 6 guards against, shown on a graph: the tie over the worse path exists."""
    facts = 'link("a","b",5). link("b","c",1). link("b","d",2). link("d","c",2).'
    text = """
        path(x, y, y, c) :- link(x, y, c).
        path(x, y, z, max(a, b)) :- link(x, z, a), path(z, y, h, b).
        best(x, y, min<c>) :- path(x, y, _, c).
        hop(x, y, h, c) :- path(x, y, h, c), best(x, y, c).
    """
    program = program_of(facts + text)
    got = Interpreter(planner.plan(program), 2).run({})
    assert got["hop"] == evaluate(program, Base(program).facts())["hop"]
