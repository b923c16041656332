"""StoredRuntime: the partitions of a session in this process, with a folder that outlives it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from datalog.errors import UsageProblem
from livelog.edits import Edit
from livelog.planned import Planned
from livelog.runtime.base_files import load_facts, write_facts
from livelog.runtime.collecting import without_collections
from livelog.runtime.journaled import Journaled
from livelog.runtime.limits import Watch
from livelog.runtime.local import LocalRuntime
from livelog.runtime.worker import Method, Sides
from livelog.store.changefile import ChangeFiles, first_recorded
from livelog.store.followers import held_still, marks
from livelog.store.formats import Description, Entry
from livelog.store.journal import SYNCS, Journal
from livelog.store.parts import Part
from planner.plan import Plan

__all__ = ["Store", "StoredRuntime"]

LEAST = 8 << 20
"""Bytes of the log that are worth a checkpoint; more of them where the last one was larger."""

_log = logging.getLogger("livelog")


@dataclass(frozen=True)
class Store:
    """Where a session is kept: the folder, when a commit is durable, whether a loss at the log's end is accepted."""

    directory: str | Path
    sync: str = "always"
    accept_loss: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.directory, (str, Path)) or not str(self.directory):
            raise UsageProblem(f"`store` is the path of a folder, not {self.directory!r}")
        if self.sync not in SYNCS[:2]:
            raise UsageProblem(f'`sync` is "always" or "interval", not {self.sync!r}')


class StoredRuntime(Journaled, LocalRuntime):
    """The partitions of a session in this process, and its journal.

    A transaction is evaluated first, and logged when it is to stand: one write, and a sync where it is to be durable
    before it is told. What it changes in the views that are followed waits for the journal's next flush, all partitions
    together, and is made again by a later opening if that does not come.
    """

    def __init__(
        self,
        plan: Plan | Planned,
        partitions: int,
        method: Method,
        limit: int | None,
        seed: int | None,
        sizes: Mapping[str, int] | None,
        watch: Watch | None,
        store: Store,
        description: Description,
        journal: Journal | None = None,
    ) -> None:
        """Go on with what is in a `journal`; or, if there is none, begin a session: with what is there at `found`."""
        super().__init__(plan, partitions, method, limit, seed, sizes, watch)
        self.journal = journal or Journal.create(
            store.directory, description, sync=store.sync, ahead=False, founded=False
        )
        self._description = description
        self._changed = ChangeFiles(self.journal.layout, 0)
        self.logs = False
        self._worth = LEAST
        self.journal.flushed = self._changed.flush

    def go_on(self) -> None:
        """Bring the partitions to where the journal is."""
        manifest = self.journal.newest()
        migrated = manifest is not None and manifest.description is not None
        if manifest is not None and migrated:
            self._drop_changes(manifest.number)
        self._drop_unfollowed()
        undecided = self.journal.waiting
        self._replay(self.journal.number + (1 if undecided is None else 0))
        self.logs = True
        self._finish_undecided()
        self._changed.sync()
        self.journal.publish(self.journal.number)
        # opened in another way, with the same program; or it was another one, and the end came before that was written
        if migrated or self.journal.description != self._description:
            self.journal.describe(self._description)

    def found(self) -> None:
        """What is loaded now is where the session begins, and from here on transactions are logged.

        If there was one with another program, it ends here; what its views changed is not kept.
        """
        views, begins = self.plan.outputs, not self.journal.founded
        if begins:
            self._follow_from(views, 0)
        else:  # a number of its own: who has read up to the last one has read of other views
            self.journal.end(self.journal.begin().number, committed=True)
        self._write_checkpoint(views, None if begins else self._description)
        if begins:
            self.journal.found()
        else:
            self._drop_changes(self.journal.number)
            self._follow_from(views, self.journal.number)
            self.journal.describe(self._description)
        self.logs = True

    def _follow_from(self, views: Iterable[str], number: int) -> None:
        """Record the changes of views from here on, after the views as they are: so they always add up to these."""
        for view in views:
            self._changed.follow(view, number, self.rows(view))

    def _drop_changes(self, number: int) -> None:
        """Remove what was recorded before another program began with this transaction."""
        for path in self.journal.layout.published.glob("*/*.log"):
            if (first_recorded(path) or 0) < number:
                path.unlink()

    def _drop_unfollowed(self) -> None:
        """Remove what was recorded of views that were to be followed, and the log does not know of it."""
        known = {self.journal.layout.changes(view, 0).parent for view in self.journal.follows}
        for folder in self.journal.layout.published.glob("*/"):
            if folder not in known:
                shutil.rmtree(folder, ignore_errors=True)

    # --- transactions ----------------------------------------------------------------------------------------

    def _perform(self, entry: Entry) -> dict[str, Sides]:
        self._number = entry.number
        operations = entry.operations
        if entry.edit is not None:
            return without_collections(self._transact, self._adoption(entry.edit))
        shares = [operations] if self.partitions == 1 else self._shares(operations)
        return without_collections(self._transact, shares)

    def _commit(self) -> None:
        for worker in self.workers:
            worker.commit()
        self._time = self.workers[0].clock
        if self._changed.files:
            self._changed.record(self._number, self.decided or {})

    _execute = _perform

    def edit(self, edit: Edit, planned: Planned) -> dict[str, Sides]:
        """As everywhere. The new outputs are followed from here on, as those of a program are when it is opened."""
        outputs = tuple(name for name in planned.plan.outputs if name in edit.names)
        return super().edit(replace(edit, follow=outputs), planned)

    def _begin_edit(self, entry: Entry) -> None:
        """Before the log says that it stands: what is recorded and not in the log is no matter to anybody."""
        assert entry.edit is not None
        for view in entry.edit.follow:
            self._changed.follow(view, entry.number, self.rows(view), 0)

    def _retract(self) -> None:
        super()._retract()
        self._forget_views()

    def _forget_views(self) -> None:
        for view in [view for view in self._changed.files if view not in self.plan.relations]:
            self._changed.forget(view)

    @property
    def standing(self) -> dict[str, Sides] | None:
        """As everywhere; but nobody takes the changes before they are recorded."""
        return None if self.state else self.decided

    def _interrupted(self) -> None:
        self.journal.publish(self.journal.number)

    def _note(self, text: str) -> None:
        _log.warning("%s", text)

    def _due(self) -> bool:
        """The log is as large as the last checkpoint: then checkpoints write no more than the log does."""
        newest = self.journal.newest()
        return newest is None or self.journal.grown > sum(part.bytes for part in newest.parts)

    # --- the folder ------------------------------------------------------------------------------------------

    def _load(self, number: int | None, clock: float, partitions: int) -> None:
        for worker in self.workers:
            load_facts(self.journal.layout, number, clock, partitions, worker)

    def _absorb(self, entry: Entry) -> None:
        if entry.batch is not None:
            raise UsageProblem("the log has rows that Spark brought: go on over Spark, and write a checkpoint there")
        for worker, share in zip(self.workers, self._shares(entry.operations), strict=True):
            worker.absorb(share)

    def _begin_to_follow(self, view: str, number: int, whole: bool, before: int | None = None) -> list[int]:
        return [self._changed.follow(view, number, self.rows(view) if whole else None, before)]

    def _cease_to_follow(self, view: str) -> None:
        self._changed.forget(view)

    def _write_facts(self, number: int) -> list[tuple[str, int, Part]]:
        parts = [part for worker in self.workers for part in write_facts(self.journal.layout, number, worker)]
        self._changed.record(number, {})  # if it is that of an empty transaction
        self._changed.sync()
        return parts

    def _tidy(self) -> None:
        """Changes go that are older than the checkpoint before this one and that all followers have read."""
        older = self.journal.oldest
        self._forget_views()
        for view in self._changed.files:
            with held_still(self.journal.layout, view) as still:
                if still:
                    self._changed.prune(view, min([older, *marks(self.journal.layout, view)]))

    def checkpoint(self) -> None:
        with self.lock:
            self._settle()
            newest = self.journal.newest()
            if newest is None or newest.number < self.journal.number:
                super().checkpoint()

    @property
    def closed(self) -> bool:
        return not self.workers

    def close(self) -> None:
        with self.lock:
            if not self.closed:
                self._close()

    def _close(self) -> None:
        if self.journal.foreign:  # this process is a fork, and the files are not its own
            super().close()
            return
        try:
            if self.logs and not self.state:
                self.journal.flush()  # first: no change file may know more than the log
                self._changed.sync()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        try:
            self.journal.close()
        finally:
            self._changed.close()
            super().close()
