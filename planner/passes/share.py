"""Make an auxiliary once where two rules would make the same."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from planner.draft import Draft
from planner.plan import (
    ClockRule,
    GroupRule,
    Input,
    JoinRule,
    LineageRule,
    LookupRule,
    MapRule,
    NestedRule,
    PlanRule,
    StampRule,
    SyncRule,
    WindowRule,
)

__all__ = ["share"]


def share(draft: Draft) -> Draft:
    """Merge auxiliary relations that are defined by the same rule.

    >>> from planner.show import before_and_after
    >>> before_and_after(share, "r(x) :- a(x, y), !b(y). s(y) :- a(_, y), !b(y).")
    r/1.1 :- absent a, b
    r :- a, r/1.1
    s/1.1 :- absent a, b
    s :- s/1.1
    r/1.1 :- absent a, b
    r :- a, r/1.1
    s :- r/1.1
    """
    relations = dict(draft.relations)
    heads = Counter(rule.head for rule in draft.rules)
    made: dict[tuple[PlanRule, bool], str] = {}
    same: dict[str, str] = {}
    rules: list[PlanRule] = []
    for rule in draft.rules:  # a rule comes after those that make its auxiliaries
        rule = _renamed(rule, same) if same else rule
        relation = relations[rule.head]
        if relation.kind == "auxiliary" and relation.layer is None and heads[rule.head] == 1:
            known = made.setdefault((replace(rule, id="", head="", text=""), relation.weighted), rule.head)
            if known != rule.head:
                same[rule.head] = known
                del relations[rule.head]
                continue
        rules.append(rule)
    return replace(draft, rules=tuple(rules), relations=relations) if same else draft


def _renamed(rule: PlanRule, same: dict[str, str]) -> PlanRule:
    """The rule with its inputs called by the names that are kept."""

    def new(source: Input) -> Input:
        return replace(source, relation=same.get(source.relation, source.relation))

    if isinstance(rule, (MapRule, GroupRule, StampRule, WindowRule)):
        return replace(rule, input=new(rule.input))
    if isinstance(rule, SyncRule):
        return replace(rule, input=new(rule.input), events=tuple(map(new, rule.events)))
    if isinstance(rule, ClockRule):
        return rule
    if isinstance(rule, (JoinRule, LineageRule)):
        return replace(rule, left=new(rule.left), right=new(rule.right))
    if isinstance(rule, NestedRule):
        return rule.with_inputs(new)
    assert isinstance(rule, LookupRule)
    return replace(rule, left=new(rule.left), inner=new(rule.inner))
