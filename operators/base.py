"""BaseTable: the facts of one base relation on the partition that owns them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from operators.columns import Bulk
from operators.delta import Copies, Delta, Loaded
from operators.facts import Facts
from operators.kernels import key_of

__all__ = ["BaseTable"]

Tuple = tuple[Any, ...]


class BaseTable:
    """Facts under insertion, deletion, keyed update and expiry, one transaction at a time.

    `rows` maps a fact to its multiplicity (1 unless the relation is a bag). `_came` and `_went` are the net change of
    the transaction so far, as multiplicities of facts that are in one of them at most: that is also the way back.
    Expiry times are kept in a heap that may hold outdated entries; `_expires` has the current time of a fact.

    Batches are remembered as lists as long as that is enough (`_listed`), and fact by fact after that (`_itemise`):

    - of a transaction that did nothing but fill the empty table, `_bulk` are the rows;
    - of one in which batches come to a set and then go from it, `_in` and `_out` are the facts, none of them in both;
    - of one in which batches do nothing but come to a bag, or nothing but go, `_in` and `_out` are the copies, one by
      one.

    A bag takes whatever comes, so what fills an empty one (`_load`) need not be counted before somebody looks or
    changes it. It is when it is committed, unless all rules made do with its columns: whoever goes through a million
    rows does not notice that they are counted, but would at the first change.

    >>> table = BaseTable(key=(0,), ttl=10)
    >>> table.insert(("a", 1), now=0.0); table.insert(("a", 2), now=5.0)
    >>> table.net()
    [(('a', 2), 1)]
    >>> table.commit(); table.expire(14.9); table.net()
    []
    >>> table.expire(15.0); table.net()
    [(('a', 2), -1)]
    >>> table.rollback(); sorted(table.rows)
    [('a', 2)]
    """

    def __init__(self, key: tuple[int, ...] = (), ttl: float | None = None, bag: bool = False) -> None:
        self._rows = Facts()
        self.bag = bag
        self.ttl = ttl
        self.ignored_inserts = 0
        self.ignored_deletes = 0
        self._key = key_of(key) if key else None
        self._plain = not key and ttl is None and not bag  # a fact is there or not, and that is all
        self._load: Copies | None = None
        self._in: list[Tuple] = []
        self._out: list[Tuple] = []
        self._by_key: dict[Any, Tuple] = {}
        self._expires: dict[Tuple, float] = {}
        self._heap: list[tuple[float, int, Tuple]] = []
        self._entries = 0
        self._came: dict[Tuple, int] = {}
        self._went: dict[Tuple, int] = {}
        self._bulk: list[Tuple] | None = None
        self._listed = False
        self._expiry_before: dict[Tuple, float | None] = {}
        self._ignored_before = (0, 0)

    @property
    def rows(self) -> Facts:
        """The facts with their multiplicities."""
        if self._load is not None:
            self._count(self._load)
        return self._rows

    def _count(self, load: Copies) -> None:
        self._load = None
        self._rows.count_in(load.came)

    def insert(self, t: Tuple, now: float) -> None:
        """Insert a fact; with a key, in place of the fact that has it. A present fact is only refreshed."""
        if self._plain and not self._listed:
            rows = self._rows
            if t in rows:
                self.ignored_inserts += 1
                return
            rows[t] = 1
            if self._went and t in self._went:
                del self._went[t]
            else:
                self._came[t] = 1
            return
        if self._key is not None:
            old = self._by_key.get(self._key(t))
            if old is not None and old != t:
                self._set(old, 0)
        if self.bag:
            self._set(t, self.rows.get(t, 0) + 1)
        elif t in self.rows:
            self.ignored_inserts += 1
        else:
            self._set(t, 1)
        if self.ttl is not None:
            self._expire_at(t, now + self.ttl)

    def insert_all(self, rows: list[Tuple], now: float) -> None:
        """Insert many facts, as `insert` would one by one. Filling an empty table takes one pass in C, and a bag none.

        >>> table = BaseTable(); table.insert_all([("a",), ("b",), ("a",)], 0.0)
        >>> table.ignored_inserts, table.delta().gained
        (1, [('a',), ('b',)])
        >>> table.delete(("a",)); table.net(), table.rollback(), table.rows
        ([(('b',), 1)], None, {})
        """
        if self._key is not None or self.ttl is not None:
            for t in rows:
                self.insert(t, now)
        elif self.bag:
            self._add_copies(rows)
        elif not self._rows and not self._went and not self._listed:
            self._bulk, self._listed = rows, True
            self.ignored_inserts += len(rows) - len(self._rows.let_in(rows))
        else:
            if self._bulk is not None or self._out:
                self._itemise()
            came = self._rows.let_in(rows)
            self.ignored_inserts += len(rows) - len(came)
            if self._came or self._went:
                self._note(dict.fromkeys(came, 1), 1)
            else:  # what is there cannot come again
                self._in, self._listed = self._in + came if self._in else came, True

    def _add_copies(self, rows: list[Tuple]) -> None:
        """The same for a bag: whatever comes is one copy more."""
        if self._came or self._went or self._out:
            self._itemise()
            self.rows.count_in(rows)
            self._note(Counter(rows), 1)
        elif self._rows or self._load is not None:
            self._in, self._listed = self._in + rows if self._in else rows, True
            self.rows.count_in(rows)
        elif rows:
            self._in, self._listed = rows, True
            self._load = Copies(rows, [], rows.columns if isinstance(rows, Bulk) else None)

    def delete_all(self, rows: list[Tuple]) -> None:
        """Delete many facts, as `delete` would one by one.

        >>> table = BaseTable(bag=True); table.insert_all([("a",), ("a",), ("b",)], 0.0); table.commit()
        >>> table.delete_all([("a",), ("b",), ("b",)]); table.net(), table.ignored_deletes
        ([(('a',), -1), (('b',), -1)], 1)
        >>> table = BaseTable(); table.insert(("z",), 0.0); table.commit(); table.insert_all([("a",), ("b",)], 0.0)
        >>> table.delete_all([("z",)]); table.delete_all([("b",), ("c",)]); table.net()
        [(('z',), -1), (('a',), 1)]
        """
        if self._key is not None or self.ttl is not None:
            for t in rows:
                self.delete(t)
            return
        known = self.rows
        if self._bulk is not None or (self.bag and self._in):
            self._itemise()
        out, recalled = known.take_out(rows, [] if self.bag else self._in)
        self.ignored_deletes += len(rows) - len(out)
        if self._came or self._went:
            self._note(Counter(out), -1)
            return
        if recalled:  # what came and goes is no change
            nothing = set(recalled)
            self._in, out = [t for t in self._in if t not in nothing], [t for t in out if t not in nothing]
        self._out, self._listed = self._out + out if self._out else out, True

    def delete(self, t: Tuple) -> None:
        """Delete a fact (one copy of it, of a bag). Deleting an absent fact changes nothing."""
        rows = self.rows
        count = rows.get(t, 0)
        if not count:
            self.ignored_deletes += 1
        elif self._plain and not self._listed:
            del rows[t]
            if self._came and t in self._came:
                del self._came[t]
            else:
                self._went[t] = 1
        else:
            self._set(t, count - 1)

    def expire(self, now: float) -> None:
        """The clock says `now`: facts whose time has come leave. O(log n) each."""
        while self._heap and self._heap[0][0] <= now:
            when, _, t = heapq.heappop(self._heap)
            if self._expires.get(t) == when:
                self._set(t, 0)

    def _set(self, t: Tuple, count: int) -> None:
        self._itemise()
        if change := count - self.rows.get(t, 0):
            self._note({t: change}, 1)
        if count:
            self.rows[t] = count
            if self._key is not None:
                self._by_key[self._key(t)] = t
        elif t in self.rows:
            del self.rows[t]
            if self._key is not None and self._by_key.get(self._key(t)) == t:
                del self._by_key[self._key(t)]
            if t in self._expires:
                self._expiry_before.setdefault(t, self._expires[t])
                del self._expires[t]

    def _itemise(self) -> None:
        """More happens than that the table is filled, or that batches come or go: remember it fact by fact."""
        if not self._listed:
            return
        if self._bulk is not None:
            self._came = dict(self._rows.items())
        else:
            self._came, self._went = Counter(self._in), Counter(self._out)
        self._in, self._out, self._bulk, self._listed = [], [], None, False

    def _note(self, changes: Mapping[Tuple, int], sign: int) -> None:
        """Add changes of multiplicities to what the transaction has done."""
        came, went = self._came, self._went
        for t, change in changes.items():
            change = came.pop(t, 0) - went.pop(t, 0) + sign * change
            if change > 0:
                came[t] = change
            elif change:
                went[t] = -change

    def _expire_at(self, t: Tuple, when: float) -> None:
        self._expiry_before.setdefault(t, self._expires.get(t))
        self._expires[t] = when
        self._push(t, when)

    def _push(self, t: Tuple, when: float) -> None:
        self._entries += 1  # breaks ties: facts themselves may not be comparable
        heapq.heappush(self._heap, (when, self._entries, t))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._expires):
            # refreshed facts leave outdated entries behind
            self._heap = [(w, i, u) for w, i, u in self._heap if self._expires.get(u) == w]
            heapq.heapify(self._heap)

    def net(self) -> list[tuple[Tuple, int]]:
        """What the transaction changed so far, as (fact, change of its multiplicity)."""
        if self._bulk is not None:
            return list(self._rows.items())
        if self._in or self._out:
            return self.delta().items()
        return [*self._came.items(), *((t, -count) for t, count in self._went.items())]

    def delta(self) -> Delta:
        """The same as a change of a relation."""
        if self._bulk is not None:
            columns = self._bulk.columns if isinstance(self._bulk, Bulk) else None
            if columns is not None and len(self._bulk) != len(self._rows):
                columns = columns.distinct()
            return Loaded(self._rows, self.bag, columns)
        if self._in or self._out:
            if not self.bag:
                return Delta(self._in, self._out)
            return Copies(self._in, self._out) if self._load is None else self._load
        return Delta(list(self._came), list(self._went), self.net() if self.bag else None)

    def export(self) -> Iterator[tuple[Tuple, int, float | None]]:
        """The facts with their multiplicities and the times at which they expire, for `restore`."""
        for t, count in self.rows.items():
            yield t, count, self._expires.get(t)

    def restore(self, facts: Iterable[tuple[Tuple, int, float | None]]) -> None:
        """Take in facts that another table exported. Nothing can be rolled back from here.

        >>> table, copy = BaseTable(ttl=10), BaseTable(ttl=10)
        >>> table.insert(("a",), now=3.0); copy.restore(table.export())
        >>> copy.expire(12.9); sorted(copy.rows)
        [('a',)]
        >>> copy.expire(13.0); sorted(copy.rows)
        []
        """
        for t, count, when in facts:
            self.rows[t] = count
            if self._key is not None:
                self._by_key[self._key(t)] = t
            if when is not None:
                self._expires[t] = when
                self._push(t, when)

    def commit(self) -> None:
        """The transaction stands."""
        if self._load is not None and self._load.walked:
            self._count(self._load)
        if self._listed:
            self._in, self._out, self._bulk, self._listed = [], [], None, False
        if self._came:
            self._came = {}
        if self._went:
            self._went = {}
        self._expiry_before.clear()
        self._ignored_before = (self.ignored_inserts, self.ignored_deletes)

    def rollback(self) -> None:
        """Back to the last commit. O(what the transaction touched)."""
        if self._bulk is not None:
            self._bulk, self._rows = None, Facts()
        if self._load is not None and self._in is self._load.came:
            self._in, self._load = [], None
        self._itemise()
        came, went = self._came, self._went
        expiry, self._expiry_before = self._expiry_before, {}
        self._came, self._went = {}, {}
        for t, count in came.items():
            self._set(t, self.rows[t] - count)
        for t, count in went.items():
            self._set(t, self.rows.get(t, 0) + count)
        for t, when in expiry.items():
            if when is None:
                self._expires.pop(t, None)
            else:
                self._expires[t] = when
                self._push(t, when)
        self._came, self._went = {}, {}
        self._expiry_before.clear()
        self.ignored_inserts, self.ignored_deletes = self._ignored_before

    def check(self) -> None:
        """Assert the invariants that hold between transactions."""
        idle = not (self._came or self._went or self._in or self._out)
        assert idle and not self._listed, "a transaction is open"
        assert all(n > 0 for n in self.rows.values())
        assert all(t in self.rows for t in self._expires), "an absent fact would expire"
        if self._key is not None:
            assert {self._key(t): t for t in self.rows} == self._by_key, "two facts share a key"
