"""Structured Streaming in: every micro-batch is one transaction, and applied once, whatever is started again."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import FactProblem, UsageProblem
from livelog.runtime.spark import streaming

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """
.decl link(src: symbol, dst: symbol, cost: number)
.decl price(item: symbol, amount: float) key(item)
.decl coin(n: number) bag
reachable(x, y) :- link(x, y, _).
reachable(x, y) :- link(x, z, _), reachable(z, y).
inverse(i, y) :- price(i, a), y = 12 / (a - 7).
cheap(i) :- price(i, a), a < 5.
total(sum<n>) :- coin(n).
"""
LINKS = "op string, src string, dst string, cost long"


@pytest.fixture(scope="module")
def session(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests; each of them uses names of its own."""
    runtime = livelog.Spark(spark, partitions=2, checkpoint=tmp_path_factory.mktemp("session"))
    with livelog.open(datalog.parse(PROGRAM), runtime=runtime) as session:
        yield session


class Folder:
    """A folder of JSON files as a stream: a file that is put into it is a micro-batch."""

    def __init__(self, spark: Any, path: Path, schema: str) -> None:
        self._path = path / "files"
        self._path.mkdir()
        self._count = 0
        self._stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

    @property
    def stream(self) -> Any:
        return self._stream.json(str(self._path))

    def put(self, *rows: dict[str, Any]) -> None:
        self._count += 1
        hidden = self._path / f".{self._count}"
        hidden.write_text("\n".join(map(json.dumps, rows)))
        stamp = 1_700_000_000 + self._count  # the order of the batches is that of the files' times
        os.utime(hidden, (stamp, stamp))
        hidden.rename(self._path / f"{self._count}.json")


@pytest.fixture
def folder(spark: Any, tmp_path: Path) -> Callable[[str], Folder]:
    return lambda schema: Folder(spark, tmp_path, schema)


def link(op: str, src: str, dst: str, cost: int = 1) -> dict[str, Any]:
    return {"op": op, "src": src, "dst": dst, "cost": cost}


def of(session: Any, relation: str, prefix: str) -> list[Any]:
    return [row for row in session[relation] if str(row[0]).startswith(prefix)]


def drain(query: Any) -> None:
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None


# --- modes ---------------------------------------------------------------------------------------------------


def test_inserts_and_deletes(session: Any, folder: Any, tmp_path: Path) -> None:
    files = folder(LINKS)
    files.put(link("insert", "ia", "ib"), link("+", "ib", "ic"), link("I", "ic", "id"))
    files.put(link("delete", "ib", "ic"), link("insert", "ia", "ic"))
    files.put(link("Insert", "ix", "iy"), link("D", "ix", "iy"), link("-", "ic", "id"))  # deletions come first
    before = session.stats().transactions
    drain(session.stream(files.stream, tmp_path / "checkpoint", relation="link"))
    assert session.stats().transactions == before + 3
    assert of(session, "link", "i") == [("ia", "ib", 1), ("ia", "ic", 1), ("ix", "iy", 1)]
    assert of(session, "reachable", "i") == [("ia", "ib"), ("ia", "ic"), ("ix", "iy")]


def test_a_large_micro_batch_never_passes_the_driver(
    session: Any, folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "SMALL", 20)
    files = folder(LINKS)
    files.put(link("insert", "gold", "g"))
    files.put(*[link("insert", f"g{i}", "g", i) for i in range(500)], link("delete", "gold", "g"))
    runs: list[tuple[int, bool]] = []
    runtime, run = session._runtime, session._runtime.run

    def watched(operations: Any, **origin: Any) -> Any:
        runs.append((len(operations), origin.get("batch") is not None))
        return run(operations, **origin)

    monkeypatch.setattr(runtime, "run", watched)
    drain(session.stream(files.stream, tmp_path / "checkpoint", relation="link"))
    assert runs == [(1, False), (0, True)]
    assert of(session, "link", "g") == sorted((f"g{i}", "g", i) for i in range(500))


def test_upsert_and_update_by_key(session: Any, folder: Any, tmp_path: Path) -> None:
    files = folder("item string, amount double")
    files.put({"item": "ua", "amount": 1.0}, {"item": "ub", "amount": 2.0})
    files.put({"item": "ua", "amount": 9.0})
    drain(session.stream(files.stream, tmp_path / "one", relation="price", mode="upsert"))
    assert of(session, "price", "u") == [("ua", 9.0), ("ub", 2.0)]
    assert of(session, "cheap", "u") == [("ub",)]
    (tmp_path / "more").mkdir()
    changes = Folder(session._spark.config.spark, tmp_path / "more", "op string, item string, amount double")
    changes.put({"op": "update", "item": "ub", "amount": 6.0}, {"op": "delete", "item": "ua", "amount": 9.0})
    drain(session.stream(changes.stream, tmp_path / "two", relation="price"))
    assert of(session, "price", "u") == [("ub", 6.0)]


def test_rows_name_their_relation_and_their_order(session: Any, folder: Any, tmp_path: Path) -> None:
    files = folder("at long, what string, op string, src string, dst string, cost long, item string, amount double")
    linked = {"what": "link", "src": "oa", "dst": "ob", "cost": 1}
    priced = {"what": "price", "item": "o", "amount": 3.0}
    files.put(
        {"at": 3, "op": "insert", **linked}, {"at": 2, "op": "delete", **linked}, {"at": 1, "op": "insert", **linked},
        {"at": 2, "op": "update", **priced}, {"at": 5, "op": "update", **priced, "amount": 4.0},
        {"at": 9, "op": "delete", **linked, "dst": "none"},
    )  # fmt: skip
    files.put({"at": 8, "op": "delete", **priced, "amount": 4.0}, {"at": 7, "op": "insert", **priced, "amount": 4.0})
    options = {"relation_column": "what", "order_column": "at"}
    drain(session.stream(files.stream, tmp_path / "checkpoint", **options))
    assert of(session, "link", "o") == [("oa", "ob", 1)]
    assert of(session, "price", "o") == []  # inserted at 7, deleted at 8


def test_many_relations_in_a_large_micro_batch(
    session: Any, folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "SMALL", 5)
    files = folder("what string, src string, dst string, cost long, item string, amount double")
    some = [{"what": "link", "src": f"w{i}", "dst": "w", "cost": 1} for i in range(20)]
    files.put(*some, *[{"what": "price", "item": f"w{i}", "amount": 8.0} for i in range(20)])
    drain(session.stream(files.stream, tmp_path / "checkpoint", relation_column="what"))
    assert len(of(session, "reachable", "w")) == 20
    assert len(of(session, "price", "w")) == 20


# --- exactly once ----------------------------------------------------------------------------------------------


def test_a_micro_batch_that_spark_runs_again_is_not_applied_again(
    session: Any, folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark forgets that a batch was done, as when it dies right after it; a bag shows every copy."""
    files, checkpoint = folder("n long"), tmp_path / "checkpoint"
    files.put({"n": 1}, {"n": 10})
    files.put({"n": 100})
    drain(session.stream(files.stream, checkpoint, relation="coin"))
    assert list(session["total"]) == [(111,)]
    commits = sorted(path for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    assert [path.name for path in commits] == ["0", "1"]
    for again in ("small", "large"):
        if again == "large":
            monkeypatch.setattr(streaming, "SMALL", 0)
        commits[-1].unlink()
        (checkpoint / "commits" / ".1.crc").unlink()
        drain(session.stream(files.stream, checkpoint, relation="coin"))
        assert list(session["total"]) == [(111,)]
    files.put({"n": 1000})
    files.put({"n": 10000})
    drain(session.stream(files.stream, checkpoint, relation="coin"))
    assert list(session["total"]) == [(11111,)]


def test_a_query_that_is_stopped_anywhere_goes_on_from_there(spark: Any, session: Any, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
    coins = rate.selectExpr("value + 1000000 n")
    for _ in range(3):
        query = session.stream(coins, tmp_path / "checkpoint", relation="coin")
        seen = len(session["coin"])
        while len(session["coin"]) < seen + 14 and query.isActive:
            query.awaitTermination(0.05)
        query.stop()
        assert query.exception() is None
    [(total,)] = session["total"]
    values = [n for (n,) in session["coin"] if n >= 1_000_000]
    assert values == [1_000_000 + i for i in range(len(values))]
    assert len(values) >= 42
    assert total == sum(values) + sum(n for (n,) in session["coin"] if n < 1_000_000)


def test_a_new_checkpoint_is_another_query(session: Any, folder: Any, tmp_path: Path) -> None:
    """Its batches start from zero again, and are not mistaken for those of the one before."""
    files = folder(LINKS)
    files.put(link("insert", "na", "nb"))
    drain(session.stream(files.stream, tmp_path / "one", relation="link"))
    with session.transaction() as tx:
        tx.delete("link", ("na", "nb", 1))
    query = session.stream(
        files.stream, tmp_path / "two", relation="link", query_name="two", trigger={"availableNow": True}
    )
    assert query.name == "two"
    assert query.awaitTermination(120)
    assert of(session, "link", "n") == [("na", "nb", 1)]


def test_batches_are_remembered_across_sessions(spark: Any, folder: Any, tmp_path: Path) -> None:
    """The driver ends between the commit of a transaction and Spark's note of it; both are started again."""
    files, checkpoint = folder("n long"), tmp_path / "checkpoint"
    runtime = livelog.Spark(spark, partitions=1, checkpoint=tmp_path / "session")
    files.put({"n": 5})
    program = datalog.parse(".decl coin(n: number) bag\ntotal(sum<n>) :- coin(n).")
    with livelog.open(program, runtime=runtime) as first:
        drain(first.stream(files.stream, checkpoint))
        first.checkpoint()
        assert list(first["total"]) == [(5,)]
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink()
    files.put({"n": 50})
    with livelog.resume(tmp_path / "session", runtime) as second:
        drain(second.stream(files.stream, checkpoint))
        assert list(second["total"]) == [(55,)]


# --- what goes wrong -------------------------------------------------------------------------------------------


def fails(query: Any) -> str:
    with pytest.raises(Exception) as raised:
        query.processAllAvailable()
    query.stop()
    return str(raised.value)


def test_a_transaction_that_fails_stops_the_query(session: Any, folder: Any, tmp_path: Path) -> None:
    files = folder("item string, amount double")
    files.put({"item": "fine", "amount": 1.0})
    files.put({"item": "also", "amount": 2.0}, {"item": "zero", "amount": 7.0})
    query = session.stream(files.stream, tmp_path / "checkpoint", relation="price")
    text = fails(query)
    assert "division by zero" in text
    assert "12 / (a - 7)" in text
    assert of(session, "price", "fine") == [("fine", 1.0)]
    assert of(session, "price", "also") == []
    with session.transaction() as tx:  # the session goes on
        tx.insert("price", ("later", 3.0))
    assert of(session, "cheap", "later") == [("later",)]


@pytest.mark.parametrize("small", [0, 10])
def test_bad_rows_stop_the_query(
    session: Any, folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """The sentences are the same for small and for large micro-batches."""
    monkeypatch.setattr(streaming, "SMALL", small)
    files = folder(LINKS)
    files.put(link("huh", "ba", "bb"))
    sentence = "column `op` of the stream is 'huh': it says insert, update or delete"
    assert sentence in fails(session.stream(files.stream, tmp_path / "one", relation="link"))
    if small:
        files.put(link("update", "ba", "bb"))
        query = session.stream(files.stream.filter("op != 'huh'"), tmp_path / "two", relation="link")
        assert "but `link` has no key" in fails(query)
        files.put({"op": "insert", "src": "ba", "dst": None, "cost": 1})
        query = session.stream(files.stream.filter("op = 'insert'"), tmp_path / "three", relation="link")
        assert 'link("ba", null, 1): column `dst` is null' in fails(query)
        files.put({**link("insert", "ba", "bb"), "op": None})
        query = session.stream(files.stream.filter("op is null"), tmp_path / "four", relation="link")
        assert "column `op` of the stream is null" in fails(query)
        query = session.stream(
            files.stream.filter("op = 'insert'").selectExpr("'nope' op", "'+' x", "src", "dst", "cost"),
            tmp_path / "five", relation_column="op", op_column="x",
        )  # fmt: skip
        assert "no relation `nope` to update (base relations: coin, link, price)" in fails(query)
    assert of(session, "link", "b") == []


def test_a_query_that_failed_tells_it_in_one_sentence(
    session: Any, folder: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = folder(LINKS)
    files.put({"op": "insert", "src": "ca", "dst": None, "cost": 1})
    query = session.stream(files.stream, tmp_path / "one", relation="link")
    sentence = 'link("ca", null, 1): column `dst` is null, and a relation has no nulls'
    with pytest.raises(FactProblem) as raised:
        query.awaitTermination()
    assert raised.value.message == sentence == query.exception().message
    assert not [record for record in caplog.records if "py4j" in record.pathname]


@pytest.mark.parametrize("small", [0, 10])
def test_bad_rows_are_left_out_once(
    session: Any, folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(streaming, "SMALL", small)
    name = f"d{small}"
    files = folder(LINKS)
    bad = {"op": "insert", "src": f"{name}b", "dst": None, "cost": 1}
    files.put(link("insert", f"{name}a", "x"), bad, link("huh", f"{name}c", "x"), link("insert", f"{name}d", "x"))
    files.put({"op": None, "src": f"{name}e", "dst": "x", "cost": 1})  # nothing is left of this one
    files.put(link("insert", f"{name}f", "x"))
    method = "run" if small else "run_pushed"
    real, failing = getattr(session._runtime, method), [True]

    def dies(*arguments: Any, **options: Any) -> Any:
        if failing and options.get("query"):
            failing.clear()
            raise RuntimeError("the driver dies before the transaction")
        return real(*arguments, **options)

    monkeypatch.setattr(session._runtime, method, dies)
    assert "the driver dies" in fails(session.stream(files.stream, tmp_path / "q", relation="link", on_error="skip"))
    query = session.stream(files.stream, tmp_path / "q", relation="link", on_error="skip")
    drain(query)
    assert [row[0] for row in of(session, "link", name)] == [f"{name}a", f"{name}d", f"{name}f"]
    folder_ = session.directory / "rejected" / str(query.id)
    found = {path.name: [json.loads(line) for line in path.read_text().splitlines()] for path in folder_.iterdir()}
    assert sorted(found) == ["0.jsonl", "1.jsonl"] and query.rejected == 3
    assert found["0.jsonl"][0] == {
        "row": bad, "why": f'link("{name}b", null, 1): column `dst` is null, and a relation has no nulls'
    }
    assert "'huh'" in found["0.jsonl"][1]["why"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder_.iterdir()} == {0o600}
    assert session._runtime.journal.queries[str(query.id)] == 2, "the log knows every micro-batch"
    if small:  # Spark takes two for applied that the log does not know of
        session._runtime.journal._progress.queries[str(query.id)] = 0
        files.put(link("insert", f"{name}g", "x"))
        query = session.stream(files.stream, tmp_path / "q", relation="link", on_error="skip")
        assert "lacks the micro-batches 1 to 2 of this query" in fails(query)
        drain(session.stream(files.stream, tmp_path / "q", relation="link", on_error="skip", accept_loss=True))
        assert of(session, "link", f"{name}g")


@pytest.mark.parametrize(
    ("schema", "options", "sentence"),
    [
        (LINKS, {}, r"say which relation the rows go to.*\(base relations: coin, link, price\)"),
        (LINKS, {"relation": "nope"}, "no relation `nope` to update"),
        (LINKS, {"relation": "reachable"}, "`reachable` is a view"),
        (LINKS, {"relation": "link", "mode": "replace"}, "unknown mode 'replace': it is one of append, upsert, c"),
        (LINKS, {"relation": "link", "mode": "upsert"}, r"`link` has no key: declare it with key\(...\)"),
        (LINKS, {"relation": "link", "relation_column": "src"}, "either `relation` or `relation_column`"),
        (LINKS, {"relation": "link", "op_column": "kind", "mode": "changes"}, "the stream has no column `kind`"),
        (LINKS, {"relation": "link", "order_column": "at"}, "the stream has no column `at`"),
        (LINKS, {"relation": "link", "on_error": "ignore"}, "unknown on_error 'ignore': it is one of stop, skip"),
        ("op string, src string", {"relation": "link"}, r"`link` has 3 columns .* has 1 column \(src\)"),
        ("src string, dst string, cost string", {"relation": "link"}, "`cost` of `link` is a number, which string"),
    ],
)
def test_what_can_be_known_at_once_is_said_at_once(
    session: Any, folder: Any, tmp_path: Path, schema: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageProblem, match=sentence):
        session.stream(folder(schema).stream, tmp_path / "checkpoint", **options)


def test_a_stream_is_needed_and_a_session_over_spark(spark: Any, session: Any, folder: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="this DataFrame is not a stream"):
        session.stream(spark.range(3), tmp_path / "checkpoint", relation="coin")
    with livelog.open(datalog.parse(PROGRAM)) as local, pytest.raises(UsageProblem, match="needs a session over Spark"):
        local.stream(folder(LINKS).stream, tmp_path / "checkpoint", relation="link")


def test_a_stream_of_changes_into_another_relation(session: Any, tmp_path: Path) -> None:
    """Out of a view and into a base relation of the same session, while both run."""
    with session.transaction() as tx:
        tx.insert("price", ("pa", 1.0))
        tx.insert("price", ("pb", 9.0))
    changes = session.changes("cheap").to_spark_stream().filter("i like 'p%'")
    back = changes.selectExpr("_change", "concat('from-', i) src", "'here' dst", "1 cost")
    query = session.stream(back, tmp_path / "checkpoint", relation="link", op_column="_change")
    query.processAllAvailable()
    assert of(session, "link", "from-") == [("from-pa", "here", 1)]
    with session.transaction() as tx:
        tx.insert("price", ("pb", 2.0))
        tx.delete("price", ("pa", 1.0))
    query.processAllAvailable()
    query.stop()
    assert of(session, "reachable", "from-") == [("from-pb", "here")]
