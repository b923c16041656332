"""Turn conditions over the clock into windows: relations of the tuples for which they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    ARRIVAL,
    Aggregate,
    Atom,
    Column,
    Comparison,
    Expression,
    Literal,
    Negation,
    Relation,
    Rule,
    Variable,
    expressions,
    variables,
)
from datalog.format import format_literal
from operators.schedule import EMPTY, Schedule
from planner.bounds import CLOCK, Solution, solved
from planner.draft import SHOWN, Clause, Draft, Latest, clock_of, components
from planner.plan import ClockRule, Input, WindowRule
from planner.recent import atoms_of, recent_views
from planner.rewrite import Fresh, fresh_after, substitute
from planner.spelling import schedule_words
from planner.translate import Translator

__all__ = ["windows"]

FLIPPED = {">": "<", ">=": "<="}
NUMBERS = ("number", "unsigned", "float")


def windows(draft: Draft) -> Draft:
    """Where a rule compares the clock with columns of an atom, let the atom read a window, and forget the comparison.

    Windows that say the same are one. What is not solved for the clock (`planner.bounds`), or is not about one atom,
    stays, and with it the atom that binds the clock: such a rule is looked at whenever the clock gets to a whole tick.
    The same holds for the last point of a schedule in the place of the clock. A view that has nothing else, and that
    only was there for windows, is not made any more.

    Views of points that are nothing but points of synchronised reads have no use for a point that has passed, so
    what they read of a stream is a window, too: the tuples that have just arrived.

    >>> from planner.show import before_and_after
    >>> before_and_after(windows, '''.decl s(x: number) stream
    ... r(x) :- s(x)@t, now(n), n - 5 < t, t <= n.
    ... c(count<*>) :- s(_)@t, now(n), t > n - 5.
    ... d(x, n) :- s(x)@t, now(n), t + 5 > n.''')
    r(x) :- s(x, t), now(n), n - 5 < t, t <= n.
    c(count<*>) :- s(_, t), now(n), t > n - 5.
    d(x, n) :- s(x, t), now(n), t + 5 > n.
    r(x) :- s while (@ <= now and now - 5 < @)(x, t).
    c(count<*>) :- s while (now - 5 < @)(_, t).
    d(x, n) :- s while (now < @ + 5)(x, t), now(n).
    """
    recent = recent_views(draft)
    if not draft.latest and not recent:
        return draft
    return _Windows(draft, recent).draft()


class _Windows:
    """The work on one program. `made` are the windows, `recent` the views that have no use for points that passed."""

    def __init__(self, source: Draft, recent: frozenset[str]) -> None:
        self.source = source
        self.recent = recent
        self.relations: dict[str, Relation] = dict(source.program.relations)
        self.now = clock_of(source.program)
        self.latest = {**source.latest, self.now: Latest()} if recent else dict(source.latest)
        self.recursive = components(source.program)
        self.translator = Translator(source.program, {}, source.functions)
        self.made: dict[str, WindowRule] = {}

    def draft(self) -> Draft:
        source = self.source
        if self.recent:
            column = Column("n", "any", numeric=True)
            self.relations.setdefault(self.now, Relation(self.now, (column,), declared=False))
        clauses = self.read_by_any([self.clause(clause) for clause in source.clauses])
        used = _used(source, clauses)
        clocks = dict(source.clocks)
        if self.now in self.latest:
            clocks[self.now] = ClockRule(self.now, self.now, "now", EMPTY, "the clock")
        clocks = {name: rule for name, rule in clocks.items() if name in used}
        heads = {clause.rule.head.relation for clause in clauses}
        for name in self.latest.keys() - used - heads - source.program.derived & self.relations.keys():
            del self.relations[name]
        program = replace(
            source.program,
            rules=(*source.program.facts, *(clause.rule for clause in clauses)),
            relations=self.relations,
        )
        return replace(
            source, program=program, clauses=tuple(clauses), clocks=clocks, windows=self.made,
            hidden=source.hidden | self.recent,
        )  # fmt: skip

    def read_by_any(self, clauses: list[Clause]) -> list[Clause]:
        """The rules without those of views that only have the last point for windows, and that nobody looks at."""
        source = self.source
        shown = {*source.program.outputs, *(d.relation for d in source.program.directives if d.kind in SHOWN)}
        while True:
            used = shown | _used(source, clauses)
            rest = [c for c in clauses if (name := c.rule.head.relation) not in self.latest or name in used]
            if len(rest) == len(clauses):
                return clauses
            for clause in clauses:
                if clause.rule.head.relation in self.latest.keys() - used:
                    self.relations.pop(clause.rule.head.relation, None)
            clauses = rest

    def clause(self, clause: Clause) -> Clause:
        rule = clause.rule
        fresh = fresh_after(rule)
        if rule.head.relation in self.recent:
            rule = self.of_just_now(rule, fresh)
        if not any(_relation(x) in self.latest for x, _ in atoms_of(rule.body)):
            return clause if rule is clause.rule else replace(clause, rule=rule)
        around = self.recursive.get(rule.head.relation, frozenset())
        body = _Body(self, around, variables(rule.head), fresh).body(rule.body, {}, ())
        return replace(clause, rule=replace(rule, body=body))

    def of_just_now(self, rule: Rule, fresh: Fresh) -> Rule:
        """A rule for a view of points that has no use for those that have passed."""
        t = rule.head.arguments[0]
        added: list[Literal] = []
        for atom in rule.body:
            if not isinstance(atom, Atom) or not isinstance(t, Variable) or not self.is_stream(atom.relation):
                continue
            if any(a == t and self.is_number(atom, i) for i, a in enumerate(atom.arguments)):
                n = Variable(fresh("now"))
                added += [Atom(self.now, (n,)), Comparison("<=", n, t)]
                break
        return replace(rule, body=(*rule.body, *added)) if added else rule

    def time(self, literal: Literal) -> tuple[str, Schedule | None] | None:
        """The variable that an atom binds to the clock, or to the last of some points."""
        known = self.latest.get(literal.relation) if isinstance(literal, Atom) else None
        t = None if known is None else literal.arguments[known.column]  # type: ignore[union-attr]
        return (t.name, known.ticks) if known is not None and isinstance(t, Variable) else None

    def is_stream(self, name: str) -> bool:
        read = self.source.program.reads.get(name)
        return self.relations[name].stream if read is None else self.is_stream(read.relation)

    def is_number(self, atom: Atom, column: int) -> bool:
        known = self.relations[atom.relation].columns[column]
        return known.numeric or known.type in NUMBERS

    def window(self, atom: Atom, found: Sequence[tuple[Comparison, Solution]], ticks: Schedule | None) -> str:
        """The name of the window of an atom's relation with these conditions, of which the texts tell it apart."""
        source = self.relations[atom.relation]
        texts = sorted({self.text(condition, atom, ticks) for condition, _ in found})
        behind = "" if ticks is None else f", of {schedule_words(ticks)}"
        name = f"{source.name} while ({' and '.join(texts)}{behind})"
        enters = tuple(dict.fromkeys(b for _, solution in found for b in solution.enters))
        leaves = tuple(dict.fromkeys(b for _, solution in found for b in solution.leaves))
        while True:
            rule = WindowRule(name, name, Input(source.name, ()), enters, leaves, ticks, name)
            known = self.made.setdefault(name, rule)
            if set(known.enters) == set(enters) and set(known.leaves) == set(leaves) and known.ticks == ticks:
                break
            name += "'"  # columns may have the same name
        self.relations[name] = replace(source, name=name, key=(), ttl=None, stream=False, declared=False)
        return name

    def text(self, condition: Comparison, atom: Atom, ticks: Schedule | None) -> str:
        columns = self.relations[atom.relation].columns
        names: dict[str, Expression] = {CLOCK: Variable("now" if ticks is None else "last")}
        for argument, column in reversed(list(zip(atom.arguments, columns, strict=True))):
            if isinstance(argument, Variable):
                names[argument.name] = Variable(column.name)
        if condition.op in FLIPPED:
            condition = replace(condition, op=FLIPPED[condition.op], left=condition.right, right=condition.left)
        return format_literal(substitute(condition, names))


class _Body:
    """The work on the bodies of one rule. `around`: the relations that are recursive with its head."""

    def __init__(self, work: _Windows, around: frozenset[str], head: Sequence[str], fresh: Fresh) -> None:
        self.work = work
        self.around = around
        self.head = head
        self.fresh = fresh

    def body(
        self, literals: Sequence[Literal], given: Mapping[str, Schedule | None], outer: Iterable[str]
    ) -> tuple[Literal, ...]:
        """A body with windows. `given`: the outer variables of the clock. `outer`: what else is read around it."""
        work = self.work
        times = dict(given)
        for x in literals:
            if (n := work.time(x)) is not None:
                times.setdefault(n[0], n[1])
        literals = [y for x in literals for y in self.apart(x, times)]
        done = list(literals)
        chosen: dict[tuple[int, Schedule | None], list[tuple[int, Comparison, Solution]]] = {}
        definitions = _definitions(literals, given)
        for i, x in enumerate(literals):
            if not isinstance(x, Comparison) or any(isinstance(e, Aggregate) for e in expressions(x)):
                continue
            condition = _written_out(x, definitions)
            names = set(variables(condition))
            clocks = {times[name] for name in names & times.keys()}
            if len(clocks) == 1 and i not in {d for d, _ in definitions.values()}:
                (ticks,) = clocks
                named = substitute(condition, {name: Variable(CLOCK) for name in names & times.keys()})
                found = self.atom(literals, names - times.keys(), named)
                if found is not None:
                    at, solution = found
                    chosen.setdefault((at, ticks), []).append((i, named, solution))
        gone: set[int] = set()
        for (at, ticks), conditions in chosen.items():
            atom = done[at]
            assert isinstance(atom, Atom)
            name = work.window(atom, [(c, solution) for _, c, solution in conditions], ticks)
            done[at] = replace(atom, relation=name)
            gone |= {i for i, _, _ in conditions}
        left = [x for i, x in enumerate(done) if i not in gone]
        if gone:
            left = _needed(left, [literals[d] for d, _ in definitions.values()], [*self.head, *outer])
        for i, x in enumerate(left):
            if isinstance(x, Comparison) and isinstance(x.right, Aggregate):
                around = [n for y in left if y is not x for n in variables(y)]
                inner = self.body(x.right.body, times, [*around, *variables(x.right.target), *outer])
                left[i] = replace(x, right=replace(x.right, body=inner))
        windowed = {ticks for _, ticks in chosen}
        return tuple(self.without_clocks(left, windowed, [*self.head, *outer]))

    def apart(self, literal: Literal, times: Iterable[str]) -> list[Literal]:
        """An atom that the clock is joined with, and the equation for that: `d(x, n), now(n)`."""
        found = [literal]
        if isinstance(literal, Atom) and literal.relation not in {*self.work.latest, *self.around}:
            arguments = list(literal.arguments)
            for i, a in enumerate(arguments):
                if isinstance(a, Variable) and a.name in times and self.work.is_number(literal, i):
                    arguments[i] = Variable(self.fresh(a.name), a.span)
                    found.append(Comparison("=", arguments[i], a, a.span))
            if len(found) > 1:
                found[0] = replace(literal, arguments=tuple(arguments))
        return found

    def atom(
        self, literals: Sequence[Literal], names: set[str], condition: Comparison
    ) -> tuple[int, Solution] | None:
        """The atom over which a condition can be solved, a stream if there is one, and the bounds."""
        work = self.work
        ways = []
        for i, x in enumerate(literals):
            if not names or not isinstance(x, Atom) or x.relation in work.latest or x.relation in self.around:
                continue
            places: dict[str, int] = {}
            for at, a in enumerate(x.arguments):
                if isinstance(a, Variable) and work.is_number(x, at):
                    places.setdefault(a.name, at)
            if names <= places.keys():
                timed = work.relations[x.relation].columns[-1].name == ARRIVAL
                ways.append((not work.is_stream(x.relation), not timed, i, places))
        for _, _, i, places in sorted(ways, key=lambda way: way[:3]):
            solution = solved(condition, places, work.translator)
            if solution is not None:
                return i, solution
        return None

    def without_clocks(
        self, body: list[Literal], windowed: Iterable[Schedule | None], around: Iterable[str]
    ) -> list[Literal]:
        """A body without the atoms that bind a variable of the clock which nothing reads any more.

        There is always a clock. There may be no last point yet; but in a window that moves with it, there is nothing
        before there is one.
        """
        work, found = self.work, list(body)
        for x in body:
            if (n := work.time(x)) is not None:
                rest = [y for y in found if y is not x]
                read = {*around, *(name for y in rest for name in variables(y))}
                if read.isdisjoint(variables(x)) and _is_open(x) and (n[1] is None or n[1] in windowed):
                    found = rest
        return found


def _is_open(atom: Literal) -> bool:
    """Whether an atom is over variables alone, each another one."""
    if not isinstance(atom, Atom) or not all(isinstance(a, Variable) for a in atom.arguments):
        return False
    return len(variables(atom)) == len(atom.arguments)


def _used(source: Draft, clauses: Iterable[Clause]) -> set[str]:
    """What rules read, and synchronised reads."""
    used = {name for r in source.program.reads.values() for name in (r.relation, r.sync)}
    return used.union(*({_relation(x) for x, _ in atoms_of(clause.rule.body)} for clause in clauses))


def _relation(literal: Any) -> str:
    name: str = (literal.atom if isinstance(literal, Negation) else literal).relation
    return name


def _definitions(literals: Sequence[Literal], given: Iterable[str]) -> dict[str, tuple[int, Expression]]:
    """The variables that only an equation binds: where that stands, and what they are equal to."""
    bound = {*given}
    for x in literals:
        if isinstance(x, Atom):
            bound.update(variables(x))
        elif isinstance(x, Comparison) and isinstance(x.right, Aggregate):
            bound.update(variables(x.left))
    found: dict[str, tuple[int, Expression]] = {}
    for i, x in enumerate(literals):
        if isinstance(x, Comparison) and x.op == "=" and not isinstance(x.right, Aggregate):
            for one, other in ((x.left, x.right), (x.right, x.left)):
                name = one.name if isinstance(one, Variable) else None
                if name is not None and name not in bound and name not in found and not _reaches(other, name, found):
                    found[name] = (i, other)
                    break
    return found


def _reaches(node: Expression, name: str, definitions: Mapping[str, tuple[int, Expression]]) -> bool:
    """Whether an expression reads a variable, through definitions too."""
    waiting, seen = variables(node), set()
    while waiting:
        n = waiting.pop()
        if n == name:
            return True
        if n in definitions and n not in seen:
            seen.add(n)
            waiting += variables(definitions[n][1])
    return False


def _written_out(node: Comparison, definitions: Mapping[str, tuple[int, Expression]]) -> Comparison:
    """A comparison in terms of what atoms bind."""
    for _ in definitions:
        if not any(name in definitions for name in variables(node)):
            break
        node = substitute(node, {name: definition for name, (_, definition) in definitions.items()})
    return node


def _needed(body: list[Literal], definitions: Sequence[Literal], around: Sequence[str]) -> list[Literal]:
    """A body without those definitions that nothing reads any more."""
    found = list(body)
    progress = True
    while progress:
        progress = False
        for x in [x for x in found if any(x is d for d in definitions)]:
            assert isinstance(x, Comparison)
            read = {*around, *(n for y in found if y is not x for n in variables(y))}
            for side in (x.left, x.right):
                if isinstance(side, Variable) and side.name not in read:
                    found = [y for y in found if y is not x]
                    progress = True
                    break
    return found
