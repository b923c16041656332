"""What every state of an aggregate can do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from operators.source import Source

__all__ = ["Linear", "Monoid", "Vector"]

Vector = tuple[int, ...]


class Monoid(Protocol):
    """The state of one aggregate of one group. `count` is the weight of all that is in it.

    Inside a transaction more may be taken out than is in: the rest comes later. `result` is asked only when all is in.
    """

    count: int

    def add(self, value: Any, weight: int) -> None:
        """Let `value` in `weight` times, or take it out if the weight is negative."""

    def add_all(self, values: Collection[Any]) -> None:
        """Let each of the values in once."""

    def result(self) -> Any:
        """The aggregate of what is in; None if it has none."""

    def kept(self) -> Iterable[Any]:
        """The state as plain values, to measure its size."""


@runtime_checkable
class Linear(Monoid, Protocol):
    """A state that is a vector of sums, so that sums made elsewhere can be added to it.

    `lift(value)` is the vector of one value, its first entry 1: the count. Adding values one by one comes to the same
    as absorbing the sum of their vectors.
    """

    @staticmethod
    def lift(value: Any) -> Vector:
        """The state of `value` alone, as a vector."""

    def absorb(self, vector: Vector, weight: int) -> None:
        """Let a sum of lifted values in `weight` times."""

    def spelt(self, source: Source, entries: Sequence[str]) -> str:
        """The text of `result` for a vector that is kept elsewhere, of which something is in.

        `entries` are the texts of the vector's entries, `0` for those that are always 0. The state itself is only an
        example of its kind.
        """
