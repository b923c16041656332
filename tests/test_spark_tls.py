"""TLS: the connections of a session are encrypted where its owner has certificates, and nobody gets in without one."""

from __future__ import annotations

import random
import selectors
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livelog
from livelog.runtime.spark.handshake import Door, Greeting, Refused, Role, connect
from livelog.runtime.spark.secured import RECORD, Secured, context_of, secure
from livelog.runtime.spark.wire import Closed, Connection, Oversized
from livelog.top import Client
from tests.kills import kill, open_checked, wait_until

SECRET = b"-the secret of the session-12345"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def issue(folder: Path, authority: Path, name: str, *, purpose: str = "serverAuth,clientAuth") -> livelog.TLS:
    """A certificate of an authority."""
    certificate, key, request, extra = (folder / f"{name}.{end}" for end in ("pem", "key", "csr", "cnf"))
    openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    extra.write_text(f"extendedKeyUsage={purpose}\n")
    signer = authority.with_suffix(".key")
    openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", signer, "-CAcreateserial", "-days", 2,
            "-extfile", extra, "-out", certificate)  # fmt: skip
    return livelog.TLS(certificate, key, authority)


def found(folder: Path, name: str) -> Path:
    """A new authority."""
    authority = folder / f"{name}.pem"
    openssl("req", "-x509", *KEY, "-keyout", authority.with_suffix(".key"), "-out", authority, "-days", 2,
            "-subj", f"/CN={name}")  # fmt: skip
    return authority


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def tls(folder: Path) -> livelog.TLS:
    return issue(folder, found(folder, "authority"), "member")


@pytest.fixture(scope="module")
def foreign(folder: Path) -> livelog.TLS:
    return issue(folder, found(folder, "elsewhere"), "stranger")


# --- the socket ----------------------------------------------------------------------------------------------


class Relay:
    """Two sockets, and all that goes over them in pieces of any size: turned by hand."""

    def __init__(self, rng: random.Random, most: int) -> None:
        self.ends: list[socket.socket] = []
        self._inner: list[socket.socket] = []
        for _ in range(2):
            outer, inner = socket.socketpair()
            for sock in (outer, inner):
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            self.ends.append(outer)
            self._inner.append(inner)
        self._rng, self._most = rng, most
        self._rest = [b"", b""]
        self.seen = bytearray()

    def turn(self, times: int = 1) -> None:
        for i in (0, 1) * times:
            try:
                if not self._rest[i]:
                    self._rest[i] = self._inner[i].recv(self._rng.randint(1, self._most))
                    self.seen += self._rest[i]
                sent = self._inner[1 - i].send(self._rest[i])
                self._rest[i] = self._rest[i][sent:]
            except BlockingIOError:
                pass

    def secured(self, tls: livelog.TLS) -> list[Secured]:
        """Both ends, after TLS is agreed on."""
        made = [secure(s, context_of(tls, server=i == 1), server=i == 1) for i, s in enumerate(self.ends)]
        waiting = list(made)
        while waiting:
            self.turn()
            for sock in list(waiting):
                try:
                    sock.do_handshake()
                    waiting.remove(sock)
                except ssl.SSLWantReadError:
                    pass
        return made

    def close(self) -> None:
        for sock in (*self.ends, *self._inner):
            sock.close()


@pytest.mark.parametrize("most", [1, 50, 1 << 20])
def test_large_messages_in_both_directions_and_any_pieces(tls: livelog.TLS, most: int) -> None:
    rng = random.Random(most)
    relay = Relay(rng, most)
    ends = [Connection(s, cap=1 << 16) for s in relay.secured(tls)]
    largest = min(3_000_000, 3000 * most)
    sizes = [0, 1, largest, RECORD - 20, RECORD - 4, RECORD, RECORD + 1, 3, largest // 2]
    sizes = [size for size in sizes if size <= largest]
    said = [[rng.randbytes(size) for size in sizes], [b"plain text " * (size // 11) for size in reversed(sizes)]]
    heard: list[list[bytes]] = [[], []]
    for connection, messages in zip(ends, said, strict=True):
        for message in messages:
            connection.send(message)
    with selectors.DefaultSelector() as selector:
        for i, connection in enumerate(ends):
            selector.register(connection, selectors.EVENT_READ, i)
        idle = 0
        while [len(h) for h in heard] != [len(sizes)] * 2:
            idle += 1
            for connection in ends:
                connection.flush()
            relay.turn()
            for key, _ in selector.select(0):  # only who is readable may read: nothing must wait elsewhere
                heard[1 - key.data] += ends[key.data].receive()
                idle = 0
            assert idle < 50_000, "what was sent does not arrive"
    assert heard == said
    assert not any(connection.pending for connection in ends)
    assert b"plain text" not in relay.seen
    ends[0].close()
    relay.turn(20)
    relay._inner[1].close()
    with pytest.raises(Closed, match="closed the connection"):
        ends[1].wait(5)
    with pytest.raises(Closed):
        ends[0].send(b"more")
    ends[1].close()
    relay.close()


def test_after_an_error_nothing_goes_out_in_plain_text(tls: livelog.TLS) -> None:
    relay = Relay(random.Random(1), 1000)
    one, other = relay.secured(tls)
    with Connection(one, limit=100) as one_end, Connection(other) as other_end:
        other_end.send(bytes(101))
        other_end.flush()
        relay.turn(20)
        with pytest.raises(Oversized):
            one_end.wait(5)
        relay.seen.clear()
        one_end.send(b"last words")
        one_end.flush()
        relay.turn(20)
        assert other_end.wait(5) == b"last words"
        assert b"last words" not in relay.seen
    with pytest.raises(OSError, match="closed"):
        one.recv(1)
    with pytest.raises(OSError, match="closed"):
        one.send(b"x")
    relay.close()


# --- the door ------------------------------------------------------------------------------------------------


class Host:
    """A loop with a door, in a thread of its own. It greets whoever gets in."""

    def __init__(self, tls: livelog.TLS | None, patience: float = 5.0) -> None:
        self.log: list[str] = []
        self.admitted: list[Connection] = []
        self.selector = selectors.DefaultSelector()
        self.door = Door(
            self.selector, "127.0.0.1", SECRET, self._admit, self.log.append, patience=patience, tls=tls
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _admit(self, connection: Connection, greeting: Greeting) -> None:
        self.admitted.append(connection)
        connection.send(b"welcome")

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, mask in self.selector.select(0.02):
                key.data(mask)
            self.door.expire()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self.door.close()
        for connection in self.admitted:
            connection.close()
        self.selector.close()


def test_what_comes_with_the_proof_wakes_a_selector(tls: livelog.TLS) -> None:
    with Host(tls) as host, connect(host.door.address, SECRET, Role.CLIENT, tls=tls) as client:
        assert isinstance(client._sock, Secured)
        assert client._sock.version() in ("TLSv1.2", "TLSv1.3")
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            assert selector.select(10)
        assert client.receive() == [b"welcome"]
        assert not host.log


def test_who_has_no_certificate_of_the_authority_is_refused(tls: livelog.TLS, foreign: livelog.TLS) -> None:
    mixed = livelog.TLS(foreign.certificate, foreign.key, tls.authority)  # trusts the door, which does not trust it
    with Host(tls, patience=0.5) as host:
        for given, match in ((None, "does not want us"), (foreign, "not accepted"), (mixed, "over TLS|dropped")):
            with pytest.raises(Refused, match=match):
                connect(host.door.address, SECRET, Role.CLIENT, tls=given)
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
        for said in (None, b"GET / HTTP/1.1\r\n\r\n" * 20):
            with socket.create_connection(host.door.address, 5) as sock:
                try:
                    if said is None:
                        assert not bare.wrap_socket(sock).recv(1)
                    else:
                        sock.sendall(said)
                        while sock.recv(100):
                            pass
                except (ssl.SSLError, ConnectionResetError):
                    pass
        for why in ("did not prove in time", "does not accept the certificate", "is not accepted",
                    "has no certificate", "does not speak TLS"):  # fmt: skip
            wait_until(lambda why=why: any(why in line for line in host.log), 10)
        assert not host.admitted
        with pytest.raises(Refused, match="over TLS: it does not speak TLS"), Host(None) as plain:
            connect(plain.door.address, SECRET, Role.CLIENT, tls=tls)
        with connect(host.door.address, SECRET, Role.CLIENT, tls=tls) as client:  # and it goes on
            assert client.wait(10) == b"welcome"
        with pytest.raises(Refused, match="does not want us"):  # the secret still counts
            connect(host.door.address, SECRET[::-1], Role.CLIENT, tls=tls)


# --- mistakes ------------------------------------------------------------------------------------------------


class NoSpark:
    sparkContext = None


def test_files_that_do_not_serve_are_told_in_a_sentence(
    folder: Path, tmp_path: Path, tls: livelog.TLS, foreign: livelog.TLS
) -> None:
    locked = tmp_path / "locked.key"
    openssl("pkey", "-in", tls.key, "-aes256", "-passout", "pass:word", "-out", locked)
    one_way = issue(folder, Path(tls.authority), "server", purpose="serverAuth")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    c, k, a = tls.certificate, tls.key, tls.authority
    wrong: list[tuple[Any, str]] = [
        (("missing.pem", k, a), "cannot read the certificate '/.*missing.pem' for TLS: No such file"),
        ((c, folder, a), "cannot read the key .*: Is a directory"),
        ((c, k, nonsense), "the authority .* is no certificate in PEM format"),
        ((nonsense, k, a), "the certificate .* is no certificate in PEM format"),
        ((c, nonsense, a), "the key .* is no key in PEM format without a password"),
        ((c, locked, a), "the key .* is no key in PEM format without a password"),
        ((c, foreign.key, a), "the key .* is not that of the certificate"),
        ((c, k, foreign.authority), "the authority .* does not vouch for the certificate .*: "),
        ((one_way.certificate, one_way.key, a), "does not vouch for .*: unsuitable certificate purpose"),
        ((c, k, ""), "`authority` is the path of a PEM file, not ''"),
    ]
    for paths, match in wrong:
        with pytest.raises(livelog.UsageProblem, match=match) as problem:
            livelog.Spark(NoSpark(), tls=livelog.TLS(*paths))  # type: ignore[arg-type]
        assert "\n" not in problem.value.message
    with pytest.raises(livelog.UsageProblem, match=r"`tls` is `livelog.TLS\(certificate, key, authority\)`"):
        livelog.Spark(NoSpark(), tls="cert.pem")  # type: ignore[arg-type]


# --- a session -----------------------------------------------------------------------------------------------


@pytest.fixture
def own(tls: livelog.TLS, tmp_path: Path) -> Iterator[livelog.TLS]:
    """Files that a test may take away."""
    paths = {name: shutil.copy(path, tmp_path / name) for name, path in tls.paths().items()}
    yield livelog.TLS(**paths)


def test_a_session(spark: Any, tmp_path: Path, own: livelog.TLS, foreign: livelog.TLS) -> None:
    directory = tmp_path / "session"
    checked = open_checked(spark, directory, partitions=2, tls=own)
    with checked.session as session:
        checked.transact(("delete", "link", (3, 1)), ("insert", "link", (9, 0)))
        secret = checked.runtime._secret
        for door in (checked.runtime._address, *checked.runtime.addresses):
            for given in (None, foreign):
                with pytest.raises(Refused):  # without TLS one is not even greeted
                    connect(door, secret, Role.CLIENT, tls=given, timeout=1 if given is None else 10)
            connect(door, secret, Role.CLIENT, tls=own).close()
        checked.transact(("delete", "link", (9, 0)))
        assert checked.runtime.generation == 1, "who was refused has disturbed nobody"
        for place in ("", "partition 0: ", "partition 1: "):
            line = f"{place}dropped a connection"
            wait_until(lambda line=line: any(n.startswith(line) for n in checked.runtime.notices), 10)

        kill(checked.runtime.pids[0])
        checked.transact(("insert", "link", (9, 0)), ("delete", "link", (1, 2)))
        assert checked.runtime.generation == 2

        rows = spark.createDataFrame([(20, 21), (21, 22)], ["x", "y"])
        assert (20, 22) in session.load("link", rows)["reach"].inserted  # pushed by tasks
        assert {tuple(row) for row in session["degree"].to_spark().collect()} == set(session["degree"])
        with Client(directory) as client:
            assert len(client.top().partitions) == 2

        key = Path(own.key)
        key.rename(key.with_suffix(".away"))
        kill(checked.runtime.pids[1])
        wait_until(lambda: checked.runtime._crew.stage.over, 20)
        with pytest.raises(livelog.UsageProblem, match=r"cannot read the key .*: No such file .*, on "):
            session.load("link", [(22, 23)])
        key.with_suffix(".away").rename(key)
        assert (20, 23) in session.load("link", [(22, 23)])["reach"].inserted
        session.check()
    touch = {"touch": lambda x: x}
    with livelog.resume(directory, livelog.Spark(spark, partitions=2), functions=touch) as again:
        assert again._spark.config.tls == own and (20, 23) in again["reach"]  # what was encrypted stays so
