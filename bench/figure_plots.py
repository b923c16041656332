"""Pictures of the paper's figures, drawn from the rows of their results: `python -m bench.figure_plots`.

Four panels as in the paper, one for each metric. A point with an arrow is where a run was when it passed its limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from bench.figures import METRICS, Entry, Metric, found
from bench.harness import RESULTS

__all__ = ["PICTURES", "draw", "draw_all"]

INK, GRID = "#333333", "#dddddd"
DPI = 150
LOG_FROM = 20
"""From this ratio of the greatest value to the least on, a linear axis would hide the small ones."""


Line = Literal["-", "--", ":"]


@dataclass(frozen=True, slots=True)
class Style:
    """How a series is drawn."""

    label: str
    colour: str
    marker: str
    line: Line = "-"


# Okabe and Ito's palette: told apart by people who do not see all colours; markers differ as well
STYLES = {
    "absorption/demand": Style("absorption, demand (ours)", "#0072B2", "o"),
    "absorption/lazy": Style("absorption, lazy", "#009E73", "s"),
    "absorption/eager": Style("absorption, eager", "#CC79A7", "^"),
    "relative/lazy": Style("relative, lazy", "#E69F00", "D"),
    "relative/eager": Style("relative, eager", "#7F6000", "v", "--"),
    "dred": Style("DRed", "#D55E00", "X"),
}
DENSITIES: dict[str, Line] = {"dense": "-", "sparse": ":"}
PHASES: dict[str, tuple[str, Line]] = {"delete": ("deletions", "-"), "load": ("load", ":")}
SELECTIONS = {
    "none": Style("none", "#D55E00", ""),
    "single": Style("single: two recursions", "#56B4E9", ""),
    "single, cost only": Style("single, cost only (half of the answer)", "#BBBBBB", ""),
    "multi": Style("multi: one recursion", "#0072B2", ""),
}


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line, from left to right."""

    style: Style
    rows: Sequence[Entry]


# --- one panel -------------------------------------------------------------------------------------------------


def _scale(axis: Axes, values: Iterable[float]) -> None:
    """Logarithmic where it has to be; with a stretch around zero where there are zeros."""
    known = list(values)
    positive = [value for value in known if value > 0]
    if not positive or max(positive) <= LOG_FROM * min(positive):
        top = 1.15 * max(positive, default=1.0)
        axis.set_ylim(bottom=-0.02 * top if len(positive) < len(known) else 0, top=top)
        axis.yaxis.set_major_formatter(FuncFormatter(_number))
        return
    low = 10.0 ** math.floor(math.log10(min(positive)))
    if len(positive) < len(known):
        axis.set_yscale("symlog", linthresh=low, linscale=0.5)
        axis.set_ylim(bottom=-0.1 * low, top=3 * max(positive))
    else:
        axis.set_yscale("log")
        axis.set_ylim(bottom=min(positive) / 2, top=3 * max(positive))
    axis.yaxis.set_major_formatter(FuncFormatter(_number))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _number(value: float, _: Any = None) -> str:
    """A tick without an exponent.

    >>> [_number(value) for value in (0.0, 0.001, 0.25, 20.0, 12000.0)]
    ['0', '0.001', '0.25', '20', '12,000']
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6f}".rstrip("0")


def _in_unit(metric: Metric, rows: Iterable[Entry]) -> tuple[str, float]:
    """The unit to show a metric in, and how many of it are one of the rows' own: kB and ms where all are small.

    >>> _in_unit(METRICS[1], [{"shipped MB/partition": 0.02}])
    ('kB', 1000.0)
    """
    most = max((row[metric.column] or 0.0 for row in rows), default=0.0)
    if most < 1 and metric.unit.startswith(("MB", "s ")):
        return ("kB" if metric.unit == "MB" else f"m{metric.unit}"), 1000.0
    return metric.unit, 1.0


def _lines(axis: Axes, series: Sequence[Series], metric: Metric) -> str:
    """Draw the lines; the unit they are in."""
    unit, factor = _in_unit(metric, [row for one in series for row in one.rows])
    for one in series:
        points = [
            (row["x"], row[metric.column] * factor, row["finished"])
            for row in one.rows
            if row[metric.column] is not None
        ]
        style = one.style
        # no line to what was not reached: it would show a trend that is only that of the limits
        done = [(x, y) for x, y, finished in points if finished]
        axis.plot([x for x, _ in done], [y for _, y in done], style.line, color=style.colour, lw=2, zorder=3)
        for x, y, finished in points:
            face = style.colour if finished else "white"
            axis.plot(x, y, style.marker, color=style.colour, mfc=face, mew=1.6, ms=8, zorder=4, clip_on=False)
            if not finished:
                axis.annotate(
                    "", (x, y), xytext=(0, 24), textcoords="offset points", zorder=4,
                    arrowprops={"arrowstyle": "<-", "color": style.colour, "lw": 1.8, "shrinkB": 5},
                )  # fmt: skip
    known = [row[metric.column] for one in series for row in one.rows]
    _scale(axis, [factor * value for value in known if value is not None])
    return unit


def _finish(axis: Axes, title: str, unit: str) -> None:
    axis.set_title(title, fontsize=13, fontweight="bold", color=INK, loc="left")
    axis.set_ylabel(unit + (" (log scale)" if axis.get_yscale() != "linear" else ""), fontsize=11.5, color=INK)
    axis.tick_params(labelsize=11, colors=INK)
    axis.grid(axis="y", color=GRID, lw=0.8, zorder=0)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


# --- four panels -----------------------------------------------------------------------------------------------


def _picture(title: str) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(11, 8.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
    figure.suptitle(title, fontsize=15, color=INK)
    return figure, list(figure.subplots(2, 2).flat)


def _legend(figure: Figure, series: Sequence[Series]) -> None:
    handles: list[Any] = [
        Line2D([], [], color=s.colour, marker=s.marker, linestyle=s.line, lw=2, ms=8, label=s.label)
        for s in dict.fromkeys(one.style for one in series)
    ]
    if any(not row["finished"] for one in series for row in one.rows):
        handles.append(
            Line2D([], [], color=INK, marker=r"$\uparrow$", linestyle="", ms=11, label="passed its limit here")
        )
    columns = 3 if len(handles) in (5, 6) else min(4, len(handles))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=11.5, frameon=False)


def lines(title: str, xlabel: str, series: Sequence[Series], *, ticks: Sequence[Any] = (), log: bool = False) -> Figure:
    """The four metrics of several series."""
    figure, panels = _picture(title)
    for axis, metric in zip(panels, METRICS, strict=True):
        if log:
            axis.set_xscale("log")
        _finish(axis, metric.title, _lines(axis, series, metric))
        axis.set_xlabel(xlabel, fontsize=11.5, color=INK)
        if ticks:
            axis.set_xticks(ticks, [_number(float(tick)) for tick in ticks])
            axis.xaxis.set_minor_locator(NullLocator())
    _legend(figure, series)
    return figure


def _by_strategy(rows: Sequence[Entry], **where: Any) -> list[Series]:
    chosen = found(rows, **where)
    return [
        Series(style, sorted(mine, key=lambda row: row["x"]))
        for name, style in STYLES.items()
        if (mine := found(chosen, strategy=name))
    ]


def _ticks(series: Sequence[Series]) -> list[Any]:
    return sorted({row["x"] for one in series for row in one.rows})


def inserting(rows: Sequence[Entry], what: str, xlabel: str) -> Figure:
    series = _by_strategy(rows, phase="insert")
    return lines(f"{what}, while facts are inserted", xlabel, series, ticks=_ticks(series))


def deleting(rows: Sequence[Entry], what: str, xlabel: str) -> Figure:
    series = _by_strategy(rows, phase="delete")
    return lines(f"{what}, while facts are deleted one at a time", xlabel, series, ticks=_ticks(series))


def growing(rows: Sequence[Entry], phase: str, title: str) -> Figure:
    """Figures 11 and 12: a full line for dense, a dashed one for sparse."""
    series = [
        Series(Style(f"{style.label.partition(', ')[2]}, {density}", style.colour, style.marker, line), sorted(
            mine, key=lambda row: row["x"]
        ))
        for name, style in STYLES.items()
        for density, line in DENSITIES.items()
        if (mine := found(rows, phase=phase, density=density, strategy=name))
    ]  # fmt: skip
    return lines(title, "link tuples of the network", series, ticks=_ticks(series), log=True)


def spreading(rows: Sequence[Entry]) -> Figure:
    """Figure 13: a full line for the deletions, a dotted one for the load."""
    series = [
        Series(Style(f"{style.label.replace(' (ours)', '')}: {what}", style.colour, style.marker, line), sorted(
            mine, key=lambda row: row["x"]
        ))
        for name, style in STYLES.items()
        for phase, (what, line) in PHASES.items()
        if (mine := found(rows, phase=phase, strategy=name))
    ]  # fmt: skip
    return lines("reachable on more and more partitions", "partitions", series, ticks=_ticks(series))


def selecting(rows: Sequence[Entry]) -> Figure:
    """Figure 14: bars. What never ends has no figure to show, so its bar is hatched from top to bottom."""
    figure, panels = _picture("Shortest paths with both aggregates: the load")
    densities = list(dict.fromkeys(row["density"] for row in rows))
    width = 0.8 / len(SELECTIONS)
    for axis, metric in zip(panels, METRICS, strict=True):
        bars = [
            (place + (number - (len(SELECTIONS) - 1) / 2) * width, style, row)
            for place, density in enumerate(densities)
            for number, (name, style) in enumerate(SELECTIONS.items())
            for row in found(rows, phase="load", density=density, selection=name)
        ]
        finished = [row for _, _, row in bars if row["finished"]]
        unit, factor = _in_unit(metric, finished)
        top = 1.25 * factor * max((row[metric.column] for row in finished), default=1.0)
        for x, style, row in bars:
            if row["finished"]:
                bar = axis.bar(x, row[metric.column] * factor, width * 0.92, color=style.colour, zorder=3)
                axis.bar_label(bar, [_three(row[metric.column] * factor)], padding=2, fontsize=10, color=INK)
            else:
                axis.bar(x, top, width * 0.92, color="white", edgecolor=style.colour, hatch="///", zorder=3)
        axis.set_ylim(0, top)
        axis.set_xticks(range(len(densities)), densities, fontsize=12)
        _finish(axis, metric.title, unit)
    handles = []
    for name, style in SELECTIONS.items():
        ends = {row["finished"] for row in found(rows, phase="load", selection=name)}
        if True in ends:
            handles.append(Patch(color=style.colour, label=style.label))
        if False in ends:
            label = f"{style.label}: passed its limit"
            handles.append(Patch(facecolor="white", edgecolor=style.colour, hatch="///", label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=11.5, frameon=False)
    return figure


def _three(value: float) -> str:
    """Three digits, no exponent.

    >>> [_three(value) for value in (0.01234, 1.234, 1234.5)]
    ['0.0123', '1.23', '1,234']
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# --- all of them -----------------------------------------------------------------------------------------------

PICTURES: dict[str, tuple[str, Callable[[Sequence[Entry]], Figure]]] = {
    "figure_07": ("figure_07", lambda rows: inserting(rows, "reachable", "share of the links inserted")),
    "figure_08": ("figure_07", lambda rows: deleting(rows, "reachable", "link tuples deleted")),
    "figure_09": ("figure_09", lambda rows: inserting(rows, "Regions of sensors", "share of the sensors triggered")),
    "figure_10": ("figure_09", lambda rows: deleting(rows, "Regions of sensors", "sensors released")),
    "figure_11": ("figure_11", lambda rows: growing(rows, "load", "reachable: the load")),
    "figure_12": ("figure_11", lambda rows: growing(rows, "delete", "reachable: deleting 20% (partly extrapolated)")),
    "figure_13": ("figure_13", spreading),
    "figure_14": ("figure_14", selecting),
}
"""Picture -> the result it is drawn from, and how."""


def draw(picture: str, rows: Sequence[Entry], setting: str = "") -> Figure:
    """One of `PICTURES`, from the rows of its result; `setting` stands under the title."""
    figure = PICTURES[picture][1](rows)
    if setting:
        figure.suptitle(f"{figure.get_suptitle()}\n{setting}", fontsize=14, color=INK)
    return figure


def draw_all(folder: Path = RESULTS) -> list[Path]:
    """Draw whatever has results in a folder; the pictures written."""
    written = []
    for picture, (name, _) in PICTURES.items():
        if (file := folder / f"{name}.json").exists():
            result = json.loads(file.read_text(encoding="utf-8"))
            written.append(folder / f"{picture}.png")
            figure = draw(picture, result["rows"], result["notes"].get("setting", ""))
            figure.savefig(written[-1], dpi=DPI, metadata={"Software": None})
    return written


if __name__ == "__main__":
    draw_all()
