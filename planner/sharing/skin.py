"""The skinned form of a rule: what it derives, apart from the points of time at which it reads.

`Skin` has the *data* of a rule over relations as they are at every moment, and its *sync*, the points at which all of
it is read. The data is taken apart into places (see `planner.sharing.terms`), conditions and a head, so that two
rules over the same atoms can be held against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from datalog.ast import NOWHERE, Rule, Span
from planner.sharing.terms import Limit, Side, Term, bounds, canonical

__all__ = ["Absent", "Condition", "Grouped", "Place", "Skin", "turned"]

@dataclass(frozen=True)
class Place:
    """Columns that must be equal. `name` is what the rule calls them, `constant` what they must be equal to as well."""

    number: int
    type: str
    name: str
    constant: Term | None = None


@dataclass(frozen=True)
class Condition:
    """A comparison, as bounds if it is one of those (see `bounds`)."""

    op: str
    left: Term
    right: Term
    span: Span = NOWHERE

    @cached_property
    def bounds(self) -> tuple[tuple[Term, str, Limit], ...]:
        return bounds(self.op, self.left, self.right)

    @cached_property
    def canonical(self) -> Term:
        return canonical(self.op, self.left, self.right)


@dataclass(frozen=True)
class Absent:
    """A negation. `read` is the relation of the rule's own atom, `relation` what it is a read of."""

    relation: str
    read: str
    terms: tuple[Term, ...]
    span: Span

    @cached_property
    def canonical(self) -> Term:
        return ("!", self.relation, *self.terms)


@dataclass(frozen=True)
class Grouped:
    """An aggregate of a head."""

    function: str
    target: Term | None
    parameter: Any
    type: str | None

    @property
    def what(self) -> tuple[Any, ...]:
        return (self.function, self.target, self.parameter)


@dataclass(frozen=True)
class Skin:
    """The skinned form of one rule.

    `atoms`: the relations of the positive atoms, sorted; `slots` has the place of each of their columns. `clock` is
    the place of `now`, if the rule reads it. `timed`: beside what it reads at `sync`, it reads what only the clock
    changes, as it is at every moment. `bags`: some of its atoms have copies of tuples.
    """

    rule: Rule
    atoms: tuple[str, ...]
    slots: tuple[tuple[int, ...], ...]
    places: dict[int, Place]
    conditions: tuple[Condition, ...]
    absent: tuple[Absent, ...]
    head: tuple[Term | Grouped, ...]
    sync: str
    timed: bool
    bags: bool
    clock: int | None

    @cached_property
    def name(self) -> str:
        return self.rule.head.relation

    @cached_property
    def groups(self) -> bool:
        """Whether the head has aggregates."""
        return any(isinstance(entry, Grouped) for entry in self.head)

    def type_of(self, term: Term) -> str | None:
        return self.places[term[1]].type if term[0] == "v" else term[2] if term[0] == "f" else None

    @cached_property
    def plain(self) -> tuple[Term, ...]:
        return tuple([entry for entry in self.head if not isinstance(entry, Grouped)])

    @cached_property
    def joins(self) -> tuple[tuple[int, ...], ...]:
        """The columns of atoms that must be equal, by their numbers."""
        members: dict[int, list[int]] = {}
        for number, place in enumerate(p for own in self.slots for p in own):
            members.setdefault(place, []).append(number)
        return tuple(tuple(m) for place, m in sorted(members.items()) if len(m) > 1 or place == self.clock)

    @cached_property
    def sides(self) -> dict[Side, Limit]:
        """The narrowest bounds that the conditions give."""
        found: dict[Side, Limit] = {}
        for condition in self.conditions:
            for key, side, limit in condition.bounds:
                if key[0] == "-" and limit[0] == 0 and self._turned(key):
                    key, side, limit = turned(key, side, limit)
                _narrow(found, key, side, limit)
        return found

    def _turned(self, key: Term) -> bool:
        """Whether a distance of nothing goes with conditions on the distance the other way round."""
        other = (key[0], key[2], key[1])
        distances = {k for c in self.conditions for k, _, limit in c.bounds if k[0] == "-" and limit[0] != 0}
        return other in distances or (key not in distances and repr(other) < repr(key))

    @cached_property
    def known(self) -> dict[Side, Limit]:
        """All bounds that are known: also those of constants, and of distances either way round."""
        found: dict[Side, Limit] = {}
        for condition in self.conditions:
            for key, side, limit in condition.bounds:
                _narrow(found, key, side, limit)
                if key[0] == "-" and (limit[0] >= 0 if side == "lower" else limit[0] <= 0):
                    _narrow(found, *turned(key, side, limit))
        for place in self.places.values():
            if place.constant is not None:
                for key, side, limit in bounds("=", ("v", place.number), place.constant):
                    _narrow(found, key, side, limit)
        return found

    @cached_property
    def residual(self) -> frozenset[Term]:
        """The conditions that are no bounds."""
        found = [c.canonical for c in self.conditions if not c.bounds]
        return frozenset([*found, *(a.canonical for a in self.absent)])

    @cached_property
    def constants(self) -> frozenset[tuple[int, Term]]:
        return frozenset([(p.number, p.constant) for p in self.places.values() if p.constant is not None])


def _narrow(found: dict[Side, Limit], key: Term, side: str, limit: Limit) -> None:
    old = found.get((key, side))
    if old is None or (limit > old if side == "lower" else limit < old):
        found[key, side] = limit


def turned(key: Term, side: str, limit: Limit) -> tuple[Term, str, Limit]:
    """F - E >= 0, which F - E >= 5 implies, as E - F <= 0."""
    return (key[0], key[2], key[1]), "upper" if side == "lower" else "lower", (0, 1 - limit[1])
