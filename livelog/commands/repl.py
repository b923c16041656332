"""`livelog repl`: a session to talk to."""

from __future__ import annotations

import argparse
from typing import Any

from livelog.commands.common import add_constants, add_engine, add_facts, add_program, load_program, open_session

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "repl", help="type in facts, updates and queries",
        description="Open a program, type in facts and updates, and query its views. Type help for the commands.",
    )  # fmt: skip
    add_program(parser)
    add_facts(parser)
    add_constants(parser)
    add_engine(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from livelog.repl import talk

    program = load_program(args.program, args.constants)
    # Facts can be typed in, so a missing file is no error here unless the folder was named.
    with open_session(program, args, required=args.facts is not None) as session:
        return talk(session)
