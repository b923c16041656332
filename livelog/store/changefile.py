"""Change files: what every transaction changed in the views that somebody follows, one file per view and partition.

A record is msgpack: the transaction's number, whether more of the same transaction comes, the rows inserted and the
rows deleted. Numbers only grow. A transaction whose last record is missing was interrupted: it is cut off when the
file is opened again, and recorded again when recovery evaluates it again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from datalog.errors import RuntimeProblem
from livelog.packing import ROW, tupled
from livelog.store.layout import TEMPORARY, Layout, make_folder, sync_folder
from livelog.store.records import START, Damaged, Records, RecordWriter, _magics, _record

__all__ = ["ChangeFiles", "change_files", "first_recorded", "last_recorded", "newer_than", "read_changes"]

Row = tuple[Any, ...]

ROWS = 10_000
"""Rows of one record at most."""

NEAR = 1 << 20
"""Bytes that are rather read than halved again."""

IDLE = 64
"""A partition on which nothing of a view changes says so after this many transactions: recovery starts there."""

_log = logging.getLogger(__name__)
_encode = msgspec.msgpack.Encoder().encode
_rows: Any = msgspec.msgpack.Decoder(list.__class_getitem__(ROW))
_head: Any = msgspec.msgpack.Decoder(tuple[int, bool, msgspec.Raw, msgspec.Raw])


class _ChangeFile:
    """The change file of one view on one partition.

    `last` is the last number that it holds completely, if any; `known` the last one that was recorded; what is between
    waits in `_waiting` to be written, by number.
    """

    def __init__(self, path: Path, before: int | None = None, least: int = 0) -> None:
        """`before` a number: what is recorded of later transactions is cut off. All up to the `least` must be there."""
        records = Records(path)
        self.last, mark = _scan(records, before)
        if before and self.last is not None and self.last < least:
            raise Damaged(
                path, mark[0], f"its end is missing, with what transactions {self.last + 1} to {least} changed",
                "nothing was changed: restore it from a copy, or remove it: readers then begin with what comes",
            )  # fmt: skip
        self.known = self.last if self.last is not None else -1
        self.noted = self.known  # the last number for which there is a record, or one waits
        self._waiting: dict[int, tuple[Sequence[Row], Sequence[Row]]] = {}
        self._path = path
        self._writer = RecordWriter(path, records)
        if self._writer.mark != mark:
            self._writer.back(mark)
        self._sound = mark  # where the last complete transaction ends; an interrupt may have left more

    def record(self, number: int, inserted: Sequence[Row], deleted: Sequence[Row]) -> None:
        """A transaction that changed the view. One statement: an interrupt comes before it, or after it."""
        self._waiting[number], self.known, self.noted = (inserted, deleted), number, number

    def flush(self, upto: int | None = None) -> None:
        """Write what waits, or what does of the transactions up to a number. After an error it still waits."""
        for number, (inserted, deleted) in list(self._waiting.items()):
            if upto is not None and number > upto:
                return
            if self.last is None or number > self.last:
                self._take_back()
                try:
                    *pieces, last = _pieces(inserted, deleted)
                    self._writer.append(
                        *[_encode((number, True, *piece)) for piece in pieces], _encode((number, False, *last))
                    )
                    self.last, self._sound = number, self._writer.mark
                except BaseException:
                    self._writer.back(self._sound)
                    raise
            self._waiting.pop(number, None)

    def _take_back(self) -> None:
        """Cut off what was written and does not count, where an interrupt came before that was done."""
        if self._writer.mark != self._sound:
            self._writer.back(self._sound)

    def catch_up(self) -> None:
        """Record that nothing changed in the transactions since the last that is recorded, and write all of it."""
        if self.noted < self.known:
            self.record(self.known, (), ())
        self.flush()

    def prune(self, number: int) -> None:
        """Let go of the transactions up to a number, if these are at least as much as what is left. O(what is left)"""
        self._take_back()
        near = _records_after(self._path, number)
        kept = [(offset, body) for offset, body in near if _number(self._path, offset, body) > number]
        start = kept[0][0] if kept else self._writer.size
        if start - START < self._writer.size - start or start == START:
            return
        first = next(iter(Records(self._path)), None)
        if first is not None and _number(self._path, START, first) >= number:
            return  # only what it began with
        aside = self._path.with_name(f".{self._path.name}{TEMPORARY}")
        aside.unlink(missing_ok=True)
        writer = RecordWriter(aside)
        try:
            writer.append(_encode((number, False, (), ())), *[body for _, body in kept])
            writer.sync()
            os.replace(aside, self._path)
        finally:
            former = writer
            if os.stat(self._path).st_ino == os.fstat(writer.fileno()).st_ino:  # after an interrupt, too
                former, self._writer, self._sound = self._writer, writer, writer.mark
            former.close()
        sync_folder(self._path.parent)

    def sync(self) -> None:
        self._writer.sync()

    def close(self) -> None:
        self._writer.close()


class ChangeFiles:
    """The change files of one partition.

    What is recorded waits for `flush` before it is written. Files are not synced after every transaction: the log of
    transactions is, and recovery evaluates those again that `follow` finds to be missing. One thread records, and any
    thread may flush.
    """

    def __init__(self, layout: Layout, partition: int) -> None:
        self._layout = layout
        self._partition = partition
        self.files: dict[str, _ChangeFile] = {}  # by view, those that are followed
        self._lock = threading.RLock()  # over the files; what waits in them is safe without it

    def follow(self, view: str, number: int, rows: Iterable[Row] | None, before: int | None = None) -> int:
        """Record the changes of a view from the transaction after `number` on.

        A new file begins with these rows, as if transaction `number` had inserted them. Transactions that are not
        `before` a number are cut off; before 0, all of them: the file begins anew. Returns the last transaction that
        the file holds completely.
        """
        with self._lock:
            file = self.files.get(view)
            if file is not None and before == 0:
                file.close()
                file = None
            if file is None:
                path = self._layout.changes(view, self._partition)
                try:
                    make_folder(path.parent)
                    file = _ChangeFile(path, before, number)
                except OSError as e:
                    raise RuntimeProblem(f"cannot record changes in {path}: {e.strerror or e}") from e
                self.files[view] = file
            if file.last is None:
                file.record(number, () if rows is None else list(rows), ())
                file.flush()
                file.sync()
            assert file.last is not None
            return file.last

    def forget(self, view: str) -> None:
        """The changes of a view are not to be recorded after all."""
        with self._lock:
            file = self.files.pop(view, None)
            if file is not None:
                file.close()
            with contextlib.suppress(OSError):  # the log knows nothing of it: the next opening removes it
                self._layout.changes(view, self._partition).unlink(missing_ok=True)

    def record(self, number: int, changes: Mapping[str, Iterable[Sequence[Row]]]) -> None:
        """A transaction was committed, with these rows gained and lost by view. What is recorded already stays."""
        for view, file in self.files.items():
            if number <= file.known:
                continue
            gained, lost = changes.get(view, ((), ()))
            if gained or lost:
                file.record(number, list(gained), list(lost))  # they may be the engine's own, and change
            elif number - file.noted >= IDLE:
                file.record(number, (), ())
            else:
                file.known = number

    def flush(self, upto: int | None = None) -> None:
        """Write what was recorded, or what was of the transactions up to a number: no file is to know of one that the
        log may yet lose. Raises `RuntimeProblem` where that is not possible; nothing is lost then."""
        with self._lock:
            for file in self.files.values():
                file.flush(upto)

    def sync(self) -> None:
        """Make all that was recorded durable."""
        with self._lock:
            for file in self.files.values():
                file.catch_up()
                file.sync()

    def prune(self, view: str, number: int) -> None:
        """Nobody needs the changes of a view up to a transaction any more: some of them, or all, may go."""
        with self._lock:
            try:
                self.files[view].prune(number)
            except (OSError, RuntimeProblem) as e:  # the next one tries again
                _log.warning("cannot shorten the changes of %s: %s", view, e)

    def close(self) -> None:
        """No more changes."""
        with self._lock:
            for file in self.files.values():
                file.close()
            self.files.clear()


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


def newer_than(path: Path, number: int) -> Iterator[int]:
    """The transactions above a number that a change file knows of. Cheap: only the end of the file is read."""
    for offset, body in _records_after(path, number):
        if (found := _number(path, offset, body)) > number:
            yield found


def first_recorded(path: Path) -> int | None:
    """The transaction with which a change file begins; None if there is none."""
    first = next(iter(Records(path)), None)
    return None if first is None else _number(path, START, first)


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
