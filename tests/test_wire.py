"""Wire: messages survive any fragmentation, nothing blocks, and wrong streams are noticed."""

from __future__ import annotations

import os
import random
import selectors
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from livelog.runtime.spark import wire
from livelog.runtime.spark.outbox import PAGE
from livelog.runtime.spark.wire import MAX_FRAME, Closed, Connection, Oversized, TimedOut, WireError

Pair = tuple[socket.socket, socket.socket]


def tcp(buffers: int | None = None) -> Pair:
    """Two connected sockets over loopback, with small kernel buffers if told so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.socket()
        for s in (server, client):
            if buffers:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        client.connect(server.getsockname())
        return client, server.accept()[0]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = tcp()
    with one, other:
        yield one, other


def framed(*messages: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(m)) + m for m in messages)


def received(connection: Connection, want: int, seconds: float = 20) -> list[bytes]:
    """So many messages, as a loop would get them."""
    messages: list[bytes] = []
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while len(messages) < want:
            assert time.monotonic() < deadline, f"{len(messages)} of {want} messages came"
            if selector.select(0.1):
                messages += connection.receive()
    return messages


class Scripted:
    """A socket that hands out a stream in the chunks of a script; the end of the script is the end of the stream."""

    family = socket.AF_UNIX

    def __init__(self, chunks: list[bytes | None]) -> None:
        self.chunks = chunks[::-1]

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv_into(self, space: memoryview) -> int:
        if not self.chunks:
            return 0
        chunk = self.chunks.pop()
        if chunk is None:
            raise BlockingIOError
        space[: len(chunk)] = chunk
        return len(chunk)


# --- cutting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_any_fragmentation_gives_the_same_messages(seed: int) -> None:
    r = random.Random(seed)
    largest = r.choice([0, 1, 3, 10, 1000, 400_000])
    sent = [r.randbytes(r.choice([0, r.randint(0, largest), largest])) for _ in range(r.randint(1, 60))]
    stream, at, chunks = framed(*sent), 0, []
    step = r.choice([1, 2, 5, 100, 10_000, 256 << 10]) if largest < 1000 else r.choice([1000, 100_000, 256 << 10])
    while at < len(stream):
        size = r.randint(1, step)
        chunks.append(stream[at : at + size])
        at += size
        if r.random() < 0.2:
            chunks.append(None)
    connection = Connection(Scripted(chunks))  # type: ignore[arg-type]
    got: list[bytes] = []
    with pytest.raises(Closed, match=r"closed the connection$"):
        while True:
            got += connection.receive()
    assert got == sent
    assert all(type(m) is bytes for m in got)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8])
def test_a_stream_that_ends_inside_a_message_says_so(cut: int) -> None:
    connection = Connection(Scripted([framed(b"whole") + framed(b"halved")[:cut]]))  # type: ignore[arg-type]
    assert connection.receive() == [b"whole"]
    with pytest.raises(Closed, match="in the middle of a message"):
        connection.receive()


def test_one_byte_at_a_time(pair: Pair) -> None:
    connection = Connection(pair[1])
    sent = [b"", b"a", b"two", bytes(30)]
    got = []
    pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in framed(*sent):
        pair[0].sendall(bytes([byte]))
        got += connection.receive()
    got += received(connection, len(sent) - len(got)) if len(got) < len(sent) else []
    assert got == sent


def test_a_message_of_60_mib_in_many_pieces() -> None:
    a, b = tcp()
    with Connection(a, cap=MAX_FRAME) as one, Connection(b) as other:
        large = random.Random(5).randbytes(60 << 20)
        one.send(large[:20], large[20:])
        one.send(b"after")
        got: list[bytes] = []
        calls = 0
        assert other.receive() == [], "nothing was flushed yet"
        while len(got) < 2:
            one.flush()
            got += other.receive()
            calls += 1
        assert got == [large, b"after"]
        assert calls >= 60, "a single call read far more than 1 MiB"


def test_cutting_costs_no_more_than_linear_time() -> None:
    """Eight times the message takes about eight times as long; copying all of it again and again, 64 times."""

    def seconds(size: int) -> float:
        chunk = bytes(1000)
        best = 9e9
        for _ in range(5):
            script: list[bytes | None] = [struct.pack(">I", size), *([chunk] * (size // 1000))]
            connection = Connection(Scripted(script))  # type: ignore[arg-type]
            start = time.process_time()
            while not connection.receive():
                pass
            best = min(best, time.process_time() - start)
        return best

    assert seconds(32_000_000) < 20 * seconds(4_000_000)


def test_a_length_that_lies_costs_no_memory(pair: Pair) -> None:
    connection = Connection(pair[1])
    tracemalloc.start()
    try:
        pair[0].sendall(struct.pack(">I", MAX_FRAME) + b"that is all")
        time.sleep(0.05)
        assert connection.receive() == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# --- wrong streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 4])
def test_an_oversized_length_is_refused(pair: Pair, pieces: int) -> None:
    connection = Connection(pair[1], limit=1000, name="partition 3")
    prefix = struct.pack(">I", 1001)
    for i in range(0, 4, 4 // pieces):
        pair[0].sendall(prefix[i : i + 4 // pieces])
        time.sleep(0.02)
        if i + 4 // pieces < 4:
            assert connection.receive() == []
    for _ in range(2):
        with pytest.raises(Oversized, match="partition 3 announces 1001 bytes, above the limit of 1000"):
            connection.receive()


def test_messages_before_an_oversized_length_arrive_and_the_loop_hears_of_it(pair: Pair) -> None:
    """The other end says nothing more: the selector must ask again all the same."""
    connection = Connection(pair[1], limit=1000)
    pair[0].sendall(framed(b"good", b"x" * 1000) + b"\xff\xff\xff\xff")
    assert received(connection, 2) == [b"good", b"x" * 1000]
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        assert selector.select(2), "nobody would ever notice"
    with pytest.raises(Oversized):
        connection.receive()


@pytest.mark.parametrize("seed", range(20))
def test_garbage_ends_in_an_error_of_the_wire(seed: int) -> None:
    r = random.Random(seed)
    chunks: list[bytes | None] = [r.randbytes(r.randint(1, 5000)) for _ in range(20)]
    connection = Connection(Scripted(chunks), limit=r.choice([100, 1 << 31, 0xFFFFFFFF]))  # type: ignore[arg-type]
    connection._sock.shutdown = lambda how: None  # type: ignore[method-assign]
    with pytest.raises(WireError):
        while True:
            connection.receive()


def test_a_message_above_the_limit_is_not_sent(pair: Pair) -> None:
    connection = Connection(pair[0], limit=10, name="partition 1")
    with pytest.raises(Oversized, match="a message of 11 bytes to partition 1 is above the limit of 10 bytes"):
        connection.send(b"123456", b"78901")
    assert connection.pending == 0
    connection.send(b"1234567890")
    assert connection.flush()
    assert received(Connection(pair[1]), 1) == [b"1234567890"]
    with pytest.raises(Oversized):
        Connection(pair[0]).send(bytes(MAX_FRAME), b"!")


# --- endings -------------------------------------------------------------------------------------------------


def test_what_was_complete_arrives_before_the_end(pair: Pair) -> None:
    one, other = (Connection(s) for s in pair)
    for i in range(100):
        one.send(b"%d" % i)
    one.drain(5)
    one.close()
    assert received(other, 100) == [b"%d" % i for i in range(100)]
    with pytest.raises(Closed):
        received(other, 1)


def test_a_half_closed_peer_still_gets_its_messages(pair: Pair) -> None:
    connection = Connection(pair[1])
    pair[0].sendall(framed(b"question"))
    pair[0].shutdown(socket.SHUT_WR)
    assert received(connection, 1) == [b"question"]
    with pytest.raises(Closed):
        received(connection, 1)
    connection.send(b"answer")
    assert connection.flush()
    assert pair[0].recv(100) == framed(b"answer")


def test_a_reset_is_an_end(pair: Pair) -> None:
    connection = Connection(pair[1], name="partition 2")
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair[0].close()
    time.sleep(0.05)
    with pytest.raises(Closed, match="the connection to partition 2 is gone: Connection reset"):
        connection.receive()
    connection.send(b"too late")
    with pytest.raises(Closed):
        connection.flush()


def test_a_closed_connection_says_so(pair: Pair) -> None:
    connection = Connection(pair[0])
    connection.send(b"never sent")
    connection.close()
    connection.close()
    assert connection.closed and connection.fileno() == -1 and connection.pending == 0
    assert repr(connection) == "<Connection to the peer, closed>"
    for use in (lambda: connection.send(b""), connection.receive, lambda: connection.wait(1)):
        with pytest.raises(Closed):
            use()


# --- sending -------------------------------------------------------------------------------------------------


def test_sockets_are_set_up(pair: Pair) -> None:
    Connection(pair[0])
    assert not pair[0].getblocking()
    assert pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert pair[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_prologue_comes_first(pair: Pair) -> None:
    connection = Connection(pair[0], prologue=b"hello!")
    connection.send(b"message")
    connection.drain(5)
    assert pair[1].recv(100) == b"hello!" + framed(b"message")


def test_a_reader_that_never_reads_costs_disk_and_not_memory() -> None:
    a, b = tcp(4096)
    cap, size, count = 1 << 20, 100_000, 1000
    with b, Connection(a, cap=cap) as connection:
        r = random.Random(8)
        blocks = [r.randbytes(size) for _ in range(7)]
        tracemalloc.start()
        try:
            for i in range(count):
                connection.send(blocks[i % 7])
                assert not connection.flush() or i < 50
                assert connection.in_memory <= cap + size + 4
            assert tracemalloc.get_traced_memory()[1] < cap + (2 << 20)
        finally:
            tracemalloc.stop()
        assert connection.pending > 95_000_000
        reader = Connection(b)
        got = 0
        while got < count:  # and now it reads after all
            connection.flush()
            for message in reader.receive():
                assert message == blocks[got % 7]
                got += 1
            assert connection.in_memory <= cap + size + 4
        assert connection.pending == 0


@pytest.mark.parametrize("cap", [1000, 200_000])
def test_two_that_flood_each_other_never_lock_up_and_lose_nothing(cap: int) -> None:
    """One thread, tiny kernel buffers, and each side sends much more than both of them hold before it reads."""
    r = random.Random(cap)
    ends = [Connection(s, cap=cap) for s in tcp(4096)]
    sent: list[list[bytes]] = [[], []]
    got: list[list[bytes]] = [[], []]
    with selectors.DefaultSelector() as selector:

        def event(i: int) -> Callable[[int], None]:
            def handle(mask: int) -> None:
                if mask & selectors.EVENT_READ:
                    got[1 - i] += ends[i].receive()
                for _ in range(5):
                    if len(sent[i]) < 1500:
                        message = r.randbytes(r.choice([0, 10, 3000, 30_000]))
                        sent[i].append(message)
                        ends[i].send(message)
                out = ends[i].flush()
                assert ends[i].in_memory <= max(cap, PAGE) + 30_004
                want = selectors.EVENT_READ | (0 if out else selectors.EVENT_WRITE)
                selector.modify(ends[i], want, key_data[i])

            return handle

        key_data = [event(0), event(1)]
        for i in (0, 1):
            selector.register(ends[i], selectors.EVENT_READ | selectors.EVENT_WRITE, key_data[i])
        deadline = time.monotonic() + 60
        while not (all(len(s) == 1500 for s in sent) and [len(g) for g in got] == [1500, 1500]):
            events = selector.select(2)
            assert events and time.monotonic() < deadline, f"locked up: {ends}, {[len(g) for g in got]}"
            for key, mask in events:
                key.data(mask)
    assert got == sent
    for end in ends:
        end.close()


def test_flush_and_receive_do_a_bounded_amount() -> None:
    """A fast reader in another thread must not hold the sender in `flush` until gigabytes are out."""
    a, b = tcp()
    stop = threading.Event()

    def swallow() -> None:
        while not stop.is_set() and b.recv(1 << 20):
            pass

    thread = threading.Thread(target=swallow)
    thread.start()
    try:
        with Connection(a, cap=1 << 20) as connection:
            for _ in range(400):
                connection.send(bytes(100_000))
            before = connection.pending
            connection.flush()
            assert before - connection.pending <= wire._FLUSHED + (1 << 20)
            connection.drain(30)
            assert connection.pending == 0
    finally:
        stop.set()
        a.close()
        thread.join(10)
        b.close()
    assert not thread.is_alive()


def test_a_full_disk_closes_the_connection(pair: Pair, tmp_path: object) -> None:
    connection = Connection(pair[0], cap=10, directory=f"{tmp_path}/missing", name="partition 4")
    connection.send(b"0123456789")
    with pytest.raises(WireError, match="cannot keep what waits for partition 4 in a temporary file"):
        connection.send(bytes(100_000))
    assert connection.closed


# --- for simple clients --------------------------------------------------------------------------------------


def test_call_and_wait(pair: Pair) -> None:
    client, server = (Connection(s) for s in pair)

    def serve() -> None:
        for _ in range(2):
            server.send(server.wait(5).upper())
            server.send(b"and more")
            server.drain(5)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        for question in (b"question", b"q" * (5 << 20)):
            assert client.call(question, 20) == question.upper()
            assert client.wait(5) == b"and more"
    finally:
        thread.join(10)
    assert not thread.is_alive()


def test_wait_times_out_and_goes_on(pair: Pair) -> None:
    client, server = (Connection(s) for s in pair)
    start = time.monotonic()
    with pytest.raises(TimedOut, match="did not answer in time"):
        client.wait(0.1)
    assert 0.1 <= time.monotonic() - start < 2
    server.send(b"late")
    server.send(b"later")
    server.flush()
    assert client.wait(5) == b"late"
    assert client.receive() == [b"later"], "what `wait` has read too must not be lost"


def test_an_answer_that_comes_too_late_is_not_taken_for_another(pair: Pair) -> None:
    client = Connection(pair[0])
    with pytest.raises(TimedOut):
        client.call(b"slow", 0.05)
    assert client.closed
    with pytest.raises(Closed):
        client.call(b"quick", 1)


def test_last_words_are_heard(pair: Pair) -> None:
    """A server that refuses a request says why and closes while the client still sends."""
    client, server = (Connection(s) for s in pair)
    server.send(b"refused")
    server.flush()
    pair[1].shutdown(socket.SHUT_RDWR)
    time.sleep(0.05)
    pair[0].send(b"x")  # provokes the reset that makes the next send fail
    time.sleep(0.05)
    assert client.call(bytes(1 << 20), 5) == b"refused"


def test_drain_times_out() -> None:
    a, b = tcp(4096)
    with b, Connection(a) as connection:
        connection.send(bytes(8 << 20))
        with pytest.raises(TimedOut, match="did not take"):
            connection.drain(0.1)
        assert connection.pending


def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    one, other = (Connection(s, cap=10) for s in tcp(4096))
    for _ in range(20):
        one.send(bytes(100_000))
    one.flush()
    one.close()
    other.close()
    assert len(os.listdir("/proc/self/fd")) == before
