"""Clauses as they were written to plain rules: one head each, and a body without alternatives."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator
from typing import Any

from datalog.ast import (
    DEEPEST,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    HeadAggregate,
    Negation,
    Rule,
    Variable,
    replace,
)
from datalog.pieces import NESTED, Clause, Group, Item, Misread, Truth, never

__all__ = ["rules_of"]

_SUGAR = {Group, Truth}
MOST_BRANCHES = 1000  # rules that the disjunctions of one clause may become


def rules_of(clause: Clause) -> Iterator[Rule]:
    """The plain rules of a clause: one per head and alternative.

    >>> from datalog.statements import StatementReader
    >>> _, clause = StatementReader("a(x), b(x) :- c(x, _); d(x), true.").statement()
    >>> [(rule.head.relation, [atom.relation for atom in rule.body]) for rule in rules_of(clause)]
    [('a', ['c']), ('b', ['c']), ('a', ['d']), ('b', ['d'])]
    """
    if clause.size > DEEPEST:  # every level takes a token at least
        _limit_depth(clause)
    text = _without_comments(clause.text)
    for count, body in enumerate(_expand(clause.branches)):
        if count == MOST_BRANCHES:
            raise Misread(f"the disjunctions of this rule make more than {MOST_BRANCHES} rules", clause.span)
        for head in clause.heads:
            rule = Rule(head, body, clause.span, text)
            yield _number_anonymous(rule) if clause.anonymous else rule


def _without_comments(text: str) -> str:
    """The text of a rule for messages, which put it on one line."""
    if "//" not in text and "/*" not in text:
        return text
    kept = re.sub(r'("(?:[^"\\\n]|\\[^\n])*")|[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)', r"\1", text)
    return re.sub(r"\n\s*\n", "\n", kept)


def _expand(branches: tuple[tuple[Item, ...], ...]) -> Iterator[tuple[Any, ...]]:
    """The disjunctive normal form: every way to pick one alternative of each group."""
    for branch in branches:
        if _SUGAR.isdisjoint(map(type, branch)):
            yield branch
            continue
        for parts in itertools.product(*(_choices(item) for item in branch)):
            yield tuple(itertools.chain.from_iterable(parts))


def _choices(item: Item) -> list[tuple[Any, ...]]:
    if isinstance(item, Group):
        return list(itertools.islice(_expand(item.branches), MOST_BRANCHES + 1))
    if isinstance(item, Truth):
        return [()] if item.value else [(never(item.span),)]
    return [(item,)]


def _children(node: Any) -> tuple[Any, ...]:
    if isinstance(node, (Atom, Call)):
        return node.arguments
    if isinstance(node, Comparison):
        return (node.left, node.right)
    if isinstance(node, Negation):
        return (node.atom,)
    if isinstance(node, HeadAggregate):
        return (node.target, node.parameter)
    if isinstance(node, Aggregate):
        return (node.target, node.parameter, *node.body)
    if isinstance(node, Group):
        return tuple(itertools.chain.from_iterable(node.branches))
    if isinstance(node, Constant) and isinstance(node.value, tuple):
        return node.value
    return node if isinstance(node, tuple) else ()


def _limit_depth(clause: Clause) -> None:
    """Refuse what is nested so deeply that a recursive walk over it could fail."""
    stack = [(node, 1) for node in itertools.chain(clause.heads, *clause.branches)]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST:
            raise Misread(NESTED, clause.span)
        stack += [(child, depth + 1) for child in _children(node)]


def _number_anonymous(rule: Rule) -> Rule:
    """Every `_` a variable of its own: `_#1`, `_#2`, ... from left to right."""
    counter = itertools.count(1)

    def walk(node: Any) -> Any:
        if isinstance(node, Variable):
            return Variable(f"_#{next(counter)}", node.span) if node.name == "_#" else node
        if isinstance(node, (Atom, Call)):
            arguments = tuple(map(walk, node.arguments))
            if isinstance(node, Atom) and node.time is not None:
                return replace(node, arguments=arguments, time=walk(node.time))
            same = all(map(operator.is_, arguments, node.arguments))
            return node if same else replace(node, arguments=arguments)
        if isinstance(node, Comparison):
            return replace(node, left=walk(node.left), right=walk(node.right))
        if isinstance(node, Negation):
            return replace(node, atom=walk(node.atom))
        if isinstance(node, HeadAggregate):
            return replace(node, target=walk(node.target))
        if isinstance(node, Aggregate):
            return replace(node, target=walk(node.target), body=tuple(map(walk, node.body)))
        return node

    return Rule(walk(rule.head), tuple(map(walk, rule.body)), rule.span, rule.text)
