"""Recovery: find out from a session's directory where the session stands. Reads only; nothing is ever changed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from livelog.store.formats import (
    Committed,
    Entry,
    Logged,
    Manifest,
    Outcome,
    Progress,
    decode_record,
    load_sealed,
)
from livelog.store.layout import Layout, numbered
from livelog.store.parts import Part, check_part
from livelog.store.records import Damaged, Records, read_records
from livelog.store.witnesses import witness

__all__ = ["Found", "Missing", "entries", "find", "finished", "has_entries"]


class Missing(Damaged):
    """The log lacks transactions at its end that were there. `first` to `last` are their numbers."""

    def __init__(self, layout: Layout, records: Records, first: int, last: int, known_from: Path) -> None:
        which = f"transaction {first}" if first == last else f"transactions {first} to {last}"
        it = "it" if first == last else "them"
        super().__init__(
            records.path, records.end,
            f"its end is missing, with {which}, which {known_from} knows of",
            "nothing was changed: restore the file from a copy, or go on without "
            f"{it} by `livelog resume {layout.directory} --accept-loss` (in Python: `accept_loss=True`)",
        )  # fmt: skip
        self.first, self.last = first, last


@dataclass(frozen=True, slots=True)
class Found:
    """Where a session stands: the newest checkpoint, the files of the log, and what they add up to.

    `last` is the finished iteration over the last file of the log. `lost` is the number up to which transactions lack
    at its end, if that was accepted.
    """

    newest: Manifest | None
    segments: list[int]
    last: Records
    number: int
    progress: Progress
    undecided: Entry | None
    lost: int = 0


def finished(layout: Layout) -> list[int]:
    """The checkpoints that have a manifest, ascending."""
    return [number for number in numbered(layout.checkpoints) if layout.manifest(number).exists()]


def find(layout: Layout, accept_loss: bool = False) -> Found:
    """Where the session in a directory stands. Raises `Damaged` if that cannot be told for certain.

    `accept_loss`: go on from where the log ends, although there was more.
    """
    checkpoints = finished(layout)
    newest = None
    if checkpoints:
        try:
            newest = _manifest(layout, checkpoints[-1])
        except Damaged as damaged:
            raise Damaged(damaged.file, damaged.offset, damaged.what, _way_out(layout, checkpoints)) from None
    found = _follow(layout, newest)
    known = witness(layout, found.number)
    if known is None:
        return found
    if not accept_loss:
        # a transaction without an outcome had one if others came after it
        first = found.number + (found.undecided is None)
        raise Missing(layout, found.last, first, known[0], known[1])
    return replace(found, lost=known[0])


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
        found = _follow(layout, older)
    except Damaged:
        return ""
    if witness(layout, found.number) is not None:
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
            for record in _parts_of(_decoded(records, body)):
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
        if records.torn and not records.blank and segment != chain[-1]:  # it was durable before the next one was made
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
        yield from _parts_of(_decoded(records, body))


def _parts_of(record: Logged | Outcome | Committed) -> Iterator[Logged | Outcome]:
    """Transactions that were logged together with their outcome, as if they had been logged one after the other."""
    if isinstance(record, Committed):
        for entry in record.entries:
            yield entry
            yield Outcome(entry.number, True)
    else:
        yield record


def _decoded(records: Records, body: bytes) -> Logged | Outcome | Committed:
    try:
        return decode_record(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise Damaged(records.path, records.end, f"a record cannot be understood ({e})") from None
