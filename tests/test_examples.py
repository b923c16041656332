"""The numbered examples: they print what their expected.txt says, in every way to evaluate, and that is right."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import livelog
from livelog.cli import main
from livelog.io.facts import load_facts
from livelog.io.updates import read_script
from tests.oracle import Base, evaluate
from tests.oracle_streams import Timeline

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.dl"))
SCRIPTED = [name for name in NAMES if (EXAMPLES / name / "updates.txt").exists()]
ENDLESS = {"02_costs", "04_shortest_paths"}  # naive evaluation would not end: they are checked in another way


APPROXIMATED = {"11_pagerank"}  # they show what is close enough to what the oracle says


def options(name: str) -> dict[str, Any]:
    """The functions and aggregates that a Python program beside an example registers."""
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        return {}
    module = module_of(path)
    if hasattr(module, "nearest"):
        return {"functions": {"nearest": module.nearest}}
    return {"functions": {"km": module.km, "initials": module.initials}, "aggregates": {"median": module.median}}


def module_of(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def states(name: str, **how: Any) -> Iterator[livelog.Session]:
    """A session over an example after its facts, and after each transaction of its updates."""
    with livelog.open(EXAMPLES / f"{name}.dl", facts=EXAMPLES / name, **options(name), **how) as session:
        yield session
        script = EXAMPLES / name / "updates.txt"
        if script.exists():
            with script.open() as lines:
                for transaction in read_script(lines):
                    with session.transaction() as tx:
                        transaction.apply(tx)
                    yield session


def test_they_are_numbered_and_grow() -> None:
    assert [int(name[:2]) for name in NAMES] == list(range(1, len(NAMES) + 1))
    for name in NAMES:
        text = (EXAMPLES / f"{name}.dl").read_text()
        assert text.startswith(f"// {int(name[:2])}. ") and (EXAMPLES / name).is_dir()
    # from the eleventh on they are about aggregates alone, and short again
    rules = [(EXAMPLES / f"{name}.dl").read_text().count(":-") for name in NAMES[:10]]
    assert all(a <= b + 2 for a, b in pairwise(rules)), rules


@pytest.mark.parametrize("name", SCRIPTED)
def test_expected(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`livelog run` prints the file; LIVELOG_UPDATE=1 writes it anew."""
    monkeypatch.chdir(EXAMPLES.parent)
    folder = f"examples/{name}"
    assert main(["run", f"{folder}.dl", "-F", folder, "--updates", f"{folder}/updates.txt", "--initial"]) == 0
    printed = capsys.readouterr().out
    expected = EXAMPLES / name / "expected.txt"
    if os.environ.get("LIVELOG_UPDATE"):
        expected.write_text(printed)
    assert printed == expected.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_all_of_them_run_from_the_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--functions` names the Python file of those that have one, and the views are those of a session in Python."""
    python = EXAMPLES / f"{name}.py"
    functions = ["--functions", str(python)] if python.exists() else []
    command = ["run", str(EXAMPLES / f"{name}.dl"), "-F", str(EXAMPLES / name), "--format", "json", *functions]
    assert main(command) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    session = next(opened := states(name))  # it closes with the iterator
    want = {relation: list(session[relation]) for relation in session.plan.outputs}
    assert {found["relation"]: [_tupled(row) for row in found["rows"]] for found in printed} == want
    opened.close()


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


@pytest.mark.everywhere(spark=10, cluster=1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "how",
    [
        {"strategy": "recompute"},
        {"ship": "lazy", "partitions": 3, "seed": 7},
        {"ship": "eager"},
        {"partitions": 4},
        {"strategy": "dred"},
        {"strategy": "dred", "partitions": 3, "seed": 7},
        {"strategy": "relative", "partitions": 3, "seed": 7},
        {"strategy": "relative", "ship": "eager"},
    ],
    ids=["recompute", "lazy", "eager", "demand", "dred", "dred-3", "relative-3", "relative-eager"],
)

def test_every_way_to_evaluate_agrees(name: str, how: dict[str, Any]) -> None:
    for plain, other in zip(states(name, partitions=1), states(name, **how), strict=True):
        for relation in plain.program.outputs:
            assert list(plain[relation]) == list(other[relation])


@pytest.mark.everywhere(spark=4, cluster=1)
@pytest.mark.parametrize("name", [name for name in SCRIPTED if name not in ENDLESS | APPROXIMATED])
def test_the_oracle_agrees(name: str) -> None:
    for step, session in enumerate(states(name)):
        if step == 0:
            script = list(read_script((EXAMPLES / name / "updates.txt").read_text().splitlines()))
            oracle = after_each(session.program, dict(load_facts(session.program, EXAMPLES / name)), script)
        expected = next(oracle)
        for relation in session.program.outputs:
            assert set(session[relation]) == set(expected[relation]), relation


def after_each(program: Any, facts: dict[str, Any], script: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """All relations by the oracle, after the load and after each transaction."""
    kinds = {"@": "advance", "+": "insert", "-": "delete"}
    timeline, base = Timeline(program), Base(program)
    timed = bool(program.reads or program.clocks)
    if timed:
        yield timeline.load(facts).relations
    else:
        base.load(facts)
        yield evaluate(program, base.facts())
    for transaction in script:
        operations: list[Any] = [
            (kinds[o.op], o.time) if o.op == "@" else (kinds[o.op], o.relation, o.row) for o in transaction.operations
        ]
        if timed:
            yield timeline.run(operations)[-1].relations
        else:
            base.apply(operations)
            yield evaluate(program, base.facts())


def best_paths(graph: nx.DiGraph, weight: str | None) -> dict[tuple[str, str], tuple[int, set[tuple[str, ...]]]]:
    """For each pair the least cost of a path with at least one link, and all paths that have it."""
    found: dict[tuple[str, str], tuple[int, set[tuple[str, ...]]]] = {}
    for x in graph:
        for y in graph:
            best: tuple[int, set[tuple[str, ...]]] | None = None
            for z in graph[x]:
                if not nx.has_path(graph, z, y):
                    continue
                for rest in nx.all_shortest_paths(graph, z, y, weight=weight):
                    path = (x, *rest)
                    cost = sum(graph[a][b]["cost"] if weight else 1 for a, b in pairwise(path))
                    if best is None or cost < best[0]:
                        best = (cost, {path})
                    elif cost == best[0]:
                        best[1].add(path)
            if best is not None:
                found[x, y] = best
    return found


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_shortest_paths(name: str) -> None:
    for session in states(name):
        graph = nx.DiGraph()
        for x, y, cost in session["link"]:
            graph.add_edge(x, y, cost=cost)
        cheapest, fewest = best_paths(graph, "cost"), best_paths(graph, None)
        costs = {(x, y, cost) for (x, y), (cost, _) in cheapest.items()}
        if name == "02_costs":
            assert set(session["cheapest"]) == costs
            continue
        assert set(session["minCost"]) == costs
        assert set(session["minHops"]) == {(x, y, hops) for (x, y), (hops, _) in fewest.items()}
        cheap = {(x, y, p, c) for (x, y), (c, paths) in cheapest.items() for p in paths}
        few = {(x, y, p, n) for (x, y), (n, paths) in fewest.items() for p in paths}
        assert set(session["cheapestPath"]) == cheap
        assert set(session["fewestHops"]) == few
        both = {(*a, b[2], b[3]) for a in cheap for b in few if a[:2] == b[:2]}
        assert set(session["shortestCheapestPath"]) == both


def test_python_functions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    module = module_of(EXAMPLES / "09_python_functions.py")
    module.main()
    out = capsys.readouterr().out
    assert "  Lyon          235.5 km\n" in out and "  Geneva to Lyon: 611.0 km, was 112.2 km\n" in out
    with module.open_session() as session:
        roads = nx.Graph()
        for x, y, length in session["leg"]:
            roads.add_edge(x, y, weight=length)
        for x, y, length in session["journey"]:
            assert length == pytest.approx(nx.shortest_path_length(roads, x, y, weight="weight"))
        assert len(session["journey"]) == 20


def test_pagerank() -> None:
    """The ranks of ten steps from the same start, by the textbook; nothing is made of what pages without links have."""
    for session in states("11_pagerank"):
        links = list(session["link"])
        pages = sorted({page for link in links for page in link})
        degree = {page: sum(source == page for source, _ in links) for page in pages}
        rank = dict.fromkeys(pages, 1 / len(pages))
        for _ in range(10):
            inflow = {page: sum(rank[y] / degree[y] for y, x in links if x == page) for page in pages}
            rank = {page: 0.15 / len(pages) + 0.85 * inflow[page] for page in pages}
        got = dict(session["pagerank"])
        assert got.keys() == rank.keys()
        assert all(abs(got[page] - rank[page]) < 1e-8 for page in pages)


def test_kmeans(capsys: pytest.CaptureFixture[str]) -> None:
    module = module_of(EXAMPLES / "12_kmeans.py")
    module.main()
    assert "sw: " in capsys.readouterr().out
    with module.open_session() as session:
        points = [row[1:] for row in session["point"]]
        centroids = {c: (x, y) for c, x, y in session["start"]}
        for _ in range(10):
            groups: dict[str, list[tuple[float, float]]] = {}
            for x, y in points:
                listed = tuple((c, *centroids[c]) for c in sorted(centroids))
                groups.setdefault(module.nearest(x, y, listed), []).append((x, y))
            centroids = {c: (sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for c, g in groups.items()}
        got = {c: (x, y) for c, x, y in session["cluster"]}
        assert got.keys() == centroids.keys() == {"sw", "nw", "se", "ne"}
        assert all(got[c] == pytest.approx(centroids[c]) for c in got)
        assert dict(session["size"]) == {c: len(g) for c, g in groups.items()}
