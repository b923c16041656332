"""Live feeds: when they are committed, rows by name, deletions by key and by pattern, and lines that are rejected."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import FactProblem
from livelog.io.feeds import Cadence, Rejected, parse_cadence, timed
from livelog.io.updates import Operation, format_operation, parse_operation, read_script

PROGRAM = """
.decl link(src: symbol, dst: symbol, cost: number) key(src, dst)
.decl bad(x: number)
r(x, y) :- link(x, y, _).
q(10 / x) :- bad(x).
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "p.dl").write_text(PROGRAM)
    return tmp_path


def run(place: Path, *args: Any, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "livelog", "run", "p.dl", *map(str, args)]
    return subprocess.run(command, cwd=place, input=given, capture_output=True, text=True, check=False, timeout=120)


def answers(done: subprocess.CompletedProcess[str]) -> list[Any]:
    return [json.loads(line)["changes"] for line in done.stdout.splitlines()]


# --- when to commit ----------------------------------------------------------------------------------------------


def test_cadences() -> None:
    assert parse_cadence("line") == Cadence(1) and parse_cadence("25") == Cadence(25)
    assert parse_cadence("2s") == Cadence(None, 2.0) and parse_cadence("0.25s") == Cadence(None, 0.25)
    for text in ("0", "-1", "0s", "1m", "s", "", "lines", "1.5", "nan", "infs", "1e3s"):
        with pytest.raises(ValueError, match="expected line, a number of operations, or seconds"):
            parse_cadence(text)


def test_a_transaction_ends_after_so_many_operations_and_where_time_is_up() -> None:
    lines = ["+r(1)", "+r(2)", "// nothing", "+r(3)", "", "+r(4)", None, None, "+r(5)", "+r(6)"]
    found = [transaction.lines for transaction in read_script(lines, most=2)]
    assert found == [(1, 2), (4,), (6,), (7, 8)]
    assert [t.lines for t in read_script(lines, most=1)] == [(1,), (2,), (4,), (6,), (7,), (8,)]


def test_time_passes_while_nothing_comes() -> None:
    more = threading.Event()

    def lines() -> Any:
        yield "a"
        yield "b"
        assert more.wait(60)
        yield "c"

    feed = timed(lines(), 0.05)
    assert [next(feed), next(feed), next(feed)] == ["a", "b", None]
    more.set()
    assert next(feed) == "c"


def test_time_passes_while_much_comes() -> None:
    start = time.monotonic()
    feed = timed(iter(lambda: "x", ""), 0.05)
    assert None in (next(feed) for _ in range(10_000_000))
    assert time.monotonic() - start >= 0.05


def test_what_is_wrong_with_the_lines_is_wrong_with_the_feed() -> None:
    def lines() -> Any:
        yield "a"
        raise FactProblem("no more")

    feed = timed(lines(), 60)
    assert next(feed) == "a"
    with pytest.raises(FactProblem, match="no more"):
        next(feed)


@pytest.mark.parametrize(("when", "sizes"), [("line", [1, 1, 1]), ("2", [2, 1]), ("60s", [3]), (None, [3])])
def test_commit_every(when: str | None, sizes: list[int], place: Path) -> None:
    options = [] if when is None else ["--commit-every", when]
    script = '+link("a", "b", 1)\n+link("b", "c", 1)\n+link("c", "d", 1)\n'
    done = run(place, "--updates", "-", "--format", "json", *options, given=script)
    assert (done.returncode, done.stderr) == (0, "")
    assert [len(changes["r"]["inserted"]) for changes in answers(done)] == sizes


def test_a_feed_is_committed_in_time_and_ends_with_an_interrupt(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "run", "p.dl", "--updates", "-", "--commit-every", "0.1s", "--format", "json",
         "-D", "out"],
        cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write('+link("a", "b", 1)\n')
    process.stdin.flush()
    assert '[["a", "b"]]' in process.stdout.readline()  # though nothing more has come
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "livelog: interrupted\n")
    assert (place / "out" / "r.csv").read_text() == "a\tb\n"


def test_what_was_not_committed_is_said(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "run", "p.dl", "--updates", "-", "-D", "out"],
        cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    process.stdin.write('+link("a", "b", 1)\n\n+link("b", "c", 1)\n')
    process.stdin.flush()
    while "+r" not in process.stdout.readline():
        pass
    time.sleep(0.2)  # it has what it was given; with less of it, less is said
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    said = "warning: <stdin>: the last operation was not committed\n"
    assert err in (f"{said}livelog: interrupted\n", "livelog: interrupted\n")
    assert (place / "out" / "r.csv").read_text() == "a\tb\n"


# --- rows by name, deletions by key and by pattern ---------------------------------------------------------------


def test_notations() -> None:
    by_name = '{"op": "+", "relation": "link", "row": {"src": "a", "cost": 1, "dst": [1]}}'
    operation = parse_operation(by_name)
    assert operation == Operation("+", "link", {"src": "a", "cost": 1, "dst": (1,)})
    assert parse_operation(format_operation(operation)) == operation
    pattern = parse_operation('-link("a", _, 2.5)')
    assert isinstance(pattern, Operation) and pattern.row == ("a", livelog.ANY, 2.5)
    assert format_operation(pattern) == '-link("a", _, 2.5)'
    for text in ('+link("a", _)', '-link("a", [_])'):
        with pytest.raises(livelog.io.values.TextProblem, match="`_` stands for any value"):
            parse_operation(text)


@pytest.mark.everywhere(spark=1)
def test_deletions_by_key_and_by_pattern() -> None:
    rows = [("a", "b", 1), ("a", "c", 2), ("b", "c", 2), ("c", "d", 4)]
    with livelog.open(PROGRAM, facts={"link": rows}, partitions=2) as session:
        with session.transaction() as tx:
            tx.delete("link", {"src": "a", "dst": "b"})
            tx.delete("link", {"src": "a", "dst": "x"})
        assert sorted(session["link"]) == rows[1:]
        with session.transaction() as tx:
            tx.insert("link", ("x", "y", 2))
            tx.insert("link", ("c", "d", 2))  # in place of the other
            tx.delete("link", ("b", "c", 2))
            assert tx.delete_matching("link", (livelog.ANY, livelog.ANY, 2)) == 3
            assert tx.delete_matching("link", {"cost": 2}) == 0
            tx.insert("link", ("z", "z", 2))
        assert list(session["link"]) == [("z", "z", 2)]
        with session.transaction() as tx:
            assert tx.delete_matching("link", {"src": "z", "dst": "z", "cost": 7}) == 0
        with pytest.raises(FactProblem, match="lacks `dst`, `cost`"), session.transaction() as tx:
            tx.delete("link", {"src": "z"})
        with pytest.raises(FactProblem, match="column `cost`: 'x' is not a number"), session.transaction() as tx:
            tx.delete_matching("link", {"cost": "x"})
        with pytest.raises(FactProblem, match="has 3 columns"), session.transaction() as tx:
            tx.delete_matching("link", (livelog.ANY,))


def test_all_copies_of_a_bag_are_deleted() -> None:
    with livelog.open(".decl e(x: number, y: number) bag\nn(count<x>) :- e(x, _).\n") as session:
        session.load("e", [(1, 1), (1, 1), (1, 2), (2, 1)])
        with session.transaction() as tx:
            tx.insert("e", (1, 2))
            assert tx.delete_matching("e", (1, livelog.ANY)) == 4
        assert list(session["e"]) == [(2, 1)]


def test_deletions_of_a_feed(place: Path) -> None:
    script = """
        {"op": "+", "relation": "link", "row": {"cost": 1, "dst": "b", "src": "a"}}
        {"op": "+", "relation": "link", "row": ["a", "c", 2]}
        +link("b", "c", 2)

        {"op": "-", "relation": "link", "row": {"src": "a", "dst": "b"}}

        -link(_, "c", _)
    """
    script = "\n".join(line.strip() for line in script.splitlines())
    done = run(place, "--updates", "-", "--format", "json", given=script)
    assert done.returncode == 0
    assert answers(done) == [
        {"r": {"inserted": [["a", "b"], ["a", "c"], ["b", "c"]], "deleted": []}},
        {"r": {"inserted": [], "deleted": [["a", "b"]]}},
        {"r": {"inserted": [], "deleted": [["a", "c"], ["b", "c"]]}},
    ]
    assert done.stderr == '// -link(_, "c", _): 2 facts\n'
    done = run(place, "--updates", "-", given=script)
    assert '// -link(_, "c", _): 2 facts\n' in done.stdout and done.stderr == ""


# --- lines that cannot be applied --------------------------------------------------------------------------------

BROKEN = """+link("a", "b", 1)
nonsense
+link("a", "b")
+nolink(1)
commit
+bad(0)
+link("lost", "with it", 1)
commit
+link("b", "c", "x")
commit
{"op": "+", "relation": "link", "row": {"src": "b", "dst": "c", "cost": 2}}
"""


def test_rejected_lines_go_to_a_file_of_their_own(place: Path) -> None:
    (place / "updates.txt").write_text(BROKEN)
    done = run(place, "--updates", "updates.txt", "--on-error", "skip", "--format", "json")
    assert done.returncode == 0
    assert [c.get("r", {}).get("inserted") for c in answers(done)] == [[["a", "b"]], None, [["b", "c"]]]
    assert done.stderr == "warning: 6 lines of the updates rejected: see updates.txt.rejected\n"
    lines = (place / "updates.txt.rejected").read_text().splitlines()
    assert lines[1::2] == [BROKEN.splitlines()[i] for i in (1, 2, 3, 5, 6, 8)]
    places = [line.split(": ", 1)[0] for line in lines[::2]]
    assert places == [f"// updates.txt:{i}" for i in (2, 3, 4, 6, 7, 9)]
    assert "a line starts with" in lines[0] and "has 3 columns" in lines[2] and "no relation `nolink`" in lines[4]
    assert "division by zero" in lines[6] and "'x' is not a number" in lines[10]
    again = run(place, "--updates", "updates.txt.rejected", "--on-error", "skip", "--rejected", "again.txt")
    assert "6 lines of the updates rejected: see again.txt" in again.stderr


def test_without_it_the_first_is_the_end(place: Path) -> None:
    for options in ([], ["--on-error", "stop"]):
        done = run(place, "--updates", "-", *options, given=BROKEN)
        assert done.returncode == 1 and "<stdin>:2" in done.stderr
    assert not list(place.glob("*.rejected"))


def test_nothing_rejected_is_no_file(place: Path) -> None:
    done = run(place, "--updates", "-", "--on-error", "skip", given='+link("a", "b", 1)\n')
    assert (done.returncode, done.stderr) == (0, "") and not list(place.glob("*.rejected"))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FactProblem, match="cannot be written"):
        Rejected(tmp_path / "no" / "such.txt").add("x", 1, "y", "z")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--commit-every", "line"], "--commit-every is for --updates"),
        (["--on-error", "skip"], "--on-error skip is for --updates"),
        (["--updates", "-", "--rejected", "x"], "--rejected is for --on-error skip"),
        (["--updates", "-", "--commit-every", "often"], "expected line, a number of operations, or seconds as in 0.5s"),
    ],
)
def test_usage(args: list[str], message: str, place: Path) -> None:
    done = run(place, *args)
    assert done.returncode == 2 and message in done.stderr
