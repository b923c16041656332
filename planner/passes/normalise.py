"""Bring rule bodies into normal form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    DEEPEST,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negation,
    Program,
    Variable,
    expressions,
    variables,
)
from datalog.errors import CheckProblem, Note
from planner.draft import Body, Clause, Draft, Lookup
from planner.rewrite import Fresh, fresh_after, outside, substitute
from planner.risk import Risks

__all__ = ["normalise"]

LARGEST = 10_000
"""Parts that an expression may have once its definitions are written out."""


def normalise(draft: Draft) -> Draft:
    """Split each body into atoms over distinct variables, definitions, lookups and filters (see `Body`).

    Constants, expressions and repeated variables in atoms become filters; `x = y` makes the two one variable;
    `x = e` defines `x` where nothing else binds it and is a filter where something does. Negations and
    aggregates become lookups, their inner bodies in normal form too.

    >>> from planner.show import before_and_after
    >>> before_and_after(normalise, "r(x, c) :- a(x, 1, x), b(y, d), y = x, c = d + 1, c < 9, !s(x, _).")
    r(x, c) :- a(x, 1, x), b(y, d), y = x, c = d + 1, c < 9, !s(x, _).
    r(x, c) :- a(x, _'1, x'2), b(x, d), c := d + 1, absent { s(x, _) }, _'1 = 1, x'2 = x, c < 9.
    """
    return replace(draft, clauses=tuple([_clause(c, draft) for c in draft.clauses]))


def _clause(clause: Clause, draft: Draft) -> Clause:
    if all([isinstance(literal, Atom) and _is_normal(literal) for literal in clause.rule.body]):
        return Clause(clause.id, clause.rule, Body(clause.rule.body, {}, (), ()))  # type: ignore[arg-type]
    work = _Normaliser(draft.program, draft.functions, fresh_after(clause.rule))
    body, head = work.body(clause.rule.body, clause.rule.head, frozenset())
    rule = clause.rule if head is clause.rule.head else replace(clause.rule, head=head)
    return Clause(clause.id, rule, body)


def _is_normal(atom: Atom) -> bool:
    """Whether an atom is over distinct variables, as most are."""
    return len({a.name for a in atom.arguments if isinstance(a, Variable)}) == len(atom.arguments)


def _measure(node: Expression, depths: Mapping[str, int], sizes: Mapping[str, int]) -> tuple[int, int]:
    """How deep and how large an expression is, given that of the variables in it."""
    if isinstance(node, Variable):
        return depths.get(node.name, 0), sizes.get(node.name, 1)
    found = [_measure(a, depths, sizes) for a in getattr(node, "arguments", ())]
    return 1 + max((depth for depth, _ in found), default=0), 1 + sum(size for _, size in found)


class _Normaliser:
    """The work on one rule: `fresh` is shared by the body and all the inner bodies."""

    def __init__(self, program: Program, functions: Collection[str], fresh: Fresh) -> None:
        self.program = program
        self.relations = program.relations
        self.functions = functions
        self.fresh = fresh

    def body(self, literals: tuple[Literal, ...], tail: Any, given: frozenset[str]) -> tuple[Body, Any]:
        """The normal form of a body, and what stands over it (`tail`: head or target) with the same renaming.

        `given` are the variables of the outer bodies.
        """
        literals, tail = self.merge(literals, tail, given)
        filters: list[Comparison] = []
        atoms = [self.atom(a, filters) for a in literals if isinstance(a, Atom)]
        bound = set(given).union([v.name for a in atoms for v in a.arguments])
        definitions: dict[str, Expression] = {}
        aggregates = self.define(literals, definitions, bound, filters)

        scope = frozenset(bound)
        lookups = [self.negation(n.atom, definitions, scope) for n in literals if isinstance(n, Negation)]
        lookups += [self.aggregate(name, node, scope) for name, node in aggregates]
        self.limit(definitions)
        if len(filters) > 1:
            body = Body(tuple(atoms), definitions, tuple(lookups), ())
            risks = Risks(body, self.relations, self.functions, longest=self.program.longest)
            # what cannot fail may protect what can, and what needs less that can fail what needs more
            filters.sort(key=lambda f: (len(risks.of(f)), any(isinstance(e, Call) for e in expressions(f))))
        return Body(tuple(atoms), definitions, tuple(lookups), tuple(filters)), tail

    def merge(self, literals: tuple[Literal, ...], tail: Any, given: frozenset[str]) -> tuple[tuple[Literal, ...], Any]:
        """Drop the equations `x = y` and `x = constant` that only give a thing a second name.

        Two columns of different types are not made one: 1 and 1.0 are equal, but 1 / 2 and 1.0 / 2 are not.
        """
        while any([isinstance(literal, Comparison) for literal in literals]):
            types = self.column_types(literals)
            for i, literal in enumerate(literals):
                mapping = self.synonym(literal, types, given)
                if mapping is not None:
                    literals = substitute(literals[:i] + literals[i + 1 :], mapping)
                    tail = substitute(tail, mapping)
                    break
            else:
                break
        return literals, tail

    def synonym(
        self, literal: Literal, types: Mapping[str, set[str]], given: frozenset[str]
    ) -> Mapping[str, Expression] | None:
        if not isinstance(literal, Comparison) or literal.op != "=" or literal.left == literal.right:
            return None
        for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(one, Variable) and one.name not in given and isinstance(other, (Variable, Constant)):
                bound = one.name in types
                if not bound and (isinstance(other, Constant) or "result" not in types.get(other.name, ())):
                    return {one.name: other}
                if bound and isinstance(other, Variable) and (
                    other.name in given or types.get(other.name) == types[one.name]
                ):
                    return {one.name: other}
        return None

    def column_types(self, literals: Iterable[Literal]) -> dict[str, set[str]]:
        """What binds a variable: the types of the columns that it stands in, or that it is an aggregate's result."""
        types: dict[str, set[str]] = {}
        for literal in literals:
            if isinstance(literal, Atom):
                for argument, column in zip(literal.arguments, self.relations[literal.relation].columns, strict=True):
                    if isinstance(argument, Variable):
                        types.setdefault(argument.name, set()).add(column.type)
            elif isinstance(literal, Comparison) and isinstance(literal.right, Aggregate):
                types.setdefault(variables(literal.left)[0], set()).add("result")
        return types

    def atom(self, atom: Atom, filters: list[Comparison]) -> Atom:
        """The atom over distinct variables; what else it says goes to `filters`."""
        if _is_normal(atom):
            return atom
        seen: set[str] = set()
        arguments = []
        for argument in atom.arguments:
            if not isinstance(argument, Variable) or argument.name in seen:
                stem = argument.name if isinstance(argument, Variable) else "_"
                fresh = Variable(self.fresh(stem), getattr(argument, "span", atom.span))
                filters.append(Comparison("=", fresh, argument, fresh.span))
                argument = fresh
            seen.add(argument.name)
            arguments.append(argument)
        return Atom(atom.relation, tuple(arguments), atom.span)

    def define(
        self,
        literals: tuple[Literal, ...],
        definitions: dict[str, Expression],
        bound: set[str],
        filters: list[Comparison],
    ) -> list[tuple[str, Aggregate]]:
        """Let equations define the variables that nothing else binds; all other comparisons are `filters`.

        Returns the aggregates with their results. An aggregate has a result only once its outer variables are bound:
        in `w = x + 1, w = count : { b(w) }` the first equation defines `w` and the second is a filter, in any order.
        """
        comparisons = [c for c in literals if isinstance(c, Comparison)]
        if not comparisons:
            return []
        equations = [c for c in comparisons if c.op == "="]
        names = bound.union(*(outside(literal) for literal in literals)) if equations else bound
        results: list[tuple[str, Aggregate]] = []
        progress = True
        while progress:
            progress = False
            for equation in equations:
                if isinstance(equation.right, Aggregate):
                    continue
                for one, other in ((equation.left, equation.right), (equation.right, equation.left)):
                    if isinstance(one, Variable) and one.name not in bound and set(variables(other)) <= bound:
                        definitions[one.name] = other
                        bound.add(one.name)
                        equations.remove(equation)
                        progress = True
                        break
                if progress:
                    break
            if progress:
                continue
            for equation in equations:
                node = equation.right
                if isinstance(node, Aggregate) and names.intersection(variables(node)) <= bound:
                    name = variables(equation.left)[0]
                    if name in bound:
                        name = self.fresh(node.function)
                        filters.append(replace(equation, right=Variable(name)))
                    bound.add(name)
                    results.append((name, node))
                    equations.remove(equation)
                    progress = True
                    break
        filters += [c for c in comparisons if c.op != "=" or c in equations]
        return results

    def limit(self, definitions: Mapping[str, Expression]) -> None:
        """Refuse definitions that are too deep or too large once those in them are written out."""
        depths: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for name, node in definitions.items():
            depths[name], sizes[name] = _measure(node, depths, sizes)
            if depths[name] > DEEPEST or sizes[name] > LARGEST:
                raise CheckProblem(
                    f"`{name.partition(chr(39))[0]}` comes out of too many equations, one in the other",
                    node.span,
                    self.program.source,
                    [Note(
                        f"written out, it is an expression of {depths[name]} levels and {sizes[name]} parts, more than "
                        f"{DEEPEST} levels or {LARGEST} parts: give some of them a rule of their own"
                    )],
                )

    def negation(self, atom: Atom, definitions: dict[str, Expression], scope: frozenset[str]) -> Lookup:
        """`!r(x + 1, 2, _)` looks for `r(d, _'1, _)` with `_'1 = 2` and the outer definition `d := x + 1`."""
        arguments = []
        for argument in atom.arguments:
            if isinstance(argument, Call) and variables(argument):
                name = self.fresh("_")
                definitions[name] = argument
                argument = Variable(name, argument.span)
            arguments.append(argument)
        filters: list[Comparison] = []
        inner = self.atom(replace(atom, arguments=tuple(arguments)), filters)
        scope = scope | definitions.keys()
        needs = tuple(n for n in dict.fromkeys(n for a in arguments for n in variables(a)) if n in scope)
        return Lookup("absent", None, Body((inner,), {}, (), tuple(filters)), None, needs)

    def aggregate(self, result: str, node: Aggregate, scope: frozenset[str]) -> Lookup:
        needs = tuple(n for n in variables(node) if n in scope)
        body, target = self.body(node.body, node.target, scope)
        return Lookup(node.function, target, body, result, needs, node.type or "any")
