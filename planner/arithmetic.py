"""Arithmetic with expressions over columns: what `planner.lineage` puts together and takes apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from operators.expr import Apply, Col, Expr

__all__ = ["is_affine", "is_plain", "renamed", "times"]


def is_plain(expr: Expr) -> bool:
    """Whether an expression is a column, as a number or as a float."""
    return isinstance(expr, Col) or (isinstance(expr, Apply) and expr.name == "float" and is_plain(expr.arguments[0]))


def times(product: Apply, one: Expr | None, other: Expr | None) -> Expr | None:
    """`one * other`, as in another product; nothing is 1."""
    if one is None or other is None:
        return one if other is None else other
    return replace(product, arguments=(one, other))


def is_affine(values: Sequence[int]) -> bool:
    """Whether values at 0, 1, 2 and -1 lie on a line."""
    return values[2] - values[1] == values[1] - values[0] == values[0] - values[3]


def renamed(expr: Expr, names: Mapping[int, int]) -> Expr:
    """The expression with some columns called otherwise."""
    if isinstance(expr, Col):
        return Col(names.get(expr.index, expr.index))
    if isinstance(expr, Apply):
        return replace(expr, arguments=tuple(renamed(a, names) for a in expr.arguments))
    return expr
