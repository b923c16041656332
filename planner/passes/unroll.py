"""Turn recursion through an index into layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    NOWHERE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    HeadAggregate,
    Program,
    Relation,
    Rule,
    Variable,
)
from datalog.format import format_value
from datalog.indexed import Iteration, iterations
from planner.draft import Clause, Draft
from planner.instances import LayerRule, changed, layer_name, without
from planner.plan import Layer, Tolerance

__all__ = ["unroll"]


def unroll(draft: Draft) -> Draft:
    """One relation for each index value of a recursion through an index (see `datalog.indexed`), without that column.

    The relation itself becomes the union of its layers. Rules that read one layer, by a constant, read just that.

    >>> from planner.show import before_and_after
    >>> before_and_after(unroll, "r(0, x) :- e(x). r(i + 1, sum<x>) :- r(i, x), i < 2. s(x) :- r(2, x).")
    r(0, x) :- e(x).
    r(i + 1, sum<x>) :- r(i, x), i < 2.
    s(x) :- r(2, x).
    r@0(x) :- e(x).
    r@1(sum<x>) :- r@0(x).
    r@2(sum<x>) :- r@1(x).
    r(0, x) :- r@0(x).
    r(1, x) :- r@1(x).
    r(2, x) :- r@2(x).
    s(x) :- r@2(x).
    """
    found = iterations(draft.program)
    if not found:
        return draft
    work = _Unroller(draft, found)
    clauses: list[Clause] = []
    done: set[int] = set()
    for clause in draft.clauses:
        iteration = work.iteration(clause.rule.head.relation)
        if iteration is None:
            clauses.append(replace(clause, rule=work.reader(clause.rule)))
        elif id(iteration) not in done:
            done.add(id(iteration))
            clauses += work.layers(iteration)
            clauses += work.unions(iteration)
    return replace(
        draft,
        program=work.program(clauses),
        clauses=tuple(clauses),
        functions={**draft.functions, **work.functions},
        layers=work.made,
        tolerances=work.tolerances(),
        notes=(*draft.notes, *map(work.note, found)),
    )


class _Unroller:
    """The work on one program. `made`: the layers by name. `functions`: what facts outside the layers are told by."""

    def __init__(self, draft: Draft, found: list[Iteration]) -> None:
        self.draft = draft
        self.source = draft.program
        self.relations: dict[str, Relation] = dict(draft.program.relations)
        self.functions: dict[str, Callable[..., Any]] = {}
        self.made: dict[str, Layer] = {}
        self.numbers = {id(clause.rule): clause.id.rpartition("/")[2] for clause in draft.clauses}
        self.by_relation = {name: iteration for iteration in found for name in iteration.columns}
        self.with_facts = {f.head.relation for f in self.source.facts} & self.by_relation.keys()
        self.with_facts |= {d.relation for d in self.source.directives_of("input")} & self.by_relation.keys()
        for iteration in found:
            for name, column in iteration.columns.items():
                self._declare(name, column, iteration.layers[name])

    def iteration(self, relation: str) -> Iteration | None:
        return self.by_relation.get(relation)

    def _declare(self, name: str, column: int, values: Iterable[int]) -> None:
        """The layers of a relation, and where they live; the relation itself lives where they do."""
        relation = self.source.relations[name]
        rest = [i for i in range(relation.arity) if i != column]
        wanted = None if relation.partition is None else [c for c in relation.partition if c != column]
        kept = tuple(rest.index(c) for c in wanted) if wanted else None
        for value in values:
            self._layer(relation, column, value, kept)
        if relation.partition is None:
            # not by the index: what is alike in all layers should be at the same place
            plain = [c for c in rest if not self._aggregated(name, c)]
            self.relations[name] = relation = replace(relation, partition=tuple(plain[:1] or rest[:1]))
        if name in self.with_facts:
            self.relations[f"{name}#facts"] = replace(relation, name=f"{name}#facts")

    def _layer(self, relation: Relation, column: int, value: int, partition: tuple[int, ...] | None) -> None:
        name = layer_name(relation.name, value)
        columns = relation.columns[:column] + relation.columns[column + 1 :]
        self.relations[name] = replace(relation, name=name, columns=columns, partition=partition)
        self.made[name] = Layer(relation.name, column, value)

    def _aggregated(self, name: str, column: int) -> bool:
        heads = (rule.head for rule in self.source.rules if rule.head.relation == name)
        return any(isinstance(head.arguments[column], HeadAggregate) for head in heads)

    def tolerances(self) -> dict[str, Tolerance]:
        """An approximated relation is so in each of its layers, and the relation itself copies those."""
        found = dict(self.draft.tolerances)
        for name, layer in self.made.items():
            near = self.draft.tolerances.get(layer.relation)
            if near is not None:
                found[name] = replace(near, columns=tuple(c - (c > layer.column) for c in near.columns))
                found.pop(layer.relation, None)
        return found

    def note(self, iteration: Iteration) -> str:
        """What is iterated, in words."""
        words = []
        for name, values in iteration.layers.items():
            index = self.source.relations[name].columns[iteration.columns[name]].name
            words.append(f"{values[0]} to {values[-1]} of {name} by {index}" if values else f"none of {name}")
        return f"iteration: layers {', '.join(words)}"

    def program(self, clauses: Iterable[Clause]) -> Program:
        """The program that the clauses are, with the facts of layered relations put aside."""
        facts = [
            replace(fact, head=replace(fact.head, relation=f"{fact.head.relation}#facts"))
            if fact.head.relation in self.with_facts
            else fact
            for fact in self.source.facts
        ]
        return replace(
            self.source,
            rules=(*facts, *(clause.rule for clause in clauses)),
            relations=self.relations,
            directives=tuple(
                d for d in self.source.directives if d.kind != "input" or d.relation not in self.with_facts
            ),
        )

    # --- layers ------------------------------------------------------------------------------------------------

    def layers(self, iteration: Iteration) -> list[Clause]:
        """The rules of all layers, and the rules that bring facts there, from the first layer to the last."""
        order = {id(clause.rule): i for i, clause in enumerate(self.draft.clauses)}
        first = {(i.rule.head.relation, i.layer): n for n, i in reversed(list(enumerate(iteration.instances)))}
        found: list[tuple[tuple[int, ...], Clause]] = []
        for instance in iteration.instances:
            name = instance.rule.head.relation
            id_ = f"{layer_name(name, instance.layer)}/{self.numbers[id(instance.rule)]}"
            rule = LayerRule(self.source.relations, iteration, instance, self.empty).rule()
            found.append(((first[name, instance.layer], order[id(instance.rule)]), Clause(id_, rule)))
        clauses = [clause for _, clause in sorted(found, key=lambda pair: pair[0])]
        for name in sorted(self.with_facts & iteration.columns.keys()):
            clauses += self._facts(iteration, name)
        return clauses

    def empty(self, relation: str, column: int, value: int) -> str:
        """A layer that is read, but that no rule and no fact ever gives a tuple."""
        name = f"{layer_name(relation, value)}#none"
        if name not in self.relations:
            known = self.source.relations[relation]
            columns = known.columns[:column] + known.columns[column + 1 :]
            self.relations[name] = replace(known, name=name, columns=columns, partition=None)
        return name

    def unions(self, iteration: Iteration) -> list[Clause]:
        """The rules by which a relation is all of its layers."""
        clauses = []
        for name, column in iteration.columns.items():
            for value in iteration.layers[name]:
                arguments = self._columns(name)
                arguments[column] = Constant(value)
                body = (Atom(layer_name(name, value), tuple(arguments[:column] + arguments[column + 1 :])),)
                rule = Rule(Atom(name, tuple(arguments)), body, NOWHERE, f"layer {value} of {name}")
                clauses.append(Clause(layer_name(name, value), rule))
        return clauses

    def _columns(self, name: str) -> list[Any]:
        return [Variable(column.name) for column in self.source.relations[name].columns]

    def _facts(self, iteration: Iteration, name: str) -> list[Clause]:
        """The rules that take facts to their layers, and those outside of all layers to the relation."""
        column, values = iteration.columns[name], iteration.layers[name]
        text = f"the facts of {name}"
        clauses = []
        for value in values:
            arguments = self._columns(name)
            arguments[column] = Constant(value)
            head = Atom(layer_name(name, value), tuple(arguments[:column] + arguments[column + 1 :]))
            body = Atom(f"{name}#facts", tuple(arguments))
            clauses.append(Clause(f"{layer_name(name, value)}#facts", Rule(head, (body,), NOWHERE, text)))
        test = f"outside'{name}"
        self.functions[test] = _outside(name, frozenset(values), name in iteration.open)
        arguments = self._columns(name)
        outside = Comparison("=", Call(test, (arguments[column],), type="number"), Constant(1))
        rule = Rule(Atom(name, tuple(arguments)), (Atom(f"{name}#facts", tuple(arguments)), outside), NOWHERE, text)
        return [*clauses, Clause(f"{name}#facts", rule)]

    # --- readers -----------------------------------------------------------------------------------------------

    def reader(self, rule: Rule) -> Rule:
        """A rule outside of the iterations: where it reads one layer by a constant, it reads that alone."""
        return replace(rule, body=self._read(rule.body))

    def _read(self, body: Iterable[Any]) -> tuple[Any, ...]:
        def change(atom: Atom) -> Atom:
            iteration = self.by_relation.get(atom.relation)
            if iteration is None:
                return atom
            column = iteration.columns[atom.relation]
            argument = atom.arguments[column]
            if not isinstance(argument, Constant) or argument.value not in iteration.layers[atom.relation]:
                return atom
            return without(atom, column, layer_name(atom.relation, int(argument.value)))

        def inside(node: Any) -> Any:
            if isinstance(node, Aggregate):
                return replace(node, body=self._read(node.body))
            return replace(node, arguments=tuple(map(inside, node.arguments))) if isinstance(node, Call) else node

        return changed(body, change, inside)


def _outside(name: str, layers: frozenset[int], harmless: bool) -> Callable[[Any], int]:
    """A test whether a fact belongs to no layer; where rules might read it all the same, that is an error."""

    def outside(index: Any) -> int:
        if index in layers:
            return 0
        if not harmless:
            raise ValueError(
                f"the index {format_value(index)} is outside of the layers of {name}, "
                f"{min(layers, default=0)} to {max(layers, default=0)}"
            )
        return 1

    return outside
