"""Sessions over Spark under load: partitions that flood each other, slow ones, and lists and rows that are large."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime.spark import staff as staff_module
from livelog.runtime.spark.crew import Crew
from livelog.runtime.spark.outbox import PIECE
from livelog.runtime.spark.partition import INLINE

Open = Callable[..., livelog.Session]

PRODUCT = "r(x, y) :- a(x), b(y)."
SIDE = 180
"""A product of so many by so many is spread over three partitions, and too long for a reply on each of them."""


@pytest.fixture
def over(spark: Any) -> Iterator[Open]:
    """Opens a session over Spark on program text; closes it after the test."""
    sessions: list[livelog.Session] = []

    def open_(text: str, partitions: int = 3, facts: Any = None, **options: Any) -> livelog.Session:
        runtime = livelog.Spark(spark, partitions=partitions)
        sessions.append(livelog.open(datalog.parse(text), facts=facts, runtime=runtime, **options))
        return sessions[-1]

    yield open_
    for session in sessions:
        session.close()


# --- floods --------------------------------------------------------------------------------------------------

FLOOD = """
.decl e(k: number, j: number) partition(k)
.decl out(x: number, k: number, t: symbol) partition(k)
.decl start(k: number)
out(0, k, pad(0)) :- start(k).
out(x + 1, j, pad(x)) :- out(x, k, _), e(k, j), x < limit, wait(k) > 0.
.const limit = 0
"""
KEYS = 48
MESSAGE = 32 << 10
BUFFER = 128 << 10  # smaller than that, and the loopback device waits for timers


class Wires:
    """Functions of a rule that also look at the connections of the process in which they run.

    They make its socket buffers, its messages and the memory of its outboxes small, and note the most that waited for a
    peer: in all, and in memory. A slow process is one whose number is in a file: its first call then waits until
    somebody's outbox is full.
    """

    def __init__(self, folder: Path, cap: int, enough: int) -> None:
        self.folder = folder
        self.cap = cap
        self.enough = enough
        self.started = False
        self.waited = False

    def pad(self, x: int) -> str:
        self.watch()
        return f"{x:04}" * 500

    def watch(self) -> None:
        if self.started:
            return
        self.started = True
        import gc
        import os
        import socket
        import threading
        import time

        from livelog.runtime.spark import task

        frame, task.FRAME = task.FRAME, MESSAGE
        tasks = [o for o in gc.get_objects() if type(o) is task.Task and not o._over]
        connections = [peer for t in tasks for peer in t._peers.values()]
        for connection in connections:
            connection._out._cap = self.cap
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                connection._sock.setsockopt(socket.SOL_SOCKET, option, BUFFER)

        def sample() -> None:
            most = kept = 0
            while not all(connection.closed for connection in connections):
                pending, in_memory = (max(getattr(c, name) for c in connections) for name in ("pending", "in_memory"))
                if pending > most or in_memory > kept:
                    most, kept = max(most, pending), max(kept, in_memory)
                    (self.folder / f"{os.getpid()}.most").write_text(f"{most} {kept}")
                if most > self.enough:
                    (self.folder / "flooded").touch()
                time.sleep(0.002)
            task.FRAME = frame  # the process goes on to other sessions

        threading.Thread(target=sample, daemon=True).start()

    def wait(self, k: int) -> int:
        if not self.waited:
            import os
            import time

            slow = self.folder / "slow"
            if slow.exists() and slow.read_text() == str(os.getpid()):
                deadline = time.monotonic() + 60
                while not (self.folder / "flooded").exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
            self.waited = slow.exists()
        return 1

    @property
    def figures(self) -> dict[int, tuple[int, int]]:
        """By process, the most bytes that waited for one peer, and the most that did so in memory."""
        found = {}
        for path in self.folder.glob("*.most"):
            most, kept = map(int, path.read_text().split())
            found[int(path.stem)] = most, kept
        return found


def flood(rounds: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Facts for `FLOOD`, and what it must find: in every round, all keys."""
    rng = random.Random(7)
    edges = {(k, (k + 1) % KEYS) for k in range(KEYS)} | {(k, rng.randrange(KEYS)) for k in range(KEYS) for _ in "abc"}
    found = {(0, k) for k in range(KEYS)}
    for x in range(rounds):
        found |= {(x + 1, j) for k, j in edges if (x, k) in found}
    return {"e": sorted(edges), "start": [(k,) for k in range(KEYS)]}, sorted(found)


@pytest.mark.parametrize("way", ["dred", "absorption"])
def test_partitions_that_flood_each_other_come_to_an_end(over: Open, tmp_path: Path, way: str) -> None:
    wires = Wires(tmp_path, cap=8 << 10, enough=1 << 40)
    facts, expected = flood(40)
    options = {"functions": {"pad": wires.pad, "wait": wires.wait}, "constants": {"limit": 40}}
    with over(FLOOD, facts={"start": facts["start"]}, strategy=way, **options) as session:
        session.load("e", facts["e"])
        assert [row[:2] for row in session["out"]] == expected
        with session.transaction() as tx:
            for row in facts["start"]:
                tx.delete("start", row)
        assert len(tx.changes["out"].deleted) == len(expected) and not len(session["out"])
        assert session.stats().bytes_shipped > 2_000 * len(expected) // 4
        session.check()
    assert len(wires.figures) == 3
    assert max(most for most, _ in wires.figures.values()) > 8 << 10, "no outbox was ever full"


def test_a_slow_partition_does_not_fill_the_memory_of_its_peers(over: Open, tmp_path: Path) -> None:
    cap, enough = 256 << 10, 2 << 20
    wires = Wires(tmp_path, cap, enough)
    facts, expected = flood(150)
    options = {"functions": {"pad": wires.pad, "wait": wires.wait}, "constants": {"limit": 150}}
    with over(FLOOD, facts={"start": facts["start"]}, strategy="dred", **options) as session:
        (tmp_path / "slow").write_text(str(session._runtime.pids[1]))
        session.load("e", facts["e"])
        assert [row[:2] for row in session["out"]] == expected
        slow = session._runtime.pids[1]
    assert (tmp_path / "flooded").exists(), "the others never got far enough"
    for pid, (most, kept) in wires.figures.items():
        if pid != slow and most > enough:
            assert kept < cap + PIECE + 2 * MESSAGE, "the cap, a piece that is read back, and one message"
            return
    raise AssertionError(f"no outbox was full: {wires.figures}")


# --- long lists ----------------------------------------------------------------------------------------------


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes stay with the workers as soon as they do not fit into a reply."""
    monkeypatch.setattr(staff_module, "FETCHED", INLINE)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the commands to single workers."""
    names: list[str] = []
    real = Crew.one

    def one(self: Crew, partition: int, name: str, arguments: Any) -> Any:
        names.append(name)
        return real(self, partition, name, arguments)

    monkeypatch.setattr(Crew, "one", one)
    return names


def product(side: int = SIDE) -> list[tuple[int, int]]:
    return [(x, y) for x in range(side) for y in range(side)]


def test_long_changes_are_fetched_when_somebody_reads_them(over: Open, remote: None, fetched: list[str]) -> None:
    sides = {"a": [(x,) for x in range(SIDE)]}
    with over(PRODUCT, facts=sides) as session:
        kept = session.load("b", [(y,) for y in range(SIDE)])["r"]
        assert len(kept) == SIDE * SIDE > 3 * INLINE and kept and not fetched
        assert repr(kept) == f"<Changes of r: +{SIDE * SIDE} -0>" and not fetched
        with session.transaction() as tx:
            tx.delete("a", (0,))
        assert tx.changes["r"].deleted == [(0, y) for y in range(SIDE)]
        assert kept.inserted == product() and "page" in fetched, "as it was then"
        del fetched[:]
        assert len(kept.inserted) == SIDE * SIDE and kept.deleted == [] and not fetched, "once is enough"
        lines = str(kept).splitlines()
        assert len(lines) == SIDE * SIDE and lines[0] == "+r(0, 0)"
        with session.transaction() as tx:
            for y in range(SIDE):
                tx.delete("b", (y,))
        gone = tx.changes["r"]
        assert len(gone) == SIDE * (SIDE - 1) and not len(session["r"])
        session.close()
        assert len(gone) == SIDE * (SIDE - 1)
        with pytest.raises(livelog.RuntimeProblem, match="gone"):
            gone.deleted  # noqa: B018


def test_what_nobody_reads_is_let_go(over: Open, remote: None) -> None:
    with over(PRODUCT, 1, facts={"a": [(x,) for x in range(SIDE)]}) as session:
        for _ in range(3):
            assert len(session.load("b", [(y,) for y in range(SIDE)])["r"]) == SIDE * SIDE
            with session.transaction() as tx:
                for y in range(SIDE):
                    tx.delete("b", (y,))
            assert len(tx.changes["r"]) == SIDE * SIDE
            del tx
        session.load("b", [(0,)])
        runtime: Any = session._runtime
        assert not runtime._released, "the worker has been told"


def test_long_changes_of_all_kinds(over: Open) -> None:
    """Subscribers, relations with lists that are nested deeply, and all strategies that make changes in another way."""
    deep: Any = "x"
    for _ in range(12):
        deep = (deep,)
    rows = [(deep,), *((x,) for x in range(SIDE))]
    heard: list[int] = []
    for strategy in ("absorption", "recompute"):
        with over(PRODUCT, 2, {"a": rows}, strategy=strategy) as session:
            session.subscribe("r", lambda changes: heard.append(len(changes.inserted)))
            log = session.load("b", [(y,) for y in range(SIDE)])
            assert len(log["r"]) == (SIDE + 1) * SIDE == heard[-1]
            assert (deep, 5) in log["r"].inserted
            assert len(list(session["r"])) == (SIDE + 1) * SIDE and (deep, 5) in session["r"]
            assert session.why("r", (deep, 5)) == [("a", (deep,)), ("b", (5,))]


def test_views_that_are_read_while_they_are_long(over: Open) -> None:
    with over(PRODUCT, facts={"a": [(x,) for x in range(SIDE)], "b": [(y,) for y in range(SIDE)]}) as session:
        assert list(session["r"]) == product()
        assert len(session["r"].to_arrow()) == SIDE * SIDE
        assert len(session._runtime.facts()) == 2 * SIDE


# --- large rows ----------------------------------------------------------------------------------------------


def test_rows_that_are_large(over: Open) -> None:
    """Few rows, but more bytes than a message may have: in a transaction, in its changes, between partitions, in a
    view, and in an explanation."""
    text = ".decl b(k: number, t: symbol)\nr(t, k) :- b(k, t). n(k, strlen(t)) :- r(t, k)."
    rows = [(k, f"{k:04}" * 20_000) for k in range(900)]  # 72 MB on one partition
    with over(text, 1) as session:
        log = session.load("b", rows)
        assert len(log["r"]) == len(rows) and list(session["n"]) == [(k, 80_000) for k, _ in rows]
        assert sum(len(t) for t, _ in session["r"]) == 900 * 80_000
        assert sorted(k for _, k in log["r"].inserted) == [k for k, _ in rows]
        with session.transaction() as tx:
            for row in rows[1:]:
                tx.delete("b", row)
        assert len(tx.changes["r"].deleted) == 899 and list(session["n"]) == [(0, 80_000)]
        assert session._runtime.generation == 1


def test_a_row_that_is_too_large_says_so(over: Open) -> None:
    """No message holds it; a session without partitions elsewhere has no such limit."""
    text = "r(t) :- b(t)."
    with over(text, 2, {"b": [("small",)]}) as session:
        try:
            session.load("b", [("x" * (70 << 20),)])
        except livelog.LivelogError as error:
            assert "\n" not in error.message.strip() and len(error.message) < 1000
        else:
            assert len(session["r"]) == 2
            with session.transaction() as tx:
                tx.delete("b", ("x" * (70 << 20),))
        assert list(session["r"]) == [("small",)]
        assert session.load("b", [("y",)])["r"].inserted == [("y",)]


def test_many_rows_at_once(over: Open) -> None:
    """More than one message holds in a single transaction, through the driver."""
    rows = [(i, f"{i:060}") for i in range(300_000)]
    with over(".decl b(k: number, t: symbol)\nr(k) :- b(k, _). n(count<*>) :- r(_).", 2) as session:
        assert session.load("b", rows)["n"].inserted == [(300_000,)]
        assert len(session["r"]) == 300_000
