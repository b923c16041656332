"""A rule of an iteration at one value of its index: what `unroll` makes the layers of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Relation,
    Rule,
    Variable,
    variables,
)
from datalog.indexed import Instance, Iteration
from datalog.offsets import Offsets, holds
from planner.rewrite import substitute

__all__ = ["LayerRule", "changed", "layer_name", "without"]


def layer_name(relation: str, value: int) -> str:
    """What the relation of a layer is called: no relation of a program has such a name.

    >>> layer_name("rank", 3)
    'rank@3'
    """
    return f"{relation}@{value}"


class LayerRule:
    """A rule at one value of its index. `empty` names a layer that is read although nothing is ever in it."""

    def __init__(
        self,
        relations: Mapping[str, Relation],
        iteration: Iteration,
        instance: Instance,
        empty: Callable[[str, int, int], str],
    ) -> None:
        self.relations = relations
        self.empty = empty
        self.iteration = iteration
        self.instance = instance
        self.outer = Offsets(instance.rule.body)

    def rule(self) -> Rule:
        rule, instance = self.instance.rule, self.instance
        body, mapping = self.body(rule.body, self.outer)
        head = substitute(rule.head, mapping)
        column = self.iteration.columns[head.relation]
        return replace(rule, head=without(head, column, layer_name(head.relation, instance.layer)), body=body)

    def body(self, body: tuple[Any, ...], offsets: Offsets) -> tuple[tuple[Any, ...], Mapping[str, Expression]]:
        """A body with its index variables replaced by their values, and its atoms by those of layers."""
        mapping = self._values(body, offsets)
        layers = [self._layer(atom, offsets) for atom in _atoms(body)]
        waiting = iter(layers)

        def change(atom: Atom) -> Atom:
            layer = next(waiting)
            atom = substitute(atom, mapping)
            return atom if layer is None else without(atom, self.iteration.columns[atom.relation], layer)

        def inside(node: Any) -> Any:
            if isinstance(node, Aggregate):
                inner, values = self.body(node.body, Offsets(node.body, offsets))
                target = None if node.target is None else substitute(node.target, {**mapping, **values})
                return replace(node, target=target, body=substitute(inner, mapping))
            if isinstance(node, Call):
                return replace(node, arguments=tuple(map(inside, node.arguments)))
            return substitute(node, mapping)

        result = changed(body, change, inside)
        kept = tuple(x for x in result if not isinstance(x, Comparison) or holds(x, {}) is not True)
        return kept or result, mapping

    def _values(self, body: Iterable[Any], offsets: Offsets) -> dict[str, Expression]:
        """The variables that are replaced: those that move with the index, and those that pick a layer."""
        instance = self.instance
        atoms = list(_atoms(body))
        members = self.iteration.columns
        picking = {n for a in atoms if a.relation in members for n in variables(a.arguments[members[a.relation]])}
        names = dict.fromkeys(name for literal in body for name in variables(literal))
        known = {**offsets.given(instance.root, instance.value, names),
                 **self.outer.given(instance.root, instance.value, names)}
        mapping: dict[str, Expression] = {}
        for name, value in known.items():
            root = (self.outer.of(Variable(name)) or (None, 0))[0] or (offsets.of(Variable(name)) or (None, 0))[0]
            if root is not None or name in picking:
                mapping[name] = Constant(float(value) if self._is_float(name, atoms) else value)
        return mapping

    def _is_float(self, name: str, atoms: Iterable[Atom]) -> bool:
        """Whether a variable also stands in a column of floats: 1 and 1.0 meet, and are a float from there on."""
        return any(
            isinstance(argument, Variable) and argument.name == name and column.type == "float"
            for atom in atoms
            for argument, column in zip(
                atom.arguments, self.relations[atom.relation].columns, strict=True
            )
        )

    def _layer(self, atom: Atom, offsets: Offsets) -> str | None:
        """The layer that an atom reads, if it is one of the iteration's."""
        if atom.relation not in self.iteration.columns:
            return None
        value = self.iteration.place(atom, self.instance.root, self.instance.value, offsets, self.outer)
        assert value is not None, "the iteration was checked"
        if value in self.iteration.layers[atom.relation]:
            return layer_name(atom.relation, value)
        return self.empty(atom.relation, self.iteration.columns[atom.relation], value)


def _atoms(body: Iterable[Any]) -> list[Atom]:
    """The atoms of one body, in order, without those inside its aggregates."""
    return [x.atom if isinstance(x, Negation) else x for x in body if not isinstance(x, Comparison)]


def changed(body: Iterable[Any], change: Callable[[Atom], Atom], inside: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A body with its atoms changed by one function, and the sides of its comparisons by another."""
    result: list[Any] = []
    for literal in body:
        if isinstance(literal, Negation):
            result.append(replace(literal, atom=change(literal.atom)))
        elif isinstance(literal, Atom):
            result.append(change(literal))
        else:
            result.append(replace(literal, left=inside(literal.left), right=inside(literal.right)))
    return tuple(result)


def without(atom: Atom, column: int, name: str) -> Atom:
    return replace(atom, relation=name, arguments=atom.arguments[:column] + atom.arguments[column + 1 :])
