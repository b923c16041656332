"""A picture of a network after a stream of changes: what has failed, and which part of the views is affected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import networkx as nx

from livelog.simulation.layout import positions
from livelog.simulation.plots import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Aftermath", "plot_network"]

Row = tuple[Any, ...]
Facts = Mapping[str, Iterable[Row]]

UP, FAILED, CHANGED, GAINED = "#8c8c8c", "#D55E00", "#CC79A7", "#0072B2"


@dataclass(slots=True)
class Aftermath:
    """What a stream of changes has done: the facts before and after it, and the net changes of the views.

    >>> aftermath = Aftermath({"link": [(1, 2)]}, {"link": []})
    >>> aftermath.add({"r": ([], [(1, 2)])}); aftermath.add({"r": ([(1, 3)], [])}); aftermath.add({"r": ([(1, 2)], [])})
    >>> aftermath.affected(nx.path_graph(4))
    {1: 1, 3: 1}
    """

    before: Facts = field(default_factory=dict)
    after: Facts = field(default_factory=dict)
    _net: Counter[tuple[str, Row]] = field(default_factory=Counter)

    def add(self, changed: Mapping[str, tuple[Iterable[Row], Iterable[Row]]]) -> None:
        """Work in the changes of one transaction, per view (inserted, deleted)."""
        for view, sides in changed.items():
            for rows, sign in zip(sides, (1, -1), strict=True):
                for row in rows:
                    self._net[view, _frozen(row)] += sign

    def affected(self, graph: nx.Graph) -> dict[Any, int]:
        """Per node, how many view tuples that name it were gained or lost."""
        names = {str(node): node for node in graph}
        found: Counter[Any] = Counter()
        for (_, row), net in self._net.items():
            if net:
                found.update({names[str(value)] for value in row if str(value) in names})
        return {node: found[node] for node in graph if found[node]}

    def links(self, graph: nx.Graph) -> dict[tuple[Any, Any], str]:
        """Each edge of the graph, and what became of it: "up", "failed", "changed" or "never"."""
        before, after = _rows_of_edges(graph, self.before), _rows_of_edges(graph, self.after)
        state = {}
        for edge in graph.edges:
            old, new = before.get(_key(graph, *edge), set()), after.get(_key(graph, *edge), set())
            missing = {row[:2] for row in old} - {row[:2] for row in new}
            state[edge] = "never" if not old | new else "failed" if missing else "up" if old <= new else "changed"
        return state

    def marked(self, graph: nx.Graph) -> dict[str, list[Any]]:
        """The nodes that a relation with one column has lost and gained."""
        names = {str(node): node for node in graph}
        old, new = (
            {str(row[0]) for rows in facts.values() for row in rows if len(row) == 1} & names.keys()
            for facts in (self.before, self.after)
        )
        return {"lost": [names[n] for n in sorted(old - new)], "gained": [names[n] for n in sorted(new - old)]}


def plot_network(graph: nx.Graph, aftermath: Aftermath, title: str = "") -> Figure:
    """The network, its failed links, and its nodes in the colour of how much of the views about them has changed."""
    from matplotlib.figure import Figure

    points = positions(graph)
    figure = Figure(figsize=(11, 9.5), layout="constrained")
    axis = figure.add_subplot()
    axis.set_aspect("equal")
    axis.set_axis_off()
    _draw_links(axis, points, aftermath.links(graph))
    _draw_nodes(figure, axis, graph, points, aftermath)
    if title:
        axis.set_title(title, fontsize=15, color=INK, pad=14)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=12.5, frameon=False)
    return figure


def _draw_links(axis: Axes, points: Mapping[Any, Any], links: Mapping[Any, str]) -> None:
    from matplotlib.collections import LineCollection

    looks = {
        "never": (FAINT, 0.8, "solid", ""),
        "up": (UP, 1.1, "solid", "link"),
        "changed": (CHANGED, 2.2, "solid", "link with another cost"),
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
) -> None:
    from matplotlib.ticker import MaxNLocator

    area = max(18.0, min(130.0, 14_000 / max(1, len(graph))))
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
            nodes, s=area * 1.35, c=[affected[n] for n in nodes], cmap="viridis_r", edgecolors=INK, linewidths=1.0,
            zorder=7, label="node whose views changed", vmin=0,
        )  # fmt: skip
        bar = figure.colorbar(drawn, ax=axis, shrink=0.7, pad=0.02, ticks=MaxNLocator(6, integer=True))
        bar.set_label("view tuples about the node, gained or lost", fontsize=13, color=INK)
        bar.ax.tick_params(labelsize=12)
    for what, colour in (("lost", FAILED), ("gained", GAINED)):
        nodes = aftermath.marked(graph)[what]
        if nodes:
            scatter(nodes, s=area * 3.4, facecolors="none", edgecolors=colour, linewidths=2.4, zorder=8,
                    label=f"fact about the node {what} ({len(nodes)})")  # fmt: skip


def _key(graph: nx.Graph, a: Any, b: Any) -> tuple[str, str]:
    """An edge under the same name in both directions, where direction means nothing."""
    pair = (str(a), str(b))
    return pair if graph.is_directed() or pair[0] <= pair[1] else (pair[1], pair[0])


def _rows_of_edges(graph: nx.Graph, facts: Facts) -> dict[tuple[str, str], set[Row]]:
    """The facts that tell of an edge: those whose first two values are its ends."""
    names = {str(node): node for node in graph}
    found: dict[tuple[str, str], set[Row]] = {}
    for rows in facts.values():
        for row in rows:
            if len(row) >= 2 and str(row[0]) in names and str(row[1]) in names:
                a, b = names[str(row[0])], names[str(row[1])]
                if graph.has_edge(a, b):
                    found.setdefault(_key(graph, a, b), set()).add(_frozen(row))
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
