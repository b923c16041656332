"""Journal: the driver's durable memory of a session, from which it can always go on.

Every transaction is logged before it is dispatched, and its outcome after it; a checkpoint stands for all
transactions up to its number. What holds at every moment, also when the machine stops in the middle of a step:

- The state is the newest checkpoint that has a manifest, and the transactions in the log after it that were not
  aborted. The manifest is written last and at once, so a checkpoint counts as a whole or not at all.
- `log/N.log` is made when checkpoint N begins, and then only it is written to: it holds exactly the transactions
  after N up to the next file, whether checkpoint N gets its manifest or not.
- Only the last transaction of the log may be without an outcome. It is the one to be run again.
- The checkpoint before the newest one stays, with all of the log after it; what is older is removed after that.

A journal is for one thread of one process: it holds the directory's lock from `create` or `open` to `close`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.frames import tupled
from livelog.runtime.spark.checkpoint import Part
from livelog.runtime.spark.formats import (
    FORMAT,
    Batch,
    Description,
    Entry,
    Manifest,
    Outcome,
    Progress,
    StoredPart,
    encode_record,
    load_sealed,
    sealed,
)
from livelog.runtime.spark.layout import Layout, Lock, make_folder, numbered, sync_folder, write_atomically
from livelog.runtime.spark.records import RecordWriter
from livelog.runtime.spark.recovery import Found, entries, find, has_entries
from livelog.runtime.spark.sweep import sweep, sweep_batches
from livelog.runtime.worker import Operation

__all__ = ["Batch", "Description", "Entry", "Journal", "Manifest", "describe"]


class Journal:
    """The log and the checkpoints of a session. Made by `create` or `open`.

    `description` is what was opened, `number` the last transaction that was begun, and `torn` how many bytes of
    an incomplete record were cut from the log when it was opened. `follows` and `queries` only tell of transactions
    that were committed.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> journal = Journal.create(folder, Description(name="r.dl", program="r(x) :- e(x)."))
    >>> journal.begin([("+", "e", (1,))]).number
    1
    >>> journal.close()
    >>> journal = Journal.open(folder)
    >>> journal.undecided().operations
    [('+', 'e', (1,))]
    >>> journal.end(1, committed=True); journal.undecided(); journal.close()
    """

    def __init__(self, layout: Layout, lock: Lock, description: Description, found: Found, durable: bool) -> None:
        self.layout = layout
        self.description = description
        self.number = found.number
        self._lock = lock
        self._durable = durable
        self._newest = found.newest
        self._progress = found.progress
        self._undecided = found.undecided
        self._begun: tuple[int, Progress] | None = None  # the checkpoint that is being made
        self._segments = found.segments  # ascending; all there are, the last one is being written
        self._writer = RecordWriter(layout.log(self._segments[-1]), found.last)
        self.torn = self._writer.torn
        self._sweep()
        sweep_batches(layout, after=self.number)

    # --- making and opening --------------------------------------------------------------------------------------

    @classmethod
    def create(cls, directory: str | os.PathLike[str], description: Description, *, durable: bool = True) -> Journal:
        """Begin a session in a directory that has none. `durable=False`: do not wait for the disk at each transaction.

        Without it a transaction still survives the end of the process, only not that of the machine.
        """
        layout = Layout(directory)
        for name, value in description.constants.items():
            if repr(_stored(value)) != repr(value):
                raise UsageProblem(f"the constant {name} cannot be stored: {value!r}")
        try:
            for folder in (layout.logs, layout.checkpoints, layout.batches, layout.published):
                make_folder(folder)
            lock = Lock(layout.lock)
        except OSError as e:
            raise UsageProblem(f"cannot use {layout.directory} for a session: {e.strerror or e}") from None
        try:
            if layout.session.exists():
                raise UsageProblem(
                    f"{layout.directory} already holds a session: "
                    f"go on with it by `livelog resume {layout.directory}`, or choose another directory"
                )
            # what a `create` left that did not get to its end is no session, but a log with entries was one
            if numbered(layout.logs, ".log") not in ([], [0]) or has_entries(layout, 0):
                raise UsageProblem(f"{layout.directory} holds a log, but its session.json is gone: choose another one")
            RecordWriter(layout.log(0)).close()
            write_atomically(layout.session, sealed(description))  # from here on there is a session
            return cls(layout, lock, description, find(layout), durable)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, durable: bool = True) -> Journal:
        """Go on with the session in a directory. Nothing is changed if that is not possible."""
        layout = Layout(directory)
        if not layout.session.exists():
            raise UsageProblem(f"there is no session in {layout.directory}")
        lock = Lock(layout.lock)
        try:
            description = describe(directory)
            if description.version != FORMAT:
                raise UsageProblem(
                    f"the session in {layout.directory} has format {description.version}; this Livelog reads {FORMAT}"
                )
            return cls(layout, lock, description, find(layout), durable)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Let the directory go. The session can be opened again."""
        with contextlib.suppress(RuntimeProblem):
            self._writer.sync()
        self._writer.close()
        self._lock.release()

    # --- transactions --------------------------------------------------------------------------------------------

    def begin(
        self,
        operations: Iterable[Operation] = (),
        *,
        batch: Batch | None = None,
        query: tuple[str, int] | None = None,
        source: str | None = None,
        position: int | None = None,
        follow: str | None = None,
    ) -> Entry:
        """Log a transaction. When this returns it is durable; when it raises it has not happened."""
        if self._undecided is not None:
            raise RuntimeProblem(f"transaction {self.number} has no outcome yet")
        entry = Entry(self.number + 1, list(operations), batch, query, source, position, follow)
        try:
            body = encode_record(entry)
        except (TypeError, OverflowError, UnicodeEncodeError, RecursionError) as e:
            raise RuntimeProblem(f"a transaction cannot be logged: {e}") from None
        before = self._writer.mark
        try:
            self._writer.append(body)
            if self._durable:
                self._writer.sync()
            self.number, self._undecided = entry.number, entry
        except BaseException:  # an interrupt, too: what the caller does not know of must not be run later
            self._writer.back(before)
            self.number, self._undecided = entry.number - 1, None
            raise
        return entry

    def end(self, number: int, committed: bool) -> None:
        """Log how the last transaction ended. If this is lost, the transaction is run again."""
        if self._undecided is None or number != self.number:
            raise RuntimeProblem(f"transaction {number} is not the one that is waiting for an outcome")
        entry, before, progress = self._undecided, self._writer.mark, self._progress
        try:
            self._writer.append(encode_record(Outcome(number, committed)))
            if committed:
                self._progress = progress.copy()  # a checkpoint that was begun keeps what it found
                self._progress.note(entry)
            self._undecided = None
        except BaseException:
            self._writer.back(before)
            self._undecided, self._progress = entry, progress
            raise

    def undecided(self) -> Entry | None:
        """The last transaction, if it is not known how it ended: it is to be run again."""
        return self._undecided

    def entries(self, after: int) -> Iterator[Entry]:
        """The transactions after a number that were not aborted, in order, one in memory at a time.

        They are there from the checkpoint before the newest one on.
        """
        if not self._segments[0] <= after:
            raise RuntimeProblem(f"the log starts after transaction {self._segments[0]}, not {after}")
        start = max(segment for segment in self._segments if segment <= after)
        chain = [segment for segment in self._segments if segment >= start]
        return entries(self.layout, chain, after, self.number, self._undecided is not None)

    @property
    def queries(self) -> dict[str, int]:
        """The last batch id that was applied, by streaming query."""
        return dict(self._progress.queries)

    @property
    def follows(self) -> list[str]:
        """The views that are followed, in the order in which that began."""
        return list(self._progress.follows)

    def position(self, source: str) -> int | None:
        """The last position of a feed that was applied; None if nothing of it was."""
        return self._progress.positions.get(source)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def newest(self) -> Manifest | None:
        """The newest checkpoint that counts."""
        return self._newest

    def start_checkpoint(self) -> tuple[int, Path]:
        """Begin a checkpoint of the facts as they are after the last transaction: its number, and a folder for parts.

        Transactions may be logged before it is finished; they are not part of it. A checkpoint that was begun before
        and not finished is given up. No number is ever used twice, lest a task that was thought dead writes into
        a later checkpoint: if nothing was logged since the last one was begun, an empty transaction is.
        """
        if self._undecided is not None:
            raise RuntimeProblem(f"transaction {self.number} has no outcome yet")
        if self.number == self._segments[-1]:
            self.end(self.begin().number, committed=True)
        number, folder = self.number, self.layout.checkpoint(self.number)
        self._begun = None
        self._rotate(number)
        try:
            os.mkdir(folder)
            sync_folder(folder.parent)
        except OSError as e:
            raise RuntimeProblem(f"cannot make {folder}: {e.strerror or e}") from e
        self._begun = number, self._progress
        return number, folder

    def _rotate(self, number: int) -> None:
        """Let the transactions after a number go to a file of their own."""
        path = self.layout.log(number)
        self._writer.sync()
        try:
            writer = RecordWriter(path)
        except BaseException as e:
            # The transactions to come go to the file before: then this one must not be there.
            try:
                path.unlink(missing_ok=True)
                sync_folder(path.parent)
            except OSError:
                self._writer.close()
            if isinstance(e, OSError):
                raise RuntimeProblem(f"cannot make {path}: {e.strerror or e}") from e
            raise
        former, self._writer = self._writer, writer
        self._segments.append(number)
        former.close()

    def finish_checkpoint(
        self, number: int, clock: float, parts: Iterable[tuple[str, int, Part]], partitions: int
    ) -> Manifest:
        """All parts are written, as (relation, partition, part): make the checkpoint count, and remove what is old."""
        if self._begun is None or self._begun[0] != number:
            raise RuntimeProblem(f"checkpoint {number} is not the one that was begun")
        progress = self._begun[1]
        stored = []
        for relation, partition, part in parts:
            path = self.layout.part(number, relation, partition)
            try:
                size = os.stat(path).st_size
            except OSError as e:
                raise RuntimeProblem(f"checkpoint {number} lacks {path}: {e.strerror or e}") from None
            if size != part.bytes:
                raise RuntimeProblem(f"checkpoint {number} has {size} bytes in {path} instead of {part.bytes}")
            stored.append(StoredPart(relation, partition, path.name, part.rows, part.bytes, part.checksum))
        stored.sort(key=lambda part: (part.relation, part.partition))
        manifest = Manifest(number, repr(float(clock)), partitions, progress, stored)
        try:
            write_atomically(self.layout.manifest(number), sealed(manifest))
        except OSError as e:
            raise RuntimeProblem(f"cannot finish checkpoint {number}: {e.strerror or e}") from e
        self._newest, self._begun = manifest, None
        self._sweep()
        return manifest

    def _sweep(self) -> None:
        oldest = sweep(self.layout, self._begun[0] if self._begun else None)
        self._segments = [segment for segment in self._segments if segment >= oldest]


def _stored(value: object) -> object:
    """A constant as it will be read again."""
    try:
        return tupled(msgspec.json.decode(msgspec.json.encode(value)))
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


def describe(directory: str | os.PathLike[str]) -> Description:
    """What was opened in a directory. Whether it can be gone on with is not looked at."""
    layout = Layout(directory)
    if not layout.session.exists():
        raise UsageProblem(f"there is no session in {layout.directory}")
    description = load_sealed(layout.session, Description)
    if description.version != FORMAT:
        raise UsageProblem(
            f"the session in {layout.directory} has format {description.version}; this Livelog reads {FORMAT}"
        )
    constants = {name: tupled(value) for name, value in description.constants.items()}
    return msgspec.structs.replace(description, constants=constants)
