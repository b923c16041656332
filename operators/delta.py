"""Delta: the net change of a relation in one transaction, on one partition."""

from __future__ import annotations

from typing import Any

__all__ = ["Delta"]

Tuple = tuple[Any, ...]


class Delta:
    """What came and what went; of relations with multiplicities, the change of each weight.

    >>> Delta([("a",)], [("b",)]).items()
    [(('b',), -1), (('a',), 1)]
    """

    __slots__ = ("gained", "lost", "weights")

    def __init__(
        self, gained: list[Tuple], lost: list[Tuple], weights: list[tuple[Tuple, int]] | None = None
    ) -> None:
        self.gained = gained
        self.lost = lost
        self.weights = weights

    @classmethod
    def weighted(cls, weights: list[tuple[Tuple, int]]) -> Delta:
        """A change of weights."""
        return cls([t for t, w in weights if w > 0], [t for t, w in weights if w < 0], weights)

    def items(self) -> list[tuple[Tuple, int]]:
        """Tuples with the change of their weight."""
        if self.weights is not None:
            return self.weights
        return [(t, -1) for t in self.lost] + [(t, 1) for t in self.gained]

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost)
