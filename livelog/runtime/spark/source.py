"""The data source `livelog`: views, and the changes of views, as DataFrames of Spark.

    spark.read.format("livelog").option("relation", "reachable").load(DIRECTORY)
    spark.readStream.format("livelog").option("relation", "reachable").option("changes", "true").load(DIRECTORY)

The directory is the session's. Options: `relation`; `changes` ("true" for the change log of a view, which a stream
always reads: Spark asks for the columns before it says whether it wants a stream); for changes also
`startingTransaction`, a number or "latest" (default: from the beginning of what is recorded), and for a batch of them
`endingTransaction`. A DataFrame shows a view as it was, between two transactions, when its first job began; the session
holds that state for a while. Its rows come from the workers, those of the change log from its files, never through
the driver. How to reach the session stands in a file of its directory, so that the secret is no option and in no plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.spark.arrow import arrow_array, spark_type
from livelog.runtime.spark.dataframes import explained, reported
from livelog.runtime.spark.handshake import Role, connect
from livelog.runtime.spark.inbound import decode_rows
from livelog.runtime.spark.jvm import own_python, quiet, talking
from livelog.runtime.spark.tls import TLS
from livelog.runtime.spark.wire import Connection, WireError
from livelog.store.changefile import change_files, read_changes
from livelog.store.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["LivelogSource", "ask", "read_changes_stream", "read_view", "register"]

NAME = "livelog"
PATIENCE = 600.0
"""Seconds that the session may take to answer: a transaction may be under way."""
BATCH = 10_000

_encode = msgspec.msgpack.Encoder().encode


class _Running(msgspec.Struct):
    """How to reach a session, as it says itself."""

    address: tuple[str, int]
    secret: str
    pid: int = 0
    tls: dict[str, str] | None = None  # the paths of its certificates

    def connect(self, address: tuple[str, int] | None = None) -> Connection:
        """A way to its driver, or to one of its workers."""
        return connect(address or self.address, bytes.fromhex(self.secret), Role.CLIENT, tls=TLS.of(self.tls))

    def __repr__(self) -> str:  # the secret is in it
        return f"<a session at {self.address}>"


def _running(directory: str) -> _Running:
    path = Layout(directory).running
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Running)
    except FileNotFoundError:
        raise UsageProblem(f"no session runs in {directory}: open one there, or resume it") from None
    except OSError as e:
        raise UsageProblem(f"cannot reach the session in {directory}: {path.name}: {e.strerror or e}") from None
    except msgspec.MsgspecError:
        raise UsageProblem(f"cannot reach the session in {directory}: {path.name} makes no sense") from None


def ask(directory: str, *question: Any) -> dict[str, Any]:
    """Ask the driver of the session in a directory."""
    running = _running(directory)
    try:
        with running.connect() as connection:
            answer = msgspec.msgpack.decode(connection.call(_encode(question), PATIENCE))
    except WireError as e:
        raise RuntimeProblem(f"the session in {directory} cannot be reached: {e}") from None
    if "error" in answer:
        raise RuntimeProblem(str(answer["error"]).removeprefix("error: "))
    return dict(answer)


# --- the source ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wanted:
    """What somebody wants to read, from the options."""

    directory: str
    relation: str
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    starting: str | None = None
    ending: int | None = None

    @property
    def after(self) -> int | None:
        """The transaction before the first that is wanted; None: the last there is now."""
        if self.starting == "latest":
            return None
        return -1 if self.starting is None else int(self.starting) - 1


class LivelogSource(DataSource):
    """Spark's entrance. Each of its methods may run in another process."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        with reported():
            wanted = self._wanted()
            changes = ["_transaction bigint", "_change string"] if self._changes else []
            if not wanted.columns and not changes:
                raise UsageProblem(f"`{wanted.relation}` has no columns, and a DataFrame has at least one")
            typed = zip(wanted.columns, wanted.types, strict=True)
            return ", ".join([*changes, *(f"`{_quoted(name)}` {spark_type(kind)}" for name, kind in typed)])

    def reader(self, schema: StructType) -> DataSourceReader:
        with reported():
            return _ChangesReader(self._wanted()) if self._changes else _ViewReader(self._wanted())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with reported():
            if not self._changes:
                raise UsageProblem('a stream reads the changes of a view: add .option("changes", "true")')
            return _ChangesStreamReader(self._wanted())

    @property
    def _changes(self) -> bool:
        return str(self.options.get("changes", "false")).lower() == "true"

    def _wanted(self) -> _Wanted:
        directory, relation = self.options.get("path"), self.options.get("relation")
        if not directory:
            _needs("the session's directory: .load(DIRECTORY)")
        if not relation:
            _needs('a relation: .option("relation", NAME)')
        starting, ending = self.options.get("startingTransaction"), self.options.get("endingTransaction")
        for option, given in (("startingTransaction", starting), ("endingTransaction", ending)):
            if given is not None and not given.isdecimal() and (option, given) != ("startingTransaction", "latest"):
                raise UsageProblem(f"the option {option} is the number of a transaction, not {given!r}")
        directory = directory.removeprefix("file:")
        relations = ask(directory, "describe")["relations"]
        if relation not in relations:
            names = ", ".join(sorted(name for name in relations if "#" not in name))
            raise UsageProblem(f"the program has no relation `{relation}` (it has {names})")
        known = relations[relation]
        columns, types = tuple(known["columns"]), tuple(known["types"])
        return _Wanted(directory, relation, columns, types, starting, None if ending is None else int(ending))


def _needs(what: str) -> NoReturn:
    raise UsageProblem(f'spark.read.format("{NAME}") needs {what}')


def _quoted(name: str) -> str:
    return name.replace("`", "``")


# --- views ---------------------------------------------------------------------------------------------------


@dataclass
class _Held(InputPartition):  # type: ignore[misc, unused-ignore]
    """The rows of one partition, which its worker holds for a while."""

    host: str
    port: int
    held: int
    count: int


class _ViewReader(DataSourceReader):
    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        with reported():
            parts = ask(self._wanted.directory, "hold", self._wanted.relation)["parts"]
            return [_Held(*part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Held)
        with reported():
            yield from _pages(self._wanted, partition)


def _pages(wanted: _Wanted, part: _Held) -> Iterator[Any]:
    if not part.count:
        return
    with _running(wanted.directory).connect((part.host, part.port)) as connection:
        start = 0
        while start < part.count:
            page = connection.call(_encode(("page", part.held, start)), PATIENCE)
            if page == _encode(None):
                raise RuntimeProblem(
                    f"the session no longer holds the rows of `{wanted.relation}` that were to be read: read it again"
                )
            rows = decode_rows(page)
            start += len(rows)
            yield _batch(wanted, rows)


def _batch(wanted: _Wanted, rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [arrow_array(values, kind) for values, kind in zip(columns, wanted.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(wanted.columns))


# --- changes -------------------------------------------------------------------------------------------------


@dataclass
class _Slice(InputPartition):  # type: ignore[misc, unused-ignore]
    """The changes on one partition, of the transactions above `after` up to `upto`."""

    file: str
    after: int
    upto: int


def _slices(wanted: _Wanted, after: int, upto: int) -> list[InputPartition]:
    if upto <= after:
        return []
    return [_Slice(str(file), after, upto) for file in change_files(Layout(wanted.directory), wanted.relation)]


def _changes(wanted: _Wanted, part: InputPartition) -> Iterator[Any]:
    import pyarrow as pa

    assert isinstance(part, _Slice)
    names = ["_transaction", "_change", *wanted.columns]
    changes = read_changes(Path(part.file), part.after, part.upto)
    while some := list(islice(changes, BATCH)):
        numbers, signs, rows = zip(*some, strict=True)
        columns = zip(*rows, strict=True)
        values = [arrow_array(v, kind) for v, kind in zip(columns, wanted.types, strict=True)]
        arrays = [pa.array(numbers, pa.int64()), pa.array(signs, pa.string()), *values]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _follow(wanted: _Wanted) -> int:
    """See to it that the changes are recorded; returns the last transaction."""
    return int(ask(wanted.directory, "follow", wanted.relation, wanted.starting != "latest")["transaction"])


class _ChangesReader(DataSourceReader):
    """The change log as it is now."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        with reported():
            latest, after, ending = _follow(self._wanted), self._wanted.after, self._wanted.ending
            upto = latest if ending is None else min(latest, ending)
            return _slices(self._wanted, latest if after is None else after, upto)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with reported():
            yield from _changes(self._wanted, partition)


class _ChangesStreamReader(DataSourceStreamReader):
    """The change log as it grows. An offset is the last transaction of which everything was read."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted

    def initialOffset(self) -> dict[str, int]:
        with reported():
            latest, after = _follow(self._wanted), self._wanted.after
            return {"transaction": latest if after is None else after}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override, unused-ignore]
        with reported():
            return {"transaction": int(ask(self._wanted.directory, "latest")["transaction"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        with reported():
            return _slices(self._wanted, start["transaction"], end["transaction"])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with reported():
            yield from _changes(self._wanted, partition)


# --- for sessions --------------------------------------------------------------------------------------------


def register(spark: SparkSession) -> None:
    """Make the source known to a Spark session."""
    with own_python(spark.sparkContext):
        spark.dataSource.register(LivelogSource)


def read_view(spark: SparkSession, directory: str, relation: str) -> DataFrame:
    """A relation of a running session as a DataFrame: its state when the first job begins."""
    try:
        with talking(spark), quiet(spark.sparkContext):
            register(spark)
            return spark.read.format(NAME).option("relation", relation).load(directory)
    except Exception as error:
        _tell(error)


def read_changes_stream(
    spark: SparkSession, directory: str, relation: str, starting: int | str | None = None
) -> DataFrame:
    """The changes of a view as a streaming DataFrame: `_transaction`, `_change` ("+" or "-"), and its columns."""
    try:
        with talking(spark), quiet(spark.sparkContext):
            register(spark)
            stream = spark.readStream.format(NAME).option("relation", relation).option("changes", "true")
            if starting is not None:
                stream = stream.option("startingTransaction", str(starting))
            return stream.load(directory)
    except Exception as error:
        _tell(error)


def _tell(error: Exception) -> NoReturn:
    """Raise the sentence that is in an error of Spark's, if there is one."""
    told = explained(error)
    if told is error:
        raise error
    raise told from None
