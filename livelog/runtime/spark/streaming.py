"""Structured Streaming in: every micro-batch of a streaming DataFrame is one transaction, applied exactly once.

Spark may run a micro-batch again after a crash, under the same number and with the same rows. The number goes into the
session's log with the transaction, under the id that the query keeps in its checkpoint, so a batch that was applied
before is recognised, whoever died in between. Small batches go through the driver; the rows of large ones go from
Spark's tasks to the workers that own them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from datalog.errors import UsageProblem
from livelog.runtime.spark.dataframes import cut, gathered
from livelog.runtime.spark.updates import UpdateReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from livelog.session import Session

__all__ = ["MODES", "stream"]

MODES = ("append", "upsert", "changes")

SMALL = 10_000
"""Micro-batches up to so many rows go through the driver: for those a job of Spark's takes longer than the rest."""


def stream(
    session: Session,
    df: DataFrame,
    checkpointLocation: str,
    *,
    relation: str | None = None,
    mode: str | None = None,
    op_column: str = "op",
    relation_column: str | None = None,
    order_column: str | None = None,
    query_name: str | None = None,
    trigger: str | Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Apply a streaming DataFrame to a session from now on: every micro-batch is one transaction.

    `relation` is where the rows go, or `relation_column` names the column that says it row by row; a program with a
    single base relation needs neither. `mode`: "append" (all rows are inserted), "upsert" (the same, for a relation
    with a `key`: a known key gets new values), or "changes" (`op_column` says insert, update or delete); without it,
    "changes" if there is such a column. Within a micro-batch deletions come before insertions, unless
    `order_column` says in which order things happened: then all of it goes through this process, in that order.
    `trigger` is what `DataStreamWriter.trigger` takes: `{"availableNow": True}`, or an interval as text.

    A transaction that fails stops the query with its error; nothing of its micro-batch is applied.
    """
    session._spark  # noqa: B018  (or it says what is needed)
    reader = _reader(session, df, relation, mode, op_column, relation_column, order_column)
    feed = _Feed(session, reader, order_column)
    writer = df.writeStream.foreachBatch(feed.apply).option("checkpointLocation", str(checkpointLocation))
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**({"processingTime": trigger} if isinstance(trigger, str) else trigger))
    query = writer.start()
    feed.started(str(query.id))
    return query


def _reader(
    session: Session,
    df: DataFrame,
    relation: str | None,
    mode: str | None,
    op_column: str,
    relation_column: str | None,
    order_column: str | None,
) -> UpdateReader:
    """What reads the rows of a stream. Raises `UsageProblem` for whatever can be known to be wrong already."""
    if not df.isStreaming:
        raise UsageProblem("this DataFrame is not a stream: `session.load` takes it as it is")
    if mode is None:
        mode = "changes" if op_column in df.columns else "append"
    if mode not in MODES:
        raise UsageProblem(f"unknown mode {mode!r}: it is one of {', '.join(MODES)}")
    op = op_column if mode == "changes" else None
    for column in (op, relation_column, order_column):
        if column is not None and column not in df.columns:
            raise UsageProblem(f"the stream has no column `{column}` (it has {', '.join(df.columns)})")
    names = sorted(name for name in session._coercers if "#" not in name)
    if relation_column is not None:
        if relation is not None:
            raise UsageProblem("either `relation` or `relation_column` says where the rows go, not both")
    elif relation is None:
        if len(names) != 1:
            raise UsageProblem(
                "say which relation the rows go to: relation= or relation_column= "
                f"(base relations: {', '.join(names) or 'none'})"
            )
        relation = names[0]
    elif relation not in names:
        raise session._no_updates(relation)
    relations = {name: (session.plan.relations[name], session._kinds(name)) for name in names}
    if mode == "upsert":
        for name in names if relation is None else [relation]:
            if not relations[name][0].key:
                raise UsageProblem(f"`{name}` has no key: declare it with key(...) to upsert, or use the mode append")
    ignored = [] if order_column is None else [order_column]
    return UpdateReader(df, relations, sole=relation, op=op, which=relation_column, ignored=ignored)


class _Feed:
    """What becomes of the micro-batches of one query."""

    def __init__(self, session: Session, reader: UpdateReader, order: str | None) -> None:
        self._session = session
        self._runtime = session._spark
        self._reader = reader
        self._order = order
        self._id = ""
        self._known = threading.Event()

    def started(self, query: str) -> None:
        """The id of the query is known now: Spark keeps it in the query's checkpoint."""
        self._id = query
        self._known.set()

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply a micro-batch. Called by Spark, in a thread of its own."""
        self._known.wait()
        query = (self._id, number)
        if self._runtime.applied(query):
            return
        reader, session = self._reader, self._session
        if self._order is not None:
            ordered = reader.select(batch.orderBy(f"`{self._order.replace('`', '``')}`"))
            operations = self._operations(ordered.toArrow())
        else:
            rows = reader.select(batch)
            some = rows.limit(SMALL + 1).toArrow()
            if some.num_rows > SMALL:
                chunks = cut(rows, reader, reader.partitioning, session.partitions)
                session._commit([], frames=[gathered(chunks, session.partitions)], query=query)
                return
            operations = self._operations(some)
            operations.sort(key=lambda operation: operation[0] != "-")  # stable: deletions first
        if operations:
            session._commit(operations, query=query)

    def _operations(self, table: Any) -> list[tuple[str, Any, Any]]:
        return [operation for batch in table.to_batches() for operation in self._reader.operations(batch)]
