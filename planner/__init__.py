"""From a checked program to a plan that every partition runs.

>>> import datalog
>>> plan_of_reach = plan(datalog.check(datalog.parse('''
...     reachable(x, y) :- link(x, y).
...     reachable(x, y) :- link(x, z), reachable(z, y).
... ''')))
>>> [(s.method, s.relations) for s in plan_of_reach.strata]
[('absorption', ('reachable',))]
"""

from __future__ import annotations

from datalog.ast import Program
from planner.draft import Draft
from planner.explain import explain
from planner.passes import PASSES
from planner.plan import Plan
from planner.validate import check

__all__ = ["Plan", "explain", "plan"]


def plan(program: Program) -> Plan:
    """Plan a checked program: each pass takes the draft of the one before (see `planner.passes`)."""
    draft = Draft.start(program)
    for step in PASSES:
        draft = step(draft)
    return check(
        Plan(
            dict(draft.relations),
            draft.strata,
            program.outputs,
            dict(draft.facts),
            {**program.aggregates, **draft.aggregates},
            draft.notes,
        )
    )
