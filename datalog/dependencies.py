"""Who reads whom: the dependencies between the relations of a program, and those that go round in circles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datalog.ast import Aggregate, Atom, Comparison, Negation, Rule, Span, expressions

__all__ = ["Dependency", "components", "dependencies", "waits"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """`head` needs `relation`: `kind` is `""` (its tuples), `negation` or `aggregate` (all of its tuples)."""

    head: str
    relation: str
    kind: str
    rule: Rule
    span: Span


def dependencies(rule: Rule) -> Iterator[Dependency]:
    """What a rule reads, and how.

    >>> from datalog.parser import parse
    >>> [(d.relation, d.kind) for d in dependencies(parse("r(x) :- s(x), !t(x), 1 < count : u(x).").rules[0])]
    [('s', ''), ('t', 'negation'), ('u', 'aggregate')]
    """
    head = rule.head.relation
    grouped = "aggregate" if rule.aggregates else ""

    def reads(literal: Any, kind: str) -> Iterator[Dependency]:
        if isinstance(literal, Negation):
            yield Dependency(head, literal.atom.relation, kind or "negation", rule, literal.span)
        elif isinstance(literal, Atom):
            yield Dependency(head, literal.relation, kind, rule, literal.span)
        elif isinstance(literal, Comparison):
            for expression in expressions(literal):
                if isinstance(expression, Aggregate):
                    for inner in expression.body:
                        if not isinstance(inner, Comparison):
                            yield from reads(inner, "aggregate")

    for literal in rule.body:
        yield from reads(literal, grouped)


def waits(rule: Rule) -> bool:
    """Whether a rule has to wait for all tuples of what it reads: a negation or an aggregate does.

    >>> from datalog.parser import parse
    >>> [waits(rule) for rule in parse("r(x) :- s(x), x < 1. r(x) :- s(x), !t(x). r(count<x>) :- s(x).").rules]
    [False, True, True]
    """
    return not rule.flat and any(dependency.kind for dependency in dependencies(rule))


def components(edges: Mapping[str, list[str]]) -> dict[str, int]:
    """The strongly connected component of every node, numbered so that an edge never leads to a higher number.

    >>> components({"a": ["b"], "b": ["a", "c"], "c": []})
    {'c': 0, 'b': 1, 'a': 1}
    """
    # Tarjan's algorithm with its own stack: a chain of thousands of relations must not exhaust Python's.
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    path: list[str] = []
    count = 0
    for root in edges:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    path.append(successor)
                    work.append((successor, iter(edges.get(successor, ()))))
                    break
                if successor not in component:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while node not in component:
                        component[path.pop()] = count
                    count += 1
    return component
