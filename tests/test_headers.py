"""Headers of fact files, columns by name, and files that are not there: nothing of it happens in silence."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import FactProblem
from livelog import DataWarning

LINK = ".decl link(src: symbol, dst: symbol, cost: number)\n"
NODES = ".decl link(src: symbol, dst: symbol)\n"
RULE = "r(x, y) :- link(x, y).\n"
RULES = "r(x, y, c) :- link(x, y, c).\n"


def read(folder: Path, text: str, program: str, name: str = "link.csv") -> tuple[list[Any], list[str]]:
    """The facts of `link` and what was said about them; Arrow's reader and ours must agree on both."""
    (folder / name).write_text(text, encoding="utf-8")
    checked = datalog.check(datalog.parse(program))
    found = []
    for progress in (None, lambda done: None):  # with somebody to hear of progress, it is our own
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            (file,) = livelog.io.facts.fact_files(checked, folder)
            rows = list(file.read(None, progress))
        found.append((rows, [str(w.message) for w in said if w.category is DataWarning]))
    assert found[0] == found[1]
    return found[0]


def refused(folder: Path, text: str, program: str) -> FactProblem:
    with pytest.raises(FactProblem) as caught:
        read(folder, text, program)
    return caught.value


HEADERS = ".input link(headers=true)\n"


# --- headers=true ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "src,dst,cost\na,b,1\nb,c,2\n",
        "dst,cost,src\nb,1,a\nc,2,b\n",  # in any order
        "colour,dst,cost,when,src\nred,b,1,now,a\nblue,c,2,later,b\n",  # and with others
        '"cost", src,dst\r\n1,"a",b\r\n2,b,"c"\r\n',
        "from,to,price\na,b,1\nb,c,2\n",  # none of them: by position
    ],
)
def test_columns_are_matched_by_name(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text, LINK + HEADERS + RULES) == ([("a", "b", 1), ("b", "c", 2)], [])


def test_a_header_that_lacks_columns(tmp_path: Path) -> None:
    problem = refused(tmp_path, "src,to,price\na,b,1\n", LINK + HEADERS + RULES)
    assert "the header lacks `dst`, `cost` (link has src, dst, cost; the file has src, to, price)" in str(problem)
    assert problem.line == 1
    assert "lacks `src`, `dst`, `cost`" in str(refused(tmp_path, "a,b\n", LINK + HEADERS + RULES))
    assert "`src` twice" in str(refused(tmp_path, "src,dst,cost,src\na,b,1,c\n", LINK + HEADERS + RULES))


def test_rows_are_as_wide_as_their_header(tmp_path: Path) -> None:
    problem = refused(tmp_path, "src,dst,cost,x\na,b,1,2\na,b,1\n", LINK + HEADERS + RULES)
    assert "the header has 4 columns, but this line has 3" in str(problem) and problem.line == 3


def test_what_is_wrong_is_shown_where_it_stands(tmp_path: Path) -> None:
    problem = refused(tmp_path, "cost,dst,src\n1,b,a\nx,c,b\n", LINK + HEADERS + RULES)
    assert "column 1 (cost): 'x' is not a number\n    3 | x,c,b\n      | ^" in str(problem)


def test_an_empty_file_and_a_header_alone(tmp_path: Path) -> None:
    assert read(tmp_path, "", LINK + HEADERS + RULES) == ([], [])
    assert read(tmp_path, "cost,dst,src\n", LINK + HEADERS + RULES) == ([], [])


def test_names_of_inferred_columns_are_no_names(tmp_path: Path) -> None:
    assert read(tmp_path, "y,x\n1,2\n", HEADERS + RULE) == ([(1, 2)], [])


# --- headers that nobody declared --------------------------------------------------------------------------------


def test_names_in_order_above_numbers_are_nothing_to_talk_about(tmp_path: Path) -> None:
    assert read(tmp_path, "src,dst,cost\na,b,1\n", LINK + RULES) == ([("a", "b", 1)], [])


@pytest.mark.parametrize(
    ("program", "text", "rows", "remark"),
    [
        (NODES + RULE, "src,dst\na,b\n", [("a", "b")], "has the columns of link; .input link(headers=true)"),
        (NODES + RULE, "dst,x,src\nb,7,a\n", [("a", "b")], "has the columns of link (not read: x);"),
        (LINK + RULES, "cost,src,dst\n1,a,b\n", [("a", "b", 1)], "has the columns of link; .input link(headers=true)"),
        (LINK + RULES, "from,to,price\na,b,1\n", [("a", "b", 1)], "row (from, to, price) is taken for a header"),
        (RULE, "node,size\na,1\nb,2\n", [("a", 1), ("b", 2)], "the first row (node, size) is taken for a header"),
        ("r(x, y + 1) :- link(x, y).", "node,size\na,1\n", [("a", 1)], "(node, size) is taken for a header"),
    ],
)
def test_a_header_is_recognised_and_said(program: str, text: str, rows: Any, remark: str, tmp_path: Path) -> None:
    found, said = read(tmp_path, text, program)
    assert found == rows
    assert len(said) == 1 and said[0].startswith(f"{tmp_path / 'link.csv'}:1: ") and remark in said[0]
    assert "headers=false" in said[0]


@pytest.mark.parametrize(
    ("program", "text", "rows"),
    [
        (RULE, "a,b\nc,d\n", [("a", "b"), ("c", "d")]),
        (RULE, "a,1\nb,2\n", [("a", 1), ("b", 2)]),
        (RULE, "a,b\nc,1\nd,e\n", [("a", "b"), ("c", "1"), ("d", "e")]),  # not all others are numbers
        (RULE, "a,a\n1,2\n", [("a", "a"), ("1", "2")]),
        (RULE, "a,\n1,2\n", [("a", ""), ("1", "2")]),
        (RULE, "a,b\n", [("a", "b")]),
        (NODES + RULE, "a,b\n1,2\n", [("a", "b"), ("1", "2")]),
        (NODES + ".input link(headers=false)\n" + RULE, "src,dst\na,b\n", [("src", "dst"), ("a", "b")]),
        (".input link(headers=false)\n" + RULE, "node,size\na,1\n", [("node", "size"), ("a", "1")]),
    ],
)
def test_facts_are_not_taken_for_headers(program: str, text: str, rows: Any, tmp_path: Path) -> None:
    assert read(tmp_path, text, program) == (rows, [])


def test_a_fact_with_the_name_of_a_column_is_said(tmp_path: Path) -> None:
    rows, said = read(tmp_path, "src,target\na,b\n", NODES + RULE)
    assert rows == [("src", "target"), ("a", "b")]
    assert len(said) == 1 and "taken for a fact, though `src` is the name of a column of link" in said[0]


def test_a_fact_with_the_names_that_rules_give_to_columns_is_said(tmp_path: Path) -> None:
    rows, said = read(tmp_path, "x,y\na,b\n", RULE)
    assert rows == [("x", "y"), ("a", "b")]
    assert len(said) == 1 and "taken for a fact, though it has the names of the columns of link" in said[0]
    rows, said = read(tmp_path, "x,y\na,1\n", RULE)
    assert rows == [("a", 1)] and len(said) == 1 and "is taken for a header" in said[0]
    assert read(tmp_path, "x,y\na,b\n", ".input link(headers=false)\n" + RULE)[1] == []
    assert read(tmp_path, "x,y\na,b\n", ".input link(headers=true)\n" + RULE) == ([("a", "b")], [])


def test_what_looks_like_a_header_and_lacks_columns(tmp_path: Path) -> None:
    problem = refused(tmp_path, "src,to,cost\na,b,1\n", LINK + RULES)
    assert "lacks `dst` (link has src, dst, cost; the file has src, to, cost)" in str(problem)
    assert "headers=false" in str(problem)


def test_a_first_row_that_is_wrong_as_others_are(tmp_path: Path) -> None:
    problem = refused(tmp_path, "from,to,price\na,b,1\na,b,x\n", LINK + RULES)
    assert problem.line == 1 and "'price' is not a number" in str(problem)
    assert "if it is a header: .input link(headers=true)" in str(problem)


def test_a_header_in_a_file_with_another_delimiter(tmp_path: Path) -> None:
    rows, said = read(tmp_path, "dst;src\nb;a\n", NODES + '.input link(filename="link.csv", delimiter=";")\n' + RULE)
    assert rows == [("a", "b")] and len(said) == 1


def test_files_of_facts_have_no_header(tmp_path: Path) -> None:
    rows, said = read(tmp_path, "node\tsize\na\t1\n", RULE, "link.facts")
    assert rows == [("node", "size"), ("a", "1")] and said == []


# --- files that are not there ------------------------------------------------------------------------------------


def said_of(program: str, folder: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        livelog.open(datalog.parse(program), facts=folder).close()
    assert all(w.filename == __file__ for w in said if w.category is DataWarning), "whose call it is"
    return [str(w.message) for w in said if w.category is DataWarning]


def test_a_relation_that_nothing_fills_is_said(tmp_path: Path) -> None:
    (said,) = said_of(RULE, tmp_path)
    assert said == (
        f"link is empty: no facts of it in the program, and there is no {tmp_path / 'link'}.facts, .csv or .parquet"
    )
    (tmp_path / "Links.csv").write_text("a,b\n")
    (said,) = said_of(RULE, tmp_path)
    assert said.endswith(".facts, .csv or .parquet, but there is Links.csv")
    assert said_of('link("a", "b").\n' + RULE, tmp_path) == []
    (tmp_path / "link.facts").write_text("")
    assert said_of(RULE, tmp_path) == []


def test_the_file_of_another_relation_is_not_near(tmp_path: Path) -> None:
    (tmp_path / "links.facts").write_text("a\tb\n")
    (said,) = said_of(RULE + "s(x) :- links(x, _).", tmp_path)
    assert said.startswith("link is empty") and "but there is" not in said


def test_a_missing_input_names_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("a,b\n")
    for parameters, looked in (("", "link.facts, .csv or .parquet"), ('(filename="link.tsv")', "link.tsv")):
        (said,) = said_of(f".input link{parameters}\n{RULE}", tmp_path)
        assert said.startswith("<program>:1:8: link is empty: no facts of it in the program, and")
        assert f"there is no {tmp_path / looked}, but there is links.csv; the folder is set with -F DIR" in said


def test_a_missing_input_of_what_something_else_fills(tmp_path: Path) -> None:
    (said,) = said_of(".input link\nlink(1, 2).\n" + RULE, tmp_path)
    assert said.startswith(f"<program>:1:8: no file of facts for link: there is no {tmp_path / 'link'}.facts, .csv or")
    (said,) = said_of(".input r\nlink(1, 2).\n" + RULE, tmp_path)
    assert said.startswith("<program>:1:8: no file of facts for r: ")
    with livelog.open(datalog.parse(".input link\n" + RULE), facts={"link": [(1, 2)]}) as session:
        assert list(session["r"]) == [(1, 2)]


# --- on the command line -----------------------------------------------------------------------------------------


def run(*args: Any, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "livelog", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, input=given, check=False)


def test_what_is_said_goes_to_standard_error(tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(RULE + "s(x) :- nod(x).\n")
    (tmp_path / "link.csv").write_text("node,size\na,1\n")
    (tmp_path / "node.csv").write_text("a\n")
    done = run("run", program, "-F", tmp_path)
    assert done.returncode == 0 and "a\t1\n" in done.stdout and "node\t" not in done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("warning: ") for line in lines)
    assert "(node, size) is taken for a header" in done.stderr and "but there is node.csv" in done.stderr
    (tmp_path / "node.csv").unlink()
    fed = run("run", program, "-F", tmp_path, "--updates", "-")  # what updates may fill is not talked about
    assert fed.returncode == 0 and "nod" not in fed.stderr.replace("(node, size)", "")


def test_a_folder_that_cannot_be_read_is_no_output(tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(RULE)
    done = run("run", program, "-F", "x" * 300)
    assert done.returncode == 2 and "cannot be read: File name too long" in done.stderr
    assert "the facts folder" in done.stderr and "output" not in done.stderr


def test_a_folder_whose_files_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_file", denied)
    with pytest.raises(FactProblem, match=r"the facts folder .* cannot be read: Permission denied"):
        livelog.open(datalog.parse(RULE), facts=tmp_path)
