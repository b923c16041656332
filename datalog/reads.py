"""Reads with times and at points, taken apart: every way to read a relation becomes a relation with a name of its own.

`r(x)@t` becomes an atom of `r@`, which has the times in one more column; `r(x) at s` one of `r at s`, which is `r` as
of the last point of `s`. A stream has its times in a hidden column of its own. What follows, in the checker and in
the planner, sees atoms with arguments and nothing else. `Program.reads` says what the new relations are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datalog.ast import (
    ARRIVAL,
    Atom,
    Column,
    Program,
    Read,
    Relation,
    Rule,
    Span,
    Sync,
    Ticks,
    Variable,
    replace,
)
from datalog.errors import Note
from datalog.format import format_expression
from datalog.points import CLOCKS, clocks_of, name_of, whole
from datalog.report import Report, suggestion
from datalog.walking import atoms, change_atoms
from datalog.written import HIDDEN

__all__ = ["take_apart"]


def take_apart(program: Program, report: Report) -> tuple[Program, tuple[Rule, ...]]:
    """The program without `@t`, `at s` and columns that are not there, and what its reads rest on.

    The latter are rules as one would write them, `r at s(x) :- r(x), s(t).`, for those who ask what depends on what
    and which types there are; nobody evaluates them. Linear in the size of the program.
    """
    streams = {name: _stream(r) for name, r in program.relations.items() if r.stream}
    work = _Apart(program, report, streams)
    names = work.own.union(streams)
    rules = [work.rule(rule) if _is_concerned(rule, names) else rule for rule in program.rules]
    changed = replace(
        program, rules=tuple(rules), relations={**program.relations, **streams, **work.relations}, reads=work.reads,
        clocks=work.clocks,
    )  # fmt: skip
    return changed, tuple(work.definitions)


def _is_concerned(rule: Rule, names: frozenset[str]) -> bool:
    return any([a.time is not None or a.sync is not None or a.relation in names for a in atoms(rule)[1:]])


def _stream(relation: Relation) -> Relation:
    hidden = Column(ARRIVAL, "any", numeric=True, span=relation.span)
    return replace(relation, columns=(*relation.columns, hidden), bag=True)


@dataclass
class _Apart:
    """The rules of one program, and the reads that were found in them. `first` has an atom of each relation."""

    program: Program
    report: Report
    streams: Mapping[str, Relation]
    own: frozenset[str] = frozenset()
    first: dict[str, Atom] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    reads: dict[str, Read] = field(default_factory=dict)
    clocks: dict[str, Ticks | None] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)
    definitions: list[Rule] = field(default_factory=list)
    hidden: int = 0

    def __post_init__(self) -> None:
        program = self.program
        self.own = clocks_of(program)
        for rule in program.rules:
            self.first.setdefault(rule.head.relation, rule.head)
        for rule in program.rules:
            for atom in atoms(rule)[1:]:
                self.first.setdefault(atom.relation, atom)
        self.known = {*self.first, *program.relations, *(d.relation for d in program.directives)}

    def rule(self, rule: Rule) -> Rule:
        self.hidden = 0
        return change_atoms(rule, self.atom)

    def atom(self, atom: Atom) -> Atom:
        name, arguments = atom.relation, atom.arguments
        if name in self.own:
            return self.clock(atom)
        if name in self.streams:
            arguments = (*arguments, self.fresh(atom) if atom.time is None else atom.time)
        elif atom.time is not None and self.asks_for_times(atom):
            arguments = (*arguments, atom.time)
            name = self.read(Read(f"{name}@", name, "time"), arguments, atom)
        if atom.sync is not None:
            sync = self.sync(atom.sync, atom)
            if sync:
                name = self.read(Read(f"{name} at {sync}", name, "at", sync), arguments, atom)
        return atom if name is atom.relation and arguments is atom.arguments and atom.time is None else Atom(
            name, arguments, atom.span)

    def fresh(self, atom: Atom) -> Variable:
        self.hidden += 1
        return Variable(f"{HIDDEN}{self.hidden}", atom.span)

    # --- times ---

    def clock(self, atom: Atom) -> Atom:
        """An atom of `now` or `clock`."""
        name = atom.relation
        self.use(name)
        if atom.time is not None or atom.sync is not None:
            what, where = ("@", atom.time.span) if atom.time is not None else ("at", atom.sync.span)  # type: ignore[union-attr]
            self.report.add(f"`{name}` is the time itself and cannot be read with `{what}`", where,
                            Note(f"a program that declares or defines `{name}` has a relation of its own"))
        # what was refused binds its variable all the same: one mistake is one message
        return Atom(name, atom.arguments if atom.time is None else (*atom.arguments, atom.time), atom.span)

    def use(self, name: str) -> None:
        """Note that `now` or `clock` is read."""
        self.clocks.setdefault(name, CLOCKS[name])
        column = Column("n", "any", numeric=True) if name == "now" else Column("t", "number", numeric=True)
        self.relations.setdefault(name, Relation(name, (column,), declared=False))

    def asks_for_times(self, atom: Atom) -> bool:
        """Whether it matters which times the tuples of an atom have. Refuses what has none."""
        relation = self.program.relations.get(atom.relation)
        if relation is not None and relation.bag:
            self.report.add(f"`{atom.relation}` is a bag, and the copies of a tuple in it have no time of their own",
                            atom.time.span, Note("a `stream` has one for each of them", relation.span))
        return not (isinstance(atom.time, Variable) and atom.time.anonymous)

    # --- points ---

    def sync(self, sync: Sync, atom: Atom) -> str:
        """The name of the points at which an atom is read; empty if they cannot be."""
        if sync.ticks is not None:
            ticks = self.ticks(sync, sync.ticks)
            if ticks is None:
                return ""
            name = name_of(ticks)
            self.clocks.setdefault(name, ticks)
            return name
        name = sync.name
        if name in self.own:
            if name == "now":
                self.report.add("every moment is a point of `now`", sync.span,
                                Note(f"leave it out: without `at`, `{atom.relation}` is read as it is at any moment"))
                return ""
            self.use(name)
            return name
        return name if self.is_sync(name, sync.span) else ""

    def ticks(self, sync: Sync, written: Ticks) -> Ticks | None:
        """The points of `every(...)`, with numbers for the names of constants."""
        found: list[Any] = []
        for value, what in ((written.period, "period"), (written.start, "start")):
            if isinstance(value, Variable):
                name = "_" if value.anonymous else value.name
                near = suggestion(name, self.program.constants)
                self.report.add(f"the {what} of `every` must be a number, and `{name}` is no constant{near}",
                                value.span, Note(f"define it with .const {name} = ... or --set {name}=...")
                                if not value.anonymous else Note("the points must be known before the program runs"))
                return None
            if value is not None and not isinstance(value.value, (int, float)):
                self.report.add(f"the {what} of `every` must be a number, not `{format_expression(value)}`", value.span)
                return None
            found.append(0 if value is None else whole(value.value))
        if not found[0] > 0:
            self.report.add(f"the period of `every` must be more than 0, not {found[0]}",
                            written.period.span if written.period.span.line else sync.span)
            return None
        return Ticks(*found)

    def is_sync(self, name: str, span: Span) -> bool:
        """Whether the tuples of a relation can be points of time: it has one column, of numbers."""
        relation, first = self.program.relations.get(name), self.first.get(name)
        if name not in self.known:
            single = [n for n in self.known if self.width(n) == 1]
            near = suggestion(name, single) or suggestion(name, self.known)
            example = "every2(t) :- clock(t), t % 2 = 0."
            self.report.add(f"unknown relation `{name}`{near}", span,
                            Note(f"`at` is followed by a view of points of time, such as {example}"))
        elif relation is not None and relation.stream:
            what = ", ".join("_" * relation.arity)
            self.report.add(f"`{name}` is a stream, and its tuples are no points of time", span,
                            Note(f"a view of its times has them: times(t) :- {name}({what})@t."))
        elif self.width(name) not in (1, None):
            place = relation.span if relation is not None else first.span if first is not None else None
            count = self.width(name)
            columns = f"{count or 'no'} column{'' if count == 1 else 's'}"
            self.report.add(f"`{name}` has {columns}, but a point of time is one number", span,
                            Note("it is declared here" if relation is not None else "it is used like this here", place))
        elif relation is not None and not relation.columns[0].numeric:
            self.report.add(f"`{name}` has a column of type {relation.columns[0].type}, but points of time are numbers",
                            span, Note("it is declared here", relation.span))
        else:
            return True
        return False

    def width(self, name: str) -> int | None:
        """How many columns a program can see of a relation."""
        relation = self.program.relations.get(name)
        if relation is not None:
            return len(relation.shown)
        first = self.first.get(name)
        return 1 if name in CLOCKS and first is None else None if first is None else len(first.arguments)

    # --- reads ---

    def read(self, read: Read, arguments: tuple[Any, ...], atom: Atom) -> str:
        """The name of the read, which is noted if it is new."""
        if read.name not in self.reads:
            self.reads[read.name] = read
            columns = [_column(argument, i) for i, argument in enumerate(arguments)]
            if read.kind == "time" or read.relation.endswith("@") or read.relation in self.streams:
                columns[-1] = Column(ARRIVAL, "any", numeric=True)
            self.relations[read.name] = Relation(read.name, tuple(columns), declared=False, span=atom.span)
            self.definitions.append(self.definition(read, arguments, atom))
        return read.name

    def definition(self, read: Read, arguments: tuple[Any, ...], atom: Atom) -> Rule:
        seen: set[str] = set()
        shown: list[Variable] = []
        for index, argument in enumerate(arguments):
            named = isinstance(argument, Variable) and not argument.anonymous and argument.name not in seen
            shown.append(Variable(argument.name if named else f"_#{index + 1}", argument.span))
            seen.add(shown[-1].name)
        body = [Atom(read.relation, tuple(shown[:-1] if read.kind == "time" else shown), atom.span)]
        if read.sync and read.sync not in self.clocks:
            span = atom.sync.span if atom.sync is not None and atom.sync.span.line else atom.span
            body.append(Atom(read.sync, (Variable("_#0", span),), span))
        return Rule(Atom(read.name, tuple(shown), atom.span), tuple(body), atom.span)


def _column(argument: Any, index: int) -> Column:
    named = isinstance(argument, Variable) and not argument.anonymous
    return Column(argument.name if named else f"c{index}", "any")
