"""A checked program as it was written: `r at s(x)` as `r(x) at s`, and streams without the column of their times.

Who checks a program again, or shows it, begins here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog.ast import (
    Atom,
    Constant,
    Program,
    Read,
    Relation,
    Sync,
    Ticks,
    Variable,
    replace,
)
from datalog.walking import change_atoms

__all__ = ["HIDDEN", "as_written", "written_atom"]

HIDDEN = "_#@"
"""How the variable begins that the checker puts into an atom of a stream for a time that the program does not name."""


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
