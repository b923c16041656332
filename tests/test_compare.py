"""`livelog compare`: strategies side by side, their results asserted equal, their figures as table and JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import datalog
import topologies
from livelog.changes import ChangeLog
from livelog.cli import main
from livelog.simulation import Comparison, Difference, compare, make_job, parse_strategy, scenario
from livelog.simulation import compare as compare_function
from livelog.simulation.difference import Moment, difference
from livelog.simulation.digest import digests
from livelog.simulation.job import Job
from livelog.simulation.reports import Done, Report
from livelog.simulation.strategies import NAMES

ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "", "PYTHONUNBUFFERED": ""}

REACH = """\
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""
MODULE = sys.modules["livelog.simulation.compare"]

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "reach.dl").write_text(REACH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(place: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*args: str) -> tuple[int, str, str]:
        try:
            code = main(args)
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def workload(steps: int = 3, **options: Any) -> topologies.Workload:
    return scenario(datalog.check(datalog.parse(REACH)), topology="ts20", steps=steps, seed=1, **options).workload


def run(strategies: list[str], steps: int = 3, **options: Any) -> Comparison:
    return compare(datalog.parse(REACH), workload(steps), strategies, **options)


# --- the library ---------------------------------------------------------------------------------------------


def test_every_strategy_runs_and_agrees() -> None:
    seen: list[tuple[str, str]] = []
    result = run(list(NAMES), partitions=3, batches=2,
                 watch=lambda s, report: seen.append((str(s), type(report).__name__)))  # fmt: skip
    assert result.strategies == NAMES and all(r.finished and r.stopped is None for r in result.runs)
    assert [kind for name, kind in seen if name == NAMES[-1]] == [
        "Opened", "Done", "Done", "PhaseEnd", "Done", "Done", "Done", "PhaseEnd",
    ]  # fmt: skip
    first = result.run(NAMES[0], "change")
    for name in NAMES:
        load, change = result.run(name, "load"), result.run(name, "change")
        assert (load.transactions, load.planned, change.transactions, change.planned) == (2, 2, 3, 3)
        assert [d.digests for d in change.per_transaction] == [d.digests for d in first.per_transaction]
    assert any(d.deleted for d in first.per_transaction), "or nothing was compared"
    assert first.provenance_bytes_per_tuple and result.run("dred", "change").provenance_bytes_per_tuple == 0
    demand, again = result.run("absorption/demand", "change"), result.run("recompute", "change")
    assert demand.bytes_shipped < again.bytes_shipped


def test_json() -> None:
    result = run(["absorption/demand", "recompute"], partitions=3).to_json()
    result = json.loads(json.dumps(result))
    assert [(r["strategy"], r["phase"]) for r in result["runs"]] == [
        (s, p) for s in ("absorption/demand", "recompute") for p in ("load", "change")
    ]
    for r in result["runs"]:
        assert r["finished"] is True and r["stopped"] is None
        assert isinstance(r["seconds"], float) and r["seconds"] > 0
        for name in ("bytes_shipped", "state_bytes", "frames", "tuples"):
            assert isinstance(r[name], int) and r[name] == sum(p[name] for p in r["partitions"]) > 0
        assert [p["partition"] for p in r["partitions"]] == [0, 1, 2]
        annotated = sum(p["annotated"] for p in r["partitions"])
        mean = sum(p["provenance_bytes"] for p in r["partitions"]) / annotated
        assert r["provenance_bytes_per_tuple"] == pytest.approx(mean, abs=0.001)
        assert len(r["per_transaction"]) == r["transactions"] == r["planned"] == (1 if r["phase"] == "load" else 3)
        assert r["seconds"] == pytest.approx(sum(t["seconds"] for t in r["per_transaction"]), abs=1e-5)
        assert r["bytes_shipped"] == sum(t["bytes_shipped"] for t in r["per_transaction"])
    assert result["runs"][0]["per_transaction"][0] | {"seconds": 0, "bytes_shipped": 0} == {
        "about": f"{len(workload().facts['link'])} facts", "seconds": 0, "bytes_shipped": 0, "inserted": 400,
        "deleted": 0,
    }  # fmt: skip


def test_a_path_and_python_values() -> None:
    """The program as a file; rows with lists and floats in them."""
    program = ROOT / "examples" / "05_regions.dl"
    facts = {
        "sensor": [("a", (1, 2.5)), ("b", (2.5, 3)), ("c", (90, 90))],
        "mainSensorInRegion": [("r", "a")],
        "isTriggered": [("a",), ("b",)],
    }
    steps = [topologies.Step(1.0, (("-", "isTriggered", ("b",)), ("+", "sensor", ("d", [4, 4]))), "b is released")]
    result = compare_function(program, topologies.Workload(facts, steps), ["absorption", "dred"], constants={"k": 10})
    assert [sum(d.inserted.values()) for d in result.run("dred", "change").per_transaction] == [3]


def test_a_strategy_that_passes_its_limit() -> None:
    """It is reported with what it had reached, and the others are compared all the same."""
    dense = scenario(datalog.check(datalog.parse(REACH)), topology="ts100", density="dense", steps=1).workload
    names = ["absorption/eager", "absorption/demand", "recompute"]
    result = compare(datalog.parse(REACH), dense, names, partitions=2, time_limit=1.5)
    load, change = result.run("absorption/eager", "load"), result.run("absorption/eager", "change")
    assert (load.finished, load.stopped, load.transactions, load.planned) == (False, "time", 0, 1)
    assert 1.5 < load.seconds < 15 and load.bytes_shipped > 0 and load.begun
    assert (load.state_bytes or 0) > 0 and (load.provenance_bytes_per_tuple or 0) > 0
    assert (change.finished, change.stopped, change.transactions, change.seconds) == (False, "time", 0, 0.0)
    assert not change.begun
    for name in ("absorption/demand", "recompute"):
        assert all(result.run(name, phase).finished for phase in ("load", "change"))


def test_a_limit_in_the_changes() -> None:
    """What was done before it counts, and is compared."""
    large = scenario(datalog.check(datalog.parse(REACH)), topology="ts100", density="dense", steps=150, seed=1).workload
    load = compare(datalog.parse(REACH), topologies.Workload(large.facts, []), ["recompute"]).run("recompute", "load")
    # Every change costs recompute about one load: 150 of them are far from 15 loads, however noisy the machine is.
    result = compare(datalog.parse(REACH), large, ["absorption/demand", "recompute"], time_limit=15 * load.seconds)
    load, change = result.run("recompute", "load"), result.run("recompute", "change")
    assert load.finished and load.stopped is None
    assert not change.finished and change.stopped == "time" and 0 < change.transactions < change.planned
    assert len(change.per_transaction) == change.transactions
    assert change.seconds >= sum(d.seconds for d in change.per_transaction) - 1e-5


# --- equality ------------------------------------------------------------------------------------------------


def lying(strategy: str, number: int) -> Callable[[Job], Iterator[Report]]:
    """Reports as they are, but for one digest of one strategy."""
    honest = MODULE.run_apart

    def reports(job: Job) -> Iterator[Report]:
        for report in honest(job):
            if isinstance(report, Done) and (job.strategy, report.phase, report.number) == (strategy, "change", number):
                report = msgspec.structs.replace(report, digests={"reachable": "0" * 24})
            yield report

    return reports


def test_a_difference_is_an_error(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setattr(MODULE, "run_apart", lying("recompute", 2))
    about = list(workload().steps)[1].about
    with pytest.raises(Difference) as caught:
        run(["absorption/demand", "recompute"])
    assert caught.value.message == (
        f"absorption/demand and recompute differ after change transaction 2 ({about}), in `reachable`"
    )
    assert "a second run of both did not show it again" in str(caught.value)
    options = ("--topology", "ts20", "--steps", "3", "--strategies", "dred,recompute", "--json", "o.json")
    code, _, err = call("compare", "reach.dl", *options)
    assert code == 1 and "error: dred and recompute differ after change transaction 2" in err
    assert not Path("o.json").exists() and "Traceback" not in err


def test_a_difference_shows_rows() -> None:
    """Two jobs that really differ, as no two strategies should."""
    fails = topologies.Step(1.0, (("-", "link", (1, 2)),), "link 1 - 2 fails")
    jobs = [
        make_job(datalog.parse(REACH), topologies.Workload({"link": links}, [fails]), parse_strategy(name))
        for name, links in (("absorption", [(1, 2), (2, 3)]), ("dred", [(1, 2), (2, 3), (1, 3)]))
    ]
    error = difference(jobs[0], jobs[1], Moment("change", 1, "link 1 - 2 fails"), ["reachable"])
    assert str(error).splitlines() == [
        "error: absorption/demand and dred differ after change transaction 1 (link 1 - 2 fails), in `reachable`",
        "note: only absorption/demand: -reachable(1, 3)",
    ]


def test_digests() -> None:
    types = {"r": ("any", "list")}

    def of(inserted: list[Any], deleted: list[Any] = []) -> str:  # noqa: B006
        return digests(ChangeLog(("r",), {"r": (inserted, deleted)}), types).get("r", "nothing")

    same = of([(1, (2.0, "a")), ("x", ())])
    assert same == of([("x", ()), (1.0, (2, "a"))])
    different = [
        [(1, (2.0, "a"))], [(1, (2.5, "a")), ("x", ())], [("1", (2.0, "a")), ("x", ())], [(1, ("a", 2.0)), ("x", ())],
        [(1, (2.0, "a")), ("x", ()), (3, ())],
    ]  # fmt: skip
    assert len({same, of([], [(1, (2.0, "a")), ("x", ())]), *map(of, different)}) == 2 + len(different)
    assert of([]) == "nothing" and of([(1e300, ())]) != of([(1e299, ())])


# --- the command ---------------------------------------------------------------------------------------------


def test_compare_in_a_pipe(place: Path) -> None:
    command = ["compare", "reach.dl", "--topology", "ts20", "--steps", "4", "--partitions", "2",
               "--strategies", "absorption/demand,dred", "--json", "out.json", "--plot", "out.png"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "livelog", *command], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"reach: ts20 \(20 nodes, \d+ edges\), failures, 4 steps, seed 0, 2 partitions", lines[0])
    assert lines[2] == "load: 1 transaction" and lines[7] == "change: 4 transactions"
    assert lines[3].split() == ["strategy", "time", "shipped", "state", "provenance/tuple"]
    assert re.fullmatch(r"absorption/demand +[\d.]+ ms +1x +[\d.]+ kB +1x +[\d.]+ kB +1x +[\d.]+ B +1x", lines[4])
    assert re.fullmatch(r"dred +[\d.]+ ms +[\d.]+x +[\d.]+ kB +[\d.]+x +[\d.]+ k?B +[\d.]+x +0 B +0x", lines[10])
    written = json.loads((place / "out.json").read_text())
    assert len(written["runs"]) == 4 and written["title"] == lines[0]
    assert (place / "out.png").read_bytes().startswith(b"\x89PNG")


def test_json_on_standard_output(call: Call) -> None:
    options = ("--topology", "ts20", "--steps", "1", "--strategies", "dred", "--json", "-")
    code, out, err = call("compare", "reach.dl", *options)
    assert (code, err) == (0, "") and [r["phase"] for r in json.loads(out)["runs"]] == ["load", "change"]


def test_the_table_of_a_strategy_that_passed_its_limit(call: Call) -> None:
    code, out, _ = call("compare", "reach.dl", "--density", "dense", "--steps", "1", "--time-limit", "0.4",
                        "--strategies", "dred,absorption/eager")  # fmt: skip
    assert code == 0
    load, change = re.findall("absorption/eager .*", out)
    assert re.match(r"absorption/eager +> [456]\d\d ms ", load)
    assert load.endswith("  passed its time limit: 0 of 1 done") and " kB" in load
    assert re.fullmatch(r"absorption/eager +- +- +- +-  passed its time limit in the load", change)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategies", "absorption/demnd,dred"], "'absorption/demnd': did you mean `absorption/demand`?"),
        (["--strategies", ","], "no strategies are named"),
        (["--topology", "sensorgrid"], "unknown network 'sensorgrid': did you mean `sensor-grid`?"),
        (["--workload", "brusts"], "unknown workload 'brusts': did you mean `bursts`?"),
        (["--json", "no/x.json"], "--json: the folder 'no' does not exist"),
        (["--json", "."], "--json: '.' is a folder"),
        (["--plot", "x"], "--plot: a picture is a .png, .svg or .pdf file, not 'x'"),
        (["--memory-limit", "0"], "expected a whole number of at least 1"),
    ],
)
def test_mistakes(call: Call, options: list[str], message: str) -> None:
    code, out, err = call("compare", "reach.dl", *options)
    assert (code, out) == (2, "") and message in err and "Traceback" not in err


def test_run_says_which_ship_modes_fit(call: Call) -> None:
    code, _, err = call("run", "reach.dl", "--strategy", "recompute", "--ship", "lazy")
    assert code == 2 and "--ship lazy does not fit: the strategy recompute has none" in err


def test_interrupt(place: Path) -> None:
    """Ctrl-C: what is there is shown, the rest is not compared, and no process is left behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "compare", "reach.dl", "--density", "dense", "--steps", "1",
         "--strategies", "dred,absorption/eager"],
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    end = time.monotonic() + 60
    # The second strategy is under way when the second child is.
    seen: set[str] = set()
    while len(seen) < 2 and time.monotonic() < end:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        seen.update(children)
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "livelog: interrupted; 1 strategy not compared\n")
    assert out.count("\ndred ") == 2 and "eager" not in out
    assert not any(Path(f"/proc/{child}").exists() for child in seen)


def test_livelog_import_stays_light() -> None:
    """The library is not imported by `import livelog`, nor does the command line import what draws."""
    code = (
        "import sys, livelog; print('livelog.simulation' in sys.modules)\n"
        "import livelog.cli; print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENV, capture_output=True, text=True, check=True)
    assert done.stdout == "False\nFalse\n" 


def test_without_aggregate_selection() -> None:
    """A network without cycles, where it is possible to do without: same results, more of everything."""
    program = datalog.parse(
        "path(x, y, c) :- link(x, y, c).\npath(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b.\n"
        ".output best\nbest(x, y, min<c>) :- path(x, y, c).\n"
    )
    links = [(n, n + k, 10 * k * k) for n in range(12) for k in (1, 2, 3)]
    fails = topologies.Step(1.0, (("-", "link", (3, 4, 10)),), "link 3 -> 4 fails")
    with_it, without = (
        compare(program, topologies.Workload({"link": links}, [fails]), ["absorption"], partitions=2, select=select)
        for select in (True, False)
    )
    assert (with_it.runs[1].tuples or 0) < (without.runs[1].tuples or 0)
    best = [[d.digests["best"] for run in result.runs for d in run.per_transaction] for result in (with_it, without)]
    assert best[0] == best[1]
