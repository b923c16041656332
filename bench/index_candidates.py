"""Other forms of an ordered index with shifts, to compare with the product's: what they share, and two of them.

A balanced binary tree with keys relative to the parent, as in the RPAI paper, and blocks of plain lists under Fenwick
trees; `index_arrays.py` has the rest. Each does what the benchmark does and no more: shifts by which no key passes
another, and entries that stay. `check_alike` shows that they agree with the product.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Protocol

__all__ = ["BinaryTree", "Candidate", "FenwickBlocks", "check_alike"]


class Candidate(Protocol):
    """What is measured."""

    def get(self, k: int) -> int: ...
    def add(self, k: int, v: int) -> None: ...
    def get_sum(self, k: int) -> int: ...
    def shift_keys(self, k: int, d: int) -> None: ...


def check_alike(one: Candidate, other: Candidate, keys: int, seed: int = 0) -> None:
    """Assert that two indexes of the keys 0, 10, 20, ... go on alike."""
    rng = random.Random(seed)
    for _ in range(300):
        k = rng.randrange(keys * 10)
        d = rng.choice((1, 2))
        for index in (one, other):
            index.add(k, 3)
            index.shift_keys(k + 10, d)
            index.add(k + 1, 2)
            index.shift_keys(k + 10 + d - 1, -d)
        for at in (k, k + 1, k + 40, rng.randrange(keys * 10)):
            assert one.get(at) == other.get(at) and one.get_sum(at) == other.get_sum(at), at


class BinaryTree:
    """A treap: [key relative to the parent, value, sum below, left, right, priority] per node."""

    def __init__(self, items: Iterable[tuple[int, int]]) -> None:
        self._rng = random.Random(1)
        entries = list(items)
        self._root = self._built(entries, 0, 1 / max(len(entries), 1))

    def _built(self, items: list[tuple[int, int]], base: int, rank: float) -> Any:
        """The balanced tree of entries in order; priorities fall with the depth, from 0 to -1."""
        if not items:
            return None
        middle = len(items) // 2
        k, v = items[middle]
        left = self._built(items[:middle], k, rank * 2)
        right = self._built(items[middle + 1 :], k, rank * 2)
        total = v + (left[2] if left else 0) + (right[2] if right else 0)
        return [k - base, v, total, left, right, -rank * (0.5 + self._rng.random() / 2)]

    def get(self, k: int) -> int:
        node = self._root
        while node is not None:
            k -= node[0]
            if not k:
                value: int = node[1]
                return value
            node = node[3] if k < 0 else node[4]
        return 0

    def get_sum(self, k: int) -> int:
        total, node = 0, self._root
        while node is not None:
            k -= node[0]
            if k < 0:
                node = node[3]
            else:
                total += node[2]
                node = node[4]
                if node is not None:
                    total -= node[2]
        return total

    def add(self, k: int, v: int) -> None:
        path = []
        node = self._root
        while node is not None:
            k -= node[0]
            node[2] += v
            if not k:
                node[1] += v
                return
            path.append(node)
            node = node[3] if k < 0 else node[4]
        new = [k, v, v, None, None, -self._rng.random()]
        path[-1][3 if k < 0 else 4] = new
        while path and path[-1][5] < new[5]:
            parent = path.pop()
            self._rotate(parent, new, path[-1] if path else None)

    def _rotate(self, parent: list[Any], child: list[Any], above: list[Any] | None) -> None:
        """Let a child change places with its parent."""
        side, other = (3, 4) if parent[3] is child else (4, 3)
        between, step = child[other], child[0]
        child[0], parent[0] = step + parent[0], -step
        parent[side], child[other] = between, parent
        if between is not None:
            between[0] += step
        child[2] = parent[2]
        parent[2] = parent[1] + sum([node[2] for node in (parent[3], parent[4]) if node is not None])
        if above is None:
            self._root = child
        else:
            above[3 if above[3] is parent else 4] = child

    def shift_keys(self, k: int, d: int) -> None:
        node, moved = self._root, 0  # what the node above moved by
        while node is not None:
            k -= node[0]
            moves = d if k < 0 else 0
            node[0] += moves - moved
            moved = moves
            node = node[3] if k < 0 else node[4]


class FenwickBlocks:
    """Blocks of plain lists, with keys relative to their block's fence; two Fenwick trees over the blocks.

    The trees hold the steps from fence to fence, so that a shift is the change of one step, and the blocks' sums. A
    block that splits makes both anew.
    """

    def __init__(self, items: Iterable[tuple[int, int]], width: int = 256) -> None:
        entries = list(items)
        self._width = width
        self._fences = [entries[i][0] if i else 0 for i in range(0, len(entries), width * 3 // 4)]
        self._keys, self._values = [], []
        for i, fence in enumerate(self._fences):
            part = entries[i * (width * 3 // 4) : (i + 1) * (width * 3 // 4)]
            self._keys.append([k - fence for k, _ in part])
            self._values.append([v for _, v in part])
        self._rebuild(self._fences)

    def _rebuild(self, fences: list[int]) -> None:
        """Make the trees: entry i has the step to fence i, and the sum of block i - 1."""
        n = self._n = len(fences)
        self._steps = steps = [0] + [fences[i] - fences[i - 1] for i in range(1, n)]
        self._sums = sums = [0] + [sum(values) for values in self._values[:-1]]
        for i in range(1, n):
            if (j := i + (i & -i)) < n:
                steps[j] += steps[i]
                sums[j] += sums[i]
        self._top = 1 << n.bit_length() - 1

    def _find(self, k: int) -> tuple[int, int, int]:
        """The block of a key, the key as the block writes it, and the sum of the blocks before it."""
        steps, sums, n, step = self._steps, self._sums, self._n, self._top
        at, before = 0, 0
        while step:
            j = at + step
            if j < n and steps[j] <= k:
                at = j
                k -= steps[j]
                before += sums[j]
            step >>= 1
        return at, k, before

    def get(self, k: int) -> int:
        block, k, _ = self._find(k)
        keys = self._keys[block]
        i = bisect_left(keys, k)
        return self._values[block][i] if i < len(keys) and keys[i] == k else 0

    def get_sum(self, k: int) -> int:
        block, k, before = self._find(k)
        return before + sum(self._values[block][: bisect_right(self._keys[block], k)])

    def add(self, k: int, v: int) -> None:
        block, k, _ = self._find(k)
        sums, n, j = self._sums, self._n, block + 1
        while j < n:
            sums[j] += v
            j += j & -j
        keys, values = self._keys[block], self._values[block]
        i = bisect_left(keys, k)
        if i < len(keys) and keys[i] == k:
            values[i] += v
            return
        keys.insert(i, k)
        values.insert(i, v)
        if len(keys) > self._width:
            self._split(block)

    def _split(self, block: int) -> None:
        fences = list(accumulate(self._step(i) for i in range(self._n)))
        keys, values, middle = self._keys[block], self._values[block], self._width // 2
        fences.insert(block + 1, fences[block] + keys[middle])
        self._keys.insert(block + 1, [k - keys[middle] for k in keys[middle:]])
        self._values.insert(block + 1, values[middle:])
        del keys[middle:], values[middle:]
        self._rebuild(fences)

    def _step(self, i: int) -> int:
        """One step, out of the tree."""
        step, j = self._steps[i], i - 1
        while j > i - (i & -i):
            step -= self._steps[j]
            j -= j & -j
        return step

    def shift_keys(self, k: int, d: int) -> None:
        block, k, _ = self._find(k)
        steps, n, j = self._steps, self._n, block + 1
        while j < n:
            steps[j] += d
            j += j & -j
        keys = self._keys[block]
        i = bisect_right(keys, k)
        keys[i:] = [key + d for key in keys[i:]]
