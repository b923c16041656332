"""Views of points of time of which only the present one matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from datalog.ast import Aggregate, Comparison, Literal, Negation, Rule, Variable
from planner.draft import SHOWN, Draft, reads

__all__ = ["atoms_of", "recent_views"]


def recent_views(draft: Draft) -> frozenset[str]:
    """The views of points of which nobody needs those that have passed.

    They are read by nothing but synchronised reads, and rules of such views, for the point that the rule is about. What
    is asked of them is whether the time at which the clock stands is among their points.
    """
    program = draft.program
    shown = {*program.outputs, *(d.relation for d in program.directives if d.kind in SHOWN)}
    read = {r.relation for r in program.reads.values()}
    found = {
        name for name in _below(draft, {r.sync for r in program.reads.values()})
        if program.relations[name].arity == 1 and name not in shown and name not in read and name not in draft.latest
    }
    while found:
        wrong = {
            atom.relation
            for clause in draft.clauses
            for literal, inside in atoms_of(clause.rule.body)
            if (atom := literal.atom if isinstance(literal, Negation) else literal).relation in found
            and (inside or clause.rule.head.relation not in found or clause.rule.head.arguments != atom.arguments
                 or not isinstance(atom.arguments[0], Variable))
        }
        if not wrong:
            break
        found -= wrong
    return frozenset(found)


def _below(draft: Draft, names: set[str]) -> set[str]:
    """The views among these, and those that their rules read, directly or not."""
    if not names:
        return names
    rules: dict[str, list[Rule]] = {}
    for clause in draft.clauses:
        rules.setdefault(clause.rule.head.relation, []).append(clause.rule)
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name in rules and name not in found:
            found.add(name)
            waiting += [other for rule in rules[name] for other in reads(rule)]
    return found


def atoms_of(body: Iterable[Literal], inside: bool = False) -> Iterable[tuple[Any, bool]]:
    """The atoms and negations of a body, and whether each is inside an aggregate."""
    for literal in body:
        if not isinstance(literal, Comparison):
            yield literal, inside
        elif isinstance(literal.right, Aggregate):
            yield from atoms_of(literal.right.body, True)
