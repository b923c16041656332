"""Walks over rules: all atoms of one, and rules that are changed in many places at once.

Expressions are walked by `datalog.ast.expressions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    HeadAggregate,
    Negation,
    Rule,
    Ticks,
    Variable,
    expressions,
    replace,
)

__all__ = ["atoms", "change_atoms", "rewrite"]


def atoms(rule: Rule) -> list[Atom]:
    """The atoms of a rule, head first, negated ones and those inside aggregates included.

    >>> from datalog.parser import parse
    >>> [a.relation for a in atoms(parse("r(n) :- s(n), !t(n), n = count : { u(_) }.").rules[0])]
    ['r', 's', 't', 'u']
    """
    if rule.flat:
        return [rule.head, *rule.body]  # type: ignore[list-item]
    found = [rule.head]
    for outer in rule.body:
        if not isinstance(outer, Comparison):
            found.append(outer.atom if isinstance(outer, Negation) else outer)
        for expression in expressions(outer):
            if isinstance(expression, Aggregate):
                for literal in expression.body:
                    if not isinstance(literal, Comparison):  # `expressions` comes to the aggregates in it by itself
                        found.append(literal.atom if isinstance(literal, Negation) else literal)
    return found


def rewrite(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with `change` applied to every expression in it, innermost first; the same object if nothing did."""
    if isinstance(node, (Variable, Constant)):
        return change(node)
    if isinstance(node, (Atom, Call)):
        arguments = tuple(rewrite(a, change) for a in node.arguments)
        if any(new is not old for new, old in zip(arguments, node.arguments, strict=True)):
            node = replace(node, arguments=arguments)
        if isinstance(node, Call):
            return change(node)
        return node if node.time is None and node.sync is None else _rewrite_suffix(node, change)
    if isinstance(node, Comparison):
        left, right = rewrite(node.left, change), rewrite(node.right, change)
        return node if left is node.left and right is node.right else replace(node, left=left, right=right)
    if isinstance(node, Negation):
        atom = rewrite(node.atom, change)
        return node if atom is node.atom else replace(node, atom=atom)
    if isinstance(node, (Aggregate, HeadAggregate)):
        target = None if node.target is None else rewrite(node.target, change)
        parameter = None if node.parameter is None else rewrite(node.parameter, change)
        if target is not node.target or parameter is not node.parameter:
            node = replace(node, target=target, parameter=parameter)
        if isinstance(node, Aggregate):
            body = tuple(rewrite(literal, change) for literal in node.body)
            if any(new is not old for new, old in zip(body, node.body, strict=True)):
                node = replace(node, body=body)
        return change(node)
    if isinstance(node, Rule):
        head = rewrite(node.head, change)
        body = tuple(rewrite(literal, change) for literal in node.body)
        if head is node.head and all(new is old for new, old in zip(body, node.body, strict=True)):
            return node
        return replace(node, head=head, body=body)
    raise TypeError(f"not a node of a rule: {node!r}")


def _rewrite_suffix(atom: Atom, change: Callable[[Any], Any]) -> Atom:
    time, sync = atom.time, atom.sync
    time = None if time is None else rewrite(time, change)
    if sync is not None and (ticks := sync.ticks) is not None:
        period = rewrite(ticks.period, change)
        start = None if ticks.start is None else rewrite(ticks.start, change)
        if period is not ticks.period or start is not ticks.start:
            sync = replace(sync, ticks=Ticks(period, start))
    return atom if time is atom.time and sync is atom.sync else replace(atom, time=time, sync=sync)


def change_atoms(rule: Rule, change: Callable[[Atom], Atom]) -> Rule:
    """The rule with every atom of its body changed, also negated ones and those in aggregates; itself if none is.

    >>> from datalog.parser import parse
    >>> from datalog.format import format_rule
    >>> rule = parse("r(n) :- s(n), !t(n), n = count : { u(_) }.").rules[0]
    >>> print(format_rule(change_atoms(rule, lambda atom: replace(atom, relation=atom.relation.upper()))))
    r(n) :- S(n), !T(n), n = count : { U(_) }.
    """
    body = tuple([_changed(literal, change) for literal in rule.body])
    return rule if all(map(operator.is_, body, rule.body)) else replace(rule, body=body)


def _changed(node: Any, change: Callable[[Atom], Atom]) -> Any:
    """A literal, or an expression of one."""
    if isinstance(node, Atom):
        return change(node)
    if isinstance(node, Negation):
        atom = change(node.atom)
        return node if atom is node.atom else replace(node, atom=atom)
    if isinstance(node, Comparison):
        left, right = _changed(node.left, change), _changed(node.right, change)
        return node if left is node.left and right is node.right else replace(node, left=left, right=right)
    if isinstance(node, Call):
        arguments = tuple([_changed(a, change) for a in node.arguments])
        return node if all(map(operator.is_, arguments, node.arguments)) else replace(node, arguments=arguments)
    if isinstance(node, Aggregate):
        body = tuple([_changed(literal, change) for literal in node.body])
        return node if all(map(operator.is_, body, node.body)) else replace(node, body=body)
    return node
