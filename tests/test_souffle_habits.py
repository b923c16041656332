"""Files as Souffle reads and writes them, Parquet by the name of the file, and programs kept inside their folders."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import livelog
from livelog.cli import main
from livelog.io.values import format_value


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def run(text: str, *options: str) -> int:
    Path("a.dl").write_text(text, encoding="utf-8")
    return main(["run", "a.dl", *options])


# --- Souffle's files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("-D", "out"), ("--partitions", "2"), ("--format", "csv")])
def test_printsize_of_a_relation_without_columns(
    options: tuple[str, ...], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        .decl on()  .decl off()  .decl n(x: number)
        n(1). n(2).
        on() :- n(_).
        off() :- !on().
        .printsize on, off, n
    """
    assert run(text, *options) == 0
    assert capsys.readouterr().out == "on\t1\noff\t0\nn\t2\n"


QUOTES = 'say "hi"', '"', '""', "a,b", "two\nlines", "\ttab", "", ' " ', "it's", "a\r\nb"


def test_rfc4180_with_quotes_inside(place: Path) -> None:
    rows = [(text, f"{text}{text}", (text, 1), 2.0) for text in QUOTES]
    columns = "(a: symbol, b: symbol, c: list, d: float)"
    for parameters in ("rfc4180=true", 'rfc4180=true, delimiter=";", headers=true', 'rfc4180=true, delimiter="\\t"'):
        text = f".decl r{columns}\n.output r({parameters})\n.decl s{columns}\n"
        text += "".join(f"r({', '.join(map(format_value, row))}).\n" for row in rows)
        assert run(text, "-D", "out") == 0
        Path("b.dl").write_text(f'.decl r{columns}\n.input r(filename="r.csv", {parameters})\n')
        with livelog.open("b.dl", facts="out") as session:
            assert sorted(session["r"]) == sorted(rows)
    assert Path("out/r.csv").read_bytes().startswith(b'\t\t"[""""')


def test_souffles_own_quoted_files_are_read(place: Path) -> None:
    Path("r.csv").write_text('"a ""b"" c",1\nplain "quotes" inside,2\n"",3\n')
    Path("a.dl").write_text(".decl r(a: symbol, b: number)\n.input r(filename=\"r.csv\", rfc4180=true)\n")
    with livelog.open("a.dl", facts=".") as session:
        assert list(session["r"]) == [("", 3), ('a "b" c', 1), ('plain "quotes" inside', 2)]


def test_stdout_writes_no_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ".decl r(a: number)\nr(1).\n.output r(IO=stdout)\n"
    assert run(text, "-D", "out") == 0
    assert capsys.readouterr().out == "---------------\nr\na\n===============\n1\n===============\n"
    assert not Path("out").exists()
    assert run(text + '.output r(IO="stdout", filename="other.csv")\n.output r(filename="r.txt")\n', "-D", "out") == 0
    assert [path.name for path in Path("out").iterdir()] == ["r.txt"]


def test_floats_in_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = "2.0", "0.1", "1e+30", "-0.0", "123456789.0", "1e-07", "0.30000000000000004", "-3.0"
    text = ".decl r(i: number, x: float)\n.output r\n" + "".join(f"r({i}, {v}).\n" for i, v in enumerate(values))
    assert run(text, "-D", "out") == 0
    found = [line.split("\t")[1] for line in Path("out/r.csv").read_text().splitlines()]
    assert found == ["2", "0.1", "1e+30", "-0", "123456789", "1e-07", "0.30000000000000004", "-3"]
    Path("b.dl").write_text('.decl r(i: number, x: float)\n.input r(filename="r.csv", delimiter="\\t")\n')
    with livelog.open("b.dl", facts="out") as session:
        assert [x for _, x in session["r"]] == [float(value) for value in values]
        assert all(isinstance(x, float) for _, x in session["r"])
    assert run(text, "--format", "csv") == 0
    assert capsys.readouterr().out.splitlines()[0] == "r,0,2"


# --- Parquet -------------------------------------------------------------------------------------------------

EVERYTHING = """
.decl r(a: number, b: unsigned, c: float, d: symbol, e: list, f: list)
r(1, 18446744073709551615, 2.0, "x\\ty\\"", [1, "a"], [1, 2]). r(-3, 0, 0.5, "", nil, nil).
"""


def test_output_to_parquet(place: Path) -> None:
    assert run(EVERYTHING + '.output r(filename="sub/r.parquet")\n.output r(rfc4180=true)', "-D", "out") == 0
    assert sorted(str(path) for path in Path("out").rglob("*.*")) == ["out/r.csv", "out/sub/r.parquet"]
    with livelog.open("a.dl") as session:
        rows = list(session["r"])
    Path("b.dl").write_text(EVERYTHING.splitlines()[1] + '\n.input r(filename="sub/r.parquet")\n')
    with livelog.open("b.dl", facts="out") as session:
        assert list(session["r"]) == rows


def test_views_as_parquet(place: Path) -> None:
    assert run('n(1). n(2). s(x, y) :- n(x), y = x / 2.0. .output s(filename="s.parquet")', "-D", ".") == 0
    from pyarrow.parquet import read_table

    assert read_table("s.parquet").to_pydict() == {"x": [1, 2], "y": [0.5, 1.0]}
    assert run('n(1). s(x) :- n(x), x > 1. .output s(filename="s.parquet")', "-D", ".") == 0
    assert read_table("s.parquet").to_pydict() == {"x": []}


@pytest.mark.parametrize(("text", "message"), [
    ('.decl r(x: number)\n.output r(filename="r.parquet", delimiter=",")',
     "2:9: error: delimiter is for files of text, and this one is Parquet"),
    ('.decl r(x: number)\n.output r(filename="r.parquet", rfc4180=true)', "2:9: error: rfc4180 is for files of text"),
    ('.decl r(x: number)\n.input r(filename="r.parquet", headers=true)', "2:8: error: headers is for files of text"),
    ('.decl r()\n.output r(filename="r.parquet")', "2:9: error: r has no columns, and a file of Parquet has"),
    ('.decl r(x: number)\n.output r(filename="a\\0b")', "2:9: error: the name of a file cannot hold the character 0"),
])
def test_what_parquet_has_not(text: str, message: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "run"):
        Path("a.dl").write_text(text)
        assert main([command, "a.dl"]) == 1
        assert f"a.dl:{message}" in capsys.readouterr().err


def test_a_folder_in_the_way_of_parquet(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/r.parquet").mkdir(parents=True)
    assert run('.decl r(x: number)\nr(1).\n.output r(filename="r.parquet")', "-D", "out") == 1
    assert "error: out/r.parquet: cannot be written: Is a directory" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["r.parquet"]


# --- confinement ---------------------------------------------------------------------------------------------


@pytest.fixture
def folders(place: Path) -> Path:
    """A folder `in` with links that lead out of it and one that does not, and a file beside it."""
    (place / "in" / "sub").mkdir(parents=True)
    (place / "secret.csv").write_text("1\n")
    (place / "in" / "r.csv").write_text("2\n")
    (place / "in" / "sub" / "r.csv").write_text("3\n")
    (place / "in" / "link.csv").symlink_to(place / "secret.csv")
    (place / "in" / "up").symlink_to(place)
    (place / "in" / "here.csv").symlink_to("sub/r.csv")
    return place


OUTSIDE = "../secret.csv", "/PLACE/secret.csv", "link.csv", "up/secret.csv", "sub/../../secret.csv", "../nothing.csv"
INSIDE = "r.csv", "sub/r.csv", "sub/../r.csv", "here.csv", "/PLACE/in/r.csv"


@pytest.mark.parametrize("name", OUTSIDE)
def test_inputs_outside_are_refused(name: str, folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = name.replace("/PLACE", str(folders))
    Path("a.dl").write_text(f'.decl r(x: number)\n.input r(filename="{name}")\n.output r\n')
    for command in (["run"], ["simulate", "--steps", "1"], ["repl"]):
        assert main([*command, "a.dl", "-F", "in", "--confine"]) == 1
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("a.dl:2:8: error: .input r: '")
        assert "is outside of the folder of -F, and --confine keeps programs inside\n    2 | .input" in err
    if name != "../nothing.csv":
        assert main(["run", "a.dl", "-F", "in"]) == 0


@pytest.mark.parametrize("name", INSIDE)
def test_inputs_inside_are_read(name: str, folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = name.replace("/PLACE", str(folders))
    assert run(f'.decl r(x: number)\n.input r(filename="{name}")\n.output r\n', "-F", "in", "--confine") == 0


def test_files_that_nobody_named_are_confined_too(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folders / "in" / "s.csv").symlink_to(folders / "secret.csv")
    for text in (".decl s(x: number)\n.output s\n", ".decl s(x: number)\n.input s\n.output s\n"):
        assert run(text, "-F", "in") == 0
        assert run(text, "-F", "in", "--confine") == 1
        assert "'in/s.csv' is outside of the folder of -F" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../r.csv", "/PLACE/r.csv", "up/r.csv", "up/new/r.csv", "../in/../r.csv"])
def test_outputs_outside_are_refused(name: str, folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folders.rglob("*"))
    name = name.replace("/PLACE", str(folders))
    text = f'.decl r(x: number)\nr(1).\n.output r(filename="{name}")\n'
    assert run(text, "-D", "in", "--confine") == 1
    err = capsys.readouterr().err
    assert err.startswith("a.dl:3:9: error: .output r: '") and "is outside of the folder of -D" in err
    assert sorted(folders.rglob("*")) == sorted([*before, folders / "a.dl"])
    assert run(text, "--confine") == 0  # the terminal is no file
    assert run(text, "-D", "in") == 0


def test_outputs_inside_are_written(folders: Path) -> None:
    text = '.decl r(x: number)\nr(1).\n.output r(filename="new/r.csv")\n.output r(IO=stdout, filename="../x.csv")\n'
    assert run(text, "-D", "out", "--confine") == 0
    assert Path("out/new/r.csv").read_text() == "1\n"


def test_resume_is_confined(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the program of a session writes is checked before Spark is started."""
    text = '.decl r(x: number)\n.output r(filename="../r.csv")\n'
    told = SimpleNamespace(program=text, name="a.dl", constants={}, partitions=1, script=None, runtime="spark")
    (folders / "in" / "session.json").write_text("{}")
    monkeypatch.setattr("livelog.commands.resume.describe", lambda directory: told)
    assert main(["resume", "in", "-D", "out", "--confine"]) == 1
    assert "a.dl:2:9: error: .output r: 'out/../r.csv' is outside of the folder of -D" in capsys.readouterr().err
