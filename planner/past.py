"""Columns in which there are only times that have passed."""

from __future__ import annotations

from datalog.ast import ARRIVAL, Atom, HeadAggregate, Variable
from planner.draft import Draft

__all__ = ["past_columns"]


def past_columns(draft: Draft) -> frozenset[tuple[str, int]]:
    """The columns, by relation and position, that never have a time behind the clock: it need not be asked whether a
    time in one of them has come.

    Those are the times of tuples, the clock itself, and the columns of views that get their values from such columns:
    of all columns of views those are struck out that some rule gives another value, until nothing changes.
    """
    program = draft.program
    found: set[tuple[str, int]] = set()
    for name, relation in program.relations.items():
        if relation.columns and relation.columns[-1].name == ARRIVAL:
            found.add((name, relation.arity - 1))
    found |= {(name, 0) for name in program.clocks}
    filled = {fact.head.relation for fact in program.facts} | {d.relation for d in program.directives_of("input")}
    views = {(name, i) for name in program.derived - filled for i in range(program.relations[name].arity)}
    reads = {(r.name, i): (r.relation, i) for r in program.reads.values()
             for i in range(program.relations[r.name].arity)}
    open_ = views | {column for column in reads if column not in found}
    while True:
        out = {column for column in open_ & reads.keys() if reads[column] not in found | open_}
        for clause in draft.clauses:
            head = clause.rule.head
            wanted = [i for i in range(len(head.arguments)) if (head.relation, i) in open_]
            if wanted:
                passed = {
                    a.name
                    for atom in clause.rule.body if isinstance(atom, Atom)
                    for i, a in enumerate(atom.arguments)
                    if isinstance(a, Variable) and ((atom.relation, i) in found or (atom.relation, i) in open_)
                }
                out |= {(head.relation, i) for i in wanted if _source(head.arguments[i]) not in passed}
        if not out:
            return frozenset(found | open_)
        open_ -= out


def _source(node: object) -> str | None:
    """The variable of which a head shows the values."""
    if isinstance(node, HeadAggregate) and node.function in ("min", "max"):
        node = node.target
    return node.name if isinstance(node, Variable) else None
