"""Update scripts and live feeds of `livelog run`: their options, their lines, and the lines that are rejected."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from datalog.errors import FactProblem
from livelog.commands.common import UsageError, seconds
from livelog.io.feeds import Arrivals, Cadence, Rejected, parse_cadence, timed
from livelog.io.problems import say
from livelog.io.updates import Reject, ScriptTransaction, read_script
from livelog.progress import bar
from livelog.realtime import TICK, milliseconds
from livelog.render import plural

__all__ = ["RealFeed", "add_feed", "check_feed", "left", "rejections", "script"]

CLOCKS = ("lines", "wall")


def add_feed(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("live feeds, with --updates")
    group.add_argument(
        "--commit-every", metavar="WHEN", type=cadence,
        help="also end a transaction after every operation (line), after so many (100), or so much time (0.5s)",
    )  # fmt: skip
    group.add_argument(
        "--on-error", choices=("stop", "skip"), default="stop",
        help="what to do about a line that cannot be applied: stop (the default), or put it aside and go on",
    )  # fmt: skip
    group.add_argument(
        "--rejected", metavar="FILE", type=Path,
        help="of --on-error skip: the file for such lines (default: that of the updates, with .rejected added)",
    )  # fmt: skip
    group.add_argument(
        "--clock", choices=CLOCKS, default=CLOCKS[0],
        help="what moves the clock: the lines, with @ (the default), or real time, in seconds since 1970 (wall): lines "
        "have the time at which they come, and the clock goes on where none comes. Facts are loaded at the time it is",
    )  # fmt: skip
    group.add_argument(
        "--tick", metavar="SECONDS", type=seconds,
        help=f"of --clock wall: how often the clock goes on, and what has come is committed (default: {TICK:g}; "
        "--commit-every sets the second apart)",
    )  # fmt: skip


def cadence(text: str) -> Cadence:
    try:
        return parse_cadence(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_feed(args: argparse.Namespace) -> None:
    """Say what is wrong with the options of `add_feed`."""
    if args.updates is None and (args.commit_every is not None or args.on_error == "skip"):
        raise UsageError(f"--{'on-error skip' if args.commit_every is None else 'commit-every'} is for --updates")
    if args.rejected is not None and args.on_error != "skip":
        raise UsageError("--rejected is for --on-error skip")
    if args.clock == "wall" and args.updates is None:
        raise UsageError("--clock wall is for --updates")
    if args.tick is not None and args.clock != "wall":
        raise UsageError("--tick is for --clock wall")


@contextmanager
def rejections(args: argparse.Namespace) -> Iterator[Rejected | None]:
    """Where rejected lines go while the block runs; None if the first of them is the end. In the end it is said."""
    if args.on_error != "skip":
        yield None
        return
    usual = "updates.rejected" if args.updates == "-" else f"{args.updates}.rejected"
    rejected = Rejected(args.rejected or Path(usual))
    try:
        yield rejected
    finally:
        rejected.close()
        if rejected.count:
            say(f"{plural(rejected.count, 'line')} of the updates rejected: see {rejected.path}")


@dataclass
class RealFeed:
    """That a feed is in real time: the clock goes on every `tick` seconds. `begin` is where it stands before."""

    tick: float
    begin: float = 0.0

    @classmethod
    def of(cls, args: argparse.Namespace) -> RealFeed | None:
        """As the command line says; None if the lines have the times."""
        return cls(TICK if args.tick is None else args.tick, milliseconds()) if args.clock == "wall" else None


@contextmanager
def script(
    name: str | None, when: Cadence | None = None, rejected: Rejected | None = None, real: RealFeed | None = None
) -> Iterator[Iterator[ScriptTransaction]]:
    """The transactions of a script file or of standard input; with a progress bar where nothing else is printed."""
    when = when or Cadence()
    reject = None if rejected is None else rejected.add
    with ExitStack() as stack:
        lines: Generator[str, None, None]
        if name is None:
            yield iter(())
            return
        if name == "-":
            shown = "<stdin>"
            raw = when.seconds or real
            lines = _raw_lines(sys.stdin.fileno(), shown) if raw else _lines(_text(sys.stdin.buffer), shown)
        else:
            shown = name
            try:
                file = stack.enter_context(Path(name).open("rb"))
            except OSError as error:
                raise UsageError(f"cannot read the updates {name!r}: {error.strerror}") from None
            text = stack.enter_context(io.TextIOWrapper(file, encoding="utf-8-sig"))
            plain = sys.stdout.isatty() or when.seconds or real or not os.path.isfile(name)  # a pipe has no size
            lines = _lines(text, name) if plain else _watched(file, text, name)
        if real is not None:
            yield _in_real_time(lines, shown, when, reject, real)
            return
        if when.seconds is not None:
            yield read_script(timed(lines, when.seconds), shown, when.most, reject)
            return
        # Closed here and now, the bar is gone before an error is shown.
        yield read_script(stack.enter_context(closing(lines)), shown, when.most, reject)


def _in_real_time(
    lines: Iterator[str], name: str, when: Cadence, reject: Reject | None, real: RealFeed
) -> Iterator[ScriptTransaction]:
    arrivals = Arrivals(lines, real.tick, when.seconds)
    arrivals.time = real.begin
    yield from read_script(arrivals, name, when.most, reject, lambda: arrivals.time)


def left(transactions: Iterator[ScriptTransaction], name: str, applied: int) -> Iterator[ScriptTransaction]:
    """What is left of a script of which so many transactions were applied before."""
    read = sum(1 for _ in islice(transactions, applied))
    if read < applied:
        has = f"{name} has {plural(read, 'transaction')}"
        say(f"{has}, and the session has applied {applied} of it: is it another script?")
    return transactions


def _text(stream: Any) -> TextIO:
    return io.TextIOWrapper(stream, encoding="utf-8")


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
        raise _undecodable(error, name, number) from None
    except OSError as error:
        raise FactProblem(f"{name}: cannot be read: {error.strerror}") from None


def _raw_lines(descriptor: int, name: str) -> Generator[str, None, None]:
    """The lines of a stream, read past Python's buffers: a thread that waits in one of those cannot be left behind."""
    number = 0
    pending = b""
    try:
        while data := os.read(descriptor, 1 << 16):
            *whole, pending = (pending + data).split(b"\n")
            for line in whole:
                yield line.decode()
                number += 1
        if pending:
            yield pending.decode()
    except UnicodeDecodeError as error:
        raise _undecodable(error, name, number) from None
    except OSError as error:
        raise FactProblem(f"{name}: cannot be read: {error.strerror}") from None


def _undecodable(error: UnicodeDecodeError, name: str, number: int) -> FactProblem:
    return FactProblem(f"byte 0x{error.object[error.start]:02x} is not UTF-8", file=name, line=number + 1)
