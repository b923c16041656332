"""The code that is generated: its arithmetic at the edges, and that nothing of a program is in it."""

from __future__ import annotations

import ast
import math
import operator
import re
from typing import Any

import pytest

from operators import source as generated
from operators.expr import Apply, Col, Const
from operators.kernels import Shape, condition, forward, key_of, row_function
from tests.test_kernels import ARITHMETIC, SIDES, Bench, hunt


def infix(name: str, a: Any, b: Any) -> Any:
    return row_function((Apply(name, ARITHMETIC[name], (Col(0), Col(1)), name),))((a, b))[0]


LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("name", "a", "b", "want"),
    [
        ("+", LARGEST, 0, LARGEST),
        ("+", LARGEST - 1, 1, LARGEST),
        ("-", SMALLEST + 1, 1, SMALLEST),
        ("*", -(2**62), 2, SMALLEST),
        ("+", LARGEST, 1.0, 2.0**63),  # a float has no such range
        ("*", 1e200, -1e100, -1e300),
        ("-", -1.7e308, 0.0, -1.7e308),
        ("*", 5e-324, 0.5, 0.0),
    ],
)
def test_results_at_the_edge(name: str, a: Any, b: Any, want: Any) -> None:
    got = infix(name, a, b)
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("+", LARGEST, 1),
        ("-", SMALLEST, 1),
        ("*", 2**62, 2),
        ("*", SMALLEST, -1),
        ("*", 1e308, 10.0),
        ("-", -1.7e308, 1.7e308),
        ("+", math.inf, 1),
        ("-", math.inf, math.inf),
        ("*", math.nan, 1),
    ],
)
def test_results_past_the_edge(name: str, a: Any, b: Any) -> None:
    with pytest.raises(OverflowError, match="overflow"):
        infix(name, a, b)


def test_every_step_of_a_computation_is_checked() -> None:
    add = Apply("+", operator.add, (Col(0), Const(1)), "+")
    back = row_function((Apply("-", operator.sub, (add, Const(1)), "-"),))
    assert back((LARGEST - 1,)) == (LARGEST - 1,)
    with pytest.raises(OverflowError):
        back((LARGEST,))


def test_nested_steps_do_not_disturb_each_other() -> None:
    double = Apply("*", operator.mul, (Col(0), Const(2)), "*")
    triple = Apply("*", operator.mul, (Col(0), Const(3)), "*")
    both = Apply("-", operator.sub, (triple, Apply("+", operator.add, (double, Const(-1)), "+")), "-")
    assert row_function((both, double))((7,)) == (21 - 13, 14)


def test_keys_of_equal_numbers_are_equal() -> None:
    assert key_of(())((1, 2)) is None
    assert key_of((1,))((1, 2)) == 2
    assert key_of((1, 0))((1, 2)) == (2, 1)
    shape = Shape(2, (1,), 2, (0,), (), (Col(0), Col(1), Col(2), Col(3)))
    bench = Bench(shape, [("a", 1), ("b", 2.0)], [(1.0, "x"), (2, "y")])
    for side in SIDES:
        got = {repr(h) for h in bench.run(side, "heads")}
        assert got == {repr(("a", 1, 1.0, "x")), repr(("b", 2.0, 2, "y"))}, "each keeps its own type"


def test_conditions_of_two_tuples() -> None:
    less = Apply("<", operator.lt, (Col(0), Col(2)), "<")
    same = Apply("==", operator.eq, (Col(1), Const("x")), "==")
    holds = condition((less, same), 1)
    assert holds is not None
    assert holds((1,), ("x", 2)) and not holds((1,), ("y", 2)) and not holds((2,), ("x", 2))
    assert condition((), 1) is None


# --- what the generated code is made of ----------------------------------------------------------------------

NASTY = [
    '"); __import__("os").abort() #', "'''", "\n    raise SystemExit\n", "{pair}", "{0}", "\\", "d0", "",
    None, True, 1.5, math.nan, (1, ("x",)), -(2**63),
]


def test_nothing_of_a_program_enters_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name in the generated code is one of the generator's own, and it holds no text and no other constant."""
    sources: list[str] = []
    real = generated._code

    def spy(source: str, name: str) -> Any:
        sources.append(source)
        return real(source, name)

    monkeypatch.setattr(generated, "_code", spy)

    def abort(*_: Any) -> Any:
        return "aborted"

    abort.__name__ = "__import__('os').abort"
    outputs = (Col(0), *[Const(v) for v in NASTY], Apply("x = 1; y", abort, (Const(NASTY[0]), Col(1))))
    where = (Apply("!=", operator.ne, (Col(0), Const(NASTY[0])), "!="),)
    shape = Shape(1, (0,), 1, (0,), where, outputs, (0,), ((0, "min"),))
    want = (7, *NASTY, "aborted")
    bench = Bench(shape, [(7,)], [(7,)])
    for side in SIDES:
        for purpose in ("heads", "each", "first", "direct", "select", "sole", "weighted"):
            out: Any = {} if purpose == "weighted" else []
            if purpose == "weighted":
                forward(shape, side, purpose)([((7,), 1)], {7: {(7,): 1}}.get, {}, {}, {}, out)
                head = next(iter(out))
            else:
                head = bench.run(side, purpose, {}, {}, out)[0]
                head = head if purpose == "heads" else head[0]
            assert all(a is b or a == b for a, b in zip(head, want, strict=True))
    assert hunt(bench, "left", (0,), "every")((7,)) and hunt(bench, "left", (0,), "best")((7,))
    assert row_function(outputs)((7, 7))[1] == NASTY[0]
    assert condition(where, 1) is not None
    assert len(sources) >= 17
    own = re.compile(
        r"[kfdt]\d+|[abhtupqk]|a[12]|bucket[12]?|find[12]?|rows[12]?|batch|known|sent|out|others|best|seen|kernel|key|compute"
        r"|heads|entry|old|v|holds|set|overflow|LOWEST|HIGHEST|tuples|groups?"
    )
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Name):
                assert own.fullmatch(node.id), f"a stranger: {node.id}"
            elif isinstance(node, ast.Attribute):
                assert node.attr in ("append", "get", "items", "add")
            elif isinstance(node, ast.Constant):
                assert node.value is None or type(node.value) is int
            assert not isinstance(node, (ast.Import, ast.ImportFrom, ast.Lambda, ast.JoinedStr))


def test_rules_with_the_same_code_keep_their_own_constants() -> None:
    one, two = (row_function((Const(text), Col(0))) for text in ("one", "two"))
    assert one((0,)) == ("one", 0) and two((0,)) == ("two", 0)
