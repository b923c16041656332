"""Words for a plan: what columns, places and expressions are called in `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from planner.passes.stratify import inputs_of
from planner.plan import BROADCAST, Input, Plan, PlanRule, RelationPlan
from planner.spelling import aggregated, conditions, expression, listed, schedule_words

__all__ = ["aggregated", "at", "by", "conditions", "expression", "listed", "names", "row_of", "schedule_words"]


def row_of(rule: PlanRule, plan: Plan) -> list[str]:
    """What the columns of a rule's row are called: the second copy of a relation gets a prime."""
    found: list[str] = []
    seen: set[str] = set()
    for source in inputs_of(rule):
        label = source.relation + ("'" if source.relation in seen else "")
        seen.add(source.relation)
        found += [f"{label}.{column}" for column in plan.relations[source.relation].columns]
    return found


def at(source: Input, plan: Plan) -> str:
    relation = plan.relations[source.relation]
    if source.at == BROADCAST:
        return f"{source.relation}[everywhere]"
    if source.at == relation.partition:
        return f"{source.relation}[home]"
    return f"{source.relation}[{by(relation, source.at)}]"


def by(relation: RelationPlan, at: Sequence[int]) -> str:
    return f"by {names(relation, at)}" if at else "on one partition"


def names(relation: RelationPlan, columns: Sequence[int]) -> str:
    return ", ".join(relation.columns[c] for c in columns)
