"""DataFrames of Spark: into a session, out of it, and what changes in between."""

from __future__ import annotations

import random
import re
import selectors
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import datalog
import livelog
from datalog.errors import FactProblem, LivelogError, UsageProblem
from livelog.runtime.spark.arrow import RowReader, arrow_array
from livelog.runtime.spark.clients import HOLDS
from livelog.runtime.spark.dataframes import _pieces, chunked, gathered, gathered_by_hash, hashed, push, pushed
from livelog.runtime.spark.handshake import Door, Greeting
from livelog.runtime.spark.inbound import Inbound, decode_rows, read_batch
from livelog.runtime.spark.source import read_changes_stream, read_view, register
from livelog.runtime.spark.wire import Connection, WireError
from livelog.store.layout import Layout
from livelog.values import Coercer
from operators.partition import Router
from planner.plan import RelationPlan

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """
.decl link(src: symbol, dst: symbol, cost: number)
.decl mixed(n: number, u: unsigned, f: float, s: symbol, l: list) partition(s)
reachable(x, y) :- link(x, y, _).
reachable(x, y) :- link(x, z, _), reachable(z, y).
same(n, u, f, s, l) :- mixed(n, u, f, s, l).
.input anything
any(x) :- anything(x).
none() :- link(_, _, 13).
"""
LINK = RelationPlan("link", ("src", "dst", "cost"), ("symbol", "symbol", "number"), "base", (0,))
KINDS = ["symbol", "symbol", "number"]


# --- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("number", pa.array([1, -(2**63), 2**63 - 1])),
        ("number", pa.array([1, 2], pa.int8())),
        ("number", pa.array([1.0, -3.0])),
        ("unsigned", pa.array([0, 5])),
        ("unsigned", pa.array([4.0])),
        ("float", pa.array([1.5, -0.0])),
        ("float", pa.array([3, 4])),
        ("float", pa.array([1.25], pa.float32())),
        ("symbol", pa.array(["a", "", "ä\0", "a"])),
        ("symbol", pa.array(["x"], pa.large_string())),
        ("list", pa.array([[1, 2], []])),
        ("list", pa.array([[["a"], []], [["b"]]])),
        ("numeric", pa.array([1, 2])),
        ("numeric", pa.array([1.5])),
        ("any", pa.array([1, 2])),
        ("any", pa.array([1.5])),
        ("any", pa.array(["x"])),
        ("any", pa.array([True, False])),
        ("any", pa.array([[1.5]])),
        ("number", pa.array([1.5])),
        ("unsigned", pa.array([1, -1])),
        ("float", pa.array([1.0, float("nan")])),
        ("any", pa.array([float("inf")])),
        ("number", pa.array([True])),
    ],
)
def test_values_are_what_the_session_makes_of_them(kind: str, array: Any) -> None:
    """The same tuples, of the same types, or the same error as for rows in Python."""
    reader, coerce = RowReader("r", ("x",), (kind,)), Coercer("r", ("x",), (kind,))
    batch = pa.RecordBatch.from_arrays([array], names=["c0"])
    try:
        expected: Any = repr([coerce((value,)) for value in array.to_pylist()])
    except FactProblem as problem:
        expected = problem.message
    try:
        found = repr(reader.rows(batch))
    except FactProblem as problem:
        found = problem.message
    assert found == expected


def test_decimals_are_numbers() -> None:
    array = pa.array([Decimal(2**64 - 1), Decimal(3)], pa.decimal128(20, 0))
    cents = pa.array([Decimal("1.00"), Decimal("2.50")], pa.decimal128(10, 2))
    reader = RowReader("r", ("u", "f", "x"), ("unsigned", "float", "any"))
    rows = reader.rows(pa.RecordBatch.from_arrays([array, cents, array], names=["a", "b", "c"][:3]).slice(1))
    assert repr(rows) == "[(3, 2.5, 3)]"
    with pytest.raises(FactProblem, match=r"r\(2\.5\): column `n`: 2\.5 is not a number"):
        RowReader("r", ("n",), ("number",)).rows(pa.RecordBatch.from_arrays([cents], names=["n"]))


def test_arrow_columns_give_the_values_back() -> None:
    rng = random.Random(3)
    values: dict[str, list[Any]] = {
        "number": [rng.randrange(-(2**63), 2**63) for _ in range(50)],
        "unsigned": [rng.randrange(2**64) for _ in range(50)],
        "float": [rng.uniform(-1e300, 1e300) for _ in range(50)],
        "symbol": [f"s{rng.random()}" for _ in range(50)],
    }
    for kind, column in values.items():
        batch = pa.RecordBatch.from_arrays([arrow_array(column, kind)], names=["x"])
        assert RowReader("r", ("x",), (kind,)).rows(batch) == [(v,) for v in column]
    assert arrow_array(["a", 1, (1, ("b",))], "any").to_pylist() == ["a", "1", '[1, ["b"]]']
    assert arrow_array([(), (1, 2)], "list").to_pylist() == ["nil", "[1, 2]"]


def test_large_chunks_are_split() -> None:
    rows = [("x" * 1_000_000, i) for i in range(21)]
    pieces = list(_pieces(rows))
    assert [row for data in pieces for row in decode_rows(data)] == rows
    assert max(map(len, pieces)) < 5 << 20
    assert len(list(_pieces([("x" * 10_000_000,)]))) == 1


# --- hashed and pushed -----------------------------------------------------------------------------------------


def links(spark: Any, n: int) -> Any:
    return spark.range(n).selectExpr(
        "concat('n', cast(id % 1000 as string)) src", "concat('m', cast(id as string)) dst", "cast(id as int) cost"
    )


class Owners:
    """Doors of partitions that only take what is pushed to them."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.layout = Layout(folder)
        self.secret = random.Random(1).randbytes(32)
        self.log: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._doors = []
        self._over = False
        for p in range(partitions):
            inbound = Inbound(self.layout, p, partitions, {"link": 3})
            self._doors.append(Door(self._selector, "127.0.0.1", self.secret, self._admit(inbound), self.log.append))
        self.addresses = [door.address for door in self._doors]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _admit(self, inbound: Inbound) -> Any:
        def admit(client: Connection, greeting: Greeting) -> None:
            self._selector.register(client, selectors.EVENT_READ, lambda mask: self._hear(inbound, client))

        return admit

    def _hear(self, inbound: Inbound, client: Connection) -> None:
        try:
            for message in client.receive():
                kind, *arguments = msgspec.msgpack.decode(message)
                for answer in inbound.take(client, kind, arguments):
                    client.send(answer)
            client.flush()
        except (WireError, ValueError):
            self._selector.unregister(client)
            client.close()
            inbound.forget(client)

    def _serve(self) -> None:
        while not self._over:
            for key, mask in self._selector.select(0.05):
                key.data(mask)

    def close(self) -> None:
        self._over = True
        self._thread.join()
        for door in self._doors:
            door.close()


@pytest.fixture
def owners(tmp_path: Path) -> Iterator[Owners]:
    owners = Owners(tmp_path, 3)
    yield owners
    owners.close()


def test_chunks_get_to_their_owners(spark: Any, owners: Owners) -> None:
    df = links(spark, 20_000)
    chunks = chunked(df, LINK, KINDS, 3)
    for placed in (gathered(chunks, 3), gathered_by_hash(chunks, 3)):
        parts = placed.rdd.mapPartitionsWithIndex(lambda i, rows: [(i, row.owner) for row in rows]).collect()
        assert {i for i, _ in parts} == {0, 1, 2}
        assert all(i == owner for i, owner in parts)
        assert len(parts) < 40  # chunks, not rows
    frame = hashed(df, LINK, KINDS, 3, "-").unionAll(hashed(links(spark, 5), LINK, KINDS, 3))
    files = push(frame, owners.addresses, owners.secret, "12")
    assert [sign for _, sign, *_ in files] == sorted((sign for _, sign, *_ in files), key=lambda sign: sign != "-")
    owner_of = Router(LINK.partition, 3)
    pushed_rows: dict[str, list[Any]] = {"+": [], "-": []}
    for relation, sign, name, owner, count in files:
        rows = list(read_batch(owners.layout, name))
        assert relation == "link"
        assert len(rows) == count
        assert all(owner_of(row) == owner for row in rows)
        pushed_rows[sign] += rows
    expected = [(f"n{i % 1000}", f"m{i}", i) for i in range(20_000)]
    assert sorted(pushed_rows["-"]) == sorted(expected)
    assert sorted(pushed_rows["+"]) == expected[:5]
    assert not owners.log


def test_the_secret_is_in_no_plan(spark: Any, owners: Owners, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pushed(hashed(links(spark, 10), LINK, KINDS, 3), owners.addresses, owners.secret, "12")
    frame.explain(True)
    text = capsys.readouterr().out
    assert "push_chunks" in text
    for form in (owners.secret.hex(), repr(owners.secret), str(list(owners.secret))):
        assert form not in text


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["'a' src", "'b' dst", "if(id = 7, null, id) cost"], 'link("a", "b", null): column `cost` is null'),
        (["'a' src", "'b' dst", "if(id = 7, 2.5D, id) cost"], 'link("a", "b", 2.5): column `cost`: 2.5 is not a n'),
    ],
)
def test_a_bad_row_is_one_sentence(spark: Any, owners: Owners, columns: list[str], sentence: str) -> None:
    frame = hashed(spark.range(10).selectExpr(*columns), LINK, KINDS, 3)
    with pytest.raises(FactProblem) as raised:
        push(frame, owners.addresses, owners.secret, "12")
    assert sentence in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.__suppress_context__
    assert not list(owners.layout.batches.glob("*/*"))


def test_an_owner_that_is_gone_is_one_sentence(spark: Any, owners: Owners) -> None:
    frame = hashed(links(spark, 10), LINK, KINDS, 3)
    with pytest.raises(LivelogError, match="a partition could not be reached") as raised:
        push(frame, owners.addresses, b"another secret of 32 bytes......", "12")
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["'a' src", "'b' dst", "current_date() cost"], "column `cost` of `link` is a number, which date is not"),
        (["1 a", "'b' b", "1 c"], "column `src` of `link` is a symbol, which int (the DataFrame's `a`) is not"),
        (["'a' src", "array(1) dst", "1 cost"], "column `dst` of `link` is a symbol, which array<int> is not"),
        (["'a' src", "'b' dst", "true cost"], "column `cost` of `link` is a number, which boolean is not"),
        (["'a' src", "'b' dst"], "`link` has 3 columns (src, dst, cost), but the DataFrame has 2 columns (src, dst)"),
    ],
)
def test_columns_that_do_not_fit_are_refused_at_once(spark: Any, columns: list[str], sentence: str) -> None:
    with pytest.raises(UsageProblem, match=re.escape(sentence)):
        hashed(spark.range(1).selectExpr(*columns), LINK, KINDS, 3)


# --- sessions --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests; each of them looks at rows of its own."""
    runtime = livelog.Spark(spark, partitions=2, checkpoint=tmp_path_factory.mktemp("session"))
    facts = {"link": spark.createDataFrame([("a", "b", 1), ("b", "c", 2)], "src string, dst string, cost int")}
    with livelog.open(datalog.parse(PROGRAM), facts=facts, runtime=runtime) as session:
        yield session


def of(session: Any, relation: str, prefix: str) -> list[Any]:
    return [row for row in session[relation] if str(row[0]).startswith(prefix)]


def test_facts_come_in_with_the_stage(session: Any) -> None:
    assert [r for r in session["reachable"] if len(r[0]) == 1] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_a_large_load_and_the_way_back(spark: Any, session: Any) -> None:
    n = 100_000
    many = spark.range(n).selectExpr("concat('L', id) src", "concat('M', id % 9) dst", "id cost")
    changes = session.load("link", many)
    assert len(changes["reachable"].inserted) == n
    view = session["reachable"].to_spark()
    assert view.filter("x like 'L%'").count() == n
    assert view.schema.simpleString() == "struct<x:string,y:string>"
    found = {tuple(row) for row in view.filter("x like 'L%' and y = 'M4'").collect()}
    assert found == {(f"L{i}", "M4") for i in range(4, n, 9)}


def test_a_session_can_be_loaded_from_itself(session: Any) -> None:
    view = session["reachable"].to_spark().filter("length(x) = 1")
    session.load("link", view.selectExpr("concat('own', x) src", "concat('own', y) dst", "1 cost"))
    assert of(session, "link", "own") == [("owna", "ownb", 1), ("owna", "ownc", 1), ("ownb", "ownc", 1)]


def test_columns_are_matched_by_name_or_by_position(spark: Any, session: Any) -> None:
    session.load("link", spark.sql("select 5 cost, 'named' src, 'x' dst, current_date() more"))
    session.load("link", spark.sql("select 'placed' a, 'x' b, 6 c"))
    assert of(session, "link", "named") == [("named", "x", 5)]
    assert of(session, "link", "placed") == [("placed", "x", 6)]


def test_all_types_survive_the_round_trip(spark: Any, session: Any) -> None:
    rows = [(-(2**63), 2**64 - 1, 0.1, 'a "quoted" ä', (1, 2)), (5, 0, -2.0, "", ())]
    with session.transaction() as tx:
        for row in rows:
            tx.insert("mixed", row)
    df = session["same"].to_spark()
    assert df.dtypes == [
        ("n", "bigint"), ("u", "decimal(20,0)"), ("f", "double"), ("s", "string"), ("l", "string"),
    ]  # fmt: skip
    assert sorted(map(tuple, df.collect())) == [(*rows[0][:4], "[1, 2]"), (*rows[1][:4], "nil")]
    with session.transaction() as tx:
        for row in rows:
            tx.delete("mixed", row)
    assert session["same"].to_spark().count() == 0
    session.load("mixed", spark.sql(f"select 5 n, cast({2**64 - 1} as decimal(20,0)) u, 1 f, 's' s, array(array(1)) l"))
    assert list(session["same"]) == [(5, 2**64 - 1, 1.0, "s", ((1,),))]
    session.load("anything", spark.sql("select 'text' x"))
    session.load("anything", spark.sql("select 1.5D x"))
    assert {row.x for row in session["any"].to_spark().collect()} == {"text", "1.5"}


def test_a_dataframe_is_one_state(session: Any) -> None:
    """That of its first job, whatever happens later; the next one is newer."""
    with session.transaction() as tx:
        tx.insert("link", ("now", "then", 1))
    df = session["reachable"].to_spark().filter("x like 'now%'")
    assert df.count() == 1
    with session.transaction() as tx:
        tx.delete("link", ("now", "then", 1))
        tx.insert("link", ("now2", "then", 1))
    assert [tuple(row) for row in df.collect()] == [("now", "then")]
    newer = session["reachable"].to_spark().filter("x like 'now%'")
    assert [tuple(row) for row in newer.collect()] == [("now2", "then")]


def test_a_state_that_is_no_longer_held_is_said_to_be(session: Any) -> None:
    df = session["reachable"].to_spark()
    df.count()
    for _ in range(HOLDS):
        session._runtime.hold("any")
    with session.transaction() as tx:
        tx.insert("link", ("held", "no more", 1))
    with pytest.raises(Exception, match="no longer holds the rows of `reachable` that were to be read: read it again"):
        df.count()


def test_a_bad_load_changes_nothing(spark: Any, session: Any) -> None:
    before = len(session["link"])
    with pytest.raises(FactProblem, match="is null"):
        session.load("link", spark.sql("select 'bad' src, 'x' dst, 1 cost union all select 'bad', 'x', null"))
    with pytest.raises(UsageProblem, match="is a view"):
        session.load("reachable", spark.sql("select 'bad' x, 'x' y"))
    assert len(session["link"]) == before


def test_what_cannot_be_read_is_said_in_a_sentence(spark: Any, session: Any, tmp_path: Path) -> None:
    directory = str(session.directory)
    with pytest.raises(UsageProblem, match=r"no relation `nope` \(it has any, anything, link"):
        read_view(spark, directory, "nope")
    with pytest.raises(UsageProblem, match="no session runs in"):
        read_view(spark, str(tmp_path), "link")
    with pytest.raises(UsageProblem, match="has no columns"):
        session["none"].to_spark()
    register(spark)
    source = spark.read.format("livelog")
    with pytest.raises(Exception, match=r"needs a relation: .option\(.{1,3}relation"):
        source.load(directory)
    with pytest.raises(UsageProblem, match="startingTransaction is the number of a transaction, not '-5'"):
        read_changes_stream(spark, directory, "reachable", -5)


def test_the_source_tells_no_secret(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    secret = msgspec.json.decode((session.directory / "running.json").read_bytes())["secret"]
    session["reachable"].to_spark().explain(True)
    assert secret not in capsys.readouterr().out
    assert (session.directory / "running.json").stat().st_mode & 0o077 == 0


# --- changes as a stream ---------------------------------------------------------------------------------------


def test_changes_stream_into_sinks_across_restarts(spark: Any, session: Any, tmp_path: Path) -> None:
    """Into a parquet sink with two restarts of the query, and into memory: what arrives adds up to the view."""
    stream = session.changes("reachable").to_spark_stream()
    assert stream.columns == ["_transaction", "_change", "x", "y"]

    def drain() -> None:
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination(120)
        assert query.exception() is None
        query.stop()

    def arrived() -> list[Any]:
        return sorted(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect())

    drain()
    assert sorted(row[2:] for row in arrived()) == sorted(session["reachable"])
    base = len(arrived())
    with session.transaction() as tx:
        tx.insert("link", ("s1", "s2", 1))
    with session.transaction() as tx:
        tx.insert("link", ("s2", "s3", 1))
    drain()
    with session.transaction() as tx:
        tx.delete("link", ("s1", "s2", 1))
        tx.insert("link", ("s3", "s4", 1))
    drain()
    drain()  # nothing new
    signs: dict[tuple[str, ...], int] = {}
    for _, sign, *row in arrived():
        signs[tuple(row)] = signs.get(tuple(row), 0) + (1 if sign == "+" else -1)
    assert sorted(row for row, count in signs.items() if count) == sorted(session["reachable"])
    assert set(signs.values()) <= {0, 1}
    numbers = sorted({row[0] for row in arrived()})
    last = [(sign, *row) for number, sign, *row in arrived() if number == numbers[-1]]
    assert last == [("+", "s2", "s4"), ("+", "s3", "s4"), ("-", "s1", "s2"), ("-", "s1", "s3")]
    assert len(arrived()) == base + 1 + 2 + 4
    # one more reader, from the last transaction on
    late = session.changes("reachable").to_spark_stream(starting=numbers[-1])
    query = late.writeStream.format("memory").queryName("late").start()
    query.processAllAvailable()
    assert spark.table("late").count() == 4
    with session.transaction() as tx:
        tx.delete("link", ("s3", "s4", 1))
    query.processAllAvailable()
    query.stop()
    assert [tuple(r)[1:] for r in spark.table("late").filter(f"_transaction > {numbers[-1]}").sort("x").collect()] == [
        ("-", "s2", "s4"), ("-", "s3", "s4"),
    ]  # fmt: skip
    # the log as a batch
    log = spark.read.format("livelog").options(relation="reachable", changes="true", endingTransaction=numbers[-1])
    assert log.load(str(session.directory)).count() == base + 7


def test_a_stream_reads_changes(spark: Any, session: Any) -> None:
    register(spark)
    with pytest.raises(Exception, match="a stream reads the changes of a view: add"):
        stream = spark.readStream.format("livelog").option("relation", "reachable").load(str(session.directory))
        query = stream.writeStream.format("memory").queryName("never").start()
        query.processAllAvailable()
