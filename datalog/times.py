"""What stands behind an atom, from tokens: `@t`, the time of a tuple, and `at s`, the points at which it is read.

`at` and `every` are no reserved words: `at` is one behind the bracket of an atom, unless a bracket of its own follows,
and `every` is one where a bracket follows.
"""

from __future__ import annotations

from typing import Any

from datalog.ast import Atom, Constant, Expression, Sync, Ticks, Variable
from datalog.kinds import OPERATORS
from datalog.pieces import Misread, negated, read_float, read_integer
from datalog.report import suggestion
from datalog.tokens import Token, Tokens, span_of_token, stretch

__all__ = ["TimeReader"]

_NOTHING = frozenset[str]()
_NUMBER = frozenset({"integer", "float"})
_TIME = "the time of a tuple is a variable or a number, r(x)@t"
_POINTS = "it is followed by the name of a view of points of time, `at every2`, or by `every(2)`"
_EVERY = "write every(2) for the points 0, 2, 4, ..., or every(10, from=3) for 3, 13, 23, ..."


class TimeReader(Tokens):
    """Reads what stands behind the bracket of an atom."""

    __slots__ = ("anonymous", "goes_on")
    anonymous: bool
    """Whether a `_` was read."""
    goes_on: frozenset[str]
    """What could go on with the literal that was read last."""

    def atom(self, name: Token, arguments: tuple[Expression, ...]) -> Atom:
        """The atom of which the name and the arguments were read, with what stands behind its bracket."""
        time = self.time() if self.tokens[self.at][0] == "@" else None
        sync = self.sync() if self.synchronised() else None
        if sync is not None and self.tokens[self.at][0] == "@":
            raise Misread("the time stands before `at`", span_of_token(self.tokens[self.at]), "write r(x)@t at s")
        if time is not None or sync is not None:
            self.goes_on = _NOTHING
        return Atom(name[1], arguments, stretch(name, self.tokens[self.at - 1]), time, sync)

    def time(self) -> Any:
        """`@t`: the variable or number behind it."""
        sign = self.tokens[self.at]
        self.at += 1
        if self.tokens[self.at][0] == "string":
            token = self.tokens[self.at]
            raise Misread("the time of a tuple is a number, not a text", span_of_token(token), _TIME)
        value = self.number_or_name()
        if value is None:
            raise Misread("`@` needs a variable behind it, for the time of the tuple", span_of_token(sign), _TIME)
        after = self.tokens[self.at]
        if after[0] in OPERATORS or after[0] == "(":
            raise Misread("the time of a tuple cannot be computed", stretch(sign, after),
                          "give it a variable, r(x)@t, and compute with that in a condition")
        return value

    def synchronised(self) -> bool:
        """Whether `at` comes next, and is no relation of this name."""
        kind, text, *_ = self.tokens[self.at]
        return text == "at" and kind == "name" and self.tokens[self.at + 1][0] != "("

    def sync(self) -> Sync:
        """`at s`, or `at every(2)`."""
        word = self.tokens[self.at]
        name = self.tokens[self.at + 1]
        if name[0] != "name" or name[1] == "_":
            raise Misread("`at` needs points of time behind it", span_of_token(word), _POINTS)
        self.at += 2
        if self.tokens[self.at][0] != "(":
            return Sync(name[1], None, span_of_token(name))
        if name[1] == "every":
            ticks = self.ticks(name)
            return Sync("every", ticks, stretch(name, self.tokens[self.at - 1]))
        raise Misread(f"`{name[1]}` stands without arguments behind `at`", span_of_token(name),
                      f"every tuple of it is a point of time: write at {name[1]}")

    def ticks(self, every: Token) -> Ticks:
        """The period of `every`, and where it starts."""
        self.at += 1
        period = self.number_or_name()
        if period is None or (isinstance(period, Variable) and self.tokens[self.at][0] == "="):
            raise Misread("`every` needs a period first", stretch(every, self.tokens[self.at - 1]), _EVERY)
        start = None
        if self.accept(","):
            setting = self.tokens[self.at]
            if setting[0] != "name" or self.tokens[self.at + 1][0] != "=":
                raise Misread("`every` takes a period, and where it starts by name", span_of_token(setting), _EVERY)
            if setting[1] != "from":
                near = suggestion(setting[1], ["from"])
                raise Misread(f"`every` has no setting `{setting[1]}`{near}", span_of_token(setting), _EVERY)
            self.at += 2
            start = self.number_or_name()
            if start is None:
                raise Misread("`from=` needs a number behind it", span_of_token(setting), _EVERY)
        self.take(")", frozenset({")"} if start is not None else {")", ","}))
        return Ticks(period, start)

    def number_or_name(self) -> Any:
        """A number, with a minus in front or without, a name, or `_`; None if it is neither."""
        first = self.tokens[self.at]
        minus = first[0] == "-"
        token = self.tokens[self.at + 1] if minus else first
        if token[0] in _NUMBER:
            self.at += 1 + minus
            number = Constant(read_integer(token) if token[0] == "integer" else read_float(token), span_of_token(token))
            return negated(number, stretch(first, token)) if minus else number
        if first[0] != "name" or first[1] in ("nil", "true", "false"):
            return None
        self.at += 1
        self.anonymous |= first[1] == "_"
        return Variable("_#" if first[1] == "_" else first[1], span_of_token(first))
