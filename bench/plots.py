"""Pictures of the benchmarks, drawn from their rows: `python -m bench.plots` draws them again from the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.harness import RESULTS

__all__ = ["peers", "save"]

# Okabe and Ito's palette: told apart by people who do not see all colours, and in grey
KINDS = {"deletion ms": ("deletion", "#D55E00"), "re-insertion ms": ("re-insertion", "#56B4E9")}
OURS = "livelog"


def peers(rows: Sequence[dict[str, Any]]) -> Figure:
    """Milliseconds per change, a panel for each view and size, a pair of bars for everybody."""
    views = list(dict.fromkeys(row["view"] for row in rows))
    sizes = list(dict.fromkeys(row["nodes"] for row in rows))
    figure = Figure(figsize=(11, 1.2 + 3.1 * len(views)), layout="constrained")
    panels = figure.subplots(len(views), len(sizes), squeeze=False, sharex=True, sharey=True)
    times = [row[kind] for row in rows for kind in KINDS]
    for line, view in enumerate(views):
        for column, nodes in enumerate(sizes):
            panel = panels[line][column]
            chosen = [row for row in rows if row["view"] == view and row["nodes"] == nodes]
            for number, (kind, (label, colour)) in enumerate(KINDS.items()):
                places = [place + (number - 0.5) * 0.38 for place in range(len(chosen))]
                bars = panel.barh(places, [row[kind] for row in chosen], height=0.36, color=colour, label=label)
                panel.bar_label(bars, labels=[_short(row[kind]) for row in chosen], padding=3, fontsize=8)
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.set_xlim(min(times) / 2, max(times) * 3)  # room for the labels
            panel.set_yticks(range(len(chosen)), [row["who"] for row in chosen])
            for text in panel.get_yticklabels():
                text.set_fontweight("bold" if text.get_text() == OURS else "normal")
            panel.set_title(f"{view}, {nodes} nodes", fontsize=11)
            panel.grid(axis="x", color="0.88")
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].invert_yaxis()  # once: the axis is shared
    for panel in panels[-1]:
        panel.set_xlabel("milliseconds per change until the all-pairs answer is right again (log scale)", fontsize=8.5)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(KINDS), frameon=False)
    figure.suptitle("One link deleted, one link inserted again", x=0.01, ha="left", fontsize=13)
    return figure


def _short(value: float) -> str:
    """Two significant digits, no exponent.

    >>> [_short(value) for value in (0.1234, 9.87, 123.4)]
    ['0.12', '9.9', '123']
    """
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def save(figure: Figure, name: str) -> None:
    """Write a picture beside the results."""
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"{name}.png", dpi=150, metadata={"Software": None})


def main() -> None:
    for name, draw in (("peers", peers),):
        file = RESULTS / f"{name}.json"
        if file.exists():
            save(draw(json.loads(file.read_text(encoding="utf-8"))["rows"]), name)


if __name__ == "__main__":
    main()
