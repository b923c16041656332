"""The rules of a counting stratum that keep nothing: maps and joins, and what they tell the counts of their heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operators.delta import Delta, Mode
from operators.guard import guarded
from operators.kernels import Shape, forward, mapper
from operators.shared import Shared
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
    """A JoinRule: its two sides and their kernels."""

    def __init__(self, rule: JoinRule, plan: Plan, left: Table, right: Table) -> None:
        self.text = rule.text
        arities = [plan.relations[i.relation].arity for i in (rule.left, rule.right)]
        self._shape = Shape(arities[0], rule.left.key, arities[1], rule.right.key, rule.where, rule.outputs)
        self._kernels: dict[tuple[str, str], Callable[..., None]] = {}
        self._others = {"left": right, "right": left}
        self._find = {
            side: table.find if isinstance(table, Shared) else table.index(key).get
            for side, table, key in (("left", right, rule.right.key), ("right", left, rule.left.key))
        }

    def run(self, side: str, delta: Delta, out: Counts) -> None:
        find, other = self._find[side], self._others[side]
        cells = isinstance(other, Shared)
        old = other.old if isinstance(other, Shared) else None
        for purpose, batch, tell in _batches(delta, out):
            kernel = self._kernels.get((side, purpose))
            if kernel is None:
                kernel = self._kernels[side, purpose] = forward(self._shape, side, purpose, cells=cells)
            guarded(self.text, kernel, batch, find, None, old, tell, out.changes, bare=purpose != "weighted")


def _batches(delta: Delta, out: Counts) -> list[tuple[Mode, list[Any], Any]]:
    """A change as batches for kernels, each with its purpose and with whom to tell of heads."""
    tell = {"lost": out.went.append, "gained": out.came.append, "weighted": None}
    return [(mode, batch, tell[mode]) for mode, batch in delta.runs()]
