"""Running sums: how much the inner rows up to a key come to, and where that passes a threshold."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from operators.exact import rounded
from operators.guard import taking
from operators.indexes import RPAITree
from operators.nested.cuts import BOTTOM, TOP, Cut
from operators.source import HIGHEST, LOWEST, overflow

__all__ = ["FEW", "Flat", "Running", "Sums"]

FEW = 8  # changes that are made one by one rather than put together first


class Running:
    """Sums of ints by key, and how many negative ones went into them: without any, sums only grow along the keys.

    Where the sum passed a limit when that was last asked is remembered, and kept up to date: small changes of the sums
    and of the limit mostly leave it there.

    >>> r = Running(); r.load([(1, 10, 0), (5, 20, 0)])
    >>> r.each([4, 5], True), r.each([5], False), r.cut(lambda s: s > 15, 0)
    ([10, 30], [10], (0, 5, 0))
    """

    __slots__ = ("_before", "_cut", "_upto", "negatives", "total", "tree")

    def __init__(self) -> None:
        self.tree = RPAITree()
        self.total = 0
        self.negatives = 0
        self._cut: Cut | None = None  # where it passed
        self._before = self._upto = 0  # the sum before the key of that cut, and up to and with it

    def load(self, entries: list[tuple[Any, int, int]]) -> None:
        """Add to the sums: (key, sum, number of negative ones) each. O(log n) an entry, or O(n log n) for many."""
        tree = self.tree
        if len(entries) > 64 and len(entries) > len(tree) // 4:
            self.tree = RPAITree.from_items([*tree.items(), *((k, v) for k, v, _ in entries)])
            self.total = self.tree.total
            self.negatives += sum(n for _, _, n in entries)
            self._cut = None
            return
        for k, v, n in entries:
            self.add(k, v, n)

    def add(self, k: Any, v: int, negatives: int) -> None:
        """Add to the sum at a key. O(log n)"""
        self.tree.add(k, v)
        self.total += v
        if negatives:
            self.negatives += negatives
        cut = self._cut
        if cut is not None and k <= cut[1]:
            self._upto += v
            if k != cut[1]:
                self._before += v

    def each(self, keys: Iterable[Any], inclusive: bool) -> list[int]:
        """The sums up to many keys. O(n + keys · log n)"""
        entries = list(self.tree.items())
        return _upto([k for k, _ in entries], [v for _, v in entries], keys, inclusive)

    def __len__(self) -> int:
        return len(self.tree)

    def cut(self, passed: Callable[[int], bool], side: int) -> Cut:
        """Where the sum passes: `passed` is false for small sums and true for large ones. O(log n)

        The sums up to and with the key of the cut are the first for which it is true.
        """
        if passed(0):
            return BOTTOM
        key, _ = self.tree.first_sum(passed)
        return TOP if key is None else (0, key, side)

    def cut_above(self, limit: Any, inclusive: bool, side: int) -> Cut:
        """`cut` where the sum is > limit, or >= limit if `inclusive`. O(1) where it was, else O(log n)

        >>> r = Running(); r.load([(1, 10, 0), (5, 20, 0)]); r.cut_above(10, False, 0), r.cut_above(10, True, 0)
        ((0, 5, 0), (0, 1, 0))
        >>> r.load([(0, 10, 0)]); r.cut_above(10, False, 0), r.cut_above(10, True, 0)
        ((0, 1, 0), (0, 0, 0))
        """
        if limit <= 0 if inclusive else limit < 0:
            return BOTTOM
        cut = self._cut
        if cut is not None and cut[2] == side:
            before, upto = self._before, self._upto
            if (before < limit <= upto) if inclusive else (before <= limit < upto):
                return cut
        key, before = self.tree.first_above(limit, inclusive)
        if key is None:
            self._cut = None
            return TOP
        self._cut = cut = (0, key, side)
        self._before, self._upto = before, before + self.tree.get(key)
        return cut

    @property
    def empty(self) -> bool:
        return not (self.total or self.negatives or len(self.tree))

    def check(self) -> None:
        self.tree.check()
        assert self.negatives >= 0, "fewer than no negative values"
        assert self.total == self.tree.total, "the total is wrong"
        if self._cut is not None:
            _, key, _ = self._cut
            sums = self._before, self._upto
            assert sums == (self.tree.get_sum_below(key), self.tree.get_sum(key)), "a remembered sum is wrong"


class Flat:
    """The same in two plain lists, for whoever asks about all keys at once: a change is O(n), but by `memmove`.

    >>> r = Flat(); r.load([(5, 20, 0), (1, 10, 0)]); r.load([(1, -10, 0)])
    >>> r.each([4, 5], True), r.total, len(r)
    ([0, 20], 20, 1)
    """

    __slots__ = ("_keys", "_values", "total")

    def __init__(self) -> None:
        self._keys: list[Any] = []
        self._values: list[int] = []
        self.total = 0

    def load(self, entries: list[tuple[Any, int, int]]) -> None:
        """Add to the sums: (key, sum, anything) each."""
        keys, values = self._keys, self._values
        if len(entries) > 64 and len(entries) > len(keys) // 4:
            sums = dict(zip(keys, values, strict=True))
            for k, v, _ in entries:
                sums[k] = sums.get(k, 0) + v
            self._keys = sorted(k for k, v in sums.items() if v)
            self._values = [sums[k] for k in self._keys]
            self.total = sum(self._values)
        else:
            for k, v, n in entries:
                self.add(k, v, n)

    def add(self, k: Any, v: int, negatives: int) -> None:
        """Add to the sum at a key."""
        if not v:
            return
        keys, values = self._keys, self._values
        self.total += v
        i = bisect_left(keys, k)
        if i == len(keys) or keys[i] != k:
            keys.insert(i, k)
            values.insert(i, v)
        elif values[i] + v:
            values[i] += v
        else:
            del keys[i], values[i]

    def each(self, keys: Iterable[Any], inclusive: bool) -> list[int]:
        """The sums up to many keys. O(n + keys · log n)"""
        return _upto(self._keys, self._values, keys, inclusive)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def empty(self) -> bool:
        return not self._keys

    def check(self) -> None:
        assert self._keys == sorted(set(self._keys)) and all(self._values), "keys do not ascend, or a sum of nothing"
        assert self.total == sum(self._values), "the total is wrong"


def _upto(there: list[Any], values: list[int], keys: Iterable[Any], inclusive: bool) -> list[int]:
    sums = list(accumulate(values, initial=0))
    find = bisect_right if inclusive else bisect_left
    return [sums[find(there, key)] for key in keys]


class Sums:
    """The running sums of an aggregate over the inner rows with `q op key`, for each value of the equality.

    `kind` is the type of the sum: `number`, `unsigned` or `float`. `make` makes the sums for one value: `Running` or
    `Flat`.
    """

    def __init__(
        self, text: str, kernel: Callable[..., None], op: str, kind: str, make: Callable[[], Any] = Running
    ) -> None:
        self._make = make
        self._nothing = make()
        self._kind = kind
        self.from_above = op in (">", ">=")
        self.inclusive = op in ("<=", ">")  # whether what is *below* a key is all up to and with it
        self._running: dict[Any, Any] = {}
        self._pending: dict[Any, list[int]] = {}
        self.receive = taking(text, kernel, self._pending)  # inner rows came or went

    def settle(self) -> dict[Any, None]:
        """All rows are in: take them over. The equal values whose sums have changed."""
        changes: dict[Any, Any] = {}
        pending, sums = self._pending, self._running
        few = len(pending) <= FEW
        for (e, key), (value, negatives) in pending.items():
            if not (value or negatives):
                continue
            running = sums.get(e)
            if running is None:
                running = sums[e] = self._make()
            if few:
                changes[e] = None
                running.add(key, value, negatives)
            elif e in changes:
                changes[e].append((key, value, negatives))
            else:
                changes[e] = [(key, value, negatives)]
        pending.clear()
        for e, entries in changes.items():
            running = sums[e]
            if entries is not None:
                running.load(entries)
            if not running.total and running.empty:
                del sums[e]
        return changes

    def of(self, e: Any) -> Any:
        """The running sums for one value of the equality."""
        return self._running.get(e, self._nothing)

    def value(self, below: int, total: int) -> Any:
        """The sum for a key, where the inner rows below it come to so much."""
        summed = total - below if self.from_above else below
        if self._kind == "float":
            return rounded(summed)
        if not LOWEST <= summed <= HIGHEST and not (self._kind == "unsigned" and 0 <= summed < 2**64):
            overflow(summed)
        return summed

    def each(self, e: Any, keys: list[Any]) -> list[Any]:
        """The sums for many keys. O(n + keys · log n)"""
        running = self.of(e)
        total = running.total
        found: list[int] = running.each(keys, self.inclusive)
        if self._kind == "number" and found:
            summed = [total - below for below in found] if self.from_above else found
            if min(summed) >= LOWEST and max(summed) <= HIGHEST:
                return summed
        return [self.value(below, total) for below in found]

    @property
    def plain(self) -> bool:
        """Whether the sum for a key is just what is below it."""
        return self._kind == "number" and not self.from_above

    def size(self) -> int:
        return sum(map(len, self._running.values()))

    def check(self) -> None:
        assert not self._pending, "inner rows are not taken over"
        for running in self._running.values():
            assert not running.empty, "running sums of nothing"
            running.check()
