"""The change log of `livelog run --updates` and `livelog changes`: text, CSV or JSON lines, by transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from livelog.io.forms import CSV
from livelog.io.outputs import view_lines
from livelog.render import ChangeSet, change_lines, count_changes, paint_for, plural

__all__ = ["LOGS", "log_csv", "log_json", "log_text"]

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
