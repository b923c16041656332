"""What `livelog check` warns of, and what it accepts with a note."""

from __future__ import annotations

from pathlib import Path

import pytest

import datalog
from livelog.cli import main


def warned(text: str) -> list[str]:
    """The warnings about a program, each as its place and what is named in it."""
    program = datalog.check(datalog.parse(text, "a.dl"))
    return [f"{w.place[5:]} {w.message.split('`')[1]}" for w in datalog.warnings_of(program)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r(x) :- s(x, y).", ["1:14 y"]),
        ("r(x) :- s(x, _).", []), ("r(x) :- s(x, _y).", []), ("r(x) :- s(x, ?y).", ["1:14 ?y"]),
        ("r(x) :- s(x, y), !t(y).", []),
        ("r(x) :- s(x, y), x > 1, z = 2.", ["1:14 y", "1:25 z"]),
        ("a(x), b(y) :- s(x, y).", []),  # heads share their body
        ("a(x), b(x) :- s(x, y).", ["1:20 y"]),
        ("r(x) :- s(x, y); t(x, y).", ["1:14 y", "1:23 y"]),  # alternatives do not share variables
        ("r(x) :- s(x, y), (t(y); u(x)).", []),  # used in one alternative: `_` would be wrong
        ("r(x) :- s(x, y), (t(x); u(x)).", ["1:14 y"]),
        ("r(n) :- n = count : { s(x, y) }.", ["1:25 x", "1:28 y"]),
        ("r(x, n) :- t(x), n = sum y : { s(x, y) }.", []),
        ("r(min<x>) :- s(x, y).", ["1:19 y"]),
        (".const k = 3\nr(x) :- s(x, k).", []),
        ("r(x) :-\n  s(x,\n    long).", ["3:5 long"]),
    ],
)
def test_variables_used_once(text: str, expected: list[str]) -> None:
    assert warned(text) == expected


OUT = ".output r\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r(x) :- s(x). t(x) :- r(x).", []),  # without .output every view is one
        (OUT + "r(x) :- s(x).", []),
        (OUT + "r(x) :- s(x). t(x) :- r(x).", ["2:15 t"]),
        (OUT + "r(x) :- s(x). t(x) :- s(x). t(x) :- t(y), s(x), x = y.", ["2:15 t"]),  # it only reads itself
        (OUT + ".printsize t\nr(x) :- s(x). t(x) :- r(x).", []),
        (OUT + "r(x) :- s(x), !t(x). t(x) :- s(x).", []),
        (OUT + "r(x) :- s(x), 1 < count : { t(x) }. t(x) :- s(x).", []),
        ('r(x) :- link(x). lnk("a").', ["1:18 lnk"]),
        (".decl link(x: symbol)\n.decl lnk(x: symbol)\nr(x) :- link(x).", ["2:7 lnk"]),
        (".decl a(x: number)\n.input a\n.decl b(x: number)\nr(x) :- b(x).", ["1:7 a"]),
        (".decl link(x: symbol)\nlink(\"a\").", []),  # a store of facts
        (".decl a(x: number)\n.output a\nr(x) :- a(x).\n", ["3:1 r"]),
    ],
)
def test_relations_never_read(text: str, expected: list[str]) -> None:
    assert warned(text) == expected


def test_conditions_of_souffle_in_a_program_without_declarations() -> None:
    assert warned('r(x) :- s(x), match("a.*", x), !contains("b", x).') == ["1:15 match", "1:33 contains"]
    assert warned('match("a", "b"). r(x) :- s(x), match("a", x).') == []
    assert warned("r(x) :- s(x), match(x).") == []


# --- the command ---------------------------------------------------------------------------------------------

PROGRAM = """\
.decl s(x: number, y: number)
r(x) :- s(x, y).
"""
WARNING = """\
a.dl:2:14: {word}: the variable `y` is used once
    2 | r(x) :- s(x, y).
      |              ^
note: write `_`, or `_y`, where any value will do
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "a.dl").write_text(PROGRAM)
    return tmp_path


def test_warnings_are_shown_and_are_no_errors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "a.dl"]) == 0
    assert capsys.readouterr() == ("a.dl: no errors, 1 warning\n", WARNING.format(word="warning"))


def test_strict_makes_them_errors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--strict", "a.dl"]) == 1
    assert capsys.readouterr() == ("", WARNING.format(word="error"))
    (place / "a.dl").write_text(PROGRAM.replace("y)", "_)"))
    assert main(["check", "--strict", "a.dl"]) == 0
    assert capsys.readouterr() == ("a.dl: no errors\n", "")


def test_other_commands_do_not_warn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a.dl").write_text('.pragma "legacy"\n' + PROGRAM.replace("number)\n", "number) brie\n"))
    assert main(["run", "a.dl"]) == 0
    assert capsys.readouterr().err == ""


def test_at_most_fifty_warnings_are_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a.dl").write_text(PROGRAM + "".join(f"r{i}(x) :- s(x, y).\n" for i in range(70)))
    assert main(["check", "a.dl"]) == 0
    out, err = capsys.readouterr()
    assert out == "a.dl: no errors, 71 warnings\n" and err.count("warning:") == 50 and err.endswith("and 21 more\n")
    assert main(["check", "--strict", "a.dl"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("error:") == 50 and err.endswith("and 21 more\n71 errors\n")


# --- what is accepted for Souffle's sake ---------------------------------------------------------------------


STORAGE = ("btree", "btree_delete", "brie", "magic", "no_magic", "inline", "no_inline", "overridable")


@pytest.mark.parametrize("word", STORAGE)
def test_storage_qualifiers_do_nothing(word: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = ".decl s(x: number) key(x)\nr(x) :- s(x).\n"
    text = plain.replace("key(x)", f"{word} key(x)")
    assert datalog.format_program(datalog.parse(text)) == datalog.format_program(datalog.parse(plain))
    (place / "a.dl").write_text(text)
    assert main(["check", "--strict", "a.dl"]) == 0
    out, err = capsys.readouterr()
    assert out == "a.dl: no errors\n"
    assert err.startswith(f"a.dl:1:20: note: `{word}` says ") and "it is accepted and does nothing" in err


def test_storage_qualifiers_are_no_reserved_words() -> None:
    text = ".decl s(x: number)\ninline(1).\nbrie(x) :- s(x), inline(x), magic(x).\nmagic(2)."
    program = datalog.check(datalog.parse(text))
    assert set(program.relations) == {"s", "inline", "brie", "magic"} and not program.remarks


def test_pragma_does_nothing() -> None:
    program = datalog.check(datalog.parse('.pragma "magic-transform" "*"\nr(x) :- s(x).\n.pragma "legacy"\n'))
    assert [rule.head.relation for rule in program.rules] == ["r"]
    assert "note: `.pragma` sets an option of Souffle" in program.remarks[0].render()
    assert [remark.place for remark in program.remarks] == ["<program>:1:1", "<program>:3:1"]


def test_old_qualifiers_are_directives() -> None:
    text = ".decl a, b(x: number) input output\n.decl r(x: number) printsize brie\nr(x) :- a(x)."
    program = datalog.check(datalog.parse(text))
    assert [(d.kind, d.relation) for d in program.directives] == [
        ("input", "a"), ("input", "b"), ("output", "a"), ("output", "b"), ("printsize", "r")]
    assert "`output` behind a declaration is an old way to write `.output a, b`" in program.remarks[1].message
