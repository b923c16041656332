"""BaseTable: the facts of one base relation on the partition that owns them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from operators.columns import Bulk
from operators.delta import Copies, Delta, Loaded
from operators.facts import Facts, Note
from operators.kernels import key_of

__all__ = ["BaseTable"]

Tuple = tuple[Any, ...]

_NOTHING: tuple[list[Tuple], list[Tuple], Note | None] = ([], [], None)


class BaseTable:
    """Facts under insertion, deletion, keyed update and expiry, one transaction at a time.

    `rows` maps a fact to its multiplicity (1 unless the relation is a bag). Expiry times are kept in a heap that may
    hold outdated entries; `_expires` has the current time of a fact.

    The way back is noted before anything changes, as what was there: `_before` and `_expiry_before` have what the last
    commit knew of every fact that the transaction touches. So `rollback` may be called whatever was raised wherever,
    also in the middle of itself: at worst it does something again. The net change is how the facts differ from that.
    Batches are remembered as lists as long as that is enough (`_listed`), and fact by fact after that (`_itemise`):

    - of a transaction that began with filling the empty table (`_filled`), all that is there is new. `_bulk` are the
      rows, while nothing else has happened;
    - of one in which batches come to a set and then go from it, `_lists` has the facts, none of them in both lists;
    - of one in which batches do nothing but come to a bag, or nothing but go, it has the copies, one by one. In either
      case, while a batch is on its way, also the note that leads back to before it.

    A transaction may have several steps, with `step_over` between them: `net` and `delta` tell what the last of them
    changed, and what those before it found is folded into `_first`: what the last commit knew of the facts that they
    touched. Where the first of them filled the empty table (`_founded`), that is nothing.

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
        self._by_key: dict[Any, Tuple] = {}
        self._expires: dict[Tuple, float] = {}
        self._heap: list[tuple[float, int, Tuple]] = []
        self._entries = 0
        self._before: dict[Tuple, int] = {}
        self._first: dict[Tuple, int] | None = None
        self._founded = False
        self._lists = _NOTHING
        self._bulk: list[Tuple] | None = None
        self._filled = False
        self._listed = False
        self._expiry_before: dict[Tuple, float | None] = {}
        self._ignored_before = (0, 0)

    @property
    def rows(self) -> Facts:
        """The facts with their multiplicities."""
        if self._load is not None:
            rows = Facts()
            rows.count_in(self._load.came)
            self._rows = rows
            self._load = None
        return self._rows

    def with_key(self, values: Mapping[int, Any]) -> Tuple | None:
        """The fact with a key, which is told by column; other columns may be there too. O(1)

        >>> table = BaseTable(key=(1,)); table.insert(("a", 1), 0.0); table.insert(("b", 2), 0.0)
        >>> table.with_key({1: 2}), table.with_key({1: 3})
        (('b', 2), None)
        """
        assert self._key is not None
        return self._by_key.get(self._key(tuple([values.get(i) for i in range(max(values) + 1)])))

    def like(self, t: Tuple) -> Tuple | None:
        """The fact that has the key of a tuple, which may have more columns than that, or fewer. O(1)

        >>> table = BaseTable(key=(0,)); table.insert(("a", 1), 0.0); table.like(("a",)), table.like(("b", 1))
        (('a', 1), None)
        """
        assert self._key is not None
        return self._by_key.get(self._key(t))

    def insert(self, t: Tuple, now: float) -> None:
        """Insert a fact; with a key, in place of the fact that has it. A present fact is only refreshed."""
        if self._plain and not self._listed:
            rows = self._rows
            if t in rows:
                self.ignored_inserts += 1
                return
            self._before.setdefault(t, 0)
            rows[t] = 1
            return
        if self._key is not None:
            if self.ttl is None:
                self._replace([t])
                return
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
        if self.ttl is not None:
            for t in rows:
                self.insert(t, now)
            return
        if self._key is not None:
            self._replace(rows)
            return
        if not (self._listed or self._before or self._rows or self._load is not None):
            self._fill(rows)
            return
        known = self.rows
        came, went, _ = self._lists
        note = self._way_back(rows, listing=not went)
        if self.bag:
            known.count_in(rows, note)
            new = rows
        else:
            new = known.let_in(rows, note)
            self.ignored_inserts += len(rows) - len(new)
        if note is not None:  # in a set, what is there cannot come again
            self._lists = (came + new if came else new, went, None)

    def _replace(self, rows: Iterable[Tuple]) -> None:
        """Insert facts that do not expire, each in place of the one that has its key. O(1) each"""
        key, by_key, known, note = self._key, self._by_key, self.rows, self._before.setdefault
        assert key is not None
        for t in rows:
            k = key(t)
            old = by_key.get(k)
            if old is not None:
                if old == t:
                    self.ignored_inserts += 1
                    continue
                note(old, 1)
                del known[old]
            note(t, 0)
            known[t] = 1
            by_key[k] = t

    def _fill(self, rows: list[Tuple]) -> None:
        """Insert many facts where there were none at the last commit, and none came since."""
        if rows:
            self._filled = self._listed = True
            self._bulk = rows
            if self.bag:
                self._load = Copies(rows, [], rows.columns if isinstance(rows, Bulk) else None)
            else:
                self.ignored_inserts += len(rows) - len(self._rows.let_in(rows))

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
        came, went, _ = self._lists
        note = self._way_back(rows, listing=not (self.bag and came))
        out, recalled = known.take_out(rows, [] if self.bag or note is None else came, note)
        self.ignored_deletes += len(rows) - len(out)
        if note is None:
            return
        if recalled:  # what came and goes is no change
            nothing = set(recalled)
            came, out = [t for t in came if t not in nothing], [t for t in out if t not in nothing]
        self._lists = (came, went + out if went else out, None)

    def _way_back(self, rows: list[Tuple], listing: bool) -> Note | None:
        """Note how to go back from a batch. Where it may be listed, the note says so until the batch is."""
        if self._filled:
            self._bulk = None
            return None
        if listing and not self._before:
            note = self._rows.note()
            self._lists = (*self._lists[:2], note)
            self._listed = True
            return note
        self._itemise()
        before, count = self._before, self._rows.get
        for t in rows:
            if t not in before:
                before[t] = count(t, 0)
        return None

    def delete(self, t: Tuple) -> None:
        """Delete a fact (one copy of it, of a bag). Deleting an absent fact changes nothing."""
        rows = self._rows if self._load is None else self.rows
        count = rows.get(t, 0)
        if not count:
            self.ignored_deletes += 1
        elif self._plain and not self._listed:
            self._before.setdefault(t, 1)
            del rows[t]
        else:
            self._set(t, count - 1)

    def change(self, weights: Iterable[tuple[Tuple, int]]) -> None:
        """Change multiplicities, whatever the clock says and whoever has a key; none of them becomes negative.

        >>> table = BaseTable(bag=True); table.change([(("a",), 2), (("b",), 1)]); table.commit()
        >>> table.change([(("a",), -1), (("b",), -1)]); table.rows, table.net()
        ({('a',): 1}, [(('a',), -1), (('b',), -1)])
        """
        count = self.rows.get
        for t, w in weights:
            self._set(t, count(t, 0) + w)

    def due(self) -> float:
        """When the next fact expires; infinite if none does. Amortised O(1)

        >>> table = BaseTable(ttl=10); table.insert(("a",), 1.0); table.insert(("a",), 5.0); table.due()
        15.0
        """
        heap, known = self._heap, self._expires
        while heap and known.get(heap[0][2]) != heap[0][0]:  # it was refreshed, or has left
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def expire(self, now: float) -> None:
        """The clock says `now`: facts whose time has come leave. O(log n) each."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            when, _, t = heap[0]
            if self._expires.get(t) == when:
                self._set(t, 0)
            heapq.heappop(heap)  # not before it is noted that the fact had this time

    def _set(self, t: Tuple, count: int) -> None:
        """Let a fact be there so many times."""
        if self._filled:
            self._bulk = None
        else:
            self._itemise()
            self._before.setdefault(t, self.rows.get(t, 0))
        if not count and t in self._expires:
            self._expiry_before.setdefault(t, self._expires[t])
            del self._expires[t]
        self._put(t, count)

    def _put(self, t: Tuple, count: int) -> None:
        rows = self.rows
        if count:
            rows[t] = count
            if self._key is not None:
                self._by_key[self._key(t)] = t
            return
        if t in rows:
            del rows[t]
        if self._key is not None and self._by_key.get(self._key(t)) == t:
            del self._by_key[self._key(t)]

    def _itemise(self) -> None:
        """More happens than that the table is filled, or that batches come or go: remember it fact by fact."""
        if not self._listed:
            return
        came, went, _ = self._lists
        if self.bag:
            count = self.rows.get
            before = {t: count(t, 0) - n for t, n in Counter(came).items()}
            before.update({t: count(t, 0) + n for t, n in Counter(went).items()})
        else:
            before = dict.fromkeys(came, 0)
            before.update(dict.fromkeys(went, 1))
        self._before = before
        self._listed = False  # from here on that counts, and not the lists
        self._lists = _NOTHING

    def _expire_at(self, t: Tuple, when: float) -> None:
        self._expiry_before.setdefault(t, self._expires.get(t))
        self._expires[t] = when
        self._push(t, when)

    def _push(self, t: Tuple, when: float) -> None:
        self._entries += 1  # breaks ties: facts themselves may not be comparable
        heapq.heappush(self._heap, (when, self._entries, t))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._expires):
            # refreshed facts leave outdated entries behind
            heap = [(w, i, u) for w, i, u in self._heap if self._expires.get(u) == w]
            heapq.heapify(heap)
            self._heap = heap

    def net(self) -> list[tuple[Tuple, int]]:
        """What the transaction changed so far, as (fact, change of its multiplicity)."""
        if self._filled:
            return list(self.rows.items())
        if self._listed:
            return self.delta().items()
        count = self.rows.get
        return [(t, change) for t, n in self._before.items() if (change := count(t, 0) - n)]

    def delta(self) -> Delta:
        """The same as a change of a relation."""
        if self._listed:
            return self._listed_delta()
        if self.bag:
            return Delta.weighted(self.net())
        came: list[Tuple] = []
        went: list[Tuple] = []
        rows = self._rows
        for t, n in self._before.items():
            if t in rows:
                if not n:
                    came.append(t)
            elif n:
                went.append(t)
        return Delta(came, went)

    def _listed_delta(self) -> Delta:
        if self._load is not None:
            return self._load
        if self._filled:
            columns = self._bulk.columns if isinstance(self._bulk, Bulk) and not self.bag else None
            if columns is not None and self._bulk is not None and len(self._bulk) != len(self._rows):
                columns = columns.distinct()
            return Loaded(self._rows, self.bag, columns)
        came, went, _ = self._lists
        return Copies(came, went) if self.bag else Delta(came, went)

    def export(self) -> Iterator[tuple[Tuple, int, float | None]]:
        """The facts with their multiplicities and the times at which they expire, for `restore`."""
        for t, count in self.rows.items():
            yield t, count, self._expires.get(t)

    def restore(
        self,
        facts: list[Tuple],
        counts: Sequence[int] | None = None,
        expiries: Sequence[float | None] | None = None,
    ) -> None:
        """Take in facts that another table exported, each of them once. Nothing can be rolled back from here.

        Without `counts` each is there in one copy, and without `expiries` none of them expires. One pass in C where
        there is neither these nor a key.

        >>> table, copy = BaseTable(ttl=10), BaseTable(ttl=10)
        >>> table.insert(("a",), now=3.0); ((fact, count, when),) = table.export()
        >>> copy.restore([fact], [count], [when])
        >>> copy.expire(12.9); sorted(copy.rows)
        [('a',)]
        >>> copy.expire(13.0); sorted(copy.rows)
        []
        """
        rows = self.rows
        if counts is None:
            rows.let_in(facts)
        else:
            for t, count in zip(facts, counts, strict=True):
                rows[t] = count
        if self._key is not None:
            self._by_key.update(zip(map(self._key, facts), facts, strict=True))
        for t, when in zip(facts, expiries or (), strict=expiries is not None):
            if when is not None:
                self._expires[t] = when
                self._push(t, when)

    def step_over(self) -> None:
        """Another step of the transaction begins: `net` and `delta` are about that from now on. O(last step)

        >>> table = BaseTable(); table.insert(("a",), 0.0); table.commit()
        >>> table.delete(("a",)); table.insert(("b",), 1.0); table.step_over(); table.insert(("a",), 2.0)
        >>> table.net(), sorted(table.rows)
        ([(('a',), 1)], [('a',), ('b',)])
        >>> table.rollback(); table.rows
        {('a',): 1}
        """
        first = self._first = {} if self._first is None else self._first
        if self._filled and not first:
            self._founded = True
        if not self._founded:
            if self._filled:
                self._before = dict.fromkeys(self.rows, 0)
            else:
                self._itemise()
            for t, count in self._before.items():
                first.setdefault(t, count)
        self._unlist()
        self._before = {}

    def touched(self) -> Iterable[Tuple]:
        """The facts that the transaction may have changed so far, some of them perhaps twice."""
        if self._founded or (self._filled and not self._first):
            return self.rows
        came, went, _ = self._lists
        return [*came, *went, *self._before, *(self.rows if self._filled else ()), *(self._first or ())]

    def forget(self, facts: Iterable[Tuple]) -> None:
        """Let go of facts that nobody will ask for again, without a change being told; no transaction is open."""
        left = list(facts)
        for t in left if self._expires else ():
            self._expires.pop(t, None)
        while left:  # a copy of each, as long as there are some
            left, _ = self.rows.take_out(left, [])

    def commit(self) -> None:
        """The transaction stands. Does nothing if it is called again."""
        if self._load is not None and self._load.walked:
            self.rows  # noqa: B018  (counts it)
        if self._before:
            self._before = {}
        if self._listed:
            self._unlist()
        if self._first is not None:
            self._first, self._founded = None, False
        if self._expiry_before:
            self._expiry_before.clear()
        self._ignored_before = (self.ignored_inserts, self.ignored_deletes)

    def _unlist(self) -> None:
        self._bulk, self._lists = None, _NOTHING
        self._filled = False
        self._listed = False

    def rollback(self) -> None:
        """Back to the last commit. O(what the transaction touched). Does nothing if it is called again."""
        if self._founded:
            self._rows, self._load, self._before, self._first = Facts(), None, {}, {}
        elif self._filled:
            self._rows, self._load = Facts(), None
        elif self._listed:
            came, went, note = self._lists
            if note is not None:
                self.rows.revert(note)
                self._lists = (came, went, None)
            self._itemise()
        if self._first:
            self._before = {**self._before, **self._first}
        for t, count in self._before.items():
            if not count:
                self._put(t, 0)
        for t, count in self._before.items():
            if count:  # with a key, in place of what was just removed
                self._put(t, count)
        for t, when in self._expiry_before.items():
            if when is None:
                self._expires.pop(t, None)
            else:
                self._expires[t] = when
                self._push(t, when)
        self.ignored_inserts, self.ignored_deletes = self._ignored_before
        self._unlist()
        self._before = {}
        self._first, self._founded = None, False
        self._expiry_before.clear()

    def check(self) -> None:
        """Assert the invariants that hold between transactions."""
        idle = not (self._before or self._expiry_before or self._listed or self._filled) and self._lists == _NOTHING
        assert idle and self._first is None and not self._founded, "a transaction is open"
        assert all(n > 0 for n in self.rows.values())
        assert all(t in self.rows for t in self._expires), "an absent fact would expire"
        if self._key is not None:
            assert {self._key(t): t for t in self.rows} == self._by_key, "two facts share a key"
