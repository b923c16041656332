"""The first half of type inference: is it a number, a symbol or a list?

Every column of a relation and every variable of a rule is a node; equality, use in an atom and use in a
function unify nodes (union-find). A node that meets two families is a type clash, reported with the
reasons of both. What stays open can hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from datalog.aggregates import signature
from datalog.ast import (
    ARRIVAL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    HeadAggregate,
    Negation,
    Program,
    Relation,
    Rule,
    Span,
    Variable,
)
from datalog.errors import Note
from datalog.format import format_expression
from datalog.functions import Function
from datalog.report import Report
from datalog.scope import correlated, level_variables

__all__ = ["Families", "Scope", "family_of_type", "family_of_value"]

_NUMERIC = frozenset({"number", "unsigned", "float", "numeric"})


def family_of_type(type_: str) -> str | None:
    """`number`, `symbol` or `list`; None for what could be anything."""
    return "number" if type_ in _NUMERIC else type_ if type_ in ("symbol", "list") else None


def family_of_value(value: Any) -> str:
    """The family of a constant.

    >>> family_of_value(2.5), family_of_value("a"), family_of_value(())
    ('number', 'symbol', 'list')
    """
    return "symbol" if isinstance(value, str) else "list" if isinstance(value, tuple) else "number"


class Scope(msgspec.Struct, eq=False, gc=False):
    """The variables of a rule body or of an aggregate in it; correlated ones belong to the scope around.

    There is one for every rule. It knows of those around it and of none in it, so the collector need not know of it.
    `nodes` are those of its variables, `ranks` the kinds of numbers that these are.
    """

    body: tuple[Any, ...]
    parent: Scope | None = None
    shared: frozenset[str] = frozenset()
    nodes: dict[str, int] = {}
    ranks: dict[str, int] = {}
    known: frozenset[str] | None = None

    @property
    def names(self) -> frozenset[str]:
        """The variables that an aggregate in here may be correlated by; many of them may ask."""
        if self.known is None:
            self.known = level_variables(self.body) | (self.parent.names if self.parent else frozenset())
        return self.known

    def owner(self, name: str) -> Scope:
        """The scope that a variable belongs to."""
        scope = self
        while scope.parent is not None and name in scope.shared:
            scope = scope.parent
        return scope


class Families:
    """The nodes of a program. `scopes[i]` is the scope of rule i. The reason of a family may be a constant itself."""

    def __init__(
        self, program: Program, functions: Mapping[str, Function], report: Report, definitions: tuple[Rule, ...] = ()
    ) -> None:
        self.program = program
        self.functions = functions
        self.report = report
        self.parent: list[int] = []
        self.family: list[str | None] = []
        self.reason: list[Note | Constant | None] = []
        self.columns: dict[tuple[str, int], int] = {}
        self.inner: dict[tuple[int, int], Scope] = {}  # by the scope around it and the aggregate
        for relation in program.relations.values():
            if relation.declared:
                self._declare(relation)
            else:
                self._times(relation)
        for rule in definitions:
            self._definition(rule)
        self.scopes = [Scope(rule.body) for rule in program.rules]
        for rule, scope in zip(program.rules, self.scopes, strict=True):
            self._rule(rule, scope)

    def column(self, relation: str, index: int) -> str | None:
        """The family of a column."""
        return self.family[self._find(self._column(relation, index))]

    def variable(self, scope: Scope, name: str) -> str | None:
        """The family of a variable."""
        return self.family[self._find(self._variable(scope, name))]

    def scope_of(self, aggregate: Aggregate, around: Scope) -> Scope:
        """The scope of an aggregate."""
        found = self.inner.get((id(around), id(aggregate)))
        if found is None:  # both are kept, so that their ids stay their own
            shared = frozenset(correlated(aggregate, around.names))
            found = self.inner[id(around), id(aggregate)] = Scope(aggregate.body, around, shared)
        return found

    # --- nodes ---

    def _node(self, family: str | None = None, reason: Note | Constant | None = None) -> int:
        node = len(self.parent)
        self.parent.append(node)
        self.family.append(family)
        self.reason.append(reason)
        return node

    def _find(self, node: int) -> int:
        parent = self.parent
        while (above := parent[node]) != node:
            parent[node] = node = parent[above]
        return node

    def _note(self, node: int) -> Note | None:
        """Why a node has its family, in words."""
        reason = self.reason[node]
        if isinstance(reason, Constant):
            return Note(f"{_quote(reason)} is a {family_of_value(reason.value)}", reason.span)
        return reason

    def _column(self, relation: str, index: int) -> int:
        node = self.columns.get((relation, index))
        if node is None:
            node = self.columns[relation, index] = self._node()
        return node

    def _variable(self, scope: Scope, name: str) -> int:
        owner = scope if scope.parent is None else scope.owner(name)
        node = owner.nodes.get(name)
        if node is None:
            node = owner.nodes[name] = self._node()
        return node

    def _declare(self, relation: Relation) -> None:
        for index, column in enumerate(relation.columns):
            reason = Note(f"column `{column.name}` of `{relation.name}` is declared {column.type}", column.span)
            self.columns[relation.name, index] = self._node(family_of_type(column.type), reason)
        self._times(relation)

    def _times(self, relation: Relation) -> None:
        """Columns of times, which no declaration has: they hold numbers, and nobody knows which kind."""
        for index, column in enumerate(relation.columns):
            if column.numeric and (column.name == ARRIVAL or relation.name in self.program.clocks):
                self.columns[relation.name, index] = self._node("number", Note("times are numbers"))

    def _unify(self, a: int, b: int, span: Span, left: Any, right: Any, where: Any = None) -> None:
        """Make two nodes one; `left` and `right` are what they are called if they clash (in `where`)."""
        own = a, b  # what is known of the two themselves, not of what they were unified with
        a, b = self._find(a), self._find(b)
        if a == b:
            return
        first, second = self.family[a], self.family[b]
        if first and second and first != second:
            reasons = self._note(own[0]) or self._note(a), self._note(own[1]) or self._note(b)
            notes = [note for note in reasons if note and not _inside(note.span, span)]
            place = "" if where is None else f" in {_quote(where)}"
            clash = f"{self._called(left)} is a {first}, but {self._called(right)} is a {second}"
            self.report.add(f"type clash{place}: {clash}", span, *notes)
            return
        if first is None:
            a, b = b, a  # the root keeps the family and its reason
        self.parent[b] = a

    def _called(self, thing: Any) -> str:
        """What an expression, or a column (an atom and a position), is called in messages."""
        if not isinstance(thing, tuple):
            return _quote(thing)
        atom, index = thing
        name, known = atom.relation, self.program.relations
        if name in known and known[name].columns[index:] and known[name].columns[index].name == ARRIVAL:
            return "the time of a tuple"
        while name in self.program.reads:
            name = self.program.reads[name].relation
        relation = known.get(name)
        if name in self.program.clocks:
            return f"the time of `{name}`"
        if relation and relation.declared and index < relation.arity:
            return f"column `{relation.columns[index].name}` of `{name}`"
        return f"column {index + 1} of `{name}`"

    # --- walking ---

    def _rule(self, rule: Rule, scope: Scope) -> None:
        for literal in rule.body:
            self._literal(literal, scope)
        self._atom(rule.head, scope)

    def _definition(self, rule: Rule) -> None:
        """What a read rests on (see `datalog.reads`): its columns are those of what is read, and points are numbers."""
        read, *points = rule.body
        for index in range(len(read.arguments)):  # type: ignore[union-attr]
            column = self._column(read.relation, index)  # type: ignore[union-attr]
            self.columns[rule.head.relation, index] = column
        for point in points:
            node = self._find(self._column(point.relation, 0))  # type: ignore[union-attr]
            if self.family[node] is None:
                self.family[node], self.reason[node] = "number", Note("points of time are numbers", point.span)

    def _literal(self, literal: Any, scope: Scope) -> None:
        if isinstance(literal, Comparison):
            left, right = self._expression(literal.left, scope), self._expression(literal.right, scope)
            self._unify(left, right, literal.span, literal.left, literal.right)
        else:
            self._atom(literal.atom if isinstance(literal, Negation) else literal, scope)

    def _atom(self, atom: Atom, scope: Scope) -> None:
        relation, find, columns = atom.relation, self._find, self.columns
        for index, argument in enumerate(atom.arguments):
            variable = isinstance(argument, Variable)
            node = self._variable(scope, argument.name) if variable else self._expression(argument, scope)
            column = columns.setdefault((relation, index), node)  # the first that stands there, if it is the first
            if column != node and find(node) != find(column):
                self._unify(node, column, argument.span, argument, (atom, index))

    def _expression(self, node: Expression | HeadAggregate, scope: Scope) -> int:
        if isinstance(node, Variable):
            return self._variable(scope, node.name)
        if isinstance(node, Constant):
            return self._node(family_of_value(node.value), node)
        if isinstance(node, Call):
            return self._call(node, scope)
        if isinstance(node, HeadAggregate):
            return self._aggregated(node, scope)
        inner = self.scope_of(node, scope)
        for literal in node.body:
            self._literal(literal, inner)
        return self._aggregated(node, inner)

    def _call(self, call: Call, scope: Scope) -> int:
        function = self.functions.get(call.function)
        arguments = [self._expression(argument, scope) for argument in call.arguments]
        if function is None:
            return self._node()
        together: tuple[int, Any] | None = None
        for index, (argument, node) in enumerate(zip(call.arguments, arguments, strict=True)):
            wanted = function.parameter(index)
            if wanted in ("same", "measure"):
                if together is not None:
                    self._unify(node, together[0], argument.span, argument, together[1], call)
                together = together or (node, argument)
            else:
                self._require(argument, node, family_of_type(wanted), function, call)
        if function.parameter(0) == "measure" and together and self.family[self._find(together[0])] == "symbol":
            reason = self._note(self._find(together[0]))
            self.report.add(
                f"type clash: {_quote(together[1])} is a symbol, but `{function.name}` takes numbers or lists",
                call.arguments[0].span, *filter(None, [reason]))
        if function.result == "same" and together:
            return together[0]
        family = family_of_type(function.result)
        return self._node(family, Note(f"{_quote(call)} gives a {family}", call.span) if family else None)

    def _require(self, argument: Any, node: int, family: str | None, function: Function, call: Call) -> None:
        if family is None:
            return
        what = "`-`" if function.name == "neg" else f"`{function.name}`"
        reason = Note(f"{what} takes {_plural(family)}", call.span)
        root = self._find(node)
        if self.family[root] in (None, family):
            self._unify(self._node(family, reason), node, argument.span, argument, argument)
        else:
            notes = [note for note in (self._note(root),) if note and not _inside(note.span, argument.span)]
            message = f"type clash: {_quote(argument)} is a {self.family[root]}, but {what} takes {_plural(family)}"
            self.report.add(message, argument.span, *notes)

    def _aggregated(self, node: Aggregate | HeadAggregate, scope: Scope) -> int:
        """The node of an aggregate's value; `scope` is the one its target stands in."""
        target = None if node.target is None else self._expression(node.target, scope)
        known = signature(node.function, self.program.aggregates)
        if known is None:
            return self._node()
        if known.takes == "number" and target is not None and node.target is not None:
            root = self._find(target)
            if self.family[root] not in (None, "number"):
                other = f"{_quote(node.target)} is a {self.family[root]}"
                self.report.add(f"type clash: {other}, but {node.function} takes numbers", node.target.span,
                                *filter(None, [self._note(root)]))
            else:
                number = self._node("number", Note(f"{node.function} takes numbers", node.span))
                self._unify(number, target, node.target.span, node.target, node.target)
        if known.gives == "same" and target is not None:
            return target
        family = family_of_type(known.gives)
        return self._node(family, Note(f"{node.function} gives a {family}", node.span) if family else None)


def _inside(inner: Span | None, outer: Span) -> bool:
    """Whether an excerpt of `outer` shows `inner` as well."""
    return inner is not None and inner.line == inner.end_line == outer.line == outer.end_line and (
        outer.column <= inner.column and inner.end_column <= outer.end_column)


def _quote(node: Any) -> str:
    text = format_expression(node)
    return f"`{text}`" if len(text) <= 40 else "this"


def _plural(family: str) -> str:
    return f"{family}s"
