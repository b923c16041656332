"""How an expression moves when one of its variables grows: a proof by looking at its shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from datalog.ast import Call, Constant, Expression, Variable

__all__ = ["growth"]


def growth(
    node: Expression, variable: str, hidden: Collection[str], definitions: Mapping[str, Expression]
) -> int | None:
    """2: the expression grows whenever the variable does; 1: it never shrinks; 0: it stays; negative: the reverse.

    None if that cannot be seen, or if the expression reads a `hidden` variable, which may move along with
    `variable` in ways of its own.

    >>> c, e = Variable("c"), Variable("e")
    >>> growth(Call("+", (e, c)), "c", (), {}), growth(Call("max", (e, c)), "c", (), {}), growth(e, "c", (), {})
    (2, 1, 0)
    >>> growth(Call("-", (e, c)), "c", (), {}), growth(Call("*", (e, c)), "c", (), {})
    (-2, None)
    """
    if isinstance(node, Constant):
        return 0
    if isinstance(node, Variable):
        if node.name == variable:
            return 2
        if node.name in hidden:
            return None
        return growth(definitions[node.name], variable, hidden, definitions) if node.name in definitions else 0
    if not isinstance(node, Call):
        return None
    parts = [growth(a, variable, hidden, definitions) for a in node.arguments]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    if not any(known):
        return 0
    return _call(node, known)


def _call(node: Call, parts: list[int]) -> int | None:
    if node.function == "neg":
        return -parts[0]
    if node.function == "+":
        return _sum(parts[0], parts[1])
    if node.function == "-":
        return _sum(parts[0], -parts[1])
    if node.function in ("min", "max"):
        if all(p >= 0 for p in parts):
            return min(2, *parts) or 1
        return (max(-2, *parts) or -1) if all(p <= 0 for p in parts) else None
    if node.function == "*":
        factors = [_sign(a) for a in node.arguments]
        moving = 0 if parts[0] else 1
        sign = factors[1 - moving]
        return None if sign is None else parts[moving] * sign
    if node.function == "/" and not parts[1]:
        sign = _sign(node.arguments[1])
        return None if not sign else sign * (1 if parts[0] > 0 else -1)  # whole numbers truncate: ties appear
    return None


def _sum(one: int, other: int) -> int | None:
    if one * other < 0:
        return None
    return max(one, other) if one + other > 0 else min(one, other)


def _sign(node: Any) -> int | None:
    """The sign of a constant; None for anything else."""
    if isinstance(node, Call) and node.function == "neg":
        inner = _sign(node.arguments[0])
        return None if inner is None else -inner
    if isinstance(node, Constant) and isinstance(node.value, (int, float)):
        return (node.value > 0) - (node.value < 0)
    return None
