"""Every wrong program of `tests/errors` is refused with exactly the text beside it.

After a deliberate change of a message: `LIVELOG_UPDATE_GOLDEN=1 pytest tests/test_errors.py`, and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import datalog
from datalog.ast import NOWHERE, Source, Span
from datalog.errors import (
    CheckProblem,
    FactProblem,
    LivelogError,
    Note,
    ProgramErrors,
    RuntimeProblem,
    StratificationProblem,
    SyntaxProblem,
    UsageProblem,
    raise_all,
)

FOLDER = Path(__file__).parent / "errors"
PROGRAMS = sorted(FOLDER.glob("*.dl"))


def errors_of(path: Path) -> LivelogError:
    """The error of a wrong program."""
    with pytest.raises(LivelogError) as caught:
        datalog.check(datalog.parse(path.read_text(encoding="utf-8"), path.name))
    return caught.value


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    rendered = str(errors_of(path)) + "\n"
    golden = path.with_suffix(".err")
    if os.environ.get("LIVELOG_UPDATE_GOLDEN"):
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.err")} == {path.stem for path in PROGRAMS}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_error_has_a_place_and_plain_words(path: Path) -> None:
    error = errors_of(path)
    problems = error.problems if isinstance(error, ProgramErrors) else (error,)
    for problem in problems:
        assert problem.span is not None
        assert problem.place.startswith(f"{path.name}:")
        internal = ("RPAR", "IDENT", "Token(", "NoneType", "Traceback", "_#", "__", "CUSTOM", "ANON")
        assert not any(word in problem.render() for word in internal)
    positions = [(p.span.line, p.span.column) for p in problems if p.span]
    assert positions == sorted(positions)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_spans_are_inside_the_text(path: Path) -> None:
    error = errors_of(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    problems = error.problems if isinstance(error, ProgramErrors) else (error,)
    for problem in problems:
        for span in [problem.span, *(note.span for note in problem.notes)]:
            if span is not None:
                assert 1 <= span.line <= span.end_line <= len(lines)
                assert 1 <= span.column <= len(lines[span.line - 1]) + 1


# --- the classes ---------------------------------------------------------------------------------------------


def test_classes_of_errors() -> None:
    for kind in (SyntaxProblem, CheckProblem, StratificationProblem, RuntimeProblem, FactProblem, UsageProblem,
                 ProgramErrors):
        assert issubclass(kind, LivelogError)
    assert issubclass(StratificationProblem, CheckProblem)


@pytest.mark.parametrize(
    ("stem", "kind"),
    [("syntax_missing_dot", SyntaxProblem), ("unsafe_constant", CheckProblem),
     ("stratify_negation", StratificationProblem), ("mixed", ProgramErrors)],
)
def test_class_of_a_problem(stem: str, kind: type[LivelogError]) -> None:
    assert type(errors_of(FOLDER / f"{stem}.dl")) is kind


def test_message_without_a_place() -> None:
    assert str(LivelogError("no")) == "error: no"
    assert str(UsageProblem("no", NOWHERE)) == "error: no"
    assert str(CheckProblem("no", None, Source("", "a.dl"))) == "a.dl: error: no"


def test_span_outside_the_text_is_no_failure() -> None:
    assert str(CheckProblem("no", Span(9, 1, 9, 2), Source("x", "a.dl"))) == "a.dl:9:1: error: no"
    assert str(CheckProblem("no", Span(1, 9, 1, 9), Source("x", "a.dl"))).endswith("|  ^")


def test_span_over_several_lines_underlines_the_first() -> None:
    text = str(CheckProblem("no", Span(1, 3, 2, 2), Source("ab cd  \nef", "a.dl")))
    assert text.splitlines() == ["a.dl:1:3: error: no", "    1 | ab cd", "      |   ^^^"]


def test_runtime_problem_names_the_rule() -> None:
    error = RuntimeProblem("division by zero", rule="a(x / y) :-\n   b(x, y).")
    assert error.rule.startswith("a(x / y)")
    assert str(error) == "error: division by zero\nnote: in the rule a(x / y) :- b(x, y)."


def test_fact_problem_names_file_and_line() -> None:
    assert str(FactProblem("bad", file="a.csv", line=3)) == "a.csv:3: error: bad"
    assert str(FactProblem("bad", file="a.csv")) == "a.csv: error: bad"
    assert str(FactProblem("bad", [Note("why")])) == "error: bad\nnote: why"


# --- what messages show of programs and data --------------------------------------------------------------------


@pytest.mark.parametrize(("unseen", "escape"), [
    ("\x1b[31m", "\\x1b[31m"), ("\x00", "\\0"), ("\r", "\\r"), ("\x07", "\\x07"), ("\x7f", "\\x7f"), ("\x9b", "\\x9b"),
    ("\u202e", "\\u202e"), ("\u2066", "\\u2066"), ("\u200f", "\\u200f"), ("\u2028", "\\u2028"), ("\ufeff", "\\ufeff"),
    ("\ud800", "\\ud800"), ("\v", "\\x0b"), ("\U000e0041", "\\U000e0041"),
])
def test_control_characters_are_escaped(unseen: str, escape: str) -> None:
    line = f'a("{unseen}") :- b.'
    source = Source(line, f"{unseen}.dl")
    at = line.index(" :-") + 1
    notes = [Note(f"so {unseen}", Span(1, 1, 1, 2))]
    text = str(CheckProblem(f"no {unseen}", Span(1, at + 1, 1, at + 3), source, notes))
    first, excerpt, carets, note, *_ = text.splitlines()
    assert first == f"{escape}.dl:1:{at + 1}: error: no {escape}"
    assert excerpt == f'    1 | a("{escape}") :- b.' and carets[excerpt.index(":-"):] == "^^"
    assert note == f"{escape}.dl:1:1: note: so {escape}"
    assert str(FactProblem(f"no {unseen}", file=f"{unseen}.csv", line=1)) == f"{escape}.csv:1: error: no {escape}"


def test_tabs_letters_and_emoji_are_not_escaped() -> None:
    text = "a\tb é 漢 \N{WOMAN}\u200d\N{PERSONAL COMPUTER} \u0646\u200c\u0645"
    assert str(LivelogError(text)) == f"error: {text}"


def test_long_names_are_cut() -> None:
    name = "x" * 10_000 + "end"
    for text in (
        f"r({name}).", f"r(1) :- {name}(1), !{name}(1, 2).", f".decl {name}(x: {name})", f"r({name}) :- s(_).",
    ):  # fmt: skip
        with pytest.raises(LivelogError) as caught:
            datalog.check(datalog.parse(f".decl s(x: number)\n{text}", "a.dl"))
        rendered = str(caught.value)
        assert len(rendered) < 1500 and f"{'x' * 60}...xxxxxxxend" in rendered


def test_long_messages_are_cut() -> None:
    assert len(str(RuntimeProblem("no " * 9_000, rule="r(x) :- " + "s(x), " * 9_000))) < 2500
    many = "\n".join(["a b c"] * 999)
    assert str(LivelogError(many)) == f"error: {many}"


def test_at_most_fifty_errors_are_shown() -> None:
    def rendered(count: int) -> list[str]:
        text = ".decl s(x: number)\n" + "".join(f"r{i}(x) :- t{i}(x).\n" for i in range(count))
        with pytest.raises(ProgramErrors) as caught:
            datalog.check(datalog.parse(text, "a.dl"))
        assert len(caught.value.problems) == count
        return str(caught.value).splitlines()

    assert sum("error:" in line for line in rendered(50)) == 50 and rendered(50)[-1] == "50 errors"
    many = rendered(73)
    assert sum("error:" in line for line in many) == 50 and many[-2:] == ["and 23 more", "73 errors"]


def test_raise_all_keeps_one_of_equal_problems() -> None:
    source = Source("a b", "a.dl")
    one, same, two = (CheckProblem(m, Span(1, c, 1, c + 1), source) for m, c in (("x", 1), ("x", 1), ("y", 3)))
    with pytest.raises(CheckProblem) as single:
        raise_all([one, same])
    assert single.value is same
    with pytest.raises(ProgramErrors) as several:
        raise_all([two, one])
    assert [p.message for p in several.value.problems] == ["x", "y"]
    assert str(several.value).endswith("2 errors")
