"""The twenty examples of the paper on synchronised views: what is told at which time, as an insertion, an update or a
deletion, and whether the point is a full one.

Each is a folder of `tests/streams`: `program.dl`, `updates.txt`, and in `expected.txt` the changes of the outputs as
`livelog run` prints them: the time, the operation, the tuple, and `partial` if not every input was synchronised then.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.cli import main
from livelog.io.updates import read_script
from livelog.io.values import format_row
from tests.harness import METHODS
from tests.oracle_streams import Timeline

ROOT = Path(__file__).parent / "streams"
NAMES = sorted(path.parent.name for path in ROOT.glob("*/program.dl"))

# Nothing in them knows of time, so a transaction is one step.
TIMELESS = ("03_hot_rooms", "04_view_of_a_view")

# Every example on one partition and on three; the methods take turns, and two examples have them all.
EVERY = ("09_two_rates", "16_partial_points")
TURNS = [
    (name, *METHODS[(i + j) % len(METHODS)], partitions)
    for i, name in enumerate(NAMES)
    for j, partitions in enumerate((1, 3))
]
ALL = [(name, *method, partitions) for name in EVERY for method in METHODS for partitions in (1, 3)]
RUNS = sorted({*TURNS, *ALL}, key=str)


def opened(name: str, **how: Any) -> livelog.Session:
    return livelog.open(ROOT / name / "program.dl", **how)


def script(name: str) -> Iterator[Any]:
    with (ROOT / name / "updates.txt").open() as lines:
        yield from read_script(lines)


def steps(session: livelog.Session, name: str) -> Iterator[Any]:
    """All steps of an example, those of the opening first; after each transaction the session is looked at."""
    shown: dict[str, dict[Any, Any]] = {view: {} for view in session.plan.outputs}
    yield from followed(session, shown, session.initial_steps)
    for transaction in script(name):
        with session.transaction() as tx:
            transaction.apply(tx)
        yield from followed(session, shown, tx.steps)


def followed(session: livelog.Session, shown: dict[str, dict[Any, Any]], passed: Iterable[Any]) -> Iterator[Any]:
    """The steps; whoever applies their operations to what was there before has what the views have now."""
    passed = list(passed)
    assert [step.time for step in passed] == sorted({step.time for step in passed})
    for step, (view, rows) in itertools.product(passed, shown.items()):
        key = session.plan.relations[view].key
        for op, row in step[view].operations:
            place = tuple(row[i] for i in key) if key else row
            assert (place in rows) is (op != "+"), (view, op, row)
            if op == "-":
                del rows[place]
            else:
                rows[place] = row
    for view, rows in shown.items():
        assert sorted(rows.values()) == list(session[view])
    return iter(passed)


def lines(step: Any, views: Iterable[str]) -> Iterator[str]:
    """The changes of a step, as `expected.txt` has them."""
    for view in views:
        changes = step[view]
        assert changes.time == step.time
        for op, row in changes.operations:
            sign = "u " if op == "u" else op
            yield f"@{step.time} {sign}{format_row(view, row)}" + ("" if changes.full else " partial")


def test_they_are_all_there() -> None:
    assert [int(name[:2]) for name in NAMES] == list(range(1, 21))
    for name in NAMES:
        assert (ROOT / name / "program.dl").read_text().startswith("// ")


@pytest.mark.everywhere(spark=6, cluster=1)
@pytest.mark.parametrize(("name", "strategy", "ship", "partitions"), RUNS)
def test_what_is_told(name: str, strategy: str, ship: str | None, partitions: int) -> None:
    with opened(name, strategy=strategy, ship=ship, partitions=partitions) as session:
        told = [line for step in steps(session, name) for line in lines(step, session.plan.outputs)]
        assert told == (ROOT / name / "expected.txt").read_text().splitlines()
        session.check()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TIMELESS])
def test_one_transaction_tells_the_same(name: str) -> None:
    """Where transactions end makes no difference: all of the script in one of them is told at the same times."""
    with opened(name) as session:
        with session.transaction() as tx:
            for transaction in script(name):
                transaction.apply(tx)
        told = [line for step in (*session.initial_steps, *tx.steps) for line in lines(step, session.plan.outputs)]
        assert told == (ROOT / name / "expected.txt").read_text().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_on_the_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the same, those of the opening with `--initial`."""
    folder = ROOT / name
    command = ["run", str(folder / "program.dl"), "--updates", str(folder / "updates.txt"), "--initial"]
    assert main(command) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("@") and " " in line]
    assert printed == (folder / "expected.txt").read_text().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_says_the_same(name: str) -> None:
    """At every time: what was told until then, taken together, is what each output is by its definition."""
    program = datalog.check(datalog.parse((ROOT / name / "program.dl").read_text(), "program.dl"))
    with opened(name) as session:
        keys = {view: session.plan.relations[view].key for view in session.plan.outputs}
    (told,) = read_script((ROOT / name / "expected.txt").read_text().splitlines(), "expected.txt")
    due: dict[int | float, list[Any]] = {}
    for operation in told.operations:
        due.setdefault(operation.time, []).append(operation)
    operations = [
        ("advance", o.time) if o.op == "@" else ("insert" if o.op == "+" else "delete", o.relation, o.row)
        for transaction in script(name)
        for o in transaction.operations
    ]
    timeline = Timeline(program)
    shown: dict[str, dict[Any, Any]] = {view: {} for view in keys}
    for moment in [timeline.load({}), *timeline.run(operations)]:
        for o in due.pop(moment.time, ()):
            place = tuple(o.row[i] for i in keys[o.relation]) or o.row
            if o.op == "-":
                del shown[o.relation][place]
            else:
                shown[o.relation][place] = o.row
            assert o.full == moment.full[o.relation], (moment.time, o)
        assert {view: set(rows.values()) for view, rows in shown.items()} == {
            view: set(moment.relations[view]) for view in shown
        }, moment.time
    assert not due


HOT = """
.decl roomTemp(room: symbol, temp: number) key(room)
.decl hot(room: symbol, temp: number) key(room)
hot(r, v) :- roomTemp(r, v) at every(2), v > 80.
"""
HOTTER = """
.decl hot(room: symbol, temp: number) key(room)
.decl hotter(room: symbol, temp: number) key(room)
hotter(r, v) :- hot(r, v) at every(4), v > 100.
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_one_program_tells_another_one_reads(form: str) -> None:
    """The two views of the ninth example, each in a process of its own."""

    def command(program: str, *options: str) -> list[str]:
        return [sys.executable, "-m", "livelog", "run", "-e", program, "--updates", *options]

    updates = str(ROOT / "09_two_rates" / "updates.txt")
    with (
        subprocess.Popen(command(HOT, updates, "--format", form), stdout=subprocess.PIPE) as first,
        subprocess.Popen(command(HOTTER, "-"), stdin=first.stdout, stdout=subprocess.PIPE, text=True) as second,
    ):
        out, _ = second.communicate(timeout=120)
    assert first.returncode == second.returncode == 0
    expected = (ROOT / "09_two_rates" / "expected.txt").read_text().splitlines()
    assert [line for line in out.splitlines() if "hotter" in line] == [line for line in expected if "hotter" in line]


def at_each_time(name: str, view: str, times: range) -> dict[int, set[tuple[Any, ...]]]:
    """A view at every time: the script, with the clock stopped at each of them."""
    due: dict[int, list[Any]] = {}
    time = 0
    for transaction in script(name):
        for operation in transaction.operations:
            if operation.op == "@":
                time = int(operation.time)
            else:
                due.setdefault(time, []).append(operation)
    states = {}
    with opened(name) as session:
        for time in times:
            with session.transaction() as tx:
                tx.advance_to(time)
                for operation in due.get(time, ()):
                    (tx.insert if operation.op == "+" else tx.delete)(operation.relation, operation.row)
            states[time] = set(session[view])
    return states


A, B, C = ("a", 1), ("b", 3), ("c", 5)
TABLES = {
    # as of each time
    ("02_times_of_tuples", "r"): {0: (), 1: (A,), 2: (A,), 3: (A, B), 4: (B,), 5: (B, C), 6: (B, C)},
    # at even times, and what was there between them
    ("07_synchronised_relation", "r"): {0: (), 1: (), 2: (A,), 3: (A,), 4: (B,), 5: (B,), 6: (B, C), 7: (B, C)},
    ("15_relation_to_stream", "out"): {0: (), 1: (), 2: (A,), 3: (A,), 4: (B,), 5: (B,), 6: (B, C), 7: (B, C)},
    # at every fourth, from the stream and from what is known at even times
    ("17_containment", "direct"): {0: (), 2: (), 4: (B,), 6: (B,), 8: (B, C)},
    ("17_containment", "even"): {0: (), 2: (A,), 4: (B,), 6: (B, C), 8: (B, C)},
    ("17_containment", "through"): {0: (), 2: (), 4: (B,), 6: (B,), 8: (B, C)},
}


@pytest.mark.parametrize(("name", "view"), TABLES, ids="-".join)
def test_the_tables_of_the_figures(name: str, view: str) -> None:
    table = TABLES[name, view]
    states = at_each_time(name, view, range(max(table) + 1))
    assert {time: states[time] for time in table} == {time: set(rows) for time, rows in table.items()}


@pytest.mark.parametrize(("name", "one", "other", "points"), [
    ("17_containment", "direct", "through", range(0, 9, 4)),
    ("17_containment", "direct", "even", range(0, 9, 4)),
    ("18_points_outside", "q", "skinned", range(0, 8, 6)),
    ("19_reads_another_view", "direct", "through", range(9)),
])  # fmt: skip
def test_they_agree_at_the_points_of_both(name: str, one: str, other: str, points: range) -> None:
    times = range(max(points) + 1)
    first, second = at_each_time(name, one, times), at_each_time(name, other, times)
    assert [first[time] for time in points] == [second[time] for time in points]
    assert any(first[time] for time in points)


def test_what_is_full() -> None:
    """Of the join: at 2, 3 and 4 it knows one side as of then and the other as of before, at 6 both."""
    with opened("16_partial_points") as session:
        passed = list(steps(session, "16_partial_points"))
    assert [(step.time, step["both"].full) for step in passed if step["both"]] == [
        (2, False), (3, False), (4, False), (6, True),
    ]  # fmt: skip
    # of a view of a view: where both have a point
    with opened("09_two_rates") as session:
        passed = list(steps(session, "09_two_rates"))
    assert all(step[view].full for step in passed for view in ("hot", "hotter") if step[view])


def test_the_streams_themselves() -> None:
    """A keyed stream that is an output tells updates; one of arrivals tells arrivals, and nobody sees their times."""
    text = (ROOT / "01_two_streams" / "program.dl").read_text() + ".output roomTemp, reading\n"
    told: dict[str, list[Any]] = {"roomTemp": [], "reading": []}
    with livelog.open(text) as session:
        for transaction in script("01_two_streams"):
            with session.transaction() as tx:
                transaction.apply(tx)
            for step in tx.steps:
                for relation, seen in told.items():
                    seen += [(step.time, op, *row) for op, row in step[relation].operations]
        assert len(session["reading"]) == 5 and set(map(len, session["reading"])) == {2}
    source = [(1, "a", 100), (2, "b", 75), (3, "c", 80), (4, "a", 95), (5, "b", 85)]
    assert told["roomTemp"] == [(t, op, r, v) for (t, r, v), op in zip(source, "+++uu", strict=True)]
    assert told["reading"] == [(t, "+", r, v) for t, r, v in source]


def test_complete_output() -> None:
    """The whole view whenever it changes, beside what changed."""
    seen: list[tuple[Any, list[Any]]] = []
    changed: list[Any] = []
    with opened("06_cars_by_type") as session:
        session.subscribe("carCount", lambda c: seen.append((c.time, sorted(c.rows))), form="complete")
        session.subscribe("carCount", lambda c: changed.append((c.time, c.operations)))
        for transaction in script("06_cars_by_type"):
            with session.transaction() as tx:
                transaction.apply(tx)
    assert seen == [
        (1, [("truck", 1)]),
        (2, [("car", 1), ("truck", 1)]),
        (4, [("car", 2), ("truck", 1)]),
        (7, [("car", 1), ("truck", 1)]),
        (9, [("truck", 1)]),
        (11, []),
    ]
    assert [time for time, _ in changed] == [1, 2, 4, 7, 9, 11]
    assert changed[2:4] == [(4, [("u", ("car", 2))]), (7, [("u", ("car", 1))])]


def test_when_it_is_valid() -> None:
    with opened("09_two_rates") as session:
        with session.transaction() as tx:
            tx.advance_to(5)
        hot, hotter = session["hot"].valid, session["hotter"].valid
        assert (hot.through, hot.next, hotter.through, hotter.next) == (5, 6, 7, 8)
    with opened("12_refresh_on_events") as session:
        for transaction in script("12_refresh_on_events"):
            with session.transaction() as tx:
                transaction.apply(tx)
        assert (session["hotter"].valid.through, session["hotter"].valid.next) == (7, None)
