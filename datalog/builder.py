"""What lark calls for every piece of the grammar: it makes the nodes of `datalog.ast`.

The builder keeps no state, so one lark parser serves every parse in every thread. Clauses leave it as they
were written (`Clause`: several heads, a body with groups); `datalog.parser` turns them into plain rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Union

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Directive,
    Expression,
    HeadAggregate,
    Literal,
    Negation,
    Span,
    Variable,
)

__all__ = ["Alias", "Builder", "Clause", "ConstantDefinition", "Declaration", "Group", "Misread", "Truth"]

DEEPEST = 200  # levels of nesting; everything that walks a program is recursive
LOWEST, HIGHEST = -(2**63), 2**64 - 1


class Misread(Exception):
    """The text fits the grammar and still cannot be read; becomes a `SyntaxProblem`."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


# --- pieces that do not outlive parsing ----------------------------------------------------------------------


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


Item = Union[Literal, Group, Truth]
Raw = tuple[Any, ...]
Body = tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """A rule or fact as written. `start` and `end` are offsets into the text."""

    heads: tuple[Atom, ...]
    branches: tuple[tuple[Item, ...], ...]
    span: Span
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Qualifier:
    """`key(...)`, `partition(...)`, `ttl(...)` or `bag`; `value` is a tuple of names, a number, or True."""

    kind: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Declaration:
    names: tuple[Token, ...]
    columns: tuple[Column, ...]
    qualifiers: tuple[Qualifier, ...]


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


def token_span(token: Token) -> Span:
    """The place of a token."""
    line, column = token.line or 0, token.column or 0
    return Span(line, column, token.end_line or line, token.end_column or column + len(token))


def meta_span(meta: Meta) -> Span:
    """The place of a grammar rule."""
    return Span(meta.line, meta.column, meta.end_line, meta.end_column)


@v_args(inline=True, meta=True)
class Builder(Transformer_NonRecursive[Token, Any]):
    """One method per rule or alias of `grammar.lark`."""

    # --- declarations and directives ---

    def program(self, meta: Meta, *statements: Any) -> list[Any]:
        return [s for item in statements for s in (item if isinstance(item, list) else [item])]

    def name_list(self, meta: Meta, *names: Token) -> tuple[Token, ...]:
        return names

    def columns(self, meta: Meta, *columns: Column) -> tuple[Column, ...]:
        return columns

    def column(self, meta: Meta, name: Token, type_: Token) -> Column:
        return Column(str(name), str(type_), span=meta_span(meta))

    def decl(self, meta: Meta, names: tuple[Token, ...], *rest: Any) -> Declaration:
        columns = rest[0] if rest and isinstance(rest[0], tuple) else ()
        return Declaration(names, columns, tuple(r for r in rest if isinstance(r, Qualifier)))

    def column_qualifier(self, meta: Meta, kind: Token, names: tuple[Token, ...]) -> Qualifier:
        return Qualifier(str(kind), names, meta_span(meta))

    def ttl_qualifier(self, meta: Meta, kind: Token, value: Token) -> Qualifier:
        number = float(value) if value.type == "FLOAT" else float(read_integer(value))
        return Qualifier("ttl", number, meta_span(meta))

    def bag_qualifier(self, meta: Meta, kind: Token) -> Qualifier:
        return Qualifier("bag", True, meta_span(meta))

    def directive(
        self, meta: Meta, kind: Token, names: tuple[Token, ...], parameters: dict[str, Any] | None = None
    ) -> list[Directive]:
        return [Directive(kind[1:], str(name), dict(parameters or {}), token_span(name)) for name in names]

    def parameters(self, meta: Meta, *pairs: tuple[str, Any]) -> dict[str, Any]:
        return dict(pairs)

    def parameter(self, meta: Meta, name: Token, value: Any) -> tuple[str, Any]:
        if isinstance(value, Constant):
            return str(name), value.value
        if value.type == "STRING":
            return str(name), read_string(value)
        return str(name), {"true": True, "false": False}.get(value, str(value))

    def const(self, meta: Meta, name: Token, value: Constant) -> ConstantDefinition:
        if name in ("nil", "true", "false"):
            raise Misread(f"`{name}` is a word of the language and cannot be the name of a constant", token_span(name))
        return ConstantDefinition(str(name), value.value, token_span(name))

    def type_alias(self, meta: Meta, name: Token, relation: Token, type_: Token) -> Alias:
        return Alias(str(name), str(type_), meta_span(meta))

    def signed(self, meta: Meta, number: Constant) -> Constant:
        return number

    def negative(self, meta: Meta, number: Constant) -> Constant:
        return Constant(-number.value, meta_span(meta))

    # --- rules ---

    def rule(self, meta: Meta, heads: tuple[Atom, ...], *body: Any) -> Clause:
        branches = settle(body[0]) if body else ((),)
        return Clause(heads, branches, meta_span(meta), meta.start_pos, meta.end_pos)

    def heads(self, meta: Meta, *heads: Atom) -> tuple[Atom, ...]:
        return heads

    def head(self, meta: Meta, name: Token, arguments: tuple[Any, ...] = ()) -> Atom:
        return Atom(str(name), arguments, meta_span(meta))

    def head_arguments(self, meta: Meta, *arguments: Any) -> tuple[Any, ...]:
        return tuple(a if isinstance(a, HeadAggregate) else as_expression(a) for a in arguments)

    def head_aggregate(self, meta: Meta, name: Token, target: Any) -> HeadAggregate:
        return HeadAggregate(str(name), as_expression(target), meta_span(meta))

    def head_count(self, meta: Meta, name: Token, star: Token) -> HeadAggregate:
        if name != "count":
            raise Misread(f"only count can be given a star: write {name}<x> with what to aggregate", meta_span(meta))
        return HeadAggregate("count", None, meta_span(meta))

    # Branches stay raw (calls and lone names among the literals) until it is clear what they are part of.

    def disjunction(self, meta: Meta, branch: Raw) -> tuple[Raw, ...]:
        return (branch,)

    def disjunction_more(self, meta: Meta, branches: tuple[Raw, ...], branch: Raw) -> tuple[Raw, ...]:
        return (*branches, branch)

    def conjunction(self, meta: Meta, item: Any) -> Raw:
        return (item,)

    def conjunction_more(self, meta: Meta, items: Raw, item: Any) -> Raw:
        return (*items, item)

    several_branches = disjunction_more

    def several_literals(self, meta: Meta, items: Raw, item: Any) -> tuple[Raw, ...]:
        return ((*items, item),)

    def group(self, meta: Meta, several: tuple[Raw, ...]) -> Group:
        return Group(settle(several), meta_span(meta))

    def comparison(self, meta: Meta, left: Any, op: Token | str, right: Any) -> Comparison:
        return Comparison(str(op), as_expression(left), as_expression(right), meta_span(meta))

    def less(self, meta: Meta) -> str:
        return "<"

    def greater(self, meta: Meta) -> str:
        return ">"

    def negation(self, meta: Meta, atom: Atom) -> Negation:
        return Negation(atom, meta_span(meta))

    def atom(self, meta: Meta, name: Token, arguments: tuple[Expression, ...] = ()) -> Atom:
        return Atom(str(name), arguments, meta_span(meta))

    def arguments(self, meta: Meta, *arguments: Any) -> tuple[Expression, ...]:
        return tuple(as_expression(a) for a in arguments)

    # --- expressions ---

    def binary(self, meta: Meta, left: Any, op: Token, right: Any) -> Call:
        return Call(str(op), (as_expression(left), as_expression(right)), meta_span(meta))

    def negate(self, meta: Meta, minus: Token, operand: Any) -> Expression:
        operand = as_expression(operand)
        if isinstance(operand, Constant) and isinstance(operand.value, (int, float)):
            return Constant(-operand.value, meta_span(meta))
        return Call("neg", (operand,), meta_span(meta))

    def integer(self, meta: Meta, token: Token) -> Constant:
        return Constant(read_integer(token), token_span(token))

    def float_(self, meta: Meta, token: Token) -> Constant:
        value = float(token)
        if value == float("inf"):
            raise Misread(f"{token} is too large for a float", token_span(token))
        return Constant(value, token_span(token))

    def string(self, meta: Meta, token: Token) -> Constant:
        return Constant(read_string(token), token_span(token))

    def variable(self, meta: Meta, token: Token) -> Expression:
        return Constant((), token_span(token)) if token == "nil" else Variable(str(token), token_span(token))

    def anonymous(self, meta: Meta, token: Token) -> Variable:
        return Variable("_#", token_span(token))

    def call(self, meta: Meta, name: Token, arguments: tuple[Expression, ...] = ()) -> Call:
        return Call(str(name), arguments, meta_span(meta))

    def several_call(self, meta: Meta, name: Token, several: tuple[Raw, ...]) -> Call:
        """`min(a, b)`: its arguments were read as literals, see the remarks in the grammar."""
        if len(several) > 1:
            raise Misread(f"the arguments of {name} are separated by `,`, not `;`", meta_span(meta))
        return Call(str(name), tuple(as_expression(item) for item in several[0]), meta_span(meta))

    def list(self, meta: Meta, arguments: tuple[Expression, ...] = ()) -> Expression:
        return fold_list(Call("list", arguments, meta_span(meta)))

    def parenthesis(self, meta: Meta, inner: Any) -> Any:
        return inner

    def aggregate_all(self, meta: Meta, name: Token, body: Body) -> Aggregate:
        if name != "count":
            raise Misread(f"{name} needs something to aggregate: {name} x : {{ ... }}", meta_span(meta))
        return Aggregate("count", None, body, meta_span(meta))

    def aggregate(self, meta: Meta, name: Token, target: Any, body: Body) -> Aggregate:
        return Aggregate(str(name), as_expression(target), body, meta_span(meta))

    def lone_atom(self, meta: Meta, atom: Atom) -> Body:
        return (atom,)

    def braces(self, meta: Meta, branches: tuple[Raw, ...]) -> Body:
        body = flat_body(settle(branches), meta_span(meta))
        if not body:
            raise Misread("the body of an aggregate cannot be empty", meta_span(meta))
        return body


# --- reading tokens ------------------------------------------------------------------------------------------

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "'": "'", "0": "\0"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def read_integer(token: Token) -> int:
    """Decimal, `0x` and `0b` integers, with or without Souffle's suffix `u`.

    >>> [read_integer(Token("INTEGER", text)) for text in ("10", "0xff", "0b101", "7u", "010")]
    [10, 255, 5, 7, 10]
    """
    text = token.lower().removesuffix("u")
    if len(text) > 70:  # far beyond 64 bits; Python refuses to read thousands of digits
        raise Misread("this integer does not fit in 64 bits", token_span(token))
    value = int(text, {"0x": 16, "0b": 2}.get(text[:2], 10))
    if value > HIGHEST:
        raise Misread(f"the integer {token} does not fit in 64 bits", token_span(token))
    return value


def read_string(token: Token) -> str:
    r"""The value of a quoted string.

    >>> read_string(Token("STRING", r'"say \"hi\"\n"'))
    'say "hi"\n'
    """

    def unescape(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code:
            if int(code, 16) > 0x10FFFF:
                raise Misread(f"`\\U{code}` is no character", token_span(token))
            return chr(int(code, 16))
        if match[4] not in _ESCAPES:
            raise Misread(
                f"`\\{match[4]}` is not an escape that strings know", token_span(token),
                "the escapes are \\\" \\\\ \\n \\t \\r \\0 \\' \\xHH \\uHHHH \\UHHHHHHHH; a backslash is written \\\\",
            )
        return _ESCAPES[match[4]]

    return _ESCAPE.sub(unescape, token[1:-1])


# --- telling literals from expressions -----------------------------------------------------------------------


def as_expression(node: Any) -> Expression:
    """The node, if it is a value; a comparison, a negation or a group is not."""
    if isinstance(node, (Variable, Constant, Call, Aggregate)):
        return node
    kind = "comparison" if isinstance(node, Comparison) else "negation" if isinstance(node, Negation) else "group"
    raise Misread(f"a {kind} is not a value and cannot stand inside an expression", node.span)


def as_item(node: Any) -> Item:
    """The node as a literal: a call that stands alone is an atom."""
    if isinstance(node, (Comparison, Negation, Group, Atom, Truth)):
        return node
    if isinstance(node, Call) and re.match(r"[\w?]", node.function) and node.function not in ("neg", "list"):
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
    return tuple(tuple(as_item(node) for node in branch) for branch in branches)


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


def fold_list(call: Call) -> Expression:
    """`[1, 2]` as one constant, if all its elements are constants."""
    if all(isinstance(a, Constant) for a in call.arguments):
        return Constant(tuple(a.value for a in call.arguments if isinstance(a, Constant)), call.span)
    return call
