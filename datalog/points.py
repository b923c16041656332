"""Points of time that the language knows by itself: `now`, `clock`, and what `every` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog.ast import Program, Ticks

__all__ = ["CLOCKS", "clocks_of", "name_of", "whole"]

CLOCKS: Mapping[str, Ticks | None] = {"now": None, "clock": Ticks(1, 0)}
"""The relations of time: where the clock stands, and every whole tick."""


def clocks_of(program: Program) -> frozenset[str]:
    """Those of `CLOCKS` that are not relations of the program's own. Linear in its size.

    >>> from datalog import parse
    >>> sorted(clocks_of(parse("r(n) :- now(n), clock(n). now(1).")))
    ['clock']
    """
    own = {name for name in CLOCKS if name in program.relations and program.relations[name].declared}
    own |= {d.relation for d in program.directives_of("input")}
    own |= {rule.head.relation for rule in program.rules if rule.head.relation in CLOCKS}
    return frozenset(CLOCKS) - own


def whole(value: Any) -> Any:
    """A number as times are written: whole ones are integers.

    >>> whole(2.0), whole(0.5), whole(7)
    (2, 0.5, 7)
    """
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def name_of(ticks: Ticks) -> str:
    """The one name that a schedule has.

    >>> name_of(Ticks(2, 0)), name_of(Ticks(10, 3))
    ('every(2)', 'every(10, from=3)')
    """
    return f"every({ticks.period!r}, from={ticks.start!r})" if ticks.start else f"every({ticks.period!r})"
