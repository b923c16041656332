"""The names of nodes in a picture: as many as can be read, none on top of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from livelog.simulation.plots import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["name_nodes"]

Point = tuple[float, float]
POINTS = 9.0
"""The size of the letters."""
MOST = 250
"""Names at most, however large the page."""
LONGEST = 24
"""Letters of a name; a longer one is cut."""


def name_nodes(axis: Axes, size: Point, points: Mapping[Any, Point], order: Sequence[Any], above: float) -> list[Any]:
    """Write names `above` points over their nodes, the most important first, where there is room; returns whose.

    The page of `size` inches is cut into cells as high as a line. A name takes those it covers; one whose cells are
    taken is left out. O(nodes) with a few cells each.
    """
    from matplotlib.patheffects import withStroke

    if not points:
        return []
    halo = withStroke(linewidth=2.5, foreground="white")  # so that links do not cross out the letters
    xs, ys = zip(*points.values(), strict=True)
    width, height = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
    scale = 72 * min((size[0] - 2.5) / width, (size[1] - 2.0) / height)  # points of print to a unit of the map
    taken: set[tuple[int, int]] = set()
    named: list[Any] = []
    for node in order:
        if len(named) == MOST:
            break
        text = str(node) if len(str(node)) <= LONGEST else f"{str(node)[: LONGEST - 1]}…"
        x, y = (points[node][0] - min(xs)) * scale, (points[node][1] - min(ys)) * scale + POINTS
        half = 0.31 * POINTS * len(text) + 1
        row, first, last = int(y // (1.25 * POINTS)), int((x - half) // POINTS), int((x + half) // POINTS)
        cells = {(line, column) for line in (row, row + 1) for column in range(first, last + 1)}
        if cells & taken:
            continue
        taken |= {(row, column) for column in range(first, last + 1)}
        axis.annotate(text, points[node], (0, above), textcoords="offset points", ha="center", va="bottom",
                      fontsize=POINTS, color=INK, zorder=9, path_effects=[halo])  # fmt: skip
        named.append(node)
    return named
