"""Whether the conditions of a view are all asked for by a query over the same atoms."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations, product

from datalog.ast import Comparison, Expression, Variable
from datalog.format import format_expression, format_literal, format_value
from planner.sharing.skin import Condition, Skin, turned
from planner.sharing.terms import Limit, Term, bounds, canonical, moved, spelled

__all__ = ["WHOLE", "Match", "Uncontained", "entails", "orders"]

WHOLE = ("number", "unsigned")

ORDERS = 24
"""So many ways to find the atoms of one rule in another one are tried, where a relation occurs in it several times."""


class Uncontained(Exception):
    """Why one rule is not contained in another one."""


def entails(query: Skin, view: Skin) -> bool:
    """Whether a rule gives no rows but those of another one."""
    for order in orders(query, view):
        try:
            names = Match(query, view, order).names
        except Uncontained:
            continue
        if not view.groups and tuple([moved(term, names) for term in view.plain]) == query.head:
            return True
    return False


def orders(query: Skin, view: Skin) -> Iterator[tuple[int, ...]]:
    """For each atom of the view the number of one of the query, in all ways, as far as there are not too many."""
    if query.atoms != view.atoms:
        return iter(())
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(view.atoms):
        groups.setdefault(name, []).append(i)
    ways = product(*(permutations(numbers) for numbers in groups.values()))
    return islice((tuple(i for numbers in way for i in numbers) for way in ways), ORDERS)


class Match:
    """A view's rule laid over a query's: `names` has the query's place for each of the view's.

    Raises `Uncontained` if the view asks for something that the query does not ask for. `why` says what implies what,
    and `implied` are the bounds and conditions of the query that the view has seen to.
    """

    def __init__(self, query: Skin, view: Skin, order: tuple[int, ...]) -> None:
        self.query = query
        self.view = view
        self.names: dict[int, int] = {}
        self.why: list[str] = []
        self.places(order)
        self.sides = {(self.moved(key), side): limit for (key, side), limit in view.known.items()}
        for condition in view.conditions:
            self.condition(condition)
        for absent in view.absent:
            if self.term(absent.canonical) not in query.residual:
                raise Uncontained(f"{self.negation(absent.relation, absent.terms)} is not asked for")
        self.residual = {self.term(x) for x in view.residual}

    def places(self, order: tuple[int, ...]) -> None:
        query, view, names = self.query, self.view, self.names
        pairs = [
            pair for i, own in enumerate(view.slots) for pair in zip(own, query.slots[order[i]], strict=True)
        ]
        if view.clock is not None:
            if query.clock is None:
                raise Uncontained("it does not read `now`")
            pairs.append((view.clock, query.clock))
        for one, other in pairs:
            if names.setdefault(one, other) != other:
                first, second = sorted(query.places[p].name for p in (names[one], other))
                raise Uncontained(f"{first} = {second} is not asked for")
        for place in view.places.values():
            if place.constant is not None:
                own = query.places[names[place.number]]
                if own.constant is None or own.constant[2] != place.constant[2]:
                    raise Uncontained(f"{own.name} = {format_value(place.constant[2])} is not asked for")

    # --- conditions ----------------------------------------------------------------------------------------------

    def condition(self, condition: Condition) -> None:
        """Check that the query implies a condition of the view."""
        if not condition.bounds:
            if self.term(condition.canonical) not in self.query.residual and not self.excluded(condition):
                raise Uncontained(f"{self.own(condition)} is not asked for")
            return
        for key, side, limit in condition.bounds:
            key = self.moved(key)
            known = self.query.known.get((key, side))
            if known is None:
                raise Uncontained(f"{self.own(condition)} is not asked for")
            if not self.inside(key, side, known, limit):
                raise Uncontained(f"{self.asked(key, side, condition)} is not within {self.own(condition)}")
            if known != limit:
                self.why.append(f"{self.asked(key, side, condition)} is within {self.own(condition)}")

    def inside(self, key: Term, side: str, own: Limit, limit: Limit) -> bool:
        """Whether a bound implies another one on the same.

        Of a distance, `>=` with a greater limit implies `>` only where nothing rounds: `E + 2` and `E + 1` may be one
        and the same float.
        """
        looser = key[0] == "-" and own[1] != limit[1] and (own[1] == 1) != (side == "lower")
        if looser and not all(self.query.type_of(term) in WHOLE for term in key[1:]):
            return False
        return own >= limit if side == "lower" else own <= limit

    def has(self, key: Term, side: str, limit: Limit) -> bool:
        """Whether the view sees to a bound of the query."""
        known = self.sides.get((key, side))
        return known is not None and self.inside(key, side, known, limit)

    def excluded(self, condition: Condition) -> bool:
        """Whether bounds of the query rule out what a condition `x != c` does."""
        if condition.op != "!=":
            return False
        for key, side, limit in bounds("=", self.term(condition.left), self.term(condition.right)):
            own = self.query.known.get((key, side))
            strict = (limit[0], 1 if side == "lower" else 0)
            if own is not None and self.inside(key, side, own, strict):
                return True
        return False

    def asked(self, key: Term, side: str, condition: Condition) -> str:
        """The condition of the query that bounds the same as one of the view."""
        for own in self.query.conditions:
            for bound in own.bounds:
                if (key, side, self.query.known[key, side]) in (bound, turned(*bound)):
                    return self.words(own.op, own.left, own.right)
        place = self.query.places.get(key[-1][1]) if key[-1][0] == "v" else None
        if place is not None and place.constant is not None:
            return f"{place.name} = {format_value(place.constant[2])}"
        return self.own(condition)

    def own(self, condition: Condition) -> str:
        """A condition of the view in words."""
        return self.words(condition.op, self.term(condition.left), self.term(condition.right))

    # --- names ---------------------------------------------------------------------------------------------------

    def term(self, term: Term) -> Term:
        """A term of the view, or a canonical condition, in the query's places."""
        if term[0] in ("c", "_"):
            return term
        if term[0] in ("v", "f"):
            return moved(term, self.names)
        if term[0] == "!":
            return (*term[:2], *map(self.term, term[2:]))
        return canonical(term[0], self.term(term[1]), self.term(term[2]))

    def moved(self, key: Term) -> Term:
        return (*key[:-2], *[moved(part, self.names) if isinstance(part, tuple) else part for part in key[-2:]])

    def words(self, op: str, left: Term, right: Term) -> str:
        return format_literal(Comparison(op, spelled(left, self.variable), spelled(right, self.variable)))

    def negation(self, relation: str, terms: tuple[Term, ...]) -> str:
        arguments = ", ".join(format_expression(spelled(self.term(t), self.variable)) for t in terms)
        return f"!{relation}({arguments})"

    def variable(self, place: int) -> Expression:
        return Variable(self.query.places[place].name)
