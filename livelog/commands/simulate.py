"""`livelog simulate`: a network that changes, and what becomes of a program's views."""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datalog.errors import UsageProblem
from livelog.commands.common import UsageError, add_constants, add_program, check_runtime, load_program, runtime_for
from livelog.commands.network import add_network, add_running, check_target, find_scenario, job_options
from livelog.progress import Counter, counter
from livelog.render import Paint, paint_for, plural
from livelog.simulation.apart import Apart
from livelog.simulation.job import Job, make_job
from livelog.simulation.network_plot import Aftermath, plot_network
from livelog.simulation.over import Over, runner
from livelog.simulation.plots import save
from livelog.simulation.reports import Done, Opened, PhaseEnd, Report, Stopped
from livelog.simulation.scenario import Scenario
from livelog.simulation.strategies import NAMES, parse_strategy
from livelog.simulation.text import duration, size, table

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog simulate reach.dl                                        20 links of a network of 100 nodes fail
  livelog simulate reach.dl --density dense --plot network.png     and a picture of what is left
  livelog simulate reach.dl --topology map.graphml --workload outages --steps 50
  livelog simulate reach.dl --topology links.csv --fail 'link("a", "b")' --fail 'link("c", _)'
  livelog simulate region.dl --topology sensor-grid --workload fire --plot fire.png
  livelog simulate reach.dl --partitions 12 --strategy dred        in another way, on 12 partitions
  livelog simulate reach.dl --runtime spark --partitions 4         each partition a task of Spark
  livelog simulate reach.dl --script changes.txt                   keep the stream, for livelog run --updates

a network fills the relations link(src, dst) or link(src, dst, cost), node(n), and on a sensor grid
sensor(id, position), mainSensorInRegion(region, id) and isTriggered(id); what else the program needs comes
from its own text or from -F. Times are processor time; over Spark, those of the clock.
"""

WHY = {"time": "passed its time limit", "memory": "passed its memory limit", "interrupted": "interrupted"}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "simulate", help="run a program over a network that changes", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Build a network, load it into a program, let links fail, sensors be triggered or costs change, "
        "and show what each transaction does to the views: what changed, how long it took, how much was shipped.",
    )  # fmt: skip
    add_program(parser)
    add_constants(parser)
    add_network(parser)
    group = add_running(parser)
    group.add_argument("--strategy", metavar="S", default=NAMES[0], help=f"{', '.join(NAMES)} (default: {NAMES[0]})")
    group = parser.add_argument_group("files")
    group.add_argument(
        "--plot", metavar="FILE", type=Path,
        help="draw the network, its failed links and the affected part of the views (.png, .svg, .pdf)",
    )  # fmt: skip
    group.add_argument("--script", metavar="FILE", type=Path, help="write the facts and the stream as an update script")
    return parser


def run(args: argparse.Namespace) -> int:
    program = load_program(args)
    try:
        strategy = parse_strategy(args.strategy)
    except UsageProblem as problem:
        raise UsageError(problem.message) from None
    check_runtime(args)
    check_target("--plot", args.plot, picture=True)
    check_target("--script", args.script)
    scenario = find_scenario(program, args)
    if args.script is not None:
        write_script(scenario, args.script)
    job = make_job(program, scenario.workload, strategy, rows=args.plot is not None, **job_options(args))
    paint = paint_for(sys.stdout)
    print(paint.bold(scenario.title))
    over = " over Spark, times by the clock" if args.runtime == "spark" else ""
    print(f"{strategy}, {plural(args.partitions, 'partition')}{over}\n", flush=True)
    followed = Followed(job, paint)
    with (
        runtime_for(args) as runtime,
        counter("load", job.batches + len(job.steps)) as progress,
        runner(job, runtime) as running,
        interrupting(running),
    ):
        for report in running:
            followed.take(report, progress)
    print(*followed.summary(), sep="\n")
    if args.plot is not None:
        figure = plot_network(scenario.graph, followed.aftermath, f"{Path(program.source.name).stem}: {scenario.title}")
        save(figure, args.plot)
    if followed.stopped is None:
        return 0
    return 130 if followed.stopped.why == "interrupted" else 1


def write_script(scenario: Scenario, path: Path) -> None:
    import topologies

    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in topologies.write_script(scenario.workload))


@contextmanager
def interrupting(running: Apart | Over) -> Iterator[None]:
    """While the block runs, Ctrl-C ends the run early, and it still tells what it has reached."""
    before = signal.signal(signal.SIGINT, lambda *_: running.interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Followed:
    """A run as it is followed: the lines to show, and the summary."""

    def __init__(self, job: Job, paint: Paint) -> None:
        self._job = job
        self._paint = paint
        self._done: dict[str, list[Done]] = {"load": [], "change": []}
        self._ends: dict[str, PhaseEnd] = {}
        self._views: dict[str, int] = {}
        self._width = max((len(about) for _, _, about in job.steps), default=0)
        self.stopped: Stopped | None = None
        self.aftermath = Aftermath()

    def take(self, report: Report, progress: Counter) -> None:
        if isinstance(report, Opened):
            self._views = dict(report.views)
        elif isinstance(report, Done):
            self._done[report.phase].append(report)
            for view, count in report.inserted.items():
                self._views[view] += count
            for view, count in report.deleted.items():
                self._views[view] -= count
            if report.phase == "change" and report.changed is not None:
                self.aftermath.fall(self._job.steps[report.number - 1][1])
                self.aftermath.add(report.changed)
            progress.say(self.line(report))
            progress.advance(report.phase)
        elif isinstance(report, PhaseEnd):
            self._ends[report.phase] = report
            if report.facts is not None:
                self.aftermath.after = report.facts
                if report.phase == "load":
                    self.aftermath.before = report.facts
        elif isinstance(report, Stopped):
            self.stopped = report

    def line(self, done: Done) -> str:
        """What one transaction did."""
        number = "load" if done.phase == "load" else str(done.number)
        clock = "" if done.phase == "load" else f"@{done.time:.2f}"
        cost = f"{duration(done.seconds):>8}  {size(done.bytes_shipped):>8}"
        return f"{number:>5}  {clock:<9} {done.about:<{self._width}}  {cost}  {_changes(done, self._paint)}"

    # --- the end ---------------------------------------------------------------------------------------------

    def summary(self) -> Iterator[str]:
        """The figures of both phases, the sizes of the views, and how it ended."""
        head = ["phase", "transactions", "inserted", "deleted", "time", "median", "slowest", "shipped", "state",
                "provenance"]  # fmt: skip
        rows = []
        for phase, done in self._done.items():
            if done or (self.stopped is not None and self.stopped.phase == phase):
                rows.append(self._row(phase, done))
        lines = table(head, rows)
        yield ""
        yield self._paint.bold(lines[0])
        yield from lines[1:]
        yield ""
        yield "views: " + (", ".join(f"{view} {count:,}" for view, count in sorted(self._views.items())) or "none")
        if self._job.partitions > 1:
            yield from self._spread()
        if self.stopped is not None:
            stopped = self.stopped
            planned = self._job.batches if stopped.phase == "load" else len(self._job.steps)
            limit = {"time": f" of {self._job.time_limit:g} s",
                     "memory": f" of {size(self._job.memory_limit)}"}.get(stopped.why, "")  # fmt: skip
            yield self._paint.error(
                f"{WHY[stopped.why]}{limit} in the {stopped.phase}, after {stopped.transactions} of "
                f"{plural(planned, 'transaction')}"
            )

    def _row(self, phase: str, done: list[Done]) -> list[str]:
        times = [d.seconds for d in done]
        spent, shipped = sum(times), sum(d.bytes_shipped for d in done)
        if self.stopped is not None and self.stopped.phase == phase:
            spent, shipped = self.stopped.seconds, self.stopped.bytes_shipped
        end = self._ends.get(phase)
        state = provenance = None
        if end is not None:
            state = sum(p.state_bytes for p in end.partitions)
            provenance = sum(p.provenance_bytes for p in end.partitions) / max(
                1, sum(p.annotated for p in end.partitions)
            )
        return [
            phase,
            str(len(done)),
            f"{sum(sum(d.inserted.values()) for d in done):,}",
            f"{sum(sum(d.deleted.values()) for d in done):,}",
            duration(spent),
            duration(statistics.median(times)) if times else "",
            duration(max(times)) if times else "",
            size(shipped),
            size(state),
            "?" if provenance is None else f"{size(provenance)}/tuple",
        ]

    def _spread(self) -> Iterator[str]:
        """How evenly the partitions share the work."""
        for phase, end in self._ends.items():
            shipped = [p.bytes_shipped for p in end.partitions]
            state = [p.state_bytes for p in end.partitions]
            yield (
                f"{phase}, per partition: {size(min(shipped))} to {size(max(shipped))} shipped, "
                f"{size(min(state))} to {size(max(state))} of state"
            )


def _changes(done: Done, paint: Paint) -> str:
    """`reachable +3 -12, minCost +1`: how many tuples each view gained and lost."""
    texts = []
    for view in sorted({*done.inserted, *done.deleted}):
        gained, lost = done.inserted.get(view), done.deleted.get(view)
        parts = [paint.added(f"+{gained}") if gained else "", paint.removed(f"-{lost}") if lost else ""]
        texts.append(" ".join([view, *filter(None, parts)]))
    return ", ".join(texts) or paint.faint("no change")
