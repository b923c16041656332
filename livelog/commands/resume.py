"""`livelog resume`: go on with a session that is kept in a folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import datalog
import livelog
from datalog.errors import LivelogError, Note, UsageProblem
from livelog.commands.changelog import ChangeWriter
from livelog.commands.common import (
    UsageError,
    add_confine,
    add_functions,
    add_sync,
    folder,
    functions_for,
    positive,
    session_folder,
    target,
    tell_standing,
)
from livelog.commands.feeds import left, script
from livelog.commands.run import follow, write_outputs
from livelog.io.confine import check_outputs
from livelog.io.outputs import output_forms
from livelog.io.updates import ScriptTransaction
from livelog.progress import spinner
from livelog.store.formats import Description
from livelog.store.journal import SYNCS, describe
from livelog.store.layout import Layout, Lock

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog run reach.dl --updates changes.txt --store state/
  livelog resume state/                               go on with changes.txt, after the last transaction in the log
  livelog resume state/ --updates more.txt -D out/    go on with another script, and write the views in the end
  livelog resume state/ --functions geo.py            the functions of the program, which are not stored with it
  livelog resume state/ --accept-loss                 go on although the log has lost transactions at its end
  livelog run reach.dl --updates changes.txt --runtime spark --checkpoint /some/dir
  livelog resume /some/dir --partitions 6             over Spark again, divided differently
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "resume", help="go on with a session that is kept in a folder", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Go on with a session from its log and its checkpoints, over Spark if it was one over Spark. All "
        "transactions that were committed are there, the one that was under way on workers, too; the update script is "
        "read on from there. Where nothing is left to be read, the views are shown.",
    )  # fmt: skip
    parser.add_argument(
        "directory", metavar="SESSION_DIR", type=folder,
        help="the folder that was the session's --store, or over Spark its --checkpoint",
    )  # fmt: skip
    parser.add_argument(
        "--updates", metavar="FILE|-",
        help="an update script, '-' reads it from standard input (default: the one that the session was opened with)",
    )  # fmt: skip
    parser.add_argument(
        "-D", "--output", metavar="OUT_DIR|-", type=target,
        help="the folder to write the views to in the end; '-' is the terminal",
    )  # fmt: skip
    add_confine(parser)
    add_functions(parser)
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text", help="of what is printed")
    parser.add_argument(
        "--accept-loss", action="store_true",
        help="go on although transactions that were committed are missing at the end of the log: without it such a log "
        "is refused, and their numbers are named",
    )  # fmt: skip
    add_sync(parser.add_argument_group("of a session in this process"))
    group = parser.add_argument_group("of a session over Spark")
    group.add_argument(
        "--partitions", metavar="N", type=positive, help="in how many parts the tuples are divided (default: as before)"
    )
    group.add_argument(
        "--master", metavar="URL",
        help="local[N], spark://HOST:PORT, yarn or k8s://URL (default: this machine, with a slot for each partition "
        "and two more)",
    )  # fmt: skip
    return parser


def run(args: argparse.Namespace) -> int:
    told = describe(session_folder(args.directory))
    args.store = args.directory if told.runtime == "local" else None
    args.initial = False  # for `follow`, as the store
    _check_options(args)
    Lock(Layout(args.directory).lock).release()  # if somebody has it open, that is said here and now
    program = _checked(told, args)
    output_forms(program)  # what is wrong is said before Spark is started
    if args.confine and args.output not in (None, "-"):
        check_outputs(program, Path(args.output))
    args.partitions = args.partitions or told.partitions
    updates = told.script if args.updates is None else args.updates
    if args.updates is None and updates is not None and not os.path.isfile(updates):
        raise UsageError(f"the session's update script {updates!r} is not there: name one with --updates")
    with script(updates) as transactions, _resumed(args, program) as session:
        if not _go_on(session, transactions, updates, args) or args.output is not None:
            write_outputs(session, output_forms(session.program), args.output or "-", args.format)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    if args.store is not None:
        if args.partitions is not None:
            how = "livelog run PROGRAM.dl --store DIR --partitions N"
            raise UsageError(f"--partitions is for sessions over Spark: this one is divided differently by {how}")
        if args.master is not None:
            raise UsageError("--master is for sessions over Spark, and this one is not")
        return
    if args.sync is not None:
        raise UsageError("--sync is for sessions in this process, and this one is over Spark")
    if args.master is not None:
        from livelog.runtime.spark.start import check_master

        try:
            check_master(args.master)
        except UsageProblem as problem:
            raise UsageError(f"--master: {problem.message}") from None


def _checked(told: Description, args: argparse.Namespace) -> datalog.Program:
    """The program that was opened. Functions in Python are not stored with it."""
    parsed = datalog.parse(told.program, told.name)
    functions, aggregates = functions_for(args, parsed)
    try:
        return datalog.check(parsed, constants=told.constants, functions=functions, aggregates=aggregates)
    except LivelogError as error:
        if args.functions is None:
            note = "functions in Python are not stored with a session: --functions FILE.py names the file that has them"
            error.notes = (*error.notes, Note(note))
        raise


@contextmanager
def _resumed(args: argparse.Namespace, program: datalog.Program) -> Iterator[livelog.Session]:
    """The session, where it was: in this process, or over Spark."""
    with ExitStack() as stack:
        runtime = None
        if args.store is None:
            from livelog.runtime.spark.start import spark_for

            runtime = livelog.Spark(stack.enter_context(spark_for(args)), partitions=args.partitions)
        with spinner("recovering"):
            session = livelog.resume(
                args.directory, runtime, functions=program.functions, aggregates=program.aggregates,
                accept_loss=args.accept_loss, sync=args.sync or SYNCS[0],
            )  # fmt: skip
        yield stack.enter_context(session)


def _go_on(
    session: livelog.Session, transactions: Iterator[ScriptTransaction], updates: str | None, args: argparse.Namespace
) -> bool:
    """Apply what is left of the script, and print what it changes; whether there was anything."""
    source = None if updates is None or updates == "-" else os.path.abspath(updates)
    again = session.rerun
    if again is not None:  # whoever began it was killed before it could tell
        number, changes = again
        ChangeWriter(session, args.format).tell(sys.stdout, number or 0, "resumed", changes)
        sys.stdout.flush()
    start = 0 if source is None else session.position(source)
    if args.store is not None:
        tell_standing(session, args.store, args.format, updates, start)
    remaining = transactions if updates is None else left(transactions, updates, start)
    first = next(remaining, None)
    if first is None:
        return False
    follow(session, chain((first,), remaining), args, source, start)
    return True
