"""`livelog top`: what the partitions of a running session are doing, again and again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from datalog.errors import UsageProblem
from livelog.commands.common import folder, session_folder
from livelog.commands.network import seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from livelog.top import Client, Top

__all__ = ["add_parser", "run"]

INTERVAL = 2.0
WIDTH = 120
"""Columns of a table that goes to no terminal."""

EPILOG = """\
examples:
  livelog top /some/dir                a table that follows the session; Ctrl-C ends it
  livelog top /some/dir --once         as it stands now
  livelog top /some/dir --json         a line of JSON every two seconds
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "top", help="watch the partitions of a running session over Spark", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Show for each partition of a running session over Spark what waits, what it holds, what it ships "
        "and how much of the work it does, and name a partition that holds most of a join.",
    )  # fmt: skip
    parser.add_argument("session", metavar="SESSION_DIR", type=folder, help="the session's directory (its checkpoint=)")
    parser.add_argument("--once", action="store_true", help="show it once and end")
    parser.add_argument("--interval", metavar="SECONDS", type=seconds, default=INTERVAL,
                        help=f"between two looks (default: {INTERVAL:g})")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each look")
    return parser


def run(args: argparse.Namespace) -> int:
    from livelog.top import Client

    try:
        with Client(session_folder(args.session)) as client:
            ended = _watch(client, args)
        if ended is not None:
            print(f"livelog: {ended.message}", file=sys.stderr)
    except KeyboardInterrupt:
        pass  # this is how one leaves
    return 0


def _watch(client: Client, args: argparse.Namespace) -> UsageProblem | None:
    """Look again and again; returns how the session ended, if it did."""
    from livelog.top import Silent

    current, at = client.top(), time.monotonic()  # what is wrong before the first look ends the command
    with _screen(args) as screen:
        screen.show(None, current, 0.0)
        while not args.once:
            time.sleep(args.interval)
            previous, before = current, at
            try:
                current, at = client.top(), time.monotonic()
            except Silent as problem:
                screen.complain(current, problem.message)
            except UsageProblem as problem:
                return problem
            else:
                screen.show(previous, current, at - before)
    return None


# --- where it is shown ---------------------------------------------------------------------------------------


class Lines:
    """A line of JSON for each look."""

    def show(self, previous: Top | None, current: Top, elapsed: float) -> None:
        from livelog.top import as_json

        print(as_json(current), flush=True)

    def complain(self, current: Top, message: str) -> None:
        print(f"livelog: {message}", file=sys.stderr)


class Sheets(Lines):
    """One table under the other."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._first = True

    def show(self, previous: Top | None, current: Top, elapsed: float) -> None:
        from livelog.top import render

        if not self._first:
            self._console.print()
        self._first = False
        self._console.print(render(previous, current, elapsed))


class Screen(Sheets):
    """One table on a terminal, painted over."""

    def __init__(self, live: Live) -> None:
        super().__init__(live.console)
        self._live = live

    def show(self, previous: Top | None, current: Top, elapsed: float) -> None:
        from livelog.top import render

        self._live.update(render(previous, current, elapsed), refresh=True)

    def complain(self, current: Top, message: str) -> None:
        from rich.console import Group
        from rich.text import Text

        from livelog.top import render

        self._live.update(Group(render(None, current), Text(message, style="red")), refresh=True)


@contextmanager
def _screen(args: argparse.Namespace) -> Iterator[Lines]:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    if args.json:
        yield Lines()
    elif args.once or not console.is_terminal:
        yield Sheets(console)
    else:
        with Live(console=console, auto_refresh=False) as live:
            yield Screen(live)
