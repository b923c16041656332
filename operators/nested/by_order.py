"""ByOrder: the rows of one relation whose key lies in a range of keys that nested aggregates fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from operators.guard import taking
from operators.nested.cuts import NOTHING
from operators.nested.heads import Heads
from operators.nested.outer import Entry, Outer
from operators.nested.ranges import Ranges
from operators.nested.running import FEW
from operators.nested.verify import verify

__all__ = ["ByOrder"]

Tuple = tuple[Any, ...]


class ByOrder:
    """Outer rows in blocks: those with the same values in the columns of an equality (all, where there is none).

    A change costs O(log n) in its block, and what the ends of the block's range pass over where groups are told apart.
    If a scalar that the threshold depends on changes, that is so for every block.

    >>> from operators.expr import Col
    >>> from operators.monoids import Sum
    >>> from operators.nested import Measures, Results
    >>> from operators.nested.gather import gather_outer, gather_running
    >>> from operators.nested.totals import Totals
    >>> from operators.nested.ranges import AtSum
    >>> from operators.nested.running import Sums
    >>> measures = Measures([(Sum, Col(1), "number")])    # v(sum<b>) :- r(a, b), s < sum b2 : { r(a2, b2), a2 <= a }.
    >>> heads = Results("", 0, measures, (0,))
    >>> sums = Sums("", gather_running((), (), Col(0), Col(1), "number"), "<=", "number")
    >>> ranges = AtSum("", ">", lambda scalars: scalars[0], sums)
    >>> v = ByOrder("", gather_outer((), (), Col(0), (), measures.entries), ranges, heads, lambda: Totals(heads, 2))
    >>> rows = [((1, 10), 1), ((2, 20), 1), ((3, 30), 1)]
    >>> v.change_outer(rows); v.taker()(rows); v.settle((25,), True)
    ([], [(50,)])
    >>> v.settle((30,), True)
    ([(50,)], [(30,)])
    """

    def __init__(
        self,
        text: str,
        kernel: Callable[..., None],
        ranges: Ranges,
        heads: Heads,
        make: Callable[[], Outer],
    ) -> None:
        self.text = text
        self._ranges = ranges
        self._heads = heads
        self._make = make
        self._blocks: dict[Any, Outer] = {}
        self._pending: dict[Any, list[int]] = {}
        self._scalars: Tuple = ()
        self.change_outer = taking(text, kernel, self._pending)  # outer rows came or went

    def taker(self, number: int = 0) -> Callable[[Any], None]:
        """What takes in changes of the inner rows."""
        return self._ranges.receive

    def settle(self, scalars: Tuple, changed: bool) -> tuple[list[Tuple], list[Tuple]]:
        """All is in, and the scalars are these: the heads that fall and those that rise."""
        self._scalars = scalars
        ranges, blocks = self._ranges, self._blocks
        touched = ranges.settle()
        if self._pending:
            self._take(touched)
        if changed:
            for e, block in blocks.items():
                ranges.apply(e, scalars, block)
        else:
            for e in touched:
                if e in blocks:
                    ranges.apply(e, scalars, blocks[e])
        return self._heads.flush()

    def _take(self, touched: dict[Any, Any]) -> None:
        """Bring the pending rows to their blocks; blocks that are left without rows are dropped."""
        pending, blocks = self._pending, self._blocks
        few = len(pending) <= FEW
        changes: dict[Any, list[Entry]] = {}
        fewer = False  # whether rows have left a block
        for (e, key, group), vector in pending.items():
            if any(vector):
                touched[e] = None
                block = blocks.get(e)
                if block is None:
                    block = blocks[e] = self._make()
                if few:
                    block.add(key, group, vector)
                else:
                    changes.setdefault(e, []).append((key, group, vector))
                if vector[0] < 0:
                    fewer = True
        pending.clear()
        for e, entries in changes.items():
            blocks[e].load(entries)
        if fewer:
            for e in touched:
                if e in blocks and not len(blocks[e]):
                    blocks[e].show(NOTHING)
                    del blocks[e]

    def items(self) -> Iterator[Any]:
        """All that is kept of the outer rows."""
        return (entry for block in self._blocks.values() for entry in block.items())

    def stats(self) -> dict[str, int]:
        return {"outer keys": sum(map(len, self._blocks.values())), "inner keys": self._ranges.size()}

    def check(self) -> None:
        """Assert that what qualifies, tried row by row, is what the heads were told. O(n²)"""
        assert not self._pending, "outer rows are not taken over"
        self._ranges.check()
        for block in self._blocks.values():
            assert len(block), "an empty block is kept"
            block.check()
        verify(
            self._heads,
            (
                (group, vector)
                for e, block in self._blocks.items()
                for key, group, vector in block.items()
                if self._ranges.qualifies(e, key, self._scalars)
            ),
        )
