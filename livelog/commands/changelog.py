"""The change log of `livelog run --updates` and `livelog changes`: text, CSV or JSON lines, by transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from livelog import Session
from livelog.changes import ChangeLog, Changes
from livelog.commands.steplog import StepLog, is_stepped
from livelog.io.forms import CSV
from livelog.io.outputs import view_lines
from livelog.render import ChangeSet, change_lines, count_changes, paint_for, plural

__all__ = ["LOGS", "ChangeWriter", "log_csv", "log_json", "log_text"]

BEAT = 1.0
"""Seconds without a change after which JSON lines tell that time goes on."""

Log = Callable[[TextIO, int, str | None, float | None, Mapping[str, ChangeSet], Sequence[str]], None]
"""Writes one transaction: its number, where it came from, the clock, the changes, the relations to show.

Where it came from and the clock are None where they are not known."""


def log_text(
    out: TextIO, number: int, where: str | None, clock: float | None, changes: Mapping[str, ChangeSet],
    relations: Sequence[str],
) -> None:  # fmt: skip
    """A comment that names the transaction, its changes, an empty line: itself an update script."""
    paint = paint_for(out)
    count = count_changes(changes, relations)
    told = ", ".join(filter(None, (where, f"clock {clock:g}" if clock else "")))
    size = plural(count, "change") if count else "no changes"
    out.write(paint.faint(f"// transaction {number}{f' ({told})' if told else ''}: {size}") + "\n")
    out.writelines(line + "\n" for line in change_lines(changes, relations, paint))
    out.write("\n")


def log_csv(
    out: TextIO, number: int, where: str | None, clock: float | None, changes: Mapping[str, ChangeSet],
    relations: Sequence[str],
) -> None:  # fmt: skip
    """One line per change: transaction, `+` or `-`, relation, values."""
    for relation in relations:
        change = changes.get(relation)
        if change is not None:
            rows = [(number, "-", relation, *row) for row in change.deleted]
            rows += [(number, "+", relation, *row) for row in change.inserted]
            out.writelines(view_lines(relation, rows, CSV))


def log_json(
    out: TextIO, number: int, where: str | None, clock: float | None, changes: Mapping[str, ChangeSet],
    relations: Sequence[str],
) -> None:  # fmt: skip
    """One object per transaction, on one line."""
    shown: dict[str, Any] = {}
    for relation in relations:
        change = changes.get(relation)
        if change is not None and (change.inserted or change.deleted):
            shown[relation] = {"inserted": change.inserted, "deleted": change.deleted}
    record = {"transaction": number, **({} if clock is None else {"clock": clock}), "changes": shown}
    out.write(json.dumps(record, ensure_ascii=False) + "\n")


LOGS: dict[str, Log] = {"text": log_text, "csv": log_csv, "json": log_json}


class ChangeWriter:
    """Tells what the transactions of a session change in its outputs: all at once, or with times where these matter."""

    def __init__(self, session: Session, format_: str) -> None:
        self._session = session
        self._format = format_
        self._steps = StepLog(session) if is_stepped(session) else None
        if self._steps is not None:
            self._steps.time = session.clock

    def initial(self, out: TextIO, kept: bool) -> None:
        """The views before the first transaction. Of a session that is `kept`, they may be older than its opening."""
        session = self._session
        relations, before = session.plan.outputs, session.initial.transaction if kept else 0
        where = "the views" if before else "the facts"
        if self._steps is not None:
            self._steps.time = 0.0
            told = self._steps.all() if before else self._steps.operations(session.initial)
            self._steps.tell(out, self._format, before, where, told)
            return
        whole = {name: Changes(name, list(session[name]), []) for name in relations} if before else session.initial
        LOGS[self._format](out, before, where, session.clock, whole, relations)

    def tell(self, out: TextIO, number: int, where: str | None, log: ChangeLog) -> None:
        """The last transaction of the session."""
        if self._steps is not None:
            self._steps.tell(out, self._format, number, where, self._steps.operations(log))
        else:
            LOGS[self._format](out, number, where, self._session.clock, log, self._session.plan.outputs)

    def passed(self, out: TextIO, when: float) -> None:
        """Time has passed, and that is all. Who reads JSON lines hears of it now and then, for a clock of his own."""
        steps = self._steps
        if steps is not None and self._format == "json" and when - steps.time >= BEAT:
            steps.tell(out, self._format, 0, None, [], when)
            out.flush()
