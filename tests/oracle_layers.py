"""How the oracle evaluates recursion through an index: value by value of the index, straight from the rules.

Nothing is unrolled here. When the tuples of all smaller index values are known (larger ones, where the index falls),
those of the next value are derived from them: the rules are evaluated with their index at that value, until nothing is
new.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from datalog import ast
from tests.oracle_base import Row
from tests.oracle_values import OracleError

__all__ = ["Evaluator", "derive_layers", "index_columns"]


class Evaluator(Protocol):
    """What is needed of the oracle."""

    rows: dict[str, dict[Row, int]]

    def add(self, name: str, row: Row) -> bool: ...
    def derive(self, rule: ast.Rule, given: dict[str, Any] | None = None) -> set[Row]: ...


def _moved(rule: ast.Rule, argument: Any) -> tuple[str, int] | None:
    """The variable and the distance behind `i + 1`, `1 + i`, `i - 1`, or a variable that is defined as one of these."""
    if isinstance(argument, ast.Variable):
        for literal in rule.body:
            if isinstance(literal, ast.Comparison) and literal.op == "=":
                for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                    if side == argument and isinstance(other, ast.Call):
                        return _moved(rule, other)
        return None
    if not isinstance(argument, ast.Call) or argument.function not in ("+", "-"):
        return None
    a, b = argument.arguments
    if isinstance(a, ast.Variable) and isinstance(b, ast.Constant):
        return a.name, b.value if argument.function == "+" else -b.value
    if isinstance(b, ast.Variable) and isinstance(a, ast.Constant) and argument.function == "+":
        return b.name, a.value
    return None


def _atoms(body: Any) -> Iterator[ast.Atom]:
    for literal in body:
        if isinstance(literal, (ast.Atom, ast.Negation)):
            yield literal.atom if isinstance(literal, ast.Negation) else literal
        for expression in ast.expressions(literal):
            if isinstance(expression, ast.Aggregate):
                yield from (
                    x.atom if isinstance(x, ast.Negation) else x
                    for x in expression.body
                    if not isinstance(x, ast.Comparison)
                )


def index_columns(rules: list[ast.Rule], group: frozenset[str]) -> dict[str, int]:
    """Where each relation has its index: it moves in some head, and its variables tell it in the other relations."""
    for rule in rules:
        for i, argument in enumerate(rule.head.arguments):
            moved = _moved(rule, argument)
            if moved and any(
                isinstance(a, ast.Variable) and a.name == moved[0]
                for atom in _atoms(rule.body) if atom.relation in group for a in atom.arguments
            ):
                columns = _spread({rule.head.relation: i}, rules, group)
                heads = [r.head.arguments[columns[r.head.relation]] for r in rules if r.head.relation in columns]
                if set(columns) == group and not any(isinstance(a, ast.HeadAggregate) for a in heads):
                    return columns
    raise OracleError(f"no index in {sorted(group)}")


def _spread(columns: dict[str, int], rules: list[ast.Rule], group: frozenset[str]) -> dict[str, int]:
    """The index columns of relations whose rules share an index variable with one that is known."""
    changed = True
    while changed:
        changed = False
        for rule in rules:
            atoms = [rule.head, *(a for a in _atoms(rule.body) if a.relation in group)]
            names = {
                n for a in atoms if a.relation in columns for n in ast.variables(a.arguments[columns[a.relation]])
            }
            for atom in atoms:
                for i, argument in enumerate(atom.arguments):
                    if atom.relation not in columns and set(ast.variables(argument)) & names:
                        columns[atom.relation] = i
                        changed = True
    return columns


def _ordered(rules: list[ast.Rule], columns: dict[str, int]) -> list[list[ast.Rule]]:
    """The rules in groups by head, those first that the others need at the same index value."""
    needs: dict[str, set[str]] = {name: set() for name in columns}
    for rule in rules:
        index = rule.head.arguments[columns[rule.head.relation]]
        for atom in _atoms(rule.body):
            if atom.relation in columns and atom.arguments[columns[atom.relation]] == index:
                needs[rule.head.relation].add(atom.relation)
    for middle in needs:
        for name in needs:
            if middle in needs[name]:
                needs[name] |= needs[middle]
    together = {frozenset({n, *(m for m in needs[n] if n in needs[m])}) for n in needs}
    order = sorted(together, key=lambda g: (len(set().union(*(needs[n] | {n} for n in g))), sorted(g)))
    return [[rule for rule in rules if rule.head.relation in names] for names in order]


def derive_layers(evaluator: Evaluator, rules: list[ast.Rule], group: frozenset[str]) -> None:
    """Derive all tuples of relations that are recursive through an index."""
    columns = index_columns(rules, group)
    moves = [_moved(r, r.head.arguments[columns[r.head.relation]]) for r in rules]
    sign = -1 if any(m is not None and m[1] < 0 for m in moves) else 1
    strata = _ordered(rules, columns)
    value: int | None = None
    while True:
        waiting = {row[columns[name]] for name in group for row in evaluator.rows[name]}
        for rule in rules:
            with suppress(Exception):  # of a tuple that is not really there: what a later value needs is not complete
                waiting |= {row[columns[rule.head.relation]] for row in evaluator.derive(rule)}
        later = sorted((v for v in waiting if value is None or sign * v > sign * value), key=lambda v: sign * v)
        if not later:
            return
        value = later[0]
        for stratum in strata:
            changed = True
            while changed:
                changed = False
                for rule in stratum:
                    for row in _at(evaluator, rule, columns, value):
                        changed |= evaluator.add(rule.head.relation, row)


def _at(evaluator: Evaluator, rule: ast.Rule, columns: dict[str, int], value: int) -> list[Row]:
    """What a rule derives with one value of its head's index."""
    column = columns[rule.head.relation]
    argument = rule.head.arguments[column]
    moved = _moved(rule, argument)
    if isinstance(argument, ast.Constant):
        return list(evaluator.derive(rule)) if argument.value == value else []
    given = {argument.name: value} if moved is None else {moved[0]: value - moved[1]}
    return [row for row in evaluator.derive(rule, given) if row[column] == value]
