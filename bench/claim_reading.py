"""How the checks of the paper's claims read results: what a strategy cost, and figures as a person reads them.

A strategy that passed its limit costs infinitely much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.figures import Entry, find
from livelog.simulation.text import duration, size

__all__ = ["Check", "Results", "Verdict"]
__all__ += ["annotation", "cheaper", "cost", "last", "listing", "reached", "show", "times"]

Results = Mapping[str, Sequence[Entry]]
"""Name of a result -> its rows."""

DEMAND, LAZY, EAGER = "absorption/demand", "absorption/lazy", "absorption/eager"
RELATIVE, RELATIVE_EAGER, DRED = "relative/lazy", "relative/eager", "dred"
PROVENANCE = (DEMAND, LAZY, EAGER, RELATIVE, RELATIVE_EAGER)

SECONDS, SHIPPED, STATE, ANNOTATION = "seconds", "shipped MB", "state MB/partition", "provenance B/tuple"
EACH = "shipped MB/partition"
ORDER = 10.0
"""An order of magnitude."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What we measured, and whether the paper's claim holds for it."""

    measured: str
    agrees: bool


Check = Callable[[Results], Verdict]


# --- reading results -------------------------------------------------------------------------------------------


def cost(rows: Sequence[Entry], column: str, strategy: str, **where: Any) -> float:
    """A metric of a strategy; infinite if it passed its limit there or before."""
    entry = find(rows, strategy=strategy, **where)
    value = entry[column] if entry and entry["finished"] else None
    return math.inf if value is None else float(value)


def last(rows: Sequence[Entry], phase: str, strategies: Iterable[str] = ()) -> dict[str, Any]:
    """Where a phase ends: all inserted, or the most deleted; with strategies, as far as all of them came.

    >>> rows = [{"phase": "delete", "x": x, "strategy": "dred", "finished": x < 80} for x in (20, 80)]
    >>> last(rows, "delete"), last(rows, "delete", ["dred"])
    ({'phase': 'delete', 'x': 80}, {'phase': 'delete', 'x': 20})
    """
    places = sorted({entry["x"] for entry in rows if entry["phase"] == phase})
    common = [x for x in places if all(_finished(rows, name, phase, x) for name in strategies)]
    return {"phase": phase, "x": max(common or places)}


def _finished(rows: Sequence[Entry], strategy: str, phase: str, x: Any) -> bool:
    entry = find(rows, strategy=strategy, phase=phase, x=x)
    return entry is not None and bool(entry["finished"])


def show(value: float, column: str) -> str:
    """A metric with its unit.

    >>> show(0.25, SECONDS), show(1.5, SHIPPED), show(12.34, ANNOTATION), show(math.inf, SECONDS)
    ('250 ms', '1.5 MB', '12.3 B', 'passed its limit')
    """
    if math.isinf(value):
        return "passed its limit"
    if column == SECONDS:
        return duration(value)
    return annotation(value) if column == ANNOTATION else size(value * 1e6)


def annotation(value: float) -> str:
    """Bytes of provenance of a tuple.

    >>> annotation(12.34), annotation(1812.4)
    ('12.3 B', '1,812 B')
    """
    return f"{value:,.0f} B" if value >= 100 else f"{value:.3g} B"


def listing(rows: Sequence[Entry], columns: Iterable[str], strategies: Iterable[str], **where: Any) -> str:
    """What some strategies cost, for a person: "dred 7.2 s, 8.1 MB; absorption/lazy passed its limit"."""
    parts = []
    for name in strategies:
        values = [show(cost(rows, column, name, **where), column) for column in columns]
        parts.append(f"{name} {', '.join(dict.fromkeys(values))}")
    return "; ".join(parts)


def reached(entry: Entry) -> str:
    how = "finished after" if entry["finished"] else f"stopped by its limit of {entry['stopped by']} after"
    return f"{how} {duration(entry['seconds'])}"


def times(one: float, other: float) -> str:
    """A quotient for a person.

    >>> times(3.0, 2.0), times(250.0, 2.0), times(math.inf, 1.0), times(1.0, 0.0)
    ('1.5x', '125x', 'more than can be said', 'more than can be said')
    """
    if math.isinf(one) or math.isinf(other) or not other:
        return "more than can be said"
    return f"{one / other:.0f}x" if one >= 10 * other else f"{one / other:.2g}x"


def cheaper(rows: Sequence[Entry], columns: Iterable[str], one: str, other: str, **where: Any) -> bool:
    """Whether a strategy costs less than another by all of these metrics."""
    return all(cost(rows, column, one, **where) < cost(rows, column, other, **where) for column in columns)
