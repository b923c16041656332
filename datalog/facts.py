"""The last phase of the checker: what heads put into declared columns, and the values of facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog.ast import Call, Column, Constant, Relation, Rule, replace
from datalog.errors import Note
from datalog.families import family_of_type, family_of_value
from datalog.format import format_value
from datalog.functions import Function, in_range
from datalog.report import Report

__all__ = ["evaluate_fact", "misfit"]


def misfit(value: Any, type_: str) -> str | None:
    """Why a value cannot stand in a column of a type, as the end of a sentence; None if it can.

    >>> misfit(-1, "unsigned"), misfit(2.5, "number"), misfit(1, "float"), misfit("a", "any")
    ('is negative', 'is a float', None, None)
    >>> misfit(2**63, "number"), misfit((), "symbol")
    ('is too large', 'is a list')
    """
    wanted, family = family_of_type(type_), family_of_value(value)
    if wanted is None:
        return None
    if family != wanted:
        return f"is a {family}"
    if family != "number" or type_ == "float":
        return None
    if isinstance(value, float):
        return "is a float"
    if type_ == "unsigned" and value < 0:
        return "is negative"
    return None if in_range(value, type_) else "is too large"


def evaluate_fact(rule: Rule, relation: Relation, functions: Mapping[str, Function], report: Report) -> Rule:
    """The fact with all arguments computed; integers in float columns become floats."""
    arguments = []
    for argument, column in zip(rule.head.arguments, relation.shown, strict=True):
        try:
            value = _value(argument, functions)
        except (ArithmeticError, ValueError, TypeError) as error:
            report.add(str(error), argument.span)
            return rule
        except Exception as error:  # a user's function may raise anything
            report.add(f"the function failed: {error!r}", argument.span)
            return rule
        problem = misfit(value, column.type)
        if problem:
            report.add(*describe(value, problem, column, relation, argument.span))
            return rule
        if column.type == "float" and isinstance(value, int):
            value = float(value)
        arguments.append(Constant(value, argument.span))
    return replace(rule, head=replace(rule.head, arguments=tuple(arguments)))


def describe(value: Any, problem: str, column: Column, relation: Relation, span: Any) -> tuple[Any, ...]:
    """The arguments of a report about a value that does not fit its column."""
    note = Note(f"column `{column.name}` of `{relation.name}` is declared {column.type}", column.span)
    text = format_value(value)
    message = f"`{text}` {problem}, but column `{column.name}` of `{relation.name}` is {column.type}"
    return (message, span, note) if relation.declared else (message, span)


def _value(node: Any, functions: Mapping[str, Function]) -> Any:
    if isinstance(node, Call):
        return functions[node.function].for_type(node.type)(*(_value(a, functions) for a in node.arguments))
    return node.value
