"""What docs/spark.md shows works, from its first block to its last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "spark.md"
PROGRAM = """
.decl link(src: symbol, dst: symbol, cost: number)
reachable(x, y) :- link(x, y, _).
reachable(x, y) :- link(x, z, _), reachable(z, y).
"""
INCOMING = """\
{"op": "insert", "src": "d", "dst": "e", "cost": 4}
{"op": "delete", "src": "a", "dst": "b", "cost": 3}
"""


def test_the_page(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(PROGRAM)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "one.json").write_text(INCOMING)
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
        for name in ("incoming", "query"):  # Spark's own folder is where it was started
            block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
        exec(block, names)
    assert names["session"]._closed
