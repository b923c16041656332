"""`livelog repl`: a session to talk to."""

from __future__ import annotations

import argparse
from typing import Any

from livelog.commands.common import (
    UNREAD,
    UsageError,
    add_constants,
    add_engine,
    add_facts,
    add_program,
    add_store,
    goes_on,
    load_program,
    open_session,
    tell_standing,
)

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog repl reach.dl -F data/
  livelog repl reach.dl --store state/                what is typed in is kept; the same again goes on with it
  livelog repl -e 'big(x) :- n(x), x > 2.'
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "repl", help="type in facts, updates and queries", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Open a program, type in facts and updates, and query its views. Type help for the commands.",
    )  # fmt: skip
    add_program(parser)
    add_facts(parser)
    add_constants(parser)
    add_store(parser)
    add_engine(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    from livelog.repl import talk

    if str(args.program) == "-":
        raise UsageError("standard input is for what you type: the program is a file, or -e TEXT")
    program = load_program(args)
    # Facts can be typed in, so a missing file is no error here unless the folder was named.
    again = goes_on(args)
    with open_session(program, args, required=args.facts is not None, fed=True) as session:
        if again:
            tell_standing(session, args.store, "text", tail=UNREAD)
        return talk(session, args.store)
