"""Sessions over Spark that are held against the oracle while their processes are killed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime.spark.crew import Crew
from livelog.runtime.spark.staff import _open
from livelog.store.changefile import read_changes
from tests.harness import accumulate, apply, difference
from tests.oracle import Base, Operation, Row, evaluate

PROGRAM = """
.decl link(a: number, b: number)
.decl node(x: number)
.output reach
.output degree
.output lonely
reach(x, y) :- link(x, y).
reach(x, y) :- reach(x, z), link(z, w), y = touch(w).
degree(x, count<*>) :- link(x, _).
lonely(x) :- node(x), !reach(x, _).
"""

LINKS = [(0, 1), (1, 2), (2, 3), (3, 1), (4, 5), (5, 6), (6, 7), (0, 7), (8, 9)]
FACTS: dict[str, list[Row]] = {"link": LINKS, "node": [(i,) for i in range(12)]}

FATAL = 99
"""The value that `touch` of `deadly` dies of."""


def harmless(x: Any) -> Any:
    """The `touch` that only touches."""
    return x


def deadly(folder: Path) -> Callable[[Any], Any]:
    """A `touch` that kills its process when it sees `FATAL`, once for every file in a folder.

    The oracle calls it too, in this process, which it spares. It is made here so that it travels by value.
    """
    spared, path, fatal, kill = os.getpid(), str(folder), FATAL, int(signal.SIGKILL)

    def touch(x: Any) -> Any:
        import os

        if x == fatal and os.getpid() != spared:
            for name in os.listdir(path):
                try:
                    os.unlink(f"{path}/{name}")
                except FileNotFoundError:  # another worker dies of this one
                    continue
                os.kill(os.getpid(), kill)
        return x

    return touch


def lives(folder: Path, count: int) -> None:
    """Let a deadly function kill so many times from now on."""
    folder.mkdir(exist_ok=True)
    for i in range(count):
        (folder / f"life{time.monotonic_ns()}-{i}").touch()


class Checked:
    """A session, the oracle's model of its facts, and the sum of what it published, by return and by callback.

    `facts` are those that it was opened with.
    """

    def __init__(self, session: livelog.Session, facts: Mapping[str, Iterable[Row]], base: Base | None = None) -> None:
        self.session = session
        self.base = base or Base(session.program)
        if base is None:
            self.base.load(facts)
        self.views = list(session.plan.outputs)
        self.total: dict[str, set[Row]] = {view: set() for view in self.views}
        self.heard: dict[str, set[Row]] = {view: set() for view in self.views}
        self.problems: list[str] = []
        if base is None:
            self._note(self.total, session.initial)
            self._note(self.heard, session.initial)
        else:  # one that goes on
            for view in self.views:
                self.total[view] = set(session[view])
                self.heard[view] = set(session[view])
        for view in self.views:
            session.subscribe(view, lambda changes, view=view: self._note(self.heard, {view: changes}))
        self.verify()

    @property
    def runtime(self) -> Any:
        return self.session._runtime

    def _note(self, total: dict[str, set[Row]], changes: Any) -> None:
        views = [view for view in self.views if not isinstance(changes, dict) or view in changes]
        if wrong := accumulate(total, changes, views):
            self.problems.append(wrong)

    def transact(self, *operations: Operation) -> None:
        """One transaction, which must succeed, and then a look at everything."""
        with self.session.transaction() as tx:
            apply(tx, operations)
        self._note(self.total, tx.changes)
        self.base.apply(operations)
        self.verify()

    def refuse(self, match: str, *operations: Operation) -> None:
        """One transaction, which must fail and leave no trace."""
        with pytest.raises(livelog.RuntimeProblem, match=match), self.session.transaction() as tx:
            apply(tx, operations)
        self.verify()

    def verify(self) -> None:
        """The views are right, and so are the changes that were published."""
        expected = evaluate(self.session.program, self.base.facts())
        for view in self.views:
            rows = list(self.session[view])
            assert len(rows) == len(set(rows)), f"{view} lists rows twice"
            assert not (found := difference(set(expected[view]), set(rows))), f"{view} is wrong\n{found}"
            assert not (found := difference(set(rows), self.total[view])), f"{view} is not the sum\n{found}"
            assert not (found := difference(set(rows), self.heard[view])), f"{view} was told otherwise\n{found}"
        assert not self.problems, "\n".join(self.problems)
        assert self.session.clock == self.base.clock


def random_operations(rng: Any, nodes: int = 12) -> list[Operation]:
    """Some changes of a small graph."""
    operations: list[Operation] = []
    for _ in range(rng.randint(1, 4)):
        row = (rng.randrange(nodes), rng.randrange(nodes))
        operations.append((rng.choice(["insert", "insert", "delete"]), "link", row))
    if rng.random() < 0.2:
        operations.append((rng.choice(["insert", "delete"]), "node", (rng.randrange(nodes),)))
    return operations


def open_checked(
    spark: Any, directory: Path | None = None, *, partitions: int = 3, touch: Any = harmless, facts: Any = None,
    every: int = 10_000, tls: livelog.TLS | None = None, **options: Any,
) -> Checked:
    """A session of `PROGRAM`."""
    facts = FACTS if facts is None else facts
    runtime = livelog.Spark(
        spark, partitions=partitions, checkpoint=directory, checkpoint_every=every, patience=60, tls=tls
    )
    program = datalog.parse(PROGRAM, "kills.dl")
    session = livelog.open(program, facts=facts, runtime=runtime, functions={"touch": touch}, **options)
    try:
        return Checked(session, facts)
    except BaseException:
        session.close()
        raise


# --- killing -------------------------------------------------------------------------------------------------


def kill(pid: int) -> None:
    """SIGKILL to a process, which must be a Python worker of Spark's."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return
    if not line:  # it is dying already
        return
    assert b"pyspark" in line, f"{pid} is no worker: {line!r}"
    os.kill(pid, signal.SIGKILL)


def wait_until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something to be so."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended, be its parent aware of it or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def parent(pid: int) -> int:
    """The process that started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_daemon(pid: int) -> None:
    """SIGKILL to the daemon that a worker was forked from, and to the worker, which does not need it any more."""
    daemon = parent(pid)
    if b"pyspark.daemon" in Path(f"/proc/{daemon}/cmdline").read_bytes():  # else it is gone, and the worker was reused
        kill(daemon)
    kill(pid)


def kill_executor(pid: int) -> None:
    """SIGKILL to the executor that a worker belongs to."""
    executor = parent(parent(pid))
    line = Path(f"/proc/{executor}/cmdline").read_bytes()
    assert b"CoarseGrainedExecutorBackend" in line, f"{executor} is no executor: {line!r}"
    os.kill(executor, signal.SIGKILL)


class Ambush:
    """Kills workers when the driver sends a certain step, before or right after it: the first `times` times.

    `weapon` kills a worker by its process, or something that it needs.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deaths = 0
        self._step = ""
        self._before = True
        self._victims: tuple[int, ...] = ()
        self._times = 0
        self._weapon = kill
        self._with_arguments = False
        command = Crew._command

        def ambushed(crew: Crew, name: str, partitions: Any, arguments: list[Any]) -> None:
            due = name == self._step and self._times > 0 and (not self._with_arguments or any(arguments))
            if due:
                self._times -= 1
                self.deaths += 1
                if self._before:
                    self._strike(crew)
            command(crew, name, partitions, arguments)
            if due and not self._before:
                self._strike(crew)

        monkeypatch.setattr(Crew, "_command", ambushed)

    def set(
        self, step: str, *victims: int, before: bool = True, times: int = 1, weapon: Callable[[int], None] = kill,
        with_arguments: bool = False,
    ) -> None:  # fmt: skip
        """`with_arguments`: only steps that have some; the commit of a transaction has, that of a recovery has not."""
        self._step, self._victims, self._before, self._times = step, victims, before, times
        self._weapon = weapon
        self._with_arguments = with_arguments

    @property
    def waiting(self) -> bool:
        """Whether the step has not come yet."""
        return self._times > 0

    def _strike(self, crew: Crew) -> None:
        for victim in self._victims:
            pid = crew.hellos[victim].pid
            self._weapon(pid)
            if self._before:
                wait_until(lambda pid=pid: gone(pid))


class Sniper(threading.Thread):
    """Kills a worker, or several, again and again at random moments, until it has no shots left or is stopped."""

    def __init__(self, runtime: Any, rng: random.Random, shots: int, delay: float) -> None:
        super().__init__(daemon=True)
        self._runtime = runtime
        self._rng = random.Random(rng.random())
        self.shots = shots
        self._delay = delay
        self._over = threading.Event()
        self._last = -1

    def run(self) -> None:
        while self.shots and not self._over.wait(self._rng.random() * self._delay + 0.001):
            crew = self._runtime._crew  # not `pids`: that would wait for the transaction to end
            generation = self._runtime.generation
            if crew is None or generation == self._last or not (pids := [hello.pid for hello in crew.hellos]):
                continue
            self.shots -= 1
            self._last = generation
            for pid in self._rng.sample(pids, self._rng.choice([1, 1, len(pids)])):
                kill(pid)

    def stop(self) -> None:
        self._over.set()
        self.join()


def abandon(session: livelog.Session) -> None:
    """What a driver leaves that was killed: no word to anybody, and a lock that the system takes back."""
    runtime: Any = session._runtime
    if runtime._crew is not None:
        runtime._crew.dismiss()
        runtime._crew = None
    runtime._hub.close()
    _open.discard(runtime)
    os.close(runtime.journal._lock._fd)
    runtime.journal._lock._fd = None
    session._closed = True


def published(session: livelog.Session, view: str) -> set[Row]:
    """What the change files of a followed view add up to; every change in them makes a difference."""
    runtime: Any = session._runtime
    layout = runtime.journal.layout
    changes: list[tuple[int, str, Row]] = []
    for path in layout.changes(view, 0).parent.glob("*.log"):
        changes += read_changes(path, -1, runtime._latest)
    rows: set[Row] = set()
    for number, sign, row in sorted(changes, key=lambda c: (c[0], c[1] == "+")):
        assert (row in rows) == (sign == "-"), f"transaction {number} publishes {sign}{view}{row} again"
        (rows.add if sign == "+" else rows.discard)(row)
    return rows
