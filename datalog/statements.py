"""Statements from tokens: rules as they were written, declarations and directives.

The grammar is in docs/language.md. A rule ends with its dot; a declaration or directive where nothing of it can follow.
"""

from __future__ import annotations

from typing import Any

from datalog.ast import Atom, Directive, HeadAggregate
from datalog.bodies import BodyReader
from datalog.directives import DIRECTIVES, DirectiveReader
from datalog.kinds import AGGREGATE_WORDS, FIRST, OPERATORS, SUFFIX, VALUE
from datalog.pieces import (
    NESTED,
    Alias,
    Clause,
    ConstantDefinition,
    Declaration,
    Item,
    Misread,
    Pragma,
    Raw,
    as_expression,
    settle,
)
from datalog.tokens import Token, span_of_token, stretch

__all__ = ["Statement", "StatementReader"]

Statement = Clause | Declaration | tuple[Directive, ...] | Pragma | ConstantDefinition | Alias

_BEGINNING = frozenset({"directive", "name", "end"})
_NOTHING = frozenset[str]()
_BEHIND_HEADS = frozenset({",", ":-", "."})


class StatementReader(BodyReader, DirectiveReader):
    """Reads one statement after another."""

    __slots__ = ()

    def statement(self) -> tuple[int, Statement] | None:
        """The next statement and the offset at which it begins; None at the end of the text."""
        first = self.next_statement()
        if first is None:
            return None
        if first[0] == "name":
            try:
                return first[4], self.clause(first)
            except RecursionError:
                raise Misread(NESTED, stretch(first, self.tokens[-1])) from None
        if first[0] != "directive":
            self.refuse(_BEGINNING | self.continued)
        self.at += 1
        self.continued = _NOTHING
        return first[4], DIRECTIVES[first[1]](self, first)

    # --- rules ---

    def clause(self, first: Token) -> Clause:
        """A rule or fact up to its dot."""
        self.depth, self.anonymous, self.continued = 0, False, _NOTHING
        start = self.at
        heads = [self.head()]
        while self.tokens[self.at][0] == ",":
            self.at += 1
            heads.append(self.head())
        if self.tokens[self.at][0] in SUFFIX:
            self.no_suffix()
        branches = self.branches(".", True) if self.accept(":-") else ((),)
        end = self.tokens[self.at]
        size = self.at - start
        if end[0] == ".":
            self.at += 1
        elif end[0] == "directive" and self.glued():
            end = (".", ".", *end[2:])
            self.split()
        else:
            self.refuse(_BEHIND_HEADS)
        text = self.text[first[4] : end[4] + 1]
        return Clause(tuple(heads), self.settled(branches), stretch(first, end), text, size, self.anonymous)

    def settled(self, branches: tuple[Raw, ...]) -> tuple[tuple[Item, ...], ...]:
        """The literals of a rule that is over."""
        try:
            return settle(branches)
        except Misread:
            # In `x < 1.5y` the dot is none: what is wrong behind it comes first.
            after = self.next_statement()
            if after and after[0] == "unreadable":
                self.refuse(_BEGINNING)
            raise

    def head(self) -> Atom:
        name = self.take("name")
        self.take("(")
        tokens = self.tokens
        if tokens[self.at][0] == ")":
            self.at += 1
            return Atom(name[1], (), stretch(name, tokens[self.at - 1]))
        found: list[Any] = [self.head_argument(FIRST[")"])]
        while tokens[self.at][0] == ",":
            self.at += 1
            found.append(self.head_argument(VALUE))
        end = tokens[self.at]
        if end[0] != ")":
            expected = OPERATORS | {",", ")"}
            if isinstance(found[-1], HeadAggregate):
                expected = frozenset({",", ")"})
            elif tokens[self.at - 1][0] == "name" and tokens[self.at - 2][0] in "(,":
                expected |= {"<"} if tokens[self.at - 1][1] != "_" else set()
            self.refuse(expected)
        self.at += 1
        arguments = [value if isinstance(value, HeadAggregate) else as_expression(value) for value in found]
        return Atom(name[1], tuple(arguments), stretch(name, end))

    def no_suffix(self) -> None:
        """Refuse `@t` and `at s` behind a head; what else comes next is not looked at."""
        token = self.tokens[self.at]
        if token[0] == "@":
            raise Misread("a head has no time", span_of_token(token),
                          "tuples of views have the time at which they came into them, facts that of the clock; any "
                          "other time goes into a column")
        if self.synchronised():
            raise Misread("a head is not read at points of time", span_of_token(token),
                          "`at` stands behind what a rule reads: hot(r, v) :- temp(r, v) at every2.")

    def head_argument(self, expected: frozenset[str]) -> Any:
        """A value, or an aggregate such as `min<x>`."""
        name = self.tokens[self.at]
        if name[0] != "name" or name[1] == "_":
            return self.expression(expected)
        after = self.tokens[self.at + 1][0]
        if after == "<" or after == "<=":
            return self.head_aggregate(name)
        if name[1] in AGGREGATE_WORDS and after not in VALUE and after != ":" and after != ":-":
            self.aggregates.append(name)
            self.at += 1
            self.refuse(VALUE | {":", "<"})
        return self.expression(expected)

    def head_aggregate(self, name: Token) -> HeadAggregate:
        if name[1] in AGGREGATE_WORDS:
            self.aggregates.append(name)
        self.at += 1
        inside = VALUE | {"*"}
        if self.tokens[self.at][0] == "<=":
            self.refuse(inside, 1)
        self.at += 1
        target, parameter = None, None
        if self.accept("*"):
            if self.tokens[self.at][0] == ">=":
                self.refuse(frozenset({",", ")"}), 1)
            expected = frozenset({">"})
        else:
            target = self.expression(inside)
            expected = OPERATORS | {">", ","}
            if self.accept(","):
                parameter = self.expression()
                expected = self.behind_parameter(">")
        span = stretch(name, self.take(">", expected))
        if name[1] in AGGREGATE_WORDS:
            self.aggregates.pop()
        if target is None and name[1] != "count":
            raise Misread(f"only count can be given a star: write {name[1]}<x> with what to aggregate", span)
        if target is not None:
            target = as_expression(target)
        return HeadAggregate(name[1], target, span, parameter=as_expression(parameter) if parameter else None)
