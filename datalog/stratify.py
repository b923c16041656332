"""The phase of the checker that asks whether negation and aggregation can wait for what they are about.

A relation may depend on itself, but not through a negation or an aggregate: its tuples would have to be known
before they are derived. Unless an argument counts the steps: see `datalog.indexed`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from datalog.ast import Program, Span
from datalog.dependencies import Dependency, components, dependencies, waits
from datalog.errors import Note, StratificationProblem
from datalog.indexed import Iteration, iterate
from datalog.report import Report

__all__ = ["check_strata", "components"]


def check_strata(program: Program, report: Report) -> None:
    """Report every negation and aggregate that a relation reaches itself through without an index, with the cycle."""
    if not any(map(waits, program.rules)):
        return
    found = [d for rule in program.rules if rule.body for d in dependencies(rule)]
    edges: dict[str, list[str]] = {}
    leaving: dict[str, list[Dependency]] = defaultdict(list)
    for dependency in found:
        edges.setdefault(dependency.head, []).append(dependency.relation)
        leaving[dependency.head].append(dependency)
    component = components(edges)
    seen: set[frozenset[Span]] = set()
    through: dict[int, Iteration | Note] = {}
    for bad in found:
        number = component[bad.head]
        if not bad.kind or number != component[bad.relation]:
            continue
        if number not in through:
            through[number] = iterate(program, [name for name, c in component.items() if c == number])
        missing = through[number]
        if isinstance(missing, Iteration):
            continue
        cycle = [bad, *_path(bad.relation, bad.head, leaving, component)]
        rules = frozenset(dependency.rule.span for dependency in cycle)
        if rules not in seen:  # a cycle may hold several negations; it is one mistake
            seen.add(rules)
            notes = [*_notes(cycle), missing]
            report.problems.append(StratificationProblem(_message(bad), bad.span, report.source, notes))


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
