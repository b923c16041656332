"""Wire: messages over a socket that never blocks.

A message is a length (4 bytes, big-endian), so many bytes, and their tag where the two ends have agreed on keys (see
`livelog.runtime.spark.seal`); what the bytes mean is not known here. Sending only queues:
`flush` hands the kernel what it takes, and the rest waits in an outbox. Receiving takes what is there, a bounded
amount at a time, so that one loud peer does not keep a partition from its other work, and TCP slows that peer down.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from io import BytesIO
from types import TracebackType

from livelog.runtime.spark.outbox import CAP, Outbox
from livelog.runtime.spark.seal import TAG, Seal

__all__ = ["MAX_FRAME", "Closed", "Connection", "Forged", "Oversized", "TimedOut", "WireError"]

MAX_FRAME = 64 << 20
"""The largest message. Who has more to say splits it."""

_READ = 256 << 10
"""What one system call reads; small enough to stay in the processor's cache until the messages are cut out of it."""

_READS = 4
"""How many of them a `receive` makes at most."""

_FLUSHED = 4 << 20
"""What a `flush` sends at most: a fast reader must not keep a partition from its other work either."""

_JOINED = 64 << 10
"""Messages up to this size are queued in one go; the parts of larger ones are not copied together first."""

_PREFIX = struct.Struct(">I")
_pack = _PREFIX.pack
_unpack_from = _PREFIX.unpack_from


class WireError(Exception):
    """Something is wrong with a connection, or with what came over it."""


class Closed(WireError):
    """The connection ended."""


class Oversized(WireError):
    """A message, or the length that announces one, is above the limit."""


class Forged(WireError):
    """A message was changed, made, repeated or left out on its way."""


class TimedOut(WireError):
    """No message came in time."""


class _Scratch(threading.local):
    """Where reads of all connections of a thread go first. Nothing stays in it."""

    def __init__(self) -> None:
        self.space = memoryview(bytearray(_READ))


_scratch = _Scratch()


class Connection:
    """One end of a stream of messages, for one thread.

    In an event loop: `send` and then `flush`; while `pending`, wait for the socket to become writable and `flush`
    again; when it becomes readable, `receive`. Simple clients use `call` and `wait` instead, which block.

    `prologue` is sent before the first message, as it is. `keys` are those of what is sent and of what is received; a
    message that does not fit its tag is not returned, nor anything after it.

    >>> one, other = (Connection(s) for s in socket.socketpair())
    >>> one.send(b"a message ", b"in two parts")
    >>> one.send(b"")
    >>> one.pending, one.flush(), one.pending
    (30, True, 0)
    >>> other.receive()
    [b'a message in two parts', b'']
    >>> one.close()
    >>> other.receive()
    Traceback (most recent call last):
    ...
    livelog.runtime.spark.wire.Closed: the peer closed the connection
    >>> other.close()
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        limit: int = MAX_FRAME,
        cap: int = CAP,
        directory: str | None = None,
        name: str = "the peer",
        prologue: bytes = b"",
        keys: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.name = name
        self._sock = sock
        self._limit = limit
        self._out = Outbox(cap, directory)
        self._sent: Seal | None = None if keys is None else Seal(keys[0])
        self._received: Seal | None = None if keys is None else Seal(keys[1])
        self._tag = 0 if keys is None else TAG  # how many bytes stand behind a message
        self._prefix = b""  # of a prefix that has begun to arrive
        self._body: BytesIO | None = None  # of a message that has begun to arrive
        self._missing = 0  # what that body and its tag lack
        self._ready: deque[bytes] = deque()  # what `wait` found behind the message that it returned
        self._failure: WireError | None = None
        _prepare(sock)
        if prologue:
            self._out.append(prologue)
            self._out.peek()  # sent by itself: who reads no more than it has to, of TLS too, gets only that

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.pending} bytes pending"
        return f"<Connection to {self.name}, {state}>"

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, for a selector; -1 once closed."""
        return self._sock.fileno()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._sock.fileno() < 0

    @property
    def pending(self) -> int:
        """How many bytes wait to be sent."""
        return len(self._out)

    @property
    def in_memory(self) -> int:
        """How many of them wait in memory; the others are in a file."""
        return self._out.in_memory

    def close(self) -> None:
        """Let go of the socket and of what waits. May be called twice."""
        self._sock.close()
        self._out.close()
        self._ready.clear()
        self._body = None

    # --- sending ---------------------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        """Queue one message made of these parts. Never blocks, and hands nothing to the kernel: that is `flush`."""
        length = sum(map(len, parts))
        if length > self._limit:
            raise Oversized(f"a message of {length} bytes to {self.name} is above the limit of {self._limit} bytes")
        if self.closed:
            raise Closed(f"the connection to {self.name} is closed")
        tag = b"" if self._sent is None else self._sent.tag(length, parts)
        try:
            if length <= _JOINED:
                self._out.append(b"".join((_pack(length), *parts, tag)))
            else:
                self._out.append(_pack(length))
                for part in parts:
                    self._out.append(part)
                if tag:
                    self._out.append(tag)
        except OSError as e:
            self.close()  # half a message may be queued: nothing sensible can follow it
            raise WireError(f"cannot keep what waits for {self.name} in a temporary file: {e}") from e

    def flush(self) -> bool:
        """Hand the kernel what it takes. True when all is out. Raises `Closed` if the other end no longer reads."""
        out, send, sent = self._out, self._sock.send, 0
        while out:
            if sent >= _FLUSHED:
                return False
            try:
                n = send(out.peek())
            except BlockingIOError:
                return False
            except OSError as e:
                raise self._gone(e) from e
            out.advance(n)
            sent += n
        return True

    def drain(self, timeout: float) -> None:
        """Block until all is out."""
        deadline = time.monotonic() + timeout
        while not self.flush():
            self._block(select.POLLOUT, deadline, "did not take what was sent to it in time")

    # --- receiving -------------------------------------------------------------------------------------------

    def receive(self) -> list[bytes]:
        """The complete messages that are here now.

        Raises `Closed` at the end of the stream, `Oversized` at a length above the limit and `Forged` at a message that
        is not the other end's next one, but only after the messages before were returned: then the next call raises,
        and the socket stays readable so that a selector asks for that call.
        """
        messages = list(self._ready)
        self._ready.clear()
        if self._failure is None:
            self._read(messages)
        if self._failure is not None and not messages:
            raise self._failure
        return messages

    def _read(self, messages: list[bytes]) -> None:
        space = _scratch.space
        for _ in range(_READS):
            try:
                n = self._sock.recv_into(space)
            except BlockingIOError:
                return
            except OSError as e:
                self._failure = self._gone(e)
                return
            if not n:
                inside = " in the middle of a message" if self._prefix or self._body else ""
                self._failure = Closed(f"{self.name} closed the connection{inside}")
                return
            try:
                self._cut(space, n, messages)
            except (Oversized, Forged) as e:
                self._failure = e
                with suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RD)  # for selectors, readable from now on
                return
            if n < _READ:
                return

    def _cut(self, space: memoryview, n: int, messages: list[bytes]) -> None:
        """Cut messages out of n bytes that came."""
        at = 0
        if self._prefix:
            at = min(_PREFIX.size - len(self._prefix), n)
            self._prefix += space[:at]
            if len(self._prefix) < _PREFIX.size:
                return
            self._body, self._missing = BytesIO(), self._length(self._prefix, 0) + self._tag
            self._prefix = b""
        if self._body is not None:
            end = min(at + self._missing, n)
            self._body.write(space[at:end])
            self._missing -= end - at
            if self._missing:
                return
            if self._tag:
                self._check(self._body.getbuffer())
                self._body.truncate(self._body.tell() - TAG)
            messages.append(self._body.getvalue())  # not a copy: these are the bytes that it was written to
            self._body = None
            at = end
        while n - at >= _PREFIX.size:
            start = at + _PREFIX.size
            stop = start + self._length(space, at)
            at = stop + self._tag
            if at > n:
                self._body, self._missing = BytesIO(), at - n
                self._body.write(space[start:n])
                return
            if self._tag:
                self._check(space[start:at])
            messages.append(space[start:stop].tobytes())
        self._prefix = space[at:n].tobytes()

    def _check(self, data: memoryview) -> None:
        """Raise `Forged` unless a message and the tag behind it are what comes next."""
        assert self._received is not None
        length = len(data) - TAG
        if not self._received.fits(data[length:], length, (data[:length],)):
            raise Forged(f"{self.name} did not send what came over the connection: somebody changes it on its way")

    def _length(self, data: bytes | memoryview, at: int) -> int:
        length: int = _unpack_from(data, at)[0]
        if length > self._limit:
            raise Oversized(f"{self.name} announces {length} bytes, above the limit of {self._limit} bytes")
        return length

    # --- for simple clients ----------------------------------------------------------------------------------

    def call(self, message: bytes, timeout: float) -> bytes:
        """Send a message and block until one comes back.

        After an error the connection is closed: an answer that comes too late must not be taken for the next one.
        """
        deadline = time.monotonic() + timeout
        self.send(message)
        try:
            return self._wait(deadline)
        except WireError:
            self.close()
            raise

    def wait(self, timeout: float) -> bytes:
        """Block until a message is here; what is queued goes out meanwhile. Raises `TimedOut`."""
        return self._wait(time.monotonic() + timeout)

    def _wait(self, deadline: float) -> bytes:
        while not self._ready:
            events = select.POLLIN
            try:
                if not self.flush():
                    events |= select.POLLOUT
            except Closed:  # who no longer reads may have said why
                self._ready.extend(self.receive())
                if not self._ready:
                    raise
                break
            self._ready.extend(self.receive())
            if not self._ready:
                self._block(events, deadline, "did not answer in time")
        return self._ready.popleft()

    def _block(self, events: int, deadline: float, late: str) -> None:
        """Block until one of these events; the kernel counts whole milliseconds."""
        poll = select.poll()
        poll.register(self._sock, events)
        if not poll.poll(max(0, int((deadline - time.monotonic()) * 1000) + 1)) and time.monotonic() >= deadline:
            raise TimedOut(f"{self.name} {late}")

    def _gone(self, e: OSError) -> Closed:
        why = "it is closed at this end" if self.closed else e.strerror or str(e)
        return Closed(f"the connection to {self.name} is gone: {why}")


def _prepare(sock: socket.socket) -> None:
    """Never block, never wait for more to send, and notice in the end if the other machine is no longer there.

    Not TCP_USER_TIMEOUT: it would also cut off a peer that lives but reads slowly.
    """
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
