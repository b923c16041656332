"""The phase of the checker that asks whether negation and aggregation can wait for what they are about.

A relation may depend on itself, but not through a negation or an aggregate: its tuples would have to be known
before they are derived.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datalog.ast import Aggregate, Atom, Comparison, Negation, Program, Rule, Span, expressions
from datalog.errors import Note, StratificationProblem
from datalog.report import Report

__all__ = ["Dependency", "check_strata", "components", "dependencies"]


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


def check_strata(program: Program, report: Report) -> None:
    """Report every negation and aggregate that a relation reaches itself through, with the cycle."""
    found = [d for rule in program.rules if rule.body for d in dependencies(rule)]
    edges: dict[str, list[str]] = {}
    leaving: dict[str, list[Dependency]] = defaultdict(list)
    for dependency in found:
        edges.setdefault(dependency.head, []).append(dependency.relation)
        leaving[dependency.head].append(dependency)
    component = components(edges)
    seen: set[frozenset[Span]] = set()
    for bad in found:
        if not bad.kind or component[bad.head] != component[bad.relation]:
            continue
        cycle = [bad, *_path(bad.relation, bad.head, leaving, component)]
        rules = frozenset(dependency.rule.span for dependency in cycle)
        if rules not in seen:  # a cycle may hold several negations; it is one mistake
            seen.add(rules)
            report.problems.append(StratificationProblem(_message(bad), bad.span, report.source, _notes(cycle)))


def _message(bad: Dependency) -> str:
    means = "its own negation" if bad.kind == "negation" else "an aggregate over itself"
    return f"cannot stratify: `{bad.head}` is defined through {means}"


def _notes(cycle: list[Dependency]) -> Iterator[Note]:
    """The cycle, rule by rule, and a way out if there is a usual one."""
    if len(cycle) == 1:
        yield Note(f"all of `{cycle[0].head}` would have to be known before this rule could add to it")
    else:
        for d in cycle:
            verb = {"negation": "needs the absence of", "aggregate": "aggregates over"}.get(d.kind, "needs")
            yield Note(f"`{d.head}` {verb} `{d.relation}`", d.rule.span)
    if any(d.rule.aggregates for d in cycle):
        yield Note("collect the candidates in a relation of their own, and aggregate over that one")


def _path(
    start: str, goal: str, leaving: Mapping[str, list[Dependency]], component: Mapping[str, int]
) -> list[Dependency]:
    """A shortest chain of dependencies inside one component; empty if start is the goal."""
    came: dict[str, Dependency] = {}
    queue = deque([start])
    while queue and goal not in came and start != goal:
        node = queue.popleft()
        for dependency in leaving[node]:
            after = dependency.relation
            if component[after] == component[goal] and after not in came and after != start:
                came[after] = dependency
                queue.append(after)
    path: list[Dependency] = []
    while goal != start:
        path.append(came[goal])
        goal = came[goal].head
    return path[::-1]
