"""Times, points and streams in programs: how they are read, what the checker makes of them, and how they are shown."""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import pytest

import datalog
from datalog.ast import (
    ARRIVAL,
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Negation,
    Program,
    Read,
    Sync,
    Ticks,
    Variable,
    expressions,
    variables,
)
from datalog.errors import LivelogError, ProgramErrors, StratificationProblem, UsageProblem
from datalog.format import format_program, format_rule
from datalog.points import clocks_of
from datalog.walking import atoms, change_atoms
from datalog.written import as_written

X, T = Variable("x"), Variable("t")


def check(text: str, **options: Any) -> Program:
    return datalog.check(datalog.parse(text, "a.dl"), **options)


def body(text: str) -> tuple[Any, ...]:
    (rule,) = datalog.parse(f"r(x) :- {text}.").rules
    return rule.body


def problems(text: str) -> list[str]:
    """The messages about a program, each with its line and column."""
    with pytest.raises(LivelogError) as caught:
        check(text)
    error = caught.value
    found = error.problems if isinstance(error, ProgramErrors) else (error,)
    return [f"{p.span.line}:{p.span.column} {p.message}" for p in found if p.span]


# --- reading -------------------------------------------------------------------------------------------------


def read(time: Any = None, sync: Sync | None = None) -> Atom:
    return Atom("s", (X,), time=time, sync=sync)


def every(period: Any, start: Any = None) -> Sync:
    def node(value: Any) -> Any:
        return Variable(value) if isinstance(value, str) else Constant(value)

    return Sync("every", Ticks(node(period), None if start is None else node(start)))


@pytest.mark.parametrize(("text", "expected"), [
    ("s(x)@t", read(T)),
    ("s(x) @ t", read(T)),
    ("s(x)@5", read(Constant(5))),
    ("s(x)@-1.5", read(Constant(-1.5))),
    ("s(x)@_", read(Variable("_#1"))),
    ("s(x) at e", read(None, Sync("e"))),
    ("s(x)at e", read(None, Sync("e"))),
    ("s(x)\n@t\nat // points\ne", read(T, Sync("e"))),
    ("s(x)@t at e", read(T, Sync("e"))),
    ("s(x)@at at at", read(Variable("at"), Sync("at"))),
    ("s(x) at every", read(None, Sync("every"))),
    ("s(x) at every(2)", read(None, every(2))),
    ("s(x) at every (2.5, from=-3)", read(None, every(2.5, -3))),
    ("s(x) at every(p, from = a)", read(None, every("p", "a"))),
    ("s(x) at every(from)", read(None, every("from"))),
    ("s(x)@t at every(2)", read(T, every(2))),
])
def test_suffix(text: str, expected: Atom) -> None:
    assert body(text) == (expected,)
    assert body(f"!{text}") == (Negation(expected),)
    assert body(f"({text}), x = x") == (expected, Comparison("=", X, X))
    assert [r.body for r in datalog.parse(f"r(x) :- ({text}; x = 1, {text}).").rules] == [
        (expected,), (Comparison("=", X, Constant(1)), expected)]
    count = (Comparison("=", X, Aggregate("count", None, (expected,))),)
    assert body(f"x = count : {text}") == body(f"x = count : {{ {text} }}") == count
    assert body(f"x = sum x : {{ x = 1, ({text}) }}")[0].right.body[1] == expected


def test_every_underscore_is_a_variable_of_its_own() -> None:
    (rule,) = datalog.parse("r(_) :- s(_, _)@_ at e, !s(_, _)@_.").rules
    assert variables(rule) == [f"_#{i}" for i in range(1, 8)]
    assert variables(rule.body[0]) == ["_#2", "_#3", "_#4"]


def test_expressions_of_a_suffix_come_in_the_order_of_the_text() -> None:
    (rule,) = datalog.parse("r(x) :- s(x)@t at every(p, from=a).").rules
    assert [e.name for e in expressions(rule) if isinstance(e, Variable)] == ["x", "x", "t", "p", "a"]
    assert not rule.flat and variables(rule) == ["x", "t", "p", "a"]


@pytest.mark.parametrize("text", [
    "at(x) :- at(x, y), every(y), at(y).",
    "r(at, every) :- s(at), s(every), at < every, now(at).",
    "every(x) :- at(x), x = at(x) + every(x).",
    ".decl stream(x: number) stream\nstream(1). r(x) :- stream(x).",
    ".decl r(x: number)\nstream(x) :- r(x).",
    "r(x) :- s(x) at at.\nat(1).\nat(2).",
])
def test_no_word_is_reserved(text: str) -> None:
    program = datalog.parse(text)
    assert datalog.parse(format_program(program)).rules == program.rules


def test_what_is_a_fact_is_no_qualifier() -> None:
    (first, second) = datalog.parse(".decl r(x: number)\nstream(1).\n.decl q(x: number) stream").relations.values()
    assert not first.stream and second.stream


def test_places() -> None:
    text = "r(x) :- s(x)@t at e, !s(x) at every(2, from=3)."
    first, second = datalog.parse(text).rules[0].body

    def cut(span: Any) -> str:
        return text[span.column - 1 : span.end_column - 1]

    assert isinstance(first, Atom) and isinstance(second, Negation) and first.sync and second.atom.sync
    assert [cut(n.span) for n in (first, first.time, first.sync)] == ["s(x)@t at e", "t", "e"]
    assert [cut(n.span) for n in (second, second.atom.sync)] == ["!s(x) at every(2, from=3)", "every(2, from=3)"]


# --- what the checker makes of it ------------------------------------------------------------------------------


def columns(program: Program, name: str) -> list[tuple[str, str, bool]]:
    return [(c.name, c.type, c.numeric) for c in program.relations[name].columns]


TIME = (ARRIVAL, "any", True)


def test_a_stream_has_a_hidden_column() -> None:
    program = check(".decl s(x: number) stream ttl(5)\nr(x) :- s(x). q(t) :- s(_)@t, !s(3)@t. s(1).")
    stream = program.relations["s"]
    assert columns(program, "s") == [("x", "number", True), TIME]
    assert (stream.stream, stream.bag, stream.ttl, stream.arity) == (True, True, 5.0, 2)
    assert [column.name for column in stream.shown] == ["x"]
    first, second, fact = program.rules
    assert len(first.body[0].arguments) == 2 and first.body[0].arguments[1].anonymous  # type: ignore[union-attr]
    assert second.body[0].arguments[1] == T and second.body[1].atom.arguments == (Constant(3), T)  # type: ignore[union-attr]
    assert fact.head.arguments == (Constant(1),)
    assert not program.reads and not program.clocks and program.base == {"s"}


def test_reads_with_times() -> None:
    program = check("r(x, t) :- s(x, y)@t, y > 1. q(t) :- r(_, _)@t, r(_, t).")
    assert program.reads == {"s@": Read("s@", "s", "time"), "r@": Read("r@", "r", "time")}
    assert columns(program, "s@") == [("x", "any", False), ("y", "any", True), TIME]
    assert columns(program, "r") == [("x", "any", False), ("t", "any", True)]
    assert columns(program, "r@") == [*columns(program, "r"), TIME]
    assert not program.relations["s@"].declared
    assert program.base == {"s"} and program.derived == {"r", "q"}


def test_times_that_nobody_asks_for_are_not_read() -> None:
    stream = ".decl s(x: number) stream\n"
    program = check(stream + "e(t) :- clock(t). r(x) :- s(x)@_ at e. r(x) :- q(x)@_, !p(x)@_. q(1). p(2).")
    assert list(program.reads) == ["s at e"]


def test_reads_at_points() -> None:
    program = check(".decl s(x: number) stream\ne(t) :- clock(t), t % 2 = 0. q(1).\n"
                    "r(x) :- s(x) at e. r(x) :- s(x)@t at e, x < t. r(x) :- q(x)@t at e, t > 0. r(x) :- q(x) at e.")
    assert list(program.reads.values()) == [
        Read("s at e", "s", "at", "e"), Read("q@", "q", "time"), Read("q@ at e", "q@", "at", "e"),
        Read("q at e", "q", "at", "e"),
    ]  # fmt: skip
    assert columns(program, "s at e") == columns(program, "s") == [("x", "number", True), TIME]
    assert columns(program, "q@ at e") == columns(program, "q@")
    assert program.clocks == {"clock": Ticks(1, 0)} and program.base == {"s", "q"}
    assert not [a for rule in program.rules for a in atoms(rule) if a.time is not None or a.sync is not None]


@pytest.mark.parametrize(("written", "name", "ticks"), [
    ("2", "every(2)", Ticks(2, 0)),
    ("2.0", "every(2)", Ticks(2, 0)),
    ("2, from=0", "every(2)", Ticks(2, 0)),
    ("2, from=-0.0", "every(2)", Ticks(2, 0)),
    ("10, from=3.0", "every(10, from=3)", Ticks(10, 3)),
    ("0.5, from=-1", "every(0.5, from=-1)", Ticks(0.5, -1)),
    ("k", "every(7)", Ticks(7, 0)),
    ("k, from=late", "every(7, from=2.5)", Ticks(7, 2.5)),
])
def test_equal_schedules_have_one_name(written: str, name: str, ticks: Ticks) -> None:
    program = check(f".const k = 7 .const late = 0\nr(x) :- s(x) at every({written}).",
                    constants={"late": 2.5} if "late" in written else {})
    assert program.clocks == {name: ticks} and list(program.reads) == [f"s at {name}"]
    assert type(program.clocks[name].period) in (int, float) and name not in program.relations  # type: ignore[union-attr]


def test_constants_are_given_from_outside() -> None:
    text = "r(x) :- s(x)@when at every(p, from=a)."
    program = check(text, constants={"p": 2, "a": 1.5, "when": 4})
    assert list(program.clocks) == ["every(2, from=1.5)"]
    assert program.rules[0].body[0].arguments[-1] == Constant(4)  # type: ignore[union-attr]
    with pytest.raises(UsageProblem, match="no constant `q`"):
        check(text, constants={"p": 2, "a": 1, "q": 3})


def test_clocks() -> None:
    program = check("r(x) :- s(x) at clock. q(n) :- now(n).")
    assert program.clocks == {"clock": Ticks(1, 0), "now": None}
    assert columns(program, "now") == [("n", "any", True)] and columns(program, "clock") == [("t", "number", True)]
    assert columns(program, "q") == [("n", "any", True)]
    assert program.base == {"s"}


@pytest.mark.parametrize(("text", "free"), [
    ("r(n) :- now(n), clock(n).", {"now", "clock"}),
    (".decl now(n: symbol)\nr(n) :- now(n), n < clock.", {"clock"}),
    ("now(n) :- clock(n, _). clock(1, 2).", set()),
    (".input clock\nr(n) :- clock(n, n).", {"now"}),
])
def test_relations_of_the_program_are_no_clocks(text: str, free: set[str]) -> None:
    assert clocks_of(datalog.parse(text)) == free
    program = check(text, constants={"clock": "x"} if "< clock" in text else {})
    assert set(program.clocks) <= free


def test_types_flow_through_reads() -> None:
    program = check("""
        e(t) :- clock(t).
        kind(x, 2.5) :- named(x).  named("a").
        through(x, y) :- kind(x, y) at e.
        after(x, y, t) :- through(x, y)@t at every(2).
        far(x, y + t) :- after(x, y, t).
    """)
    assert columns(program, "kind at e") == columns(program, "kind") == [("x", "symbol", False), ("y", "float", True)]
    assert columns(program, "after")[:2] == columns(program, "kind")
    assert [c[1:] for c in columns(program, "far")] == [("symbol", False), ("float", True)]
    assert problems("r(x) :- s(x) at every(2), x < 1. q(y) :- r(y)@t, t > 0, y = \"a\".") == [
        '1:57 type clash: `y` is a number, but `"a"` is a symbol']


def test_a_relation_that_is_only_read_at_points_is_known() -> None:
    program = check("r(x) :- s(x, _) at d, x > 1. d(5).")
    assert columns(program, "s") == [("x", "any", True), ("c1", "any", False)]
    program = check(".input d\nr(x) :- s(x) at d.")
    assert program.relations["d"].columns[0].numeric and program.base == {"s", "d"}
    assert problems('r(x) :- s(x) at d. d("noon").') == [
        '1:22 type clash: `"noon"` is a symbol, but column 1 of `d` is a number']


def test_keys_of_views() -> None:
    program = check(".decl r(x: number, y: number) key(x)\nr(x, y) :- s(x, y). .decl s(x: number, y: number)")
    assert program.relations["r"].key == (0,)


@pytest.mark.parametrize("form", ["streamed", "complete", '"complete"'])
def test_forms_of_outputs(form: str) -> None:
    program = check(f"r(x) :- s(x). .output r(form={form})")
    assert program.directives[0].parameters == {"form": form.strip('"')}


def test_a_view_may_be_read_at_points_by_what_it_does_not_rest_on() -> None:
    check("""
        .decl temp(room: symbol, value: number) key(room)
        alarms(t) :- temp(_, v)@t, v > 120.
        hot(r, v) :- temp(r, v) at alarms.
        near(r) :- hot(r, _).  near(r) :- near(q), link(q, r) at alarms, !hot(r, _) at every(2).
        .decl link(a: symbol, b: symbol)
        both(t) :- alarms(t), every2(t).  every2(t) :- clock(t), t % 2 = 0, !alarms(t) at every(3).
        late(r) :- near(r) at both.
    """)


@pytest.mark.parametrize("text", [
    "r(x) :- s(x). r(x) :- r(x) at e. e(t) :- clock(t).",
    "r(x) :- s(x) at e. e(t) :- r(t).",
    "r(x) :- s(x), n = count : r(_) at e, n < x. e(t) :- clock(t).",
    "r(i + 1, sum<x>) :- r(i, x)@t, t > 0, i < 3. r(0, 1).",
    "r(x) :- s(x), !q(x). q(x) :- r(x) at every(2).",
])
def test_cycles_through_reads_are_refused(text: str) -> None:
    with pytest.raises(StratificationProblem):
        check(text)


# --- there and back --------------------------------------------------------------------------------------------

PROGRAM = """
.const k = 5
.decl temp(room: symbol, value: number) key(room)
.decl reading(room: symbol, value: number) stream ttl(20)
.output hot(form="complete")
every2(t) :- clock(t), t % 2 = 0.
alarms(t) :- reading(_, v)@t, v > 120.
hot(r, v) :- temp(r, v) at every2, v > 80.
calm(r) :- temp(r, _)@t at every(k, from=3), !reading(r, _) at alarms, now(n), n - k < t.
busy(r, n) :- temp(r, _), n = count : { reading(r, v)@t, v < t, hot(r, _)@5 at every2 }.
reading("hall", 21).
"""


def test_what_is_checked_is_written_as_before() -> None:
    program = check(PROGRAM)
    written = as_written(program)
    assert not written.reads and not written.clocks and written.relations["reading"].arity == 2
    assert as_written(written) is written
    again = check(format_program(program))
    assert again.rules == program.rules and again.relations == program.relations
    assert (again.reads, again.clocks) == (program.reads, program.clocks)
    assert format_program(again) == format_program(program)


def test_checking_twice_changes_nothing() -> None:
    program = check(PROGRAM)
    assert datalog.check(program) is program
    again = datalog.check(program, functions={"shout": str.upper})
    assert again == program and again.functions


def test_rules_of_a_checked_program_are_shown_as_written() -> None:
    rules = [format_rule(rule) for rule in check(PROGRAM).rules]
    assert rules[2] == "hot(r, v) :- temp(r, v) at every2, v > 80."
    assert rules[3].startswith("calm(r) :- temp(r, _)@t at every(5, from=3), ")
    assert rules[4].endswith("hot(r, _)@5 at every2 }.")


def test_change_atoms_gives_back_what_nothing_changes() -> None:
    for rule in check(PROGRAM).rules:
        assert change_atoms(rule, lambda atom: atom) is rule


def test_warnings_know_reads() -> None:
    def warned(text: str) -> list[str]:
        return [w.message for w in datalog.warnings_of(check(text))]

    assert warned(PROGRAM.replace('.output hot(form="complete")', "")) == []
    assert warned(".output r\nr(x) :- s(x)@t at e. e(t) :- clock(t).") == ["the variable `t` is used once"]
    text = ".output r\n.decl s(x: number)\n.decl d(t: number)\nr(x) :- s(x)@_ at e, now(_). e(t) :- clock(t)."
    assert [m.split(":")[0] for m in warned(text)] == ["nothing reads the relation `d`"]


# --- anything ---------------------------------------------------------------------------------------------------

DECLARED = """
.const k = 3
.decl s(x: number, y: number) stream
.decl b(x: number, y: number) key(x)
.decl bag(x: number) bag
"""


def some_program(seed: int) -> str:
    """Rules with all kinds of reads: most are right, some are not."""
    rng = random.Random(seed)
    arities = {"s": 2, "b": 2, "bag": 1, "v": 2, "w": 1, "e": 1, "now": 1, "clock": 1}

    def atom(bound: list[str]) -> str:
        name = rng.choice(list(arities))
        arguments = [rng.choice(["x", "y", "_", "1"]) for _ in range(arities[name] + (rng.random() < 0.01))]
        bound += [a for a in arguments if a.isalpha()]
        text = f"{name}({', '.join(arguments)})"
        plain = name in ("bag", "now", "clock", "v", "w") and rng.random() < 0.9
        if rng.random() < 0.4 and not plain:
            bound += ["t"] * (time := rng.choice(["t", "_", "2", "k"])).startswith("t")
            text += f"@{time}"
        if rng.random() < 0.4 and not plain:
            wrong = rng.choice(["w", "s", "ee"])
            text += f" at {rng.choice(['e', 'e', 'e', 'clock', 'every(2)', 'every(k, from=1.5)', 'every(2.0)', wrong])}"
        return text

    rules = ["e(t) :- clock(t), t % 2 = 0.", "v(x, y) :- b(x, y).", "w(x) :- b(x, _)."]
    for _ in range(rng.randint(1, 5)):
        bound: list[str] = []
        literals = [atom(bound) for _ in range(rng.randint(1, 3))]
        known = [*bound, "1"]
        if rng.random() < 0.3:
            unbound = "|".join({"x", "y", "t"} - {*known} or "#")
            literals.append("!" + re.sub(rf"\b({unbound})\b", "_", atom([])))
        if rng.random() < 0.2:
            literals.append(f"count : {{ {atom([])}, {atom([])} }} < {rng.choice(known)}")
        head = f"v({rng.choice(known)}, {rng.choice(known)})" if rng.random() < 0.6 else f"w({rng.choice(known)})"
        rules.append(f"{head} :- {', '.join(literals)}.")
    return DECLARED + "\n".join(rules)


@pytest.mark.parametrize("seed", range(150))
def test_any_program_is_checked_or_refused(seed: int) -> None:
    """Nothing but an error that a person can read comes out of the checker; what it lets pass can be written again."""
    text = some_program(seed)
    parsed = datalog.parse(text, "a.dl")
    assert datalog.parse(format_program(parsed)).rules == parsed.rules
    try:
        program = datalog.check(parsed)
    except LivelogError as error:
        assert str(error)
        return
    assert datalog.check(program, functions={"shout": str.upper}) == program
    again = check(format_program(program))
    assert format_program(again) == format_program(program) and again.relations == program.relations
    assert (again.reads, again.clocks) == (program.reads, program.clocks)
    for number, name in enumerate(program.reads):
        relation = program.relations[program.reads[name].relation]
        assert relation.name not in program.reads or list(program.reads).index(relation.name) < number
        assert program.relations[name].columns[: relation.arity] == relation.columns
    for rule in program.rules:
        for one in atoms(rule)[1:]:
            assert one.time is None and one.sync is None
            assert len(one.arguments) == program.relations[one.relation].arity
    assert not program.base & (program.reads.keys() | program.clocks.keys())


def test_some_of_these_programs_are_right() -> None:
    right = 0
    for seed in range(150):
        with contextlib.suppress(LivelogError):
            right += bool(check(some_program(seed)).reads)
    assert 30 < right < 120
