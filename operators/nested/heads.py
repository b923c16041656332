"""Heads: what becomes of the rows that qualify. Two kinds, with the same methods.

- `Results`: groups and their aggregates, as a rule's head shows them;
- `Copies`: the rows themselves, as often as they are there.

`change(key, vector, sign)` lets a sum of rows in (sign 1) or out (-1). The key is the group's columns, and behind them
the arguments of aggregates that are not linear. `flush()` gives the heads that fall and those that rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub
from typing import Any, Protocol

from operators.errors import RuleFailure
from operators.nested.measures import Measures

__all__ = ["Copies", "Heads", "Results"]

Tuple = tuple[Any, ...]
Vector = Sequence[int]


class Heads(Protocol):
    """Where sums of qualifying rows go."""

    def change(self, key: Tuple, vector: Vector, sign: int) -> None: ...

    def flush(self) -> tuple[list[Tuple], list[Tuple]]: ...

    def group(self, key: Tuple) -> Tuple: ...

    def shown(self) -> dict[Tuple, list[int]]: ...

    def check(self) -> None: ...


class _Group:
    """The rows of one group that qualify: the sum of their vectors, other states, and the head that is published."""

    __slots__ = ("head", "states", "vector")

    def __init__(self, width: int, states: Any) -> None:
        self.vector = [0] * width
        self.states = states
        self.head: Tuple | None = None


class Results:
    """Groups with their aggregates.

    >>> from operators.monoids import Sum
    >>> from operators.expr import Col
    >>> heads = Results("", 1, Measures([(Sum, Col(1), "number")]), (0, 1))
    >>> heads.change(("a",), [2, 30], 1); heads.change(("a",), [1, 10], -1); heads.flush()
    ([], [('a', 20)])
    """

    def __init__(self, text: str, width: int, measures: Measures, layout: tuple[int, ...]) -> None:
        self.text = text
        self._width = width
        self._measures = measures
        self._tell = measures.telling(width, layout)
        self._groups: dict[Tuple, _Group] = {}
        self._touched: dict[Tuple, _Group] = {}
        self._apart = bool(measures.apart)

    def change(self, key: Tuple, vector: Vector, sign: int) -> None:
        apart = self._apart
        g = key[: self._width] if apart else key
        group = self._groups.get(g)
        if group is None:
            states = self._measures.states() if apart else None
            group = self._groups[g] = _Group(self._measures.width, states)
        self._touched[g] = group
        group.vector = list(map(add if sign > 0 else sub, group.vector, vector))
        if apart:
            for state, value in zip(group.states, key[self._width :], strict=True):
                state.add(value, sign * vector[0])

    def group(self, key: Tuple) -> Tuple:
        """The group's columns of a key."""
        return key[: self._width] if self._apart else key

    def flush(self) -> tuple[list[Tuple], list[Tuple]]:
        gone: list[Tuple] = []
        new: list[Tuple] = []
        touched = self._touched
        for g, group in touched.items():
            old = group.head
            head = None
            if group.vector[0]:
                head = self._head(g, group)
                group.head = head
            else:
                del self._groups[g]
            if head != old:
                if old is not None:
                    gone.append(old)
                if head is not None:
                    new.append(head)
        touched.clear()
        return gone, new

    def _head(self, g: Tuple, group: _Group) -> Tuple:
        try:
            return self._tell(g, group.vector, group.states)
        except Exception as e:
            raise RuleFailure(self.text, g, e) from e

    def shown(self) -> dict[Tuple, list[int]]:
        """The sums of what qualifies, group by group."""
        return {g: group.vector for g, group in self._groups.items()}

    def check(self) -> None:
        assert not self._touched, "a group has unpublished changes"
        assert all(group.vector[0] > 0 for group in self._groups.values()), "an empty or negative group is kept"
        assert all(self._head(g, group) == group.head for g, group in self._groups.items()), "a head is out of date"


class Copies:
    """The rows themselves; one that is there twice is told twice.

    >>> heads = Copies()
    >>> heads.change(("a", 1), [2], 1); heads.flush()
    ([], [('a', 1), ('a', 1)])
    """

    def __init__(self) -> None:
        self._weights: dict[Tuple, list[int]] = {}
        self._changes: dict[Tuple, int] = {}

    def change(self, key: Tuple, vector: Vector, sign: int) -> None:
        self._changes[key] = self._changes.get(key, 0) + sign * vector[0]

    def group(self, key: Tuple) -> Tuple:
        """The row behind a key: the key."""
        return key

    def flush(self) -> tuple[list[Tuple], list[Tuple]]:
        gone: list[Tuple] = []
        new: list[Tuple] = []
        for key, change in self._changes.items():
            if not change:
                continue
            left = self._weights.get(key, _NONE)[0] + change
            if left:
                self._weights[key] = [left]
            else:
                del self._weights[key]
            if change < 0:
                gone += [key] * -change
            else:
                new += [key] * change
        self._changes.clear()
        return gone, new

    def shown(self) -> dict[Tuple, list[int]]:
        """How often each row is there."""
        return self._weights

    def check(self) -> None:
        assert not self._changes, "rows have unpublished changes"
        assert all(weight[0] > 0 for weight in self._weights.values()), "a row with a negative weight"


_NONE = [0]
