"""`livelog run`: evaluate a program once, or keep its views fresh while an update script is read."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from datalog.errors import LivelogError, Note, RuntimeProblem, UsageProblem
from livelog import Session
from livelog.commands.changelog import ChangeWriter
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
    target,
    tell_standing,
)
from livelog.commands.feeds import RealFeed, add_feed, check_feed, left, rejections, script
from livelog.io.confine import check_outputs
from livelog.io.feeds import Rejected
from livelog.io.forms import CSV, PARQUET
from livelog.io.outputs import output_forms, print_sizes, print_view, view_lines, write_table, write_view
from livelog.io.updates import ScriptTransaction
from livelog.progress import spinner
from livelog.render import paint_for, plural
from livelog.shown import is_kept

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog run reach.dl -F data/                          evaluate once, print the views
  livelog run reach.dl -F data/ -D out/                  write them as out/reachable.csv, tab separated
  livelog run region.dl -F data/ --set k=25              with another value of the constant k
  livelog run reach.dl -F data/ --updates changes.txt    print what every transaction changes
  tail -f changes.txt | livelog run reach.dl --updates - --format json
  nc feed 7000 | livelog run reach.dl --updates - --commit-every 0.5s --on-error skip
  sensors | livelog run rooms.dl --updates - --clock wall --format json | livelog run alarms.dl --updates -
                                                         in real time; what one program tells, the next one reads
  livelog run reach.dl -F data/ --store state/ --updates changes.txt
                                                         keep the session in a folder; the same again goes on with it
  livelog run reach.dl -F data/ --runtime spark --partitions 4
  livelog run places.dl -F data/ --functions geo.py      with functions and aggregates of a Python file
  livelog run -e 'big(x) :- n(x), x > 2. n(1). n(3).'    a program without a file; '-' reads it from standard input

an update script holds one operation per line:
  +link("a", "b", 3)     insert                          // a comment
  -link("b", "c", 1)     delete                          -link("b", _, _) deletes all that match
  u link("a", "b", 4)    insert, in place of what has the key
  @12.5                  advance the clock
  @13 +link("c", "d", 1) advance the clock, and then this
  commit                 end the transaction; an empty line does, too
or the same as JSON lines: {"op": "+", "relation": "link", "row": ["a", "b", 3]}
(a row may also be an object by the names of the columns; "time": 13 is the same as @13)

programs with streams, windows and reads at points tell changes with their times: @8 -hot("a"), @8 u hot("c", 103),
@8 +both(1) partial; and as JSON lines, which another livelog run reads with --updates -
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "run", help="evaluate a program, once or over a stream of updates", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Evaluate a program and show its views; with --updates, show what every transaction changes.",
    )  # fmt: skip
    add_program(parser)
    add_facts(parser)
    parser.add_argument(
        "-D", "--output", metavar="OUT_DIR|-", type=target,
        help="the folder to write the views to, as REL.csv; '-' is the terminal (the default). With --updates the "
        "views are written at the end, if -D is given",
    )  # fmt: skip
    add_constants(parser)
    parser.add_argument("--updates", metavar="FILE|-", help="an update script; '-' reads it from standard input")
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text", help="of what is printed")
    parser.add_argument(
        "--initial", action="store_true", help="with --updates: print the views before them as transaction 0"
    )
    add_feed(parser)
    add_store(parser)
    add_engine(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    if str(args.program) == args.updates == "-":
        raise UsageError("the program and the updates cannot both come from standard input")
    check_feed(args)
    program = load_program(args)
    output_forms(program)  # what is wrong with an .output line is said before the work, not after it
    if args.confine and args.output not in (None, "-"):
        check_outputs(program, Path(args.output))
    # The log of a session, if it has one, says how far the script was applied: whoever goes on begins there.
    # Where other things than the script end a transaction, its position would not say how far that is.
    # Nor would that of a pipe, which cannot be read again.
    plain = args.commit_every is None and args.on_error == "stop" and args.clock != "wall"
    plain = plain and os.path.isfile(args.updates or "")
    feed = os.path.abspath(args.updates) if plain and (args.store is not None or args.runtime == "spark") else None
    again = goes_on(args)
    interrupted: KeyboardInterrupt | None = None
    with ExitStack() as stack:
        rejected = stack.enter_context(rejections(args))
        real = RealFeed.of(args)
        transactions = stack.enter_context(script(args.updates, args.commit_every, rejected, real))
        fed, clock = args.updates is not None, None if real is None else real.begin
        session = stack.enter_context(open_session(program, args, script=feed, fed=fed, clock=clock))
        if real is not None:
            real.begin = session.clock
        start = 0 if feed is None else session.position(feed)
        if again:
            tell_standing(session, args.store, args.format, args.updates, start, UNREAD)
        if args.updates is not None:
            try:
                follow(session, left(transactions, args.updates, start), args, feed, start, rejected)
            except KeyboardInterrupt as interrupt:  # how a live feed ends: what is committed is there to be written
                interrupted = interrupt
        if args.updates is None or args.output is not None:
            write_outputs(session, output_forms(session.program), args.output or "-", args.format)
        elif program.directives_of("printsize"):
            print_sizes(sys.stdout, program, _sizes(session))
    if interrupted is not None:
        raise interrupted
    return 0


# --- updates -------------------------------------------------------------------------------------------------


def follow(
    session: Session,
    transactions: Iterator[ScriptTransaction],
    args: argparse.Namespace,
    source: str | None = None,
    start: int = 0,
    rejected: Rejected | None = None,
) -> None:
    """Apply a script and print what each transaction changes. The first that fails is the last, or is rejected.

    `source` is what the session's log calls the script; `start` transactions of it were applied before. Transactions
    have their numbers in the log, if the session is kept in a `--store`, and in the script otherwise.
    """
    log = ChangeWriter(session, args.format)
    out = sys.stdout
    if args.initial:
        log.initial(out, args.store is not None)
    elif args.format == "text":
        relations = session.plan.outputs
        count = sum(len(session[relation]) for relation in relations)
        text = f"// start: {plural(count, 'tuple')} in {plural(len(relations), 'view')}"
        out.write(paint_for(out).faint(text) + "\n\n")
    out.flush()
    # Where the log goes elsewhere, the bar over the script shows the progress.
    busy = spinner if out.isatty() else nullcontext
    applied = start
    current: ScriptTransaction | None = None
    try:
        for current in transactions:
            position = None if source is None else applied + 1
            if current.silent and session._idle(current.until):
                log.passed(out, current.until)
                continue
            try:
                with busy(f"transaction {applied + 1}"), session.transaction(source, position) as tx:
                    met = current.apply(tx, None if rejected is None else rejected.add)
            except (RuntimeProblem, UsageProblem) as error:
                if rejected is None or current.silent:
                    raise
                current.reject(rejected.add, error.message, rejected.numbers.copy())
                continue
            finally:
                if rejected is not None:
                    rejected.numbers.clear()
            if current.silent and not tx.changes.steps:
                log.passed(out, session.clock)
                current = None
                continue
            applied += 1
            for text, count in met:
                (out if args.format == "text" else sys.stderr).write(f"// {text}: {plural(count, 'fact')}\n")
            number = applied if args.store is None else tx.changes.transaction
            log.tell(out, number, current.where, tx.changes)
            out.flush()
            current = None
    except LivelogError as error:
        where = f" ({current.where})" if current is not None else ""
        which = f"transaction {applied + 1}" if args.store is None else "the next one"
        note = f"{plural(applied, 'transaction')} applied; {which}{where} was not, nor any after it"
        error.notes = (*error.notes, Note(note))
        raise


# --- outputs -------------------------------------------------------------------------------------------------


def _sizes(session: Session) -> dict[str, int]:
    """The sizes that `.printsize` and `.limitsize` ask about."""
    program = session.program
    wanted = (*program.directives_of("printsize"), *program.directives_of("limitsize"))
    return {directive.relation: len(session[directive.relation]) for directive in wanted}


def write_outputs(session: Session, forms: list[Any], target: str, format_: str) -> None:
    """All views that the program puts out, then the sizes that it prints."""
    out = sys.stdout
    for relation, form in forms:
        # never one that `.output` names
        if relation in session.plan.pruned or not is_kept(session.plan, relation):
            continue
        view = session[relation]
        if target != "-" and form.io == "file" and form.file_of(relation).endswith(PARQUET):
            write_table(Path(target), relation, view.to_arrow(), form)
        elif target != "-" and form.io == "file":
            write_view(Path(target), relation, view.columns, view, form)
        elif format_ == "text":
            print_view(out, relation, view.columns, view)
        elif format_ == "csv":
            out.writelines(view_lines(relation, ((relation, *row) for row in view), CSV))
        else:
            record = {"relation": relation, "columns": list(view.columns), "rows": list(view)}
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
    print_sizes(out, session.program, _sizes(session))


