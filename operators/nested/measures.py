"""Measures: what has to be added up, row by row, so that the aggregates of a head can be told from the sums.

An aggregate whose state is a vector of sums (`operators.monoids.Linear`) is added up wherever rows are put together:
a whole range of an index is then one vector. The entries of such a state that are the same for every value of a type
are multiples of the number of rows, and are not added up: the sum of ints takes one number beside the count, although
its state has five. Of the other aggregates the argument is kept beside the group, and fed with the number of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from operators.expr import Apply, Expr
from operators.monoids import Linear, Monoid
from operators.source import Source, tuple_text
from operators.sums import Factor

__all__ = ["Measures", "Telling"]

Telling = Callable[[tuple[Any, ...], Sequence[int], Sequence[Monoid] | None], tuple[Any, ...]]
"""`(columns of the group, sum of vectors, states of the aggregates that are not linear) -> head`"""

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
    >>> m.width, m.telling(1, (1, 0, 2, 3))(("a",), [2, 7, 3 << 128, 0], None)
    (4, (2, 'a', 7, 1.5))
    """

    def __init__(self, aggregates: Sequence[tuple[Callable[[], Monoid], Expr | None, str]]) -> None:
        self.entries: list[Factor] = []
        self.apart: list[Expr | None] = []
        self._plan: list[tuple[Linear, list[str]] | None] = []  # of each entry of a state, the text
        self._makes: list[Callable[[], Monoid]] = []
        for make, argument, kind in aggregates:
            state = make()
            if not isinstance(state, Linear):
                self.apart.append(argument)
                self._makes.append(make)
                self._plan.append(None)
                continue
            samples = [state.lift(v) for v in SAMPLES.get(kind, SAMPLES["any"])]
            texts = []
            for i, first in enumerate(samples[0]):
                if all(sample[i] == first for sample in samples):
                    texts.append("0" if not first else "s0" if first == 1 else f"({first} * s0)")
                else:
                    texts.append(f"s{1 + len(self.entries)}")
                    assert argument is not None
                    plain = kind in ("number", "unsigned") and all(
                        sample[i] == v for sample, v in zip(samples, SAMPLES[kind], strict=True)
                    )
                    # whole numbers are computed exactly: an overflow is one of the total, as over a join
                    exact = kind in ("number", "unsigned") and isinstance(argument, Apply)
                    self.entries.append(Factor(argument, None if plain else state.lift, 0 if plain else i, exact))
            self._plan.append((state, texts))
        self.width = 1 + len(self.entries)

    def states(self) -> list[Monoid]:
        """Empty states of the aggregates that are not linear."""
        return [make() for make in self._makes]

    def telling(self, group: int, layout: Sequence[int]) -> Telling:
        """The head of a group, written out: `layout` says which of its columns, or of the aggregates, comes where."""
        source = Source()
        values = [f"g[{i}]" for i in range(group)]
        others = 0
        for plan in self._plan:
            if plan is None:
                values.append(f"m[{others}].result()")
                others += 1
            else:
                state, texts = plan
                values.append(state.spelt(source, texts))
        source.line(0, "def tell(g, v, m):")
        source.line(1, f"{tuple_text([f's{i}' for i in range(self.width)])} = v")
        source.line(1, f"return {tuple_text([values[i] for i in layout])}")
        return source.compile("tell")  # type: ignore[no-any-return]
