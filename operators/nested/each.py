"""Each: rows that pass a comparison of any form, every distinct one tried whenever something that it compares changes.

The general algorithm of the paper's section 4.2, in one operator: a *bound* map for each aggregate (its inner rows,
added up by what ties them to an outer row) and a *free* map of the outer rows (added up by all that the comparison
reads of them). The answers for all free keys are computed together, from sorted running sums, so that a change costs
O(keys · log n), and a small constant: two binary searches and a few bytecodes a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any, Protocol

from operators.errors import RuleFailure
from operators.expr import Expr
from operators.guard import guarded
from operators.nested.answers import Answers
from operators.nested.heads import Heads
from operators.nested.running import Sums
from operators.nested.verify import verify
from operators.source import Source, key_of

__all__ = ["Asked", "Each", "EachAnswer", "EachSum", "trial"]

Tuple = tuple[Any, ...]
Vector = Sequence[int]


class Asked(Protocol):
    """One aggregate, asked about many free keys."""

    def receive(self, rows: Any) -> None:
        """Inner rows came or went."""

    def settle(self) -> Callable[[Tuple], bool] | None:
        """Take the rows over; which keys may have another answer now, None if none has."""

    def of_all(self, keys: Sequence[Tuple]) -> list[Any]:
        """The answer for each key, None where there is none."""

    def size(self) -> int: ...

    def check(self) -> None: ...


class EachAnswer:
    """An aggregate that is tied to the outer row by equations: `equal` are their columns of the free key."""

    def __init__(self, answers: Answers, equal: Sequence[int]) -> None:
        self._answers = answers
        self._equal = equal

    def receive(self, rows: Any) -> None:
        self._answers.receive(rows)

    def settle(self) -> Callable[[Tuple], bool] | None:
        return _concerned(self._answers.settle(), self._equal)

    def of_all(self, keys: Sequence[Tuple]) -> list[Any]:
        of, kind = self._answers.of, key_of(self._equal)
        return [of(kind(key)) for key in keys]

    def size(self) -> int:
        return len(self._answers)

    def check(self) -> None:
        self._answers.check()


class EachSum:
    """A running sum; `column` is that of its key in the free key, `equal` are those of its equations."""

    def __init__(self, sums: Sums, equal: Sequence[int], column: int) -> None:
        self._sums = sums
        self._equal = equal
        self._column = column

    def receive(self, rows: Any) -> None:
        self._sums.receive(rows)

    def settle(self) -> Callable[[Tuple], bool] | None:
        return _concerned(self._sums.settle(), self._equal)

    def of_all(self, keys: Sequence[Tuple]) -> list[Any]:
        column, equal = self._column, self._equal
        if not equal:
            return self._sums.each(None, [key[column] for key in keys])
        found: list[Any] = [None] * len(keys)
        kinds: dict[Any, list[int]] = {}
        kind_of = key_of(equal)
        for i, key in enumerate(keys):
            kinds.setdefault(kind_of(key), []).append(i)
        for kind, places in kinds.items():
            for i, value in zip(places, self._sums.each(kind, [keys[i][column] for i in places]), strict=True):
                found[i] = value
        return found

    def size(self) -> int:
        return self._sums.size()

    def check(self) -> None:
        self._sums.check()


def _concerned(touched: dict[Any, None], equal: Sequence[int]) -> Callable[[Tuple], bool] | None:
    """Whether a key is of a kind that was touched."""
    if not touched:
        return None
    if not equal:
        return _all
    kind = key_of(equal)
    return lambda key: kind(key) in touched


def _all(key: Tuple) -> bool:
    return True


class Each:
    """The outer rows by their free key, and which of these pass.

    >>> from operators.expr import Apply, Col
    >>> from operators.monoids import Sum
    >>> from operators.nested.gather import gather_outer, gather_running
    >>> from operators.nested.heads import Copies
    >>> kernel = gather_running((), (), Col(0), Col(1), "number")
    >>> below, above = (                                  # q(a) :- r(a, b), sum of b up to a > sum of b from a on.
    ...     EachSum(Sums("", kernel, op, "number"), (), 0) for op in ("<=", ">=")
    ... )
    >>> test = trial(Apply(">", int.__gt__, (Col(1), Col(2)), ">"), 1, (False, False))
    >>> q = Each("", gather_outer((), (), (Col(0),), (Col(0),), ()), [below, above], test, Copies())
    >>> rows = [((1, 10), 1), ((2, 20), 1), ((3, 5), 1)]
    >>> q.change_outer(rows); q.taker(0)(rows); q.taker(1)(rows); q.settle((), False)
    ([], [(2,), (3,)])
    """

    def __init__(
        self,
        text: str,
        kernel: Callable[..., None],
        asked: Sequence[Asked],
        test: Callable[..., list[bool]],
        heads: Heads,
    ) -> None:
        self.text = text
        self._kernel = kernel
        self._asked = asked
        self._test = test
        self._heads = heads
        self._free: dict[Tuple, dict[Tuple, Vector]] = {}
        self._passing: dict[Tuple, None] = {}
        self._pending: dict[Any, list[int]] = {}
        self._scalars: Tuple = ()

    def change_outer(self, rows: Any) -> None:
        """Outer rows came or went."""
        guarded(self.text, self._kernel, rows, self._pending)

    def taker(self, number: int = 0) -> Callable[[Any], None]:
        """What takes in changes of the inner rows of one of the aggregates."""
        return self._asked[number].receive

    def settle(self, scalars: Tuple, changed: bool) -> tuple[list[Tuple], list[Tuple]]:
        """All is in, and the scalars are these: the heads that fall and those that rise."""
        self._scalars = scalars
        touched: dict[Tuple, None] = {}
        for (_, key, group), vector in self._pending.items():
            if any(vector):
                touched[key] = None
                self._put(key, group, vector)
        self._pending.clear()
        concerned = [concerns for asked in self._asked if (concerns := asked.settle()) is not None]
        if changed or _all in concerned:
            present = list(self._free)
        else:
            present = [key for key in self._free if key in touched or any(concerns(key) for concerns in concerned)]
        for key, passes in zip(present, self._tried(present), strict=True):
            if passes != (key in self._passing):
                self._turn(key, passes)
        return self._heads.flush()

    def _put(self, key: Tuple, group: Tuple, vector: Vector) -> None:
        """Change what is there of a key; what has passed so far is told at once."""
        if key in self._passing:
            self._heads.change(group, vector, 1)
        groups = self._free.setdefault(key, {})
        left = list(map(add, groups[group], vector)) if group in groups else vector
        if any(left):
            groups[group] = left
        else:
            del groups[group]
        if not groups:
            del self._free[key]
            self._passing.pop(key, None)

    def _turn(self, key: Tuple, passes: bool) -> None:
        if passes:
            self._passing[key] = None
        else:
            del self._passing[key]
        for group, vector in self._free[key].items():
            self._heads.change(group, vector, 1 if passes else -1)

    def _tried(self, keys: list[Tuple]) -> list[bool]:
        """Whether each of the keys passes."""
        if not keys:
            return []
        if None in self._scalars:
            return [False] * len(keys)
        try:
            return self._test(keys, self._scalars, *[asked.of_all(keys) for asked in self._asked])
        except Exception as e:
            if len(keys) == 1:
                raise RuleFailure(self.text, keys[0], e) from e
        return [self._tried([key])[0] for key in keys]  # to name the one that raises

    def items(self) -> Iterator[Any]:
        """All that is kept of the outer rows."""
        return ((key, group, vector) for key, groups in self._free.items() for group, vector in groups.items())

    def stats(self) -> dict[str, int]:
        return {"outer keys": len(self._free), "inner keys": sum(asked.size() for asked in self._asked)}

    def check(self) -> None:
        """Assert that what passes, tried one by one, is what the heads were told."""
        assert not self._pending, "outer rows are not taken over"
        for asked in self._asked:
            asked.check()
        passing = {key for key in self._free if self._tried([key])[0]}
        assert passing == self._passing.keys(), "what passes is not what passed"
        verify(self._heads, ((g, vector) for key in passing for g, vector in self._free[key].items()))


def trial(comparison: Expr, free: int, partial: Sequence[bool]) -> Callable[..., list[bool]]:
    """The loop `(keys, scalars, answers of each key...)` that tries keys.

    The comparison is over the row (`free` columns of the key, answers, scalars); `partial` says which answers may be
    missing.

    >>> from operators.expr import Apply, Col
    >>> trial(Apply("<", int.__lt__, (Col(0), Col(1)), "<"), 1, (True,))([(1,), (2,), (3,)], (), [5, None, 3])
    [True, False, False]
    """
    source = Source()
    count = len(partial)

    def column(i: int) -> str:
        if i < free:
            return f"t[{i}]"
        return f"a{i - free}" if i < free + count else f"scalars[{i - free - count}]"

    names = [f"a{i}" for i in range(count)]
    guards = [f"{name} is not None and " for name, missing in zip(names, partial, strict=True) if missing]
    condition = "".join(guards) + source.expression(comparison, column)
    source.line(0, f"def test({', '.join(['keys', 'scalars', *(f'all_{name}' for name in names)])}):")
    if names:
        lists = ", ".join(["keys", *(f"all_{name}" for name in names)])
        source.line(1, f"return [{condition} for {', '.join(['t', *names])} in zip({lists}, strict=True)]")
    else:
        source.line(1, f"return [{condition} for t in keys]")
    return source.compile("test")  # type: ignore[no-any-return]
