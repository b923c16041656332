"""Expressions over the columns of a row, as the operators see them: no names, no Datalog.

A row is the concatenation of the columns of the tuples that meet in an operator: first the left tuple's,
then the right tuple's. The planner writes these; `operators.kernels` turns them into Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace


class Col(msgspec.Struct, frozen=True, gc=False):
    """Column `index` of the row."""

    index: int


class Const(msgspec.Struct, frozen=True, gc=False):
    """A value known when the plan is made."""

    value: Any


class Apply(msgspec.Struct, frozen=True):
    """`function` applied to the values of `arguments`.

    `name` is for plans and messages; the generated code calls `function` itself. Operators that Python
    has (`inline` is then `+ - * == != < <= > >=`) are written into the generated code instead. `sure`: the planner
    knows that it has a value for every row, so a loop may compute it before it has found all that the row is made of.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Expr, ...]
    inline: str | None = None
    sure: bool = False

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("name", "function", "arguments", "inline"))
        return f"Apply({shown})"


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
        return replace(expr, arguments=tuple(shifted(a, by) for a in expr.arguments))
    return expr
