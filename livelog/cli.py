"""The `livelog` command: `run`, `resume`, `check`, `explain`, `repl`, `simulate`, `compare`, `top`, `demo`.

Exit codes: 0 all well; 1 something is wrong with a program, its facts, the updates or the evaluation; 2 the
command line cannot be meant; 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from datalog.errors import LivelogError
from livelog.commands import check, compare, demo, explain, repl, resume, run, simulate, top
from livelog.commands.common import UsageError
from livelog.render import paint_error, paint_for
from livelog.version import __version__
from operators.facts import Facts, PlainFacts

__all__ = ["main"]

COMMANDS = {
    "run": run, "resume": resume, "check": check, "explain": explain, "repl": repl, "simulate": simulate,
    "compare": compare, "top": top, "demo": demo,
}  # fmt: skip

EPILOG = """\
examples:
  livelog demo
  livelog run reach.dl -F data/ --updates changes.txt
  livelog repl reach.dl
  livelog simulate reach.dl --topology ts100
  livelog compare reach.dl --strategies absorption/demand,dred
  livelog COMMAND --help
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
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Mistakes of the user never show a traceback."""
    _prepare_streams()
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"livelog {args.command}: error: {error}", file=sys.stderr)
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
        return _fail(f"error: cannot write the output: {error.strerror or error}", 1)
    except MemoryError:
        return _fail("error: out of memory", 1)


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
