"""What docs/spark.md and the README show works, from the first block to the last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
PAGE = Path(__file__).parents[1] / "docs" / "spark.md"
PROGRAM = """
.decl link(src: symbol, dst: symbol, cost: number)
.decl reading(room: symbol, temp: number) stream
.output reachable
.output recent
recent(r) :- reading(r, _)@t, now(n), n - 60 < t, t <= n.
reachable(x, y) :- link(x, y, _).
reachable(x, y) :- link(x, z, _), reachable(z, y).
"""
INCOMING = """\
{"op": "insert", "src": "d", "dst": "e", "cost": 4}
{"op": "delete", "src": "a", "dst": "b", "cost": 3}
"""


def test_the_readme(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands there, on the program that stands there, with the DataFrames that it speaks of."""
    monkeypatch.chdir(tmp_path)
    text = README.read_text()
    program = re.search(r"\$ cat reach\.dl\n(.*?)\n\$ ", text, re.DOTALL)
    (snippet,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "SparkSession" in block]
    assert program is not None
    (tmp_path / "reach.dl").write_text(program[1])
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "one.json").write_text('{"op": "insert", "src": "c", "dst": "d"}\n')
    schema = "op string, src string, dst string"
    names: dict[str, Any] = {
        "links_df": spark.createDataFrame([("a", "b"), ("b", "c")], ["src", "dst"]),
        "updates_df": spark.readStream.schema(schema).json(str(tmp_path / "incoming")),
    }
    exec(snippet.replace('"query"', repr(str(tmp_path / "query"))), names)  # Spark's own folder is elsewhere
    session = names["session"]
    try:
        (query,) = spark.streams.active
        query.processAllAvailable()
        query.stop()
        ways = {("b", "c"), ("b", "d"), ("c", "d")}
        assert set(session["reachable"]) == ways
        assert {tuple(row) for row in session["reachable"].to_spark().collect()} == ways
    finally:
        session.close()


def test_the_page(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(PROGRAM)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "one.json").write_text(INCOMING)
    (tmp_path / "sensors").mkdir()
    for second in (10, 50):  # the watermark is that of the files before
        line = f'{{"room": "attic", "temp": 80, "at": "2026-01-01T00:00:{second}Z"}}'
        (tmp_path / "sensors" / f"{second}.json").write_text(line)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {}
    for block in blocks:
        if "session.close()" in block:
            # b -> c -> d -> a, d -> e, and a leads nowhere since its link was deleted
            ways = {("b", y) for y in "cdae"} | {("c", y) for y in "dae"} | {("d", y) for y in "ae"}
            assert set(names["session"]["reachable"]) == ways
            assert {tuple(row) for row in names["reachable"].collect()} == ways
            assert {tuple(row) for row in names["same"].collect()} == ways
            signs = "sum(CASE _change WHEN '+' THEN 1 ELSE -1 END)"
            published = spark.sql(f"SELECT x, y, {signs} AS n FROM published GROUP BY x, y")
            assert {(row.x, row.y) for row in published.collect() if row.n} == ways
        for name in ("incoming", "query", "sensors", "times"):  # Spark's own folder is where it was started
            block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
        exec(block, names)
    assert names["session"]._closed
