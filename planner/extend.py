"""A plan that grows and shrinks with its program, while it is being run.

What is there stays as it is: the strata of a plan that is extended are the very same objects in the new one, and those
of views that are defined come after them. They read the relations that are there, wherever these live. Only what a
base relation is for others changes with its readers: whether the times of its tuples are kept, and until when they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from datalog.ast import Atom, Program, Rule, Span
from datalog.errors import CheckProblem, Note
from datalog.walking import atoms
from planner.draft import Clause, Draft
from planner.passes import PASSES
from planner.passes.declare import declare
from planner.passes.forget import forget
from planner.passes.place import place
from planner.passes.push_selection import push_selection
from planner.plan import Plan, RelationPlan, Stratum
from planner.synchronised import synchronised
from planner.validate import check

__all__ = ["extend", "finished", "hidden", "read_anew", "reduce"]

_EARLY = PASSES[: PASSES.index(declare)]
_LATE = PASSES[PASSES.index(declare) + 1 : PASSES.index(place)]


def extend(
    plan: Plan, former: Program, program: Program, *, select: bool = True, kept: Collection[str] = ()
) -> Plan:
    """The plan of a program that has the rules of a `former` one, of which this is the plan, and more.

    Rules for relations that are planned already are left out, so what is new is planned over what is there. Raises
    `CheckProblem` where a new rule wants a relation whole of which only a part is kept. (`kept` are `hidden` ones that
    are whole nevertheless.) O(program)

    >>> import datalog, planner
    >>> from datalog.growth import defined
    >>> program = datalog.check(datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."))
    >>> plan, (more, _) = planner.plan(program), defined(program, "two(x, y) :- r(x, z), r(z, y), x < y.")
    >>> new = extend(plan, program, more)
    >>> [(s.index, s.relations) for s in new.strata], new.strata[0] is plan.strata[0]
    ([(0, ('r',)), (1, ('two',))], True)
    """
    draft = _numbered(Draft.start(program), plan)
    for step in _EARLY:
        draft = step(draft)
    new = [clause for clause in draft.clauses if clause.rule.head.relation not in plan.relations]
    if select:
        _check_pruned(plan, program, new)
    _check_hidden(plan, former, program, draft, new, kept)
    draft = _restricted(declare(draft), plan)
    for step in _LATE:
        if select or step is not push_selection:
            draft = step(draft)
            draft = replace(draft, relations={**draft.relations, **_there(plan, draft)})
    given = {name for name, r in plan.relations.items() if r.kind == "auxiliary"}
    placed = place(replace(draft, hidden=draft.hidden | given), plan.strata)
    later = tuple(replace(s, index=s.index + len(plan.strata)) for s in placed.strata)
    return finished(
        Plan(
            dict(placed.relations),
            (*plan.strata, *later),
            plan.outputs,
            {**plan.facts, **draft.facts},
            {**plan.aggregates, **draft.aggregates},
            tuple(dict.fromkeys((*plan.notes, *draft.notes))),
        ),
        program,
    )


def reduce(plan: Plan, program: Program) -> Plan:
    """The plan without what is only there for views that the program does not have any more. O(plan)

    >>> import datalog, planner
    >>> from datalog.growth import dropped
    >>> text = "r(x, w) :- a(x, y), b(y, z), c(z, w), x < w. s(x) :- r(x, _). t(x) :- a(x, x)."
    >>> program = datalog.check(datalog.parse(text))
    >>> less = reduce(planner.plan(program), dropped(program, ["r", "s"]))
    >>> [(s.index, s.relations) for s in less.strata], sorted(less.relations)
    ([(0, ('t',))], ['a', 'b', 'c', 't'])
    """
    wanted = {name for name in plan.relations if name in program.relations and name not in program.reads}
    kept: list[Stratum] = []
    for stratum in reversed(plan.strata):
        if not wanted.isdisjoint(stratum.relations):
            kept.append(stratum)
            wanted.update(stratum.relations, stratum.inputs)
    kept.reverse()
    strata = tuple(s if s.index == i else replace(s, index=i) for i, s in enumerate(kept))
    relations = {name: relation for name, relation in plan.relations.items() if name in wanted}
    for name, relation in relations.items():
        if relation.stamped and relation.stamped not in wanted:
            relations[name] = replace(relation, stamped="")
    facts = {name: rows for name, rows in plan.facts.items() if name in wanted}
    return finished(replace(plan, relations=relations, strata=strata, facts=facts), program)


def hidden(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with views that nobody sees any more but rules."""
    if all(plan.relations[name].kind == "auxiliary" for name in names):
        return plan
    relations = {
        name: replace(r, kind="auxiliary") if name in names else r for name, r in plan.relations.items()
    }
    return replace(plan, relations=relations)


def read_anew(former: Plan, plan: Plan) -> set[str]:
    """The relations of a former plan on which the strata rest that one which extends it has besides."""
    below = {name: stratum.inputs for stratum in former.strata for name in stratum.relations}
    waiting = [name for stratum in plan.strata[len(former.strata) :] for name in stratum.inputs]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in former.relations and name not in found:
            found.add(name)
            if former.relations[name].kind not in ("base", "view"):
                waiting += below.get(name, ())
    return found


def finished(plan: Plan, program: Program) -> Plan:
    """A plan with what follows from all of its strata together."""
    rules = tuple(rule for stratum in plan.strata for rule in stratum.rules)
    relations = {name: replace(r, until=()) if r.until else r for name, r in plan.relations.items()}
    relations = dict(forget(Draft(program, relations=relations, rules=rules)).relations)
    relations = {name: old if old == (new := relations[name]) else new for name, old in plan.relations.items()}
    outputs = tuple(name for name in program.outputs if _is_shown(relations.get(name)))
    syncs = synchronised(plan.strata, relations)
    return check(replace(plan, relations=relations, outputs=outputs, syncs=syncs))


def _is_shown(relation: RelationPlan | None) -> bool:
    return relation is not None and relation.selection is None and relation.kind != "auxiliary"


# --- what is new ---------------------------------------------------------------------------------------------


def _numbered(draft: Draft, plan: Plan) -> Draft:
    """The draft with numbers for new rules that no rule has: a view of the same name may have been there before, and
    auxiliaries of its rules still are if others read them."""
    used: dict[str, int] = {}
    names = [*plan.relations, *(rule.id for stratum in plan.strata for rule in stratum.rules)]
    for name in names:
        if found := re.match(r"(.+?)(?:@-?\d+)?/(\d+)", name):
            head, number = found[1], int(found[2])
            used[head] = max(used.get(head, 0), number)
    clauses = []
    for clause in draft.clauses:
        head, _, own = clause.id.rpartition("/")
        if head in used and head not in plan.relations:
            clause = replace(clause, id=f"{head}/{int(own) + used[head]}")
        clauses.append(clause)
    return replace(draft, clauses=tuple(clauses))


def _restricted(draft: Draft, plan: Plan) -> Draft:
    """The draft with new rules only, over the relations that are there and new ones."""
    known = plan.relations
    relations = {name: relation for name, relation in draft.relations.items() if name not in known}
    return replace(
        draft,
        clauses=tuple(clause for clause in draft.clauses if clause.rule.head.relation not in known),
        rules=tuple(rule for rule in draft.rules if rule.head not in known),
        facts={name: rows for name, rows in draft.facts.items() if name not in known},
        relations={**_there(plan, draft), **relations},
    )


def _there(plan: Plan, draft: Draft) -> dict[str, RelationPlan]:
    """The relations that are there, of which some may now be read with the times of their tuples."""
    found = dict(plan.relations)
    for name, relation in draft.relations.items():
        if relation.stamped and name in found:
            found[name] = replace(found[name], stamped=relation.stamped)
    return found


# --- what is not there as a whole ----------------------------------------------------------------------------


def _check_pruned(plan: Plan, program: Program, new: Iterable[Clause]) -> None:
    """Raise if a new rule reads a relation in another way than the selection allows that was pushed into it."""
    pruned = set(plan.pruned)
    reading = [(clause, atom) for clause in new for atom in atoms(clause.rule)[1:] if atom.relation in pruned]
    if not reading:
        return
    draft = Draft.start(program)
    for step in PASSES[: PASSES.index(push_selection) + 1]:
        draft = step(draft)
    for clause, atom in reading:
        name = atom.relation
        mine, theirs = plan.relations[name].selection, draft.relations[name].selection
        if mine is not None and (theirs is None or (theirs.group, theirs.values) != (mine.group, mine.values)):
            why = next((n for n in draft.notes if f" {name}: " in n), "it is grouped in another way")
            raise _refused(
                program, clause, atom,
                f"of `{name}` only the best tuples are kept (aggregate selection), and this rule reads others",
                f"{why}; `.output {name}` in the program keeps it whole",
            )  # fmt: skip


def _check_hidden(
    plan: Plan, former: Program, program: Program, draft: Draft, new: Iterable[Clause], kept: Collection[str]
) -> None:
    """Raise if a new rule needs more of a view than what its readers so far did."""
    partial = {
        name for name, r in plan.relations.items()
        if r.kind == "auxiliary" and r.layer is None and name in former.relations and name not in former.clocks
    } - set(kept)  # fmt: skip
    reading = [(clause, atom) for clause in new for atom in atoms(clause.rule)[1:] if atom.relation in partial]
    wanted = partial & {read.relation for read in program.reads.values() if read.name not in plan.relations}
    if not reading and not wanted:
        return
    before = Draft.start(former)
    for step in _EARLY:
        before = step(before)
    mine, theirs = _bodies(before), _bodies(draft)
    for clause, atom in [*reading, *_readers(program, draft, wanted)]:
        name = atom.relation
        if name not in draft.hidden or mine.get(name) != theirs.get(name):
            raise _refused(
                program, clause, atom,
                f"of `{name}` only what its readers need is kept, and this rule needs all of it",
                f"`.output {name}` in the program keeps it whole",
            )  # fmt: skip


def _bodies(draft: Draft) -> Mapping[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for clause in draft.clauses:
        found.setdefault(clause.rule.head.relation, []).append(clause.rule)
    return found


def _readers(program: Program, draft: Draft, names: Iterable[str]) -> Iterator[tuple[Clause, Atom]]:
    """The rules that read some relations with times or at points."""
    for clause in draft.clauses:
        for atom in atoms(clause.rule)[1:]:
            read = program.reads.get(atom.relation)
            if read is not None and read.relation in names:
                yield clause, replace(atom, relation=read.relation)


def _refused(program: Program, clause: Clause, atom: Atom, message: str, hint: str) -> CheckProblem:
    span: Span = atom.span if atom.span.line else clause.rule.span
    return CheckProblem(message, span, program.source, [Note(hint)])
