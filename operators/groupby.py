"""GroupBy: head aggregates, group by group, under insertions and deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from operators.errors import RuleFailure
from operators.monoids import Monoid
from operators.source import Source, tuple_text

__all__ = ["GroupBy", "Sums"]

Tuple = tuple[Any, ...]

Sums = tuple[tuple[tuple[int, int], ...], ...]
"""How the vector of a linear state is made of a contribution's: per entry, a sum of (coefficient, entry) pairs."""


class GroupBy:
    """The groups of one rule on one partition.

    A contribution is a tuple (group columns..., arguments...) with a vector of partial sums (`operators.sums`), or with
    a plain weight where there is nothing to sum. `sums` says how linear aggregates read the vector; the others
    take one argument each, with the weight. `layout` puts the head together from (group columns..., results...).

    A group is a list of the head that was last told and the states. `_touched` are the groups that have had
    contributions since.

    >>> from operators.monoids import Count, Sum
    >>> g = GroupBy("", 1, (Count, Sum), (0, 1, 2))
    >>> g.update([(("a", None, 5), 1), (("a", None, 2), 1)]); g.flush()
    ([], [('a', 2, 7)])
    >>> g.update([(("a", None, 5), -1)]); g.flush()
    ([('a', 2, 7)], [('a', 1, 2)])

    The same with the sums made beforehand, ready for `Sum.absorb`:

    >>> g = GroupBy("", 1, (Count, Sum), (0, 1, 2), ((((1, 0),),), (((1, 0),), ((1, 1),), (), (), ())))
    >>> g.update([(("a",), [2, 7])]); g.update([(("a",), [-1, -5])]); g.flush()
    ([], [('a', 1, 2)])
    """

    def __init__(
        self,
        text: str,
        group: int,
        aggregates: tuple[Callable[[], Monoid], ...],
        layout: tuple[int, ...],
        sums: Sequence[Sums | None] = (),
    ) -> None:
        self.text = text
        sums = sums or [None] * len(aggregates)
        self._update = _updating(group, sums, aggregates)
        self._head = _heading(group, layout)
        self._groups: dict[Tuple, list[Any]] = {}
        self._touched: dict[Tuple, list[Any]] = {}

    def update(self, contributions: Iterable[tuple[Tuple, Any]]) -> None:
        """Let contributions in or take them out. O(1) each, O(log n) for min and max of large groups."""
        self._update(contributions, self._groups, self._touched)

    def flush(self) -> tuple[list[Tuple], list[Tuple]]:
        """The heads that are no longer true and those that are now, since the last call."""
        gone: list[Tuple] = []
        new: list[Tuple] = []
        make = self._head
        for g, group in self._touched.items():
            old = group[0]
            if group[1].count:
                try:
                    head = make(g, group)
                except Exception as e:
                    raise RuleFailure(self.text, g, e) from e
                if head != old:
                    group[0] = head
                    new.append(head)
                    if old is not None:
                        gone.append(old)
            else:
                del self._groups[g]
                if old is not None:
                    gone.append(old)
        self._touched.clear()
        return gone, new

    def kept(self) -> Iterator[Any]:
        """The groups and their states, as plain values."""
        for g, (_, *states) in self._groups.items():
            yield g
            for state in states:
                yield from state.kept()

    def stats(self) -> dict[str, int]:
        return {"groups": len(self._groups)}

    def check(self) -> None:
        """Assert that no empty group is kept and nothing is unpublished."""
        assert not self._touched, "a group has unpublished changes"
        assert all(group[1].count > 0 for group in self._groups.values()), "an empty or negative group is kept"


def _updating(
    width: int, sums: Sequence[Sums | None], aggregates: Sequence[Callable[[], Monoid]]
) -> Callable[..., None]:
    """The loop of `update`, written out: `(contributions, groups, touched)`."""
    source = Source()
    bare = all(i == 0 for entries in sums if entries is not None for entry in entries for _, i in entry)
    empty = ", ".join(f"{source.name(make, 'f')}()" for make in aggregates)
    source.line(0, "def update(contributions, groups, touched):")
    source.line(1, "find = groups.get")
    source.line(1, "for row, p in contributions:")
    arguments = sum(entries is None for entries in sums)
    source.line(2, f"g = row[:{width}]" if arguments else "g = row")
    if bare:
        source.line(2, "if not p: continue")  # a batch that gave and took the same
    source.line(2, "group = find(g)")
    source.line(2, f"if group is None: group = groups[g] = [None, {empty}]")
    source.line(2, "touched[g] = group")
    position = width
    for i, entries in enumerate(sums):
        if entries is None:
            # rows that come and go may leave sums and no weight
            guard, weight = ("", "p") if bare else ("if p[0]: ", "p[0]")
            source.line(2, f"{guard}group[{i + 1}].add(row[{position}], {weight})")
            position += 1
        else:
            vector = tuple_text([_sum_text(entry, bare) for entry in entries])
            source.line(2, f"group[{i + 1}].absorb({vector}, 1)")
    return source.compile("update")  # type: ignore[no-any-return]


def _sum_text(entry: tuple[tuple[int, int], ...], bare: bool) -> str:
    terms = [("" if c == 1 else f"{c} * ") + ("p" if bare else f"p[{i}]") for c, i in entry]
    return " + ".join(terms) or "0"


def _heading(width: int, layout: tuple[int, ...]) -> Callable[[Tuple, list[Any]], Tuple]:
    """A function of a group's columns and its states, that makes the head."""
    source = Source()
    entries = [f"g[{k}]" if k < width else f"group[{k - width + 1}].result()" for k in layout]
    source.line(0, "def head(g, group):")
    source.line(1, f"return {tuple_text(entries)}")
    return source.compile("head")  # type: ignore[no-any-return]
