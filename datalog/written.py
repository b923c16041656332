"""A checked program as it was written: `r at s(x)` as `r(x) at s`, and streams without the column of their times.

Who checks a program again, or shows it, begins here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Negation,
    Program,
    Read,
    Relation,
    Rule,
    Sync,
    Ticks,
    Variable,
    replace,
)

__all__ = ["HIDDEN", "as_written", "change_atoms", "written_atom"]

HIDDEN = "_#@"
"""How the variable begins that the checker puts into an atom of a stream for a time that the program does not name."""


def change_atoms(rule: Rule, change: Callable[[Atom], Atom]) -> Rule:
    """The rule with every atom of its body changed, also negated ones and those in aggregates; itself if none is.

    >>> from datalog.parser import parse
    >>> from datalog.format import format_rule
    >>> rule = parse("r(n) :- s(n), !t(n), n = count : { u(_) }.").rules[0]
    >>> print(format_rule(change_atoms(rule, lambda atom: replace(atom, relation=atom.relation.upper()))))
    r(n) :- S(n), !T(n), n = count : { U(_) }.
    """
    body = tuple([_changed(literal, change) for literal in rule.body])
    return rule if all(map(_same, body, rule.body)) else replace(rule, body=body)


def _same(one: object, other: object) -> bool:
    return one is other


def _changed(node: Any, change: Callable[[Atom], Atom]) -> Any:
    """A literal, or an expression of one."""
    if isinstance(node, Atom):
        return change(node)
    if isinstance(node, Negation):
        atom = change(node.atom)
        return node if atom is node.atom else replace(node, atom=atom)
    if isinstance(node, Comparison):
        left, right = _changed(node.left, change), _changed(node.right, change)
        return node if left is node.left and right is node.right else replace(node, left=left, right=right)
    if isinstance(node, Call):
        arguments = tuple([_changed(a, change) for a in node.arguments])
        return node if all(map(_same, arguments, node.arguments)) else replace(node, arguments=arguments)
    if isinstance(node, Aggregate):
        body = tuple([_changed(literal, change) for literal in node.body])
        return node if all(map(_same, body, node.body)) else replace(node, body=body)
    return node


def as_written(program: Program) -> Program:
    """The program before `datalog.reads` took the reads and times of it apart; itself if it has none.

    >>> from datalog import check, parse
    >>> from datalog.format import format_rule
    >>> program = check(parse(".decl s(x: number) stream  r(x) :- s(x)@t at every(2), s(t).  s(1)."))
    >>> [format_rule(rule) for rule in as_written(program).rules]
    ['r(x) :- s(x)@t at every(2), s(t).', 's(1).']
    """
    streams = {name for name, r in program.relations.items() if r.stream and r.arity != len(r.shown)}
    if not (streams or program.reads or program.clocks):
        return program

    def change(atom: Atom) -> Atom:
        return written_atom(atom, program.reads, program.clocks, streams)

    relations = {name: _shown(r) if name in streams else r for name, r in program.relations.items()
                 if name not in program.reads and name not in program.clocks}
    return replace(
        program, rules=tuple([change_atoms(rule, change) for rule in program.rules]), relations=relations, reads={},
        clocks={},
    )  # fmt: skip


def _shown(stream: Relation) -> Relation:
    return replace(stream, columns=stream.shown, bag=False)


def written_atom(
    atom: Atom, reads: Mapping[str, Read], clocks: Mapping[str, Ticks | None], streams: Any
) -> Atom:
    """An atom of a checked program as it was written."""
    sync: Sync | None = None
    name, arguments, time = atom.relation, atom.arguments, None
    read = reads.get(name)
    if read is not None and read.kind == "at":
        ticks = clocks.get(read.sync)
        sync = Sync(read.sync) if ticks is None or read.sync == "clock" else Sync("every", _named(ticks))
        name = read.relation
        read = reads.get(name)
    if read is not None or name in streams:
        arguments, time = arguments[:-1], arguments[-1]
        name = name if read is None else read.relation
        if isinstance(time, Variable) and time.name.startswith(HIDDEN):
            time = None
    return atom if name is atom.relation and arguments is atom.arguments else Atom(
        name, arguments, atom.span, time, sync)


def _named(ticks: Ticks) -> Ticks:
    return Ticks(Constant(ticks.period), Constant(ticks.start) if ticks.start else None)
