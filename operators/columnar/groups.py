"""ColumnGroups: the heads of groups whose sums are columns of whole numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from operators.columnar.loops import Answer, flushing
from operators.columnar.numbers import Numbers
from operators.errors import RuleFailure
from operators.source import key_of

__all__ = ["ColumnGroups"]

Tuple = tuple[Any, ...]

MANY = 32  # groups that are worth the start of numpy


class ColumnGroups(Collection[Tuple]):
    """What `operators.groupby.GroupBy` is, for sums of whole numbers. As a collection, it is that of the heads told.

    `numbers` has the groups, by the key of their columns. Their first column is how many rows use them, and `sums` are
    the next ones, `width` in number: those who know what to add do so there, and `touch` the group. Heads are no tuples
    before somebody asks: there is a column that says whether a group has told one, and others with its results.

    >>> groups = ColumnGroups("", 1, [("count", 0), ("avg", 1)], (0, 1, 2), 2); g = groups.numbers["a"]
    >>> count, total = groups.sums; count[g] += 2; total[g] += 5; groups.touched.add(g); groups.flush()
    ([], [('a', 2, 2.5)])
    >>> total[g] += 1; groups.touched.add(g); groups.flush(), list(groups)
    (([('a', 2, 2.5)], [('a', 2, 3.0)]), [('a', 2, 3.0)])
    """

    def __init__(
        self, text: str, group: int, answers: Sequence[Answer], layout: Sequence[int], width: int
    ) -> None:
        self.text = text
        self.touched: set[int] = set()
        self.touched_too: list[Any] = []  # arrays of numbers
        self._group = group
        self._answers = answers
        self._layout = layout
        self._width = width
        self._told = 0
        self._group_of = key_of([layout.index(k) for k in range(group)])
        shown = "".join("d" if kind == "avg" else "q" for kind, _ in answers)
        self.numbers = Numbers("q" + "q" * width + "b" + shown)
        self._flush = flushing(group, answers, layout, width)

    @property
    def uses(self) -> Any:
        return self.numbers.columns[0]

    @property
    def sums(self) -> list[Any]:
        return self.numbers.columns[1 : 1 + self._width]

    @property
    def told(self) -> Any:
        """Whether a group has a head."""
        return self.numbers.columns[1 + self._width]

    @property
    def shown(self) -> list[Any]:
        """The results in the heads."""
        return self.numbers.columns[2 + self._width :]

    def row(self, number: int) -> Tuple:
        """The columns of a group."""
        name = self.numbers.names[number]
        return name if self._group > 1 else (name,) if self._group else ()

    # --- what has changed ---

    def flush(self) -> tuple[list[Tuple], list[Tuple]]:
        """The heads that are no longer true and those that are now, since the last call."""
        touched, self.touched = self.touched, set()
        arrays, self.touched_too = self.touched_too, []
        if arrays or (len(touched) > MANY and not isinstance(self.uses, list)):
            from operators.columnar.arrays import flush_many

            gone, new = flush_many(self, self._answers, touched, arrays)
        else:
            gone, new = self._flush_few(touched)
        self._told += len(new) - len(gone)
        return gone, new

    def _flush_few(self, touched: set[int]) -> tuple[list[Tuple], list[Tuple]]:
        gone: list[Tuple] = []
        new: list[Tuple] = []
        numbers = self.numbers
        try:
            self._flush(sorted(touched), numbers.names, numbers.columns, numbers.give_back, gone, new)
        except Exception as e:
            raise self._failure(touched, e) from e
        return gone, new

    def _failure(self, touched: Iterable[int], error: Exception) -> RuleFailure:
        """The error with the group that raises it."""
        numbers = self.numbers
        for g in sorted(touched):
            try:
                self._flush([g], numbers.names, numbers.columns, numbers.give_back, [], [])
            except Exception as again:
                return RuleFailure(self.text, self.row(g), again)
        return RuleFailure(self.text, None, error)

    def columns(self, numbers: Sequence[int]) -> list[list[Any]]:
        """The columns of some groups, each as a list."""
        names = list(map(self.numbers.names.__getitem__, numbers))
        if self._group > 1:
            return [list(map(itemgetter(k), names)) for k in range(self._group)]
        return [names] * self._group

    def heads(self, columns: list[list[Any]], results: list[list[Any]]) -> list[Tuple]:
        """The heads of groups with these columns and these results."""
        whole = columns + results
        return list(zip(*[whole[k] for k in self._layout], strict=True))

    def widen(self) -> None:
        """Make room for sums of any size; what has been touched so far is few from now on."""
        self.touched.update(*(numbers.tolist() for numbers in self.touched_too))
        self.touched_too = []
        self.numbers.widen()

    # --- looking in ---

    def __iter__(self) -> Iterator[Tuple]:
        return iter(self._heads([number for number, told in enumerate(self.told) if told]))

    def _heads(self, numbers: Sequence[int]) -> list[Tuple]:
        return self.heads(self.columns(numbers), [[column[g] for g in numbers] for column in self.shown])

    def __len__(self) -> int:
        return self._told

    def __contains__(self, head: Any) -> bool:
        g = self.numbers.get(self._group_of(head))
        if g is None or not self.told[g]:
            return False
        return bool(self._heads([g]) == [head])

    def kept(self) -> Iterator[Any]:
        """The groups and their sums, as plain values."""
        for g in self.numbers.values():
            yield self.row(g)
            yield from [column[g] for column in self.sums]

    def stats(self) -> dict[str, int]:
        return {"groups": self._told}

    def check(self) -> None:
        """Assert that no group is kept for nothing, and that what is told is what the sums say."""
        assert not self.touched and not self.touched_too, "a group has unpublished changes"
        self.numbers.check()
        for g in self.numbers.values():
            sums = [column[g] for column in self.sums]
            assert self.uses[g] > 0 <= sums[0], "an empty or negative group is kept"
            assert bool(self.told[g]) == bool(sums[0]), "a head is missing, or should be"
            assert [column[g] for column in self.shown] == self._answered(sums), "a head is not up to date"
        assert self._told == sum(map(bool, self.told)), "the heads are miscounted"

    def _answered(self, sums: list[int]) -> list[Any]:
        """What the results of a group with these sums are; 0 if there are none."""
        return [sums[0] and (sums[k] / sums[0] if kind == "avg" else sums[k]) for kind, k in self._answers]
