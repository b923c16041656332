"""The nested-aggregate queries: engine, triggers and naive loops agree after every transaction, and the bench runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import topologies
from bench import nested, tpch
from bench.nested_naive import BRAND, CONTAINER, NAIVE, Row, Tables
from bench.nested_queries import QUERIES, Engine, Operation, Query, Triggers
from bench.nested_sorted import SORTED
from bench.nested_triggers import Nq2Hoisted

FINANCE = ("vwap", "mst", "psp", "sq1", "sq2", "nq1", "nq2")
Step = list[Operation]


def majority(rng: random.Random) -> Iterator[Step]:
    """A bag of few rows, so that copies, equal sums, sums of 0 and empty groups are all there at times."""
    rows: list[Row] = []
    for _ in range(60):
        if rows and rng.random() < 0.4:
            yield [("-", "r", rows.pop(rng.randrange(len(rows))))]
        else:
            rows.append((rng.randint(1, 4), rng.randint(-2, 4)))
            yield [("+", "r", rows[-1])]


def orders(rng: random.Random) -> Iterator[Step]:
    """A small book with many ties that is filled and then emptied, some of its transactions of several rows."""
    book = topologies.order_book(14, events=45, filled=False, retractions=0.3, updates=0.2, brokers=2, start=20,
                                 depth=3, seed=rng.randrange(10**6))  # fmt: skip
    live: list[tuple[str, Row]] = []
    step: Step = []
    for each in book.steps:
        for sign, side, row in each.operations:
            # volumes of very different sizes: psp drops some
            changed = (*row[:3], (1, 4, 10_000, 70_000)[row[3] % 4], row[4])
            (live.append if sign == "+" else live.remove)((side, changed))
            step.append((sign, side, changed))
        if rng.random() < 0.7:
            yield step
            step = []
    yield step
    rng.shuffle(live)
    for side, row in live:
        yield [("-", side, row)]


def sales(rng: random.Random) -> Iterator[Step]:
    """Rows of a small TPC-H that come and go, all tables alike."""
    universe: list[tuple[str, Row]] = [("customer", (c, f"c{c}")) for c in range(3)]
    universe += [("orders", (o, o % 3, "1998-01-01", 100 * o)) for o in range(5)]
    universe += [("part", (p, BRAND, CONTAINER if p else "BAG")) for p in range(3)]
    universe += [
        ("lineitem", (rng.randrange(5), line, rng.randrange(3), rng.choice((1, 5, 40, 90, 160)), rng.randint(1, 999)))
        for line in range(40)
    ]
    live: set[tuple[str, Row]] = set()
    for _ in range(80):
        step: Step = []
        for relation, row in rng.sample(universe, rng.choice((1, 1, 4))):
            sign = "-" if (relation, row) in live else "+"
            (live.remove if sign == "-" else live.add)((relation, row))
            step.append((sign, relation, row))
        yield step


STREAMS = {"half": majority, "halves": majority, **dict.fromkeys(FINANCE, orders), "q17": sales, "q18": sales}


def relevant(query: Query, step: Step) -> Step:
    return [operation for operation in step if operation[1] in query.relations]


def changed(tables: dict[str, list[Row]], step: Step) -> Tables:
    for sign, relation, row in step:
        (tables[relation].append if sign == "+" else tables[relation].remove)(row)
    return tables


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_engine_triggers_and_loops_agree(name: str, seed: int) -> None:
    query = QUERIES[name]
    engine, other, triggers = Engine(query), Engine(query, partitions=3, seed=seed), Triggers(query)
    tables: dict[str, list[Row]] = {relation: [] for relation in query.relations}
    seen = 0
    for step in STREAMS[name](random.Random(seed)):
        operations = relevant(query, step)
        expected = sorted(NAIVE[name](changed(tables, operations)))
        for one in (engine, other, triggers):
            one.apply(operations)
            assert one.rows() == expected, (name, seed, operations, tables)
        seen += bool(expected)
    assert seen > 2, "some answers are not empty"


@pytest.mark.parametrize("seed", range(4))
def test_groups(seed: int) -> None:
    query = Query("halves", "13_majority", ("r",), QUERIES["half"].trigger)
    engine = Engine(query)
    tables: dict[str, list[Row]] = {"r": []}
    for step in majority(random.Random(seed)):
        engine.apply(step)
        assert engine.rows() == sorted(NAIVE["halves"](changed(tables, step)))


@pytest.mark.parametrize("name", FINANCE)
@pytest.mark.parametrize("seed", range(3))
def test_volumes_of_any_sign(name: str, seed: int) -> None:
    """Sums that fall while prices rise, that are 0 and that are equal: no trigger is right here, the engine is."""
    rng = random.Random(seed)
    query = QUERIES[name]
    engine = Engine(query)
    tables: dict[str, list[Row]] = {relation: [] for relation in query.relations}
    for number in range(40):
        side = rng.choice(query.relations)
        if tables[side] and rng.random() < 0.4:
            step = [("-", side, rng.choice(tables[side]))]
        else:
            step = [("+", side, (number, number, number % 2, rng.randint(-3, 4), rng.randint(1, 6)))]
        engine.apply(step)
        assert engine.rows() == sorted(NAIVE[name](changed(tables, step))), (name, seed, tables)


@pytest.mark.parametrize("name", SORTED)
@pytest.mark.parametrize("seed", range(3))
def test_the_quick_check_is_right(name: str, seed: int) -> None:
    tables: dict[str, list[Row]] = {"bids": [], "asks": []}
    for step in orders(random.Random(seed)):
        assert sorted(SORTED[name](changed(tables, step))) == sorted(NAIVE[name](tables))


@pytest.mark.parametrize("seed", range(3))
def test_the_hoisted_trigger_is_nq2(seed: int) -> None:
    plain, hoisted = Triggers(QUERIES["nq2"]), Triggers(Query("nq2", "14_order_book", ("bids",), Nq2Hoisted))
    for step in orders(random.Random(seed)):
        operations = relevant(QUERIES["nq2"], step)
        plain.apply(operations)
        hoisted.apply(operations)
        assert plain.rows() == hoisted.rows()


# --- TPC-H -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the generated tables are."""
    if not tpch.available():
        pytest.skip("tpchgen-cli is not installed: pip install 'livelog[dev]'")
    return tmp_path_factory.mktemp("tpch")


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, list[Row]]:
    return tpch.tables(0.001, folder)


def test_tpch_tables(data: dict[str, list[Row]]) -> None:
    assert {name: len(rows) for name, rows in data.items()} == {
        "part": 200, "customer": 150, "orders": 1500, "lineitem": 6005,
    }  # fmt: skip
    assert data["lineitem"][0] == (1, 1, 156, 17, 1795455) and data["orders"][0] == (1, 37, "1996-01-02", 13125181)
    assert {row[3] for row in data["lineitem"]} == set(range(1, 51))


def test_skew(data: dict[str, list[Row]]) -> None:
    skewed = tpch.skewed(data, seed=1)
    assert skewed == tpch.skewed(data, seed=1) != tpch.skewed(data, seed=2)
    assert skewed["orders"] == data["orders"]
    assert [row[:2] for row in skewed["lineitem"]] == [row[:2] for row in data["lineitem"]]
    asked = {key for key, *kind in data["part"] if kind == [BRAND, CONTAINER]}
    lines = [row for row in skewed["lineitem"] if row[2] in asked]
    assert asked and len(lines) > 0.3 * 6005
    assert len({row[3] for row in lines}) > 0.9 * len(lines), "nearly all quantities differ"


@pytest.mark.parametrize("name", ["q17", "q18"])
@pytest.mark.parametrize("skew", [False, True])
def test_tpch_streams(data: dict[str, list[Row]], name: str, skew: bool) -> None:
    """Batches of the benchmark's own rows; the loops are too slow to be asked more than once."""
    used = tpch.skewed(data, seed=3) if skew else data
    query = QUERIES[name]
    base = {relation: used[relation] for relation in query.relations if relation != "lineitem"}
    engine, triggers = Engine(query, base), Triggers(query, base)
    changes = list(tpch.line_changes(used["lineitem"][:600], seed=1))
    assert any(sign == "-" for sign, _, _ in changes)
    for start in range(0, len(changes), 50):
        engine.apply(changes[start : start + 50])
        triggers.apply(changes[start : start + 50])
        assert engine.rows() == triggers.rows()
    tables: dict[str, Any] = {**base, "lineitem": []}
    assert engine.rows() == sorted(NAIVE[name](changed(tables, changes)))


def test_without_the_generator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tpch, "generator", lambda: None)
    assert not tpch.available()
    with pytest.raises(SystemExit, match="need tpchgen-cli"):
        tpch.tables(0.001, tmp_path)


# --- the bench ---------------------------------------------------------------------------------------------------


def assert_sound(result: Any, bars: int) -> None:
    """The bars are there, and every row has the same columns."""
    assert len(result.bars) == bars and all(bar.figure > 0 for bar in result.bars)
    assert all(entry.keys() == nested.row("", "", "").keys() for entry in result.rows)
    assert all(entry["µs each, mean"] > 0 and entry["transactions"] > 0 for entry in result.rows)


def test_the_bench_runs() -> None:
    """Small; it asserts itself that the engine, triggers and loops agree."""
    result = nested.run(("growth-vwap", "growth-mst", "half", "vwap", "nq2"), quick=True)
    assert_sound(result, bars=6)
    rivals = {(entry["query"], entry["who"]) for entry in result.rows if entry["part"] != "growth"}
    assert {(name, who) for name in ("half", "vwap", "nq2") for who in ("engine", "triggers", "naive")} <= rivals


def test_the_bench_runs_on_tpch(folder: Path, data: dict[str, list[Row]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "cache", lambda: folder)
    result = nested.run(("q17", "q18"), quick=True)
    assert_sound(result, bars=2)
    assert {entry["rows each"] for entry in result.rows} == {1, 1000}
