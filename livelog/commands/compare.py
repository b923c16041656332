"""`livelog compare`: the same network and the same changes, kept up to date in several ways."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datalog.errors import UsageProblem
from livelog.commands.common import UsageError, add_constants, add_program, check_runtime, load_program, runtime_for
from livelog.commands.network import add_network, add_running, check_target, find_scenario, job_options
from livelog.progress import counter
from livelog.render import Paint, paint_for, plural
from livelog.simulation.compare import PHASES, Comparison, Run, compare_each
from livelog.simulation.plots import plot_comparison, save
from livelog.simulation.reports import Done, Report
from livelog.simulation.strategies import NAMES, Strategy, parse_strategies
from livelog.simulation.text import duration, ratio, size, table

__all__ = ["add_parser", "run"]

EPILOG = f"""\
strategies:
  {', '.join(NAMES)}

examples:
  livelog compare reach.dl --strategies absorption/demand,dred,recompute
  livelog compare reach.dl --topology ts100 --density dense --partitions 12 --plot compare.png --json compare.json
  livelog compare region.dl --topology sensor-grid --strategies absorption/demand,absorption/lazy
  livelog compare reach.dl --runtime spark --partitions 4 --strategies absorption/demand,dred

each strategy runs in a process of its own, within its limits of time and memory; over Spark one after the other, with
the seconds of the clock instead of processor time. The changes of all views must be
the same after every transaction; if they are not, that is an error, with exit code 1. A strategy that passes its
limit is shown with what it had reached. Ratios are to the first strategy.
"""

DEFAULT = tuple(name for name in NAMES if not name.endswith("/eager"))
"""All but those that ship every derivation: on most networks they take for ever."""

PASSED = {"time": "time limit", "memory": "memory limit", "interrupted": "interrupt"}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "compare", help="compare strategies on a network that changes", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run the same stream of changes through several strategies, assert that their results are equal "
        "after every transaction, and show what each costs: provenance, bytes shipped, state, time.",
    )  # fmt: skip
    add_program(parser)
    add_constants(parser)
    add_network(parser)
    group = add_running(parser)
    group.add_argument("--strategies", metavar="A,B,...", default=",".join(DEFAULT),
                       help=f"separated by commas (default: {','.join(DEFAULT)})")  # fmt: skip
    group = parser.add_argument_group("files")
    group.add_argument("--json", metavar="FILE|-", type=Path, help="write all figures as JSON; '-' prints them instead "
                       "of the table")  # fmt: skip
    group.add_argument("--plot", metavar="FILE", type=Path, help="draw them (.png, .svg, .pdf)")
    return parser


def run(args: argparse.Namespace) -> int:
    program = load_program(args)
    try:
        strategies = parse_strategies(args.strategies)
    except UsageProblem as problem:
        raise UsageError(problem.message) from None
    check_runtime(args)
    check_target("--plot", args.plot, picture=True)
    check_target("--json", args.json)
    scenario = find_scenario(program, args)
    over = args.runtime == "spark"
    name, parts = Path(program.source.name).stem, plural(args.partitions, "partition")
    title = f"{name}: {scenario.title}, {parts}{' over Spark' * over}"
    paint = paint_for(sys.stdout)
    quiet = str(args.json) == "-"
    if not quiet:
        print(paint.bold(title), flush=True)
    runs: list[Run] = []
    interrupted = False
    total = len(strategies) * (args.batches + len(list(scenario.workload.steps)))
    with runtime_for(args) as runtime, counter(str(strategies[0]), total) as progress:

        def watch(strategy: Strategy, report: Report) -> None:
            if isinstance(report, Done):
                progress.advance(f"{strategy}, {report.phase}")

        options = job_options(args)
        try:
            for pair in compare_each(program, scenario.workload, strategies, runtime=runtime, watch=watch, **options):
                runs += pair
        except KeyboardInterrupt:
            interrupted = True
    comparison = Comparison(tuple(runs))
    if runs:
        if not quiet:
            print(*lines(comparison, paint, "wall clock" if over else "time"), sep="\n")
        write(comparison, args, title)
    if interrupted:
        left = len(strategies) - len(comparison.strategies)
        print(f"livelog: interrupted; {plural(left, 'strategy', 'strategies')} not compared", file=sys.stderr)
        return 130
    return 0


def write(comparison: Comparison, args: argparse.Namespace, title: str) -> None:
    """The files that were asked for."""
    if args.json is not None:
        said = {"title": title, "runtime": args.runtime, **comparison.to_json()}
        text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
        if str(args.json) == "-":
            sys.stdout.write(text)
        else:
            args.json.write_text(text, encoding="utf-8")
    if args.plot is not None:
        save(plot_comparison(comparison, title), args.plot)


def lines(comparison: Comparison, paint: Paint, clock: str = "time") -> Iterator[str]:
    """A table for each phase: the four metrics, each with its ratio to the first strategy."""
    head = ["strategy", clock, "", "shipped", "", "state", "", "provenance/tuple", ""]
    for phase in PHASES:
        runs = [run for run in comparison.runs if run.phase == phase]
        first = runs[0]
        rows = []
        for run in runs:
            more = "" if run.finished else "> "
            row = [run.strategy]
            if not run.begun:
                rows.append(row + ["-", ""] * 4)
                continue
            for name, show in (("seconds", duration), ("bytes_shipped", size), ("state_bytes", size),
                               ("provenance_bytes_per_tuple", size)):  # fmt: skip
                value, base = getattr(run, name), getattr(first, name)
                row += [more + show(value), ratio(value, base)]
            rows.append(row)
        count = plural(first.planned, "transaction")
        yield ""
        yield paint.bold(f"{phase}: {count}")
        printed = table(head, rows)
        yield paint.faint(printed[0])
        for line, run in zip(printed[1:], runs, strict=True):
            yield line if run.finished else f"{line}  {paint.error(_unfinished(run))}"
    yield ""
    if len(comparison.strategies) > 1:
        yield "The changes of all views were the same after every transaction that more than one strategy finished."


def _unfinished(run: Run) -> str:
    limit = PASSED[run.stopped or "time"]
    if not run.begun:
        return f"passed its {limit} in the load"
    return f"passed its {limit}: {run.transactions} of {run.planned} done"
