"""Crew: the workers of one submission of the stage, as the driver commands them.

A step is over when every worker has answered. A step that makes them send frames is over when, by the vectors that
they reported last, each frame that was sent has been received: `sent[i][j] == received[j][i]` for all pairs. That is
enough, with reports from different moments (Mattern's vector counters): a worker that reported has nothing to do, so
the first one to go on after its report must have received a frame that its sender had not counted, and so the sender
had gone on before it.
"""

from __future__ import annotations

import queue
import selectors
import socket
import time
from contextlib import suppress
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem
from livelog.runtime.spark.hub import Hub
from livelog.runtime.spark.messages import (
    Broken,
    Gauge,
    Hello,
    Notice,
    Reply,
    encode_command,
    message_of,
    raised,
    result_of,
)
from livelog.runtime.spark.stage import Stage
from livelog.runtime.spark.task import Assignment
from livelog.runtime.spark.wire import Connection, Oversized, WireError

__all__ = ["Crew", "Lost"]


class Lost(Exception):
    """A worker is gone, and with it its partition."""


class Crew:
    """Connections to the workers, all of one generation."""

    def __init__(self, spark: Any, assignment: Assignment, name: str, data: Any, hub: Hub, patience: float) -> None:
        self.partitions = assignment.partitions
        self._log = hub._log
        self._step = 0
        self._writing: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._waker, self._waked = socket.socketpair()
        self._selector.register(self._waked, selectors.EVENT_READ, None)
        self.connections: list[Connection] = []
        self.hellos: list[Hello] = []
        self.gauges = [Gauge(0, 0, 0, 0, 0.0)] * self.partitions
        hub.expect(assignment.generation, self.partitions)
        self._arrivals = hub.arrivals

        def ended() -> None:
            hub.arrivals.put(None)
            with suppress(OSError):
                self._waker.send(b"x")

        self.stage = Stage(spark, assignment, name, data, ended)
        try:
            self._welcome(patience)
            self.call("meet", [([h.address for h in self.hellos],)] * self.partitions)
            assert all(self.call("met", [()] * self.partitions)), "a channel between two workers is missing"
        except BaseException:
            self.dismiss(0.5)
            raise

    def _welcome(self, patience: float) -> None:
        """Wait until all tasks have come through the door."""
        deadline = time.monotonic() + patience
        came: dict[int, Connection] = {}
        while len(came) < self.partitions:
            if self.stage.over:
                if (told := self.stage.told()) is not None:
                    raise told  # a row that cannot be: starting again does not help
                raise Lost(f"Spark could not start the workers: {self.stage.error or 'the stage ended at once'}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise Lost(f"only {len(came)} of {self.partitions} workers started in {patience:g} seconds")
            try:
                arrival = self._arrivals.get(timeout=left)
            except queue.Empty:
                continue
            if arrival is not None:
                connection, number = arrival
                if number in came:
                    connection.close()
                else:
                    came[number] = connection
        self.connections = [came[i] for i in range(self.partitions)]
        for i, connection in enumerate(self.connections):
            try:
                hello = message_of(connection.wait(patience))
            except (WireError, msgspec.MsgspecError) as error:
                raise Lost(f"worker {i} did not say where it is: {error}") from error
            assert isinstance(hello, Hello)
            self.hellos.append(hello)
            self._selector.register(connection, selectors.EVENT_READ, i)

    # --- steps -----------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: list[Any]) -> list[Any]:
        """A step of all workers that sends no frames; their results."""
        self._command(name, range(self.partitions), arguments)
        replies: dict[int, Reply] = {}
        while len(replies) < self.partitions:
            for i, reply in self._heard():
                replies[i] = reply
        return [result_of(name, replies[i].result) for i in range(self.partitions)]

    def one(self, partition: int, name: str, arguments: Any) -> Any:
        """A step of one worker that sends no frames."""
        self._command(name, (partition,), [arguments])
        while True:
            for i, reply in self._heard():
                if i == partition:
                    return result_of(name, reply.result)

    def tell(self, name: str, arguments: list[Any]) -> None:
        """A step of all workers whose end nobody waits for: what comes next comes after it."""
        self._command(name, range(self.partitions), arguments)

    def run(self, name: str, arguments: Any) -> list[Any]:
        """A step of all workers with all that follows from it: until they are quiescent."""
        n = self.partitions
        self._command(name, range(n), [arguments] * n)
        replies: list[Reply | None] = [None] * n
        missing = n
        while True:
            for i, reply in self._heard():
                if replies[i] is None:
                    missing -= 1
                replies[i] = reply
            if not missing and _quiescent(replies):  # type: ignore[arg-type]
                return [result_of(name, reply.result) for reply in replies if reply is not None]

    def _command(self, name: str, partitions: Any, arguments: list[Any]) -> None:
        if self.stage.over:
            raise Lost(self.stage.error or "the stage is over")
        self._step += 1
        previous: Any = None
        for i, given in zip(partitions, arguments, strict=True):
            if previous is None or given is not previous[0]:  # mostly they are all told the same
                previous = given, encode_command(self._step, name, given)
            connection = self.connections[i]
            try:
                connection.send(previous[1])
            except Oversized as error:
                raise RuntimeProblem(str(error)) from None
            self._flush(i, connection)

    def _flush(self, i: int, connection: Connection) -> None:
        try:
            done = connection.flush()
        except WireError as error:
            raise Lost(f"worker {i} is gone: {error}") from error
        if done == (connection in self._writing):
            events = selectors.EVENT_READ if done else selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(connection, events, i)
            (self._writing.discard if done else self._writing.add)(connection)

    def _heard(self) -> list[tuple[int, Reply]]:
        """Replies to the step under way; waits for one if need be. Raises what a worker reports as failed."""
        heard = []
        for key, mask in self._selector.select():
            i = key.data
            if i is None:
                raise Lost(self.stage.error or "the stage ended")
            connection = self.connections[i]
            if mask & selectors.EVENT_WRITE:
                self._flush(i, connection)
            if not mask & selectors.EVENT_READ:
                continue
            try:
                messages = [message_of(m) for m in connection.receive()]
            except (WireError, msgspec.MsgspecError) as error:
                raise Lost(f"worker {i} is gone: {error}") from error
            for message in messages:
                if isinstance(message, Notice):
                    self._log(message.text)
                elif isinstance(message, Broken):
                    raise Lost(message.text)
                elif isinstance(message, Reply):
                    self.gauges[i] = message.gauge
                    if message.step == self._step:
                        if message.failure is not None:
                            raise raised(message.failure)
                        heard.append((i, message))
        return heard

    # --- the end ---------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let the workers end."""
        with suppress(Lost, WireError):
            self.tell("stop", [()] * self.partitions)
        self.dismiss(3.0)

    def dismiss(self, timeout: float = 5.0) -> None:
        """Let go of the workers: whoever still lives ends without a driver."""
        for connection in self.connections:
            with suppress(KeyError, ValueError):
                self._selector.unregister(connection)
            connection.close()
        while not self._arrivals.empty():
            arrival = self._arrivals.get()
            if arrival is not None:
                arrival[0].close()
        self.stage.end(timeout)
        while not self._arrivals.empty():
            arrival = self._arrivals.get()
            if arrival is not None:
                arrival[0].close()
        self._selector.close()
        self._waker.close()
        self._waked.close()


def _quiescent(replies: list[Reply]) -> bool:
    """Whether every frame that was sent has been received."""
    for i, reply in enumerate(replies):
        for j, count in enumerate(reply.sent):
            if count != replies[j].received[i]:
                return False
    return True

