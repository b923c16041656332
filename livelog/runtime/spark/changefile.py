"""Change files: what every transaction changed in the views that somebody follows, one file per view and partition.

A record is msgpack: the transaction's number, whether more of the same transaction comes, the rows inserted and the
rows deleted. Numbers only grow. A transaction whose last record is missing was interrupted: it is cut off when the
file is opened again, and recorded again when recovery evaluates it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from livelog.runtime.frames import ROW, tupled
from livelog.runtime.spark.layout import Layout, make_folder
from livelog.runtime.spark.records import START, Damaged, Records, RecordWriter, _magics, _record

__all__ = ["ChangeFiles", "change_files", "last_recorded", "read_changes"]

Row = tuple[Any, ...]

ROWS = 10_000
"""Rows of one record at most."""

NEAR = 1 << 20
"""Bytes that are rather read than halved again."""

IDLE = 64
"""A partition on which nothing of a view changes says so after this many transactions: recovery starts there."""

_encode = msgspec.msgpack.Encoder().encode
_rows: Any = msgspec.msgpack.Decoder(list.__class_getitem__(ROW))
_head: Any = msgspec.msgpack.Decoder(tuple[int, bool, msgspec.Raw, msgspec.Raw])


class _ChangeFile:
    """The change file of one view on one partition. `last` is the last number that it holds completely, if any."""

    def __init__(self, path: Path, before: int | None = None) -> None:
        records = Records(path)
        self.last, mark = _scan(records, before)
        self.known = self.last if self.last is not None else -1
        self._writer = RecordWriter(path, records)
        if self._writer.mark != mark:
            self._writer.back(mark)

    def write(self, number: int, inserted: Sequence[Row], deleted: Sequence[Row]) -> None:
        """Record a transaction, in one record or in several."""
        before = self._writer.mark
        try:
            pieces = _pieces(inserted, deleted)
            piece = next(pieces)
            for following in pieces:
                self._writer.append(_encode((number, True, *piece)))
                piece = following
            self._writer.append(_encode((number, False, *piece)))
        except BaseException:
            self._writer.back(before)
            raise
        self.last = self.known = number

    def catch_up(self) -> None:
        """Record that nothing changed in the transactions since the last that is recorded."""
        if self.last is None or self.last < self.known:
            self.write(self.known, (), ())

    def sync(self) -> None:
        self._writer.sync()

    def close(self) -> None:
        self._writer.close()


class ChangeFiles:
    """The change files of one partition.

    Files are not synced after every transaction: the log of transactions is, and recovery evaluates those again that
    `follow` finds to be missing.
    """

    def __init__(self, layout: Layout, partition: int) -> None:
        self._layout = layout
        self._partition = partition
        self._files: dict[str, _ChangeFile] = {}

    @property
    def views(self) -> list[str]:
        """The views that are followed."""
        return list(self._files)

    def follow(self, view: str, number: int, rows: Iterable[Row] | None, before: int | None = None) -> int:
        """Record the changes of a view from the transaction after `number` on.

        A new file begins with these rows, as if transaction `number` had inserted them. Transactions that are not
        `before` a number are cut off. Returns the last transaction that the file holds completely.
        """
        file = self._files.get(view)
        if file is None:
            path = self._layout.changes(view, self._partition)
            make_folder(path.parent)
            file = _ChangeFile(path, before)
            self._files[view] = file
        if file.last is None:
            file.write(number, () if rows is None else list(rows), ())
            file.sync()
        assert file.last is not None
        return file.last

    def record(self, number: int, changes: Mapping[str, tuple[Sequence[Row], Sequence[Row]]]) -> None:
        """A transaction was committed, with these rows gained and lost by view. What is recorded already stays."""
        for view, file in self._files.items():
            if number <= file.known:
                continue
            gained, lost = changes.get(view, ((), ()))
            if gained or lost:
                file.write(number, gained, lost)
            else:
                file.known = number
                if number - (file.last or 0) >= IDLE:
                    file.catch_up()

    def sync(self) -> None:
        """Make all that was recorded durable."""
        for file in self._files.values():
            file.catch_up()
            file.sync()

    def close(self) -> None:
        """No more changes."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def change_files(layout: Layout, view: str) -> list[Path]:
    """All files with changes of a view, also of partitions that there are no more."""
    return sorted(layout.changes(view, 0).parent.glob("*.log"))


def read_changes(path: Path, after: int, upto: int) -> Iterator[tuple[int, str, Row]]:
    """The changes of the transactions above `after` and up to `upto`, which are complete: (number, "+" or "-", row).

    Deleted rows come before inserted ones. The file may be written to meanwhile.
    """
    for offset, body in _records_after(path, after):
        try:
            number, _, inserted, deleted = _head.decode(body)
            if number > upto:
                return
            if number > after:
                for sign, part in (("-", deleted), ("+", inserted)):
                    for row in _decode(part):
                        yield number, sign, row
        except (msgspec.MsgspecError, UnicodeDecodeError) as e:
            raise Damaged(path, offset, f"a record makes no sense ({e})") from None


def _records_after(path: Path, after: int) -> Iterator[tuple[int, bytes]]:
    """The records of a file from somewhere on, but not behind the first one above a transaction, and where each starts.

    Who follows a view reads the end of its file again and again. Numbers ascend, and a record can be told from
    anything else wherever one looks, so the place is found by halving.
    """
    records = Records(path)
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 (a missing file is no error)
    except FileNotFoundError:
        return
    with file:
        size = os.fstat(file.fileno()).st_size
        salt = records._salt(file, size)
        if salt is None:
            return
        low, high = START, size  # all that is before `low` is not above
        while high - low > NEAR:
            middle = (low + high) // 2
            found = next(_whole(file, middle, high, size, salt), None)
            if found is None or _number(path, *found) > after:
                high = middle
            else:
                low = found[0]
        records.end = low
        while records.end < size:
            _, end, body = _record(file, records.end, size, salt)
            if body is None:
                records._expect_nothing(file, end, size, salt)
                return
            yield records.end, body
            records.end = end


def _whole(file: BinaryIO, start: int, stop: int, size: int, salt: int) -> Iterator[tuple[int, bytes]]:
    """The whole records that start between two offsets."""
    for offset in _magics(file, start, stop):
        _, _, body = _record(file, offset, size, salt)
        if body is not None:
            yield offset, body


def _number(path: Path, offset: int, body: bytes) -> int:
    try:
        number: int = _head.decode(body)[0]
    except msgspec.MsgspecError as e:
        raise Damaged(path, offset, f"a record makes no sense ({e})") from None
    return number


def last_recorded(path: Path) -> int | None:
    """The last transaction that a change file holds completely; None if there is none."""
    return _scan(Records(path))[0]


def _scan(records: Records, before: int | None = None) -> tuple[int | None, tuple[int, int]]:
    """The last complete transaction (of those before a number), and where it ends."""
    last, mark = None, (START, 0)
    for body in records:
        try:
            number, more, _, _ = _head.decode(body)
        except msgspec.MsgspecError as e:
            raise Damaged(records.path, records.end, f"a record makes no sense ({e})") from None
        if not more and (before is None or number < before):
            last, mark = number, (records.end, records.sequence)
    return last, mark


def _pieces(inserted: Sequence[Row], deleted: Sequence[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows of a transaction in pieces for one record each, the deleted ones first; at least one piece."""
    if len(inserted) + len(deleted) <= ROWS:
        yield list(inserted), list(deleted)
        return
    for side, rows in ((1, iter(deleted)), (0, iter(inserted))):
        while piece := list(islice(rows, ROWS)):
            yield (piece, []) if side == 0 else ([], piece)


def _decode(data: msgspec.Raw) -> list[Row]:
    try:
        rows: list[Row] = _rows.decode(data)
    except msgspec.ValidationError:  # lists nested deeper than the decoder foresees
        rows = [tupled(row) for row in msgspec.msgpack.decode(data)]
    return rows
