"""What functions of the user give, and numbers that no column takes: clear errors, at the row."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import datalog
import livelog
from datalog.values import value_of

DECLARED = ".decl e(x: number) .decl r(x: {0}) r(y) :- e(x), y = f(x)."
TOO_LARGE = r"column `x`: .* is too large for a float"
HUGE = [10**400, -(10**400), 10**5000]


def as_text(x: int) -> str:
    return x  # type: ignore[return-value]


def as_number(x: int) -> int:
    return "one"  # type: ignore[return-value]


def as_whole(x: int) -> int:
    return 1.0  # type: ignore[return-value]


def as_list(x: int) -> list[int]:
    return x  # type: ignore[return-value]


def failure(text: str, facts: Any = None, **options: Any) -> str:
    with pytest.raises(livelog.RuntimeProblem) as caught:
        livelog.open(datalog.parse(text), facts=facts or {"e": [(1,)]}, **options)
    return str(caught.value)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (as_text, "f returned 1, a number, but it says that it returns str"),
        (as_number, 'f returned "one", a symbol, but it says that it returns int'),
        (as_whole, "f returned 1.0, a float, but it says that it returns int"),
        (as_list, "f returned 1, a number, but it says that it returns list"),
    ],
)
def test_a_function_returns_what_its_annotation_says(function: Any, message: str, partitions: int) -> None:
    text = failure("r(f(x)) :- e(x).", functions={"f": function}, partitions=partitions)
    assert message in text and "in the rule r(f(x)) :- e(x)." in text and "at the tuple (1)" in text


def test_a_whole_number_is_a_float_where_a_float_is_promised() -> None:
    def f(x: int) -> float:
        return 3

    session = livelog.open(datalog.parse("r(f(x)) :- e(x)."), facts={"e": [(1,)]}, functions={"f": f})
    assert [type(x) for (x,) in session["r"]] == [float]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("number", "a", 'f returned "a", a symbol, but it goes into a column of number'),
        ("number", 2**63, "overflow: f returned 9223372036854775808"),
        ("number", 0.5, "f returned 0.5, a float"),
        ("unsigned", -1, "overflow: f returned -1"),
        ("symbol", 3, "f returned 3, a number"),
        ("list", "a", 'f returned "a", a symbol'),
        ("float", "a", 'f returned "a", a symbol'),
        ("float", 10**400, "overflow: f returned 1000"),
        ("symbol", "\ud800", "f returned '\\ud800', which is not valid Unicode text"),
        ("list", ["a", "\udfff"], "which is not valid Unicode text"),
    ],
)
def test_a_function_returns_what_the_column_takes(column: str, value: Any, message: str) -> None:
    text = failure(DECLARED.format(column), functions={"f": lambda x: value})
    assert message in text and "in the rule r(y) :- e(x), y = f(x)." in text and "at the tuple (1)" in text


@pytest.mark.parametrize(
    "text",
    [
        "r(f(x) * 1000000000000) :- e(x).",
        "r(f(x)) :- e(x). s(y * 1000000000000) :- r(y).",
        ".decl e(x: number) .decl r(x: number, n: number) r(f(x), count<x>) :- e(x).",
        ".decl e(x: number) .decl r(x: number, n: number) r(x, min<f(x)>) :- e(x).",
        "r(x, sum<f(x)>) :- e(x).",
        "r(x) :- e(x). r(f(x)) :- r(x), x + 1 < 9.",
    ],
)
def test_no_rule_computes_with_text(text: str) -> None:
    assert 'f returned "aaa", a symbol' in failure(text, functions={"f": lambda x: "aaa"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".decl e(x: number) .decl r(x: number) r(f<x>) :- e(x).", "a"),
        (".decl e(x: number) .decl r(x: symbol) r(f<x>) :- e(x).", 1),
        (".decl e(x: number) .decl r(x: number) r(y) :- y = f x : { e(x) }.", "a"),
        ("r(f<x>) :- e(x).", "\ud800"),
    ],
)
def test_aggregates_are_held_to_their_columns_too(text: str, value: Any) -> None:
    assert "f returned" in failure(text, aggregates={"f": lambda values: value})
    assert "f returned" in failure(text, aggregates={"f": livelog.aggregate(0, lambda a, b: a, answer=lambda s: value)})


def test_aggregates_are_held_to_what_they_say() -> None:
    def f(values: list[int]) -> int:
        return "a"  # type: ignore[return-value]

    told = livelog.aggregate(0, lambda a, b: a, answer=lambda state: "a", type=int)
    for aggregate in (f, told):
        assert "it says that it returns int" in failure("r(f<x>) :- e(x).", aggregates={"f": aggregate})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (numpy.int64(3), 3),
        (numpy.uint8(3), 3),
        (numpy.float32(1.5), 1.5),
        (numpy.float64(2), 2.0),
        (numpy.bool_(True), 1),
        (numpy.str_("a"), "a"),
        ([numpy.int8(1), numpy.float16(0.5)], (1, 0.5)),
        (numpy.array([[1, 2]]), ((1, 2),)),
    ],
)
def test_scalars_of_numpy_are_values(value: Any, expected: Any) -> None:
    session = livelog.open(datalog.parse("r(f(x)) :- e(x)."), facts={"e": [(1,)]}, functions={"f": lambda x: value})
    ((found,),) = session["r"]
    assert found == expected and type(found) is type(expected) and repr(value_of(value, "f")) == repr(expected)


def test_dates_of_numpy_are_none() -> None:
    date = numpy.datetime64("2020-01-01")
    assert "which is not a number" in failure("r(f(x)) :- e(x).", functions={"f": lambda x: date})


@pytest.mark.parametrize("value", HUGE, ids=["large", "small", "long"])
def test_numbers_that_no_float_holds(value: int) -> None:
    program = datalog.parse(".decl e(x: float) .decl r(x: float) r(x) :- e(x).")
    with pytest.raises(livelog.FactProblem, match=TOO_LARGE):
        livelog.open(program, facts={"e": [(value,)]})
    session = livelog.open(program, facts={"e": [(1,)]})
    with pytest.raises(livelog.FactProblem, match=TOO_LARGE), session.transaction() as tx:
        tx.insert("e", (value,))
    with pytest.raises(livelog.FactProblem, match=TOO_LARGE):
        session.load("e", [(2.0,), (value,)])
    with pytest.raises(livelog.UsageProblem, match="the clock needs a number that fits"), session.transaction() as tx:
        tx.advance_to(value)
    assert list(session["r"]) == [(1.0,)] and session.clock == 0


@pytest.mark.parametrize("value", HUGE, ids=["large", "small", "long"])
def test_numbers_that_no_column_holds(value: int) -> None:
    for text in (".decl e(x: number) .decl r(x: number) r(x) :- e(x).", "r(x) :- e(x)."):
        with pytest.raises(livelog.FactProblem, match="is outside the range of a number"):
            livelog.open(datalog.parse(text), facts={"e": [(value,)]})
    with pytest.raises(livelog.UsageProblem, match=r"the constant `k` cannot be .*: it does not fit in 64 bits"):
        livelog.open(datalog.parse(".const k = 1 r(x) :- e(x), x < k."), constants={"k": value})


def test_constants_are_unicode() -> None:
    with pytest.raises(livelog.UsageProblem, match=r"the constant `k` cannot be .*valid Unicode"):
        livelog.open(datalog.parse(".const k = 1 r(k) :- e(x)."), constants={"k": "\ud800"})
