"""Outbox: bytes that wait to be sent, in memory up to a cap and in a file beyond it.

A partition never waits for a slow peer: what the peer does not take yet waits here. So an outbox must hold any amount
without holding it in memory. In the common case nothing of that happens: a few small messages are put together into
one piece, and the kernel takes it at once.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from typing import IO

__all__ = ["CAP", "Outbox"]

CAP = 64 << 20
"""How many bytes an outbox keeps in memory unless told otherwise."""

PIECE = 256 << 10
"""Small messages are put together up to about this size: large enough that a system call more does not matter."""

PAGE = 4 << 10
"""At least so much is read back from a file at a time, even if the cap is smaller."""

_NOTHING = memoryview(b"")


class _File:
    """A temporary file without a name, written at its end and read from its start."""

    def __init__(self, directory: str | None) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="livelog-", dir=directory, buffering=0)  # noqa: SIM115
        self.read = 0
        self.written = 0

    def put(self, data: bytes) -> None:
        """Write all of it; after an error (a full disk) none of it counts."""
        rest, at = memoryview(data), self.written
        while rest:
            n = os.pwrite(self._file.fileno(), rest, at)
            rest, at = rest[n:], at + n
        self.written = at

    def get(self, most: int) -> bytes:
        """The next bytes that were written and not read; the caller knows that there are some."""
        data = os.pread(self._file.fileno(), min(most, self.written - self.read), self.read)
        if not data:
            raise OSError("a temporary file of unsent messages was truncated by somebody else")
        self.read += len(data)
        return data

    def empty(self) -> None:
        os.ftruncate(self._file.fileno(), 0)
        self.read = self.written = 0

    def close(self) -> None:
        self._file.close()


class Outbox:
    """A FIFO of bytes: `append` at one end, `peek` and `advance` at the other.

    Bytes stand in this order: the head (what `peek` shows), the chunks, the tail (a chunk that still grows), then the
    files. Once something is in a file, everything new goes there too, until all of it was read back.

    There are two files, one that is read and one that is written. When the first is read to its end it is emptied
    and they change places, so that a stream that never quite drains does not fill the disk with what was sent long ago.

    >>> outbox = Outbox(cap=8)
    >>> for word in (b"never ", b"block ", b"on a ", b"send"):
    ...     outbox.append(word)
    >>> outbox.pending, outbox.in_memory
    (21, 12)
    >>> while outbox:
    ...     piece = bytes(outbox.peek())
    ...     outbox.advance(len(piece))
    ...     print(piece)
    b'never block '
    b'on a send'
    """

    __slots__ = ("_cap", "_chunks", "_directory", "_head", "_pending", "_reading", "_spilled", "_tail", "_writing")

    def __init__(self, cap: int = CAP, directory: str | None = None) -> None:
        if cap < 1:
            raise ValueError("the cap of an outbox must be positive")
        self._cap = cap
        self._directory = directory
        self._head = _NOTHING
        self._chunks: deque[bytearray | memoryview] = deque()
        self._tail = bytearray()
        self._reading: _File | None = None
        self._writing: _File | None = None
        self._pending = 0
        self._spilled = 0

    def __len__(self) -> int:
        return self._pending

    @property
    def pending(self) -> int:
        """How many bytes wait."""
        return self._pending

    @property
    def in_memory(self) -> int:
        """How many of them wait in memory: at most the cap (a page, if that is more) and one message."""
        return self._pending - self._spilled

    def append(self, data: bytes) -> None:
        """Put bytes at the end. Raises OSError if they belong in a file and that cannot be written; then none is in."""
        if self._spilled or self._pending >= self._cap:
            self._spill(data)
        elif len(data) < PIECE:
            self._tail += data
            if len(self._tail) >= PIECE:
                self._chunks.append(self._tail)
                self._tail = bytearray()
        else:
            self._keep(memoryview(bytes(data)))
        self._pending += len(data)

    def peek(self) -> memoryview:
        """The bytes to send next, in one piece; empty if nothing waits. The same until `advance`."""
        if not self._head and self._pending:
            if self._chunks:
                self._head = memoryview(self._chunks.popleft())
            elif self._tail:
                self._head = memoryview(self._tail)
                self._tail = bytearray()
            else:
                self._head = memoryview(self._fetch())
        return self._head

    def advance(self, n: int) -> None:
        """So many bytes of what `peek` showed are sent."""
        have = len(self._head)
        if not 0 <= n <= have:
            raise ValueError(f"cannot advance by {n} in a piece of {have} bytes")
        self._head = self._head[n:] if n < have else _NOTHING
        self._pending -= n

    def close(self) -> None:
        """Forget everything that waits."""
        for file in (self._reading, self._writing):
            if file is not None:
                file.close()
        self._reading = self._writing = None
        self._head = _NOTHING
        self._chunks.clear()
        self._tail = bytearray()
        self._pending = self._spilled = 0

    def _keep(self, data: memoryview) -> None:
        """Keep large data as it is, but for a start of it that joins what is small before it: its length prefix."""
        if self._tail:
            room = PIECE - len(self._tail)
            self._tail += data[:room]
            self._chunks.append(self._tail)
            self._tail = bytearray()
            data = data[room:]
        if data:
            self._chunks.append(data)

    def _spill(self, data: bytes) -> None:
        if self._writing is None:
            self._writing = _File(self._directory)
        self._writing.put(data)
        self._spilled += len(data)

    def _fetch(self) -> bytes:
        """The next piece of the files, which hold something."""
        if self._reading is None or self._reading.read == self._reading.written:
            if self._reading is not None:
                self._reading.empty()
            self._reading, self._writing = self._writing, self._reading
        assert self._reading is not None
        data = self._reading.get(min(PIECE, max(PAGE, self._cap)))
        self._spilled -= len(data)
        return data
