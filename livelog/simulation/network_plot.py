"""A picture of a network after a stream of changes: what has failed, and which part of the views is affected."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from livelog.simulation.aftermath import Aftermath
from livelog.simulation.layout import positions
from livelog.simulation.node_names import name_nodes
from livelog.simulation.plots import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Aftermath", "plot_network"]

UP, FAILED, RECOVERED, CHANGED, GAINED = "#8c8c8c", "#CC0000", "#E69F00", "#CC79A7", "#0072B2"


def plot_network(graph: nx.Graph, aftermath: Aftermath, title: str = "") -> Figure:
    """The network, its failed links, and its nodes in the colour of how much of the views about them has changed.

    The page has the shape of the map, and as many nodes have their names as can be read: the most affected first.
    """
    from matplotlib.figure import Figure

    points = positions(graph)
    size = _page(points)
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.add_subplot()
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.margins(0.05)
    _draw_links(axis, points, aftermath.links(graph))
    affected = _draw_nodes(figure, axis, graph, points, aftermath)
    order = sorted(graph, key=lambda node: (-affected.get(node, 0), -graph.degree(node)))
    rings = 1.9 if any(aftermath.marked(graph).values()) else 1.2
    name_nodes(axis, size, points, order, above=rings * math.sqrt(_area(graph) / math.pi) + 1)
    if title:
        figure.suptitle(title, fontsize=15, color=INK)
    if aftermath.counts:
        counts = sorted(aftermath.counts.items())
        shown = [f"{view} +{gained} -{lost}" for view, (gained, lost) in counts if gained + lost]
        text = "views: " + (", ".join(shown) or "no change")
        axis.set_title(textwrap.fill(text, int(size[0] * 9)), fontsize=11.5, color=INK, pad=8)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=12.5, frameon=False)
    return figure


def _page(points: Mapping[Any, tuple[float, float]]) -> tuple[float, float]:
    """The size in inches of a page that the map fills, with room for title, bar and legend."""
    xs, ys = zip(*points.values(), strict=True) if points else ((0.0,), (0.0,))
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    ratio = min(3.0, max(0.4, wide / high)) if wide and high else 1.2
    height = min(13.0, 9.5 / ratio) if ratio > 1 else 9.5
    return max(6.5, height * ratio) + 1.5, max(4.0, height) + 1.6


def _area(graph: nx.Graph) -> float:
    """The area of a node, in square points."""
    return max(18.0, min(130.0, 14_000 / max(1, len(graph))))


def _draw_links(axis: Axes, points: Mapping[Any, Any], links: Mapping[Any, str]) -> None:
    from matplotlib.collections import LineCollection

    looks = {
        "never": (FAINT, 0.8, "solid", ""),
        "up": (UP, 1.1, "solid", "link"),
        "changed": (CHANGED, 2.2, "solid", "link with another cost"),
        "recovered": (RECOVERED, 2.2, (0, (1.2, 1.2)), "link that failed and recovered"),
        "failed": (FAILED, 2.6, (0, (3, 1.6)), "failed link"),
    }
    for order, (state, (colour, width, style, label)) in enumerate(looks.items(), 1):
        lines = [(points[a], points[b]) for (a, b), found in links.items() if found == state]
        if lines:
            text = f"{label}{'' if len(lines) == 1 else 's'} ({len(lines)})" if state == "failed" else label
            axis.add_collection(LineCollection(
                lines, colors=colour, linewidths=width, linestyles=[style], zorder=order, label=text or "_"
            ))  # fmt: skip


def _draw_nodes(
    figure: Figure, axis: Axes, graph: nx.Graph, points: Mapping[Any, Any], aftermath: Aftermath
) -> dict[Any, int]:
    """Draw them; returns how many view tuples about each have changed."""
    from matplotlib.ticker import MaxNLocator

    area = _area(graph)
    affected = aftermath.affected(graph)
    untouched = [node for node in graph if node not in affected]

    def scatter(nodes: Iterable[Any], **looks: Any) -> Any:
        xs, ys = zip(*(points[node] for node in nodes), strict=True)
        return axis.scatter(xs, ys, **looks)

    if untouched:
        scatter(untouched, s=area, c="white", edgecolors=INK, linewidths=1.0, zorder=6, label="node, views unchanged")
    if affected:
        nodes = sorted(affected, key=lambda node: affected[node])  # the most affected on top
        drawn = scatter(
            nodes, s=area * 1.35, c=[affected[n] for n in nodes], cmap="YlGnBu", edgecolors=INK, linewidths=1.0,
            zorder=7, label="node whose views changed", vmin=0,
        )  # fmt: skip
        bar = figure.colorbar(drawn, ax=axis, shrink=0.7, pad=0.02, ticks=MaxNLocator(6, integer=True))
        bar.set_label("view tuples about the node, gained or lost", fontsize=13, color=INK)
        bar.ax.tick_params(labelsize=12)
    for what, colour in (("lost", FAILED), ("gained", GAINED), ("for a while", RECOVERED)):
        nodes = aftermath.marked(graph)[what]
        if nodes:
            scatter(nodes, s=area * 3.4, facecolors="none", edgecolors=colour, linewidths=2.4, zorder=8,
                    label=f"fact about the node {'lost ' if ' ' in what else ''}{what} ({len(nodes)})")  # fmt: skip
    return affected
