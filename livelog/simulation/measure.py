"""Run one strategy over a workload and tell what every transaction cost.

Seconds are processor time of the thread that runs the engine: what the clock on the wall would show on an idle machine,
whatever else this one does. Where the engine runs elsewhere, as over Spark, only that clock is left (`clock`). Hashing
the changes and measuring the state are not part of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from livelog.memory import resident_peak
from livelog.session import Session
from livelog.simulation.digest import digests
from livelog.simulation.reports import Done, Figures, Opened, PhaseEnd, PhaseName, Report, Stopped, Why
from livelog.stats import Stats

if TYPE_CHECKING:
    from topologies import Step, Workload

__all__ = ["Meter", "load_steps"]

Operation = tuple[str, str, tuple[Any, ...]]


class Meter:
    """Takes a session through a workload, transaction by transaction.

    `run` yields the reports. Between two of them, and from a signal handler during a transaction (`inside` is True
    then), `spent` and `stopped` tell what the phase has come to.

    >>> import datalog, livelog, topologies
    >>> program = datalog.parse("r(x, y) :- link(x, y). r(x, y) :- link(x, z), r(z, y).")
    >>> fails = topologies.Step(1.0, (("-", "link", (2, 3)),), "link 2 - 3 fails")
    >>> workload = topologies.Workload({"link": [(1, 2), (2, 3)]}, [fails])
    >>> with livelog.open(program) as session:
    ...     reports = list(Meter(session).run(workload))
    >>> [(r.phase, r.about, r.inserted, r.deleted) for r in reports if isinstance(r, Done)]
    [('load', '2 facts', {'r': 3}, {}), ('change', 'link 2 - 3 fails', {}, {'r': 2})]
    """

    def __init__(
        self,
        session: Session,
        *,
        rows: bool = False,
        clock: Callable[[], float] = time.thread_time,
        memory: Callable[[], int | None] = resident_peak,
    ) -> None:
        self.session = session
        self._clock = clock
        self._memory = memory
        self.inside = False
        self._rows = rows
        self._types = {name: session.plan.relations[name].types for name in session.views}
        self._phase: PhaseName = "load"
        self._transactions = 0
        self._seconds = 0.0
        self._started = 0.0
        self._bytes = self._bytes_before = session.bytes_shipped
        self._frames = self._frames_before = session.frames_shipped

    def run(self, workload: Workload, batches: int = 1) -> Iterator[Report]:
        """Load the facts in so many transactions, then take the steps, one transaction each."""
        initial = self.session.initial
        yield Opened({name: len(change) for name, change in initial.items()}, digests(initial, self._types))
        phases: tuple[tuple[PhaseName, Any], ...] = (
            ("load", load_steps(workload, batches)), ("change", workload.steps)
        )  # fmt: skip
        for phase, steps in phases:
            self._begin(phase)
            for step in steps:
                yield self._take(step)
            yield self.figures()

    # --- one transaction -------------------------------------------------------------------------------------

    def _begin(self, phase: PhaseName) -> None:
        self._phase = phase
        self._transactions = 0
        self._seconds = 0.0
        self._bytes_before = self.session.bytes_shipped
        self._frames_before = self.session.frames_shipped

    def _take(self, step: Step) -> Done:
        session = self.session
        bytes_before, frames_before = sum(session.bytes_shipped), sum(session.frames_shipped)
        self._started = self._clock()
        self.inside = True
        with session.transaction() as tx:
            if step.time > session.clock:
                tx.advance_to(step.time)
            for sign, relation, row in step.operations:
                if sign == "+":
                    tx.insert(relation, row)
                else:
                    tx.delete(relation, row)
        seconds = self._clock() - self._started
        self.inside = False
        self._seconds += seconds
        self._transactions += 1
        changed = [change for change in tx.changes.values() if change]
        return Done(
            self._phase,
            self._transactions,
            step.time,
            step.about,
            len(step.operations),
            seconds,
            sum(session.bytes_shipped) - bytes_before,
            sum(session.frames_shipped) - frames_before,
            {c.relation: len(c.inserted) for c in changed if c.inserted},
            {c.relation: len(c.deleted) for c in changed if c.deleted},
            digests(tx.changes, self._types),
            {c.relation: (c.inserted, c.deleted) for c in changed} if self._rows else None,
        )

    # --- what the phase has come to --------------------------------------------------------------------------

    def spent(self) -> float:
        """Seconds of the phase so far, the transaction that is under way included."""
        return self._seconds + (self._clock() - self._started if self.inside else 0.0)

    def stopped(self, why: Why) -> Stopped:
        """What has been reached, if the run ends here."""
        return Stopped(
            why,
            self._phase,
            self._transactions,
            self.spent(),
            sum(self.session.bytes_shipped) - sum(self._bytes_before),
            sum(self.session.frames_shipped) - sum(self._frames_before),
        )

    def figures(self) -> PhaseEnd:
        """The metrics of the phase. O(state)."""
        stats: Stats = self.session._measured()
        partitions = tuple(
            Figures(
                p.partition,
                p.bytes_shipped - self._bytes_before[p.partition],
                p.frames_shipped - self._frames_before[p.partition],
                p.tuples,
                p.state_bytes,
                p.annotated,
                p.provenance_bytes,
            )
            for p in stats.partitions
        )
        return PhaseEnd(self._phase, partitions, self._memory(), self._facts() if self._rows else None)

    def _facts(self) -> dict[str, list[tuple[Any, ...]]]:
        names = sorted(self.session.program.base)
        return {name: list(self.session[name]) for name in names if name in self.session.plan.relations}


def load_steps(workload: Workload, batches: int = 1) -> Iterator[Step]:
    """The facts as steps at time 0: so many of them, each with its share of every relation.

    >>> import topologies
    >>> workload = topologies.Workload({"node": [(1,), (2,)], "link": [(1, 2), (2, 1), (2, 3), (3, 2)]}, [])
    >>> [step.about for step in load_steps(workload, 2)]
    ['3 facts', '3 facts']
    """
    from topologies import Step

    for batch in range(batches):
        operations: list[Operation] = []
        for relation, rows in workload.facts.items():
            share = rows[len(rows) * batch // batches : len(rows) * (batch + 1) // batches]
            operations.extend(("+", relation, row) for row in share)
        yield Step(0.0, tuple(operations), f"{len(operations):,} fact{'' if len(operations) == 1 else 's'}")
