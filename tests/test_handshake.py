"""Handshake: who knows the secret gets in, all others are dropped unread, and the log tells where from and why."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import random
import re
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from livelog.runtime.spark import handshake
from livelog.runtime.spark.handshake import ANSWER, HELLO, MAGIC, Door, Greeting, Refused, Role, connect
from livelog.runtime.spark.wire import Connection, Forged, WireError

SECRET = b"-the secret of the session-12345"
OTHER = b"-the secret of another one-12345"


class Host:
    """A loop with a door, in a thread of its own or turned by hand."""

    def __init__(self, *, host: str = "127.0.0.1", most: int = 64, patience: float = 5.0) -> None:
        self.selector = selectors.DefaultSelector()
        self.log: list[str] = []
        self.admitted: list[tuple[Connection, Greeting]] = []
        self.messages: list[bytes] = []
        self.admit: Callable[[Connection, Greeting], None] = lambda c, g: None
        self.door = Door(self.selector, host, SECRET, self._admit, self.log.append, most=most, patience=patience)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _admit(self, connection: Connection, greeting: Greeting) -> None:
        self.admit(connection, greeting)
        self.admitted.append((connection, greeting))
        self.selector.register(connection, selectors.EVENT_READ, lambda mask: self._read(connection))

    def _read(self, connection: Connection) -> None:
        try:
            for message in connection.receive():
                self.messages.append(message)
                connection.send(message.upper())
            connection.flush()
        except WireError:
            self.selector.unregister(connection)
            connection.close()

    def turn(self, seconds: float = 0.05) -> None:
        """Handle what is there, until nothing comes for a moment."""
        while events := self.selector.select(seconds):
            for key, mask in events:
                key.data(mask)

    def start(self) -> None:
        def run() -> None:
            while not self._stop.is_set():
                for key, mask in self.selector.select(0.02):
                    key.data(mask)
                self.door.expire(time.monotonic())

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def logged(self) -> str:
        """The only line in the log, which may come a moment after the other end noticed that it was dropped."""
        deadline = time.monotonic() + 5
        while not self.log and time.monotonic() < deadline:
            time.sleep(0.01)
        (line,) = self.log
        return line

    def close(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(10)
            assert not self._thread.is_alive()
        self.door.close()
        for connection, _ in self.admitted:
            connection.close()
        self.selector.close()


@pytest.fixture
def host() -> Iterator[Host]:
    """Turned by hand. Whatever a test does, no secret gets into the log."""
    made = Host()
    yield made
    made.close()
    no_secrets("\n".join(made.log))


@pytest.fixture
def running() -> Iterator[Host]:
    made = Host()
    made.start()
    yield made
    made.close()
    no_secrets("\n".join(made.log))


def no_secrets(text: str) -> None:
    for secret in (SECRET, OTHER):
        for form in (secret.decode(), repr(secret), secret.hex()):
            assert form not in text
    assert not re.search(r"[0-9a-f]{16}|\\x", text), f"this looks like a nonce or a proof: {text}"


def knock(host: Host) -> tuple[socket.socket, bytes]:
    """A connection that was asked to prove itself, and what it was asked."""
    sock = socket.create_connection(host.door.address, timeout=5)
    host.turn(0.1)
    hello = b""
    while len(hello) < HELLO:
        hello += sock.recv(HELLO - len(hello))
    assert hello.startswith(MAGIC)
    return sock, hello


def answer(
    hello: bytes, secret: bytes = SECRET, magic: bytes = MAGIC, role: int = 2, label: bytes = b"client"
) -> bytes:
    """What a client says, written down a second time."""
    fields = magic + os.urandom(32) + bytes([role]) + struct.pack(">II", 3, 7)
    return fields + hmac.digest(secret, b"livelog " + label + b"\0" + hello + fields, "sha256")


def sealed(hello: bytes, said: bytes, message: bytes, number: int = 0, towards: bytes = b"server") -> bytes:
    """A message with its tag, written down a second time."""
    key = hmac.digest(SECRET, b"livelog messages to the " + towards + b"\0" + hello + said, "sha256")
    length = struct.pack(">I", len(message))
    tag = hashlib.blake2b(struct.pack(">Q", number) + length + message, key=key, digest_size=16).digest()
    return length + message + tag


def dropped(sock: socket.socket) -> bool:
    """Whether the other end closed, without another word."""
    sock.settimeout(5)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


# --- getting in ----------------------------------------------------------------------------------------------


def test_who_knows_the_secret_gets_in(running: Host) -> None:
    with connect(running.door.address, SECRET, Role.WORKER, number=3, generation=7) as connection:
        assert connection.call(b"hello", 5) == b"HELLO"
        assert connection.name == f"127.0.0.1:{running.door.address[1]}"
    (_, greeting), *others = running.admitted
    assert greeting == Greeting(Role.WORKER, 3, 7) and not others
    assert running.log == []


@pytest.mark.parametrize("role", list(Role))
def test_the_greeting_arrives_as_it_was_said(running: Host, role: Role) -> None:
    for number, generation in ((0, 0), (1, 2), (2**32 - 1, 2**32 - 1)):
        connect(running.door.address, SECRET, role, number, generation).close()
    assert [g for _, g in running.admitted] == [
        Greeting(role, n, g) for n, g in ((0, 0), (1, 2), (2**32 - 1, 2**32 - 1))
    ]


def test_the_written_form_of_the_handshake(host: Host) -> None:
    """An independent client: the messages are what the module says they are."""
    sock, hello = knock(host)
    assert len(hello) == 40 and ANSWER == 81
    said = answer(hello)
    sock.sendall(said)
    host.turn()
    proof = sock.recv(100)
    assert proof == hmac.digest(SECRET, b"livelog server\0" + hello + said, "sha256")
    assert [g for _, g in host.admitted] == [Greeting(Role.WORKER, 3, 7)]
    assert host.door.waiting == 0
    sock.close()


def test_what_admit_sends_comes_after_the_proof(running: Host) -> None:
    def admit(connection: Connection, greeting: Greeting) -> None:
        connection.send(b"welcome")
        connection.flush()
        connection.send(b"again")

    running.admit = admit
    with connect(running.door.address, SECRET, Role.CLIENT) as connection:
        assert [connection.wait(5), connection.wait(5)] == [b"welcome", b"again"]


def test_many_at_once(running: Host) -> None:
    got: list[bytes] = []

    def client(i: int) -> None:
        with connect(running.door.address, SECRET, Role.WORKER, i) as connection:
            got.append(connection.call(b"from %d" % i, 10))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert sorted(got) == sorted(b"FROM %d" % i for i in range(40))
    assert sorted(g.number for _, g in running.admitted) == list(range(40))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "::1"])
def test_hosts_by_name_and_number(name: str) -> None:
    if name == "::1":
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 here")
    made = Host(host=name)
    made.start()
    try:
        with connect((name, made.door.address[1]), SECRET, Role.CLIENT) as connection:
            assert connection.call(b"hi", 5) == b"HI"
        with pytest.raises(Refused):
            connect(made.door.address, OTHER, Role.CLIENT)
        place = re.escape("[::1]" if name == "::1" else made.door.address[0])
        assert re.search(rf"from {place}:\d+: it does not know the secret$", made.logged())
    finally:
        made.close()


# --- not getting in ------------------------------------------------------------------------------------------


def test_a_client_with_another_secret_is_dropped(running: Host) -> None:
    with pytest.raises(Refused, match="dropped the connection") as e:
        connect(running.door.address, OTHER, Role.WORKER)
    no_secrets(f"{e.value} {e.value!r}")
    assert running.admitted == []
    assert re.fullmatch(r"dropped a connection from 127.0.0.1:\d+: it does not know the secret", running.logged())
    with connect(running.door.address, SECRET, Role.WORKER) as connection:  # and life goes on
        assert connection.call(b"x", 5) == b"X"


class Impostor:
    """A server that does not know the secret, in a thread, with a given last word."""

    def __init__(self, hello: bytes, last: Callable[[bytes, bytes], bytes]) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.address = self.sock.getsockname()
        self.thread = threading.Thread(target=self._run, args=(hello, last))
        self.thread.start()

    def _run(self, hello: bytes, last: Callable[[bytes, bytes], bytes]) -> None:
        with self.sock, self.sock.accept()[0] as guest:
            guest.sendall(hello)
            said = b""
            with suppress(ConnectionResetError):
                while len(said) < ANSWER and (more := guest.recv(ANSWER)):
                    said += more
            if said:
                guest.sendall(last(hello, said))
                guest.settimeout(5)
                guest.recv(1)


IMPOSTORS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "another secret": lambda hello, said: hmac.digest(OTHER, b"livelog server\0" + hello + said, "sha256"),
    "the client's own proof": lambda hello, said: said[-32:],
    "zeros": lambda hello, said: bytes(32),
}


@pytest.mark.parametrize("last", IMPOSTORS)
def test_a_server_that_does_not_know_the_secret_is_refused(last: str) -> None:
    impostor = Impostor(MAGIC + os.urandom(32), IMPOSTORS[last])
    with pytest.raises(Refused, match="does not know the secret of this session") as e:
        connect(impostor.address, SECRET, Role.WORKER)
    no_secrets(str(e.value))
    impostor.thread.join(5)
    assert not impostor.thread.is_alive()


def test_a_server_of_another_kind_gets_no_answer() -> None:
    impostor = Impostor(b"HTTP/1.1 400 Bad Request and so on and so forth", lambda hello, said: bytes(32))
    with pytest.raises(Refused, match="is not the door of a Livelog session"):
        connect(impostor.address, SECRET, Role.WORKER)
    impostor.thread.join(5)
    assert not impostor.thread.is_alive()


def test_a_recorded_answer_is_worth_nothing(host: Host) -> None:
    sock, hello = knock(host)
    recorded = answer(hello)
    sock.sendall(recorded)
    host.turn()
    assert len(host.admitted) == 1
    for _ in range(3):
        again, fresh = knock(host)
        assert fresh != hello
        again.sendall(recorded)
        host.turn()
        assert dropped(again)
        again.close()
    sock.close()
    assert len(host.admitted) == 1
    assert len(host.log) == 3 and all("does not know the secret" in line for line in host.log)


@pytest.mark.parametrize("at", [0, 7, 8, 39, 40, 41, 44, 45, 48, 49, 80])
def test_every_byte_of_an_answer_counts(host: Host, at: int) -> None:
    sock, hello = knock(host)
    said = bytearray(answer(hello))
    said[at] ^= 1
    sock.sendall(said)
    host.turn()
    assert dropped(sock) and host.admitted == [] and len(host.log) == 1
    sock.close()


WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "magic": (lambda hello: answer(hello, magic=b"livelog9"), "does not speak this protocol"),
    "direction": (lambda hello: answer(hello, label=b"server"), "does not know the secret"),
    "role 0": (lambda hello: answer(hello, role=0), "unknown role 0"),
    "role 4": (lambda hello: answer(hello, role=4), "unknown role 4"),
    "zeros": (lambda hello: bytes(ANSWER), "does not speak this protocol"),
    "echo": (lambda hello: (hello * 3)[:ANSWER], "does not know the secret"),
    "web": (lambda hello: b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20, "does not speak this protocol"),
    "frame": (lambda hello: struct.pack(">I", 0xFFFFFFFF) + bytes(100), "does not speak this protocol"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answers_are_dropped(host: Host, what: str) -> None:
    make, why = WRONG[what]
    sock, hello = knock(host)
    sock.sendall(make(hello))
    host.turn()
    assert dropped(sock)
    assert host.admitted == [] and len(host.log) == 1 and why in host.log[0]
    sock.close()


@pytest.mark.parametrize("seed", range(15))
def test_garbage_is_dropped(host: Host, seed: int) -> None:
    r = random.Random(seed)
    sock, _ = knock(host)
    sock.sendall(r.choice([b"", MAGIC]) + r.randbytes(r.randint(ANSWER, 5000)))
    host.turn()
    assert dropped(sock) and host.admitted == [] and len(host.log) == 1
    sock.close()


@pytest.mark.parametrize("size", [0, 1, 40, ANSWER - 1])
def test_a_truncated_answer_is_dropped(host: Host, size: int) -> None:
    sock, hello = knock(host)
    sock.sendall(answer(hello)[:size])
    host.turn()
    assert host.door.waiting == 1 and host.log == []
    sock.shutdown(socket.SHUT_WR)
    host.turn()
    assert dropped(sock) and host.admitted == []
    assert len(host.log) == 1 and "hung up" in host.log[0]
    sock.close()


def test_not_a_byte_more_is_read_than_the_answer(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind a wrong answer is never read; what comes behind a right one is the first message."""
    asked: list[int] = []
    real = socket.socket

    class Counting(real):  # type: ignore[misc, valid-type]
        def recv(self, size: int, *flags: int) -> bytes:
            data: bytes = super().recv(size, *flags)
            asked.append(len(data))
            return data

    for good in (False, True):
        sock = socket.create_connection(host.door.address, timeout=5)
        monkeypatch.setattr(handshake.socket, "socket", Counting)  # `accept` makes its sockets of this class
        host.turn()
        monkeypatch.undo()
        hello = sock.recv(HELLO, socket.MSG_WAITALL)
        asked.clear()
        said = answer(hello, SECRET if good else OTHER)
        sock.sendall(said + sealed(hello, said, b"first"))
        host.turn()
        assert sum(asked) == ANSWER, "or `accept` no longer makes its sockets by this name"
        assert host.messages == ([b"first"] if good else [])
        sock.close()
    assert len(host.admitted) == 1


def test_admit_may_refuse(running: Host) -> None:
    def admit(connection: Connection, greeting: Greeting) -> None:
        connection.send(b"this never leaves")
        if greeting.generation < 5:
            raise Refused(f"generation {greeting.generation} is over")

    running.admit = admit
    with pytest.raises(Refused, match="does not want us"):
        connect(running.door.address, SECRET, Role.WORKER, generation=4)
    assert running.admitted == []
    assert running.logged().endswith(": generation 4 is over")
    connect(running.door.address, SECRET, Role.WORKER, generation=5).close()


def test_a_mistake_in_admit_is_not_hidden_and_leaves_nothing_open(host: Host) -> None:
    def admit(connection: Connection, greeting: Greeting) -> None:
        raise ZeroDivisionError

    host.admit = admit
    sock, hello = knock(host)
    sock.sendall(answer(hello))
    with pytest.raises(ZeroDivisionError):
        host.turn()
    assert dropped(sock) and host.door.waiting == 0
    sock.close()


# --- slow and many -------------------------------------------------------------------------------------------


def test_a_silent_client_expires(host: Host) -> None:
    sock, _ = knock(host)
    now = time.monotonic()
    assert host.door.deadline is not None and now + 4 < host.door.deadline <= now + 5
    host.door.expire(now + 4)
    assert host.door.waiting == 1 and host.log == []
    host.door.expire(now + 6)
    assert host.door.waiting == 0 and dropped(sock)
    assert len(host.log) == 1 and "in time" in host.log[0]
    assert host.door.deadline is None
    assert len(host.selector.get_map()) == 1, "only the door itself is left"
    sock.close()


def test_a_silent_client_expires_when_somebody_else_comes() -> None:
    host = Host(patience=0.05)
    try:
        sock, _ = knock(host)
        time.sleep(0.1)
        other = socket.create_connection(host.door.address)
        host.turn()
        assert dropped(sock) and host.door.waiting == 1
        other.close()
        sock.close()
    finally:
        host.close()


def test_one_byte_at_a_time_gets_in_if_it_is_quick(host: Host) -> None:
    sock, hello = knock(host)
    said = answer(hello)
    for i in range(ANSWER):
        assert host.admitted == []
        sock.sendall(said[i : i + 1])
        host.turn(0.01)
    host.turn()
    assert len(host.admitted) == 1
    sock.close()


def test_one_byte_at_a_time_does_not_buy_time() -> None:
    host = Host(patience=0.4)
    host.start()
    sock = socket.create_connection(host.door.address, timeout=5)
    try:
        start = time.monotonic()
        with pytest.raises(OSError):
            for _ in range(ANSWER - 1):
                sock.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - start < 3
        assert len(host.log) == 1 and "in time" in host.log[0] and host.admitted == []
    finally:
        sock.close()
        host.close()


def test_a_storm_does_not_keep_out_those_who_know_the_secret() -> None:
    host = Host(most=8)
    host.start()
    storm = [socket.create_connection(host.door.address, timeout=5) for _ in range(40)]
    try:
        with connect(host.door.address, SECRET, Role.WORKER) as connection:
            assert connection.call(b"still here", 10) == b"STILL HERE"
        assert host.door.waiting <= 8
        assert len(host.log) >= 32 and all("too many" in line for line in host.log)
        for sock in storm[:32]:
            assert sock.recv(HELLO, socket.MSG_WAITALL)[:8] in (MAGIC, b"") and dropped(sock)
    finally:
        for sock in storm:
            sock.close()
        host.close()


def test_a_dropped_guest_whose_event_is_already_there_does_no_harm(host: Host) -> None:
    sock, hello = knock(host)
    sock.sendall(answer(hello))
    time.sleep(0.05)
    events = host.selector.select(1)
    host.door.expire(time.monotonic() + 100)
    for key, mask in events:
        key.data(mask)
    assert host.admitted == [] and len(host.log) == 1
    sock.close()


def test_without_descriptors_the_door_pauses_and_goes_on(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(self: socket.socket) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")

    sock = socket.create_connection(host.door.address, timeout=5)
    with monkeypatch.context() as m:
        m.setattr(socket.socket, "accept", accept)
        host.turn()
    assert host.log == ["cannot accept connections for a moment: Too many open files"], "or it spins"
    assert host.door.deadline is not None
    host.door.expire(host.door.deadline)
    host.turn()
    assert sock.recv(HELLO, socket.MSG_WAITALL).startswith(MAGIC)
    sock.close()


# --- endings -------------------------------------------------------------------------------------------------


def test_connecting_gives_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        with pytest.raises(Refused, match="did not answer in time"):
            connect(silent.getsockname(), SECRET, Role.CLIENT, timeout=0.2)
        assert time.monotonic() - start < 2
        address = silent.getsockname()
    with pytest.raises(Refused, match=r"cannot connect to 127\.0\.0\.1"):
        connect(address, SECRET, Role.CLIENT, timeout=1)
    with pytest.raises(Refused, match="cannot connect to no-such-host"):
        connect(("no-such-host.invalid", 1), SECRET, Role.CLIENT, timeout=1)


def test_a_server_that_drips_does_not_hold_the_client_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with server.accept()[0] as guest:
                try:
                    for byte in MAGIC + bytes(31):
                        guest.sendall(bytes([byte]))
                        time.sleep(0.05)
                except OSError:
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        start = time.monotonic()
        with pytest.raises(Refused, match="in time"):
            connect(server.getsockname(), SECRET, Role.CLIENT, timeout=0.3)
        assert time.monotonic() - start < 1.5
        thread.join(10)


def test_a_closed_door() -> None:
    before = len(os.listdir("/proc/self/fd"))
    host = Host()
    sock, _ = knock(host)
    host.door.close()
    host.door.close()
    assert dropped(sock) and len(host.selector.get_map()) == 0 and host.log == []
    with pytest.raises(Refused):
        connect(host.door.address, SECRET, Role.CLIENT, timeout=1)
    sock.close()
    host.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_admitted_connections_survive_the_door(host: Host) -> None:
    sock, hello = knock(host)
    said = answer(hello)
    sock.sendall(said)
    host.turn()
    host.door.close()
    sock.sendall(sealed(hello, said, b"hi"))
    host.turn()
    assert host.messages == [b"hi"]
    assert sock.recv(38, socket.MSG_WAITALL).endswith(b"HI")
    sock.close()


# --- somebody in between -------------------------------------------------------------------------------------


class Relay:
    """Stands between a client and a door, lets them shake hands, and then does with their messages as it likes."""

    def __init__(self, host: Host) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        made: list[Connection] = []
        address = self._listening.getsockname()
        thread = threading.Thread(target=lambda: made.append(connect(address, SECRET, Role.WORKER, timeout=20)))
        thread.start()
        self.client, _ = self._listening.accept()
        self.server = socket.create_connection(host.door.address, timeout=5)
        self._carry(self.server, self.client, HELLO)
        self._carry(self.client, self.server, ANSWER)
        self._carry(self.server, self.client, 32)
        thread.join()
        (self.connection,) = made

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket, size: int) -> None:
        target.sendall(source.recv(size, socket.MSG_WAITALL))

    def sent(self, *messages: bytes) -> list[bytes]:
        """What the client puts on the wire for messages, not carried to the server."""
        found = []
        for message in messages:
            self.connection.send(message)
            assert self.connection.flush()
            found.append(self.client.recv(4 + len(message) + 16, socket.MSG_WAITALL))
            assert message in found[-1]
        return found

    def close(self) -> None:
        for end in (self.connection, self.client, self.server, self._listening):
            end.close()


def flip(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


TRICKS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "nothing": lambda f: f,
    "a bit of a message": lambda f: [f[0], flip(f[1], 6), f[2]],
    "a bit of a tag": lambda f: [f[0], flip(f[1], len(f[1]) - 1), f[2]],
    "a shorter length": lambda f: [f[0], struct.pack(">I", 3) + f[1][4:], f[2]],
    "a longer length": lambda f: [f[0], struct.pack(">I", 6) + f[1][4:], f[2]],
    "one that was made up": lambda f: [f[0], struct.pack(">I", 5) + b"evil!" + bytes(16), f[1], f[2]],
    "an empty one": lambda f: [f[0], bytes(20), f[1], f[2]],
    "one without a tag": lambda f: [f[0], struct.pack(">I", 5) + b"evil!", f[1], f[2]],
    "one again": lambda f: [f[0], f[0], f[1], f[2]],
    "one again later": lambda f: [f[0], f[1], f[0], f[2]],
    "another order": lambda f: [f[0], f[2], f[1]],
    "one left out": lambda f: [f[0], f[2]],
}


@pytest.mark.parametrize("piece", [1 << 20, 7])
@pytest.mark.parametrize("trick", list(TRICKS))
def test_whoever_stands_between_changes_nothing(running: Host, trick: str, piece: int) -> None:
    """What came before arrives, nothing that it made does, and the connection ends."""
    relay = Relay(running)
    frames = relay.sent(b"first", b"again", b"third")
    data = b"".join(TRICKS[trick](frames))
    with suppress(OSError):  # it may be dropped half way
        for start in range(0, len(data), piece):
            relay.server.sendall(data[start : start + piece])
    deadline = time.monotonic() + 10
    if trick == "nothing":
        while len(running.messages) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert running.messages == [b"first", b"again", b"third"]
    else:
        relay.server.settimeout(10)
        with suppress(ConnectionResetError):
            while relay.server.recv(1000):  # the answers to what was genuine
                pass
        known = [b"first", b"again"] if trick == "one again later" else [b"first"]
        assert running.messages == known
        assert running.admitted[0][0].closed, "the peer is as good as lost"
    relay.close()


def test_a_message_is_not_taken_from_its_own_sender(running: Host) -> None:
    """Each direction has a key of its own; and each connection has: the nonces differ."""
    relay = Relay(running)
    (frame,) = relay.sent(b"hello")
    relay.client.sendall(frame)  # back to where it came from
    with pytest.raises(Forged, match="did not send what came over the connection"):
        relay.connection.wait(5)
    relay.close()
    other = Relay(running)
    other.server.sendall(frame)
    assert dropped(other.server)
    assert running.messages == []
    other.close()


def test_a_long_message_is_checked_too(running: Host) -> None:
    body = os.urandom(700_000)
    for spoilt in (False, True):
        relay = Relay(running)
        relay.connection.send(body[:300_000], body[300_000:])
        data = b""
        while len(data) < 4 + len(body) + 16:
            relay.connection.flush()
            data += relay.client.recv(1 << 20)
        relay.server.sendall(flip(data, 650_000) if spoilt else data)
        if spoilt:
            assert dropped(relay.server)
        else:
            deadline = time.monotonic() + 10
            while not running.messages and time.monotonic() < deadline:
                time.sleep(0.005)
        assert running.messages == [body]
        relay.close()


def test_a_taken_port_or_a_foreign_host_is_one_clear_sentence(host: Host) -> None:
    def door(name: str, port: int) -> Door:
        return Door(host.selector, name, SECRET, lambda c, g: None, print, port=port)

    with pytest.raises(WireError, match=r"cannot listen on 127\.0\.0\.1:"):
        door("127.0.0.1", host.door.address[1])
    with pytest.raises(WireError, match="cannot listen on no-such-host"):
        door("no-such-host.invalid", 0)


def test_the_secret_is_nowhere_to_be_seen(host: Host) -> None:
    for thing in (host.door, host.door._key, Greeting(Role.DRIVER, 1, 2), vars(host.door)):
        no_secrets(repr(thing))
    for use in (
        lambda: connect(host.door.address, b"short one", Role.CLIENT),
        lambda: Door(host.selector, "127.0.0.1", b"short one", lambda c, g: None, print),
    ):
        with pytest.raises(ValueError, match="at least 16 bytes") as e:
            use()
        assert "short one" not in str(e.value)
