"""Measures: what has to be added up, row by row, so that the aggregates of a head can be told from the sums.

An aggregate whose state is a vector of sums (`operators.monoids.Linear`) is added up wherever rows are put together:
a whole range of an index is then one vector. The entries of such a state that are the same for every value of a type
are multiples of the number of rows, and are not added up: the sum of ints takes one number beside the count, although
its state has five. Of the other aggregates the argument is kept beside the group, and fed with the number of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from operators.expr import Expr
from operators.monoids import Count, Linear, Monoid, Sum
from operators.source import HIGHEST, LOWEST
from operators.sums import Factor

__all__ = ["Measures"]

SAMPLES: dict[str, tuple[Any, ...]] = {
    "number": (0, 1, 3),
    "unsigned": (0, 1, 3),
    "float": (0.0, 0.5, 5e-324),
    "any": (0, 1, 3, 0.0, 0.5, 5e-324),
}
"""Values of each type such that every entry of a vector that may differ does differ for two of them."""


class Measures:
    """The aggregates of one head, `(make, argument, type of the argument)` each.

    `entries` are what a row adds to a vector besides its weight. `apart` are the arguments of the aggregates that are
    not linear.

    >>> from operators.expr import Col
    >>> from operators.monoids import Avg, Count, Sum
    >>> m = Measures([(Count, None, "any"), (Sum, Col(0), "number"), (Avg, Col(0), "float")])
    >>> m.width, m.results([2, 7, 3 << 128, 0], None)
    (4, [2, 7, 1.5])
    """

    def __init__(self, aggregates: Sequence[tuple[Callable[[], Monoid], Expr | None, str]]) -> None:
        self.entries: list[Factor] = []
        self.apart: list[Expr | None] = []
        self._plan: list[tuple[Callable[[], Monoid], list[int], list[tuple[int, int]]] | None] = []
        self._makes: list[Callable[[], Monoid]] = []
        self._quick: list[int | None] = []  # where a count, or a sum of ints, stands in the vector as it is
        for make, argument, kind in aggregates:
            state = make()
            if not isinstance(state, Linear):
                self.apart.append(argument)
                self._makes.append(make)
                self._plan.append(None)
                self._quick.append(None)
                continue
            samples = [state.lift(v) for v in SAMPLES.get(kind, SAMPLES["any"])]
            places = []
            for i, first in enumerate(samples[0]):
                if any(sample[i] != first for sample in samples):
                    places.append((i, 1 + len(self.entries)))
                    assert argument is not None
                    plain = kind in ("number", "unsigned") and all(
                        sample[i] == v for sample, v in zip(samples, SAMPLES[kind], strict=True)
                    )
                    self.entries.append(Factor(argument) if plain else Factor(argument, state.lift, i))
            self._plan.append((make, list(samples[0]), places))
            ints = len(places) == 1 and self.entries[-1].lift is None and type(state) is Sum
            self._quick.append(0 if type(state) is Count else places[0][1] if ints else None)
        self._sole = self._quick[0] if len(self._quick) == 1 else None  # most heads have one aggregate
        self.width = 1 + len(self.entries)

    def states(self) -> list[Monoid]:
        """Empty states of the aggregates that are not linear."""
        return [make() for make in self._makes]

    def results(self, vector: Sequence[int], states: Sequence[Monoid] | None) -> list[Any]:
        """The values of all aggregates, from a sum of vectors and the states of those that are not linear."""
        sole = self._sole
        if sole is not None and LOWEST <= vector[sole] <= HIGHEST:
            return [vector[sole]]
        found = []
        others = iter(states or ())
        for plan, quick in zip(self._plan, self._quick, strict=True):
            if plan is None:
                found.append(next(others).result())
                continue
            if quick is not None and LOWEST <= vector[quick] <= HIGHEST:
                found.append(vector[quick])
                continue
            make, constants, places = plan
            count = vector[0]
            full = [count * c for c in constants]
            for i, j in places:
                full[i] = vector[j]
            state: Any = make()
            state.absorb(tuple(full), 1)
            found.append(state.result())
        return found
