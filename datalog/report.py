"""What the phases of the checker share: a list of problems and the words for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from datalog.ast import NOWHERE, Source, Span
from datalog.errors import CheckProblem, LivelogError, Note

__all__ = ["Report", "listed", "suggestion"]


class Report:
    """The problems found so far in one program."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[LivelogError] = []

    def add(self, message: str, span: Span = NOWHERE, *notes: Note) -> None:
        """Note a problem; `notes` may point at other places of the program."""
        self.problems.append(CheckProblem(message, span, self.source, notes))


def suggestion(name: str, known: Iterable[str]) -> str:
    """`: did you mean ...?` for a name that is close to a known one, or nothing.

    >>> suggestion("lnk", ["link", "node"])
    ': did you mean `link`?'
    """
    if len(name) > 100:  # nobody mistypes that, and comparing takes the square of it
        return ""
    candidates = sorted(known)
    lower = {candidate.lower(): candidate for candidate in reversed(candidates)}
    close = difflib.get_close_matches(name.lower(), lower, 1, 0.6)
    return f": did you mean `{lower[close[0]]}`?" if close else ""


def listed(items: Iterable[str], last: str = "and") -> str:
    """The items as a sentence has them.

    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""
