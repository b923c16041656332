"""Sessions that are kept in a folder, on the command line: `run` and `repl --store`, `resume`, `changes`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import UsageProblem
from livelog.cli import main
from livelog.commands.changes import _whole
from livelog.store.followers import Follower, forget, marks
from livelog.store.layout import Layout
from livelog.store.marks import read_mark

ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "", "PYTHONUNBUFFERED": ""}
PATIENCE = 60.0

REACH = """\
.decl link(src: symbol, dst: symbol)
.input link
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""
UPDATES = '+link("c", "d")\n\n-link("b", "c")\n\n@2.5\n+link("e", "f")\n'

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "u.txt").write_text(UPDATES)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.facts").write_text("a\tb\nb\tc\n")
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


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Commands in processes of their own, which end with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*args: str, **more: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "livelog", *args], cwd=place, env=ENV, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **more,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def records(*texts: str) -> list[Any]:
    return [json.loads(line) for text in texts for line in text.splitlines()]


def numbers(*texts: str) -> list[int]:
    return [record["transaction"] for record in records(*texts)]


def script(first: int, last: int) -> str:
    """A script of which each transaction changes the view; the links of each are its own."""
    return "".join(f'+link("x{i}", "y{i}")\ncommit\n' for i in range(first, last + 1))


# --- going on ----------------------------------------------------------------------------------------------------


def test_the_same_command_applies_what_is_left(call: Call, place: Path) -> None:
    command = ("run", "reach.dl", "-F", "data", "--store", "st", "--updates", "u.txt")
    code, out, err = call(*command)
    assert (code, err) == (0, "")
    assert out.startswith('// start: 3 tuples in 1 view\n\n// transaction 1 (u.txt:1): 3 changes\n+reachable("a", "d")')
    assert "// transaction 3 (u.txt:5-6, clock 2.5): 1 change\n" in out
    stands = "st goes on after transaction 3, with 3 transactions of u.txt applied; no facts are read again\n"
    assert call(*command) == (0, f"// {stands}// start: 3 tuples in 1 view\n\n", "")
    with (place / "u.txt").open("a") as file:
        file.write('\n+link("f", "g")\n')
    code, out, err = call(*command, "--format", "json")
    assert (code, err) == (0, f"livelog: {stands}")
    (record,) = records(out)
    assert (record["transaction"], record["clock"]) == (4, 2.5)
    assert call(*command, "--format", "csv")[:2] == (0, "")


def test_no_facts_are_read_again(call: Call, place: Path) -> None:
    assert call("run", "reach.dl", "-F", "data", "--store", "st")[0] == 0
    (place / "data" / "link.facts").write_text("this is\tnot\tread\n")
    code, out, err = call("run", "reach.dl", "-F", "data", "--store", "st", "-D", "out")
    assert (code, out, err) == (0, "// st goes on after transaction 0; no facts are read again\n", "")
    assert (place / "out" / "reachable.csv").read_text() == "a\tb\na\tc\nb\tc\n"


def test_several_scripts_and_feeds_without_a_position(call: Call, place: Path) -> None:
    (place / "v.txt").write_text('+link("v", "w")\n')
    store = ("--store", "st", "--format", "json")
    assert numbers(call("run", "reach.dl", "--updates", "u.txt", *store)[1]) == [1, 2, 3]
    assert numbers(call("run", "reach.dl", "--updates", "v.txt", *store)[1]) == [4]
    assert numbers(call("run", "reach.dl", "--updates", str(place / "u.txt"), *store)[1]) == []
    assert numbers(call("run", "reach.dl", "--updates", "v.txt", "--commit-every", "line", *store)[1]) == [5]
    assert numbers(call("run", "reach.dl", "--updates", "v.txt", "--on-error", "skip", *store)[1]) == [6]
    with livelog.resume("st") as session:
        assert [session.position(str(place / name)) for name in ("u.txt", "v.txt")] == [3, 1]


def test_initial_shows_the_views_as_they_are(call: Call) -> None:
    command = ("run", "reach.dl", "-F", "data", "--store", "st", "--updates", "u.txt", "--initial", "--format", "json")
    first, again = records(call(*command)[1]), records(call(*command)[1])
    assert [r["transaction"] for r in first] == [0, 1, 2, 3] and [r["transaction"] for r in again] == [3]
    assert again[0]["changes"]["reachable"]["inserted"] == [["a", "b"], ["c", "d"], ["e", "f"]]


def test_a_script_that_became_shorter_is_told(call: Call, place: Path) -> None:
    command = ("run", "reach.dl", "--store", "st", "--updates", "u.txt", "--format", "json")
    call(*command)
    (place / "u.txt").write_text('+link("p", "q")\n')
    code, out, err = call(*command)
    assert (code, out) == (0, "")
    assert "warning: u.txt has 1 transaction, and the session has applied 3 of it: is it another script?\n" in err


def test_a_transaction_that_fails_is_tried_again(call: Call, place: Path) -> None:
    (place / "u.txt").write_text('+link("c", "d")\n\n+link("e")\n\n+link("f", "g")\n')
    command = ("run", "reach.dl", "--store", "st", "--updates", "u.txt")
    for _ in range(2):
        code, _, err = call(*command)
        assert code == 1
        assert "note: 1 transaction applied; the next one (u.txt:3) was not, nor any after it\n" in err
    (place / "u.txt").write_text('+link("c", "d")\n\n+link("e", "f")\n\n+link("f", "g")\n')
    code, out, _ = call(*command)
    assert code == 0 and "// transaction 2 (u.txt:3)" in out and "// transaction 3 (u.txt:5)" in out


# --- killed ------------------------------------------------------------------------------------------------------


SLOW = """\
import os, time
def slow(x):
    while x == "x8" and not os.path.exists("go"):
        time.sleep(0.01)
    return x
"""


@pytest.mark.parametrize("sync", ["always", "interval"])
@pytest.mark.parametrize("again", ["run", "resume"])
def test_killed_in_the_middle_of_a_script(again: str, sync: str, place: Path, start: Any, call: Call) -> None:
    """A function waits in the eighth transaction, so it is certain where the command is when it is killed."""
    (place / "slow.dl").write_text(".decl link(a: symbol, b: symbol)\nr(x, y) :- link(a, y), x = slow(a).\n")
    (place / "slow.py").write_text(SLOW)
    (place / "u.txt").write_text(script(1, 20))
    functions = ("--functions", "slow.py", "--format", "json")
    command = ("run", "slow.dl", "--store", "st", "--sync", sync, "--updates", "u.txt", *functions)
    first = start(*command)
    told = "".join(first.stdout.readline() for _ in range(7))
    wait_until(lambda: read_mark(place / "st" / "acknowledged") == 7)
    first.kill()
    first.wait()
    (place / "go").touch()
    code, out, err = call(*(command if again == "run" else ("resume", "st", *functions)))
    assert code == 0 and err.startswith("livelog: st goes on after transaction 7, with 7 transactions of ")
    assert numbers(told, out) == list(range(1, 21))
    assert [r["changes"]["r"]["inserted"] for r in records(told, out)] == [[[f"x{i}", f"y{i}"]] for i in range(1, 21)]
    assert numbers(call("changes", "st", "r", "--format", "json")[1]) == list(range(1, 21))


def test_a_pipe_has_no_position(place: Path, start: Any) -> None:
    """It cannot be read again: what comes through it the next time is something else."""
    os.mkfifo(place / "pipe")
    for number in (1, 2):
        run = start("run", "reach.dl", "--store", "st", "--updates", "pipe", "--format", "json")
        (place / "pipe").write_text(script(number, number))
        out, _ = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0 and numbers(out) == [number]


def test_killed_anywhere(place: Path, start: Any, call: Call) -> None:
    """Wherever that was: no transaction is told twice, and the changes that are kept have all of them."""
    (place / "u.txt").write_text(script(1, 300))
    command = ("run", "reach.dl", "--store", "st", "--updates", "u.txt", "--format", "json")
    told = ""
    for lines in (1, 40, 90):
        process = start(*command)
        told += "".join(process.stdout.readline() for _ in range(lines))
        process.kill()
        rest = process.stdout.read()  # not communicate(): it passes by what has been read ahead
        told += rest[: rest.rfind("\n") + 1]
    code, out, _ = call(*command)
    found = numbers(told, out)
    assert code == 0 and found == sorted(set(found)) and found[-1] == 300
    kept = records(call("changes", "st", "reachable", "--format", "json")[1])
    assert [r["transaction"] for r in kept] == list(range(1, 301))
    assert [r["changes"]["reachable"]["inserted"] for r in kept] == [[[f"x{i}", f"y{i}"]] for i in range(1, 301)]


# --- resume ------------------------------------------------------------------------------------------------------


def test_resume_shows_the_views_where_nothing_is_left(call: Call, place: Path) -> None:
    call("run", "reach.dl", "-F", "data", "--store", "st")
    code, out, err = call("resume", "st")
    assert (code, err) == (0, "")
    assert out.startswith("// st goes on after transaction 0\n---------------\nreachable\n")
    assert call("resume", "st", "--format", "csv")[1] == "reachable,a,b\nreachable,a,c\nreachable,b,c\n"
    code, out, _ = call("resume", "st", "--updates", "u.txt", "-D", "out")
    assert code == 0 and "// transaction 1 (u.txt:1): 3 changes\n" in out
    assert (place / "out" / "reachable.csv").read_text() == "a\tb\nc\td\ne\tf\n"


def test_the_script_is_not_forgotten_by_who_opens_the_session_without_one(call: Call, place: Path) -> None:
    call("run", "reach.dl", "--store", "st", "--updates", "u.txt")
    call("run", "reach.dl", "--store", "st")
    with (place / "u.txt").open("a") as file:
        file.write('\n+link("f", "g")\n')
    assert numbers(call("resume", "st", "--format", "json")[1]) == [4]


def test_functions_are_named_again(call: Call, place: Path) -> None:
    (place / "f.dl").write_text(".decl n(x: number)\ntwice(x, y) :- n(x), y = double(x).\n")
    text = "import threading\nlock = threading.Lock()\ndef double(x):\n    with lock:\n        return 2 * x\n"
    (place / "f.py").write_text(text)
    (place / "n.txt").write_text("+n(1)\n")
    command = ("run", "f.dl", "--functions", "f.py", "--store", "st", "--updates", "n.txt")
    assert call(*command)[0] == 0
    code, _, err = call("resume", "st")
    assert code == 1 and "unknown function `double`" in err
    assert "functions in Python are not stored with a session: --functions FILE.py names the file" in err
    (place / "n.txt").write_text("+n(1)\n\n+n(2)\n")
    code, out, err = call("resume", "st", "--functions", "f.py")
    assert (code, err) == (0, "") and "+twice(2, 4)" in out


def test_a_loss_is_accepted(call: Call, place: Path) -> None:
    call("run", "reach.dl", "--store", "st", "--updates", "u.txt")
    log = place / "st" / "log" / "0.log"
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-5])
    for command in (("resume", "st"), ("run", "reach.dl", "--store", "st", "--updates", "u.txt")):
        code, _, err = call(*command)
        assert code == 1 and "its end is missing, with transaction 3" in err and "--accept-loss" in err
    code, out, _ = call("resume", "st", "--accept-loss", "--format", "json")
    assert code == 0 and numbers(out) == [4]  # it is applied again, under a number that nobody has seen


# --- changes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(call: Call) -> Call:
    call("run", "reach.dl", "-F", "data", "--store", "st", "--updates", "u.txt")
    return call


TEXT = """\
// transaction 0: 3 changes
+reachable("a", "b")
+reachable("a", "c")
+reachable("b", "c")

// transaction 1: 3 changes
+reachable("a", "d")
+reachable("b", "d")
+reachable("c", "d")

// transaction 2: 4 changes
-reachable("a", "c")
-reachable("a", "d")
-reachable("b", "c")
-reachable("b", "d")

// transaction 3: 1 change
+reachable("e", "f")

"""


def test_formats(kept: Call) -> None:
    assert kept("changes", "st", "reachable") == (0, TEXT, "")
    found = records(kept("changes", "st", "reachable", "--since", "1", "--format", "json")[1])
    assert found[1] == {"transaction": 3, "changes": {"reachable": {"inserted": [["e", "f"]], "deleted": []}}}
    assert len(found) == 2
    assert kept("changes", "st", "reachable", "--since", "2", "--format", "csv") == (0, "3,+,reachable,e,f\n", "")
    assert kept("changes", "st", "reachable", "--since", "3") == (0, "", "")
    assert kept("changes", "st", "reachable", "--since", "9" * 30) == (0, "", "")


def test_the_text_is_an_update_script(kept: Call, place: Path) -> None:
    (place / "copy.dl").write_text(".decl reachable(x: symbol, y: symbol)\nr(x, y) :- reachable(x, y).\n.output r\n")
    (place / "changes.txt").write_text(kept("changes", "st", "reachable")[1])
    found = records(kept("run", "copy.dl", "--updates", "changes.txt", "--format", "json")[1])
    assert [len(r["changes"]["r"]["inserted"]) for r in found] == [3, 3, 0, 1]


def test_a_name_goes_on_and_is_forgotten(kept: Call, place: Path) -> None:
    command = ("changes", "st", "reachable", "--name", "mailer", "--format", "json")
    assert numbers(kept(*command)[1]) == [0, 1, 2, 3], "what the session was opened with, and then its transactions"
    assert numbers(kept(*command)[1]) == []
    with (place / "u.txt").open("a") as file:
        file.write('\n+link("f", "g")\n')
    kept("run", "reach.dl", "--store", "st", "--updates", "u.txt")
    assert numbers(kept(*command)[1]) == [4]
    assert numbers(kept(*command, "--since", "2")[1]) == [3, 4]
    assert kept("changes", "st", "reachable", "--forget", "mailer") == (0, "", "")
    assert kept("changes", "st", "reachable", "--forget", "mailer") == (
        1, "", "error: nobody of the name 'mailer' follows `reachable`\n"
    )  # fmt: skip
    assert numbers(kept(*command)[1]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("nowhere", "reachable"), 2, "the session's directory 'nowhere' does not exist"),
        (("reach.dl", "reachable"), 2, "the session's directory 'reach.dl' is not a folder"),
        (("data", "reachable"), 1, "there is no session in "),
        (("", "reachable"), 2, "expected the name of a folder"),
        (("st", "rechable"), 1, "the changes of `rechable` are not kept in st (kept: reachable)\nnote: did you mean r"),
        (("st", "link"), 1, "the changes of `link` are not kept in st (kept: reachable)"),
        (("st", "../x"), 1, "the changes of `../x` are not kept in st"),
        (("st", "reachable", "--since", "-1"), 2, "expected the number of a transaction, not '-1'"),
        (("st", "reachable", "--since", "x"), 2, "expected the number of a transaction, not 'x'"),
        (("st", "reachable", "--name", ""), 2, "expected a name, not an empty text"),
        (("st", "reachable", "--forget", "a", "--follow"), 2, "--forget stands alone"),
        (("st", "reachable", "--folow"), 2, "--folow: did you mean --follow?"),
        (("st",), 2, "the following arguments are required: VIEW"),
    ],
)
def test_mistakes_of_changes(args: tuple[str, ...], code: int, said: str, kept: Call) -> None:
    found, out, err = kept("changes", *args)
    assert (found, out) == (code, "") and said in err


def test_what_is_kept_no_more_is_told(call: Call) -> None:
    with livelog.open("reach.dl", store="st") as session:
        for i in range(40):
            with session.transaction() as tx:
                tx.insert("link", (f"x{i}", f"y{i}"))
            if i in (20, 30):
                session.checkpoint()
    first = numbers(call("changes", "st", "reachable", "--format", "json")[1])[0]
    assert first > 1
    code, out, err = call("changes", "st", "reachable", "--since", "1")
    assert (code, out) == (1, "") and f"are kept from transaction {first - 1} on, not from 1" in err


def test_another_process_follows_while_the_session_runs(place: Path, start: Any, call: Call) -> None:
    """A follower with a name that is killed and started again has seen each transaction once: it had passed them."""
    run = start("run", "reach.dl", "--store", "st", "--updates", "-", "--commit-every", "line", stdin=subprocess.PIPE)
    wait_until(lambda: (place / "st" / "session.json").exists())

    def feed(i: int) -> None:
        run.stdin.write(f'+link("x{i}", "y{i}")\n')
        run.stdin.flush()

    command = ("changes", "st", "reachable", "--follow", "--name", "m", "--format", "json")
    told = ""
    for first in (1, 6, 11):
        follower = start(*command)
        for i in range(first, first + 5):
            feed(i)
            told += follower.stdout.readline()
        if first == 1:
            for wrong in (("--name", "m"), ("--forget", "m")):
                code, _, err = call("changes", "st", "reachable", *wrong)
                assert code == 1 and "'m'" in err and "follows `reachable`" in err
            code, _, err = call("run", "reach.dl", "--store", "st")
            assert code == 1 and f"is already open in process {run.pid} on " in err
        wait_until(lambda last=first + 4: read_mark(place / "st" / "followers" / "reachable" / "m") == last)
        follower.send_signal(signal.SIGKILL)
        follower.wait()
    assert numbers(told) == list(range(1, 16))


def test_ctrl_c_and_a_closed_pipe_end_a_follower(kept: Call, place: Path, start: Any) -> None:
    follower = start("changes", "st", "reachable", "--follow")
    assert "".join(follower.stdout.readline() for _ in TEXT.splitlines()) == TEXT
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=PATIENCE)
    assert (follower.returncode, err) == (130, "livelog: interrupted\n")

    follower = start("changes", "st", "reachable", "--follow", "--name", "m")
    assert "".join(follower.stdout.readline() for _ in TEXT.splitlines()) == TEXT
    follower.stdout.close()  # though there is nothing more to be written
    assert follower.wait(PATIENCE) == 141 and follower.stderr.read() == ""
    assert sorted(path.name for path in (place / "st" / "followers" / "reachable").iterdir()) == ["m"]


def test_what_nobody_has_read_is_not_passed(kept: Call, start: Any) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "livelog", "changes", "st", "reachable", "--name", "m"], env=ENV, stdout=writer,
        stderr=subprocess.PIPE, check=False, timeout=PATIENCE,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
    assert numbers(kept("changes", "st", "reachable", "--name", "m", "--format", "json")[1]) == [1, 2, 3]


def test_ctrl_c_waits_for_the_end_of_a_transaction(request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may have another
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    done = []
    with pytest.raises(KeyboardInterrupt), _whole():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    with pytest.raises(KeyboardInterrupt), _whole():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("not this")
    with _whole():
        done.append("undisturbed")
    assert done == ["all of it", "undisturbed"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_followers_and_their_marks(kept: Call) -> None:
    layout = Layout("st")
    for name in ("~", "~1", ".", "a/b", "é" * 300):
        Follower(layout, "reachable", name=name).close()
        assert marks(layout, "reachable") == [0]  # whatever it is called, it is one with a name
        assert forget(layout, "reachable", name) and not forget(layout, "reachable", name)
    reading = Follower(layout, "reachable", name="m")
    with pytest.raises(UsageProblem, match="follows `reachable` at this moment"):
        forget(layout, "reachable", "m")
    reading.close()
    assert forget(layout, "reachable", "m")
    with livelog.resume("st") as session, pytest.raises(UsageProblem, match="`since` is the number of a transaction"):
        session.changes("reachable", since=2**63)


# --- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("run", "reach.dl", "--store", "st", "--runtime", "spark"), 2, "over Spark, --checkpoint DIR keeps them"),
        (("run", "reach.dl", "--sync", "always"), 2, "--sync is for --store"),
        (("repl", "reach.dl", "--migrate"), 2, "--migrate is for --store"),
        (("run", "reach.dl", "--store", "reach.dl"), 2, "--store: 'reach.dl' is not a folder"),
        (("run", "reach.dl", "--store", "reach.dl/x"), 1, "for a session: Not a directory"),
        (("run", "reach.dl", "--store", ""), 2, "expected the name of a folder"),
        (("run", "reach.dl", "--store", "st", "--sync", "never"), 2, "invalid choice: 'never'"),
        (("run", "-e", "r(x) :- link(x, _).", "--store", "st"), 1, "is of another program (reach.dl; its text is anot"),
        (("resume", "st", "--partitions", "2"), 2, "--partitions is for sessions over Spark"),
        (("resume", "st", "--master", "local[2]"), 2, "--master is for sessions over Spark, and this one is not"),
        (("resume", "data"), 1, "there is no session in "),
        (("resume", "nowhere"), 2, "the session's directory 'nowhere' does not exist"),
        (("top", "st"), 1, "the session in 'st' is not over Spark, and only its own process looks into it; `livelog"),
        (("top", "nowhere"), 2, "the session's directory 'nowhere' does not exist"),
    ],
)
def test_mistakes(args: tuple[str, ...], code: int, said: str, kept: Call) -> None:
    found, out, err = kept(*args)
    assert (found, out) == (code, "") and said in err and "Traceback" not in err


def test_damage_is_told(kept: Call, place: Path) -> None:
    path = place / "st" / "session.json"
    path.write_text(path.read_text().replace("reachable", "reachible"))
    commands = (("run", "reach.dl", "--store", "st"), ("resume", "st"), ("changes", "st", "reachable"), ("top", "st"))
    for command in commands:
        code, out, err = kept(*command)
        assert (code, out) == (1, "") and "session.json" in err and "does not match its checksum" in err


def test_another_program_takes_over(kept: Call) -> None:
    other = ("run", "-e", "back(y, x) :- link(x, y).", "--store", "st", "--format", "csv")
    code, out, err = kept(*other, "--migrate")
    assert (code, out) == (0, "back,b,a\nback,d,c\nback,f,e\n")
    assert kept(*other)[0] == 0  # it is the folder's program now
    code, out, err = kept("changes", "st", "back", "--format", "csv")
    assert (code, out, err) == (0, "4,+,back,b,a\n4,+,back,d,c\n4,+,back,f,e\n", ""), "its views begin as they are"
    code, _, err = kept("run", "-e", "s(x) :- other(x).", "--store", "st", "--migrate")
    assert code == 1 and "the program has no relation `link` for the facts that are there" in err
    assert kept("resume", "st", "--format", "csv")[1] == "back,b,a\nback,d,c\nback,f,e\n"


# --- the repl ----------------------------------------------------------------------------------------------------


def repl(*args: str, given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "livelog", "repl", *args], input=given, env=ENV, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_the_repl_keeps_what_is_typed_in(call: Call) -> None:
    command = ("-e", REACH.replace(".input link\n", ""), "--store", "st")
    done = repl(*command, given='+link("a", "b")\nbegin\n+link("b", "c")\n')
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '+reachable("a", "b")\n1 update not committed, and forgotten\n'
    typed = '?reachable\nstats\nhelp\nnear(x) :- link("a", x).\nreachable(x, x) :- link(x, _).\n+link("b", "c")\n'
    done = repl(*command, given=typed)
    assert done.returncode == 1
    assert "error: `reachable` is a view of the session already" in done.stderr
    start, *_, one, two, three = done.stdout.splitlines()
    assert start == "// st goes on after transaction 1; no facts are read again"
    assert [one, two, three] == ["near: 1 tuple", '+reachable("a", "c")', '+reachable("b", "c")']
    assert "kept in st: transaction 1, checkpoint of 0\n" in done.stdout
    assert "this session is kept in st\n" in done.stdout
    assert numbers(call("changes", "st", "reachable", "--format", "json")[1]) == [1, 3]
    assert numbers(call("changes", "st", "near", "--format", "json")[1]) == [2]
    done = repl(*command, given="?near(x)\ndrop near\n?near(x)\n")
    assert done.stdout.splitlines()[1:] == ['x = "b"', "1 answer", "dropped"]
    assert "there is no relation near" in done.stderr
    code, out, _ = call("resume", "st", "--format", "csv")
    assert (code, out) == (0, "reachable,a,b\nreachable,a,c\nreachable,b,c\n")


def test_the_repl_is_refused_while_the_session_is_open(kept: Call) -> None:
    with livelog.resume("st"):
        done = repl("reach.dl", "--store", "st", given="")
        assert done.returncode == 1 and f"is already open in process {os.getpid()} on " in done.stderr
        assert numbers(kept("changes", "st", "reachable", "--format", "json")[1]) == [0, 1, 2, 3]


def test_ctrl_c_ends_a_run_in_order(place: Path, start: Any, call: Call) -> None:
    """Once or twice: what is committed is there, and the folder is free."""
    for number, times in ((1, 1), (2, 2)):
        run = start("run", "reach.dl", "--store", "st", "--updates", "-", "--commit-every", "line", "--format", "csv",
                    stdin=subprocess.PIPE)  # fmt: skip
        run.stdin.write(f'+link("p{number}", "q")\n')
        run.stdin.flush()
        assert run.stdout.readline() == f"{number},+,reachable,p{number},q\n"
        for _ in range(times):
            run.send_signal(signal.SIGINT)
        with suppress(BrokenPipeError):
            run.stdin.close()
        assert run.wait(PATIENCE) in (130, -signal.SIGINT)
        assert numbers(call("changes", "st", "reachable", "--format", "json")[1]) == list(range(1, number + 1))
