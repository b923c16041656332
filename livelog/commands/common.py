"""What several sub-commands share: their options, reading the program, opening a session with its facts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import datalog
import livelog
from datalog.ast import Program
from datalog.errors import UsageProblem
from datalog.report import listed
from livelog.io.facts import fact_files
from livelog.io.values import TextProblem, parse_value
from livelog.methods import LIMIT, SHIPS, STRATEGIES
from livelog.progress import bar, spinner

__all__ = [
    "UsageError", "add_constants", "add_engine", "add_facts", "add_limit", "add_program", "add_runtime",
    "check_runtime", "load_program", "open_session", "positive", "read_facts", "runtime_for",
]  # fmt: skip

RUNTIMES = ("local", "spark")


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
    add_runtime(group)
    group.add_argument("--strategy", metavar="S", choices=tuple(STRATEGIES), default="absorption",
                       help=f"{listed(STRATEGIES, 'or')} (default: absorption)")  # fmt: skip
    group.add_argument("--ship", metavar="M", choices=SHIPS,
                       help=f"of the strategies that ship annotations: {listed(SHIPS, 'or')}")  # fmt: skip
    add_limit(group)


def add_runtime(group: Any, partitions: int | None = None) -> None:
    """The options that say where the partitions are; without a default, Spark has two of them and this process one."""
    usual = "1, or 2 over Spark" if partitions is None else str(partitions)
    group.add_argument("--partitions", metavar="N", type=positive, default=partitions,
                       help=f"in how many parts the tuples are divided (default: {usual})")  # fmt: skip
    group.add_argument(
        "--runtime", choices=RUNTIMES, default="local",
        help="where the partitions are: in this process, or each in a task of Spark (default: local)",
    )  # fmt: skip
    group.add_argument(
        "--master", metavar="URL",
        help="of --runtime spark: local[N], spark://HOST:PORT, yarn or k8s://URL (default: this machine, with a slot "
        "for each partition and two more)",
    )  # fmt: skip
    group.add_argument(
        "--checkpoint", metavar="DIR", type=Path,
        help="of --runtime spark: keep the log and the checkpoints there; livelog top DIR shows the session, livelog "
        "resume DIR continues it",
    )  # fmt: skip


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


def check_runtime(args: argparse.Namespace) -> None:
    """Say what is wrong with the options of `add_runtime`, and fill in what was left open."""
    over = args.runtime == "spark"
    if args.partitions is None:
        args.partitions = 2 if over else 1
    for option in ("master", "checkpoint"):
        if getattr(args, option) is not None and not over:
            raise UsageError(f"--{option} is for --runtime spark")
    if args.master is not None:
        from livelog.runtime.spark.start import check_master

        try:
            check_master(args.master)
        except UsageProblem as problem:
            raise UsageError(f"--master: {problem.message}") from None


@contextmanager
def runtime_for(args: argparse.Namespace) -> Iterator[livelog.Spark | None]:
    """The runtime that the command line names, while the block runs. None is this process."""
    check_runtime(args)
    if args.runtime == "local":
        yield None
        return
    from livelog.runtime.spark.start import spark_for

    with ExitStack() as stack:
        with spinner("starting Spark"):
            spark = stack.enter_context(spark_for(args))
        yield livelog.Spark(spark, partitions=args.partitions, checkpoint=args.checkpoint)


@contextmanager
def open_session(
    program: Program, args: argparse.Namespace, *, required: bool = True, script: str | None = None
) -> Iterator[livelog.Session]:
    """A session over the program and its facts, with progress on the terminal while it is built."""
    check_runtime(args)
    if args.ship is not None and args.ship not in STRATEGIES[args.strategy]:
        known = f"has the ship modes {listed(STRATEGIES[args.strategy])}" if STRATEGIES[args.strategy] else "has none"
        raise UsageError(f"--ship {args.ship} does not fit: the strategy {args.strategy} {known}")
    facts = read_facts(program, args.facts, required=required)
    with runtime_for(args) as runtime:
        with spinner("evaluating"):
            session = livelog.open(
                program, facts=facts, partitions=args.partitions, strategy=args.strategy, ship=args.ship,
                limit=args.limit, runtime=runtime, script=script,
            )  # fmt: skip
        with session:
            yield session


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
