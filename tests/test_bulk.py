"""Loads in bulk: the same facts, errors and changes as one by one, through Arrow's reader and past it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import datalog
import livelog
from datalog.ast import Relation
from livelog.io.arrow import ArrowColumns
from livelog.io.delimited import read_delimited
from livelog.io.forms import CSV, FACTS
from livelog.io.quick import read_quickly
from operators.base import BaseTable
from operators.columns import Bulk, column_sums
from operators.delta import Delta, Loaded
from operators.expr import Col
from operators.monoids import Sum
from operators.sums import COUNT, Factor, Summing


def relation(types: str) -> Relation:
    columns = ", ".join(f"c{i}: {kind}" for i, kind in enumerate(types.split()))
    return datalog.check(datalog.parse(f".decl r({columns})\n.input r\n")).relations["r"]


@pytest.mark.parametrize(
    ("types", "text", "quick"),
    [
        ("number number", "1\t2\n-3\t4\n1\t2\n", True),
        ("number number", "1\t2\n\n-3\t4", True),  # a blank line, and no end of the last one
        ("number symbol", "1\ta b\n2\t\n", True),
        ("symbol", "a\n\nb\n", False),  # the empty symbol
        ("float number", "1.5\t2\n1e3\t3\n-0.25\t4\n", True),
        ("float", "0.1\n1e-320\n123456789.123456789\n", True),
        ("unsigned", "18446744073709551615\n0\n", True),
        ("number float", " 7 \t 2.5 \n", True),
        ("number", "+7\n", False),
        ("number symbol", "1\t0x1F\n", False),
        ("number symbol", '1\t"a"\n', False),
        ("number", "1\r\n2\r\n", False),
        ("symbol number", "ä\t1\n日本\t2\n", True),
        ("number", "", None),
        ("symbol", "NA\nnull\nNaN\n", True),
    ],
)
def test_arrow_reads_what_we_read(types: str, text: str, quick: bool | None, tmp_path: Path) -> None:
    path = tmp_path / "r.facts"
    path.write_text(text, encoding="utf-8", newline="")
    expected = read_delimited(path, relation(types), FACTS)
    got = read_quickly(path, relation(types), FACTS)
    if quick is not None:
        assert (got is not None) == quick
    if got is not None:
        assert list(got) == expected
        assert [list(map(type, row)) for row in got] == [list(map(type, row)) for row in expected]


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ("number", "1\nx\n"),
        ("number", "9223372036854775808\n"),
        ("number", "1.5\n"),
        ("number", "0x10\n"),
        ("unsigned", "-1\n"),
        ("float", "nan\n"),
        ("float", "1e999\n"),
        ("number number", "1\n"),
        ("number", "1\t2\n"),
        ("number", "\t\n"),
        ("list", "[1]\n"),
    ],
)
def test_what_is_wrong_is_left_to_the_reader_with_words(types: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.facts"
    path.write_text(text, encoding="utf-8")
    assert read_quickly(path, relation(types), FACTS) is None


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("c0,c1\n1,2\n", encoding="utf-8")
    assert read_quickly(path, relation("number number"), CSV) == [(1, 2)]
    path.write_text("c0,c1\na,b\n", encoding="utf-8")
    assert read_quickly(path, relation("symbol symbol"), CSV) == [("a", "b")]


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "r.facts"
    path.write_bytes(b"\xff\xfe\n")
    assert read_quickly(path, relation("symbol"), FACTS) is None
    assert read_quickly(tmp_path / "missing", relation("symbol"), FACTS) is None


# --- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("key", [(), (0,)])
@pytest.mark.parametrize("ttl", [None, 5.0])
def test_many_at_once_is_one_by_one(bag: bool, key: tuple[int, ...], ttl: float | None) -> None:
    if bag and key:
        return
    rng = random.Random(f"{bag} {key} {ttl}")
    one, many = BaseTable(key, ttl, bag), BaseTable(key, ttl, bag)
    for step in range(60):
        rows = [(rng.randrange(4), rng.randrange(3)) for _ in range(rng.randrange(5))]
        if rng.random() < 0.5:
            many.insert_all(rows, float(step))
            for t in rows:
                one.insert(t, float(step))
        else:
            many.delete_all(rows)
            for t in rows:
                one.delete(t)
        assert dict(many.rows) == one.rows
        assert sorted(many.net()) == sorted(one.net())
        assert sorted(many.delta().items()) == sorted(one.net())
        if rng.random() < 0.4:
            for table in (one, many):
                (table.commit if step % 3 else table.rollback)()
            assert dict(many.rows) == one.rows
            assert (many.ignored_inserts, many.ignored_deletes) == (one.ignored_inserts, one.ignored_deletes)
            many.check()


def test_a_load_and_more_in_one_transaction() -> None:
    table = BaseTable()
    table.insert_all([(1,), (2,)], 0.0)
    table.insert_all([(2,), (3,)], 0.0)
    table.delete_all([(1,)])
    assert sorted(table.delta().gained) == [(2,), (3,)]
    table.rollback()
    assert table.rows == {}
    assert not table.delta()


def test_columns_are_only_used_if_they_are_the_facts() -> None:
    rows = Bulk([(1,), (1,)], ArrowColumns([pyarrow.array([1, 1])]))
    table, bag = BaseTable(), BaseTable(bag=True)
    table.insert_all(rows, 0.0)
    bag.insert_all(rows, 0.0)
    once = table.delta().columns
    assert once is not None and once.sums([0], []) == {(1,): 1}
    assert bag.delta().columns is rows.columns
    zeros = Bulk([(0.0,), (-0.0,)], ArrowColumns([pyarrow.array([0.0, -0.0])]))  # equal, and Arrow says they are not
    table = BaseTable()
    table.insert_all(zeros, 0.0)
    assert table.delta().columns is None
    assert zeros.columns is not None and zeros.columns.sums([0], []) is None


# --- sums --------------------------------------------------------------------------------------------------------


def test_sums_by_column_are_those_by_row() -> None:
    rng = random.Random(3)
    rows = [(rng.randrange(5), rng.choice("ab"), rng.randrange(-9, 9)) for _ in range(200)]
    columns = ArrowColumns([pyarrow.array(column) for column in zip(*rows, strict=True)])
    for kept in ((Col(0),), (Col(1), Col(0)), (Col(2),), (Col(0), Col(0))):
        for factors in ((COUNT,), (COUNT, Factor(Col(2))), (COUNT, Factor(Col(2)), Factor(Col(0)))):
            expected = Summing("", (), None, kept, factors)(Delta(rows, []))
            assert column_sums(columns, kept, factors) == expected


def test_sums_that_take_a_loop() -> None:
    columns = ArrowColumns([pyarrow.array([1.5]), pyarrow.array([1])])
    assert column_sums(columns, (Col(1),), (COUNT, Factor(Col(0)))) is None
    assert column_sums(columns, (), (COUNT,)) is None
    assert column_sums(columns, (Col(1),), (COUNT, Factor(Col(1), Sum.lift, 1))) is None


def test_a_loaded_delta_is_lazy() -> None:
    assert not Loaded({}, weighted=False)
    assert Loaded({(1,): 1}, weighted=False).items() == [((1,), 1)]


# --- sessions ----------------------------------------------------------------------------------------------------

PROGRAM = """.decl s(x: number, y: number){bag}
.input s
q(x, avg<y>, count<*>) :- s(x, y).
total(sum<y>) :- s(_, y).
"""


@pytest.mark.parametrize("bag", ["", " bag"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_folder_and_a_mapping_are_the_same(bag: str, partitions: int, tmp_path: Path) -> None:
    rng = random.Random(7)
    rows = [(rng.randrange(20), rng.randrange(20)) for _ in range(500)]
    (tmp_path / "s.csv").write_text("".join(f"{x},{y}\n" for x, y in rows), encoding="utf-8")
    program = datalog.parse(PROGRAM.format(bag=bag))
    sessions: list[Any] = [livelog.open(program, facts=f, partitions=partitions) for f in (tmp_path, {"s": rows})]
    with sessions[0] as one, sessions[1] as other:
        for _ in range(3):
            for view in ("q", "total", "s"):
                assert sorted(one[view]) == sorted(other[view])
            batch = [(rng.randrange(20), rng.randrange(20)) for _ in range(40)]
            with one.transaction() as transaction:
                transaction.insert_all("s", batch)
                transaction.delete_all("s", rows[:30])
            assert len(transaction) == 70
            with other.transaction() as transaction:
                for row in batch:
                    transaction.insert("s", row)
                for row in rows[:30]:
                    transaction.delete("s", row)
            rows = rows[30:]
        one.check()


def test_a_load_that_fails_leaves_nothing() -> None:
    program = datalog.parse(".decl s(x: number)\nq(sum<10 / x>) :- s(x).")
    with livelog.open(program) as session:
        with pytest.raises(datalog.errors.RuntimeProblem):
            session.load("s", [(1,), (0,)])
        assert list(session["s"]) == []
        session.load("s", [(5,)])
        assert list(session["q"]) == [(2,)]
        session.check()
