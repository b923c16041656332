"""Run the benchmarks, all or those named: `python -m bench [reach affected min_cost memory hot_spots]`.

Ends with the bars that were met and missed; exit code 1 if one was missed. The page is written anew from the results.
"""

from __future__ import annotations

import argparse
import importlib
import json

from bench import report
from bench.harness import RESULTS, finish

NAMES = ("reach", "affected", "min_cost", "memory", "hot_spots")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the speed benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all of {', '.join(NAMES)})")
    names = parser.parse_args().names or list(NAMES)
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"unknown benchmark {', '.join(unknown)}: choose from {', '.join(NAMES)}")
    for name in names:
        module = importlib.import_module(f"bench.{name}")
        print(f"\n== {name}: {(module.__doc__ or name).splitlines()[0]}")
        finish(module.run)
    report.main()
    print("\n== bars")
    missed = 0
    for name in names:
        for bar in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["bars"]:
            missed += not bar["met"]
            verdict = "met   " if bar["met"] else "MISSED"
            unit = bar["unit"]
            print(f"{verdict} {name}: {bar['name']}: {bar['figure']:.2f}{unit} (at most {bar['limit']:g}{unit})")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
