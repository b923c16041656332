"""Recursion through an index: `rank(i + 1, x, sum<r>) :- rank(i, y, r), link(y, x), i < 10.`

A relation may depend on an aggregate over itself, or on its own negation, if an argument counts the steps: every
value of that *index* is then a layer of the relation, and a layer needs only what is there before it. `iterate` looks
for such an argument in each of the relations that depend on each other. It must be at a constant distance in the head
and in all the atoms of these relations in a rule, from the same variable. Then the index values that the rules can
reach are counted up from where the recursion starts, rule by rule; so whatever bounds the recursion, a comparison of
the index with constants, is simply evaluated. In the end the layers must stratify.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from datalog.ast import Atom, Program, Rule, Span, Variable
from datalog.dependencies import components, dependencies, waits
from datalog.errors import Note
from datalog.format import format_expression
from datalog.offsets import Offsets
from datalog.report import Report
from datalog.stepping import Read, SteppingRule, offset_of

__all__ = ["MOST_LAYERS", "Instance", "Iteration", "check_indexes", "iterate", "iterations"]

MOST_LAYERS = 2000
"""Layers of one relation: each of them is planned, and has a state of its own."""

_TRIES = 10_000  # ways to choose the columns that are looked at


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule for one value of its index variable, `root` (None if it has none), which derives tuples of one layer."""

    rule: Rule
    root: str | None
    value: int
    layer: int


@dataclass(frozen=True, slots=True)
class Iteration:
    """Relations that are recursive through an index.

    `columns`: where each has its index. `layers`: the values of it, in order. `instances`: the rules, value by value.
    `open`: those that get facts from files; every rule that reads one bounds its index from both sides, so that facts
    outside the layers lead to nothing. `recursive`: those with a layer that depends on itself.
    """

    columns: Mapping[str, int]
    layers: Mapping[str, tuple[int, ...]]
    instances: tuple[Instance, ...]
    open: frozenset[str]
    recursive: frozenset[str]

    def place(self, atom: Atom, root: str | None, value: int, offsets: Offsets, outer: Offsets) -> int | None:
        """The layer that an atom of these relations reads when the rule's index variable has this value."""
        offset = offset_of(atom.arguments[self.columns[atom.relation]], root, offsets, outer)
        if offset is None or offset[0] not in (root, None):
            return None
        return offset[1] + (0 if offset[0] is None else value)


class _Stuck(Exception):
    """Why this is no iteration. The later the stage, the closer it came to being one."""

    def __init__(self, stage: int, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.note = Note(message, span)


def iterations(program: Program) -> list[Iteration]:
    """The iterations of a checked program.

    >>> from datalog import check, parse
    >>> [found] = iterations(check(parse("r(0, 1). r(i + 1, sum<x>) :- r(i, x), i < 3.")))
    >>> found.columns, found.layers
    ({'r': 0}, {'r': (0, 1, 2, 3)})
    """
    if not any(map(waits, program.rules)):
        return []
    found = [d for rule in program.rules if rule.body for d in dependencies(rule)]
    component = components(_edges((d.head, d.relation) for d in found))
    bad = dict.fromkeys(component[d.head] for d in found if d.kind and component[d.head] == component[d.relation])
    results = []
    for number in bad:
        result = iterate(program, [name for name, c in component.items() if c == number])
        assert isinstance(result, Iteration), "the program was checked"
        results.append(result)
    return results


def check_indexes(program: Program, report: Report) -> None:
    """Whether all that can come into an index column is a whole number."""
    for iteration in iterations(program):
        for name, position in iteration.columns.items():
            column = program.relations[name].columns[position]
            if column.type not in ("number", "unsigned"):
                known = "its type is not known" if column.type == "any" else f"its type is {column.type}"
                place = next(rule.head for rule in program.rules if rule.head.relation == name)
                report.add(f"the index of the iteration over `{name}` must be a number, and {known}",
                           place.arguments[position].span, Note(f"a declaration can say so: .decl {name}(...)"))


def iterate(program: Program, members: Iterable[str]) -> Iteration | Note:
    """The iteration that relations which depend on each other are, or what is missing for one."""
    names = sorted(members)
    group = frozenset(names)
    rules = [SteppingRule(rule, group) for rule in program.rules if rule.body and rule.head.relation in group]
    best = _Stuck(-1, "it would be an iteration if an argument counted the steps: r(i + 1, ...) :- r(i, ...), i < 10")
    for columns in _choices(names, rules):
        try:
            return _Layers(program, names, rules, columns).iteration()
        except _Stuck as stuck:
            best = max(best, stuck, key=lambda s: s.stage)
    return best.note


def _choices(names: list[str], rules: list[SteppingRule]) -> Iterator[dict[str, int]]:
    """The ways to choose an index column in each relation such that it moves by constants, and does move."""
    arities: dict[str, int] = {}
    for rule in rules:
        for atom in (rule.rule.head, *(read.atom for read in rule.reads)):
            if arities.setdefault(atom.relation, len(atom.arguments)) != len(atom.arguments):
                return  # a mistake that is reported elsewhere
    by_relation: dict[str, list[SteppingRule]] = {name: [] for name in names}
    for rule in rules:
        by_relation[max(rule.relations)].append(rule)  # names are sorted: by then all of its relations have a column
    tries = 0
    stack: list[dict[str, int]] = [{}]
    while stack and tries < _TRIES:
        tries += 1
        columns = stack.pop()
        last = names[len(columns) - 1]
        if columns and any(rule.steps(columns) is None for rule in by_relation[last]):
            continue
        if len(columns) == len(names):
            if any(any(rule.steps(columns) or ()) for rule in rules):
                yield columns
            continue
        name = names[len(columns)]
        stack += [{**columns, name: c} for c in reversed(range(arities[name]))]


@dataclass
class _Layers:
    """The layers of relations with known index columns, as they are counted up."""

    program: Program
    names: list[str]
    rules: list[SteppingRule]
    columns: dict[str, int]
    values: dict[str, set[int]] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)

    def iteration(self) -> Iteration:
        self.values = {name: set() for name in self.names}
        inputs = {d.relation for d in self.program.directives_of("input")} & set(self.names)
        for fact in self.program.facts:
            if fact.head.relation in self.values:
                self._fact(fact)
        for name in sorted(inputs):
            self._from_files(name)
        self._count_up()
        recursive = self._stratify()
        layers = {name: tuple(sorted(values)) for name, values in self.values.items()}
        return Iteration(self.columns, layers, tuple(self.instances), frozenset(inputs), recursive)

    def _fact(self, fact: Rule) -> None:
        argument = fact.head.arguments[self.columns[fact.head.relation]]
        offset = Offsets(()).of(argument)
        if offset is None or offset[0] is not None:
            raise _Stuck(1, f"for an iteration the index {format_expression(argument)} must be a whole number",
                         argument.span)
        self.values[fact.head.relation].add(offset[1])

    def _from_files(self, name: str) -> None:
        """The index values with which facts from files can lead to anything: those that rules let in."""
        for rule in self.rules:
            head = rule.head(self.columns)
            assert head is not None
            for read in rule.reads:
                offset = rule.read(read, self.columns, head[0])
                if read.atom.relation == name and offset is not None and offset[0] is not None:
                    argument = read.atom.arguments[self.columns[name]]
                    values = self._interval(rule, offset[0], argument, f"`{name}` has facts from files: ")
                    self.values[name].update(v + offset[1] for v in values)

    def _interval(self, rule: SteppingRule, root: str, argument: Any, why: str) -> range:
        low, high = rule.bounds(root)
        if low is None or high is None:
            missing = "bounds on both sides, such as 0 <= i, i < 10" if low is None and high is None else (
                "a lower bound, such as 0 <= i" if low is None else "an upper bound, such as i < 10")
            text = format_expression(argument)
            raise _Stuck(2, f"{why}for an iteration `{text}` needs {missing.replace('i', text)} in this rule"
                         if isinstance(argument, Variable) else f"{why}for an iteration the index needs {missing}",
                         argument.span)
        if high - low >= MOST_LAYERS:
            raise self._too_many(argument.span)
        return range(low, high + 1)

    def _too_many(self, span: Span) -> _Stuck:
        return _Stuck(3, f"this iteration has more than {MOST_LAYERS} layers", span)

    def _count_up(self) -> None:
        """Apply the rules to index values until no new one comes."""
        done: list[set[int]] = [set() for _ in self.rules]
        changed = True
        while changed:
            changed = False
            for rule, seen in zip(self.rules, done, strict=True):
                head = rule.head(self.columns)
                assert head is not None
                for value in sorted(self._candidates(rule, head[0]) - seen):
                    seen.add(value)
                    changed = True
                    if rule.allows(head[0], value):
                        layer = head[1] + (0 if head[0] is None else value)
                        self.values[rule.rule.head.relation].add(layer)
                        self.instances.append(Instance(rule.rule, head[0], value, layer))
                        if len(self.values[rule.rule.head.relation]) > MOST_LAYERS:
                            raise self._endless(rule, head[0])

    def _candidates(self, rule: SteppingRule, root: str | None) -> set[int]:
        """The values of a rule's index variable for which there may be tuples to read."""
        found: set[int] | None = None
        for read in rule.reads:
            offset = rule.read(read, self.columns, root)
            assert offset is not None
            if read.kind:
                continue
            values = self.values[read.atom.relation]
            if offset[0] is None:
                if offset[1] not in values:
                    return set()
            else:
                here = {v - offset[1] for v in values}
                found = here if found is None else found & here
        if found is not None:
            return found
        if root is None:
            return {0}
        argument = rule.rule.head.arguments[self.columns[rule.rule.head.relation]]
        return set(self._interval(rule, root, argument, "nothing says where this starts: "))

    def _endless(self, rule: SteppingRule, root: str | None) -> _Stuck:
        argument = rule.rule.head.arguments[self.columns[rule.rule.head.relation]]
        for one in self.rules:
            offset = one.head(self.columns)
            if offset is not None and offset[0] is not None and any(one.steps(self.columns) or ()):
                low, high = one.bounds(offset[0])
                up = max(one.steps(self.columns) or {0}) > 0
                if (high if up else low) is None:
                    moved = one.rule.head.arguments[self.columns[one.rule.head.relation]]
                    name = format_expression(Variable(offset[0]))
                    text = f"{name} < 10" if up else f"{name} > 0"
                    return _Stuck(3, f"for an iteration nothing bounds `{name}` here: a comparison with a constant "
                                     f"would, such as {text}", moved.span)
        return self._too_many(argument.span)

    def _stratify(self) -> frozenset[str]:
        """Whether each layer needs only what is before it; the relations with a layer that is recursive in itself."""
        by_rule = {id(r.rule): r for r in self.rules}
        edges: list[tuple[str, str, Read]] = []
        for instance in self.instances:
            rule = by_rule[id(instance.rule)]
            for read in rule.reads:
                offset = rule.read(read, self.columns, instance.root)
                assert offset is not None
                layer = offset[1] + (0 if offset[0] is None else instance.value)
                head = f"{instance.rule.head.relation}@{instance.layer}"
                edges.append((head, f"{read.atom.relation}@{layer}", read if not rule.rule.aggregates else Read(
                    read.atom, "aggregate", read.offsets)))
        component = components(_edges((a, b) for a, b, _ in edges))
        recursive = set()
        for head, relation, read in edges:
            if component[head] == component[relation]:
                if read.kind:
                    argument = read.atom.arguments[self.columns[read.atom.relation]]
                    raise _Stuck(4, "for an iteration the index must move on the way round, but what is needed here is "
                                    "in the same layer", argument.span)
                recursive |= {head.rpartition("@")[0], relation.rpartition("@")[0]}
        return frozenset(recursive)


def _edges(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    edges: dict[str, list[str]] = {}
    for head, relation in pairs:
        edges.setdefault(head, []).append(relation)
    return edges
