"""ColumnJoin: a lineage join of whole numbers where the rows of one side, the anchor, each belong to one group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from operators.columnar.groups import ColumnGroups
from operators.columnar.loops import anchor_columns, meeting, other_columns, taking_in
from operators.columnar.numbers import Numbers
from operators.columnar.pairs import Pairs
from operators.delta import Delta, Mode
from operators.expr import Expr
from operators.guard import guarded
from operators.intake import Intake
from operators.lineage_loops import Forms, Product
from operators.source import HIGHEST

__all__ = ["ColumnJoin", "columns_read"]

Tuple = tuple[Any, ...]

Counts = int | list[int]
"""How often each row of a batch counts, or all of them."""

MANY = 32  # rows that are worth the start of numpy
REACH = 1_000  # and so are fewer, if their keys have so many groups
AROUND = 256  # for each row, or ten groups, numpy may look at so many keys and recent pairs that are not concerned


def columns_read(forms: Forms, anchor: int, products: Sequence[Product]) -> list[int] | None:
    """By product, the entry of the other side's vector that it is; None if this is no case for columns.

    It is if rows of the anchor just count, and vectors of the other side are whole numbers.
    """
    if not forms[anchor].bare or any(factor.lift is not None for factor in forms[1 - anchor].factors):
        return None
    terms = [product[0] for product in products if len(product) == 1 and product[0][0] == 1]
    return [term[2 - anchor] for term in terms] if len(terms) == len(products) else None


class State(NamedTuple):
    """What a join keeps, by number; see `ColumnJoin`."""

    keys: Numbers
    groups: Numbers
    pairs: Pairs
    reads: Sequence[int]


class ColumnJoin:
    """What `operators.anchored.Anchored` is, with columns: see there, and the package.

    `reads` are those of `columns_read`. The lineage keys have columns: how many rows of the anchor they have, and V,
    the sums of the other side. The pairs are A, and `groups` have S.

    Columns take 64 bits. No value in a column of V is larger than its `_top`, so no sum is larger than that times the
    weight of the pairs. Where that might take more bits, all columns become lists of Python's
    numbers, and all batches go through the plain loops from then on.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT, Factor
    >>> left = Intake("", (1,), (), (Col(0),), (COUNT,))                      # s1(a, b): how many, by a
    >>> right = Intake("", (0,), (), (), (COUNT, Factor(Col(1))))             # s2(b, d): how many, and the sum of d
    >>> groups = ColumnGroups("", 1, [("count", 0), ("sum", 1)], (0, 1, 2), 2)
    >>> join = ColumnJoin("", (left, right), 0, (Col(1),), (0, 1), groups)
    >>> join.take(0, Delta([("a", 1)], [])); groups.flush()
    ([], [])
    >>> join.take(1, Delta([(1, 10), (1, 20)], [])); groups.flush()
    ([], [('a', 2, 30)])
    >>> [list(join.items(side)) for side in (0, 1)]
    [[((1, 'a'), 1)], [((1,), [2, 30])]]
    """

    def __init__(
        self,
        text: str,
        sides: tuple[Intake, Intake],
        anchor: int,
        outputs: Sequence[Expr],
        reads: Sequence[int],
        groups: ColumnGroups,
    ) -> None:
        self.text = text
        self.sides = sides
        self.groups = groups
        self._anchor = anchor
        self._width = len(sides[1 - anchor].form.factors)
        self._state = State(Numbers("q" * (1 + self._width)), groups.numbers, Pairs(), reads)
        self._top = [0] * self._width
        self._narrow = True
        self._left: set[int] = set()  # keys that have lost something
        self._left_too: list[Any] = []
        self._plan = (anchor, (sides[0].form, sides[1].form), tuple(outputs))
        self._loops: dict[tuple[int, Mode], Callable[..., None]] = {}
        self._take_few = taking_in(reads)
        self._meet_few = meeting(self._width, reads)

    @property
    def _vectors(self) -> list[Any]:
        return self._state.keys.columns[1:]

    # --- changes ---

    def take(self, side: int, delta: Delta) -> None:
        """Changes of the relation of one side, as they come: let them in, and add what they contribute."""
        for mode, batch in delta.runs():
            loop = self._loops.get((side, mode))
            if loop is None:
                make = anchor_columns if side == self._anchor else other_columns
                loop = self._loops[side, mode] = make(*self._plan, mode)
            columns: list[Any] = []
            guarded(self.text, loop, batch, columns, bare=mode != "weighted")
            keys, weights, *rest = columns
            sign = -1 if mode == "lost" else 1
            counts = sign if weights is None else weights
            if side == self._anchor:
                self._take_in(keys, counts, rest[0])
            else:
                self._meet(keys, counts, rest, sign)

    def _take_in(self, keys: list[Any], counts: Counts, groups: list[Any]) -> None:
        """Rows of the anchor: A changes."""
        self._fit(rows=len(keys) if isinstance(counts, int) else sum(map(abs, counts)))
        if self._narrow and len(keys) >= MANY:
            from operators.columnar.arrays import take_in_many

            self._changed(*take_in_many(self._state, keys, counts, groups))
            return
        numbers, cells, pairs, _ = self._state
        rows = zip(keys, _each(counts, keys), groups, strict=True)
        touch, leave = self.groups.touched.add, self._left.add
        self._take_few(rows, numbers, cells, pairs.add, touch, leave, numbers.columns, cells.columns)

    def _meet(self, keys: list[Any], counts: Counts, values: list[list[int]], sign: int) -> None:
        """Rows of the other side: V changes."""
        numbers, cells, pairs, _ = self._state
        if self._narrow and self._many(keys):
            from operators.columnar.arrays import meet_many

            found = meet_many(self._state, self._top, keys, counts, values, sign)
            if found is not None:
                self._changed(*found)
                return
            self._widen()
        changes: dict[Any, list[int]] = {}
        for key, count, *more in zip(keys, _each(counts, keys), *values, strict=True):
            amounts = [count, *[sign * value for value in more]]
            known = changes.get(key)
            changes[key] = amounts if known is None else [a + b for a, b in zip(known, amounts, strict=True)]
        self._fit(amounts=[sum(map(abs, column)) for column in zip(*changes.values(), strict=True)])
        touch, leave = self.groups.touched.add, self._left.add
        self._meet_few(changes.items(), numbers, pairs.of, touch, leave, numbers.columns, cells.columns)

    def _many(self, keys: list[Any]) -> bool:
        """Whether changes of these keys are a case for numpy."""
        numbers, _, pairs, _ = self._state
        if len(keys) >= MANY:
            effort = AROUND * len(keys)
        else:
            reach = sum([pairs.size(numbers[key]) for key in keys if key in numbers])
            effort = AROUND // 10 * reach if reach >= REACH else 0
        return effort > len(numbers.names) + pairs.recent

    def _changed(self, groups: Any, keys: Any) -> None:
        """Groups have changed, and keys have lost something: arrays of numbers."""
        self.groups.touched_too.append(groups)
        self._left_too.append(keys)

    def _fit(self, rows: int = 0, amounts: Sequence[int] = ()) -> None:
        """So many rows of the anchor are to come, or so much to the columns of V: see that no sum can become too large
        for its column."""
        if not self._narrow:
            return
        self._top = [top + more for top, more in zip(self._top, amounts or repeat(0), strict=False)]
        rows = max(1, rows + self._state.pairs.weight)
        if rows * max(1, *self._top) > HIGHEST:
            exact = [max(map(abs, vector), default=0) for vector in self._vectors]
            self._top = [top + more for top, more in zip(exact, amounts or repeat(0), strict=False)]
            if rows * max(1, *self._top) > HIGHEST // 2:  # so that it takes a while until this is looked at again
                self._widen()

    def _widen(self) -> None:
        """Make room for numbers of any size."""
        self._narrow = False
        self._state.keys.widen()
        self._state.pairs.widen()
        self.groups.widen()

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        """All changes are in: the heads that fall and those that rise. Keys that nobody has any more are let go."""
        gone, new = self.groups.flush()
        keys = self._state.keys
        left, self._left = self._left, set()
        arrays, self._left_too = self._left_too, []
        if arrays and self._narrow:
            from operators.columnar.arrays import empty

            left.update(empty(keys, arrays))
        else:
            left.update(*(numbers.tolist() for numbers in arrays))
        columns = keys.columns
        for j in sorted(left):
            if not any([column[j] for column in columns]):
                keys.give_back(j)
        return gone, new

    # --- looking in ---

    def items(self, side: int) -> Iterator[tuple[Tuple, Any]]:
        """What is kept of a side: (key columns..., columns of the group...), or just the key, with the vectors."""
        spread, keys = self.sides[side].spread, self._state.keys
        if side == self._anchor:
            for j, g, count in self._state.pairs:
                yield spread(keys.names[j]) + self.groups.row(g), count
            return
        for key, j in keys.items():
            vector = [column[j] for column in self._vectors]
            if any(vector):
                yield spread(key), vector[0] if self._width == 1 else vector

    def stats(self) -> dict[str, int]:
        return {name: sum(1 for _ in self.items(side)) for side, name in enumerate(("left", "right"))}

    def check(self) -> None:
        """Assert that S = A'V, that only sums of some rows are kept, and that nothing is kept for nothing."""
        keys, groups, pairs, reads = self._state
        keys.check()
        rows, uses = [0] * len(keys.names), [0] * len(groups.names)
        sums = [[0] * len(uses) for _ in reads]
        for j, g, count in pairs:
            assert count > 0, "a pair of no rows is kept"
            rows[j] += count
            uses[g] += count
            for total, k in zip(sums, reads, strict=True):
                total[g] += count * self._vectors[k][j]
        assert rows == list(keys.columns[0]), "rows of keys are miscounted"
        assert uses == list(self.groups.uses), "rows of groups are miscounted"
        assert sums == list(map(list, self.groups.sums)), "a sum is wrong"
        for j in keys.values():
            assert rows[j] or self._vectors[0][j] > 0, "an empty lineage key is kept"
        assert not self._left and not self._left_too, "a transaction is not settled"


def _each(counts: Counts, keys: list[Any]) -> Iterable[int]:
    return repeat(counts, len(keys)) if isinstance(counts, int) else counts

