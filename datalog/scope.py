"""Which variables of an aggregate are its own, and which it shares with the body around it.

A variable of the aggregate is *correlated* if the body around it has it too, outside of any aggregate; all others
are local, also when two aggregates side by side use the same name, and also when the head uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from datalog.ast import Aggregate, Atom, Call, Comparison, HeadAggregate, Negation, Variable, variables

__all__ = ["aggregates_of", "correlated", "level_variables", "walk_level"]


def walk_level(node: Any) -> Iterator[Any]:
    """Every expression below a node, but not what is inside aggregates (the aggregates themselves are given)."""
    if isinstance(node, (Atom, Call)):
        if isinstance(node, Call):
            yield node
        for argument in node.arguments:
            yield from walk_level(argument)
    elif isinstance(node, Comparison):
        yield from walk_level(node.left)
        yield from walk_level(node.right)
    elif isinstance(node, Negation):
        yield from walk_level(node.atom)
    elif isinstance(node, HeadAggregate):
        if node.target is not None:
            yield from walk_level(node.target)
    elif node is not None:
        yield node


def level_variables(body: Iterable[Any]) -> frozenset[str]:
    """The variables of literals, outside of their aggregates.

    >>> from datalog.parser import parse
    >>> rule = parse("r(x) :- s(x, y), n = count : { t(x, z) }, n < y.").rules[0]
    >>> sorted(level_variables(rule.body))
    ['n', 'x', 'y']
    """
    return frozenset(e.name for literal in body for e in walk_level(literal) if isinstance(e, Variable))


def aggregates_of(node: Any) -> list[Aggregate]:
    """The aggregates in a literal or expression, without those nested in them."""
    return [e for e in walk_level(node) if isinstance(e, Aggregate)]


def correlated(aggregate: Aggregate, outer: Iterable[str]) -> list[str]:
    """The variables of an aggregate that the body around it, with the variables `outer`, has to give it.

    >>> from datalog.parser import parse
    >>> rule = parse("r(x) :- s(x, y), n = count : { t(x, z) }, n < y.").rules[0]
    >>> correlated(rule.body[1].right, level_variables(rule.body))
    ['x']
    """
    known = frozenset(outer)
    return [name for name in variables(aggregate) if name in known]
