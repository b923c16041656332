"""Pairs: how many rows there are of each pair of a key and a group, both by number."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

__all__ = ["Pairs"]

RECENT = 4_000
"""Pairs that are not sorted in yet; more of them if there are many others: half of these."""


class Pairs:
    """A sparse matrix of counts that is added to, and read by key.

    Most of it is sorted: `_starts` says for each key where its groups begin in `_groups`, with their `_counts`. What
    came since then is `_recent`: keys, groups and changes of counts, as they came, and the same pair perhaps several
    times. When there is much of it, it is sorted in, so that a pair costs O(1) on average. Small changes read it by
    key, from `_index`, which has the first `_indexed` of it. `weight` is the sum of all counts, without their signs.

    >>> pairs = Pairs(); pairs.add(0, 7, 1); pairs.add(1, 7, 1); pairs.add(0, 8, 2); pairs.of(0)
    [(7, 1), (8, 2)]
    >>> pairs.add(0, 7, -1); pairs.of(0), sorted(pairs)
    ([(7, 1), (8, 2), (7, -1)], [(0, 8, 2), (1, 7, 1)])
    >>> pairs.of(0)
    [(8, 2)]
    """

    def __init__(self) -> None:
        self._column: Callable[[Iterable[int]], Any] = partial(array, "q")
        self._starts: Any = self._column([0])
        self._groups: Any = self._column([])
        self._counts: Any = self._column([])
        self._index: dict[int, list[tuple[int, int]]] = {}
        self.weight = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Nothing is recent."""
        self._recent: tuple[Any, Any, Any] = (self._column([]), self._column([]), self._column([]))
        self._index.clear()
        self._indexed = 0

    @property
    def recent(self) -> int:
        """How much is not sorted in."""
        return len(self._recent[0])

    def add(self, key: int, group: int, count: int) -> None:
        """Change the count of a pair."""
        keys, groups, counts = self._recent
        keys.append(key)
        groups.append(group)
        counts.append(count)
        self.weight += abs(count)
        if len(keys) > RECENT:
            self._sort_some()

    def add_all(self, keys: Any, groups: Any, counts: Any) -> None:
        """Change the counts of many pairs, given as three arrays of numpy."""
        for column, values in zip(self._recent, (keys, groups, counts), strict=True):
            column.frombytes(values.tobytes())
        self.weight += int(abs(counts).sum())
        self._sort_some()

    def of(self, key: int) -> list[tuple[int, int]]:
        """The groups of a key with their counts; the counts of a group that stands there several times add up."""
        found: list[tuple[int, int]] = []
        if key + 1 < len(self._starts):
            part = slice(self._starts[key], self._starts[key + 1])
            found.extend(zip(self._groups[part], self._counts[part], strict=True))
        if self._indexed < self.recent:
            for at, group, count in zip(*(column[self._indexed :] for column in self._recent), strict=True):
                self._index.setdefault(at, []).append((group, count))
            self._indexed = self.recent
        found.extend(self._index.get(key, ()))
        return found

    def size(self, key: int) -> int:
        """How many groups a key has among what is sorted. O(1)."""
        return self._starts[key + 1] - self._starts[key] if key + 1 < len(self._starts) else 0

    def under(self, marked: Any) -> tuple[Any, Any, Any]:
        """Keys, groups and counts of all pairs whose key is marked in an array of flags; the same pair may recur."""
        from operators.columnar.arrays import pairs_under

        found: tuple[Any, Any, Any] = pairs_under(marked, self._starts, self._groups, self._counts, self._recent)
        return found

    def _sort_some(self) -> None:
        if self.recent > RECENT and 2 * self.recent > len(self._groups):
            self.sort()

    def sort(self) -> None:
        """Sort everything in; pairs whose count is 0 are dropped."""
        if not self.recent:
            return
        if self._column is list or self.recent + len(self._groups) <= RECENT:
            self._sort_by_hand()
        else:
            from operators.columnar.arrays import sorted_pairs

            parts = sorted_pairs(self._starts, self._groups, self._counts, self._recent)
            self._starts, self._groups, self._counts, self.weight = parts
        self._begin_anew()

    def _sort_by_hand(self) -> None:
        """Without numpy: for a few pairs, or counts of any size."""
        totals = Counter({(key, group): count for key, group, count in self._sorted()})
        for key, group, count in zip(*self._recent, strict=True):
            totals[key, group] += count
        kept = sorted((*pair, count) for pair, count in totals.items() if count)
        starts = [0]
        for at, (key, _, _) in enumerate(kept):
            starts += [at] * (key + 1 - len(starts))
        self._starts = self._column([*starts, len(kept)])
        self._groups = self._column([group for _, group, _ in kept])
        self._counts = self._column([count for _, _, count in kept])
        self.weight = sum(map(abs, self._counts))

    def widen(self) -> None:
        """From now on counts may be of any size."""
        self._column = list
        self._starts, self._groups, self._counts = map(list, (self._starts, self._groups, self._counts))
        keys, groups, counts = map(list, self._recent)
        self._recent = (keys, groups, counts)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """All pairs, each once, as key, group and count."""
        self.sort()
        return self._sorted()

    def _sorted(self) -> Iterator[tuple[int, int, int]]:
        for key in range(len(self._starts) - 1):
            for at in range(self._starts[key], self._starts[key + 1]):
                yield key, self._groups[at], self._counts[at]
