"""Terms: the expressions of a rule, with what is equal in its body called the same.

A term is a tuple that compares by what it says: `("v", place)`, `("c", kind, value)` or `("f", function, type,
term...)`. A *place* stands for the columns of the body's atoms that must be equal, so terms of two rules over the
same atoms can be compared once the places of one are called what they are called in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from datalog.ast import NOWHERE, Call, Constant, Expression, Span, Variable

__all__ = [
    "ANYTHING", "FLIPPED", "Limit", "Side", "Term", "bounds", "canonical", "constant", "moved", "places", "spelled",
]

Term = tuple[Any, ...]
Limit = tuple[Any, int]
Side = tuple[Term, str]
"""What is bounded, and from which side: `lower` or `upper`."""

ANYTHING: Term = ("_",)
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def constant(value: Any) -> Term:
    """The term of a constant. 1 and 1.0 are equal, but what is computed with them is not."""
    return ("c", type(value).__name__, value)


def places(term: Term) -> Iterator[int]:
    """The places in a term. Linear in its size."""
    if term[0] == "v":
        yield term[1]
    elif term[0] == "f":
        for part in term[3:]:
            yield from places(part)


def moved(term: Term, names: Mapping[int, int]) -> Term:
    """The same term with other names for its places.

    >>> moved(("f", "+", "number", ("v", 1), ("c", "int", 2)), {1: 5})
    ('f', '+', 'number', ('v', 5), ('c', 'int', 2))
    """
    if term[0] == "v":
        return ("v", names[term[1]])
    if term[0] == "f":
        return (*term[:3], *[moved(part, names) for part in term[3:]])
    return term


def spelled(term: Term, place: Callable[[int], Expression], span: Span = NOWHERE) -> Expression:
    """A term as an expression."""
    if term[0] == "v":
        return place(term[1])
    if term[0] == "c":
        return Constant(term[2], span)
    if term[0] == "_":
        return Variable("_#", span)
    return Call(term[1], tuple([spelled(part, place, span) for part in term[3:]]), span, term[2])


def canonical(op: str, left: Term, right: Term) -> Term:
    """A comparison in the one form that all ways to write it have.

    >>> canonical(">", ("v", 2), ("v", 1)) == canonical("<", ("v", 1), ("v", 2))
    True
    """
    if op in (">", ">=") or (op in ("=", "!=") and repr(right) < repr(left)):
        op, left, right = FLIPPED[op], right, left
    return (op, left, right)


# --- ranges --------------------------------------------------------------------------------------------------


def bounds(op: str, left: Term, right: Term) -> tuple[tuple[Term, str, Limit], ...]:
    """A comparison as bounds: what is bounded, from which side, and the limit; nothing if it is something else.

    What is bounded is an expression (against a constant), or the distance of two of them (`n - 5 < t`, with the
    constant where it stands: another arrangement rounds differently). Limits of one side compare as tuples: a greater
    `lower` one is narrower, and so is a smaller `upper` one; the second entry tells `>` (1) from `>=` (0), `<` (0)
    from `<=` (1).

    >>> n, t, five = ("v", 0), ("v", 1), constant(5)
    >>> bounds(">", t, five)
    ((('', 'number', ('v', 1)), 'lower', (5, 1)),)
    >>> bounds("<", ("f", "-", "any", n, five), t) == bounds(">", t, ("f", "+", "any", n, constant(-5)))
    True
    """
    if left[0] == "c":
        op, left, right = FLIPPED[op], right, left
    if left[0] == "c" or op == "!=":
        return ()
    if right[0] == "c":
        family = _family(right[2])
        return () if family is None else _sides(("", family, left), op, right[2])
    (one, first), (other, second) = _distance(left), _distance(right)
    if op == "=" or (first and second):
        return ()
    if second:
        op, one, first, other = FLIPPED[op], other, second, one
    return _sides(("-", one, other), FLIPPED[op], first)  # E + c < F: F - E > c


def _sides(key: Term, op: str, limit: Any) -> tuple[tuple[Term, str, Limit], ...]:
    found = []
    if op in (">", ">=", "="):
        found.append((key, "lower", (limit, int(op == ">"))))
    if op in ("<", "<=", "="):
        found.append((key, "upper", (limit, int(op != "<"))))
    return tuple(found)


def _distance(term: Term) -> tuple[Term, Any]:
    """`E + c` as E and c, in any way to write it that computes the same."""
    if term[0] == "f" and term[1] in ("+", "-") and len(term) == 5:
        left, right = term[3:]
        if _number(right) and left[0] != "c":
            return left, right[2] if term[1] == "+" else -right[2]
        if term[1] == "+" and _number(left) and right[0] != "c":
            return right, left[2]
    return term, 0


def _number(term: Term) -> bool:
    return term[0] == "c" and _family(term[2]) == "number"


def _family(value: Any) -> str | None:
    if isinstance(value, str):
        return "symbol"
    return "number" if isinstance(value, (int, float)) and value == value else None
