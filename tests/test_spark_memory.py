"""The driver's memory does not grow with the rows that are loaded: they never come by."""

from __future__ import annotations

import gc
import os
from typing import Any

import datalog
import livelog

PROGRAM = """
.decl reading(sensor: number, value: number)
alarm(s, v) :- reading(s, v), v < 0.
"""
ROWS = 40_000
LOADS = 5
LEAST = 100
"""Bytes that a row of two numbers takes in Python, at least: a tuple alone has 56, and each number 28."""


def resident() -> int:
    """Bytes of this process that are in memory now."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_loading_dataframes_leaves_the_driver_as_it_was(spark: Any) -> None:
    sizes = []
    with livelog.open(datalog.parse(PROGRAM), runtime=livelog.Spark(spark, partitions=2)) as session:
        for load in range(LOADS):
            first = load * ROWS
            rows = spark.range(first, first + ROWS).selectExpr("id AS sensor", "id - 7 AS value")
            assert len(session.load("reading", rows)["alarm"].inserted) == (7 if load == 0 else 0)
            sizes.append(resident())
        assert len(session["reading"]) == ROWS * LOADS
        assert session["reading"].to_spark().count() == ROWS * LOADS
        after = resident()
    slope = (sizes[-1] - sizes[1]) / (ROWS * (LOADS - 2))  # the first loads import what all of them need
    assert slope < LEAST / 5, f"{slope:.1f} bytes a row, by load: {sizes}"
    assert after - sizes[-1] < ROWS * LOADS * LEAST / 5, "reading a view as a DataFrame does not pass the driver either"
