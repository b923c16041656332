"""RPAIVectors: the ordered index whose values are vectors of numbers of one width."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import add, sub
from typing import Any

from operators.indexes.columns import ways
from operators.indexes.index import exact
from operators.indexes.nodes import FEWEST, WIDEST, place
from operators.indexes.tree import Tree

__all__ = ["RPAIVectors"]

Vector = tuple[Any, ...]


class RPAIVectors(Tree):
    """Vectors of `width` numbers by key, in the order of the keys. The costs are those of `RPAITree`, times the width.

    An entry lives while one of its numbers is not zero. With the number of holders among them, an entry lives as long
    as somebody holds it, even if all that they hold cancels out:

    >>> sums = RPAIVectors(2)  # (sum, how many)
    >>> sums.add(7, (5, 1)); sums.add(7, (-5, 1)); sums.get(7), len(sums)
    ((0, 2), 1)
    >>> sums.add(7, (5, -1)); sums.add(7, (-5, -1)); len(sums)
    0
    """

    __slots__ = ("_enter", "_summed", "total", "zero")

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self._summed, self._enter = ways(width)
        self.zero: Vector = (0,) * width
        self.total: Vector = self.zero

    @classmethod
    def from_items(cls, items: Iterable[tuple[Any, Vector]], width: int, shifting: bool = False) -> RPAIVectors:
        """An index of these entries; those with equal keys are added up. O(n log n)

        >>> list(RPAIVectors.from_items([(3, (1, 1)), (1, (1, 1)), (3, (4, 1))], width=2).items())
        [(1, (1, 1)), (3, (5, 2))]
        """
        index = cls(width)
        index._load(items, shifting)
        return index

    def get(self, k: Any) -> Vector:
        """The vector at a key, zeros where there is none. O(log n)

        >>> sums = RPAIVectors.from_items([(1, (10, 1))], width=2); sums.get(1), sums.get(2)
        ((10, 1), (0, 0))
        """
        relative = self._relative
        if relative and type(k) is not int:
            k = self._exactly(k)
        node = self._root
        while node[1] is not None:
            i = bisect_right(node[0], k, 1) - 1
            if relative:
                k -= node[0][i]
            node = node[1][i]
        keys, _, *columns = node
        i = bisect_left(keys, k)
        return tuple([column[i] for column in columns]) if i < len(keys) and keys[i] == k else self.zero

    def add(self, k: Any, v: Sequence[Any]) -> None:
        """Add to the vector at a key. O(log n)

        >>> sums = RPAIVectors(2); sums.add(1, (10, 1)); sums.add(1, (5, 1)); sums.get(1)
        (15, 2)
        """
        if type(k) is not int and self._relative:
            exact(k)
        keys = self._enter(self, k, v)
        if keys is not None:
            if len(keys) > WIDEST:
                self._split(k)
            elif len(keys) < FEWEST:
                self._merge(k)

    def get_sum(self, k: Any) -> Vector:
        """The sum of the vectors with keys <= k. O(log n)

        >>> RPAIVectors.from_items([(1, (10, 1)), (2, (20, 1)), (3, (30, 1))], width=2).get_sum(2)
        (30, 2)
        """
        return self._sum(k, bisect_right)

    def get_sum_below(self, k: Any) -> Vector:
        """The sum of the vectors with keys < k. O(log n)

        >>> RPAIVectors.from_items([(1, (10, 1)), (2, (20, 1)), (3, (30, 1))], width=2).get_sum_below(2)
        (10, 1)
        """
        return self._sum(k, bisect_left)

    def _sum(self, k: Any, bisect: Any) -> Vector:
        relative = self._relative
        if relative and type(k) is not int:
            k = self._exactly(k)
        return self._summed(self._root, k, relative, bisect)

    def first_sum(self, holds: Callable[[Any], bool]) -> tuple[Any, Vector]:
        """The first key for which something holds of the first number of the sum up to and with it, and the sum of the
        vectors before it. O(log n)

        >>> index = RPAIVectors.from_items([(1, (10, 1)), (2, (20, 1)), (3, (30, 1))], width=2)
        >>> index.first_sum(lambda s: s > 10), index.first_sum(lambda s: s > 60)
        ((2, (10, 1)), (None, (60, 3)))
        """
        if not self._size or not holds(self.total[0]):
            return None, self.total
        by, node, relative = 0, self._root, self._relative
        before = list(self.zero)
        while True:
            keys, children, first, *others = node
            i, before[0] = place(first, before[0], holds)
            for c, column in enumerate(others, 1):
                before[c] += sum(column[:i])
            if children is None:
                return keys[i] + by if relative else keys[i], tuple(before)
            if relative:
                by += keys[i]
            node = children[i]

    def _plus(self, a: Vector, b: Vector) -> Vector:
        return tuple(map(add, a, b))

    def _minus(self, a: Vector, b: Vector) -> Vector:
        return tuple(map(sub, a, b))

    def _value(self, numbers: list[Any]) -> Vector:
        return tuple(numbers)

    def _columns(self, values: list[Any]) -> list[list[Any]]:
        return [list(column) for column in zip(*values, strict=True)] if values else [[] for _ in self.zero]
