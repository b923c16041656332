"""Journaled: a runtime whose transactions are in a journal, so that a session outlives its process.

Wherever the partitions are, the journal decides: what is in it stands, whoever was told, and whoever dies. Here is the
order of things around a transaction, and how the partitions come to where the journal is. How rows and files get there
is up to `livelog.runtime.stored` and `livelog.runtime.spark`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.edits import Edit
from livelog.operations import Operation
from livelog.planned import Planned
from livelog.runtime.editing import Adoption
from livelog.runtime.runtime import OPEN, WHOLE, Runtime
from livelog.runtime.worker import Sides
from livelog.store.formats import Description, Entry
from livelog.store.journal import Journal, LogProblem
from livelog.store.parts import Part
from operators.errors import OperatorError

__all__ = ["ROLLED_BACK", "Journaled", "Unavailable"]

ROLLED_BACK = "the transaction was rolled back; the session can be read, and goes on when there is room"


class Unavailable(RuntimeProblem):
    """There are no partitions, and none can be had."""


class Journaled(Runtime):
    """The partitions of a session that has a journal. Whoever inherits makes it."""

    journal: Journal

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rerun: tuple[Entry, dict[str, Sides]] | None = None  # what another process had begun
        self.logs = True  # whether transactions are logged: not before there is a session
        self._worth = -1  # bytes of the log that are not worth a checkpoint
        self._number = 0  # of the transaction under way
        self._made: tuple[Planned | None, Edit, Planned] | None = None  # what an edit leads from, and what to
        self._time = 0.0  # where the clock is after the transaction under way

    @property
    def closed(self) -> bool:
        """Whether there will be no more transactions."""
        raise AssertionError("a runtime knows")

    # --- what a runtime fills in -----------------------------------------------------------------------------

    def _note(self, text: str) -> None:
        """Tell whoever looks after the session what happened to it."""
        raise AssertionError("a runtime tells")

    def _perform(self, entry: Entry) -> dict[str, Sides]:
        """Run a transaction of the journal on the partitions that are there. All or nothing."""
        raise AssertionError("a runtime has partitions")

    def _commit(self) -> None:
        """The transaction under way stands on all partitions, and what it changed is recorded where it is followed.

        `_time` is where the clock is after it.
        """
        raise AssertionError("a runtime has partitions")

    def _due(self) -> bool:
        """Whether it is time for a checkpoint."""
        raise AssertionError("a runtime knows when")

    def _load(self, number: int | None, clock: float, partitions: int) -> None:
        """Take in the facts of a checkpoint that so many partitions wrote; None: there is none."""
        raise AssertionError("a runtime has partitions")

    def _absorb(self, entry: Entry) -> None:
        """Take in the facts of a transaction; views are evaluated later."""
        raise AssertionError("a runtime has partitions")

    def _begin_to_follow(self, view: str, number: int, whole: bool, before: int | None = None) -> list[int]:
        """Record the changes of a view from here on; returns what is recorded completely, by partition."""
        raise AssertionError("a runtime has partitions")

    def _cease_to_follow(self, view: str) -> None:
        """Do not record the changes of a view after all."""
        raise AssertionError("a runtime has partitions")

    def _write_facts(self, number: int) -> list[tuple[str, int, Part]]:
        """Write the parts of a checkpoint, and make durable what was recorded of changes."""
        raise AssertionError("a runtime has partitions")

    def _begin_edit(self, entry: Entry) -> None:
        """An edit is evaluated, and about to stand."""

    def _forget_views(self) -> None:
        """What was recorded of views that are no more may go: an edit stands that dropped them."""

    def _tidy(self) -> None:
        """A checkpoint was written: what was recorded before it may go, as far as nobody has yet to read it."""

    # --- transactions ----------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation], **origin: Any) -> dict[str, Sides]:
        """`origin` is what `Journal.begin` takes: `batch`, `query`, `source`, `position`."""
        if not self.logs:
            return super().run(operations)
        with self.lock:
            if self.state or self.journal.waiting is not None:
                self._settle()
            changes = self._logged(operations, origin)
            if self.journal.grown > self._worth and self._due():
                self._try_checkpoint()
            return changes

    def edit(self, edit: Edit, planned: Planned) -> dict[str, Sides]:
        """As everywhere; what is told of it is durable, and not before that anything goes that was kept of views."""
        with self.lock:
            self._made = self.planned, edit, planned
            changes = self.run((), edit=edit)
            with suppress(LogProblem):  # the next transaction tries again, and the next opening forgets them
                self.journal.flush()
                self._forget_views()
            return changes

    def _adoption(self, edit: Edit) -> Adoption:
        """What an edit of the journal leads to. It is planned once, if that is the one that was just made."""
        assert self.planned is not None
        if self._made is None or self._made[0] is not self.planned or self._made[1] != edit:
            self._made = self.planned, edit, self.planned.after(edit)
        return Adoption(edit, self._made[2])

    def _logged(self, operations: Iterable[Operation], origin: Mapping[str, Any]) -> dict[str, Sides]:
        """Run a transaction, and let readers see it; or see to it that it never was."""
        try:
            entry = self.journal.begin(operations, **origin)
            changes = self._execute(entry)
            self._announce(entry)
        except BaseException as error:
            failed = self.journal.waiting is not None
            self._give_up()
            if failed and isinstance(error, LogProblem):
                raise LogProblem(f"{error.message}; {ROLLED_BACK}") from None
            if not self.state and self.decided is not None:
                self._interrupted()
            raise
        return changes

    def _try_checkpoint(self) -> None:
        try:
            self.checkpoint()
        except RuntimeProblem as error:  # no fault of this transaction's; the next one tries again
            self._note(f"no checkpoint was written: {error.message}")

    def _execute(self, entry: Entry) -> dict[str, Sides]:
        """Run a transaction of the journal."""
        return self._perform(entry)

    def _announce(self, entry: Entry) -> None:
        """Let readers see a transaction that stands."""
        self.journal.publish(entry.number)

    def _interrupted(self) -> None:
        """A transaction stands, and whoever waited for it was interrupted."""

    def _give_up(self) -> None:
        """What has no outcome is not to be, if there is such a transaction. If this fails, the next one sees to it."""
        entry = self.journal.waiting
        if entry is not None:
            if self.state:
                self.state = OPEN  # also if all of it was evaluated: it does not stand
            self.decided = None
            self.journal.give_up(entry.number)

    def _settle(self) -> None:
        """See to what an interrupt has left of a transaction."""
        if self.state:
            self.restore()
        self._give_up()

    def _complete(self) -> None:
        """The outcome is in the log before a partition is told: that is the moment that counts."""
        entry = self.journal.waiting
        if entry is not None and entry.number == self._number:
            if entry.edit is not None:
                self._begin_edit(entry)
            try:
                self.journal.end(entry.number, committed=True)
            except LogProblem:
                self.state = OPEN  # no partition has heard of it: all of them go back
                raise
        self._commit()
        self._stand()
        self.clock, self.committed = self._time, self.state
        self.state = WHOLE

    def _time_after(self, entry: Entry) -> float:
        """Where a transaction leaves the clock."""
        moves = [operation[2] for operation in entry.operations if operation[0] == "@"]
        return moves[-1] if moves else self.clock

    def _finish_undecided(self) -> None:
        """Run what another process had begun."""
        entry = self.journal.waiting
        if entry is None:
            return
        if entry.follow is not None:  # nobody was told that the view is followed, and nothing is recorded of it
            self.journal.give_up(entry.number)
            return
        try:
            self.rerun = entry, self._execute(entry)
        except (LogProblem, Unavailable):
            raise
        except (OperatorError, RuntimeProblem) as error:
            if self.journal.acknowledged >= entry.number:  # then it must not be lost: it may do better another time
                raise
            self._note(f"transaction {entry.number}, which was under way, failed and was rolled back: {error}")
            self.journal.give_up(entry.number)
        finally:
            self.decided = None  # `rerun` tells it

    # --- where the journal is --------------------------------------------------------------------------------

    def _replay(self, before: int) -> None:
        """Bring new partitions to where the journal is, or to where it was before a transaction."""
        manifest = self.journal.newest()
        self.clock = 0.0 if manifest is None else manifest.clock
        number = None if manifest is None else manifest.number
        self._load(number, self.clock, self.partitions if manifest is None else manifest.partitions)
        done = number or 0
        last = done
        if self.journal.follows:
            last = max([done, *(e.number for e in self.journal.entries(done) if e.number < before)])
        # What a transaction recorded that was given up, or is run again, does not count.
        recorded = [self._begin_to_follow(view, done, False, last + 1) for view in self.journal.follows]
        # Changes that are followed and were not recorded everywhere are made again, one transaction after the other.
        certain = max([done, *([min(map(min, recorded))] if recorded else [before])])
        behind = number is not None  # whether the views have yet to be evaluated
        for entry in self.journal.entries(done):
            if entry.number >= before:
                break
            if entry.number <= certain and not self._alone(entry):
                if entry.edit is not None:
                    self._adopt_unevaluated(self._adoption(entry.edit))
                else:
                    self._absorb(entry)
                self.clock = self._time_after(entry)
                behind = True
            else:
                if behind:
                    self._catch_up()
                behind = False
                committed = self.committed
                self._perform(entry)
                self.committed = committed  # it was counted, and told, when it was run first
                self.decided, self.steps = None, ()
        if behind:
            self._catch_up()

    def _alone(self, entry: Entry) -> bool:
        """Whether a transaction cannot be taken in without being evaluated.

        What is shown of an approximated view depends on all that came before, and so does what a relation was at the
        last point of time.
        """
        timed = self._timed
        if entry.edit is not None and not timed:
            timed = self._adoption(entry.edit).planned.plan.timed
        return timed or any(r.tolerance is not None for r in self.plan.relations.values())

    def _catch_up(self) -> None:
        """Evaluate the facts that were absorbed."""
        self._rebuild()
        if self._recompute:
            self._all("keep")
        self._all("commit")

    def checkpoint(self) -> None:
        """Write all facts, and start the log over."""
        with self.lock:
            self._settle()
            self._write_checkpoint()
            self._tidy()

    def _write_checkpoint(self, follows: Iterable[str] | None = None, description: Description | None = None) -> None:
        number, _ = self.journal.start_checkpoint()
        parts = self._write_facts(number)
        self.journal.publish(number)  # which may be that of an empty transaction
        self.journal.finish_checkpoint(number, self.clock, parts, self.partitions, follows, description)

    def follow(self, view: str, whole: bool) -> int:
        """Record the changes of a view from here on; returns the last transaction before that."""
        with self.lock:
            if view not in self.plan.published:
                raise UsageProblem(f"`{view}` is not a view whose changes are published")
            if view not in self.journal.follows:
                self._settle()
                self._begin_following(view, whole)
                self.journal.flush()  # who is told that a view is followed may rely on it
            return self.journal.published

    def _begin_following(self, view: str, whole: bool) -> None:
        entry = self.journal.begin((), follow=view)
        try:
            self._begin_to_follow(view, entry.number, whole, 0)
            self.journal.end(entry.number, committed=True)
        except BaseException:
            if self.journal.waiting is not None:
                self._cease_to_follow(view)
                self.journal.give_up(entry.number)
            raise
        self.journal.publish(entry.number)
