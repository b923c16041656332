"""Validity: how long a view is known to stay as it is."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf
from typing import NamedTuple

from livelog.runtime.runtime import Runtime
from livelog.runtime.steps import time_of
from planner.passes.stratify import inputs_of
from planner.plan import ClockRule, Plan, PlanRule, SyncRule, WindowRule

__all__ = ["Validity", "validity"]


class Validity(NamedTuple):
    """How long a view is known to stay as it is, whatever facts come.

    `through`: it is as it is now at all times from now up to this one. `next`: when it is refreshed next, as far as
    that is known.

    A view that reads everything `at` points that are known ahead, as those of `every(2)`, is valid through the last
    whole tick before the next of these points, and that is its `next`. (It is valid longer, at all times before that
    point; where there is no whole tick in between, `through` is the clock.) When these points have come to an end, it
    is valid for ever: `through` is infinite, and there is no next.

    Where points are events, a fact may come at any time that makes one. Where the view reads something as it is, and
    not `at` points, or a window over `now`, any fact and any tick may change it. `through` is the clock then. `next` is
    the next point that is known nevertheless, for a view that is synchronised with it too, or None.

    While the clock stands at a point, every commit is a refresh: `through` tells of later times, not of later commits.
    """

    through: int | float
    next: int | float | None


def validity(plan: Plan, runtime: Runtime, relation: str) -> Validity:
    """How long a relation of a plan is valid. O(rules below it)"""
    clock = runtime.clock
    reads = list(_reads(plan, relation))
    syncs = [rule for rule in reads if isinstance(rule, SyncRule)]
    due = runtime.next_due([rule.head for rule in syncs]) if syncs else None
    following = None if due is None else time_of(due)
    if not syncs or len(syncs) < len(reads) or any(rule.events for rule in syncs):
        return Validity(time_of(clock), following)
    if due is None:  # or the next one is too far away to be found
        return Validity(inf if all(rule.ticks.is_over(clock) for rule in syncs) else time_of(clock), None)
    return Validity(time_of(max(clock, float(ceil(due) - 1))), following)


def _reads(plan: Plan, relation: str) -> Iterator[SyncRule | None]:
    """What a relation rests on: the regulated reads that are met first on the way down, and None for anything else."""
    rules: dict[str, list[PlanRule]] = {}
    for stratum in plan.strata:
        for rule in stratum.rules:
            rules.setdefault(rule.head, []).append(rule)
    seen = {relation}
    waiting = [relation]
    while waiting:
        name = waiting.pop()
        if name not in rules and "#" not in name:  # facts that the text adds to a view stay as they are
            yield None
        for rule in rules.get(name, ()):
            if isinstance(rule, SyncRule):
                yield rule
            elif isinstance(rule, (ClockRule, WindowRule)):
                yield None
            else:
                below = {source.relation for source in inputs_of(rule)} - seen
                seen |= below
                waiting += sorted(below)
