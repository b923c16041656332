"""The errors a person meets, with the place in the text, a caret, and the other places that matter.

`LivelogError` is the root of all of them; there is one subclass per phase. `str(error)` is what a terminal
should show:

>>> source = Source("reach(x, y) :- lnk(x, y).", "reach.dl")
>>> print(CheckProblem("unknown relation `lnk`", Span(1, 16, 1, 25), source))
reach.dl:1:16: error: unknown relation `lnk`
    1 | reach(x, y) :- lnk(x, y).
      |                ^^^^^^^^^
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from datalog.ast import NOWHERE, Source, Span
from datalog.shown import brief, shown

__all__ = [
    "CheckProblem", "FactProblem", "LivelogError", "Note", "ProgramErrors", "ProgramWarning", "Remark", "RowProblem",
    "RuntimeProblem", "StratificationProblem", "SyntaxProblem", "UsageProblem",
]

WIDEST = 110  # characters of a source line that are shown; longer lines are cut around the caret
MOST_SHOWN = 50  # errors, or warnings, of a program that are shown at once


@dataclass(frozen=True, slots=True)
class Note:
    """A remark under an error; with a span it points at a related place of the same source."""

    message: str
    span: Span | None = None


class LivelogError(Exception):
    """The root of all errors that Livelog raises on purpose.

    `message` is the bare sentence; `span` and `source` say where, if there is a where; `notes` are related
    places and hints.

    >>> print(LivelogError("the clock cannot go back"))
    error: the clock cannot go back
    """

    word = "error"
    """What stands before the message."""

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        source: Source | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = None if span == NOWHERE else span
        self.source = source
        self.notes: tuple[Note, ...] = tuple(notes)

    @property
    def place(self) -> str:
        """`file:line:column`, or as much of it as is known.

        >>> LivelogError("", Span(3, 7, 3, 9), Source("", "a.dl")).place
        'a.dl:3:7'
        """
        if self.span is None:
            return self.source.name if self.source else ""
        return _place(self.source, self.span)

    def render(self) -> str:
        """The error as a terminal shows it, without a final newline."""
        place = shown(self.place)
        parts = [f"{place}: {self.word}: {brief(self.message)}" if place else f"{self.word}: {brief(self.message)}"]
        parts += excerpt(self.source, self.span)
        for note in self.notes:
            if note.span is None or note.span == NOWHERE:
                parts.append(f"note: {brief(note.message)}")
            else:
                parts.append(f"{shown(_place(self.source, note.span))}: note: {brief(note.message)}")
                parts += excerpt(self.source, note.span)
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.render()


class SyntaxProblem(LivelogError):
    """The text is not a program."""


class CheckProblem(LivelogError):
    """The program is well formed and still wrong: unknown relation, arity, type clash, unsafe variable."""


class StratificationProblem(CheckProblem):
    """A relation depends on its own negation or on an aggregate over itself."""


class UsageProblem(LivelogError):
    """An argument or option that cannot be used as it was given."""


class RuntimeProblem(LivelogError):
    """Evaluation failed: division by zero, overflow, the limit of a program that does not end.

    >>> print(RuntimeProblem("division by zero", rule="r(x / y) :- s(x, y)."))
    error: division by zero
    note: in the rule r(x / y) :- s(x, y).
    """

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        source: Source | None = None,
        notes: Iterable[Note] = (),
        rule: str = "",
    ) -> None:
        if rule:
            notes = (Note(f"in the rule {' '.join(rule.split())}"), *notes)
        super().__init__(message, span, source, notes)
        self.rule = rule


class FactProblem(LivelogError):
    """A row of a fact file or of an update script that does not fit its relation.

    >>> print(FactProblem("`abc` is not a number", file="link.csv", line=7))
    link.csv:7: error: `abc` is not a number
    """

    def __init__(self, message: str, notes: Iterable[Note] = (), file: str = "", line: int | None = None) -> None:
        super().__init__(message, None, None, notes)
        self.file = file
        self.line = line

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line is not None else self.file


class ProgramWarning(LivelogError):
    """What is no mistake and most likely not meant: a variable used once, a relation that nothing reads."""

    word = "warning"


class Remark(LivelogError):
    """What is accepted and does nothing, as storage qualifiers of Souffle."""

    word = "note"


class RowProblem(FactProblem, UsageProblem):
    """Something that was handed over as a row and is none: a mistake in the call, more than in the data."""


class ProgramErrors(LivelogError):
    """Several errors of one program, in the order of the text; the first fifty of them are shown.

    >>> source = Source("a. b.", "x.dl")
    >>> late, early = SyntaxProblem("two", Span(1, 4, 1, 5), source), SyntaxProblem("one", Span(1, 1, 1, 2), source)
    >>> [problem.message for problem in ProgramErrors([late, early]).problems]
    ['one', 'two']
    """

    def __init__(self, problems: Sequence[LivelogError]) -> None:
        self.problems: tuple[LivelogError, ...] = tuple(sorted(problems, key=_position))
        first = self.problems[0]
        super().__init__(f"{len(self.problems)} errors, first: {first.message}", first.span, first.source)

    def render(self) -> str:
        return "\n".join([*render_first(self.problems), f"{len(self.problems)} errors"])


def render_first(problems: Sequence[LivelogError]) -> list[str]:
    """The texts of the first problems, and how many more there are.

    >>> render_first([LivelogError(str(i)) for i in range(60)])[49:]
    ['error: 49', 'and 10 more']
    """
    parts = [problem.render() for problem in problems[:MOST_SHOWN]]
    return [*parts, f"and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else parts


def raise_all(problems: Sequence[LivelogError]) -> None:
    """Raise nothing, the only problem itself, or all of them as `ProgramErrors`.

    >>> raise_all([])
    """
    unique = list({(type(p), p.message, p.span): p for p in problems}.values())
    if len(unique) == 1:
        raise unique[0]
    if unique:
        raise ProgramErrors(unique)


def _position(problem: LivelogError) -> tuple[int, int]:
    return (problem.span.line, problem.span.column) if problem.span else (0, 0)


# --- source lines and carets ---------------------------------------------------------------------------------


def _place(source: Source | None, span: Span) -> str:
    if source is None:
        return f"<program>:{span.line}:{span.column}"
    source, span = source.own(span)
    return f"{source.name}:{span.line}:{span.column}"


def excerpt(source: Source | None, span: Span | None) -> list[str]:
    """The source line of a span and a line of carets under it; nothing if either is unknown.

    Of a span over several lines only the first is shown, underlined to its end.

    >>> print("\\n".join(excerpt(Source("a(x) :-\\n  b(x, y)."), Span(2, 3, 2, 10))))
        2 |   b(x, y).
          |   ^^^^^^^
    """
    if source is None or span is None or span == NOWHERE:
        return []
    source, span = source.own(span)
    lines = source.text.split("\n")
    index = span.line - source.first_line
    if not 0 <= index < len(lines):
        return []
    line = lines[index].rstrip()
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    end = max(end, start + 1)
    line, padding, carets = underlined(line, start, end)
    number = f"{span.line:5}"
    return [f"{number} | {line}".rstrip(), f"{' ' * len(number)} | {padding}{carets}"]


def underlined(line: str, start: int, end: int) -> tuple[str, str, str]:
    r"""A line as it can be shown, and the blanks and the carets of the line under it.

    >>> underlined("a\x1b b", 3, 4)
    ('a\\x1b b', '      ', '^')
    """
    if len(line) > WIDEST:
        line, start, end = _cut(line, start, end)
    before, under, after = shown(line[:start]), shown(line[start:end]), shown(line[end:])
    # Tabs stay tabs and wide characters count twice, so that the carets stand under what they mean.
    padding = "".join("\t" if c == "\t" else " " * _width(c) for c in before)
    return before + under + after, padding, "^" * (sum(_width(c) for c in under) or 1)


def _cut(line: str, start: int, end: int) -> tuple[str, int, int]:
    """A window of a long line around the stretch from start to end, with dots where it was cut."""
    left = max(0, min(start - 30, len(line) - WIDEST))
    right = min(len(line), left + WIDEST)
    before, after = "..." if left else "", "..." if right < len(line) else ""
    shift = len(before) - left
    return before + line[left:right] + after, start + shift, min(end, right) + shift


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
