"""Outbox: what goes in comes out, in order, whatever the cap; and memory stays below it."""

from __future__ import annotations

import errno
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from livelog.runtime.spark import outbox as module
from livelog.runtime.spark.outbox import PAGE, PIECE, Outbox


def drained(outbox: Outbox) -> bytes:
    out = []
    while outbox:
        out.append(bytes(outbox.peek()))
        assert out[-1]
        outbox.advance(len(out[-1]))
    return b"".join(out)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("cap", [1, 7, 100, 5_000, PIECE, 10 * PIECE])
@pytest.mark.parametrize("largest", [5, 300, 20_000, 2 * PIECE])
def test_bytes_come_out_in_order_and_memory_stays_bounded(cap: int, largest: int) -> None:
    r = random.Random(cap * largest)
    outbox = Outbox(cap)
    given, taken = bytearray(), bytearray()
    greedy = 0.6  # first more goes in than out, later the other way round
    for turn in range(400):
        if turn == 200:
            greedy = 0.3
        if r.random() < greedy:
            data = r.randbytes(r.randint(0, largest))
            outbox.append(data)
            given += data
        else:
            piece = outbox.peek()
            assert bytes(piece) == bytes(outbox.peek()), "peek changed something"
            n = r.randint(0, len(piece))
            taken += piece[:n]
            outbox.advance(n)
        assert outbox.pending == len(outbox) == len(given) - len(taken)
        assert 0 <= outbox.in_memory <= max(cap, PAGE) + largest
    taken += drained(outbox)
    assert taken == given
    assert outbox.pending == outbox.in_memory == 0 and not outbox.peek()
    outbox.append(b"again")
    assert drained(outbox) == b"again" and outbox.in_memory == 0
    outbox.close()


def test_small_messages_become_one_piece() -> None:
    outbox = Outbox()
    for i in range(1000):
        outbox.append(b"%04d" % i)
    assert len(outbox.peek()) == 4000
    outbox.append(b"x" * PIECE * 3)
    outbox.advance(4000)
    assert len(outbox.peek()) == PIECE * 3


def test_a_prefix_goes_out_together_with_the_large_message_behind_it() -> None:
    outbox = Outbox()
    large = random.Random(1).randbytes(PIECE * 3 + 17)
    outbox.append(b"head")
    outbox.append(large)
    assert len(outbox.peek()) >= PIECE
    assert drained(outbox) == b"head" + large


def test_a_large_message_is_not_copied() -> None:
    outbox = Outbox()
    large = bytes(20 << 20)
    tracemalloc.start()
    try:
        outbox.append(b"head")
        outbox.append(large)
        while outbox:
            outbox.advance(min(100_000, len(outbox.peek())))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_memory_is_really_bounded_and_tiny_messages_have_no_overhead() -> None:
    """Not only the outbox's own account: what the interpreter allocated."""
    cap, message = 1 << 19, b"0123456789"
    outbox = Outbox(cap)
    tracemalloc.start()
    try:
        for _ in range(100_000):
            outbox.append(message)
        assert outbox.pending == 1_000_000
        drained_bytes = 0
        while outbox:
            n = len(outbox.peek())
            outbox.advance(n)
            drained_bytes += n
        assert drained_bytes == 1_000_000
        assert tracemalloc.get_traced_memory()[1] < 2 * cap
    finally:
        tracemalloc.stop()
    outbox.close()


def test_what_was_sent_long_ago_leaves_the_disk() -> None:
    """A stream that never drains quite: 1 MB waits all the time, 40 MB pass through."""
    outbox = Outbox(cap=1000)
    data = bytes(range(256)) * 400
    for _ in range(10):
        outbox.append(data)
    sizes = []
    for _ in range(400):
        outbox.append(data)
        left = len(data)
        while left:
            n = min(left, len(outbox.peek()))
            outbox.advance(n)
            left -= n
        files = [f for f in (outbox._reading, outbox._writing) if f is not None]
        sizes.append(sum(os.fstat(f._file.fileno()).st_size for f in files))
    assert outbox.pending == 10 * len(data)
    assert max(sizes) <= 25 * len(data)
    assert drained(outbox) == data * 10
    outbox.close()


def test_files_have_no_name_and_are_closed(tmp_path: Path) -> None:
    before = descriptors()
    outbox = Outbox(10, str(tmp_path))
    for _ in range(10):
        outbox.append(b"twelve bytes")
    assert outbox.pending == 120 and outbox.in_memory == 12
    assert descriptors() == before + 1
    assert os.listdir(tmp_path) == []
    outbox.close()
    outbox.close()
    assert descriptors() == before
    assert outbox.pending == outbox.in_memory == 0 and not outbox.peek()


def test_no_file_is_made_before_one_is_needed(tmp_path: Path) -> None:
    outbox = Outbox(100, str(tmp_path / "missing"))
    outbox.append(b"x" * 100)
    with pytest.raises(OSError):
        outbox.append(b"one more")
    assert outbox.pending == 100 and drained(outbox) == b"x" * 100


def test_a_full_disk_loses_nothing_that_was_in(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox(4)
    for data in (b"in memory ", b"in the file "):
        outbox.append(data)
    room = 5

    def pwrite(fd: int, data: bytes, at: int) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "no space left on device")
        n, room = min(room, len(data)), 0
        return real(fd, data[:n], at)

    real = os.pwrite
    monkeypatch.setattr(module.os, "pwrite", pwrite)
    with pytest.raises(OSError, match="no space"):
        outbox.append(b"does not fit")
    assert outbox.pending == 22
    monkeypatch.setattr(module.os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))  # short writes
    outbox.append(b"and this fits again")
    assert drained(outbox) == b"in memory in the file and this fits again"
    outbox.close()


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Outbox(0)
    outbox = Outbox()
    outbox.append(b"abc")
    with pytest.raises(ValueError, match="cannot advance"):
        outbox.advance(1)  # nothing was looked at yet
    outbox.peek()
    for n in (4, -1):
        with pytest.raises(ValueError, match="cannot advance"):
            outbox.advance(n)
    assert drained(outbox) == b"abc"
