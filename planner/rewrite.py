"""Rewriting syntax trees: substitution of variables, and a source of fresh names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Expression,
    HeadAggregate,
    Literal,
    Negation,
    Rule,
    Variable,
    variables,
)

__all__ = ["Fresh", "fresh_after", "outside", "substitute"]


class Fresh:
    """Names that no variable of a program can have: an identifier, a quote, a number.

    >>> fresh = Fresh()
    >>> fresh("x"), fresh("sum"), fresh("x'1")
    ("x'1", "sum'2", "x'3")
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count

    def __call__(self, stem: str) -> str:
        self._count += 1
        return f"{stem.partition(chr(39))[0]}'{self._count}"


def fresh_after(rule: Rule) -> Fresh:
    """Fresh names that do not clash with those that an earlier pass put into the rule."""
    return Fresh(max([int(n.split("'")[1]) for n in variables(rule) if "'" in n], default=0))


def substitute(node: Any, mapping: Mapping[str, Expression]) -> Any:
    """The same node (or tuple of nodes) with variables replaced, inside aggregates too.

    >>> call = Call("+", (Variable("x"), Variable("y")))
    >>> substitute(call, {"y": Variable("z")})
    Call(function='+', arguments=(Variable(name='x', ...), Variable(name='z', ...)), ...)
    """
    if isinstance(node, tuple):
        return tuple(substitute(part, mapping) for part in node)
    if isinstance(node, Variable):
        return mapping.get(node.name, node)
    if isinstance(node, (Call, Atom)):
        return replace(node, arguments=substitute(node.arguments, mapping))
    if isinstance(node, Aggregate):
        return replace(node, target=substitute(node.target, mapping), body=substitute(node.body, mapping))
    if isinstance(node, HeadAggregate):
        return replace(node, target=substitute(node.target, mapping))
    if isinstance(node, Negation):
        return replace(node, atom=substitute(node.atom, mapping))
    if isinstance(node, Comparison):
        return replace(node, left=substitute(node.left, mapping), right=substitute(node.right, mapping))
    if isinstance(node, Rule):
        return replace(node, head=substitute(node.head, mapping), body=substitute(node.body, mapping))
    return node


def outside(literal: Literal) -> list[str]:
    """The variables of a literal that are not inside an aggregate; those stand right of `=`."""
    if isinstance(literal, Comparison) and isinstance(literal.right, Aggregate):
        return variables(literal.left)
    return variables(literal)
