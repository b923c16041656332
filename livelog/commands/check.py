"""`livelog check`: what is wrong with a program, without running it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import planner
from datalog.errors import LivelogError
from livelog.commands.common import add_constants, load_program
from livelog.io.forms import form_of
from livelog.render import paint_error, paint_for

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "check", help="show the errors of a program",
        description="Show every error of the programs, with line and column. The exit code is 1 if there is any.",
    )  # fmt: skip
    parser.add_argument("programs", metavar="PROGRAM.dl", type=Path, nargs="+", help="the programs")
    add_constants(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    code = 0
    for path in args.programs:
        try:
            program = load_program(path, args.constants)
            for directive in program.directives:
                if directive.kind in ("input", "output"):
                    form_of(program, directive)
            planner.plan(program)
        except LivelogError as error:
            sys.stdout.flush()
            print(paint_error(error.render(), paint_for(sys.stderr)), file=sys.stderr)
            code = 1
        else:
            print(f"{path}: no errors")
    return code
