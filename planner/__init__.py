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
from planner.passes.push_selection import push_selection
from planner.plan import Plan, RelationPlan
from planner.sharing import Sharing
from planner.synchronised import synchronised
from planner.validate import check

__all__ = ["Plan", "explain", "plan"]


def plan(program: Program, *, select: bool = True, share: bool | Sharing = True) -> Plan:
    """Plan a checked program: each pass takes the draft of the one before (see `planner.passes`).

    Without `select`, aggregate selection is left out and every relation is kept whole. Without `share`, no view reads
    another one that its text does not name (`planner.sharing`); who has the program shared already gives that.
    """
    sharing = Sharing.of(program) if share is True else share or None
    draft = Draft.start(program if sharing is None else sharing.program)
    for step in PASSES:
        if select or step is not push_selection:
            draft = step(draft)
    return check(
        Plan(
            dict(draft.relations),
            draft.strata,
            tuple(name for name in program.outputs if _is_shown(draft.relations.get(name))),
            dict(draft.facts),
            {**program.aggregates, **draft.aggregates},
            draft.notes,
            synchronised(draft.strata, draft.relations),
            () if sharing is None else sharing.lines(),
        )
    )


def _is_shown(relation: RelationPlan | None) -> bool:
    """Whether an output can be shown: it may be pruned, and points of the clock are only there if a rule needs them."""
    return relation is not None and relation.selection is None and relation.kind != "auxiliary"
