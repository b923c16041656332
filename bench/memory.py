"""How much memory does a view of a million tuples take, and does the load stay as fast as on a small one?

Reachability over a transit-stub network of 1,000 nodes / 3,950 links, where every node reaches every other: loaded in
one transaction by a fresh process, whose peak resident set is taken. The load of the 100-node network, in a process of
its own too, gives the time per derivation to compare with (one derivation per link and tuple below it).

Bars: at most 2 GB (10^9 bytes each), and at most 1.5x the time per derivation. The hand-written loop goes through the
same, for information: what it loses from 100 to 1,000 nodes it loses to the caches of the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import topologies
from bench.hand_loop import HandLoop, Link
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle
from bench.programs import REACHABLE, engine, insert_all

SEED = 1
LINKS = {100: 394, 1000: 3950}
LOADS = {100: 15, 1000: 1}
PROCESSES = {100: 3, 1000: 3}
MEMORY_BAR_GB = 2.0
TIME_BAR = 1.5


def peak_bytes() -> int:
    """The peak resident set of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux getrusage also remembers the process that started this one
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts in bytes, others in KiB


def is_complete(view: Any, nodes: int) -> bool:
    """Whether a view holds every pair of nodes: it has so many tuples, and none but pairs of nodes."""
    return len(view) == nodes * nodes and all(0 <= x < nodes and 0 <= y < nodes for x, y in view)


def load_engine(links: list[Link], nodes: int, watch: Stopwatch) -> int:
    with engine(REACHABLE) as session:
        with watch:
            insert_all(session, links)
        peak = peak_bytes()  # before the check below makes copies
        assert is_complete(session["reachable"], nodes)
    return peak


def load_loop(links: list[Link], nodes: int, watch: Stopwatch) -> int:
    loop = HandLoop()
    with watch:
        loop.load(links)
    peak = peak_bytes()
    assert is_complete(loop.view, nodes)
    return peak


def child(who: str, nodes: int) -> None:
    """What a fresh process does: load, and print what it took."""
    links = topologies.pairs(topologies.dense(nodes, links=LINKS[nodes], seed=SEED))
    watch, peak = Stopwatch(), 0
    for _ in range(LOADS[nodes]):
        with settle():
            peak = (load_engine if who == "engine" else load_loop)(links, nodes, watch)
    print(json.dumps({"seconds": statistics.median(watch.laps), "peak": peak}))


def measure(who: str, nodes: int) -> dict[str, Any]:
    """Medians over some fresh processes."""
    runs = []
    for number in range(PROCESSES[nodes]):
        progress(f"{who}, {nodes} nodes: process {number + 1} of {PROCESSES[nodes]}")
        command = [sys.executable, "-m", "bench.memory", "--child", who, str(nodes)]
        runs.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    seconds = statistics.median(run["seconds"] for run in runs)
    return {
        "who": who,
        "nodes": nodes,
        "view tuples": nodes * nodes,
        "load s": seconds,
        "µs per derivation": seconds / (nodes * LINKS[nodes]) * 1e6,
        "peak GB": max(run["peak"] for run in runs) / 1e9,
    }


def run() -> Result:
    rows = [measure(who, nodes) for who in ("engine", "loop") for nodes in LINKS]
    small, large, loop_small, loop_large = rows
    speed = "µs per derivation"
    bars = [
        Bar("peak memory, 1,000 nodes", large["peak GB"], MEMORY_BAR_GB, " GB"),
        Bar("load time per derivation, 1,000 nodes / 100 nodes", large[speed] / small[speed], TIME_BAR),
    ]
    notes = {"the loop's own ratio of load time per derivation": loop_large[speed] / loop_small[speed]}
    return Result("memory", "How much memory does a view of a million tuples take?", bars, rows, notes)


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory and load time of a view of a million tuples.")
    parser.add_argument("--child", nargs=2, metavar=("WHO", "NODES"), help="load once and print what it took")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], int(arguments.child[1]))
        return 0
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
