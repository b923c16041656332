"""The phase of the checker that asks whether negation and aggregation can wait for what they are about.

A relation may depend on itself, but not through a negation or an aggregate: its tuples would have to be known
before they are derived. Unless an argument counts the steps: see `datalog.indexed`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from datalog.ast import Program, Read, Rule, Span
from datalog.dependencies import Dependency, components, dependencies, waits
from datalog.errors import Note, StratificationProblem
from datalog.indexed import Iteration, iterate
from datalog.report import Report

__all__ = ["check_strata", "components"]


def check_strata(program: Program, report: Report, definitions: tuple[Rule, ...] = ()) -> None:
    """Report every negation and aggregate that a relation reaches itself through without an index, with the cycle.

    And every read with times or at points, whose `definitions` `datalog.reads` tells: they wait, with an index as well.
    """
    if not definitions and not any(map(waits, program.rules)):
        return
    found = [d for rule in program.rules if rule.body for d in dependencies(rule)]
    found += [replace(d, kind="at") for rule in definitions for d in dependencies(rule)]
    edges: dict[str, list[str]] = {}
    leaving: dict[str, list[Dependency]] = defaultdict(list)
    for dependency in found:
        edges.setdefault(dependency.head, []).append(dependency.relation)
        leaving[dependency.head].append(dependency)
    component = components(edges)
    seen: set[frozenset[Span]] = set()
    through: dict[int, Iteration | Note] = {}
    bads = [d for d in found if d.kind and component[d.head] == component[d.relation]]
    timed = {component[d.head] for d in bads if d.kind == "at"}
    for bad in bads:
        number = component[bad.head]
        if number in timed:
            if bad.kind == "at":
                _report_read(bad, [bad, *_path(bad.relation, bad.head, leaving, component)], program, report, seen)
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


def _report_read(
    bad: Dependency, cycle: list[Dependency], program: Program, report: Report, seen: set[frozenset[Span]]
) -> None:
    """Report a read with times, or at points, that depends on who reads. The head of `bad` stands for the read."""
    rules = frozenset(dependency.rule.span for dependency in cycle)
    if rules in seen:
        return
    seen.add(rules)
    read = program.reads[bad.head]
    name = _base(read, program)
    reader = next((d.head for d in reversed(cycle) if d.head not in program.reads), name)
    if read.kind == "time":
        message = f"cannot stratify: `{reader}` is defined through the times of its own tuples"
        hint = f"a tuple of `{name}` has a time when it is there, so `{name}` must be known before its times are"
    elif bad.relation == read.sync:
        message = f"`{name}` cannot be read at the points of `{read.sync}`, which depend on what is read at them"
        hint = f"all points of `{read.sync}` must be known without what is read at them"
    else:
        message = f"cannot stratify: `{reader}` is defined through itself as of the last point of `{read.sync}`"
        hint = "a view can be read at points by others, but not by what it rests on"
    notes = [Note(_step(d, program), d.rule.span) for d in cycle if d.head not in program.reads]
    report.problems.append(StratificationProblem(message, bad.span, report.source, [*notes, Note(hint)]))


def _base(read: Read, program: Program) -> str:
    """The relation of the program that is read."""
    while read.relation in program.reads:
        read = program.reads[read.relation]
    return read.relation


def _step(dependency: Dependency, program: Program) -> str:
    verb = {"negation": "needs the absence of", "aggregate": "aggregates over"}.get(dependency.kind, "reads")
    read = program.reads.get(dependency.relation)
    if read is None:
        return f"`{dependency.head}` {verb} `{dependency.relation}`"
    at = f" at the points of `{read.sync}`" if read.sync else " with its times"
    return f"`{dependency.head}` {verb} `{_base(read, program)}`{at}"


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
