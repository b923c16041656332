"""What `simulate` and `compare` share: the options for network, workload and limits, and the scenario they name."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from datalog.ast import Program
from datalog.errors import UsageProblem
from datalog.report import listed
from livelog.commands.common import UsageError, add_confine, add_limit, add_runtime, folder, positive, read_facts
from livelog.simulation.job import MEMORY_LIMIT, TIME_LIMIT
from livelog.simulation.plots import SUFFIXES
from livelog.simulation.scenario import STEPS, Scenario, scenario

__all__ = ["add_network", "add_running", "check_target", "find_scenario", "job_options"]

PARTITIONS = 4
"""More than one, so that there is something to ship."""


def add_network(parser: argparse.ArgumentParser) -> None:
    """The options that say which network changes how."""
    parser.add_argument("-F", "--facts", metavar="FACTS_DIR", type=folder,
                        help="a folder of facts; without --topology its links are the network")  # fmt: skip
    add_confine(parser)
    group = parser.add_argument_group("the network and what happens to it")
    group.add_argument(
        "--topology", metavar="NAME|FILE",
        help="ts20, ts100, ts600, ts1000 (transit-stub networks), transit-stub, dense, sparse, sensor-grid, or a file: "
        ".graphml, .gb, .alt, or .csv with a link in each row. Default: the links of -F, or ts100, or sensor-grid for "
        "a program about sensors",
    )  # fmt: skip
    group.add_argument("--density", choices=("dense", "sparse"), help="give a transit-stub network four links a node, "
                       "or two")  # fmt: skip
    group.add_argument("--nodes", metavar="N", type=positive,
                       help="the size of transit-stub, dense, sparse or sensor-grid (default: 100)")  # fmt: skip
    group.add_argument(
        "--workload", metavar="NAME",
        help="failures, recoveries, churn, bursts, outages, flapping, insert, costs, ttl, sensors or fire. Default: "
        "failures, or sensors on a sensor grid",
    )  # fmt: skip
    group.add_argument(
        "--fail", metavar="FACT", action="append", default=[],
        help="in place of a workload: this fact is deleted, as in --fail 'link(\"a\", \"b\")'; may be repeated",
    )  # fmt: skip
    group.add_argument("--steps", metavar="N", type=positive, default=STEPS,
                       help=f"transactions at most (default: {STEPS})")  # fmt: skip
    group.add_argument("--seed", metavar="N", type=whole, default=0, help="another seed is another network and another "
                       "stream (default: 0)")  # fmt: skip


def add_running(parser: argparse.ArgumentParser) -> Any:
    """The options that say how it is run; returns the group, for more."""
    group = parser.add_argument_group("how it is evaluated")
    add_runtime(group, PARTITIONS)
    group.add_argument("--batches", metavar="N", type=positive, default=1,
                       help="load the facts in N transactions (default: 1)")  # fmt: skip
    group.add_argument(
        "--time-limit", metavar="SECONDS", type=seconds, default=TIME_LIMIT,
        help="processor time for the load, and again for the changes; over Spark by the clock (default: "
        f"{TIME_LIMIT:g})",
    )  # fmt: skip
    group.add_argument(
        "--memory-limit", metavar="MB", type=positive, default=MEMORY_LIMIT // 10**6,
        help="resident memory of the process; over Spark of all partitions that are on this machine (default: "
        f"{MEMORY_LIMIT // 10**6})",
    )  # fmt: skip
    add_limit(group)
    return group


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}") from None


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds greater than 0, not {text!r}")
    return value


def find_scenario(program: Program, args: argparse.Namespace) -> Scenario:
    """The network and the stream that the command line names, with the facts of `-F`."""
    # Files that `.input` names are only read from a folder that was given: the network fills the relations.
    facts = {}
    if args.facts is not None:
        facts = read_facts(program, args.facts, required=False, confine=args.confine, fed=True)
    try:
        found = scenario(
            program, topology=args.topology, density=args.density, nodes=args.nodes, workload=args.workload,
            steps=args.steps, seed=args.seed, facts=facts, fail=args.fail,
        )  # fmt: skip
    except UsageProblem as problem:
        raise UsageError(problem.message) from None
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    return found


def job_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a job."""
    return {
        "partitions": args.partitions,
        "batches": args.batches,
        "limit": args.limit,
        "time_limit": args.time_limit,
        "memory_limit": args.memory_limit * 10**6,
        "functions": args.functions,
    }


def check_target(option: str, path: Path | None, *, picture: bool = False) -> None:
    """Say before the work, not after it, that a file cannot be written."""
    if path is None or str(path) == "-":
        return
    if picture and path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{option}: a picture is a {listed(SUFFIXES, 'or')} file, not {str(path)!r}")
    if path.is_dir():
        raise UsageError(f"{option}: {str(path)!r} is a folder")
    if not path.parent.is_dir():
        raise UsageError(f"{option}: the folder {str(path.parent)!r} does not exist")
