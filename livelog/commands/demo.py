"""`livelog demo`: a minute with Livelog."""

from __future__ import annotations

import argparse
from typing import Any

from livelog.commands.common import add_runtime, runtime_for

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="see a view follow a network whose links fail and come back",
        description="Builds a reachability view over a small network, lets a link fail and come back, and shows "
        "exactly what changes.",
    )  # fmt: skip
    parser.add_argument("--fast", action="store_true", help="without the pauses for reading")
    add_runtime(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from livelog.demo import show

    with runtime_for(args) as runtime:
        show(pauses=not args.fast, partitions=args.partitions, runtime=runtime)
    return 0
