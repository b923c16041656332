"""`livelog resume`: go on with a session over Spark whose driver was killed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import datalog
import livelog
from datalog.errors import LivelogError, Note, UsageProblem
from livelog.commands.changelog import LOGS
from livelog.commands.common import UsageError, positive
from livelog.commands.run import follow, script, write_outputs
from livelog.io.outputs import output_forms
from livelog.io.updates import ScriptTransaction
from livelog.progress import spinner

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog run reach.dl --updates changes.txt --runtime spark --checkpoint /some/dir
  livelog resume /some/dir                            go on with changes.txt, after the last transaction in the log
  livelog resume /some/dir --partitions 6             the same, divided differently
  livelog resume /some/dir --updates more.txt -D out/ go on with another script, and write the views in the end
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "resume", help="go on with a session over Spark whose driver was killed", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Go on with a session over Spark from its log and its checkpoints. All transactions that were "
        "logged are there, the one that was under way too; the update script is read on from there. Where nothing is "
        "left to be read, the views are shown.",
    )  # fmt: skip
    parser.add_argument(
        "directory", metavar="CHECKPOINT_DIR", type=Path, help="the folder that was the session's --checkpoint"
    )
    parser.add_argument(
        "--updates", metavar="FILE|-",
        help="an update script, '-' reads it from standard input (default: the one that the session was opened with)",
    )  # fmt: skip
    parser.add_argument(
        "-D", "--output", metavar="OUT_DIR|-", help="the folder to write the views to in the end; '-' is the terminal"
    )
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text", help="of what is printed")
    parser.add_argument(
        "--partitions", metavar="N", type=positive, help="in how many parts the tuples are divided (default: as before)"
    )
    parser.add_argument(
        "--master", metavar="URL",
        help="local[N], spark://HOST:PORT, yarn or k8s://URL (default: this machine, with a slot for each partition "
        "and two more)",
    )  # fmt: skip
    return parser


def run(args: argparse.Namespace) -> int:
    from livelog.runtime.spark.journal import describe
    from livelog.runtime.spark.layout import Layout, Lock
    from livelog.runtime.spark.start import check_master, spark_for

    if not args.directory.is_dir():
        what = "is not a folder" if args.directory.exists() else "does not exist"
        raise UsageError(f"the session's directory {str(args.directory)!r} {what}")
    told = describe(args.directory)
    Lock(Layout(args.directory).lock).release()  # if somebody has it open, that is said here and now
    forms = output_forms(_checked(told))  # what is wrong is said before Spark is started
    args.partitions = args.partitions or told.partitions
    args.initial = False  # for `follow`
    if args.master is not None:
        try:
            check_master(args.master)
        except UsageProblem as problem:
            raise UsageError(f"--master: {problem.message}") from None
    updates = told.script if args.updates is None else args.updates
    if args.updates is None and updates is not None and not os.path.isfile(updates):
        raise UsageError(f"the session's update script {updates!r} is not there: name one with --updates")
    with script(updates) as transactions, spark_for(args) as spark, _resumed(args, spark) as session:
        if not _go_on(session, transactions, updates, args) or args.output is not None:
            write_outputs(session, forms, args.output or "-", args.format)
    return 0


def _checked(told: Any) -> datalog.Program:
    """The program that was opened. Functions in Python are not stored with it."""
    try:
        return datalog.check(datalog.parse(told.program, told.name), constants=told.constants)
    except LivelogError as error:
        error.notes = (*error.notes, Note("a session with functions in Python is resumed in Python: `livelog.resume`"))
        raise


def _resumed(args: argparse.Namespace, spark: Any) -> livelog.Session:
    with spinner("recovering"):
        return livelog.resume(args.directory, livelog.Spark(spark, partitions=args.partitions))


def _go_on(
    session: livelog.Session, transactions: Iterator[ScriptTransaction], updates: str | None, args: argparse.Namespace
) -> bool:
    """Apply what is left of the script, and print what it changes; whether there was anything."""
    source = None if updates is None or updates == "-" else os.path.abspath(updates)
    again = session.rerun
    if again is not None:  # whoever began it was killed before it could tell
        number, changes = again
        LOGS[args.format](sys.stdout, number or 0, "resumed", session.clock, changes, session.plan.outputs)
        sys.stdout.flush()
    start = 0 if source is None else session.position(source)
    remaining = islice(transactions, start, None)
    first = next(remaining, None)
    if first is None:
        return False
    follow(session, chain((first,), remaining), args, source, start)
    return True
