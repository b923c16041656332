"""Skew: does one partition hold most of a join?

The partitions of a session wait for each other, so a transaction takes as long as the partition with most to do. A join
finds its matches where both sides meet: if half of the tuples of a side have the same value in the columns that they
are spread by, one partition holds them all, however many partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from livelog.runtime.component import Component
from livelog.runtime.counting import Counting
from livelog.runtime.regulated import Kept
from planner.plan import BROADCAST, Input, JoinRule, LineageRule

if TYPE_CHECKING:
    from livelog.runtime.worker import Worker
    from planner.plan import Plan, PlanRule

__all__ = ["LEAST", "Skew", "held_by", "join_rules", "skew", "threshold"]

LEAST = 100
"""Tuples of a relation below which its skew is chance and costs nothing."""


@dataclass(frozen=True, slots=True)
class Skew:
    """A partition that holds most of one side of a join.

    `relation` is the side by its name in `held_by`, `tuples` of `total` are here; `rule` is the text of a rule that
    joins it, or empty if nobody told.
    """

    partition: int
    relation: str
    tuples: int
    total: int
    rule: str = ""

    @property
    def share(self) -> float:
        return self.tuples / self.total

    def __str__(self) -> str:
        name, by, columns = self.relation.partition(" by ")
        rule = f", rule {' '.join(self.rule.split())}" if self.rule else ""
        return f"partition {self.partition} holds {self.share:.0%} of `{name}`{by}{columns}{rule}"


def threshold(partitions: int) -> float:
    """The share above which a partition holds too much.

    That is more than half of all; with more than eight partitions, more than four times the even share, and with two
    of them three quarters, since half is the even share there.

    >>> [round(threshold(n), 3) for n in (2, 3, 4, 8, 16, 100)]
    [0.75, 0.5, 0.5, 0.5, 0.25, 0.04]
    """
    return max(1.5 / partitions, min(0.5, 4 / partitions))


def skew(partitions: Sequence[Mapping[str, int]], rules: Mapping[str, str] | None = None) -> list[Skew]:
    """The sides of joins of which one partition holds too much, the worst first.

    `partitions` has the result of `held_by` for each partition, in their order; `rules` is that of `join_rules`.

    >>> held = [{"r": 10, "e": 250}, {"r": 20, "e": 250}, {"r": 10, "e": 250}, {"r": 170, "e": 250}]
    >>> print(*skew(held, {"r": "r(x, y) :- e(x, z), r(z, y)."}))
    partition 3 holds 81% of `r`, rule r(x, y) :- e(x, z), r(z, y).
    """
    if len(partitions) < 2:
        return []
    found = []
    for name in sorted({name for held in partitions for name in held}):
        counts = [held.get(name, 0) for held in partitions]
        total, most = sum(counts), max(counts)
        if total >= LEAST and most > threshold(len(counts)) * total:
            found.append(Skew(counts.index(most), name, most, total, (rules or {}).get(name, "")))
    # What a partition holds beyond its even share is what the others wait for.
    return sorted(found, key=lambda s: s.total / len(partitions) - s.tuples)


# --- what partitions hold ------------------------------------------------------------------------------------


def held_by(worker: Worker) -> dict[str, int]:
    """By side of a join, how many of its tuples this partition holds. O(tables), or O(keys) of joins that count."""
    held: dict[str, int] = {}
    for stratum, running in zip(worker.plan.strata, worker.strata, strict=True):
        if isinstance(running, Kept):
            continue
        for rule in stratum.rules:
            for side in _sides(rule):
                name = _name(worker.plan, side)
                if name not in held:  # all joins that want a side in the same place have the same tuples
                    held[name] = _count(running, rule, side)
    return held


def _count(stratum: Component | Counting, rule: PlanRule, side: Input) -> int:
    """How many tuples of one side of a join a stratum has here; of a lineage join, how many partial sums."""
    if isinstance(rule, LineageRule):
        assert isinstance(stratum, Counting)
        return dict(stratum.nodes)[rule.id].stats()["left" if side is rule.left else "right"]
    if isinstance(stratum, Counting):
        return stratum.held(side)
    at = stratum.plan.relations[side.relation].partition if stratum.partitions == 1 else side.at
    return len(stratum.tables[stratum.numbers[side.relation, at]].rows)


def join_rules(plan: Plan) -> dict[str, str]:
    """By side of a join, as `held_by` calls it, the text of the first rule that joins it.

    >>> import datalog, planner
    >>> program = datalog.check(datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."))
    >>> join_rules(planner.plan(program))
    {'e by y': 'r(x, y) :- e(x, z), r(z, y).', 'r': 'r(x, y) :- e(x, z), r(z, y).'}
    """
    rules: dict[str, str] = {}
    for stratum in plan.strata:
        for rule in stratum.rules:
            for side in _sides(rule):
                rules.setdefault(_name(plan, side), rule.text)
    return rules


def _sides(rule: object) -> Iterator[Input]:
    """The inputs of a join that are spread over the partitions: of those that are everywhere, all hold the same."""
    if isinstance(rule, (JoinRule, LineageRule)):
        yield from (side for side in (rule.left, rule.right) if side.at != BROADCAST)


def _name(plan: Plan, side: Input) -> str:
    """`reachable` where its tuples are at home, `link by dst` where they are spread by other columns."""
    relation = plan.relations[side.relation]
    if side.at == relation.partition:
        return side.relation
    return f"{side.relation} by {', '.join(relation.columns[c] for c in side.at if isinstance(c, int)) or 'nothing'}"
