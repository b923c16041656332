"""Facts and views as columns: frames, tables and arrays in, tables and frames out, the same as row by row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import livelog
from datalog.errors import FactProblem, UsageProblem
from livelog.exchange import arrow_table, pandas_frame
from livelog.values import Coercer, sort_rows
from operators.columns import Bulk

TEXT = ".decl link(src: symbol, dst: symbol, cost: number)\nr(x, y, c) :- link(x, y, c)."
ROWS = [("a", "b", 1), ("b", "c", 2)]
COLUMNS: dict[str, list[Any]] = {"src": ["a", "b"], "dst": ["b", "c"], "cost": [1, 2]}
SWAPPED = {name: COLUMNS[name] for name in ("cost", "dst", "src")}
OTHERS = dict(zip("xyz", COLUMNS.values(), strict=True))


class Stream:
    """What only has the method by which libraries hand tables to each other."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


STRUCTURED = [("cost", "i4"), ("src", "U1"), ("dst", object)]
TABLES: dict[str, Any] = {
    "table": lambda: pa.table(SWAPPED),
    "in order": lambda: pa.table(OTHERS),
    "batch": lambda: pa.RecordBatch.from_pydict(SWAPPED),
    "reader": lambda: pa.table(SWAPPED).to_reader(),
    "chunks": lambda: pa.concat_tables([pa.table(SWAPPED).slice(0, 1), pa.table(SWAPPED).slice(1)]),
    "stream": lambda: Stream(pa.table(SWAPPED)),
    "pandas": lambda: pd.DataFrame(SWAPPED),
    "pandas with an index": lambda: pd.DataFrame(SWAPPED, index=[7, 3]),
    "pandas without names": lambda: pd.DataFrame(ROWS),
    "categories": lambda: pd.DataFrame(SWAPPED).astype({"src": "category", "dst": "string", "cost": "float32"}),
    "objects": lambda: pd.DataFrame(SWAPPED, dtype=object),
    "array": lambda: np.array(ROWS, dtype=object),
    "structured": lambda: np.array([(c, s, d) for s, d, c in ROWS], dtype=STRUCTURED),
    "text types": lambda: pa.table({
        "src": pa.array(["a", "b"], pa.large_string()), "dst": pa.array(["b", "c"]).dictionary_encode(),
        "cost": pa.array([1, 2], pa.uint8()),
    }),
    "text views": lambda: pa.table({**SWAPPED, "src": pa.array(["a", "b"], pa.string_view())}),
}  # fmt: skip


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_tables_are_rows(make: Any) -> None:
    coerce = Coercer("link", ("src", "dst", "cost"), ("symbol", "symbol", "number"))
    found = coerce.all(make())
    assert found == ROWS and [list(map(type, row)) for row in found] == [[str, str, int]] * 2
    with livelog.open(TEXT, facts={"link": make()}) as session:
        assert list(session["r"]) == ROWS
        with session.transaction() as tx:
            tx.delete_all("link", make())
        assert len(session["r"]) == 0
        session.load("link", make())
        with session.transaction() as tx:
            tx.insert_all("link", make())
        assert list(session["r"]) == ROWS


@pytest.mark.everywhere(spark=1)
def test_frames_everywhere() -> None:
    with livelog.open(TEXT, facts={"link": pd.DataFrame(SWAPPED)}) as session:
        session.load("link", pa.table({"src": ["c"], "dst": ["d"], "cost": [3]}))
        assert session["r"].to_pandas().to_dict("list") == {
            "x": ["a", "b", "c"], "y": ["b", "c", "d"], "c": [1, 2, 3],
        }  # fmt: skip


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(SWAPPED).with_columns(polars.col("src").cast(polars.Categorical))
    with livelog.open(TEXT, facts={"link": frame}) as session:
        assert list(session["r"]) == ROWS
        assert polars.DataFrame(session["r"]).rows() == ROWS
    with livelog.open("r(x) :- n(x).", facts={"n": polars.Series([1, 2])}) as session:
        assert list(session["r"]) == [(1,), (2,)]


def test_plain_columns_stay_columns() -> None:
    coerce = Coercer("r", ("x", "y"), ("any", "float"))
    found = coerce.all(pa.table({"x": [1, 2], "y": [1, 2]}))
    assert isinstance(found, Bulk) and found.columns is not None and found == [(1, 1.0), (2, 2.0)]
    assert {type(row[1]) for row in found} == {float}


def test_a_column_alone_and_no_columns() -> None:
    with livelog.open("r(x) :- n(x).") as session:
        session.load("n", np.array([3, 1]))
        session.load("n", pd.Series([2]))
        session.load("n", pa.chunked_array([[5]]))
        session.load("n", pa.array([4]))
        assert list(session["r"]) == [(1,), (2,), (3,), (4,), (5,)]


def test_values_of_any_type() -> None:
    frame = pd.DataFrame({"x": [1, "a", (1, "b")], "y": [[1, 2], np.array([0.5]), ()]})
    with livelog.open("r(x, y) :- e(x, y).", facts={"e": frame}) as session:
        assert set(session["r"]) == {(1, (1, 2)), ("a", (0.5,)), ((1, "b"), ())}
    with livelog.open(".decl e(x: list)\nr(x) :- e(x).", facts={"e": pa.table({"x": [[1, 2], []]})}) as session:
        assert list(session["r"]) == [((),), ((1, 2),)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({**COLUMNS, "colour": [1, 2]}), "has 3 columns (src, dst, cost), but the table has 4 (src, dst,"),
        (pa.table({"src": ["a"], "to": ["b"], "cost": [1]}), "has 3 columns (src, dst, cost), but the table has 3"),
        (pa.table({"x": ["a"], "y": ["b"]}), "link has 3 columns (src, dst, cost), but the table has 2 (x, y)"),
        (np.zeros((2, 4)), "link has 3 columns (src, dst, cost), but the table has 4"),
        (np.zeros((2, 2, 3)), "two dimensions, not 3"),
        (pa.table({**COLUMNS, "cost": [1, None]}), "row 2, column `cost` of `link`: a null is not a value"),
        (pd.DataFrame({**COLUMNS, "cost": [np.nan, 1.0]}), "row 1, column `cost` of `link`: a null is not a value"),
        (pd.DataFrame({**COLUMNS, "src": ["a", None]}), "row 2, column `src` of `link`: a null is not a value"),
        (pa.table({**COLUMNS, "cost": [1.0, 2.5]}), "row 2, column `cost` of `link`: 2.5 is not a number"),
        (pa.table({**COLUMNS, "cost": [1.0, float("nan")]}), "row 2, column `cost` of `link`: nan is not a"),
        (pa.table({**COLUMNS, "cost": pa.array([1, 2**63], "uint64")}), "column `cost` of `link`: 9223372036854775808"),
        (pa.table({**COLUMNS, "cost": [True, False]}), "row 1, column `cost` of `link`: True (bool) is not a number"),
        (pa.table({**COLUMNS, "src": [1, 2]}), "row 1, column `src` of `link`: 1 is not a symbol"),
        (pa.table({**COLUMNS, "cost": ["1", "2"]}), "row 1, column `cost` of `link`: '1' is not a number"),
        (pa.table({**COLUMNS, "cost": pa.array([1, 2], pa.timestamp("s"))}), "has no times, and this is timestamp[s]"),
        (pa.table({**COLUMNS, "cost": pa.array([1, 2], pa.decimal128(5, 2))}), "no decimals, and this is decimal128"),
        (pd.DataFrame({**COLUMNS, "cost": pd.to_datetime(["2024-01-01"] * 2)}), "the language has no times"),
    ],
)  # fmt: skip
def test_what_does_not_fit(table: Any, message: str) -> None:
    with livelog.open(TEXT) as session:
        with pytest.raises(FactProblem) as caught:
            session.load("link", table)
        assert message in caught.value.message
        assert len(session["r"]) == 0


def test_columns_that_rules_compute_with() -> None:
    with livelog.open("r(x + 1) :- e(x).") as session:
        with pytest.raises(FactProblem, match="is not a number"):
            session.load("e", pa.table({"x": ["a"]}))
        session.load("e", pa.table({"anything": [1.5]}))
        assert list(session["r"]) == [(2.5,)]


def test_parquet_does_not_swap_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"dst": ["b"], "from": ["a"], "cost": [1]}), tmp_path / "link.parquet")
    with pytest.raises(FactProblem, match="but the table has 3"):
        livelog.open(TEXT, facts=tmp_path)
    pq.write_table(pa.table({**SWAPPED, "more": [0, 0]}), tmp_path / "link.parquet")
    with livelog.open(TEXT, facts=tmp_path) as session:
        assert list(session["r"]) == ROWS


# --- views out ---------------------------------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "number": lambda rng: rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(-50, 50)]),
    "small": lambda rng: rng.randrange(3),
    "unsigned": lambda rng: rng.choice([0, 2**64 - 1, rng.randrange(9)]),
    "float": lambda rng: rng.choice([0.0, -0.0, 1e300, -1e300, 5e-324, rng.uniform(-2, 2), float(rng.randrange(3))]),
    "symbol": lambda rng: "".join(rng.choice("ab\u00e4\u65e5\U0001f600") for _ in range(rng.randrange(4))),
    "word": lambda rng: rng.choice(["", "a", "b", "zz"]),
    "name": lambda rng: f"router-{rng.randrange(40)}.of.a.long.name",
    "zero": lambda rng: rng.choice(["a", "a\0", "a\0\0", "\0", "b"]),
    "long": lambda rng: "x" * rng.randrange(60, 80) + rng.choice("ab"),
}
TYPES = {"small": "number", "word": "symbol", "name": "symbol", "zero": "symbol", "long": "symbol"}


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("seed", range(60))
def test_tables_have_the_order_of_the_view(seed: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("livelog.columns.MANY", rng.choice([0.0, 0.95, 2.0]))
    if not compiled:
        monkeypatch.setattr("livelog.exchange.compiled", None)
    kinds = [rng.choice(list(KINDS)) for _ in range(rng.randint(1, 4))]
    rows = list({tuple(KINDS[kind](rng) for kind in kinds) for _ in range(rng.choice([0, 1, 2, 300]))})
    types = [TYPES.get(kind, kind) if rng.random() < 0.6 or not rows else "any" for kind in kinds]
    expected = [tuple(map(repr, row)) for row in sort_rows(rows)]
    names = [f"c{i}" for i in range(len(kinds))]
    table, frame = arrow_table(rows, names, types), pandas_frame(rows, names, types)
    assert table.column_names == list(frame.columns) == names
    columns = [column.to_pylist() for column in table.columns]
    assert [tuple(map(repr, row)) for row in zip(*columns, strict=True)] == expected
    columns = [frame[name].tolist() for name in names]
    assert [tuple(map(repr, row)) for row in zip(*columns, strict=True)] == expected


def test_types_of_tables() -> None:
    text = """
        .decl e(n: number, u: unsigned, f: float, s: symbol, l: list)
        r(n, u, f, s) :- e(n, u, f, s, _).
        lists(n, l) :- e(n, _, _, _, l).
        none(n) :- r(n, _, _, _), n > 9.
        yes() :- r(_, _, _, _).
    """
    with livelog.open(text, facts={"e": [(2, 3, 1.5, "b", (1, 2)), (1, 2**64 - 1, 2.0, "a", ("x",))]}) as session:
        table = session["r"].to_arrow()
        assert table.schema.types == [pa.int64(), pa.uint64(), pa.float64(), pa.string()]
        assert list(map(str, session["r"].to_pandas().dtypes)) == ["int64", "uint64", "float64", "object"]
        assert session["lists"].to_arrow().column("l").to_pylist() == ['["x"]', "[1, 2]"]
        assert session["lists"].to_pandas()["l"].tolist() == [("x",), (1, 2)]
        assert session["none"].to_arrow().num_rows == len(session["none"].to_pandas()) == 0
        assert session["yes"].to_arrow().num_columns == 0 and len(session["yes"].to_pandas()) == 1
        assert pa.table(session["r"]).equals(table)
        assert pa.RecordBatchReader.from_stream(session["r"]).read_all().equals(table)


def test_the_rows_of_a_view_are_facts_as_they_are() -> None:
    one = livelog.open("r(x) :- e(x).", facts={"e": [((1, "a"),), (1,)]})
    with one, livelog.open("s(x) :- e(x).", facts={"e": one["r"]}) as other:
        assert list(other["s"]) == [(1,), ((1, "a"),)]


# --- programs as text --------------------------------------------------------------------------------------------


def test_a_program_may_be_text(tmp_path: Path) -> None:
    with livelog.open("r(x) :- e(x).", facts={"e": [(1,)]}) as session:
        assert list(session["r"]) == [(1,)]
    with livelog.open("e(1).\n.output e") as session:
        assert list(session["e"]) == [(1,)]
    (tmp_path / "p.dl").write_text("r(x) :- e(x).")
    for path in (tmp_path / "p.dl", str(tmp_path / "p.dl")):
        livelog.open(path).close()
    with pytest.raises(UsageProblem, match=r"cannot read the program 'e': .*; text is taken for a program if it has"):
        livelog.open("e")
    with pytest.raises(UsageProblem) as caught:
        livelog.open(tmp_path / "q.dl")
    assert "text is taken" not in caught.value.message
