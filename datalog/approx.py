"""`.approx rank 1e-9`: views whose small changes are not passed on.

The *values* of an approximated view are the numbers that may be a little off; all its other columns are its *key*. In
a view with head aggregates, the values are the numbers that some rule aggregates; in any other, they are the floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from datalog.ast import HeadAggregate, Program
from datalog.dependencies import components, dependencies
from datalog.errors import Note
from datalog.indexed import iterations
from datalog.report import Report

__all__ = ["Approximation", "approximations", "check_approximations"]

NUMERIC = ("number", "unsigned", "float")


@dataclass(frozen=True, slots=True)
class Approximation:
    """How far the numbers in some columns of a view may be off before that is told."""

    threshold: float
    values: tuple[int, ...]


def approximations(program: Program) -> dict[str, Approximation]:
    """The approximated views of a checked program.

    >>> from datalog import check, parse
    >>> approximations(check(parse('.approx total 0.5  total(x, sum<v>) :- sale(x, v), v > 0.0.')))
    {'total': Approximation(threshold=0.5, values=(1,))}
    """
    return {
        d.relation: Approximation(float(d.parameters["threshold"]), _values(program, d.relation))
        for d in program.directives_of("approx")
    }


def _values(program: Program, name: str) -> tuple[int, ...]:
    columns = program.relations[name].columns
    heads = [rule.head for rule in program.rules if rule.body and rule.head.relation == name]
    aggregated = {i for head in heads for i, a in enumerate(head.arguments) if isinstance(a, HeadAggregate)}
    if aggregated:
        return tuple(i for i in sorted(aggregated) if columns[i].numeric or columns[i].type in NUMERIC)
    return tuple(i for i, column in enumerate(columns) if column.type == "float")


def check_approximations(program: Program, report: Report) -> None:
    """Whether every `.approx` is about a view that can be approximated, once, with a threshold that makes sense."""
    first = {d.relation: d for d in reversed(program.directives_of("approx"))}
    recursive = _recursive(program) if first else frozenset()
    for directive in program.directives_of("approx"):
        name = directive.relation
        if name not in program.relations:
            continue  # reported already
        if directive is not first[name]:
            report.add(f"`{name}` is approximated twice", directive.span, Note("here for the first time",
                                                                              first[name].span))
        elif not directive.parameters["threshold"] > 0:
            report.add("the threshold of .approx must be more than 0", directive.span)
        elif name not in program.derived:
            report.add(f"only a view can be approximated, and no rule defines `{name}`", directive.span)
        elif name in recursive:
            report.add(f"`{name}` is recursive and cannot be approximated", directive.span,
                       Note("an iteration can be: recursion through an index, with one layer after the other"))
        elif not _values(program, name):
            report.add(f"`{name}` has no numbers to approximate", directive.span,
                       Note("they are what its rules aggregate, or its columns of floats"))


def _recursive(program: Program) -> frozenset[str]:
    """The relations that depend on themselves, other than from layer to layer."""
    edges: dict[str, list[str]] = {}
    for rule in program.rules:
        for dependency in dependencies(rule):
            edges.setdefault(rule.head.relation, []).append(dependency.relation)
    component = components(edges)
    found: Mapping[str, bool] = {
        head: any(component[head] == component[relation] for relation in read) for head, read in edges.items()
    }
    layered = {name: name in iteration.recursive for iteration in iterations(program) for name in iteration.columns}
    return frozenset(name for name, recursive in {**found, **layered}.items() if recursive)
