"""ZTable: tuples with integer weights, indexed, for the counting method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any

from operators.delta import Delta
from operators.source import Source, key_of, key_text

__all__ = ["Counts", "ZTable"]

Tuple = tuple[Any, ...]


class ZTable:
    """One side of the joins of a counting stratum: key -> tuple -> weight, once per join key in use.

    >>> table = ZTable(); by_first = table.index((0,))
    >>> table.add(Delta.weighted([(("a", 1), 1), (("a", 2), 2)])); table.add(Delta.weighted([(("a", 2), -2)]))
    >>> by_first
    {'a': {('a', 1): 1}}
    """

    __slots__ = ("_indexes",)

    def __init__(self) -> None:
        self._indexes: dict[tuple[int, ...], dict[Any, dict[Tuple, int]]] = {}

    def index(self, columns: tuple[int, ...]) -> dict[Any, dict[Tuple, int]]:
        """The index over these columns, made on first request. All requests come before the first tuple."""
        return self._indexes.setdefault(columns, {})

    def add(self, delta: Delta) -> None:
        """Change weights. O(1) a tuple and index."""
        for columns, buckets in self._indexes.items():
            # what comes goes first: where it takes the place of another tuple, the bucket stays
            for mode, batch in reversed(delta.runs()):
                _adding(columns, _WEIGHTS[mode])(batch, buckets)

    def items(self) -> Iterator[tuple[Tuple, int]]:
        """The tuples and their weights, once per index that holds them."""
        for buckets in self._indexes.values():
            for bucket in buckets.values():
                yield from bucket.items()

    def __len__(self) -> int:
        return sum(len(b) for buckets in self._indexes.values() for b in buckets.values())

    def check(self) -> None:
        """Assert that weights are positive and all indexes hold the same."""
        contents = []
        for columns, buckets in self._indexes.items():
            key = key_of(columns)
            rows = {t: w for bucket in buckets.values() for t, w in bucket.items()}
            assert all(w > 0 for w in rows.values()), "a weight is not positive"
            assert all(key(t) == k for k, bucket in buckets.items() for t in bucket), "a tuple in the wrong bucket"
            contents.append(rows)
        assert all(c == contents[0] for c in contents), "two indexes differ"


_WEIGHTS = {"gained": "1", "lost": "-1", "weighted": "w"}


@lru_cache(maxsize=1024)
def _adding(columns: tuple[int, ...], weight: str) -> Callable[[Iterable[Any], dict[Any, dict[Tuple, int]]], None]:
    """The loop `(batch, buckets)` that files tuples under the key of some columns.

    Their weight is always the same, or, if it is called `w`, part of the batch.
    """
    source = Source()
    source.line(0, "def add(batch, buckets):")
    source.line(1, "find = buckets.get")
    source.line(1, "for t, w in batch:" if weight == "w" else "for t in batch:")
    source.line(2, f"k = {key_text([f't[{c}]' for c in columns])}")
    source.line(2, "bucket = find(k)")
    source.line(2, f"if bucket is None: buckets[k] = {{t: {weight}}}; continue")
    if weight == "1":  # nearly always the tuple is new, and one look at the bucket will do
        source.line(2, "size = len(bucket)")
        source.line(2, "bucket.setdefault(t, 1)")
        source.line(2, "if len(bucket) > size: continue")
        source.line(2, "left = bucket.pop(t) + 1")
    else:
        source.line(2, f"left = bucket.pop(t, 0) + {weight}")
    source.line(2, "if left: bucket[t] = left")
    source.line(2, "elif not bucket: del buckets[k]")
    return source.compile("add")  # type: ignore[no-any-return]


class Counts:
    """How many derivations each tuple of a relation has, and what changes in this transaction.

    Loops write down what they derive: tuples that get one derivation more into `came`, tuples that lose one into
    `went`, and any other change of a weight into `changes`, all in whatever order they come. `rows` knows of it when
    the transaction is over and `net` tells what has come of it.

    >>> c = Counts(); c.add({("a",): 2}.items()); c.net(weighted=False).gained
    [('a',)]
    >>> c.went.append(("a",)); bool(c.net(weighted=False)), c.rows
    (False, {('a',): 1})
    """

    __slots__ = ("came", "changes", "rows", "went")

    def __init__(self) -> None:
        self.rows: dict[Tuple, int] = {}
        self.changes: dict[Tuple, int] = {}
        self.came: list[Tuple] = []
        self.went: list[Tuple] = []

    def add(self, changes: Iterable[tuple[Tuple, int]]) -> None:
        """Change weights. O(1) a tuple."""
        pending = self.changes
        for t, w in changes:
            pending[t] = pending.get(t, 0) + w

    def gathered(self) -> dict[Tuple, int]:
        """What was written down, by tuple; it is all in `changes` then."""
        self.add(zip(self.came, repeat(1)))
        self.add(zip(self.went, repeat(-1)))
        self.came.clear()  # the lists stay: a loop may be about to write on
        self.went.clear()
        return self.changes

    @property
    def written(self) -> int:
        """How much is written down."""
        return len(self.came) + len(self.went) + len(self.changes)

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
        """Let the changes in: what they do to weights, or to presence."""
        if not self.changes and not weighted and (delta := self._swapped()) is not None:
            return delta
        rows = self.rows
        changes, self.changes = self.gathered(), {}
        if not rows and min(changes.values(), default=0) > 0:  # all there is: a load
            rows.update(changes)
            return Delta.weighted(list(changes.items())) if weighted else Delta(list(changes), [])
        gained: list[Tuple] = []
        lost: list[Tuple] = []
        for t, w in changes.items():
            if w:
                old = rows.get(t, 0)
                left = old + w
                if left:
                    rows[t] = left
                    if not old:
                        gained.append(t)
                else:
                    del rows[t]
                    lost.append(t)
        return Delta.weighted([(t, w) for t, w in changes.items() if w]) if weighted else Delta(gained, lost)

    def _swapped(self) -> Delta | None:
        """Let the changes in with loops in C, if all tuples that go had one derivation, and those that come are new.

        >>> c = Counts(); c.came += [("a",), ("b",)]; c.net(weighted=False).gained
        [('a',), ('b',)]
        >>> c.came += [("c",), ("d",)]; c.went += [("a",), ("d",)]; delta = c.net(weighted=False)
        >>> delta.gained, delta.lost, c.rows
        ([('c',)], [('a',)], {('b',): 1, ('c',): 1})
        """
        rows, new, gone = self.rows, dict.fromkeys(self.came, 1), dict.fromkeys(self.went)
        if len(new) < len(self.came) or len(gone) < len(self.went):
            return None
        for t in new.keys() & gone.keys():  # one derivation for another
            del new[t], gone[t]
        if not rows.keys().isdisjoint(new.keys()):
            return None
        went = list(gone)
        counts = list(map(rows.pop, went, repeat(0)))
        if counts.count(1) < len(counts):
            for t, count in zip(went, counts, strict=True):
                if count:
                    rows[t] = count
            return None
        rows.update(new)
        self.came, self.went = [], []
        return Delta(list(new), went)

    def check(self) -> None:
        """Assert that weights are positive and nothing is unpublished."""
        assert not self.changes and not self.came and not self.went, "a relation has unpublished changes"
        assert all(w > 0 for w in self.rows.values()), "a tuple has a negative number of derivations"
