"""Skinning: a rule as a `Skin` (see `planner.sharing.skin`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from datalog.ast import (
    ARRIVAL,
    NOWHERE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    HeadAggregate,
    Negation,
    Rule,
    Span,
    Variable,
    expressions,
    variables,
)
from planner.sharing.points import ALWAYS, NOW, Syncs
from planner.sharing.skin import Absent, Condition, Grouped, Place, Skin
from planner.sharing.terms import ANYTHING, Term, constant

__all__ = ["skin"]

LARGEST = 500
"""Parts that the expressions of a rule may have once its equations are written out."""

CLOCK = -1
"""The place of `now`, where no column of an atom is equal to it."""


def skin(rule: Rule, syncs: Syncs) -> Skin | str:
    """The skinned form of a rule, or why it cannot be shared, nor read what is. About linear in the rule's size."""
    try:
        return _Skinner(rule, syncs).skin()
    except _Unfit as unfit:
        return str(unfit)


class _Unfit(Exception):
    """Why a rule has no skinned form that is of use."""


class _Skinner:
    """The work on one rule. Every column of an atom has a number; `parents` is a union-find over these, and CLOCK."""

    def __init__(self, rule: Rule, syncs: Syncs) -> None:
        self.rule = rule
        self.syncs = syncs
        self.parents: dict[int, int] = {}
        self.types: dict[int, str] = {}
        self.bound: dict[str, int] = {}
        self.constants: dict[int, Term] = {}
        self.defined: dict[str, Any] = {}
        self.filters: list[tuple[str, Any, Any, Span]] = []
        self.columns: list[str] = []
        self.size = 0

    def skin(self) -> Skin:
        rule = self.rule
        if any(isinstance(e, Aggregate) for part in (rule.head, *rule.body) for e in expressions(part)):
            raise _Unfit("it has an aggregate in its body")
        atoms = [x for x in rule.body if isinstance(x, Atom) and not self.is_now(x)]
        negated = [x.atom for x in rule.body if isinstance(x, Negation)]
        sync, timed = self.sync([*atoms, *negated])
        clocks = [x for x in rule.body if isinstance(x, Atom) and self.is_now(x)]
        if not atoms:
            raise _Unfit("it reads no relation")
        names = [self.data(atom, sync) for atom in atoms]
        order = sorted(range(len(atoms)), key=names.__getitem__)
        slots = [self.atom(atoms[i]) for i in order]
        for clock in clocks:
            self.argument(CLOCK, clock.arguments[0], "any")
        self.equate()
        numbers = self.numbers()
        places = self.places(numbers)
        conditions = [Condition(op, self.term(a, numbers), self.term(b, numbers), at) for op, a, b, at in self.filters]
        absent = [
            Absent(self.data(x, sync), x.relation, tuple([self.inner(a, numbers) for a in x.arguments]), x.span)
            for x in negated
        ]
        return Skin(
            rule,
            tuple([names[i] for i in order]),
            tuple([tuple([numbers[self.root(s)] for s in own]) for own in slots]),
            places,
            tuple(conditions),
            tuple(absent),
            tuple([self.shown(a, numbers) for a in rule.head.arguments]),
            sync,
            timed or (bool(clocks) and sync != ALWAYS),
            any(self.syncs.is_bag(atom.relation) for atom in atoms),
            numbers[self.root(CLOCK)] if clocks else None,
        )

    def is_now(self, atom: Atom) -> bool:
        return atom.relation == NOW and NOW in self.syncs.clocks

    # --- points of time ------------------------------------------------------------------------------------------

    def sync(self, atoms: Iterable[Atom]) -> tuple[str, bool]:
        """The points at which everything is read, and whether there is something beside it that is about the clock."""
        found: dict[str, str] = {}
        live: dict[str, None] = {}
        timed = False
        for atom in atoms:
            name, sync = self.syncs.taken_apart(atom.relation)
            if sync != ALWAYS:
                if not any(self.syncs.same(sync, other) for other in found):
                    found[sync] = name
            elif self.syncs.of_time(name):
                timed = True
            else:
                live[name] = None
        if len(found) > 1 or (found and live):
            raise _Unfit(f"partial points are needed: {' and '.join([*found, *['every commit' for _ in live][:1]])}")
        return (next(iter(found)), timed) if found else (ALWAYS, False)

    def data(self, atom: Atom, sync: str) -> str:
        """What an atom reads, whenever that is. What moves with the clock beside a sync stands apart."""
        name, own = self.syncs.taken_apart(atom.relation)
        return f"{name} by the clock" if own == ALWAYS and sync != ALWAYS else name

    # --- columns -------------------------------------------------------------------------------------------------

    def atom(self, atom: Atom) -> list[int]:
        slots = []
        for column, argument in zip(self.syncs.relations[atom.relation].columns, atom.arguments, strict=True):
            slot = len(self.columns)
            self.columns.append("t" if column.name == ARRIVAL else column.name)
            self.argument(slot, argument, column.type)
            slots.append(slot)
        return slots

    def argument(self, slot: int, argument: Any, type_: str) -> None:
        if slot not in self.types:
            self.parents[slot], self.types[slot] = slot, type_
        if isinstance(argument, Variable):
            first = self.bound.setdefault(argument.name, slot)
            if self.types[first] != type_:
                raise _Unfit(f"{argument.name} stands in columns of different types")
            self.union(first, slot)
        elif isinstance(argument, Constant):
            self.equals(slot, argument)
        else:
            self.filters.append(("=", ("slot", slot), argument, argument.span))

    def root(self, slot: int) -> int:
        while self.parents[slot] != slot:
            slot = self.parents[slot]
        return slot

    def union(self, one: int, other: int) -> None:
        one, other = self.root(one), self.root(other)
        if one == other:
            return
        self.parents[other] = one
        value = self.constants.pop(other, None)
        if value is not None and self.constants.setdefault(one, value) != value:
            self.filters.append(("=", ("slot", one), Constant(value[2]), NOWHERE))

    def equals(self, slot: int, value: Constant) -> None:
        term = constant(value.value)
        if self.constants.setdefault(self.root(slot), term) != term:
            self.filters.append(("=", ("slot", slot), value, value.span))

    # --- equations -----------------------------------------------------------------------------------------------

    def equate(self) -> None:
        """Let equations make columns equal or define variables; what else is compared goes to `filters`."""
        comparisons = [x for x in self.rule.body if isinstance(x, Comparison)]
        waiting = [x for x in comparisons if x.op == "="]
        progress = True
        while progress and waiting:
            progress = False
            for x in list(waiting):
                if self.equation(x):
                    waiting.remove(x)
                    progress = True
        rest = [x for x in comparisons if x.op != "=" or any(x is w for w in waiting)]
        self.filters += [(x.op, x.left, x.right, x.span) for x in rest]

    def equation(self, x: Comparison) -> bool:
        """Whether an equation was used up."""
        for one, other in ((x.left, x.right), (x.right, x.left)):
            if isinstance(one, Variable) and one.name in self.bound:
                slot = self.bound[one.name]
                if isinstance(other, Constant):
                    self.equals(slot, other)
                    return True
                if isinstance(other, Variable) and other.name in self.bound:
                    second = self.bound[other.name]
                    if self.types[slot] != self.types[second]:
                        self.filters.append(("=", one, other, x.span))
                    else:
                        self.union(slot, second)
                    return True
            elif isinstance(one, Variable) and one.name not in self.defined:
                names = variables(other)
                if one.name not in names and all(n in self.bound or n in self.defined for n in names):
                    self.defined[one.name] = other
                    return True
        return False

    # --- places and terms ----------------------------------------------------------------------------------------

    def numbers(self) -> dict[int, int]:
        """The number of the place of each root: that of its first column."""
        found: dict[int, int] = {}
        for slot in sorted(self.parents, key=lambda s: (s == CLOCK, s)):
            found.setdefault(self.root(slot), slot)
        return found

    def places(self, numbers: dict[int, int]) -> dict[int, Place]:
        named: dict[int, str] = {}
        for name, slot in self.bound.items():
            if not name.startswith("_#"):
                named.setdefault(self.root(slot), name)
        taken = {*variables(self.rule), *named.values()}
        found = {}
        for root, number in numbers.items():
            called = named.get(root)
            if called is None:
                called = _free("n" if number == CLOCK else self.columns[number], taken)
                taken.add(called)
            found[number] = Place(number, self.types[root], called, self.constants.get(root))
        return found

    def term(self, node: Any, numbers: dict[int, int]) -> Term:
        self.size += 1
        if self.size > LARGEST:
            raise _Unfit("its equations are too many, one in the other")
        if isinstance(node, tuple):
            return ("v", numbers[self.root(node[1])])
        if isinstance(node, Variable):
            if node.name in self.bound:
                return ("v", numbers[self.root(self.bound[node.name])])
            return self.term(self.defined[node.name], numbers)
        if isinstance(node, Constant):
            return constant(node.value)
        assert isinstance(node, Call)
        return ("f", node.function, node.type, *[self.term(a, numbers) for a in node.arguments])

    def inner(self, node: Any, numbers: dict[int, int]) -> Term:
        """An argument of a negation."""
        if isinstance(node, Variable) and node.name not in self.bound and node.name not in self.defined:
            return ANYTHING
        return self.term(node, numbers)

    def shown(self, node: Any, numbers: dict[int, int]) -> Term | Grouped:
        if not isinstance(node, HeadAggregate):
            return self.term(node, numbers)
        target = None if node.target is None else self.term(node.target, numbers)
        parameter = node.parameter.value if isinstance(node.parameter, Constant) else None
        return Grouped("avg" if node.function == "mean" else node.function, target, parameter, node.type)


def _free(stem: str, taken: Iterable[str]) -> str:
    """A name that no variable has."""
    names = [stem, *(f"{stem}{i}" for i in range(1, 100))]
    return next((name for name in names if name not in taken), f"{stem}'0")
