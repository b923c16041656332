"""Which synchronised reads a view rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.passes.stratify import inputs_of
from planner.plan import RelationPlan, Stratum, SyncRule

__all__ = ["synchronised"]


def synchronised(strata: Iterable[Stratum], relations: Mapping[str, RelationPlan]) -> dict[str, tuple[str, ...]]:
    """For each view that rests on synchronised reads, directly or not, the relations that these are (`Plan.syncs`).

    What tells a read its points is not among what it rests on. The strata are in order, so one look at each is enough.
    """
    known: dict[str, dict[str, None]] = {}
    for stratum in strata:
        found: dict[str, None] = {}
        for rule in stratum.rules:
            if isinstance(rule, SyncRule):
                found[rule.head] = None
                found.update(known.get(rule.input.relation, {}))
            else:
                for source in inputs_of(rule):
                    found.update(known.get(source.relation, {}))
        known.update(dict.fromkeys(stratum.relations, found))
    return {name: tuple(found) for name, found in known.items() if found and relations[name].kind == "view"}
