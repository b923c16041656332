"""Order the plan's relations: what is read comes before what reads it."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from planner.draft import Draft
from planner.plan import GroupRule, Input, JoinRule, LineageRule, LookupRule, MapRule, NestedRule, PlanRule, Stratum

__all__ = ["inputs_of", "stratify"]


def stratify(draft: Draft) -> Draft:
    """Cut the rules into strata: the strongly connected components of who reads whom, bottom up.

    A component that reads itself is a fixpoint with absorption provenance; any other is one relation, maintained by
    counting. Among components that do not read each other, the one declared first comes first.

    >>> from planner.show import before_and_after
    >>> before_and_after(stratify, "s(x) :- r(x, x). r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    s :- r
    r :- e
    r :- e, r
    1. absorption: r
    2. counting: s
    """
    graph = nx.DiGraph()
    heads = {rule.head for rule in draft.rules}
    rank = {name: i for i, name in enumerate(draft.relations)}
    graph.add_nodes_from(name for name in draft.relations if name in heads)
    for rule in draft.rules:
        graph.add_edges_from((i.relation, rule.head) for i in inputs_of(rule) if i.relation in heads)
    condensed = nx.condensation(graph)
    order = nx.lexicographical_topological_sort(
        condensed, key=lambda c: min(rank[name] for name in condensed.nodes[c]["members"])
    )
    strata: list[Stratum] = []
    for component in order:
        members = condensed.nodes[component]["members"]
        rules = tuple(rule for rule in draft.rules if rule.head in members)
        read = {i.relation for rule in rules for i in inputs_of(rule)}
        strata.append(
            Stratum(
                len(strata),
                "absorption" if read & members else "counting",
                tuple(sorted(members, key=rank.__getitem__)),
                tuple(sorted(read - members, key=rank.__getitem__)),
                rules,
            )
        )
    return replace(draft, strata=tuple(strata))


def inputs_of(rule: PlanRule) -> tuple[Input, ...]:
    """The inputs of a rule, left to right."""
    if isinstance(rule, (MapRule, GroupRule)):
        return (rule.input,)
    if isinstance(rule, (JoinRule, LineageRule)):
        return (rule.left, rule.right)
    if isinstance(rule, NestedRule):
        return (rule.outer, *(inner.input for inner in rule.inners))
    assert isinstance(rule, LookupRule)
    return (rule.left, rule.inner)
