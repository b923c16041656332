"""What a person sees: colours, and the text of changes.

Colour is for terminals only, and never when `NO_COLOR` is set (https://no-color.org). Everything printed to a
pipe is plain text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TextIO

from livelog.io.values import format_row

__all__ = ["ChangeSet", "Paint", "change_lines", "count_changes", "paint_error", "paint_for", "plural"]

Row = tuple[Any, ...]


class ChangeSet(Protocol):
    """The net changes of one relation: sorted tuples that came and that went."""

    @property
    def inserted(self) -> list[Row]: ...

    @property
    def deleted(self) -> list[Row]: ...


class Paint:
    """Wraps text in terminal colours, or leaves it alone.

    >>> Paint(False).added("+a(1)"), Paint(True).added("+a(1)")
    ('+a(1)', '\\x1b[32m+a(1)\\x1b[0m')
    """

    def __init__(self, on: bool) -> None:
        self.on = on

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text

    def added(self, text: str) -> str:
        return self._in("32", text)

    def removed(self, text: str) -> str:
        return self._in("31", text)

    def error(self, text: str) -> str:
        return self._in("1;31", text)

    def bold(self, text: str) -> str:
        return self._in("1", text)

    def faint(self, text: str) -> str:
        return self._in("2", text)

    def name(self, text: str) -> str:
        return self._in("36", text)


def paint_for(stream: TextIO) -> Paint:
    """Colours for a stream, if it is a terminal that wants them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Paint(False)
    try:
        return Paint(stream.isatty())
    except ValueError:  # a closed stream
        return Paint(False)


_PLACE = re.compile(r"^(.*?: )?(error|warning|note): ")
_CARETS = re.compile(r"^( +\| [ \t]*)(\^+)$")


def paint_error(text: str, paint: Paint) -> str:
    """A rendered error with its place, its carets and the word `error` in colour.

    >>> paint_error("a.dl:1:2: error: no", Paint(True))
    '\\x1b[1ma.dl:1:2: \\x1b[0m\\x1b[1;31merror:\\x1b[0m no'
    """
    if not paint.on:
        return text
    lines = []
    for line in text.split("\n"):
        if match := _PLACE.match(line):
            word = paint.error("error:") if match[2] == "error" else paint.name(f"{match[2]}:")
            lines.append((paint.bold(match[1]) if match[1] else "") + word + " " + line[match.end() :])
        elif match := _CARETS.match(line):
            lines.append(match[1] + paint.error(match[2]))
        else:
            lines.append(line)
    return "\n".join(lines)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "tuple"), plural(2, "tuple"), plural(0, "reply", "replies")
    ('1 tuple', '2 tuples', '0 replies')
    """
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def change_lines(
    changes: Mapping[str, ChangeSet], relations: Iterable[str], paint: Paint | None = None
) -> Iterator[str]:
    """The change log of one transaction: per relation what went, then what came, each sorted.

    In this order the log is a script that another program can follow, keyed relations included.
    """
    paint = paint or Paint(False)
    for relation in relations:
        change = changes.get(relation)
        if change is None:
            continue
        for row in change.deleted:
            yield paint.removed("-" + format_row(relation, row))
        for row in change.inserted:
            yield paint.added("+" + format_row(relation, row))


def count_changes(changes: Mapping[str, ChangeSet], relations: Iterable[str]) -> int:
    """How many lines `change_lines` would give."""
    found = (changes.get(relation) for relation in relations)
    return sum(len(change.inserted) + len(change.deleted) for change in found if change is not None)
