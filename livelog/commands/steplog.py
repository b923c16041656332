"""The change log of programs in which time matters: every change with its time, as lines that can be read back.

Text and JSON lines are update scripts: what one `livelog run` prints, another one reads with `--updates -`. Where a
transaction moves the clock beyond its last change, there is a line that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from livelog import Session
from livelog.changes import ChangeLog
from livelog.complete import refreshes
from livelog.io.forms import CSV
from livelog.io.outputs import complete_views, view_lines
from livelog.io.updates import Operation, format_operation, operation_json
from livelog.render import Paint, paint_for, plural
from livelog.runtime.steps import time_of
from livelog.shapes import ANY

__all__ = ["StepLog", "is_stepped"]


def is_stepped(session: Session) -> bool:
    """Whether the changes of a session are told with their times, and as updates where a key is known.

    So it is where a program has streams, windows, times of tuples or reads at points, or says the key of a view, or
    that it is to be told completely.
    """
    plan, program = session.plan, session.program
    if plan.timed or program.reads or complete_views(program):
        return True
    return any(r.stream or (r.key and name in program.derived) for name, r in program.relations.items())


class StepLog:
    """Tells what transactions change in the outputs of a session. `time` is that of the last line with one.

    The cost is O(changes), and O(view) for each refresh of a view whose form is complete.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.time = 0.0
        self._relations = session.plan.outputs
        self._whole = complete_views(session.program)

    def operations(self, log: ChangeLog) -> list[Operation]:
        """What the last transaction changed, in order of time; `=` has all of a view that is told so."""
        steps = log.steps
        shown = {
            name: iter(refreshes([step[name] for step in steps], self.session[name]))
            for name in self._whole
            if any(step[name] for step in steps)
        }
        found: list[Operation] = []
        for step in steps:
            for name in self._relations:
                changes = step[name]
                if not changes:
                    continue
                time, full = float(changes.time), changes.full
                if name in shown:
                    found.append(Operation("=", name, tuple(next(shown[name]).rows), time, full))
                else:
                    found += [Operation(op, name, row, time, full) for op, row in changes.operations]  # type: ignore[arg-type]
        if found:
            self.time = found[-1].time or 0.0
        return found

    def all(self) -> list[Operation]:
        """All tuples of all outputs, as they are now."""
        time = self.session.clock
        found = [Operation("+", name, row, time) for name in self._relations for row in self.session[name]]
        if found:
            self.time = time
        return found

    def lines(self, operations: Sequence[Operation], paint: Paint | None = None) -> Iterator[str]:
        """Operations as lines of an update script. Before all of a relation is told, all of it is deleted."""
        paint = paint or Paint(False)
        painted = {"+": paint.added, "-": paint.removed, "u": paint.name}
        for operation in operations:
            for each in self._single(operation):
                yield painted[each.op](format_operation(each))

    def _single(self, operation: Operation) -> list[Operation]:
        if operation.op != "=":
            return [operation]
        name, time, full = operation.relation, operation.time, operation.full
        anything = (ANY,) * len(self.session[name].columns)
        rows: Iterable[Any] = operation.row
        return [
            Operation("-", name, anything, time, full),
            *(Operation("+", name, row, time, full) for row in rows),
        ]

    def tell(
        self, out: TextIO, format_: str, number: int, where: str | None, operations: Sequence[Operation],
        clock: float | None = None,
    ) -> None:  # fmt: skip
        """Write a transaction: its number, where it came from, what it changed, and where the clock is after it."""
        clock = self.session.clock if clock is None else clock
        behind = clock if clock > self.time else None
        self.time = clock
        _FORMATS[format_](self, out, number, where, operations, behind)


def _text(
    log: StepLog, out: TextIO, number: int, where: str | None, operations: Sequence[Operation], behind: float | None
) -> None:
    """A comment that names the transaction, a line for each change, an empty line."""
    paint = paint_for(out)
    clock = f"clock {time_of(log.session.clock)}" if log.session.clock else ""
    told = ", ".join(filter(None, (where, clock)))
    size = plural(len(operations), "change") if operations else "no changes"
    out.write(paint.faint(f"// transaction {number}{f' ({told})' if told else ''}: {size}") + "\n")
    out.writelines(line + "\n" for line in log.lines(operations, paint))
    if behind is not None:
        out.write(f"@{time_of(behind)}\n")
    out.write("\n")


def _csv(
    log: StepLog, out: TextIO, number: int, where: str | None, operations: Sequence[Operation], behind: float | None
) -> None:
    """One line per change: transaction, time, full or partial, operation, relation, values. `=` begins a whole view."""
    for o in operations:
        head = (number, "" if o.time is None else time_of(o.time), "full" if o.full else "partial")
        rows: list[tuple[Any, ...]] = [(*head, o.op, o.relation, *(() if o.op == "=" else o.row))]
        rows += [(*head, "+", o.relation, *row) for row in o.row] if o.op == "=" else []
        out.writelines(view_lines(o.relation, rows, CSV))


def _json(
    log: StepLog, out: TextIO, number: int, where: str | None, operations: Sequence[Operation], behind: float | None
) -> None:
    """One object per change, on one line; then one that ends the transaction, if there was anything."""
    out.writelines(operation_json(operation) + "\n" for operation in operations)
    if behind is not None:
        out.write(operation_json(Operation("@", time=behind)) + "\n")
    if operations or behind is not None:
        out.write(json.dumps({"op": "commit"} | ({"transaction": number} if number else {})) + "\n")


_FORMATS: dict[str, Callable[[StepLog, TextIO, int, str | None, Sequence[Operation], float | None], None]] = {
    "text": _text, "csv": _csv, "json": _json,
}  # fmt: skip
