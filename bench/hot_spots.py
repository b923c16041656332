"""Where does the engine's time go?

The profiler's view of the 400-node networks of `reach.py` and `min_cost.py`: the load and the deletions, each with the
functions that have the largest share of time of their own. A profiler charges every call, so many small calls look
worse here than they are; no bar depends on it.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import livelog
from bench import min_cost, reach
from bench.harness import Result, finish, progress
from bench.programs import MIN_COST, REACHABLE, delete, engine, insert_all

NODES = 400
DELETIONS = 100
TOP = 8
HOUSE = Path(__file__).resolve().parent.parent


def hottest(program: str, phase: str, work: Callable[..., object], *arguments: Any) -> list[dict[str, Any]]:
    """Profile a call: its functions with the most time of their own."""
    profiler = cProfile.Profile()
    profiler.runcall(work, *arguments)
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(entry[2] for entry in stats.values())
    ranked = sorted(stats.items(), key=lambda item: item[1][2], reverse=True)[:TOP]
    return [
        {
            "program": program,
            "phase": phase,
            "function": place(file, name),
            "calls": entry[1],
            "own time, %": 100 * entry[2] / total,
        }
        for (file, _, name), entry in ranked
    ]


def place(file: str, name: str) -> str:
    """A function as people find it: file and name, without the folders of this machine."""
    if file == "~":
        return name.strip("<>")
    path = Path(file)
    inside = path.is_relative_to(HOUSE) and ".venv" not in path.parts
    return f"{path.relative_to(HOUSE).as_posix() if inside else path.name} {name}"


def delete_all(session: livelog.Session, view: str, links: Sequence[tuple[Any, ...]]) -> None:
    for link in links:
        delete(session, view, link)


def run() -> Result:
    rows: list[dict[str, Any]] = []
    cases: list[tuple[str, str, tuple[Sequence[Any], Sequence[Any]]]] = [
        ("reachable", REACHABLE, reach.workload(NODES)),
        ("minCost", MIN_COST, min_cost.workload(NODES)),
    ]
    for view, program, (links, victims) in cases:
        progress(f"{view}: {NODES} nodes under the profiler")
        with engine(program) as session:
            rows += hottest(view, "load", insert_all, session, links)
            rows += hottest(view, "deletions", delete_all, session, view, victims[:DELETIONS])
    return Result("hot_spots", "Where does the engine's time go?", (), rows)


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
