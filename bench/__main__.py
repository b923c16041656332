"""Run the benchmarks, all or those named: `python -m bench [reach affected ... figure_07 ... peers spark]`.

Ends with the bars that were met and missed; exit code 1 if one was missed. The pages and the pictures are made anew
from the results. With `--quick` the figures run on small networks with short limits, to see that they work: their
results say nothing, go to a folder of their own, and no bar is asked for.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import figure_plots, report
from bench.harness import RESULTS, finish

FIGURES = ("figure_07", "figure_09", "figure_11", "figure_13", "figure_14")
NAMES = (
    "reach", "affected", "min_cost", "memory", "hot_spots", "aggregates",
    "pagerank", "kmeans", "indexes", "transactions", "store", "exchange", "planning", "nested",
    *FIGURES, "peers", "spark",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the speed benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all of {', '.join(NAMES)})")
    parser.add_argument("--quick", action="store_true", help="the figures on small networks, to see that they work")
    options = parser.parse_args(arguments)
    known = FIGURES if options.quick else NAMES
    names = options.names or list(known)
    if unknown := sorted(set(names) - set(known)):
        which = "benchmark that can be quick" if options.quick else "benchmark"
        parser.error(f"unknown {which}: {', '.join(unknown)}: choose from {', '.join(known)}")
    if options.quick:
        quick(names, Path(tempfile.mkdtemp(prefix="livelog-bench-")))
        return 0
    for name in names:
        module = importlib.import_module(f"bench.{name}")
        print(f"\n== {name}: {(module.__doc__ or name).splitlines()[0]}")
        finish(module.run)
    report.main()
    return bars(names)


def quick(names: Sequence[str], folder: Path) -> None:
    """The figures named, small, with their pictures, into a folder."""
    for name in names:
        module = importlib.import_module(f"bench.{name}")
        print(f"\n== {name}, quick: {(module.__doc__ or name).splitlines()[0]}")
        finish(partial(module.run, quick=True), folder)
    figure_plots.draw_all(folder)
    print(f"\nresults and pictures are in {folder}; the networks were too small to say anything")


def bars(names: Sequence[str]) -> int:
    """Print the bars of those named; 1 if one was missed."""
    print("\n== bars")
    missed = 0
    for name in names:
        for bar in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["bars"]:
            missed += not bar["met"]
            verdict = "met   " if bar["met"] else "MISSED"
            unit = bar["unit"]
            print(f"{verdict} {name}: {bar['name']}: {bar['figure']:.2f}{unit} (at most {bar['limit']:.3g}{unit})")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
