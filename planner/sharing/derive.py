"""Containment of data: whether a rule can be computed from what the rule of a view shows, and how.

Both are over the same atoms. The view must ask for nothing that the query does not ask for; what the query asks for
beyond that, and what it shows, must be computable from the columns of the view.

Views are sets, and a projection forgets how often a row was found. So an aggregate of which the result depends on
that is read from a view without aggregates only if the view shows every column that its own rows depend on, and none
of its atoms has copies of tuples. From a view with aggregates it is read if its groups are unions of the view's
groups, and the function is one that rolls up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from datalog.ast import Atom, Column, Comparison, Expression, HeadAggregate, Literal, Negation, Relation, Span, Variable
from datalog.format import format_expression
from planner.sharing.entail import WHOLE, Match, Uncontained, orders
from planner.sharing.points import NOW
from planner.sharing.skin import Grouped, Skin
from planner.sharing.terms import ANYTHING, Term, places, spelled

__all__ = ["Derivation", "derive"]

ROLLED_UP = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
BY_SET = ("min", "max", "count_distinct")
"""Aggregates that do not depend on how often a value occurs."""

EXACT = {"number": int, "unsigned": int, "float": float, "symbol": str, "list": tuple}


@dataclass(frozen=True)
class Derivation:
    """How a query reads a view: `atom` stands for all atoms of the query, `rest` for what it asks for beyond the view.

    `key`: the columns that tell tuples of the query apart, where they did so as groups and no longer are.
    """

    atom: Atom
    rest: tuple[Literal, ...]
    head: Atom
    key: tuple[int, ...]
    why: tuple[str, ...]


def derive(query: Skin, view: Skin, relation: Relation, shown: Relation) -> Derivation:
    """How the query is computed from the view (`relation`, its declaration; `shown`, the query's); or `Uncontained`."""
    if view.groups and not query.groups:
        raise Uncontained(f"{view.name} has aggregates")
    if query.atoms != view.atoms:
        raise Uncontained(f"{view.name} reads other relations")
    failed: Uncontained | None = None
    for order in orders(query, view):
        try:
            return _Derivation(Match(query, view, order), relation, shown).result()
        except Uncontained as problem:
            failed = failed or problem
    assert failed is not None
    raise failed


class _Derivation:
    """A query on top of a view: what it reads of the columns of the view.

    `columns` has, for what the view shows and keeps as it is, the number of the column; `wanted` are the places that
    the query reads, `computed` the columns with expressions.
    """

    def __init__(self, match: Match, relation: Relation, shown: Relation) -> None:
        self.match = match
        self.query, self.view = match.query, match.view
        self.relation, self.shown = relation, shown
        self.why = list(match.why)
        self.columns: dict[Term, int] = {}
        self.own: dict[int, int] = {}  # of a place of the view, the first column
        for i, (entry, column) in enumerate(zip(self.view.head, relation.columns, strict=True)):
            if not isinstance(entry, Grouped) and self.keeps(entry, column):
                self.columns.setdefault(match.term(entry), i)
                if entry[0] == "v":
                    self.own.setdefault(entry[1], i)
        self.wanted: set[int] = set()
        self.computed: dict[int, Variable] = {}
        self.clock = False
        self.hidden = 0
        self.taken = {place.name for place in self.query.places.values()}

    def keeps(self, term: Term, column: Column) -> bool:
        """Whether a column has the very values of a term of the view."""
        type_ = self.view.places[term[1]].type if term[0] == "v" else term[2] if term[0] == "f" else None
        return type_ == column.type

    def result(self) -> Derivation:
        query = self.query
        rest = [*self.equations(), *self.comparisons(), *self.negations()]
        head, key = self.grouped() if query.groups else (self.arguments(), ())
        if self.clock:
            name = query.places[query.clock].name if query.clock is not None else ""
            rest.insert(0, Atom(NOW, (Variable(name),)))
        atom = Atom(self.view.name, self.row(), query.rule.span)
        return Derivation(atom, tuple(rest), replace(query.rule.head, arguments=head), key, tuple(self.why))

    def row(self) -> tuple[Any, ...]:
        """The arguments of the view's atom."""
        found: list[Any] = []
        for i, entry in enumerate(self.view.head):
            place = None
            if not isinstance(entry, Grouped) and entry[0] == "v" and self.own.get(entry[1]) == i:
                place = self.match.names[entry[1]]
            if place in self.wanted:
                found.append(Variable(self.query.places[place].name))
            elif i in self.computed:
                found.append(self.computed[i])
            else:
                found.append(self.anything())
        return tuple(found)

    def anything(self) -> Variable:
        self.hidden += 1
        return Variable(f"_#@{self.hidden}s")

    # --- conditions ----------------------------------------------------------------------------------------------

    def equations(self) -> Iterator[Literal]:
        """What the query has equal beyond the view: columns that get one variable, and constants."""
        members: dict[int, list[int]] = {}
        for one, other in self.match.names.items():
            members.setdefault(other, []).append(one)
        for number, ones in members.items():
            place = self.query.places[number]
            now = number == self.query.clock and self.view.clock is None  # the query has it equal to a column
            fixed = [one for one in ones if self.view.places[one].constant is not None]
            loose = [one for one in ones if self.view.places[one].constant is None]
            if not now and (not loose or (len(ones) == 1 and place.constant is None)):
                continue
            self.clock = self.clock or now
            for one in loose:
                if one == self.view.clock:
                    self.clock = True
                elif one not in self.own:
                    raise Uncontained(f"{self.view.name} does not show {self.view.places[one].name}")
            self.wanted.add(number)
            if fixed or place.constant is not None:
                assert place.constant is not None
                yield self.compared("=", ("v", number), place.constant, self.query.rule.span)
        clock = self.query.clock
        if clock is not None and clock not in members and (value := self.query.places[clock].constant) is not None:
            self.clock = True
            yield self.compared("=", ("v", clock), value, self.query.rule.span)

    def comparisons(self) -> Iterator[Literal]:
        for condition in self.query.conditions:
            if condition.bounds:
                done = all(self.match.has(*bound) for bound in condition.bounds)
            else:
                done = condition.canonical in self.match.residual
            if not done:
                yield self.compared(condition.op, condition.left, condition.right, condition.span)

    def negations(self) -> Iterator[Literal]:
        for absent in self.query.absent:
            if absent.canonical not in self.match.residual:
                arguments = [self.anything() if term == ANYTHING else self.spelled(term) for term in absent.terms]
                yield Negation(Atom(absent.read, tuple(arguments), absent.span), absent.span)

    def compared(self, op: str, left: Term, right: Term, span: Span) -> Comparison:
        return Comparison(op, self.spelled(left), self.spelled(right), span)

    # --- expressions ---------------------------------------------------------------------------------------------

    def place(self, number: int) -> Expression:
        """A place of the query, as a variable that the view's columns bind."""
        place = self.query.places[number]
        variable = Variable(place.name)
        if ("v", number) in self.columns:
            self.wanted.add(number)
        elif number == self.query.clock:
            self.clock = True
        elif place.constant is not None and _is_exact(place.constant[2], place.type):
            return spelled(place.constant, self.place)
        else:
            raise Uncontained(f"{self.view.name} does not show {place.name}")
        return variable

    def spelled(self, term: Term) -> Expression:
        """An expression of the query; the view may have computed it, or a part of it."""
        column = self.columns.get(term)
        if column is None or term[0] == "v":
            if term[0] != "f":
                return spelled(term, self.place)
            call = spelled((*term[:3],), self.place)
            return replace(call, arguments=tuple([self.spelled(part) for part in term[3:]]))
        return self.result_of(column)

    def arguments(self) -> tuple[Any, ...]:
        return tuple([self.spelled(entry) for entry in self.query.plain])

    # --- aggregates ----------------------------------------------------------------------------------------------

    def grouped(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """The head of a query with aggregates, and its key if none are left."""
        if self.view.groups:
            return self.rolled_up()
        functions = {e.function for e in self.query.head if isinstance(e, Grouped)} - set(BY_SET)
        if functions:
            depend = "depends" if len(functions) == 1 else "depend"
            words = f"{' and '.join(sorted(functions))} {depend} on how often a row occurs"
            if self.query.bags and not self.relation.bag:
                raise Uncontained(f"{words}, and {self.view.name} is a set of rows")
            for number, place in self.view.places.items():
                if number not in self.own and place.constant is None and number != self.view.clock:
                    raise Uncontained(f"{words}, and {self.view.name} does not show {place.name}")
        head: list[Any] = []
        for entry, written in zip(self.query.head, self.query.rule.head.arguments, strict=True):
            if not isinstance(entry, Grouped):
                head.append(self.spelled(entry))
            else:
                target = None if entry.target is None else self.spelled(entry.target)
                head.append(replace(written, target=target))
        return tuple(head), ()

    def rolled_up(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Aggregates of a view's groups, put together."""
        query, view = self.query, self.view
        results = {
            (e.function, None if e.target is None else self.match.term(e.target), e.parameter): i
            for i, e in reversed(list(enumerate(view.head))) if isinstance(e, Grouped)
        }  # fmt: skip
        key = tuple(i for i, entry in enumerate(query.head) if not isinstance(entry, Grouped))
        alike = bool(key) and self.alike()
        head: list[Any] = []
        for entry, written, own in zip(query.head, query.rule.head.arguments, self.shown.columns, strict=True):
            if not isinstance(entry, Grouped):
                head.append(self.spelled(entry))
                continue
            column = results.get(entry.what)
            words = format_expression(written)
            if column is None:
                raise Uncontained(f"{view.name} does not show {words}")
            type_ = self.relation.columns[column].type
            if type_ != entry.type or (alike and type_ != own.type):
                raise Uncontained(f"{view.name} shows {words} as a {type_}")
            if alike:
                head.append(self.result_of(column))
                continue
            function = ROLLED_UP.get(entry.function)
            if function is None:
                raise Uncontained(f"{words} of a group does not follow from those of its parts")
            if function == "sum" and type_ not in WHOLE:
                raise Uncontained(f"{words} rounds, and a sum of rounded sums is another one")
            target = self.result_of(column)
            head.append(HeadAggregate(function, target, written.span, entry.type))
            self.why.append(f"{words} is the {function} of {view.name}'s {format_expression(target)}")
        return tuple(head), key if alike else ()

    def result_of(self, column: int) -> Variable:
        """A column of the view that is no place of the query."""
        if column not in self.computed:
            name = stem = self.relation.columns[column].name
            number = 0
            while name in self.taken:
                number += 1
                name = f"{stem}{number}"
            self.taken.add(name)
            self.computed[column] = Variable(name)
        return self.computed[column]

    def alike(self) -> bool:
        """Whether every group of the view is one of the query by itself."""
        shown = set(self.query.plain)
        for term in self.view.plain:
            own = self.match.term(term)
            if own not in shown and not all(("v", p) in shown or self.is_one(p) for p in places(own)):
                return False
        return True

    def is_one(self, number: int) -> bool:
        """Whether a place of the query has one value at a time."""
        return self.query.places[number].constant is not None or number == self.query.clock


def _is_exact(value: Any, type_: str) -> bool:
    """Whether a column of a type has a constant as it is, if it has one that is equal: 1.0 is equal to 1."""
    return type(value) is EXACT.get(type_) or (type_ == "any" and isinstance(value, str))
