"""Expressions over the columns of a row, as the operators see them: no names, no Datalog.

A row is the concatenation of the columns of the tuples that meet in an operator: first the left tuple's,
then the right tuple's. The planner writes these; `operators.kernels` turns them into Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Col:
    """Column `index` of the row."""

    index: int


@dataclass(frozen=True, slots=True)
class Const:
    """A value known when the plan is made."""

    value: Any


@dataclass(frozen=True, slots=True)
class Apply:
    """`function` applied to the values of `arguments`.

    `name` is for plans and messages; the generated code calls `function` itself. Operators that Python
    has (`inline` is then `+ - * == != < <= > >=`) are written into the generated code instead.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expr, ...]
    inline: str | None = None


Expr = Col | Const | Apply


def columns(expr: Expr) -> Iterator[int]:
    """The columns that an expression reads, with repetitions.

    >>> sorted(set(columns(Apply("+", int.__add__, (Col(2), Col(0)), "+"))))
    [0, 2]
    """
    if isinstance(expr, Col):
        yield expr.index
    elif isinstance(expr, Apply):
        for argument in expr.arguments:
            yield from columns(argument)


def shifted(expr: Expr, by: int) -> Expr:
    """The same expression over a row that has `by` more columns in front."""
    if isinstance(expr, Col):
        return Col(expr.index + by)
    if isinstance(expr, Apply):
        return Apply(expr.name, expr.function, tuple(shifted(a, by) for a in expr.arguments), expr.inline)
    return expr
