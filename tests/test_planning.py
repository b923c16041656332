"""Large programs: what it takes from text to session grows with the text, not with its square; the answers are right.

The shapes are those of `bench/planning.py`, smaller.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import datalog
import livelog
import planner
from bench.planning import SHAPES
from datalog.errors import CheckProblem
from livelog.cli import main
from operators import source

SMALL = {name: 40 if size == 1_000 else 100 for name, (_, size) in SHAPES.items()}


def steps(name: str, size: int) -> int:
    """How many lines of Python run from the text of a program to an open session, whose view is right."""
    text, facts, expected = SHAPES[name][0](size)
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        session = livelog.open(datalog.parse(text), facts=facts)
    finally:
        sys.settrace(None)
    with session:
        assert len(session["r"]) == expected
    return lines


@pytest.mark.parametrize("name", SHAPES)
def test_four_times_the_program_takes_about_four_times_the_steps(name: str) -> None:
    """With the square it would be sixteen. Steps are counted, not timed: a busy machine takes as many."""
    size = SMALL[name]
    once, more = steps(name, size), steps(name, 4 * size)
    assert more < 7 * once


@pytest.mark.parametrize("name", ["a chain of atoms", "a star of atoms", "a wheel of atoms", "negations"])
def test_a_long_rule_is_evaluated_and_maintained(name: str) -> None:
    text, facts, expected = SHAPES[name][0](150)
    with livelog.open(datalog.parse(text), facts=facts) as session:
        assert len(session["r"]) == expected
        first = facts["e"][0]
        with session.transaction() as tx:
            tx.delete("e", first)
        after = {**facts, "e": facts["e"][1:]}
        with livelog.open(datalog.parse(text), facts=after) as fresh:
            assert set(session["r"]) == set(fresh["r"])
        with session.transaction() as tx:
            tx.insert("e", first)
        assert len(session["r"]) == expected


def test_a_plan_of_many_atoms_joins_what_hangs_together() -> None:
    """In a chain of atoms no product is made, whatever the order of the text."""
    body = ", ".join(f"e(x{(7 * i) % 101}, x{(7 * i) % 101 + 1})" for i in range(101))
    plan = planner.plan(datalog.check(datalog.parse(f"r(x0, x101) :- {body}.")))
    joins = [rule for stratum in plan.strata for rule in stratum.rules]
    assert len(joins) == 100 and all(rule.left.key for rule in joins)  # type: ignore[union-attr]


def equations(n: int, more: str = "1") -> str:
    body = ", ".join(f"x{i + 1} = x{i} + {more.format(i)}" for i in range(n))
    return f".decl e(a: number)\nr(x{n}) :- e(x0), {body}."


def test_a_long_chain_of_equations() -> None:
    with livelog.open(datalog.parse(equations(190)), facts={"e": [(1,), (2,)]}) as session:
        assert list(session["r"]) == [(191,), (192,)]


@pytest.mark.parametrize("text", [equations(1_000), equations(60, "x{}")], ids=["deep", "large"])
def test_what_is_too_deep_or_too_large_is_a_clear_error(text: str) -> None:
    with pytest.raises(CheckProblem, match="comes out of too many equations") as problem:
        livelog.open(datalog.parse(text))
    assert "give some of them a rule of their own" in str(problem.value)


@pytest.mark.parametrize("depth", [60, 190])
def test_a_deep_expression_is_evaluated(depth: int) -> None:
    text = f".decl e(a: number)\nr({'(' * depth}x{' + 1)' * depth}) :- e(x), {'-(' * depth}x{')' * depth} != 7."
    with livelog.open(datalog.parse(text), facts={"e": [(1,)]}) as session:
        assert list(session["r"]) == [(depth + 1,)]


def test_check_and_explain_read_large_programs(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    for name in ("a chain of atoms", "negations", "views one above the other"):
        path = tmp_path / "large.dl"
        path.write_text(SHAPES[name][0](300)[0])
        assert main(["check", str(path)]) == 0
        assert main(["explain", str(path)]) == 0
        assert "stratum 299" in capsys.readouterr().out
    path.write_text(equations(1_000))
    assert main(["check", str(path)]) == 1
    assert "too many equations" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["rules of one view", "views one above the other", "views of one recursion"])
def test_rules_of_one_shape_share_what_is_compiled(name: str) -> None:
    steps(name, 10)
    before = source._code.cache_info().misses
    steps(name, 60)
    assert source._code.cache_info().misses == before


def test_loops_that_are_shared_keep_their_constants_and_functions() -> None:
    """Values that are equal are not the same: 1 is no float. Nor are two functions, nor what is too deep to share."""
    text = """
        .decl e(x: number)
        .decl s(x: float, y: float)
        .decl r(x: number, c: symbol)
        r(x, "a") :- e(x), x < 2.        r(x, "b") :- e(x), x < 3.        r(x, "c") :- e(x), one(x) = 3.
        r(x, "d") :- e(x), two(x) = 3.   r(x, "e") :- e(x), x + 1 = 3.    r(x, "f") :- e(x), x + 2 = 3.
        s(x, x + 1) :- e(x).             s(x, x + 1.5) :- e(x).
        t(x, 1) :- e(x).                 u(x, 1.0) :- e(x).               w(x, "1") :- e(x).
        back(x) :- r(x, "a"), !lost(x).  lost(x) :- e(x), x > 2.
        far(x, y) :- e(x), y = 1.        far(x, y) :- far(x, z), y = z * 2, y < 5.
        far(x, y) :- far(x, z), y = z * 3, y < 10.
    """
    functions = {"one": lambda x: x + 1, "two": lambda x: x + 2}
    with livelog.open(datalog.parse(text), facts={"e": [(1,), (2,)]}, functions=functions) as session:
        assert list(session["r"]) == [(1, "a"), (1, "b"), (1, "d"), (1, "f"), (2, "b"), (2, "c"), (2, "e")]
        assert list(session["s"]) == [(1.0, 2.0), (1.0, 2.5), (2.0, 3.0), (2.0, 3.5)]
        assert [type(row[1]) for name in "tuw" for row in session[name]] == [int, int, float, float, str, str]
        assert list(session["back"]) == [(1,)]
        numbers = [1, 2, 3, 4, 6, 9]
        assert list(session["far"]) == [(x, y) for x in (1, 2) for y in numbers]
        with session.transaction() as tx:
            tx.delete("e", (2,))
        assert list(session["far"]) == [(1, y) for y in numbers]
        with session.transaction() as tx:
            tx.insert("e", (3,))
        assert list(session["far"]) == [(x, y) for x in (1, 3) for y in numbers] and list(session["back"]) == [(1,)]


def test_nodes_are_equal_wherever_they_stand() -> None:
    rule = "r(x, 1) :- e(x), x + 1 < 3."
    one, other, third = datalog.parse(f"{rule}\n{rule}\nr(x, 2) :- e(x).").rules
    assert one == other and hash(one) == hash(other) and one.span != other.span and one != third
    assert third.flat and not one.flat
