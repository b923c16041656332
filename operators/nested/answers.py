"""Answers: one aggregate of the inner rows for each value of an equality, as it stands when all changes are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from operators.expr import Expr
from operators.guard import guarded, taking
from operators.monoids import Linear, Monoid
from operators.nested.gather import Equal, gather_sums, gather_total, gather_values
from operators.nested.measures import Measures
from operators.source import Source

__all__ = ["Answers", "FedAnswers", "SummedAnswer", "SummedAnswers", "answers"]


class Answers(Protocol):
    """The answers of one aggregate."""

    def receive(self, rows: Any) -> None:
        """Inner rows came or went."""

    def settle(self) -> dict[Any, None]:
        """All rows are in: take them over. The equal values whose answer may have changed."""

    def of(self, e: Any) -> Any:
        """The answer for one value, None if there is none."""

    def __len__(self) -> int: ...

    def check(self) -> None: ...


def answers(
    text: str,
    where: Sequence[Expr],
    equal: Equal,
    aggregate: tuple[Callable[[], Monoid], Expr | None, str],
    default: Any,
) -> Answers:
    """The answers of an aggregate `(make, argument, type of the argument)`, kept in the cheapest way that does."""
    make, value, _ = aggregate
    if isinstance(make(), Linear):
        measures = Measures([aggregate])
        if not equal:
            return SummedAnswer(text, gather_total(where, measures.entries), measures, default)
        return SummedAnswers(text, gather_sums(where, equal, measures.entries), measures, default)
    return FedAnswers(text, gather_values(where, equal, value), make, default)


class SummedAnswers:
    """An aggregate that is told from sums: those are kept, by the values that are equal.

    >>> from operators.expr import Col
    >>> from operators.monoids import Avg
    >>> a = answers("", (), (Col(0),), (Avg, Col(1), "number"), None)
    >>> a.receive([(("a", 5), 1), (("a", 6), 1)]); list(a.settle()), a.of("a"), a.of("b")
    (['a'], 5.5, None)
    """

    def __init__(self, text: str, kernel: Callable[..., None], measures: Measures, default: Any) -> None:
        self._tell = measures.telling(0, (0,))
        self._default = default
        self._sums: dict[Any, list[int]] = {}
        self._pending: dict[Any, list[int]] = {}
        self._merge = _merging(measures.width)
        self.receive = taking(text, kernel, self._pending)

    def settle(self) -> dict[Any, None]:
        pending = self._pending
        self._merge(pending, self._sums)
        touched = dict.fromkeys(pending)
        pending.clear()
        return touched

    def of(self, e: Any) -> Any:
        sums = self._sums.get(e)
        return self._default if sums is None or not sums[0] else self._tell((), sums, None)[0]

    def __len__(self) -> int:
        return len(self._sums)

    def check(self) -> None:
        assert not self._pending, "inner rows are not taken over"
        assert all(sums[0] > 0 for sums in self._sums.values()), "an empty or negative sum is kept"


@lru_cache(maxsize=64)
def _merging(width: int) -> Callable[[dict[Any, list[int]], dict[Any, list[int]]], None]:
    """The loop that adds changes to sums, written out; what has no rows left is dropped."""
    source = Source()
    source.line(0, "def merge(changes, sums):")
    source.line(1, "find = sums.get")
    source.line(1, "for e, change in changes.items():")
    source.line(2, "old = find(e)")
    source.line(2, "if old is None:")
    source.line(3, "if change[0]: sums[e] = change")
    source.line(3, "continue")
    for i in range(width):
        source.line(2, f"old[{i}] += change[{i}]")
    source.line(2, "if not old[0]: del sums[e]")
    return source.compile("merge")  # type: ignore[no-any-return]


class SummedAnswer:
    """The same where nothing has to be equal: there is one answer, and rows are added to its sums at once.

    >>> from operators.expr import Col
    >>> from operators.monoids import Sum
    >>> a = answers("", (), (), (Sum, Col(1), "number"), 0)
    >>> a.of(None), a.receive([(("a", 5), 1), (("a", 6), 1)]), a.settle(), a.of(None), a.settle()
    (0, None, {None: None}, 11, {})
    """

    def __init__(self, text: str, kernel: Callable[..., None], measures: Measures, default: Any) -> None:
        self._tell = measures.telling(0, (0,))
        self._default = default
        self._sums = [0] * measures.width
        self._settled = self._sums.copy()
        self.receive = taking(text, kernel, self._sums)

    def settle(self) -> dict[Any, None]:
        if self._sums == self._settled:
            return {}
        self._settled = self._sums.copy()
        return {None: None}

    def of(self, e: Any) -> Any:
        sums = self._sums
        return self._tell((), sums, None)[0] if sums[0] else self._default

    def __len__(self) -> int:
        return 1 if self._sums[0] else 0

    def check(self) -> None:
        assert self._sums == self._settled, "inner rows are not taken over"
        assert self._sums[0] > 0 or not any(self._sums), "a sum of nothing, or of less"


class FedAnswers:
    """States by the values that are equal; what has no rows has no state.

    `default` is the answer of nothing: 0 for sums and counts, None where there is none.

    >>> from operators.expr import Col
    >>> from operators.monoids import Extreme
    >>> a = answers("", (), (Col(0),), (lambda: Extreme(largest=True), Col(1), "number"), None)
    >>> a.receive([(("a", 5), 1), (("a", 6), 1)]); list(a.settle()), a.of("a"), a.of("b")
    (['a'], 6, None)
    """

    def __init__(
        self, text: str, kernel: Callable[..., None], make: Callable[[], Monoid], default: Any
    ) -> None:
        self._text = text
        self._kernel = kernel
        self._make = make
        self._default = default
        self._states: dict[Any, Monoid] = {}
        self._pending: dict[Any, list[tuple[Any, int]]] = {}

    def receive(self, rows: Any) -> None:
        guarded(self._text, self._kernel, rows, self._pending)

    def settle(self) -> dict[Any, None]:
        touched: dict[Any, None] = {}
        states = self._states
        for e, pairs in self._pending.items():
            touched[e] = None
            state = states.get(e)
            if state is None:
                state = states[e] = self._make()
            if len(pairs) > 1 and all(weight == 1 for _, weight in pairs):
                state.add_all([value for value, _ in pairs])
            else:
                for value, weight in pairs:
                    state.add(value, weight)
            if not state.count:
                del states[e]
        self._pending.clear()
        return touched

    def of(self, e: Any) -> Any:
        state = self._states.get(e)
        return self._default if state is None else state.result()

    def __len__(self) -> int:
        return len(self._states)

    def check(self) -> None:
        assert not self._pending, "inner rows are not taken over"
        assert all(state.count > 0 for state in self._states.values()), "an empty or negative state is kept"
