"""The sizes of what one partition keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from livelog.runtime.component import Component
from livelog.runtime.counting import Counting
from livelog.runtime.regulated import Kept
from operators.base import BaseTable

__all__ = ["measure"]

_size = msgspec.msgpack.Encoder().encode


def measure(base: Mapping[str, BaseTable], strata: Iterable[Component | Counting | Kept]) -> dict[str, int]:
    """Measure one partition, by the names of the fields of `livelog.stats.PartitionStats`. O(its state)."""
    fields = ("tuples", "state_bytes", "annotated", "provenance_bytes", "variables", "bdd_levels", "bdd_nodes")
    totals = dict.fromkeys((*fields, "ignored_inserts", "ignored_deletes"), 0)
    for table in base.values():
        totals["tuples"] += len(table.rows)
        totals["state_bytes"] += sum(len(_size(t)) for t in table.rows)
        totals["ignored_inserts"] += table.ignored_inserts
        totals["ignored_deletes"] += table.ignored_deletes
    for stratum in strata:
        counts = stratum.stats()
        totals["tuples"] += counts["tuples"]
        if isinstance(stratum, Component):
            _measure_component(stratum, totals)
            totals["variables"] += counts["variables"]
            totals["bdd_levels"] += counts["levels"]
            totals["bdd_nodes"] += counts["nodes"]
        else:
            totals["state_bytes"] += stratum.state_bytes(lambda value: len(_size(value)))
    return totals


def _measure_component(component: Component, totals: dict[str, Any]) -> None:
    for t, kept in component.kept():
        provenance = sum(component.size(annotation) for annotation in kept)
        totals["annotated"] += bool(kept)
        totals["provenance_bytes"] += provenance
        totals["state_bytes"] += provenance + len(_size(t))
