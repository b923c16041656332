"""Expressions from tokens: the nodes of `datalog.ast`, made while they are read.

They are read by precedence: `+ -`, then `* / %`, then a minus in front, then `^`. What is nested calls itself, which
`DEEPEST` bounds. Brackets around brackets and signs before signs are not nested in the tree, and are read in a loop.

`(` at the beginning of a literal opens either an expression, `(x + 1) * 2 < y`, or a group of literals, `(a(x); b(x))`:
what is inside is read as literals, and refused where only a value makes sense. `datalog.bodies` reads literals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from datalog.ast import DEEPEST, Call, Constant, Expression, Negation, Span, Variable
from datalog.kinds import (
    AGGREGATE_WORDS,
    BEFORE_TARGET,
    FIRST,
    FREE_AGGREGATE,
    LITERAL,
    OPERATORS,
    SPECIAL,
    STRENGTH,
    SUFFIX,
    VALUE,
)
from datalog.pieces import (
    Group,
    Raw,
    as_expression,
    between,
    fold_list,
    negated,
    placed,
    read_float,
    read_integer,
    read_string,
    settle,
)
from datalog.times import TimeReader
from datalog.tokens import Token, span_of_token, stretch

__all__ = ["ExpressionReader"]


class ExpressionReader(TimeReader, ABC):
    """Reads values; what holds literals is read by who extends this."""

    __slots__ = ()

    @abstractmethod
    def rest(self, left: Any) -> Any:
        """The literal that begins with this operand."""

    @abstractmethod
    def negation(self) -> Negation:
        """A literal that begins with `!`."""

    @abstractmethod
    def branches(self, closing: str, atoms: bool, first: Any = None) -> tuple[Raw, ...]:
        """The alternatives of a disjunction up to a closing token."""

    @abstractmethod
    def behind_literal(self, *others: str) -> frozenset[str]:
        """What can follow the literal that was read last."""

    @abstractmethod
    def aggregate(self, name: Token, free: bool) -> Any:
        """What begins with the name of an aggregate."""

    def arguments(self, closing: str) -> tuple[Expression, ...]:
        """Expressions up to a closing bracket."""
        tokens = self.tokens
        if tokens[self.at][0] == closing:
            self.at += 1
            return ()
        self.deeper()
        found = [self.expression(FIRST[closing])]
        while (kind := tokens[self.at][0]) == ",":
            self.at += 1
            found.append(self.expression())
        if kind != closing:
            self.refuse(OPERATORS | {",", closing})
        self.at += 1
        self.depth -= 1
        return tuple(map(as_expression, found))

    def deeper(self) -> None:
        """One level down; who comes back up takes it from `depth` again."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise RecursionError

    def expression(self, expected: frozenset[str] = VALUE) -> Any:
        """A value, if it is one: brackets may hold a condition, and `true` is one."""
        tokens = self.tokens
        kind = tokens[self.at][0]
        value = self.prefixed(False)[0] if kind == "(" or kind == "-" else self.primary(expected)
        if tokens[self.at][0] in OPERATORS:
            value = self.operations(self.power(value), 0)
        return value

    def operations(self, left: Any, strength: int) -> Any:
        """The operand and what binds it more strongly than that."""
        while True:
            token = self.tokens[self.at]
            found = STRENGTH.get(token[0], 0)
            if found <= strength:
                return left
            self.at += 1
            self.deeper()
            kind = self.tokens[self.at][0]
            right = self.prefixed(False)[0] if kind == "(" or kind == "-" else self.power(self.primary(VALUE))
            if STRENGTH.get(self.tokens[self.at][0], 0) > found:
                right = self.operations(right, found)
            self.depth -= 1
            left = Call(token[0], (as_expression(left), as_expression(right)), between(left.span, right.span))

    def power(self, base: Any) -> Any:
        """The operand that begins like this: itself, or a power of it."""
        if self.tokens[self.at][0] != "^":
            return base
        self.at += 1
        self.deeper()
        kind = self.tokens[self.at][0]
        exponent = self.prefixed(False)[0] if kind == "(" or kind == "-" else self.power(self.primary(VALUE))
        self.depth -= 1
        return Call("^", (as_expression(base), as_expression(exponent)), between(base.span, exponent.span))

    def prefixed(self, beginning: bool) -> tuple[Any, bool]:
        """What begins with brackets and signs, and whether it is a literal that no operator can follow.

        At the `beginning` of a literal a bracket may be that of a group.
        """
        prefixes: list[tuple[Token, bool]] = []
        while (kind := self.tokens[self.at][0]) == "(" or kind == "-":
            prefixes.append((self.tokens[self.at], beginning))
            beginning = kind == "("
            self.at += 1
        whole = beginning and (kind == "!" or kind == "!=")
        value = self.negation() if whole else self.primary(LITERAL if beginning else VALUE)
        while True:
            if not whole:
                value = self.power(value)
            while prefixes and prefixes[-1][0][0] == "-":
                value = self.negated(prefixes.pop()[0], value)
            if not prefixes:
                return value, whole
            opening, may_be_group = prefixes.pop()
            if whole:
                self.goes_on = frozenset()
            else:
                value = self.rest(value)
            whole = self.tokens[self.at][0] != ")"
            if not whole:
                self.at += 1
                value = placed(value, stretch(opening, self.tokens[self.at - 1]))
            elif may_be_group:
                self.deeper()
                branches = self.branches(")", False, value)
                self.depth -= 1
                self.at += 1
                value = Group(settle(branches), stretch(opening, self.tokens[self.at - 1]))
            else:
                self.refuse(self.behind_literal(")"))

    def negated(self, minus: Token, operand: Any) -> Expression:
        operand = as_expression(operand)
        span = between(span_of_token(minus), operand.span)
        if isinstance(operand, Constant) and isinstance(operand.value, (int, float)):
            return negated(operand, span)
        return Call("neg", (operand,), span)

    def primary(self, expected: frozenset[str]) -> Any:
        """A constant, a variable, a call, a list or an aggregate."""
        tokens, at = self.tokens, self.at
        token = tokens[at]
        kind, text, line, column, offset = token
        self.at = at + 1
        if kind == "name":
            after = tokens[at + 1][0]
            if text in SPECIAL or after in BEFORE_TARGET:
                if text in AGGREGATE_WORDS:
                    return self.aggregate(token, False)
                if FREE_AGGREGATE.match(self.text, offset):
                    return self.aggregate(token, True)
                if text == "_":
                    self.anonymous = True
                    return Variable("_#", Span(line, column, line, column + 1))
            if after == "(":
                self.at = at + 2
                arguments = self.arguments(")")
                if tokens[self.at][0] in SUFFIX:
                    atom = self.atom(token, arguments)
                    if atom.time is not None or atom.sync is not None:
                        return atom
                return Call(text, arguments, stretch(token, tokens[self.at - 1]))
            span = Span(line, column, line, column + len(text))
            return Variable(text, span) if text != "nil" else Constant((), span)
        if kind == "integer":
            return Constant(read_integer(token), Span(line, column, line, column + len(text)))
        if kind == "string":
            return Constant(read_string(token), Span(line, column, line, column + len(text)))
        if kind == "float":
            return Constant(read_float(token), span_of_token(token))
        if kind == "[":
            arguments = self.arguments("]")
            return fold_list(Call("list", arguments, stretch(token, tokens[self.at - 1])))
        self.at = at
        self.refuse(expected)
