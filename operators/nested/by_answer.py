"""ByAnswer: rows that qualify by an aggregate over their like, all rows of a kind together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, neg
from typing import Any

from operators.errors import RuleFailure
from operators.guard import guarded
from operators.nested.answers import Answers
from operators.nested.cuts import passing
from operators.nested.gather import Limit
from operators.nested.heads import Heads
from operators.nested.outer import Entry, Outer
from operators.nested.ranges import COMPARE
from operators.nested.verify import verify

__all__ = ["ByAnswer"]

Tuple = tuple[Any, ...]
Vector = list[int]


class _Kind:
    """The outer rows with one value of the equality: their sums by group, and the key under which these are entered.

    Where there is no index to enter them into, it `passes` or does not.
    """

    __slots__ = ("key", "passes", "sums")

    def __init__(self) -> None:
        self.sums: dict[Tuple, Vector] = {}
        self.key: Any = None
        self.passes = False

    def add(self, changes: dict[Tuple, Vector]) -> bool:
        """Change the sums; whether anything is left."""
        sums = self.sums
        for group, vector in changes.items():
            left = list(map(add, sums[group], vector)) if group in sums else vector
            if any(left):
                sums[group] = left
            else:
                del sums[group]
        return bool(sums)


class ByAnswer:
    """`key op threshold`, where the key is computed from the answer for the row's kind, and the threshold from scalars.

    The index over the kinds has the aggregate itself as its key (the PAI map of the paper's section 2.1, an RPAI tree
    where the comparison is not an equation). A changed row moves its kind from one key to another: O(1) or O(log n),
    times the groups of that kind. If the threshold is a constant no index is needed (None): a kind passes or does not.
    """

    def __init__(
        self,
        text: str,
        kernel: Callable[..., None],
        answers: Answers,
        key: Callable[..., Any] | None,
        op: str,
        threshold: Limit,
        heads: Heads,
        index: Outer | None,
    ) -> None:
        self.text = text
        self._kernel = kernel
        self._answers = answers
        self._key = key
        self._op = op
        self._threshold = threshold
        self._heads = heads
        self._index = index
        self._kinds: dict[Any, _Kind] = {}
        self._pending: dict[Any, Vector] = {}
        self._scalars: Tuple = ()

    def change_outer(self, rows: Any) -> None:
        """Outer rows came or went."""
        guarded(self.text, self._kernel, rows, self._pending)

    def taker(self, number: int = 0) -> Callable[[Any], None]:
        """What takes in changes of the inner rows."""
        return self._answers.receive

    def settle(self, scalars: Tuple, changed: bool) -> tuple[list[Tuple], list[Tuple]]:
        """All is in, and the scalars are these: the heads that fall and those that rise."""
        self._scalars = scalars
        changes: dict[Any, dict[Tuple, Vector]] = {}
        for (e, _, group), vector in self._pending.items():
            if any(vector):
                changes.setdefault(e, {})[group] = vector
        self._pending.clear()
        touched = self._answers.settle()
        for e in changes:
            touched[e] = None
        if self._index is None:
            self._pass(touched, changes)
        else:
            self._enter(touched, changes, self._index)
        return self._heads.flush()

    def _pass(self, touched: dict[Any, None], changes: dict[Any, dict[Tuple, Vector]]) -> None:
        """Tell which kinds pass a constant."""
        holds, change, key_of, find = COMPARE[self._op], self._heads.change, self._key_of, self._kinds.get
        threshold: Any = None
        for e in touched:
            kind, rows = find(e), changes.get(e) if changes else None
            if kind is None:
                if rows is None:
                    continue
                kind = self._kinds[e] = _Kind()
            if threshold is None:
                threshold = self._threshold(())
            passed = kind.passes
            if rows is not None:
                if passed:
                    for group, vector in rows.items():
                        change(group, vector, 1)
                if not kind.add(rows):
                    del self._kinds[e]
                    continue
            kind.key = key = key_of(e)
            kind.passes = passes = key is not None and holds(key, threshold)
            if passes is not passed:
                for group, vector in kind.sums.items():
                    change(group, vector, 1 if passes else -1)

    def _enter(self, touched: dict[Any, None], changes: dict[Any, dict[Tuple, Vector]], index: Outer) -> None:
        """Enter the kinds under their keys, and show the range that passes."""
        moves: list[Entry] = []
        for e in touched:
            self._move(e, changes.get(e, {}), moves)
        if len(moves) > 8:
            index.load(moves)
        else:
            for move in moves:
                index.add(*move)
        if self._kinds:
            index.show(passing(self._op, self._threshold(self._scalars)))
        elif moves:
            index.show(passing(self._op, None))

    def _move(self, e: Any, changes: dict[Tuple, Vector], moves: list[Entry]) -> None:
        """Bring a kind to the key of its answer, with the changes of its rows."""
        kind = self._kinds.get(e)
        if kind is None:
            if not changes:
                return
            kind = self._kinds[e] = _Kind()
        sums, old = kind.sums, kind.key
        before = dict(sums)
        if not kind.add(changes):
            del self._kinds[e]
        kind.key = key = self._key_of(e) if sums else None
        if key == old:
            if key is not None:
                moves += [(key, group, vector) for group, vector in changes.items()]
            return
        if old is not None:
            moves += [(old, group, list(map(neg, vector))) for group, vector in before.items()]
        if key is not None:
            moves += [(key, group, vector) for group, vector in sums.items()]

    def _key_of(self, e: Any) -> Any:
        try:
            answer = self._answers.of(e)
            return answer if answer is None or self._key is None else self._key(answer)
        except Exception as error:
            raise RuleFailure(self.text, e if isinstance(e, tuple) else (e,), error) from error

    def items(self) -> Iterator[Any]:
        """All that is kept of the outer rows."""
        return ((e, group, vector) for e, kind in self._kinds.items() for group, vector in kind.sums.items())

    def stats(self) -> dict[str, int]:
        return {"outer keys": len(self._kinds), "inner keys": len(self._answers)}

    def check(self) -> None:
        """Assert that what qualifies, tried kind by kind, is what the heads were told."""
        assert not self._pending, "outer rows are not taken over"
        self._answers.check()
        if self._index is not None:
            self._index.check()
        threshold = self._threshold(self._scalars) if self._kinds else None
        qualifying: list[tuple[Tuple, Vector]] = []
        for e, kind in self._kinds.items():
            assert kind.sums and all(any(v) for v in kind.sums.values()), "an empty kind is kept"
            assert kind.key == self._key_of(e), "a kind stands at the wrong key"
            if kind.key is not None and threshold is not None and COMPARE[self._op](kind.key, threshold):
                qualifying += kind.sums.items()
        verify(self._heads, qualifying)
