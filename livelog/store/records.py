"""Records: an append-only file of checksummed records, where a torn end is told from damage.

A file starts with a head of its own: a magic, a random salt, and a checksum of both. Every record is

    magic 4 | sequence 8 | length 4 | checksum of the body 4 | checksum of what stands before it 4 | body

and both checksums start from the file's salt, so that no bytes of another file and none that somebody wrote into a
row ever look like a record of this one. The head has a checksum of its own so that a length can be trusted before the
body is read: a whole head whose body goes beyond the end of the file is torn, and no memory is set aside for a length
that is damaged.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from datalog.errors import RuntimeProblem
from livelog.store.layout import FILE_MODE, sync_folder

__all__ = ["Damaged", "RecordWriter", "Records", "read_records"]

_FILE = struct.Struct("<8sI")  # magic, salt
_HEAD = struct.Struct("<4sQII")  # magic, sequence, length, checksum of the body
_CHECK = struct.Struct("<I")
_FILE_MAGIC = b"livelog1"
_MAGIC = b"\xf5LR\xf6"  # bytes that UTF-8 never has: text does not have to be looked at twice
START = _FILE.size + _CHECK.size
HEAD = _HEAD.size + _CHECK.size
LONGEST = 2**32 - 1
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What is no failure of a disk: there may be room later."""
_CHUNK = 1 << 20

_log = logging.getLogger(__name__)


class Damaged(RuntimeProblem):
    """A file that does not hold what was written to it. Nothing was changed when this is raised."""

    def __init__(self, file: Path, offset: int | None, what: str, advice: str = "") -> None:
        place = "" if offset is None else f" at byte {offset}"
        advice = advice or "nothing was changed: restore the file from a copy, or start a new session elsewhere"
        super().__init__(f"{file} is damaged{place}: {what}; {advice}")
        self.file = file
        self.offset = offset
        self.what = what


class Readable(Protocol):
    """What has a descriptor of a file."""

    def fileno(self) -> int: ...


class Records:
    """The records of a file, to iterate over, one in memory at a time. The file is never changed.

    A missing file has none. After the iteration, `end` is the offset behind the last whole record, `sequence` the
    number of records, `salt` the file's own (None: the file has no head yet), and `torn` how many bytes stand
    behind `end` that are no record: what a crash left of the last write; or room for others, if they are `blank`.
    Raises `Damaged` where a record is bad and a whole one follows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        self.sequence = 0
        self.salt: int | None = None
        self.torn = 0
        self.blank = False

    def __iter__(self) -> Iterator[bytes]:
        self.end = self.sequence = self.torn = 0
        self.salt = None
        try:
            file = open(self.path, "rb", buffering=0)  # noqa: SIM115 (a missing file is no error)
        except FileNotFoundError:
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self.salt = self._salt(file, size)
            if self.salt is None:
                self.torn = size
                return
            self.end = START
            while self.end < size:
                sequence, end, body = _record(file, self.end, size, self.salt)
                if body is None:
                    self._expect_nothing(file, end, size, self.salt)
                    self.torn = size - self.end
                    self.blank = _zeros(file, self.end, size)
                    return
                if sequence != self.sequence:
                    raise Damaged(
                        self.path, self.end, f"record {sequence} stands where record {self.sequence} should"
                    )
                self.end, self.sequence = end, self.sequence + 1
                yield body

    def _salt(self, file: BinaryIO, size: int) -> int | None:
        """The file's salt; None if even its head is torn, which only a file without records can have."""
        head = _read(file, 0, START)
        if len(head) == START and head.startswith(_FILE_MAGIC):
            _, salt = _FILE.unpack_from(head)
            if _CHECK.unpack_from(head, _FILE.size)[0] == zlib.crc32(head[: _FILE.size]):
                return int(salt)
        if size > START:  # the head was durable before the first record was written
            raise Damaged(self.path, 0, "it does not start as a file of records does")
        return None

    def _expect_nothing(self, file: BinaryIO, offset: int, size: int, salt: int) -> None:
        """Raise if a whole record starts at the offset or anywhere behind it."""
        for candidate in _magics(file, offset, size):
            sequence, _, body = _record(file, candidate, size, salt)
            if body is not None:
                raise Damaged(
                    self.path, self.end,
                    f"record {self.sequence} does not match its checksum, and record {sequence} follows whole",
                )  # fmt: skip


def read_records(path: Path) -> Records:
    """The bodies of the records of a file, streamed."""
    return Records(path)


def _record(file: Readable, offset: int, size: int, salt: int) -> tuple[int, int, bytes | None]:
    """The record at an offset: its sequence number, where it ends, and its body.

    The body is None if there is no whole record; then the end is where the next could start.
    """
    head = _read(file, offset, HEAD)
    if len(head) < HEAD or not head.startswith(_MAGIC):
        return 0, offset + 1, None
    _, sequence, length, check = _HEAD.unpack_from(head)
    if _CHECK.unpack_from(head, _HEAD.size)[0] != zlib.crc32(head[: _HEAD.size], salt):
        return 0, offset + 1, None
    end = offset + HEAD + length
    if end > size:
        return sequence, end, None
    body = _read(file, offset + HEAD, length)
    return sequence, end, body if len(body) == length and zlib.crc32(body, salt) == check else None


def _zeros(file: Readable, start: int, size: int) -> bool:
    """Whether there is nothing but zeros at the end of a file, from an offset on."""
    return not any(any(_read(file, offset, min(_CHUNK, size - offset))) for offset in range(start, size, _CHUNK))


def _read(file: Readable, offset: int, length: int) -> bytes:
    """So many bytes from an offset, fewer only at the end of the file."""
    data = os.pread(file.fileno(), length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]  # the system reads at most 2 GB at once
    while data and (missing := length - sum(map(len, parts))):
        data = os.pread(file.fileno(), missing, offset + length - missing)
        parts.append(data)
    return b"".join(parts)


def _magics(file: BinaryIO, offset: int, size: int) -> Iterator[int]:
    """The offsets from one on where a record could start."""
    while offset < size:
        chunk = _read(file, offset, _CHUNK)
        at = chunk.find(_MAGIC)
        while at >= 0:
            yield offset + at
            at = chunk.find(_MAGIC, at + 1)
        if len(chunk) < _CHUNK:
            return
        offset += _CHUNK - len(_MAGIC) + 1


class RecordWriter:
    """Appends records to a file. A file that is there is read to its end first, and a torn end is cut off.

    `torn` is how many bytes were cut. `known` is a finished iteration over the same file, to save reading it again.

    With `room`, so many zeros are written at once where records are to come: to sync what takes their place is faster
    than to sync a file that grows.

    A full disk is no end: a record that could not be written is not there, and the next one may be. After a `sync`
    that failed the system does not try again, and the next one would lie; so, where there was no room, all that was
    appended since the last good one is written again first. Any other error is the end.
    """

    def __init__(self, path: Path, known: Records | None = None, room: int = 0) -> None:
        if known is None:
            known = Records(path)
            for _ in known:
                pass
        self.path = path
        self.torn = known.torn
        self.size = known.end
        self.sequence = known.sequence
        self._room = room
        self._reserved = known.end  # up to where there are zeros, or records
        self._broken = ""
        self._unsure = False  # whether a sync failed, and what was appended before it may not be on the disk
        self._beyond = False  # whether something may stand behind the end: an interrupt came before it was cut off
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            if known.torn:
                if not known.blank:
                    _log.warning("%s: cut %d bytes of a record that was never completed", path, known.torn)
                os.ftruncate(self._fd, self.size)
            if known.salt is None:
                self._salt = int.from_bytes(os.urandom(4), "little")
                head = _FILE.pack(_FILE_MAGIC, self._salt)
                self._write(head + _CHECK.pack(zlib.crc32(head)))
            else:
                self._salt = known.salt
            # What is there may still be on its way to the disk, if a process ended before it could sync.
            os.fsync(self._fd)
            sync_folder(path.parent)
        except BaseException:
            os.close(self._fd)
            raise
        self._durable = self.size  # what is known to be on the disk, always the end of a record

    def fileno(self) -> int:
        return self._fd

    def append(self, *bodies: bytes) -> None:
        """Write records behind the last. After an error the file is as before, or no record can be appended."""
        if self._broken:
            raise RuntimeProblem(self._broken)
        if self._unsure:
            self.sync()
        before = self.mark
        if self._beyond:
            self.back(before)
        parts, sequence, salt = [], self.sequence, self._salt
        for body in bodies:
            if len(body) > LONGEST:
                raise RuntimeProblem(f"a record of {len(body)} bytes is too long for {self.path}: at most {LONGEST}")
            head = _HEAD.pack(_MAGIC, sequence, len(body), zlib.crc32(body, salt))
            parts += [head, _CHECK.pack(zlib.crc32(head, salt)), body]
            sequence += 1
        self._beyond = True
        try:
            data = b"".join(parts)
            if self._room and self.size + len(data) > self._reserved:
                self._set_aside(len(data))
            self._write(data)
            self.sequence, self._beyond = sequence, False
        except BaseException as e:  # an interrupt, too, must not leave half a record in the middle
            self.back(before)
            if isinstance(e, OSError):
                raise RuntimeProblem(f"cannot write to {self.path}: {e.strerror or e}") from e
            raise

    def _write(self, data: bytes) -> None:
        offset = self.size
        while True:
            written = os.pwritev(self._fd, [data], offset)
            offset += written
            if written == len(data):
                break
            data = data[written:]
        self.size = offset

    def _set_aside(self, size: int) -> None:
        """Make room for so many bytes and more. Where there is none, the file just grows."""
        with contextlib.suppress(OSError):
            os.pwritev(self._fd, [bytes(size + self._room)], self.size)
            self._reserved = self.size + size + self._room

    @property
    def mark(self) -> tuple[int, int]:
        """Where the file ends now, for `back`."""
        return self.size, self.sequence

    def back(self, mark: tuple[int, int]) -> None:
        """Take back what was appended since a mark."""
        self._beyond = True
        self.size, self.sequence = mark
        self._reserved = self.size
        self._durable = min(self._durable, self.size)
        try:
            os.ftruncate(self._fd, self.size)
            self._beyond = False
        except OSError as e:
            self._broken = f"{self.path} cannot be written any more: {e.strerror or e}; resume the session"

    def sync(self) -> None:
        """Make what was appended durable."""
        if self._broken:
            raise RuntimeProblem(self._broken)
        try:
            if self._unsure:
                self._write_again()
            os.fdatasync(self._fd)
        except OSError as e:
            self._unsure = True
            problem = f"{self.path} cannot be made durable: {e.strerror or e}"
            if e.errno not in FULL:
                self._broken = problem = f"{problem}; resume the session"
            raise RuntimeProblem(problem) from e
        self._unsure = False
        self._durable = self.size

    def _write_again(self) -> None:
        """Write what was appended since the last sync that went well once more, if it can still be read."""
        offset = self._durable
        while offset < self.size:
            _, end, body = _record(self, offset, self.size, self._salt)
            if body is None:
                self._broken = f"{self.path} has lost what could not be made durable; resume the session"
                raise RuntimeProblem(self._broken)
            data = memoryview(_read(self, offset, end - offset))
            while data:
                written = os.pwrite(self._fd, data, offset)
                data, offset = data[written:], offset + written

    def close(self) -> None:
        """No more records. What was not synced is left to the system."""
        if self._fd >= 0:
            if self._beyond:
                self.back(self.mark)
            fd, self._fd = self._fd, -1
            broken, self._broken = self._broken, f"{self.path} is closed"
            with contextlib.suppress(OSError):
                if self._reserved > self.size and not broken:
                    os.ftruncate(fd, self.size)
            with contextlib.suppress(OSError):
                os.close(fd)
