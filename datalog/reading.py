"""Program text from bytes and strings: what is not Unicode is an error with its place, before anything reads it."""

from __future__ import annotations

import re
from codecs import BOM_UTF8

from datalog.ast import Source
from datalog.errors import SyntaxProblem
from datalog.scan import span_of

__all__ = ["check_characters", "decode"]

_HALVES = re.compile("[\ud800-\udfff]")


def decode(data: bytes, name: str) -> str:
    r"""The text of a program file, which is UTF-8 with or without a byte order mark; lines end in any way.

    >>> decode(b"\xef\xbb\xbfa(1).\r\nb(2).", "a.dl")
    'a(1).\nb(2).'
    >>> decode(b'a("caf\xe9").', "a.dl")
    Traceback (most recent call last):
        ...
    datalog.errors.SyntaxProblem: a.dl:1:7: error: byte 0xe9 is not UTF-8: save the file in that encoding
        1 | a("caf?").
          |       ^
    """
    data = data.removeprefix(BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = _lines(data[: error.start].decode("utf-8"))
        # A question mark stands for what is no character, here as on many a terminal.
        text = before + "?" + _lines(data[error.start + 1 :].decode("utf-8", errors="replace"))
        raise SyntaxProblem(
            f"byte 0x{data[error.start]:02x} is not UTF-8: save the file in that encoding",
            span_of(text, len(before), len(before) + 1), Source(text, name),
        ) from None
    return _lines(text)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_characters(source: Source) -> None:
    """Refuse text with a lone surrogate, half of a character: nothing could write it again."""
    half = _HALVES.search(source.text)
    if half is not None:
        span = span_of(source.text, half.start(), half.end())
        raise SyntaxProblem(f"U+{ord(half[0]):04X} is half of a character and cannot stand alone", span, source)
