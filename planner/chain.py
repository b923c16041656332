"""A body on its way to one step: joining two parts, and what an auxiliary for them must keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any

import msgspec
from msgspec.structs import replace

from datalog.ast import Comparison, Variable, variables
from operators.attempt import attempt, sound
from operators.expr import Col, Expr
from planner.build import Builder, Part
from planner.draft import Body, Clause, Lookup
from planner.order import Link, Order
from planner.plan import Input, JoinRule, MapRule, PlanRule
from planner.risk import NONE, Risk, Risks
from planner.translate import Translator

__all__ = ["Chain", "Step"]

KEY = "key'"
"""How columns are called that are made to be joined on: no variable of a program has such a name."""

FAILURE = "failure'"
"""How columns are called that tell what failed in conditions that were tried early."""


class Step(msgspec.Struct, frozen=True):
    """One part, or two that are joined on `keys` (pairs of columns), under `where`.

    `row` says where each variable is in the row of the step, `types` of which type it is.
    """

    parts: tuple[Part, ...]
    keys: tuple[tuple[int, int], ...]
    where: tuple[Expr, ...]
    row: Mapping[str, Expr]
    types: Mapping[str, str]
    conditions: int

    def rule(self, name: str, head: str, outputs: tuple[Expr, ...], text: str) -> PlanRule:
        """The plan rule for this step; placements are chosen later."""
        if len(self.parts) == 1:
            return MapRule(name, head, self.input(0), self.where, outputs, text)
        return JoinRule(name, head, self.input(0), self.input(1), self.where, outputs, "left", text)

    def input(self, side: int) -> Input:
        """A part as an input of a rule."""
        return Input(self.parts[side].relation, (), tuple([pair[side] for pair in self.keys]))


class Chain:
    """The parts of one body, and the filters and lookups that are still to come.

    A part that is being worked on is not among `parts`: what is still `needed` of it is what the others ask for.
    `wanted` are the variables that whoever reads the result needs. With `weighted`, auxiliaries keep the number of
    bindings behind each of their tuples: an aggregate counts them all.

    What may fail (`risks`) is decided in the last step, where all else holds. In a join on the way there, it is tried:
    a row on which it fails goes on, and `failures` are the columns that tell of that.
    """

    def __init__(
        self,
        builder: Builder,
        clause: Clause,
        body: Body,
        wanted: Iterable[str],
        recursive: frozenset[str],
        weighted: bool,
        extra: tuple[Part, ...] = (),
        outer: Mapping[str, str] | None = None,
    ) -> None:
        self.builder = builder
        self.clause = clause
        self.body = body
        self.wanted = tuple(wanted)
        self.recursive = recursive
        self.weighted = weighted
        self.filters: list[Comparison] = list(body.filters)
        self.lookups: list[Lookup] = list(body.lookups)
        untold = {
            x.result: x.function
            for x in body.lookups
            if x.function in builder.program.aggregates and x.result is not None and x.type == "any"
        }
        self.translator = Translator(builder.program, body.definitions, builder.functions, untold)
        self._outer = outer
        self._known_risks: Risks | None = None
        self._known_order: Order | None = None
        self.failures: list[str] = []
        self._risks_of: dict[int, tuple[Comparison, Risk]] = {}
        self._roots_of: dict[int, tuple[Any, frozenset[str]]] = {}
        self._bases: dict[str, frozenset[str]] = {}  # what each definition comes down to
        self._defined: set[str] = set()
        for name, node in body.definitions.items():
            self._bases[name] = frozenset(self._roots(node))
            self._defined.add(name)
        conditions = [roots for condition in self.filters if (roots := self._roots(condition))]
        self.parts = [*extra, *[self._part(atom, i, conditions) for i, atom in enumerate(body.atoms)]]

    @property
    def risks(self) -> Risks:
        """What may fail in the body, worked out on first request."""
        if self._known_risks is None:
            program, functions, outer = self.builder.program, self.builder.functions, self._outer
            answers = outer is None and bool(self.body.lookups) and self._guarded()
            self._known_risks = Risks(self.body, program.relations, functions, outer, answers, program.longest)
        return self._known_risks

    @property
    def order(self) -> Order:
        """What to join next, worked out on first request."""
        if self._known_order is None:
            self._known_order = Order(self.builder.relations)
        return self._known_order

    def _guarded(self) -> bool:
        """Whether an aggregate whose answer is out of range must wait for the rest of the body.

        Not where nothing else decides: then it is asked as it stands, and several of them side by side. Nor in a
        recursion, which would have to compute it anew for what it derives.
        """
        if any(atom.relation in self.recursive for atom in self.body.atoms):
            return False
        return len(self.body.atoms) > 1 or self.has_conditions()

    def has_conditions(self) -> bool:
        """Whether there is a negation, or a comparison that needs no aggregate."""
        results = {lookup.result for lookup in self.body.lookups}
        return None in results or any(results.isdisjoint(self.body.roots(f)) for f in self.body.filters)

    def _part(self, atom: Any, position: int, conditions: Iterable[frozenset[str] | set[str]]) -> Part:
        """An atom as a part, given the variables of the conditions of the body."""
        relation = self.builder.relations[atom.relation]
        names = tuple([a.name for a in atom.arguments])
        own = [roots for roots in conditions if roots.issubset(names)]
        return Part(relation.name, names, relation.types, position, relation.name in self.recursive, 1 + len(own))

    def _roots(self, node: Any, known: Collection[str] = ()) -> frozenset[str] | set[str]:
        """What a node comes down to (`Body.roots`); looked up, unless what is known is defined."""
        if self._defined and not self._defined.isdisjoint(known):
            return self.body.roots(node, known)
        found = self._roots_of.get(id(node))
        if found is None:  # the node is kept, so that its id stays its own
            below = [self._bases[n] if n in self._bases else frozenset((n,)) for n in variables(node)]
            found = self._roots_of[id(node)] = (node, frozenset().union(*below))
        return found[1]

    def comes_down_to(self, name: str, known: Collection[str]) -> Set[str]:
        """The variables that a variable comes down to, except those of known ones."""
        if self._defined and not self._defined.isdisjoint(known):
            return self.body.roots(Variable(name), known)
        return self._bases.get(name) or {name}

    def needed(self, names: Iterable[str], computed: Iterable[str] = ()) -> list[str]:
        """Those of the variables that anything still to come reads: filters, lookups, other parts, the result.

        What a `computed` variable is computed from is not needed for its sake.
        """
        names = list(dict.fromkeys(names))
        later = set(self.failures).union(*[part.variables for part in self.parts])
        known = later.union(names, computed)
        for name in dict.fromkeys((*self.wanted, *(n for lookup in self.lookups for n in lookup.needs))):
            later |= self.comes_down_to(name, known)
        for condition in self.filters:
            later |= self._roots(condition, known)
        return [v for v in names if v in later]

    def usable(self, known: Set[str], below: Risk = NONE) -> list[Comparison]:
        """The filters that can be decided when these variables are known, and that may fail only by what is `below`."""
        return [f for f in self._decided(known) if self.risk(f) <= below]

    def _decided(self, known: Set[str]) -> list[Comparison]:
        return [f for f in self.filters if self._roots(f, known) <= known]

    def risk(self, condition: Comparison) -> Risk:
        """What may fail in a filter."""
        known = self._risks_of.get(id(condition))
        if known is None:  # the filter is kept, so that its id stays its own
            known = self._risks_of[id(condition)] = (condition, self.risks.of(condition))
        return known[1]

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self, *parts: Part, last: bool = False, below: Risk = NONE) -> Step:
        """One part, or the join of two, with every filter that their variables allow.

        In the last step nothing is left to come that could guard what may fail. In a join before it, that is tried; on
        one part alone it waits, unless it is `below` what is computed next.
        """
        if len(parts) == 2 and set(parts[0].variables).isdisjoint(parts[1].variables):
            parts, extra = self._computed_keys(*parts)
        else:
            extra = []
        row: dict[str, Expr] = {}
        types: dict[str, str] = {}
        column = 0
        for part in parts:
            for name, kind in zip(part.variables, part.types, strict=True):
                # 1 and 1.0 meet: what is computed from them has the type of the float
                if name not in row or (kind == "float" and types[name] != "float"):
                    row[name], types[name] = Col(column), kind
                column += 1
        keys = list(extra)
        if len(parts) == 2:
            left, right = parts
            at = {name: i for i, name in enumerate(right.variables)}
            keys += [(i, at[v]) for i, v in enumerate(left.variables) if v in at]
        where, conditions = self._conditions(row, types, last, len(parts) == 2, below)
        return Step(parts, tuple(keys), where, row, types, conditions + len(extra))

    def _conditions(
        self, row: dict[str, Expr], types: dict[str, str], last: bool, joined: bool, below: Risk
    ) -> tuple[tuple[Expr, ...], int]:
        """The conditions of a step over a row, which are then done with, and how many filters they are.

        A row that fails in one that is tried has another column.
        """
        if not self.filters and not self.failures:
            return (), 0
        usable = self._decided(row.keys()) if last or joined else self.usable(row.keys(), below)
        if len(usable) == len(self.filters):
            self.filters = []
        else:
            done = {id(f) for f in usable}
            self.filters = [f for f in self.filters if id(f) not in done]
        risky = [f for f in usable if self.risk(f)]
        sure = [f for f in usable if not self.risk(f)] if risky else usable
        risky.sort(key=lambda f: len(self.risk(f)))
        where: list[Expr] = [self.translator.comparison(f, row, sure=True) for f in sure]
        tried: list[Expr] = [self.translator.comparison(f, row) for f in risky]
        if not tried or last or not joined:
            where += tried
        else:
            passes, failure = attempt(tried)
            where.append(passes)
            name = f"{FAILURE}{len(self.failures) + 1}"
            self.failures.append(name)
            row[name], types[name] = failure, "symbol"
        if last:
            where += [sound(row[name]) for name in self.failures if name in row]
        return tuple(where), len(usable)

    def _computed_keys(self, left: Part, right: Part) -> tuple[tuple[Part, Part], list[tuple[int, int]]]:
        """Where only equations connect two parts, make their two sides columns, so that the join can hash them.

        Of those that may fail, only those are taken that need least, and only if there is no other.
        """
        pairs = []
        found = list(self._equations(left, right))
        least = min((len(self.risk(condition)) for condition, _ in found), default=0)
        below = NONE
        for condition, swapped in found:
            if len(self.risk(condition)) > least:
                continue
            below |= self.risk(condition)
            self.filters.remove(condition)
            one, other = (condition.right, condition.left) if swapped else (condition.left, condition.right)
            pairs.append((one, other))
        sides = []
        for side, part in enumerate((left, right)):
            names = [self._name(pair[side]) for pair in pairs]
            # all of them: a plain column that nobody else reads would be projected away beside a computed one
            if below and not set(names) <= set(part.variables):
                # that its partner has rows at all need not be known, unless it is more than an atom
                partner = (left, right)[1 - side]
                more = partner.relation not in self.builder.program.relations or self.usable(set(partner.variables))
                part = self.guarded(part, [*([partner] if more else []), *self.parts])
            sides.append((part if set(names) <= set(part.variables) else self.with_columns(part, names, below), names))
        (left, a), (right, b) = sides
        return (left, right), [(left.variables.index(m), right.variables.index(n)) for m, n in zip(a, b, strict=True)]

    def _equations(self, left: Part, right: Part) -> Iterator[tuple[Comparison, bool]]:
        """The filters `e = f` with `e` over one part and `f` over the other, and whether `e` is over the right one."""
        a, b = set(left.variables), set(right.variables)
        for condition in self.filters:
            if condition.op == "=":
                one, other = (self._roots(side, a | b) for side in (condition.left, condition.right))
                if one and other:
                    if one <= a and other <= b:
                        yield condition, False
                    elif one <= b and other <= a:
                        yield condition, True

    def links(self) -> Iterator[Link]:
        """The filters by what they are about."""
        known = {name for part in self.parts for name in part.variables}
        for condition in self.filters:
            left, right = (frozenset(self._roots(side, known)) for side in (condition.left, condition.right))
            yield condition, left, right, bool(self.risk(condition))

    def guarded(self, part: Part, others: Iterable[Part]) -> Part:
        """The rows of a part if others have any that it could be joined with in the end.

        That is for parts which are joined only after something that may fail has been computed.
        """
        for other in others:
            filters = list(self.filters)
            step = self.step(other)
            self.filters = filters
            head = self.builder.auxiliary(self.clause, (), {}, False)
            self.builder.add(step.rule(head, head, (), self.clause.rule.text))
            there = Part(head, (), (), part.position, other.recursive, 0, True)
            self.builder.sizes[head] = 0
            # what is needed of the part is also what is computed next, and what the others are joined on
            rest, self.parts = self.parts, [*self.parts, replace(part, relation="")]
            part, self.parts = self.materialise(self.step(part, there)), rest
        return part

    def _name(self, expression: Any) -> str:
        """The variable that an expression is, or a new definition for it."""
        if isinstance(expression, Variable):
            return expression.name
        name = f"{KEY}{1 + sum(known.startswith(KEY) for known in self.body.definitions)}"
        self.body = self.risks.body = replace(self.body, definitions={**self.body.definitions, name: expression})
        self._bases[name] = frozenset(self._roots(expression))
        self._defined.add(name)
        builder, known = self.builder, self.translator
        self.translator = Translator(builder.program, self.body.definitions, builder.functions, known.untold)
        return name

    def with_columns(self, part: Part, names: list[str], below: Risk = NONE) -> Part:
        """The part with defined variables as columns of their own."""
        if not names:
            return part
        return self.materialise(self.step(part, below=below), dict.fromkeys(names, "any"))

    def materialise(self, step: Step, extra: Mapping[str, str] | None = None) -> Part:
        """An auxiliary relation for a step: the columns that are still needed, and `extra` ones of some types."""
        extra = extra or {}
        names = tuple(dict.fromkeys([*self.needed(step.row, extra), *extra]))
        types = {n: self.translator.type(Variable(n), step.types) for n in names}
        head = self.builder.auxiliary(self.clause, names, types, self.weighted)
        outputs = tuple(
            self.translator.stored(Variable(n), step.row, step.types, extra.get(n, "any")) for n in names
        )
        self.builder.add(step.rule(head, head, outputs, self.clause.rule.text))
        part = Part(
            head,
            names,
            tuple(types[n] for n in names),
            min(p.position for p in step.parts),
            any(p.recursive for p in step.parts),
            sum(p.size for p in step.parts) + step.conditions,
            all(p.single for p in step.parts),
        )
        self.builder.sizes[head] = part.size
        return part
