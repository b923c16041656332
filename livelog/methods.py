"""How views are maintained: the strategies, and the modes in which they ship tuples."""

from __future__ import annotations

from datalog.errors import UsageProblem

__all__ = ["LIMIT", "SHIPS", "STRATEGIES", "ship_mode"]

STRATEGIES: dict[str, tuple[str, ...]] = {
    "absorption": ("demand", "lazy", "eager"),
    "relative": ("lazy", "eager"),
    "dred": (),
    "recompute": (),
}
"""How views are maintained, each with its ship modes; the first is the default. See `docs/design.md`."""
SHIPS = ("demand", "lazy", "eager")
LIMIT = 5_000_000
"""Tuples that a transaction may add to a recursive component, unless somebody says otherwise."""


def ship_mode(strategy: str, ship: str | None) -> str:
    """The ship mode of a strategy: the one that is asked for, or its default; "" if it has none.

    >>> ship_mode("absorption", None), ship_mode("relative", "eager"), ship_mode("dred", None)
    ('demand', 'eager', '')
    """
    if strategy not in STRATEGIES:
        raise UsageProblem(f"unknown strategy {strategy!r}: it is one of {', '.join(STRATEGIES)}")
    modes = STRATEGIES[strategy]
    if ship is None:
        return modes[0] if modes else ""
    if ship not in SHIPS:
        raise UsageProblem(f"unknown ship mode {ship!r}: it is one of {', '.join(SHIPS)}")
    if ship not in modes:
        known = f"has the ship modes {', '.join(modes)}" if modes else "has no ship modes"
        raise UsageProblem(f"the strategy {strategy!r} {known}, not {ship!r}")
    return ship
