"""Ordered indexes out of larger parts, to compare with the product's: arrays of numpy, and a `SortedDict`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sortedcontainers import SortedDict

__all__ = ["NumpyBlocks", "Sorted"]


class NumpyBlocks:
    """Blocks of numpy arrays, keys relative to their block's fence, with arrays of the fences and of the blocks' sums.

    64 bits wide: it cannot hold what the product must.
    """

    def __init__(self, items: Iterable[tuple[int, int]], width: int = 1024) -> None:
        entries = np.array(list(items), dtype=np.int64)
        self._width = width
        parts = np.split(entries, range(width * 3 // 4, len(entries), width * 3 // 4))
        self._fences = np.array([part[0, 0] for part in parts])
        self._keys = [part[:, 0] - part[0, 0] for part in parts]
        self._values = [part[:, 1].copy() for part in parts]
        self._sums = np.array([values.sum() for values in self._values])

    def _find(self, k: int) -> tuple[int, int]:
        block = max(int(self._fences.searchsorted(k, "right")) - 1, 0)
        return block, k - int(self._fences[block])

    def get(self, k: int) -> int:
        block, k = self._find(k)
        keys = self._keys[block]
        i = int(keys.searchsorted(k))
        return int(self._values[block][i]) if i < len(keys) and keys[i] == k else 0

    def get_sum(self, k: int) -> int:
        block, k = self._find(k)
        i = self._keys[block].searchsorted(k, "right")
        return int(self._sums[:block].sum() + self._values[block][:i].sum())

    def add(self, k: int, v: int) -> None:
        block, k = self._find(k)
        self._sums[block] += v
        keys, values = self._keys[block], self._values[block]
        i = int(keys.searchsorted(k))
        if i < len(keys) and keys[i] == k:
            values[i] += v
            return
        self._keys[block], self._values[block] = np.insert(keys, i, k), np.insert(values, i, v)
        if len(keys) >= self._width:
            self._split(block)

    def _split(self, block: int) -> None:
        keys, values = self._keys[block], self._values[block]
        middle = len(keys) // 2
        self._fences = np.insert(self._fences, block + 1, self._fences[block] + keys[middle])
        self._keys[block : block + 1] = [keys[:middle].copy(), keys[middle:] - keys[middle]]
        self._values[block : block + 1] = [values[:middle].copy(), values[middle:].copy()]
        self._sums = np.insert(self._sums, block + 1, values[middle:].sum())
        self._sums[block] -= self._sums[block + 1]

    def shift_keys(self, k: int, d: int) -> None:
        block, k = self._find(k)
        self._fences[block + 1 :] += d
        keys = self._keys[block]
        keys[keys.searchsorted(k, "right") :] += d


class Sorted:
    """A `SortedDict`: sums and shifts go through the entries one by one."""

    def __init__(self, items: Iterable[tuple[int, int]]) -> None:
        self._entries = SortedDict(items)

    def get(self, k: int) -> int:
        value: int = self._entries.get(k, 0)
        return value

    def get_sum(self, k: int) -> int:
        return sum(map(self._entries.__getitem__, self._entries.irange(maximum=k)))

    def add(self, k: int, v: int) -> None:
        self._entries[k] = self._entries.get(k, 0) + v

    def shift_keys(self, k: int, d: int) -> None:
        entries = self._entries
        moving = [(key, entries[key]) for key in entries.irange(minimum=k, inclusive=(False, True))]
        for key, _ in moving:
            del entries[key]
        entries.update([(key + d, v) for key, v in moving])
