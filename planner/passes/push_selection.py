"""Push min and max into the recursion that they read (aggregate selection)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from datalog.ast import Atom, Call, Expression, HeadAggregate, Variable, variables
from planner.draft import SHOWN, Clause, Draft, Lookup, components
from planner.monotone import growth
from planner.plan import Selection

__all__ = ["push_selection"]


class Refusal(Exception):
    """Why the proof fails, as the end of the sentence "aggregate selection is not pushed into path: ..."."""


def push_selection(draft: Draft) -> Draft:
    """Let a recursive relation keep, per group, only the tuples that are best for some min or max of its readers.

    The result must be the same as without, so this needs a proof. Let R be the relation; the readers fix its
    *group* columns and its *value* columns; the columns that are neither are its *witness* columns (the
    path of a cheapest path). All of this must hold:

    1. R is recursive through itself alone, and no `.output`, `.printsize` or `.limitsize` names it: nobody looks
       at the tuples that would be missing. Nor is it read with times, at points or in a window.
    2. Every rule outside the recursion that reads R either takes min or max of columns of R, `m(g, min<c>) :-
       R(g, c, w).`, with nothing else in its body but conditions on g (they keep or drop a group as a whole), and
       with the same group columns as the others; or joins R with such an
       `m` on the group columns and the value, so that only winners pass. R is not negated and not inside a body
       aggregate.
    3. In every recursive rule, for every atom of R: the group columns of the head do not depend on the atom's
       values or witnesses. So a better tuple of the same group can take the place of a worse one, and derives a
       head of the same group.
    4. Each value of the head grows, or stays, when the same value of the atom grows, and depends on no other value
       and no witness. So the better tuple derives a head at least as good.
    5. Conditions do not look at witnesses, and look at a value only in a way that a better value passes too
       (`c < 100` for min), and only if it is the one value of the selection: a tuple that is better in one value
       may be worse in another, and fail there.
    6. If R has any column beside the group and one value, the growth in 4 must be strict. Otherwise a worse
       tuple can lead to a head that ties with the best and differs in the other columns: it is a winner too,
       and would be missed. Without other columns the tie is the same tuple.

    Rules that do not read R may be anything. Floats round, so that a strictly growing sum may still tie; that
    is not the tie of two equally good derivations, and the plan says so in a note.

    >>> from planner.show import notes
    >>> notes('''
    ...     path(x, y, c) :- link(x, y, c).
    ...     path(x, y, c + d) :- link(x, z, c), path(z, y, d).
    ...     least(x, y, min<c>) :- path(x, y, c).
    ... ''')
    path: min c by x, y
    """
    readers: dict[str, list[Clause]] = {}
    for clause in draft.clauses:
        if any(a.function in ("min", "max") for a in clause.rule.aggregates):
            for name in dict.fromkeys(a.relation for a in clause.normal.atoms):
                readers.setdefault(name, []).append(clause)
    if not readers:
        return draft
    recursive = components(draft.program)
    relations, remarks = dict(draft.relations), list(draft.notes)
    for name in (n for n in draft.relations if n in recursive):
        if not any(c.rule.head.relation not in recursive[name] for c in readers.get(name, ())):
            continue
        try:
            selection = _prove(draft, name, recursive[name])
        except Refusal as reason:
            remarks.append(f"aggregate selection is not pushed into {name}: {reason}")
            continue
        # a group must live on one partition, or each partition would have winners of its own
        home = tuple(c for c in relations[name].partition if c in selection.group) or selection.group[:1]
        relation = relations[name] = replace(relations[name], selection=selection, partition=home)
        rounds = [relation.columns[c] for c, _ in selection.values if relation.types[c] == "float"]
        if rounds and relation.arity > len(selection.group) + 1:
            remarks.append(
                f"aggregate selection in {name}: {', '.join(rounds)} is a float; "
                "tuples that tie with the best only because sums are rounded may be left out"
            )
    return replace(draft, relations=relations, notes=tuple(remarks))


# --- the readers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Best:
    """A view `m(g, min<c>) :- R(...)`: for each column of the view, the column of R that it shows."""

    source: tuple[int, ...]
    values: tuple[tuple[int, Literal["min", "max"]], ...]


def _prove(draft: Draft, name: str, component: frozenset[str]) -> Selection:
    if len(component) > 1:
        raise Refusal(f"it is recursive through {', '.join(sorted(component - {name}))} as well")
    for directive in draft.program.directives:
        if directive.relation == name and directive.kind in SHOWN:
            raise Refusal(f".{directive.kind} {name} asks for all of its tuples")
    if any(name in (read.relation, read.sync) for read in draft.program.reads.values()):
        raise Refusal("it is read with times or at points")
    if any(window.input.relation == name for window in draft.windows.values()):
        raise Refusal("a window shows its tuples")
    outside = [c for c in draft.clauses if c.rule.head.relation != name and name in _read(c)]
    bests: dict[str, _Best] = {}
    for clause in outside:
        best = _best(draft, clause, name)
        if best is not None:
            bests[clause.rule.head.relation] = best
    for clause in outside:
        if bests.get(clause.rule.head.relation) is None:
            _only_winners(clause, name, bests)
    groups = {tuple(sorted(set(b.source) - {c for c, _ in b.values})) for b in bests.values()}
    if len(groups) > 1:
        raise Refusal("its readers group it by different columns")
    if not groups:
        raise Refusal("no reader takes min or max of it alone")
    pairs = dict.fromkeys(pair for best in bests.values() for pair in best.values)
    selection = Selection(groups.pop(), tuple(pairs))
    if set(selection.group) & {c for c, _ in selection.values}:
        raise Refusal("a column is both grouped by and aggregated")
    steps = [
        _step(clause, name, selection, draft.relations[name].columns)
        for clause in draft.clauses
        if clause.rule.head.relation == name and name in _read(clause)
    ]
    return replace(selection, strict=all(steps))


def _read(clause: Clause) -> set[str]:
    return {a.relation for a in clause.normal.atoms}.union(*(_read_inside(x) for x in clause.normal.lookups))


def _read_inside(lookup: Lookup) -> set[str]:
    return {a.relation for a in lookup.body.atoms}.union(*(_read_inside(x) for x in lookup.body.lookups))


def _best(draft: Draft, clause: Clause, name: str) -> _Best | None:
    """The clause as a view of the best values of R alone, if it is one."""
    body, head = clause.normal, clause.rule.head
    only = [c for c in draft.clauses if c.rule.head.relation == head.relation] == [clause]
    if not only or f"{head.relation}#facts" in draft.relations or not clause.rule.aggregates:
        return None
    if len(body.atoms) != 1 or body.lookups or body.definitions:
        return None
    grouped = {a.name for a in head.arguments if isinstance(a, Variable)}
    if any(not set(variables(condition)) <= grouped for condition in body.filters):
        return None  # a condition on the group alone keeps or drops a group as a whole
    columns = {argument.name: i for i, argument in enumerate(body.atoms[0].arguments)}
    source: list[int] = []
    values: list[tuple[int, Literal["min", "max"]]] = []
    for argument in head.arguments:
        target = argument.target if isinstance(argument, HeadAggregate) else argument
        if not isinstance(target, Variable):
            return None
        source.append(columns[target.name])
        if isinstance(argument, HeadAggregate):
            if argument.function not in ("min", "max"):
                return None
            values.append((columns[target.name], "min" if argument.function == "min" else "max"))
    return _Best(tuple(source), tuple(values))


def _only_winners(clause: Clause, name: str, bests: dict[str, _Best]) -> None:
    """Check that a reader joins every atom of R with a view of its best values, on the group and a value."""
    if any(name in _read_inside(lookup) for lookup in clause.normal.lookups):
        raise Refusal(f"{clause.id} negates it or aggregates over all of its tuples")
    for atom in clause.normal.atoms:
        if atom.relation == name and not any(
            _wins(atom, other, bests[other.relation]) for other in clause.normal.atoms if other.relation in bests
        ):
            raise Refusal(f"{clause.id} may use tuples of it that are not best in their group")


def _wins(atom: Atom, best_atom: Atom, best: _Best) -> bool:
    same = {
        column
        for argument, column in zip(best_atom.arguments, best.source, strict=True)
        if argument == atom.arguments[column]
    }
    values = {c for c, _ in best.values}
    return set(best.source) - values <= same and bool(values & same)


# --- the recursive step --------------------------------------------------------------------------------------


def _step(clause: Clause, name: str, selection: Selection, columns: tuple[str, ...]) -> bool:
    """Check conditions 3 to 6 for one recursive rule; returns whether it is strict (`Selection.strict`)."""
    body, head = clause.normal, clause.rule.head
    atoms = [a for a in body.atoms if a.relation == name]
    moving = {a.arguments[i].name for a in atoms for i in range(len(columns)) if i not in selection.group}
    _moving_alone(clause, atoms, moving, columns, selection)
    for i in selection.group:
        if body.roots(head.arguments[i]) & moving:
            raise Refusal(f"in {clause.id} the group column {columns[i]} depends on a value or witness of {name}")
    for lookup in body.lookups:
        if any(body.roots(Variable(n)) & moving for n in lookup.needs):
            raise Refusal(f"in {clause.id} a negation or aggregate looks at a value or witness of {name}")
    must = len(columns) > len(selection.group) + 1
    strict = True
    for column, _ in selection.values:
        own = {a.arguments[column].name for a in atoms}
        for variable in sorted(own):
            grows = growth(head.arguments[column], variable, moving - own, body.definitions)
            if grows is None or grows < 0:
                raise Refusal(f"in {clause.id} {columns[column]} is not seen to grow with that of {name}")
            if must and grows < 2:
                raise Refusal(
                    f"in {clause.id} {columns[column]} may stay the same when that of {name} grows, "
                    "so ties with the best could be missed"
                )
            strict = strict and grows == 2 and _exact(head.arguments[column], body.definitions)
    for condition in body.filters:
        if body.roots(condition) & moving:
            _passes(clause, name, condition.op, (condition.left, condition.right), selection, atoms, moving)
    return strict


def _exact(node: Expression, definitions: Mapping[str, Expression]) -> bool:
    """Whether a result that is a whole number was computed from whole numbers alone: min and max may hide a float."""
    if isinstance(node, Variable):
        return node.name not in definitions or _exact(definitions[node.name], definitions)
    return not isinstance(node, Call) or (
        node.function not in ("min", "max") and all(_exact(a, definitions) for a in node.arguments)
    )


def _moving_alone(
    clause: Clause, atoms: list[Atom], moving: set[str], columns: tuple[str, ...], selection: Selection
) -> None:
    """Values and witnesses must be variables of their own: a join on one is a condition on it."""
    for atom in clause.normal.atoms:
        for i, argument in enumerate(atom.arguments):
            if argument.name in moving:
                others = sum(argument.name in variables(other) for other in clause.normal.atoms)
                if others > 1 or atom not in atoms or i in selection.group:
                    raise Refusal(f"{clause.id} joins on {argument.name}, a value or witness of {atoms[0].relation}")


def _passes(
    clause: Clause,
    name: str,
    op: str,
    sides: tuple[Expression, Expression],
    selection: Selection,
    atoms: list[Atom],
    moving: set[str],
) -> None:
    """Check that a condition which holds for a value holds for every better one."""
    wrong = Refusal(f"{clause.id} has a condition that a better tuple of {name} may fail")
    if len(selection.values) > 1 or op not in ("<", "<=", ">", ">="):
        raise wrong
    column, function = selection.values[0]
    own = {a.arguments[column].name for a in atoms}
    for variable in sorted(own):
        left, right = (growth(s, variable, moving - own, clause.normal.definitions) for s in sides)
        if left is None or right is None:
            raise wrong
        if (op in ("<", "<=")) != (function == "min"):
            left, right = -left, -right
        if left < 0 or right > 0:
            raise wrong
