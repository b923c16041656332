"""When two strategies disagree: where, in which views, and a few of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from datalog.errors import LivelogError, Note
from livelog.io.values import format_row
from livelog.simulation.job import Job
from livelog.simulation.over import runner
from livelog.simulation.reports import Done, Opened, Report
from livelog.simulation.strategies import Strategy
from livelog.values import sort_rows

if TYPE_CHECKING:
    import livelog

__all__ = ["Difference", "Moment", "difference"]

SHOWN = 3
"""Rows of a difference that are shown, on either side."""


class Difference(LivelogError):
    """Two strategies gave different results. One of them is wrong."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A transaction: phase and number in it; the opening of the session is number 0."""

    phase: str
    number: int
    about: str

    @staticmethod
    def of(report: Report) -> Moment | None:
        if isinstance(report, Done):
            return Moment(report.phase, report.number, report.about)
        return Moment("load", 0, "the facts of the program text") if isinstance(report, Opened) else None

    def __str__(self) -> str:
        return f"{self.phase} transaction {self.number} ({self.about})"


def difference(
    one: Job, other: Job, moment: Moment, views: list[str], runtime: livelog.Spark | None = None
) -> Difference:
    """The error that names the transaction, the views and both strategies. Runs both again, to show rows."""
    names = [str(Strategy(job.strategy, job.ship)) for job in (one, other)]
    error = Difference(
        f"{names[0]} and {names[1]} differ after {moment}, in {', '.join(f'`{view}`' for view in views)}"
    )
    if runtime is not None:  # folders that are asked for already have the first run
        runtime = replace(runtime, checkpoint=None)
    changes = [_changes(job, moment, runtime) for job in (one, other)]
    for mine, theirs, name in ((0, 1, names[0]), (1, 0, names[1])):
        for view in views:
            only = changes[mine].get(view, set()) - changes[theirs].get(view, set())
            for sign, row in sort_rows(only)[:SHOWN]:
                error.notes += (Note(f"only {name}: {sign}{format_row(view, row)}"),)
            if len(only) > SHOWN:
                error.notes += (Note(f"only {name}: {len(only) - SHOWN} more changes of `{view}`"),)
    if not error.notes:
        error.notes = (Note("a second run of both did not show it again"),)
    return error


def _changes(job: Job, moment: Moment, runtime: livelog.Spark | None) -> dict[str, set[tuple[str, Any]]]:
    """The changes of one transaction, as (sign, row) per view."""
    with runner(msgspec.structs.replace(job, rows=True), runtime) as running:
        for report in running:
            if isinstance(report, Done) and Moment.of(report) == moment:
                return {
                    view: {("+", _frozen(r)) for r in inserted} | {("-", _frozen(r)) for r in deleted}
                    for view, (inserted, deleted) in (report.changed or {}).items()
                }
    return {}


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
