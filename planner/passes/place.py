"""Decide where every rule meets its inputs, and where auxiliary relations live."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec.structs import replace

from operators.expr import Col, Expr
from planner.draft import UNIT, Draft
from planner.nest import spread
from planner.passes.stratify import inputs_of
from planner.plan import (
    BROADCAST,
    ClockRule,
    GroupRule,
    Input,
    JoinRule,
    LineageRule,
    LookupRule,
    MapRule,
    NestedRule,
    Placement,
    PlanRule,
    RelationPlan,
    StampRule,
    Stratum,
    SyncRule,
    WindowRule,
)

__all__ = ["place"]


def place(draft: Draft, below: tuple[Stratum, ...] = ()) -> Draft:
    """Fill in `Input.at`, the partition columns of auxiliaries and the probed side of joins. `below` are strata that
    are placed already.

    The rule of thumb is to ship nothing that is already at home. Both sides of a join must be hashed on
    corresponding key columns. Preferred are columns on which both sides are at home, then the side that is in the
    recursion (its tuples are many and come again and again), then either, else the first key column. A side
    of a single tuple goes to every partition, and the other stays where it is. So does the smaller side of a
    product, where there is no key.

    Rules are placed from the head of each program rule down to its atoms: an auxiliary lives where the rule that
    reads it wants it, or, if that one does not mind, where it is made.

    >>> from planner.show import before_and_after
    >>> before_and_after(place, "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    r :- e
    r :- e, r
    r :- e[home]
    r :- e[by y], r[home], probe e
    """
    work = _Placer(draft, below)
    for rule in reversed(draft.rules):
        work.place(rule)
    placed = {rule.id: work.at_home(rule) for rule in work.placed.values()}
    strata = tuple([
        Stratum(s.index, s.method, s.relations, s.inputs, tuple([placed[rule.id] for rule in s.rules]))
        for s in draft.strata
    ])
    rules = tuple([placed[rule.id] for rule in draft.rules])
    return replace(draft, rules=rules, strata=strata, relations=work.relations)


HOME: Placement = (-1,)
"""At home, wherever that will be: stands for the partition columns of a relation that are still open."""


class _Placer:
    """`relations` gets the partition columns of auxiliaries as they are settled; `open` are those that are not.

    `small` are the relations of a few tuples at most: totals, and the answers to lookups without a key.
    """

    def __init__(self, draft: Draft, below: tuple[Stratum, ...] = ()) -> None:
        self.relations: dict[str, RelationPlan] = dict(draft.relations)
        self.sizes = draft.sizes
        made = {name for name, r in draft.relations.items() if r.kind == "auxiliary" and r.layer is None}
        self.open = made - draft.hidden - draft.clocks.keys() - draft.windows.keys()
        self.lookups = {rule.head: rule for rule in draft.rules if isinstance(rule, (LookupRule, NestedRule))}
        self.groups = {rule.head for rule in draft.rules if isinstance(rule, (GroupRule, LineageRule))}
        self.placed: dict[str, PlanRule] = {}
        self.component = {name: s.index for s in draft.strata if s.method == "absorption" for name in s.relations}
        self.small = {UNIT}
        for stratum in (*below, *draft.strata):
            if stratum.method == "counting" and all(self._is_small(rule) for rule in stratum.rules):
                self.small.update(stratum.relations)

    def _is_small(self, rule: PlanRule) -> bool:
        if isinstance(rule, (GroupRule, LineageRule)) and not rule.group:
            return True
        if isinstance(rule, LookupRule):
            return not rule.left.key
        if isinstance(rule, NestedRule):
            return not rule.group
        if isinstance(rule, ClockRule):
            return rule.what != "all"
        return all(source.relation in self.small for source in inputs_of(rule))

    # --- relations

    def recursive(self, name: str, head: str) -> bool:
        return name in self.component and self.component[name] == self.component.get(head)

    def settle(self, name: str, partition: tuple[int, ...]) -> None:
        """An auxiliary that is still open lives where its first reader wants it."""
        if name in self.open:
            self.open.remove(name)
            self.relations[name] = replace(self.relations[name], partition=partition)

    def home(self, name: str) -> tuple[int, ...]:
        return self.relations[name].partition

    def settled(self, name: str) -> tuple[int, ...] | None:
        """The partition columns of a relation; None if they are open."""
        return None if name in self.open else self.relations[name].partition

    def keeps_together(self, side: Input) -> tuple[int, ...] | None:
        """The positions in the key of a side's partition columns, if they are settled and all in the key."""
        return _keeping(side.key, self.settled(side.relation))

    # --- rules

    def place(self, rule: PlanRule) -> None:
        """Place a rule, after those that make the answers it reads: answers live where they are made."""
        waiting = [rule]
        if not self.lookups:
            self.place_one(waiting.pop())
        while waiting:
            rule = waiting[-1]
            made = [self.lookups[s.relation] for s in inputs_of(rule) if s.relation in self.lookups]
            first = [other for other in made if other.id not in self.placed]
            if rule.id not in self.placed and not first:
                self.place_one(rule)
            if first and rule.id not in self.placed:
                waiting += reversed(first)
            else:
                waiting.pop()

    def place_one(self, rule: PlanRule) -> None:
        if isinstance(rule, MapRule):
            self.placed[rule.id] = self.map(rule)
        elif isinstance(rule, GroupRule):
            self.placed[rule.id] = replace(rule, input=self.group(rule))
        elif isinstance(rule, JoinRule):
            self.placed[rule.id] = self.join(rule)
        elif isinstance(rule, LineageRule):
            self.placed[rule.id] = self.lineage(rule)
        elif isinstance(rule, NestedRule):
            self.placed[rule.id] = self.nested(rule)
        elif isinstance(rule, (SyncRule, StampRule, WindowRule)):
            self.placed[rule.id] = self.alone(rule)
        elif isinstance(rule, ClockRule):
            self.placed[rule.id] = rule
        else:
            self.placed[rule.id] = self.lookup(rule)

    def at_home(self, rule: PlanRule) -> PlanRule:
        """The placed rule with `HOME` written out."""

        def written(source: Input) -> Input:
            return replace(source, at=self.home(source.relation)) if source.at == HOME else source

        if isinstance(rule, MapRule) and rule.input.at == HOME:
            return replace(rule, input=written(rule.input))
        if isinstance(rule, (JoinRule, LineageRule)) and HOME in (rule.left.at, rule.right.at):
            return replace(rule, left=written(rule.left), right=written(rule.right))
        return rule

    def map(self, rule: MapRule) -> MapRule:
        """One tuple at a time, at home. An auxiliary's home is best where the head's will be."""
        name = rule.input.relation
        if rule.head in self.open:
            self.made(rule.head, rule.outputs, [self.home(name)] if name not in self.open else [])
        wanted = _columns([rule.outputs[c] for c in self.home(rule.head)])
        if wanted is not None and name not in self.groups:
            self.settle(name, wanted)
        source = Input(name, HOME if name in self.open else self.home(name), rule.input.key)
        return MapRule(rule.id, rule.head, source, rule.where, rule.outputs, rule.text)

    def alone(self, rule: SyncRule | StampRule | WindowRule) -> PlanRule:
        """What has the tuples of one relation lives where that does."""
        home = self.home(rule.input.relation)
        self.relations[rule.head] = replace(self.relations[rule.head], partition=home)
        return replace(rule, input=replace(rule.input, at=home))

    def group(self, rule: GroupRule) -> Input:
        """A group meets on one partition: hashed by group columns, best by those that place the head too."""
        name = rule.input.relation
        self.settle_groups(rule)
        entries = [rule.group[k] for c in self.home(rule.head) if (k := rule.layout[c]) < len(rule.group)]
        plain = [e.index for e in rule.group if isinstance(e, Col)]
        at = _columns(entries) or tuple(plain[:1])
        if name not in self.open and self.home(name) and set(self.home(name)) <= set(plain):
            at = self.home(name)
        self.settle(name, at)
        return replace(rule.input, at=at)

    def settle_groups(self, rule: GroupRule | LineageRule) -> None:
        """Groups whose home is open live where their first column says."""
        first = [i for i, k in enumerate(rule.layout) if k < len(rule.group)][:1]
        self.settle(rule.head, tuple(first))

    def lineage(self, rule: LineageRule) -> LineageRule:
        """Partial sums meet where the sides of a join would; what they contribute goes to the groups."""
        self.settle_groups(rule)
        entries = (*rule.group, *[None] * len(rule.aggregates))
        left_at, right_at = self.sides(rule, [entries[k] for k in rule.layout])
        return replace(rule, left=replace(rule.left, at=left_at), right=replace(rule.right, at=right_at))

    def join(self, rule: JoinRule) -> JoinRule:
        left, right = rule.left, rule.right
        left_at, right_at = self.sides(rule, rule.outputs)
        if rule.head in self.open:
            width = self.relations[left.relation].arity
            places = [at for at in (left_at, _shifted(right_at, width)) if at not in (BROADCAST, HOME)]
            self.made(rule.head, rule.outputs, places)
        left, right = Input(left.relation, left_at, left.key), Input(right.relation, right_at, right.key)
        return JoinRule(rule.id, rule.head, left, right, rule.where, rule.outputs, self.probe(rule), rule.text)

    def sides(self, rule: JoinRule | LineageRule, head: Sequence[Expr | None]) -> tuple[Placement, Placement]:
        """Where a join meets its two sides; `head` has what the head's columns are, as far as a row tells them."""
        left, right = rule.left, rule.right
        small = [side.relation in self.small for side in (left, right)]
        if not left.key:
            return self.product(rule, head, 0 if self.weight(left, rule.head) > self.weight(right, rule.head) else 1)
        chosen, at_home = self.columns(left, right, 1 if self.recursive(right.relation, rule.head) else 0)
        if not at_home and small[0] != small[1]:
            return self.product(rule, head, 0 if small[0] else 1)
        left_at, right_at = tuple([left.key[i] for i in chosen]), tuple([right.key[i] for i in chosen])
        self.settle(left.relation, left_at)
        self.settle(right.relation, right_at)
        return left_at, right_at

    def columns(self, left: Input, right: Input, preferred: int) -> tuple[tuple[int, ...], bool]:
        """Positions in the key on which both sides are hashed, and whether both are then at home.

        `preferred` is the side to keep at home if only one can be.
        """
        return _meeting((left.key, right.key), (self.settled(left.relation), self.settled(right.relation)), preferred)

    def weight(self, side: Input, head: str) -> tuple[bool, bool, int]:
        """What speaks for a side of a product to be the one that is shipped: few tuples, and not the recursion's."""
        name = side.relation
        return name in self.small, not self.recursive(name, head), self.sizes.get(name, 1)

    def product(
        self, rule: JoinRule | LineageRule, head: Sequence[Expr | None], shipped: int
    ) -> tuple[Placement, Placement]:
        """One side goes to every partition, the other stays: at the head's home, if that is one of its columns."""
        stays = rule.right if shipped == 0 else rule.left
        offset = self.relations[rule.left.relation].arity if shipped == 0 else 0
        if rule.head not in self.open and stays.relation in self.open:
            wanted = _columns([head[c] for c in self.home(rule.head)])
            if wanted and all(0 <= c - offset < self.relations[stays.relation].arity for c in wanted):
                self.settle(stays.relation, tuple(c - offset for c in wanted))
        at = HOME if stays.relation in self.open else self.home(stays.relation)
        return (BROADCAST, at) if shipped == 0 else (at, BROADCAST)

    def made(self, head: str, outputs: Sequence[Expr], places: Sequence[Placement]) -> None:
        """Let an open auxiliary live where it is made, if its columns tell where that is."""
        for place in places:
            if all(Col(c) in outputs for c in place if isinstance(c, int)):
                self.settle(head, tuple(outputs.index(Col(c)) for c in place if isinstance(c, int)))
        self.settle(head, (0,) if outputs else ())

    def probe(self, rule: JoinRule) -> Literal["left", "right"]:
        """The side outside the recursion, else the one of which the head fixes more columns."""
        inside = [self.recursive(s.relation, rule.head) for s in (rule.left, rule.right)]
        if inside[0] != inside[1]:
            return "left" if inside[1] else "right"
        arity = self.relations[rule.left.relation].arity
        fixed = {e.index for e in rule.outputs if isinstance(e, Col)}
        right = [i for i in fixed if i >= arity]
        return "right" if 2 * len(right) > len(fixed) else "left"

    def lookup(self, rule: LookupRule) -> LookupRule:
        """Each key asks on one partition; the inner rows are there too, or everywhere."""
        left, inner = rule.left, rule.inner
        left_at: tuple[int, ...]
        inner_at: Placement
        if inner.key:
            chosen, _ = self.columns(replace(left, key=left.key[: len(inner.key)]), inner, 0)
            inner_at = tuple(inner.key[i] for i in chosen)
        elif left.key:
            chosen, inner_at = self.keeps_together(left) or (0,), BROADCAST
        else:
            chosen, inner_at = (), ()
        left_at = tuple(left.key[i] for i in chosen)
        self.settle(left.relation, left_at)
        if inner_at != BROADCAST:
            self.settle(inner.relation, inner_at)
        self.settle(rule.head, chosen)
        return replace(rule, left=replace(left, at=left_at), inner=replace(inner, at=inner_at))

    def nested(self, rule: NestedRule) -> NestedRule:
        """Rows meet by columns of the equality that place the head, else on one partition; scalars are everywhere."""
        inner_of = spread(rule)
        if rule.head in self.open:
            shown = [c for c, k in enumerate(rule.layout) if k < len(rule.group) and rule.group[k] in inner_of]
            self.settle(rule.head, tuple(shown[:1]))
        entries = [rule.group[rule.layout[c]] for c in self.home(rule.head)]
        at = tuple(e.index for e in entries if isinstance(e, Col))
        self.settle(rule.outer.relation, at)
        inner = rule.inner
        if inner is not None:
            inner_at = tuple(inner_of[e] for e in entries)
            self.settle(inner.input.relation, inner_at)
            inner = replace(inner, input=replace(inner.input, at=inner_at))
        everywhere: Placement = BROADCAST if at else ()
        for other in () if at else rule.inners:
            self.settle(other.input.relation, ())
        placed = rule.with_inputs(lambda source: replace(source, at=everywhere))
        return replace(placed, outer=replace(rule.outer, at=at), inner=inner)


def _keeping(key: tuple[int, ...], home: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The positions in a key of the partition columns, if they are settled and all in the key."""
    if not home or not set(home) <= set(key):
        return None
    return tuple([key.index(c) for c in home])


@lru_cache(maxsize=1024)
def _meeting(
    keys: tuple[tuple[int, ...], tuple[int, ...]],
    homes: tuple[tuple[int, ...] | None, tuple[int, ...] | None],
    preferred: int,
) -> tuple[tuple[int, ...], bool]:
    """What `_Placer.columns` says of two sides with these keys and partition columns (None if they are open)."""
    sides = list(zip(keys, homes, strict=True))
    options = {i: chosen for i, side in enumerate(sides) if (chosen := _keeping(*side)) is not None}
    for chosen in options.values():
        if all(home is None or tuple([key[i] for i in chosen]) == home for key, home in sides):
            return chosen, True
    return next((options[i] for i in (preferred, 1 - preferred) if i in options), (0,)), homes == (None, None)


def _columns(expressions: Sequence[Expr | None]) -> tuple[int, ...] | None:
    """The columns that the expressions are, if all of them are plain columns."""
    found = tuple(e.index for e in expressions if isinstance(e, Col))
    return found if len(found) == len(expressions) else None


def _shifted(at: Placement, by: int) -> Placement:
    return at if at in (BROADCAST, HOME) else tuple(c + by for c in at if isinstance(c, int))
