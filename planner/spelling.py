"""Words for expressions: what conditions and schedules are called in plans."""

from __future__ import annotations

from collections.abc import Sequence

from datalog.format import format_value
from operators.attempt import Attempt
from operators.expr import Apply, Col, Const, Expr
from operators.monoids import parameter_of
from operators.schedule import Points, Schedule, Test

__all__ = ["aggregated", "conditions", "expression", "listed", "schedule_words"]


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
    tested = expr.arguments[0] if expr.arguments else None
    if expr.name == "==" and isinstance(tested, Apply) and isinstance(tested.function, Test):
        word = "in" if expr.arguments[1] == Const(1) else "not in"
        return f"{expression(tested.arguments[0], row)} {word} ({schedule_words(tested.function.schedule)})"
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


def schedule_words(schedule: Schedule) -> str:
    """A schedule in words.

    >>> print(schedule_words(Schedule.of(2)), schedule_words(Schedule.of(10, 3, 63) | Schedule.at(5)), sep="; ")
    every 2 from 0; every 10 from 3 to 63 and at 5
    """
    return " and ".join(map(_points, schedule.parts)) or "never"


def _points(points: Points) -> str:
    if points.end == points.start:
        text = f"at {format_value(points.start)}"
    else:
        text = f"every {format_value(points.period)} from {format_value(points.start)}"
        text += "" if points.end is None else f" to {format_value(points.end)}"
    text += "".join(f" {part}" for part in conditions(points.where, ["t"]))
    return text + "".join(f" but not {schedule_words(other)}" for other in points.without)
