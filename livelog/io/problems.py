"""Errors that point at a place in a fact file or an update script.

Such files can be far larger than a program, so a problem carries an excerpt of the one line that is to
blame, and not the whole text.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from datalog.ast import Directive, Program, Source, Span
from datalog.errors import CheckProblem, FactProblem, Note

__all__ = ["DataWarning", "directive_problem", "line_problem", "say"]


class DataWarning(UserWarning):
    """Something about the facts that may not be meant: a header that nobody declared, a file that is not there."""


def say(message: str) -> None:
    """Warn whoever called into Livelog; on the command line that is a line on standard error."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "livelog":
        frame = frame.f_back
        level += 1
    warnings.warn(DataWarning(message), stacklevel=level)


def line_problem(
    message: str, name: str, line: int, text: str, start: int = 0, end: int | None = None, notes: Sequence[str] = ()
) -> FactProblem:
    """A problem with line number `line` of the file `name`; `start` and `end` are offsets into `text`.

    >>> print(line_problem("'x' is not a number", "link.facts", 17, "a b x", 4, 5))
    link.facts:17: error: 'x' is not a number
       17 | a b x
          |     ^
    """
    problem = FactProblem(message, map(Note, notes), name, line)
    end = len(text) if end is None else end
    problem.span = Span(line, start + 1, line, max(end, start + 1) + 1)
    problem.source = Source(text, name, line)
    return problem


def directive_problem(message: str, program: Program, directive: Directive, notes: Sequence[str] = ()) -> CheckProblem:
    """A problem with what an `.input` or `.output` line says."""
    return CheckProblem(message, directive.span, program.source, map(Note, notes))
