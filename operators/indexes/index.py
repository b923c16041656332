"""What an aggregate index is: numbers by key, sums of ranges, shifts of keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

__all__ = ["AggregateIndex", "exact", "exactly"]


class AggregateIndex(ABC):
    """Values by key. `add(k, v)` adds v to what is at k.

    *Entries.* An entry lives while its value is not zero (a vector: while one of its numbers is not zero). So what was
    added and taken back leaves nothing behind, an absent key has the value zero, and there is no `delete`. An index
    that must remember a key although the values there may cancel out keeps vectors, with the number of holders in them.

    *Numbers.* Nothing is converted. Values must be numbers that add up without rounding, ints of any size or Fractions;
    floats are handed in as whole numbers of units (operators/exact.py). Keys are whatever has an order; those that are
    shifted must be ints or Fractions, and then numbers are looked for, of any kind, infinity too.
    """

    __slots__ = ()

    zero: Any  # the value of an absent key
    total: Any  # the sum of all values

    @abstractmethod
    def get(self, k: Any) -> Any:
        """The value at a key; zero where nothing is."""

    @abstractmethod
    def add(self, k: Any, v: Any) -> None:
        """Add to the value at a key."""

    @abstractmethod
    def get_sum(self, k: Any) -> Any:
        """The sum of the values with keys <= k."""

    @abstractmethod
    def get_sum_below(self, k: Any) -> Any:
        """The sum of the values with keys < k."""

    @abstractmethod
    def _plus(self, a: Any, b: Any) -> Any:
        """Two values added up."""

    @abstractmethod
    def _minus(self, a: Any, b: Any) -> Any:
        """One value without another."""

    def _added_up(self, items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        """Values by key, those of equal keys added up, without those that are zero."""
        sums: dict[Any, Any] = {}
        for k, v in items:
            sums[k] = self._plus(sums[k], v) if k in sums else v
        return {k: v for k, v in sums.items() if v != self.zero}

    def get_sum_above(self, k: Any) -> Any:
        """The sum of the values with keys > k. The cost of `get_sum`

        >>> from operators.indexes import RPAITree
        >>> RPAITree.from_items([(1, 10), (2, 20), (3, 30)]).get_sum_above(2)
        30
        """
        return self._minus(self.total, self.get_sum(k))

    def get_sum_from(self, k: Any) -> Any:
        """The sum of the values with keys >= k. The cost of `get_sum`

        >>> from operators.indexes import RPAITree
        >>> RPAITree.from_items([(1, 10), (2, 20), (3, 30)]).get_sum_from(2)
        50
        """
        return self._minus(self.total, self.get_sum_below(k))

    def range_sum(self, lo: Any, hi: Any) -> Any:
        """The sum of the values with lo <= key <= hi. The cost of two `get_sum`

        >>> from operators.indexes import RPAITree
        >>> index = RPAITree.from_items([(1, 10), (2, 20), (3, 30)])
        >>> index.range_sum(2, 3), index.range_sum(3, 2)
        (50, 0)
        """
        if hi < lo:
            return self.zero
        return self._minus(self.get_sum(hi), self.get_sum_below(lo))

    @abstractmethod
    def shift_keys(self, k: Any, d: Any, inclusive: bool = False) -> None:
        """Add d to all keys > k, or >= k if `inclusive`; entries whose keys become equal are added up."""

    @abstractmethod
    def items(self, lo: Any = None, hi: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The entries with lo <= key <= hi, in order or from the other end. The index must not change meanwhile."""

    @abstractmethod
    def first_sum(self, holds: Callable[[Any], bool]) -> tuple[Any, Any]:
        """The first key for which something holds of the sum up to and with it, and the sum of all that is before it.

        (None, total) if there is none. What is asked must be monotone along the keys, once true for ever true, and
        answer with a bool: so the sums should not go up and down. Of vectors the first number is asked about.
        """

    def first_above(self, limit: Any, inclusive: bool = False) -> tuple[Any, Any]:
        """`first_sum` of sums > limit, or >= limit if `inclusive`. The cost of `first_sum`

        >>> from operators.indexes import RPAITree
        >>> index = RPAITree.from_items([(1, 10), (2, 20), (3, 30)])
        >>> index.first_above(30), index.first_above(30, inclusive=True), index.first_above(60)
        ((3, 30), (2, 10), (None, 60))
        """
        if inclusive:
            return self.first_sum(lambda s: s >= limit)
        return self.first_sum(lambda s: s > limit)

    @abstractmethod
    def first_key(self, holds: Callable[[Any], bool]) -> Any:
        """The first key of which something holds that is monotone along the keys; None if there is none."""

    @abstractmethod
    def __len__(self) -> int:
        """How many entries there are. O(1)"""

    def __bool__(self) -> bool:
        return len(self) > 0

    @abstractmethod
    def check(self) -> None:
        """Assert that the index is sound."""


def exact(number: Any) -> None:
    """Refuse numbers whose sums may be rounded: a shifted key must be what it would be if it had been counted anew.

    >>> exact(3)
    >>> exact(0.5)
    Traceback (most recent call last):
    TypeError: keys are shifted exactly, so they must be ints or Fractions, not a float: 0.5
    """
    if not isinstance(number, int | Fraction):
        kind = type(number).__name__
        raise TypeError(f"keys are shifted exactly, so they must be ints or Fractions, not a {kind}: {number!r}")


def exactly(number: Any) -> Any:
    """A finite number as one that can be subtracted without rounding.

    >>> exactly(7), exactly(2.0), exactly(0.5)
    (7, 2, Fraction(1, 2))
    """
    if isinstance(number, float):
        return int(number) if number.is_integer() else Fraction(number)
    return number
