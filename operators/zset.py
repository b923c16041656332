"""ZTable: tuples with integer weights, indexed, for the counting method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from operators.delta import Delta
from operators.kernels import key_of

__all__ = ["Counts", "ZTable"]

Tuple = tuple[Any, ...]


class ZTable:
    """One side of the joins of a counting stratum: key -> tuple -> weight, once per join key in use.

    >>> table = ZTable(); by_first = table.index((0,))
    >>> table.add([(("a", 1), 1), (("a", 2), 2)]); table.add([(("a", 2), -2)])
    >>> by_first
    {'a': {('a', 1): 1}}
    """

    __slots__ = ("_indexes",)

    def __init__(self) -> None:
        self._indexes: dict[tuple[int, ...], tuple[Any, dict[Any, dict[Tuple, int]]]] = {}

    def index(self, columns: tuple[int, ...]) -> dict[Any, dict[Tuple, int]]:
        """The index over these columns, made on first request. All requests come before the first tuple."""
        if columns not in self._indexes:
            self._indexes[columns] = (key_of(columns), {})
        return self._indexes[columns][1]

    def add(self, batch: Iterable[tuple[Tuple, int]]) -> None:
        """Change weights. O(1) a tuple and index."""
        for key, buckets in self._indexes.values():
            for t, w in batch:
                k = key(t)
                bucket = buckets.get(k)
                if bucket is None:
                    buckets[k] = {t: w}
                    continue
                left = bucket.get(t, 0) + w
                if left:
                    bucket[t] = left
                else:
                    del bucket[t]
                    if not bucket:
                        del buckets[k]

    def items(self) -> Iterator[tuple[Tuple, int]]:
        """The tuples and their weights, once per index that holds them."""
        for _, buckets in self._indexes.values():
            for bucket in buckets.values():
                yield from bucket.items()

    def __len__(self) -> int:
        return sum(len(b) for _, buckets in self._indexes.values() for b in buckets.values())

    def check(self) -> None:
        """Assert that weights are positive and all indexes hold the same."""
        contents = []
        for key, buckets in self._indexes.values():
            rows = {t: w for bucket in buckets.values() for t, w in bucket.items()}
            assert all(w > 0 for w in rows.values()), "a weight is not positive"
            assert all(key(t) == k for k, bucket in buckets.items() for t in bucket), "a tuple in the wrong bucket"
            contents.append(rows)
        assert all(c == contents[0] for c in contents), "two indexes differ"


class Counts:
    """How many derivations each tuple of a relation has, and what changed in this transaction.

    >>> c = Counts(); c.add({("a",): 2}.items()); c.net(weighted=False).gained
    [('a',)]
    >>> c.add({("a",): -1}.items()); bool(c.net(weighted=False)), c.rows
    (False, {('a',): 1})
    """

    __slots__ = ("_before", "rows")

    def __init__(self) -> None:
        self.rows: dict[Tuple, int] = {}
        self._before: dict[Tuple, int] = {}

    def add(self, changes: Iterable[tuple[Tuple, int]]) -> None:
        """Change weights. O(1) a tuple."""
        rows, before = self.rows, self._before
        for t, w in changes:
            old = rows.get(t, 0)
            if t not in before:
                before[t] = old
            now = old + w
            if now:
                rows[t] = now
            elif old:
                del rows[t]

    def follow(self, gained: list[Tuple], lost: list[Tuple]) -> None:
        """Tuples come, each with its only derivation, and others go: `add` in fewer steps, once a transaction.

        >>> c = Counts(); c.follow([("a",), ("b",)], []); c.net(weighted=False).gained
        [('a',), ('b',)]
        >>> c.follow([("c",)], [("a",)]); c.net(weighted=False).lost, c.rows
        ([('a',)], {('b',): 1, ('c',): 1})
        """
        rows = self.rows
        for t in lost:
            del rows[t]
        rows.update(dict.fromkeys(gained, 1))
        self._before.update(dict.fromkeys(lost, 1))
        self._before.update(dict.fromkeys(gained, 0))

    def replace(self, gone: list[Tuple], new: list[Tuple]) -> Delta:
        """Tuples with one derivation each go and others come; that is all of the change.

        >>> c = Counts(); _ = c.replace([], [("a",), ("b",)]); c.replace([("a",)], [("c",)]).lost, c.rows
        ([('a',)], {('b',): 1, ('c',): 1})
        """
        rows = self.rows
        for t in gone:
            del rows[t]
        rows.update(dict.fromkeys(new, 1))
        return Delta(new, gone)

    def net(self, weighted: bool) -> Delta:
        """The changes since the last call: of weights, or of presence."""
        rows = self.rows
        before, self._before = self._before, {}
        if weighted:
            changes = [(t, rows.get(t, 0) - old) for t, old in before.items()]
            return Delta.weighted([(t, w) for t, w in changes if w])
        return Delta(
            [t for t, old in before.items() if not old and t in rows],
            [t for t, old in before.items() if old and t not in rows],
        )

    def check(self) -> None:
        """Assert that weights are positive and nothing is unpublished."""
        assert not self._before, "a relation has unpublished changes"
        assert all(w > 0 for w in self.rows.values()), "a tuple has a negative number of derivations"
