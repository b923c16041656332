"""The same workload through several strategies, their results asserted equal.

Each runs in a process of its own, or all of them, one after the other, over the same Spark.

After every transaction the hash of the net changes of every view must be the one of the first strategy that did this
transaction. A strategy that passes its limit of time or memory is no error: it is reported with what it had reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datalog
from livelog.methods import LIMIT
from livelog.simulation.apart import Apart
from livelog.simulation.difference import Moment, difference
from livelog.simulation.job import MEMORY_LIMIT, TIME_LIMIT, Job, make_job
from livelog.simulation.over import Over
from livelog.simulation.reports import Done, Figures, Opened, PhaseEnd, PhaseName, Report, Stopped, Why
from livelog.simulation.strategies import Strategy, parse_strategy

if TYPE_CHECKING:
    import livelog
    from topologies import Workload

__all__ = ["Comparison", "Run", "compare", "compare_each"]

PHASES: tuple[PhaseName, PhaseName] = ("load", "change")

Watch = Callable[[Strategy, Report], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One strategy in one phase; figures are totals over all partitions.

    `seconds` are processor time of the thread that ran the engine, or over Spark those of the clock. Of a run that is
    not `finished` they and the bytes shipped are what it had reached when it passed its limit (`stopped` says which),
    in `transactions` of `planned`. Provenance and state are as at the end of the phase, or None where they could not be
    measured any more.
    """

    strategy: str
    phase: PhaseName
    seconds: float
    bytes_shipped: int
    frames: int
    provenance_bytes_per_tuple: float | None
    state_bytes: int | None
    tuples: int | None
    resident_bytes: int | None
    finished: bool
    stopped: Why | None
    transactions: int
    planned: int
    partitions: tuple[Figures, ...]
    per_transaction: tuple[Done, ...]

    @property
    def begun(self) -> bool:
        """Whether the strategy got as far as this phase at all."""
        return self.finished or self.transactions > 0 or self.seconds > 0

    def to_json(self) -> dict[str, Any]:
        """The run as plain data."""
        figures = {name: getattr(self, name) for name in self.__slots__[:-2]}
        figures["partitions"] = [
            {name: getattr(p, name) for name in p.__struct_fields__}
            | {"provenance_bytes_per_tuple": p.provenance_bytes_per_tuple}
            for p in self.partitions
        ]
        figures["per_transaction"] = [
            {
                "about": done.about,
                "seconds": done.seconds,
                "bytes_shipped": done.bytes_shipped,
                "inserted": sum(done.inserted.values()),
                "deleted": sum(done.deleted.values()),
            }
            for done in self.per_transaction
        ]
        return figures


@dataclass(frozen=True, slots=True)
class Comparison:
    """What several strategies cost on the same workload: for each, a run of the load and one of the changes."""

    runs: tuple[Run, ...]

    @property
    def strategies(self) -> tuple[str, ...]:
        """In the order in which they ran."""
        return tuple(dict.fromkeys(run.strategy for run in self.runs))

    def run(self, strategy: str, phase: PhaseName) -> Run:
        """The run of one strategy in one phase."""
        return next(run for run in self.runs if (run.strategy, run.phase) == (strategy, phase))

    def to_json(self) -> dict[str, Any]:
        """`{"runs": [...]}`, as `livelog compare --json` writes it."""
        return {"runs": [run.to_json() for run in self.runs]}


def compare(
    program: str | Path | datalog.Program,
    workload: Workload,
    strategies: Iterable[str | Strategy],
    *,
    partitions: int = 1,
    constants: dict[str, Any] | None = None,
    batches: int = 1,
    limit: int = LIMIT,
    time_limit: float | None = TIME_LIMIT,
    memory_limit: int | None = MEMORY_LIMIT,
    select: bool = True,
    functions: str | Path | None = None,
    runtime: livelog.Spark | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Run a workload through strategies and assert that their results are equal after every transaction.

    `program` is the path of a `.dl` file or a program from `datalog.parse`. The facts are loaded in `batches`
    transactions, then each step is one. `time_limit` are seconds of processor time for each of the two phases,
    `memory_limit` bytes of resident memory; None is no limit. `select=False` turns aggregate selection off.
    `functions` is a Python file with the functions and aggregates of the program. Over Spark
    (`runtime`, which then has the number of partitions) all seconds are those of the clock, and the memory is that of
    all partitions together, if they are on this machine. `watch` is called with every report as it comes.

    >>> import topologies
    >>> program = datalog.parse("r(x, y) :- link(x, y). r(x, y) :- link(x, z), r(z, y).")
    >>> fails = topologies.Step(1.0, (("-", "link", (2, 3)),), "link 2 - 3 fails")
    >>> workload = topologies.Workload({"link": [(1, 2), (2, 3)]}, [fails])
    >>> result = compare(program, workload, ["absorption/demand", "recompute"], partitions=2)
    >>> [(run.strategy, run.phase, run.finished) for run in result.runs][1:3]
    [('absorption/demand', 'change', True), ('recompute', 'load', True)]
    """
    runs = compare_each(
        program, workload, strategies, partitions=partitions, constants=constants, batches=batches, limit=limit,
        time_limit=time_limit, memory_limit=memory_limit, select=select, functions=functions, runtime=runtime,
        watch=watch,
    )  # fmt: skip
    return Comparison(tuple(run for pair in runs for run in pair))


def compare_each(
    program: str | Path | datalog.Program,
    workload: Workload,
    strategies: Iterable[str | Strategy],
    *,
    runtime: livelog.Spark | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> Iterator[tuple[Run, Run]]:
    """`compare`, one strategy at a time: each gives its run of the load and its run of the changes."""
    known = dict.fromkeys(parse_strategy(s) if isinstance(s, str) else s for s in strategies)
    if runtime is not None:
        options["partitions"] = runtime.partitions
    jobs = {s: make_job(program, workload, s, **options) for s in known}
    first: dict[Moment, tuple[Strategy, dict[str, str]]] = {}
    for strategy, job in jobs.items():
        reports = []
        for report in run_apart(job) if runtime is None else run_over(job, runtime):
            if watch is not None:
                watch(strategy, report)
            reports.append(report)
            if (moment := Moment.of(report)) is not None and isinstance(report, (Opened, Done)):
                other, expected = first.setdefault(moment, (strategy, report.digests))
                if expected != report.digests:
                    names = sorted(n for n in {*expected, *report.digests} if expected.get(n) != report.digests.get(n))
                    raise difference(jobs[other], job, moment, names, runtime)
        yield _runs(strategy, job, reports)


def run_apart(job: Job) -> Iterator[Report]:
    """The reports of a job, run in a process of its own."""
    with Apart(job) as apart:
        yield from apart


def run_over(job: Job, runtime: livelog.Spark) -> Iterator[Report]:
    """The reports of a job, run over Spark."""
    with Over(job, runtime) as over:
        yield from over


def _runs(strategy: Strategy, job: Job, reports: list[Report]) -> tuple[Run, Run]:
    stopped = next((r for r in reports if isinstance(r, Stopped)), None)
    ends = {r.phase: r for r in reports if isinstance(r, PhaseEnd)}
    planned = {"load": job.batches, "change": len(job.steps)}
    runs = []
    for phase in PHASES:
        done = tuple(r for r in reports if isinstance(r, Done) and r.phase == phase)
        # A phase that was never begun has reached what the one before it left.
        end = ends.get(phase) or (ends.get("load") if stopped is not None and stopped.phase == "load" else None)
        partitions = () if end is None else end.partitions
        cut = stopped is not None and stopped.phase == phase
        runs.append(
            Run(
                str(strategy),
                phase,
                round(stopped.seconds if stopped and cut else sum((d.seconds for d in done), 0.0), 6),
                stopped.bytes_shipped if stopped and cut else sum(d.bytes_shipped for d in done),
                stopped.frames if stopped and cut else sum(d.frames for d in done),
                _provenance(partitions) if end else None,
                sum(p.state_bytes for p in partitions) if end else None,
                sum(p.tuples for p in partitions) if end else None,
                end.resident_bytes if end else None,
                stopped is None or (phase == "load" and stopped.phase == "change"),
                stopped.why if stopped and (cut or phase == "change") else None,
                len(done),
                planned[phase],
                partitions,
                done,
            )
        )
    load, change = runs
    return load, change


def _provenance(partitions: tuple[Figures, ...]) -> float:
    annotated = sum(p.annotated for p in partitions)
    return round(sum(p.provenance_bytes for p in partitions) / max(1, annotated), 3)
