"""A task of the barrier stage: one partition of the session, from its start to its end.

It is one thread in one loop. A turn of the loop takes what has arrived, obeys the driver, works off frames of its
peers, and hands the kernel what is to be sent. It never waits while it has something to send or to read, so partitions
that flood each other go on; it reads a bounded amount in a turn, so a fast peer is slowed down by TCP, not by memory.
"""

from __future__ import annotations

import gc
import os
import selectors
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from livelog.memory import Memory
from livelog.runtime.frames import decode, encode
from livelog.runtime.limits import Exceeded, Watch, watched
from livelog.runtime.spark.handshake import Door, Greeting, Refused, Role, connect
from livelog.runtime.spark.messages import (
    Address,
    Broken,
    Gauge,
    Hello,
    Notice,
    Reply,
    arguments_of,
    failure_of,
    step_of,
)
from livelog.runtime.spark.messages import encode as pack
from livelog.runtime.spark.partition import Partition
from livelog.runtime.spark.tls import TLS
from livelog.runtime.spark.wire import Closed, Connection, Oversized, WireError
from livelog.runtime.worker import Method, Worker
from planner.plan import Plan

__all__ = ["Assignment", "Task", "run_task"]

RUNS = frozenset(("prepare", "begin", "resume"))
"""The steps that make workers send frames to each other."""

STARTS = frozenset(("apply", "input"))
ENDS = frozenset(("commit", "rollback", "absorb", "load"))
"""The steps that begin a transaction, and those that end one."""

FRAME = 16 << 20
"""Frames above this go out in several messages, one after the other. What a peer accepts is more."""

_HEAD = struct.Struct(">QB")
"""What stands before a frame, or a piece of it: the number of the step, and whether more pieces follow."""


@dataclass(frozen=True)
class Assignment:
    """What every task of a session is told when the stage starts. Travels with Spark's own task."""

    plan: Plan
    partitions: int
    method: Method
    limit: int | None
    directory: str
    driver: Address
    generation: int
    secret: bytes
    host: str | None  # where to listen; None: where the executor does
    sizes: Mapping[str, int] = field(default_factory=dict)
    memory: int | None = None  # of all partitions together; None: three quarters of what each machine has
    timeout: float | None = None
    tls: TLS | None = None

    def __repr__(self) -> str:  # the secret is in it
        return f"<Assignment of generation {self.generation}>"


def run_task(assignment: Assignment, rows: Iterable[Any]) -> Iterator[Any]:
    """The function of the barrier stage. `rows` are this partition's share of the stage's input."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    partition = context.partitionId()
    host = assignment.host
    if host is None:
        host = context.getTaskInfos()[partition].address.rpartition(":")[0]
    hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
    if assignment.tls is not None:
        from livelog.runtime.spark.dataframes import reported  # needs pyspark

        with reported():
            assignment.tls.check(where=hosts[partition])
    task = Task(assignment, partition, host, rows, hosts.count(hosts[partition]))
    collecting = gc.isenabled()
    gc.disable()  # see `Partition.tidy`
    try:
        task.serve()
    finally:
        task.close()
        gc.unfreeze()
        if collecting:
            gc.enable()
    return iter(())


class Task:
    """The loop of one partition.

    `_inbox` has the frames of the step that is under way; those of a step that the driver has not yet announced here
    wait in `_early`, and those of one that is over (it failed somewhere) are dropped. `_sent` and `_received` count
    the frames of the step, by partition.
    """

    def __init__(
        self, assignment: Assignment, partition: int, host: str, rows: Iterable[Any], beside: int = 1
    ) -> None:
        """`beside`: how many partitions are on this machine, this one included."""
        self._assignment = assignment
        self._number = partition
        self._n = assignment.partitions
        self._selector = selectors.DefaultSelector()
        self._step = 0
        self._stratum = 0
        self._failed = False
        self._due = False
        self._over = False
        self._result: Any = None
        self._commands: list[bytes] = []
        self._inbox: list[tuple[int, bytes]] = []
        self._early: dict[int, list[tuple[int, bytes]]] = {}
        self._sent = [0] * self._n
        self._received = [0] * self._n
        self._peers: dict[int, Connection] = {}
        self._clients: set[Connection] = set()
        self._dirty: set[Connection] = set()
        self._writing: set[Connection] = set()
        self._bytes = self._frames = 0
        self._busy = 0.0
        self._header = _HEAD.pack(0, 0)
        self._pieces: list[list[bytes]] = [[] for _ in range(self._n)]  # of frames that are not complete, by source
        worker = Worker(
            assignment.plan, partition, assignment.partitions, assignment.method, assignment.limit, self._send,
            assignment.sizes,
        )  # fmt: skip
        memory = Memory(assignment.memory, beside if assignment.memory is None else assignment.partitions)
        self._watch = Watch(assignment.plan, memory, assignment.timeout)
        self._transaction = object()
        self._limited = False  # whether what is evaluated is a transaction, and not the way back from one
        self._partition = Partition(worker, assignment.directory, rows)
        self._door = Door(
            self._selector, host, assignment.secret, self._admit, self._log, directory=None, tls=assignment.tls
        )
        self._driver = self._connect(assignment.driver, timeout=30)
        self._register(self._driver, self._hear_driver)
        self._tell(Hello(self._door.address, host, os.getpid()))

    def close(self) -> None:
        """Let go of everything."""
        self._door.close()
        for connection in (self._driver, *self._peers.values(), *self._clients):
            connection.close()
        self._selector.close()
        self._partition.close()

    # --- the loop --------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Serve until the driver says that it is over, or is gone."""
        select = self._selector.select
        while not self._over:
            if self._dirty:
                self._flush()
            events = select(0 if self._due else self._patience())
            for key, mask in events:
                key.data(mask)
            if self._commands:
                self._obey(self._commands.pop(0))
            elif self._inbox:
                self._work()
            elif self._due and not events:
                self._report()

    def _patience(self) -> float | None:
        """How long nothing has to be done unless something arrives."""
        if self._commands or self._inbox:
            return 0
        if self._door.deadline is None:
            return None
        self._door.expire()
        return max(0.0, (self._door.deadline or 0.0) - time.monotonic())

    def _obey(self, command: bytes) -> None:
        started = time.perf_counter()
        step, name, raw = step_of(command)
        self._step = step
        self._header = _HEAD.pack(step, 0)
        self._sent = [0] * self._n
        self._received = [0] * self._n
        self._failed = False
        self._result = None
        self._inbox.clear()
        for number in [n for n in self._early if n <= step]:
            for source, frame in self._early.pop(number):
                if number == step:
                    self._inbox.append((source, frame))
                    self._received[source] += 1
        try:
            arguments = arguments_of(name, raw)
            if name in RUNS:
                self._stratum = arguments[0]
            handler: Callable[..., Any] | None = getattr(self, f"_do_{name}", None)
            self._result = handler(*arguments) if handler else self._do(name, arguments)
        except Exception as error:
            self._fail(error)
        self._due = True
        self._busy += time.perf_counter() - started

    def _work(self) -> None:
        """Work off the frames that are here."""
        started = time.perf_counter()
        inbox, self._inbox = self._inbox, []
        if not self._failed:
            try:
                self._limited_to(self._work_off, inbox)
            except Exception as error:
                self._fail(error)
        self._due = True
        self._busy += time.perf_counter() - started

    def _work_off(self, inbox: list[tuple[int, bytes]]) -> None:
        worker = self._partition.worker
        for source, frame in inbox:
            worker.receive(source, *decode(frame))
        worker.work(self._stratum)

    def _do(self, name: str, arguments: Sequence[Any]) -> Any:
        """A step of the partition; in a transaction, up to the one that ends it, under watch."""
        if name in STARTS:
            self._limited, self._transaction = True, object()
        elif name in ENDS:
            self._limited = False
        return self._limited_to(self._partition.do, name, arguments)

    def _limited_to(self, work: Callable[..., Any], *given: Any) -> Any:
        """Do some work, under watch if it is part of a transaction."""
        if not self._limited:
            return work(*given)
        self._watch.check(self._transaction, lambda: self._partition.worker.busiest(self._stratum))
        try:
            result = self._under_watch(work, *given)
            if self._watch.firing:
                self._watch.calm()
        except BaseException as error:
            try:
                told = self._watch.told(error)
            except Exceeded as late:
                told = self._watch.told(late)
            try:
                if told is not error:
                    raise told from None
                raise
            finally:
                del told  # its traceback has this frame
        return result

    def _under_watch(self, work: Callable[..., Any], *given: Any) -> Any:
        return work(*given)

    def _fail(self, error: Exception) -> None:
        """The step failed here: the driver hears of it, and what still arrives in this step is in vain."""
        self._failed = True
        self._reply(failure_of(error))

    def _report(self) -> None:
        self._due = False
        if not self._failed:
            self._reply(None)

    def _reply(self, failure: Any) -> None:
        waiting = len(self._inbox) + sum(map(len, self._early.values()))
        outbox = sum(peer.pending for peer in self._peers.values())
        gauge = Gauge(waiting, outbox, self._bytes, self._frames, self._busy)
        result = msgspec.Raw(pack(self._result))
        try:
            self._tell(Reply(self._step, failure, result, self._sent, self._received, gauge))
        except Oversized as error:
            self._result = None
            self._fail(error)

    # --- connections -----------------------------------------------------------------------------------------

    def _connect(self, address: Address, timeout: float) -> Connection:
        given = self._assignment
        return connect(address, given.secret, Role.WORKER, self._number, given.generation, timeout, tls=given.tls)

    def _register(self, connection: Connection, hear: Callable[[], None]) -> None:
        def handle(mask: int) -> None:
            if mask & selectors.EVENT_WRITE:
                self._dirty.add(connection)
            if mask & selectors.EVENT_READ:
                hear()

        self._selector.register(connection, selectors.EVENT_READ, handle)

    def _flush(self) -> None:
        """Hand the kernel what it takes; what it does not, goes out when the socket is writable again."""
        dirty, self._dirty = self._dirty, set()
        for connection in dirty:
            if connection.closed:
                continue
            try:
                done = connection.flush()
            except WireError as error:
                self._lose(connection, error)
                continue
            if done == (connection in self._writing):
                key = self._selector.get_key(connection)
                events = selectors.EVENT_READ if done else selectors.EVENT_READ | selectors.EVENT_WRITE
                self._selector.modify(connection, events, key.data)
                (self._writing.discard if done else self._writing.add)(connection)

    def _lose(self, connection: Connection, error: WireError) -> None:
        """A connection is gone. Without its driver a task is over; without a peer the driver must start anew."""
        self._selector.unregister(connection)
        self._writing.discard(connection)
        self._dirty.discard(connection)
        connection.close()
        if connection is self._driver:
            self._over = True
        elif connection in self._clients:
            self._clients.discard(connection)
            self._partition.forget(connection)
            if not isinstance(error, Closed):
                self._log(f"dropped a client: {error}")
        else:
            self._tell(Broken(f"partition {self._number} lost a channel: {error}"))

    def _tell(self, message: Any) -> None:
        if not self._over or not self._driver.closed:  # nobody listens any more, and this task ends
            self._driver.send(pack(message))
            self._dirty.add(self._driver)

    def _log(self, text: str) -> None:
        self._tell(Notice(f"partition {self._number}: {text}"))

    def _hear_driver(self) -> None:
        try:
            self._commands += self._driver.receive()
        except WireError as error:
            self._lose(self._driver, error)

    def _admit(self, connection: Connection, greeting: Greeting) -> None:
        """Somebody at the door knows the secret."""
        if greeting.role == Role.WORKER:
            source = greeting.number
            if greeting.generation != self._assignment.generation or not self._number < source < self._n:
                raise Refused(f"no channel to partition {source} of generation {greeting.generation} is expected")
            if source in self._peers:
                raise Refused(f"partition {source} is connected already")
            self._join(source, connection)
        elif greeting.role == Role.CLIENT:
            self._clients.add(connection)
            self._register(connection, lambda: self._hear_client(connection))
        else:
            raise Refused("no driver is expected")

    def _hear_client(self, connection: Connection) -> None:
        try:
            for message in connection.receive():
                for answer in self._partition.serve(connection, message):
                    connection.send(answer)
                    self._dirty.add(connection)
        except WireError as error:
            self._lose(connection, error)
        except Exception as error:  # whatever it is, it is the client's affair
            self._lose(connection, WireError(f"what it wants cannot be done ({type(error).__name__}: {error})"))

    # --- frames ----------------------------------------------------------------------------------------------

    def _join(self, number: int, connection: Connection) -> None:
        self._peers[number] = connection
        self._register(connection, lambda: self._hear_peer(number, connection))

    def _do_meet(self, addresses: list[tuple[str, int]]) -> None:
        """Connect to the partitions with lower numbers; the others connect here. So nobody waits in a ring."""
        for number, (host, port) in enumerate(addresses[: self._number]):
            self._join(number, self._connect((host, port), timeout=60))

    def _do_met(self) -> bool:
        """Whether all channels are there."""
        return len(self._peers) == self._n - 1

    def _do_stop(self) -> None:
        self._over = True

    def _send(self, destination: int, stratum: int, kind: str, target: int, rows: list[Any]) -> None:
        frame = encode(stratum, kind, target, rows)
        self._bytes += len(frame)
        self._frames += 1
        self._sent[destination] += 1
        peer = self._peers[destination]
        while len(frame) > FRAME:
            peer.send(_HEAD.pack(self._step, 1), frame[:FRAME])
            frame = frame[FRAME:]
        peer.send(self._header, frame)
        self._dirty.add(peer)

    def _hear_peer(self, source: int, connection: Connection) -> None:
        try:
            messages = connection.receive()
        except WireError as error:
            self._lose(connection, error)
            return
        step, inbox, header, pieces = self._step, self._inbox, self._header, self._pieces[source]
        for message in messages:
            frame = message[_HEAD.size :]
            if message.startswith(header) and not pieces:
                inbox.append((source, frame))
                self._received[source] += 1
                continue
            try:
                number, more = _HEAD.unpack_from(message)
            except struct.error:
                self._lose(connection, WireError("a frame is too short"))
                return
            pieces.append(frame)
            if not more:
                frame = b"".join(pieces)
                pieces.clear()
                if number == step:
                    inbox.append((source, frame))
                    self._received[source] += 1
                elif number > step:
                    self._early.setdefault(number, []).append((source, frame))


watched(Task._under_watch)
