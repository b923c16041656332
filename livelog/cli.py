"""The `livelog` command and its commands: `run`, `resume`, `changes`, `check`, `explain`, `repl` and others.

Exit codes: 0 all well; 1 something is wrong with a program, its facts, the updates or the evaluation; 2 the
command line cannot be meant; 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

from datalog.errors import LivelogError
from datalog.shown import brief
from livelog.commands import changes, check, compare, demo, explain, repl, resume, run, simulate, top
from livelog.commands.common import UsageError
from livelog.io.problems import DataWarning
from livelog.render import paint_error, paint_for
from livelog.version import __version__
from operators.facts import Facts, PlainFacts

__all__ = ["main"]

COMMANDS = {
    "run": run, "resume": resume, "changes": changes, "check": check, "explain": explain, "repl": repl,
    "simulate": simulate, "compare": compare, "top": top, "demo": demo,
}  # fmt: skip

EPILOG = """\
examples:
  livelog demo
  livelog run reach.dl -F data/ --updates changes.txt
  livelog run reach.dl -F data/ --updates changes.txt --store state/
  livelog changes state/ reachable --follow
  livelog repl reach.dl
  livelog simulate reach.dl --topology ts100
  livelog compare reach.dl --strategies absorption/demand,dred
  livelog help COMMAND
"""


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="livelog", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Recursive Datalog views that stay fresh while the facts under them change.",
    )  # fmt: skip
    loops = "Python" if Facts is PlainFacts else "compiled"
    parser.add_argument("--version", action="version", version=f"livelog {__version__} ({loops} loops)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        sub = module.add_parser(commands)
        sub.set_defaults(run=module.run, parser=sub, command=name)
    help_ = commands.add_parser("help", help="show this help, or that of a command")
    help_.add_argument("about", metavar="COMMAND", nargs="?", choices=tuple(COMMANDS), help="the command")
    help_.set_defaults(run=lambda args: _help(parser, commands, args.about), parser=help_)
    return parser


def _help(parser: argparse.ArgumentParser, commands: Any, about: str | None) -> int:
    print((parser if about is None else commands.choices[about]).format_help(), end="")
    return 0


def _unknown(parser: argparse.ArgumentParser, words: list[str]) -> NoReturn:
    """Say which words a command does not take, with its own usage and the option that may have been meant."""
    known = [option for action in parser._actions for option in action.option_strings]
    near = [f"{word}: did you mean {found[0]}?" for word in words
            if word.startswith("-") and (found := get_close_matches(word.partition("=")[0], known, 1))]  # fmt: skip
    parser.error("\n".join([f"unrecognized arguments: {' '.join(words)}", *near]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Mistakes of the user never show a traceback."""
    _prepare_streams()
    args, rest = build_parser().parse_known_args(argv)
    if rest:
        _unknown(args.parser, rest)
    try:
        with _warnings_on_stderr():
            code: int = args.run(args)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"livelog {args.command}: error: {brief(str(error))}", file=sys.stderr)
        return 2
    except LivelogError as error:
        return _fail(paint_error(error.render(), paint_for(sys.stderr)), 1)
    except KeyboardInterrupt:
        return _fail("livelog: interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _silence_stdout()
        return 141
    except OSError as error:
        _silence_stdout()
        # What has a name is a file that somebody opened, and not the output.
        what = "cannot write the output" if error.filename is None else f"{error.filename}"
        return _fail(f"error: {what}: {error.strerror or error}", 1)
    except MemoryError:
        return _fail("error: out of memory", 1)


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """What is said about the facts is a line on standard error, each time."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **others: Any) -> None:
        if issubclass(category, DataWarning):
            print(f"warning: {message}", file=sys.stderr)
        else:
            usual(message, category, *rest, **others)

    with warnings.catch_warnings():
        usual = warnings.showwarning
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = show
        yield


def _fail(text: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
    print(text, file=sys.stderr)
    return code


def _prepare_streams() -> None:
    """UTF-8 whatever the locale says, and something to read and write even where a stream was closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _silence_stdout() -> None:
    """Python would complain again when it closes a stream that cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
