"""The reader: what every construct becomes, at which places, in any layout, and what is said where it is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.planning import SHAPES
from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    HeadAggregate,
    Negation,
    Program,
    Span,
    Variable,
    expressions,
)
from datalog.errors import LivelogError, ProgramErrors
from datalog.format import format_program
from datalog.parser import parse
from datalog.tokens import Tokens

ROOT = Path(__file__).parent.parent


def programs() -> Iterator[tuple[str, str]]:
    """Every program of the project that is right."""
    for folder in ("examples", "tests/programs", "tests/plans"):
        for path in sorted((ROOT / folder).rglob("*.dl")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for name, (shape, _) in SHAPES.items():
        yield name, shape(20)[0]


PROGRAMS = dict(programs())


def tokens_of(text: str) -> list[str]:
    tokens, found = Tokens(text.replace("<:", "=")), list[str]()
    while tokens.next_statement() is not None:
        found += [token[1] for token in tokens.tokens[tokens.at : -1]]
        last = tokens.tokens[-1]
        tokens.at = len(tokens.tokens) - (last[0] != ".")
        found += [last[1]] * (last[0] == ".")
    return found


def without_places(program: Program) -> Any:
    return (program.rules, program.relations, program.directives, program.constants, program.aliases)


# --- what every construct becomes ------------------------------------------------------------------------------

X, Y, ONE = Variable("x"), Variable("y"), Constant(1)
S = Atom("s", (X,))

BODIES: dict[str, Any] = {
    "s(x)": S,
    "s( x )": S,
    "s()": Atom("s", ()),
    "!s(x)": Negation(S),
    "! s(x)": Negation(S),
    "(s(x))": S,
    "((s(x)))": S,
    "nil(x)": Atom("nil", (X,)),
    "top(x)": Atom("top", (X,)),
    "min(x, 1)": Atom("min", (X, ONE)),
    "key(x)": Atom("key", (X,)),
    'x = "a\\tb"': Comparison("=", X, Constant("a\tb")),
    "x != nil": Comparison("!=", X, Constant(())),
    "x<y": Comparison("<", X, Y),
    "x <= -1": Comparison("<=", X, Constant(-1)),
    "x >= - - 1": Comparison(">=", X, ONE),
    "x > -(-(1))": Comparison(">", X, ONE),
    "s(x) = 1": Comparison("=", Call("s", (X,)), ONE),
    "s(x) ^ 2 = 1": Comparison("=", Call("^", (Call("s", (X,)), Constant(2))), ONE),
    "(x + 1) * y = 1": Comparison("=", Call("*", (Call("+", (X, ONE)), Y)), ONE),
    "x + 1 * y = 1": Comparison("=", Call("+", (X, Call("*", (ONE, Y)))), ONE),
    "x - 1 - y = 1": Comparison("=", Call("-", (Call("-", (X, ONE)), Y)), ONE),
    "-x ^ -y % 1 = 1": Comparison("=", Call("%", (Call("neg", (Call("^", (X, Call("neg", (Y,)))),)), ONE)), ONE),
    "[x, [1, 1]] = y": Comparison("=", Call("list", (X, Constant((1, 1)))), Y),
    "x = 0x1u": Comparison("=", X, ONE),
    "x = 1.5e3": Comparison("=", X, Constant(1500.0)),
    "x = max(1, y)": Comparison("=", X, Call("max", (ONE, Y))),
    "x = count : s(x)": Comparison("=", X, Aggregate("count", None, (S,))),
    "x = sum (y) : { s(x), (s(x), true) }": Comparison("=", X, Aggregate("sum", Y, (S, S))),
    "x = sum (y) * 1 : { s(x) }": Comparison("=", X, Aggregate("sum", Call("*", (Y, ONE)), (S,))),
    "x = mine y, 1 : { s(x) }": Comparison("=", X, Aggregate("mine", Y, (S,), parameter=ONE)),
    "count : { s(x) } + 1 < y": Comparison("<", Call("+", (Aggregate("count", None, (S,)), ONE)), Y),
}


@pytest.mark.parametrize("text", BODIES)
def test_literal(text: str) -> None:
    (rule,) = parse(f"r(x, y) :- {text}.").rules
    assert rule.body == (BODIES[text],)
    assert [r.body for r in parse(f"r(x, y) :- ({text}; {text}), {text}.").rules] == [rule.body * 2] * 2


@pytest.mark.parametrize(("text", "expected"), [
    ("x", X), ("_", Variable("_#1")), ("nil", Constant(())), ("x + 1", Call("+", (X, ONE))), ("(x)", X),
    ("min<x>", HeadAggregate("min", X)), ("mine<x + 1>", HeadAggregate("mine", Call("+", (X, ONE)))),
    ("count<*>", HeadAggregate("count", None)), ("top<x, 1>", HeadAggregate("top", X, parameter=ONE)),
    ("min(x, 1)", Call("min", (X, ONE))),
])
def test_argument_of_a_head(text: str, expected: Any) -> None:
    assert parse(f"r({text}, 1) :- s(x).").rules[0].head.arguments == (expected, ONE)


@pytest.mark.parametrize("text", [
    "r(1).decl(2).", "r(1).\ndecl(2).", "r(1)/**/.decl(2).", "r(1). decl(2).//", "/* a. */ r(1). /* ( */decl(2).",
])
def test_rules_and_their_dots(text: str) -> None:
    assert [rule.head for rule in parse(text).rules] == [Atom("r", (ONE,)), Atom("decl", (Constant(2),))]
    assert [rule.text for rule in parse(text).rules] == ["r(1).", "decl(2)."]


# --- places and layout -----------------------------------------------------------------------------------------


def literals(body: tuple[Any, ...]) -> Iterator[Any]:
    """The literals of a body, and those of the aggregates in it."""
    for literal in body:
        yield literal
        for value in expressions(literal):
            if isinstance(value, Aggregate):
                yield from literals(value.body)


def cut(text: str, span: Span) -> str:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return text[starts[span.line - 1] + span.column - 1 : starts[span.end_line - 1] + span.end_column - 1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_stands_at_its_place_is_the_node(name: str) -> None:
    """The text of a span, read again, is what was read before, but for the numbers of `_`."""
    text = PROGRAMS[name]
    for rule in parse(text).rules[:30]:
        values = [value for value in expressions(rule) if cut(text, value.span) != "false"]
        read = [parse(f"r({cut(text, value.span)}).").rules[0].head.arguments[0] for value in values]
        conditions = list(literals(rule.body))
        read += [parse(f"r(1) :- {cut(text, condition.span)}.").rules[0].body[0] for condition in conditions]
        read.append(parse(f"{cut(text, rule.head.span)}.").rules[0].head)
        for node, again in zip([*values, *conditions, rule.head], read, strict=True):
            assert again == node or "_#" in repr(node)
        assert rule.body in [again.body for again in parse(cut(text, rule.span)).rules]


@pytest.mark.parametrize("name", PROGRAMS)
def test_layout_does_not_matter(name: str) -> None:
    program, tokens = parse(PROGRAMS[name]), tokens_of(PROGRAMS[name])
    assert without_places(parse("  ".join(tokens))) == without_places(program)
    free = ("median", "quantile", "top", "bottom", "variance", "stddev", "collect", "any", "all", "count_distinct")
    if not set(tokens) & {*free, "vwap", "gcd"}:  # the name of a free aggregate stands on one line with its target
        assert without_places(parse("\n".join(tokens))) == without_places(program)
    if not set(tokens) & {*free, "vwap", "gcd", "key", "ttl", "partition"}:  # nor does a comment stand in a qualifier
        assert without_places(parse(" // .\n".join(tokens))) == without_places(program)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_survive_formatting(name: str) -> None:
    program = parse(PROGRAMS[name])
    assert without_places(parse(format_program(program))) == without_places(program)


# --- what is no program ----------------------------------------------------------------------------------------


def refused(text: str) -> str:
    with pytest.raises(LivelogError) as caught:
        parse(text, "a.dl")
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize(("text", "message"), [
    ("r(x) :- _(x).", "a.dl:1:10: error: expected `,`, `;`, `.` or an operator, not `(`"),
    (".decl f(x: number) key(x)\nkey(1).\nttl(3)", "a.dl:3:6: error: expected `.` after this: the program ends"),
    ("r(v) :- v = mine x : { s(x) } y.", "a.dl:1:31: error: expected `,`, `;`, `.` or an operator, not `y`"),
    ("r(x) :- !s(x].", "a.dl:1:13: error: expected `)`, `,` or an operator, not `]`"),
    ("r(x) :- s(x) }.", "a.dl:1:14: error: expected `,`, `;` or `.`, not `}`"),
    ("r(x) :- (s(x), x < y.", "a.dl:1:21: error: expected `)`, `,` or `;`, not `.`"),
    ("r(99999999999999999999 y).", "a.dl:1:3: error: the integer 99999999999999999999 does not fit in 64 bits"),
    ("r(x) :- s(x), x < 1.5y.", "a.dl:1:19: error: `1.5` is neither a number nor a name"),
    ("r(x) :- not true.", "a.dl:1:9: error: negation is written `!`, not `not`"),
    ("r(x <= 3) :- s(x).", "a.dl:1:5: error: expected `*` or a value, not `<=`"),
    ("r(x) :- != s(x).", "a.dl:1:9: error: expected a name, not `!=`"),
    ("r(v) :- v = sum x :- s(x).", "a.dl:1:19: error: expected `{` or a name, not `:-`"),
    (".type A <:- B", "a.dl:1:11: error: expected a name, not `-`"),
    (".decl r(x:- number)", "a.dl:1:10: error: expected a name, not `:-`"),
    (".decl r x", "a.dl:1:9: error: expected `(`, not `x`"),
    (".input r )", "a.dl:1:10: error: expected `(` or the beginning of a rule or declaration, not `)`"),
])
def test_refused(text: str, message: str) -> None:
    assert refused(text).startswith(message)


def test_an_error_changes_no_other() -> None:
    """What stands before an error is kept, and goes on with what follows it: `key(x)` belongs to its declaration."""
    text = "a(1).\nb(x) :- @.\n.decl r(x: number)\n) c.\nkey(x)\n.decl q(x: number)\nd(x) :- e(x y).\nv(3) :- w.\n"
    with pytest.raises(ProgramErrors) as caught:
        parse(text)
    assert [(problem.span.line, problem.span.column) for problem in caught.value.problems if problem.span] == [
        (2, 9), (4, 1), (7, 13), (8, 9)]


# --- size ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "most"), [
    ("r(x, 1) :- s(x, _).\n" * 5000, 20),
    ("r(1). " * 5000, 5),
    (".decl r(x: number)\n" * 5000, 9),
    ("// r(1).\n/* . */\n" * 5000 + "r(1).", 5),
], ids=["rules", "facts on one line", "declarations", "comments"])
def test_only_the_tokens_of_one_statement_are_kept(text: str, most: int) -> None:
    tokens = Tokens(text)
    while tokens.next_statement() is not None:
        assert len(tokens.tokens) <= most
        tokens.at = len(tokens.tokens) - (tokens.tokens[-1][0] != ".")


NESTED = {
    "lists": "r(x) :- x = " + "[" * 10_000 + "]" * 10_000 + ".",
    "calls": "r(x) :- x = " + "f(" * 10_000 + "1" + ")" * 10_000 + ".",
    "groups": "r(x) :- " + "(s(x), " * 10_000 + "s(x)" + ")" * 10_000 + ".",
    "sums in brackets": "r(x) :- x = " + "(1 + " * 10_000 + "1" + ")" * 10_000 + ".",
    "powers": "r(x) :- x = " + "2 ^ " * 10_000 + "1.",
    "aggregates": "r(x) :- x = " + "sum x : { s(x), x < " * 10_000 + "1" + "}" * 10_000 + ".",
    "functions that are aggregates": "r(x) :- x = " + "min(1, " * 10_000 + "1" + ")" * 10_000 + ".",
    "only the beginning": "r(x) :- x = " + "f(" * 10_000,
}


@pytest.mark.parametrize("name", NESTED)
def test_what_is_nested_too_deeply(name: str) -> None:
    assert refused(NESTED[name] + "\nr(1).").startswith("a.dl:1:1: error: this is nested more than 200 levels deep")


@pytest.mark.parametrize(("before", "after"), [("(", ")"), ("-(", ")"), ("- ", "")])
def test_brackets_and_signs_are_not_nested(before: str, after: str) -> None:
    assert parse(f"r(x) :- x = {before * 10_000}1{after * 10_000}.").rules[0].body == (Comparison("=", X, ONE),)


def test_where_the_stack_is_almost_full() -> None:
    """Where Python has no frames left for what is nested, that is an error like the others."""
    code = (
        "import sys; from datalog.parser import parse; from datalog.errors import SyntaxProblem\n"
        "sys.setrecursionlimit(300)\n"
        "try: parse('r(x) :- x = ' + 'f(' * 150 + '1' + ')' * 150 + '.')\n"
        "except SyntaxProblem as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.startswith("this is nested")
