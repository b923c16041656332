"""`livelog run`: evaluate a program once, or keep its views fresh while an update script is read."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from datalog.errors import FactProblem, LivelogError, Note
from livelog import Session
from livelog.commands.changelog import LOGS
from livelog.commands.common import (
    UsageError,
    add_constants,
    add_engine,
    add_facts,
    add_program,
    load_program,
    open_session,
)
from livelog.io.forms import CSV
from livelog.io.outputs import output_forms, print_sizes, print_view, view_lines, write_view
from livelog.io.updates import ScriptTransaction, read_script
from livelog.progress import bar, spinner
from livelog.render import paint_for, plural

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog run reach.dl -F data/                          evaluate once, print the views
  livelog run reach.dl -F data/ -D out/                  write them as out/reachable.csv, tab separated
  livelog run region.dl -F data/ --set k=25              with another value of the constant k
  livelog run reach.dl -F data/ --updates changes.txt    print what every transaction changes
  tail -f changes.txt | livelog run reach.dl --updates - --format json
  livelog run reach.dl -F data/ --runtime spark --partitions 4

an update script holds one operation per line:
  +link("a", "b", 3)     insert                          // a comment
  -link("b", "c", 1)     delete
  @12.5                  advance the clock
  commit                 end the transaction; an empty line does, too
or the same as JSON lines: {"op": "+", "relation": "link", "row": ["a", "b", 3]}
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
        "-D", "--output", metavar="OUT_DIR|-",
        help="the folder to write the views to, as REL.csv; '-' is the terminal (the default). With --updates the "
        "views are written at the end, if -D is given",
    )  # fmt: skip
    add_constants(parser)
    parser.add_argument("--updates", metavar="FILE|-", help="an update script; '-' reads it from standard input")
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text", help="of what is printed")
    parser.add_argument(
        "--initial", action="store_true", help="with --updates: print the views before them as transaction 0"
    )
    add_engine(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    program = load_program(args.program, args.constants)
    forms = output_forms(program)  # what is wrong with an .output line is said before the work, not after it
    # Over Spark, the log says how far the script was applied: `livelog resume` goes on from there.
    feed = os.path.abspath(args.updates) if args.runtime == "spark" and args.updates not in (None, "-") else None
    with script(args.updates) as transactions, open_session(program, args, script=feed) as session:
        if args.updates is not None:
            follow(session, transactions, args, feed)
        if args.updates is None or args.output is not None:
            write_outputs(session, forms, args.output or "-", args.format)
        elif program.directives_of("printsize"):
            print_sizes(sys.stdout, program, _sizes(session))
    return 0


# --- updates -------------------------------------------------------------------------------------------------


def follow(
    session: Session,
    transactions: Iterator[ScriptTransaction],
    args: argparse.Namespace,
    source: str | None = None,
    start: int = 0,
) -> None:
    """Apply a script and print what each transaction changes. The first that fails is the last.

    `source` is what the session's log calls the script; `start` transactions of it were applied before.
    """
    log = LOGS[args.format]
    out = sys.stdout
    relations = session.plan.outputs
    if args.initial:
        log(out, 0, "the facts", session.clock, session.initial, relations)
    elif args.format == "text":
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
            with busy(f"transaction {applied + 1}"), session.transaction(source, applied + 1) as tx:
                current.apply(tx)
            applied += 1
            log(out, applied, current.where, session.clock, tx.changes, relations)
            out.flush()
            current = None
    except LivelogError as error:
        where = f" ({current.where})" if current is not None else ""
        note = f"{plural(applied, 'transaction')} applied; transaction {applied + 1}{where} was not, nor any after it"
        error.notes = (*error.notes, Note(note))
        raise


@contextmanager
def script(name: str | None) -> Iterator[Iterator[ScriptTransaction]]:
    """The transactions of a script file or of standard input; with a progress bar where nothing else is printed."""
    if name is None:
        yield iter(())
    elif name == "-":
        yield read_script(_lines(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"), "<stdin>"), "<stdin>")
    else:
        with ExitStack() as stack:
            try:
                file = stack.enter_context(Path(name).open("rb"))
            except OSError as error:
                raise UsageError(f"cannot read the updates {name!r}: {error.strerror}") from None
            text = stack.enter_context(io.TextIOWrapper(file, encoding="utf-8-sig"))
            lines = _lines(text, name) if sys.stdout.isatty() else _watched(file, text, name)
            # Closed here and now, the bar is gone before an error is shown.
            yield read_script(stack.enter_context(closing(lines)), name)


def _watched(file: BinaryIO, text: TextIO, name: str) -> Generator[str, None, None]:
    """The lines of a file, with a bar that shows how much of it is read."""
    with bar("updates", os.fstat(file.fileno()).st_size) as advance:
        for number, line in enumerate(_lines(text, name)):
            if number % 1000 == 0:
                advance(file.tell())
            yield line


def _lines(stream: TextIO, name: str) -> Generator[str, None, None]:
    number = 0
    try:
        for line in stream:
            number += 1
            yield line
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise FactProblem(f"byte 0x{byte:02x} is not UTF-8", file=name, line=number + 1) from None
    except OSError as error:
        raise FactProblem(f"{name}: cannot be read: {error.strerror}") from None


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
        if relation in session.plan.pruned:  # never one that `.output` names
            continue
        view = session[relation]
        if target != "-" and form.io == "file":
            write_view(Path(target), relation, view.columns, view, form)
        elif format_ == "text":
            print_view(out, relation, view.columns, view)
        elif format_ == "csv":
            out.writelines(view_lines(relation, ((relation, *row) for row in view), CSV))
        else:
            record = {"relation": relation, "columns": list(view.columns), "rows": list(view)}
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
    print_sizes(out, session.program, _sizes(session))


