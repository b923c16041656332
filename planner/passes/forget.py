"""Let streams forget what no window will ever show again."""

from __future__ import annotations

from msgspec.structs import replace

from planner.draft import SHOWN, Draft
from planner.passes.stratify import inputs_of
from planner.plan import Leaving, PlanRule, SyncRule, WindowRule

__all__ = ["forget"]


def forget(draft: Draft) -> Draft:
    """Tell streams, and what synchronised reads keep of them, after which windows a tuple is of no more use.

    That is so where nothing but windows with an end reads them, through synchronised reads or not, and no `.output`
    shows them. The clock does not go back, so what has left a window has left it for good.

    >>> from planner.show import draft_of
    >>> draft = draft_of('''.decl s(x: number) stream
    ... .decl q(x: number) stream
    ... a(x) :- s(x)@t at every(2), now(n), n - 5 < t.  b(x) :- s(x)@t, now(n), n - 9 < t.  c(x) :- q(x).''', forget)
    >>> {name: len(r.until) for name, r in forget(draft).relations.items() if r.until}
    {'s': 2, 's at every(2)': 1}
    """
    readers: dict[str, list[PlanRule]] = {}
    streams = [name for name, relation in draft.relations.items() if relation.stream]
    if not streams:
        return draft
    for rule in draft.rules:
        for source in inputs_of(rule):
            readers.setdefault(source.relation, []).append(rule)
    shown = {d.relation for d in draft.program.directives if d.kind in SHOWN}
    found: dict[str, tuple[Leaving, ...]] = {}

    def until(name: str) -> tuple[Leaving, ...] | None:
        """What a tuple of a relation must have left; None if there is more that needs it."""
        leavings: list[Leaving] = []
        for rule in readers.get(name, ()):
            if isinstance(rule, WindowRule) and rule.leaves:
                leavings.append(Leaving(rule.leaves, rule.ticks))
            elif isinstance(rule, SyncRule) and (behind := until(rule.head)):
                leavings += behind
            else:
                return None
        if not leavings or name in shown:
            return None
        found[name] = tuple(dict.fromkeys(leavings))
        return found[name]

    for name in streams:
        until(name)
    relations = {
        name: replace(relation, until=found[name]) if name in found else relation
        for name, relation in draft.relations.items()
    }
    return replace(draft, relations=relations)
