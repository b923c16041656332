"""Decide where every rule meets its inputs, and where auxiliary relations live."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from operators.expr import Col, Expr
from planner.draft import Draft
from planner.passes.stratify import inputs_of
from planner.plan import BROADCAST, GroupRule, Input, JoinRule, LookupRule, MapRule, Placement, PlanRule, RelationPlan

__all__ = ["place"]


def place(draft: Draft) -> Draft:
    """Fill in `Input.at`, the partition columns of auxiliaries and the probed side of joins.

    The rule of thumb is to ship nothing that is already at home. Both sides of a join must be hashed on
    corresponding key columns. Preferred are columns on which both sides are at home, then the side that is in the
    recursion (its tuples are many and come again and again), then either, else the first key column. The
    auxiliaries live where the rule that reads them wants them, so the rules are placed from the head of each
    program rule down to its atoms. An empty key is a product: the smaller side goes to every partition.

    >>> from planner.show import before_and_after
    >>> before_and_after(place, "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    r :- e
    r :- e, r
    r :- e[home]
    r :- e[by y], r[home], probe e
    """
    work = _Placer(draft)
    placed = {id(rule): work.rule(rule) for rule in reversed(draft.rules)}
    rules = tuple(placed[id(rule)] for rule in draft.rules)
    by_id = {rule.id: rule for rule in rules}
    strata = tuple(replace(s, rules=tuple(by_id[rule.id] for rule in s.rules)) for s in draft.strata)
    return replace(draft, rules=rules, strata=strata, relations=work.relations)


class _Placer:
    """`relations` gets the partition columns of auxiliaries as they are settled; `open` are those that are not."""

    def __init__(self, draft: Draft) -> None:
        self.relations: dict[str, RelationPlan] = dict(draft.relations)
        self.sizes = draft.sizes
        self.open = {name for name, r in draft.relations.items() if r.kind == "auxiliary"}
        self.lookups = {rule.head: rule for rule in draft.rules if isinstance(rule, LookupRule)}
        self.done: dict[str, LookupRule] = {}
        self.component = {
            name: s.index for s in draft.strata if s.method == "absorption" for name in s.relations
        }

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

    # --- rules

    def rule(self, rule: PlanRule) -> PlanRule:
        if isinstance(rule, LookupRule):
            return self.lookup(rule)
        for source in inputs_of(rule):
            if source.relation in self.lookups:  # answers live where they are made
                self.lookup(self.lookups[source.relation])
        if isinstance(rule, MapRule):
            return replace(rule, input=self.map(rule))
        if isinstance(rule, GroupRule):
            return replace(rule, input=self.group(rule))
        return self.join(rule)

    def map(self, rule: MapRule) -> Input:
        """One tuple at a time, at home. An auxiliary's home is best where the head's will be."""
        name = rule.input.relation
        wanted = [rule.outputs[c] for c in self.home(rule.head)]
        first = (0,) if self.relations[name].arity else ()
        self.settle(name, tuple(e.index for e in wanted if isinstance(e, Col)) if _all_columns(wanted) else first)
        return replace(rule.input, at=self.home(name))

    def group(self, rule: GroupRule) -> Input:
        """A group meets on one partition: hashed by group columns, best by those that place the head too."""
        name = rule.input.relation
        if not rule.group:
            self.settle(name, ())
            return replace(rule.input, at=())
        entries = [rule.group[k] for c in self.home(rule.head) if (k := rule.layout[c]) < len(rule.group)]
        plain = [e.index for e in rule.group if isinstance(e, Col)]
        if entries and _all_columns(entries):
            at = tuple(e.index for e in entries if isinstance(e, Col))
        else:
            at = tuple(plain[:1])
        if name not in self.open and self.home(name) and set(self.home(name)) <= set(plain):
            at = self.home(name)
        self.settle(name, at)
        return replace(rule.input, at=at)

    def join(self, rule: JoinRule) -> JoinRule:
        left, right = rule.left, rule.right
        if not left.key:
            left_at, right_at = self.product(rule)
        else:
            chosen = self.columns(left, right, 1 if self.recursive(right.relation, rule.head) else 0)
            left_at, right_at = tuple(left.key[i] for i in chosen), tuple(right.key[i] for i in chosen)
            self.settle(left.relation, left_at)
            self.settle(right.relation, right_at)
        placed = replace(rule, left=replace(left, at=left_at), right=replace(right, at=right_at))
        return replace(placed, probe=self.probe(placed))

    def columns(self, left: Input, right: Input, preferred: int) -> tuple[int, ...]:
        """Positions in the key on which both sides are hashed; `preferred` is the side to keep at home."""
        sides = [left, right]
        options: dict[int, tuple[int, ...]] = {}
        for i, side in enumerate(sides):
            at_home = self.home(side.relation)
            if side.relation not in self.open and at_home and set(at_home) <= set(side.key):
                options[i] = tuple(side.key.index(c) for c in at_home)
        for chosen in options.values():
            if all(s.relation in self.open or tuple(s.key[i] for i in chosen) == self.home(s.relation) for s in sides):
                return chosen
        return next((options[i] for i in (preferred, 1 - preferred) if i in options), (0,))

    def product(self, rule: JoinRule) -> tuple[Placement, Placement]:
        """Broadcast a lookup's answer, else what is not in the recursion, else the side made of more conditions."""

        def weight(source: Input) -> tuple[bool, bool, int]:
            name = source.relation
            return name in self.lookups, not self.recursive(name, rule.head), self.sizes.get(name, 1)

        shipped, stays = (rule.left, rule.right) if weight(rule.left) > weight(rule.right) else (rule.right, rule.left)
        outputs = [rule.outputs[c] for c in self.home(rule.head)]
        offset = 0 if stays is rule.left else self.relations[rule.left.relation].arity
        arity = self.relations[stays.relation].arity
        kept = [e.index - offset for e in outputs if isinstance(e, Col) and offset <= e.index < offset + arity]
        default = (0,) if arity else ()
        self.settle(stays.relation, tuple(kept) if kept and len(kept) == len(outputs) else default)
        self.settle(shipped.relation, (0,) if self.relations[shipped.relation].arity else ())
        stay_at: Placement = self.home(stays.relation)
        return (stay_at, BROADCAST) if stays is rule.left else (BROADCAST, stay_at)

    def probe(self, rule: JoinRule) -> Literal["left", "right"]:
        """The side outside the recursion, else the one of which the head fixes more columns."""
        inside = [self.recursive(s.relation, rule.head) for s in (rule.left, rule.right)]
        if inside[0] != inside[1]:
            return "left" if inside[1] else "right"
        arity = self.relations[rule.left.relation].arity
        fixed = {e.index for e in rule.outputs if isinstance(e, Col)}
        right = sum(1 for i in fixed if i >= arity)
        return "right" if right > len(fixed) - right else "left"

    def lookup(self, rule: LookupRule) -> LookupRule:
        """Each key asks on one partition; the inner rows are there too, or everywhere."""
        if rule.head in self.done:
            return self.done[rule.head]
        for source in inputs_of(rule):
            if source.relation in self.lookups:
                self.lookup(self.lookups[source.relation])
        left, inner = rule.left, rule.inner
        inner_at: Placement
        if inner.key:
            chosen = self.columns(replace(left, key=left.key[: len(inner.key)]), inner, 0)
            inner_at = tuple(inner.key[i] for i in chosen)
        elif left.key:
            at_home = self.home(left.relation)
            known = left.relation not in self.open and bool(at_home) and set(at_home) <= set(left.key)
            chosen = tuple(left.key.index(c) for c in at_home) if known else (0,)
            inner_at = BROADCAST
        else:
            chosen, inner_at = (), ()
        left_at = tuple(left.key[i] for i in chosen)
        self.settle(left.relation, left_at)
        if inner_at != BROADCAST:
            self.settle(inner.relation, inner_at)
        else:
            self.settle(inner.relation, (0,) if self.relations[inner.relation].arity else ())
        self.settle(rule.head, chosen)
        placed = replace(rule, left=replace(left, at=left_at), inner=replace(inner, at=inner_at))
        self.done[rule.head] = placed
        return placed


def _all_columns(expressions: Iterable[Expr]) -> bool:
    return all(isinstance(e, Col) for e in expressions)
