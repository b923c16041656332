"""Write pages and pictures from `bench/results/*.json`: no figure on a page is typed by hand.

The measured parts of `bench/README.md` and `docs/indexes.md`, all of `docs/evaluation.md` (`evaluation.py`), the
pictures of the figures and of the peers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import evaluation, figure_plots, plots
from bench.harness import RESULTS, show

PAGE = Path(__file__).parent / "README.md"
ORDER = (
    "reach", "affected", "min_cost", "memory", "hot_spots", "aggregates",
    "pagerank", "kmeans", "transactions", "store", "exchange", "planning", "nested", "spark",
)
INDEXES = Path(__file__).parent.parent / "docs" / "indexes.md"
BEGIN, END = "<!-- measured: begin (python -m bench.report) -->", "<!-- measured: end -->"


def markdown(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table.

    >>> print(markdown([{"who": "loop", "load s": 0.5}]))
    | who | load s |
    |---|---|
    | loop | 0.50 |
    """
    names = list(rows[0])
    lines = [names, ["---"] * len(names)] + [[show(row[name]) for name in names] for row in rows]
    return "\n".join(
        "| " + " | ".join(line) + " |" if line[0] != "---" else "|" + "|".join(line) + "|" for line in lines
    )


def section(result: dict[str, Any]) -> str:
    """One benchmark: its bars, its figures, its notes."""
    parts = [f"### {result['name']}: {result['question']}"]
    if result["bars"]:
        parts.append(markdown([
            {
                "bar": bar["name"],
                "measured": f"{bar['figure']:.2f}{bar['unit']}",
                "at most": f"{bar['limit']:g}{bar['unit']}",
                "": "met" if bar["met"] else "**missed**",
            }
            for bar in result["bars"]
        ]))
    parts.append(markdown(result["rows"]))
    parts += [f"{name[0].upper() + name[1:]}: {show(value)}." for name, value in result["notes"].items()]
    return "\n\n".join(parts)


def fill(page: Path, names: Sequence[str]) -> None:
    """Put the results named into the measured part of a page."""
    results = [json.loads(file.read_text(encoding="utf-8"))
               for name in names if (file := RESULTS / f"{name}.json").exists()]
    head, rest = page.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    measured = "\n\n".join(section(result) for result in results)
    page.write_text(f"{head}{BEGIN}\n\n{measured}\n\n{END}{tail}", encoding="utf-8")


def main() -> None:
    fill(PAGE, ORDER)
    fill(INDEXES, ("indexes",))
    figure_plots.draw_all()
    plots.main()
    evaluation.main()


if __name__ == "__main__":
    main()
