"""Marks: the number of a transaction in a file of its own, written over again and again, and never waited for.

The mark `acknowledged` has the last transaction of which somebody was told that it is committed, and is written after
the log was made durable: so it may be behind when the machine stops, and never ahead. The mark `recorded` has the last
one whose changes are in the change files, and those of followers the last one that they have read.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

from livelog.store.layout import FILE_MODE

__all__ = ["Mark", "read_mark", "sound"]

_NUMBER = struct.Struct("<Q")
_CHECK = struct.Struct("<I")


def read_mark(path: Path) -> int:
    """The number in a file; 0 if there is none, or if it makes no sense."""
    return _read(path) or 0


def sound(path: Path) -> bool:
    """Whether there is a number in a file."""
    return _read(path) is not None


def _read(path: Path) -> int | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) != _NUMBER.size + _CHECK.size or _CHECK.unpack_from(data, 8)[0] != zlib.crc32(data[:8]):
        return None
    return int(_NUMBER.unpack_from(data)[0])


class Mark:
    """A mark that is written here.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mark"
    >>> mark = Mark(path); mark.number
    0
    >>> mark.note(17); read_mark(path), Mark(path).number
    (17, 17)
    """

    def __init__(self, path: Path) -> None:
        self.number = read_mark(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)

    def fileno(self) -> int:
        return self._fd

    def note(self, number: int) -> None:
        """From here on it is this number. Where that cannot be written, others go by the one before."""
        self.number = number
        data = _NUMBER.pack(number)
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, data + _CHECK.pack(zlib.crc32(data)), 0)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                os.close(fd)
