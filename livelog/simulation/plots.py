"""Pictures for people: what strategies cost, side by side; and a network with what has failed in it.

matplotlib is imported when a picture is drawn, and only its figures are used: nothing global is touched, and no window
or display is needed. The colours are those of Okabe and Ito, which colour-blind people can tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datalog.errors import UsageProblem
from datalog.report import listed
from livelog.simulation.compare import PHASES, Comparison, Run
from livelog.simulation.text import duration, ratio, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SUFFIXES", "plot_comparison", "save"]

SUFFIXES = (".png", ".svg", ".pdf")
COLOURS = {"load": "#0072B2", "change": "#E69F00"}
INK = "#333333"
FAINT = "#dddddd"
DPI = 150
LOG_FROM = 20
"""From this ratio of the largest bar to the smallest on, a linear axis would hide the small ones."""

METRICS: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    ("provenance_bytes_per_tuple", "Provenance per tuple", "bytes", size),
    ("bytes_shipped", "Shipped between partitions", "bytes", size),
    ("state_bytes", "Operator state", "bytes", size),
    ("seconds", "Time to converge", "seconds of processor time", duration),
)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file; its suffix says in which form."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageProblem(f"a picture is a {listed(SUFFIXES, 'or')} file, not {str(path)!r}")
    figure.savefig(path, dpi=DPI)


def plot_comparison(comparison: Comparison, title: str = "") -> Figure:
    """The four metrics in four panels, a pair of bars for each strategy: load and change.

    Beside each bar stands its figure and, from the second strategy on, its ratio to the first. A strategy that passed
    its limit has hatched bars as long as what it had reached.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    count = len(comparison.strategies)
    space = ConstrainedLayoutEngine(w_pad=0.2, h_pad=0.1, hspace=0.02)
    figure = Figure(figsize=(13, 3.4 + 1.16 * count), layout=space)
    axes = figure.subplots(2, 2)
    for axis, (name, label, unit, show) in zip(axes.flat, METRICS, strict=True):
        _panel(axis, comparison, name, show)
        axis.set_title(label, fontsize=15, fontweight="bold", color=INK, loc="left")
        axis.set_xlabel(unit, fontsize=13, color=INK)
    if title:
        figure.suptitle(title, fontsize=16, color=INK)
    _legend(figure, comparison)
    return figure


def _panel(axis: Axes, comparison: Comparison, metric: str, show: Callable[[Any], str]) -> None:
    strategies = comparison.strategies
    values = {(run.strategy, run.phase): getattr(run, metric) for run in comparison.runs if run.begun}
    positive = [value for value in values.values() if value]
    logarithmic = bool(positive) and max(positive) > LOG_FROM * min(positive)
    if logarithmic:
        axis.set_xscale("log")
        low = min(positive) / 3
        # The labels stand to the right of the bars, so they need room there, in decades.
        axis.set_xlim(low, max(positive) * (max(positive) / low) ** 0.6)
    else:
        low = 0.0
        axis.set_xlim(0, 1.6 * max(positive, default=1.0))
    thick = 0.38
    for row, strategy in enumerate(strategies):
        for phase, offset in zip(PHASES, (-thick / 2, thick / 2), strict=True):
            run = comparison.run(strategy, phase)
            value = values.get((strategy, phase))
            if value:
                axis.barh(
                    row + offset, value - (low if logarithmic else 0), thick * 0.94, left=low,
                    color=COLOURS[phase] if run.finished else "white", edgecolor=COLOURS[phase], linewidth=1.2,
                    hatch=None if run.finished else "////", zorder=2,
                )  # fmt: skip
            text = _label(run, value, values.get((strategies[0], phase)), show, first=row == 0)
            axis.annotate(
                text, (value or low, row + offset), xytext=(6, 0), textcoords="offset points",
                va="center", fontsize=11.5, color=INK, zorder=3,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            )  # fmt: skip
    axis.set_yticks(range(len(strategies)), strategies, fontsize=13, color=INK)
    axis.set_ylim(len(strategies) - 0.45, -0.55)
    axis.tick_params(axis="x", labelsize=12, colors=INK)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", which="major", color=FAINT, linewidth=0.8, zorder=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    if not logarithmic:
        from matplotlib.ticker import EngFormatter, MaxNLocator

        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))


def _label(run: Run, value: float | None, base: float | None, show: Callable[[Any], str], *, first: bool) -> str:
    if not run.begun:
        return "not reached"
    if value is None:
        return "not measured"
    beside = "" if first or not value else ratio(value, base).replace("x", "×")
    text = show(value) if run.finished else f"> {show(value)}"
    return f"{text}  ({beside})" if beside else text


def _legend(figure: Figure, comparison: Comparison) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=COLOURS[phase], label=phase) for phase in PHASES]
    if any(not run.finished for run in comparison.runs):
        handles.append(Patch(facecolor="white", edgecolor=INK, hatch="////", label="passed its limit"))
    label = f"(×: ratio to {comparison.strategies[0]})"
    if len(comparison.strategies) > 1:
        handles.append(Patch(alpha=0, label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=13, frameon=False)
