"""What the planner's passes hand on to each other: a plan in the making, as immutable data.

A `Draft` starts as a checked program with its rules numbered (`reachable/1` is the first rule of `reachable`).
The passes rewrite the rules, then replace them by plan rules over relations, then order and place those.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import msgspec

from datalog import dependencies
from datalog.approx import approximations
from datalog.ast import (
    Aggregate,
    Atom,
    Comparison,
    Expression,
    Negation,
    Program,
    Rule,
    Variable,
    expressions,
    variables,
)
from datalog.functions import user_functions
from operators.schedule import Schedule
from planner.plan import ClockRule, Layer, PlanRule, RelationPlan, Stratum, Tolerance, WindowRule

__all__ = ["SHOWN", "Body", "Clause", "Draft", "Latest", "Lookup", "clock_of", "components", "reads"]

COMMON = "shared."
"""How the names of views begin that nobody wrote: several views read them (`planner.sharing`)."""

UNIT = "#unit"
"""A base relation with one tuple without columns: what rules without atoms and lookups without keys start from."""

SHOWN = ("output", "printsize", "limitsize")
"""The directives that ask for all tuples of a relation."""


class Body(msgspec.Struct, frozen=True):
    """A rule body in normal form.

    `atoms`: the arguments of each are distinct variables; a variable in two atoms joins them.
    `definitions`: variables that an equation defines, by what they stand for (over atoms, lookups and each other).
    `lookups`: negations and body aggregates.
    `filters`: comparisons over all of these.
    """

    atoms: tuple[Atom, ...]
    definitions: Mapping[str, Expression]
    lookups: tuple[Lookup, ...]
    filters: tuple[Comparison, ...]

    def roots(self, node: Any, known: Container[str] = ()) -> set[str]:
        """The variables that a node comes down to once definitions are written out, except those of `known` ones."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = variables(node)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                if name in self.definitions and name not in known:
                    waiting += variables(self.definitions[name])
                else:
                    found.add(name)
        return found


class Lookup(msgspec.Struct, frozen=True):
    """A negation (`function` is `absent`) or a body aggregate, whose `result` is a variable of the outer body.

    `needs`: the variables of the outer body that occur in it, in order of occurrence.
    """

    function: str
    target: Expression | None
    body: Body
    result: str | None
    needs: tuple[str, ...]
    type: str = "any"


class Latest(msgspec.Struct, frozen=True):
    """A relation of one tuple: this column is the clock or, with `ticks`, the last of them, if there is any."""

    ticks: Schedule | None = None
    column: int = 0


class Clause(msgspec.Struct, frozen=True):
    """A rule of the program under way: `rule` as passes rewrite it, and its `body` once in normal form."""

    id: str
    rule: Rule
    body: Body | None = None

    @property
    def normal(self) -> Body:
        """The body in normal form; `normalise` has run."""
        assert self.body is not None, f"{self.id} is not in normal form yet"
        return self.body


class Draft(msgspec.Struct, frozen=True):
    """The state between two passes. `sizes`: a guess at how small a relation is (larger is smaller).

    `functions`: those that are not built in, the user's at first. `aggregates`: those that the planner itself
    needs beside the built-in ones and the user's. `layers`: the relations that are layers of others. `tolerances`:
    those that are approximated.

    Of time: `schedules` are the points that the clock gives to a view of points, `mixed` those of these views that have
    others as well. `latest` are the relations whose one tuple has the clock, or the last point of a schedule.
    `groups` has the columns that were group columns before their rule came to read a last point. `clocks` and `windows`
    are the relations that the planner makes for points and windows, by the rules that make them.
    `hidden` are views that nobody sees but rules, because they are not whole.
    """

    program: Program
    clauses: tuple[Clause, ...] = ()
    facts: Mapping[str, tuple[tuple[Any, ...], ...]] = {}
    relations: Mapping[str, RelationPlan] = {}
    rules: tuple[PlanRule, ...] = ()
    sizes: Mapping[str, int] = {}
    functions: Mapping[str, Callable[..., Any]] = {}
    aggregates: Mapping[str, Any] = {}
    layers: Mapping[str, Layer] = {}
    tolerances: Mapping[str, Tolerance] = {}
    strata: tuple[Stratum, ...] = ()
    notes: tuple[str, ...] = ()
    schedules: Mapping[str, Schedule] = {}
    mixed: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    latest: Mapping[str, Latest] = {}
    groups: Mapping[str, tuple[int, ...]] = {}
    clocks: Mapping[str, ClockRule] = {}
    windows: Mapping[str, WindowRule] = {}

    @classmethod
    def start(cls, program: Program) -> Draft:
        """Number the rules of a program, relation by relation."""
        counts: dict[str, int] = {}
        clauses = []
        for rule in program.rules:
            if rule.body:
                name = rule.head.relation
                counts[name] = counts.get(name, 0) + 1
                clauses.append(Clause(f"{name}/{counts[name]}", rule))
        registered = user_functions(program.functions, program.longest)
        functions = {name: function.call for name, function in registered.items()}
        tolerances = {name: Tolerance(a.values, a.threshold) for name, a in approximations(program).items()}
        common = frozenset(name for name in counts if name.startswith(COMMON))
        return cls(program, tuple(clauses), functions=functions, tolerances=tolerances, hidden=common)


def clock_of(program: Program) -> str:
    """The name of the relation that has where the clock stands: `now`, if that is no relation of the program's own."""
    return "now" if "now" in program.clocks or "now" not in program.relations else "the clock"


def reads(rule: Rule) -> list[str]:
    """The relations that a rule reads, also inside negations and aggregates."""
    if rule.flat:
        return [atom.relation for atom in rule.body]  # type: ignore[union-attr]
    found = list(_relations(rule.body))
    for expression in expressions(rule.head):
        if isinstance(expression, Aggregate):
            found += _relations(expression.body)
    return found


def _relations(literals: Any) -> Iterator[str]:
    for literal in literals:
        if isinstance(literal, (Atom, Negation)):
            yield (literal.atom if isinstance(literal, Negation) else literal).relation
        if isinstance(literal, Atom) and all(isinstance(a, Variable) for a in literal.arguments):
            continue
        for expression in expressions(literal):
            if isinstance(expression, Aggregate):
                yield from _relations(expression.body)


def components(program: Program) -> dict[str, frozenset[str]]:
    """For each recursive relation of a program, the relations that are recursive through each other with it."""
    edges: dict[str, list[str]] = {}
    for rule in program.rules:
        edges.setdefault(rule.head.relation, []).extend(reads(rule))
    members: dict[int, list[str]] = {}
    for name, number in dependencies.components(edges).items():
        members.setdefault(number, []).append(name)
    found: dict[str, frozenset[str]] = {}
    for names in members.values():
        if len(names) > 1 or names[0] in edges.get(names[0], ()):
            found.update(dict.fromkeys(names, frozenset(names)))
    return found
