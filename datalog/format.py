"""Programs, rules and expressions back to text that parses to the same thing.

>>> from datalog.parser import parse
>>> print(format_rule(parse("r(x,min<c>):-s(x,_,c),!t(x),(c>1+2*3).").rules[0]))
r(x, min<c>) :- s(x, _, c), !t(x), c > 1 + 2 * 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from datalog.ast import (
    DEEPEST,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Directive,
    HeadAggregate,
    Negation,
    Program,
    Relation,
    Rule,
    Sync,
    Variable,
)
from datalog.written import as_written

__all__ = [
    "RESERVED", "brief_value", "format_expression", "format_literal", "format_program", "format_relation",
    "format_rule", "format_sync", "format_value",
]

RESERVED = frozenset({"min", "max", "sum", "count", "avg", "mean"})
"""The aggregates that the grammar knows. The others are plain names, which relations and variables may have as well."""

# How tightly operators bind; the operands of `^` are lopsided: `-x ^ -y` is `-(x ^ (-y))`.
_SUM, _PRODUCT, _UNARY, _POWER, _ATOM = 1, 2, 3, 4, 5
_BINARY: Mapping[str, tuple[int, int, int]] = {
    "+": (_SUM, _SUM, _PRODUCT),
    "-": (_SUM, _SUM, _PRODUCT),
    "*": (_PRODUCT, _PRODUCT, _UNARY),
    "/": (_PRODUCT, _PRODUCT, _UNARY),
    "%": (_PRODUCT, _PRODUCT, _UNARY),
    "^": (_POWER, _ATOM, _UNARY),
}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_value(value: Any, depth: int = 0) -> str:
    r"""A value as the language writes it, down to a depth that no list of a relation has.

    >>> print(format_value(('a"b\n', 1, 2.5, (), 1e30)))
    ["a\"b\n", 1, 2.5, nil, 1e+30]
    """
    if isinstance(value, tuple):
        if depth > DEEPEST:
            return "..."
        return "[" + ", ".join([format_value(v, depth + 1) for v in value]) + "]" if value else "nil"
    if isinstance(value, str):
        # Most symbols need no escape, and change logs are long.
        if value.isprintable() and '"' not in value and "\\" not in value:
            return f'"{value}"'
        return '"' + "".join(_escape(c) for c in value) + '"'
    return repr(value)


def brief_value(value: Any, most: int = 60) -> str:
    """The same for messages, where it need not be whole. O(most), however long the value is.

    >>> brief_value((1, ("a", "b")), 10), brief_value("a" * 10**6, 5), brief_value(10**5000)
    ('[1, ["a",  ...', '"aaaa ...', 'a number of more than 4300 digits')
    """
    text = ""
    for piece in _pieces(value, most):
        text += piece
        if len(text) > most:
            return f"{text[:most]} ..."
    return text


def _pieces(value: Any, most: int) -> Iterator[str]:
    if isinstance(value, tuple) and value:
        for i, element in enumerate(value):
            yield ", " if i else "["
            yield from _pieces(element, most)
        yield "]"
    elif isinstance(value, str):
        yield format_value(value[: most + 1])
    else:
        try:
            yield format_value(value)
        except ValueError:  # more digits than Python writes
            yield "a number of more than 4300 digits"


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def format_expression(node: Any, outer: int = 0) -> str:
    """An expression or head aggregate; in parentheses if it binds less tightly than `outer` asks.

    >>> x, two = Variable("x"), Constant(2)
    >>> format_expression(Call("*", (Call("+", (x, two)), Call("neg", (x,)))))
    '(x + 2) * -x'
    """
    text, strength = _expression(node)
    return text if strength >= outer else f"({text})"


def _expression(node: Any) -> tuple[str, int]:
    if isinstance(node, Variable):
        return ("_" if node.anonymous else node.name), _ATOM
    if isinstance(node, Constant):
        text = format_value(node.value)
        return text, _UNARY if text.startswith("-") else _ATOM
    if isinstance(node, HeadAggregate):
        # A `>` inside would end the aggregate, but comparisons are no expressions: none can stand there.
        return f"{node.function}<{_aggregated(node) or '*'}>", _ATOM
    if isinstance(node, Aggregate):
        target = f"{node.function} {_aggregated(node)}".rstrip()
        return f"{target} : {{ {', '.join(map(format_literal, node.body))} }}", _ATOM
    if isinstance(node, Call):
        if node.function in _BINARY and len(node.arguments) == 2:
            strength, left, right = _BINARY[node.function]
            first, second = node.arguments
            return f"{format_expression(first, left)} {node.function} {format_expression(second, right)}", strength
        if node.function == "neg":
            return f"-{format_expression(node.arguments[0], _UNARY)}", _UNARY
        arguments = ", ".join(map(format_expression, node.arguments))
        return (f"[{arguments}]" if node.function == "list" else f"{node.function}({arguments})"), _ATOM
    raise TypeError(f"not an expression: {node!r}")


def _aggregated(node: Aggregate | HeadAggregate) -> str:
    """What an aggregate ranges over, and its parameter."""
    parts = [format_expression(part) for part in (node.target, node.parameter) if part is not None]
    if isinstance(node, Aggregate) and parts and parts[0].startswith("-") and node.function not in RESERVED:
        parts[0] = f"({parts[0]})"  # or it would be subtracted from a variable with that name
    return ", ".join(parts)


def format_literal(node: Any) -> str:
    """An atom, negation or comparison.

    >>> format_literal(Negation(Atom("r", (Variable("x"), Variable("_#1")))))
    '!r(x, _)'
    """
    if isinstance(node, Atom):
        return _format_atom(node)
    if isinstance(node, Negation):
        return f"!{format_literal(node.atom)}"
    if isinstance(node, Comparison):
        return f"{format_expression(node.left)} {node.op} {format_expression(node.right)}"
    raise TypeError(f"not a literal: {node!r}")


def _format_atom(atom: Atom) -> str:
    """An atom. What `datalog.reads` has put into the name of its relation stands where it was written."""
    name, _, points = atom.relation.partition(" at ")
    arguments, time, sync = atom.arguments, atom.time, points and f" at {points}"
    if name[-1] == "@":
        name, arguments, time = name[:-1], arguments[:-1], arguments[-1]
    if atom.sync is not None:
        sync = f" at {format_sync(atom.sync)}"
    stamp = "" if time is None else f"@{format_expression(time)}"
    return f"{name}({', '.join(map(format_expression, arguments))}){stamp}{sync}"


def format_sync(sync: Sync) -> str:
    """What stands behind `at`.

    >>> from datalog.ast import Ticks
    >>> format_sync(Sync("every2")), format_sync(Sync("every", Ticks(Constant(10), Variable("k"))))
    ('every2', 'every(10, from=k)')
    """
    if sync.ticks is None:
        return sync.name
    start = "" if sync.ticks.start is None else f", from={format_expression(sync.ticks.start)}"
    return f"{sync.name}({format_expression(sync.ticks.period)}{start})"


def format_rule(rule: Rule) -> str:
    """A rule or fact, with its final dot."""
    head = format_literal(rule.head)
    return f"{head} :- {', '.join(map(format_literal, rule.body))}." if rule.body else f"{head}."


def format_relation(relation: Relation) -> str:
    """The declaration of a relation.

    >>> from datalog.ast import Column
    >>> format_relation(Relation("link", (Column("a", "symbol"), Column("b", "number")), key=(0,), ttl=30.0))
    '.decl link(a: symbol, b: number) key(a) ttl(30)'
    """

    def names(positions: tuple[int, ...]) -> str:
        return ", ".join(relation.columns[i].name for i in positions)

    parts = [f".decl {relation.name}({', '.join(f'{c.name}: {c.type}' for c in relation.shown)})"]
    if relation.key:
        parts.append(f"key({names(relation.key)})")
    if relation.ttl is not None:
        parts.append(f"ttl({relation.ttl!r})".replace(".0)", ")"))
    if relation.stream:
        parts.append("stream")
    elif relation.bag:
        parts.append("bag")
    if relation.partition:
        parts.append(f"partition({names(relation.partition)})")
    return " ".join(parts)


def format_directive(directive: Directive) -> str:
    """A directive with its parameters.

    >>> format_directive(Directive("input", "link", {"IO": "file", "headers": True}))
    '.input link(IO="file", headers=true)'
    """

    def value(v: Any) -> str:
        return str(v).lower() if isinstance(v, bool) else format_value(v)

    if directive.kind == "approx":
        return f".approx {directive.relation} {value(directive.parameters['threshold'])}"
    parameters = ", ".join(f"{k}={value(v)}" for k, v in directive.parameters.items())
    return f".{directive.kind} {directive.relation}" + (f"({parameters})" if parameters else "")


def format_program(program: Program) -> str:
    """The whole program, as it was written if it is checked. Inferred relations get no declaration.

    >>> from datalog.parser import parse
    >>> print(format_program(parse(".output r  .const k=3  r(x):-s(x),x<k.")), end="")
    .const k = 3
    .output r
    r(x) :- s(x), x < k.
    """
    return "".join(line + "\n" for line in _lines(as_written(program)))


def _lines(program: Program) -> Iterator[str]:
    for name, type_ in program.aliases.items():
        yield f".type {name} <: {type_}"
    for name, value in program.constants.items():
        yield f".const {name} = {format_value(value)}"
    for relation in program.relations.values():
        if relation.declared:
            yield format_relation(relation)
    yield from map(format_directive, program.directives)
    yield from map(format_rule, program.rules)
