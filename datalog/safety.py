"""The phase of the checker that asks of every variable: what gives it a value?

Positive atoms do, and `x = expression` once the expression has one. Heads, negations, comparisons and the
arguments of functions only use values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    HeadAggregate,
    Negation,
    Program,
    Rule,
    Variable,
    expressions,
)
from datalog.errors import Note
from datalog.report import Report
from datalog.scope import aggregates_of, correlated, level_variables, walk_level
from datalog.walking import atoms

__all__ = ["check_safety"]


def check_safety(program: Program, report: Report) -> None:
    """Report every variable that nothing gives a value, once per rule."""
    for rule in program.rules:
        if rule.is_fact:
            _check_fact(rule, report)
        elif not rule.flat or not _is_bound(rule):
            _Rule(rule, report).check()


def _is_bound(rule: Rule) -> bool:
    """Whether the atoms of a flat rule give all variables of its head a value."""
    bound = {a.name for atom in rule.body for a in atom.arguments if type(a) is Variable}  # type: ignore[union-attr]
    return all([a.name in bound for a in rule.head.arguments if type(a) is Variable])


def _check_fact(rule: Rule, report: Report) -> None:
    for argument in rule.head.arguments:
        if isinstance(argument, HeadAggregate):
            report.add("a fact cannot hold an aggregate: there is no body to aggregate over", argument.span)
            return
    for variable in expressions(rule.head):
        if isinstance(variable, Variable):
            name = "_" if variable.anonymous else variable.name
            hint = f'a symbol is written in quotes, "{name}"; a constant is defined by .const {name} = ...'
            report.add(f"a fact cannot hold the variable `{name}`", variable.span,
                       *([] if variable.anonymous else [Note(hint)]))
            return


class _Rule:
    """The check of one rule. `reported` keeps a variable from being reported twice."""

    def __init__(self, rule: Rule, report: Report) -> None:
        self.rule = rule
        self.report = report
        self.reported: set[str] = set()

    def check(self) -> None:
        names = level_variables(self.rule.body)
        bound = self.body(self.rule.body, frozenset(), names)
        for argument in self.rule.head.arguments:
            self.need(argument, bound, names, "in the head")

    def body(self, body: tuple[Any, ...], given: frozenset[str], names: frozenset[str]) -> frozenset[str]:
        """Check the literals of a body; the variables that have a value in it, `given` ones included."""
        bound = _bind(body, given, names)
        for literal in body:
            if isinstance(literal, Comparison):
                self.need(literal.left, bound, names, "in a comparison")
                self.need(literal.right, bound, names, "in a comparison")
            else:
                negated = isinstance(literal, Negation)
                atom: Atom = literal.atom if isinstance(literal, Negation) else literal
                for argument in atom.arguments:
                    if isinstance(argument, Variable):
                        if negated and not argument.anonymous:
                            self.need(argument, bound, names, "in a negation")
                    else:
                        self.need(argument, bound, names, "in an expression")
        return bound

    def need(self, node: Any, bound: frozenset[str], names: frozenset[str], where: str) -> None:
        """Report the variables of an expression without a value, and look into its aggregates."""
        for expression in walk_level(node):
            if isinstance(expression, Variable) and expression.name not in bound:
                self.unsafe(expression, where)
            elif isinstance(expression, Aggregate):
                shared = correlated(expression, names)
                inner_names = names | level_variables(expression.body)
                # What the outer body fails to give is reported where the outer body has it, not again in here.
                inner = self.body(expression.body, frozenset(shared), inner_names)
                if expression.target is not None:
                    self.need(expression.target, inner, inner_names, f"in what {expression.function} ranges over")

    def unsafe(self, variable: Variable, where: str) -> None:
        name = variable.name
        if name in self.cast():
            return  # the type of Souffle's `as`, which is an error by itself
        if variable.anonymous:
            self.report.add(f"`_` has no value, so it cannot be used {where}", variable.span)
        elif name not in self.reported:
            self.reported.add(name)
            self.report.add(f"unsafe variable `{name}` {where}: nothing gives it a value", variable.span,
                            *self.hints(name))

    def cast(self) -> set[str]:
        calls = [e for e in expressions(self.rule) if isinstance(e, Call) and e.function == "as"]
        return {a.name for call in calls for a in call.arguments[1:] if isinstance(a, Variable)}

    def hints(self, name: str) -> Iterator[Note]:
        """What was probably meant."""
        rule = self.rule
        direct = {a.name for atom in atoms(rule)[1:] for a in atom.arguments if isinstance(a, Variable)}
        if name not in direct:
            for literal in rule.body:
                if isinstance(literal, Comparison) and literal.op == "=":
                    sides = (literal.left, literal.right)
                    for side, other in (sides, sides[::-1]):
                        if isinstance(side, Variable) and side.name == name and other != side:
                            yield Note(f"here `{name}` gets a value only if the other side has one", literal.span)
                            return
            if name not in _lone(rule):
                yield Note(
                    f"if `{name}` is meant to be a constant, define it with .const {name} = ... or --set {name}=...")
        elif name not in level_variables(rule.body) and any(
            name in correlated(aggregate, [name]) for literal in rule.body for aggregate in aggregates_of(literal)
        ):
            yield Note(f"`{name}` inside the aggregate is local to it; use `{name}` in an atom of the rule itself too")
        elif any(isinstance(x, Negation) and name in {a.name for a in x.atom.arguments if isinstance(a, Variable)}
                 for x in rule.body):
            yield Note(f"a negation gives no values: use `{name}` in an atom that is not negated, or write `_`")


def _lone(rule: Rule) -> set[str]:
    """Variables that are an argument of the head, or what an aggregate ranges over: no place for a constant."""
    found = [a.target if isinstance(a, HeadAggregate) else a for a in rule.head.arguments]
    found += [e.target for e in expressions(rule) if isinstance(e, Aggregate)]
    return {node.name for node in found if isinstance(node, Variable)}


def _bind(body: tuple[Any, ...], given: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    """The variables that a body gives a value to."""
    bound = set(given)
    for literal in body:
        if isinstance(literal, Atom):
            bound |= {a.name for a in literal.arguments if isinstance(a, Variable)}
    equations = [x for x in body if isinstance(x, Comparison) and x.op == "="]
    before = -1
    while before != len(bound):
        before = len(bound)
        for equation in equations:
            for side, other in ((equation.left, equation.right), (equation.right, equation.left)):
                if isinstance(side, Variable) and not side.anonymous and _needs(other, names) <= bound:
                    bound.add(side.name)
    return frozenset(bound)


def _needs(node: Any, names: frozenset[str]) -> frozenset[str]:
    """The variables that must have a value before an expression has one."""
    found: set[str] = set()
    for expression in walk_level(node):
        if isinstance(expression, Variable):
            found.add(expression.name)
        elif isinstance(expression, Aggregate):
            found |= set(correlated(expression, names))
    return frozenset(found)
