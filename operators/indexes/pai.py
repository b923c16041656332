"""PAIMap: a hashed index: O(1) for one key, O(n) for ranges of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import add, sub
from typing import Any

from operators.indexes.index import AggregateIndex, exact

__all__ = ["PAIMap", "PAIVectors"]


class PAIMap(AggregateIndex):
    """Numbers by key, hashed (a partial aggregate index): where keys are only met by equality, the fastest there is.

    It has all the methods of an `RPAITree`, so that one can be checked against the other. Keys must be hashable, and
    only what speaks of an order needs them to have one.

    >>> sums = PAIMap(); sums.add("a", 5); sums.add("b", 1); sums.add("a", -5); sums.get("a"), sums.get("b")
    (0, 1)
    """

    __slots__ = ("_entries", "total")

    zero: Any = 0

    def __init__(self) -> None:
        self._entries: dict[Any, Any] = {}
        self.total: Any = self.zero

    @classmethod
    def from_items(cls, items: Iterable[tuple[Any, Any]]) -> PAIMap:
        """An index of these entries; those with equal keys are added up. O(n)

        >>> list(PAIMap.from_items([(3, 1), (1, 1), (3, 4), (2, 0)]).items())
        [(1, 1), (3, 5)]
        """
        index = cls()
        index._load(items)
        return index

    def _load(self, items: Iterable[tuple[Any, Any]]) -> None:
        self._entries = self._added_up(items)
        self.total = self._sum(self._entries.values())

    def get(self, k: Any) -> Any:
        """The value at a key, 0 where there is none. O(1)

        >>> PAIMap.from_items([(1, 10)]).get(1)
        10
        """
        return self._entries.get(k, self.zero)

    def add(self, k: Any, v: Any) -> None:
        """Add to the value at a key. O(1)

        >>> index = PAIMap(); index.add(1, 10); index.add(1, 5); index.get(1)
        15
        """
        entries = self._entries
        left = entries.get(k, 0) + v
        if left:
            entries[k] = left
        elif k in entries:
            del entries[k]
        self.total += v

    def get_sum(self, k: Any) -> Any:
        """The sum of the values with keys <= k. O(n)

        >>> PAIMap.from_items([(1, 10), (2, 20), (3, 30)]).get_sum(2)
        30
        """
        return self._sum([v for key, v in self._entries.items() if key <= k])

    def get_sum_below(self, k: Any) -> Any:
        """The sum of the values with keys < k. O(n)

        >>> PAIMap.from_items([(1, 10), (2, 20), (3, 30)]).get_sum_below(2)
        10
        """
        return self._sum([v for key, v in self._entries.items() if key < k])

    def shift_keys(self, k: Any, d: Any, inclusive: bool = False) -> None:
        """Add d to all keys > k, or >= k if `inclusive`; entries whose keys become equal are added up. O(n)

        >>> index = PAIMap.from_items([(1, 10), (2, 20), (3, 30)])
        >>> index.shift_keys(1, -1); list(index.items())
        [(1, 30), (2, 30)]
        """
        exact(d)
        for key in self._entries:
            exact(key)
        moves = [key for key in self._entries if key > k or (inclusive and key == k)]
        moved = [(key + d, self._entries.pop(key)) for key in moves]
        for key, v in moved:
            self.add(key, v)
            self.total = self._minus(self.total, v)

    def items(self, lo: Any = None, hi: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The entries with lo <= key <= hi, in order or from the other end. O(n log n)

        >>> list(PAIMap.from_items([(3, 30), (1, 10), (2, 20)]).items(2))
        [(2, 20), (3, 30)]
        """
        for key in sorted(self._entries, reverse=reverse):
            if (lo is None or lo <= key) and (hi is None or key <= hi):
                yield key, self._entries[key]

    def first_sum(self, holds: Callable[[Any], bool]) -> tuple[Any, Any]:
        """The first key for which something holds of the sum up to and with it, and the sum of what is before it.
        O(n log n)

        >>> PAIMap.from_items([(1, 10), (2, 20), (3, 30)]).first_sum(lambda s: s > 10)
        (2, 10)
        """
        before = self.zero
        for key, v in self.items():
            after = self._plus(before, v)
            if holds(self._leading(after)):
                return key, before
            before = after
        return None, before

    def first_key(self, holds: Callable[[Any], bool]) -> Any:
        """The first key of which something holds; None if there is none. O(n)

        >>> PAIMap.from_items([(1, 10), (2, 20), (3, 30)]).first_key(lambda k: k * k > 4)
        3
        """
        return min((key for key in self._entries if holds(key)), default=None)

    def __len__(self) -> int:
        return len(self._entries)

    def check(self) -> None:
        """Assert that no entry is zero and that the total is right. O(n)

        >>> PAIMap.from_items([(1, 10), (2, 20)]).check()
        """
        assert all(v != self.zero for v in self._entries.values()), "an entry of nothing"
        assert self._sum(self._entries.values()) == self.total, "the total is wrong"

    def _sum(self, values: Iterable[Any]) -> Any:
        return sum(values)

    def _leading(self, value: Any) -> Any:
        """The first number of a value."""
        return value

    def _plus(self, a: Any, b: Any) -> Any:
        return a + b

    def _minus(self, a: Any, b: Any) -> Any:
        return a - b


class PAIVectors(PAIMap):
    """Vectors of `width` numbers by key, hashed.

    >>> sums = PAIVectors(2); sums.add("a", (5, 1)); sums.add("a", (-5, 1)); sums.get("a"), sums.get("b")
    ((0, 2), (0, 0))
    """

    __slots__ = ("zero",)

    def __init__(self, width: int) -> None:
        self.zero = (0,) * width
        super().__init__()

    @classmethod
    def from_items(cls, items: Iterable[tuple[Any, Any]], width: int = 1) -> PAIVectors:
        """An index of these entries; those with equal keys are added up. O(n)

        >>> list(PAIVectors.from_items([(3, (1, 1)), (1, (1, 1)), (3, (4, 1))], width=2).items())
        [(1, (1, 1)), (3, (5, 2))]
        """
        index = cls(width)
        index._load(items)
        return index

    def add(self, k: Any, v: Any) -> None:
        """Add to the vector at a key. O(1)

        >>> sums = PAIVectors(2); sums.add(1, (10, 1)); sums.add(1, (5, 1)); sums.get(1)
        (15, 2)
        """
        entries = self._entries
        left = tuple(map(add, entries.get(k, self.zero), v))
        if any(left):
            entries[k] = left
        elif k in entries:
            del entries[k]
        self.total = tuple(map(add, self.total, v))

    def _sum(self, values: Iterable[Any]) -> Any:
        return tuple(map(sum, zip(*values, strict=True))) or self.zero

    def _leading(self, value: Any) -> Any:
        return value[0]

    def _plus(self, a: Any, b: Any) -> Any:
        return tuple(map(add, a, b))

    def _minus(self, a: Any, b: Any) -> Any:
        return tuple(map(sub, a, b))
