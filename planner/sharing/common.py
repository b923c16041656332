"""Views that nobody wrote: what several views need that read at different points, kept once for all of them.

Where views over the same atoms read at points of the clock none of which has all points of the others, none of the
views can be read by all. A common one can: with the conditions that all of them have, as narrow as they allow, at the
greatest common divisor of their points. It has all columns, and all copies of what has copies, so that whatever can
be asked of the atoms under these conditions can be asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from datalog.ast import (
    NOWHERE,
    Atom,
    Column,
    Comparison,
    Expression,
    Negation,
    Program,
    Read,
    Relation,
    Rule,
    Ticks,
    Variable,
)
from datalog.points import name_of
from operators.schedule import Points, Schedule
from planner.sharing.catalogue import Catalogue, Shared
from planner.sharing.skin import Condition, Skin, turned
from planner.sharing.terms import ANYTHING, Limit, Side, Term, spelled

__all__ = ["Common", "common_views"]

DENSER = 2
"""A common view has at most so many times the points of the views that read it: it is refreshed at each."""

MANY = 3
"""So many different syncs of views that cannot read each other are worth a common view, also if one has all points."""

OPERATORS = {("lower", 0): ">=", ("lower", 1): ">", ("upper", 0): "<", ("upper", 1): "<="}


@dataclass(frozen=True)
class Common:
    """A common view: what it adds to the program, and what becomes of the views that read it."""

    program: Program
    name: str
    readers: tuple[Shared, ...]
    syncs: tuple[str, ...]
    text: str

    def lines(self) -> tuple[str, ...]:
        (ticks,) = self.program.clocks.values()
        assert ticks is not None
        return (
            self.text,
            f"  made for {', '.join(shared.view for shared in self.readers)}",
            f"  at the greatest common divisor of {', '.join(self.syncs)}",
        )


def common_views(catalogue: Catalogue, found: dict[str, Shared]) -> Iterator[Common]:
    """Common views for those that read no other view. Linear in the number of views.

    Each is in the catalogue afterwards.
    """
    groups: dict[Any, list[Skin]] = {}
    for name, shared in found.items():
        skin = catalogue.skins.get(name)
        if skin is None or shared.rule is not None or skin.clock is not None or skin.timed:
            continue
        if catalogue.syncs.period(skin.sync) is not None:
            groups.setdefault((skin.atoms, skin.joins), []).append(skin)
    for number, skins in enumerate(groups.values(), 1):
        made = _common(catalogue, skins, f"shared.{number}")
        if made is not None:
            yield made


def _common(catalogue: Catalogue, skins: Sequence[Skin], name: str) -> Common | None:
    ticks = _ticks(catalogue, skins)
    if ticks is None:
        return None
    program = _Maker(catalogue, skins, name, ticks).program()
    if program is None:
        return None
    catalogue.add(program)
    view = catalogue.skins[name]
    readers = [shared for skin in skins if (shared := catalogue.read_from(skin, view)) is not None]
    syncs = tuple(dict.fromkeys(shared.sync for shared in readers))
    if len(syncs) < 2:
        catalogue.remove(name)
        return None
    return Common(program, name, tuple(readers), syncs, catalogue.words(program.rules[0]))


def _ticks(catalogue: Catalogue, skins: Iterable[Skin]) -> Ticks | None:
    """The points of a common view; None if there should be none."""
    points: dict[Points, str] = {}
    for skin in skins:
        own = catalogue.syncs.period(skin.sync)
        assert own is not None
        points.setdefault(own, skin.sync)
    apart = any(
        not catalogue.syncs.within(one, other) and not catalogue.syncs.within(other, one)
        for i, one in enumerate(list(points.values())[:MANY]) for other in list(points.values())[:i]
    )  # fmt: skip
    if not apart and len(points) < MANY:
        return None
    found = reduce(Schedule.join, [Schedule((p,)) for p in points]).parts
    if len(found) != 1 or found[0].end is not None:
        return None
    if 1 / Fraction(found[0].period) > DENSER * sum(1 / Fraction(p.period) for p in points):
        return None
    return Ticks(found[0].period, found[0].start)


class _Maker:
    """The rule of a common view, in the words of the first view that it is for."""

    def __init__(self, catalogue: Catalogue, skins: Sequence[Skin], name: str, ticks: Ticks) -> None:
        self.catalogue = catalogue
        self.skins = skins
        self.first = skins[0]
        self.name = name
        self.ticks = ticks
        self.sync = name_of(ticks)
        self.reads: dict[str, Read] = {}
        self.relations: dict[str, Relation] = {}
        self.hidden = 0

    def program(self) -> Program | None:
        """A piece of program with the view; None if the views have no condition in common."""
        first = self.first
        conditions = [*self.constants(), *self.residual(), *self.bounds()]
        if not conditions:
            return None
        places = [first.places[n] for n in sorted(first.places) if n >= 0]
        head = Atom(self.name, tuple([Variable(p.name) for p in places]))
        body = [
            Atom(self.read(relation), tuple([Variable(first.places[p].name) for p in slots]))
            for relation, slots in zip(first.atoms, first.slots, strict=True)
        ]
        rule = Rule(head, (*body, *conditions), NOWHERE, f"what {self.name} is for")
        columns = tuple([Column(p.name, p.type, numeric=self.numeric(p.number)) for p in places])
        self.relations[self.name] = Relation(self.name, columns, bag=first.bags, declared=False)
        return Program((rule,), self.relations, reads=self.reads, clocks={self.sync: self.ticks}, checked=True)

    def read(self, name: str) -> str:
        """The relation of a read at the common points."""
        read = Read(f"{name} at {self.sync}", name, "at", self.sync)
        self.reads[read.name] = read
        columns = self.catalogue.syncs.relations[name].columns
        self.relations[read.name] = Relation(read.name, columns, declared=False)
        return read.name

    def numeric(self, number: int) -> bool:
        names = [name for name, slots in zip(self.first.atoms, self.first.slots, strict=True) for _ in slots]
        slots = [(i, place) for slots in self.first.slots for i, place in enumerate(slots)]
        return any(
            place == number and self.catalogue.syncs.relations[name].columns[i].numeric
            for name, (i, place) in zip(names, slots, strict=True)
        )

    # --- conditions ----------------------------------------------------------------------------------------------

    def constants(self) -> Iterator[Comparison]:
        for number, value in sorted(frozenset.intersection(*(s.constants for s in self.skins)), key=repr):
            yield self.compared("=", ("v", number), value)

    def residual(self) -> Iterator[Comparison | Negation]:
        common = frozenset.intersection(*(s.residual for s in self.skins))
        for condition in self.first.conditions:
            if not condition.bounds and condition.canonical in common:
                yield self.condition(condition)
        for absent in self.first.absent:
            if absent.canonical in common:
                arguments = tuple([self.anything() if t == ANYTHING else self.spelled(t) for t in absent.terms])
                yield Negation(Atom(self.read(absent.relation), arguments))

    def bounds(self) -> Iterator[Comparison]:
        fixed = {("v", number) for number, _ in frozenset.intersection(*(s.constants for s in self.skins))}
        done: set[tuple[Term, str, Limit]] = set()
        for key, side in self.first.known:
            limits = [s.known.get((key, side)) for s in self.skins]
            if None in limits or key[-1] in fixed:
                continue
            widest: Limit = min(limits) if side == "lower" else max(limits)  # type: ignore[type-var, assignment]
            if widest[0] == 0 and turned(key, side, widest) in done:
                continue
            found = self.bounded((key, side), widest)
            if found is not None:
                done.add((key, side, widest))
                yield found

    def bounded(self, bound: Side, limit: Limit) -> Comparison | None:
        """The condition by which one of the views bounds something, as wide as any of them."""
        for skin in self.skins:
            for condition in skin.conditions:
                if condition.op != "=" and (*bound, limit) in condition.bounds:
                    return self.condition(condition)
        (kind, *_, term), side = bound
        if kind == "":
            return self.compared(OPERATORS[side, limit[1]], term, ("c", type(limit[0]).__name__, limit[0]))
        return None

    def condition(self, condition: Condition) -> Comparison:
        return self.compared(condition.op, condition.left, condition.right)

    def compared(self, op: str, left: Term, right: Term) -> Comparison:
        return Comparison(op, self.spelled(left), self.spelled(right))

    def spelled(self, term: Term) -> Expression:
        return spelled(term, lambda number: Variable(self.first.places[number].name))

    def anything(self) -> Variable:
        self.hidden += 1
        return Variable(f"_#@{self.hidden}c")
