"""Read a minimum or maximum off the winners that a relation keeps anyway."""

from __future__ import annotations

from msgspec.structs import replace

from operators.expr import Col
from planner.draft import Draft
from planner.plan import GroupRule, MapRule, PlanRule

__all__ = ["read_winners"]


def read_winners(draft: Draft) -> Draft:
    """Turn a group-by into a projection where aggregate selection has done its work already.

    A relation that is pruned by one value shows its readers nothing but the best of each group. So the minimum is
    the value of any of them, and there is nothing left to aggregate. With several values a winner of one may be
    no winner of the other, and the group-by stays.

    >>> import datalog, planner
    >>> def kinds(text):
    ...     plan = planner.plan(datalog.check(datalog.parse(text)))
    ...     return [type(rule).__name__ for stratum in plan.strata[1:] for rule in stratum.rules]
    >>> path = '''path(x, y, c) :- link(x, y, c). path(x, y, c + d) :- link(x, z, c), path(z, y, d).
    ...           least(x, y, min<c>) :- path(x, y, c).'''
    >>> kinds(path + ".output path"), kinds(path)
    (['GroupRule'], ['MapRule'])
    """
    return replace(draft, rules=tuple(_read(draft, rule) for rule in draft.rules))


def _read(draft: Draft, rule: PlanRule) -> PlanRule:
    if not isinstance(rule, GroupRule):
        return rule
    selection = draft.relations[rule.input.relation].selection
    if selection is None or len(selection.values) != 1:
        return rule
    ((column, function),) = selection.values
    if set(rule.group) != {Col(c) for c in selection.group} or set(rule.aggregates) != {(function, Col(column))}:
        return rule
    entries = (*rule.group, *[argument for _, argument in rule.aggregates if argument is not None])
    outputs = tuple(entries[i] for i in rule.layout)
    return MapRule(rule.id, rule.head, rule.input, rule.where, outputs, rule.text)
