"""Editing: how the program of a session becomes another one while it runs.

An edit is a transaction of its own kind: the partitions adopt another plan in place of applying operations, the strata
that are new are evaluated, and nothing else is. If anything fails, all of them go back, and what was there before has
not been touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from livelog.edits import Edit
from livelog.planned import Planned
from livelog.runtime.limits import Watch
from livelog.runtime.methods import METHODS
from livelog.runtime.steps import PassedStep, frozen
from operators.partition import Router
from planner.plan import LookupRule, Plan, Stratum

if TYPE_CHECKING:
    from livelog.runtime.worker import Method, Sides

__all__ = ["Adoption", "Editing"]


@dataclass(frozen=True, slots=True)
class Adoption:
    """What the partitions have to do in a transaction that is an edit."""

    edit: Edit
    planned: Planned


class Editing:
    """What of a runtime follows from its program, and how that changes.

    `planned` is the program that stands, with its plan, and `coming` the one to which a transaction under way goes
    over: then `plan` is already that of the latter. Only a runtime that was given a program can be edited.
    """

    plan: Plan
    partitions: int
    clock: float
    steps: tuple[PassedStep, ...]
    planned: Planned | None = None
    coming: Planned | None = None
    _method: Method
    _recompute: bool
    _sizes: Mapping[str, int]
    _timed: bool
    _watch: Watch

    def _fit(self, plan: Plan) -> None:
        """Take over a plan."""
        self.plan = plan
        self._owners = {name: Router(r.partition, self.partitions) for name, r in plan.relations.items()}
        kind = METHODS[self._method]
        self._levels = [kind.levels if s.method == "absorption" else 0 for s in plan.strata]
        self._prepares = [_looks_up(s) for s in plan.strata]
        self._timed = plan.timed
        self._tells_facts = any(plan.relations[name].kind == "base" for name in plan.published)

    def _use(self, planned: Planned) -> None:
        """Be a runtime of this program, as far as what is here knows of it."""
        self._sizes = planned.sizes
        self._watch.plan = planned.plan
        self._fit(planned.plan)

    def edit(self, edit: Edit, planned: Planned) -> dict[str, Sides]:
        """Go over to another program, to which an edit leads; returns what is in the views that are new.

        All or nothing, as a transaction.
        """
        raise AssertionError("a runtime knows its workers")

    def _adopt(self, adoption: Adoption) -> dict[str, Sides]:
        """Let the partitions adopt a plan, and evaluate what is new."""
        assert self.planned is not None, "a runtime with a program"
        self.coming = adoption.planned
        self._use(adoption.planned)
        self._evaluate(self._hand_over(adoption))
        if self._sizes:
            self._measure()
        changes = frozen(self._merged(self._all("brought")))
        if self._timed:
            points = frozenset(self._all("passed")[0][1])
            self.steps = (PassedStep(self.clock, points, changes),) if changes else ()
        return changes

    def _hand_over(self, adoption: Adoption) -> set[int]:
        """The partitions adopt a plan; returns the strata that have something to do."""
        return set().union(*self._all("adopt", adoption.planned.plan, self._sizes, self._recompute))

    def _adopt_unevaluated(self, adoption: Adoption) -> None:
        """Go over to a program where the views are evaluated later."""
        self.coming = adoption.planned
        self._use(adoption.planned)
        self._hand_over(adoption)
        self._all("commit")
        self._stand()

    def _retract(self) -> None:
        """All partitions are as they were before the edit, also if they have not heard of it."""
        self._all("retract")
        self._forget_coming()

    def _forget_coming(self) -> None:
        """The program that stands is the one that counts, after all."""
        assert self.planned is not None
        self._use(self.planned)
        self.coming = None

    def _stand(self) -> None:
        """A transaction stands: the program to which it went over is the one that there is."""
        if self.coming is not None:
            self.planned = self.coming
            self.coming = None

    # --- what a runtime has ------------------------------------------------------------------------------------

    def _all(self, step: str, *arguments: Any) -> list[Any]:
        raise NotImplementedError

    def _evaluate(self, concerned: set[int]) -> None:
        raise NotImplementedError

    def _measure(self) -> None:
        raise NotImplementedError

    def _merged(self, results: list[dict[str, Sides]]) -> dict[str, Sides]:
        raise NotImplementedError


def _looks_up(stratum: Stratum) -> bool:
    """Whether something must be in place on all partitions before the stratum begins."""
    return stratum.method != "counting" and any(isinstance(r, LookupRule) for r in stratum.rules)

