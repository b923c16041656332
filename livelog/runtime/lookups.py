"""From a LookupRule of the plan to a Lookup operator."""

from __future__ import annotations

from operators.kernels import condition, row_function
from operators.lookup import Lookup
from operators.monoids import factory
from planner.plan import LookupRule, Plan

__all__ = ["build_lookup"]


def build_lookup(rule: LookupRule, plan: Plan) -> Lookup:
    """The operator that answers a rule's questions on one partition."""
    width = len(rule.left.key)
    absent = rule.function == "absent"
    return Lookup(
        rule.text,
        rule.inner.key,
        condition(rule.where, width),
        None if absent else factory(rule.function, plan.aggregates, plan.relations[rule.head].types[-1]),
        None if rule.value is None else row_function((rule.value,)),
        0 if rule.function in ("sum", "count") else None,
    )
