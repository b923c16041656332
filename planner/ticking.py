"""What conditions over one variable say about points of time: `t % 2 = 0` makes a schedule of a coarser one."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

from datalog.ast import Aggregate, Call, Comparison, Constant, Expression, Variable, expressions, variables
from operators.expr import Col, Const
from operators.schedule import EMPTY, MOST, Points, Schedule
from planner.translate import Translator, evaluate

__all__ = ["over_one", "restricted"]

TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def over_one(condition: Comparison, name: str) -> bool:
    """Whether a condition is over this variable alone, and no aggregate."""
    return set(variables(condition)) <= {name} and not any(isinstance(e, Aggregate) for e in expressions(condition))


def restricted(schedule: Schedule, condition: Comparison, name: str, translator: Translator) -> Schedule:
    """The points of a schedule that meet a condition over them (`over_one`).

    Bounds, equations and remainders make progressions of progressions. So does any other condition that reads the point
    only through remainders of whole numbers: of the progressions that these make, each passes as a whole or not at all.
    What is left is tested, point by point.

    >>> from datalog.ast import Program
    >>> from datalog.parser import parse
    >>> def points(text, schedule=Schedule.of(1)):
    ...     (condition,) = parse(f"r(t) :- {text}.").rules[0].body
    ...     return [(p.period, p.start, p.end) for p in restricted(schedule, condition, "t", translator).parts]
    >>> translator = Translator(Program((), {}), {})
    >>> points("t % 86400 = 60"), points("t + 1 <= 7"), points("4 = t"), points("t % 4 != 2")
    ([(86400, 60, None)], [(1, 0, 6)], [(1, 4, 4)], [(4, 0, None), (4, 1, None), (4, 3, None)])
    >>> points("(t - 3) % 5 = 0"), points("t % 2 = 0", Schedule.of(3))
    ([(5, 3, None)], [(6, 0, None)])
    """
    found = _bounded(schedule, condition, name, translator)
    if found is None:
        found = _remainders(schedule, condition, name, translator)
    return schedule.where(translator.comparison(condition, {name: Col(0)})) if found is None else found


# --- bounds and equations ------------------------------------------------------------------------------------


def _bounded(schedule: Schedule, node: Comparison, name: str, translator: Translator) -> Schedule | None:
    """What `t op c`, `t + d op c` and `(t + d) % p = c` leave of a schedule; None if it is no such condition."""
    for one, other, op in ((node.left, node.right, node.op), (node.right, node.left, TURNED[node.op])):
        limit = _constant(other, translator)
        if limit is None:
            continue
        distance = _distance(one, name, translator)
        if distance is not None:
            return _compared(schedule, op, limit - distance)
        if op == "=" and isinstance(one, Call) and one.function == "%":
            period, distance = _constant(one.arguments[1], translator), _distance(one.arguments[0], name, translator)
            if period is not None and distance is not None and period > 0:
                return _remainder(schedule, period, distance, limit)
    return None


def _compared(schedule: Schedule, op: str, limit: Fraction) -> Schedule | None:
    value = _number(limit)
    if value is None:
        return None
    if op == "=":
        return schedule & Schedule.at(value)
    if op == "!=":
        return schedule.minus(Schedule.at(value))
    found = schedule.between(high=value) if op in ("<", "<=") else schedule.between(low=value)
    return found.minus(Schedule.at(value)) if op in ("<", ">") else found


def _remainder(schedule: Schedule, period: Fraction, distance: Fraction, rest: Fraction) -> Schedule | None:
    """The points t with `(t + distance) % period = rest`. A remainder has the sign of what is divided."""
    negative = any(part.start + distance < 0 for part in schedule.parts)
    if rest and negative:
        return None
    if not 0 <= rest < period:
        return EMPTY
    lowest = min((Fraction(part.start) for part in schedule.parts), default=Fraction(0))
    first = rest - distance
    first += -((first - lowest) // period) * period
    numbers = (_number(period), _number(first))
    return None if None in numbers else schedule & Schedule.of(*numbers)


def _distance(node: Expression, name: str, translator: Translator) -> Fraction | None:
    """The distance d of `t + d`, if the expression is that."""
    if isinstance(node, Variable):
        return Fraction(0) if node.name == name else None
    if isinstance(node, Call) and node.function in ("+", "-"):
        left, right = node.arguments
        moved = _distance(left, name, translator)
        by = _constant(right, translator)
        if moved is not None and by is not None:
            return moved + by if node.function == "+" else moved - by
        if node.function == "+":
            moved, by = _distance(right, name, translator), _constant(left, translator)
            return None if moved is None or by is None else moved + by
    return None


def _constant(node: Expression, translator: Translator) -> Fraction | None:
    """The value of an expression without variables, if it is a number that is computed with exactly."""
    if variables(node):
        return None
    value = translator.expression(node, {})
    if not isinstance(value, Const) or not isinstance(value.value, (int, float)):
        return None
    exact = isinstance(value.value, int) or Points(1, value.value).exact
    return Fraction(value.value) if exact else None


def _number(x: Fraction) -> Any:
    return int(x) if x.denominator == 1 else float(x) if Fraction(float(x)) == x else None


# --- remainders ----------------------------------------------------------------------------------------------


def _remainders(schedule: Schedule, node: Comparison, name: str, translator: Translator) -> Schedule | None:
    """The points that meet a condition which reads them through remainders alone, by classes; None if it does not."""
    divisors: list[int] = []
    if not all(_through(side, name, divisors) for side in (node.left, node.right)) or not divisors:
        return None
    cycle = lcm(*divisors)
    condition = translator.comparison(node, {name: Col(0)})
    found: list[Points] = []
    for part in schedule.parts:
        if not isinstance(part.period, int) or not isinstance(part.start, int) or part.start < 0:
            return None
        period = lcm(part.period, cycle)
        if period // part.period > MOST:
            return None
        for i in range(period // part.period):
            start = part.point(i)
            try:
                passes = evaluate(condition, (start,))
            except (ArithmeticError, ValueError, TypeError):
                return None
            if passes and (part.end is None or start <= part.end):
                found.append(Points(period, start, part.end, part.where, part.without))
    return Schedule(tuple(found)) | EMPTY


def _through(node: Expression, name: str, divisors: list[int]) -> bool:
    """Whether an expression reads a variable only in `t % k`; these k go to `divisors`."""
    if isinstance(node, Variable):
        return node.name != name
    if not isinstance(node, Call):
        return isinstance(node, Constant)
    if node.function == "%":
        value, by = node.arguments
        if value == Variable(name) and isinstance(by, Constant) and isinstance(by.value, int) and by.value > 0:
            divisors.append(by.value)
            return True
    return all(_through(a, name, divisors) for a in node.arguments)


