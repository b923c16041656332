"""`livelog demo`: a minute with Livelog."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="see a view follow a network whose links fail and come back",
        description="Builds a reachability view over a small network, lets a link fail and come back, and shows "
        "exactly what changes.",
    )  # fmt: skip
    parser.add_argument("--fast", action="store_true", help="without the pauses for reading")
    return parser


def run(args: argparse.Namespace) -> int:
    from livelog.demo import show

    show(pauses=not args.fast)
    return 0
