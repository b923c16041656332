"""`livelog explain`: the plan of a program."""

from __future__ import annotations

import argparse
from typing import Any

import planner
from livelog.commands.common import add_constants, add_program, load_program
from planner.explain import explain

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain", help="show the plan of a program",
        description="Show how a program is evaluated: its strata and the method of each, operators, partition columns, "
        "exchanges.",
    )  # fmt: skip
    add_program(parser)
    add_constants(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    print(explain(planner.plan(load_program(args))).rstrip("\n"))
    return 0
