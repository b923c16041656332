"""The commands over Spark: the answers that they give without it, limits and Ctrl-C that work, `livelog top` beside."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import LivelogError
from livelog.cli import main
from livelog.simulation import Apart, Over, RunFailed, compare, make_job, parse_strategy, scenario
from livelog.simulation.difference import Moment, difference
from livelog.simulation.reports import Done, PhaseEnd, Stopped
from livelog.top import Client
from topologies import Workload

REACH = """\
.decl link(src: symbol, dst: symbol)
.input link
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""
GROWS = """\
.decl link(src: number, dst: number)
walk(x, y, 0) :- link(x, y).
walk(x, y, n + 1) :- walk(x, z, n), link(z, y), n < 1000000.
"""
UPDATES = '+link("c", "d")\ncommit\n-link("b", "c")\ncommit\n'

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """A command in this process, where Spark runs already; what else writes to the same descriptors is seen, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "grows.dl").write_text(GROWS)
    (tmp_path / "changes.txt").write_text(UPDATES)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.facts").write_text("a\tb\nb\tc\n")

    def run(*args: str) -> tuple[int, str, str]:
        try:
            code = main(args)
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


SPARK = ("--runtime", "spark", "--partitions", "2")


# --- run, demo -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("run", "reach.dl", "-F", "data"),
        ("run", "reach.dl", "-F", "data", "--updates", "changes.txt", "--initial", "--format", "json"),
        ("run", "reach.dl", "-F", "data", "--updates", "changes.txt", "-D", "-", "--strategy", "dred"),
        ("run", "grows.dl", "-F", "data"),
        ("run", "reach.dl", "-F", "nowhere"),
    ],
    ids=lambda command: " ".join(command[3:]),
)
def test_run_says_the_same(command: tuple[str, ...], call: Call) -> None:
    assert call(*command, *SPARK) == call(*command)


def test_run_fails_the_same(call: Call, tmp_path: Path) -> None:
    (tmp_path / "half.dl").write_text('half(x / y) :- pair(x, y).\npair(1, 0).\n')
    code, out, err = call("run", "half.dl", *SPARK)
    assert (code, out, err) == call("run", "half.dl")
    assert code == 1 and "division by zero" in err


def test_a_session_that_is_kept(call: Call, tmp_path: Path) -> None:
    """With a folder the session can be continued, and another one cannot be begun there."""
    folder = tmp_path / "kept"
    assert call("run", "reach.dl", "-F", "data", *SPARK, "--checkpoint", str(folder))[0] == 0
    assert (folder / "session.json").is_file()
    code, _, err = call("run", "reach.dl", "-F", "data", *SPARK, "--checkpoint", str(folder))
    assert code == 1 and "already holds a session" in err
    code, _, err = call("top", str(folder))
    assert (code, err) == (
        1, f"error: no session runs in '{folder}'; livelog resume {folder} continues the one that did\n"
    )  # fmt: skip


def test_changes_of_a_session_that_is_followed(call: Call, spark: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "kept")
    with livelog.open("reach.dl", facts="data", runtime=livelog.Spark(spark, partitions=2, checkpoint=folder)) as s:
        assert call("changes", folder, "reachable")[0] == 1  # nobody has asked for them
        number = s.changes("reachable").since
        with s.transaction() as tx:
            tx.insert("link", ("c", "d"))
        code, out, err = call("changes", folder, "reachable", "--since", str(number), "--format", "csv")
        n = tx.changes.transaction
        assert (code, err) == (0, "") and out.splitlines() == [f"{n},+,reachable,{x},d" for x in "abc"]
        assert json.loads(call("changes", folder, "reachable", "--format", "json")[1].splitlines()[0]) == {
            "transaction": number, "changes": {"reachable": {
                "inserted": [["a", "b"], ["a", "c"], ["b", "c"]], "deleted": []}},
        }  # fmt: skip
    code, _, err = call("resume", folder, "--sync", "always")
    assert code == 2 and "--sync is for sessions in this process, and this one is over Spark" in err
    code, _, err = call("run", "reach.dl", "--store", folder)
    assert code == 1 and "is one over Spark: `livelog resume` goes on with it" in err


def test_demo(call: Call) -> None:
    def told(*options: str) -> list[str]:
        code, out, err = call("demo", "--fast", *options)
        assert (code, err) == (0, "")
        return re.sub(r"\d+\.\d ms", "? ms", out).splitlines()

    def changes(lines: list[str]) -> list[str]:
        """Not the routes: which of several derivations of a tuple comes first is chance."""
        return [line for line in lines if "reachable(" in line or "lost their" in line or "found a" in line]

    over = told(*SPARK)
    assert "2 tasks of Spark hold them; the time is that of their start, too." in over
    assert changes(over) == changes(told()) and len(changes(over)) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--master", "local[4]"), "--master is for --runtime spark"),
        (("--checkpoint", "x"), "--checkpoint is for --runtime spark"),
        (("--runtime", "spark", "--master", "lokal"), "--master: 'lokal' is not a Spark master: it is local[N], "
         "local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or k8s://URL"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [("run", "reach.dl"), ("simulate", "reach.dl"), ("compare", "reach.dl"), ("demo",)])
def test_options_that_do_not_fit(
    command: tuple[str, ...], options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(REACH)
    assert main([*command, *options]) == 2
    assert capsys.readouterr() == ("", f"livelog {command[0]}: error: {message}\n")


def test_too_many_partitions(call: Call) -> None:
    code, out, err = call("run", "reach.dl", "-F", "data", "--runtime", "spark", "--partitions", "9")
    assert (code, out) == (1, "")
    assert err == (
        "error: a session with 9 partitions needs 9 task slots, and Spark has 4: start Spark with the master local[9], "
        "or use fewer partitions\n"
    )


# --- simulate, compare ---------------------------------------------------------------------------------------


def network(text: str = REACH, **options: Any) -> tuple[datalog.Program, Workload]:
    program = datalog.check(datalog.parse(text, "program.dl"))
    return program, scenario(program, topology="ts20", steps=4, **options).workload


@pytest.mark.parametrize("name", ["absorption/demand", "relative/lazy", "recompute"])
def test_over_reports_what_apart_does(name: str, spark: Any) -> None:
    program, workload = network(workload="recoveries")
    job = make_job(program, workload, parse_strategy(name), partitions=3, batches=2, rows=True)
    with Over(job, livelog.Spark(spark, partitions=3)) as over, Apart(job) as apart:
        there, here = list(over), list(apart)
    assert [type(report) for report in there] == [type(report) for report in here]
    for one, other in zip(there, here, strict=True):
        if isinstance(one, Done) and isinstance(other, Done):
            assert (one.digests, one.about, one.time, one.number) == (
                other.digests, other.about, other.time, other.number
            )  # fmt: skip
            assert (one.inserted, one.deleted) == (other.inserted, other.deleted)
            assert one.seconds > 0
        if isinstance(one, PhaseEnd) and isinstance(other, PhaseEnd):
            assert one.facts == other.facts and one.resident_bytes
            assert [p.partition for p in one.partitions] == [0, 1, 2]
            assert sum(p.bytes_shipped for p in one.partitions) > 0
            if name == "recompute":
                assert [p.tuples for p in one.partitions] == [p.tuples for p in other.partitions]


def test_simulate(call: Call) -> None:
    code, out, err = call("simulate", "reach.dl", "--topology", "ts20", "--steps", "3", *SPARK, "--plot", "network.svg")
    assert (code, err) == (0, "")
    title, how, *lines = out.splitlines()
    assert title.startswith("ts20 (20 nodes, 20 edges), failures, 3 steps")
    assert how == "absorption/demand, 2 partitions over Spark, times by the clock"
    alone = call("simulate", "reach.dl", "--topology", "ts20", "--steps", "3", "--partitions", "2")[1].splitlines()[2:]

    def changes(lines: list[str]) -> list[list[str]]:
        told = [line for line in lines if " fails " in line or "views:" in line]
        return [re.sub(r"\S+ m?s +\S+ k?B ", "", line).split() for line in told]

    assert changes(lines) == changes(alone) and len(changes(lines)) == 4
    assert Path("network.svg").is_file()


def test_compare(call: Call) -> None:
    names = "absorption/demand,absorption/lazy,relative/eager,dred,recompute"
    code, out, err = call(
        "compare", "reach.dl", "--topology", "ts20", "--steps", "3", *SPARK, "--strategies", names,
        "--json", "all.json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith(", 2 partitions over Spark")
    assert out.count("strategy           wall clock") == 2
    assert "The changes of all views were the same after every transaction" in out
    said = json.loads(Path("all.json").read_text())
    assert said["runtime"] == "spark"
    assert [run["strategy"] for run in said["runs"][::2]] == names.split(",")
    assert all(run["finished"] and run["seconds"] > 0 and run["resident_bytes"] > 0 for run in said["runs"])


def test_limits(spark: Any) -> None:
    """A strategy that passes a limit in the middle of a transaction is broken off, and the next one has its slots."""
    program, workload = network(GROWS)
    runtime = livelog.Spark(spark, partitions=3)
    begun = time.monotonic()
    run, _ = compare(program, workload, ["absorption/demand"], runtime=runtime, time_limit=1.0).runs
    assert time.monotonic() - begun < 120
    assert (run.finished, run.stopped, run.transactions) == (False, "time", 0)
    assert 1.0 < run.seconds < 10.0 and run.state_bytes is None
    program, workload = network()
    run, _ = compare(program, workload, ["dred"], runtime=runtime, memory_limit=10**6).runs
    assert (run.finished, run.stopped) == (False, "memory")
    assert compare(program, workload, ["dred"], runtime=runtime).run("dred", "change").finished


def test_limits_between_transactions(spark: Any) -> None:
    """Where signals cannot be handled, limits are noticed late but noticed."""
    program, workload = network()
    reports: list[Any] = []

    def run() -> None:
        job = make_job(program, workload, parse_strategy("dred"), partitions=2, time_limit=1e-6)
        with Over(job, livelog.Spark(spark, partitions=2)) as over:
            reports.extend(over)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    *_, done, stopped, end = reports
    assert isinstance(done, Done) and isinstance(stopped, Stopped) and isinstance(end, PhaseEnd)
    assert (stopped.why, stopped.transactions, stopped.seconds) == ("time", 1, done.seconds)


def test_a_job_that_fails(spark: Any) -> None:
    program = datalog.check(datalog.parse("half(x / 0) :- link(x, _)."))
    job = make_job(program, Workload({"link": [(1, 2)]}, []), parse_strategy("dred"), partitions=2)
    with pytest.raises(RunFailed, match="division by zero") as caught, Over(job, livelog.Spark(spark)) as over:
        list(over)
    assert caught.value.render().endswith("\nnote: with the strategy dred")


def test_differences_are_shown(spark: Any) -> None:
    """Strategies never differ, so two jobs stand in that do."""
    program = datalog.check(datalog.parse("r(x, y) :- link(x, y)."))
    jobs = [
        make_job(program, Workload({"link": rows}, []), parse_strategy(name), partitions=2)
        for name, rows in (("dred", [(1, 2), (3, 4)]), ("recompute", [(1, 2), (5, 6)]))
    ]
    error = difference(*jobs, Moment("load", 1, "2 facts"), ["r"], livelog.Spark(spark))
    assert [note.message for note in error.notes] == ["only dred: +r(3, 4)", "only recompute: +r(5, 6)"]


# --- beside a session ----------------------------------------------------------------------------------------


def when_busy(folder: Path, act: Callable[[], None]) -> threading.Thread:
    """Does something as soon as the session in a folder is in the middle of a transaction."""

    def watch() -> None:
        deadline = time.monotonic() + 120
        with Client(folder) as client:
            while time.monotonic() < deadline:
                try:
                    top = client.top()
                    if top.busy and top.partitions:
                        break
                except LivelogError:
                    pass  # not yet open
                time.sleep(0.1)
        time.sleep(0.5)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.fixture
def interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_simulate_interrupted(call: Call, tmp_path: Path, interruptible: None) -> None:
    """Ctrl-C in the middle of a transaction: what was reached, 130, and the slots are free again."""
    thread = when_busy(tmp_path / "kept" / "absorption-demand", interrupt)
    code, out, err = call("simulate", "grows.dl", "--topology", "ts20", *SPARK, "--checkpoint", str(tmp_path / "kept"))
    thread.join()
    assert (code, err) == (130, "")
    assert "interrupted in the load, after 0 of 1 transaction" in out and "\nphase  transactions " in out
    assert call("run", "reach.dl", "-F", "data", "--runtime", "spark", "--partitions", "4")[0] == 0


def test_top_of_a_session(call: Call, spark: Any, tmp_path: Path) -> None:
    hub = [(f"n{i}", "hub") for i in range(200)] + [("hub", "n0")]
    runtime = livelog.Spark(spark, partitions=3, checkpoint=tmp_path / "kept")
    with livelog.open("reach.dl", facts={"link": hub}, runtime=runtime) as session:
        code, out, err = call("top", str(tmp_path / "kept"), "--once")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0].startswith("reach.dl  transaction ") and lines[0].rstrip().endswith(", idle")
        assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
        said = json.loads(call("top", str(tmp_path / "kept"), "--once", "--json")[1])
        assert [p["pid"] for p in said["partitions"]] == session._spark.pids
        assert sum(p["tuples"] for p in said["partitions"]) > 400
        # all but one of the links are joined where the tuples about the hub are
        assert [(s["relation"], s["rule"]) for s in said["skew"]] == [
            ("link by dst", "reachable(x, y) :- link(x, z), reachable(z, y).")
        ]
        assert re.search(r"partition [012] holds \d+% of `link` by dst, rule reachable\(x, y\) :- link", out)
