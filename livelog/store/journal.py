"""Journal: the durable memory of a session, from which it can always go on.

A checkpoint stands for all transactions up to its number, and the log has those after it. Where a transaction is
evaluated by others (`ahead`), it is logged before they hear of it, and its outcome after it. Where it is evaluated in
this process, it is logged when it is committed, and one that fails leaves no trace. What holds at every moment, also
when the machine stops in the middle of a step:

- The state is the newest checkpoint that has a manifest, and the transactions in the log after it that were not
  aborted. The manifest is written last and at once, so a checkpoint counts as a whole or not at all.
- `log/N.log` is made when checkpoint N begins, and then only it is written to: it holds exactly the transactions
  after N up to the next file, whether checkpoint N gets its manifest or not.
- Only the last transaction of the log may be without an outcome. It is the one to be run again.
- A commit is durable before it is told (`sync="always"`), or within `INTERVAL` seconds of it (`"interval"`): then what
  is there after a crash is how things stood at some moment of these seconds. (`"never"`: when the system sees fit.)
- Whoever was told that a transaction was committed or failed was told what the log says. A failure is durable before it
  is told; where it cannot be logged, since the disk is full, the transaction is taken out of the log again.
- A log that lost its end is told from one that never had more by what else knows of the numbers (`witnesses`).
- The checkpoint before the newest one stays, with all of the log after it; what is older is removed after that.

A journal is for one thread of one process, but for `flush`. It holds the directory's lock from `create` or `open` to
`close`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.edits import Edit
from livelog.operations import Operation
from livelog.packing import tupled
from livelog.store.flusher import Flusher
from livelog.store.formats import (
    FORMAT,
    READ,
    Batch,
    Description,
    Entry,
    Manifest,
    Outcome,
    Progress,
    StoredPart,
    committed_record,
    encode_record,
    load_sealed,
    sealed,
)
from livelog.store.layout import (
    Layout,
    Lock,
    make_folder,
    make_private,
    numbered,
    sync_folder,
    write_atomically,
)
from livelog.store.marks import Mark
from livelog.store.parts import Part
from livelog.store.records import Damaged, RecordWriter
from livelog.store.recovery import Found, entries, find, finished, has_entries
from livelog.store.sweep import sweep, sweep_batches

__all__ = ["SYNCS", "Batch", "Description", "Entry", "Journal", "LogProblem", "Manifest", "describe"]


SYNCS = ("always", "interval", "never")
"""When a commit is made durable: before it is told, within `INTERVAL` seconds, or when the system sees fit."""

INTERVAL = 0.1

ROOM = 1 << 16
"""Bytes that are set aside at once in a log that is synced with every commit."""

GROUP = 16 << 20
"""Bytes of transactions that one record holds, about."""


class LogProblem(RuntimeProblem):
    """The log cannot be written: the disk is full, or fails."""


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
    >>> journal.waiting.operations
    [('+', 'e', (1,))]
    >>> journal.end(1, committed=True); journal.waiting; journal.close()
    """

    def __init__(
        self, layout: Layout, lock: Lock, description: Description, found: Found, sync: str, ahead: bool, founded: bool
    ) -> None:
        self.layout = layout
        self.description = description
        self.number = found.number
        self.founded = founded  # whether there is a session already; until then nothing is logged
        self.flushed: Callable[[int | None], None] = lambda number: None
        """Writes what may be written once the log is durable up to a transaction, where that is done now and then."""
        self._lock = lock
        self._durable = sync == "always"
        self._ahead = ahead
        self._held: bytes | None = None  # the undecided one, where it is logged with its outcome
        self._late: dict[int, bytes] | None = None  # what `flush` has yet to write, and may just have written
        self._written = found.number  # the last transaction that it wrote
        self.grown = 0  # bytes of transactions since the last checkpoint, about
        self._trouble: RuntimeProblem | None = None  # why that was not possible when it was last tried
        self._flushing = threading.RLock()
        self._newest = found.newest
        self._progress = found.progress
        self.waiting = found.undecided
        """The last transaction, if it is not known how it ended: it is to be run again."""
        self._start: tuple[int, int] | None = None  # where the undecided one starts in the log, if it was begun here
        self._stray: Path | None = None  # a file of the log that must not be there
        self._begun: tuple[int, Progress] | None = None  # the checkpoint that is being made
        self._segments = found.segments  # ascending; all there are, the last one is being written
        self._room = ROOM if sync == "always" and not ahead else 0
        self._writer = RecordWriter(layout.log(self._segments[-1]), found.last, self._room)
        self._sound = self._writer.mark  # where what counts ends; an interrupt may have left more
        self.torn = self._writer.torn
        self._acknowledged = Mark(layout.acknowledged)
        self._recorded = Mark(layout.recorded)
        # what was changed by the transactions since is yet to be made again, and not to be told by a flush before
        self._published = found.number if ahead else min(found.number, self._recorded.number)
        self._give_up_numbers(found.lost)
        self._sweep()
        sweep_batches(layout, after=self.number)
        self.grown = self._writer.size
        self.foreign = False  # whether this is another process than the one whose journal it is
        _open.add(self)
        self._flusher: Flusher | None = None
        if sync == "interval":
            self._late = {}
        if not ahead:
            self._flusher = Flusher(self, INTERVAL)

    # --- making and opening --------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        description: Description,
        *,
        sync: str = "always",
        ahead: bool = True,
        founded: bool = True,
    ) -> Journal:
        """Begin a session in a directory that has none.

        With the `sync` "never" a transaction still survives the end of the process, only not that of the machine. Where
        it is not `founded`, there is no session in the directory before `found` is called.
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
            try:
                for folder in (layout.checkpoint(0), *layout.published.glob("*/")):
                    shutil.rmtree(folder, ignore_errors=True)
                RecordWriter(layout.log(0)).close()
                if founded:
                    write_atomically(layout.session, sealed(description))  # from here on there is a session
            except OSError as e:
                raise UsageProblem(f"cannot use {layout.directory} for a session: {e.strerror or e}") from None
            return cls(layout, lock, description, find(layout), sync, ahead, founded)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        sync: str = "always",
        ahead: bool = True,
        accept_loss: bool = False,
    ) -> Journal:
        """Go on with the session in a directory. Nothing is changed if that is not possible.

        `accept_loss`: also if the log lacks transactions at its end; their numbers are not used again.
        """
        layout = Layout(directory)
        if not layout.session.exists():
            raise UsageProblem(f"there is no session in {layout.directory}")
        try:
            lock = Lock(layout.lock)
        except OSError as e:
            raise UsageProblem(f"cannot use the session in {layout.directory}: {e.strerror or e}") from None
        try:
            description = describe(directory)
            found = find(layout, accept_loss)
            make_private(layout.directory)
            try:
                journal = cls(layout, lock, description, found, sync, ahead, True)
            except OSError as e:
                raise UsageProblem(f"cannot use the session in {layout.directory}: {e.strerror or e}") from None
            if description.version != FORMAT:  # before anything is written that those who read the former do not know
                try:
                    journal.describe(msgspec.structs.replace(description, version=FORMAT))
                except BaseException:
                    journal.close()
                    raise
            return journal
        except BaseException:
            lock.release()
            raise

    def found(self) -> None:
        """From here on there is a session in the directory, with the facts of the newest checkpoint."""
        self.describe(self.description)
        self.founded = True

    def describe(self, description: Description) -> None:
        """Write down what the session is."""
        self.description = description
        try:
            write_atomically(self.layout.session, sealed(description))
        except OSError as e:
            raise RuntimeProblem(f"cannot write {self.layout.session}: {e.strerror or e}") from e

    def _give_up_numbers(self, last: int) -> None:
        """Log that the transactions after the log's end, up to a number, are not to be."""
        ahead, self._ahead = self._ahead, True  # whoever logs only what is committed skips no number
        if last > self.number and self.waiting is not None:
            self.end(self.number, committed=False)
        while self.number < last:
            self.end(self.begin().number, committed=False)
        self._ahead = ahead

    def close(self) -> None:
        """Let the directory go. The session can be opened again. `LogProblem`: not all of it could be written."""
        if self.foreign:
            return
        _open.discard(self)
        if self._flusher is not None:
            self._flusher.stop()
        try:
            self.flush()
        finally:
            with contextlib.suppress(RuntimeProblem):
                self._take_back()
                self._writer.sync()
            self._writer.close()
            self._acknowledged.close()
            self._recorded.close()
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
        edit: Edit | None = None,
    ) -> Entry:
        """Begin a transaction, and log it if that is to be done ahead: then it is durable when this returns.

        When it raises it has not happened. Raises `LogProblem` where the log cannot be written. The next transaction
        tries again.
        """
        if self.waiting is not None:
            raise RuntimeProblem(f"transaction {self.number} has no outcome yet")
        if self._trouble is not None:
            self._flush_again()
        operations = operations if type(operations) is list else list(operations)
        entry = Entry(self.number + 1, operations, batch, query, source, position, follow, edit)
        try:
            body = encode_record(entry)
        except (TypeError, OverflowError, UnicodeEncodeError, RecursionError) as e:
            raise RuntimeProblem(f"a transaction cannot be logged: {e}") from None
        self.grown += len(body)
        if not self._ahead:
            self.number, self.waiting, self._held = entry.number, entry, body
            return entry
        self._take_back()
        before = self._sound
        try:
            self._writer.append(body)
            if self._durable:
                self._writer.sync()
            self.number, self.waiting, self._start, self._sound = entry.number, entry, before, self._writer.mark
        except BaseException as e:  # an interrupt, too: what the caller does not know of must not be run later
            written = self._writer.mark != before
            self._writer.back(before)
            self.number, self.waiting = entry.number - 1, None
            if isinstance(e, RuntimeProblem):
                if written:
                    self._make_sure(entry.number, e)
                raise LogProblem(f"the transaction was not begun: {e.message}") from None
            raise
        return entry

    def _take_back(self) -> None:
        """Cut off what was appended and does not count, where an interrupt came before that was done.

        And remove a file for the transactions after a checkpoint that was not begun: these go to the one before.
        """
        if self._stray is not None:
            try:
                self._stray.unlink(missing_ok=True)
                sync_folder(self._stray.parent)
            except OSError as e:
                raise LogProblem(f"cannot remove {self._stray}: {e.strerror or e}") from e
            self._stray = None
        if self._writer.size != self._sound[0]:
            self._writer.back(self._sound)

    def _make_sure(self, number: int, error: RuntimeProblem) -> None:
        """A transaction was taken out of the log: see that it is gone from the disk, too."""
        try:
            if self._durable:
                self._writer.sync()
        except RuntimeProblem:
            raise LogProblem(
                f"{error.message}: should the machine stop before there is room, it is not certain whether transaction "
                f"{number} is run when the session is resumed"
            ) from None

    def end(self, number: int, committed: bool) -> None:
        """Log how the last transaction ended. If this is lost, the transaction is run again.

        That it failed is durable when this returns. A commit of one that was logged ahead is with the next transaction:
        to run it again gives the same. Raises `LogProblem` where the log cannot be written; then the transaction still
        has no outcome.
        """
        if self.waiting is None or number != self.number:
            raise RuntimeProblem(f"transaction {number} is not the one that is waiting for an outcome")
        entry, held, noted = self.waiting, self._held, self._progress
        if held is not None and not committed:
            self.number, self.waiting, self._held = number - 1, None, None
            return
        told = entry.query or entry.source is not None or entry.follow is not None or entry.edit is not None
        if committed and told:
            noted = noted.copy()  # a checkpoint that was begun keeps what it found
            noted.note(entry)
        if held is not None and self._late is not None:
            # one statement: an interrupt comes before it, or after it
            self._late[number], self.waiting, self._held, self._progress = held, None, None, noted
            return
        self._take_back()
        before, progress = self._sound, self._progress
        try:
            if held is None:
                self._writer.append(encode_record(Outcome(number, committed)))
                if self._durable and not committed:
                    self._writer.sync()
            else:
                self._writer.append(committed_record([held]))
                if self._durable:
                    self._writer.sync()
            self.waiting, self._held, self._progress, self._sound = None, None, noted, self._writer.mark
        except BaseException as e:
            written = self._writer.size != before[0]
            self._writer.back(before)
            self.waiting, self._held, self._progress = entry, held, progress
            if isinstance(e, RuntimeProblem):
                if held is not None and written:
                    self._make_sure(number, e)
                raise LogProblem(f"the outcome of transaction {number} cannot be logged: {e.message}") from None
            raise

    def give_up(self, number: int) -> None:
        """The last transaction is not to be. Where that cannot be logged, it is taken out of the log instead.

        Its number is then used again. Raises `LogProblem` if neither can be done for certain.
        """
        try:
            self.end(number, committed=False)
        except LogProblem as problem:
            if self._start is None:  # another process began it: it is run again when there is room
                raise
            self.number, self.waiting, self._sound = number - 1, None, self._start
            self._writer.back(self._start)
            self._make_sure(number, problem)

    def publish(self, number: int) -> None:
        """A commit is about to be told. What it changed is recorded; or, if it was not logged ahead, with `flush`."""
        self._published = number
        if self._durable:
            self._acknowledged.note(number)
        if self._ahead:
            self._recorded.note(number)

    def acknowledge(self, number: int) -> None:
        """A commit is about to be told that changes nothing which readers are to know of."""
        if self._durable:
            self._acknowledged.note(number)

    def flush(self) -> None:
        """Write what is not written yet: the log, durably, then what waits for that. Any thread may do so.

        Raises `LogProblem` where it cannot be written; nothing is lost then but time.
        """
        if self._ahead or self.foreign:
            return
        with self._flushing:
            number = self._published  # all that was changed up to it waits to be written
            if self._late is not None:
                self._write_late(self._late)
            if number <= self._recorded.number and self._trouble is None:
                return
            try:
                self.flushed(None if self._late is None else self._written)
            except RuntimeProblem as e:
                self._trouble = e
                raise LogProblem(f"what was changed last cannot be recorded: {e.message}") from None
            self._trouble = None
            if number > self._acknowledged.number:
                self._acknowledged.note(number)
            self._recorded.note(number)

    def _write_late(self, late: dict[int, bytes]) -> None:
        waiting = [entry for entry in list(late.items()) if entry[0] > self._written]
        self._take_back()
        try:
            if waiting:
                self._writer.append(*map(committed_record, _groups(waiting)))
                self._writer.sync()
                self._written, self._sound = waiting[-1][0], self._writer.mark
        except BaseException as e:
            self._writer.back(self._sound)
            if isinstance(e, RuntimeProblem):
                self._trouble = e
                raise LogProblem(f"what was committed last cannot be logged: {e.message}") from None
            raise
        for number in [n for n in list(late) if n <= self._written]:
            late.pop(number, None)

    def _flush_again(self) -> None:
        if self.foreign:
            raise UsageProblem("the session is that of another process, from which this one was forked")
        try:
            self.flush()
        except LogProblem as e:
            raise LogProblem(f"the transaction was not begun: {e.message}") from None

    @property
    def acknowledged(self) -> int:
        """The last transaction of which it is known that somebody was told of its commit."""
        return self._acknowledged.number

    def entries(self, after: int) -> Iterator[Entry]:
        """The transactions after a number that were not aborted, in order, one in memory at a time.

        They are there from the checkpoint before the newest one on.
        """
        self.flush()
        if not self._segments[0] <= after:
            raise RuntimeProblem(f"the log starts after transaction {self._segments[0]}, not {after}")
        start = max(segment for segment in self._segments if segment <= after)
        chain = [segment for segment in self._segments if segment >= start]
        return entries(self.layout, chain, after, self.number, self.waiting is not None)

    @property
    def published(self) -> int:
        """The last transaction of which readers may know."""
        return self._published

    @property
    def queries(self) -> dict[str, int]:
        """The last batch id that was applied, by streaming query."""
        return dict(self._progress.queries)

    @property
    def follows(self) -> list[str]:
        """The views that are followed, in the order in which that began."""
        return list(self._progress.follows)

    @property
    def edits(self) -> list[Edit]:
        """What became of the program, as far as anything is left of it."""
        return list(self._progress.edits)

    @property
    def checkpointed_edits(self) -> list[Edit]:
        """The same as of the newest checkpoint: those of the log come behind it."""
        return [] if self._newest is None else list(self._newest.progress.edits)

    def position(self, source: str) -> int | None:
        """The last position of a feed that was applied; None if nothing of it was."""
        return self._progress.positions.get(source)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def newest(self) -> Manifest | None:
        """The newest checkpoint that counts."""
        return self._newest

    @property
    def oldest(self) -> int:
        """The transaction after which the log begins: that of the checkpoint before the newest one, or 0."""
        return self._segments[0]

    def start_checkpoint(self) -> tuple[int, Path]:
        """Begin a checkpoint of the facts as they are after the last transaction: its number, and a folder for parts.

        Transactions may be logged before it is finished; they are not part of it. A checkpoint that was begun before
        and not finished is given up. No number is ever used twice, lest a task that was thought dead writes into
        a later checkpoint: if nothing was logged since the last one was begun, an empty transaction is. Before there is
        a session, it is the one with which it is founded.
        """
        if self.waiting is not None:
            raise RuntimeProblem(f"transaction {self.number} has no outcome yet")
        if self.founded:
            if self.number == self._segments[-1]:
                self.end(self.begin().number, committed=True)
            self._rotate(self.number)
        number, folder = self.number, self.layout.checkpoint(self.number)
        self._begun = None
        try:
            os.mkdir(folder, 0o700)
            sync_folder(folder.parent)
        except OSError as e:
            raise RuntimeProblem(f"cannot make {folder}: {e.strerror or e}") from e
        self._begun = number, self._progress
        return number, folder

    def _rotate(self, number: int) -> None:
        """Let the transactions after a number go to a file of their own."""
        with self._flushing:
            self.flush()
            self._take_back()
            self._writer.sync()
            self._begin_file(number)

    def _begin_file(self, number: int) -> None:
        path = self.layout.log(number)
        try:
            writer = RecordWriter(path, room=self._room)
        except BaseException as e:
            # The transactions to come go to the file before: then this one must not be there.
            self._stray = path
            with contextlib.suppress(LogProblem):  # then the next transaction tries again
                self._take_back()
            if isinstance(e, OSError):
                raise RuntimeProblem(f"cannot make {path}: {e.strerror or e}") from e
            raise
        former = self._writer
        self._writer, self._sound, self._segments = writer, writer.mark, [*self._segments, number]
        former.close()

    def finish_checkpoint(
        self,
        number: int,
        clock: float,
        parts: Iterable[tuple[str, int, Part]],
        partitions: int,
        follows: Iterable[str] | None = None,
        description: Description | None = None,
    ) -> Manifest:
        """All parts are written, as (relation, partition, part): make the checkpoint count, and remove what is old.

        `follows` are the views that are followed from here on, if these are others than before; `description` is what
        the session is from here on, if that is another program.
        """
        if self._begun is None or self._begun[0] != number:
            raise RuntimeProblem(f"checkpoint {number} is not the one that was begun")
        progress = self._begun[1]
        if follows is not None:
            progress = self._progress = Progress(progress.queries, progress.positions, list(follows))
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
        manifest = Manifest(number, repr(float(clock)), partitions, progress, stored, description)
        try:
            write_atomically(self.layout.manifest(number), sealed(manifest))
        except OSError as e:
            raise RuntimeProblem(f"cannot finish checkpoint {number}: {e.strerror or e}") from e
        self._newest, self._begun, self.grown = manifest, None, 0
        self.description = description or self.description
        self._sweep()
        return manifest

    def _sweep(self) -> None:
        oldest = sweep(self.layout, self._begun[0] if self._begun else None)
        self._segments = [segment for segment in self._segments if segment >= oldest]


class _Version(msgspec.Struct):
    """What tells how to read the rest."""

    version: int


def _groups(entries: list[tuple[int, bytes]]) -> Iterator[list[bytes]]:
    """Encoded transactions, as many together as one record is to hold."""
    group: list[bytes] = []
    size = 0
    for _, body in entries:
        if group and size + len(body) > GROUP:
            yield group
            group, size = [], 0
        group.append(body)
        size += len(body)
    yield group


def _stored(value: object) -> object:
    """A constant as it will be read again."""
    try:
        return tupled(msgspec.json.decode(msgspec.json.encode(value)))
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _forked() -> None:
    """What a fork inherits is not its own: the files are written, and cut to their size, by the one who opened them."""
    for journal in _open:
        journal.foreign, journal._trouble = True, RuntimeProblem("it is another process's")


os.register_at_fork(after_in_child=_forked)


def describe(directory: str | os.PathLike[str]) -> Description:
    """What was opened in a directory. Whether it can be gone on with is not looked at."""
    layout = Layout(directory)
    if not layout.session.exists():
        raise UsageProblem(f"there is no session in {layout.directory}")
    if (version := load_sealed(layout.session, _Version).version) not in READ:  # it may look otherwise then
        known = " and ".join(map(str, READ))
        raise UsageProblem(f"the session in {layout.directory} has format {version}; this Livelog reads {known}")
    description = load_sealed(layout.session, Description)
    with contextlib.suppress(Damaged):  # whoever opens the session will say so
        if last := finished(layout):
            description = load_sealed(layout.manifest(last[-1]), Manifest).description or description
    constants = {name: tupled(value) for name, value in description.constants.items()}
    return msgspec.structs.replace(description, constants=constants)
