"""What an aggregate over a join must keep of each side: the columns that matter later, and partial sums of the rest.

A row of the join is a pair of a left and a right tuple. A linear aggregate is a vector of sums over these pairs
(`operators.monoids.Linear`), and a sum over pairs of a *product* of something left and something right is, per join
key, the product of two sums. So of each side are kept, per join key and by the columns that group terms, conditions and
other aggregates read, sums of such factors; `operators.lineage` multiplies them.

What becomes of an argument:

- it reads one side only, and is a column or whole numbers with `+ - *`: what the aggregate lifts it to is summed up
  there, row by row;
- it reads both, and all of it is whole numbers with `+ - *`: it is written out as a sum of products, and each
  product is cut in two;
- anything else: its columns are kept, and it is computed for each pair of what is kept. So it is with floats (each
  row's product is rounded), with what can raise (a division, a function of the user; a row may have no partner, and
  then nothing is to be computed), with aggregates that are not linear, and with columns of which the type is unknown
  (2 and 2.0 are one value, and lifted differently).

Whole numbers are computed exactly here: an overflow is an error of the total, not of a row on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from operators.exact import coarse
from operators.expr import Apply, Col, Const, Expr, columns, shifted
from operators.monoids import Linear, Monoid
from operators.sums import COUNT, Factor
from planner.arithmetic import is_affine, is_plain, renamed, times
from planner.plan import Partial, Sums, Term

__all__ = ["Split"]

WHOLE = ("number", "unsigned")
DEFINITE = ("number", "unsigned", "float", "symbol")  # of these types, values that are equal are the same

PROBES: dict[str, tuple[Any, ...]] = {"whole": (0, 1, 2, -1), "float": (0.0, 0.5, -3.0, 1e-300), "any": ()}
"""Values to see which entries of a lifted vector a type of values uses at all."""

MOST = 32  # products that one argument may be written out as

Product = tuple[int, Expr | None, Expr | None]
"""A coefficient, what is left and what is right of it, over the columns of the row."""


class Split:
    """Cuts what a rule reads of a row in two: what lies left of column `width`, and what lies right of it.

    `types` are those of the row's columns, `keys` the pairs of columns (left, right) that are joined on. A rule with
    one input is not `joined`: its right side is empty, and all of its rows count. First tell everything that will be
    asked for (`where`, `keep`, `sums`), then take the results (`partials`, `placed`).

    >>> from operators.monoids import Sum
    >>> split = Split(2, ("number",) * 4, ((1, 0),))                  # q(a, sum<d>) :- s1(a, b), s2(b, d).
    >>> split.keep(Col(0)); split.sums(Sum, Col(3))
    (((1, 0, 0),), ((1, 0, 1),), (), (), ())
    >>> split.placed(Col(0)), [(p.kept, [f.value for f in p.factors]) for p in split.partials()]
    (Col(index=1), [((Col(index=0),), [None]), ((), [None, Col(index=1)])])
    """

    def __init__(
        self,
        width: int,
        types: Sequence[str],
        keys: Sequence[tuple[int, int]] = (),
        joined: bool = True,
    ) -> None:
        self._width = width
        self._types = types
        self._keys = keys
        self._joined = joined
        same = [(a, width + b) for a, b in keys if types[a] == types[width + b] and types[a] in DEFINITE]
        self._same = set(same)
        self._left_of = {b: a for a, b in same}
        self._right_of = dict(same)
        self._where: tuple[list[Expr], list[Expr]] = ([], [])
        self._kept: tuple[list[Expr], list[Expr]] = ([], [])
        self._factors: tuple[list[Factor], list[Factor]] = ([COUNT], [COUNT])

    # --- telling -----------------------------------------------------------------------------------------------

    def where(self, condition: Expr) -> bool:
        """Let a condition be met by one side, or by both if it is on the join key; False if it takes both.

        So it does if it may fail: a row may have no partner.
        """
        if not isinstance(condition, Apply) or not condition.sure:
            return False
        sides = [(side, mine) for side in (0, 1) if (mine := self._one_sided(condition, side)) is not None]
        for side, mine in sides:
            self._where[side].append(mine)
        return bool(sides)

    def keep(self, expr: Expr) -> None:
        """What the expression needs will be there for each pair of partial sums."""
        computed = self._computed(expr)
        for side, mine in [computed] if computed else self._columns(expr):
            if mine not in self._kept[side]:
                self._kept[side].append(mine)

    def sums(self, make: Callable[[], Monoid], argument: Expr | None) -> Sums | None:
        """The entries of a linear aggregate's vector as sums of products of factors; None if it cannot be done."""
        state = make()
        if not isinstance(state, Linear):
            return None
        if argument is None:
            return (((1, 0, 0),),)
        kind = self._kind(argument)
        vectors = [state.lift(value) for value in PROBES[kind]]
        length = len(vectors[0] if vectors else state.lift(0))
        if kind == "any" and self._joined:
            return None
        products = self._products(argument) if kind == "whole" else None
        one = self._side(argument)
        found: list[list[Product] | None] = []  # by entry; None is one that is lifted
        for entry in range(length):
            values = [vector[entry] for vector in vectors]
            if entry == 0 or (values and len(set(values)) == 1):
                found.append([(values[0] if entry else 1, None, None)])
            elif products is not None and is_affine(values):
                base, slope = values[0], values[1] - values[0]
                found.append([(base, None, None), *((slope * c, a, b) for c, a, b in products)])
            else:
                found.append(None)
        if one is None and None in found:
            return None
        lifted = {entry: _lift(state, kind, entry) for entry, products in enumerate(found) if products is None}
        return tuple(
            self._terms(products) if products is not None else (self._lifted(one or 0, argument, *lifted[entry]),)
            for entry, products in enumerate(found)
        )

    # --- taking ------------------------------------------------------------------------------------------------

    def partials(self) -> tuple[Partial, Partial]:
        """What is kept of each side."""
        left, right = (
            Partial(tuple(self._where[s]), tuple(self._kept[s]), tuple(self._factors[s])) for s in (0, 1)
        )
        return left, right

    def placed(self, expr: Expr) -> Expr:
        """The expression over the row (join key..., what is kept of the left..., of the right...)."""
        computed = self._computed(expr)
        if computed is not None:
            side, mine = computed
            return Col(len(self._keys) + (len(self._kept[0]) if side else 0) + self._kept[side].index(mine))
        if isinstance(expr, Apply):
            return replace(expr, arguments=tuple(self._at(a) for a in expr.arguments))
        return self._at(expr)

    def _at(self, expr: Expr) -> Expr:
        """The expression over what is kept of its columns."""
        if isinstance(expr, Apply):
            return replace(expr, arguments=tuple(self._at(a) for a in expr.arguments))
        if isinstance(expr, Const):
            return expr
        key = self._key_position(expr.index)
        return self.placed(expr) if key is None else Col(key)

    # --- columns -----------------------------------------------------------------------------------------------

    def _key_position(self, column: int) -> int | None:
        """Where a column stands in the join key, if both sides have the very same value there."""
        pairs = [(a, self._width + b) for a, b in self._keys]
        return next((i for i, pair in enumerate(pairs) if column in pair and pair in self._same), None)

    def _one_sided(self, expr: Expr, side: int) -> Expr | None:
        """The expression over the columns of one side, if it reads no other."""
        moved = renamed(expr, self._right_of if side else self._left_of)
        if any((i >= self._width) != bool(side) for i in columns(moved)):
            return None
        return shifted(moved, -self._width) if side else moved

    def _computed(self, expr: Expr) -> tuple[int, Expr] | None:
        """The side that an expression can be kept on as it is, and the expression over its columns."""
        if all(self._key_position(c) is not None for c in columns(expr)) or not is_plain(expr):
            return None
        sides = [(side, mine) for side in (0, 1) if (mine := self._one_sided(expr, side)) is not None]
        return sides[0] if sides else None

    def _columns(self, expr: Expr) -> list[tuple[int, Expr]]:
        """The columns that an expression reads, by the side that they are on, except those of the join key."""
        found = [c for c in columns(expr) if self._key_position(c) is None]
        return [(1, Col(c - self._width)) if c >= self._width else (0, Col(c)) for c in found]

    def _side(self, expr: Expr) -> int | None:
        """The side on which an expression can be summed up; every row of a rule with one input counts."""
        if self._joined and not is_plain(expr) and not (self._kind(expr) == "whole" and self._safe(expr)):
            return None
        return next((side for side in (0, 1) if self._one_sided(expr, side) is not None), None)

    def _safe(self, expr: Expr) -> bool:
        """Whether an expression has a value for every row, whether or not it has a partner."""
        if not isinstance(expr, Apply):
            return True
        if not all(map(self._safe, expr.arguments)):
            return False
        if expr.inline in ("+", "-", "*"):
            return self._kind(expr) == "whole"
        if expr.name in ("/", "%"):
            number, divisor = expr.arguments
            return self._kind(number) == "whole" and isinstance(divisor, Const) and divisor.value not in (0, -1)
        return expr.name == "float" or expr.inline in ("==", "!=", "<", "<=", ">", ">=")

    # --- factors -----------------------------------------------------------------------------------------------

    def _kind(self, expr: Expr) -> str:
        """Whether the values of an expression are all `whole` numbers, all `float`, or `any`."""
        if isinstance(expr, Col):
            kind = self._types[expr.index]
            return "whole" if kind in WHOLE else "float" if kind == "float" else "any"
        if isinstance(expr, Const):
            return {int: "whole", float: "float"}.get(type(expr.value), "any")
        if expr.name == "float":
            return "float"
        kinds = {self._kind(a) for a in expr.arguments}
        if expr.inline not in ("+", "-", "*") or "any" in kinds:
            return "any"
        return "float" if "float" in kinds else "whole"

    def _products(self, expr: Expr) -> list[Product] | None:
        """A whole number as a sum of products of two sides; None if it cannot be written so."""
        if isinstance(expr, Const):
            return [(expr.value, None, None)]
        one_side = self._side(expr)
        if one_side is not None:
            return [(1, expr, None) if one_side == 0 else (1, None, expr)]
        if not isinstance(expr, Apply) or expr.inline not in ("+", "-", "*"):
            return None
        one, other = (self._products(a) for a in expr.arguments)
        if one is None or other is None:
            return None
        if expr.inline == "+":
            return one + other
        if expr.inline == "-":
            return one + [(-c, a, b) for c, a, b in other]
        made = [(c * d, times(expr, a, x), times(expr, b, y)) for c, a, b in one for d, x, y in other]
        return made if len(made) <= MOST else None

    def _terms(self, products: Iterable[Product]) -> tuple[Term, ...]:
        """Products as numbers of factors."""
        terms: dict[tuple[int, int], int] = {}
        for coefficient, *halves in products:
            left, right = (0 if half is None else self._number(side, half) for side, half in enumerate(halves))
            terms[left, right] = terms.get((left, right), 0) + coefficient
        return tuple((c, left, right) for (left, right), c in terms.items() if c)

    def _number(self, side: int, value: Expr, lift: Any = None, entry: int = 0) -> int:
        """The number of a factor among those of a side."""
        mine = self._one_sided(value, side)
        assert mine is not None
        factor = Factor(mine, lift, entry, self._joined and not isinstance(mine, Col))
        factors = self._factors[side]
        if factor not in factors:
            factors.append(factor)
        return factors.index(factor)

    def _lifted(self, side: int, argument: Expr, lift: Any, entry: int) -> Term:
        number = self._number(side, argument, lift, entry)
        return (1, number, 0) if side == 0 else (1, 0, number)


def _lift(state: Linear, kind: str, entry: int) -> tuple[Any, int]:
    """What lifts values of a kind to an entry of a state's vector, and which of its own entries that is."""
    if kind == "float":
        values = [state.lift(value)[entry] for value in PROBES[kind]]
        for own in (0, 1):
            if values == [coarse(value)[own] for value in PROBES[kind]]:
                return coarse, own
    return state.lift, entry
