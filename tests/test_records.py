"""Files of records: wherever they are torn or damaged, what is read is what was written, or nothing is."""

from __future__ import annotations

import errno
import os
import random
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalog.errors import RuntimeProblem
from livelog.store import records
from livelog.store.records import HEAD, START, Damaged, Records, RecordWriter, read_records

BODIES = [b"", b"a", b"second record", bytes(range(256)), b"\xf5LR\xf6" * 3, b"last"]


def write(path: Path, bodies: list[bytes]) -> list[int]:
    """Write records; returns where each ends, and first of all where the first starts."""
    writer = RecordWriter(path)
    ends = [writer.size]
    for body in bodies:
        writer.append(body)
        ends.append(writer.size)
    writer.sync()
    writer.close()
    return ends


def read(path: Path) -> tuple[list[bytes], int]:
    """All records, and how many bytes behind them are torn. The file must not be touched."""
    before = path.read_bytes() if path.exists() else None
    found = read_records(path)
    bodies = list(found)
    assert (path.read_bytes() if path.exists() else None) == before
    return bodies, found.torn


def goes_on(path: Path, bodies: list[bytes], torn: int) -> None:
    """A writer cuts the torn end, keeps the rest, and what it adds is read behind it."""
    writer = RecordWriter(path)
    assert writer.torn == torn
    writer.append(b"added")
    writer.close()
    assert read(path) == ([*bodies, b"added"], 0)


def test_records_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    write(path, BODIES)
    assert read(path) == (BODIES, 0)
    write(path, [b"more"])
    assert read(path) == ([*BODIES, b"more"], 0)


def test_missing_and_empty_files_have_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    assert read(path) == ([], 0)
    assert not path.exists()
    path.touch()
    assert read(path) == ([], 0)
    goes_on(path, [], 0)


def test_every_prefix_has_exactly_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    ends = write(path, BODIES)
    data = path.read_bytes()
    assert ends[-1] == len(data)
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = sum(end <= size for end in ends) - 1
        bodies, torn = BODIES[: max(whole, 0)], size - (ends[whole] if whole >= 0 else 0)
        assert read(path) == (bodies, torn), size
        goes_on(path, bodies, torn)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_found(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "a.log"
    ends = write(path, BODIES)
    data = path.read_bytes()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= mask
        path.write_bytes(flipped)
        if at >= ends[-2]:  # nothing whole follows: as good as torn
            assert read(path) == (BODIES[:-1], len(data) - ends[-2]), at
            continue
        for use in (read, RecordWriter):
            with pytest.raises(Damaged) as damaged:
                use(path)
            assert path.read_bytes() == flipped, "a damaged file is not changed"
            start = max((end for end in ends if end <= at), default=0)
            assert (damaged.value.file, damaged.value.offset) == (path, start)
            assert str(path) in damaged.value.message and f"at byte {start}" in damaged.value.message


def test_a_flipped_byte_in_a_file_without_records_only_costs_its_head(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    write(path, [])
    data = path.read_bytes()
    assert len(data) == START
    for at in range(START):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert read(path) == ([], START)
        goes_on(path, [], START)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\0" * 5000, id="zeros"),
        pytest.param(b"\0" * HEAD, id="few zeros"),
        pytest.param(b"x", id="a byte"),
        pytest.param(b"\xf5", id="part of a magic"),
        pytest.param(b"\xf5LR\xf6", id="a magic"),
        pytest.param(b"\xf5LR\xf6" * 1000, id="magics"),
        pytest.param(random.Random(1).randbytes(3000), id="garbage"),
        pytest.param(b"\xff" * 100, id="ones"),
    ],
)
def test_a_tail_that_is_no_record_is_cut(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.log"
    write(path, BODIES)
    with path.open("ab") as file:
        file.write(tail)
    assert read(path) == (BODIES, len(tail))
    goes_on(path, BODIES, len(tail))


def test_records_of_another_file_are_not_taken_for_ones_of_this(tmp_path: Path) -> None:
    """A disk may give a file blocks that another one had. Here the very next record stands in them."""
    mine, other = tmp_path / "a.log", tmp_path / "b.log"
    ends = write(mine, BODIES[:3])
    write(other, BODIES)
    stale = other.read_bytes()[ends[3] :]
    with mine.open("ab") as file:
        file.write(stale)
    assert read(mine) == (BODIES[:3], len(stale))


def test_a_torn_record_that_has_records_in_its_body_is_torn_and_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    write(path, [b"one"])
    write(path, [path.read_bytes() * 2])
    size = path.stat().st_size
    os.truncate(path, size - 1)
    assert read(path)[0] == [b"one"]
    goes_on(path, [b"one"], read(path)[1])


@pytest.mark.parametrize("how", ["missing", "twice", "swapped"])
def test_records_out_of_place_are_damage(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.log"
    ends = write(path, [b"aaaa", b"bbbb", b"cccc", b"dddd"])
    data = path.read_bytes()
    head, a, b, c, d = (data[i:j] for i, j in zip([0, *ends[:-1]], ends, strict=True))
    path.write_bytes(head + {"missing": a + c + d, "twice": a + b + b + c + d, "swapped": a + c + b + d}[how])
    with pytest.raises(Damaged, match="stands where record"):
        list(read_records(path))


@pytest.mark.parametrize("checked", [True, False], ids=["with a right checksum", "with a wrong checksum"])
def test_a_huge_length_sets_no_memory_aside(tmp_path: Path, checked: bool) -> None:
    path = tmp_path / "a.log"
    write(path, BODIES)
    _, salt = struct.unpack_from("<8sI", path.read_bytes())
    head = struct.pack("<4sQII", b"\xf5LR\xf6", len(BODIES), 2**32 - 1, 0)
    with path.open("ab") as file:
        file.write(head + struct.pack("<I", zlib.crc32(head, salt) if checked else 7) + b"body")
    tracemalloc.start()
    assert read(path) == (BODIES, HEAD + 4)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_long_records_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    body = os.urandom(4_000_000)
    write(path, [body] * 15)
    tracemalloc.start()
    assert sum(len(b) for b in read_records(path)) == 15 * len(body)
    assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    tracemalloc.stop()
    with path.open("r+b") as file:  # damage in the first, found although the next whole one is far behind it
        file.seek(START + HEAD + 1000)
        file.write(bytes([body[1000] ^ 1]))
    with pytest.raises(Damaged):
        list(read_records(path))


def test_a_search_finds_a_record_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_CHUNK", 16)
    path = tmp_path / "a.log"
    for gap in range(40):
        path.unlink(missing_ok=True)
        ends = write(path, [b"", b"x" * gap, b"whole"])
        data = bytearray(path.read_bytes())
        data[ends[1]] ^= 1  # the head of the second: the third has to be searched for
        path.write_bytes(data)
        with pytest.raises(Damaged):
            list(read_records(path))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8), st.data())
def test_whatever_is_written_comes_back_and_tears_cleanly(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes], data: Any
) -> None:
    path = tmp_path_factory.mktemp("records") / "a.log"
    ends = write(path, bodies)
    assert read(path) == (bodies, 0)
    size = data.draw(st.integers(0, ends[-1]))
    tail = data.draw(st.binary(max_size=40))
    whole = path.read_bytes()
    path.write_bytes(whole[:size] + tail)
    if size < START:
        if len(tail) + size <= START:
            assert read(path)[0] == []
        return
    if whole.startswith(whole[:size] + tail):
        size += len(tail)
    count = sum(end <= size for end in ends) - 1
    assert read(path)[0] == bodies[:count]


# --- when the disk fails -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 1, HEAD, HEAD + 3])
def test_a_full_disk_leaves_the_file_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    path = tmp_path / "a.log"
    writer = RecordWriter(path)
    writer.append(b"first")
    real = os.pwritev

    def full(fd: int, buffers: Any, offset: int) -> int:
        data = b"".join(buffers)
        if offset > writer.size or not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, [data[:written]], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(RuntimeProblem, match=r"cannot write to .*a\.log: No space left"):
            writer.append(b"second")
    assert read(path) == ([b"first"], 0)
    writer.append(b"third")
    assert read(path) == ([b"first", b"third"], 0)


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: real(fd, [b"".join(buffers)[:5]], offset))
    write(tmp_path / "a.log", BODIES)
    assert read(tmp_path / "a.log") == (BODIES, 0)


def test_an_interrupt_in_the_middle_leaves_the_file_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    writer = RecordWriter(path)
    real = os.pwritev

    def interrupted(fd: int, buffers: Any, offset: int) -> int:
        real(fd, buffers, offset)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.append(b"lost")
    writer.append(b"kept")
    assert read(path) == ([b"kept"], 0)


def test_after_a_failed_sync_nothing_more_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordWriter(tmp_path / "a.log")
    writer.append(b"x")

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        with pytest.raises(RuntimeProblem, match="cannot be made durable: Input/output error"):
            writer.sync()
    for again in (writer.sync, lambda: writer.append(b"y")):
        with pytest.raises(RuntimeProblem, match="cannot be made durable"):
            again()
    writer.close()
    with pytest.raises(RuntimeProblem, match="is closed"):
        writer.append(b"z")


def test_what_another_process_wrote_is_synced_before_it_is_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have ended between writing and syncing."""
    path = tmp_path / "a.log"
    write(path, BODIES)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    RecordWriter(path).close()
    assert path.stat().st_ino in synced


def test_a_record_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LONGEST", 10)
    writer = RecordWriter(tmp_path / "a.log")
    with pytest.raises(RuntimeProblem, match="at most 10"):
        writer.append(b"x" * 11)
    writer.append(b"x" * 10)
    assert read(tmp_path / "a.log") == ([b"x" * 10], 0)


def test_what_was_read_before_need_not_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    write(path, BODIES)
    with path.open("ab") as file:
        file.write(b"torn")
    known = Records(path)
    assert list(known) == BODIES
    writer = RecordWriter(path, known)
    writer.append(b"next")
    assert read(path) == ([*BODIES, b"next"], 0)
