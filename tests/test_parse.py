"""The parser: what every construct becomes, and that nothing is lost on the way back to text."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog
from datalog.aggregates import AGGREGATES
from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    HeadAggregate,
    Negation,
    Program,
    Rule,
    Span,
    Sync,
    Ticks,
    Variable,
    variables,
)
from datalog.errors import ProgramErrors, SyntaxProblem
from datalog.format import format_expression, format_program, format_rule, format_value
from datalog.parser import parse


def rule(text: str) -> Rule:
    """The only rule of a text."""
    (only,) = parse(text).rules
    return only


def value(text: str) -> Any:
    """The argument of a fact, as parsed."""
    (argument,) = rule(f"r({text}).").head.arguments
    return argument


# --- characters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "line", "column"), [
    ("\ud800", 1, 1), ('a(1).\nr("x\udfff").', 2, 5), ("// caf\udce9\na(1).", 1, 7),
])
def test_lone_surrogates_are_an_error_with_a_place(text: str, line: int, column: int) -> None:
    with pytest.raises(SyntaxProblem, match="is half of a character and cannot stand alone") as caught:
        parse(text, "a.dl")
    assert caught.value.place == f"a.dl:{line}:{column}"
    str(caught.value).encode("utf-8")


def test_decode() -> None:
    assert datalog.decode("é(1).\r\nb(2).\rc(3).".encode("utf-8-sig"), "a.dl") == "é(1).\nb(2).\nc(3)."
    for data, place in ((b"\xff\xfea\0", "1:1"), (b"\xef\xbb\xbfa(1).\r\nr(\"\xe9\").", "2:4"), (b"a\xe2\x82", "1:2")):
        with pytest.raises(SyntaxProblem, match=r"byte 0x.. is not UTF-8") as caught:
            datalog.decode(data, "a.dl")
        assert caught.value.place == f"a.dl:{place}"
        str(caught.value).encode("utf-8")


# --- facts and values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0), ("42", 42), ("007", 7), ("0xFf", 255), ("0b1010", 10), ("10u", 10), ("0x10u", 16), ("-5", -5),
        ("- 5", -5), ("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5), ("-0.25", -0.25), ("1e3", 1000.0), ("2.5E-3", 0.0025), ("1e+2", 100.0),
        ('"a"', "a"), ('""', ""), (r'"a\"b"', 'a"b'), (r'"\\"', "\\"), (r'"\n\t\r\0"', "\n\t\r\0"),
        (r'"\x41é\U0001F600"', "Aé\U0001F600"), ('"tab\there"', "tab\there"), ('"// no comment"', "// no comment"),
        ("nil", ()), ("[]", ()), ("[1, \"a\", [2.5, nil]]", (1, "a", (2.5, ()))), ("[-1]", (-1,)),
    ],
)
def test_values(text: str, expected: Any) -> None:
    found = value(text)
    assert found == Constant(expected)
    assert type(found.value) is type(expected)


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "1e999", "9" * 5000, r'"\q"',
                                  r'"\U7FFFFFFF"'])
def test_values_that_do_not_exist(text: str) -> None:
    with pytest.raises(SyntaxProblem):
        parse(f"r({text}).")


def test_dot_after_a_number_ends_the_rule() -> None:
    program = parse("a(1).b(2).\nc(x) :- x=1.\nd(x):-x=2.5.")
    assert [r.head.relation for r in program.rules] == ["a", "b", "c", "d"]
    assert program.rules[3].body == (Comparison("=", Variable("x"), Constant(2.5)),)


def test_nullary_relations() -> None:
    program = parse("alarm(). quiet() :- !alarm().")
    assert program.rules[0] == Rule(Atom("alarm", ()), ())
    assert program.rules[1].body == (Negation(Atom("alarm", ())),)


# --- bodies --------------------------------------------------------------------------------------------------


def test_literals_of_every_kind() -> None:
    found = rule('a(x, y) :- b(x, _, "k"), !c(_, x), x != y, y = x + 1, f(x) >= 3, (x < 4).')
    x, y = Variable("x"), Variable("y")
    assert found.body == (
        Atom("b", (x, Variable("_#1"), Constant("k"))),
        Negation(Atom("c", (Variable("_#2"), x))),
        Comparison("!=", x, y),
        Comparison("=", y, Call("+", (x, Constant(1)))),
        Comparison(">=", Call("f", (x,)), Constant(3)),
        Comparison("<", x, Constant(4)),
    )
    assert found.text == 'a(x, y) :- b(x, _, "k"), !c(_, x), x != y, y = x + 1, f(x) >= 3, (x < 4).'


def test_every_anonymous_variable_is_its_own() -> None:
    assert variables(rule("a(x) :- b(x, _, _), c(_).")) == ["x", "_#1", "_#2", "_#3"]


@pytest.mark.parametrize(
    "name", ["?x", "_x", "x?", "X1", "__", "été", "key", "ttl", "bag", "partition", "decl", "input"])
def test_names(name: str) -> None:
    assert rule(f"r({name}) :- s({name}).").head.arguments == (Variable(name),)
    assert rule(f"{name}(x) :- s(x).").head.relation == name


def test_several_heads_and_disjunction_become_plain_rules() -> None:
    program = parse("a(x), b(x) :- c(x); d(x), (e(x); f(x), (g(x); h(x))).")
    bodies = [[literal.relation for literal in r.body if isinstance(literal, Atom)] for r in program.rules]
    assert bodies == [["c"]] * 2 + [["d", "e"]] * 2 + [["d", "f", "g"]] * 2 + [["d", "f", "h"]] * 2
    assert [r.head.relation for r in program.rules] == ["a", "b"] * 4
    assert {r.text for r in program.rules} == {program.source.text}


def test_anonymous_variables_are_numbered_per_rule() -> None:
    program = parse("a(x) :- b(x, _); c(_, x, _).")
    assert [variables(r) for r in program.rules] == [["x", "_#1"], ["x", "_#1", "_#2"]]


def test_parentheses_group_values_and_literals() -> None:
    assert rule("a(x) :- (((b(x)))), ((x + 1) * 2) < (3).") == rule("a(x) :- b(x), (x + 1) * 2 < 3.")
    assert len(parse("a(x) :- (b(x), c(x)).").rules[0].body) == 2


def test_true_and_false() -> None:
    assert rule("a(1) :- true.").is_fact
    assert rule("a(x) :- b(x), true.") == rule("a(x) :- b(x).")
    assert rule("a(x) :- b(x), false.").body[1] == Comparison("=", Constant(0), Constant(1))
    assert [len(r.body) for r in parse("a(x) :- b(x), (true; c(x)).").rules] == [1, 2]


def test_too_many_alternatives() -> None:
    body = ", ".join("(a(x); b(x))" for _ in range(11))
    with pytest.raises(SyntaxProblem, match="more than 1000 rules"):
        parse(f"r(x) :- {body}.")


# --- expressions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c", "a + (b * c)"), ("a - b - c", "(a - b) - c"), ("a / b % c", "(a / b) % c"),
        ("a ^ b ^ c", "a ^ (b ^ c)"), ("-a ^ b", "-(a ^ b)"), ("a ^ -b", "a ^ (-b)"), ("-a * b", "(-a) * b"),
        ("a * -b", "a * (-b)"), ("a - -b", "a - (-b)"), ("a-1", "a - 1"), ("2 ^ 3", "(2) ^ (3)"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    assert rule(f"r(z) :- z = {text}.") == rule(f"r(z) :- z = {same}.")


def test_minus_in_front_of_a_number_is_part_of_it() -> None:
    assert value("-(5)") == Constant(-5)
    assert rule("r(x) :- x = -2 ^ 2.").body == (
        Comparison("=", Variable("x"), Call("neg", (Call("^", (Constant(2), Constant(2))),))),)


def test_calls_and_lists() -> None:
    found = rule('r(p) :- p = concat([x, "a"], nil), q = min(x, 2, max(y, 1)), z = f().').body
    x, y = Variable("x"), Variable("y")
    rights = [literal.right for literal in found if isinstance(literal, Comparison)]
    assert rights == [
        Call("concat", (Call("list", (x, Constant("a"))), Constant(()))),
        Call("min", (x, Constant(2), Call("max", (y, Constant(1))))),
        Call("f", ()),
    ]


# --- aggregates ----------------------------------------------------------------------------------------------


def test_head_aggregates() -> None:
    found = rule("r(x, min<c>, sum<p * v>, count<*>, mean<-c>, median<c>) :- s(x, c, p, v).").aggregates
    assert [(a.function, a.target and format_expression(a.target)) for a in found] == [
        ("min", "c"), ("sum", "p * v"), ("count", None), ("mean", "-c"), ("median", "c")]


def test_aggregates_with_a_parameter_and_names_that_are_not_reserved() -> None:
    x = Variable("x")
    (head,) = rule("r(quantile<x + 1, 0.9>) :- s(x).").head.arguments
    assert head == HeadAggregate("quantile", Call("+", (x, Constant(1))), parameter=Constant(0.9))
    body = (Atom("s", (x,)),)
    for text, expected in {
        "quantile x, 0.9 : { s(x) }": Aggregate("quantile", x, body, parameter=Constant(0.9)),
        "top [x, 1], k : s(x)": Aggregate("top", Call("list", (x, Constant(1))), body, parameter=Variable("k")),
        "top (x - 1) * (x), -1 : { s(x) }": Aggregate("top", Call("*", (Call("-", (x, Constant(1))), x)), body,
                                                     parameter=Constant(-1)),
        "median(abs((x + 1))) : { s(x) }": Aggregate("median", Call("abs", (Call("+", (x, Constant(1))),)), body),
        "median(x)": Call("median", (x,)),
        "all + any": Call("+", (Variable("all"), Variable("any"))),
    }.items():
        assert rule(f"r(v) :- v = {text}, t(1).").body[0] == Comparison("=", Variable("v"), expected), text
    for text in ("top(x), any(x, all), n = count : { s(x) }", "top(x), count : { s(x) } > 1", "top(x), !any(x)"):
        assert rule(f"r(x) :- {text}.").body[0] == Atom("top", (x,))


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_every_aggregate_may_stand_before_a_bracket(name: str) -> None:
    literal = rule(f"r(v) :- v = {name} (x + 1) : {{ s(x) }}.").body[0]
    assert isinstance(literal, Comparison) and isinstance(literal.right, Aggregate)
    assert literal.right.function == name


def test_body_aggregates() -> None:
    found = rule(
        "r(x) :- s(x), n = count : { t(x, _) }, 0.75 * sum v : { u(v), v < x } < n, m = max v * 2 : u(v).").body
    v, x = Variable("v"), Variable("x")
    assert found[1] == Comparison("=", Variable("n"), Aggregate("count", None, (Atom("t", (x, Variable("_#1"))),)))
    total = Aggregate("sum", v, (Atom("u", (v,)), Comparison("<", v, x)))
    assert found[2] == Comparison("<", Call("*", (Constant(0.75), total)), Variable("n"))
    assert found[3] == Comparison(
        "=", Variable("m"), Aggregate("max", Call("*", (v, Constant(2))), (Atom("u", (v,)),)))


@pytest.mark.parametrize("target", ["v", "-v", "(v + 1) * 2", "min(v, 3)", "[v, 1]", "f(v)", "2 ^ v"])
def test_targets_of_aggregates(target: str) -> None:
    (literal,) = rule(f"r(s) :- s = sum {target} : {{ t(v) }}.").body
    assert isinstance(literal, Comparison) and isinstance(literal.right, Aggregate)
    assert literal.right.target == rule(f"r(s) :- s = {target}.").body[0].right  # type: ignore[union-attr]


def test_nested_and_user_aggregates() -> None:
    found = rule("r(m) :- m = median v : { t(v), v < sum w : { t(w), (w > 1, true) } }.").body[0]
    assert isinstance(found, Comparison) and isinstance(found.right, Aggregate)
    assert found.right.function == "median"
    inner = found.right.body[1]
    assert isinstance(inner, Comparison) and isinstance(inner.right, Aggregate)
    assert len(inner.right.body) == 2


# --- declarations --------------------------------------------------------------------------------------------


def test_declaration() -> None:
    text = ".decl link(src: symbol, dst: symbol, cost: number) key(src, dst) ttl(30) partition(dst)"
    relation = parse(text).relations["link"]
    assert [(c.name, c.type) for c in relation.columns] == [("src", "symbol"), ("dst", "symbol"), ("cost", "number")]
    assert (relation.key, relation.ttl, relation.bag, relation.partition) == ((0, 1), 30.0, False, (1,))
    assert relation.declared and relation.span == Span(1, 7, 1, 11)


def test_declarations_of_several_names_and_of_none() -> None:
    relations = parse(".decl a, b(x: number) bag\n.decl on()").relations
    assert relations["a"].bag and relations["b"].bag and relations["a"].columns == relations["b"].columns
    assert relations["on"].columns == ()


def test_column_names_may_be_words_of_the_language() -> None:
    columns = parse(".decl r(count: number, key: symbol, nil: list)").relations["r"].columns
    assert [c.name for c in columns] == ["count", "key", "nil"]


@pytest.mark.parametrize(
    "text",
    ["key(1).", "key(x) :- r(x).", "bag(x) :- r(x).", "ttl(x), key(x) :- r(x).", "partition(1). key(2).", "bag()."],
)
def test_qualifiers_are_no_reserved_words(text: str) -> None:
    program = parse(f".decl r(x: number)\n{text}")
    assert program.rules and program.relations["r"].key == ()


@pytest.mark.parametrize("rest", ["\n.output r", "\nq(x) :- r(x).", "", "\n\n", " // end", "\n  ttl(2.5)\n.output r"])
def test_qualifiers_before_anything(rest: str) -> None:
    assert parse(f".decl r(x: number)\n   key(x){rest}").relations["r"].key == (0,)


def test_directives() -> None:
    program = parse("""
        .input a(IO=file, filename="x y.csv", delimiter="\\t", headers=true, rfc4180=false, n=-3)
        .output b, c
        .printsize b
        .limitsize c(n=100)
        .input d()
    """)
    assert [(d.kind, d.relation, dict(d.parameters)) for d in program.directives] == [
        ("input", "a", {"IO": "file", "filename": "x y.csv", "delimiter": "\t", "headers": True, "rfc4180": False,
                        "n": -3}),
        ("output", "b", {}), ("output", "c", {}), ("printsize", "b", {}), ("limitsize", "c", {"n": 100}),
        ("input", "d", {}),
    ]


def test_constants_and_types() -> None:
    program = parse('.const k = 20 .const low = -1.5 .const who = "me"\n.type Node <: symbol .type Id = Node')
    assert program.constants == {"k": 20, "low": -1.5, "who": "me"}
    assert program.aliases == {"Node": "symbol", "Id": "Node"}


def test_comments_and_layout() -> None:
    program = parse("\ufeff// first\r\na(x) /* in \n between */ :-\r\n\tb(x). // last\n/**/ /* * */ c(1).//")
    assert [r.head.relation for r in program.rules] == ["a", "c"]
    assert "between" not in program.rules[0].text


@pytest.mark.parametrize("text", ["", " \n\t", "// nothing", "/* nothing */", "\ufeff"])
def test_empty_programs(text: str) -> None:
    program = parse(text)
    assert program == Program((), {}, source=program.source)
    assert datalog.check(program).checked


# --- places --------------------------------------------------------------------------------------------------


def cut(text: str, span: Span) -> str:
    """The text of a span on one line."""
    return text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]


def test_spans() -> None:
    text = "p(x, min<c>) :-\n  q(x, (c + 1) * 2), !r(x), c < f([x]), n = sum v : { s(v) }."
    found = rule(text)
    assert found.span == Span(1, 1, 2, len(text.split("\n")[1]) + 1)
    q, negation, less, total = found.body
    assert isinstance(q, Atom) and isinstance(less, Comparison) and isinstance(total, Comparison)
    assert cut(text, found.head.span) == "p(x, min<c>)"
    assert cut(text, found.head.arguments[1].span) == "min<c>"
    assert cut(text, q.arguments[1].span) == "(c + 1) * 2"
    assert cut(text, negation.span) == "!r(x)"
    assert cut(text, less.right.span) == "f([x])"
    assert cut(text, total.right.span) == "sum v : { s(v) }"


# --- back to text --------------------------------------------------------------------------------------------

QUERIES = """
.type Node <: symbol
.const k = 20
.decl link(src: Node, dst: Node, cost: number) key(src, dst) ttl(2.5)
.decl bids(price: float, volume: unsigned) bag partition(volume)
.input link(IO="file", filename="a.csv", headers=true)
.output path, best
path(x, y, p, c) :- link(x, y, c), p = concat([x, y], nil); link(x, z, c0), path(z, y, p1, c1), c = c0 + c1, p = [x].
best(x, y, min<c>), seen(x) :- path(x, y, _, c), !closed(x, _), c - (k - 1) != -c ^ 2, (-2) ^ c < -(-c).
vwap(sum<p * v>) :- bids(p, v), total = sum w : { bids(_, w) }, 0.75 * total < sum w : { bids(q, w), q <= p }.
fact("a\\"b\\n", [1, [2.5, "x"]], nil, -3, 1e+30).
on() :- false.
"""


def test_programs_survive_formatting() -> None:
    program = parse(QUERIES)
    again = parse(format_program(program))
    assert (again.rules, again.relations, again.directives) == (program.rules, program.relations, program.directives)
    assert (again.constants, again.aliases) == (program.constants, program.aliases)
    assert format_program(again) == format_program(program)


names = st.sampled_from(["x", "y", "z", "?q", "c0"])
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.integers(-(2**63), 2**64 - 1), finite, st.text(st.characters(exclude_categories=["Cs"])))
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


def _folded(function: str, arguments: tuple[Expression, ...]) -> Expression:
    """The call as the parser would give it: constants in lists and under a minus are folded."""
    if function == "list" and all(isinstance(a, Constant) for a in arguments):
        return Constant(tuple(a.value for a in arguments if isinstance(a, Constant)))
    if function == "neg" and isinstance(arguments[0], Constant):
        return arguments[0]
    return Call(function, arguments)


def _extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(lambda f, a, b: Call(f, (a, b)), st.sampled_from("+-*/%^"), inner, inner),
        st.builds(lambda a: _folded("neg", (a,)), inner),
        st.builds(lambda a: _folded("list", tuple(a)), st.lists(inner, max_size=3)),
        st.builds(lambda f, a: Call(f, tuple(a)), st.sampled_from(["f", "cat"]), st.lists(inner, max_size=3)),
        st.builds(lambda a, b: Call("min", (a, b)), inner, inner),
        st.builds(lambda f, a, n: Aggregate(f, a, (Atom("t", (Variable(n),)),)),
                  st.sampled_from(["sum", "max"]), inner, names),
    )


expressions: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(st.builds(Variable, names), st.builds(Constant, values)), _extend, max_leaves=8)
times = st.one_of(
    st.builds(Variable, st.sampled_from(["x", "at", "every"])),
    st.builds(Constant, st.one_of(st.integers(-(2**63), 2**64 - 1), finite)),
)
points = st.one_of(
    st.builds(Sync, st.sampled_from(["s", "at", "every", "from"])),
    st.builds(lambda period, start: Sync("every", Ticks(period, start)), times, st.none() | times),
)
atoms = st.builds(
    lambda name, arguments, time, sync: Atom(name, tuple(arguments), time=time, sync=sync),
    st.sampled_from("rs"), st.lists(expressions, max_size=3), st.none() | times, st.none() | points,
)
literals = st.one_of(
    atoms,
    st.builds(Negation, atoms),
    st.builds(lambda inner: Comparison("=", Constant(1), Aggregate("count", None, (inner,))), atoms),
    st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), expressions, expressions),
)
heads = st.lists(
    st.one_of(expressions, st.builds(HeadAggregate, st.sampled_from(["min", "median"]), expressions)), max_size=3)


@given(st.builds(lambda head, body: Rule(Atom("h", tuple(head)), tuple(body)), heads, st.lists(literals, max_size=3)))
@settings(max_examples=200, deadline=None)
def test_rules_survive_formatting(made: Rule) -> None:
    assert rule(format_rule(made)) == made


@given(values)
@settings(max_examples=200, deadline=None)
def test_values_survive_formatting(made: Any) -> None:
    assert value(format_value(made)).value == made


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_program_or_a_clear_error(text: str) -> None:
    try:
        parse(text)
    except (SyntaxProblem, ProgramErrors) as error:
        assert str(error)


PIECES = [
    "a(x)", ":-", ".", ",", ";", "(", ")", "{", "}", "[", "]", "<", ">", "=", "!", "min", "count", "x", "_", "1", "2.5",
    '"s"', '"', "\n", " ", ".decl r(x: number)", ".input r", ".const k = 1", "key(x)", ":", "+", "-", "/*", "//", "'",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@settings(max_examples=400, deadline=None)
def test_any_mixture_of_pieces_is_a_program_or_a_clear_error(text: str) -> None:
    try:
        datalog.check(parse(text))
    except datalog.LivelogError as error:
        assert "error" in str(error)


FOLDER = Path(__file__).parent / "errors"
TEXTS = [QUERIES, *(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.dl")))]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_programs_are_programs_or_clear_errors(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        piece, cut_away = data.draw(st.sampled_from(["", *PIECES])), data.draw(st.integers(0, 6))
        text = text[:place] + piece + text[place + cut_away :]
    try:
        datalog.check(parse(text))
    except datalog.LivelogError as error:
        assert "error" in str(error)


# --- size ----------------------------------------------------------------------------------------------------


def test_huge_program() -> None:
    text = "\n".join(f"r{i % 500}(x, y) :- s{i}(x, z), r{i % 499}(z, y), z < {i}." for i in range(10_000))
    start = time.process_time()
    program = parse(text)
    spent = time.process_time() - start
    assert len(program.rules) == 10_000
    assert spent < 60  # 6 s of CPU time when measured on a busy machine; the bound only catches what is quadratic


def test_deep_but_possible_nesting() -> None:
    nested = "(" * 3000 + "x" + ")" * 3000
    assert rule(f"r(y) :- s(x), y = {nested}.") == rule("r(y) :- s(x), y = x.")
    chain = datalog.check(parse("r(y) :- s(x), y = x" + " + 1" * 150 + "."))
    assert parse(format_program(chain)).rules[0].head == chain.rules[0].head
    assert datalog.check(parse("r(x) :- " + "(" * 150 + "s(x), t(x)" + ", u(x))" * 150 + ".")).rules


@pytest.mark.parametrize(
    "text",
    [
        "r(y) :- s(x), y = x" + " + 1" * 5000 + ".",
        "r(x) :- x = " + "[" * 5000 + "]" * 5000 + ".",
        "r(y) :- s(x), y = " + "f(" * 5000 + "x" + ")" * 5000 + ".",
        "r(x) :- s(x), x < " + "sum x : { s(x), x < " * 400 + "1" + "}" * 400 + ".",
        "r(x) :- " + "(" * 5000 + "s(x), t(x)" + ", u(x))" * 5000 + ".",
    ],
    ids=["sum", "list", "calls", "aggregates", "groups"],
)
def test_nesting_that_is_too_deep(text: str) -> None:
    with pytest.raises(SyntaxProblem, match="nested"):
        parse(text)


def test_parsing_in_several_threads() -> None:
    found: list[Program] = []
    threads = [threading.Thread(target=lambda: found.append(parse(QUERIES))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(program == found[0] for program in found)


# --- several errors ------------------------------------------------------------------------------------------


def test_errors_do_not_hide_each_other() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse("a(x) :- b(x\nc(x) :- d(x).\n.decl e(x number)\n.decl f(x: number)\ng(x y).\nh(1).\ni(x) :- j(.\n")
    assert [p.span.line for p in caught.value.problems if p.span] == [2, 3, 5, 7]


def test_the_number_of_errors_is_bounded() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse("a(x :- b(x).\n" * 50)
    assert len(caught.value.problems) == 20
    assert "reading stopped" in str(caught.value)
