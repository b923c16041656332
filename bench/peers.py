"""How does the engine compare with what people would use instead?

All-pairs `reachable` and `minCost` over the networks of `reach.py` with their latencies: all links loaded, then some of
them deleted one at a time, then inserted again one at a time. After each change the whole all-pairs answer is to be
right again. The same links and victims for everybody:

- livelog: the engine as a user gets it, one transaction per change, its sorted changes read;
- networkx, rustworkx: the graph is changed in place, the view computed from it anew as a list of rows;
- rustworkx, no rows: the same, but the answer stays in the library's own form, a matrix or a mapping (no bar: there is
  nothing to read row by row yet, and a matrix of hops costs less than the rows of it);
- duckdb: `WITH RECURSIVE` into a table of the database;
- pathway: `pw.iterate`, kept up to date by one commit per change.

What was tried for each and left out stands in `peer_*.py`. Everybody runs in a process of its own. Seconds are those of
the clock on the wall, because some use several threads; processor time of all threads stands beside it. Whole views are
asserted equal to ours after the load, after every tenth change and at the end of each kind.

Bars, at 400 nodes, mean deletion and mean re-insertion, both views: at most a third of the time of Pathway and of
DuckDB, and at most the time of networkx and of rustworkx.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import topologies
from bench import plots
from bench.harness import Bar, Result, finish, progress, typical
from bench.peer_kit import VIEWS, CostLink, Lap, Run, difference, drive_apart
from bench.reach import SEED, SIZES

OURS = "livelog"
PEERS = {
    OURS: "bench.peer_ours:Ours",
    "networkx": "bench.peer_networkx:Networkx",
    "rustworkx": "bench.peer_rustworkx:Rustworkx",
    "rustworkx, no rows": "bench.peer_rustworkx:RustworkxOwn",
    "duckdb": "bench.peer_duckdb:DuckDB",
    "pathway": "bench.peer_pathway:Pathway",
}
PACKAGES = ("networkx", "rustworkx", "duckdb", "pathway")
LIMITS = {"networkx": 1.0, "rustworkx": 1.0, "duckdb": 1 / 3, "pathway": 1 / 3}
VICTIMS = {100: 78, 400: 40}
BARRED = 400
# once is enough for those whose figures are far from their bars, and they take the most time
REPETITIONS = {OURS: 3, "rustworkx": 3, "rustworkx, no rows": 3}


def workload(nodes: int) -> tuple[list[CostLink], list[CostLink]]:
    """The links of a network with their latencies, and those that will be deleted and come back."""
    links = topologies.links(topologies.dense(nodes, links=SIZES[nodes], seed=SEED), cost="latency")
    return links, random.Random(SEED).sample(links, VICTIMS[nodes])


def assert_equal_answers(view: str, ours: Run, who: str, theirs: Run) -> None:
    """The whole views at every point where they were kept."""
    assert ours.snapshots.keys() == theirs.snapshots.keys(), f"{who} was not asked as often as we were"
    for moment, view_then in ours.snapshots.items():
        if theirs.snapshots[moment] != view_then:
            missing, extra = difference(view_then, theirs.snapshots[moment], VIEWS[view])
            raise AssertionError(
                f"{view} after {moment}: {who} lacks {len(missing)} rows that we have, such as {missing[:3]}, "
                f"and has {len(extra)} more, such as {extra[:3]}"
            )


def run_all(view: str, nodes: int) -> dict[str, list[Run]]:
    """Everybody in turn, some of them again; answers asserted equal."""
    links, victims = workload(nodes)
    runs: dict[str, list[Run]] = {who: [] for who in PEERS}
    for repetition in range(max(REPETITIONS.values())):
        for who, where in PEERS.items():
            if repetition < REPETITIONS.get(who, 1):
                progress(f"{view}, {nodes} nodes: {who}" + (f", run {repetition + 1}" if repetition else ""))
                run = drive_apart(where, view, links, victims)
                runs[who].append(run)
                assert_equal_answers(view, runs[OURS][0], who, run)
    return runs


def mean(laps: Sequence[Sequence[Lap]], clock: str) -> float:
    """The mean over the changes of what each typically took, in milliseconds."""
    return 1e3 * statistics.mean(typical([[getattr(lap, clock) for lap in run] for run in laps]))


def figures(view: str, nodes: int, runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """One row of the table for everybody."""
    return [
        {
            "view": view,
            "nodes": nodes,
            "who": who,
            "load s": statistics.median(run.load.wall for run in each),
            "deletion ms": mean([run.deletions for run in each], "wall"),
            "re-insertion ms": mean([run.insertions for run in each], "wall"),
            "deletion, processor ms": mean([run.deletions for run in each], "cpu"),
            "re-insertion, processor ms": mean([run.insertions for run in each], "cpu"),
        }
        for who, each in runs.items()
    ]


def bars(view: str, nodes: int, rows: Sequence[dict[str, Any]]) -> list[Bar]:
    """Ours against each of the others that has a limit.

    >>> rows = [{"who": "livelog", "deletion ms": 2.0, "re-insertion ms": 1.0}]
    >>> rows += [{"who": who, "deletion ms": 8.0, "re-insertion ms": 2.0} for who in LIMITS]
    >>> print(bars("reachable", 400, rows)[-1])
    MISSED reachable, mean re-insertion, 400 nodes, livelog / pathway: 0.50x (at most 0.333333x)
    """
    by = {row["who"]: row for row in rows}
    return [
        Bar(f"{view}, mean {what}, {nodes} nodes, {OURS} / {who}", by[OURS][column] / by[who][column], limit)
        for what, column in (("deletion", "deletion ms"), ("re-insertion", "re-insertion ms"))
        for who, limit in LIMITS.items()
    ]


def run() -> Result:
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise SystemExit(f"this benchmark needs {', '.join(missing)}: pip install 'livelog[bench]'")
    all_bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for nodes in SIZES:
        for view in VIEWS:
            more = figures(view, nodes, run_all(view, nodes))
            rows += more
            if nodes == BARRED:
                all_bars += bars(view, nodes, more)
    plots.save(plots.peers(rows), "peers")
    return Result(
        "peers",
        "How does the engine compare with what people would use instead?",
        all_bars,
        rows,
        {
            "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
            "deleted and inserted again": ", ".join(f"{n} links at {nodes} nodes" for nodes, n in VICTIMS.items()),
        },
    )


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
