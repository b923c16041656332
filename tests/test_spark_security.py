"""The doors of a live session, attacked: who does not know the secret is dropped before anything it sends is parsed,
who knows it and talks nonsense is dropped too, both are logged, and the session goes on. The secret is nowhere to
be found but in running.json.
"""

from __future__ import annotations

import ast
import base64
import json
import math
import os
import pickle
import random
import secrets
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from livelog.runtime.spark import handshake
from livelog.runtime.spark.handshake import ANSWER, HELLO, MAGIC, Refused, Role, connect
from livelog.runtime.spark.wire import MAX_FRAME, Connection, WireError
from tests.kills import Checked, open_checked, wait_until

ROOT = Path(__file__).parents[1]
pack = msgspec.msgpack.encode


class Live:
    """A session under attack."""

    def __init__(self, checked: Checked, directory: Path) -> None:
        self.checked = checked
        self.checked.runtime.notices = []  # all of them, without end
        self.directory = directory
        self.running = json.loads((directory / "running.json").read_bytes())
        self.secret = bytes.fromhex(self.running["secret"])
        self.driver: tuple[str, int] = tuple(self.running["address"])
        self.generation = checked.runtime.generation
        self._turn = 0

    @property
    def doors(self) -> list[tuple[str, int]]:
        """All of them: the driver's and the workers'."""
        return [self.driver, *self.checked.runtime.addresses]

    def client(self, door: tuple[str, int]) -> Connection:
        return connect(door, self.secret, Role.CLIENT)

    def goes_on(self, *told: str, since: int = 0) -> None:
        """The session answers as if nothing had happened, by the same workers, and its log says what did."""
        self._turn += 1
        operation = "insert" if self._turn % 2 else "delete"
        self.checked.transact((operation, "link", (7, 8)), (operation, "link", (9, 0)))
        assert self.checked.runtime.generation == self.generation, self.checked.runtime.notices[-3:]
        for text in told:
            wait_until(lambda text=text: self._told(text, since), 20)

    def _told(self, text: str, since: int) -> bool:
        self.checked.runtime.count("link")  # workers tell with their answers
        return any(text in notice for notice in self.checked.runtime.notices[since:])

    @property
    def mark(self) -> int:
        return len(self.checked.runtime.notices)


@pytest.fixture(scope="module")
def live(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("attacked") / "session"
    checked = open_checked(spark, directory, partitions=2)
    with checked.session:
        yield Live(checked, directory)


def knock(door: tuple[str, int]) -> tuple[socket.socket, bytes]:
    """A connection and the door's first words."""
    sock = socket.create_connection(door, timeout=20)
    hello = b""
    while len(hello) < HELLO:
        hello += sock.recv(HELLO - len(hello))
    assert hello.startswith(MAGIC)
    return sock, hello


def answer(secret: bytes, hello: bytes, role: int = Role.CLIENT, number: int = 0, generation: int = 0) -> bytes:
    """What somebody says who knows a secret."""
    fields = handshake._FIELDS.pack(MAGIC, secrets.token_bytes(32), role, number, generation)
    return fields + handshake._Key(secret).client(hello, fields)


def dropped(sock: socket.socket) -> bool:
    """Whether the other end hangs up without a word."""
    sock.settimeout(20)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        sock.close()


def refuses(door: tuple[str, int], said: bytes) -> bool:
    sock, _ = knock(door)
    with suppress(OSError):  # it may not even listen to the end
        sock.sendall(said)
    return dropped(sock)


# --- who does not know the secret ----------------------------------------------------------------------------


class Bomb:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_bytes_of_a_stranger_are_dropped_before_they_are_parsed(live: Live, tmp_path: Path) -> None:
    since = live.mark
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    frame = pack(["follow", "reach", True])
    stuff = [
        b"GET / HTTP/1.1\r\nHost: livelog\r\n\r\n" * 20,
        bomb * 20,
        struct.pack(">I", len(bomb)) + bomb * 20,
        (struct.pack(">I", len(frame)) + frame) * 20,
        MAGIC + bytes(ANSWER),
        bytes(ANSWER),
        b"\xff" * 5000,
    ]
    for door in live.doors:
        for said in stuff:
            assert refuses(door, said)
    live.goes_on("it does not speak this protocol", "it does not know the secret", since=since)
    assert not (tmp_path / "exploded").exists()
    assert live.checked.runtime.journal.follows == []


def test_a_wrong_secret(live: Live) -> None:
    since = live.mark
    for door in live.doors:
        for role in (Role.CLIENT, Role.WORKER, Role.DRIVER):
            with pytest.raises(Refused):
                connect(door, secrets.token_bytes(32), role, 0, live.generation)
        almost = bytes([live.secret[0] ^ 1]) + live.secret[1:]
        with pytest.raises(Refused):
            connect(door, almost, Role.CLIENT)
    live.goes_on("partition 0: dropped a connection", "partition 1: dropped a connection", since=since)
    assert sum("does not know the secret" in notice for notice in live.checked.runtime.notices[since:]) >= 12


def test_a_replayed_handshake(live: Live) -> None:
    """Word for word what was accepted once, and with the other door's words: worth nothing."""
    for door in live.doors:
        since = live.mark
        sock, hello = knock(door)
        said = answer(live.secret, hello)
        sock.sendall(said)
        assert len(sock.recv(32)) > 0  # that was accepted
        again, other = knock(door)
        assert other != hello
        again.sendall(said)
        assert dropped(again)
        sock.close()
        live.goes_on("it does not know the secret", since=since)
    # what one door asks is carried to another one
    first, hello = knock(live.doors[0])
    second, _ = knock(live.doors[1])
    second.sendall(answer(live.secret, hello))
    assert dropped(second)
    first.close()


def test_every_bit_of_the_answer_counts(live: Live) -> None:
    rng = random.Random(1)
    for door in live.doors:
        for _ in range(12):
            sock, hello = knock(door)
            said = bytearray(answer(live.secret, hello))
            said[rng.randrange(len(said))] ^= 1 << rng.randrange(8)
            sock.sendall(said)
            assert dropped(sock)
    live.goes_on()


def test_many_who_say_nothing(live: Live) -> None:
    """They are let go after a while, and keep nobody out who knows what to say."""
    since = live.mark
    idle = [socket.create_connection(door, timeout=20) for door in live.doors for _ in range(80)]
    try:
        for door in live.doors:
            live.client(door).close()
        live.goes_on("too many others wait", since=since)
    finally:
        for sock in idle:
            sock.close()
    live.goes_on("partition 1: dropped a connection", since=since)


def test_half_an_answer(live: Live) -> None:
    started = time.monotonic()
    since = live.mark
    socks = []
    for door in live.doors:
        sock, hello = knock(door)
        sock.sendall(answer(live.secret, hello)[:-1])
        socks.append(sock)
    live.goes_on()
    for sock in socks:
        assert dropped(sock)
    assert time.monotonic() - started < 30
    live.goes_on("it did not prove in time", since=since)


def test_all_files_are_their_owners(live: Live, spark: Any) -> None:
    """Those that executors write as well: parts of checkpoints, batches, change files."""
    runtime = live.checked.runtime
    runtime.follow("degree", True)
    live.checked.session.load("link", spark.createDataFrame([(0, 1)], "a long, b long"))  # which is there already
    files = list(live.directory.rglob("*"))
    live.checked.session.checkpoint()
    files += [live.directory, *live.directory.rglob("*")]
    kinds = {path.relative_to(live.directory).parts[0] for path in files if path != live.directory}
    assert {"session.json", "running.json", "log", "changes", "checkpoints", "batches", "lock"} <= kinds
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in files if path.exists()}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_a_message_that_was_made_up_between_two_who_know_the_secret(live: Live) -> None:
    """A relay that let a client shake hands: what it adds is dropped, and the session goes on."""
    for index, door in enumerate(live.doors):
        since = live.mark
        client = live.client(door)
        raw = socket.socket(fileno=os.dup(client.fileno()))
        raw.setblocking(True)
        frame = pack(["follow", "lonely", True])
        raw.sendall(struct.pack(">I", len(frame)) + frame + secrets.token_bytes(16))
        assert dropped(raw)
        client.close()
        who = "dropped a client" if index == 0 else f"partition {index - 1}: dropped a client"
        live.goes_on(who, "somebody changes it on its way", since=since)
    assert "lonely" not in live.checked.runtime.journal.follows


# --- who knows it and talks nonsense -------------------------------------------------------------------------


def test_an_oversized_message(live: Live) -> None:
    for index, door in enumerate(live.doors):
        for length in (MAX_FRAME + 1, 2**32 - 1):
            since = live.mark
            sock, hello = knock(door)
            sock.sendall(answer(live.secret, hello))
            assert len(sock.recv(32)) == 32
            sock.sendall(struct.pack(">I", length) + b"x" * 1000)
            assert dropped(sock)
            who = "dropped a client" if index == 0 else f"partition {index - 1}: dropped a client"
            live.goes_on(who, f"announces {length} bytes", since=since)


def test_garbage(live: Live, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    for index, door in enumerate(live.doors):
        for body in (b"", b"\xc1", b"\x00", bomb, b"\x91" * 100_000, pack({"a": 1}), pack([]), pack([1]), pack("page")):
            since = live.mark
            with live.client(door) as client, pytest.raises(WireError):
                client.call(body, 20)
            live._told("", since)
            who = "dropped a client" if index == 0 else f"partition {index - 1}: dropped a client"
            wait_until(lambda since=since, who=who: live._told(who, since), 20)
    live.goes_on()
    assert not (tmp_path / "exploded").exists()


def junk(rng: random.Random, depth: int = 0) -> Any:
    """Something that msgpack can say."""
    kinds = [
        lambda: rng.choice([0, 1, -1, 2**63 - 1, -(2**63), 2**64 - 1, rng.randrange(10)]),
        lambda: rng.choice([math.inf, -math.inf, math.nan, 0.5, 1e308]),
        lambda: rng.choice(["", "reach", "link", "../../x", "\0", "é" * 300, "rows", "page", "+", "-", "a" * 70]),
        lambda: rng.randbytes(rng.randrange(20)),
        lambda: rng.choice([None, True, False]),
        lambda: pack([[1, 2], [3, 4]]),
        lambda: msgspec.msgpack.Ext(rng.randrange(-128, 128), rng.randbytes(4)),
    ]
    if depth < 3:
        kinds.append(lambda: [junk(rng, depth + 1) for _ in range(rng.randrange(4))])
        kinds.append(lambda: {str(i): junk(rng, depth + 1) for i in range(rng.randrange(3))})
    return rng.choice(kinds)()


def message(rng: random.Random) -> bytes:
    """A random message: sometimes nearly one that makes sense."""
    roll = rng.random()
    if roll < 0.15:
        return rng.randbytes(rng.randrange(60))
    kind = rng.choice(["page", "rows", "staged", "describe", "hold", "latest", "top", "stop", "commit", junk(rng)])
    body: Any = [kind, *(junk(rng) for _ in range(rng.randrange(7)))]
    if roll < 0.4:
        row = rng.choice([[1, 2], [], [None], "x", [[[[1]]]], {}])
        token = rng.choice(["77", "../77", "", "x" * 65, 7])
        relation = rng.choice(["link", "../../../evil", "nothing", "", 5])
        rows = rng.choice([pack([row]), pack(row), b"\xc1", row])
        body = ["rows", token, rng.choice([0, -1, 2**64 - 1, "0", 1.5]), 0, relation, rng.choice(["+", "x", []]), rows]
    data = pack(body)
    if roll > 0.9:
        at = rng.randrange(len(data))
        data = data[:at] + rng.randbytes(1) + data[at + 1 :]
    return data


def test_hundreds_of_random_messages(live: Live) -> None:
    rng = random.Random(7)
    before = outside(live)
    for round_ in range(4):
        for door in live.doors:
            client: Connection | None = None
            for _ in range(40):
                client = client or live.client(door)
                said = message(rng)
                try:
                    client.send(said)
                    client.drain(20)
                    if rng.random() < 0.5:
                        client.wait(0.02)
                except WireError:
                    client.close()
                    client = None
            if client is not None:
                client.close()
        live.goes_on()
        assert outside(live) == before, f"in round {round_}"
    live.checked.session.check()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2**64 - 1, -1, "9" * 5000, None])
def test_numbers_that_are_none(live: Live, value: Any) -> None:
    for door in live.doors[1:]:
        for arguments in ((value, 0), (0, value), (value, value)):
            with live.client(door) as client, suppress(WireError):
                client.call(pack(["page", *arguments]), 20)
    live.goes_on()


# --- who knows it and lies -----------------------------------------------------------------------------------


def test_a_client_that_claims_to_be_a_worker(live: Live) -> None:
    """Of this generation or another one, with a number that exists or not: all channels are taken."""
    for index, door in enumerate(live.doors):
        for generation in (live.generation, live.generation + 1, 0):
            for number in (0, 1, 2, 2**32 - 1):
                since = live.mark
                sock, hello = knock(door)
                sock.sendall(answer(live.secret, hello, Role.WORKER, number, generation))
                assert dropped(sock), f"door {index} let in worker {number} of generation {generation}"
                wait_until(lambda since=since: live._told("dropped a connection", since), 20)
    live.goes_on()


def test_a_client_that_claims_to_be_the_driver(live: Live) -> None:
    for door in live.doors:
        sock, hello = knock(door)
        sock.sendall(answer(live.secret, hello, Role.DRIVER))
        assert dropped(sock)
    for role in (0, 4, 255):
        for door in live.doors:
            sock, hello = knock(door)
            sock.sendall(answer(live.secret, hello, role))
            assert dropped(sock)
    live.goes_on("no driver is expected", "there is a driver already", "an unknown role 255")


def outside(live: Live) -> set[str]:
    """Everything beside the session's directory and in its folders, less what is pushed and not completed."""
    around = {str(p) for p in live.directory.parent.iterdir()}
    inside = {str(p) for p in live.directory.iterdir()}
    return around | inside


def test_paths_in_a_push_lead_nowhere(live: Live) -> None:
    before = outside(live)
    rows = pack([[1, 2]])
    for door in live.doors[1:]:
        wrong = [(token, "link") for token in ("..", "../..", "/tmp/evil", "a/b", "a\0b", "", ".", "a.b")]
        wrong += [("77", relation) for relation in ("../../../evil", "/evil", "..", "\0", "a/b", "reach", "nothing")]
        for token, relation in wrong:
            since = live.mark
            with live.client(door) as client, pytest.raises(WireError):
                client.call(pack(["rows", token, 0, 0, relation, "+", rows]), 20)
            wait_until(lambda since=since: live._told("dropped a client", since), 20)
        with live.client(door) as client:  # and one that is meant
            client.send(pack(["rows", "77", 0, 0, "link", "+", rows]))
            ((relation, sign, name, count),) = msgspec.msgpack.decode(client.call(pack(["staged", "77", 0, 0]), 20))
            assert (relation, sign, count) == ("link", "+", 1)
            path = (live.directory / "batches" / name).resolve()
            assert path.is_file() and path.parent == (live.directory / "batches" / "77").resolve()
            path.unlink()
    assert outside(live) == before
    live.goes_on()


# --- secrets -------------------------------------------------------------------------------------------------


def forms(secret: bytes) -> list[bytes]:
    """How a secret may be written."""
    texts = [secret.hex(), secret.hex().upper(), repr(secret)[2:-1], str(list(secret))]
    coded = [base64.b64encode(secret), base64.urlsafe_b64encode(secret)]
    return [secret, *(text.encode() for text in texts), *(code.rstrip(b"=") for code in coded)]


def test_only_running_json_has_the_secret(live: Live) -> None:
    live.checked.session.checkpoint()
    live.goes_on()
    path = live.directory / "running.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for file in live.directory.rglob("*"):
        if file.is_file() and file != path:
            assert not any(form in file.read_bytes() for form in forms(live.secret)), file
    told = "\n".join(live.checked.runtime.notices).encode()
    assert told and not any(form in told for form in forms(live.secret))


SPY = r"""
import io, json, logging, os, sys
from contextlib import redirect_stdout
from pathlib import Path

folder = Path(sys.argv[1])
os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
logging.basicConfig(filename=folder / "python.log", level=1)
from pyspark.sql import SparkSession
import datalog, livelog
from livelog.runtime.spark.dataframes import pushed

(folder / "events").mkdir()
builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", (folder / "events").as_uri())
spark = builder.config("spark.eventLog.compress", "false").getOrCreate()
spark.sparkContext.setLogLevel("INFO")
program = datalog.parse("reach(x, y) :- link(x, y). reach(x, y) :- reach(x, z), link(z, y).")
frame = spark.createDataFrame([(1, 2), (2, 3)], "a long, b long")
runtime = livelog.Spark(spark, partitions=2, checkpoint=folder / "s")
session = livelog.open(program, facts={"link": frame}, runtime=runtime)
session.load("link", spark.createDataFrame([(3, 4)], "a long, b long"))
rows = session["reach"].to_spark()
shown = io.StringIO()
with redirect_stdout(shown):
    rows.explain(True)
    more = session._hashed("link", frame)
    pushed(more, session._runtime.addresses, session._runtime._secret, "77").explain(True)
count = rows.count()
os.kill(session._runtime.pids[0], 9)
with session.transaction() as tx:
    tx.delete("link", (1, 2))
shown.write(repr(session._runtime._crew.stage.__dict__) + repr(session._runtime.__dict__ and session))
(folder / "shown").write_text(shown.getvalue() + "\n".join(session._runtime.notices))
print(json.dumps({"count": count, "left": len(session["reach"]), "secret": session._runtime._secret.hex()}), flush=True)
sys.stdin.readline()
session.close()
spark.stop()
"""


def descendants(pid: int) -> list[int]:
    """A process and all that it started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found


def test_the_secret_is_in_no_log_plan_or_command_line(tmp_path: Path) -> None:
    with (tmp_path / "spark.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", SPY, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            cwd=ROOT,
        )  # fmt: skip
    try:
        assert child.stdout is not None and child.stdin is not None
        line = child.stdout.readline()
        assert line, (tmp_path / "spark.log").read_text(errors="replace")[-3000:]
        told = json.loads(line)
        assert (told["count"], told["left"]) == (6, 3)
        secret = bytes.fromhex(told["secret"])
        processes = descendants(child.pid)
        assert len(processes) >= 4  # Python, the JVM, the daemon of the workers, a worker
        for pid in processes:
            for name in ("cmdline", "environ"):
                try:
                    seen = Path(f"/proc/{pid}/{name}").read_bytes()
                except OSError:
                    continue
                assert not any(form in seen for form in forms(secret)), (pid, name)
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
    events = [p for p in (tmp_path / "events").rglob("*") if p.is_file()]
    assert events and sum(p.stat().st_size for p in events) > 1000
    assert (tmp_path / "shown").stat().st_size > 100 and (tmp_path / "spark.log").stat().st_size > 100
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(form in content for form in forms(secret)), file
    assert not (tmp_path / "s" / "running.json").exists()  # it went with the session


# --- what must not be there ----------------------------------------------------------------------------------


def test_nothing_from_the_wire_can_become_code() -> None:
    """No module of the runtime knows pickle or its like, or evaluates text."""
    modules = {"pickle", "_pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "yaml", "pyspark.cloudpickle",
               "pyspark.serializers"}  # fmt: skip
    calls = {"eval", "exec", "compile", "__import__"}
    files = sorted(p for room in ("runtime", "store") for p in (ROOT / "livelog" / room).rglob("*.py"))
    assert len(files) > 30
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in calls, f"{file}:{node.lineno} calls {node.func.id}"
            for name in names:
                assert name not in modules and name.split(".")[0] not in modules, f"{file}: {name}"
