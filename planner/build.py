"""The relations and plan rules that `binarise` makes, as they come into being."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from operators.sums import Factor
from planner.draft import UNIT, Clause, Draft
from planner.plan import PlanRule, RelationPlan

__all__ = ["Builder", "Part", "Summary"]


@dataclass(frozen=True, slots=True)
class Summary:
    """How the relation of a part that is summed up already is to be read, for `planner.lineage`.

    Its tuples stand for many bindings each: column `count` says how many, and `sums` has the column in which a factor
    (over the part's variables, by position) is summed over them. These columns hold `operators.exact.pack`ed ints.
    Variables of the part past the relation's columns are summed away: only factors in `sums` may mention them.
    """

    count: int
    sums: tuple[tuple[Factor, int], ...]

    def column(self, factor: Factor) -> int:
        """The column of a factor's sums."""
        return dict(self.sums)[factor]


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a body is joined from: an atom, or an auxiliary relation that stands for several.

    `variables`: what its columns are called in this body. `position`: where it stood in the text. `recursive`: it
    is in the component of the rule's head. `size`: how many atoms and conditions went into it, a guess
    at how small it is. `single`: it has at most one tuple. `lookup`: it is the answer to a lookup on a part
    at the same position, which it should be joined with before anything else. `partial`: its tuples are partial
    aggregates, which only the last step of a rule with head aggregates can read.
    """

    relation: str
    variables: tuple[str, ...]
    types: tuple[str, ...]
    position: int
    recursive: bool = False
    size: int = 0
    single: bool = False
    lookup: bool = False
    partial: Summary | None = None


class Builder:
    """Collects relations and rules. Auxiliaries are named after the rule they serve: `reachable/2.1`.

    `functions` and `aggregates`: `planner.collect` adds some of its own.
    """

    def __init__(self, draft: Draft) -> None:
        self.program = draft.program
        self.relations: dict[str, RelationPlan] = dict(draft.relations)
        self.facts: dict[str, tuple[tuple[Any, ...], ...]] = dict(draft.facts)
        self.rules: list[PlanRule] = list(draft.rules)
        self.sizes: dict[str, int] = dict(draft.sizes)
        self.functions: dict[str, Callable[..., Any]] = dict(draft.functions)
        self.aggregates: dict[str, Any] = dict(draft.aggregates)
        self.notes: dict[str, None] = dict.fromkeys(draft.notes)
        self._steps: dict[str, int] = {}

    def add(self, rule: PlanRule) -> None:
        self.rules.append(rule)

    def auxiliary(self, clause: Clause, columns: tuple[str, ...], types: Mapping[str, str], weighted: bool) -> str:
        """A new auxiliary relation for a rule; its partition columns are chosen later."""
        step = self._steps[clause.id] = self._steps.get(clause.id, 0) + 1
        name = f"{clause.id}.{step}"
        kinds = tuple(types.get(c, "any") for c in columns)
        self.relations[name] = RelationPlan(name, columns, kinds, "auxiliary", (), weighted=weighted)
        return name

    def unit(self, position: int = -1) -> Part:
        """The relation of one tuple without columns."""
        if UNIT not in self.relations:
            self.relations[UNIT] = RelationPlan(UNIT, (), (), "base", ())
            self.facts[UNIT] = ((),)
        return Part(UNIT, (), (), position, single=True)
