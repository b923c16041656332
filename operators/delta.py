"""Delta: the net change of a relation in one transaction, on one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operators.columns import Columns

__all__ = ["Delta", "Loaded"]

Tuple = tuple[Any, ...]


class Delta:
    """What came and what went; of relations with multiplicities, the change of each weight.

    `columns` are what came, column by column and with repetitions, where a bulk load knows them so.

    >>> Delta([("a",)], [("b",)]).items()
    [(('b',), -1), (('a',), 1)]
    """

    __slots__ = ("columns", "gained", "lost", "weights")

    def __init__(
        self, gained: list[Tuple], lost: list[Tuple], weights: list[tuple[Tuple, int]] | None = None
    ) -> None:
        self.gained = gained
        self.lost = lost
        self.weights = weights
        self.columns: Columns | None = None

    @classmethod
    def weighted(cls, weights: list[tuple[Tuple, int]]) -> Delta:
        """A change of weights."""
        if len(weights) == 1:
            ((t, w),) = weights
            return cls([t], [], weights) if w > 0 else cls([], [t], weights)
        return cls([t for t, w in weights if w > 0], [t for t, w in weights if w < 0], weights)

    def items(self) -> list[tuple[Tuple, int]]:
        """Tuples with the change of their weight."""
        if self.weights is not None:
            return self.weights
        gained, lost = self.gained, self.lost
        if len(gained) + len(lost) == 1:
            return [(gained[0], 1)] if gained else [(lost[0], -1)]
        if not lost:
            return [(t, 1) for t in gained]
        return [(t, -1) for t in lost] + [(t, 1) for t in gained]

    def __iter__(self) -> Iterator[list[Tuple]]:
        """What came, and what went: as the pair of lists that a change is elsewhere."""
        yield self.gained
        yield self.lost

    def __len__(self) -> int:
        return len(self.gained) + len(self.lost)

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost)


class Loaded(Delta):
    """All that is in a table that was empty; lists of it are made for those who ask.

    >>> delta = Loaded({("a",): 1, ("b",): 2}, weighted=True); delta.gained, delta.items(), bool(delta)
    ([('a',), ('b',)], [(('a',), 1), (('b',), 2)], True)
    """

    __slots__ = ("_gained", "_rows", "_weighted")

    def __init__(self, rows: Mapping[Tuple, int], weighted: bool, columns: Columns | None = None) -> None:
        self._rows = rows
        self._weighted = weighted
        self._gained: list[Tuple] | None = None
        self.lost = []
        self.columns = columns

    @property
    def gained(self) -> list[Tuple]:  # type: ignore[override]
        if self._gained is None:
            self._gained = list(self._rows)
        return self._gained

    @property
    def weights(self) -> list[tuple[Tuple, int]] | None:  # type: ignore[override]
        return list(self._rows.items()) if self._weighted else None

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return bool(self._rows)
