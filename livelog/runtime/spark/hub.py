"""Hub: the driver's door, and the thread behind it.

Tasks of the stage come through it once, and are handed over; clients (readers of views, `livelog top`) ask questions,
each connection in a thread of its own, since an answer may have to wait for a transaction to end.
"""

from __future__ import annotations

import os
import queue
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from livelog.runtime.spark.handshake import Door, Greeting, Refused, Role
from livelog.runtime.spark.tls import TLS
from livelog.runtime.spark.wire import Closed, Connection, TimedOut, WireError

__all__ = ["Hub"]

CLIENTS = 64
"""How many clients may be connected at a time."""


class Hub:
    """Listens on the driver. `arrivals` gets (connection, partition) of each task of the expected generation.

    `answer` takes a client's question, as decoded msgpack, and returns the answer or raises `LookupError`.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        answer: Callable[[list[Any]], Any],
        log: Callable[[str], None],
        tls: TLS | None = None,
    ) -> None:
        self.arrivals: queue.SimpleQueue[tuple[Connection, int] | None] = queue.SimpleQueue()
        self._generation = 0
        self._awaited: set[int] = set()
        self._answer = answer
        self._log = log
        self._clients: set[Connection] = set()
        self._admitted: list[tuple[Connection, Greeting]] = []
        self._selector = selectors.DefaultSelector()
        self._door = Door(self._selector, host, secret, self._admit, log, tls=tls)
        self.port = self._door.address[1]
        self._waker, waked = socket.socketpair()
        self._closed = False
        self._selector.register(waked, selectors.EVENT_READ, lambda mask: None)
        self._waked = waked
        self._thread = threading.Thread(target=self._serve, name="livelog hub", daemon=True)
        self._thread.start()

    def expect(self, generation: int, partitions: int) -> None:
        """Let the tasks of a new generation in, one for each partition; none of an older one."""
        self._generation = generation
        self._awaited = set(range(partitions))

    def close(self) -> None:
        """Stop listening, and let clients go."""
        self._closed = True
        with suppress(OSError):
            self._waker.send(b"x")
        self._thread.join(5)
        for client in list(self._clients):
            # it is another thread's: let that one find it closed
            with suppress(OSError), socket.socket(fileno=os.dup(client.fileno())) as again:
                again.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while not self._closed:
            for key, mask in self._selector.select(1.0 if self._door.deadline is not None else None):
                key.data(mask)
            self._door.expire()
            # Only now: while the door is at it, a connection is this thread's.
            admitted, self._admitted = self._admitted, []
            for connection, greeting in admitted:
                if greeting.role == Role.WORKER:
                    self.arrivals.put((connection, greeting.number))
                else:
                    name = "livelog client"
                    threading.Thread(target=self._converse, args=(connection,), name=name, daemon=True).start()
        self._door.close()
        self._selector.close()
        self._waker.close()
        self._waked.close()

    def _admit(self, connection: Connection, greeting: Greeting) -> None:
        if greeting.role == Role.WORKER:
            if greeting.generation != self._generation or greeting.number not in self._awaited:
                raise Refused(f"partition {greeting.number} of generation {greeting.generation} is not expected")
            self._awaited.discard(greeting.number)
        elif greeting.role == Role.CLIENT:
            if len(self._clients) >= CLIENTS:
                raise Refused(f"{CLIENTS} clients are connected already")
            self._clients.add(connection)
        else:
            raise Refused("there is a driver already")
        self._admitted.append((connection, greeting))

    def _converse(self, client: Connection) -> None:
        """Answer one client until it goes."""
        try:
            while not self._closed:
                try:
                    question = msgspec.msgpack.decode(client.wait(3600))
                except TimedOut:
                    continue
                if type(question) is not list or not question or type(question[0]) is not str:
                    raise WireError("what it asks makes no sense")
                client.send(msgspec.msgpack.encode(self._answer(question)))
        except WireError as error:
            if not isinstance(error, Closed):
                self._log(f"dropped a client: {error}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._log(f"dropped a client: what it asks makes no sense ({type(error).__name__})")
        finally:
            self._clients.discard(client)
            client.close()
