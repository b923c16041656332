"""The benches of the paper's figures run, their pictures are drawn, and their verdicts follow the figures."""

from __future__ import annotations

import doctest
import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import topologies
from bench import claim_checks, claims, evaluation, figure_plots
from bench.__main__ import FIGURES, main
from bench.figures import METRICS, Entry, Prefix, assert_equal, prefixes, race
from bench.harness import finish

DEMAND, LAZY, EAGER = "absorption/demand", "absorption/lazy", "absorption/eager"
RELATIVE, RELATIVE_EAGER, DRED = "relative/lazy", "relative/eager", "dred"
COORDINATES = {
    "figure_07": {"phase", "x"},
    "figure_09": {"phase", "x"},
    "figure_11": {"phase", "x", "density", "nodes", "scaled"},
    "figure_13": {"phase", "x"},
    "figure_14": {"phase", "density", "selection"},
}
COLUMNS = {metric.column for metric in METRICS} | {"strategy", "shipped MB", "finished", "stopped by"}


# --- the benches themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_quick(name: str, tmp_path: Path) -> None:
    module = importlib.import_module(f"bench.{name}")
    finish(partial(module.run, quick=True), tmp_path)
    result = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert result["name"] == name and result["rows"] and result["notes"]
    assert all(row.keys() == COLUMNS | COORDINATES[name] for row in result["rows"])
    assert {row["phase"] for row in result["rows"]} >= {"delete"}
    ended = [row for row in result["rows"] if row["finished"]]
    assert ended and all(row["seconds"] > 0 and row["state MB/partition"] > 0 for row in ended)
    assert all(row["stopped by"] in ("time", "memory") for row in result["rows"] if not row["finished"])
    written = figure_plots.draw_all(tmp_path)
    assert written and all(file.read_bytes().startswith(b"\x89PNG") for file in written)


def test_quick_leaves_the_results_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--quick", "reach"])
    assert stopped.value.code == 2 and "unknown benchmark that can be quick: reach" in capsys.readouterr().err


def test_a_wrong_answer_is_noticed() -> None:
    fails = topologies.Step(1.0, (("-", "e", (2, 3)),), "e 2 - 3 fails")
    workload = topologies.Workload({"e": [(1, 2), (2, 3)]}, [fails])
    limits = {DEMAND: 5.0}
    right = race("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).", workload, limits, partitions=2)[DEMAND]
    wrong = race("r(x, y) :- e(x, y). r(x, x) :- e(x, _).", workload, limits, partitions=2)[DEMAND]
    assert_equal({"one": right, "other": right})
    with pytest.raises(AssertionError, match="other and one disagree on r after load 1: 2 facts"):
        assert_equal({"one": right, "other": wrong})
    assert_equal({"one": right, "other": wrong}, views=[])
    later = replace(right[1], per_transaction=wrong[1].per_transaction)
    with pytest.raises(AssertionError, match="disagree on r after change 1: e 2 - 3 fails"):
        assert_equal({"one": right, "other": (right[0], later)})


def test_prefixes_are_repeated_and_end_at_a_limit() -> None:
    program = "grows(x) :- e(_, x). grows(y) :- grows(x), x > 2, y = x + 1."
    facts = {"e": [(1, 2)]}
    steps = [topologies.Step(1.0, (("+", "e", row),), f"{row}") for row in ((0, 1), (2, 3), (0, 2))]
    wanted = [Prefix(length, {"phase": "insert", "x": length}) for length in (1, 2, 3)]
    rows, loads, left = prefixes(program, facts, steps, wanted, {DEMAND: 0.3}, repeat=2)
    # the second step makes a recursion without end: it is reported, not repeated, and the third is not tried
    assert [(row["x"], row["finished"], row["stopped by"]) for row in rows] == [(1, True, None), (2, False, "time")]
    assert len(loads) == 3 and left == []


# --- verdicts --------------------------------------------------------------------------------------------------


def entry(strategy: str, amount: float, *, finished: bool = True, partitions: int = 12, **where: Any) -> Entry:
    """A row with the coordinates given, whose metrics are all of the same amount."""
    metrics = {
        "provenance B/tuple": 0.0 if strategy == DRED else amount,
        "shipped MB": amount,
        "shipped MB/partition": amount / partitions,
        "state MB/partition": amount,
        "seconds": amount,
    }
    return {**where, "strategy": strategy, **metrics, "finished": finished, "stopped by": None if finished else "time"}


def inserts_and_deletes(inserted: dict[str, float], deleted: dict[str, float], shares: dict[str, float]) -> list[Entry]:
    """`shares`: up to which share of the insertions somebody finishes; all if it is not there."""
    rows = []
    for x in (0.5, 0.75, 1.0):
        for name, amount in inserted.items():
            if x <= shares.get(name, 1.0) + 0.25:  # the last one is where the limit was passed
                rows.append(entry(name, amount * x, phase="insert", x=x, finished=x <= shares.get(name, 1.0)))
    rows += [entry(name, amount * x / 80, phase="delete", x=x) for x in (20, 80) for name, amount in deleted.items()]
    return rows


def growth(dense: float, lazy: float, eager: bool) -> list[Entry]:
    def rows() -> Iterator[Entry]:
        for nodes, factor in ((100, 1.0), (200, 4.0)):
            for density, links, times in (("dense", 4, dense), ("sparse", 2, 1.0)):
                at: dict[str, Any] = {"density": density, "nodes": nodes, "x": links * nodes, "scaled": 1.0}
                for phase in ("load", "delete"):
                    yield entry(DEMAND, 0.1 * times * factor, phase=phase, **at)
                    yield entry(LAZY, lazy * times * factor, phase=phase, **at)
                if density == "dense":
                    yield entry(EAGER, 300.0, phase="load", finished=eager, **at)

    return list(rows())


def spread(exponent: float, dred: float) -> list[Entry]:
    """Metrics that fall (or rise) with the partitions, but for the two that the paper says do otherwise."""
    rows = []
    for number, x in enumerate((1, 4, 12, 24)):
        for phase in ("load", "delete"):
            for name, amount in ((DEMAND, 1.0), (LAZY, 2.0), (DRED, dred)):
                value = amount * x**exponent
                row = entry(name, value, phase=phase, x=x, partitions=1)
                up = exponent < 0
                row["provenance B/tuple"] = [10.0, 20.0, 30.0, 31.0][number if up else -1 - number]
                if phase == "delete" and name == LAZY:
                    row["shipped MB/partition"] = amount * x ** (0.01 if up else -0.01)
                rows.append(row)
    return rows


def selections(multi: float, dense: bool, sparse: bool, seconds: float) -> list[Entry]:
    rows = []
    for density, finished in (("dense", dense), ("sparse", sparse)):
        where: dict[str, Any] = {"phase": "load", "density": density}
        rows += [
            entry(DEMAND, multi, selection="multi", **where),
            entry(DEMAND, 2.0, selection="single", **where),
            entry(DEMAND, 1.0, selection="single, cost only", **where),
            entry(DEMAND, seconds, selection="none", finished=finished, **where),
        ]
    return rows


LIKE_THE_PAPER = {
    "figure_07": inserts_and_deletes(
        {DRED: 1.0, LAZY: 2.0, DEMAND: 3.0, RELATIVE: 4.0, RELATIVE_EAGER: 5.0, EAGER: 6.0},
        {DRED: 99.0, LAZY: 2.0, DEMAND: 3.0, RELATIVE: 4.0},
        {RELATIVE_EAGER: 0.5},
    ),
    "figure_09": inserts_and_deletes(
        {DRED: 0.1, LAZY: 0.2, DEMAND: 0.3, RELATIVE: 0.4, RELATIVE_EAGER: 0.5, EAGER: 0.6},
        {DRED: 9.0, LAZY: 2.0, DEMAND: 3.0, RELATIVE: 4.0},
        {},
    ),
    "figure_11": growth(dense=2.0, lazy=0.5, eager=False),
    "figure_13": spread(-0.5, dred=20.0),
    "figure_14": selections(1.0, dense=False, sparse=True, seconds=60.0),
}
UNLIKE_THE_PAPER = {
    "figure_07": inserts_and_deletes(
        {DRED: 9.0, LAZY: 8.0, DEMAND: 3.0, RELATIVE: 1.0, RELATIVE_EAGER: 1.0, EAGER: 6.0},
        {DRED: 1.0, LAZY: 8.0, DEMAND: 3.0, RELATIVE: 2.0, RELATIVE_EAGER: 2.0, EAGER: 6.0},
        {},
    ),
    "figure_09": inserts_and_deletes(
        {DRED: 90.0, LAZY: 80.0, DEMAND: 30.0, RELATIVE: 10.0, RELATIVE_EAGER: 10.0, EAGER: 60.0},
        {DRED: 1.0, LAZY: 8.0, DEMAND: 3.0, RELATIVE: 2.0, RELATIVE_EAGER: 2.0, EAGER: 6.0},
        {},
    ),
    "figure_11": growth(dense=0.9, lazy=2.0, eager=True),
    "figure_13": spread(0.5, dred=0.1),
    "figure_14": selections(1.9, dense=True, sparse=True, seconds=3.0),
}
EAGER_STUCK = UNLIKE_THE_PAPER | {"figure_07": inserts_and_deletes({LAZY: 1.0, EAGER: 2.0}, {LAZY: 1.0}, {EAGER: 0.5})}


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: f"{claim.figure}: {claim.paper[:40]}")
def test_verdicts_follow_the_results(claim: claims.Claim) -> None:
    unlike = EAGER_STUCK if claim.check is claim_checks.eager_finishes else UNLIKE_THE_PAPER
    agree, differ = (claims.judge(claim, results) for results in (LIKE_THE_PAPER, unlike))
    assert agree is not None and agree.agrees, agree
    assert differ is not None and not differ.agrees, differ
    assert agree.measured != differ.measured
    assert claims.judge(claim, {}) is None


def test_whoever_is_stopped_has_not_won() -> None:
    """What a run had reached when it was stopped must not be taken for what it costs."""
    eager = next(claim for claim in claims.CLAIMS if "eager, is costly" in claim.paper)
    rows = inserts_and_deletes({LAZY: 9.0, EAGER: 1.0}, {LAZY: 1.0}, {EAGER: 0.5})
    verdict = claims.judge(eager, {"figure_07": rows})
    assert verdict == claims.Verdict("absorption/eager passed its limit; absorption/lazy 9 s, 9 MB", True)


def test_a_tie_is_called_one() -> None:
    first = claims.CLAIMS[0]
    rows = inserts_and_deletes({DRED: 1.0, RELATIVE: 1.05}, {DRED: 1.0}, {})
    verdict = claims.judge(first, {"figure_07": rows})
    assert verdict is not None and verdict.agrees and "by time a tie" in verdict.measured
    clear = claims.judge(first, LIKE_THE_PAPER)
    assert clear is not None and "tie" not in clear.measured


# --- pictures and the page -------------------------------------------------------------------------------------


@pytest.mark.parametrize("results", [LIKE_THE_PAPER, UNLIKE_THE_PAPER], ids=["like", "unlike"])
@pytest.mark.parametrize("picture", figure_plots.PICTURES)
def test_pictures(picture: str, results: dict[str, list[Entry]]) -> None:
    figure = figure_plots.draw(picture, results[figure_plots.PICTURES[picture][0]])
    figure.canvas.draw()
    assert len(figure.axes) == len(METRICS)
    for axis, metric in zip(figure.axes, METRICS, strict=True):
        assert axis.get_title(loc="left") == metric.title
        assert axis.get_ylabel() and (axis.get_xlabel() or picture == "figure_14")
    shown = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert shown
    stopped = picture in ("figure_07", "figure_11", "figure_14") and results is LIKE_THE_PAPER
    assert any("passed its limit" in text for text in shown) == stopped


def write(folder: Path, results: dict[str, list[Entry]], **more: Any) -> None:
    for name, rows in results.items():
        bar = {"name": "time, demand / DRed", "figure": 0.05, "limit": 0.1, "unit": "x", "met": True}
        result = {"name": name, "question": "?", "bars": [bar], "rows": rows, "notes": {"limit": "60 s"}} | more
        (folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")


def test_page(tmp_path: Path) -> None:
    write(tmp_path, LIKE_THE_PAPER)
    page = evaluation.page(tmp_path)
    count = len(claims.CLAIMS)
    assert f"Of {count} claims of the paper that were checked, {count} agree with what we measured and 0 diff" in page
    assert page.count("| agree") == count and "**differ**" not in page
    assert "![Figure 13: more partitions: figure_13](../bench/results/figure_13.png)" in page
    assert "| time, demand / DRed | 0.05x | 0.1x | met |" in page
    assert "| insert | 0.75 | relative/eager | 3.75 B | > 3.75 MB |" in page and "| > 3.75 s | limit of time |" in page
    write(tmp_path, UNLIKE_THE_PAPER)
    page = evaluation.page(tmp_path)
    differing = [claim for claim in claims.CLAIMS if claim.check is not claim_checks.eager_finishes]
    assert page.count("| agree") == 1 and page.count("**differ**") == len(differing) == count - 1
    assert all(claim.differs in page for claim in differing)
    assert all(claim.note in page for claim in claims.CLAIMS)


@pytest.mark.parametrize("present", [(DEMAND,), (DEMAND, DRED), (DEMAND, LAZY, EAGER)], ids=" ".join)
def test_page_whoever_is_missing(tmp_path: Path, present: tuple[str, ...]) -> None:
    """Strategies that pass every limit leave gaps; after an hour of measuring, the page must still be written."""
    for results in (UNLIKE_THE_PAPER, LIKE_THE_PAPER):
        left = {name: [row for row in rows if row["strategy"] in present] for name, rows in results.items()}
        stopped = left | {"figure_14": [row | {"finished": False, "stopped by": "time"} for row in left["figure_14"]]}
        stopped["figure_11"] = left["figure_11"] + (
            [] if EAGER in present else [row for row in results["figure_11"] if row["strategy"] == EAGER]
        )
        write(tmp_path, stopped)
        assert f"Of {len(claims.CLAIMS)} claims of the paper that were checked" in evaluation.page(tmp_path)
        for picture, (name, *_) in figure_plots.PICTURES.items():
            figure_plots.draw(picture, stopped[name])
    if len(present) == 1:  # it takes seconds to put them on paper: where most is missing
        assert len(figure_plots.draw_all(tmp_path)) == len(figure_plots.PICTURES)


def test_page_without_results(tmp_path: Path) -> None:
    page = evaluation.page(tmp_path)
    assert "Of 0 claims of the paper that were checked, 0 agree with what we measured and 0 differ." in page
    assert f"{len(claims.CLAIMS)} could not be checked" in page
    assert page.count("Not measured yet.") == len(evaluation.SECTIONS) + 1


def test_page_says_who_is_faster(tmp_path: Path) -> None:
    ours = {"view": "minCost", "nodes": 100, "who": "livelog", "deletion ms": 4.0, "re-insertion ms": 1.0}
    write(tmp_path, {"peers": [ours, ours | {"who": "rustworkx", "deletion ms": 1.4}]})
    page = evaluation.page(tmp_path)
    assert "- **rustworkx** is faster: minCost, 100 nodes, deletion 1.40 ms against our 4.00. " in page
    assert evaluation.REASONS["rustworkx"] in page


DOCUMENTED = ("claim_reading", "evaluation", "figure_14", "figure_plots", "figures", "harness", "report")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docs(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testmod(importlib.import_module(f"bench.{name}"), optionflags=flags)
    assert found.attempted and not found.failed
