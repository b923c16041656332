"""Formats: what a session's directory holds, as types and as bytes.

Transactions are msgpack, like frames; what a person may want to look at is JSON under a checksum. Lists of the
language are tuples here, as everywhere, and integers and floats never turn into each other.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from livelog.edits import Edit, lasting
from livelog.operations import Operation
from livelog.packing import ROW, tupled
from livelog.store.records import Damaged

__all__ = [
    "FORMAT", "READ", "Batch", "BatchFile", "Committed", "Description", "Entry", "Logged", "Manifest", "Outcome",
    "Progress",
    "StoredPart", "committed_record", "decode_record", "encode_record", "load_sealed", "sealed",
]  # fmt: skip

FORMAT = 3
"""The version of all that stands in a session's directory."""

READ = (2, FORMAT)
"""The versions that can be gone on with. A directory of the first has no edits; it becomes one of the last."""

Form = TypeVar("Form")


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What was opened: enough to open it again. `script` is the path of an update script that feeds the session.

    `runtime` is where its partitions were.
    """

    version: int = FORMAT
    name: str
    program: str
    constants: dict[str, Any] = {}
    strategy: str = "absorption"
    ship: str = ""
    limit: int | None = None
    memory: int | None = None
    timeout: float | None = None
    longest: int | None = None
    select: bool = True
    partitions: int = 1
    runtime: Literal["local", "spark"] = "spark"
    script: str | None = None
    tls: dict[str, str] | None = None  # the paths of the certificates, if it is encrypted


class BatchFile(msgspec.Struct, array_like=True, frozen=True):
    """Rows that Spark tasks pushed: to insert ("+") or delete ("-"). `owner` is the partition that took them in, of
    so many `partitions`: after a change of that number, everybody reads all files and takes its own rows."""

    relation: str
    sign: str
    name: str
    owner: int
    partitions: int


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """What Spark tasks pushed for a transaction and completed."""

    files: tuple[BatchFile, ...] = ()


class Entry(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A transaction as it is logged before it is dispatched.

    `query` is a streaming query and its batch id; `source` and `position` are where in some other feed the
    transaction comes from; `follow` is a view whose changes are kept from here on. `edit` is what it changes of the
    program: then it changes nothing else.
    """

    number: int
    operations: list[Operation] = []
    batch: Batch | None = None
    query: tuple[str, int] | None = None
    source: str | None = None
    position: int | None = None
    follow: str | None = None
    edit: Edit | None = None


class Logged(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An entry as it is read, its operations not looked at yet: who only wants to know where things stand need not."""

    number: int
    operations: msgspec.Raw
    batch: Batch | None
    query: tuple[str, int] | None
    source: str | None
    position: int | None
    follow: str | None
    edit: Edit | None = None

    def entry(self) -> Entry:
        """The whole entry."""
        operations = _operations(self.operations)
        return Entry(
            self.number, operations, self.batch, self.query, self.source, self.position, self.follow, self.edit
        )


class Outcome(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """How a transaction ended."""

    number: int
    committed: bool


class Committed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Transactions that are logged when they are committed: there is no outcome to wait for. Encoded one by one."""

    entries: list[Logged]


class StoredPart(msgspec.Struct, frozen=True):
    """One partition of one relation in a checkpoint; the checksum is a CRC-32 of the file."""

    relation: str
    partition: int
    file: str
    rows: int
    bytes: int
    checksum: int


class Progress(msgspec.Struct):
    """How far the feeds of a session were applied, which views are followed, and what became of its program.

    `edits` are those that something is left of, in order.
    """

    queries: dict[str, int] = {}
    positions: dict[str, int] = {}
    follows: list[str] = []
    edits: list[Edit] = []

    def note(self, entry: Entry | Logged) -> None:
        """A transaction was committed."""
        if entry.query is not None:
            self.queries[entry.query[0]] = entry.query[1]
        if entry.source is not None and entry.position is not None:
            self.positions[entry.source] = entry.position
        if entry.follow is not None and entry.follow not in self.follows:
            self.follows.append(entry.follow)
        if entry.edit is not None:
            self.edits = lasting([*self.edits, entry.edit])
            self.follows = [name for name in self.follows if name not in entry.edit.drop]
            self.follows += [name for name in entry.edit.follow if name not in self.follows]

    def copy(self) -> Progress:
        """The same, to be changed apart."""
        return Progress(dict(self.queries), dict(self.positions), list(self.follows), list(self.edits))


class Manifest(msgspec.Struct, frozen=True):
    """A checkpoint: the facts after transaction `number`, by partition, and how far the feeds were applied then.

    `time` is the clock as text: it may stand at infinity, which JSON does not have. `description` is there if the
    session has another program from this checkpoint on than before.
    """

    number: int
    time: str
    partitions: int
    progress: Progress
    parts: list[StoredPart]
    description: Description | None = None

    @property
    def clock(self) -> float:
        """The time that expirations go by.

        >>> Manifest(3, repr(2.5), 1, Progress(), []).clock
        2.5
        """
        return float(self.time)

    def part(self, relation: str, partition: int) -> StoredPart | None:
        """The part of one partition of one relation, if it has any rows."""
        found = (p for p in self.parts if p.relation == relation and p.partition == partition)
        return next(found, None)


# --- values ------------------------------------------------------------------------------------------------------


_operation: Any = tuple.__class_getitem__((str, str | None, ROW | int | float | str | None))
_encode = msgspec.msgpack.Encoder().encode
_any_decoder = msgspec.msgpack.Decoder()
_record_decoder: Any = msgspec.msgpack.Decoder(Logged | Outcome | Committed)
_operations_decoder: Any = msgspec.msgpack.Decoder(list.__class_getitem__(_operation))


def encode_record(record: Entry | Outcome) -> bytes:
    """A record of the log."""
    return _encode(record)


def committed_record(entries: list[bytes]) -> bytes:
    """A record of transactions that are committed, from what `encode_record` made of them."""
    return _encode((3, [msgspec.Raw(entry) for entry in entries]))


def decode_record(body: bytes) -> Logged | Outcome | Committed:
    """A record of the log. Raises `msgspec.MsgspecError` if it is none."""
    record: Logged | Outcome | Committed = _record_decoder.decode(body)
    return record


def _operations(data: msgspec.Raw) -> list[Operation]:
    try:
        operations: list[Operation] = _operations_decoder.decode(data)
    except msgspec.ValidationError:
        operations = [(op, relation, tupled(value)) for op, relation, value in _any_decoder.decode(data)]
    if any(len(op) > 1 for op, _, _ in operations):  # many rows at once are a list
        return [(op, name, list(value) if len(op) > 1 else value) for op, name, value in operations]
    return operations


# --- JSON under a checksum ---------------------------------------------------------------------------------------


class _Sealed(msgspec.Struct):
    crc32: int
    content: msgspec.Raw


def sealed(content: msgspec.Struct) -> bytes:
    """A structure as JSON that a person can read and a flipped bit cannot hide in.

    >>> print(sealed(Progress({"q": 7})).decode())
    {"crc32": 2823769900, "content": {
      "queries": {
        "q": 7
      },
      "positions": {},
      "follows": [],
      "edits": []
    }}
    """
    text = msgspec.json.format(msgspec.json.encode(content), indent=2)
    return b'{"crc32": %d, "content": %s}\n' % (zlib.crc32(text), text)


def load_sealed(path: Path, form: type[Form]) -> Form:
    """The structure in a file from `sealed`. Raises `Damaged` if the file is not as it was written."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_Sealed)
        if zlib.crc32(content.content) != content.crc32:
            raise Damaged(path, None, "its content does not match its checksum")
        return msgspec.json.decode(content.content, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise Damaged(path, None, f"it cannot be read ({e})") from None
    except OSError as e:
        raise Damaged(path, None, f"it cannot be read ({e.strerror or e})") from None
