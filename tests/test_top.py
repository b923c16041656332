"""`livelog top`: what it shows of a session, which partition it names, and what it says where there is no session."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import datalog
import livelog
from datalog.errors import RuntimeProblem, UsageProblem
from livelog.cli import main
from livelog.runtime.skew import LEAST, held_by, join_rules, skew
from livelog.runtime.spark.handshake import Door, Greeting, Role
from livelog.runtime.spark.wire import Connection, WireError
from livelog.store.formats import Description, sealed
from livelog.top import Client, Silent, Top, as_json, findings, render

ROOT = Path(__file__).parents[1]
SECRET = bytes(range(32))


def answer(transaction: int = 7, **changed: Any) -> dict[str, Any]:
    """What a driver says of a session with four partitions."""
    partitions = [
        {"partition": i, "host": "127.0.0.1", "pid": 100 + i, "queue": i, "outbox": 0, "tuples": 250,
         "bytes_shipped": 1000 * transaction, "frames_shipped": 3, "busy_seconds": 0.1 * transaction,
         "relations": {"link by dst": 100}}
        for i in range(4)
    ]  # fmt: skip
    said = {"transaction": transaction, "generation": 1, "seconds": 1.5, "busy": False, "program": "dir/reach.dl",
            "partitions": partitions}  # fmt: skip
    return said | changed


def top(*args: Any, **changed: Any) -> Top:
    return msgspec.convert(answer(*args, **changed), Top)


def text(previous: Top | None, current: Top, elapsed: float = 0.0) -> list[str]:
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(render(previous, current, elapsed))
    return [line.rstrip() for line in capture.get().splitlines()]


# --- the table -----------------------------------------------------------------------------------------------


def test_first_look_has_no_rates() -> None:
    lines = text(None, top())
    assert lines[0] == "reach.dl  transaction 7, idle"
    assert lines[1].split() == [
        "partition", "queue", "unsent", "tuples", "share", "state", "shipped", "bytes/s", "tuples/s", "work", "process"
    ]  # fmt: skip
    assert lines[4].split() == ["2", "2", "0", "B", "250", "25%", "7", "kB", "25%", "127.0.0.1:102"]
    assert len(lines) == 6


def test_rates_are_since_the_last_look() -> None:
    later = answer(11, busy=True)
    later["partitions"][1] |= {"tuples": 1250, "bytes_shipped": 9000, "busy_seconds": 2.7, "state_bytes": 5000}
    later["partitions"][2]["tuples"] = 50
    lines = text(top(), msgspec.convert(later, Top), 2.0)
    assert lines[0] == "reach.dl  transaction 11 (2/s), busy"
    assert lines[3].split() == [
        "1", "1", "0", "B", "1,250", "69%", "5", "kB", "9", "kB", "1", "kB", "+500", "62%", "127.0.0.1:101"
    ]  # fmt: skip
    assert lines[4].split()[-5:-2] == ["2", "kB", "-100"]  # 2 kB a second, tuples that went
    assert lines[6] == "partition 1 does 62% of the work"


def test_idle_partitions_are_not_blamed_for_the_little_they_do() -> None:
    later = answer()
    later["partitions"][1]["busy_seconds"] += 0.01
    assert len(text(top(), msgspec.convert(later, Top), 2.0)) == 6


def test_a_recovered_session_counts_anew() -> None:
    lines = text(top(), top(9, generation=2), 2.0)
    assert lines[0] == "reach.dl  transaction 9 (1/s), idle, recovered 1 time"
    assert lines[2].split() == text(None, top(9))[2].split()


def test_a_skewed_partition_is_named_with_its_rule() -> None:
    said = answer(joins={"link by dst": "reachable(x, y) :-\n  link(x, z), reachable(z, y)."})
    said["partitions"][3]["relations"] = {"link by dst": 1280}
    current = msgspec.convert(said, Top)
    named = "partition 3 holds 81% of `link` by dst, rule reachable(x, y) :- link(x, z), reachable(z, y)."
    assert text(None, current)[-1] == named
    (found,) = json.loads(as_json(current))["skew"]
    assert (found["partition"], found["relation"], found["share"]) == (3, "link by dst", 0.8101)


# --- skew ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ([700, 300], None), ([760, 240], 0), ([100, 900], 1), ([300, 300, 300], None), ([100, 500, 300], 1),
        ([250, 250, 250, 260], None), ([499, 167, 167, 167], None), ([501, 167, 166, 166], 0),
        ([0, 0, 0, LEAST - 1], None), ([0, 0, 0, LEAST], 3), ([1000], None), ([], None),
        ([*[100] * 15, 400], None), ([*[100] * 15, 600], 15),
    ],
)  # fmt: skip
def test_what_counts_as_skew(counts: list[int], named: int | None) -> None:
    found = skew([{"r": count} for count in counts])
    assert [s.partition for s in found] == ([] if named is None else [named])


def test_the_worst_comes_first() -> None:
    held = [{"a": 190, "b": 10}, {"a": 10}, {"b": 9000}]
    assert [(s.relation, s.partition) for s in skew(held)] == [("b", 2), ("a", 0)]


REACH = "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."
TWO = "two(x, y) :- e(x, z), f(z, y)."
HUB = [(i, 0) for i in range(1, 200)] + [(0, i) for i in range(1, 60)]


@pytest.mark.parametrize(
    ("program", "facts", "named"),
    [
        (REACH, {"e": HUB}, "`e` by y, rule r(x, y) :- e(x, z), r(z, y)."),
        (TWO, {"e": HUB, "f": [(i, i) for i in range(60)]}, "`e` by z, rule two(x, y) :- e(x, z), f(z, y)."),
        (TWO, {"e": [], "f": [(0, i) for i in range(200)]}, "`f`, rule two(x, y) :- e(x, z), f(z, y)."),
        (REACH, {"e": [(i, i + 1) for i in range(200)]}, None),
    ],
)
def test_the_hub_of_a_join_shows(program: str, facts: dict[str, Any], named: str | None) -> None:
    with livelog.open(datalog.parse(program), facts=facts, partitions=4) as session:
        held = [held_by(worker) for worker in session._runtime.workers]
        found = skew(held, join_rules(session.plan))
        if named is None:
            assert found == []
        else:
            (only,) = found
            counts = [h[only.relation] for h in held]
            assert (only.tuples, only.total) == (counts[only.partition], len(facts[only.relation[0]]))
            assert str(only).endswith(f"% of {named}")


def test_what_is_everywhere_is_not_skewed() -> None:
    """A side that every partition has a copy of is no reason to wait for anybody."""
    program = "far(x, y) :- e(x, _), f(y, _), x < y."
    with livelog.open(datalog.parse(program), facts={"e": HUB, "f": HUB}, partitions=4) as session:
        for rule in (r for s in session.plan.strata for r in s.rules if hasattr(r, "left")):
            assert "all" in (rule.left.at, rule.right.at)
        assert len(join_rules(session.plan)) == 1


# --- asking a session ----------------------------------------------------------------------------------------


class Driver:
    """A door that answers as a driver does: with one answer after the other, and then with the last again."""

    def __init__(self, folder: Path, answers: list[Any]) -> None:
        self.folder = folder
        self.asked: list[Any] = []
        self.roles: list[Role] = []
        self._answers = answers
        self._connections: list[Connection] = []
        self._selector = selectors.DefaultSelector()
        self._door = Door(self._selector, "127.0.0.1", SECRET, self._admit, lambda line: None)
        self._ended = False
        self.announce()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def announce(self, **changed: Any) -> None:
        said = {"address": list(self._door.address), "secret": SECRET.hex(), "pid": os.getpid()} | changed
        (self.folder / "running.json").write_text(json.dumps(said))

    def _admit(self, connection: Connection, greeting: Greeting) -> None:
        self.roles.append(greeting.role)
        self._connections.append(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda mask: self._answer(connection))

    def _answer(self, connection: Connection) -> None:
        try:
            for message in connection.receive():
                self.asked.append(msgspec.msgpack.decode(message))
                said = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if said is not None:
                    connection.send(said if isinstance(said, bytes) else msgspec.msgpack.encode(said))
                    connection.flush()
        except WireError:
            self._selector.unregister(connection)
            connection.close()

    def _run(self) -> None:
        while not self._ended:
            for key, mask in self._selector.select(0.02):
                key.data(mask)

    def end(self) -> None:
        self._ended = True
        self._thread.join()
        self._door.close()
        for connection in self._connections:
            connection.close()
        self._selector.close()


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    drivers: list[Driver] = []

    def start(*answers: Any) -> Driver:
        drivers.append(Driver(tmp_path, list(answers)))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.end()


def test_client(drive: Callable[..., Driver], tmp_path: Path) -> None:
    driver = drive(answer(1), answer(2))
    with Client(tmp_path) as client:
        assert [client.top().transaction for _ in range(3)] == [1, 2, 2]
        assert findings(client.top()) == []
    assert driver.asked == [["top"]] * 4
    assert driver.roles == [Role.CLIENT]


def test_a_driver_that_is_silent_is_asked_again(drive: Callable[..., Driver], tmp_path: Path) -> None:
    drive(None, answer(5))
    with Client(tmp_path, timeout=0.2) as client:
        with pytest.raises(Silent, match=r"has not answered for 0\.2 s"):
            client.top()
        assert client.top().transaction == 5


def test_a_session_that_ends(drive: Callable[..., Driver], tmp_path: Path) -> None:
    driver = drive(answer())
    with Client(tmp_path) as client:
        client.top()
        driver.end()
        with pytest.raises(UsageProblem, match="has ended"):
            client.top()
        with pytest.raises(UsageProblem, match=r"no session runs in .* any more"):
            client.top()


def test_nonsense_is_called_so(drive: Callable[..., Driver], tmp_path: Path) -> None:
    drive({"transaction": "seven"})
    with Client(tmp_path) as client, pytest.raises(RuntimeProblem, match="gave no sense"):
        client.top()


def test_an_error_is_told(drive: Callable[..., Driver], tmp_path: Path) -> None:
    drive({"error": "the workers died again and again"}, answer(3))
    with Client(tmp_path) as client:
        with pytest.raises(RuntimeProblem, match="cannot tell: the workers died again and again"):
            client.top()
        assert client.top().transaction == 3


def gone() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("running", "message"),
    [
        ({"pid": -1}, "no session runs in .* any more: its process [0-9]+ is gone$"),
        ({}, "no session runs in .* any more: cannot connect to 127.0.0.1:[0-9]+: Connection refused$"),
        ("{", "running.json' is not what a session writes there$"),
        ('{"address": ["h", 1], "secret": "5ec7e7", "pid": null}', "running.json' is not what a session writes there$"),
    ],
)
def test_no_session(drive: Callable[..., Driver], tmp_path: Path, running: Any, message: str) -> None:
    driver = drive(answer())
    driver.end()
    if isinstance(running, str):
        (tmp_path / "running.json").write_text(running)
    else:
        driver.announce(**({"pid": gone()} if running else {}))
    with pytest.raises(UsageProblem, match=message) as caught:
        Client(tmp_path).top()
    assert "5ec7e7" not in str(caught.value) and SECRET.hex() not in str(caught.value)


def test_another_secret(drive: Callable[..., Driver], tmp_path: Path) -> None:
    driver = drive(answer())
    driver.announce(secret=bytes(32).hex())
    with pytest.raises(UsageProblem, match=r"no session runs in .* any more: .*secret"):
        Client(tmp_path).top()
    assert driver.asked == []


# --- the command ---------------------------------------------------------------------------------------------


def test_once(drive: Callable[..., Driver], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drive(answer())
    assert main(["top", str(tmp_path), "--once"]) == 0
    out, err = capsys.readouterr()
    assert [line.rstrip() for line in out.splitlines()] == text(None, top())
    assert err == ""


def test_once_as_json(drive: Callable[..., Driver], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drive(answer())
    assert main(["top", str(tmp_path), "--once", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert said["skew"] == [] and said["partitions"][3]["pid"] == 103


def test_until_the_session_ends(
    drive: Callable[..., Driver], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = drive(answer(1), answer(2), answer(3))
    ending = threading.Thread(target=lambda: (_until(lambda: len(driver.asked) >= 3), driver.end()))
    ending.start()
    assert main(["top", str(tmp_path), "--interval", "0.05"]) == 0
    ending.join()
    out, err = capsys.readouterr()
    assert [line.split()[2] for line in out.splitlines() if line.startswith("reach.dl")][:3] == ["1,", "2", "3"]
    assert err == f"livelog: the session in {str(tmp_path)!r} has ended\n"


def _until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done()


@pytest.mark.parametrize(
    ("prepare", "code", "message"),
    [
        (lambda d: d.rmdir(), 2, "livelog top: error: the session's directory '{}' does not exist"),
        (lambda d: (d.rmdir(), d.write_text("")), 2,
         "livelog top: error: the session's directory '{}' is not a folder"),
        (lambda d: None, 1, "error: no session runs in '{}'"),
        (lambda d: (d / "session.json").write_bytes(sealed(Description(name="r.dl", program="r(x) :- e(x)."))), 1,
         "error: no session runs in '{0}'; livelog resume {0} continues the one that did"),
    ],
)  # fmt: skip
def test_helpful_errors(
    prepare: Callable[[Path], Any], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "session"
    folder.mkdir()
    prepare(folder)
    assert main(["top", str(folder)]) == code
    assert capsys.readouterr() == ("", message.format(folder) + "\n")


def test_ctrl_c_ends_it_quietly(drive: Callable[..., Driver], tmp_path: Path) -> None:
    drive(answer(1), answer(2))
    process = subprocess.Popen(
        [sys.executable, "-m", "livelog", "top", str(tmp_path), "--interval", "0.05", "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())["transaction"] for _ in range(2)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (seen, process.returncode, err) == ([1, 2], 0, "")


def test_on_a_terminal_the_table_is_painted_over(drive: Callable[..., Driver], tmp_path: Path) -> None:
    import pty

    drive(answer(1), answer(2), None, answer(3))
    pid, screen = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background inherits that it is ignored
        os.environ |= {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "130", "LINES": "40"}
        code = "import livelog.top; livelog.top.PATIENCE = 1; from livelog.cli import main; raise SystemExit(main())"
        os.execv(sys.executable, [sys.executable, "-c", code, "top", str(tmp_path), "--interval", "0.05"])
    seen = b""
    try:
        while b"transaction 3" not in seen:
            seen += os.read(screen, 1 << 16)
        os.write(screen, b"\x03")
        while True:
            seen += os.read(screen, 1 << 16)
    except OSError:  # the terminal is closed
        pass
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(screen)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"\x1b[1A" in seen  # back to the first line of the table
    assert b"has not answered for 1 s" in seen
