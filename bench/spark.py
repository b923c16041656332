"""What does a session over Spark cost: a deletion, a load, the loss of a worker? And what would rounds of jobs cost?

- deletion: reachability over a dense transit-stub network of 100 nodes / 394 links, 4 partitions, Spark `local[4]`; a
  fifth of the links deleted one by one, the session over Spark and the local runtime in turns. Beside it one empty
  shuffle job, in Python as the session is, and one in the JVM alone, warmed up: before the session takes all the slots
  and after it gives them back, the better of the two.
- rounds: the same deletions by the session and by rounds of Spark jobs (`spark_rounds.py`, the faster of its ways) in
  turns, in the same Spark.
- load: a network of 1,000 nodes / 4,000 links, a view of 1,000,000 tuples, in one transaction: local runtime, one
  partition, and sessions over Spark. What limits it is computed from what the workers were busy with.
- recovery: one worker is killed (-9) between transactions; the time from then until the size of the view is told, by
  new workers. Beside it the load of the same facts, and an empty barrier stage of as many tasks, whose Python processes
  were killed before: Spark's own part.

Bars: deletion at most 10x the local runtime's and 10 % of the shuffle job's, and 2 % of that by rounds. Load with 2
partitions at most 2x the local runtime's with one; the largest state of a partition shrinks. Recovery at most twice the
load and the stage's start together. All by the clock on the wall, since several processes work. Every part is a process
of its own: `python -m bench.spark [deletion rounds load recovery]`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import RESULTS, Bar, Result, finish
from bench.spark_parts import CORES, FULL, QUICK, Part, deletion, load, recovery, rounds

QUESTION = "What does a session over Spark cost, and what would rounds of jobs cost?"

PARTS: dict[str, tuple[Callable[..., Part], int]] = {
    "deletion": (deletion, 4),
    "rounds": (rounds, 4 + CORES),  # a session of four partitions, and jobs beside it
    "load": (load, 4),
    "recovery": (recovery, 4),
}
"""What is asked, and the task slots of the Spark it is asked on."""


def child(name: str, quick: bool, file: Path) -> None:
    """What a process of its own does: one part, in a Spark of its own."""
    from livelog.runtime.spark.start import launch

    part, slots = PARTS[name]
    spark = launch(f"local[{slots}]", slots)
    try:
        file.write_text(json.dumps(asdict(part(spark.spark, QUICK if quick else FULL))), encoding="utf-8")
    finally:
        spark.stop()


def run(names: Sequence[str] = (), quick: bool = False, folder: Path = RESULTS) -> Result:
    """The parts named, or all. What the others have found before stays in the result."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="livelog-bench-") as temporary:
        for name in names or PARTS:
            file = Path(temporary) / f"{name}.json"
            command = [sys.executable, "-m", "bench.spark", "--child", str(file), name, *["--quick"] * quick]
            subprocess.run(command, check=True)
            found[name] = json.loads(file.read_text(encoding="utf-8"))
    before = folder / "spark.json"
    known = json.loads(before.read_text(encoding="utf-8")) if before.exists() else {"bars": [], "rows": [], "notes": {}}
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    notes: dict[str, str] = {}
    for name in PARTS:
        part = found.get(name) or {
            "bars": [bar for bar in known["bars"] if bar["name"].startswith(f"{name}:")],
            "rows": [entry for entry in known["rows"] if entry["part"] == name],
            "notes": {key: text for key, text in known["notes"].items() if key.startswith(f"{name}:")},
        }
        bars += [Bar(bar["name"], bar["figure"], bar["limit"], bar["unit"]) for bar in part["bars"]]
        rows += part["rows"]
        notes |= part["notes"]
    return Result("spark", QUESTION, bars, rows, notes)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=QUESTION)
    parser.add_argument("names", nargs="*", metavar="PART", help=f"which parts (default: {', '.join(PARTS)})")
    parser.add_argument("--quick", action="store_true", help="small networks, to see that it works; no bar counts")
    parser.add_argument("--child", type=Path, metavar="FILE", help="run one part in this process, write its answer")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - PARTS.keys()):
        parser.error(f"unknown part: {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if options.child:
        child(options.names[0], options.quick, options.child)
        return 0
    if not options.quick:
        return finish(partial(run, options.names))
    folder = Path(tempfile.mkdtemp(prefix="livelog-bench-"))
    finish(partial(run, options.names, quick=True, folder=folder), folder)
    print(f"results are in {folder}; the networks were too small to say anything")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
