"""Streams: does a tick cost what happens in it, and what would windows cost elsewhere?

- window (`stream_windows.py`): a tick with 100 arrivals and 100 expiries with 1,000,000 tuples in the window and with
  10,000; a tick at which nothing is due; a jump of a billion of them.
- updates (`stream_updates.py`): 1,000 updates of one key between two points, and one, for those who read at the points.
- peers (`stream_peers.py`): a sliding count and a window join over a stream of 1,000,000 arrivals with a point every
  1,000, beside Pathway and DuckDB.

Bars: a tick with the large window at most 1.5x of one with the small one; at most 20 µs for one at which nothing is
due, and 10 such ticks for a jump. A point behind 1,000 updates at most 1.2x of one behind a single update. Both tasks
at most a third of the time of Pathway and of DuckDB.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.harness import Bar, Result, finish, progress
from bench.stream_peers import OURS, PEERS, peers
from bench.stream_updates import updates
from bench.stream_windows import windows

QUESTION = "Does a tick cost what happens in it, and what would windows cost elsewhere?"
PACKAGES = ("duckdb", "pathway")

Part = Callable[[], tuple[list[Bar], list[dict[str, Any]]]]

FULL: dict[str, Part] = {"window": windows, "updates": updates, "peers": peers}
QUICK: dict[str, Part] = {
    "window": partial(windows, sizes=(1_000, 2_000), ticks=5, turns=2),
    "updates": partial(updates, rooms=200, count=20, turns=3),
    "peers": partial(peers, windows=(3, 6), points=12, turn=3, who=[name for name in PEERS if name.startswith(OURS)]),
}


def run(names: Sequence[str] = (), quick: bool = False) -> Result:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing and not quick and (not names or "peers" in names):
        raise SystemExit(f"this benchmark needs {', '.join(missing)}: pip install 'livelog[bench]'")
    bars: list[Bar] = []
    found: list[dict[str, Any]] = []
    for name in names or FULL:
        more_bars, more = (QUICK if quick else FULL)[name]()
        bars += more_bars
        found += more
        for bar in more_bars:
            progress(str(bar))
    columns: dict[str, Any] = {"part": None, "what": None, "who": None}
    columns |= {key: None for row in found for key in row}
    notes = {} if quick else {"versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES)}
    return Result("streams", QUESTION, bars, [{**columns, **row} for row in found], notes)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=QUESTION)
    parser.add_argument("names", nargs="*", metavar="PART", help=f"which parts (default: {', '.join(FULL)})")
    parser.add_argument("--quick", action="store_true", help="small streams and no peers, to see that it works")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - FULL.keys()):
        parser.error(f"unknown part: {', '.join(unknown)}: choose from {', '.join(FULL)}")
    if not options.quick and not options.names:
        return finish(run)
    folder = Path(tempfile.mkdtemp(prefix="livelog-bench-"))
    met = finish(partial(run, options.names, options.quick), folder)
    print(f"results are in {folder}: {'nothing was large enough to say anything' if options.quick else 'a part only'}")
    return 0 if options.quick else met


if __name__ == "__main__":
    raise SystemExit(main())
