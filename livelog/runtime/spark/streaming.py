"""Structured Streaming in: every micro-batch of a streaming DataFrame is one transaction, applied exactly once.

Spark may run a micro-batch again after a crash, under the same number and with the same rows. The number goes into the
session's log with the transaction, under the id that the query keeps in its checkpoint, so a batch that was applied
before is recognised, whoever died in between, and one that was applied and is not in the log is missed. Small batches
go through the driver; the rows of large ones go from Spark's tasks to the workers that own them.

Rows that make no operation stop the query, or are left out: then they stand in a file for each micro-batch, which is
written as a whole before the transaction, and so once, however often Spark runs it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

from datalog.errors import LivelogError, RuntimeProblem, UsageProblem
from livelog.operations import Operation
from livelog.runtime.spark.dataframes import cut, explained, gathered
from livelog.runtime.spark.eventtime import Dated, EventTimes, check_time_column, watermark
from livelog.runtime.spark.jvm import mute, own_python, quiet, talking
from livelog.runtime.spark.updates import Rejected, UpdateReader
from livelog.store.layout import make_folder, write_atomically

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from livelog.session import Session

__all__ = ["MODES", "ON_ERROR", "Query", "stream"]

MODES = ("append", "upsert", "changes")
ON_ERROR = ("stop", "skip")

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
    time_column: str | None = None,
    query_name: str | None = None,
    trigger: str | Mapping[str, Any] | None = None,
    on_error: str = "stop",
    accept_loss: bool = False,
) -> Query:
    """Apply a streaming DataFrame to a session from now on: every micro-batch is one transaction.

    `relation` is where the rows go, or `relation_column` names the column that says it row by row; a program with a
    single base relation needs neither. `mode`: "append" (all rows are inserted), "upsert" (the same, for a relation
    with a `key`: a known key gets new values), or "changes" (`op_column` says insert, update or delete); without it,
    "changes" if there is such a column. Within a micro-batch deletions come before insertions, unless
    `order_column` says in which order things happened: then all of it goes through this process, in that order.
    `time_column` says when it happened: then Spark's watermark is the clock, in seconds since 1970, and each row comes
    at its time, when the watermark has passed it; rows older than the clock are late, and fit no relation.
    `trigger` is what `DataStreamWriter.trigger` takes: `{"availableNow": True}`, or an interval as text.

    A transaction that fails stops the query with its error; nothing of its micro-batch is applied. `on_error` is what
    becomes of rows that fit no relation: they stop the query, too ("stop"), or are left out ("skip"): then they stand,
    each with the reason, in `rejected/QUERY/BATCH.jsonl` in the session's folder.

    A query whose last micro-batches are not in the session's log is refused, unless `accept_loss` is set.
    """
    session._spark  # noqa: B018  (or it says what is needed)
    if on_error not in ON_ERROR:
        raise UsageProblem(f"unknown on_error {on_error!r}: it is one of {', '.join(ON_ERROR)}")
    reader = _reader(
        session, df, relation, mode, op_column, relation_column, order_column, time_column, on_error == "skip"
    )
    feed = _Feed(session, df.sparkSession, reader, order_column, time_column, accept_loss)
    writer = df.writeStream.foreachBatch(feed.apply).option("checkpointLocation", str(checkpointLocation))
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**({"processingTime": trigger} if isinstance(trigger, str) else trigger))
    with talking(df.sparkSession):
        query = Query(writer.start()._jsq, feed)
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
    time_column: str | None,
    skips: bool,
) -> UpdateReader:
    """What reads the rows of a stream. Raises `UsageProblem` for whatever can be known to be wrong already."""
    if not df.isStreaming:
        raise UsageProblem("this DataFrame is not a stream: `session.load` takes it as it is")
    if mode is None:
        mode = "changes" if op_column in df.columns else "append"
    if mode not in MODES:
        raise UsageProblem(f"unknown mode {mode!r}: it is one of {', '.join(MODES)}")
    op = op_column if mode == "changes" else None
    for column in (op, relation_column, order_column, time_column):
        if column is not None and column not in df.columns:
            raise UsageProblem(f"the stream has no column `{column}` (it has {', '.join(df.columns)})")
    if time_column is not None:
        check_time_column(df, time_column)
        if order_column is not None:
            raise UsageProblem("either `order_column` or `time_column` puts the rows in order, not both")
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
    relations = {name: (session.plan.relations[name].given, session._kinds(name)) for name in names}
    if mode == "upsert":
        for name in names if relation is None else [relation]:
            if not relations[name][0].key:
                raise UsageProblem(f"`{name}` has no key: declare it with key(...) to upsert, or use the mode append")
    ignored = [column for column in (order_column, time_column) if column is not None]
    return UpdateReader(
        df, relations, sole=relation, op=op, which=relation_column, time=time_column, ignored=ignored, skips=skips
    )


class Query(StreamingQuery):
    """Spark's own query, which tells in one sentence why it ended, and how many rows it left out."""

    def __init__(self, jsq: Any, feed: _Feed) -> None:
        super().__init__(jsq)
        self._feed = feed

    @property
    def rejected(self) -> int:
        """How many rows were left out so far, also by the same query before it was started again."""
        return self._feed.rejected()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        return self._told(super().awaitTermination, timeout)  # type: ignore[no-any-return]

    def processAllAvailable(self) -> None:
        self._told(super().processAllAvailable)

    def exception(self) -> Any:
        found = super().exception()
        return found if found is None or self._feed.problem is None else self._feed.problem

    def _told(self, act: Any, *arguments: Any) -> Any:
        try:
            with mute():
                return act(*arguments)
        except Exception:
            if self._feed.problem is None:
                raise
            raise self._feed.problem from None


class _Feed:
    """What becomes of the micro-batches of one query. `problem` is why it failed, where we know."""

    def __init__(
        self,
        session: Session,
        spark: SparkSession,
        reader: UpdateReader,
        order: str | None,
        time: str | None,
        accept_loss: bool,
    ) -> None:
        self.problem: LivelogError | None = None
        self._session = session
        self._spark = spark
        self._runtime = session._spark
        self._reader = reader
        self._order = order
        self._time = time
        self._accept_loss = accept_loss
        self._id = ""
        self._known = threading.Event()

    def started(self, query: str) -> None:
        """The id of the query is known now: Spark keeps it in the query's checkpoint."""
        self._id = query
        self._known.set()

    def rejected(self) -> int:
        """How many rows were left out."""
        folder = self._runtime.journal.layout.rejected(self._id, 0).parent
        return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply a micro-batch. Called by Spark, in a thread of its own."""
        self._known.wait()
        query = (self._id, number)
        if self._runtime.applied(query):
            return
        try:
            # Spark would tell all that it knows of an error of ours; it is told by the query, in a sentence.
            with quiet(batch.sparkSession.sparkContext):
                self._expect(number)
                self._apply(batch, query)
        except LivelogError as problem:
            self.problem = problem
            raise

    def _expect(self, number: int) -> None:
        """Raise if a micro-batch before this one was applied once, and the log does not know of it."""
        last = self._runtime.journal.queries.get(self._id)
        if last is not None and number > last + 1 and not self._accept_loss:
            lost = f"{last + 1} to {number - 1}" if number > last + 2 else f"{last + 1}"
            raise RuntimeProblem(
                f"the session's log lacks the micro-batches {lost} of this query, which Spark takes for applied: "
                "restore the log, or go on without them by `accept_loss=True`"
            )

    def _apply(self, batch: DataFrame, query: tuple[str, int]) -> None:
        reader, session = self._reader, self._session
        if self._time is not None:
            operations, bad = self._in_time(batch, query)
        elif self._order is not None:
            ordered = reader.select(batch.orderBy(f"`{self._order.replace('`', '``')}`"))
            operations, bad = self._operations(ordered.toArrow())
        else:
            rows = reader.select(batch)
            some = rows.limit(SMALL + 1).toArrow()
            if some.num_rows > SMALL:
                if reader.skips:
                    self._keep(query, _rejected(rows, reader))
                chunks = cut(rows, reader, reader.partitioning, session.partitions)
                session._commit_frames([gathered(chunks, session.partitions)], query)
                return
            operations, bad = self._operations(some)
            operations.sort(key=lambda operation: operation[0] != "-")  # stable: deletions first
        self._keep(query, bad)
        session._commit(operations, {"query": query})  # also where there are none: the log knows every micro-batch

    def _in_time(self, batch: DataFrame, query: tuple[str, int]) -> tuple[list[Operation], list[Rejected]]:
        """The operations of a micro-batch and of those before it that the watermark has passed."""
        clock = self._session.clock
        rows: list[Dated] = []
        rejected: list[Rejected] = []
        for some in self._reader.select(batch).toArrow().to_batches():
            good, bad = self._reader.dated(some, clock)
            rows += good
            rejected += bad
        times = EventTimes(self._runtime.journal.layout, query[0])
        return times.operations(query[1], rows, clock, watermark(self._spark, query[0])), rejected

    def _operations(self, table: Any) -> tuple[list[Operation], list[Rejected]]:
        operations: list[Operation] = []
        rejected: list[Rejected] = []
        for batch in table.to_batches():
            good, bad = self._reader.parted(batch) if self._reader.skips else (self._reader.operations(batch), [])
            operations += good
            rejected += bad
        return operations, rejected

    def _keep(self, query: tuple[str, int], rejected: list[Rejected]) -> None:
        """Write down what a micro-batch leaves out: whole, and over what an earlier attempt has written."""
        if not rejected:
            return
        path = self._runtime.journal.layout.rejected(*query)
        lines = [json.dumps({"row": r.row, "why": r.why}, default=str, ensure_ascii=False) + "\n" for r in rejected]
        try:
            make_folder(path.parent)
            write_atomically(path, "".join(lines).encode("utf-8", "backslashreplace"))
        except OSError as e:
            raise RuntimeProblem(f"rows that are left out cannot be written to {path}: {e.strerror or e}") from None
        count = "a row was" if len(rejected) == 1 else f"{len(rejected)} rows were"
        self._runtime._note(f"{count} left out of micro-batch {query[1]}, see {path}: {rejected[0].why}")


def _rejected(rows: DataFrame, reader: UpdateReader) -> list[Rejected]:
    """The bad rows of a large micro-batch, found where they are."""
    import pyarrow as pa

    def find_rejected(batches: Iterator[Any]) -> Iterator[Any]:  # what plans call it
        for batch in batches:
            found = reader.parted(batch)[1]
            shown = [json.dumps(r.row, default=str) for r in found]
            arrays = [pa.array(values, pa.string()) for values in (shown, [r.why for r in found])]
            yield pa.RecordBatch.from_arrays(arrays, names=["row", "why"])

    try:
        with own_python(rows.sparkSession.sparkContext):
            found = rows.mapInArrow(find_rejected, "row string, why string")
        return [Rejected(json.loads(row), why) for row, why in found.collect()]
    except Exception as error:
        if (told := explained(error)) is error:
            raise
        raise told from None
