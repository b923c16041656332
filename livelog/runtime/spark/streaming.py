"""Structured Streaming in: every micro-batch of a streaming DataFrame is one transaction, applied exactly once.

Spark may run a micro-batch again after a crash, under the same number and with the same rows. The number goes into the
session's log with the transaction, under the id that the query keeps in its checkpoint, so a batch that was applied
before is recognised, whoever died in between. Small batches go through the driver; the rows of large ones go from
Spark's tasks to the workers that own them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from datalog.errors import FactProblem, UsageProblem
from livelog.runtime.spark.arrow import RowReader, select_columns
from livelog.runtime.spark.dataframes import chunked, gathered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from livelog.session import Session

__all__ = ["MODES", "stream"]

MODES = ("append", "upsert", "changes")

SMALL = 10_000
"""Micro-batches up to so many rows go through the driver: for those a job of Spark's takes longer than the rest."""

_SIGNS = {
    "insert": "+", "+": "+", "i": "+", "c": "+", "r": "+",
    "update": "u", "u": "u", "upsert": "u",
    "delete": "-", "-": "-", "d": "-",
}  # fmt: skip
"""What the column of operations may say, whatever its case: in words, in signs, and as Debezium does."""

Operation = tuple[str, Any, Any]


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
    feed = _Feed(session, df, relation, mode, op_column, relation_column, order_column)
    writer = df.writeStream.foreachBatch(feed.apply).option("checkpointLocation", str(checkpointLocation))
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**({"processingTime": trigger} if isinstance(trigger, str) else trigger))
    query = writer.start()
    feed.started(str(query.id))
    return query


class _Feed:
    """What becomes of the micro-batches of one query."""

    def __init__(
        self,
        session: Session,
        df: DataFrame,
        relation: str | None,
        mode: str | None,
        op_column: str,
        relation_column: str | None,
        order_column: str | None,
    ) -> None:
        self._session = session
        self._runtime = session._spark  # raises unless the session is over Spark
        self._id = ""
        self._known = threading.Event()
        if not df.isStreaming:
            raise UsageProblem("this DataFrame is not a stream: `session.load` takes it as it is")
        if mode is None:
            mode = "changes" if op_column in df.columns else "append"
        if mode not in MODES:
            raise UsageProblem(f"unknown mode {mode!r}: it is one of {', '.join(MODES)}")
        if relation is not None and relation_column is not None:
            raise UsageProblem("either `relation` or `relation_column` says where the rows go, not both")
        self._mode = mode
        self._op = op_column if mode == "changes" else None
        self._which = relation_column
        self._order = order_column
        for column in (self._op, self._which, self._order):
            if column is not None and column not in df.columns:
                raise UsageProblem(f"the stream has no column `{column}` (it has {', '.join(df.columns)})")
        self._extra = [c for c in (self._op, self._which, self._order) if c is not None]
        self._relation = None if self._which is not None else self._sole(relation)
        if self._relation is not None:
            self._check(self._relation, df)

    def started(self, query: str) -> None:
        """The id of the query is known now: Spark keeps it in the query's checkpoint."""
        self._id = query
        self._known.set()

    # --- what can be known before the first row -----------------------------------------------------------------

    def _sole(self, relation: str | None) -> str:
        names = [name for name in self._session._coercers if "#" not in name]
        if relation is None:
            if len(names) != 1:
                raise UsageProblem(
                    f"say which relation the rows go to: relation= or relation_column= (base relations: "
                    f"{', '.join(sorted(names)) or 'none'})"
                )
            relation = names[0]
        return relation

    def _check(self, relation: str, df: DataFrame) -> DataFrame:
        """The relation's columns of a stream or of a micro-batch of it. Raises `UsageProblem` if they do not fit."""
        session = self._session
        if relation not in session._coercers or "#" in relation:
            raise session._no_updates(relation)
        plan = session.plan.relations[relation]
        if self._mode == "upsert" and not plan.key:
            raise UsageProblem(f"`{relation}` has no key: declare it with key(...) to upsert, or use the mode append")
        kept = self._data(relation, df)
        return select_columns(kept, relation, plan.columns, session._kinds(relation))

    def _data(self, relation: str, df: DataFrame) -> DataFrame:
        """Without the columns that say what to do with a row, unless the relation itself has one of that name."""
        columns = self._session.plan.relations[relation].columns
        if set(columns) <= set(df.columns):
            return df
        if self._which is not None:  # the columns of other relations are there too
            missing = ", ".join(f"`{c}`" for c in columns if c not in df.columns)
            raise UsageProblem(f"the stream lacks columns of `{relation}`: {missing}")
        return df.drop(*self._extra)

    # --- micro-batches ------------------------------------------------------------------------------------------

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply a micro-batch. Called by Spark, in a thread of its own."""
        self._known.wait()
        query = (self._id, number)
        if self._runtime.applied(query):
            return
        if self._order is not None:
            self._session._commit(list(self._operations(batch.orderBy(self._order))), query=query)
            return
        some = batch.limit(SMALL + 1).toArrow()
        if not some.num_rows:
            return
        if some.num_rows <= SMALL:
            operations = list(self._in_table(some, batch))
            operations.sort(key=lambda operation: operation[0] != "-")  # stable: deletions first
            self._session._commit(operations, query=query)
            return
        batch = batch.persist()
        try:
            self._session._commit([], frames=self._frames(batch), query=query)
        finally:
            batch.unpersist()

    def _operations(self, batch: DataFrame) -> Iterator[Operation]:
        return self._in_table(batch.toArrow(), batch)

    def _in_table(self, table: Any, batch: DataFrame) -> Iterator[Operation]:
        """The operations in the rows of a micro-batch, in their order."""
        names = batch.columns
        ops = self._texts(table, self._op)
        which = self._texts(table, self._which)
        rows: dict[str, list[Any]] = {}
        for relation in sorted(set(which)) if which is not None else [self._relation or ""]:
            indices = None if which is None else [i for i, name in enumerate(which) if name == relation]
            rows[relation] = self._rows(relation, batch, table if indices is None else table.take(indices), names)
        streams = {relation: iter(found) for relation, found in rows.items()}
        for i in range(table.num_rows):
            relation = self._relation or "" if which is None else which[i]
            sign = "+" if ops is None else self._sign(ops[i], relation)
            yield sign, relation, next(streams[relation])

    def _rows(self, relation: str, batch: DataFrame, table: Any, names: list[str]) -> list[Any]:
        """The tuples of one relation in a table."""
        self._check(relation, batch)
        plan = self._session.plan.relations[relation]
        kept = self._data(relation, batch).columns
        wanted = plan.columns if set(plan.columns) <= set(kept) else kept
        reader = RowReader(relation, plan.columns, self._session._kinds(relation))
        selected = table.select([names.index(c) for c in wanted]).combine_chunks()
        if not plan.columns:
            return [()] * table.num_rows
        return [row for part in selected.to_batches() for row in reader.rows(part)]

    def _texts(self, table: Any, column: str | None) -> list[str] | None:
        if column is None:
            return None
        values: list[Any] = table.column(column).to_pylist()
        for value in values:
            if not isinstance(value, str):
                what = "null" if value is None else repr(value)
                raise FactProblem(f"column `{column}` of the stream is {what}, not a text")
        return values

    def _sign(self, op: str, relation: str) -> str:
        sign = _SIGNS.get(op.lower())
        if sign is None:
            raise FactProblem(f"column `{self._op}` of the stream is {op!r}: it says insert, update or delete")
        if sign == "u":
            if not self._session.plan.relations[relation].key:
                raise FactProblem(
                    f"column `{self._op}` of the stream is {op!r}, but `{relation}` has no key: without one there is "
                    "nothing to update"
                )
            return "+"
        return sign

    def _frames(self, batch: DataFrame) -> list[Any]:
        """A large micro-batch as one frame, deletions before insertions."""
        from pyspark.sql import functions as f

        marks = [f.col(_name(c)).cast("string") for c in (self._which, self._op) if c is not None]
        kinds = batch.select(*marks).distinct().collect() if marks else [()]
        wanted: dict[tuple[str, str], list[Column]] = {}
        for kind in kinds:
            values = list(kind)
            for column, value in zip([c for c in (self._which, self._op) if c is not None], values, strict=True):
                if value is None:
                    raise FactProblem(f"column `{column}` of the stream is null, not a text")
            relation = values.pop(0) if self._which is not None else self._relation or ""
            self._check(relation, batch)
            sign = self._sign(values.pop(0), relation) if self._op is not None else "+"
            told = f.lit(True)
            for mark, value in zip(marks, kind, strict=True):
                told = told & (mark == f.lit(value))
            wanted.setdefault((sign, relation), []).append(told)
        frames = []
        session = self._session
        for (sign, relation), conditions in sorted(wanted.items(), key=lambda w: (w[0][0] != "-", w[0][1])):
            either = conditions[0]
            for condition in conditions[1:]:
                either = either | condition
            data = self._data(relation, batch.filter(either))
            plan = session.plan.relations[relation]
            frames.append(chunked(data, plan, session._kinds(relation), session.partitions, sign))
        return [gathered(frame, session.partitions) for frame in frames]


def _name(column: str) -> str:
    return f"`{column.replace('`', '``')}`"
