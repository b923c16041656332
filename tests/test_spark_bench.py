"""The benchmarks over Spark: the rounds of jobs they compare with are right, and every part runs, on small networks."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dd.cudd", reason="the loop beside it uses CUDD itself")

from bench import spark as questions
from bench.harness import Bar, finish
from bench.spark_parts import QUICK, Part, deletion, load, recovery, rounds, row
from bench.spark_rounds import WAYS, SparkRounds
from tests.test_bench import closure

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize("way", WAYS)
def test_rounds_of_jobs(spark: Any, way: str) -> None:
    links = [(0, 1), (1, 2), (2, 0), (2, 3), (0, 3)]
    other, before = SparkRounds(spark, way, partitions=2), closure(links)
    other.load(links)
    assert other.rows() == before
    for link, lost in (((2, 3), 0), ((1, 2), 7)):  # all of it can be reached another way; little is left
        links.remove(link)
        after = closure(links)
        assert other.delete(link) == ([], sorted(before - after))
        assert other.rows() == after and len(before - after) == lost
        before = after
    other.close()
    assert not list(spark.sparkContext._jsc.getPersistentRDDs()), "what is old is let go"


def test_rounds_of_jobs_have_known_ways(spark: Any) -> None:
    with pytest.raises(ValueError, match="recompute and dred"):
        SparkRounds(spark, "guess")


@pytest.mark.parametrize(
    ("name", "part", "options"),
    [
        ("deletion", deletion, {"partitions": 2}),
        ("rounds", rounds, {"partitions": 2}),
        ("load", load, {}),
        ("recovery", recovery, {"partitions": 2}),
    ],
)
def test_a_part(spark: Any, name: str, part: Any, options: dict[str, Any]) -> None:
    answer = part(spark, QUICK, **options)
    assert answer.bars and all(bar.figure > 0 for bar in answer.bars)
    assert all(entry.keys() == row("", "", 0, [1.0]).keys() for entry in answer.rows)
    # by these, a part that is run alone finds its place among what the others have found
    assert {entry["part"] for entry in answer.rows} == {name}
    assert all(text.startswith(f"{name}:") for text in (*(bar.name for bar in answer.bars), *answer.notes))
    if name == "load":
        state = {entry["partitions"]: entry["largest state MB"] for entry in answer.rows if "Spark" in entry["who"]}
        assert state[1] > state[2] > state[4] > 0
        shipped = {(entry["who"], entry["partitions"]): entry["shipped MB"] for entry in answer.rows}
        assert shipped["session over Spark", 1] == 0 < shipped["session over Spark", 2]


def test_a_part_alone_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter((1.0, 2.0, 3.0, 4.0, 5.0))

    def measured(command: list[str], **_: Any) -> None:
        file, name = command[-2:]
        figure = next(figures)
        part = Part([Bar(f"{name}: it", figure, 1.0)], [row(name, "who", 1, [figure])], {f"{name}: note": str(figure)})
        Path(file).write_text(json.dumps(asdict(part)))

    monkeypatch.setattr(subprocess, "run", measured)
    assert finish(partial(questions.run, folder=tmp_path), tmp_path) == 1
    again = questions.run(("load",), folder=tmp_path)
    assert [bar.name.split(":")[0] for bar in again.bars] == list(questions.PARTS)
    assert [bar.figure for bar in again.bars] == [1.0, 2.0, 5.0, 4.0]
    assert [entry["median s"] for entry in again.rows] == [1.0, 2.0, 5.0, 4.0]
    assert list(again.notes.values()) == ["1.0", "2.0", "5.0", "4.0"]
