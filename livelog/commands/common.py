"""What several sub-commands share: their options, reading the program, opening a session with its facts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import datalog
import livelog
from datalog.ast import Program
from datalog.errors import FactProblem, UsageProblem
from datalog.report import listed
from datalog.values import LONGEST_LIST, LONGEST_TEXT
from livelog.io.facts import FactFile, fact_files, folder_trouble
from livelog.io.values import TextProblem, parse_value
from livelog.memory import Memory, size_of
from livelog.methods import LIMIT, SHIPS, STRATEGIES
from livelog.modules import registered
from livelog.progress import bar, spinner
from livelog.render import paint_for, plural
from livelog.reopening import is_session
from livelog.store.journal import SYNCS

__all__ = [
    "UNREAD", "UsageError", "add_confine", "add_constants", "add_engine", "add_facts", "add_functions", "add_limit",
    "add_program", "add_runtime", "add_store", "add_sync", "check_runtime", "folder", "functions_for", "goes_on",
    "load_program", "open_session", "positive", "read_facts", "runtime_for", "seconds", "session_folder", "target",
    "tell_standing",
]  # fmt: skip

RUNTIMES = ("local", "spark")

UNREAD = "; no facts are read again"
"""What else there is to say where `-F` or `.input` name some."""


class UsageError(Exception):
    """A command line that cannot be meant: the message goes to standard error, the exit code is 2."""


# --- options -------------------------------------------------------------------------------------------------


def add_program(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """The program: files, standard input or text; and the Python file of its functions."""
    parser.add_argument("program", metavar="PROGRAM.dl", type=Path, nargs="*" if several else "?",
                        help="the program; '-' reads it from standard input")  # fmt: skip
    parser.add_argument("-e", "--eval", metavar="TEXT", dest="text", help="the program itself, in place of a file")
    add_functions(parser)


def add_functions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--functions", metavar="FILE.py", type=Path,
        help="a Python file: functions and aggregates that the program uses are taken from it",
    )  # fmt: skip


def add_constants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], type=constant, dest="constants",
        help="the value of a constant of the program, as in --set k=25; may be repeated",
    )  # fmt: skip


def add_facts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-F", "--facts", metavar="FACTS_DIR", type=folder,
        help="the folder of the facts: REL.facts (tabs), REL.csv or REL.parquet. Without it, what .input names is "
        "read from the current folder",
    )  # fmt: skip
    add_confine(parser)


def add_confine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--confine", action="store_true",
        help="refuse a program whose .input or .output leads out of the folders of -F and -D",
    )  # fmt: skip


def add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it is evaluated")
    add_runtime(group)
    group.add_argument("--strategy", metavar="S", choices=tuple(STRATEGIES), default="absorption",
                       help=f"{listed(STRATEGIES, 'or')} (default: absorption)")  # fmt: skip
    group.add_argument("--ship", metavar="M", choices=SHIPS,
                       help=f"of the strategies that ship annotations: {listed(SHIPS, 'or')}")  # fmt: skip
    add_limit(group)
    group.add_argument(
        "--memory", metavar="SIZE", type=memory_size,
        help="what the session may take, as in 500MB or 2GB (default: three quarters of what the machine or its "
        "control group has, for the whole process)",
    )  # fmt: skip
    group.add_argument("--time-limit", metavar="SECONDS", type=seconds,
                       help="what a transaction may take (default: any time)")  # fmt: skip
    group.add_argument("--longest", metavar="N", type=positive,
                       help="how many characters a text, and elements a list, may have that a rule makes (default: "
                       f"{LONGEST_TEXT} and {LONGEST_LIST})")  # fmt: skip


def add_store(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a session that survives")
    group.add_argument(
        "--store", metavar="DIR", type=folder,
        help="keep the session in this folder: its facts, and a log of all transactions. Where there is one already, "
        "it is gone on with, and no facts are read again",
    )  # fmt: skip
    add_sync(group)
    group.add_argument(
        "--migrate", action="store_true",
        help="the folder may have a session of another program: evaluate this one over its facts",
    )  # fmt: skip


def add_sync(group: Any) -> None:
    group.add_argument(
        "--sync", choices=SYNCS[:2],
        help="when a transaction is on the disk: before its changes are shown (always, the default), or a fraction of "
        "a second later (interval)",
    )  # fmt: skip


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
        "--checkpoint", metavar="DIR", type=folder,
        help="of --runtime spark: keep the log and the checkpoints there; livelog top DIR shows the session, livelog "
        "resume DIR continues it",
    )  # fmt: skip


def add_limit(group: Any) -> None:
    group.add_argument("--limit", metavar="N", type=positive, default=LIMIT,
                       help="stop when a transaction has derived this many tuples in a recursion, or beyond what a "
                       f"rule reads (default: {LIMIT})")  # fmt: skip


def folder(text: str) -> Path:
    """A folder that the command line names. An empty name, as of a variable that is not set, is not the current folder.

    >>> folder("data").name
    'data'
    """
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a folder, not an empty text; the current folder is .")
    return Path(text)


def target(text: str) -> str:
    """A folder to write to, or `-`."""
    return text if text == "-" else str(folder(text))


def session_folder(path: Path) -> Path:
    """A folder that has to be there."""
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise UsageError(f"the session's directory {str(path)!r} {what}")
    return path


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:18]) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, not {text!r}")
    return int(text[:18])


def memory_size(text: str) -> int:
    try:
        return size_of(text)
    except UsageProblem as problem:
        raise argparse.ArgumentTypeError(problem.message) from None


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, not {text!r}")
    return found


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


def load_program(args: argparse.Namespace, path: Path | None = None) -> Program:
    """The checked program that the command line names, or the one in `path`, with its functions and constants."""
    if args.text is not None and args.program:
        raise UsageError("-e is the program: there cannot be a file, too")
    text, name = (args.text, "<text>") if args.text is not None else _text_of(path or args.program or None)
    program = datalog.parse(text, name)
    functions, aggregates = functions_for(args, program)
    return datalog.check(program, constants=dict(args.constants), functions=functions, aggregates=aggregates)


def functions_for(args: argparse.Namespace, program: Program) -> tuple[dict[str, Any], dict[str, Any]]:
    """The functions and aggregates of a program that come from the file of `--functions`."""
    try:
        return ({}, {}) if args.functions is None else registered(args.functions, program)
    except UsageProblem as problem:
        raise UsageError(problem.message) from None


def _text_of(path: Path | None) -> tuple[str, str]:
    """The text of a program and what messages call it."""
    if path is None:
        raise UsageError("a program is needed: a file, '-' for standard input, or -e TEXT")
    name = "<stdin>" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the program {name!r}: {error.strerror}") from None
    return datalog.decode(data, name), name


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


def check_store(args: argparse.Namespace) -> None:
    """Say what is wrong with the options of `add_store`."""
    if args.store is None:
        for option, given in (("sync", args.sync is not None), ("migrate", args.migrate)):
            if given:
                raise UsageError(f"--{option} is for --store")
    elif args.runtime == "spark":
        raise UsageError("--store is for sessions in this process: over Spark, --checkpoint DIR keeps them")
    elif args.store.exists() and not args.store.is_dir():
        raise UsageError(f"--store: {str(args.store)!r} is not a folder")


def goes_on(args: argparse.Namespace) -> bool:
    """Whether the folder of `--store` has a session already."""
    return args.store is not None and is_session(args.store)


def tell_standing(
    session: livelog.Session, folder: Path, format_: str, script: str | None = None, applied: int = 0, tail: str = ""
) -> None:
    """Say where a session stands that is gone on with: as a comment in a text, on standard error beside other formats.

    So many transactions of a `script` were applied.
    """
    text = f"{folder} goes on after transaction {session.initial.transaction}"
    if applied:
        text += f", with {plural(applied, 'transaction')} of {script} applied"
    text += tail
    if format_ == "text":
        print(paint_for(sys.stdout).faint(f"// {text}"), flush=True)
    else:
        print(f"livelog: {text}", file=sys.stderr)


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
    program: Program, args: argparse.Namespace, *, required: bool = True, script: str | None = None, fed: bool = False,
    clock: float | None = None,
) -> Iterator[livelog.Session]:  # fmt: skip
    """A session over the program and its facts, with progress on the terminal while it is built.

    `fed` says that more facts may come later: a relation without any is then nothing to talk about. `clock` is where a
    new session begins.
    """
    check_runtime(args)
    check_store(args)
    if args.ship is not None and args.ship not in STRATEGIES[args.strategy]:
        known = f"has the ship modes {listed(STRATEGIES[args.strategy])}" if STRATEGIES[args.strategy] else "has none"
        raise UsageError(f"--ship {args.ship} does not fit: the strategy {args.strategy} {known}")
    memory = Memory(args.memory)  # what is read from here on counts
    again = goes_on(args)
    facts = None if again else read_facts(program, args.facts, required=required, confine=args.confine, fed=fed)
    with runtime_for(args) as runtime:
        with spinner("recovering" if again else "evaluating"):
            session = livelog.open(
                program, facts=facts, partitions=args.partitions, strategy=args.strategy, ship=args.ship,
                limit=args.limit, memory=memory, timeout=args.time_limit, longest=args.longest, runtime=runtime,
                script=script, store=args.store, sync=args.sync or SYNCS[0], migrate=args.migrate, clock=clock,
            )  # fmt: skip
        with session:
            yield session


def read_facts(
    program: Program, folder: Path | None, *, required: bool = True, confine: bool = False, fed: bool = False
) -> dict[str, list[tuple[Any, ...]]]:
    """All facts of a program, by relation.

    Without a folder only what `.input` names is read: a file that merely lies about is not meant.
    """
    if folder is None and not program.directives_of("input"):
        return {}
    if folder is not None and (trouble := folder_trouble(folder)) is not None:
        raise UsageError(trouble)
    files = fact_files(
        program, folder or Path("."), implicit=folder is not None, required=required, confine=confine, fed=fed
    )
    facts: dict[str, list[tuple[Any, ...]]] = {}
    memo: dict[str, str] = {}
    done = 0
    with bar("reading facts", sum(_size(file) for file in files)) as advance:
        for file in files:
            before = done

            def progress(position: int, before: int = before) -> None:
                advance(before + position)

            facts.setdefault(file.relation.name, []).extend(file.read(memo, progress))
            done += _size(file)
    return facts


def _size(file: FactFile) -> int:
    try:
        return file.path.stat().st_size
    except OSError as error:
        raise FactProblem(f"{file.path}: cannot be read: {error.strerror}") from None
