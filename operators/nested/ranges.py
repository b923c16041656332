"""Which keys qualify, for one value of an equality: where the threshold lies, or where a running sum passes it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from operators.errors import RuleFailure
from operators.nested.answers import Answers
from operators.nested.cuts import BOTTOM, NOTHING, TOP, Cut, Range, passing
from operators.nested.gather import Limit
from operators.nested.outer import Outer
from operators.nested.running import Running, Sums
from operators.source import HIGHEST

__all__ = ["COMPARE", "AtSum", "AtThreshold", "Lifted", "Ranges"]

Tuple = tuple[Any, ...]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Ranges(Protocol):
    """What decides, for the outer rows of one value of the equality, which qualify."""

    def receive(self, rows: Any) -> None:
        """Inner rows came or went."""

    def settle(self) -> dict[Any, Any]:
        """Take the rows over; the values for which the range may be another now."""

    def apply(self, e: Any, scalars: Tuple, outer: Outer) -> None:
        """Tell the outer rows of a value which of them qualify."""

    def qualifies(self, e: Any, key: Any, scalars: Tuple) -> bool:
        """Whether one key does, told by computing it from scratch."""

    def size(self) -> int:
        """How many entries are kept."""

    def check(self) -> None: ...


class AtThreshold:
    """`key op threshold`: the key is a value of the outer row, the threshold one of the answer for its like.

    Without `answers` the threshold is made of scalars alone.
    """

    def __init__(self, op: str, threshold: Limit, answers: Answers | None) -> None:
        self._op = op
        self._threshold = threshold
        self._answers = answers

    def receive(self, rows: Any) -> None:
        assert self._answers is not None
        self._answers.receive(rows)

    def settle(self) -> dict[Any, Any]:
        return {} if self._answers is None else self._answers.settle()

    def _value(self, e: Any, scalars: Tuple) -> Any:
        return self._threshold(scalars if self._answers is None else (self._answers.of(e), *scalars))

    def apply(self, e: Any, scalars: Tuple, outer: Outer) -> None:
        outer.show(passing(self._op, self._value(e, scalars)))

    def qualifies(self, e: Any, key: Any, scalars: Tuple) -> bool:
        threshold = self._value(e, scalars)
        return threshold is not None and COMPARE[self._op](key, threshold)

    def size(self) -> int:
        return 0 if self._answers is None else len(self._answers)

    def check(self) -> None:
        if self._answers is not None:
            self._answers.check()


@dataclass(frozen=True, slots=True)
class Lifted:
    """What is compared is a function of the sum that goes one way with it: it grows, or it `falls`."""

    function: Callable[[Any], Any]
    falls: bool


class AtSum:
    """`value op threshold`, where the value is made of a running sum over the inner rows up to (or from) the key.

    While no inner value is negative, running sums go one way along the keys. So the keys that qualify are a range, and
    its ends are found by going down the tree of the inner rows, in O(log n): where the sum passes the threshold. The
    outer rows have an index of their own, by their own keys: these need not be keys of inner rows, and rows of volume
    zero tell no two keys apart by their sums, but by themselves. With negative values every key is tried, in O(n).
    """

    def __init__(self, text: str, op: str, threshold: Limit, sums: Sums, lifted: Lifted | None = None) -> None:
        self._text = text
        self._op = op
        self._threshold = threshold
        self._sums = sums
        self._lifted = None if lifted is None else lifted.function
        self._grows = (lifted is not None and lifted.falls) == sums.from_above
        self._plain = sums.plain and lifted is None
        self._side = 0 if sums.inclusive else 1
        self._inclusive = op == ">="
        self._upwards = self._plain and op in (">", ">=")  # the common case: keys pass from where the sum itself does
        self.receive = sums.receive
        self.settle = sums.settle
        self._running = sums.of

    def _value(self, below: int, total: int) -> Any:
        """What is compared, where the inner rows below come to so much."""
        summed = self._sums.value(below, total)
        return summed if self._lifted is None else self._lifted(summed)

    def apply(self, e: Any, scalars: Tuple, outer: Outer) -> None:
        threshold = self._threshold(scalars)
        if threshold is None:
            outer.show(NOTHING)
            return
        running = self._running(e)
        if running.negatives or not self._shown(running, threshold, outer):
            outer.pick(set(self._tried(e, list(outer.keys()), threshold)))

    def _shown(self, running: Running, threshold: Any, outer: Outer) -> bool:
        """Show the keys that qualify as a range. False if a sum cannot be computed: then each key is on its own."""
        total = running.total
        try:
            # the largest sum there is: if even that can be computed, all can
            if not self._plain or total > HIGHEST:
                self._value(0 if self._sums.from_above else total, total)
            if self._upwards:
                outer.show((running.cut_above(threshold, self._inclusive, self._side), TOP))
            else:
                outer.show(self._range(running, threshold))
        except ArithmeticError:
            return False
        return True

    def _range(self, running: Running, threshold: Any) -> Range:
        low, high = passing(self._op, threshold)
        total = running.total
        if self._grows:
            return self._cut(running, low, total), self._cut(running, high, total)
        return self._cut(running, high, total), self._cut(running, low, total)

    def _cut(self, running: Running, at: Cut, total: int) -> Cut:
        """The cut between outer keys that belongs to a cut between values."""
        if len(at) == 1:
            return at if self._grows else TOP if at == BOTTOM else BOTTOM
        _, threshold, after = at
        if self._plain:
            return running.cut_above(threshold, not after, self._side)
        if self._grows:
            passed = self._passed(COMPARE[">" if after else ">="], threshold, total)
        else:
            passed = self._passed(COMPARE["<=" if after else "<"], threshold, total)
        return running.cut(passed, self._side)

    def _passed(self, compare: Callable[[Any, Any], bool], threshold: Any, total: int) -> Callable[[int], bool]:
        value = self._value
        return lambda below: compare(value(below, total), threshold)

    def _tried(self, e: Any, keys: list[Any], threshold: Any) -> list[Any]:
        """Those of the keys that qualify, each of them tried."""
        holds, lifted = COMPARE[self._op], self._lifted
        try:
            sums = self._sums.each(e, keys)
            compared = sums if lifted is None else [lifted(summed) for summed in sums]
            return [key for key, value in zip(keys, compared, strict=True) if holds(value, threshold)]
        except Exception as error:
            raise RuleFailure(self._text, None, error) from error

    def qualifies(self, e: Any, key: Any, scalars: Tuple) -> bool:
        threshold = self._threshold(scalars)
        return threshold is not None and bool(self._tried(e, [key], threshold))

    def size(self) -> int:
        return self._sums.size()

    def check(self) -> None:
        self._sums.check()
