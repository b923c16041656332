"""`livelog changes`: what every transaction of a session changes in a view, read from the session's folder."""

from __future__ import annotations

import argparse
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Any

import datalog
from datalog.errors import Note, UsageProblem
from livelog.changes import Changes
from livelog.commands.changelog import LOGS
from livelog.commands.common import UsageError, folder, session_folder
from livelog.following import POLL
from livelog.shown import timeless
from livelog.store.followers import Follower, followed, forget
from livelog.store.journal import describe
from livelog.store.layout import Layout, file_name

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  livelog changes state/ reachable                     all that is kept
  livelog changes state/ reachable --since 17          what came after transaction 17
  livelog changes state/ reachable --follow | consumer     ... and what comes, until Ctrl-C
  livelog changes state/ reachable --follow --name mailer --format json
                                                       the same, from where the last one of this name stopped
  livelog changes state/ reachable --forget mailer     who does not come back: nothing is kept for it any more

The text is an update script, as that of livelog run --updates. The session may be running, or not.
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "changes", help="show what the transactions of a session change in a view", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Show what every transaction of a session changed in a view, each once and in order, from the "
        "session's folder: that of --store, or over Spark of --checkpoint.",
    )  # fmt: skip
    parser.add_argument("session", metavar="SESSION_DIR", type=folder, help="the session's folder")
    parser.add_argument("view", metavar="VIEW", help="a view of its program")
    parser.add_argument(
        "--since", metavar="N", type=number,
        help="begin after transaction N (default: where the follower of --name stopped, or with all that is kept)",
    )  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="wait for more, until Ctrl-C")
    parser.add_argument(
        "--name", metavar="NAME", type=name,
        help="go on where the last one of this name stopped; what it has yet to read is kept for it",
    )  # fmt: skip
    parser.add_argument("--forget", metavar="NAME", type=name, help="keep nothing any more for the one of this name")
    parser.add_argument("--format", choices=tuple(LOGS), default="text", help="of what is printed")
    return parser


def number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected the number of a transaction, not {text!r}")
    return int(text[:18])


def name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a name, not an empty text")
    return text


def run(args: argparse.Namespace) -> int:
    if args.forget is not None and (args.since is not None or args.follow or args.name is not None):
        raise UsageError("--forget stands alone: it reads nothing")
    told = describe(session_folder(args.session))  # what is no session, or one of another version, is told here
    layout = Layout(args.session)
    _check_view(layout, args.session, args.view)
    if args.forget is not None:
        if not forget(layout, args.view, args.forget):
            raise UsageProblem(f"nobody of the name {args.forget!r} follows `{args.view}`")
        return 0
    known = datalog.parse(told.program, told.name).relations.get(args.view)
    stream = known is not None and known.stream
    with closing(Follower(layout, args.view, args.since, args.name)) as follower:
        while True:
            _print(follower, args, stream)
            if not args.follow:
                return 0
            _wait()


def _check_view(layout: Layout, given: Path, view: str) -> None:
    kept = followed(layout)
    if file_name(view) not in kept:
        problem = UsageProblem(f"the changes of `{view}` are not kept in {given} (kept: {', '.join(kept) or 'none'})")
        if near := get_close_matches(view, kept, 1):
            problem.notes = (Note(f"did you mean {near[0]}?"),)
        raise problem


def _print(follower: Follower, args: argparse.Namespace, stream: bool) -> None:
    """Print what there is. A transaction is passed when all of it was handed on: who is killed before sees it again."""
    log = LOGS[args.format]
    for transaction, inserted, deleted in follower.changes():
        with _whole():
            if stream:
                inserted, deleted = timeless(inserted), timeless(deleted)
            changes = Changes(args.view, inserted, deleted, transaction)
            log(sys.stdout, transaction, None, None, {args.view: changes}, (args.view,))
            sys.stdout.flush()
            follower.passed(transaction)


@contextmanager
def _whole() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block. A second one does not: who reads the output may have stopped."""
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            raise KeyboardInterrupt
        held.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if held:
        raise KeyboardInterrupt


def _wait() -> None:
    """A moment, unless whoever read the output has gone: there may be nothing to write for long that would tell."""
    watch = select.poll()
    watch.register(sys.stdout.fileno(), 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0)):
        raise BrokenPipeError
    time.sleep(POLL)
