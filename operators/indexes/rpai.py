"""RPAITree: an ordered index of numbers, every operation in logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from operators.indexes.index import exact
from operators.indexes.nodes import FEWEST, WIDEST, place
from operators.indexes.tree import Tree

__all__ = ["RPAITree"]


class RPAITree(Tree):
    """Numbers by key, in the order of the keys (a relative partial aggregate index).

    A tree of wide nodes, plain lists of up to WIDEST entries, whose keys are relative to their parent (nodes.py): what
    happens on a level is a binary search and a slice, which Python does in C. All costs have the factor
    WIDEST / log WIDEST, which is left out below.

    >>> bids = RPAITree.from_items([(100, 5), (101, 3), (103, 4)])
    >>> bids.add(102, 1); bids.get_sum(102), bids.total
    (9, 13)
    >>> bids.shift_keys(101, -1); list(bids.items())
    [(100, 5), (101, 4), (102, 4)]
    """

    __slots__ = ("total",)

    zero = 0

    def __init__(self) -> None:
        super().__init__(width=1)
        self.total: Any = 0

    @classmethod
    def from_items(cls, items: Iterable[tuple[Any, Any]], shifting: bool = False) -> RPAITree:
        """An index of these entries; those with equal keys are added up. O(n log n)

        Who is going to shift keys says so: it spares the index its conversion later.

        >>> list(RPAITree.from_items([(3, 1), (1, 1), (3, 4), (2, 0)]).items())
        [(1, 1), (3, 5)]
        """
        index = cls()
        index._load(items, shifting)
        return index

    def get(self, k: Any) -> Any:
        """The value at a key, 0 where there is none. O(log n)

        >>> index = RPAITree.from_items([(1, 10)]); index.get(1), index.get(2)
        (10, 0)
        """
        relative = self._relative
        if relative and type(k) is not int:
            k = self._exactly(k)
        keys, children, values = self._root
        while children is not None:
            i = bisect_right(keys, k, 1) - 1
            if relative:
                k -= keys[i]
            keys, children, values = children[i]
        i = bisect_left(keys, k)
        return values[i] if i < len(keys) and keys[i] == k else 0

    def add(self, k: Any, v: Any) -> None:
        """Add to the value at a key. O(log n)

        >>> index = RPAITree(); index.add(1, 10); index.add(1, 5); index.get(1)
        15
        >>> index.add(1, -15); len(index)
        0
        """
        if not v:
            return
        relative = self._relative
        if relative and type(k) is not int:
            exact(k)
        key = k
        keys, children, values = self._root
        while children is not None:
            i = bisect_right(keys, key, 1) - 1
            if relative:
                key -= keys[i]
            values[i] += v
            keys, children, values = children[i]
        i = bisect_left(keys, key)
        self.total += v
        if i < len(keys) and keys[i] == key:
            values[i] += v
            if not values[i]:
                del keys[i], values[i]
                self._size -= 1
                if len(keys) < FEWEST:
                    self._merge(k)
            return
        keys.insert(i, key)
        values.insert(i, v)
        self._size += 1
        if len(keys) > WIDEST:
            self._split(k)

    def get_sum(self, k: Any) -> Any:
        """The sum of the values with keys <= k. O(log n)

        >>> RPAITree.from_items([(1, 10), (2, 20), (3, 30)]).get_sum(2)
        30
        """
        relative = self._relative
        if relative and type(k) is not int:
            k = self._exactly(k)
        below = 0
        keys, children, values = self._root
        while children is not None:
            i = bisect_right(keys, k, 1) - 1
            below += sum(values[:i])
            if relative:
                k -= keys[i]
            keys, children, values = children[i]
        return below + sum(values[: bisect_right(keys, k)])

    def get_sum_below(self, k: Any) -> Any:
        """The sum of the values with keys < k. O(log n)

        >>> RPAITree.from_items([(1, 10), (2, 20), (3, 30)]).get_sum_below(2)
        10
        """
        relative = self._relative
        if relative and type(k) is not int:
            k = self._exactly(k)
        below = 0
        keys, children, values = self._root
        while children is not None:
            i = bisect_right(keys, k, 1) - 1
            below += sum(values[:i])
            if relative:
                k -= keys[i]
            keys, children, values = children[i]
        return below + sum(values[: bisect_left(keys, k)])

    def first_sum(self, holds: Callable[[Any], bool]) -> tuple[Any, Any]:
        """The first key for which something holds of the sum up to and with it, and the sum of what is before it.
        O(log n)

        >>> index = RPAITree.from_items([(1, 10), (2, 20), (3, 30)])
        >>> index.first_sum(lambda s: s > 10), index.first_sum(lambda s: s > 60)
        ((2, 10), (None, 60))
        """
        if not self._size or not holds(self.total):
            return None, self.total
        by, before, relative = 0, 0, self._relative
        keys, children, values = self._root
        while children is not None:
            i, before = place(values, before, holds)
            if relative:
                by += keys[i]
            keys, children, values = children[i]
        i, before = place(values, before, holds)
        return keys[i] + by if relative else keys[i], before

    def first_above(self, limit: Any, inclusive: bool = False) -> tuple[Any, Any]:
        """`first_sum` of sums > limit, or >= limit if `inclusive`. O(log n)

        Sums are compared with a number, so a level is a search among its running sums, which Python does in C.

        >>> index = RPAITree.from_items([(1, 10), (2, 20), (3, 30)])
        >>> index.first_above(30), index.first_above(30, inclusive=True), index.first_above(60)
        ((3, 30), (2, 10), (None, 60))
        """
        total = self.total
        if not self._size or not (limit <= total if inclusive else limit < total):
            return None, total
        find = bisect_left if inclusive else bisect_right
        by, before, relative = 0, 0, self._relative
        keys, children, values = self._root
        while True:
            sums = list(accumulate(values, initial=before))
            i = find(sums, limit, 1, len(values)) - 1
            before = sums[i]
            if children is None:
                return keys[i] + by if relative else keys[i], before
            if relative:
                by += keys[i]
            keys, children, values = children[i]

    def _plus(self, a: Any, b: Any) -> Any:
        return a + b

    def _minus(self, a: Any, b: Any) -> Any:
        return a - b

    def _value(self, numbers: list[Any]) -> Any:
        return numbers[0]

    def _columns(self, values: list[Any]) -> list[list[Any]]:
        return [values]
