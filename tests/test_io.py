"""Facts from files and views to files: every form, every bad row, and the way there and back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog.ast import Column, Directive, Program, Relation
from datalog.errors import CheckProblem, FactProblem
from livelog import DataWarning
from livelog.io.delimited import read_delimited
from livelog.io.facts import load_facts
from livelog.io.forms import CSV, FACTS, Form
from livelog.io.outputs import output_forms, print_sizes, write_view
from livelog.io.values import TextProblem, format_value, parse_value


def relation(name: str = "link", /, **columns: str) -> Relation:
    return Relation(name, tuple(Column(n, t) for n, t in columns.items()))


LINK = relation(src="symbol", dst="symbol", cost="number")


def program(*relations: Relation, directives: tuple[Directive, ...] = ()) -> Program:
    return Program((), {r.name: r for r in relations}, directives, checked=True)


def load(folder: Path, prog: Program, **options: Any) -> dict[str, list[tuple[Any, ...]]]:
    return dict(load_facts(prog, folder, **options))


def read(tmp_path: Path, data: bytes | str, rel: Relation = LINK, form: Form = FACTS, suffix: str = ".facts") -> Any:
    path = tmp_path / (rel.name + suffix)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_delimited(path, rel, form)


# --- forms of files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        "a\tb\t3\nb\tc\t-1\n",
        "a\tb\t3\nb\tc\t-1",  # no newline at the end
        "a\tb\t3\r\nb\tc\t-1\r\n",  # written on Windows
        b"\xef\xbb\xbfa\tb\t3\nb\tc\t-1\n",  # with a byte order mark
        "a\tb\t3\n\n\nb\tc\t-1\n\n",  # with blank lines
        "a\tb\t 3 \nb\tc\t-1\n",  # spaces around a number
    ],
)
def test_facts(tmp_path: Path, data: bytes | str) -> None:
    assert read(tmp_path, data) == [("a", "b", 3), ("b", "c", -1)]


def test_symbols_are_taken_as_they_are(tmp_path: Path) -> None:
    rows = read(tmp_path, 'Zürich\t "x" \t1\nnaïve\u2028\x0b\tÅ\t2\n\t\t3\n')
    assert rows == [("Zürich", ' "x" ', 1), ("naïve\u2028\x0b", "Å", 2), ("", "", 3)]


def test_empty_file(tmp_path: Path) -> None:
    assert read(tmp_path, "") == []
    assert read(tmp_path, "\n\n") == []
    assert read(tmp_path, "src,dst,cost\n", form=CSV) == []


def test_empty_lines_of_a_single_symbol_column_are_the_empty_symbol(tmp_path: Path) -> None:
    assert read(tmp_path, "a\n\nb\n", relation(x="symbol")) == [("a",), ("",), ("b",)]
    assert read(tmp_path, "1\n\n2\n", relation(x="number")) == [(1,), (2,)]
    assert read(tmp_path, 'a\n""\n\nb\n', relation(x="symbol"), CSV) == [("a",), ("",), ("",), ("b",)]


def test_relation_without_columns(tmp_path: Path) -> None:
    assert read(tmp_path, "()\n", relation()) == [()]
    assert read(tmp_path, "", relation()) == []
    with pytest.raises(FactProblem, match="no columns"):
        read(tmp_path, "()\nx\n", relation())


@pytest.mark.parametrize(
    "data",
    [
        'a,"b, or\tnot",3\n"say ""hi""","two\nlines",4\n',
        'src,dst,cost\r\na,"b, or\tnot",3\r\n"say ""hi""","two\nlines",4',
        '"src","dst","cost"\na,"b, or\tnot",3\n"say ""hi""","two\nlines",4\n',
    ],
)
def test_csv(tmp_path: Path, data: str) -> None:
    assert read(tmp_path, data, form=CSV) == [("a", "b, or\tnot", 3), ('say "hi"', "two\nlines", 4)]


def test_csv_without_quotes(tmp_path: Path) -> None:
    assert read(tmp_path, "src,dst,cost\na,b,3\n", form=CSV) == [("a", "b", 3)]
    assert read(tmp_path, "a,b,3\n", form=CSV) == [("a", "b", 3)]


def test_rfc4180_with_tabs(tmp_path: Path) -> None:
    assert read(tmp_path, '"a\tb"\tc\t3\n', form=Form("\t", quoted=True)) == [("a\tb", "c", 3)]


def test_quotes_that_start_late_in_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livelog.io.delimited.CHUNK", 64)
    monkeypatch.setattr("livelog.io.delimited.BATCH", 7)
    rows = [(f"n{i}", "x", i) for i in range(40)] + [('q"' * (i % 3), "a\nb", i) for i in range(40)]
    path = write_view(tmp_path, "link", (), rows, Form(",", quoted=True))
    assert read_delimited(path, LINK, CSV) == rows


def test_lists_and_unknown_types(tmp_path: Path) -> None:
    assert read(tmp_path, '[1, 2.5, "a"]\nnil\n[]\n', relation(x="list")) == [((1, 2.5, "a"),), ((),), ((),)]
    rel = relation(a="any", b="any", c="any", d="any")
    assert read(tmp_path, "1\t1\t1\t[1, 2]\n2\t2.5\tx\t[3]\n", rel) == [(1, 1.0, "1", (1, 2)), (2, 2.5, "x", (3,))]
    assert read(tmp_path, "1\t\tnan\tnil\n2\t5\t1\tnil\n", rel) == [(1, "", "nan", "nil"), (2, "5", "1", "nil")]


def test_unsigned_and_float(tmp_path: Path) -> None:
    rel = relation(u="unsigned", f="float")
    assert read(tmp_path, f"{2**64 - 1}\t3\n0\t-1e3\n", rel) == [(2**64 - 1, 3.0), (0, -1000.0)]


# --- bad rows ------------------------------------------------------------------------------------------------


def test_bad_number_shows_the_line(tmp_path: Path) -> None:
    with pytest.raises(FactProblem) as caught:
        read(tmp_path, "a\tb\t3\n" * 16 + "a\tc\tx\n")
    path = tmp_path / "link.facts"
    assert str(caught.value).split("\n") == [
        f"{path}:17: error: column 3 (cost): 'x' is not a number",
        "   17 | a\tc\tx",
        "      |  \t \t^",
    ]


@pytest.mark.parametrize(
    ("type_", "text", "message"),
    [
        ("number", "1.5", "'1.5' is not a number"),
        ("number", "", "'' is not a number"),
        ("number", "1_000", "'1_000' is not a number"),
        ("number", "\u0663", "is not a number"),  # a digit, but not one of ours
        ("number", str(2**63), "out of the range of number"),
        ("number", "9" * 5000, "out of the range of number"),
        ("any", str(2**63), "out of the range of number"),
        ("unsigned", "-1", "out of the range of unsigned"),
        ("unsigned", "x", "'x' is not an unsigned number"),
        ("float", "nan", "'nan' is not a float"),
        ("float", "1e999", "out of the range of float"),
        ("float", "x", "'x' is not a float"),
        ("list", "[1, 2", "is not a list"),
        ("list", "3", "is not a list"),
        ("list", "[" * 200, "is not a list"),
        ("list", "[1] x", "is not a list"),
    ],
)
def test_bad_values(tmp_path: Path, type_: str, text: str, message: str) -> None:
    good = {"list": "[1]"}.get(type_, "1")
    with pytest.raises(FactProblem) as caught:
        read(tmp_path, f"{good}\ta\n{good}\tb\n{text}\tc\n{good}\td\n", relation(x=type_, y="symbol"))
    assert message in caught.value.message
    assert caught.value.place.endswith("link.facts:3")


def test_wrong_number_of_columns(tmp_path: Path) -> None:
    with pytest.raises(FactProblem, match=r"link has 3 columns \(src, dst, cost\), but this line has 2") as caught:
        read(tmp_path, "a\tb\t1\n\na\tb\n")
    assert caught.value.place.endswith(":3")
    with pytest.raises(FactProblem, match="this line has 4"):
        read(tmp_path, 'a,b,1\n"a",b,1,2\n', form=CSV)
    with pytest.raises(FactProblem, match="the line has tabs, but fields are separated by ','"):
        read(tmp_path, "a\tb\t1\n", form=CSV, suffix=".csv")


def test_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(FactProblem, match="byte 0xfc is not UTF-8") as caught:
        read(tmp_path, b"a\tb\t1\n" * 3 + "Zürich\tb\t1\n".encode("latin-1"))
    assert caught.value.place.endswith(":4")


def test_unfinished_quote(tmp_path: Path) -> None:
    with pytest.raises(FactProblem, match="RFC 4180") as caught:
        read(tmp_path, 'a,b,1\n"a,b,2\nc,d,3\n', form=CSV)
    assert caught.value.place.endswith(":2")


# --- which file ----------------------------------------------------------------------------------------------


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "link.facts").write_text("a\tb\t1\n")
    (tmp_path / "node.csv").write_text("name\na\nb\n")
    pq.write_table(pa.table({"b": [1.5, 2.5], "a": ["x", "y"]}), tmp_path / "w.parquet")
    node, none = relation("node", name="symbol"), relation("none", x="any")
    prog = program(LINK, node, relation("w", a="symbol", b="float"), none)
    assert load(tmp_path, prog) == {
        "link": [("a", "b", 1)], "node": [("a",), ("b",)], "w": [("x", 1.5), ("y", 2.5)],
    }  # fmt: skip
    assert load(tmp_path, prog, implicit=False) == {}


def test_input_directive(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("from;to;price\na;b;1\n")
    parameters = {"IO": "file", "filename": "edges.txt", "delimiter": ";", "headers": "true"}
    prog = program(LINK, directives=(Directive("input", "link", parameters),))
    assert load(tmp_path, prog) == {"link": [("a", "b", 1)]}


def test_a_csv_with_a_delimiter_is_read_as_souffle_does(tmp_path: Path) -> None:
    (tmp_path / "link.csv").write_text('"a\tb\t1\n')
    prog = program(LINK, directives=(Directive("input", "link", {"filename": "link.csv", "delimiter": "\t"}),))
    assert load(tmp_path, prog) == {"link": [('"a', "b", 1)]}


def test_rfc4180_parameter_means_commas(tmp_path: Path) -> None:
    (tmp_path / "link.facts").write_text('"a, b",c,1\n')
    prog = program(LINK, directives=(Directive("input", "link", {"rfc4180": True}),))
    assert load(tmp_path, prog) == {"link": [("a, b", "c", 1)]}


def test_missing_file(tmp_path: Path) -> None:
    prog = program(LINK, directives=(Directive("input", "link", {}),))
    with pytest.warns(DataWarning, match="link is empty: (.*) there is no .*link.facts, .csv or .parquet; the folder"):
        assert load(tmp_path, prog) == {}
    with pytest.raises(FactProblem, match="does not exist"):
        load(tmp_path / "nowhere", prog)
    (tmp_path / "file").write_text("")
    with pytest.raises(FactProblem, match="is not a folder"):
        load(tmp_path / "file", prog)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"IO": "sqlite"}, "IO=sqlite is not supported"),
        ({"filname": "x"}, "unknown parameter 'filname'"),
        ({"headers": "maybe"}, "headers is true or false"),
        ({"delimiter": ""}, "at least one character"),
        ({"delimiter": "||", "rfc4180": "true"}, "one character"),
    ],
)
def test_bad_directives(tmp_path: Path, parameters: dict[str, str], message: str) -> None:
    (tmp_path / "link.facts").write_text("")
    with pytest.raises(CheckProblem, match=message):
        load(tmp_path, program(LINK, directives=(Directive("input", "link", parameters),)))


# --- parquet -------------------------------------------------------------------------------------------------


def parquet(tmp_path: Path, table: Any, rel: Relation) -> Any:
    pq.write_table(table, tmp_path / f"{rel.name}.parquet")
    return load(tmp_path, program(rel))[rel.name]


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({
        "s": pa.array(["a", "b"]).dictionary_encode(), "n": pa.array([1, 2], pa.int32()),
        "l": [[1, 2], []], "u": pa.array([0, 2**64 - 1], pa.uint64()),
    })  # fmt: skip
    rel = relation(s="symbol", n="float", l="list", u="unsigned")
    assert parquet(tmp_path, table, rel) == [("a", 1.0, (1, 2), 0), ("b", 2.0, (), 2**64 - 1)]
    by_position = relation(p="any", q="number", r="any", t="any")
    assert parquet(tmp_path, table, by_position) == [("a", 1, (1, 2), 0), ("b", 2, (), 2**64 - 1)]


@pytest.mark.parametrize(
    ("values", "type_", "message"),
    [
        ([1, None], "number", "row 2: column 1 (x): a null is not a value"),
        ([1.5, 2.0], "number", "row 1: column 1 (x): 1.5 is not a number"),
        ([1, 2], "symbol", "row 1: column 1 (x): 1 is not a symbol"),
        ([True, False], "any", "row 1: column 1 (x): True (bool) is not a number"),
        ([1.0, float("nan")], "float", "row 2: column 1 (x): nan is not a finite number"),
        ([1, -2], "unsigned", "row 2: column 1 (x): -2 is out of the range of unsigned"),
    ],
)
def test_bad_parquet(tmp_path: Path, values: list[Any], type_: str, message: str) -> None:
    with pytest.raises(FactProblem) as caught:
        parquet(tmp_path, pa.table({"x": values}), relation(x=type_))
    assert message in caught.value.message


def test_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "link.parquet").write_text("no")
    with pytest.raises(FactProblem, match="cannot be read as Parquet"):
        load(tmp_path, program(LINK))
    with pytest.raises(FactProblem, match="link has 3 columns"):
        parquet(tmp_path, pa.table({"x": [1]}), LINK)


# --- outputs -------------------------------------------------------------------------------------------------

SYMBOLS = st.text(st.characters(codec="utf-8"), max_size=6)
PLAIN = SYMBOLS.filter(lambda s: not set("\t\n\r") & set(s))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(st.one_of(NUMBERS, FLOATS, SYMBOLS), lambda v: st.lists(v, max_size=3).map(tuple), max_leaves=5)
LISTS = st.lists(VALUES, max_size=3).map(tuple)
WIDE = relation(a="symbol", b="number", c="float", d="list")


def strip_mark(rows: list[Any]) -> list[Any]:
    """A byte order mark that opens the file is not part of the first symbol."""
    return [(row[0].lstrip("\ufeff"), *row[1:]) for row in rows]


@given(st.lists(st.tuples(PLAIN, NUMBERS, FLOATS, LISTS)))
def test_plain_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    rows = strip_mark(rows)
    path = write_view(tmp_path_factory.mktemp("out"), "link", (), rows)
    assert read_delimited(path, WIDE, FACTS) == rows


@given(st.lists(st.tuples(SYMBOLS, NUMBERS, FLOATS, LISTS)))
def test_quoted_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    rows = strip_mark(rows)
    form = Form(",", "yes", quoted=True)
    path = write_view(tmp_path_factory.mktemp("out"), "link", ("a", "b", "c", "d"), rows, form)
    assert read_delimited(path, WIDE, form) == rows


@given(VALUES)
def test_values_round_trip(value: Any) -> None:
    back = parse_value(format_value(value))
    assert back == value and repr(back) == repr(value)


@pytest.mark.parametrize(
    "text", ["", "a", '"a', "[1,", "[1 2]", "1 2", "--1", '"\\q"', "1e999", str(2**64), "nil x", "1 // c", "[" * 5000]
)
def test_texts_that_are_no_value(text: str) -> None:
    with pytest.raises(TextProblem):
        parse_value(text)


def test_written_files(tmp_path: Path) -> None:
    path = write_view(tmp_path / "new" / "folder", "r", ("a", "b"), [("x y", (1, "z")), ("q", 2.0)])
    assert path.name == "r.csv" and path.read_text() == 'x y\t[1, "z"]\nq\t2\n'
    write_view(path.parent, "r", ("a", "b"), [("x", 1)], Form("|", "yes", filename="r.txt"))
    assert (path.parent / "r.txt").read_text() == "a|b\nx|1\n"
    assert sorted(p.name for p in path.parent.iterdir()) == ["r.csv", "r.txt"]
    assert write_view(tmp_path, "n", (), [()]).read_text() == "()\n"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_view(tmp_path, "r", ("a",), [("old",)])
    with pytest.raises(FactProblem, match="rfc4180=true") as caught:
        write_view(tmp_path, "r", ("a",), [("new",), ("with\ttab",)])
    assert "'with\\ttab'" in caught.value.message
    assert (tmp_path / "r.csv").read_text() == "old\n" and len(list(tmp_path.iterdir())) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(FactProblem, match="cannot be written"):
        write_view(tmp_path / "file", "r", ("a",), [("x",)])


def test_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    directives = (Directive("printsize", "link", {}), Directive("limitsize", "link", {"n": 3}))
    prog = program(LINK, directives=directives)
    print_sizes(sys.stdout, prog, {"link": 3})
    assert capsys.readouterr().out == "link\t3\n"


def test_output_forms() -> None:
    prog = program(LINK, directives=(Directive("output", "link", {"IO": "stdout"}), Directive("output", "link", {})))
    assert [(name, form.io) for name, form in output_forms(prog)] == [("link", "stdout"), ("link", "file")]


def test_a_million_rows_take_seconds(tmp_path: Path) -> None:
    """A guard against a slow path, with room for a busy machine: about a second when it was written."""
    path = tmp_path / "link.facts"
    path.write_text("".join(f"node{i % 1000}\tnode{i % 997}\t{i}\n" for i in range(1_000_000)))
    start = time.process_time()
    rows = load(tmp_path, program(LINK))["link"]
    assert time.process_time() - start < 15
    assert len(rows) == 1_000_000 and rows[-1] == ("node999", "node8", 999_999)
