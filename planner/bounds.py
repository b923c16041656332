"""Conditions over the clock, solved for it: from `n - 5 < ts` to the time at which a tuple leaves the window.

What is solved are comparisons in which the clock stands once: as it is, or rounded down to whole periods, `n - n % k`,
plus or minus whatever the columns of one tuple give. The solution is exact. Where all numbers of a tuple are whole it
is a sum. Where some are fractions, `n - 5` and `ts + 5` are rounded in different ways, and the condition itself tells,
from the times next to the sum, from which of them on it holds.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping
from math import inf
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from datalog.ast import Call, Comparison, Constant, Expression, Variable, variables
from operators.expr import Apply, Col, Const, Expr
from operators.schedule import whole
from planner.plan import Bound
from planner.translate import Translator

__all__ = ["CLOCK", "Solution", "Turn", "solved"]

CLOCK = "now"
"""What the variable of the clock is called in conditions that are solved."""

TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
LATEST = 2.0**62
"""No clock gets here."""

PLAIN: Mapping[str, Callable[..., Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}

HARMLESS = {"+", "-", "*", "neg", "abs", "min", "max"}
"""Functions that have a value for all numbers, if it is in range."""


class Solution(msgspec.Struct, frozen=True):
    """The bounds that a condition sets, over the columns of a tuple."""

    enters: tuple[Bound, ...]
    leaves: tuple[Bound, ...]


class Turn:
    """The time at which a condition begins to hold, or ends: a function of the columns that it reads.

    `where`: the condition, over these columns and the clock behind them. What the clock is compared with is the sum of
    the terms (a sign and an expression over the columns) and `constant`. `period`: the clock is rounded down to whole
    periods first. `ends`: the condition holds up to a time, and not from it on. The result is the first time at which
    that has turned, or else (`last`) the last time at which it has not.

    >>> import operator as o
    >>> n_minus_5 = Apply("-", o.sub, (Col(1), Const(5)), "-")
    >>> leaves = Turn(Apply("<", o.lt, (n_minus_5, Col(0)), "<"), ((1, Col(0)),), 5, None, True, False)
    >>> leaves(3), leaves(3.5), leaves(0.3)
    (8, 8.5, 5.300000000000001)
    """

    __slots__ = ("_holds", "_terms", "said")

    def __init__(
        self, where: Expr, terms: tuple[tuple[int, Expr], ...], constant: Any, period: Any, ends: bool, last: bool
    ) -> None:
        self.said = where, terms, constant, period, ends, last
        self._holds = _function(where)
        self._terms = [(sign, _function(term)) for sign, term in terms]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turn) and self.said == other.said

    def __hash__(self) -> int:
        return hash(self.said)

    def __reduce__(self) -> tuple[Any, ...]:
        return Turn, self.said

    def __call__(self, *values: Any) -> Any:
        _, _, total, period, _, _ = self.said
        for sign, term in self._terms:
            total += sign * term(values)
        if period is not None:
            total = self.rounded(total)
        return total if type(total) is int else self.settled(total, values)

    def rounded(self, total: Any) -> Any:
        """The multiple of the period at which the clock, rounded down, gets behind the total, or (`last`) to it."""
        _, _, _, period, _, last = self.said
        if type(total) is not int:
            total = float(total)
        return (-(-total // period) if last else total // period + 1) * period

    def settled(self, guess: float, values: tuple[Any, ...]) -> Any:
        """The time next to a guess at which the condition turns: found by doubling steps, and then halving them.

        The clock is never below 0. What has turned by then has always been so; what has not at `LATEST` never will.
        """
        _, _, _, period, _, last = self.said
        low = high = max(0.0, min(guess, LATEST))
        step = 1
        while not self.before(low, values):
            if low == 0:
                return 0 if period is not None or not last else -1
            low, high, step = _moved(low, -step), low, step * 2
        step = 1
        while self.before(high, values):
            if high == LATEST:
                return inf
            low, high, step = high, _moved(high, step), step * 2
        while _rank(high) - _rank(low) > 1:
            middle = _moved(low, (_rank(high) - _rank(low)) // 2)
            low, high = (middle, high) if self.before(middle, values) else (low, middle)
        return whole(low if last and period is None else high)

    def before(self, time: float, values: tuple[Any, ...]) -> bool:
        """Whether the condition has not turned yet."""
        return bool(self._holds((*values, int(time) if time.is_integer() else time))) is self.said[4]


def _function(expr: Expr) -> Callable[[tuple[Any, ...]], Any]:
    """An expression over numbers as a function of a row. What Python computes is not looked at again."""
    if isinstance(expr, Col):
        return itemgetter(expr.index)
    if isinstance(expr, Const):
        value = expr.value
        return lambda row: value
    below = [_function(argument) for argument in expr.arguments]
    function = PLAIN.get(expr.inline or "", expr.function)
    if len(below) == 2:
        left, right = below
        return lambda row: function(left(row), right(row))
    return lambda row: function(*[argument(row) for argument in below])


def _rank(x: float) -> int:
    """The number of a float in the order of those from 0 on."""
    rank: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return rank


def _moved(x: float, by: int) -> float:
    rank = max(0, min(_rank(LATEST), _rank(x) + by))
    moved: float = struct.unpack("<d", struct.pack("<q", rank))[0]
    return moved


# --- solving -------------------------------------------------------------------------------------------------


class _Linear(msgspec.Struct, frozen=True):
    """`clock` times the clock (rounded down by a `period`), and terms, and a constant."""

    clock: int = 0
    period: Any = None
    terms: tuple[tuple[int, Expression], ...] = ()
    constant: Any = 0

    def plus(self, other: _Linear, sign: int) -> _Linear | None:
        if self.clock and other.clock:
            return None
        terms = (*self.terms, *((sign * s, term) for s, term in other.terms))
        period = self.period if self.clock else other.period
        return _Linear(self.clock + sign * other.clock, period, terms, self.constant + sign * other.constant)


def solved(node: Comparison, places: Mapping[str, int], translator: Translator) -> Solution | None:
    """What a comparison over `CLOCK` and columns of numbers sets as bounds; None if it is not solved.

    `places`: where the variables are in the tuple.

    >>> from datalog.ast import Program
    >>> from datalog.parser import parse
    >>> from planner.translate import evaluate
    >>> def bounds(text, *row):
    ...     (condition,) = parse(f"r(t) :- {text}.").rules[0].body
    ...     solution = solved(condition, {"ts": 0, "w": 1}, Translator(Program((), {}), {}))
    ...     return solution and [
    ...         [(evaluate(b.time, row), b.strict) for b in found] for found in (solution.enters, solution.leaves)]
    >>> bounds("now - 5 < ts", 3), bounds("ts <= now", 3), bounds("now - w < ts", 3, 0.5)
    ([[], [(8, True)]], [[(3, False)], []], [[], [(3.5, True)]])
    >>> bounds("now - now % 10 <= ts", 13), bounds("ts < now - now % 10 + 10", 13), bounds("now % 7 < ts", 3)
    ([[], [(20, True)]], [[(10, False)], []], None)
    """
    if node.op not in TURNED:
        return None
    if node.op in (">", ">="):  # what says the same is the same
        node = replace(node, op=TURNED[node.op], left=node.right, right=node.left)
    sides = _linear(node.left), _linear(node.right)
    if None in sides:
        return None
    left, right = sides
    assert left is not None and right is not None
    whole_ = left.plus(right, -1)
    if whole_ is None or abs(whole_.clock) != 1 or not all(_is_safe(term) for _, term in whole_.terms):
        return None
    op = node.op if whole_.clock == 1 else TURNED[node.op]
    sign = -whole_.clock
    names = [name for name in dict.fromkeys(n for _, term in whole_.terms for n in variables(term))]
    row: dict[str, Expr] = {name: Col(i) for i, name in enumerate(names)}
    terms = tuple([(sign * s, translator.expression(term, row)) for s, term in whole_.terms])
    row[CLOCK] = Col(len(names))
    columns = tuple([Col(places[name]) for name in names])

    def bound(op: str) -> Bound:
        ends = op in ("<", "<=")
        wanted = op if whole_.clock == 1 else TURNED[op]
        where = translator.comparison(replace(node, op=wanted), row)
        last = op in ("<=", ">")
        if whole_.period is not None:
            last = op in ("<", ">=")  # the multiple at the total, and not the one behind it
        strict = op in ("<", ">") if whole_.period is None else ends
        if isinstance(node.left, Variable) and isinstance(node.right, Variable):
            return Bound(columns[0], strict)  # nothing is computed
        turn = Turn(where, terms, sign * whole_.constant, whole_.period, ends, last)
        time: Expr = Const(turn()) if not columns else Apply("time", turn, columns)
        return Bound(time, strict)

    if op == "=":
        return Solution((bound(">="),), (bound("<="),))
    return Solution((), (bound(op),)) if op in ("<", "<=") else Solution((bound(op),), ())


def _linear(node: Expression) -> _Linear | None:
    """An expression as a sum in which the clock stands at most once; None if it is not."""
    if node == Variable(CLOCK):
        return _Linear(1)
    if isinstance(node, Constant):
        return _Linear(constant=node.value) if isinstance(node.value, (int, float)) else None
    if CLOCK not in variables(node):
        if isinstance(node, Call) and node.function in ("+", "-"):
            left, right = map(_linear, node.arguments)
            return None if left is None or right is None else left.plus(right, 1 if node.function == "+" else -1)
        return _Linear(terms=((1, node),))
    if not isinstance(node, Call):
        return None
    period = _period(node)
    if period is not None:
        return _Linear(1, period)
    if node.function == "neg":
        inner = _linear(node.arguments[0])
        return None if inner is None else _Linear().plus(inner, -1)
    if node.function in ("+", "-"):
        left, right = map(_linear, node.arguments)
        return None if left is None or right is None else left.plus(right, 1 if node.function == "+" else -1)
    return None


def _period(node: Call) -> Any:
    """The k of `n - n % k`, if the expression is that."""
    if node.function == "-" and node.arguments[0] == Variable(CLOCK):
        rest = node.arguments[1]
        if isinstance(rest, Call) and rest.function == "%" and rest.arguments[0] == Variable(CLOCK):
            k = rest.arguments[1]
            if isinstance(k, Constant) and isinstance(k.value, (int, float)) and k.value > 0:
                return k.value
    return None


def _is_safe(node: Expression) -> bool:
    """Whether an expression over numbers has a value for all of them, if it is in range."""
    if not isinstance(node, Call):
        return isinstance(node, Variable) or isinstance(node.value, (int, float))  # type: ignore[union-attr]
    if node.function == "%":
        by = node.arguments[1]
        return isinstance(by, Constant) and by.value not in (0, "") and _is_safe(node.arguments[0]) and _is_safe(by)
    return node.function in HARMLESS and all(map(_is_safe, node.arguments))
