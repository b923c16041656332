"""What lark calls for every piece of the grammar: it makes the nodes of `datalog.ast`.

The builder keeps no state, so one lark parser serves every parse in every thread. Clauses leave it as they
were written (`Clause`: several heads, a body with groups); `datalog.parser` turns them into plain rules.
"""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

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
    Negation,
    Span,
    Variable,
    replace,
)
from datalog.pieces import (
    Alias,
    Body,
    Clause,
    ConstantDefinition,
    Declaration,
    Group,
    Misread,
    Qualifier,
    Raw,
    as_expression,
    between,
    flat_body,
    fold_list,
    negated,
    read_integer,
    read_string,
    settle,
    token_span,
)

__all__ = ["Builder"]


@v_args(inline=True)
class Builder(Transformer[Token, Any]):
    """One method per rule or alias of `grammar.lark`; brackets come along where a span needs them."""

    # --- declarations and directives ---

    def program(self, *statements: Any) -> list[Any]:
        return [s for item in statements for s in (item if isinstance(item, list) else [item])]

    def name_list(self, *names: Token) -> tuple[Token, ...]:
        return names

    def columns(self, *columns: Column) -> tuple[Column, ...]:
        return columns

    def column(self, name: Token, type_: Token) -> Column:
        return Column(str(name), str(type_), span=between(token_span(name), token_span(type_)))

    def decl(self, names: tuple[Token, ...], *rest: tuple[Any, ...]) -> Declaration:
        columns = next((part for part in rest if isinstance(part[0], Column)), ())
        qualifiers = next((part for part in rest if isinstance(part[0], Qualifier)), ())
        return Declaration(names, columns, qualifiers)

    def qualifiers(self, *qualifiers: Qualifier) -> tuple[Qualifier, ...]:
        return qualifiers

    def column_qualifier(self, kind: Token, names: tuple[Token, ...], end: Token) -> Qualifier:
        return Qualifier(str(kind), names, between(token_span(kind), token_span(end)))

    def ttl_qualifier(self, kind: Token, value: Token, end: Token) -> Qualifier:
        number = float(value) if value.type == "FLOAT" else float(read_integer(value))
        return Qualifier("ttl", number, between(token_span(kind), token_span(end)))

    def bag_qualifier(self, kind: Token) -> Qualifier:
        return Qualifier("bag", True, token_span(kind))

    def directive(
        self, kind: Token, names: tuple[Token, ...], parameters: dict[str, Any] | None = None
    ) -> list[Directive]:
        return [Directive(kind[1:], str(name), dict(parameters or {}), token_span(name)) for name in names]

    def approx(self, name: Token, threshold: Constant) -> Directive:
        return Directive("approx", str(name), {"threshold": threshold.value}, token_span(name))

    def parameters(self, *pairs: tuple[str, Any]) -> dict[str, Any]:
        return dict(pairs)

    def parameter(self, name: Token, value: Any) -> tuple[str, Any]:
        if isinstance(value, Constant):
            return str(name), value.value
        if value.type == "STRING":
            return str(name), read_string(value)
        return str(name), {"true": True, "false": False}.get(value, str(value))

    def const(self, name: Token, value: Constant) -> ConstantDefinition:
        if name in ("nil", "true", "false"):
            raise Misread(f"`{name}` is a word of the language and cannot be the name of a constant", token_span(name))
        return ConstantDefinition(str(name), value.value, token_span(name))

    def type_alias(self, start: Token, name: Token, relation: Token, type_: Token) -> Alias:
        return Alias(str(name), str(type_), between(token_span(start), token_span(type_)))

    def signed(self, number: Constant) -> Constant:
        return number

    def negative(self, minus: Token, number: Constant) -> Constant:
        return negated(number, between(token_span(minus), number.span))

    # --- rules ---

    def rule(self, heads: tuple[Atom, ...], *rest: Any) -> Clause:
        branches = settle(rest[0]) if len(rest) == 2 else ((),)
        return Clause(heads, branches, between(heads[0].span, token_span(rest[-1])))

    def heads(self, *heads: Atom) -> tuple[Atom, ...]:
        return heads

    def head(self, name: Token, *rest: Any) -> Atom:
        arguments = rest[1] if len(rest) == 3 else ()
        return Atom(str(name), arguments, between(token_span(name), token_span(rest[-1])))

    def head_arguments(self, *arguments: Any) -> tuple[Any, ...]:
        return tuple(a if isinstance(a, HeadAggregate) else as_expression(a) for a in arguments)

    def head_aggregate(self, name: Token, target: Any, *rest: Any) -> HeadAggregate:
        span = between(token_span(name), token_span(rest[-1]))
        parameter = as_expression(rest[0]) if len(rest) == 2 else None
        return HeadAggregate(str(name), as_expression(target), span, parameter=parameter)

    def head_count(self, name: Token, star: Token, end: Token) -> HeadAggregate:
        span = between(token_span(name), token_span(end))
        if name != "count":
            raise Misread(f"only count can be given a star: write {name}<x> with what to aggregate", span)
        return HeadAggregate("count", None, span)

    # Branches stay raw (calls and lone names among the literals) until it is clear what they are part of.

    def disjunction(self, branch: Raw) -> tuple[Raw, ...]:
        return (branch,)

    def disjunction_more(self, branches: tuple[Raw, ...], branch: Raw) -> tuple[Raw, ...]:
        return (*branches, branch)

    def conjunction(self, item: Any) -> Raw:
        return (item,)

    def conjunction_more(self, items: Raw, item: Any) -> Raw:
        return (*items, item)

    several_branches = disjunction_more

    def several_literals(self, items: Raw, item: Any) -> tuple[Raw, ...]:
        return ((*items, item),)

    def group(self, start: Token, several: tuple[Raw, ...], end: Token) -> Group:
        return Group(settle(several), between(token_span(start), token_span(end)))

    def comparison(self, left: Any, op: Token, right: Any) -> Comparison:
        return Comparison(str(op), as_expression(left), as_expression(right), between(left.span, right.span))

    def negation(self, bang: Token, atom: Atom) -> Negation:
        return Negation(atom, between(token_span(bang), atom.span))

    def atom(self, name: Token, *rest: Any) -> Atom:
        arguments = rest[1] if len(rest) == 3 else ()
        return Atom(str(name), arguments, between(token_span(name), token_span(rest[-1])))

    def arguments(self, *arguments: Any) -> tuple[Expression, ...]:
        return tuple(map(as_expression, arguments))

    # --- expressions ---

    def binary(self, left: Any, op: Token, right: Any) -> Call:
        return Call(str(op), (as_expression(left), as_expression(right)), between(left.span, right.span))

    def negate(self, minus: Token, operand: Any) -> Expression:
        operand = as_expression(operand)
        span = between(token_span(minus), operand.span)
        if isinstance(operand, Constant) and isinstance(operand.value, (int, float)):
            return negated(operand, span)
        return Call("neg", (operand,), span)

    def integer(self, token: Token) -> Constant:
        return Constant(read_integer(token), token_span(token))

    def float_(self, token: Token) -> Constant:
        value = float(token)
        if value == float("inf"):
            raise Misread(f"{token} is too large for a float", token_span(token))
        return Constant(value, token_span(token))

    def string(self, token: Token) -> Constant:
        return Constant(read_string(token), token_span(token))

    def variable(self, token: Token) -> Expression:
        return Constant((), token_span(token)) if token == "nil" else Variable(str(token), token_span(token))

    def anonymous(self, token: Token) -> Variable:
        return Variable("_#", token_span(token))

    def call(self, name: Token, *rest: Any) -> Call:
        arguments = rest[1] if len(rest) == 3 else ()
        return Call(str(name), arguments, between(token_span(name), token_span(rest[-1])))

    def several_call(self, name: Token, start: Token, several: tuple[Raw, ...], end: Token) -> Call:
        """`min(a, b)`: its arguments were read as literals, see the remarks in the grammar."""
        span = between(token_span(name), token_span(end))
        if len(several) > 1:
            raise Misread(f"the arguments of {name} are separated by `,`, not `;`", span)
        return Call(str(name), tuple(map(as_expression, several[0])), span)

    def list(self, start: Token, *rest: Any) -> Expression:
        span = between(token_span(start), token_span(rest[-1]))
        return fold_list(Call("list", rest[0] if len(rest) == 2 else (), span))

    def parenthesis(self, start: Token, inner: Any, end: Token) -> Any:
        return replace(inner, span=between(token_span(start), token_span(end)))

    def aggregate_all(self, name: Token, body: tuple[Body, Span]) -> Aggregate:
        span = between(token_span(name), body[1])
        if name != "count":
            raise Misread(f"{name} needs something to aggregate: {name} x : {{ ... }}", span)
        return Aggregate("count", None, body[0], span)

    def aggregate(self, name: Token, target: Any, *rest: Any) -> Aggregate:
        body, end = rest[-1]
        parameter = as_expression(rest[0]) if len(rest) == 2 else None
        return Aggregate(str(name), as_expression(target), body, between(token_span(name), end), parameter=parameter)

    def lone_atom(self, atom: Atom) -> tuple[Body, Span]:
        return (atom,), atom.span

    def braces(self, start: Token, branches: tuple[Raw, ...], end: Token) -> tuple[Body, Span]:
        span = between(token_span(start), token_span(end))
        body = flat_body(settle(branches), span)
        if not body:
            raise Misread("the body of an aggregate cannot be empty", span)
        return body, span
