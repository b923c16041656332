"""The rules of a counting stratum that keep nothing: maps and joins, and what they tell the counts of their heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from operators.delta import Delta, Mode
from operators.guard import guarded
from operators.kernels import Shape, forward, mapper
from operators.shared import Shared
from operators.slices import FEW, in_slices
from operators.zset import Counts, ZTable
from planner.plan import JoinRule, MapRule, Plan

__all__ = ["Joined", "Mapped", "Table"]

Table = ZTable | Shared
"""What a join finds the tuples of one side in."""


class Mapped:
    """A MapRule: what it makes of a batch of its input, written down for the counts of its heads."""

    def __init__(self, rule: MapRule, plan: Plan) -> None:
        self.text = rule.text
        arity = plan.relations[rule.input.relation].arity
        self._shape = Shape(arity, (), None, (), rule.where, rule.outputs)
        self._kernels: dict[str, Callable[..., None]] = {}

    def run(self, delta: Delta, out: Counts) -> None:
        for purpose, batch, tell in _batches(delta, out):
            kernel = self._kernels.get(purpose)
            if kernel is None:
                kernel = self._kernels[purpose] = mapper(self._shape, purpose)
            guarded(self.text, kernel, batch, None, tell, out.changes, bare=purpose != "weighted")


class Joined:
    """A JoinRule: its two sides and their kernels. `look` sees now and then what a long batch has made so far."""

    def __init__(
        self, rule: JoinRule, plan: Plan, left: Table, right: Table, look: Callable[[str, Counts], None]
    ) -> None:
        self._look = look
        self.text = rule.text
        arities = [plan.relations[i.relation].arity for i in (rule.left, rule.right)]
        self._shape = Shape(arities[0], rule.left.key, arities[1], rule.right.key, rule.where, rule.outputs)
        self._kernels: dict[tuple[str, str], Callable[..., None]] = {}
        self._others = {"left": _partners(right, rule.right.key), "right": _partners(left, rule.left.key)}

    def run(self, side: str, delta: Delta, out: Counts) -> None:
        other = self._others[side]
        find: Callable[[Any], Any]
        if cells := isinstance(other, Shared):
            find, old = other.find, other.old
        elif other:
            find, old = other.get, None
        else:  # nobody to meet, as for the first side of a load: no loop is made for that
            return
        for purpose, batch, tell in _batches(delta, out):
            kernel = self._kernels.get((side, purpose))
            if kernel is None:
                kernel = self._kernels[side, purpose] = forward(self._shape, side, purpose, cells=cells)
            if len(batch) > FEW:
                self._run_long(kernel, batch, (find, None, old, tell, out.changes), purpose != "weighted", out)
                continue
            guarded(self.text, kernel, batch, find, None, old, tell, out.changes, bare=purpose != "weighted")

    def _run_long(self, kernel: Callable[..., None], batch: list[Any], rest: Any, bare: bool, out: Counts) -> None:
        """The same slice by slice."""

        def make(part: list[Any]) -> int:
            before = out.written
            guarded(self.text, kernel, part, *rest, bare=bare)
            made = out.written - before
            self._look(self.text, out)
            return made

        in_slices(batch, make)


def _partners(table: Table, key: tuple[int, ...]) -> Shared | Mapping[Any, Any]:
    """Where a join finds the tuples of a side: the groups that have them, or an index over its key."""
    return table if isinstance(table, Shared) else table.index(key)


def _batches(delta: Delta, out: Counts) -> list[tuple[Mode, list[Any], Any]]:
    """A change as batches for kernels, each with its purpose and with whom to tell of heads."""
    tell = {"lost": out.went.append, "gained": out.came.append, "weighted": None}
    return [(mode, batch, tell[mode]) for mode, batch in delta.runs()]
