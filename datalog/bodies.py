"""Literals from tokens, and aggregates, whose bodies are literals.

`f(x)` in a body is an atom or the beginning of `f(x) < 3`: it is an atom where nothing follows that goes on.
"""

from __future__ import annotations

from typing import Any

from datalog.ast import Aggregate, Atom, Call, Comparison, Negation
from datalog.expressions import ExpressionReader
from datalog.kinds import (
    AGGREGATED,
    BEHIND_VALUE,
    COMPARATORS,
    ENDS_LITERAL,
    LITERAL,
    NO_ATOMS,
    OPERATORS,
    STRENGTH,
    VALUE,
)
from datalog.pieces import Body, Misread, Raw, as_expression, between, flat_body, placed, settle
from datalog.tokens import Token, span_of_token, stretch

__all__ = ["BodyReader"]

_GOES_ON = OPERATORS | COMPARATORS
_NOTHING = frozenset[str]()


class BodyReader(ExpressionReader):
    """Reads literals and what is in them."""

    __slots__ = ()

    # --- literals ---

    def branches(self, closing: str, atoms: bool, first: Any = None) -> tuple[Raw, ...]:
        """The alternatives of a disjunction up to a closing token, which is left; each is a conjunction.

        Names with arguments are atoms if `atoms`, else calls: it is not clear yet what they are part of. The `first`
        literal may have been read before.
        """
        found: list[Raw] = []
        branch = [first or self.literal(atoms)]
        while True:
            kind = self.tokens[self.at][0]
            if kind == ",":
                self.at += 1
                branch.append(self.literal(atoms))
            elif kind == ";":
                self.at += 1
                found.append(tuple(branch))
                branch = [self.literal(atoms)]
            elif kind == closing or (kind == "directive" and closing == "." and self.glued()):
                found.append(tuple(branch))
                return tuple(found)
            else:
                self.refuse(self.behind_literal(",", ";", closing))

    def behind_literal(self, *others: str) -> frozenset[str]:
        """What can follow the literal that was read last: where something ends it, nothing goes on with it."""
        return frozenset(others) if self.tokens[self.at][0] in ENDS_LITERAL else self.goes_on.union(others)

    def glued(self) -> bool:
        """Whether the directive that comes next stands directly behind something: its dot ends a rule, `r(1).type`."""
        offset = self.tokens[self.at][4]
        return offset > 0 and not self.text[offset - 1].isspace()

    def literal(self, atoms: bool) -> Any:
        """A condition, or what may become one."""
        tokens, at = self.tokens, self.at
        token = tokens[at]
        kind = token[0]
        if kind == "name":
            if atoms and tokens[at + 1][0] == "(" and token[1] not in NO_ATOMS:
                self.at = at + 2
                self.goes_on = _GOES_ON
                arguments = self.arguments(")")
                end = tokens[self.at - 1]
                after = tokens[self.at][0]
                if after in ENDS_LITERAL:
                    return Atom(token[1], arguments, stretch(token, end))
                if after not in _GOES_ON:
                    return self.atom(token, arguments)
                return self.rest(self.power(Call(token[1], arguments, stretch(token, end))))
            return self.rest(self.power(self.primary(LITERAL)))
        if kind == "!" or kind == "!=":
            self.goes_on = _NOTHING
            return self.negation()
        if kind == "(" or kind == "-":
            value, whole = self.prefixed(True)
            if whole:
                self.goes_on = _NOTHING
                return value
            return self.rest(value)
        return self.rest(self.power(self.primary(LITERAL)))

    def rest(self, left: Any) -> Any:
        """The literal that begins with this operand."""
        kind = self.tokens[self.at][0]
        if kind in STRENGTH:
            left = self.operations(left, 0)
            kind = self.tokens[self.at][0]
        if kind not in COMPARATORS:
            self.goes_on = _NOTHING if isinstance(left, Atom) else _GOES_ON
            return left
        self.at += 1
        self.deeper()
        right = self.expression()
        self.depth -= 1
        self.goes_on = OPERATORS
        return Comparison(kind, as_expression(left), as_expression(right), between(left.span, right.span))

    def negation(self) -> Negation:
        bang = self.tokens[self.at]
        if bang[0] == "!=":
            self.refuse(frozenset({"name"}), 1)
        self.at += 1
        atom = self.whole_atom()
        return Negation(atom, between(span_of_token(bang), atom.span))

    def whole_atom(self) -> Atom:
        name = self.take("name")
        self.take("(")
        return self.atom(name, self.arguments(")"))


    # --- aggregates ---

    def aggregate(self, name: Token, free: bool) -> Any:
        """What begins with the name of an aggregate: one that is `free`, or one that is a reserved word.

        The latter may also be a function, `min(a, b)`; what is in its bracket is read as if it were literals.
        """
        self.aggregates.append(name)
        opening = self.tokens[self.at]
        target: Any = None
        if free:
            target = self.expression()
        elif opening[0] == "(":
            self.at += 1
            self.deeper()
            items, separators = [self.literal(False)], set[str]()
            while (separator := self.tokens[self.at][0]) == "," or separator == ";":
                self.at += 1
                separators.add(separator)
                items.append(self.literal(False))
            end = self.take(")", self.behind_literal(",", ";", ")"))
            self.depth -= 1
            if ";" in separators:
                raise Misread(f"the arguments of {name[1]} are separated by `,`, not `;`", stretch(name, end))
            if separators:
                self.aggregates.pop()
                return Call(name[1], tuple(map(as_expression, items)), stretch(name, end))
            target = self.operations(self.power(placed(items[0], stretch(opening, end))), 0)
        elif opening[0] != ":" and opening[0] != ":-":
            target = self.expression(VALUE | {":"})
        parameter = self.colon(target is not None)
        self.deeper()
        if self.tokens[self.at][0] == "name":
            atom = self.whole_atom()
            body: Body = (atom,)
            span = between(span_of_token(name), atom.span)
        else:
            start = self.take("{", AGGREGATED)
            branches = self.branches("}", True)
            end = self.take("}")
            span = stretch(name, end)
            body = flat_body(settle(branches), stretch(start, end))
            if not body:
                raise Misread("the body of an aggregate cannot be empty", stretch(start, end))
        self.depth -= 1
        self.aggregates.pop()
        if target is not None:
            target = as_expression(target)
        elif name[1] != "count":
            raise Misread(f"{name[1]} needs something to aggregate: {name[1]} x : {{ ... }}", span)
        return Aggregate(name[1], target, body, span, parameter=as_expression(parameter) if parameter else None)

    def colon(self, target: bool) -> Any:
        """The parameter of an aggregate, if it has one, and the colon before its body."""
        parameter = None
        expected = OPERATORS | {":", ","}
        if target and self.accept(","):
            parameter = self.expression()
            expected = self.behind_parameter(":")
        if self.tokens[self.at][0] == ":-":  # no aggregate is followed by that: it is a colon and a minus
            self.refuse(AGGREGATED, 1)
        self.take(":", expected)
        return parameter

    def behind_parameter(self, closing: str) -> frozenset[str]:
        """What can follow the parameter of an aggregate: a name could also be that of a function."""
        called = self.tokens[self.at - 1][0] == "name" and self.tokens[self.at][0] not in BEHIND_VALUE
        return OPERATORS | {closing, "("} if called else OPERATORS | {closing}
