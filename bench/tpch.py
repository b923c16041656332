"""Rows of TPC-H for Q17 and Q18, as `tpchgen-cli` makes them, and the same rows skewed.

`pip install 'livelog[dev]'` brings the generator. What it makes is kept in a cache folder of the user, so that every
scale is made once. Prices are in cents; a table has the columns that `examples/15_part_orders.dl` declares.

TPC-H is uniform: every part is in about as many lines as every other, and all quantities are from 1 to 50. The trigger
of Q17 looks at the distinct quantities of one part, so at 50 of them at most. `skewed` draws two columns of the lines
anew, from a seed, and leaves all others:

- the part, from a power law: the part of rank i is drawn with odds i ** -1.5, and the first ranks go to the parts that
  Q17 asks for (in the uniform data these are one part in a thousand);
- the quantity, from a long tail (Lomax, shape 1.5, mean 100,000), so that nearly all differ; the price is that of
  the unit times the quantity.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.nested_naive import BRAND, CONTAINER, Row
from topologies.streams.step import Operation

__all__ = ["EXPONENT", "TABLES", "available", "line_changes", "skewed", "tables"]

TABLES: dict[str, dict[str, int]] = {
    "part": {"p_partkey": 1, "p_brand": 1, "p_container": 1},
    "customer": {"c_custkey": 1, "c_name": 1},
    "orders": {"o_orderkey": 1, "o_custkey": 1, "o_orderdate": 1, "o_totalprice": 100},
    "lineitem": {"l_orderkey": 1, "l_linenumber": 1, "l_partkey": 1, "l_quantity": 1, "l_extendedprice": 100},
}
"""The columns that are kept, each with what makes a whole number of it."""

EXPONENT = 1.5  # of the power law of the parts; skewed generators of TPC-H take 0 to 4
SHAPE, MEAN = 1.5, 100_000  # of the quantities


def generator() -> str | None:
    """Where the generator is: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    return str(beside) if beside.exists() else shutil.which("tpchgen-cli")


def available() -> bool:
    return generator() is not None


def cache() -> Path:
    """A folder for what is worth keeping between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "livelog" / "tpch"


def tables(scale: float, folder: Path | None = None) -> dict[str, list[Row]]:
    """The tables at a scale factor (1 has 6,000,000 lines), from the cache if they are there."""
    folder = (folder or cache()) / f"sf{scale:g}"
    if any(not (folder / f"{name}.parquet").exists() for name in TABLES):
        command = generator()
        if command is None:
            raise SystemExit("the TPC-H data need tpchgen-cli: pip install 'livelog[dev]'")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [command, "parquet", "-s", f"{scale:g}", "-o", str(folder), "-T", ",".join(TABLES), "--overwrite"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    return {name: _read(folder / f"{name}.parquet", columns) for name, columns in TABLES.items()}


def _read(path: Path, columns: dict[str, int]) -> list[Row]:
    table = pq.read_table(path, columns=list(columns))
    values = [_whole(table[name], factor) for name, factor in columns.items()]
    return list(zip(*values, strict=True))


def _whole(column: Any, factor: int) -> list[Any]:
    """A column as Python has it; decimals as whole numbers, days as texts."""
    if pa.types.is_decimal(column.type):
        column = pc.cast(pc.multiply(column, factor), pa.int64())
    elif pa.types.is_date(column.type):
        column = pc.cast(column, pa.string())
    found: list[Any] = column.to_pylist()
    return found


def skewed(data: dict[str, list[Row]], seed: int = 0, exponent: float = EXPONENT) -> dict[str, list[Row]]:
    """The same tables with the parts and the quantities of the lines drawn anew; see above."""
    rng = random.Random(seed)
    parts = [row[0] for row in data["part"]]
    rng.shuffle(parts)
    asked = {key for key, *kind in data["part"] if kind == [BRAND, CONTAINER]}
    parts.sort(key=lambda key: key not in asked)  # stable: the others stay shuffled
    odds = list(accumulate(rank**-exponent for rank in range(1, len(parts) + 1)))
    lines = data["lineitem"]
    drawn = rng.choices(parts, cum_weights=odds, k=len(lines))
    scale = MEAN * (SHAPE - 1)
    new: list[Row] = []
    for part, (order, line, _, quantity, price) in zip(drawn, lines, strict=True):
        more = 1 + int(scale * ((1 - rng.random()) ** (-1 / SHAPE) - 1))
        new.append((order, line, part, more, price // quantity * more))
    return {**data, "lineitem": new}


def line_changes(lines: list[Row], retractions: float = 0.1, seed: int = 0) -> Iterator[Operation]:
    """The lines inserted one after the other, in the order of the table, and now and then one of them deleted."""
    rng = random.Random(seed)
    live: list[Row] = []
    for row in lines:
        yield "+", "lineitem", row
        live.append(row)
        if rng.random() < retractions:
            place = rng.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            yield "-", "lineitem", live.pop()
