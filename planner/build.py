"""The relations and plan rules that `binarise` makes, as they come into being."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from planner.draft import UNIT, Clause, Draft
from planner.plan import PlanRule, RelationPlan

__all__ = ["Builder", "Part"]


class Part(msgspec.Struct, frozen=True, gc=False):
    """Something that a body is joined from: an atom, or an auxiliary relation that stands for several.

    `variables`: what its columns are called in this body. `position`: where it stood in the text. `recursive`: it
    is in the component of the rule's head. `size`: how many atoms and conditions went into it, a guess
    at how small it is. `single`: it has at most one tuple. `lookup`: it is the answer to a lookup on a part
    at the same position, which it should be joined with before anything else.
    """

    relation: str
    variables: tuple[str, ...]
    types: tuple[str, ...]
    position: int
    recursive: bool = False
    size: int = 0
    single: bool = False
    lookup: bool = False


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
        self._kinds: dict[str, tuple[str, ...]] = {}

    def add(self, rule: PlanRule) -> None:
        self.rules.append(rule)

    def auxiliary(self, clause: Clause, columns: tuple[str, ...], types: Mapping[str, str], weighted: bool) -> str:
        """A new auxiliary relation for a rule; its partition columns are chosen later."""
        step = self._steps[clause.id] = self._steps.get(clause.id, 0) + 1
        name = f"{clause.id}.{step}"
        kinds = tuple(types.get(c, "any") for c in columns)
        self.relations[name] = RelationPlan(name, columns, kinds, "auxiliary", (), weighted=weighted)
        return name

    def kinds(self, name: str) -> tuple[str, ...]:
        """The types of a relation's columns; `numeric` where rules compute with one of no known type."""
        found = self._kinds.get(name)
        if found is None:
            known = self.program.relations.get(name)
            found = self.relations[name].types
            if known is not None:
                pairs = zip(found, known.columns, strict=True)
                found = tuple(["numeric" if kind == "any" and column.numeric else kind for kind, column in pairs])
            self._kinds[name] = found
        return found

    def unit(self, position: int = -1) -> Part:
        """The relation of one tuple without columns."""
        if UNIT not in self.relations:
            self.relations[UNIT] = RelationPlan(UNIT, (), (), "base", ())
            self.facts[UNIT] = ((),)
        return Part(UNIT, (), (), position, single=True)
