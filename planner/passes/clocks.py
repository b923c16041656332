"""Let what is made of the clock alone be schedules: points of time that nobody has to derive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    NOWHERE,
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    HeadAggregate,
    Literal,
    Negation,
    Relation,
    Rule,
    Ticks,
    Variable,
    variables,
)
from operators.schedule import EMPTY, Schedule, Test
from planner.draft import SHOWN, Clause, Draft, Latest, clock_of, components
from planner.past import past_columns
from planner.plan import ClockRule
from planner.recent import recent_views
from planner.rewrite import Fresh, fresh_after, substitute
from planner.spelling import schedule_words
from planner.ticking import over_one, restricted
from planner.translate import Translator

__all__ = ["clocks"]


def clocks(draft: Draft) -> Draft:
    """Views of points of time that are made of `clock` alone become schedules and leave the program.

    Where a rule reads one, and something else of the rule tells the time, it is tested: `holds` is all there is to it
    for a time that has passed; for any other, that it has must be asked as well. A view that has rules of both kinds
    keeps those that are about events, and what reads it becomes two rules. Where points themselves are what a rule
    wants, or somebody looks at the view, a relation gets them one by one as they pass; of `max<t>` over them it gets
    the last one.

    >>> from planner.show import before_and_after
    >>> before_and_after(clocks, '''every2(t) :- clock(t), t % 2 = 0.
    ... both(t) :- every2(t), !e(t), t > 5.  slide(max<t>) :- every2(t).  r(t) :- s(_)@t, every2(t).
    ... .decl s(x: number) stream
    ... .decl e(t: number)''')
    every2(t) :- clock(t), t % 2 = 0.
    both(t) :- every2(t), !e(t), t > 5.
    slide(max<t>) :- every2(t).
    r(t) :- s(_, t), every2(t).
    both(t) :- passed: every 2 from 6(t), !e(t).
    slide(t) :- last: every 2 from 0(t).
    r(t) :- s(_, t), in every 2 from 0(t) = 1.
    """
    return _Clocks(draft).draft() if draft.program.clocks else draft


class _Clocks:
    """The work on one program.

    `schedules`: what of each view of points is known by the clock alone. `rest`: the rules that are left of it, of
    which the bodies are still to be done. `all_of`: the views of which somebody wants all points.
    """

    def __init__(self, draft: Draft) -> None:
        self.source = draft
        self.program = draft.program
        self.by_head: dict[str, list[Clause]] = {}
        for clause in draft.clauses:
            self.by_head.setdefault(clause.rule.head.relation, []).append(clause)
        self.translator = Translator(self.program, {}, draft.functions)
        self.recursive = components(self.program)
        facts = {fact.head.relation for fact in self.program.facts}
        self.filled = facts | {d.relation for d in self.program.directives_of("input")}
        self.schedules: dict[str, Schedule | None] = {}
        for name, ticks in self.program.clocks.items():
            if isinstance(ticks, Ticks):
                self.schedules[name] = Schedule.of(ticks.period, ticks.start)
        self.rest: dict[str, list[Clause]] = {}
        self.all_of: set[str] = set()
        self.halves: dict[int, Atom] = {}  # by id, which stays theirs: atoms that are read for their events alone
        self.made: dict[str, ClockRule] = {}
        self.now = clock_of(self.program)
        self.latest: dict[str, Latest] = {self.now: Latest()} if self.now in self.program.clocks else {}
        self.groups: dict[str, tuple[int, ...]] = {}
        self.relations: dict[str, Relation] = dict(self.program.relations)
        self.functions = dict(draft.functions)

    @cached_property
    def recent(self) -> frozenset[str]:
        return recent_views(self.source)

    @cached_property
    def past(self) -> frozenset[tuple[str, int]]:
        return past_columns(self.source)

    def draft(self) -> Draft:
        program = self.program
        self.all_of |= {d.relation for d in program.directives if d.kind in SHOWN}
        self.all_of |= {read.relation for read in program.reads.values()}
        done: dict[str, list[Clause]] = {}
        for name, clauses in self.by_head.items():
            self.schedule(name)
            done[name] = [new for clause in self.rest.get(name, clauses) for new in self.clause(clause)]
        self.note_latest(done)
        known = {name: schedule for name, schedule in self.schedules.items() if schedule is not None}
        mixed = frozenset(name for name in known if not self.is_pure(name))
        hidden = {name for name in mixed if name not in self.all_of} | program.clocks.keys()
        for name, schedule in known.items():
            if name in self.relations and name in self.all_of:
                done.setdefault(name, []).append(self.copy(name, schedule))
            elif name in self.relations and name not in mixed:
                del self.relations[name]
        order = {clause.id: i for i, clause in enumerate(self.source.clauses)}
        clauses = [clause for kept in done.values() for clause in kept]
        clauses.sort(key=lambda clause: order.get(clause.id, len(order)))
        clauses = _numbered(clauses)
        if self.now in program.clocks:
            self.need_now()
        return replace(
            self.source,
            program=replace(
                program, rules=(*program.facts, *(clause.rule for clause in clauses)), relations=self.relations
            ),
            clauses=tuple(clauses),
            functions=self.functions,
            schedules=known,
            mixed=mixed,
            clocks=self.made,
            latest=self.latest,
            groups={name: columns for name, columns in self.groups.items() if len(done[name]) == 1},
            hidden=self.source.hidden | hidden,
        )

    def is_pure(self, name: str) -> bool:
        """Whether all points of a view come from the clock."""
        return self.schedule(name) is not None and not self.rest.get(name) and name not in self.filled

    # --- views of points -----------------------------------------------------------------------------------------

    def schedule(self, name: str) -> Schedule | None:
        """What of a view is known by the clock alone; None if no rule of it is."""
        if name not in self.schedules:
            relation = self.program.relations[name]
            found = None
            if name in self.by_head and relation.arity == 1 and name not in self.recursive:
                found = self.taken(name)
            self.schedules[name] = found
        return self.schedules[name]

    def taken(self, name: str) -> Schedule | None:
        """The schedule of those rules of a view that are about the clock alone, which are taken out of it."""
        found: Schedule | None = None
        rest: list[Clause] = []
        for clause in self.by_head[name]:
            for variant in self.variants(clause):
                points = self.points(variant.rule)
                if points is None:
                    rest.append(variant)
                else:
                    found = points if found is None else found | points
        if found is not None:
            self.rest[name] = rest
        return found

    def variants(self, clause: Clause) -> list[Clause]:
        """A rule once for the events of each view that it reads which has events and ticks, and once for the ticks."""
        if clause.rule.aggregates:
            return [clause]
        bodies: list[tuple[Literal, ...]] = [()]
        for literal in clause.rule.body:
            ways: tuple[Literal, ...] = (literal,)
            if isinstance(literal, Atom) and id(literal) not in self.halves and self.is_mixed(literal.relation):
                half = replace(literal)
                self.halves[id(half)] = half
                ways = (half, replace(literal, relation=self.ticks_of(literal.relation)))
            bodies = [(*body, way) for body in bodies for way in ways]
        if len(bodies) == 1:
            return [clause]
        return [Clause(clause.id, replace(clause.rule, body=body)) for body in bodies]

    def is_mixed(self, name: str) -> bool:
        return self.schedule(name) is not None and not self.is_pure(name)

    def ticks_of(self, name: str) -> str:
        """The name by which rules read only what the clock gives to a view."""
        ticks = f"ticks of {name}"
        self.schedules.setdefault(ticks, self.schedule(name))
        return ticks

    def points(self, rule: Rule) -> Schedule | None:
        """The schedule that a rule `v(t) :- clock(t), t % 2 = 0.` is, if it is one."""
        if len(rule.head.arguments) != 1:
            return None
        head, body = _inlined(rule.head.arguments[0], rule.body)
        return self.conjunction(head, body)

    def conjunction(self, head: Any, body: Sequence[Literal]) -> Schedule | None:
        """The points that meet a body, if it is about one variable, the clock, and nothing else."""
        if not isinstance(head, Variable):
            return None
        positive = [x for x in body if isinstance(x, Atom)]
        if not positive or not all(self.is_about(x, head.name) for x in body):
            return None
        found: Schedule | None = None
        for atom in positive:
            own = self.schedule(atom.relation)
            assert own is not None
            found = own if found is None else found & own
        assert found is not None
        conditions = [x for x in body if isinstance(x, Comparison)]
        return self.less(found, [x.atom for x in body if isinstance(x, Negation)], conditions, head.name)

    def less(self, found: Schedule, negated: Iterable[Atom], conditions: Iterable[Comparison], name: str) -> Schedule:
        for atom in negated:
            other = self.schedule(atom.relation)
            assert other is not None
            found = found.minus(other)
        for condition in conditions:
            found = restricted(found, condition, name, self.translator)
        return found

    def is_about(self, literal: Literal, name: str) -> bool:
        """Whether a literal is about the clock and this variable alone."""
        if isinstance(literal, Comparison):
            return over_one(literal, name)
        atom = literal.atom if isinstance(literal, Negation) else literal
        return atom.arguments == (Variable(name),) and self.is_pure(atom.relation)

    def copy(self, name: str, schedule: Schedule) -> Clause:
        """The rule that gives a view its points as they pass."""
        t = Variable("t")
        body = (Atom(self.passed(schedule), (t,)),)
        return Clause(f"{name}/points", Rule(Atom(name, (t,)), body, NOWHERE, f"the points of {name} that have passed"))

    # --- relations of points -------------------------------------------------------------------------------------

    def passed(self, schedule: Schedule) -> str:
        """The relation of all points of a schedule that have passed."""
        return self.make(f"passed: {schedule_words(schedule)}", "all", schedule)

    def last(self, schedule: Schedule) -> str:
        """The relation of the last point of a schedule that has passed."""
        name = self.make(f"last: {schedule_words(schedule)}", "last", schedule)
        self.latest[name] = Latest(schedule)
        return name

    def need_now(self) -> str:
        """The relation of where the clock stands."""
        name = self.now
        self.latest[name] = Latest()
        self.relations.setdefault(name, Relation(name, (Column("n", "any", numeric=True),), declared=False))
        self.made[name] = ClockRule(name, name, "now", EMPTY, "the clock")
        return name

    def make(self, name: str, what: Any, schedule: Schedule) -> str:
        while name in self.made and self.made[name].ticks != schedule:
            name += "'"  # what is said in the same words may still differ
        self.made[name] = ClockRule(name, name, what, schedule, name)
        numbers = all(isinstance(x, int) for part in schedule.parts for x in (part.period, part.start))
        column = Column("t", "number" if numbers else "any", numeric=True)
        self.relations[name] = Relation(name, (column,), declared=False)
        return name

    def note_latest(self, done: Mapping[str, Sequence[Clause]]) -> None:
        """A view that only copies the clock, or the last point of a schedule, is as good as that."""
        waiting = {name: clauses[0].rule for name, clauses in done.items() if len(clauses) == 1}
        progress = True
        while progress:
            progress = False
            for name, rule in list(waiting.items()):
                atom = rule.body[0] if len(rule.body) == 1 else None
                if not isinstance(atom, Atom) or name in self.filled or len(variables(rule.head)) != 1:
                    del waiting[name]
                elif atom.relation in self.latest:
                    del waiting[name]
                    known = self.latest[atom.relation]
                    column = _copied(rule.head, atom, known.column)
                    if column is not None:
                        self.latest[name] = Latest(known.ticks, column)
                        progress = True

    # --- bodies --------------------------------------------------------------------------------------------------

    def clause(self, clause: Clause) -> list[Clause]:
        """A rule that is no schedule, without what is about the clock."""
        if not self.concerns(clause.rule):
            return [clause]
        found: list[Clause] = []
        for variant in self.variants(clause):
            rule = variant.rule
            last = self.last_point(rule)
            if last is not None:
                found.append(Clause(clause.id, last))
                continue
            present = rule.head.arguments[0] if rule.head.relation in self.recent else None
            work = _Body(self, fresh_after(rule), bool(rule.aggregates), present)
            found += [Clause(clause.id, replace(rule, body=body)) for body in work.body(rule.body, {})]
        return found

    def last_point(self, rule: Rule) -> Rule | None:
        """A rule `v(max<t>) :- every2(t).`, perhaps with constants in its head, as one that reads the last point."""
        targets = [a for a in rule.head.arguments if not isinstance(a, Constant)]
        if len(targets) != 1 or not isinstance(targets[0], HeadAggregate) or targets[0].function != "max":
            return None
        t, body = _inlined(targets[0].target, rule.body)
        points = self.conjunction(t, body)
        if points is None:
            return None
        self.groups[rule.head.relation] = tuple(i for i, a in enumerate(rule.head.arguments) if isinstance(a, Constant))
        arguments = tuple([a if isinstance(a, Constant) else t for a in rule.head.arguments])
        atom = Atom(self.last(points), (t,), rule.span)
        return replace(rule, head=replace(rule.head, arguments=arguments), body=(atom,))

    def concerns(self, rule: Rule) -> bool:
        return any(self.schedule(a.relation) is not None for a in _atoms(rule.body))

    def test(self, schedule: Schedule, t: Variable, wanted: int) -> Comparison:
        """The condition that a time is a point of a schedule, or (wanted 0) that it is not."""
        name = f"in {schedule_words(schedule)}"
        while self.functions.get(name, Test(schedule)) != Test(schedule):
            name += "'"
        self.functions[name] = Test(schedule)
        return Comparison("=", Call(name, (t,), t.span, "number"), Constant(wanted, t.span), t.span)


class _Body:
    """The work on the bodies of one rule. With head aggregates it must stay one rule (`whole`).

    `present`: the variable of which only the value matters that is where the clock stands, if there is one.
    """

    def __init__(self, work: _Clocks, fresh: Fresh, whole: bool, present: Any) -> None:
        self.work = work
        self.fresh = fresh
        self.whole = whole
        self.present = present

    def body(self, literals: Sequence[Literal], given: Mapping[str, bool]) -> list[tuple[Literal, ...]]:
        """The bodies that together say what this one does. `given`: the outer variables, and whether they are past."""
        work = self.work
        times, others = self.split(literals)
        bound = self.bound(others, given)
        others = [self.inner(x, bound) for x in others]
        bodies: list[list[Literal]] = [others]
        while times:
            name = next((n for n in times if n in bound), None)
            ready = name is not None
            if name is None:
                name = next((n for n in times if any(isinstance(x, Atom) for x in times[n])), next(iter(times)))
            own = times.pop(name)
            t = Variable(name)
            positive = [x for x in own if isinstance(x, Atom)]
            negated = [x.atom for x in own if isinstance(x, Negation)]
            if not ready:
                bound[name] = bool(positive)
                if positive:
                    bodies = [self.points(body, t, positive, negated) for body in bodies]
                else:
                    bodies = [[*body, self.not_yet(body, t, negated)] for body in bodies]
                bound = self.bound([x for x in bodies[0] if not isinstance(x, Atom)], bound)
            elif positive:
                schedule = self.meet(positive)
                schedule = work.less(schedule, negated, (), name)
                added = [work.test(schedule, t, 1), *([] if bound[name] else self.until_now(t))]
                bodies = [[*body, *added] for body in bodies]
            else:
                bodies = self.absent(bodies, t, negated, bound[name], bool(given))
        return [tuple(body) for body in bodies]

    def split(self, literals: Sequence[Literal]) -> tuple[dict[str, list[Literal]], list[Literal]]:
        """What is about pure points of time, by variable, and the rest."""
        work = self.work
        times: dict[str, list[Literal]] = {}
        others: list[Literal] = []
        for literal in literals:
            atom = literal.atom if isinstance(literal, Negation) else literal
            if not isinstance(atom, Atom) or work.schedule(atom.relation) is None:
                others.append(literal)
                continue
            (t,) = atom.arguments
            if isinstance(literal, Negation) and isinstance(t, Variable) and t.anonymous:
                others.append(self.any_of(literal))
                continue
            if not isinstance(t, Variable):
                name = Variable(self.fresh("t"), atom.span)
                others.append(Comparison("=", name, t, atom.span))
                atom, t = replace(atom, arguments=(name,)), name
            if work.is_mixed(atom.relation):
                if isinstance(literal, Atom):
                    if self.whole:
                        work.all_of.add(atom.relation)
                    others.append(atom)  # of a rule that may be two, this is the one for the events
                    continue
                others.append(Negation(atom, literal.span))
                atom = replace(atom, relation=work.ticks_of(atom.relation))
            times.setdefault(t.name, []).append(Negation(atom, literal.span) if isinstance(literal, Negation) else atom)
        return times, others

    def any_of(self, literal: Negation) -> Negation:
        """`!every2(_)`: no point has passed."""
        name = literal.atom.relation
        schedule = self.work.schedule(name)
        assert schedule is not None
        if not self.work.is_pure(name):
            self.work.all_of.add(name)
            return literal
        return replace(literal, atom=replace(literal.atom, relation=self.work.last(schedule)))

    def bound(self, literals: Sequence[Literal], given: Mapping[str, bool]) -> dict[str, bool]:
        """The variables that these literals bind, and whether their values are times that have passed."""
        found = dict(given)
        for literal in literals:
            if isinstance(literal, Atom):
                for i, argument in enumerate(literal.arguments):
                    if isinstance(argument, Variable):
                        passed = (literal.relation, i) in self.work.past
                        found[argument.name] = found.get(argument.name, False) or passed or argument == self.present
            elif isinstance(literal, Comparison) and isinstance(literal.right, Aggregate):
                for name in variables(literal.left):
                    found.setdefault(name, False)
        equations = [x for x in literals if isinstance(x, Comparison) and x.op == "="]
        progress = True
        while progress:
            progress = False
            for equation in equations:
                for one, other in ((equation.left, equation.right), (equation.right, equation.left)):
                    names = variables(other)
                    if isinstance(one, Variable) and one.name not in found and names and set(names) <= found.keys():
                        found[one.name] = one == self.present or (isinstance(other, Variable) and found[other.name])
                        progress = True
        return found

    def inner(self, literal: Literal, bound: Mapping[str, bool]) -> Literal:
        """A literal with the body of its aggregate done."""
        if not isinstance(literal, Comparison) or not isinstance(literal.right, Aggregate):
            return literal
        node = literal.right
        if node.function == "max":
            head, body = _inlined(node.target, node.body)
            outer = isinstance(head, Variable) and head.name in bound
            points = None if outer else self.work.conjunction(head, body)
            if points is not None:
                return Atom(self.work.last(points), (literal.left,), literal.span)
        whole, self.whole = self.whole, True
        (body,) = self.body(node.body, bound)
        self.whole = whole
        return replace(literal, right=replace(node, body=body))

    # --- points of time in a body --------------------------------------------------------------------------------

    def meet(self, atoms: Sequence[Atom]) -> Schedule:
        found = self.work.schedule(atoms[0].relation)
        assert found is not None
        for atom in atoms[1:]:
            other = self.work.schedule(atom.relation)
            assert other is not None
            found &= other
        return found

    def points(
        self, body: list[Literal], t: Variable, positive: Sequence[Atom], negated: Sequence[Atom]
    ) -> list[Literal]:
        """A body in which the points are what binds a variable: a relation has those that meet its conditions."""
        conditions = self.conditions(body, t)
        schedule = self.work.less(self.meet(positive), negated, conditions, t.name)
        rest = [x for x in body if not any(x is c for c in conditions)]
        wanted = self.work.last if t.anonymous and not self.whole else self.work.passed
        return [Atom(wanted(schedule), (t,), positive[0].span), *rest]

    def not_yet(self, body: list[Literal], t: Variable, negated: Sequence[Atom]) -> Literal:
        """`!clock(3)`: the one point that is meant, which an equation gives, has not passed."""
        schedule = EMPTY
        for atom in negated:
            schedule |= self.meet([atom])
        schedule = self.work.less(schedule, (), self.conditions(body, t), t.name)
        return Negation(Atom(self.work.passed(schedule), (t,)), t.span)

    def conditions(self, body: list[Literal], t: Variable) -> list[Comparison]:
        """The conditions over a time alone."""
        return [x for x in body if isinstance(x, Comparison) and variables(x) and over_one(x, t.name)]

    def until_now(self, t: Variable) -> list[Literal]:
        """That a time has passed."""
        n = Variable(self.fresh("now"))
        return [Atom(self.work.need_now(), (n,)), Comparison("<=", t, n)]

    def absent(
        self, bodies: list[list[Literal]], t: Variable, negated: Sequence[Atom], passed: bool, inside: bool
    ) -> list[list[Literal]]:
        """That a time is no point that has passed: no point at all, or one that is still to come."""
        work = self.work
        points = EMPTY
        for atom in negated:
            points |= self.meet([atom])
        if passed:
            return [[*body, work.test(points, t, 0)] for body in bodies]
        if self.whole or inside:
            return [[*body, Negation(Atom(work.passed(points), (t,)), t.span)] for body in bodies]
        n = Variable(self.fresh("now"))
        later: list[Literal] = [work.test(points, t, 1), Atom(work.need_now(), (n,)), Comparison(">", t, n)]
        return [way for body in bodies for way in ([*body, work.test(points, t, 0)], [*body, *later])]


def _numbered(clauses: Sequence[Clause]) -> list[Clause]:
    """The rules with a name for each: those that came out of one have primes."""
    used: set[str] = set()
    found = []
    for clause in clauses:
        name = clause.id
        while name in used:
            name += "'"
        used.add(name)
        found.append(clause if name == clause.id else replace(clause, id=name))
    return found


def _copied(head: Atom, atom: Atom, column: int) -> int | None:
    """The column of a head that has this column of the only atom, if there is nothing but constants beside the two."""
    t = atom.arguments[column]
    others = [a for i, a in enumerate(atom.arguments) if i != column]
    plain = all(isinstance(a, (Variable, Constant)) for a in head.arguments)
    if not isinstance(t, Variable) or not plain or not all(isinstance(a, Variable) and a.anonymous for a in others):
        return None
    return head.arguments.index(t) if head.arguments.count(t) == 1 else None


def _inlined(head: Any, body: Sequence[Literal]) -> tuple[Any, tuple[Literal, ...]]:
    """A body in which variables that only an equation defines are written out, and what stands over it."""
    literals = list(body)
    for _ in range(len(literals)):
        atoms = {n for x in literals if not isinstance(x, Comparison) for n in variables(x)}
        for i, x in enumerate(literals):
            if isinstance(x, Comparison) and x.op == "=" and not isinstance(x.right, (Aggregate, HeadAggregate)):
                pairs = ((x.left, x.right), (x.right, x.left))
                found = next(
                    ((a, b) for a, b in pairs
                     if isinstance(a, Variable) and a.name not in atoms and a.name not in variables(b)), None)
                if found is not None:
                    mapping = {found[0].name: found[1]}
                    literals = [substitute(y, mapping) for y in literals[:i] + literals[i + 1 :]]
                    head = substitute(head, mapping)
                    break
        else:
            break
    return head, tuple(literals)


def _atoms(body: Iterable[Literal]) -> Iterable[Atom]:
    """The atoms of a body, also of its aggregates."""
    for literal in body:
        if isinstance(literal, Comparison):
            if isinstance(literal.right, Aggregate):
                yield from _atoms(literal.right.body)
        else:
            yield literal.atom if isinstance(literal, Negation) else literal
