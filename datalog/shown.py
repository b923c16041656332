r"""Text inside a message: nothing of it moves the cursor, turns the line round, or fills the screen.

Messages quote programs and data. What these hold of control characters (also those that reverse the direction of
text, and lone surrogates, which no stream can encode) is written as an escape; names and lines of thousands of
characters are cut.

>>> print(shown("no relation `\x1b[2Jlink\u202e`"))
no relation `\x1b[2Jlink\u202e`
>>> print(brief("no relation `" + "a" * 10_000 + "`"))
no relation `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaa`
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["brief", "shown"]

LONGEST_NAME = 100
"""Letters and digits in a row, in a message: what is longer is cut to its beginning and its end."""

LONGEST_LINE = 1000
"""Characters of a line of a message."""

_LONG = re.compile(rf"[\w?]{{{LONGEST_NAME + 1},}}")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # of scripts and of emoji: harmless
_NAMED = {"\r": "\\r", "\0": "\\0"}


def shown(text: str) -> str:
    r"""The text with control characters as escapes; tabs and ends of lines stay.

    >>> print(shown("a\tb\r\x00\ud800 ü"))
    a	b\r\0\ud800 ü
    """
    return text if text.isprintable() else "".join([c if c.isprintable() else _escape(c) for c in text])


def _escape(character: str) -> str:
    if character in "\t\n" or character in _JOINERS or unicodedata.category(character) not in _UNSEEN:
        return character
    code = ord(character)
    plain = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _NAMED.get(character, plain)


def brief(text: str) -> str:
    """The text of a message as it is shown: with escapes, and without what is too long to read.

    >>> len(brief("a b " * 1000))
    1004
    """
    if len(text) <= LONGEST_NAME:
        return shown(text)
    text = _LONG.sub(lambda name: f"{name[0][:60]}...{name[0][-10:]}", text)
    if len(text) > LONGEST_LINE:
        text = "\n".join([line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."
                          for line in text.split("\n")])
    return shown(text)
