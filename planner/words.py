"""Words for a plan: what columns, places and expressions are called in `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from datalog.format import format_value
from operators.attempt import Attempt
from operators.expr import Apply, Col, Const, Expr
from operators.monoids import parameter_of
from planner.passes.stratify import inputs_of
from planner.plan import BROADCAST, Input, Plan, PlanRule, RelationPlan

__all__ = ["aggregated", "at", "by", "conditions", "expression", "listed", "names", "row_of"]


def row_of(rule: PlanRule, plan: Plan) -> list[str]:
    """What the columns of a rule's row are called: the second copy of a relation gets a prime."""
    found: list[str] = []
    seen: set[str] = set()
    for source in inputs_of(rule):
        label = source.relation + ("'" if source.relation in seen else "")
        seen.add(source.relation)
        found += [f"{label}.{column}" for column in plan.relations[source.relation].columns]
    return found


def at(source: Input, plan: Plan) -> str:
    relation = plan.relations[source.relation]
    if source.at == BROADCAST:
        return f"{source.relation}[everywhere]"
    if source.at == relation.partition:
        return f"{source.relation}[home]"
    return f"{source.relation}[{by(relation, source.at)}]"


def by(relation: RelationPlan, at: Sequence[int]) -> str:
    return f"by {names(relation, at)}" if at else "on one partition"


def names(relation: RelationPlan, columns: Sequence[int]) -> str:
    return ", ".join(relation.columns[c] for c in columns)


def conditions(where: Sequence[Expr], row: Sequence[str], word: str = "where") -> list[str]:
    return [f"{word} {' and '.join(expression(e, row) for e in where)}"] if where else []


def listed(expressions: Sequence[Expr], row: Sequence[str]) -> str:
    return ", ".join(expression(e, row) for e in expressions)


def expression(expr: Expr, row: Sequence[str], inside: bool = False) -> str:
    if isinstance(expr, Col):
        return row[expr.index]
    if isinstance(expr, Const):
        return format_value(expr.value)
    assert isinstance(expr, Apply)
    if isinstance(expr.function, Attempt):
        tried = " and ".join(expression(e, [row[a.index] for a in expr.arguments if isinstance(a, Col)])
                             for e in expr.function.conditions)
        return f"what failed in {tried}" if expr.function.tells else f"({tried} or it fails)"
    if expr.inline == "sound":
        return f"no {expression(expr.arguments[0], row)}"
    if expr.name == "list":
        return f"[{listed(expr.arguments, row)}]"
    if len(expr.arguments) != 2 or expr.name.strip("+-*/%^=!<>"):
        return f"{expr.name}({listed(expr.arguments, row)})"
    symbol = "=" if expr.name == "==" else expr.name
    text = f" {symbol} ".join(expression(a, row, True) for a in expr.arguments)
    return f"({text})" if inside else text


def aggregated(name: str) -> tuple[str, str]:
    """The function of an aggregate, and what follows its argument."""
    function, parameter = parameter_of(name)
    return function, "" if parameter is None else f", {parameter}"
