"""Order the plan's relations: what is read comes before what reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from datalog.dependencies import components
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
    Stratum,
    SyncRule,
    WindowRule,
)

__all__ = ["inputs_of", "stratify"]


def stratify(draft: Draft) -> Draft:
    """Cut the rules into strata: the strongly connected components of who reads whom, bottom up.

    A component that reads itself is a fixpoint with absorption provenance; any other is one relation, maintained by
    counting, or kept from one point to the next. Among components that do not read each other, the one declared first
    comes first.

    >>> from planner.show import before_and_after
    >>> before_and_after(stratify, "s(x) :- r(x, x). r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    s :- r
    r :- e
    r :- e, r
    1. absorption: r
    2. counting: s
    """
    rank = {name: i for i, name in enumerate(draft.relations)}
    made: dict[str, list[int]] = {}
    reads: dict[str, dict[str, None]] = {}
    for i, rule in enumerate(draft.rules):
        made.setdefault(rule.head, []).append(i)
        read_by = reads.setdefault(rule.head, {})
        for source in inputs_of(rule):
            read_by[source.relation] = None
    strata: list[Stratum] = []
    for members in _ordered(reads, rank):
        numbers = made[members[0]] if len(members) == 1 else sorted([i for name in members for i in made[name]])
        read = {source for name in members for source in reads[name]}
        recursive = not read.isdisjoint(members)
        outside = read.difference(members) if recursive else read
        strata.append(
            Stratum(
                len(strata),
                "absorption" if recursive else "kept" if _is_kept(draft.rules[numbers[0]]) else "counting",
                members,
                tuple(sorted(outside, key=rank.__getitem__)),
                tuple([draft.rules[i] for i in numbers]),
            )
        )
    return replace(draft, strata=tuple(strata))


def _is_kept(rule: PlanRule) -> bool:
    return isinstance(rule, (SyncRule, StampRule))


def _ordered(reads: Mapping[str, Iterable[str]], rank: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """The strongly connected components of who reads whom, each after those that it reads, and by rank.

    >>> rank = {"e": 0, "d": 1, "c": 2, "a": 3, "b": 4}
    >>> list(_ordered({"b": ["a", "e"], "a": ["b"], "c": ["e"], "d": ["c", "b"]}, rank))
    [('c',), ('a', 'b'), ('d',)]
    """
    component = components({head: [name for name in read if name in reads] for head, read in reads.items()})
    members: dict[int, list[str]] = {}
    for name in sorted(component, key=rank.__getitem__):
        members.setdefault(component[name], []).append(name)
    readers: dict[int, list[int]] = {number: [] for number in members}
    missing = dict.fromkeys(members, 0)
    for head, read in reads.items():
        own = component[head]
        for number in [component[name] for name in read if name in component]:
            if number != own:
                readers[number].append(own)
                missing[own] += 1
    ready = [(rank[members[number][0]], number) for number, count in missing.items() if not count]
    heapify(ready)
    while ready:
        _, number = heappop(ready)
        yield tuple(members[number])
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, (rank[members[reader][0]], reader))


def inputs_of(rule: PlanRule) -> tuple[Input, ...]:
    """The inputs of a rule, left to right."""
    if isinstance(rule, (MapRule, GroupRule, StampRule, WindowRule)):
        return (rule.input,)
    if isinstance(rule, SyncRule):
        return (rule.input, *rule.events)
    if isinstance(rule, ClockRule):
        return ()
    if isinstance(rule, (JoinRule, LineageRule)):
        return (rule.left, rule.right)
    if isinstance(rule, NestedRule):
        return (rule.outer, *(inner.input for inner in rule.inners))
    assert isinstance(rule, LookupRule)
    return (rule.left, rule.inner)
