"""`livelog check`: what is wrong with a program, without running it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import datalog
import planner
from datalog.errors import LivelogError, ProgramErrors, render_first
from livelog.commands.common import add_constants, add_program, load_program
from livelog.io.forms import form_of
from livelog.render import paint_error, paint_for, plural

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "check", help="show the errors of a program",
        description="Show every error of the programs, with line and column, and what is most likely not meant: "
        "variables used once, relations that nothing reads. The exit code is 1 if there is any error.",
    )  # fmt: skip
    add_program(parser, several=True)
    parser.add_argument("--strict", action="store_true", help="warnings are errors")
    add_constants(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    code = 0
    for path in args.program or [None]:
        try:
            program = load_program(args, path)
            for directive in program.directives:
                if directive.kind in ("input", "output"):
                    form_of(program, directive)
            planner.plan(program)
        except LivelogError as error:
            _say([error.render()])
            code = 1
            continue
        warnings = datalog.warnings_of(program)
        _say([remark.render() for remark in program.remarks])
        if args.strict and warnings:
            for warning in warnings:
                warning.word = "error"
            raised = ProgramErrors(warnings) if len(warnings) > 1 else warnings[0]
            _say([raised.render()])
            code = 1
        else:
            _say(render_first(warnings))
            print(f"{program.source.name}: no errors" + (f", {plural(len(warnings), 'warning')}" if warnings else ""))
    return code


def _say(texts: list[str]) -> None:
    sys.stdout.flush()
    for text in texts:
        print(paint_error(text, paint_for(sys.stderr)), file=sys.stderr)
