"""A session whose driver was killed goes on from its directory: with every transaction that was acknowledged, and at
most the one that was under way besides; by `livelog.resume` and by the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.cli import main
from livelog.runtime.spark.crew import Crew
from livelog.store.journal import Journal
from tests.kills import (
    FACTS,
    PROGRAM,
    Checked,
    abandon,
    harmless,
    kill,
    open_checked,
    published,
    random_operations,
    wait_until,
)
from tests.oracle import Base, evaluate

ROOT = Path(__file__).parents[1]


def resume(spark: Any, directory: Path, base: Base, partitions: int = 3, **functions: Any) -> Checked:
    """The session in a directory, which must stand where the oracle's model does."""
    runtime = livelog.Spark(spark, partitions=partitions)
    session = livelog.resume(directory, runtime, functions=functions or {"touch": harmless})
    try:
        return Checked(session, {}, base)
    except BaseException:
        session.close()
        raise


class Snapshots:
    """Copies of a session's directory, made when the driver is about to send a step or has just done so.

    What a killed driver leaves is the directory as it was at that moment.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path, into: Path) -> None:
        self.taken: dict[str, Path] = {}
        self.steps: set[str] = set()
        self._directory = directory
        self._into = into
        command, end, finish = Crew._command, Journal.end, Journal.finish_checkpoint

        def _command(crew: Crew, name: str, *arguments: Any) -> None:
            self.take(f"before {name}")
            command(crew, name, *arguments)
            self.take(f"after {name}")

        def _end(journal: Journal, number: int, committed: bool) -> None:
            self.take("before the outcome")
            end(journal, number, committed)
            self.take("after the outcome")

        def _finish(journal: Journal, *arguments: Any) -> Any:
            self.take("before the manifest")
            made = finish(journal, *arguments)
            self.take("after the manifest")
            return made

        monkeypatch.setattr(Crew, "_command", _command)
        monkeypatch.setattr(Journal, "end", _end)
        monkeypatch.setattr(Journal, "finish_checkpoint", _finish)

    def take(self, step: str) -> None:
        if step in self.steps and step not in self.taken:
            to = self._into / step.replace(" ", "-")
            shutil.copytree(self._directory, to, copy_function=_copy)
            self.taken[step] = to


def _copy(source: str, target: str) -> None:
    """Copy a file, unless a worker has just renamed it."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


# --- killed at a certain place -------------------------------------------------------------------------------


def test_killed_at_any_step_of_a_transaction(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was logged before any worker heard of it, so it is there after each of them."""
    directory = tmp_path / "session"
    snapshots = Snapshots(monkeypatch, directory, tmp_path)
    checked = open_checked(spark, directory)
    steps = ["before apply", "after begin", "before commit", "before the outcome", "after the outcome"]
    with checked.session:
        checked.runtime.follow("reach", True)
        checked.transact(("insert", "link", (7, 8)))
        snapshots.steps = set(steps)
        checked.transact(("delete", "link", (0, 1)), ("insert", "link", (9, 4)), ("advance", 3.0))
        base = checked.base.copy()
    assert sorted(snapshots.taken) == sorted(steps)
    for step in steps:
        again = resume(spark, snapshots.taken[step], base.copy())
        with again.session:
            assert published(again.session, "reach") == again.total["reach"], step
            again.transact(("insert", "link", (0, 1)))
            if step == "before commit":
                kill(again.runtime.pids[1])
                again.transact(("delete", "link", (9, 4)))
            assert published(again.session, "reach") == again.total["reach"], step


def test_a_log_that_lost_its_end(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused with the numbers that are missing, from Python and by the command; the loss can be accepted."""
    directory = tmp_path / "session"
    checked = open_checked(spark, directory)
    log = directory / "log" / "0.log"
    with checked.session:
        checked.runtime.follow("reach", True)
        checked.transact(("insert", "link", (7, 8)))
        size, base = log.stat().st_size, checked.base.copy()
        checked.transact(("delete", "link", (0, 1)))
        checked.transact(("insert", "link", (9, 4)))
        last = checked.runtime.journal.number
    with log.open("r+b") as file:
        file.truncate(size + 11)
    (directory / "acknowledged").unlink()  # the change files know it as well
    sentence = f"transactions {last - 1} to {last}, which {directory}/changes/reach/"
    with pytest.raises(livelog.RuntimeProblem, match=sentence):
        resume(spark, directory, base)
    with pytest.raises(livelog.RuntimeProblem, match="--accept-loss"):
        livelog.resume(directory, livelog.Spark(spark, partitions=3), functions={"touch": harmless})
    runtime = livelog.Spark(spark, partitions=3)
    session = livelog.resume(directory, runtime, functions={"touch": harmless}, accept_loss=True)
    again = Checked(session, {}, base)
    with session:
        assert again.runtime.journal.number == last
        again.transact(("delete", "link", (2, 3)))
        assert again.runtime._latest == last + 1
        assert published(session, "reach") == again.total["reach"], "what was lost is not published"


def test_a_disk_that_is_full(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller hears of it, the workers are those before, the session can be read, and goes on when there is room."""
    directory = tmp_path / "session"
    checked = open_checked(spark, directory)
    full = "No space left on device"
    with checked.session as session:
        checked.runtime.follow("reach", True)
        checked.transact(("insert", "link", (7, 8)))
        writer, number = checked.runtime.journal._writer, checked.runtime.journal.number
        real, room = writer.append, [0]

        def append(body: bytes) -> None:
            room[0] -= 1
            if room[0] < 0:
                raise livelog.RuntimeProblem(f"cannot write to {writer.path}: {full}")
            real(body)

        with monkeypatch.context() as patch:
            patch.setattr(writer, "append", append)
            for left in (0, 1):  # for nothing, and for the transaction but not for its outcome
                room[0] = left
                outcome = "the transaction was not begun" if not left else "rolled back; the session can be read"
                checked.refuse(outcome, ("insert", "link", (9, 4)), ("delete", "link", (0, 1)))
            room[0] = 1
            with pytest.raises(livelog.RuntimeProblem, match=full):
                checked.runtime.follow("degree", True)
            assert list(session["reach"]) and checked.runtime.generation == 1
            assert checked.runtime.journal.number == number
            shutil.copytree(directory, tmp_path / "copy")
        checked.runtime.follow("degree", True)
        checked.transact(("insert", "link", (9, 4)))
        assert checked.runtime.generation == 1
        for view in ("reach", "degree"):
            assert published(session, view) == checked.total[view]
    again = resume(spark, tmp_path / "copy", copied(checked.base, ("insert", "link", (9, 4))))
    again.session.close()


def copied(base: Base, *undone: Any) -> Base:
    """A model without its last insertions."""
    base = base.copy()
    base.apply([("delete", relation, row) for _, relation, row in undone])
    return base


def test_killed_during_a_checkpoint(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "session"
    snapshots = Snapshots(monkeypatch, directory, tmp_path)
    checked = open_checked(spark, directory)
    steps = ["before checkpoint", "after checkpoint", "before the manifest", "after the manifest"]
    with checked.session as session:
        checked.transact(("insert", "link", (7, 8)))
        session.checkpoint()
        checked.transact(("delete", "link", (0, 1)), ("advance", 2.0))
        snapshots.steps = set(steps)
        session.checkpoint()
        base = checked.base.copy()
    assert sorted(snapshots.taken) == sorted(steps)
    for partitions, step in enumerate(steps, 1):
        again = resume(spark, snapshots.taken[step], base.copy(), partitions=min(partitions, 3))
        with again.session:
            again.transact(("insert", "link", (0, 1)))
            again.session.checkpoint()
            if step == "before the manifest":
                kill(again.runtime.pids[0])
                again.verify()


def test_another_number_of_partitions_each_time(spark: Any, tmp_path: Path) -> None:
    """By the log alone, by a checkpoint alone, by both, with rows that Spark's tasks pushed."""
    directory = tmp_path / "session"
    rng = random.Random(4)
    checked = open_checked(spark, directory, partitions=3)
    checked.transact(*random_operations(rng))
    checked._note(checked.total, checked.session.load("node", spark.createDataFrame([(20,), (21,)], "x long")))
    checked.base.load({"node": [(20,), (21,)]})
    checked.verify()
    abandon(checked.session)
    for partitions in (2, 1, 3, 2):
        checked = resume(spark, directory, checked.base, partitions)
        assert checked.session.partitions == partitions
        checked.transact(*random_operations(rng))
        if partitions != 1:
            checked.session.checkpoint()
        checked.transact(*random_operations(rng), ("delete", "node", (20 + partitions % 2,)))
        abandon(checked.session)


def test_followed_views_keep_their_partitions(spark: Any, tmp_path: Path) -> None:
    """Their changes are in files by partition. Whatever number is allowed, nothing is published twice."""
    directory = tmp_path / "session"
    checked = open_checked(spark, directory, partitions=3)
    checked.transact(("insert", "link", (7, 8)))
    abandon(checked.session)
    checked = resume(spark, directory, checked.base, 2)
    checked.runtime.follow("reach", True)
    checked.transact(("delete", "link", (0, 1)))
    abandon(checked.session)
    with pytest.raises(livelog.UsageProblem, match="go on with as many"):
        resume(spark, directory, checked.base, 3).session.close()
    checked = resume(spark, directory, checked.base, 2)
    with checked.session:
        checked.transact(("insert", "link", (9, 2)))
        assert published(checked.session, "reach") == checked.total["reach"]


def test_a_transaction_under_way_that_fails(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver did not live to log that: the next one does."""
    directory = tmp_path / "session"
    program = datalog.parse(".decl n(x: number)\n.output r\nr(x, y) :- n(x), y = 10 / x.", "fails.dl")
    snapshots = Snapshots(monkeypatch, directory, tmp_path)
    runtime = livelog.Spark(spark, partitions=2, checkpoint=directory)
    with livelog.open(program, facts={"n": [(1,), (5,)]}, runtime=runtime) as session:
        snapshots.steps = {"before begin"}
        checked = Checked(session, {"n": [(1,), (5,)]})
        checked.refuse("division by zero", ("insert", "n", (0,)), ("insert", "n", (2,)))
    runtime = livelog.Spark(spark, partitions=2)
    with livelog.resume(snapshots.taken["before begin"], runtime) as session:
        again = Checked(session, {}, checked.base)
        assert any("rolled back" in notice for notice in again.runtime.notices)
        assert session.rerun is None
        again.transact(("insert", "n", (2,)))
        kill(again.runtime.pids[0])
        again.verify()


def test_a_transaction_under_way_tells_its_changes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "session"
    snapshots = Snapshots(monkeypatch, directory, tmp_path)
    with open_checked(spark, directory).session as session:
        snapshots.steps = {"before begin"}
        with session.transaction() as tx:
            tx.delete("link", (4, 5))
        lost = tx.changes["reach"].deleted
    assert lost
    directory = snapshots.taken["before begin"]
    with livelog.resume(directory, livelog.Spark(spark, partitions=3), functions={"touch": harmless}) as session:
        assert session.rerun is not None
        assert sorted(session.rerun[1]["reach"].deleted) == sorted(lost)


# --- killed at random ----------------------------------------------------------------------------------------

DRIVER = r"""
import random, sys
from pathlib import Path
from livelog.runtime.spark.start import start_spark
from tests.harness import apply
from tests.kills import open_checked, random_operations

directory, seed, partitions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
checked = open_checked(start_spark(None, partitions), directory, partitions=partitions, every=4)
rng = random.Random(seed)
while True:
    with checked.session.transaction() as tx:
        apply(tx, random_operations(rng))
    print("done", flush=True)
"""


@pytest.mark.parametrize("seed", range(int(os.environ.get("LIVELOG_KILLS", "1"))))
def test_the_driver_is_killed(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"driver {seed}")
    directory, partitions = tmp_path / "session", rng.choice([2, 3])
    command = [sys.executable, "-c", DRIVER, str(directory), str(seed), str(partitions)]
    with (tmp_path / "errors").open("wb") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT)
    assert child.stdout is not None
    wanted, acknowledged = rng.randint(3, 15), 0
    try:
        for line in child.stdout:
            assert line == b"done\n"
            acknowledged += 1
            if acknowledged == wanted:
                time.sleep(rng.random() * 0.1)
                os.kill(child.pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
    assert acknowledged >= wanted, (tmp_path / "errors").read_text()[-2000:]
    program = datalog.check(datalog.parse(PROGRAM), functions={"touch": harmless})
    base = Base(program)
    base.load(FACTS)
    operations = random.Random(seed)
    for _ in range(acknowledged):
        base.apply(random_operations(operations))
    later = base.copy()
    later.apply(random_operations(operations))
    runtime = livelog.Spark(spark, partitions=rng.choice([1, 2, 3]))
    with livelog.resume(directory, runtime, functions={"touch": harmless}) as session:
        views = {view: set(session[view]) for view in session.plan.outputs}
        logged = session._runtime._latest  # the load, checkpoints (at most) and transactions
        stands = [b for b in (base, later) if all(set(evaluate(program, b.facts())[v]) == views[v] for v in views)]
        assert stands, f"after {acknowledged} acknowledged transactions, {logged} in the log"
        links = set(session["link"])
        stands = [b for b in stands if set(b.facts()["link"]) == links]
        assert stands, "the facts are not those of a state"
        checked = Checked(session, {}, stands[0])
        for _ in range(3):
            checked.transact(*random_operations(rng))
        kill(checked.runtime.pids[0])
        checked.transact(*random_operations(rng))


# --- what is wrong with the directory ------------------------------------------------------------------------


def test_a_torn_tail_is_cut(spark: Any, tmp_path: Path) -> None:
    """Any number of bytes may be missing at the end where a machine stopped: what stands before them is there.

    What somebody was told of must not be missing: then the log has been damaged since.
    """
    directory = tmp_path / "session"
    rng = random.Random(5)
    checked = open_checked(spark, directory)
    stands = {1: checked.base.copy()}
    with checked.session as session:
        for _ in range(2):
            checked.transact(*random_operations(rng))
            stands[session._runtime.journal.number] = checked.base.copy()
        session.checkpoint()
        stands[session._runtime.journal.number] = checked.base.copy()
        for _ in range(4):
            checked.transact(*random_operations(rng))
            stands[session._runtime.journal.number] = checked.base.copy()
    whole = max(stands)
    reached = set()
    for cut in (1, 13, 30, 75, 10_000):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(directory, copy)
        newest = max((copy / "log").glob("*.log"), key=lambda p: int(p.stem))
        size = newest.stat().st_size
        os.truncate(newest, max(16, size - cut))
        runtime = livelog.Spark(spark, partitions=3)  # another number would make a checkpoint, and number that
        if cut == 30:
            with pytest.raises(livelog.RuntimeProblem, match="its end is missing, with transaction"):
                livelog.resume(copy, runtime, functions={"touch": harmless})
        (copy / "acknowledged").unlink()
        with livelog.resume(copy, runtime, functions={"touch": harmless}) as session:
            number = session._runtime.journal.number
            reached.add(number)
            again = Checked(session, {}, stands[number].copy())
            again.transact(*random_operations(rng))
            base = again.base
        if cut == 30:
            again = resume(spark, copy, base)  # and the cut log is a good one
            again.session.close()
    assert max(reached) == whole and len(reached) >= 3


def test_a_damaged_middle_refuses(spark: Any, tmp_path: Path) -> None:
    directory = tmp_path / "session"
    checked = open_checked(spark, directory)
    with checked.session:
        for i in range(5):
            checked.transact(("insert", "link", (i, i + 7)))
    log = directory / "log" / "0.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x10
    log.write_bytes(data)
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file() and p.name != "lock"}
    with pytest.raises(livelog.LivelogError, match=r"0\.log") as caught:
        resume(spark, directory, checked.base)
    assert "\n" not in caught.value.message
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file() and p.name != "lock"} == before
    log.unlink()
    with pytest.raises(livelog.LivelogError, match=r"0\.log.*missing"):
        resume(spark, directory, checked.base)


def test_a_second_driver(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "session"
    checked = open_checked(spark, directory, partitions=1)
    with checked.session:
        with pytest.raises(livelog.UsageProblem, match=f"already open in process {os.getpid()}"):
            resume(spark, directory, checked.base, 1)
        assert main(["resume", str(directory)]) == 1
        assert re.fullmatch(r"error: the session in .* is already open in process .*\n", capsys.readouterr().err)
        checked.transact(("insert", "link", (7, 8)))
        assert json.loads((directory / "running.json").read_bytes())["pid"] == os.getpid()
    with pytest.raises(livelog.UsageProblem, match="already holds a session"):
        open_checked(spark, directory)


def test_no_session(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(livelog.UsageProblem, match="there is no session in"):
        livelog.resume(tmp_path, livelog.Spark(spark))
    assert main(["resume", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"error: there is no session in {tmp_path}\n"
    assert main(["resume", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_who_was_about_to_follow_was_not_told(spark: Any, tmp_path: Path) -> None:
    """So the view is not followed, and can be from here on: its changes add up then."""
    directory = tmp_path / "session"
    session = open_checked(spark, directory, partitions=1).session
    view = session.views[0]
    session._runtime.journal.begin((), follow=view)  # and the driver is no more
    session.close()
    session = livelog.resume(directory, livelog.Spark(spark, partitions=1), functions={"touch": harmless})
    runtime = session._runtime
    assert view not in runtime.journal.follows and runtime.journal.waiting is None
    (first,) = session.changes(view, name="reader")
    assert first.inserted == list(session[view]) and not first.deleted
    session.close()


# --- the command ---------------------------------------------------------------------------------------------

REACH = """
.decl link(a: symbol, b: symbol)
.output reach
reach(x, y) :- link(x, y).
reach(x, y) :- reach(x, z), link(z, y).
"""


def written(folder: Path, transactions: int) -> tuple[Path, Path]:
    """A program and an update script of so many transactions."""
    (folder / "reach.dl").write_text(REACH)
    rng = random.Random(6)
    lines = []
    for i in range(transactions):
        lines += [f"// number {i + 1}", f'+link("n{rng.randrange(9)}", "n{rng.randrange(9)}")']
        lines += [f'-link("n{rng.randrange(9)}", "n{rng.randrange(9)}")', f"@{i}", ""]
    (folder / "updates.txt").write_text("\n".join(lines))
    return folder / "reach.dl", folder / "updates.txt"


def locally(program: Path, updates: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """What the local runtime prints for the same."""
    assert main(["run", str(program), "--updates", str(updates), *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_command_goes_on_with_the_script(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, updates = written(tmp_path, 8)
    expected = locally(program, updates, capsys, "--format", "json", "-D", "-")
    directory = tmp_path / "session"
    snapshots = Snapshots(monkeypatch, directory, tmp_path)
    over = ["--runtime", "spark", "--partitions", "2", "--checkpoint", str(directory)]
    journals: list[int] = []
    begin = Journal.begin

    def counted(journal: Journal, *arguments: Any, **options: Any) -> Any:
        entry = begin(journal, *arguments, **options)
        journals.append(entry.number)
        if len(journals) == 5:  # the load and four transactions
            snapshots.steps = {"before apply", "after the outcome"}
        return entry

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "begin", counted)
        assert main(["run", str(program), "--updates", str(updates), "--format", "json", "-D", "-", *over]) == 0
    assert capsys.readouterr().out.splitlines() == expected
    # killed in the middle of the fourth: that one is run, told, and then the rest
    monkeypatch.chdir(tmp_path / "before-apply")
    assert main(["resume", ".", "--format", "json", "-D", "-"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == expected[3:]
    assert err == ""
    # killed after the fourth: the rest, with another number of partitions
    assert main(["resume", str(tmp_path / "after-the-outcome"), "--format", "json", "--partitions", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == expected[4:-1]
    # nothing is left: the views
    assert main(["resume", str(tmp_path / "after-the-outcome"), "--format", "json"]) == 0
    assert capsys.readouterr().out.splitlines() == expected[-1:]
    assert main(["resume", str(tmp_path / "after-the-outcome"), "-D", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out" / "reach.csv").read_text().count("\n") == len(json.loads(expected[-1])["rows"])
    # the script has grown
    with updates.open("a") as file:
        file.write('\n\n+link("z", "zz")\n')
    assert main(["resume", str(tmp_path / "after-the-outcome")]) == 0
    text = capsys.readouterr().out
    assert "// transaction 9 (" in text and '+reach("z", "zz")' in text and "// transaction 8" not in text


def test_the_command_with_another_script(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, updates = written(tmp_path, 3)
    directory = tmp_path / "session"
    over = ["--runtime", "spark", "--partitions", "2", "--checkpoint", str(directory)]
    assert main(["run", str(program), "--updates", str(updates), *over]) == 0
    more = tmp_path / "more.txt"
    more.write_text('+link("a", "b")\n\n+link("c", "d")\n\n+link("bad")\n')
    capsys.readouterr()
    assert main(["resume", str(directory), "--updates", str(more), "--format", "csv"]) == 1
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if "reach" in line] == ["1,+,reach,a,b", "2,+,reach,c,d"]
    assert "more.txt:5" in err
    more.write_text('+link("a", "b")\n\n+link("c", "d")\n\n+link("e", "f")\n')  # mended: two of it were applied
    assert main(["resume", str(directory), "--updates", str(more), "--format", "csv"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "reach" in line] == ["3,+,reach,e,f"]
    updates.unlink()
    assert main(["resume", str(directory)]) == 2
    assert "is not there: name one with --updates" in capsys.readouterr().err
    assert main(["resume", str(directory), "--master", "locl[3]"]) == 2
    assert "--master: 'locl[3]' is not a Spark master" in capsys.readouterr().err


def test_functions_in_python_are_not_stored(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "session"
    open_checked(spark, directory, partitions=1).session.close()
    assert main(["resume", str(directory)]) == 1
    err = capsys.readouterr().err
    assert "touch" in err and "--functions FILE.py" in err


def test_constants_are_those_of_the_session(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ".const k = 2\n.decl n(x: number)\n.output big\nn(1). n(3). n(5).\nbig(x) :- n(x), x > k.\n"
    (tmp_path / "p.dl").write_text(text)
    over = ["--runtime", "spark", "--partitions", "1", "--checkpoint", str(tmp_path / "session")]
    assert main(["run", str(tmp_path / "p.dl"), "--set", "k=4", "--format", "csv", *over]) == 0
    first = capsys.readouterr().out
    (tmp_path / "p.dl").unlink()
    assert main(["resume", str(tmp_path / "session"), "--format", "csv"]) == 0
    assert capsys.readouterr().out == first == "big,5\n"


def test_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Processes of their own: one is killed while it reads its script, the other one goes on, and says nothing else."""
    program, updates = written(tmp_path, 400)
    expected = [json.loads(line) for line in locally(program, updates, capsys, "--format", "json", "-D", "-")]
    command = [sys.executable, "-m", "livelog"]
    options = ["--updates", str(updates), "--runtime", "spark", "--checkpoint", str(tmp_path / "session")]
    first = subprocess.Popen(
        [*command, "run", str(program), "--format", "json", *options], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert first.stdout is not None
    told = []
    try:
        for line in first.stdout:
            with contextlib.suppress(ValueError):  # killed in the middle of a line
                told.append(json.loads(line))
            if len(told) == 20:
                first.kill()
    finally:
        first.kill()
        first.wait()
    assert 20 <= len(told) < 400, "it was not killed in the middle"
    wait_until(lambda: not _running(tmp_path / "session"))
    second = subprocess.run(
        [*command, "resume", str(tmp_path / "session"), "--format", "json", "-D", "-"], capture_output=True, cwd=ROOT,
        timeout=300, check=False,
    )  # fmt: skip
    assert (second.returncode, second.stderr) == (0, b"")
    rest = [json.loads(line) for line in second.stdout.splitlines()]
    assert told == expected[: len(told)]
    assert rest == expected[-len(rest) :]
    # one may have been committed and not told
    assert len(told) + len(rest) in (len(expected), len(expected) - 1)


def _running(directory: Path) -> bool:
    """Whether a driver still holds the session."""
    import fcntl

    with (directory / "lock").open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
