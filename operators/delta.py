"""Delta: the net change of a relation in one transaction, on one partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from operators.columns import Columns

__all__ = ["Copies", "Delta", "Loaded", "Mode"]

Tuple = tuple[Any, ...]
Mode = Literal["gained", "lost", "weighted"]


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

    def runs(self) -> list[tuple[Mode, list[Any]]]:
        """The change as batches for loops: tuples that were `lost`, those that were `gained`, or pairs with weights.

        A tuple that stands in a batch several times counts as often.

        >>> Delta([("a",)], []).runs(), Delta.weighted([(("b",), 2)]).runs()
        ([('gained', [('a',)])], [('weighted', [(('b',), 2)])])
        """
        if self.weights is not None:
            return [("weighted", self.weights)]
        return _runs(self.lost, self.gained)

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

    def copies(self) -> tuple[list[Tuple], list[Tuple]]:
        """The tuples that came and those that went, each as often as its weight says.

        >>> Delta.weighted([(("a",), 2), (("b",), -1)]).copies()
        ([('a',), ('a',)], [('b',)])
        """
        came: list[Tuple] = []
        went: list[Tuple] = []
        for mode, batch in self.runs():
            if mode != "weighted":
                came, went = (batch, went) if mode == "gained" else (came, batch)
            else:
                came = [t for t, w in batch for _ in range(w)]
                went = [t for t, w in batch for _ in range(-w)]
        return came, went

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


class Copies(Delta):
    """Copies that came to a bag, or that went from it: nobody has counted yet how many are of the same tuple.

    >>> delta = Copies([("a",), ("b",), ("a",)], [("c",)]); delta.runs()
    [('lost', [('c',)]), ('gained', [('a',), ('b',), ('a',)])]
    >>> delta.weights
    [(('a',), 2), (('b',), 1), (('c',), -1)]
    """

    __slots__ = ("_weights", "came", "walked", "went")

    def __init__(self, came: list[Tuple], went: list[Tuple], columns: Columns | None = None) -> None:
        self.came = came  # none of them is in the other list
        self.went = went
        self.walked = False  # whether somebody has asked for the tuples
        self._weights: list[tuple[Tuple, int]] | None = None
        self.columns = columns

    def runs(self) -> list[tuple[Mode, list[Any]]]:
        self.walked = True
        return _runs(self.went, self.came)

    @property
    def weights(self) -> list[tuple[Tuple, int]]:  # type: ignore[override]
        if self._weights is None:
            self.walked = True
            self._weights = [*Counter(self.came).items(), *((t, -n) for t, n in Counter(self.went).items())]
        return self._weights

    @property
    def gained(self) -> list[Tuple]:  # type: ignore[override]
        return [t for t, w in self.weights if w > 0] if self.came else []

    @property
    def lost(self) -> list[Tuple]:  # type: ignore[override]
        return [t for t, w in self.weights if w < 0] if self.went else []

    def __len__(self) -> int:
        return len(self.came) + len(self.went)

    def __bool__(self) -> bool:
        return bool(self.came or self.went)


def _runs(lost: list[Tuple], gained: list[Tuple]) -> list[tuple[Mode, list[Any]]]:
    runs: list[tuple[Mode, list[Any]]] = [("lost", lost), ("gained", gained)]
    return [run for run in runs if run[1]]
