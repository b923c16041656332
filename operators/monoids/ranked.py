"""Ranked: a multiset that knows its smallest, its largest, and what is at any place in its order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, chain
from typing import Any

__all__ = ["Ranked"]


class Ranked:
    """Values with weights, in order when somebody asks.

    `weights` is what is in. Changes only go there; reading brings the order up to date. So values that come and go
    within a transaction cost nothing more, many at once are sorted once, and a comparison that fails does so where an
    answer is asked for. Up to SMALL values are sorted whenever they are read; above that there are `Blocks`.

    Equal values are one, as everywhere in the language: 1 and 1.0, or [1] and [1.0].

    >>> r = Ranked(); r.add_all([3, 1, 2, 1]); [r.at(i) for i in range(4)], r.smallest(3), r.largest(2)
    ([1, 1, 2, 3], (1, 1, 2), (3, 2))
    """

    SMALL = 24
    __slots__ = ("_blocks", "weights")

    def __init__(self) -> None:
        self.weights: dict[Any, int] = {}
        self._blocks: Blocks | None = None

    def add(self, value: Any, weight: int) -> None:
        """Let a value in, or take it out. O(1)."""
        weights = self.weights
        old = weights.get(value, 0)
        if self._blocks is not None:
            self._blocks.touched.setdefault(value, old)
        if old + weight:
            weights[value] = old + weight
        else:
            weights.pop(value, None)

    def add_all(self, values: Collection[Any]) -> None:
        """Let each of the values in once. O(1) each."""
        for value in values:
            self.add(value, 1)

    def at(self, place: int) -> Any:
        """The value at a place of the order, counted from 0 and with repetitions. O(1) but for `Blocks.find`."""
        blocks = self._settled()
        values, place = (sorted(self.weights), place) if blocks is None else blocks.find(place)
        weights = self.weights
        for value in values:
            place -= weights[value]
            if place < 0:
                return value
        raise IndexError("so much is not in")

    def smallest(self, size: int) -> tuple[Any, ...]:
        """Up to `size` values from below, with repetitions. O(size) once the order is up to date."""
        return self._first(chain.from_iterable(self._lists()), size)

    def largest(self, size: int) -> tuple[Any, ...]:
        """Up to `size` values from above, the largest first, with repetitions. O(size) once the order is up to date."""
        return self._first(chain.from_iterable(map(reversed, reversed(self._lists()))), size)

    def __iter__(self) -> Iterator[Any]:
        """All values in order, with repetitions. O(n)."""
        weights = self.weights
        return (value for values in self._lists() for value in values for _ in range(weights[value]))

    def _first(self, values: Iterable[Any], size: int) -> tuple[Any, ...]:
        found: list[Any] = []
        for value in values:
            found += [value] * min(self.weights[value], size - len(found))
            if len(found) == size:
                break
        return tuple(found)

    def _lists(self) -> list[list[Any]]:
        """Sorted lists of the different values, one after the other."""
        blocks = self._settled()
        return [sorted(self.weights)] if blocks is None else blocks.lists

    def _settled(self) -> Blocks | None:
        """The blocks, up to date; None where there are so few values that they need none."""
        if len(self.weights) <= self.SMALL:
            self._blocks = None
        elif self._blocks is None or self._blocks.stale():
            self._blocks = Blocks(self.weights)
        else:
            self._blocks.settle()
        return self._blocks

    def check(self) -> None:
        """Assert that the blocks hold exactly what is in, in order. O(n)."""
        blocks = self._settled()
        if blocks is not None:
            assert list(chain.from_iterable(blocks.lists)) == sorted(self.weights), "a value is missing or out of order"
            assert all(0 < len(values) <= 2 * Blocks.LOAD for values in blocks.lists), "a block is too long or empty"
            assert blocks.lasts == [values[-1] for values in blocks.lists], "a block ends with another value"
            assert blocks.totals == [sum(map(self.weights.__getitem__, values)) for values in blocks.lists]


class Blocks:
    """The different values of a multiset in order, as `lists` of at most 2 * LOAD, in the manner of sortedcontainers.

    `lasts` is the last value of each list, `totals` the weight of all in it. `touched` are the values that changed
    since the lists were made or settled, with the weights that `totals` knows of. A value that changed is moved in
    O(log n + LOAD), the second being one `memmove`. LOAD balances that with the number of lists, whose totals are added
    up to find a place.
    """

    LOAD = 1024
    __slots__ = ("lasts", "lists", "places", "totals", "touched", "weights")

    def __init__(self, weights: dict[Any, int]) -> None:
        values = sorted(weights)
        self.weights = weights
        self.lists = [values[i : i + self.LOAD] for i in range(0, len(values), self.LOAD)]
        self.lasts = [values[-1] for values in self.lists]
        self.totals = [sum(map(weights.__getitem__, values)) for values in self.lists]
        self.places: list[int] | None = None  # the sums of the totals so far, if somebody needed them
        self.touched: dict[Any, int] = {}

    def stale(self) -> bool:
        """Whether sorting all is cheaper: much has changed, or the lists have become short."""
        return len(self.touched) * 8 > len(self.weights) or (len(self.lists) - 8) * self.LOAD > 8 * len(self.weights)

    def settle(self) -> None:
        """Bring the lists up to date."""
        if self.touched:
            self.places = None
        while self.touched:
            value, old = self.touched.popitem()
            now = self.weights.get(value, 0)
            if now != old:
                self._move(value, old, now)

    def find(self, place: int) -> tuple[list[Any], int]:
        """The values among which to look for a place, and the place counted from their beginning. O(n / LOAD)."""
        if self.places is None:
            self.places = list(accumulate(self.totals))
        number = bisect_right(self.places, place)
        values, total = self.lists[number], self.totals[number]
        place -= self.places[number] - total
        return (values[place : place + 1], 0) if total == len(values) else (values, place)

    def _move(self, value: Any, old: int, now: int) -> None:
        number = min(bisect_left(self.lasts, value), len(self.lists) - 1)
        values = self.lists[number]
        self.totals[number] += now - old
        if old and now:
            return
        at = bisect_left(values, value)
        if now:
            values.insert(at, value)
        else:
            del values[at]
        if not values:
            del self.lists[number], self.totals[number], self.lasts[number]
            return
        self.lasts[number] = values[-1]
        if len(values) > 2 * self.LOAD:
            self._split(number, values)

    def _split(self, number: int, values: list[Any]) -> None:
        upper = values[self.LOAD :]
        del values[self.LOAD :]
        # of those still to be moved, the total knows the weight that they had
        weight = sum(self.touched[v] if v in self.touched else self.weights[v] for v in upper)
        self.lists.insert(number + 1, upper)
        self.lasts[number : number + 1] = [values[-1], upper[-1]]
        self.totals[number : number + 1] = [self.totals[number] - weight, weight]
