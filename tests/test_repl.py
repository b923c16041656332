"""The repl: what each line does, through a pipe, and through a pseudo terminal as a person has it."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import datalog
import livelog
from livelog.prompt import Prompt
from livelog.queries import parse_pattern
from livelog.repl import Repl, is_unfinished

ROOT = Path(__file__).parents[1]
PROGRAM = """\
.decl link(src: symbol, dst: symbol)
.decl seen(x: symbol) ttl(10)
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
recent(x) :- seen(x).
"""


class Talk:
    """A repl and what it has said."""

    def __init__(self) -> None:
        self.session = livelog.open(datalog.parse(PROGRAM, "reach.dl"))
        self.out = io.StringIO()
        self.repl = Repl(self.session, self.out, err=self.out)

    def __call__(self, *lines: str) -> list[str]:
        self.out.seek(0)
        self.out.truncate()
        for line in lines:
            assert self.repl.execute(line)
        return self.out.getvalue().splitlines()


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk('+link("a", "b")', '+link("b", "c")')
    return talk


# --- what lines mean -----------------------------------------------------------------------------------------


def test_updates(talk: Talk) -> None:
    assert talk('+link("c", "a")') == [f'+reachable("{x}", "{y}")' for x, y in ("aa", "ba", "bb", "ca", "cb", "cc")]
    assert talk('-link("c", "a").')[0] == '-reachable("a", "a")'
    assert talk('-link("c", "a")') == ["no changes"]
    said = talk('{"op": "+", "relation": "link", "row": ["b", "d"]}')
    assert said == ['+reachable("a", "d")', '+reachable("b", "d")']


def test_clock(talk: Talk) -> None:
    assert talk('+seen("x")') == ['+recent("x")']
    assert talk("@ 9") == ["no changes"]
    assert talk("@10") == ['-recent("x")']
    assert talk("@1") == ["error: the clock stands at 10 and cannot go back to 1"]


def test_a_group_is_one_transaction(talk: Talk) -> None:
    assert talk("begin", '-link("b", "c")', '+link("a", "c")') == []
    assert talk('?reachable("a", x)')[-1] == "2 answers"  # nothing happens before the commit
    assert talk("commit") == ['-reachable("b", "c")']
    assert talk("begin", '+link("c", "d")', "rollback") == ["1 update forgotten"]
    assert talk("?link(_, \"d\")") == ["no"]
    assert talk("begin", '+link("c", "d")', "+link(1, 2)")[0].startswith("error: link(1, 2): column `src`")
    assert talk("begin") == ["error: a transaction is open already; commit or rollback ends it"]
    assert talk('{"op": "commit"}') == ['+reachable("a", "d")', '+reachable("c", "d")']
    assert talk("commit") == talk("rollback") == ["error: no transaction is open; begin starts one"]


def test_queries(talk: Talk) -> None:
    assert talk('?reachable("a", x)') == ['x = "b"', 'x = "c"', "2 answers"]
    assert talk("? reachable(x, y)") == ['x = "a", y = "b"', 'x = "a", y = "c"', 'x = "b", y = "c"', "3 answers"]
    assert talk("?reachable(x, _)") == ['x = "a"', 'x = "b"', "2 answers"]
    assert talk("?reachable(x, x)") == ["0 answers"]
    assert talk('?reachable("a", "c")') == ["yes"]
    assert talk('?reachable("c", "a").') == talk('?reachable("c", _)') == ["no"]
    assert talk("?link") == ['link("a", "b")', 'link("b", "c")', "2 tuples"]


def test_pattern() -> None:
    rows = [(1, "a", 1), (1, "b", 2), (2, "b", 2), (1.0, "c", (1,))]
    assert list(parse_pattern("r(x, y, x)").bindings(rows)) == [(1, "a"), (2, "b")]
    assert list(parse_pattern("r(1, y, _)").bindings(rows)) == [("a",), ("b",), ("c",)]
    assert list(parse_pattern("r(_, y, [1])").bindings(rows)) == [("c",)]
    assert list(parse_pattern("r").bindings(rows)) == rows
    assert parse_pattern("r()").arguments == ()


def test_why(talk: Talk) -> None:
    assert sorted(talk('why reachable("a", "c")')) == ['  link("a", "b")', '  link("b", "c")']
    assert talk('why link("a", "b")') == ['  link("a", "b")']
    assert talk('why reachable("c", "a")') == ['reachable("c", "a") does not hold']


def test_commands(talk: Talk) -> None:
    assert talk("views") == [
        "base  link(src: symbol, dst: symbol)  2 tuples",
        "base  seen(x: symbol)  0 tuples",
        "view  reachable(x: symbol, y: symbol)  3 tuples",
        "view  recent(x: symbol)  0 tuples",
    ]
    assert "stratum 1" in "\n".join(talk("explain"))
    assert talk("stats")[0].startswith("transactions")
    assert talk("help")[0] == "updates"
    assert talk("", "// a comment") == []
    assert not talk.repl.execute("quit") and not talk.repl.execute(" exit ")


def test_load(talk: Talk, tmp_path: Path) -> None:
    script = tmp_path / "u.txt"
    script.write_text('+link("c", "d")\n\n-link("c", "d")\n')
    assert talk(f"load {script}")[-1] == "2 transactions applied"
    script.write_text('+link("c", "d")\n\n+link("c")\n\n+link("d", "e")\n')
    said = talk(f"load {script}")
    assert f"{script}:3: error: `link` has 2 columns (src, dst), the row link(\"c\") has 1" in said
    assert said[-1] == "note: 1 transaction applied, nothing after that"
    assert talk('?link("c", x)') == ['x = "d"', "1 answer"]
    assert talk("load nowhere") == ["error: cannot read 'nowhere': No such file or directory"]
    assert talk("load") == ["error: load needs the name of an update script"]
    script.write_bytes(b"\xff")
    assert talk(f"load {script}") == [f"error: '{script}' is not UTF-8 text"]


def test_control_characters_are_escaped(talk: Talk) -> None:
    assert talk('+link("\x1b[2J", )')[1:] == ['  +link("\\x1b[2J", )', "                   ^"]
    assert talk("\x9b31m\u202e")[1:] == ["  \\x9b31m\\u202e", "  ^^^^^^^^^^^^^"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("foo", "error: not a command, an update (+ - @) or a query (?); type help"),
        ("+link(a)", 'error: expected a value, but found the name a; a symbol is quoted: "a"'),
        ('+lnik("a", "b")', "error: the program has no relation `lnik` to update (base relations: link, seen)"),
        ('+reachable("a", "b")', "error: `reachable` is a view: its tuples follow from rules and cannot be updated"),
        ("?nope(x)", "error: there is no relation nope; there are link, reachable, recent, seen"),
        ("?reachable(x)", "error: reachable has 2 columns, not 1"),
        ("?reachable(x", "error: expected ',' or ')', but the line ends"),
        ("?", "error: expected the name of a relation, but the line ends"),
        ("why", 'error: why needs a tuple: why reachable("a", "c")'),
        ("why reachable(x)", 'error: expected a value, but found the name x; a symbol is quoted: "x"'),
        ("why nope(1)", "error: there is no relation nope; there are link, reachable, recent, seen"),
    ],
)
def test_errors_do_not_end_it(talk: Talk, line: str, error: str) -> None:
    assert talk(line)[0] == error
    assert talk('?reachable("a", "c")') == ["yes"]


def test_carets_stand_under_the_mistake(talk: Talk) -> None:
    assert talk('  +link("a", b)')[1:] == ['  +link("a", b)', "             ^"]
    assert talk("why reachable(x)")[1:] == ["  why reachable(x)", "                ^"]


def test_completion(talk: Talk) -> None:
    prompt = Prompt(lambda: talk.repl.words)
    assert [prompt.complete("re", i) for i in range(3)] == ["reachable", "recent", None]
    assert prompt.complete("vi", 0) == "views"


# --- conjunctive queries, rules, pages ------------------------------------------------------------------------


def test_conjunctive_queries(talk: Talk) -> None:
    assert talk('?reachable("a", x), !link("a", x)') == ['x = "c"', "1 answer"]
    assert talk('?link(x, y), y != "b", n = count : { reachable(x, _) }.') == ['x = "b", y = "c", n = 1', "1 answer"]
    assert talk('?link(x, _), reachable("a", x)') == ['x = "b"', "1 answer"]
    assert talk('?link("a", x), link(x, "c"), x = "b"') == ['x = "b"', "1 answer"]
    assert talk('?!link("c", "a")') == ["yes"] and talk('?link("a", "b"), link("b", "a")') == ["no"]
    said = talk('?reachable("a", x), x < 3')
    assert "type clash" in said[0] and said[1:3] == [
        '    1 | reachable("a", x), x < 3', "      |                    ^^^^^"
    ]  # fmt: skip
    assert talk("?reachable(x), x = 1")[0] == "<query>:1:1: error: reachable has 2 columns, not 1"
    assert talk("?nope(x), x = 1") == ["error: there is no relation nope; there are link, reachable, recent, seen"]
    assert talk("?reachable(x, y), !link(z, x)")[0].startswith("<query>:1:24: error: unsafe variable `z`")


def test_a_bag_is_counted_with_its_copies() -> None:
    talk = Talk.__new__(Talk)
    talk.session = livelog.open(datalog.parse(".decl n(x: number) bag\ntotal(sum<x>) :- n(x).", "bag.dl"))
    talk.out = io.StringIO()
    talk.repl = Repl(talk.session, talk.out, err=talk.out)
    talk("+n(2)", "+n(2)")
    assert talk("?s = sum x : { n(x) }") == ["s = 4", "1 answer"]
    talk("twice(count<*>) :- n(_).")
    assert talk("?twice(x)") == ["x = 2", "1 answer"]


def test_rules(talk: Talk) -> None:
    assert talk('near(x) :- link("a", x).') == ["near: 1 tuple"]
    assert talk('+link("a", "d")') == ['+reachable("a", "d")', '+near("d")']
    assert talk('-link("a", "d")') == ['-reachable("a", "d")', '-near("d")']
    assert talk("near(x) :- near2(x).")[0].startswith("<definition>:1:12: error: unknown relation `near2`")
    assert talk("?near(x)") == ['x = "b"', "1 answer"]  # a mistake changes nothing
    assert talk(".decl weight(x: symbol, n: number)", '+weight("b", 3)') == ["declared", "no changes"]
    assert talk("near(x) :- weight(x, n), n > 2.") == ["near: 1 tuple"]
    assert talk("begin", "far(x) :- near(x).") == ["error: a transaction is open; commit or rollback first"]


def test_new_views_are_defined_in_the_session_that_is_there(talk: Talk) -> None:
    session, before = talk.session, list(talk.session._runtime.workers[0].strata)
    rules = 'near(x) :- link("a", x).', "nearer(x) :- near(x), !link(x, _)."
    assert talk(*rules) == ["near: 1 tuple", "nearer: 0 tuples"]
    assert talk.repl.session is session and session._runtime.workers[0].strata[: len(before)] == before
    assert talk(".decl odd(x: symbol)\nodd(x) :- near(x).") == ["odd: 1 tuple"]
    (error, *_) = talk("far(x) :- nea(x).")
    assert error.startswith("<definition>:1:11: error: unknown relation `nea`: did you mean `near`?")
    assert talk("drop near") == ["error: `near` cannot be dropped: `nearer` and `odd` read it"]
    dropped, error = talk("drop nearer odd near", "?near(x)")[:2]
    assert dropped == "dropped" and error == "error: there is no relation near; there are link, reachable, recent, seen"
    assert talk("near(x) :- link(_, x).", ".drop near.") == ["near: 2 tuples", "dropped"]
    assert talk("drop") == ["error: drop needs the name of a view: drop near"]
    assert talk("drop link") == ["error: `link` is a base relation: only views can be dropped"]
    assert talk("begin", "drop reachable") == ["error: a transaction is open; commit or rollback first"]
    assert talk("rollback", "drop reachable") == ["0 updates forgotten", "dropped"]
    assert talk('reachable(x) :- link(x, _).', '+link("d", "e")')[-1] == '+reachable("d")'
    assert talk.repl.session is session


def test_more_rules_of_a_view_that_was_defined(talk: Talk) -> None:
    talk('near(x) :- link("a", x).', "drop recent", "far(x) :- reachable(_, x), !near(x).")
    assert talk('near(x) :- link("b", x).') == ["near: 2 tuples"]
    assert talk("?far(x)") == ["0 answers"] and talk("views")[-1].startswith("view  reachable")
    assert talk('+link("c", "d")') == [f'+reachable("{x}", "d")' for x in "abc"] + ['+far("d")']
    assert talk("two(x) :- near(x), far(x).") == ["two: 0 tuples"]


def test_rules_keep_the_time_of_facts(talk: Talk) -> None:
    talk("@3", '+seen("x")', "@5", '+seen("y")', "@6")
    assert talk("both(x) :- recent(x), seen(x).") == ["both: 2 tuples"]
    assert talk("@12.9") == ["no changes"]
    assert talk("@13") == ['-recent("x")', '-both("x")']
    assert talk("@15") == ['-recent("y")', '-both("y")']
    talk.repl.session.check()


def test_a_query_in_a_transaction_says_what_it_shows(talk: Talk) -> None:
    assert talk("begin", "?link") == ['link("a", "b")', 'link("b", "c")', "2 tuples"]
    said = ["as of the last commit, without the 1 open update:", "0 answers"]
    assert talk('+link("c", "d")', '?link("c", x)') == said
    assert talk('why reachable("a", "b")') == [said[0], '  link("a", "b")']
    assert talk("views")[0] == said[0]


@pytest.mark.parametrize(("pages", "shown"), [(0, 4), (1, 8), (9, 12)])
def test_long_answers_come_in_pages(pages: int, shown: int) -> None:
    session = livelog.open(datalog.parse("r(x, y) :- n(x), n(y)."), facts={"n": [(i,) for i in range(12)]})
    out = io.StringIO()
    asked: list[int] = []

    def more() -> bool:
        asked.append(1)
        return len(asked) <= pages

    Repl(session, out, more=more, height=lambda: 6).execute("?n(x)")
    lines = out.getvalue().splitlines()
    assert len(lines) == shown + 1 and lines[-1] == "12 answers"  # all are counted


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ('r(x) :- e(x), x != "a\\"b".', False), ('r(x) :- e(x), x != "a\\"b.', True), ("r(x) :- e(x). // all", False),
        ("r(x) :- e(x) // all.", True), ('r(x) :- e(x, "// no comment").', False), ("r(x) :- // begins\n e(x).", False),
        ("?r(x) // (", False), ('?r("a\\"(", x)', False), ('?r("a\\")", x', True),
    ],
)  # fmt: skip
def test_what_goes_on_in_the_next_line(text: str, unfinished: bool) -> None:
    assert is_unfinished(text) == unfinished


# --- through a pipe ------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "reach.dl").write_text(PROGRAM)
    return tmp_path


def environment(place: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(place), "TERM": "dumb", **more}


COMMAND = [sys.executable, "-m", "livelog", "repl", "reach.dl"]


def test_pipe(place: Path) -> None:
    text = '+link("a", "b")\n?reachable("a", x)\nbegin\n+link("b", "c")\n'
    done = subprocess.run(
        COMMAND, input=text, cwd=place, env=environment(place), capture_output=True, text=True, timeout=120
    )
    said = ['+reachable("a", "b")', 'x = "b"', "1 answer", "1 update not committed, and forgotten"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, said, "")
    done = subprocess.run(
        COMMAND, input="oops\n+link(\"a\", \"b\")", cwd=place, env=environment(place), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout == '+reachable("a", "b")\n'
    assert done.stderr.startswith("error: not a command")  # what is wrong does not mix with what is answered
    assert not (place / ".livelog_history").exists()


def test_a_rule_over_several_lines(place: Path) -> None:
    text = '+link("a", "b")\nnear(x) :-\n  link("a", x).\n?near(x),\n x != "c"\nopen(x) :-\n\n?near(x)\n'
    done = subprocess.run(
        COMMAND, input=text, cwd=place, env=environment(place), capture_output=True, text=True, timeout=120
    )
    said = ['+reachable("a", "b")', "near: 1 tuple", 'x = "b"', "1 answer", 'x = "b"', "1 answer"]
    assert (done.returncode, done.stdout.splitlines()) == (1, said)
    assert "the program ends too early" in done.stderr


# --- through a pseudo terminal -------------------------------------------------------------------------------


class Terminal:
    """The repl on a pseudo terminal: `send` types, `expect` waits for what the screen should show."""

    def __init__(self, place: Path, **env: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            COMMAND, cwd=place, env=environment(place, **env), stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=self._own_terminal,
        )  # fmt: skip
        os.close(slave)
        self.screen = ""

    @staticmethod
    def _own_terminal() -> None:
        # Ctrl-C reaches the process only if this is its controlling terminal.
        import fcntl
        import signal
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background inherits that it is ignored

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, text: str, timeout: float = 60) -> str:
        """Everything up to and with `text`, which is then forgotten."""
        deadline = time.monotonic() + timeout
        while text not in self.screen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"expected {text!r}, the screen shows {self.screen!r}"
            try:
                data = os.read(self.master, 65536)
            except OSError:  # how Linux says that the other side is closed
                data = b""
            assert data, f"expected {text!r}, the session ended with {self.screen!r}"
            self.screen += data.decode()
        shown, found, self.screen = self.screen.partition(text)
        return shown + found

    def interrupt(self) -> None:
        """Ctrl-C, until a new prompt comes: one that arrives just before Python waits for keys waits for the next."""
        for _ in range(10):
            self.send("\x03")
            with suppress(AssertionError):
                self.expect("livelog> ", timeout=2)
                return
        raise AssertionError("Ctrl-C brought no prompt")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(place: Path) -> Iterator[Terminal]:
    terminal = Terminal(place)
    yield terminal
    terminal.close()


def test_terminal(terminal: Terminal, place: Path) -> None:
    terminal.expect("reach.dl: 4 relations, 2 views. Type help for help.")
    terminal.expect("livelog> ")
    terminal.send('+link("a", "b")\r')
    terminal.expect('+reachable("a", "b")\r\n')
    terminal.expect("livelog> ")
    terminal.send("oops\r")
    terminal.expect("error: not a command")
    terminal.expect("livelog> ")
    terminal.send("begin\r")
    terminal.expect("livelog*> ")
    terminal.send('+link("b", "c")\rcommit\r')
    terminal.expect('+reachable("b", "c")\r\n')
    terminal.expect("livelog> ")
    terminal.send('?rea\t("a", x)\r')  # the tab completes the name
    terminal.expect('x = "c"\r\n2 answers')
    terminal.expect("livelog> ")
    terminal.send("some text that is not meant")
    terminal.expect("not meant")
    terminal.interrupt()  # cancels the line
    terminal.send("?reachable\r")
    terminal.expect("3 tuples")
    terminal.expect("livelog> ")
    terminal.send("\x04")  # Ctrl-D ends it
    assert terminal.process.wait(60) == 0
    history = (place / ".livelog_history").read_text()
    assert '+link("a", "b")' in history and "not meant" not in history


def test_history_comes_back(place: Path) -> None:
    for text in ('+link("a", "b")\r', "\x1b[A\r"):  # the arrow up shows the last line again
        terminal = Terminal(place, TERM="xterm")
        try:
            terminal.expect("livelog> ")
            terminal.send(text)
            terminal.expect('+reachable("a", "b")')
            terminal.expect("livelog> ")
            terminal.send("quit\r" if text.startswith("+") else "\x04")
            assert terminal.process.wait(60) == 0
        finally:
            terminal.close()
        history = place / ".livelog_history"
        history.write_text(history.read_text().replace("quit\n", ""))


def test_colours_and_a_home_that_cannot_be_written(place: Path) -> None:
    for env, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
        terminal = Terminal(place, HOME="/nonexistent", **env)
        try:
            terminal.expect("livelog> ")
            terminal.send('+link("a", "b")\r')
            shown = terminal.expect('+reachable("a", "b")')
            assert shown.endswith('\x1b[32m+reachable("a", "b")') == coloured
            terminal.expect("livelog> ")
            terminal.send("quit\r")
            assert terminal.process.wait(60) == 0
        finally:
            terminal.close()


def test_how_many_facts_a_deletion_meets_is_said(talk: Talk, tmp_path: Path) -> None:
    first, *changes = talk('-link("a", _)')
    assert first == "1 fact deleted" and len(changes) == 2
    assert talk('-link("a", _)') == ["0 facts deleted", "no changes"]
    assert talk("begin", '+link("c", "d")', "-link(_, _)") == ["2 facts deleted"]
    talk("rollback")
    (tmp_path / "u").write_text("-link(_, _)\n")
    assert talk(f"load {tmp_path / 'u'}")[0] == "-link(_, _): 1 fact deleted"
