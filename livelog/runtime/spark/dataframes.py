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
from typing import TYPE_CHECKING, Any

import msgspec

from datalog.errors import FactProblem, LivelogError, RuntimeProblem, UsageProblem
from livelog.runtime.spark.arrow import RowReader, select_columns
from livelog.runtime.spark.handshake import Role, connect
from livelog.runtime.spark.wire import Connection, WireError
from operators.partition import Router
from planner.plan import RelationPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SCHEMA", "chunked", "explained", "gathered", "hashed", "push"]

SCHEMA = "owner int, relation string, sign string, rows binary"
"""Of chunks: rows of a relation that one partition owns, to insert ("+") or delete ("-"), as a msgpack list."""

CHUNK = 4 << 20
"""Bytes of a chunk, about."""

PATIENCE = 600.0
"""Seconds that a partition may take to answer: it may be in the middle of a transaction."""

_FILES = "relation string, sign string, file string, owner int, rows long"
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
    cut = _Cutter(relation, tuple(kinds), partitions, sign)

    def to_chunks(batches: Iterator[Any]) -> Iterator[Any]:  # what plans call it
        return cut(batches)

    return select_columns(df, relation.name, relation.columns, kinds).mapInArrow(to_chunks, SCHEMA)


@dataclass(frozen=True)
class _Cutter:
    """Turns Arrow batches into chunks, in a task."""

    relation: RelationPlan
    kinds: tuple[str, ...]
    partitions: int
    sign: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with reported():
            reader = RowReader(self.relation.name, self.relation.columns, self.kinds)
            owner_of = Router(self.relation.partition, self.partitions)
            for batch in batches:
                shares = owner_of.split_tuples(reader.rows(batch))
                chunks = [(o, data) for o, rows in sorted(shares.items()) for data in _pieces(rows)]
                if chunks:
                    yield _chunk_batch(self.relation.name, self.sign, chunks)


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


def _chunk_batch(relation: str, sign: str, chunks: list[tuple[int, bytes]]) -> Any:
    import pyarrow as pa

    n = len(chunks)
    arrays = [
        pa.array([owner for owner, _ in chunks], pa.int32()),
        pa.array([relation] * n, pa.string()),
        pa.array([sign] * n, pa.string()),
        pa.array([data for _, data in chunks], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["owner", "relation", "sign", "rows"])


# --- pushing -------------------------------------------------------------------------------------------------


def push(
    chunks: DataFrame, addresses: Sequence[tuple[str, int]], secret: bytes, token: str
) -> list[tuple[str, str, str, int, int]]:
    """Let Spark's tasks bring chunks to their owners; returns the files: (relation, sign, name, owner, rows).

    `addresses` are the owners' doors. Only files of attempts that were completed are returned: what a task left that
    died half way, or ran twice, is not among them. `token` names what is pushed, for one folder.
    """
    try:
        return sorted(tuple(row) for row in pushed(chunks, addresses, secret, token).collect())
    except Exception as error:
        told = explained(error)
        if told is error:
            raise
        raise told from None


def pushed(chunks: DataFrame, addresses: Sequence[tuple[str, int]], secret: bytes, token: str) -> DataFrame:
    """What `push` runs. The secret is in a pickled object, and nowhere in Spark's plan."""
    bring = _Pusher(list(addresses), secret, token)

    def push_chunks(batches: Iterator[Any]) -> Iterator[Any]:  # what plans call it
        return bring(batches)

    return chunks.mapInArrow(push_chunks, _FILES)


@dataclass(frozen=True)
class _Pusher:
    """Brings chunks to their owners, in a task."""

    addresses: list[tuple[str, int]]
    secret: bytes = field(repr=False)
    token: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
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
                        connection = connect(self.addresses[owner], self.secret, Role.CLIENT, timeout=60)
                        owners[owner] = stack.enter_context(connection)
                    owners[owner].send(_encode(("rows", *attempt, relation, sign, data)))
                    owners[owner].drain(PATIENCE)
            for owner, connection in sorted(owners.items()):
                for relation, sign, name, rows in _staged(connection, attempt):
                    files.append((relation, sign, name, owner, rows))
        columns = list(zip(*files, strict=True)) or [()] * 5
        types = [pa.string(), pa.string(), pa.string(), pa.int32(), pa.int64()]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["relation", "sign", "file", "owner", "rows"])


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
    """An error of a Spark job as the sentence that a task reported, if it did.

    >>> explained(ValueError('Job aborted. _InTask: livelog: "FactProblem r(1) is \\\\"odd\\\\"" at worker.py')).message
    'r(1) is "odd"'
    """
    found = _MARKED.search(str(error))
    if found is None:
        return error
    kind, _, sentence = json.loads(found[1]).partition(" ")
    kinds: dict[str, type[LivelogError]] = {"FactProblem": FactProblem, "UsageProblem": UsageProblem}
    return kinds.get(kind, RuntimeProblem)(sentence)
