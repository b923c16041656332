"""Update scripts: both notations, where transactions end, what is refused, and the way there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog.errors import FactProblem, Note, UsageProblem
from livelog.io.updates import Operation, format_operation, format_transaction, read_script

A = Operation("+", "link", ("a", "b", 3))
B = Operation("-", "link", ("b", "c", 1))


def transactions(text: str) -> list[list[Operation]]:
    return [list(t.operations) for t in read_script(text.split("\n"), "u.txt")]


@pytest.mark.parametrize(
    "text",
    [
        '+link("a", "b", 3)\n-link("b", "c", 1)\n@12.5\ncommit\n+link("a", "b", 3)',
        '+link("a","b",3).\n  - link ( "b" , "c" , 1 ) // gone\n@ 12.5\n\n\n\ncommit\n+link("a", "b", 3)\n\n',
        '// c\n+link("a", "b", 3)\n// no end\n-link("b", "c", 1)\r\n@12.5\n  \n+link("a", "b", 3)\ncommit\ncommit',
        '\ufeff+link("a", "b", 3)\n{"op": "delete", "relation": "link", "row": ["b", "c", 1]}\n'
        '{"op": "@", "time": 12.5}\n{"op": "commit"}\n{"op": "update", "relation": "link", "row": ["a", "b", 3]}',
    ],
)
def test_notations(text: str) -> None:
    assert transactions(text) == [[A, B, Operation("@", time=12.5)], [A]]


def test_values() -> None:
    line = r'+r("a\n\"\\\u00e9", -3, 2.5, 1e3, [1, ["x"], nil], [])'
    (operation,) = transactions(line)[0]
    assert operation.row == ('a\n"\\é', -3, 2.5, 1000.0, (1, ("x",), ()), ())
    (operation,) = transactions('{"op": "+", "relation": "r", "row": ["é", -3, 2.5, [1, ["x"], []]]}')[0]
    assert operation.row == ("é", -3, 2.5, (1, ("x",), ()))
    assert transactions("+r(0x1F, -0b11, +7)")[0][0].row == (31, -3, 7)
    assert transactions("+r()")[0][0] == Operation("+", "r", ())


def test_empty_scripts() -> None:
    assert transactions("") == transactions("\n\ncommit\n// nothing\n\n") == []


def test_where() -> None:
    script = ["", "+r(1)", "// c", "+r(2)", "", "+r(3)"]
    assert [t.where for t in read_script(script, "u.txt")] == ["u.txt:2-4", "u.txt:6"]


def test_a_script_is_read_as_it_comes() -> None:
    """A transaction is handed over when its last line is read, before the next line exists."""
    read: list[str] = []

    def lines() -> Iterator[str]:
        for line in ("+r(1)\n", "commit\n", "+r(2)\n", "\n"):
            read.append(line)
            yield line

    script = read_script(lines())
    next(script)
    assert len(read) == 2


def message(text: str) -> str:
    with pytest.raises(FactProblem) as caught:
        transactions(text)
    return str(caught.value)


def test_error_shows_line_and_caret() -> None:
    assert message('+link("a", "b", 3)\n+link("a", b, 3)').split("\n") == [
        'u.txt:2: error: expected a value, but found the name b; a symbol is quoted: "b"',
        '    2 | +link("a", b, 3)',
        "      |            ^",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('link("a")', "a line starts with '+', '-', '@'"),
        ("+", "expected the name of a relation, but the line ends"),
        ("+link", "expected '(' after the name of the relation, but the line ends"),
        ('+link("a"', "expected ',' or ')', but the line ends"),
        ('+link("a" "b")', 'expected \',\' or \')\', but found "b"'),
        ('+link("a") x', "nothing may follow here, but found x"),
        ('+link("a', "no closing quote"),
        (r'+link("\q")', r"unknown escape \q"),
        ("+link(99999999999999999999)", "does not fit in 64 bits"),
        ("+link(1e999)", "too large for a float"),
        ("+link(3x)", "unexpected character '3'"),
        ("+link(1,)", "expected a value, but found )"),
        ("+link(true)", "found the name true"),
        ("+link(NaN)", "found the name NaN"),
        ("+link({})", "unexpected character '{'"),
        ("+link(" + "9" * 5000 + ")", "does not fit in 64 bits"),
        ("+link(;)", "unexpected character ';'"),
        ("+link(" + "[" * 500, "nested"),
        ("@", "expected a time after '@'"),
        ("@soon", "expected a time after '@', but found soon"),
        ("@1 2", "nothing may follow"),
        ("commit now", "nothing may follow here, but found now"),
        ('{"op": "+"', "not valid JSON"),
        ('{"op": "?"}', '"op" must be'),
        ('{"op": 3}', '"op" must be'),
        ("{}", '"op" must be'),
        ('{"op": "+", "relation": "r"}', '"row" is missing'),
        ('{"op": "+", "relation": 3, "row": []}', '"relation" must be a string'),
        ('{"op": "+", "relation": "r", "row": 3}', '"row" must be a list'),
        ('{"op": "+", "relation": "r", "row": [null]}', "null is not a value"),
        ('{"op": "+", "relation": "r", "row": [true]}', "true is not a value"),
        ('{"op": "+", "relation": "r", "row": [NaN]}', "nan is not a value"),
        ('{"op": "+", "relation": "r", "row": [1e999]}', "inf is not a value"),
        ('{"op": "+", "relation": "r", "row": [99999999999999999999]}', "99999999999999999999 is not a value"),
        ('{"op": "+", "relation": "r", "row": [' + "9" * 5000 + "]}", "does not fit"),
        ('{"op": "+", "relation": "r", "row": [], "x": 1}', 'unknown field "x"'),
        ('{"op": "@", "time": "soon"}', '"time" must be a number'),
        ('{"op": "commit", "time": 1}', 'unknown field "time"'),
        ('{"op": "+", "relation": "r", "row": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_refused(text: str, expected: str) -> None:
    shown = message(text)
    assert shown.startswith("u.txt:1: error: ") and expected in shown


SYMBOLS = st.text(max_size=6)
VALUES = st.recursive(
    st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), SYMBOLS),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
ROWS = st.lists(VALUES, max_size=4).map(tuple)
NAMES = st.sampled_from(["link", "r", "_x1", "größe", "is?"])
OPERATIONS = st.one_of(
    st.builds(Operation, st.sampled_from("+-"), NAMES, ROWS),
    st.builds(lambda time: Operation("@", time=time), st.floats(0, 1e12)),
)


@given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=4))
def test_round_trip(script: list[list[Operation]]) -> None:
    text = "".join(map(format_transaction, script))
    assert transactions(text) == script
    assert [repr(t) for t in transactions(text)] == [repr(t) for t in script]


@given(st.lists(OPERATIONS, min_size=1, max_size=4))
def test_json_means_the_same(operations: list[Operation]) -> None:
    def record(o: Operation) -> dict[str, Any]:
        return {"op": "@", "time": o.time} if o.op == "@" else {"op": o.op, "relation": o.relation, "row": o.row}

    assert transactions("\n".join(json.dumps(record(o)) for o in operations)) == [operations]


class Recorder:
    """A transaction that writes down what it is told, and refuses one relation."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def insert(self, relation: str, row: tuple[Any, ...]) -> None:
        if relation == "bad":
            raise UsageProblem("no", notes=[Note("why")])
        self.done.append(("insert", relation, row))

    def delete(self, relation: str, row: tuple[Any, ...]) -> None:
        self.done.append(("delete", relation, row))

    def advance_to(self, time: float) -> None:
        self.done.append(time)


def test_apply() -> None:
    (transaction,) = read_script(["+r(1)", "-r(2)", "@3", "  +bad(1)  "], "u.txt")
    target = Recorder()
    with pytest.raises(FactProblem) as caught:
        transaction.apply(target)
    assert target.done == [("insert", "r", (1,)), ("delete", "r", (2,)), 3.0]
    assert str(caught.value).split("\n") == [
        "u.txt:4: error: no", "    4 |   +bad(1)", "      |   ^^^^^^^", "note: why",
    ]  # fmt: skip
    assert [format_operation(o) for o in transaction.operations] == ["+r(1)", "-r(2)", "@3.0", "+bad(1)"]
