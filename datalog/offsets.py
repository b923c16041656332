"""How far the variables of a rule are apart: what `i + 1`, `j = i + 1` and `i = 3` say about each other.

Every variable of a body is either a *root*, or stands at a constant distance from one, or has a constant value. That is
all that is needed to see that a rule leads from `rank(i, ...)` to `rank(i + 1, ...)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from datalog.ast import Aggregate, Call, Comparison, Constant, Variable
from datalog.functions import FUNCTIONS

__all__ = ["Offset", "Offsets", "holds"]

Offset = tuple[str | None, int]
"""A root and the distance from it; without a root, a constant."""

_HOLDS = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}


class Offsets:
    """The distances that the equations of a body tell; those of an aggregate's body also know the ones `around` it.

    >>> from datalog.parser import parse
    >>> body = parse("r(j) :- s(i), j = 1 + i, k = 3, m = k - 1.").rules[0].body
    >>> offsets = Offsets(body)
    >>> [offsets.of(Variable(name)) for name in "ijkmx"]
    [('i', 0), ('i', 1), (None, 3), (None, 2), ('x', 0)]
    """

    def __init__(self, body: Iterable[Any], around: Offsets | None = None) -> None:
        self._to: dict[str, Offset] = dict(around._to) if around else {}
        for literal in body:
            if isinstance(literal, Comparison) and literal.op == "=":
                left, right = self.of(literal.left), self.of(literal.right)
                if left is not None and right is not None:
                    self._meet(left, right)

    def _meet(self, left: Offset, right: Offset) -> None:
        (a, x), (b, y) = (right, left) if left[0] is None else (left, right)
        if a is not None and a != b:
            self._to[a] = (b, y - x)

    def of(self, node: Any) -> Offset | None:
        """Where an expression stands, if that is known."""
        if isinstance(node, Variable):
            name: str | None = node.name
            distance = 0
            while name is not None and name in self._to:
                name, more = self._to[name]
                distance += more
            return name, distance
        if isinstance(node, Constant):
            return (None, node.value) if type(node.value) is int else None
        if isinstance(node, Call) and node.function == "neg":
            value = self.of(node.arguments[0])
            return (None, -value[1]) if value is not None and value[0] is None else None
        if isinstance(node, Call) and node.function in ("+", "-"):
            left, right = map(self.of, node.arguments)
            if left is None or right is None:
                return None
            if right[0] is None:
                return left[0], left[1] + (right[1] if node.function == "+" else -right[1])
            if left[0] is None and node.function == "+":
                return right[0], left[1] + right[1]
        return None

    def given(self, root: str | None, value: int, names: Iterable[str]) -> dict[str, int]:
        """The values of those of the variables that have one when the root has this value."""
        found = {}
        for name in names:
            offset = self.of(Variable(name))
            if offset is not None and offset[0] in (root, None):
                found[name] = offset[1] + (0 if offset[0] is None else value)
        return found


def holds(comparison: Comparison, values: Mapping[str, Any]) -> bool | None:
    """Whether a comparison is true when variables have these values; None if that cannot be told yet.

    >>> from datalog.parser import parse
    >>> body = parse("r(i) :- s(i, x), i + 1 <= 10, i < x, 8 / i > 1.").rules[0].body
    >>> [holds(literal, {"i": 9}) for literal in body[1:]], holds(body[3], {"i": 0})
    ([True, None, False], None)
    """
    left, right = _value(comparison.left, values), _value(comparison.right, values)
    if left is None or right is None:
        return None
    try:
        return bool(_HOLDS[comparison.op](left, right))
    except TypeError:
        return None


def _value(node: Any, values: Mapping[str, Any]) -> Any:
    """The value of an expression of known variables and built-in functions; None if there is none."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Variable):
        return values.get(node.name)
    if isinstance(node, Aggregate) or node.function not in FUNCTIONS:
        return None
    arguments = [_value(a, values) for a in node.arguments]
    if any(a is None for a in arguments):
        return None
    try:
        return FUNCTIONS[node.function].for_type(node.type)(*arguments)
    except Exception:  # an error belongs to the rows that reach it, and there may be none
        return None
