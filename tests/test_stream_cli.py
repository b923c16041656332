"""Programs in which time matters on the command line: lines with times in and out, one program's output into another
one, complete views, real time, and the repl."""

from __future__ import annotations

import io
import itertools
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

import livelog
from livelog.cli import main
from livelog.commands import feeds as feeds_module
from livelog.io.feeds import Arrivals
from livelog.io.updates import Operation, format_operation, operation_json, parse_operation, read_script
from livelog.io.values import TextProblem
from livelog.shapes import ANY

UP = """
.decl temp(room: symbol, v: number) key(room)
.decl open(room: symbol)
.decl ping(room: symbol) stream
.decl hot(room: symbol, v: number) key(room)
hot(r, v) :- temp(r, v) at every(2), v > 80.
both(r) :- temp(r, v) at every(2), open(r) at every(3), v > 80.
lately(r) :- ping(r)@t, now(n), n < t + 3.
.output hot, both, lately
"""
DOWN = """
.decl hot(room: symbol, v: number) key(room)
.decl both(room: symbol)
.decl lately(room: symbol)
.decl hotter(room: symbol, v: number) key(room)
hotter(r, v) :- hot(r, v) at every(4), v > 100.
since(r, t) :- hot(r, _)@t.
quiet(r) :- both(r), !lately(r).
.output hotter, since, quiet
"""
SCRIPT = """\
@1 +temp("a", 99)
+open("a")
+ping("a")

@3 +temp("b", 105)
@5 u temp("a", 101)
@7 -temp("b", _)

@20
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "up.dl").write_text(UP)
    (tmp_path / "down.dl").write_text(DOWN)
    (tmp_path / "u.txt").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, given: str | None = None, code: int = 0) -> str:
    """What the command prints; on standard error, too, if it fails."""
    with pytest.MonkeyPatch.context() as patch:
        if given is not None:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
        assert main(arguments) == code
    out, err = capsys.readouterr()
    return out + err if code else out


def lines(text: str) -> list[str]:
    """The lines that say something."""
    return [line for line in text.splitlines() if line and not line.startswith("//")]


# --- lines in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "operation"), [
    ('@8 +r("a", 3)', Operation("+", "r", ("a", 3), 8.0)),
    ('@8+r("a", 3)', Operation("+", "r", ("a", 3), 8.0)),
    ("  @ 8.5  - r ( 1 ) . // yes", Operation("-", "r", (1,), 8.5)),
    ("@-3 +r(1)", Operation("+", "r", (1,), -3.0)),
    ("@1e3 +r(1)", Operation("+", "r", (1,), 1000.0)),
    ('@8 u r("a")', Operation("u", "r", ("a",), 8.0)),
    ('u r("a\\n", [1, nil])', Operation("u", "r", ("a\n", (1, ())))),
    ("u  u(1)", Operation("u", "u", (1,))),
    ("+u(1)", Operation("+", "u", (1,))),
    ("@8 -r(_, 1)", Operation("-", "r", (ANY, 1), 8.0)),
    ("@8 +partial(1) partial", Operation("+", "partial", (1,), 8.0, False)),
    ("-r(1) partial", Operation("-", "r", (1,), None, False)),
    ("@8 +r()", Operation("+", "r", (), 8.0)),
    ("@8", Operation("@", time=8.0)),
    ('{"op": "u", "relation": "r", "row": [1], "time": 8}', Operation("u", "r", (1,), 8.0)),
    ('{"time": 8.5, "op": "-", "relation": "r", "row": {"x": [1]}, "full": false}',
     Operation("-", "r", {"x": (1,)}, 8.5, False)),
    ('{"time": 8, "op": "=", "relation": "r", "rows": [[1], {"x": 2}], "full": true}',
     Operation("=", "r", ((1,), {"x": 2}), 8.0)),
    ('{"op": "=", "relation": "r", "rows": []}', Operation("=", "r", ())),
])  # fmt: skip
def test_lines_with_times(line: str, operation: Operation) -> None:
    assert parse_operation(line) == operation
    assert parse_operation(format_operation(operation)) == operation
    if ANY not in operation.row:
        assert parse_operation(operation_json(operation)) == operation


@pytest.mark.parametrize(("line", "message"), [
    ("@8 r(1)", "nothing may follow here, but found r"),
    ("@8u r(1)", "unexpected character '8'"),
    ("@ +r(1)", "expected a time after '@', but found +"),
    ("u(1)", r"expected the name of a relation, but found \("),
    ("u r(_)", "expected a value; `_` stands for any"),
    ("@8 u", "expected the name of a relation, but the line ends"),
    ("+r(1) half", "nothing may follow here, but found half"),
    ("+r(1) partial partial", "nothing may follow here, but found partial"),
    ("@8 partial", "nothing may follow here"),
    ("r(1)", "a line starts with '\\+', '-', '@', 'u', '{' or 'commit', but found r"),
    ('{"op": "@"}', '"time" is missing'),
    ('{"op": "@", "time": 1, "full": true}', 'unknown field "full"'),
    ('{"op": "+", "relation": "r", "row": [1], "time": "8"}', '"time" must be a number'),
    ('{"op": "+", "relation": "r", "row": [1], "time": null}', '"time" must be a number'),
    ('{"op": "+", "relation": "r", "row": [1], "full": 0}', '"full" must be true or false'),
    ('{"op": "=", "relation": "r", "row": [1]}', '"rows" is missing'),
    ('{"op": "=", "relation": "r", "rows": 1}', '"rows" must be a list of rows'),
    ('{"op": "=", "relation": "r", "rows": [1]}', '"row" must be a list, or an object'),
    ('{"op": "v", "relation": "r", "row": [1]}', '"op" must be'),
])  # fmt: skip
def test_lines_that_mean_nothing(line: str, message: str) -> None:
    with pytest.raises(TextProblem, match=message):
        parse_operation(line)


def test_random_operations_are_read_back() -> None:
    rng = random.Random(3)
    values: list[Any] = [0, -5, 2.5, "a", 'q"\n', (), (1, ("b",)), "partial", "u", 2**63 - 1]
    for _ in range(500):
        op: Any = rng.choice("+-u")
        row = tuple(rng.choice(values) for _ in range(rng.randrange(4)))
        operation = Operation(op, rng.choice(("r", "u", "partial")), row, rng.choice((None, 0.0, 8.0, 1795061908.845)),
                              rng.random() < 0.5)  # fmt: skip
        assert parse_operation(format_operation(operation)) == operation == parse_operation(operation_json(operation))


# --- lines out ---------------------------------------------------------------------------------------------------


def test_changes_with_their_times(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "run", "up.dl", "--updates", "u.txt").splitlines() == [
        "// start: 0 tuples in 3 views", "",
        "// transaction 1 (u.txt:1-3, clock 1): 1 change", '@1 +lately("a")', "",
        '// @7 -temp("b", _): 1 fact',
        "// transaction 2 (u.txt:5-7, clock 7): 5 changes",
        '@2 +hot("a", 99)', '@3 +both("a") partial', '@4 +hot("b", 105)', '@4 -lately("a")', '@6 u hot("a", 101)',
        "@7", "",
        "// transaction 3 (u.txt:9, clock 20): 1 change", '@8 -hot("b", 105)', "@20", "",
    ]  # fmt: skip
    text = run(capsys, "run", "up.dl", "--updates", "u.txt", "--format", "json")
    told = [json.loads(line) for line in text.splitlines()]
    assert told[:3] == [
        {"time": 1, "op": "+", "relation": "lately", "row": ["a"]}, {"op": "commit", "transaction": 1},
        {"time": 2, "op": "+", "relation": "hot", "row": ["a", 99]},
    ]  # fmt: skip
    assert told[3] == {"time": 3, "op": "+", "relation": "both", "row": ["a"], "full": False}
    assert told[-2:] == [{"time": 20, "op": "@"}, {"op": "commit", "transaction": 3}]
    assert run(capsys, "run", "up.dl", "--updates", "u.txt", "--format", "csv").splitlines() == [
        "1,1,full,+,lately,a", "2,2,full,+,hot,a,99", "2,3,partial,+,both,a", "2,4,full,+,hot,b,105",
        "2,4,full,-,lately,a", "2,6,full,u,hot,a,101", "3,8,full,-,hot,b,105",
    ]  # fmt: skip


def test_the_views_before_the_updates(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "p.dl").write_text(UP + 'temp("z", 90).\nping("z").\n')
    given = '@2 +ping("y")\n'
    text = run(capsys, "run", "p.dl", "--updates", "-", "--initial", given=given)
    assert lines(text) == ['@0 +hot("z", 90)', '@0 +lately("z")', '@2 +lately("y")']
    text = run(capsys, "run", "p.dl", "--updates", "-", "--store", "s", given=given)
    assert lines(text) == ['@2 +lately("y")']
    text = run(capsys, "run", "p.dl", "--updates", "-", "--initial", "--store", "s", given="@4\n")
    assert lines(text) == [
        '@2 +hot("z", 90)', '@2 +lately("y")', '@2 +lately("z")', '@3 -lately("z")', "@4",
    ]  # fmt: skip
    assert lines(run(capsys, "resume", "s", "--updates", "-", given="@5\n")) == ['@5 -lately("y")']
    told = lines(run(capsys, "changes", "s", "lately"))
    assert told == ['+lately("z")', '+lately("y")', '-lately("z")', '-lately("y")']


def test_a_script_goes_on_where_it_was(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(capsys, "run", "up.dl", "--updates", "u.txt", "--store", "s")
    with (place / "u.txt").open("a") as file:
        file.write('\n@21 +ping("z")\n')
    second = run(capsys, "run", "up.dl", "--updates", "u.txt", "--store", "s")
    assert '@6 u hot("a", 101)' in first and lines(second) == ['@21 +lately("z")']


def test_a_program_without_updates(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "p.dl").write_text("even(t) :- clock(t), t % 2 = 0.\nr(x) :- e(x) at even.\ne(1).\n")
    text = run(capsys, "run", "p.dl", "--format", "json")
    assert [json.loads(line)["relation"] for line in text.splitlines()] == ["r"], "points of the clock are not kept"
    assert '"rows": [[1]]' in text
    (place / "p.dl").write_text(".decl s(x: symbol) stream\n.input s\n.output s\n.printsize s\n")
    (place / "s.facts").write_text("b\na\na\n")
    run(capsys, "run", "p.dl", "-D", "out")
    assert (place / "out" / "s.csv").read_text() == "a\na\nb\n"


def test_lines_that_are_late(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = '@5 +ping("a")\n\n@4 +ping("b")\n@6 +ping("c")\n'
    text = run(capsys, "run", "up.dl", "--updates", "-", given=given, code=1)
    assert '<stdin>:3: error: +ping("b") at 4 is late: the clock stands at 5 and cannot go back' in text
    assert '    3 | @4 +ping("b")' in text and "1 transaction applied" in text
    text = run(capsys, "run", "up.dl", "--updates", "-", "--on-error", "skip", "--rejected", "r.txt", given=given)
    assert lines(text) == ['@5 +lately("a")', '@6 +lately("c")']
    rejected = (place / "r.txt").read_text()
    assert rejected.splitlines()[1] == '@4 +ping("b")' and 'is late: the clock stands at 5' in rejected
    given = '-ping("a")\n\nu open("a")\n\n@7 +ping("b")\n'
    text = run(capsys, "run", "up.dl", "--updates", "-", "--on-error", "skip", "--rejected", "r2.txt", given=given)
    assert lines(text) == ['@7 +lately("b")']
    rejected = (place / "r2.txt").read_text()
    assert "`ping` is a stream" in rejected and "`open` has no key" in rejected


# --- from one program into another -------------------------------------------------------------------------------


def test_one_process_into_another(place: Path) -> None:
    command = [sys.executable, "-m", "livelog", "run"]
    for form in ("json", "text"):
        first = subprocess.Popen([*command, "up.dl", "--updates", "u.txt", "--format", form], stdout=subprocess.PIPE)
        second = subprocess.run(
            [*command, "down.dl", "--updates", "-"], stdin=first.stdout, capture_output=True, text=True, timeout=120,
            check=True,
        )  # fmt: skip
        assert first.stdout is not None
        first.stdout.close()
        assert first.wait(60) == 0 and second.stderr == ""
        assert lines(second.stdout) == [
            "@1", '@2 +since("a", 2)', '@4 +hotter("b", 105)', '@4 +since("b", 4)', '@4 +quiet("a")',
            '@6 -since("a", 2)', '@6 +since("a", 6)', "@7",
            '@8 +hotter("a", 101)', '@8 -hotter("b", 105)', '@8 -since("b", 4)', "@20",
        ]  # fmt: skip


def random_script(rng: random.Random) -> str:
    """Some transactions on the base relations of `UP`, with times."""
    time, text = 0.0, ""
    for _ in range(rng.randrange(20, 60)):
        for _ in range(rng.randrange(1, 4)):
            if rng.random() < 0.7:
                time += rng.choice((0.5, 1, 1, 2, 7))
            when = f"@{time:g} " if rng.random() < 0.8 else ""
            room = rng.choice("abc")
            text += when + rng.choice((
                f'u temp("{room}", {rng.randrange(70, 120)})', f'-temp("{room}", _)', f'+open("{room}")',
                f'-open("{room}")', f'+ping("{room}")',
            )) + "\n"  # fmt: skip
        text += "\n"
    return text + f"@{time + 5:g}\n"


@pytest.mark.parametrize("seed", range(8))
def test_two_programs_say_what_one_says(seed: int, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What goes through two programs is what one program with the rules of both tells, with the same times."""
    derived = DOWN.split("(room: symbol)\n")[-1].partition(".output")[0].split(".decl hotter")[1]
    whole = f"{UP.partition('.output')[0]}.decl hotter{derived}.output hotter, since, quiet\n"
    (place / "both.dl").write_text(whole)
    script = random_script(random.Random(seed))
    expected = lines(run(capsys, "run", "both.dl", "--updates", "-", given=script))
    for form in ("json", "text"):
        between = run(capsys, "run", "up.dl", "--updates", "-", "--format", form, given=script)
        found = lines(run(capsys, "run", "down.dl", "--updates", "-", given=between))
        assert changes(found) == changes(expected), form
    assert len(changes(expected)) > 3


def changes(told: list[str]) -> list[str]:
    """The changes that are told, whether at full points or at partial ones: of that, another program knows nothing."""
    return [line.removesuffix(" partial") for line in told if " " in line]


def test_complete_views(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "c.dl").write_text(UP.replace(".output hot, both, lately", ".output hot(form=complete)\n.output both"))
    text = run(capsys, "run", "c.dl", "--updates", "u.txt")
    assert lines(text) == [
        "@1",
        "@2 -hot(_, _)", '@2 +hot("a", 99)', '@3 +both("a") partial',
        "@4 -hot(_, _)", '@4 +hot("a", 99)', '@4 +hot("b", 105)',
        "@6 -hot(_, _)", '@6 +hot("a", 101)', '@6 +hot("b", 105)', "@7",
        "@8 -hot(_, _)", '@8 +hot("a", 101)', "@20",
    ]  # fmt: skip
    as_json = run(capsys, "run", "c.dl", "--updates", "u.txt", "--format", "json")
    told = [json.loads(line) for line in as_json.splitlines()]
    assert {"time": 4, "op": "=", "relation": "hot", "rows": [["a", 99], ["b", 105]]} in told
    assert run(capsys, "run", "c.dl", "--updates", "u.txt", "--format", "csv").splitlines()[:2] == [
        "2,2,full,=,hot", "2,2,full,+,hot,a,99",
    ]  # fmt: skip
    # all of it is what the changes are
    told_on = [
        [line for line in lines(run(capsys, "run", "down.dl", "--updates", "-", given=given)) if "hotter" in line]
        for given in (run(capsys, "run", "up.dl", "--updates", "u.txt"), text, as_json)
    ]
    assert told_on[0] == told_on[1] == told_on[2] and len(told_on[0]) == 3


def test_complete_views_of_a_plain_program(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "p.dl").write_text(".output r(form=complete)\n.output q(form=streamed)\nr(x) :- e(x).\nq(x) :- e(x).\n")
    text = run(capsys, "run", "p.dl", "--updates", "-", given="+e(1)\n\n+e(2)\n-e(1)\n\n+e(2)\n")
    assert lines(text) == [
        "@0 -r(_)", "@0 +r(1)", "@0 +q(1)", "@0 -r(_)", "@0 +r(2)", "@0 -q(1)", "@0 +q(2)",
    ]  # fmt: skip


@pytest.mark.parametrize(("directive", "message"), [
    (".output r(form=whole)", ".output has no form `whole`"),
    (".output s(form=complete)", "s is a stream: only its changes can be told"),
    (".output b(form=complete)", "b is a bag, which may have a row more than once: only its changes can be told"),
    (".input e(form=complete)", "unknown parameter 'form'"),
])  # fmt: skip
def test_forms_that_cannot_be(directive: str, message: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared = '.decl s(x: symbol) stream\n.decl b(x: symbol) bag\nr(x) :- s(x), b(x), e(x). e("a").\n'
    (place / "p.dl").write_text(f"{declared}{directive}\n")
    text = run(capsys, "run", "p.dl", "--updates", "u.txt", code=1)
    assert message in text and "p.dl:4:" in text


# --- real time ---------------------------------------------------------------------------------------------------


class Feed:
    """Lines that come at their times, and a machine that does nothing but wait for them."""

    def __init__(self, begin: float, *events: tuple[float, str | None]) -> None:
        self.now = begin
        self.events = list(events)

    def time(self) -> float:
        return self.now

    def take(self, seconds: float | None) -> tuple[str, float] | None:
        when, line = self.events[0]
        assert seconds is not None
        if when > self.now + seconds:
            self.now = round(self.now + seconds, 6)
            raise Empty
        self.now = max(when, self.now)
        self.events.pop(0)
        return None if line is None else (line + "\n", self.now)

    def arrivals(self, lines: Any, tick: float, wait: float | None = None) -> Arrivals:
        return Arrivals(lines, tick, wait, self.time, self.take, self.time)


def test_lines_are_stamped_and_time_goes_on() -> None:
    feed = Feed(100, (100.25, "+e(1)"), (100.3, "+e(2)"), (101.75, "u e(3)"), (102, None))
    arrivals = feed.arrivals([], 0.5)
    found = [(line and line.strip(), arrivals.time) for line in arrivals]
    assert found == [
        ("+e(1)", 100.25), ("+e(2)", 100.3), (None, 100.75), (None, 101.25), ("u e(3)", 101.75),
    ]  # fmt: skip


def test_the_time_of_a_feed_never_goes_back() -> None:
    times = iter([50.0, 40.0, 60.0, 70.0, 80.0])
    take = iter_take([("a", 55.0), Empty, ("b", 30.0), None])
    arrivals = Arrivals([], 1, None, lambda: next(times), take, lambda: 0.0)
    arrivals.time = 45.0
    assert [(line, arrivals.time) for line in arrivals] == [("a", 55.0), (None, 55.0), ("b", 55.0)]


def iter_take(items: list[Any]) -> Any:
    rest = iter(items)

    def take(seconds: float | None) -> Any:
        item = next(rest)
        if item is Empty:
            raise Empty
        return item

    return take


def test_what_a_real_script_is() -> None:
    times = iter(range(100))
    given = ["+e(1)", "// nothing", "", None, "-e(1)", None, "u e(2)"]
    found = list(read_script(given, "f", now=lambda: float(next(times))))
    assert [[(o.op, o.time) for o in t.operations] for t in found] == [
        [("+", 0)], [("@", 3)], [("-", 4), ("@", 5)], [("u", 6)]
    ]  # fmt: skip
    assert [t.silent for t in found] == [False, True, False, False]
    assert [t.where for t in found] == ["f:1", "the clock", "f:4", "f:5"] and found[1].until == 3
    with pytest.raises(livelog.LivelogError, match=r"f:1: error: the clock is real: a line has the time at which it"):
        list(read_script(["@5 +e(1)"], "f", now=lambda: 1.0))
    rejected: list[Any] = []
    assert not list(read_script(["@5"], "f", None, lambda *line: rejected.append(line), lambda: 1.0))
    assert rejected[0][:3] == ("f", 1, "@5")


def in_real_time(monkeypatch: pytest.MonkeyPatch, *events: tuple[float, str | None]) -> None:
    feed = Feed(1000.0, *events)
    monkeypatch.setattr(feeds_module, "Arrivals", feed.arrivals)
    monkeypatch.setattr(feeds_module, "milliseconds", feed.time)


def test_a_feed_in_real_time(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    events = ((1000.5, '+ping("a")'), (1001.5, 'u temp("x", 99)'), (1002.7, '+ping("b")'), (1007.0, None))
    in_real_time(monkeypatch, *events)
    text = run(capsys, "run", "up.dl", "--updates", "u.txt", "--clock", "wall", "--tick", "0.25")
    assert [line for line in lines(text) if " " in line] == [
        '@1000.5 +lately("a")', '@1002 +hot("x", 99)', '@1002.7 +lately("b")', '@1003.5 -lately("a")',
        '@1005.7 -lately("b")',
    ]  # fmt: skip
    assert "// transaction 3 (the clock, clock 1002): 1 change" in text, "where nothing happens, nothing is told"
    # who reads JSON lines hears every second that time goes on, and the same
    in_real_time(monkeypatch, *events)
    told = run(capsys, "run", "up.dl", "--updates", "u.txt", "--clock", "wall", "--tick", "0.25", "--format", "json")
    times = [record["time"] for record in map(json.loads, told.splitlines()) if "time" in record]
    assert times == sorted(times) and all(after - before <= 1.25 for before, after in itertools.pairwise(times))
    assert times[-1] >= 1006 and len(times) < 25
    (place / "same.dl").write_text(DOWN + ".output hot, lately\n")
    again = lines(run(capsys, "run", "same.dl", "--updates", "-", given=told))
    assert '@1005.7 -lately("b")' in again


def test_facts_come_at_the_time_it_is(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "p.dl").write_text(UP + 'ping("z").\n')
    in_real_time(monkeypatch, (1004.0, None))
    text = run(capsys, "run", "p.dl", "--updates", "u.txt", "--clock", "wall", "--initial")
    assert [line for line in lines(text) if " " in line] == ['@1000 +lately("z")', '@1003 -lately("z")']


def test_the_log_of_a_feed_in_real_time(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session is kept, time alone is no transaction; and later it goes on with the time that it is then."""
    for begin in (0, 100):
        in_real_time(monkeypatch, (1000.5 + begin, '+ping("a")'), (1010.0 + begin, None))
        text = run(capsys, "run", "up.dl", "--updates", "u.txt", "--clock", "wall", "--store", "s")
        assert [line for line in lines(text) if " " in line] == [
            f'@{1000.5 + begin} +lately("a")', f'@{1003.5 + begin} -lately("a")'
        ]  # fmt: skip
        if begin:
            monkeypatch.undo()
            monkeypatch.chdir(place)
    with livelog.resume("s") as session:
        assert session._with_journal.journal.number <= 8


def test_errors_in_real_time(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    events = (
        (1000.5, '+ping("a")'), (1000.7, '@3 +ping("b")'), (1000.8, "+ping("), (1001.9, '+ping("c")'), (1003.0, None),
    )  # fmt: skip
    in_real_time(monkeypatch, *events)
    text = run(capsys, "run", "up.dl", "--updates", "u.txt", "--clock", "wall", code=1)
    assert '@1000.5 +lately("a")' in text and "u.txt:2: error: the clock is real" in text
    in_real_time(monkeypatch, *events)
    skip = ("--on-error", "skip", "--rejected", "r.txt")
    text = run(capsys, "run", "up.dl", "--updates", "u.txt", "--clock", "wall", *skip)
    assert [line for line in lines(text) if " " in line] == ['@1000.5 +lately("a")', '@1001.9 +lately("c")']
    assert [line for line in (place / "r.txt").read_text().splitlines() if not line.startswith("//")] == [
        '@3 +ping("b")', "+ping("
    ]  # fmt: skip
    # a rule that fails when a time comes cannot be skipped
    (place / "f.dl").write_text(".decl s(x: number) stream\nlater(10 / x) :- s(x)@t, now(n), n >= t + 1.\n")
    in_real_time(monkeypatch, (1000.5, "+s(0)"), (1009.0, None))
    text = run(capsys, "run", "f.dl", "--updates", "u.txt", "--clock", "wall", "--on-error", "skip", code=1)
    assert "division by zero" in text


def test_a_real_feed_ends_with_an_interrupt(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "run", "up.dl", "--updates", "-", "--clock", "wall", "--tick", "0.05",
         "-D", "out"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write('u temp("a", 99)\n')
    process.stdin.flush()
    told = next(line for line in process.stdout if "+hot" in line)  # though nothing more has come
    time = float(told[1:].split()[0])
    assert time % 2 == 0 and time > 1_700_000_000, "an even second since 1970"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "livelog: interrupted\n")
    assert (place / "out" / "hot.csv").read_text() == "a\t99\n"


@pytest.mark.parametrize(("options", "message"), [
    (["--clock", "wall"], "--clock wall is for --updates"),
    (["--updates", "u.txt", "--tick", "1"], "--tick is for --clock wall"),
    (["--updates", "u.txt", "--clock", "wall", "--tick", "0"], "expected a positive number of seconds"),
])  # fmt: skip
def test_options_that_cannot_be_meant(
    options: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main(["run", "up.dl", *options]) == 2
    except SystemExit as end:
        assert end.code == 2
    assert message in capsys.readouterr().err


# --- the repl ----------------------------------------------------------------------------------------------------


def talk(capsys: pytest.CaptureFixture[str], program: str, *typed: str, code: int = 0) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        given = "\n".join([*typed, "quit"]) + "\n"
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
        assert main(["repl", program]) == code
    out, err = capsys.readouterr()
    return [line for line in (out + err).splitlines() if line]


def test_steps_in_the_repl(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ('@1 +temp("a", 99)', "@2", "begin", 'u temp("a", 98)', '@3 +open("a")', '@7 +ping("z")', "commit")
    assert talk(capsys, "up.dl", *typed) == [
        "no changes", '@2 +hot("a", 99)', '@2 u hot("a", 98)', '@3 +both("a") partial', '@7 +lately("z")',
    ]  # fmt: skip
    (place / "c.dl").write_text(UP.replace("hot, both, lately", "hot(form=complete)"))
    assert talk(capsys, "c.dl", '+temp("a", 99)', "load u.txt")[:2] == ["@0 -hot(_, _)", '@0 +hot("a", 99)']
    said = talk(capsys, "up.dl", "@5", '@4 +ping("a")', "u nothing(1)", 'u open("a")', "@5 u", code=1)
    assert said[0] == "no changes"
    assert 'error: +ping("a") at 4 is late: the clock stands at 5 and cannot go back' in said


def test_questions_with_times(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = "when(r, t) :- temp(r, _)@t.\neven(t) :- clock(t), t % 2 = 0.\nx(r) :- temp(r, _) at even.\n"
    (place / "p.dl").write_text(UP.partition(".output")[0] + more)
    asked = (
        "?ping(x)", '?ping("a")', "?temp(r, v)@t", "?temp(r, v)@t, now(n), t < n - 14", "?ping(r)@t, t > 0",
        "?temp(r, v) at every(2)", "?temp(r, _) at even, !hot(r, 1)", "?ping(r)@_", "valid hot", "valid lately",
        "views",
    )  # fmt: skip
    said = talk(capsys, "p.dl", "load u.txt", '@21 +ping("z")', *asked)
    said = said[said.index("3 transactions applied") + 2 :]
    assert said[:18] == [
        'x = "z"', "1 answer", "no", 'r = "a", v = 101, t = 5', "1 answer", 'r = "a", v = 101, t = 5, n = 21',
        "1 answer", 'r = "z", t = 21', "1 answer", 'r = "a", v = 101', "1 answer", 'r = "a"', "1 answer", 'r = "z"',
        "1 answer",
        "through 21, next refresh at 22", "through 21, next refresh unknown", "base  open(room: symbol)  1 tuple",
    ]  # fmt: skip
    assert "base  ping(room: symbol)  1 tuple" in said and "view  even(t: number)  points of the clock" in said


def test_questions_that_cannot_be_answered(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "\n".join(talk(
        capsys, "up.dl", "?open(r)@t", "?open(r) at every(5)", "?clock(t), t > 1", "?ping(x, y)@t", "?nothing(x)@t",
        "valid", "valid nothing", code=1,
    ))  # fmt: skip
    assert "`open` is not kept with its times, since no rule of the program reads it so" in said
    assert "`open` is not kept as of the last point of `every(5)`" in said
    assert "`clock` has every tick that has passed" in said and "ping has 1 column, not 2" in said
    assert "there is no relation nothing; there are both, hot, lately, open, ping, temp" in said
    assert "valid needs the name of a view" in said
