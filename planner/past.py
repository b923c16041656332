"""Columns in which there are only times that have passed."""

from __future__ import annotations

from collections.abc import Collection

from datalog.ast import ARRIVAL, Atom, HeadAggregate, Rule, Variable
from planner.draft import Draft

__all__ = ["past_columns"]


def past_columns(draft: Draft) -> frozenset[tuple[str, int]]:
    """The columns, by relation and position, that never have a time behind the clock: it need not be asked whether a
    time in one of them has come.

    Those are the times of tuples, the clock itself, and the columns of views that get their values from such columns:
    of all columns of views those are struck out that some rule gives another value, until nothing changes. A rule is
    looked at once, and once more for each column below it that is struck out.

    >>> from planner.show import draft_of
    >>> from planner.passes.clocks import clocks
    >>> draft = draft_of('''a(t, x) :- s(x)@t. b(x, t + 1) :- a(t, x). c(t) :- a(t, _), !d(t). c(t) :- b(_, t).
    ... e(t) :- a(t, _) at c. .decl s(x: number) .decl d(t: number)''', clocks)
    >>> sorted(column for column in past_columns(draft) if "@" not in column[0])
    [('a', 0), ('a at c', 0), ('e', 0)]
    """
    program = draft.program
    filled = {fact.head.relation for fact in program.facts} | {d.relation for d in program.directives_of("input")}
    found = {(name, 0) for name in program.clocks}
    found |= {(name, i) for name in program.derived - filled for i in range(program.relations[name].arity)}
    below: dict[str, list[str]] = {}
    for read in program.reads.values():
        below.setdefault(read.relation, []).append(read.name)
        found |= {(read.name, i) for i in range(program.relations[read.name].arity)}
    for name, relation in program.relations.items():
        if relation.columns and relation.columns[-1].name == ARRIVAL:
            found.add((name, relation.arity - 1))
    readers: dict[str, list[Rule]] = {}
    for clause in draft.clauses:
        for name in {atom.relation for atom in clause.rule.body if isinstance(atom, Atom)}:
            readers.setdefault(name, []).append(clause.rule)
    waiting: list[Rule | str] = [clause.rule for clause in draft.clauses]
    waiting += [name for name in below if name not in program.derived]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Rule):
            out = _other(item, found)
            changed = {name for name, _ in out}
        else:  # what reads a relation shows the same, and a time more
            columns = range(program.relations[item].arity)
            out = {
                (name, i) for name in below.get(item, ()) for i in columns
                if (name, i) in found and (item, i) not in found
            }
            changed = {name for name, _ in out}
        found -= out
        for name in changed:
            waiting += [name, *readers.get(name, ())]
    return frozenset(found)


def _other(rule: Rule, found: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """The columns that a rule gives a value which may be no time that has passed."""
    head = rule.head
    wanted = [i for i in range(len(head.arguments)) if (head.relation, i) in found]
    passed = {
        argument.name
        for atom in rule.body if wanted and isinstance(atom, Atom)
        for i, argument in enumerate(atom.arguments)
        if isinstance(argument, Variable) and (atom.relation, i) in found
    }  # fmt: skip
    return {(head.relation, i) for i in wanted if _source(head.arguments[i]) not in passed}


def _source(node: object) -> str | None:
    """The variable of which a head shows the values."""
    if isinstance(node, HeadAggregate) and node.function in ("min", "max"):
        node = node.target
    return node.name if isinstance(node, Variable) else None
