"""Handshake: who connects proves that it knows the session's secret before anything else that it sends is read.

    server   magic, nonce
    client   magic, nonce, role, number, generation, HMAC(secret, "client", all of the above)
    server   HMAC(secret, "server", all of the above)

All three have a fixed size, and the server reads exactly that much from a client. Both nonces are fresh, so that a
recorded answer is worth nothing later; the labels make sure that no one can be answered with its own words. The keys of
the messages that follow, one for each direction, are HMACs of the same under labels of their own. With TLS, all of it
is said inside, after both ends have shown their certificates.
"""

from __future__ import annotations

import errno
import hmac
import secrets
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from livelog.runtime.spark.outbox import CAP
from livelog.runtime.spark.secured import Secured, complaint, context_of, secure
from livelog.runtime.spark.tls import TLS
from livelog.runtime.spark.wire import Closed, Connection, WireError

__all__ = ["Door", "Greeting", "Refused", "Role", "connect"]

MAGIC = b"livelog2"
NONCE = 32
PROOF = 32
HELLO = len(MAGIC) + NONCE
_FIELDS = struct.Struct(f">{len(MAGIC)}s{NONCE}sBII")
ANSWER = _FIELDS.size + PROOF

_ACCEPTED = 16
"""How many connections are accepted in one go: those that wait may answer in between."""

_PAUSE = 0.5
"""Seconds without accepting after the process ran out of descriptors, which would only come up again at once."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Refused(WireError):
    """A handshake failed, or somebody who proved to know the secret is not wanted."""


class Role(IntEnum):
    """As what somebody connects."""

    DRIVER = 1
    WORKER = 2
    CLIENT = 3


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who connected: its role, its partition (0 if it has none) and the generation that it belongs to."""

    role: Role
    number: int
    generation: int


class _Key:
    """The secret, able to prove things and not to be printed: the bytes themselves are not kept."""

    __slots__ = ("_mac",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 16:
            raise ValueError("the secret of a session has at least 16 bytes")
        self._mac = hmac.new(secret, digestmod="sha256")

    def prove(self, label: bytes, *parts: bytes) -> bytes:
        """The HMAC of these parts; all of them have fixed sizes, so that no two lists of parts run together."""
        mac = self._mac.copy()
        mac.update(label)
        for part in parts:
            mac.update(part)
        return mac.digest()

    def client(self, hello: bytes, fields: bytes) -> bytes:
        return self.prove(b"livelog client\0", hello, fields)

    def server(self, hello: bytes, answer: bytes) -> bytes:
        return self.prove(b"livelog server\0", hello, answer)

    def keys(self, hello: bytes, answer: bytes) -> tuple[bytes, bytes]:
        """The keys of the messages from the client to the server, and of those from the server to the client."""
        to_server = self.prove(b"livelog messages to the server\0", hello, answer)
        return to_server, self.prove(b"livelog messages to the client\0", hello, answer)


# --- the client's side ---------------------------------------------------------------------------------------


def connect(
    address: tuple[str, int],
    secret: bytes,
    role: Role,
    number: int = 0,
    generation: int = 0,
    timeout: float = 10.0,
    *,
    cap: int = CAP,
    directory: str | None = None,
    tls: TLS | None = None,
) -> Connection:
    """Connect to a door. Blocks until both sides know each other, and raises `Refused` if they never do."""
    key = _Key(secret)
    context = None if tls is None else context_of(tls, server=False)
    place = _place(address)
    deadline = time.monotonic() + timeout
    try:
        sock = socket.create_connection(address, timeout=timeout)
    except OSError as e:
        raise Refused(f"cannot connect to {place}: {e.strerror or e}") from None
    try:
        # A port of this machine on which nobody listens any more may be given to the connecting socket itself.
        if sock.getsockname() == sock.getpeername():
            raise Refused(f"cannot connect to {place}: nobody listens there")
        if context is not None:
            sock = secured = secure(sock, context, server=False)
            _limit(sock, deadline)
            secured.do_handshake()
        hello = _exactly(sock, HELLO, deadline)
        if not hello.startswith(MAGIC):
            raise Refused(f"{place} is not the door of a Livelog session")
        fields = _FIELDS.pack(MAGIC, secrets.token_bytes(NONCE), role, number, generation)
        answer = fields + key.client(hello, fields)
        _limit(sock, deadline)
        sock.sendall(answer)
        if not hmac.compare_digest(_exactly(sock, PROOF, deadline), key.server(hello, answer)):
            raise Refused(f"{place} does not know the secret of this session")
        return Connection(sock, cap=cap, directory=directory, name=place, keys=key.keys(hello, answer))
    except TimeoutError:
        sock.close()
        raise Refused(f"{place} did not answer in time") from None
    except ssl.SSLError as e:
        sock.close()
        raise Refused(f"cannot connect to {place} over TLS: {complaint(e)}") from None
    except OSError as e:
        sock.close()
        raise Refused(f"{place} dropped the connection: {e.strerror or e}") from None
    except BaseException:
        sock.close()
        raise


def _exactly(sock: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        _limit(sock, deadline)
        more = sock.recv(size - len(data))
        if not more:
            raise OSError("it knows another secret, or does not want us")
        data += more
    return data


def _limit(sock: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


# --- the server's side ---------------------------------------------------------------------------------------


class _Guest:
    """A connection that has not proven anything yet."""

    __slots__ = ("answer", "deadline", "hello", "place", "sock")

    def __init__(self, sock: socket.socket, place: str, deadline: float) -> None:
        self.sock = sock
        self.place = place
        self.deadline = deadline
        self.hello = MAGIC + secrets.token_bytes(NONCE)
        self.answer = b""


class Door:
    """A listening socket in a selector. Who knocks and knows the secret is handed to `admit`; all others are dropped.

    The selector's keys have a callable as data that takes the mask of events. `log` gets one line for everybody that
    is dropped: from where and why. `admit` may raise `Refused`, and then the other end learns that it was dropped.

    At most `most` guests wait at a time, each for `patience` seconds: if more come, the one that has waited longest
    goes, since those who know what to say have said it long before.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        host: str,
        secret: bytes,
        admit: Callable[[Connection, Greeting], None],
        log: Callable[[str], None],
        *,
        patience: float = 5.0,
        most: int = 64,
        port: int = 0,
        cap: int = CAP,
        directory: str | None = None,
        tls: TLS | None = None,
    ) -> None:
        self._key = _Key(secret)
        self._context = None if tls is None else context_of(tls, server=True)
        self._selector = selector
        self._admit = admit
        self._log = log
        self._patience = patience
        self._most = most
        self._cap = cap
        self._directory = directory
        self._guests: dict[_Guest, None] = {}  # in the order in which they came, which is that of their deadlines
        self._paused: float | None = None
        self._sock = _listen(host, port)
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        selector.register(self._sock, selectors.EVENT_READ, self._knock)

    def __repr__(self) -> str:
        return f"<Door at {_place(self.address)}, {len(self._guests)} waiting>"

    @property
    def waiting(self) -> int:
        """How many connections have not proven anything yet."""
        return len(self._guests)

    @property
    def deadline(self) -> float | None:
        """When `expire` has something to do next, by the monotonic clock; None if nothing is due."""
        first = next(iter(self._guests), None)
        due = [t for t in (first.deadline if first else None, self._paused) if t is not None]
        return min(due, default=None)

    def expire(self, now: float | None = None) -> None:
        """Drop who took too long. The event loop calls this now and then; `now` is by the monotonic clock."""
        now = time.monotonic() if now is None else now
        while self._guests and (guest := next(iter(self._guests))).deadline <= now:
            self._drop(guest, "it did not prove in time that it knows the secret")
        if self._paused is not None and self._paused <= now:
            self._paused = None
            self._selector.register(self._sock, selectors.EVENT_READ, self._knock)

    def close(self) -> None:
        """Stop listening and let go of those who wait. Admitted connections live on. May be called twice."""
        for guest in list(self._guests):
            self._leave(guest)
            guest.sock.close()
        if self._sock.fileno() >= 0:
            if self._paused is None:
                self._selector.unregister(self._sock)
            self._paused = None
            self._sock.close()

    def _knock(self, mask: int) -> None:
        """Somebody wants to connect."""
        now = time.monotonic()
        self.expire(now)
        for _ in range(_ACCEPTED):
            if self._sock.fileno() < 0:  # `log` or the loop closed this door since the event came
                return
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as e:
                if e.errno in _EXHAUSTED:
                    self._log(f"cannot accept connections for a moment: {e.strerror}")
                    self._selector.unregister(self._sock)
                    self._paused = now + _PAUSE
                    return
                continue  # that connection broke before it was accepted
            self._receive(sock, _place(address), now)

    def _receive(self, sock: socket.socket, place: str, now: float) -> None:
        sock.setblocking(False)
        if self._context is not None:
            try:
                sock = secure(sock, self._context, server=True)
            except OSError as e:
                self._log(f"dropped a connection from {place}: {e.strerror}")
                return
        guest = _Guest(sock, place, now + self._patience)
        if len(self._guests) >= self._most:
            self._drop(next(iter(self._guests)), "too many others wait to prove that they know the secret")
        self._guests[guest] = None
        if isinstance(sock, Secured):
            self._selector.register(sock, selectors.EVENT_READ, partial(self._secure, guest, sock))
        else:
            self._selector.register(sock, selectors.EVENT_READ, partial(self._listen_to, guest))
            self._ask(guest)

    def _secure(self, guest: _Guest, sock: Secured, mask: int) -> None:
        """Go on with TLS; once both have shown their certificates, it is as without."""
        if guest not in self._guests:  # dropped since the event came
            return
        try:
            sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as e:
            events = selectors.EVENT_READ if isinstance(e, ssl.SSLWantReadError) else selectors.EVENT_WRITE
            self._selector.modify(sock, events, partial(self._secure, guest, sock))
        except OSError as e:
            self._drop(guest, complaint(e))
        else:
            self._selector.modify(sock, selectors.EVENT_READ, partial(self._listen_to, guest))
            self._ask(guest)

    def _ask(self, guest: _Guest) -> None:
        with suppress(OSError):
            if guest.sock.send(guest.hello) == HELLO:
                return
        self._drop(guest, "it was gone before it could be asked")

    def _listen_to(self, guest: _Guest, mask: int) -> None:
        """Some bytes of a guest's answer are here."""
        if guest not in self._guests:  # dropped since the event came
            return
        try:
            more = guest.sock.recv(ANSWER - len(guest.answer))
        except BlockingIOError:
            return
        except OSError as e:
            self._drop(guest, f"it broke off: {e.strerror or e}")
            return
        if not more:
            self._drop(guest, "it hung up before it proved that it knows the secret")
            return
        guest.answer += more
        if len(guest.answer) == ANSWER:
            try:
                self._welcome(guest)
            except Refused as e:
                self._drop(guest, str(e))

    def _welcome(self, guest: _Guest) -> None:
        """The whole answer is here: judge it."""
        fields, proof = guest.answer[: _FIELDS.size], guest.answer[_FIELDS.size :]
        if not fields.startswith(MAGIC):
            raise Refused("it does not speak this protocol")
        if not hmac.compare_digest(proof, self._key.client(guest.hello, fields)):
            raise Refused("it does not know the secret")
        _, _, role, number, generation = _FIELDS.unpack(fields)
        if role not in list(Role):
            raise Refused(f"it has an unknown role {role}")
        self._leave(guest)
        theirs, ours = self._key.keys(guest.hello, guest.answer)
        try:
            connection = Connection(
                guest.sock,
                cap=self._cap,
                directory=self._directory,
                name=guest.place,
                # Before anything that `admit` may send, but not sent before `admit` agreed.
                prologue=self._key.server(guest.hello, guest.answer),
                keys=(ours, theirs),
            )
        except OSError as e:
            raise Refused(f"it broke off: {e.strerror or e}") from None
        try:
            self._admit(connection, Greeting(Role(role), number, generation))
        except BaseException:
            connection.close()
            raise
        with suppress(Closed):  # the loop finds out when it reads
            connection.flush()

    def _drop(self, guest: _Guest, why: str) -> None:
        self._leave(guest)
        self._log(f"dropped a connection from {guest.place}: {why}")
        guest.sock.close()

    def _leave(self, guest: _Guest) -> None:
        if guest in self._guests:
            del self._guests[guest]
            self._selector.unregister(guest.sock)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket on the first address of a host that takes one."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as e:
        raise WireError(f"cannot listen on {host}: {e.strerror or e}") from None
    problem: OSError | None = None
    for family, _, _, _, address in found:
        try:
            sock = socket.create_server(address[:2], family=family, backlog=512)
        except OSError as e:
            problem = e
            continue
        sock.setblocking(False)
        return sock
    raise WireError(f"cannot listen on {_place((host, port))}: {problem}")


def _place(address: tuple[Any, ...]) -> str:
    """An address as people write it.

    >>> _place(("127.0.0.1", 80)), _place(("::1", 80, 0, 0))
    ('127.0.0.1:80', '[::1]:80')
    """
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
