"""GroupBy: head aggregates, group by group, under insertions and deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from operators.errors import RuleFailure
from operators.monoids import Monoid

__all__ = ["GroupBy"]

Tuple = tuple[Any, ...]


class GroupBy:
    """The groups of one rule on one partition.

    A contribution is a tuple (group columns..., arguments...) with a weight. `layout` puts the head together
    from (group columns..., results...). `before` holds, for groups touched since the last `flush`, the head
    that they had.

    >>> from operators.monoids import Count, Sum
    >>> g = GroupBy("", 1, (Count, Sum), (0, 1, 2))
    >>> g.update([(("a", None, 5), 1), (("a", None, 2), 1)]); g.flush()
    ([], [('a', 2, 7)])
    >>> g.update([(("a", None, 5), -1)]); g.flush()
    ([('a', 2, 7)], [('a', 1, 2)])
    """

    def __init__(
        self, text: str, group: int, aggregates: tuple[Callable[[], Monoid], ...], layout: tuple[int, ...]
    ) -> None:
        self.text = text
        self._width = group
        self._aggregates = aggregates
        self._layout = layout
        self._groups: dict[Tuple, list[Monoid]] = {}
        self._before: dict[Tuple, Tuple | None] = {}

    def update(self, contributions: Iterable[tuple[Tuple, int]]) -> None:
        """Let contributions in or take them out. O(1) each, O(log n) for min and max of large groups."""
        width, groups, before = self._width, self._groups, self._before
        for row, weight in contributions:
            if not weight:  # a batch that gave and took the same
                continue
            g = row[:width]
            states = groups.get(g)
            if g not in before:
                before[g] = None if states is None else self._head(g, states)
            if states is None:
                states = groups[g] = [make() for make in self._aggregates]
            for state, value in zip(states, row[width:], strict=True):
                state.add(value, weight)

    def flush(self) -> tuple[list[Tuple], list[Tuple]]:
        """The heads that are no longer true and those that are now, since the last call."""
        gone: list[Tuple] = []
        new: list[Tuple] = []
        for g, old in self._before.items():
            states = self._groups[g]
            head: Tuple | None = None
            if states[0].count:
                head = self._head(g, states)
            else:
                del self._groups[g]
            if head != old:
                if old is not None:
                    gone.append(old)
                if head is not None:
                    new.append(head)
        self._before.clear()
        return gone, new

    def _head(self, g: Tuple, states: list[Monoid]) -> Tuple:
        try:
            entries = (*g, *[state.result() for state in states])
        except Exception as e:
            raise RuleFailure(self.text, g, e) from e
        return tuple([entries[i] for i in self._layout])

    def stats(self) -> dict[str, int]:
        return {"groups": len(self._groups)}

    def check(self) -> None:
        """Assert that no empty group is kept and nothing is unpublished."""
        assert not self._before, "a group has unpublished changes"
        assert all(states[0].count > 0 for states in self._groups.values()), "an empty or negative group is kept"
