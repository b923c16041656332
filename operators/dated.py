"""Base tables that write down when their facts came: streams, and relations that are read with their times."""

from __future__ import annotations

from typing import Any

from operators.base import BaseTable
from operators.source import key_of

__all__ = ["Stamped", "Stream", "Times", "time_of"]

Tuple = tuple[Any, ...]


def time_of(clock: float) -> int | float:
    """A time as people see it: an int when it is whole.

    >>> time_of(8.0), time_of(2.5)
    (8, 2.5)
    """
    return int(clock) if clock == int(clock) else clock


class Stream(BaseTable):
    """A bag of arrivals, each with its time in one more column.

    >>> table = Stream(); table.insert(("a",), 3.0); table.insert_all([("a",), ("b",)], 4.5); table.rows
    {('a', 3): 1, ('a', 4.5): 1, ('b', 4.5): 1}
    """

    def __init__(self, ttl: float | None = None) -> None:
        super().__init__((), ttl, bag=True)

    def insert(self, t: Tuple, now: float) -> None:
        super().insert((*t, time_of(now)), now)

    def insert_all(self, rows: list[Tuple], now: float) -> None:
        if self.ttl is None:
            time = (time_of(now),)
            rows = [t + time for t in rows]
        super().insert_all(rows, now)  # or one by one


class Times(BaseTable):
    """Facts with their times in one more column; one of each key, also where that is no column at all.

    >>> table = Times((), None); table.insert((3,), 3.0); table.insert((4,), 4.0); table.rows, table.like(())
    ({(4,): 1}, (4,))
    """

    def __init__(self, key: tuple[int, ...], ttl: float | None = None) -> None:
        super().__init__(key, ttl)
        self._key = key_of(key)
        self._plain = False


class Stamped(BaseTable):
    """A table of facts with a companion, `times`, that has each of them with the time of its last insertion.

    A plain set keeps the time of the first one: there, an insertion of what is there already is none. The companion
    goes with its table to commit and back. It has the same key, or all columns of a fact.

    >>> table = Stamped(Times((0,)), (0,)); table.insert(("a", 1), 3.0); table.insert(("b", 1), 3.0)
    >>> table.insert(("a", 2), 4.0); table.insert(("b", 1), 5.0); table.delete(("b", 2)); sorted(table.times.rows)
    [('a', 2, 4), ('b', 1, 5)]
    """

    def __init__(self, times: Times, key: tuple[int, ...] = (), ttl: float | None = None) -> None:
        super().__init__(key, ttl)
        self.times = times

    @classmethod
    def of(cls, table: BaseTable, times: Times, now: float) -> Stamped:
        """A table in the place of another one, all of whose facts are taken to have come now. O(facts)

        >>> table = BaseTable(); table.insert(("a",), 1.0); table.commit()
        >>> stamped = Stamped.of(table, Times((0,)), 3.0); stamped.insert(("b",), 4.0); sorted(stamped.times.rows)
        [('a', 3), ('b', 4)]
        """
        stamped = cls(times, (), table.ttl)
        vars(stamped).update(vars(table))
        time = (time_of(now),)
        facts = [(t + time, when) for t, _, when in table.export()]
        times.restore([t for t, _ in facts], None, [when for _, when in facts])
        return stamped

    def alone(self) -> BaseTable:
        """A table in the place of this one, which does not write down any more when its facts came."""
        table = BaseTable((), self.ttl)
        vars(table).update({name: value for name, value in vars(self).items() if name != "times"})
        return table

    def insert(self, t: Tuple, now: float) -> None:
        known = self._plain and t in self._rows
        super().insert(t, now)
        if not known:
            self.times.insert((*t, time_of(now)), now)

    def insert_all(self, rows: list[Tuple], now: float) -> None:
        if self._plain:
            known, time = self._rows, time_of(now)
            new = [t for t in dict.fromkeys(rows) if t not in known]
            super().insert_all(rows, now)
            for t in new:
                self.times.insert((*t, time), now)
        else:
            for t in rows:
                self.insert(t, now)

    def delete(self, t: Tuple) -> None:
        known = t in self._rows
        super().delete(t)
        if known:
            self._let_go(t)

    def delete_all(self, rows: list[Tuple]) -> None:
        if self._plain:
            known = [t for t in dict.fromkeys(rows) if t in self._rows]
            super().delete_all(rows)
            for t in known:
                self._let_go(t)
        else:
            super().delete_all(rows)

    def _let_go(self, t: Tuple) -> None:
        dated = self.times.like(t)
        if dated is not None:
            self.times.delete(dated)

    def expire(self, now: float) -> None:
        super().expire(now)
        self.times.expire(now)

    def commit(self) -> None:
        super().commit()
        self.times.commit()

    def rollback(self) -> None:
        super().rollback()
        self.times.rollback()
