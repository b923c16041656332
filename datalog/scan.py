"""A rough look at the text of a program, which also works where it is wrong: its pieces and its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from datalog.ast import Span

__all__ = [
    "CLOSED_STRING", "PIECE", "Piece", "blanked", "offset_of", "open_comment", "scan", "span_of", "statement_around",
]  # fmt: skip

PIECE = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|/\*.*)|(?P<string>"(?:[^"\\\n]|\\[^\n])*"?)"""
    r"""|(?P<directive>(?<![\w)\]?"])\.[a-zA-Z]\w*)|(?P<word>\d+\.\d+(?:[eE][+-]?\d+)?|[\w?]+)"""
    r"""|(?P<mark>:-|<:|[<>!:]=|==|&&|\|\||->|<-|.)""",
    re.DOTALL,
)


CLOSED_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')


def open_comment(text: str) -> bool:
    """Whether a comment was never closed.

    >>> open_comment("/* a"), open_comment("/* a */")
    (True, False)
    """
    return text.startswith("/*") and (len(text) < 4 or not text.endswith("*/"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A word, string, directive or mark, and its offsets."""

    kind: str
    text: str
    start: int
    end: int
    first: bool  # the first on its line


def scan(text: str) -> Iterator[Piece]:
    """The text as words, strings and marks, also where it is no program."""
    first = True
    for match in PIECE.finditer(text):
        kind = match.lastgroup or "mark"
        if kind == "space":
            first = first or "\n" in match[0]
        else:
            yield Piece(kind, match[0], match.start(), match.end(), first)
            first = False


def statement_around(text: str, position: int) -> tuple[int, int]:
    """The offsets of the statement that an error at `position` is in.

    A rule ends at its dot, a directive at the end of its line; a directive at the beginning of a line always starts
    a new one.

    >>> text = "a(1). b(2 :- c. d(3)."
    >>> start, end = statement_around(text, 10)
    >>> text[start:end]
    'b(2 :- c.'
    """
    start, depth = 0, 0
    open_, directive = False, False
    for piece in scan(text):
        ends_line = directive and piece.first and depth <= 0
        if open_ and (ends_line or (piece.kind == "directive" and piece.first)):
            if piece.start > position:
                return start, piece.start
            open_ = False
        if not open_:
            start, depth, open_, directive = piece.start, 0, True, piece.kind == "directive"
        depth += (piece.text in ("(", "{", "[")) - (piece.text in (")", "}", "]"))
        if piece.text == "." and not directive:
            open_ = False
            if piece.start >= position:
                return start, piece.end
    return min(start, position), len(text)


def blanked(text: str, start: int, end: int) -> str:
    """The text with a stretch of it blank; every other character keeps its place.

    >>> blanked("ab cd", 1, 4)
    'a   d'
    """
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def offset_of(text: str, line: int, column: int) -> int:
    """The offset of a place.

    >>> offset_of("ab\\ncd", 2, 1)
    3
    """
    offset = 0
    for _ in range(line - 1):
        offset = text.index("\n", offset) + 1
    return offset + column - 1


def span_of(text: str, start: int, end: int) -> Span:
    """The span between two offsets.

    >>> span_of("ab\\ncd", 3, 5)
    Span(line=2, column=1, end_line=2, end_column=3)
    """
    line = text.count("\n", 0, start) + 1
    begin = text.rfind("\n", 0, start) + 1
    end_line = text.count("\n", 0, end) + 1
    end_begin = text.rfind("\n", 0, end) + 1
    return Span(line, start - begin + 1, end_line, end - end_begin + 1)
