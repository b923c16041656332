"""LineageJoin: aggregates over a join, without the joined rows.

The *lineage* of a joined row is the join key that its two halves met on. Per lineage key each side keeps partial sums
of its rows, by those of its columns that matter later; what a pair of partial sums contributes to a group is the
product of the two vectors. A change of either side meets the partial sums of the other side under its own key and
nothing else, so its cost follows the change, and the state is that of two tables of partial sums, however many rows
the join has.

With L and R the partial sums and dL, dR their changes, the join changes by dL x R + (L + dL) x dR: exact for joins of
many with many, for partners that came long ago, and for deletions, which are changes of a negative weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from operators.delta import Delta
from operators.errors import RuleFailure
from operators.expr import Expr
from operators.guard import guarded
from operators.lineage_loops import Form, Product, combining, flowing
from operators.sums import Factor, Mode, Summing

__all__ = ["LineageJoin", "Partials", "Product"]

Tuple = tuple[Any, ...]


class Partials:
    """The partial sums of one side: lineage key -> {kept columns -> vector}.

    Where no column is kept it is lineage key -> vector. Vectors are those of `operators.sums`: entry 0 is the count,
    and with nothing else in them they are that number.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT
    >>> side = Partials("", (1,), (), (Col(0),), (COUNT,))
    >>> side.merge(side.summed(Delta([("a", "k"), ("b", "k")], []))); side.rows
    {'k': {('a',): 1, ('b',): 1}}
    >>> side.merge(side.summed(Delta([], [("a", "k")]))); side.rows
    {'k': {('b',): 1}}
    """

    def __init__(
        self, text: str, key: Sequence[int], where: Sequence[Expr], kept: Sequence[Expr], factors: Sequence[Factor]
    ) -> None:
        self.rows: dict[Any, Any] = {}
        self.nested = bool(kept)
        self.bare = len(factors) == 1
        self.width = len(key)
        self.form = Form(tuple(key), tuple(where), tuple(kept), self.bare)
        self.summed = Summing(text, where, key, kept, factors)

    def merge(self, changes: dict[Any, Any]) -> None:
        """Let changes in. What becomes nothing is dropped; the dicts of new keys are taken over as they are."""
        if not self.nested:
            self._add(self.rows, changes)
            return
        rows, bare = self.rows, self.bare
        for key, entries in changes.items():
            mine = rows.get(key)
            if mine is None:
                if all(entries.values() if bare else map(any, entries.values())):
                    rows[key] = entries
                    continue
                mine = rows[key] = {}
            if not bare:
                self._add(mine, entries)
            else:
                for row, weight in entries.items():
                    if left := mine.get(row, 0) + weight:
                        mine[row] = left
                    else:
                        mine.pop(row, None)
            if not mine:
                del rows[key]

    def _add(self, table: dict[Any, Any], changes: dict[Any, Any]) -> None:
        find = table.get
        if self.bare:
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

    # --- on the way between partitions ---

    def sent(self, changes: dict[Any, Any]) -> list[tuple[Tuple, Any]]:
        """Changes as rows: (key columns..., kept columns...), vector.

        >>> from operators.expr import Col
        >>> from operators.sums import COUNT
        >>> side = Partials("", (1, 0), (), (Col(2),), (COUNT,))
        >>> side.sent({("k", "l"): {("a",): 1}}), side.received([(("k", "l", "a"), 1)])
        ([(('k', 'l', 'a'), 1)], {('k', 'l'): {('a',): 1}})
        """
        if self.nested:
            pairs = ((self._spread(key), entries) for key, entries in changes.items())
            return [(key + row, vector) for key, entries in pairs for row, vector in entries.items()]
        return [(self._spread(key), vector) for key, vector in changes.items()]

    def received(self, rows: Iterable[tuple[Tuple, Any]]) -> dict[Any, Any]:
        """The changes behind rows. Nobody sends a row twice in one message."""
        changes: dict[Any, Any] = {}
        width = self.width
        for row, vector in rows:
            key = row[0] if width == 1 else row[:width] if width else None
            if self.nested:
                changes.setdefault(key, {})[row[width:]] = vector
            else:
                changes[key] = vector
        return changes

    def _spread(self, key: Any) -> Tuple:
        return (key,) if self.width == 1 else key if self.width else ()

    # --- looking in ---

    def __len__(self) -> int:
        return sum(map(len, self.rows.values())) if self.nested else len(self.rows)

    def items(self) -> Iterator[tuple[Tuple, Any]]:
        """All partial sums, as rows."""
        return iter(self.sent(self.rows))

    def check(self) -> None:
        """Assert that only partial sums of some rows are kept."""
        assert all(self.rows.values()) or not self.nested, "an empty lineage key is kept"
        for row, vector in self.items():
            assert (vector if self.bare else vector[0]) > 0, f"a partial sum of no rows: {row}"


class LineageJoin:
    """Two sides and what their partial sums contribute.

    `where` and `outputs` are over the row (key columns..., kept columns of the left..., of the right...). The
    contribution of two partial sums that meet `where` belongs to the tuple of the `outputs`; its vector has an entry
    for each of the `products`, the first being the count.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT
    >>> left = Partials("", (1,), (), (Col(0),), (COUNT,))                    # s1(a, b): how many, by a
    >>> right = Partials("", (0,), (), (), (COUNT, Factor(Col(1))))           # s2(b, d): how many, and the sum of d
    >>> join = LineageJoin("", left, right, (), (Col(1),), (((1, 0, 0),), ((1, 0, 1),)))
    >>> join.take(0, Delta([("a", 1)], []), {})
    >>> out = {}; join.take(1, Delta([(1, 10), (1, 20)], []), out); out
    {('a',): [2, 30]}
    """

    def __init__(
        self,
        text: str,
        left: Partials,
        right: Partials,
        where: Sequence[Expr],
        outputs: Sequence[Expr],
        products: Sequence[Product],
    ) -> None:
        self.text = text
        self.sides = (left, right)
        self.bare = len(products) == 1
        self._plan = ((left.form, right.form), tuple(where), tuple(outputs), tuple(products))
        self._loops = [combining(side, *self._plan) for side in (0, 1)]
        self._flows: dict[tuple[int, Mode], Callable[..., None]] = {}

    def take(self, side: int, delta: Delta, out: dict[Any, Any]) -> None:
        """Changes of the relation of one side, as they come: add what they contribute to `out`, and let them in."""
        mine, other = self.sides[side], self.sides[1 - side]
        if not (mine.nested and mine.bare) or other.nested:
            self.change(side, mine.summed(delta), out)
            return
        batches: list[tuple[Mode, list[Any]]] = [("lost", delta.lost), ("gained", delta.gained)]
        if delta.weights is not None:
            batches = [("weighted", delta.weights)]
        for mode, batch in batches:
            if batch:
                flow = self._flows.get((side, mode))
                if flow is None:
                    flow = self._flows[side, mode] = flowing(side, *self._plan, mode)
                guarded(self.text, flow, batch, mine.rows, other.rows.get, out)

    def change(self, side: int, changes: dict[Any, Any], out: dict[Any, Any]) -> None:
        """Changes of one side: add what they contribute with the other side as it is to `out`, and let them in."""
        other = self.sides[1 - side].rows
        if other and changes:
            loop = self._loops[side]
            try:
                loop(changes.items(), other.get, out)
            except Exception as e:
                raise self._failure(loop, side, changes, e) from e
        self.sides[side].merge(changes)

    def _failure(self, loop: Callable[..., None], side: int, changes: dict[Any, Any], error: Exception) -> RuleFailure:
        """The error with the key and kept columns of the changed side that raise it."""
        mine, other = self.sides[side], self.sides[1 - side].rows
        for row, vector in mine.sent(changes):
            try:
                loop(mine.received([(row, vector)]).items(), other.get, {})
            except Exception as again:
                return RuleFailure(self.text, row, again)
        return RuleFailure(self.text, None, error)

    def stats(self) -> dict[str, int]:
        return {"left": len(self.sides[0]), "right": len(self.sides[1])}

    def check(self) -> None:
        """Assert the invariants of both sides."""
        for side in self.sides:
            side.check()
