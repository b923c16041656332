"""The passes of the planner, one module each, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from planner.draft import Draft
from planner.passes.binarise import binarise
from planner.passes.clocks import clocks
from planner.passes.declare import declare
from planner.passes.filter_groups import filter_groups
from planner.passes.fold_rules import fold_rules
from planner.passes.forget import forget
from planner.passes.having import having
from planner.passes.name_aggregates import name_aggregates
from planner.passes.normalise import normalise
from planner.passes.place import place
from planner.passes.push_selection import push_selection
from planner.passes.read_winners import read_winners
from planner.passes.share import share
from planner.passes.stratify import stratify
from planner.passes.unroll import unroll
from planner.passes.windows import windows

__all__ = ["PASSES"]

PASSES: tuple[Callable[[Draft], Draft], ...] = (
    unroll,
    name_aggregates,
    clocks,
    windows,
    declare,
    having,
    normalise,
    fold_rules,
    push_selection,
    binarise,
    read_winners,
    share,
    filter_groups,
    stratify,
    place,
    forget,
)
