"""The names of strategies: what `livelog.open` takes as `strategy` and `ship`, in one word.

`absorption/lazy` is the strategy `absorption` with the ship mode `lazy`. Strategies that annotate nothing have no
ship mode, so their name is all: `dred`, `recompute`.
"""

from __future__ import annotations

from dataclasses import dataclass

from datalog.errors import UsageProblem
from datalog.report import suggestion
from livelog.methods import STRATEGIES

__all__ = ["NAMES", "Strategy", "parse_strategies", "parse_strategy"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to keep views fresh: `strategy` and `ship` as `livelog.open` takes them.

    >>> str(Strategy("absorption", "lazy")), str(Strategy("recompute"))
    ('absorption/lazy', 'recompute')
    """

    strategy: str
    ship: str | None = None

    def __str__(self) -> str:
        return self.strategy if self.ship is None else f"{self.strategy}/{self.ship}"

    @property
    def options(self) -> dict[str, str]:
        """The arguments of `livelog.open`.

        >>> Strategy("absorption", "lazy").options
        {'strategy': 'absorption', 'ship': 'lazy'}
        """
        return {"strategy": self.strategy} | ({} if self.ship is None else {"ship": self.ship})


NAMES = tuple(
    str(Strategy(strategy, ship)) for strategy, ships in STRATEGIES.items() for ship in ships or (None,)
)  # fmt: skip
"""All strategies, ship modes included."""


def parse_strategy(name: str) -> Strategy:
    """A strategy by its name. Without a ship mode the usual one of the strategy is meant.

    >>> parse_strategy("absorption/eager")
    Strategy(strategy='absorption', ship='eager')
    >>> str(parse_strategy("absorption")), str(parse_strategy("recompute"))
    ('absorption/demand', 'recompute')
    >>> parse_strategy("absorbtion/lazy")
    Traceback (most recent call last):
        ...
    datalog.errors.UsageProblem: error: unknown strategy 'absorbtion/lazy': did you mean `absorption/lazy`?
    >>> parse_strategy("recompute/lazy")
    Traceback (most recent call last):
        ...
    datalog.errors.UsageProblem: error: the strategy recompute ships no annotations, so there is no recompute/lazy
    """
    strategy, slash, ship = name.strip().partition("/")
    if strategy in STRATEGIES:
        ships = STRATEGIES[strategy]
        if not slash:
            return Strategy(strategy, ships[0] if ships else None)
        if not ships:
            raise UsageProblem(f"the strategy {strategy} ships no annotations, so there is no {name.strip()}")
        if ship in ships:
            return Strategy(strategy, ship)
    near = suggestion(name.strip(), {*NAMES, *STRATEGIES}) or f": it is one of {', '.join(NAMES)}"
    raise UsageProblem(f"unknown strategy {name.strip()!r}{near}")


def parse_strategies(names: str) -> tuple[Strategy, ...]:
    """Several strategies, separated by commas; a name that stands twice counts once.

    >>> [str(s) for s in parse_strategies("absorption, recompute,absorption/demand")]
    ['absorption/demand', 'recompute']
    """
    found = tuple(dict.fromkeys(parse_strategy(name) for name in names.split(",") if name.strip()))
    if not found:
        raise UsageProblem(f"no strategies are named: choose among {', '.join(NAMES)}")
    return found
