"""Views that read one another without saying so, in words."""

from __future__ import annotations

from planner.plan import Plan

__all__ = ["explain_sharing"]


def explain_sharing(plan: Plan) -> list[str]:
    """For each view its data and its points, which view it reads, and why it may or may not; nothing without streams.

    >>> import datalog, planner
    >>> program = datalog.check(datalog.parse('''hot(r, v) :- temp(r, v) at every(2), v > 80.
    ... hot100(r, v) :- temp(r, v) at every(4), v > 100.
    ... both(r) :- temp(r, v) at every(2), temp(r, v) at every(3).'''))
    >>> print(*explain_sharing(planner.plan(program)), sep="\\n")
    views that may be computed from one another
      hot(r, v) :- temp(r, v), v > 80.
        at every(2)
        not from hot100: v > 80 is not within v > 100
      hot100(r, v) :- temp(r, v), v > 100.
        at every(4)
        reads hot: v > 100 is within v > 80, every(4) within every(2)
        hot100(r, v) :- hot(r, v) at every(4), v > 100.
      both: partial points are needed: every(2) and every(3)
    """
    if not plan.sharing:
        return []
    return ["views that may be computed from one another", *(f"  {line}" for line in plan.sharing)]
