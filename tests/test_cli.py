"""The command line as a person meets it: mostly as a process of its own, with its exit code and both outputs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from datalog.errors import LivelogError
from livelog import open as open_session
from livelog.cli import main
from livelog.version import __version__
from operators.facts import Facts, PlainFacts

ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "", "PYTHONUNBUFFERED": ""}

REACH = """\
.decl link(src: symbol, dst: symbol)
.input link
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and its facts, to run in."""
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.facts").write_text("a\tb\nb\tc\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def livelog(*args: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "livelog", *args], input=input, env=ENV, capture_output=True, text=True, timeout=120
    )


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(place: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process, where its own process adds nothing to the test."""

    def run(*args: str) -> tuple[int, str, str]:
        try:
            code = main(args)
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


# --- run -----------------------------------------------------------------------------------------------------

BANNER = """\
---------------
reachable
x	y
===============
a	b
a	c
b	c
===============
"""


def test_run_once(place: Path) -> None:
    done = livelog("run", "reach.dl", "-F", "data")
    assert (done.returncode, done.stdout, done.stderr) == (0, BANNER, "")


def test_run_formats(call: Call) -> None:
    assert call("run", "reach.dl", "-F", "data", "-D", "-") == (0, BANNER, "")
    out = call("run", "reach.dl", "-F", "data", "--format", "csv")[1]
    assert out == "reachable,a,b\nreachable,a,c\nreachable,b,c\n"
    out = call("run", "reach.dl", "-F", "data", "--format", "json")[1]
    assert json.loads(out) == {
        "relation": "reachable", "columns": ["x", "y"], "rows": [["a", "b"], ["a", "c"], ["b", "c"]],
    }  # fmt: skip


def test_run_into_a_folder(place: Path, call: Call) -> None:
    assert call("run", "reach.dl", "-F", "data", "-D", "out/deep") == (0, "", "")
    assert (place / "out" / "deep" / "reachable.csv").read_text() == "a\tb\na\tc\nb\tc\n"


def test_facts_of_the_current_folder(place: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place / "data")
    assert call("run", "../reach.dl")[1] == BANNER
    # What .input does not name is only read from a folder that was named.
    (place / "no_input.dl").write_text(REACH.replace(".input link\n", ""))
    assert "a\tb" not in call("run", "../no_input.dl")[1]
    assert call("run", "../no_input.dl", "-F", ".")[1] == BANNER


def test_output_directives(place: Path, call: Call) -> None:
    (place / "p.dl").write_text(
        REACH + '.output reachable(filename="r.txt", delimiter="|", headers=true)\n.output link(IO=stdout)\n'
        ".printsize reachable\n"
    )
    code, out, _ = call("run", "p.dl", "-F", "data", "-D", "out")
    assert code == 0 and (place / "out" / "r.txt").read_text() == "x|y\na|b\na|c\nb|c\n"
    assert out == "---------------\nlink\nsrc\tdst\n===============\na\tb\nb\tc\n===============\nreachable\t3\n"


def test_printsize_alone(place: Path, call: Call) -> None:
    (place / "p.dl").write_text(REACH + ".printsize reachable\n")
    assert call("run", "p.dl", "-F", "data")[1] == "reachable\t3\n"
    (place / "u").write_text('+link("c", "d")\n')
    assert call("run", "p.dl", "-F", "data", "--updates", "u")[1].endswith("\nreachable\t6\n")


def test_limitsize(place: Path, call: Call) -> None:
    (place / "p.dl").write_text(REACH + ".limitsize reachable(n=3)\n")
    assert call("run", "p.dl", "-F", "data")[0] == 0
    (place / "u").write_text('+link("c", "d")\n')
    code, _, err = call("run", "p.dl", "-F", "data", "--updates", "u")
    assert code == 1 and "reachable has 4 tuples already, more than its .limitsize of 3" in err
    assert "0 transactions applied; transaction 1 (u:1) was not" in err


def test_constants(place: Path, call: Call) -> None:
    (place / "k.dl").write_text(".const k = 1\nn(1). n(2). n(3).\nbig(x) :- n(x), x > k.\n")
    assert call("run", "k.dl", "--format", "csv")[1] == "big,2\nbig,3\n"
    assert call("run", "k.dl", "--format", "csv", "--set", "k=2")[1] == "big,3\n"
    assert call("run", "k.dl", "--format", "csv", "--set", "k=2.5")[1] == "big,3\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--partitions", "3"],
        ["--strategy", "recompute"],
        ["--ship", "lazy"],
        ["--ship", "eager", "--partitions", "2"],
        ["--strategy", "dred"],
        ["--strategy", "dred", "--partitions", "3"],
        ["--strategy", "relative", "--ship", "eager", "--partitions", "2"],
    ],
    ids=" ".join,
)
def test_ways_to_evaluate(call: Call, options: list[str]) -> None:
    assert call("run", "reach.dl", "-F", "data", *options) == (0, BANNER, "")


# --- updates -------------------------------------------------------------------------------------------------

SCRIPT = """\
+link("c", "d")

-link("a", "b")     // gone
@12.5
commit
-link("x", "y")
"""
LOG = """\
// start: 3 tuples in 1 view

// transaction 1 (changes.txt:1): 3 changes
+reachable("a", "d")
+reachable("b", "d")
+reachable("c", "d")

// transaction 2 (changes.txt:3-4, clock 12.5): 3 changes
-reachable("a", "b")
-reachable("a", "c")
-reachable("a", "d")

// transaction 3 (changes.txt:6, clock 12.5): no changes

"""


def test_updates(place: Path) -> None:
    (place / "changes.txt").write_text(SCRIPT)
    done = livelog("run", "reach.dl", "-F", "data", "--updates", "changes.txt", "-D", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, LOG, "")
    assert (place / "out" / "reachable.csv").read_text() == "b\tc\nb\td\nc\td\n"


def test_updates_from_a_pipe(place: Path) -> None:
    done = livelog("run", "reach.dl", "-F", "data", "--updates", "-", input=SCRIPT)
    assert (done.returncode, done.stdout) == (0, LOG.replace("changes.txt", "<stdin>"))


def test_updates_are_answered_as_they_come(place: Path) -> None:
    """A transaction is answered when it ends, while the script goes on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "run", "reach.dl", "-F", "data", "--updates", "-", "--format", "json"],
        env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    for number in (1, 2):
        process.stdin.write(f'+link("c", "d{number}")\n\n')
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["transaction"] == number and len(answer["changes"]["reachable"]["inserted"]) == 3
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_change_log_formats(place: Path, call: Call) -> None:
    (place / "u").write_text('+link("c", "d, e")\n')
    base = ("run", "reach.dl", "-F", "data", "--updates", "u")
    assert call(*base, "--format", "csv")[1] == "".join(f'1,+,reachable,{x},"d, e"\n' for x in "abc")
    assert json.loads(call(*base, "--format", "json")[1]) == {
        "transaction": 1, "clock": 0.0,
        "changes": {"reachable": {"inserted": [[x, "d, e"] for x in "abc"], "deleted": []}},
    }  # fmt: skip
    out = call(*base, "--initial")[1]
    assert out.startswith('// transaction 0 (the facts): 3 changes\n+reachable("a", "b")\n')


def test_a_change_log_is_an_update_script(place: Path, call: Call) -> None:
    (place / "u").write_text(SCRIPT)
    (place / "log").write_text(call("run", "reach.dl", "-F", "data", "--updates", "u", "--initial")[1])
    (place / "next.dl").write_text(".decl reachable(x: symbol, y: symbol)\nfrom_b(y) :- reachable(\"b\", y).\n")
    assert call("run", "next.dl", "--updates", "log", "-D", "out")[0] == 0
    assert (place / "out" / "from_b.csv").read_text() == "c\nd\n"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("+link(1, 2)", "u:3: error: link(1, 2): column `src`"),
        ('+lnik("a", "b")', "u:3: error: the program has no relation `lnik`"),
        ('+reachable("a", "b")', "u:3: error: `reachable` is a view"),
        ('+link("a")', "u:3: error: `link` has 2 columns"),
        ("@-1", "u:3: error: the clock stands at 0 and cannot go back to -1"),
        ("oops", "u:3: error: a line starts with"),
    ],
)
def test_a_bad_update_stops_the_script(place: Path, call: Call, bad: str, message: str) -> None:
    (place / "u").write_text(f'+link("c", "d")\n\n{bad}\n\n+link("e", "f")\n')
    code, out, err = call("run", "reach.dl", "-F", "data", "--updates", "u")
    assert code == 1 and message in err and f"    3 | {bad}\n" in err
    assert "1 transaction applied; transaction 2" in err and "Traceback" not in err
    assert "transaction 1 (u:1): 3 changes" in out and '"f"' not in out


def test_a_failing_transaction_is_rolled_back(place: Path, call: Call) -> None:
    (place / "d.dl").write_text(".decl n(x: number)\nhalf(x, 10 / x) :- n(x).\n")
    (place / "u").write_text("+n(5)\n\n+n(2)\n+n(0)\n")
    code, out, err = call("run", "d.dl", "--updates", "u")
    assert code == 1 and "division by zero" in err and "half(x, 10 / x) :- n(x)." in err
    assert "1 transaction applied; transaction 2 (u:3-4) was not" in err
    assert "+half(5, 2)" in out and "half(2" not in out


# --- mistakes ------------------------------------------------------------------------------------------------


def test_program_errors(place: Path) -> None:
    (place / "bad.dl").write_text("r(x, y) :- s(x).\nt(x) :- t(x), !t(x).\n")
    done = livelog("run", "bad.dl")
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    assert "bad.dl:1:6: error: " in done.stderr and "\n      |      ^" in done.stderr


def test_fact_errors(place: Path, call: Call) -> None:
    (place / "data" / "link.facts").write_text("a\tb\na\n")
    code, _, err = call("run", "reach.dl", "-F", "data")
    assert code == 1 and err.startswith("data/link.facts:2: error: link has 2 columns (src, dst), but this line has 1")
    (place / "data" / "link.facts").unlink()
    code, _, err = call("run", "reach.dl", "-F", "data")
    assert code == 0 and "reach.dl:2:8: link is empty: " in err and "there is no data/link.facts, .csv or" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["rnu", "reach.dl"], "invalid choice: 'rnu'"),
        (["run"], "a program is needed"),
        (["run", "nope.dl"], "cannot read the program 'nope.dl': No such file"),
        (["run", "data"], "cannot read the program 'data': Is a directory"),
        (["run", "reach.dl", "-F", "nope"], "the facts folder 'nope' does not exist"),
        (["run", "reach.dl", "-F", "reach.dl"], "the facts folder 'reach.dl' is not a folder"),
        (["run", "reach.dl", "-F", "data", "--updates", "nope"], "cannot read the updates 'nope': No such file"),
        (["run", "reach.dl", "--partitions", "0"], "expected a whole number of at least 1"),
        (["run", "reach.dl", "--strategy", "magic"], "invalid choice: 'magic'"),
        (["run", "reach.dl", "--set", "k"], "expected NAME=VALUE"),
        (["run", "reach.dl", "--format", "xml"], "invalid choice: 'xml'"),
        (["check"], "a program is needed"),
    ],
)
def test_usage_errors(call: Call, args: list[str], message: str) -> None:
    code, out, err = call(*args)
    assert (code, out) == (2, "") and message in err and "Traceback" not in err


def test_help(call: Call) -> None:
    code, out, _ = call("help")
    assert code == 0 and out.startswith("usage: livelog [-h]") and "examples:" in out
    code, out, _ = call("help", "run")
    assert code == 0 and out.startswith("usage: livelog run") and "--updates" in out
    code, _, err = call("help", "rnu")
    assert code == 2 and "invalid choice: 'rnu'" in err


def test_a_wrong_flag_shows_the_usage_of_its_command(call: Call) -> None:
    code, out, err = call("run", "reach.dl", "--formt", "csv")
    assert (code, out) == (2, "") and err.startswith("usage: livelog run ")
    assert "livelog run: error: unrecognized arguments: --formt csv\n--formt: did you mean --format?" in err


def test_a_program_from_text_and_from_standard_input(call: Call) -> None:
    text = "big(x) :- n(x), x > 2. n(1). n(3)."
    want = call("run", "-e", text, "--format", "csv")
    assert want == (0, "big,3\n", "")
    done = subprocess.run([sys.executable, "-m", "livelog", "run", "-", "--format", "csv"], input=text, env=ENV,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "big,3\n")
    assert call("check", "-e", text)[1] == "<text>: no errors\n"
    code, _, err = call("check", "-e", "r(x) :- s(y).")
    assert code == 1 and err.startswith("<text>:1:3: error:")
    for arguments, message in (
        (["run", "reach.dl", "-e", text], "-e is the program: there cannot be a file, too"),
        (["run", "-", "--updates", "-"], "the program and the updates cannot both come from standard input"),
        (["repl", "-"], "standard input is for what you type"),
    ):
        code, _, err = call(*arguments)
        assert code == 2 and message in err


FUNCTIONS = """\
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Point:
    x: int

def step(x: int) -> int:
    return {1: 2, 2: 3}[Point(x).x]

def spread(values: list[int]) -> int:
    return max(values) - min(values)

def main() -> None: ...
"""


def test_functions_of_a_python_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FUNCTIONS)
    (tmp_path / "own.dl").write_text("next(x, step(x)) :- n(x).\nwide(spread<x>) :- n(x).\nn(1). n(2).\n")
    run = ["run", str(tmp_path / "own.dl"), "--functions", str(tmp_path / "own.py"), "--format", "csv"]
    assert call(*run) == (0, "next,1,2\nnext,2,3\nwide,1\n", "")
    for command in ("check", "explain"):
        assert call(command, *run[1:4])[0] == 0
    # one that fails is one error, with its file and line
    (tmp_path / "own.dl").write_text("next(x, step(x)) :- n(x).\nn(1). n(9).\n")
    code, _, err = call(*run)
    assert code == 1 and err.count("error:") == 1 and "error: KeyError: 9" in err
    assert "note: raised at own.py:9, in step" in err and "Traceback" not in err
    for name, text, message in (
        ("none.py", None, "cannot read the functions"),
        ("bad.py", "x = 1\ndef f(x:\n", "bad.py:2: SyntaxError"),
        ("raises.py", "x = 1\ny = 1 / 0\n", "raises.py:2: ZeroDivisionError: division by zero"),
        ("own.txt", "x = 1\n", "its name ends in .py"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        code, _, err = call("run", "-e", "r(f(x)) :- n(x).", "--functions", str(tmp_path / name))
        assert code == 2 and message in err and "Traceback" not in err, err



def test_program_that_is_not_text(place: Path, call: Call) -> None:
    (place / "latin.dl").write_bytes("r(\"ü\").".encode("latin-1"))
    for command in ("run", "check", "explain"):
        code, _, err = call(command, "latin.dl")
        assert code == 1 and err == (
            "latin.dl:1:4: error: byte 0xfc is not UTF-8: save the file in that encoding\n"
            '    1 | r("?").\n      |    ^\n')
    with pytest.raises(LivelogError, match=r"latin.dl:1:4: error: byte 0xfc is not UTF-8"):
        open_session("latin.dl")


def test_text_that_is_not_unicode(call: Call) -> None:
    """Python hands on bytes of the command line that are no text as lone surrogates."""
    code, _, err = call("check", "-e", 'r("caf\udce9").')
    assert code == 1 and err == (
        "<text>:1:7: error: U+DCE9 is half of a character and cannot stand alone\n"
        '    1 | r("caf\\udce9").\n      |       ^^^^^^\n')


def test_folders_without_a_name(place: Path, call: Call) -> None:
    for args in (("run", "reach.dl", "-F", ""), ("run", "reach.dl", "-D", ""), ("repl", "reach.dl", "-F", ""),
                 ("simulate", "reach.dl", "-F", ""), ("resume", ""), ("resume", "x", "-D", ""), ("top", ""),
                 ("run", "reach.dl", "--runtime", "spark", "--checkpoint", "")):
        code, out, err = call(*args)
        assert (code, out) == (2, "") and "expected the name of a folder, not an empty text" in err
    with pytest.raises(LivelogError, match="the facts folder has an empty name"):
        open_session("reach.dl", facts="")


def test_interrupt(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "run", "reach.dl", "-F", "data", "--updates", "-"],
        env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # a test run in the background inherits that the signal is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()  # it is up, and waits for updates
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "livelog: interrupted\n")


def test_broken_pipe(place: Path) -> None:
    (place / "many.dl").write_text("n(0).\nn(x) :- n(y), y < 50000, x = y + 1.\n")
    command = f"{sys.executable} -m livelog run many.dl | head -n 2"
    done = subprocess.run(["sh", "-c", command], env=ENV, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("---------------\nn\n", "")


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("run reach.dl -F data > /dev/full", 1, "error: cannot write the output: No space left on device\n"),
        ("run reach.dl -F data >&-", 0, ""),
        ("run reach.dl -F data --updates - <&- | cat", 0, ""),
        ("repl reach.dl <&-", 0, ""),
        ("run reach.dl -F data --format json 2>&-", 0, ""),
    ],
)
def test_odd_streams(place: Path, command: str, code: int, error: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m livelog {command}"], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (code, error)


# --- the other commands --------------------------------------------------------------------------------------


def test_check(place: Path, call: Call) -> None:
    assert call("check", "reach.dl") == (0, "reach.dl: no errors\n", "")
    (place / "bad.dl").write_text('r(x) :- s(y).\n.output r(colour="red")\n')
    (place / "worse.dl").write_text("r(x :- s(x).\n")
    (place / "params.dl").write_text('.decl r(x: number)\n.output r(colour="red")\n')
    code, out, err = call("check", "bad.dl", "reach.dl", "worse.dl", "params.dl")
    assert code == 1 and out == "reach.dl: no errors\n"
    assert "bad.dl:1:3: error" in err and "worse.dl:1:" in err and "unknown parameter 'colour'" in err


def test_explain(call: Call) -> None:
    code, out, _ = call("explain", "reach.dl")
    assert code == 0 and "stratum 1: reachable" in out and out == call("explain", "reach.dl")[1]


def test_version_and_help(call: Call) -> None:
    loops = "Python" if Facts is PlainFacts else "compiled"
    assert call("--version") == (0, f"livelog {__version__} ({loops} loops)\n", "")
    code, out, _ = call("run", "--help")
    assert code == 0 and "examples:" in out and "--updates FILE|-" in out


def test_demo(place: Path) -> None:
    start = time.monotonic()
    done = livelog("demo")
    assert done.returncode == 0 and done.stderr == "" and "\x1b" not in done.stdout
    assert time.monotonic() - start < 60
    assert "10 cities, 12 cables" in done.stdout and "45 pairs" in done.stdout
    assert "no pair lost its route" in done.stdout
    assert "16 pairs lost their route; 29 kept theirs." in done.stdout
    assert "16 pairs found a route again" in done.stdout
