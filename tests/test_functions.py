"""The functions of the language: their values, and the errors they raise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog.ast import DEEPEST
from datalog.errors import FactProblem
from datalog.format import format_value
from datalog.functions import FUNCTIONS, result_type, user_functions
from datalog.values import value_of
from livelog.io.values import TextProblem, parse_value
from livelog.values import Coercer

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def call(name: str, *arguments: Any) -> Any:
    return FUNCTIONS[name].call(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("+", (1, 2), 3), ("+", (1, 2.5), 3.5), ("-", (1, 2), -1), ("*", (3, -4), -12), ("*", (2, 0.5), 1.0),
        ("/", (7, 2), 3), ("/", (-7, 2), -3), ("/", (7, -2), -3), ("/", (-7, -2), 3), ("/", (7, 2.0), 3.5),
        ("%", (7, 3), 1), ("%", (-7, 3), -1), ("%", (7, -3), 1), ("%", (-7.5, 2), -1.5),
        ("^", (2, 10), 1024), ("^", (-2, 3), -8), ("^", (0, 0), 1), ("^", (2, 0.5), 2**0.5), ("^", (2.0, -1), 0.5),
        ("^", (1, 10**18), 1), ("^", (-1, 10**18 + 1), -1), ("^", (0, 10**18), 0), ("^", (2, 62), 2**62),
        ("neg", (3,), -3), ("neg", (HIGHEST,), -HIGHEST), ("abs", (-3,), 3), ("abs", (-2.5,), 2.5),
        ("min", (3, 1, 2), 1), ("max", ("a", "b"), "b"), ("min", (1, 2.5), 1), ("max", ((1, 2), (1,)), (1, 2)),
        ("cat", ("a", "b", "c"), "abc"), ("cat", ("",), ""), ("strlen", ("héé",), 3),
        ("substr", ("hello", 1, 3), "ell"), ("substr", ("hello", 3, 9), "lo"), ("substr", ("hello", 9, 1), ""),
        ("substr", ("hello", -2, 4), "he"), ("substr", ("hello", 1, -1), ""), ("substr", ("hello", -5, 2), ""),
        ("to_number", ("12",), 12), ("to_number", ("-3",), -3), ("to_string", (12,), "12"),
        ("to_string", (2.5,), "2.5"),
        ("ord", ("A",), 65), ("ord", ("",), 0), ("ord", ("été",), 233),
        ("distance", (3, -4), 7.0), ("distance", ((0, 0), (3, 4)), 5.0), ("distance", ((), ()), 0.0),
        ("concat", ((1,), (), (2, 3)), (1, 2, 3)), ("list", (1, "a"), (1, "a")), ("list", (), ()),
    ],
)
def test_values(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    found = call(name, *arguments)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("/", (1, 0), "division by zero: 1 / 0"), ("/", (1.5, 0.0), "division by zero"),
        ("%", (1, 0), "division by zero"),
        ("^", (0.0, -1), "division by zero"), ("^", (2, -1), "negative power"), ("^", (-2.0, 0.5), "not a real number"),
        ("+", (HIGHEST, 1), r"overflow: 9223372036854775807 \+ 1 does not fit in a number"),
        ("-", (LOWEST, 1), "overflow"), ("*", (2**32, 2**32), "overflow"), ("/", (LOWEST, -1), "overflow"),
        ("^", (2, 63), "overflow"), ("^", (10, 10**9), "overflow"), ("^", (-3, 10**9), "overflow"),
        ("neg", (LOWEST,), "overflow"), ("abs", (LOWEST,), "overflow"),
        ("*", (1e200, 1e200), "does not fit in a float"),
        ("^", (10.0, 400), "does not fit in a float"), ("+", (10**18, 1e308 * 10), "does not fit in a float"),
        ("to_number", ("ten",), "not a number"), ("to_number", ("1_0",), "not a number"),
        ("to_number", ("2.5",), "not a number"),
        ("to_number", ("9" * 30,), "overflow"), ("+", ("a", "b"), r"\+ needs numbers"),
        ("*", ("a", 3), "needs numbers"),
        ("min", (1, "a"), "cannot compare"), ("cat", ("a", 1), "needs a symbol"), ("strlen", (3,), "needs a symbol"),
        ("distance", ((1,), (1, 2)), "different length"), ("distance", ("a", "b"), "two numbers or two lists"),
        ("distance", ((1,), 1), "two numbers or two lists"), ("distance", ((1e200,), (-1e200,)), "overflow"),
        ("concat", ((1,), 2), "needs lists"), ("substr", ("abc", 0.5, 1), "needs integers"),
        ("abs", ("a",), "needs numbers"),
    ],
)
def test_errors(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((ArithmeticError, ValueError), match=message):
        call(name, *arguments)


def nested(levels: int) -> Any:
    value: Any = ()
    for _ in range(levels - 1):
        value = (value,)
    return value


def test_lists_are_nested_so_deep_and_no_deeper() -> None:
    """Whatever makes a list has the same limit: rules, functions of the user, rows and text; and all of it prints."""
    deepest, deeper = nested(DEEPEST), nested(DEEPEST + 1)
    assert call("list", nested(DEEPEST - 1)) == value_of(deepest, "f") == deepest
    assert parse_value(format_value(deepest)) == Coercer("r", ["x"], ["list"])((deepest,))[0] == deepest
    for make in (
        lambda: call("list", deepest),
        lambda: call("list", 1, (), deepest),
        lambda: value_of(nested(5000), "f"),
        lambda: Coercer("r", ["x"], ["list"])((deeper,)),
        lambda: Coercer("r", ["x"], ["list"]).all([(nested(5000),)]),
    ):
        with pytest.raises((ValueError, FactProblem), match="nested more than 200 levels"):
            make()
    assert format_value(nested(5000)).count("[") == DEEPEST + 1
    with pytest.raises(TextProblem, match="200 deep"):
        parse_value("[" * 5000 + "1" + "]" * 5000)


def test_unsigned_has_a_range_of_its_own() -> None:
    plus, minus = FUNCTIONS["+"].for_type("unsigned"), FUNCTIONS["-"].for_type("unsigned")
    assert plus(2**63, 1) == 2**63 + 1
    for function, a, b in ((plus, 2**64 - 1, 1), (minus, 1, 2)):
        with pytest.raises(OverflowError, match="unsigned"):
            function(a, b)


def test_extremes_of_mixed_numbers_are_floats_if_the_type_says_so() -> None:
    assert type(FUNCTIONS["min"].for_type("float")(1, 2.5)) is float
    assert type(FUNCTIONS["min"].for_type("any")(1, 2.5)) is int


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).filter(bool))
def test_division_and_remainder_belong_together(a: int, b: int) -> None:
    if (a, b) != (LOWEST, -1):
        quotient, remainder = call("/", a, b), call("%", a, b)
        assert quotient * b + remainder == a
        assert abs(remainder) < abs(b) and (remainder == 0 or (remainder < 0) == (a < 0))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.sampled_from("+-*"))
def test_integers_are_exact_or_refused(a: int, b: int, name: str) -> None:
    exact = {"+": a + b, "-": a - b, "*": a * b}[name]
    if LOWEST <= exact <= HIGHEST:
        assert call(name, a, b) == exact
    else:
        with pytest.raises(OverflowError):
            call(name, a, b)


def test_every_function_tells_how_it_is_used() -> None:
    assert all(function.usage for function in FUNCTIONS.values())


# --- functions of the user -----------------------------------------------------------------------------------


def typed(a: int, b: float, c: str, d: tuple[int, ...], e: list[str], *rest: int) -> list[int]:
    return [a]


def test_types_come_from_annotations() -> None:
    function = user_functions({"typed": typed})["typed"]
    assert function.parameters == ("number", "number", "symbol", "list", "list", "number")
    assert (function.least, function.most, function.result) == (5, None, "list")
    assert function.call(1, 2.0, "", (), ()) == (1,)


def test_functions_without_annotations_take_anything() -> None:
    functions = user_functions({"f": lambda a, b=1: a, "pow": pow, "max2": max})
    assert (functions["f"].least, functions["f"].most) == (1, 2)
    assert functions["f"].parameters == ("any", "any") and functions["f"].result == "any"
    assert functions["max2"].call(1, 2) == 2
    assert result_type(lambda x: x) == "any"


def test_keyword_parameters_are_not_arguments() -> None:
    def f(a: int, *, scale: int = 2) -> int:
        return a * scale

    function = user_functions({"f": f})["f"]
    assert (function.least, function.most) == (1, 1) and function.usage == "f(a)"


@pytest.mark.parametrize(("value", "expected"), [(True, 1), ([1, (2,)], (1, (2,))), ("a", "a"), (1.5, 1.5), (-3, -3)])
def test_values_of_python(value: Any, expected: Any) -> None:
    found = value_of(value, "f")
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("value", [None, {1}, float("nan"), float("inf"), 2**64, -(2**63) - 1, object(), [None], b"x"])
def test_values_that_have_no_place(value: Any) -> None:
    with pytest.raises((ValueError, OverflowError), match="f returned"):
        value_of(value, "f")
