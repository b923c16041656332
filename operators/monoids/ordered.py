"""Aggregates of ordered multisets: min and max."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sortedcontainers import SortedDict

from operators.exact import pack

__all__ = ["Extreme"]


class Extreme:
    """The smallest or the largest of a multiset.

    Most groups hold one value, and need no structure at all. Of small ones, a plain dict whose smallest key is
    searched for beats an ordered structure in memory and time; past LARGE different values it becomes a sorted
    one, O(log n) an operation.

    >>> m = Extreme(largest=False)
    >>> for v in (3, 1, 1): m.add(v, 1)
    >>> m.add(1, -1); m.result(), m.add(1, -1), m.result()
    (1, None, 3)
    """

    LARGE = 24
    __slots__ = ("_largest", "_only", "_weights", "count")

    def __init__(self, largest: bool) -> None:
        self.count = 0
        self._largest = largest
        self._only: Any = None  # the one value, while there are no `_weights`
        self._weights: Any = None

    def add(self, value: Any, weight: int) -> None:
        weights = self._weights
        if weights is None:
            if not self.count or value == self._only:
                self._only = value
                self.count += weight
                return
            weights = self._weights = {self._only: self.count}
        self.count += weight
        left = weights.get(value, 0) + weight
        if left:
            weights[value] = left
            if len(weights) > self.LARGE and type(weights) is dict:
                self._weights = SortedDict(weights)
        else:
            del weights[value]

    def add_all(self, values: Collection[Any]) -> None:
        known = 0 if self._weights is None else len(self._weights)
        if len(values) <= max(known, self.LARGE):
            for value in values:
                self.add(value, 1)
            return
        # many at once: sorted once, at the end
        weights = dict(self._weights or ({self._only: self.count} if self.count else {}))
        for value in values:
            left = weights.get(value, 0) + 1
            if left:
                weights[value] = left
            else:
                del weights[value]
        self.count += len(values)
        self._weights = weights if len(weights) <= self.LARGE else SortedDict(weights)

    def result(self) -> Any:
        weights = self._weights
        if not self.count:
            return None
        if weights is None:
            return self._only
        if type(weights) is dict:
            return max(weights) if self._largest else min(weights)
        return weights.peekitem(-1 if self._largest else 0)[0]

    def kept(self) -> Iterable[Any]:
        weights = {self._only: self.count} if self._weights is None else self._weights
        return ((value, pack(weight)) for value, weight in weights.items())
