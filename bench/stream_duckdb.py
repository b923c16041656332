"""The window evaluated again by DuckDB at every point, into a table of the database.

`DuckDB` keeps arrivals in tables, and a query looks at those of the last points. `DuckDBArrays` has no tables: the
window is a ring of numpy arrays, in which new arrivals take the places of those that are over, and the query reads the
arrays. It costs no insertion. It can be done because as many arrive at every point.

Rows come as Python has them. They are made arrays of numpy, which are inserted from there.

Measured and left out, slower: insertion from a table of Arrow or a frame of pandas, by VALUES, and by executemany; to
delete what is over, at every point or now and then; the window as a list of Arrow tables, one for each point; to fetch
the answer as arrays or Arrow instead of keeping it as a table. To keep a count for each key and point, and add these
up, is faster where a window has many points; but then it is not evaluated again any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb
import numpy

from bench.stream_tasks import ARRIVALS, STREAMS, Batch, Row

__all__ = ["DuckDB", "DuckDBArrays"]

QUERIES = {
    "count": "SELECT k, count(*) FROM s WHERE t > {over} GROUP BY k",
    "join": "SELECT a.x, b.x FROM a JOIN b USING (k) WHERE a.t > {over} AND b.t > {over}",
}


def arrays(rows: list[Row]) -> dict[str, Any]:
    k, x = zip(*rows, strict=True)
    return {"k": numpy.array(k), "x": numpy.array(x)}


class DuckDB:
    """A database in memory, with one thread, and a table for each stream."""

    def __init__(self, task: str, window: int) -> None:
        self._query = f"CREATE OR REPLACE TEMP TABLE answer AS {QUERIES[task]}"
        self._window = window
        self._database = duckdb.connect()
        self._database.execute("SET threads = 1")
        for name in STREAMS[task]:
            self._database.execute(f"CREATE TABLE {name} (k BIGINT, x BIGINT, t BIGINT)")

    def point(self, now: int, batch: Batch) -> None:
        for name, rows in batch.items():
            new = arrays(rows)  # noqa: F841  (the query names it)
            self._database.execute(f"INSERT INTO {name} SELECT k, x, {now} FROM new")
        self._database.execute(self._query.format(over=now - self._window))

    def after(self) -> None:
        """Nothing is left to be done."""

    def answer(self) -> Iterable[Row]:
        return self._database.execute("FROM answer").fetchall()

    def close(self) -> None:
        self._database.close()


class DuckDBArrays:
    """A database of which all but the answer is in arrays."""

    def __init__(self, task: str, window: int) -> None:
        self._query = f"CREATE OR REPLACE TEMP TABLE answer AS {QUERIES[task]}"
        self._window = window
        self._database = duckdb.connect()
        self._database.execute("SET threads = 1")
        self._share = ARRIVALS // len(STREAMS[task])
        size = window * self._share
        self._rings = {name: {c: numpy.full(size, -1) for c in ("k", "x", "t")} for name in STREAMS[task]}
        for name, ring in self._rings.items():
            ring["t"][:] = -window  # there is nothing yet
            self._database.register(name, ring)

    def point(self, now: int, batch: Batch) -> None:
        begin = (now - 1) % self._window * self._share
        for name, rows in batch.items():
            ring = self._rings[name]
            ring["k"][begin : begin + self._share], ring["x"][begin : begin + self._share] = zip(*rows, strict=True)
            ring["t"][begin : begin + self._share] = now
        self._database.execute(self._query.format(over=now - self._window))

    def after(self) -> None:
        """Nothing is left to be done."""

    def answer(self) -> Iterable[Row]:
        return self._database.execute("FROM answer").fetchall()

    def close(self) -> None:
        self._database.close()
