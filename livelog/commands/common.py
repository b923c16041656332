"""What several sub-commands share: their options, reading the program, opening a session with its facts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import datalog
import livelog
from datalog.ast import Program
from datalog.report import listed
from livelog.io.facts import fact_files
from livelog.io.values import TextProblem, parse_value
from livelog.progress import bar, spinner
from livelog.session import LIMIT, SHIPS, STRATEGIES

__all__ = [
    "UsageError", "add_constants", "add_engine", "add_facts", "add_limit", "add_program", "load_program",
    "open_session", "positive", "read_facts",
]  # fmt: skip


class UsageError(Exception):
    """A command line that cannot be meant: the message goes to standard error, the exit code is 2."""


# --- options -------------------------------------------------------------------------------------------------


def add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM.dl", type=Path, help="the program")


def add_constants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], type=constant, dest="constants",
        help="the value of a constant of the program, as in --set k=25; may be repeated",
    )  # fmt: skip


def add_facts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-F", "--facts", metavar="FACTS_DIR", type=Path,
        help="the folder of the facts: REL.facts (tabs), REL.csv or REL.parquet. Without it, what .input names is "
        "read from the current folder",
    )  # fmt: skip


def add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it is evaluated")
    group.add_argument("--partitions", metavar="N", type=positive, default=1, help="logical partitions (default: 1)")
    group.add_argument("--strategy", metavar="S", choices=tuple(STRATEGIES), default="absorption",
                       help=f"{listed(STRATEGIES, 'or')} (default: absorption)")  # fmt: skip
    group.add_argument("--ship", metavar="M", choices=SHIPS,
                       help=f"of the strategies that ship annotations: {listed(SHIPS, 'or')}")  # fmt: skip
    add_limit(group)


def add_limit(group: Any) -> None:
    group.add_argument("--limit", metavar="N", type=positive, default=LIMIT,
                       help=f"stop when a recursion has derived this many tuples (default: {LIMIT})")  # fmt: skip


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:18]) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, not {text!r}")
    return int(text[:18])


def constant(text: str) -> tuple[str, Any]:
    """`k=20` as a name and a value; what is no number, list or quoted string is a symbol.

    >>> constant("k=20"), constant("who=Ann"), constant('s="20"')
    (('k', 20), ('who', 'Ann'), ('s', '20'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    try:
        return name.strip(), parse_value(value)
    except TextProblem:
        return name.strip(), value


# --- programs and sessions -----------------------------------------------------------------------------------


def load_program(path: Path, constants: list[tuple[str, Any]] | None = None) -> Program:
    """The checked program in a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the program {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise datalog.LivelogError(f"{path}: not UTF-8: byte 0x{error.object[error.start]:02x}") from None
    return datalog.check(datalog.parse(text, str(path)), constants=dict(constants or []))


def open_session(program: Program, args: argparse.Namespace, *, required: bool = True) -> livelog.Session:
    """A session over the program and its facts, with progress on the terminal while it is built."""
    if args.ship is not None and args.ship not in STRATEGIES[args.strategy]:
        known = f"has the ship modes {listed(STRATEGIES[args.strategy])}" if STRATEGIES[args.strategy] else "has none"
        raise UsageError(f"--ship {args.ship} does not fit: the strategy {args.strategy} {known}")
    facts = read_facts(program, args.facts, required=required)
    with spinner("evaluating"):
        return livelog.open(
            program, facts=facts, partitions=args.partitions, strategy=args.strategy, ship=args.ship, limit=args.limit
        )


def read_facts(program: Program, folder: Path | None, *, required: bool = True) -> dict[str, list[tuple[Any, ...]]]:
    """All facts of a program, by relation.

    Without a folder only what `.input` names is read: a file that merely lies about is not meant.
    """
    if folder is None and not program.directives_of("input"):
        return {}
    if folder is not None and not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"the facts folder {str(folder)!r} {what}")
    files = fact_files(program, folder or Path("."), implicit=folder is not None, required=required)
    facts: dict[str, list[tuple[Any, ...]]] = {}
    memo: dict[str, str] = {}
    done = 0
    with bar("reading facts", sum(file.path.stat().st_size for file in files)) as advance:
        for file in files:
            before = done

            def progress(position: int, before: int = before) -> None:
                advance(before + position)

            facts.setdefault(file.relation.name, []).extend(file.read(memo, progress))
            done += file.path.stat().st_size
    return facts
