"""The text of a program as tokens, each with its place.

One regular expression reads all of them. What a word is (a name, an aggregate, a qualifier) depends on where it stands
and is decided by who reads the tokens; `datalog.statements` and `datalog.bodies` do.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from datalog.ast import Span

__all__ = ["NAME", "Token", "Tokens", "Unexpected", "span_of_token", "stretch", "words"]

Token = tuple[str, str, int, int, int]
"""Kind, text, line, column and offset. The kind of a mark such as `(` or `:-` is the mark itself; the others are
`name`, `integer`, `float`, `string`, `directive`, `end` (of the text), and `unreadable`, one character that is none."""

NAME = r"(?![0-9])[\w?]+"
_DIRECTIVE = r"\.(?:decl|const|type|input|output|printsize|limitsize|approx|pragma)(?!\w)"
_REMARK = r"//[^\n]*|/\*(?s:.*?)\*/"
# what there is most of comes first
_TOKEN = re.compile(
    rf"""[ \t\f\r\uFEFF]*(?:
      (?P<name>{NAME})
    | (?P<mark>[,()]|:-|[!<>]=|[-;:\[\]{{}}<>=!+*%^@]|(?!{_DIRECTIVE})\.|(?!{_REMARK})/)
    | (?P<newline>\n)
    | (?P<comment>{_REMARK})
    | (?P<directive>{_DIRECTIVE})
    | (?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?![\w?]))
    | (?P<integer>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)u?(?![\w?]))
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<end>\Z)
    | (?P<unreadable>.)
    )""",
    re.VERBOSE,
)
_NAMES = {index: name for name, index in _TOKEN.groupindex.items()}
_MARK, _NEWLINE, _COMMENT = (_TOKEN.groupindex[name] for name in ("mark", "newline", "comment"))
_LAST = {_TOKEN.groupindex[name] for name in ("directive", "end")}

class Unexpected(Exception):
    """A token that cannot stand where it does.

    `expected` are the kinds of tokens that could; `aggregates` the names of aggregates that have begun before it and
    are not complete, the innermost last.
    """

    def __init__(
        self, token: Token, expected: frozenset[str], aggregates: list[Any], previous: Token | None, shift: int
    ) -> None:
        super().__init__(token)
        self.offset = token[4] + shift
        self.kind = token[0]
        self.expected = expected
        self.aggregates = aggregates
        self.previous = previous


class Tokens:
    """The tokens of a text, at most about one statement of them at a time.

    `tokens` ends with the dot of a rule, or with what follows a statement without one: the next directive, or the end
    of the text. So whoever has read a token that is neither can look at the next one. `at` is the place of the next.

    What is going on: `aggregates` are those that have begun and are not complete, `depth` is how deep what is read is
    nested, and `continued` what could have gone on with the last statement, if that has no mark at its end.
    """

    __slots__ = ("aggregates", "at", "continued", "depth", "line", "matches", "start", "text", "tokens")

    def __init__(self, text: str, offset: int = 0) -> None:
        self.text = text
        self.aggregates = list[Token]()
        self.continued = frozenset[str]()
        self.depth = 0
        self.go(offset, text.count("\n", 0, offset) + 1, text.rfind("\n", 0, offset) + 1)

    def go(self, offset: int, line: int, start: int) -> None:
        """Go on at an offset of the text, which is not inside a token: in this line, which starts there."""
        self.line, self.start = line, start
        self.matches = _TOKEN.finditer(self.text, offset)
        self.tokens = list[Token]()
        self.at = 0

    def more(self) -> None:
        """The tokens of the next statement; those that are read are let go."""
        tokens = self.tokens[self.at :]
        line, before = self.line, self.start - 1
        append = tokens.append
        for match in self.matches:
            kind: Any = match.lastindex
            word = match[kind]
            if kind == _MARK:
                offset = match.start(kind)
                append((word, word, line, offset - before, offset))
                if word == ".":
                    break
            elif kind == _NEWLINE:
                line += 1
                before = match.end() - 1
            elif kind == _COMMENT:
                if lines := word.count("\n"):
                    line += lines
                    before = match.end() - len(word) + word.rfind("\n")
            else:
                offset = match.start(kind)
                append((_NAMES[kind], word, line, offset - before, offset))
                if kind in _LAST and (len(tokens) > 1 or word == ""):
                    break
        self.tokens, self.at, self.line, self.start = tokens, 0, line, before + 1

    def next_statement(self) -> Token | None:
        """The first token of the next statement; None at the end of the text."""
        tokens = self.tokens
        if self.at >= len(tokens) - 1 and (not tokens or tokens[-1][0] != "end"):
            self.more()
        token = self.tokens[self.at]
        return None if token[0] == "end" else token

    def split(self) -> None:
        """Take the dot of a directive, `r(1).decl`, for that of a rule, as who stands behind a rule does."""
        _, _, line, column, offset = self.tokens[self.at]
        self.go(offset + 1, line, offset - column + 1)

    # --- one token ---

    def accept(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        if self.tokens[self.at][0] == kind:
            self.at += 1
            return True
        return False

    def take(self, kind: str, expected: frozenset[str] | None = None) -> Token:
        """The next token, which must be of this kind."""
        token = self.tokens[self.at]
        if token[0] != kind:
            self.refuse(expected or frozenset((kind,)))
        self.at += 1
        return token

    def refuse(self, expected: frozenset[str], shift: int = 0) -> NoReturn:
        """Complain about the next token, or about the second character of it."""
        previous = self.tokens[self.at - 1] if self.at and not shift else None
        raise Unexpected(self.tokens[self.at], expected, self.aggregates, previous, shift)


def span_of_token(token: Token) -> Span:
    """The place of a token.

    >>> tokens = Tokens("a(x)\\n  :- b.")
    >>> tokens.more()
    >>> tokens.tokens[4], span_of_token(tokens.tokens[4])
    ((':-', ':-', 2, 3, 7), Span(line=2, column=3, end_line=2, end_column=5))
    """
    _, text, line, column, _ = token
    return Span(line, column, line, column + len(text))


def stretch(first: Token, last: Token) -> Span:
    """From the beginning of one token to the end of another."""
    return Span(first[2], first[3], last[2], last[3] + len(last[1]))


def words(text: str) -> list[str]:
    """What stands in a text besides comments and white space.

    >>> words("r(x) :- /* a comment */ e(x).") == words("r(x):-e(x).")
    True
    """
    found = _TOKEN.finditer(text)
    return [m.group(m.lastindex) for m in found if m.lastindex and m.lastindex not in (_NEWLINE, _COMMENT)]
