"""DataFrames in: rows become tuples of a relation's types, hashed to the partitions that own them, and pushed there.

Spark moves chunks, not rows: each Arrow batch is turned into one msgpack list of rows per owner, and only those go
through the shuffle. Nothing passes the driver but the names of the files in which the owners keep what they got.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from datalog.errors import FactProblem, LivelogError, RuntimeProblem, UsageProblem
from livelog.runtime.spark.arrow import RowReader, select_columns
from livelog.runtime.spark.handshake import Role, connect
from livelog.runtime.spark.jvm import own_python, quiet, talking, worker_problem
from livelog.runtime.spark.tls import TLS
from livelog.runtime.spark.wire import Connection, WireError
from operators.partition import Router
from planner.plan import RelationPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SCHEMA", "chunked", "cut", "explained", "gathered", "hashed", "push"]

SCHEMA = "owner int, relation string, sign string, rows binary"
"""Of chunks: rows of a relation that one partition owns, to insert ("+") or delete ("-"), as a msgpack list."""

CHUNK = 4 << 20
"""Bytes of a chunk, about."""

PATIENCE = 600.0
"""Seconds that a partition may take to answer: it may be in the middle of a transaction."""

_FILES = "relation string, sign string, file string, owner int, count long"
_MARK = "livelog: "
_MARKED = re.compile(re.escape(_MARK) + r'("(?:[^"\\]|\\.)*")')

_encode = msgspec.msgpack.Encoder().encode


def hashed(
    df: DataFrame, relation: RelationPlan, kinds: Sequence[str], partitions: int, sign: str = "+"
) -> DataFrame:
    """The rows of a DataFrame as chunks, each in the Spark partition whose number is that of its owner.

    Columns are matched by name, or by position when the names differ. `kinds` are the types of the relation's columns,
    as the session knows them. Raises `UsageProblem` if a column cannot hold its values.
    """
    return gathered(chunked(df, relation, kinds, partitions, sign), partitions)


def chunked(
    df: DataFrame, relation: RelationPlan, kinds: Sequence[str], partitions: int, sign: str = "+"
) -> DataFrame:
    """The rows of a DataFrame as chunks, wherever they are. Those of several relations can be put together."""
    reader = RowReader(relation.name, relation.columns, kinds, sign)
    rows = select_columns(df, relation.name, relation.columns, kinds)
    return cut(rows, reader, {relation.name: relation.partition}, partitions)


class Reader(Protocol):
    """What makes tuples of Arrow batches, in a task."""

    def groups(self, batch: Any) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
        """The tuples of a batch by sign and relation."""


def cut(df: DataFrame, reader: Reader, partitioning: dict[str, tuple[int, ...]], partitions: int) -> DataFrame:
    """The rows of a DataFrame, as a reader understands them, as chunks.

    `partitioning` has the columns of each relation whose hash picks the owner of a tuple.
    """
    cutter = _Cutter(reader, partitioning, partitions)

    def to_chunks(batches: Iterator[Any]) -> Iterator[Any]:  # what plans call it
        return cutter(batches)

    with own_python(df.sparkSession.sparkContext):
        return df.mapInArrow(to_chunks, SCHEMA)


@dataclass(frozen=True)
class _Cutter:
    """Turns Arrow batches into chunks, in a task."""

    reader: Reader
    partitioning: dict[str, tuple[int, ...]]
    partitions: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with reported():
            routers = {name: Router(columns, self.partitions) for name, columns in self.partitioning.items()}
            for batch in batches:
                chunks = []
                for (sign, relation), rows in sorted(self.reader.groups(batch).items()):
                    shares = routers[relation].split_tuples(rows)
                    chunks += [(o, relation, sign, data) for o in sorted(shares) for data in _pieces(shares[o])]
                if chunks:
                    yield _record_batch(chunks, ["owner", "relation", "sign", "rows"])


def gathered(chunks: DataFrame, partitions: int) -> DataFrame:
    """Chunks, shuffled to the Spark partitions with the numbers of their owners."""
    if hasattr(chunks, "repartitionById"):  # Spark 4.1
        return chunks.repartitionById(partitions, "owner")
    return gathered_by_hash(chunks, partitions)


def gathered_by_hash(chunks: DataFrame, partitions: int) -> DataFrame:
    """The same where Spark only places by its own hash: for each owner a number is found that it hashes to it."""
    from pyspark.sql import functions as f

    number = f.col("id").cast("int")
    found: dict[int, int] = {}
    tried = 0
    while len(found) < partitions:
        numbers = chunks.sparkSession.range(tried, tried + 64 * partitions, 1, 1)
        for place, least in numbers.groupBy(f.pmod(f.hash(number), f.lit(partitions))).agg(f.min(number)).collect():
            found.setdefault(place, least)
        tried += 64 * partitions
    keys = f.array(*[f.lit(found[i]) for i in range(partitions)])
    keyed = chunks.withColumn("place", f.element_at(keys, f.col("owner") + 1))
    return keyed.repartition(partitions, "place").drop("place")


def _pieces(rows: list[tuple[Any, ...]]) -> Iterator[bytes]:
    """Rows as msgpack, in several pieces if they are large."""
    data = _encode(rows)
    if len(data) <= CHUNK or len(rows) == 1:
        yield data
    else:
        half = len(rows) // 2
        yield from _pieces(rows[:half])
        yield from _pieces(rows[half:])


def _record_batch(rows: list[tuple[Any, ...]], names: list[str]) -> Any:
    """Rows as an Arrow batch; there may be none."""
    import pyarrow as pa

    types = {"owner": pa.int32(), "rows": pa.binary(), "count": pa.int64()}
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    arrays = [pa.array(values, types.get(name, pa.string())) for values, name in zip(columns, names, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


# --- pushing -------------------------------------------------------------------------------------------------


def push(
    chunks: DataFrame, addresses: Sequence[tuple[str, int]], secret: bytes, token: str, tls: TLS | None = None
) -> list[tuple[str, str, str, int, int]]:
    """Let Spark's tasks bring chunks to their owners; returns the files: (relation, sign, name, owner, rows),
    those with rows to delete first.

    `addresses` are the owners' doors. Only files of attempts that were completed are returned: what a task left that
    died half way, or ran twice, is not among them. `token` names what is pushed, for one folder.
    """
    spark = chunks.sparkSession
    try:
        with talking(spark), quiet(spark.sparkContext):
            files = [tuple(row) for row in pushed(chunks, addresses, secret, token, tls).collect()]
    except Exception as error:
        told = explained(error)
        if told is error:
            raise
        raise told from None
    return sorted(files, key=lambda file: (file[1] != "-", *file))


def pushed(
    chunks: DataFrame, addresses: Sequence[tuple[str, int]], secret: bytes, token: str, tls: TLS | None = None
) -> DataFrame:
    """What `push` runs. The secret is in a pickled object, and nowhere in Spark's plan."""
    bring = _Pusher(list(addresses), secret, token, tls)

    def push_chunks(batches: Iterator[Any]) -> Iterator[Any]:  # what plans call it
        return bring(batches)

    with own_python(chunks.sparkSession.sparkContext):
        return chunks.mapInArrow(push_chunks, _FILES)


@dataclass(frozen=True)
class _Pusher:
    """Brings chunks to their owners, in a task."""

    addresses: list[tuple[str, int]]
    secret: bytes = field(repr=False)
    token: str
    tls: TLS | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        attempt = (self.token, context.partitionId(), context.taskAttemptId())
        files: list[tuple[Any, ...]] = []
        owners: dict[int, Connection] = {}
        with reported(), contextlib.ExitStack() as stack:
            for batch in batches:
                for owner, relation, sign, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    if owner not in owners:
                        connection = connect(
                            self.addresses[owner], self.secret, Role.CLIENT, timeout=60, tls=self.tls
                        )
                        owners[owner] = stack.enter_context(connection)
                    owners[owner].send(_encode(("rows", *attempt, relation, sign, data)))
                    owners[owner].drain(PATIENCE)
            for owner, connection in sorted(owners.items()):
                for relation, sign, name, count in _staged(connection, attempt):
                    files.append((relation, sign, name, owner, count))
        yield _record_batch(files, ["relation", "sign", "file", "owner", "count"])


def _staged(connection: Connection, attempt: tuple[str, int, int]) -> list[Any]:
    answer = msgspec.msgpack.decode(connection.call(_encode(("staged", *attempt)), PATIENCE))
    if isinstance(answer, dict):
        raise RuntimeProblem(answer["error"])
    files: list[Any] = answer
    return files


# --- errors --------------------------------------------------------------------------------------------------


class _InTask(Exception):
    """An error with one sentence in it that can be found again in what Spark makes of it."""


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """In a Spark task: let the sentence of an error survive the way to the driver."""
    try:
        yield
    except LivelogError as error:
        raise _InTask(_MARK + json.dumps(f"{type(error).__name__} {error.message}")) from None
    except WireError as error:
        raise _InTask(_MARK + json.dumps(f"RuntimeProblem a partition could not be reached: {error}")) from None


def explained(error: Exception) -> Exception:
    """An error of a Spark job as the sentence that a task reported, if it did, or that tells why none could run.

    >>> explained(ValueError('Job aborted. _InTask: livelog: "FactProblem r(1) is \\\\"odd\\\\"" at worker.py')).message
    'r(1) is "odd"'
    """
    text = str(error)
    found = _MARKED.search(text)
    if found is None:
        problem = worker_problem(text)
        return error if problem is None else UsageProblem(problem)
    kind, _, sentence = json.loads(found[1]).partition(" ")
    kinds: dict[str, type[LivelogError]] = {"FactProblem": FactProblem, "UsageProblem": UsageProblem}
    return kinds.get(kind, RuntimeProblem)(sentence)
