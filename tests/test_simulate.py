"""`livelog simulate` as a person meets it, and the process that runs a workload apart."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import datalog
import livelog
import topologies
from datalog.errors import UsageProblem
from livelog.cli import main
from livelog.simulation import Apart, Meter, RunFailed, make_job, parse_strategies, parse_strategy, scenario
from livelog.simulation.reports import Done, Opened, PhaseEnd, Stopped
from livelog.simulation.strategies import NAMES

ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "", "PYTHONUNBUFFERED": ""}

REACH = """\
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "reach.dl").write_text(REACH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(place: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process; what it runs is in a process of its own anyway."""

    def run(*args: str) -> tuple[int, str, str]:
        try:
            code = main(args)
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def without_times(text: str) -> str:
    """Times are all that may differ from run to run; the columns they stand in become as wide as they are."""
    return re.sub(" +", " ", re.sub(r"[\d.]+ m?s\b", "TIME", text))


def expected_pairs(workload: topologies.Workload) -> set[tuple[Any, Any]]:
    """The view after all of a workload, by networkx."""
    links = set(workload.facts["link"])
    for step in workload.steps:
        for sign, _, row in step.operations:
            (links.add if sign == "+" else links.discard)(row)
    graph = nx.DiGraph(sorted(links))
    return {(a, b) for a in graph for c in graph[a] for b in {c, *nx.descendants(graph, c)}}


# --- the command ---------------------------------------------------------------------------------------------


def test_simulate_in_a_pipe(place: Path) -> None:
    command = [sys.executable, "-m", "livelog", "simulate", "reach.dl", "--topology", "ts20", "--steps", "3"]
    runs = [subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=120) for _ in range(2)]
    for done in runs:
        assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout
    lines = runs[0].stdout.splitlines()
    assert re.fullmatch(r"ts20 \(20 nodes, \d+ edges\), failures, 3 steps, seed 0", lines[0])
    assert lines[1] == "absorption/demand, 4 partitions"
    assert re.fullmatch(r" load +\d+ facts +[\d.]+ ms +[\d.]+ kB  reachable \+400", lines[3])
    line = r"    1  @[\d.]+ +link \d+ - \d+ fails +[\d.]+ ms +[\d.]+ k?B  (no change|reachable -\d+)"
    assert re.fullmatch(line, lines[4])
    assert [line.split()[:2] for line in lines if re.match("(load|change) ", line)] == [["load", "1"], ["change", "3"]]
    program = datalog.check(datalog.parse(REACH))
    left = expected_pairs(scenario(program, topology="ts20", steps=3).workload)
    assert f"views: reachable {len(left)}" in lines
    assert without_times(runs[0].stdout) == without_times(runs[1].stdout)


def test_defaults(call: Call) -> None:
    code, out, _ = call("simulate", "reach.dl", "--partitions", "1")
    assert code == 0 and out.startswith("ts100 (100 nodes, ") and "failures, 20 steps, seed 0\n" in out
    assert "   20  @" in out and "per partition" not in out


def test_the_script_is_what_was_run(place: Path, call: Call) -> None:
    options = ("--topology", "ts20", "--steps", "6", "--seed", "3", "--script", "s.txt")
    code, out, _ = call("simulate", "reach.dl", *options)
    assert code == 0
    assert call("run", "reach.dl", "--updates", "s.txt", "-D", "out")[0] == 0
    rows = (place / "out" / "reachable.csv").read_text().splitlines()
    assert f"views: reachable {len(rows):,}\n" in out


def test_symbols_costs_and_other_facts(place: Path, call: Call) -> None:
    (place / "cost.dl").write_text(
        ".decl link(src: symbol, dst: symbol, cost: number)\n.decl office(n: symbol)\n.input link\n.output far\n"
        "path(x, y, c) :- link(x, y, c).\npath(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b.\n"
        "best(x, y, min<c>) :- path(x, y, c).\nfar(y, c) :- office(x), best(x, y, c).\n"
    )
    (place / "more").mkdir()
    (place / "more" / "office.facts").write_text("T:0.0\n")
    base = ("simulate", "cost.dl", "--topology", "ts20", "--steps", "2", "--workload", "costs")
    code, out, err = call(*base, "-F", "more")
    assert (code, err) == (0, "") and "far 20" in out and " costs " in out
    assert "far 0" in call(*base)[1]


def test_soft_state(place: Path, call: Call) -> None:
    (place / "soft.dl").write_text(".decl link(src: number, dst: number) ttl(9)\n" + REACH)
    code, out, _ = call("simulate", "soft.dl", "--topology", "ts20", "--workload", "ttl", "--steps", "12")
    assert code == 0 and "    1  @3.00 " in out and "refreshed" in out and re.search(r"reachable -\d+", out)


def test_sensors(call: Call) -> None:
    regions = str(ROOT / "examples" / "05_regions.dl")
    code, out, _ = call("simulate", regions, "--nodes", "25", "--steps", "3", "--set", "k=30")
    assert code == 0 and out.startswith("sensor-grid (25 nodes, ") and " sensors, 3 steps" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topology", "ts10"], "unknown network 'ts10': did you mean `ts100`?"),
        (["--topology", "moon"], "unknown network 'moon': choose ts20, ts100"),
        (["--topology", "nope.graphml"], "nope.graphml"),
        (["--density", "thick"], "invalid choice: 'thick'"),
        (["--workload", "failure"], "unknown workload 'failure': did you mean `failures`?"),
        (["--workload", "costs"], "the workload 'costs' needs a relation link with three columns"),
        (["--workload", "ttl"], "`link` must be declared with one: .decl link(...) ttl(30)"),
        (["--workload", "fire"], "needs a sensor grid"),
        (["--strategy", "absorbtion/lazy"], "unknown strategy 'absorbtion/lazy': did you mean `absorption/lazy`?"),
        (["--strategy", "magic"], f"unknown strategy 'magic': it is one of {', '.join(NAMES)}"),
        (["--strategy", "dred/lazy"], "the strategy dred ships no annotations"),
        (["--runtime", "moon"], "invalid choice: 'moon'"),
        (["--plot", "x.doc"], "a picture is a .png, .svg or .pdf file, not 'x.doc'"),
        (["--plot", "no/x.png"], "the folder 'no' does not exist"),
        (["--time-limit", "0"], "expected a number of seconds greater than 0, not '0'"),
        (["--time-limit", "nan"], "expected a number of seconds greater than 0"),
        (["--steps", "0"], "expected a whole number of at least 1"),
        (["--seed", "x"], "expected a whole number, not 'x'"),
        (["-F", "nope"], "the facts folder 'nope' does not exist"),
    ],
)
def test_mistakes(call: Call, options: list[str], message: str) -> None:
    code, out, err = call("simulate", "reach.dl", *options)
    assert (code, out) == (2, "") and message in err and "Traceback" not in err


def test_a_program_that_does_not_fit(place: Path, call: Call) -> None:
    (place / "roads.dl").write_text("far(x) :- road(x, y), closed(y, z, t).\n")
    code, _, err = call("simulate", "roads.dl")
    assert code == 2 and "needs a relation link with two or three columns" in err
    assert "the program has closed/3, road/2" in err


def test_a_program_that_fails(place: Path, call: Call) -> None:
    (place / "bad.dl").write_text(".decl link(x: number, y: number)\nr(x, 10 / (x - 7)) :- link(x, _).\n")
    code, _, err = call("simulate", "bad.dl", "--topology", "ts20")
    assert code == 1 and "bad.dl:2:1: error: division by zero" in err and "with the strategy absorption/demand" in err


def test_limits(call: Call) -> None:
    slow = ("simulate", "reach.dl", "--density", "dense", "--strategy", "absorption/eager")
    code, out, _ = call(*slow, "--time-limit", "0.3")
    assert code == 1 and "passed its time limit of 0.3 s in the load, after 0 of 1 transaction\n" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("load"))
    assert row[1] == "0" and row[7:9] != ["0", "B"], "bytes of the transaction that was under way"
    code, out, _ = call("simulate", "reach.dl", "--topology", "ts20", "--memory-limit", "1")
    assert code == 1 and "passed its memory limit of 1 MB in the load, after 0 of 1 transaction\n" in out


def test_interrupt(place: Path) -> None:
    """Ctrl-C in the middle of a transaction: the summary so far, and 130."""
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "simulate", "reach.dl", "--density", "dense",
         "--strategy", "absorption/eager"],
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ts100 (dense, ")
    time.sleep(3)  # the load takes minutes
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "interrupted in the load, after 0 of 1 transaction\n" in out and "\nphase  transactions " in out


def test_on_a_terminal(place: Path) -> None:
    """A bar while it runs, colours, and nothing of the bar left at the end."""
    command = [sys.executable, "-m", "livelog", "simulate", "reach.dl", "--topology", "ts20", "--steps", "8"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(ENV, TERM="xterm", COLUMNS="120")
        os.execv(sys.executable, command)
    data = b""
    end = time.monotonic() + 60
    with suppress(OSError):  # the end of a terminal, on Linux
        while time.monotonic() < end and select.select([terminal], [], [], 60)[0]:
            data += os.read(terminal, 65536)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    text = data.decode()
    assert os.waitstatus_to_exitcode(status) == 0, text
    assert "/9" in text and "━" in text, "the bar counts the load and eight steps"
    assert re.search("reachable \x1b\\[31m-[0-9]+\x1b\\[0m", text)
    summary = text[text.index("phase") :]
    assert "━" not in summary and "views: reachable" in summary


# --- the library ---------------------------------------------------------------------------------------------


def test_strategies() -> None:
    assert [str(s) for s in parse_strategies(",".join(NAMES))] == list(NAMES)
    assert {"absorption/demand", "absorption/lazy", "absorption/eager", "dred", "recompute"} <= set(NAMES)
    for name in NAMES:
        strategy = parse_strategy(name)
        with livelog.open(datalog.parse(REACH), facts={"link": [(1, 2), (2, 3)]}, **strategy.options) as session:
            assert len(session["reachable"]) == 3
    with pytest.raises(UsageProblem, match="no strategies are named"):
        parse_strategies(" , ")


def workload(steps: int = 4, network: str = "ts20") -> topologies.Workload:
    return scenario(datalog.check(datalog.parse(REACH)), topology=network, steps=steps, seed=1).workload


def test_what_the_meter_counts() -> None:
    """The reports of a run add up to what the session itself says."""
    with livelog.open(datalog.parse(REACH), partitions=3) as session:
        reports = list(Meter(session, rows=True).run(workload(), batches=2))
        done = [r for r in reports if isinstance(r, Done)]
        load, change = (r for r in reports if isinstance(r, PhaseEnd))
        assert [(d.phase, d.number) for d in done] == [("load", 1), ("load", 2)] + [("change", n + 1) for n in range(4)]
        view: set[Any] = set()
        for d in done:
            inserted, deleted = (d.changed or {}).get("reachable", ([], []))
            assert (len(inserted), len(deleted)) == (d.inserted.get("reachable", 0), d.deleted.get("reachable", 0))
            assert view.isdisjoint(inserted) and view.issuperset(deleted)
            view = view.difference(deleted).union(inserted)
        assert view == set(session["reachable"]) == expected_pairs(workload())
        stats = session.stats()
        for i in range(3):
            assert load.partitions[i].bytes_shipped + change.partitions[i].bytes_shipped == session.bytes_shipped[i]
            assert change.partitions[i].state_bytes == stats.partitions[i].state_bytes
        assert sum(d.bytes_shipped for d in done) == stats.bytes_shipped > 0
        assert sum(d.frames for d in done) == sum(session.frames_shipped)
        assert change.facts is not None and change.facts["link"] == list(session["link"])
        assert all(d.seconds > 0 for d in done)


def test_apart_is_the_same_as_here() -> None:
    job = make_job(datalog.parse(REACH), workload(), parse_strategy("absorption/lazy"), partitions=2)
    with Apart(job) as apart:
        there = [(r.digests, r.bytes_shipped) for r in apart if isinstance(r, Done)]
    with livelog.open(datalog.parse(REACH), partitions=2, ship="lazy") as session:
        here = [(r.digests, r.bytes_shipped) for r in Meter(session).run(workload()) if isinstance(r, Done)]
    assert there == here and len(there) == 5 and there[0][0]


def test_constants_and_facts_of_the_program_travel() -> None:
    parsed = datalog.parse("link(1, 2).\nr(x) :- link(x, y), y < k, x != c.\n")
    program = datalog.check(parsed, constants={"k": 9, "c": 3})
    steps = [topologies.Step(2.0, (("+", "link", (3, 4)), ("+", "link", (5, 6)), ("+", "link", (7, 10))), "more")]
    job = make_job(program, topologies.Workload({}, steps), parse_strategy("dred"), rows=True)
    with Apart(job) as apart:
        reports = list(apart)
    opened, change = reports[0], reports[3]
    assert isinstance(opened, Opened) and opened.views == {"r": 1}
    assert isinstance(change, Done) and change.changed == {"r": ([(5,)], [])} and change.time == 2.0


# --- a network of one's own ----------------------------------------------------------------------------------

SYMBOLS = """.decl link(src: symbol, dst: symbol)
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("own.dl").write_text(SYMBOLS)
    Path("links.csv").write_text("owner,to,cost,from\nx,oslo,3,rome\ny,bonn,4,oslo\ny,rome,2,bonn\nx,bern,1,rome\n")
    Path("plain.csv").write_text("rome,oslo\noslo,bonn\nbonn,rome\nrome,bern\n")
    Path("data").mkdir()
    Path("data/link.facts").write_text("rome\toslo\noslo\tbonn\nbonn\trome\nrome\tbern\n")
    return tmp_path


@pytest.mark.parametrize("network", [["--topology", "links.csv"], ["--topology", "plain.csv"], ["-F", "data"]])
def test_chosen_failures_of_an_own_network(network: list[str], own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failures = ["--fail", 'link("rome", "oslo")', "--fail", 'link("bonn", _)']
    assert main(["simulate", "own.dl", *network, *failures, "--plot", "n.svg"]) == 0
    out, err = capsys.readouterr()
    assert "(4 nodes, 4 edges), 2 chosen failures" in out and not err
    assert 'link("rome", "oslo") fails' in out and "reachable -6" in out and "reachable -4" in out
    assert "views: reachable 2" in out
    assert Path("n.svg").stat().st_size > 10_000


def test_what_is_wrong_with_a_chosen_failure(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for fail, message in (
        ('link("rome", "osl")', '--fail link("rome", "osl"): there is no such fact; there is link("rome", "'),
        ('lnk("a")', "the program has no base relation `lnk`: did you mean `link`?"),
        ('link("a"', "expected ',' or ')'"),
        ('link("a", "b", 3)', "`link` has 2 columns, not 3"),
    ):
        assert main(["simulate", "own.dl", "-F", "data", "--fail", fail]) == 2
        assert message in capsys.readouterr().err
    assert main(["simulate", "own.dl", "-F", "data", "--fail", "link(_)", "--workload", "churn"]) == 2
    assert "take the place of a workload" in capsys.readouterr().err


def test_both_directions_of_an_undirected_link_fail(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("both.csv").write_text("a;b\nb;a\nb;c\nc;b\n")
    assert main(["simulate", "own.dl", "--topology", "both.csv", "--fail", 'link("a", "b")']) == 0
    assert "reachable -5" in capsys.readouterr().out  # all but b-b, b-c, c-b, c-c of nine


def test_links_are_not_mixed_in_silence(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "own.dl", "-F", "data", "--topology", "ts20", "--steps", "1"]) == 0
    err = capsys.readouterr().err
    assert "note: `link` has " in err and "facts of the network (ts20) beside the 4 that were given" in err


@pytest.mark.parametrize(("text", "message"), [
    ("a,b\na\n", "bad.csv:2: a link needs a source and a target, and the row has 1 field"),
    ("a,b,x\n", "bad.csv:1: the latency 'x' is not a number of at least 0"),
    ("a,\n", "bad.csv:1: the target of the link is empty"),
    ("src,dst\n", "bad.csv: there is no link in the file"),
    ("", "bad.csv: there is no link in the file"),
    ('a,"b\n', "bad.csv:1: unexpected end of data"),
])  # fmt: skip
def test_tables_that_are_none(text: str, message: str, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text(text)
    assert main(["simulate", "own.dl", "--topology", "bad.csv"]) == 2
    assert message in capsys.readouterr().err


def test_functions_travel_by_file(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.py").write_text("def far(x: str) -> int:\n    return len(x)\n")
    Path("own.dl").write_text(SYMBOLS + "length(x, far(x)) :- reachable(x, _).\n")
    command = ["own.dl", "-F", "data", "--functions", "f.py", "--steps", "1"]
    assert main(["simulate", *command]) == 0 and "length +3" in capsys.readouterr().out
    assert main(["compare", *command, "--strategies", "absorption/demand,recompute"]) == 0


def test_functions_cannot_travel() -> None:
    program = datalog.check(datalog.parse("r(double(x)) :- n(x)."), functions={"double": lambda x: 2 * x})
    with pytest.raises(UsageProblem, match="where Python functions cannot follow: double"):
        make_job(program, topologies.Workload({}, []), parse_strategy("dred"))


@pytest.mark.parametrize(("number", "why"), [(signal.SIGKILL, "memory"), (signal.SIGXCPU, "time")])
def test_a_process_that_is_ended(number: int, why: str) -> None:
    """The system ends it for want of memory, or because it no longer looks at its own limits."""
    job = make_job(datalog.parse(REACH), workload(3, "ts100"), parse_strategy("absorption/eager"), time_limit=50)
    with Apart(job) as apart:
        reports = []
        for report in apart:
            reports.append(report)
            if isinstance(report, Opened):  # and the load will take minutes
                apart._process.send_signal(number)
    assert reports[1:] == [Stopped(why, "load", 0, 50.0 if why == "time" else 0.0, 0, 0)]  # type: ignore[arg-type]


def test_interrupted_before_it_listens() -> None:
    job = make_job(datalog.parse(REACH), workload(3, "ts100"), parse_strategy("absorption/eager"))
    with Apart(job) as apart:
        apart.interrupt()
        assert list(apart) == [Stopped("interrupted", "load", 0, 0.0, 0, 0)]


def test_a_process_that_crashes() -> None:
    job = make_job(datalog.parse(REACH), workload(3, "ts100"), parse_strategy("absorption/eager"))
    with Apart(job) as apart, pytest.raises(RunFailed, match="ended unexpectedly") as caught:
        for report in apart:
            if isinstance(report, Opened):
                apart._process.send_signal(signal.SIGSEGV)
    assert "with the strategy absorption/eager" in str(caught.value)


def test_leaving_ends_the_process() -> None:
    job = make_job(datalog.parse(REACH), workload(3, "ts100"), parse_strategy("absorption/eager"))
    with Apart(job) as apart:
        assert isinstance(next(iter(apart)), Opened)
    assert apart._process.returncode == -signal.SIGKILL
