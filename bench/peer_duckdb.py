"""Recompute by DuckDB: a recursive query over the table of links, after every change, into a table of the database.

- `reachable`: `WITH RECURSIVE ... UNION`.
- `minCost`: a recursive query `USING KEY`, which replaces the cost of a pair when a cheaper one comes; a plain `UNION`
  would list every cost of every walk. The least cost of each pair is found before it is compared with what is known.

Measured and left out, slower: `USING KEY` for `reachable`; comparing before grouping; a second thread, for which the
steps of the recursion are too small; fetching the result (as arrays or Arrow) instead of keeping it as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb

from bench.peer_kit import CostLink

__all__ = ["DuckDB"]

QUERIES = {
    "reachable": """
        WITH RECURSIVE reachable(src, dst) AS (
            SELECT src, dst FROM link
            UNION
            SELECT r.src, l.dst FROM reachable r JOIN link l ON l.src = r.dst
        )
        SELECT src, dst FROM reachable
    """,
    "minCost": """
        WITH RECURSIVE best(src, dst, cost) USING KEY (src, dst) AS (
            SELECT src, dst, cost FROM link
            UNION
            SELECT n.src, n.dst, n.cost
            FROM (
                SELECT b.src, l.dst, min(b.cost + l.cost) AS cost
                FROM best b JOIN link l ON l.src = b.dst
                GROUP BY ALL
            ) n
            LEFT JOIN recurring.best k ON k.src = n.src AND k.dst = n.dst
            WHERE k.cost IS NULL OR n.cost < k.cost
        )
        SELECT src, dst, cost FROM best
    """,
}


class DuckDB:
    """A database in memory with the tables `link` and `answer`."""

    def __init__(self, view: str) -> None:
        self._query = f"CREATE OR REPLACE TEMP TABLE answer AS {QUERIES[view]}"
        self._database = duckdb.connect()
        self._database.execute("SET threads = 1")
        self._database.execute("CREATE TABLE link (src INTEGER, dst INTEGER, cost INTEGER)")

    def load(self, links: Sequence[CostLink]) -> None:
        values = ", ".join(f"({source}, {target}, {cost})" for source, target, cost in links)
        self._database.execute(f"INSERT INTO link VALUES {values}")
        self._database.execute(self._query)

    def delete(self, link: CostLink) -> None:
        self._database.execute("DELETE FROM link WHERE src = ? AND dst = ? AND cost = ?", link)
        self._database.execute(self._query)

    def insert(self, link: CostLink) -> None:
        self._database.execute("INSERT INTO link VALUES (?, ?, ?)", link)
        self._database.execute(self._query)

    def rows(self) -> Iterable[tuple[Any, ...]]:
        return self._database.execute("FROM answer").fetchall()

    def close(self) -> None:
        self._database.close()
