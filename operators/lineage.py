"""Lineage joins: aggregates over a join, without the joined rows.

The *lineage* of a joined row is the join key that its two halves met on. Per lineage key each side keeps partial sums
of its rows, by those of its columns that matter later; what a pair of partial sums contributes to a group is the
product of the two vectors. A change of either side meets the partial sums of the other side under its own key and
nothing else, so its cost follows the change, and the state is that of two tables of partial sums, however many rows
the join has.

With L and R the partial sums and dL, dR their changes, the join changes by dL x R + (L + dL) x dR: exact for joins of
many with many, for partners that came long ago, and for deletions, which are changes of a negative weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from operators.anchored import Anchored
from operators.anchored_loops import anchor_of
from operators.cells import Cells
from operators.delta import Delta
from operators.errors import RuleFailure
from operators.expr import Expr
from operators.intake import Intake
from operators.lineage_loops import Product, combining

__all__ = ["LineageJoin", "Partials", "lineage_join"]

Tuple = tuple[Any, ...]


def lineage_join(
    text: str,
    sides: tuple[Intake, Intake],
    where: Sequence[Expr],
    outputs: Sequence[Expr],
    products: Sequence[Product],
    cells: Cells,
) -> Anchored | LineageJoin:
    """Two sides and what their partial sums contribute.

    `where` and `outputs` are over the row (key columns..., kept columns of the left..., of the right...). The
    contribution of two partial sums that meet `where` belongs to the tuple of the `outputs`, and is added to its cell;
    its vector has an entry for each of the `products`, the first being the count.
    """
    anchor = anchor_of((sides[0].form, sides[1].form), where, outputs)
    if anchor is None:
        return LineageJoin(text, sides, where, outputs, products, cells)
    return Anchored(text, sides, anchor, outputs, products, cells)


class Partials:
    """The partial sums of one side, as a table. See `operators.intake` for its form.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT
    >>> side = Intake("", (1,), (), (Col(0),), (COUNT,)); partials = Partials(side)
    >>> partials.merge(side.summed(Delta([("a", "k"), ("b", "k")], []))); partials.rows
    {'k': {('a',): 1, ('b',): 1}}
    >>> partials.merge(side.summed(Delta([], [("a", "k")]))); partials.rows
    {'k': {('b',): 1}}
    """

    def __init__(self, side: Intake) -> None:
        self.rows: dict[Any, Any] = {}
        self._side = side

    def merge(self, changes: dict[Any, Any]) -> None:
        """Let changes in. What becomes nothing is dropped; the dicts of new keys are taken over as they are."""
        if not self._side.nested:
            self._add(self.rows, changes)
            return
        rows, bare = self.rows, self._side.bare
        for key, entries in changes.items():
            mine = rows.get(key)
            if mine is None:
                if all(entries.values() if bare else map(any, entries.values())):
                    rows[key] = entries
                    continue
                mine = rows[key] = {}
            self._add(mine, entries)
            if not mine:
                del rows[key]

    def _add(self, table: dict[Any, Any], changes: dict[Any, Any]) -> None:
        find = table.get
        if self._side.bare:
            for row, weight in changes.items():
                left = find(row, 0) + weight
                if left:
                    table[row] = left
                else:
                    table.pop(row, None)
            return
        for row, vector in changes.items():
            mine = find(row)
            if mine is not None:
                vector = [a + b for a, b in zip(mine, vector, strict=True)]
            # a count of nothing is not enough: rows that came and went may differ in what is summed
            if any(vector):
                table[row] = vector
            else:
                table.pop(row, None)

    def items(self) -> Iterator[tuple[Tuple, Any]]:
        """All partial sums, as rows."""
        return iter(self._side.sent(self.rows))

    def __len__(self) -> int:
        return sum(map(len, self.rows.values())) if self._side.nested else len(self.rows)

    def check(self) -> None:
        """Assert that only partial sums of some rows are kept."""
        assert all(self.rows.values()) or not self._side.nested, "an empty lineage key is kept"
        for row, vector in self.items():
            assert (vector if self._side.bare else vector[0]) > 0, f"a partial sum of no rows: {row}"


class LineageJoin:
    """The general form: both sides may say which group a pair belongs to, and whether it counts.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT
    >>> sides = tuple(Intake("", (0,), (), (Col(1),), (COUNT,)) for _ in range(2))      # q(a, b, count<*>) :-
    >>> cells = Cells(2, 1)                                                             #   r(k, a), s(k, b).
    >>> join = LineageJoin("", sides, (), (Col(1), Col(2)), (((1, 0, 0),),), cells)
    >>> join.take(0, Delta([("k", "a")], [])); join.take(1, Delta([("k", "b"), ("l", "b")], [])); cells.drain()
    [(('a', 'b'), 1)]
    """

    def __init__(
        self,
        text: str,
        sides: tuple[Intake, Intake],
        where: Sequence[Expr],
        outputs: Sequence[Expr],
        products: Sequence[Product],
        cells: Cells,
    ) -> None:
        self.text = text
        self.sides = sides
        self._tables = (Partials(sides[0]), Partials(sides[1]))
        self._cells = cells
        forms = (sides[0].form, sides[1].form)
        self._loops = [combining(side, forms, where, outputs, products) for side in (0, 1)]

    def take(self, side: int, delta: Delta) -> None:
        """Changes of the relation of one side, as they come: add what they contribute, and let them in."""
        self._change(side, self.sides[side].summed(delta))

    def receive(self, side: int, rows: Iterable[tuple[Tuple, Any]]) -> None:
        """Changes of one side that were summed up elsewhere."""
        self._change(side, self.sides[side].received(rows))

    def _change(self, side: int, changes: dict[Any, Any]) -> None:
        if changes and self._tables[1 - side].rows:
            try:
                self._combine(side, changes)
            except Exception as e:
                raise self._failure(side, changes, e) from e
        self._tables[side].merge(changes)

    def _combine(self, side: int, changes: dict[Any, Any]) -> None:
        cells, other = self._cells, self._tables[1 - side].rows
        self._loops[side](changes.items(), other.get, cells.rows, cells.make, cells.touched.append)

    def _failure(self, side: int, changes: dict[Any, Any], error: Exception) -> RuleFailure:
        """The error with the key and kept columns of the changed side that raise it."""
        for row, vector in self.sides[side].sent(changes):
            try:
                self._combine(side, self.sides[side].received([(row, vector)]))
            except Exception as again:
                return RuleFailure(self.text, row, again)
        return RuleFailure(self.text, None, error)

    def items(self, side: int) -> Iterator[tuple[Tuple, Any]]:
        """What is kept of a side: (key columns..., kept columns...) with the vectors."""
        return self._tables[side].items()

    def stats(self) -> dict[str, int]:
        left, right = map(len, self._tables)
        return {"left": left, "right": right}

    def check(self) -> None:
        """Assert the invariants of both sides."""
        for table in self._tables:
            table.check()
