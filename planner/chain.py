"""A body on its way to one step: joining two parts, and what an auxiliary for them must keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from datalog.ast import Comparison, Variable
from operators.expr import Col, Expr
from planner.build import Builder, Part
from planner.draft import Body, Clause, Lookup
from planner.order import equations
from planner.plan import Input, JoinRule, MapRule, PlanRule
from planner.translate import Translator

__all__ = ["Chain", "Step"]

KEY = "key'"
"""How columns are called that are made to be joined on: no variable of a program has such a name."""


@dataclass(frozen=True, slots=True)
class Step:
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
        return Input(self.parts[side].relation, (), tuple(pair[side] for pair in self.keys))


class Chain:
    """The parts of one body, and the filters and lookups that are still to come.

    A part that is being worked on is not among `parts`: what is still `needed` of it is what the others ask for.
    `wanted` are the variables that whoever reads the result needs. With `weighted`, auxiliaries keep the number of
    bindings behind each of their tuples: an aggregate counts them all.
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
    ) -> None:
        self.builder = builder
        self.clause = clause
        self.body = body
        self.wanted = tuple(wanted)
        self.recursive = recursive
        self.weighted = weighted
        self.filters: list[Comparison] = list(body.filters)
        self.lookups: list[Lookup] = list(body.lookups)
        self.translator = Translator(builder.program, body.definitions, builder.functions)
        self.parts = [*extra, *(self._part(atom, i) for i, atom in enumerate(body.atoms))]

    def _part(self, atom: Any, position: int) -> Part:
        relation = self.builder.relations[atom.relation]
        names = tuple(a.name for a in atom.arguments)
        own = sum(1 for f in self.filters if self.body.roots(f) and self.body.roots(f) <= set(names))
        return Part(relation.name, names, relation.types, position, relation.name in self.recursive, 1 + own)

    def needed(self, variables: Iterable[str], computed: Iterable[str] = ()) -> list[str]:
        """Those of the variables that anything still to come reads: filters, lookups, other parts, the result.

        What a `computed` variable is computed from is not needed for its sake.
        """
        names = list(dict.fromkeys(variables))
        later = {v for part in self.parts for v in part.variables}
        known = later.union(names, computed)
        for name in (*self.wanted, *(n for lookup in self.lookups for n in lookup.needs)):
            later |= self.body.roots(Variable(name), known)
        for condition in self.filters:
            later |= self.body.roots(condition, known)
        return [v for v in names if v in later]

    def usable(self, known: Collection[str]) -> list[Comparison]:
        """The filters that can be decided when these variables are known."""
        return [f for f in self.filters if self.body.roots(f, known) <= set(known)]

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self, *parts: Part) -> Step:
        """One part, or the join of two, with every filter that their variables allow."""
        if len(parts) == 2 and not set(parts[0].variables) & set(parts[1].variables):
            parts, extra = self._computed_keys(*parts)
        else:
            extra = []
        row: dict[str, Expr] = {}
        types: dict[str, str] = {}
        offset = 0
        for part in parts:
            for i, (name, kind) in enumerate(zip(part.variables, part.types, strict=True)):
                # 1 and 1.0 meet: what is computed from them has the type of the float
                if name not in row or (kind == "float" and types[name] != "float"):
                    row[name], types[name] = Col(offset + i), kind
            offset += len(part.variables)
        keys = list(extra)
        if len(parts) == 2:
            left, right = parts
            keys += [(i, right.variables.index(v)) for i, v in enumerate(left.variables) if v in right.variables]
        usable = self.usable(row)
        self.filters = [f for f in self.filters if f not in usable]
        where = tuple(self.translator.comparison(f, row) for f in usable)
        return Step(parts, tuple(keys), where, row, types, len(where) + len(extra))

    def _computed_keys(self, left: Part, right: Part) -> tuple[tuple[Part, Part], list[tuple[int, int]]]:
        """Where only equations connect two parts, make their two sides columns, so that the join can hash them."""
        pairs = []
        for condition, swapped in list(equations(left, right, self.body, self.filters)):
            self.filters.remove(condition)
            one, other = (condition.right, condition.left) if swapped else (condition.left, condition.right)
            pairs.append((one, other))
        sides = []
        for side, part in enumerate((left, right)):
            names = [self._name(pair[side]) for pair in pairs]
            # all of them: a plain column that nobody else reads would be projected away beside a computed one
            sides.append((part if set(names) <= set(part.variables) else self.with_columns(part, names), names))
        (left, a), (right, b) = sides
        return (left, right), [(left.variables.index(m), right.variables.index(n)) for m, n in zip(a, b, strict=True)]

    def _name(self, expression: Any) -> str:
        """The variable that an expression is, or a new definition for it."""
        if isinstance(expression, Variable):
            return expression.name
        name = f"{KEY}{1 + sum(known.startswith(KEY) for known in self.body.definitions)}"
        self.body = replace(self.body, definitions={**self.body.definitions, name: expression})
        self.translator = Translator(self.builder.program, self.body.definitions, self.builder.functions)
        return name

    def with_columns(self, part: Part, names: list[str]) -> Part:
        """The part with defined variables as columns of their own."""
        if not names:
            return part
        return self.materialise(self.step(part), names)

    def materialise(self, step: Step, extra: Collection[str] = ()) -> Part:
        """An auxiliary relation for a step: the columns that are still needed, and `extra` ones."""
        names = tuple(dict.fromkeys([*self.needed(step.row, extra), *extra]))
        types = {n: self.translator.type(Variable(n), step.types) for n in names}
        head = self.builder.auxiliary(self.clause, names, types, self.weighted)
        outputs = tuple(self.translator.expression(Variable(n), step.row) for n in names)
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
