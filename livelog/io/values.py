"""Values as text: how a person writes `"a"`, `3`, `2.5`, `[1, "b"]` and `nil`, and the way back.

Update scripts, the `repl`, list columns of fact files and every printed tuple use this one notation, so
that whatever Livelog prints can be fed to it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from datalog.arithmetic import NUMBER_RANGE, UNSIGNED_RANGE
from datalog.ast import DEEPEST
from datalog.format import brief_value, format_value

__all__ = ["INTEGERS", "NOTHING", "Scanner", "TextProblem", "brief_row", "format_row", "format_value", "parse_value"]

NOTHING: tuple[Any, ...] = ()

INTEGERS = (NUMBER_RANGE[0], UNSIGNED_RANGE[1])
"""What an int may be at all: a number or an unsigned. The column's own type is stricter, and checked elsewhere."""

_TOKEN = re.compile(
    r"""[ \t\r\f\v]*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w?]))
    | (?P<name>(?![0-9])[\w?]+)
    | (?P<sign>[()\[\],.@+-])
    | (?P<end>$|//.*)
    )""",
    re.VERBOSE,
)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}


class TextProblem(ValueError):
    """Text that is not a value: `start` and `end` say which characters are to blame."""

    def __init__(self, message: str, start: int, end: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = start + 1 if end is None else end


# --- writing -------------------------------------------------------------------------------------------------


def format_row(relation: str, row: Iterable[Any]) -> str:
    """A tuple of a relation as a person writes it.

    >>> format_row("link", ("a", "b", 3))
    'link("a", "b", 3)'
    """
    return f"{relation}({', '.join(map(format_value, row))})"


def brief_row(relation: str, row: Iterable[Any], most: int = 200) -> str:
    """The same for messages, where it need not be whole.

    >>> brief_row("r", (1, "a", (2, 3)), most=9)
    'r(1, "a", ...'
    """
    text = f"{relation}({', '.join([brief_value(value, most) for value in row])})"
    return text if len(text) <= most else f"{text[:most]} ..."


# --- reading -------------------------------------------------------------------------------------------------


class Scanner:
    """Reads values and atoms from one line of text, left to right.

    `kind`, `text`, `start` and `end` describe the token under the cursor; `advance` moves on. At the end of
    the line, or before a `//` comment, `kind` is `end`.

    >>> scanner = Scanner('link("a", [1, 2.5])  // a comment')
    >>> scanner.name(), scanner.row(), scanner.kind
    ('link', ('a', (1, 2.5)), 'end')
    """

    def __init__(self, line: str, start: int = 0, blank: Any = None) -> None:
        self.line = line
        self.blank = blank  # what `_` is in a row, if it may be there
        self.kind = ""
        self.text = ""
        self.start = self.end = start
        self.depth = 0
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.line, self.end)
        if match is None:
            rest = self.line[self.end :]
            at = self.end + len(rest) - len(rest.lstrip())
            if self.line[at] == '"':
                raise TextProblem("this string has no closing quote", at, len(self.line.rstrip()))
            raise TextProblem(f"unexpected character {self.line[at]!r}", at)
        self.kind = match.lastgroup or "end"
        self.text = match[self.kind]
        self.start, self.end = match.span(self.kind)

    def problem(self, message: str) -> TextProblem:
        """A problem with the token under the cursor."""
        return TextProblem(message, self.start, max(self.end, self.start + 1) if self.kind != "end" else None)

    def found(self) -> str:
        return "the line ends" if self.kind == "end" else f"found {self.text}"

    def take(self, sign: str) -> bool:
        """Move past `sign` if it is next."""
        if self.kind == "sign" and self.text == sign:
            self.advance()
            return True
        return False

    def expect(self, sign: str, what: str) -> None:
        if not self.take(sign):
            raise self.problem(f"expected {what}, but {self.found()}")

    def finish(self) -> None:
        """Nothing may follow but a full stop, which rule writers add out of habit."""
        self.take(".")
        if self.kind != "end":
            raise self.problem(f"nothing may follow here, but {self.found()}")

    def name(self) -> str:
        """The name of a relation."""
        if self.kind != "name":
            raise self.problem(f"expected the name of a relation, but {self.found()}")
        text = self.text
        self.advance()
        return text

    def row(self) -> tuple[Any, ...]:
        """The arguments of an atom: `("a", "b", 3)`."""
        self.expect("(", "'(' after the name of the relation")
        return self._values(")")

    def value(self) -> Any:
        """One value."""
        kind, text = self.kind, self.text
        if kind == "string":
            value: Any = self._string()
        elif kind == "number":
            value = self._number()
        elif kind == "name" and text == "nil":
            value = NOTHING
        elif kind == "sign" and text == "[":
            self.advance()
            return self._values("]")
        elif kind == "name" and text == "_" and self.depth == 1 and self.blank is not None:
            value = self.blank
        elif kind == "name" and text == "_":
            raise self.problem("expected a value; `_` stands for any value where facts are deleted or asked for")
        elif kind == "name":
            raise self.problem(f'expected a value, but found the name {text}; a symbol is quoted: "{text}"')
        else:
            raise self.problem(f"expected a value, but {self.found()}")
        self.advance()
        return value

    def _values(self, close: str) -> tuple[Any, ...]:
        if self.take(close):
            return NOTHING
        if self.depth > DEEPEST:  # a row counts too
            raise self.problem(f"lists may be nested {DEEPEST} deep, no deeper")
        self.depth += 1
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        self.expect(close, f"',' or '{close}'")
        self.depth -= 1
        return tuple(values)

    def _number(self) -> int | float:
        if _INTEGER.fullmatch(self.text):
            # A longer text cannot be in range, and Python refuses to convert very long ones.
            base = {"x": 16, "b": 2}.get(self.text.lstrip("+-")[1:2].lower(), 10)
            number = int(self.text, base) if len(self.text) < 400 else INTEGERS[1] + 1
            if not INTEGERS[0] <= number <= INTEGERS[1]:
                raise self.problem("this number does not fit in 64 bits")
            return number
        value = float(self.text)
        if value in (float("inf"), float("-inf")):
            raise self.problem("this number is too large for a float")
        return value

    def _string(self) -> str:
        body = self.text[1:-1]
        if "\\" not in body:
            return body

        def replace(match: re.Match[str]) -> str:
            for code in match.group(1, 2, 3):
                if code is not None and int(code, 16) < 0x110000:
                    return chr(int(code, 16))
            known = _ESCAPES.get(match[4] or "")
            if known is None:
                start = self.start + 1 + match.start()
                raise TextProblem(f"unknown escape {match[0]} in a string", start, start + len(match[0]))
            return known

        return _ESCAPE.sub(replace, body)


def parse_value(text: str) -> Any:
    """The value that a whole text stands for.

    >>> parse_value('[1, 2.5, "a"]'), parse_value("nil")
    ((1, 2.5, 'a'), ())
    """
    scanner = Scanner(text)
    value = scanner.value()
    if scanner.kind != "end" or scanner.start < len(text.rstrip()):
        raise scanner.problem("nothing may follow the value")
    return value
