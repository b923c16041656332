"""Failures that a person chose: facts that are deleted, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from datalog.ast import Program
from datalog.errors import UsageProblem
from datalog.report import suggestion
from livelog.io.values import TextProblem, format_row
from livelog.queries import Pattern, parse_pattern

if TYPE_CHECKING:
    import networkx as nx

    from topologies import Step

__all__ = ["chosen_failures"]

Row = tuple[Any, ...]
LINKS = ("link", "edge")


def chosen_failures(
    texts: Sequence[str], program: Program, facts: Mapping[str, Sequence[Row]], graph: nx.Graph
) -> list[Step]:
    """A step for each text such as `link("a", "b")`: the facts that it matches are deleted in one transaction.

    Columns that are not mentioned, and `_`, match anything. In an undirected network both directions of a link fail.
    """
    from topologies import Step

    return [
        Step(float(number), tuple(("-", relation, row) for row in rows), f"{text} fails")
        for number, (text, relation, rows) in enumerate(
            ((text.strip(), *_matched(text.strip(), program, facts, graph)) for text in texts), 1
        )
    ]


def _matched(
    text: str, program: Program, facts: Mapping[str, Sequence[Row]], graph: nx.Graph
) -> tuple[str, list[Row]]:
    try:
        pattern = parse_pattern(text)
    except TextProblem as problem:
        raise UsageProblem(f"--fail {text}: {problem.message}") from None
    relation = pattern.relation
    if relation not in program.base:
        near = suggestion(relation, program.base)
        raise UsageProblem(f"--fail {text}: the program has no base relation `{relation}`{near}")
    arity, arguments = program.relations[relation].arity, pattern.arguments or ()
    if len(arguments) > arity:
        raise UsageProblem(f"--fail {text}: `{relation}` has {arity} columns, not {len(arguments)}")
    there = [tuple(row) for row in facts.get(relation, ())]
    rows = _matching(relation, arguments, arity, there)
    if not rows:
        raise UsageProblem(f"--fail {text}: there is no such fact{_nearest(relation, arguments, there)}")
    if relation in LINKS and not graph.is_directed():
        opposite = {(row[1], row[0]) for row in rows}
        rows += [row for row in there if row[:2] in opposite and row not in rows]
    return relation, rows


def _matching(relation: str, arguments: Sequence[tuple[str, Any]], arity: int, rows: Sequence[Row]) -> list[Row]:
    # a variable is one more way to say "anything"; where it stands twice, the values must be the same
    named = [(kind, f"{value}") if kind == "variable" else (kind, value) for kind, value in arguments]
    named += [("any", "_")] * (arity - len(named))
    whole = [(kind, value) if kind != "any" else ("variable", f"_{i}") for i, (kind, value) in enumerate(named)]
    wanted = Pattern(relation, tuple(whole))
    return [row for row in rows if any(True for _ in wanted.bindings([row]))]


def _nearest(relation: str, arguments: Sequence[tuple[str, Any]], rows: Sequence[Row]) -> str:
    """A fact that has most of the values, as a hint."""
    values = [(i, value) for i, (kind, value) in enumerate(arguments) if kind == "value"]
    scored = [(sum(str(row[i]) == str(value) for i, value in values), row) for row in rows]
    best = max((score for score, _ in scored), default=0)
    if not best:
        return ""
    return f"; there is {format_row(relation, next(row for score, row in scored if score == best))}"
