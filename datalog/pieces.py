"""What is made on the way from text to `datalog.ast`, and does not outlive parsing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from datalog.ast import (
    DEEPEST,
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negation,
    Span,
    Variable,
    replace,
)
from datalog.tokens import Token, span_of_token

__all__ = [
    "NESTED",
    "Alias", "Clause", "ConstantDefinition", "Declaration", "Group", "Item", "Misread", "Name", "Pragma", "Qualifier",
    "Raw", "Truth", "as_expression", "as_item", "between", "flat_body", "fold_list", "negated", "never", "placed",
    "read_float", "read_integer", "read_string", "settle",
]

NESTED = f"this is nested more than {DEEPEST} levels deep: split it into several rules"
SMALLEST, LARGEST = -(2**63), 2**64 - 1
_OPERATIONS = frozenset({"+", "-", "*", "/", "%", "^", "neg", "list"})


class Misread(Exception):
    """The text fits the grammar and still cannot be read; becomes a `SyntaxProblem`."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Group:
    """Literals in parentheses: the alternatives of a disjunction, each a conjunction."""

    branches: tuple[tuple[Any, ...], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Truth:
    """`true` or `false` as a literal."""

    value: bool
    span: Span


Item = Literal | Group | Truth
Raw = tuple[Any, ...]
Body = tuple[Literal, ...]


@dataclass(slots=True)
class Clause:
    """A rule or fact as written, how many tokens it has, and whether `_` is one of them."""

    heads: tuple[Atom, ...]
    branches: tuple[tuple[Item, ...], ...]
    span: Span
    text: str
    size: int
    anonymous: bool


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a declaration."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Qualifier:
    """`key(...)`, `partition(...)`, `ttl(...)`, `bag`, `stream` or one of Souffle's.

    `value` is a tuple of names, a number, or True.
    """

    kind: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Declaration:
    names: tuple[Name, ...]
    columns: tuple[Column, ...]
    qualifiers: tuple[Qualifier, ...]


@dataclass(frozen=True, slots=True)
class Pragma:
    """`.pragma "..."`, an option of Souffle."""

    span: Span


@dataclass(frozen=True, slots=True)
class ConstantDefinition:
    name: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Alias:
    name: str
    type: str
    span: Span


def between(first: Span, last: Span) -> Span:
    """From the beginning of one span to the end of another."""
    return Span(first.line, first.column, last.end_line, last.end_column)


def placed(node: Any, span: Span) -> Any:
    """The node, at another place: that of the brackets around it."""
    return Group(node.branches, span) if isinstance(node, Group) else replace(node, span=span)


# --- reading tokens ------------------------------------------------------------------------------------------

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "'": "'", "0": "\0"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def read_integer(token: Token) -> int:
    """Decimal, `0x` and `0b` integers, with or without Souffle's suffix `u`.

    >>> [read_integer(("integer", text, 1, 1, 0)) for text in ("10", "0xff", "0b101", "7u", "010")]
    [10, 255, 5, 7, 10]
    """
    text = token[1]
    if len(text) < 19 and text.isdecimal():
        return int(text)
    text = text.lower().removesuffix("u")
    if len(text) > 70:  # far beyond 64 bits; Python refuses to read thousands of digits
        raise Misread("this integer does not fit in 64 bits", span_of_token(token))
    value = int(text, {"0x": 16, "0b": 2}.get(text[:2], 10))
    if value > LARGEST:
        raise Misread(f"the integer {token[1]} does not fit in 64 bits", span_of_token(token))
    return value


def read_float(token: Token) -> float:
    """The value of a float, which is finite."""
    value = float(token[1])
    if value == float("inf"):
        raise Misread(f"{token[1]} is too large for a float", span_of_token(token))
    return value


def read_string(token: Token) -> str:
    r"""The value of a quoted string.

    >>> read_string(("string", r'"say \"hi\"\n"', 1, 1, 0))
    'say "hi"\n'
    """

    def unescape(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code:
            if int(code, 16) > 0x10FFFF or 0xD800 <= int(code, 16) < 0xE000:
                raise Misread(f"`{match[0]}` is no character", span_of_token(token))
            return chr(int(code, 16))
        if match[4] not in _ESCAPES:
            raise Misread(
                f"`\\{match[4]}` is not an escape that strings know", span_of_token(token),
                "the escapes are \\\" \\\\ \\n \\t \\r \\0 \\' \\xHH \\uHHHH \\UHHHHHHHH; a backslash is written \\\\",
            )
        return _ESCAPES[match[4]]

    text = token[1][1:-1]
    return _ESCAPE.sub(unescape, text) if "\\" in text else text


# --- telling literals from expressions -----------------------------------------------------------------------


def as_expression(node: Any) -> Expression:
    """The node, if it is a value; a comparison, a negation, a group, `true` and `false` are not."""
    if isinstance(node, Variable):
        if node.name in ("true", "false"):
            number = int(node.name == "true")
            raise Misread(
                f"`{node.name}` is a condition, not a value", node.span,
                f'there are no truth values: write the number {number}, or the symbol "{node.name}" in quotes',
            )
        return node
    if isinstance(node, (Constant, Call, Aggregate)):
        return node
    if isinstance(node, Atom):
        hint = "read it in a condition of its own, and use the variables that it binds"
        raise Misread("what is read with `@` or `at` is not a value", node.span, hint)
    kind = "comparison" if isinstance(node, Comparison) else "negation" if isinstance(node, Negation) else "group"
    raise Misread(f"a {kind} is not a value and cannot stand inside an expression", node.span)


def as_item(node: Any) -> Item:
    """The node as a literal: a call that stands alone is an atom."""
    if isinstance(node, (Atom, Comparison, Negation, Group, Truth)):
        return node
    if isinstance(node, Call) and node.function not in _OPERATIONS:
        return Atom(node.function, node.arguments, node.span)
    if isinstance(node, Variable) and node.name in ("true", "false"):
        return Truth(node.name == "true", node.span)
    if isinstance(node, Variable) and not node.anonymous:
        raise Misread(
            f"`{node.name}` alone is not a condition", node.span,
            f"a relation without columns is written {node.name}()",
        )
    raise Misread("a value alone is not a condition: compare it with something", node.span)


def settle(branches: tuple[Raw, ...]) -> tuple[tuple[Item, ...], ...]:
    """Raw branches as literals."""
    return tuple([tuple(map(as_item, branch)) for branch in branches])


def flat_body(branches: tuple[tuple[Item, ...], ...], span: Span) -> Body:
    """The body of an aggregate as plain literals; alternatives are refused."""
    if len(branches) > 1:
        raise Misread(
            "the body of an aggregate cannot hold a disjunction", span,
            "give the alternatives a relation of their own, and aggregate over that",
        )
    literals: list[Literal] = []
    for item in branches[0]:
        if isinstance(item, Group):
            literals += flat_body(item.branches, item.span)
        elif isinstance(item, Truth):
            literals += [] if item.value else [never(item.span)]
        else:
            literals.append(item)
    return tuple(literals)


def never(span: Span) -> Comparison:
    """What `false` becomes: a comparison that fails."""
    return Comparison("=", Constant(0, span), Constant(1, span), span)


def negated(number: Constant, span: Span) -> Constant:
    """The constant with a minus in front."""
    if isinstance(number.value, int) and number.value > -SMALLEST:
        raise Misread(f"the integer -{number.value} does not fit in 64 bits", span)
    return Constant(-number.value, span)


def fold_list(call: Call) -> Expression:
    """`[1, 2]` as one constant, if all its elements are constants."""
    if all(isinstance(a, Constant) for a in call.arguments):
        return Constant(tuple(a.value for a in call.arguments if isinstance(a, Constant)), call.span)
    return call
