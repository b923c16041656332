"""Declarations and directives from tokens. They end where nothing of them can follow, without a mark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from datalog.ast import Column, Constant, Directive
from datalog.pieces import (
    Alias,
    ConstantDefinition,
    Declaration,
    Misread,
    Name,
    Pragma,
    Qualifier,
    negated,
    read_float,
    read_integer,
    read_string,
)
from datalog.tokens import Token, Tokens, span_of_token, stretch

__all__ = ["DIRECTIVES", "DirectiveReader"]

# Qualifiers are no reserved words: `key(1).` and `key(x) :- r(x).` after a declaration are a fact and a rule.
# Those without brackets, but for `bag` and `stream`, are accepted for Souffle's programs: see datalog/souffle.py.
_QUALIFIER = re.compile(
    r"(?:key|partition|ttl)(?=\s*\([^()]*\)(?!\s*(,|:-|\.(?![a-z]))))"
    r"|(?:bag|stream|btree_delete|btree|brie|magic|no_magic|inline|no_inline|overridable|input|output|printsize)"
    r"(?![\w?])(?!\s*\()"
)

_NAME = frozenset({"name"})
_NUMBER = frozenset({"integer", "float"})
_SIGNED = _NUMBER | {"-"}
_BEHIND_NAMES = frozenset({"name", "directive", "end", "(", ")"})


class DirectiveReader(Tokens):
    """Reads what begins with a directive; its methods are given that token, which is read."""

    __slots__ = ()

    def names(self, closing: frozenset[str]) -> tuple[Name, ...]:
        """One name or several, and something of `closing` behind them, which is left."""
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        kind = self.tokens[self.at][0]
        if kind not in closing:
            self.refuse(closing if kind in _BEHIND_NAMES else closing | {","})
        return tuple(found)

    def name(self) -> Name:
        token = self.take("name")
        return Name(token[1], span_of_token(token))

    def declaration(self, first: Token) -> Declaration:
        names = self.names(frozenset({"("}))
        self.at += 1
        columns = list[Column]()
        if not self.accept(")"):
            columns.append(self.column(_NAME | {")"}))
            while self.accept(","):
                columns.append(self.column(_NAME))
            self.take(")", frozenset({")", ","}))
        qualifiers = list[Qualifier]()
        while self.tokens[self.at][0] == "name" and _QUALIFIER.match(self.text, self.tokens[self.at][4]):
            qualifiers.append(self.qualifier())
        self.continued = frozenset({"qualifier"})
        return Declaration(names, tuple(columns), tuple(qualifiers))

    def column(self, expected: frozenset[str]) -> Column:
        name = self.take("name", expected)
        if self.tokens[self.at][0] == ":-":
            self.refuse(_NAME, 1)
        self.take(":")
        type_ = self.take("name")
        return Column(name[1], type_[1], span=stretch(name, type_))

    def qualifier(self) -> Qualifier:
        kind = self.take("name")
        value: Any = True
        if kind[1] in ("key", "partition", "ttl"):
            self.take("(")
            value = float(self.signed(_SIGNED).value) if kind[1] == "ttl" else self.names(frozenset({")"}))
            self.take(")")
        return Qualifier(kind[1], value, stretch(kind, self.tokens[self.at - 1]))

    def directive(self, first: Token) -> tuple[Directive, ...]:
        """`.input`, `.output`, `.printsize` or `.limitsize`, for each relation that it names."""
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        parameters: dict[str, Any] = {}
        if not self.accept("("):
            self.continued = frozenset({"("} if self.tokens[self.at][0] == ")" else {"(", ","})
        elif not self.accept(")"):
            self.parameter(parameters, _NAME | {")"})
            while self.accept(","):
                self.parameter(parameters, _NAME)
            self.take(")", frozenset({")", ","}))
        return tuple(Directive(first[1][1:], name.text, dict(parameters), name.span) for name in names)

    def parameter(self, found: dict[str, Any], expected: frozenset[str]) -> None:
        name = self.take("name", expected)[1]
        self.take("=")
        token = self.tokens[self.at]
        if token[0] == "name":
            self.at += 1
            found[name] = {"true": True, "false": False}.get(token[1], token[1])
        elif token[0] == "string":
            self.at += 1
            found[name] = read_string(token)
        else:
            found[name] = self.signed(_SIGNED | {"name", "string"}).value

    def signed(self, expected: frozenset[str]) -> Constant:
        """A number, with a minus in front or without."""
        minus = self.tokens[self.at]
        if minus[0] == "-":
            self.at += 1
            expected = _NUMBER
        token = self.tokens[self.at]
        if token[0] not in _NUMBER:
            self.refuse(expected)
        self.at += 1
        number = Constant(read_integer(token) if token[0] == "integer" else read_float(token), span_of_token(token))
        return negated(number, stretch(minus, token)) if minus[0] == "-" else number

    def pragma(self, first: Token) -> Pragma:
        last = self.take("string")
        if self.tokens[self.at][0] == "string":
            last = self.take("string")
        else:
            self.continued = frozenset({"string"})
        return Pragma(stretch(first, last))

    def approx(self, first: Token) -> tuple[Directive, ...]:
        name = self.name()
        return (Directive("approx", name.text, {"threshold": self.signed(_SIGNED).value}, name.span),)

    def constant(self, first: Token) -> ConstantDefinition:
        name = self.name()
        self.take("=")
        token = self.tokens[self.at]
        if token[0] == "string":
            self.at += 1
            value: Any = read_string(token)
        else:
            value = self.signed(_SIGNED | {"string"}).value
        if name.text in ("nil", "true", "false"):
            raise Misread(f"`{name.text}` is a word of the language and cannot be the name of a constant", name.span)
        return ConstantDefinition(name.text, value, name.span)

    def alias(self, first: Token) -> Alias:
        name = self.name()
        relation = self.tokens[self.at]
        if relation[0] == "<" and self.text.startswith("<:", relation[4]):
            self.at += 1
            if self.tokens[self.at][0] == ":-":
                self.refuse(_NAME, 1)
            self.at += 1
        else:
            self.take("=", frozenset({"<:", "="}))
        type_ = self.take("name")
        return Alias(name.text, type_[1], stretch(first, type_))


DIRECTIVES: dict[str, Callable[[DirectiveReader, Token], Any]] = {
    ".decl": DirectiveReader.declaration, ".const": DirectiveReader.constant, ".type": DirectiveReader.alias,
    ".input": DirectiveReader.directive, ".output": DirectiveReader.directive,
    ".printsize": DirectiveReader.directive, ".limitsize": DirectiveReader.directive,
    ".approx": DirectiveReader.approx, ".pragma": DirectiveReader.pragma,
}  # fmt: skip
"""What reads each directive."""
