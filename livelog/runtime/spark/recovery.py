"""Recovery: find out from a session's directory where the session stands. Reads only; nothing is ever changed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from livelog.runtime.spark.checkpoint import Part, check_part
from livelog.runtime.spark.formats import Entry, Logged, Manifest, Outcome, Progress, decode_record, load_sealed
from livelog.runtime.spark.layout import Layout, numbered
from livelog.runtime.spark.records import Damaged, Records, read_records

__all__ = ["Found", "entries", "find", "finished", "has_entries"]


@dataclass(frozen=True, slots=True)
class Found:
    """Where a session stands: the newest checkpoint, the files of the log, and what they add up to.

    `last` is the finished iteration over the last file of the log.
    """

    newest: Manifest | None
    segments: list[int]
    last: Records
    number: int
    progress: Progress
    undecided: Entry | None


def finished(layout: Layout) -> list[int]:
    """The checkpoints that have a manifest, ascending."""
    return [number for number in numbered(layout.checkpoints) if layout.manifest(number).exists()]


def find(layout: Layout) -> Found:
    """Where the session in a directory stands. Raises `Damaged` if that cannot be told for certain."""
    checkpoints = finished(layout)
    newest = None
    if checkpoints:
        try:
            newest = _manifest(layout, checkpoints[-1])
        except Damaged as damaged:
            raise Damaged(damaged.file, damaged.offset, damaged.what, _way_out(layout, checkpoints)) from None
    return _follow(layout, newest)


def _manifest(layout: Layout, number: int) -> Manifest:
    """The manifest of a checkpoint all of whose parts are as they were written."""
    path = layout.manifest(number)
    manifest = load_sealed(path, Manifest)
    if manifest.number != number:
        raise Damaged(path, None, f"it belongs to checkpoint {manifest.number}")
    for part in manifest.parts:
        check_part(layout.checkpoint(number) / part.file, Part(part.rows, part.bytes, part.checksum))
    return manifest


def _way_out(layout: Layout, checkpoints: list[int]) -> str:
    """What can be done about a damaged newest checkpoint."""
    try:
        older = _manifest(layout, checkpoints[-2]) if len(checkpoints) > 1 else None
        _follow(layout, older)
    except Damaged:
        return ""
    whole = "the log is" if older is None else f"checkpoint {older.number} and the log after it are"
    folder = layout.checkpoint(checkpoints[-1])
    return f"nothing was changed, and {whole} complete: move {folder} away to go on from there without loss"


def _follow(layout: Layout, newest: Manifest | None) -> Found:
    """Go through the log from a checkpoint on, or from the beginning."""
    start = newest.number if newest else 0
    progress = newest.progress.copy() if newest else Progress()
    segments = numbered(layout.logs, ".log")
    if start not in segments:
        raise Damaged(layout.log(start), None, "it is missing")
    number, held = start, None
    chain = [segment for segment in segments if segment >= start]
    records = read_records(layout.log(start))
    for segment in chain:
        path = layout.log(segment)
        if number != segment or held is not None:
            raise Damaged(path, None, f"it follows transaction {segment}, but the log before it ends with {number}")
        records = read_records(path)
        for body in records:
            record = _decoded(records, body)
            if isinstance(record, Logged):
                if held is not None or record.number != number + 1:
                    raise Damaged(path, records.end, f"transaction {record.number} follows transaction {number}")
                number, held = record.number, record
            else:
                if held is None or record.number != number:
                    raise Damaged(path, records.end, f"an outcome of transaction {record.number} is out of place")
                if record.committed:
                    progress.note(held)
                held = None
        if records.torn and segment != chain[-1]:  # it was durable before the next one was made
            raise Damaged(path, records.end, "a record is incomplete, and another file of the log follows")
    undecided = held.entry() if held else None
    return Found(newest, segments, records, number, progress, undecided)


def entries(layout: Layout, chain: list[int], after: int, last: int, open_end: bool) -> Iterator[Entry]:
    """The transactions in some files of the log, after one number and up to another, that were not aborted.

    `open_end` tells that the last one may have no outcome. All this was found to be there before, so anything that
    lacks is damage.
    """
    number, held = chain[0], None  # whether an entry counts stands in the record behind it
    for segment in chain:
        for record in _log(layout, segment):
            if isinstance(record, Logged):
                if record.number > last:
                    break
                if held is not None or record.number != number + 1:
                    raise Damaged(layout.log(segment), None, f"transaction {record.number} follows {number}")
                number, held = record.number, record
            elif held is not None:
                if record.committed and held.number > after:
                    yield held.entry()
                held = None
    if number != last or (held is not None and not open_end):
        raise Damaged(layout.log(chain[-1]), None, f"transaction {last} is not there as a whole")
    if held is not None and held.number > after:
        yield held.entry()


def has_entries(layout: Layout, segment: int) -> bool:
    """Whether a file of the log has anything in it, be it damaged."""
    try:
        return any(True for _ in _log(layout, segment))
    except Damaged:
        return True


def _log(layout: Layout, segment: int) -> Iterator[Logged | Outcome]:
    records = read_records(layout.log(segment))
    for body in records:
        yield _decoded(records, body)


def _decoded(records: Records, body: bytes) -> Logged | Outcome:
    try:
        return decode_record(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise Damaged(records.path, records.end, f"a record cannot be understood ({e})") from None
