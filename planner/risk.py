"""What can go wrong in a body: the expressions that may fail, and what needs their values.

A guard guards: an expression is evaluated only for bindings that pass every atom, negation and comparison that does not
need its value. So the planner must know what may fail: a division, an overflow, a function of the user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from math import inf
from typing import Any

from datalog.ast import Call, Comparison, Constant, Relation, Variable
from datalog.families import family_of_type, family_of_value
from datalog.functions import built_in
from operators.monoids import parameter_of
from planner.draft import Body, Lookup

__all__ = ["NONE", "Risk", "Risks", "overflows"]

Risk = frozenset[Any]
"""The expressions that may fail among those that something needs the values of."""

NONE: Risk = frozenset()

NUMERIC = "numeric"  # the type of a column of numbers of which the kind is not known
WHOLE = ("number", "unsigned")
ORDER = ("<", "<=", ">", ">=")
SIZES = {"number": 2**63, "unsigned": 2**64}
SURE = ("absent", "count", "count_distinct", "min", "max", "any", "all", "median", "quantile", "avg", "sum'", "#rows")
"""Aggregates that have an answer whatever they range over. A sum may be out of range, a list too long."""
LARGEST = {"number": 2**63 - 1, "float": 1e300}
"""What a result may be at most by this estimate, to be in range for certain. (An unsigned is not below 0, either.)"""


class Risks:
    """The risks of one body.

    `types` are those of the variables that come from outside, if any. `answers`: whether those of aggregates count,
    which may be out of range. `longest` is how long texts and lists may be that are made.

    Definitions are written out where they are used; so what needs a defined variable needs what defines it.

    >>> from datalog.ast import Atom, Column
    >>> relations = {"e": Relation("e", (Column("x", "number"), Column("y", "number")))}
    >>> x, y, z = map(Variable, "xyz")
    >>> body = Body((Atom("e", (x, y)),), {"z": Call("/", (x, y), type="number")}, (), ())
    >>> risks = Risks(body, relations, {})
    >>> [len(risks.of(node)) for node in (x, z, Call("+", (z, z), type="number"), Comparison("<", x, y))]
    [0, 1, 2, 0]
    """

    def __init__(
        self,
        body: Body,
        relations: Mapping[str, Relation],
        functions: Collection[str],
        types: Mapping[str, str] | None = None,
        answers: bool = False,
        longest: int | None = None,
    ) -> None:
        self.body = body
        self._relations = relations
        self._functions = functions
        self._given = types or {}
        self._answers = answers
        self._longest = longest
        self._results = {lookup.result: lookup for lookup in body.lookups if lookup.result is not None}
        self._known: dict[str, Risk] = {}
        self._lookups: dict[int, tuple[Lookup, Risk]] = {}
        for name in body.definitions:  # one after the other: a long chain of them is no deep recursion
            self._variable(name)
            self.type(Variable(name))

    @cached_property
    def _types(self) -> dict[str, str]:
        """The types of the variables as far as they have been asked for, at first of those that are given and bound."""
        found = dict(self._given)
        for atom in self.body.atoms:
            relation = self._relations.get(atom.relation)
            for argument, column in zip(atom.arguments, relation.columns if relation else (), strict=False):
                kind = NUMERIC if column.type == "any" and column.numeric else column.type
                found.setdefault(argument.name, kind)
        return found | {name: lookup.type for name, lookup in self._results.items()}

    def of(self, node: Any) -> Risk:
        """What may fail where the value of a node is needed."""
        if isinstance(node, Variable):
            return self._variable(node.name)
        if isinstance(node, Call):
            below = _union([self.of(argument) for argument in node.arguments])
            return below | {node} if self._may_fail(node) else below
        if isinstance(node, Comparison):
            below = self.of(node.left) | self.of(node.right)
            return below if self._compares(node) else below | {node}
        return NONE

    def lookup(self, lookup: Lookup) -> Risk:
        """What may fail where a lookup is answered."""
        known = self._lookups.get(id(lookup))
        if known is None:  # the lookup is kept, so that its id stays its own
            needed = _union([self._variable(name) for name in lookup.needs])
            risk = needed | {(id(lookup), item) for item in self._within(lookup)}
            known = self._lookups[id(lookup)] = (lookup, risk)
        return known[1]

    def inside(self, lookup: Lookup) -> Risks:
        """The risks of a lookup's own body."""
        types = {n: self.type(Variable(n)) for n in lookup.needs}
        return Risks(lookup.body, self._relations, self._functions, types, longest=self._longest)

    def type(self, node: Any) -> str:
        """The type of an expression, `any` if it is not known."""
        if isinstance(node, Variable):
            known = self._types.get(node.name)
            if known is None:
                definition = self.body.definitions.get(node.name)
                known = self._types[node.name] = "any" if definition is None else self.type(definition)
            return known
        if isinstance(node, Constant):
            return {int: "number", float: "float", str: "symbol", tuple: "list"}.get(type(node.value), "any")
        return getattr(node, "type", None) or "any"

    # --- variables and lookups ---------------------------------------------------------------------------------

    def _variable(self, name: str) -> Risk:
        known = self._known.get(name)
        if known is None:
            if name in self._results:
                known = self.lookup(self._results[name])
            elif name in self.body.definitions:
                known = self.of(self.body.definitions[name])
            else:
                known = NONE
            self._known[name] = known
        return known

    def _within(self, lookup: Lookup) -> Risk:
        """What may fail inside a lookup, and in the end its answer."""
        own = self.inside(lookup)
        nodes = [*lookup.body.filters] if lookup.target is None else [*lookup.body.filters, lookup.target]
        below = _union([*map(own.of, nodes), *map(own.lookup, lookup.body.lookups)])
        function, _ = parameter_of(lookup.function)
        return below | {function} if self._answers and function not in SURE else below

    # --- calls and comparisons ---------------------------------------------------------------------------------

    def _compares(self, node: Comparison) -> bool:
        """Whether two values can be compared, whatever they are: the order is for numbers, and for texts."""
        return node.op not in ORDER or self._families((node.left, node.right)) in ({"number"}, {"symbol"})

    def _families(self, nodes: Collection[Any]) -> set[str | None]:
        return {
            family_of_value(n.value) if isinstance(n, Constant) else family_of_type(self.type(n)) for n in nodes
        }

    def _may_fail(self, node: Call) -> bool:
        name, arguments = node.function, node.arguments
        if name in self._functions:
            return True
        if arguments and all(isinstance(a, Constant) for a in arguments):
            try:
                call = built_in(self._longest)[name].for_type(node.type)
                call(*(a.value for a in arguments if isinstance(a, Constant)))
            except Exception:
                return True
            return False
        families = self._families(arguments)
        if name in ("list", "to_string"):
            return not families <= {"number", "symbol"}  # lists in lists may be too deep, and texts of lists too long
        if name in ("min", "max"):
            return families not in ({"number"}, {"symbol"})
        if name in ("strlen", "ord"):
            return families != {"symbol"}
        if name == "substr":
            return families != {"symbol", "number"} or not {self.type(a) for a in arguments[1:]} <= {*WHOLE}
        if name in ("abs", "neg"):
            return self.type(arguments[0]) != "float"  # the lowest number has no opposite
        if name in ("/", "%"):
            number, divisor = arguments
            if self.type(number) != node.type or not isinstance(divisor, Constant) or type(divisor.value) is not int:
                return True
            return divisor.value in (0, -1) if node.type == "number" else node.type != "unsigned" or divisor.value < 1
        if name in ("+", "-", "*"):
            return self._size(node) > LARGEST.get(node.type or "any", -1)
        return True

    def _size(self, node: Any) -> float:
        """No value of an expression is larger than this, nor smaller than its negative: infinity if that is not known.

        What is computed from it is not checked: `x + 1` may be one more than `x`.
        """
        if isinstance(node, Constant):
            return abs(node.value) if isinstance(node.value, (int, float)) else inf
        if isinstance(node, Call) and node.function in ("+", "-", "*"):
            one, other = map(self._size, node.arguments)
            return one * other if node.function == "*" else one + other
        if isinstance(node, Call) and node.function == "%" and isinstance(node.arguments[1], Constant):
            return self._size(node.arguments[1])
        return SIZES.get(self.type(node), inf)


def overflows(item: Any) -> bool:
    """Whether all that may happen to an item of a risk is that a number gets out of range."""
    while isinstance(item, tuple):
        _, item = item
    return item == "sum" or (isinstance(item, Call) and item.function in ("+", "-", "*"))


def _union(risks: Collection[Risk]) -> Risk:
    return NONE.union(*risks) if len(risks) != 1 else next(iter(risks))
