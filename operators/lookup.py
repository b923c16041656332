"""Lookup: what a relation says about a key. Negation and body aggregates, in recursive components and outside.

The left side of a rule asks about keys: is there no matching row? what is the sum over the matching rows?
The answers are tuples (key..., value) of a relation of their own, which the left side then joins.
Only keys that are asked about are kept, and a change of the inner relation costs the keys that it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from operators.errors import RuleFailure
from operators.expr import Expr
from operators.monoids import Count, Monoid
from operators.source import Source, key_of

__all__ = ["Lookup", "matcher"]

Tuple = tuple[Any, ...]
Weights = Iterable[tuple[Tuple, int]]
Matcher = Callable[[Tuple, Weights], list[tuple[Any, int]]]
"""Of rows with weights, those that match a key: what each contributes, with its weight."""


def matcher(where: Sequence[Expr], width: int, value: Expr | None) -> Matcher:
    """The loop over rows that may match a key of `width` columns. `where` and `value` are over the key and the row.

    >>> from operators.expr import Apply, Col
    >>> upto = matcher((Apply("<=", int.__le__, (Col(1), Col(0)), "<="),), 1, Col(2))
    >>> upto((5,), [((4, "a"), 1), ((6, "b"), 1)])
    [('a', 1)]
    """
    source = Source()

    def column(i: int) -> str:
        return f"t[{i}]" if i < width else f"u[{i - width}]"

    contribution = "None" if value is None else source.expression(value, column)
    conditions = " and ".join(source.expression(w, column) for w in where)
    source.line(0, "def match(t, batch):")
    source.line(1, f"return [({contribution}, w) for u, w in batch{f' if {conditions}' if conditions else ''}]")
    return source.compile("match")  # type: ignore[no-any-return]


class Lookup:
    """The questions of one rule on one partition.

    A row matches a key if its `inner_key` columns equal the first columns of the key, and `matching` says so.
    `make` makes an empty state; None asks for absence, and the answer is then the key alone.

    >>> absent = Lookup("", (0,), matcher((), 1, None), None)
    >>> absent.ask([("a",), ("b",)])
    [('a',), ('b',)]
    >>> absent.change([(("a", 1), 1)]); absent.settle()
    ([('a',)], [])
    """

    def __init__(
        self,
        text: str,
        inner_key: tuple[int, ...],
        matching: Matcher,
        make: Callable[[], Monoid] | None,
        default: Any = None,
    ) -> None:
        self.text = text
        self._match = key_of(inner_key)
        self._prefix = key_of(tuple(range(len(inner_key))))
        self._matching = matching
        self._absence = make is None
        self._make: Callable[[], Monoid] = make or Count
        self._default = default
        self._keys: dict[Tuple, Monoid] = {}
        self._by_match: dict[Any, dict[Tuple, None]] = {}
        self._inner: dict[Any, dict[Tuple, int]] = {}
        self._before: dict[Tuple, list[Tuple]] = {}  # the answers of the keys touched since the last `settle`

    def ask(self, keys: Iterable[Tuple]) -> list[Tuple]:
        """The answers to keys that were not asked about before. O(rows that share their first columns)."""
        answers: list[Tuple] = []
        for key in keys:
            if key in self._keys:
                continue
            state = self._keys[key] = self._make()
            match = self._prefix(key)
            self._by_match.setdefault(match, {})[key] = None
            for value, weight in self._matches(key, self._inner.get(match, {}).items()):
                state.add(value, weight)
            answers.extend(self._answer(key, state))
        return answers

    def forget(self, keys: Iterable[Tuple]) -> list[Tuple]:
        """Nobody asks about these keys any more; returns the answers, as of the last `settle`, that fall away."""
        answers: list[Tuple] = []
        for key in keys:
            state = self._keys.pop(key, None)
            if state is not None:
                before = self._before.pop(key, None)
                answers.extend(self._answer(key, state) if before is None else before)
                match = self._prefix(key)
                same = self._by_match[match]
                del same[key]
                if not same:
                    del self._by_match[match]
        return answers

    def change(self, rows: Iterable[tuple[Tuple, int]]) -> None:
        """Rows of the inner relation came or went. The answers follow with `settle`: halfway through a
        transaction they could be about rows that are never there together.

        O(1) a row, and O(changed rows) in a tight loop for each key that shares their first columns."""
        changed: dict[Any, list[tuple[Tuple, int]]] = {}
        for row, weight in rows:
            match = self._match(row)
            changed.setdefault(match, []).append((row, weight))
            same = self._inner.setdefault(match, {})
            left = same.get(row, 0) + weight
            if left:
                same[row] = left
            else:
                del same[row]
                if not same:
                    del self._inner[match]
        keys, before = self._keys, self._before
        for match, batch in changed.items():
            for key in self._by_match.get(match, ()):
                found = self._matches(key, batch)
                if found:
                    state = keys[key]
                    if key not in before:
                        before[key] = self._answer(key, state)
                    for value, weight in found:
                        state.add(value, weight)

    def settle(self) -> tuple[list[Tuple], list[Tuple]]:
        """All rows of the transaction are in: the answers that no longer hold, and the new ones."""
        gone: list[Tuple] = []
        new: list[Tuple] = []
        for key, old in self._before.items():
            now = self._answer(key, self._keys[key])
            if now != old:
                gone.extend(old)
                new.extend(now)
        self._before.clear()
        return gone, new

    def _matches(self, key: Tuple, batch: Weights) -> list[tuple[Any, int]]:
        """What the rows that match a key contribute; if one raises, the error names it."""
        try:
            return self._matching(key, batch)
        except Exception as error:
            for entry in batch:
                try:
                    self._matching(key, [entry])
                except Exception as e:
                    raise RuleFailure(self.text, entry[0], e) from e
            raise RuleFailure(self.text, key, error) from error

    def _answer(self, key: Tuple, state: Monoid) -> list[Tuple]:
        if self._absence:
            return [] if state.count else [key]
        try:
            result = state.result() if state.count else self._default
        except Exception as e:
            raise RuleFailure(self.text, key, e) from e
        return [] if result is None else [(*key, result)]

    def rows(self) -> Iterator[Tuple]:
        """What is kept: the keys and the inner rows."""
        yield from self._keys
        for rows in self._inner.values():
            yield from rows

    def stats(self) -> dict[str, int]:
        return {"keys": len(self._keys), "rows": sum(map(len, self._inner.values()))}

    def check(self) -> None:
        """Assert that every key's state equals what its rows say."""
        assert not self._before, "answers are not settled"
        for key, state in self._keys.items():
            fresh = self._make()
            for value, weight in self._matches(key, self._inner.get(self._prefix(key), {}).items()):
                fresh.add(value, weight)
            assert self._answer(key, fresh) == self._answer(key, state), f"the answer for {key} is wrong"
        assert all(w > 0 for rows in self._inner.values() for w in rows.values()), "a negative weight"
