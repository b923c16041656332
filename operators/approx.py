"""Relations whose tuples are published anew only when their values have moved by more than a threshold.

No value that is shown is ever further off than the threshold, however many small changes there are. An evaluation from
scratch must come to the same result, since what is shown is what was published. So the next one is told what the last
commit showed (its `memory`), and shows that again where it is still close enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from operators.delta import Delta
from operators.groupby import GroupBy
from operators.kernels import key_of

__all__ = ["Approx", "ApproxGroups"]

Tuple = tuple[Any, ...]
Some = tuple[Tuple, ...]
"""The tuples with one key, in the order of their values; nearly always just one."""


class Approx:
    """What is shown of a relation that is kept exactly elsewhere.

    The columns of a tuple are its key, and `values`, which are numbers. `_exact` has the tuples as they should be, by
    key; `_shown` has them as they were published. A key's tuples are published anew when there are more or fewer of
    them than before, or one value differs by more than the threshold from the one that is shown; till then nobody who
    reads the relation learns of any change.

    >>> a = Approx(2, (1,), 0.5)
    >>> a.publish(Delta([("x", 1.0), ("y", 2.0)], [])).gained
    [('x', 1.0), ('y', 2.0)]
    >>> a.commit(); a.publish(Delta([("x", 1.4), ("y", 3.0)], [("x", 1.0), ("y", 2.0)])).items()
    [(('y', 2.0), -1), (('y', 3.0), 1)]
    >>> list(a.rows), a.exact_of(("x", 1.0))
    ([('x', 1.0), ('y', 3.0)], ('x', 1.4))
    """

    def __init__(
        self, arity: int, values: tuple[int, ...], threshold: float, memory: Mapping[Any, Some] | None = None
    ) -> None:
        self.rows: dict[Tuple, int] = {}
        self._values = values
        self._threshold = threshold
        self._key = key_of([c for c in range(arity) if c not in values])
        self._order = key_of(values)
        self._exact: dict[Any, Some] = {}
        self._shown: dict[Any, Some] = {}
        self._before: dict[Any, Some | None] = {}  # what was shown at the last commit, where that has changed
        self._memory = memory

    def publish(self, delta: Delta) -> Delta:
        """Take in a change of the exact tuples; the change of what is shown. O(1) a tuple."""
        key, exact = self._key, self._exact
        touched: dict[Any, None] = {}
        for t in delta.lost:
            k = key(t)
            touched[k] = None
            known = exact[k]
            if len(known) == 1:
                del exact[k]
            else:
                exact[k] = tuple([u for u in known if u != t])
        for t in delta.gained:
            k = key(t)
            touched[k] = None
            exact[k] = tuple(sorted((*exact[k], t), key=self._order)) if k in exact else (t,)
        gained: list[Tuple] = []
        lost: list[Tuple] = []
        shown, c, threshold = self._shown, self._values[0], self._threshold
        sole = len(self._values) == 1
        for k in touched:
            if sole and k in shown and k in exact:  # one value, and nearly always one tuple: most are close
                old, new = shown[k], exact[k]
                if len(old) == len(new) == 1 and -threshold <= old[0][c] - new[0][c] <= threshold:
                    continue
            self._show(k, gained, lost)
        return Delta(gained, lost)

    def _show(self, k: Any, gained: list[Tuple], lost: list[Tuple]) -> None:
        old = self._shown.get(k)
        new = self._exact.get(k)
        last = old if old is not None or self._memory is None else self._memory.get(k)
        if new is not None and last is not None and self._all_close(last, new):
            new = last
        if new is old or new == old:
            return
        self._before.setdefault(k, old)
        if new is None:
            del self._shown[k]
        else:
            self._shown[k] = new
        for t in old or ():
            if new is None or t not in new:
                lost.append(t)
                del self.rows[t]
        for t in new or ():
            if t not in self.rows:
                gained.append(t)
                self.rows[t] = 1

    def _all_close(self, one: Some, other: Some) -> bool:
        return len(one) == len(other) and all(
            _close(t, u, self._values, self._threshold) for t, u in zip(one, other, strict=True)
        )

    def commit(self) -> None:
        """What is shown now is what was published."""
        self._before.clear()
        self._memory = None

    def remembered(self) -> Mapping[Any, Some]:
        """What the last commit showed, for the next evaluation from scratch. This one is of no use afterwards."""
        if self._memory is not None:
            return self._memory
        for k, old in self._before.items():
            if old is None:
                self._shown.pop(k, None)
            else:
                self._shown[k] = old
        return self._shown

    def remember(self, rows: Iterable[Tuple]) -> None:
        """Let the evaluation that comes show these tuples where they are close enough: another one shows them."""
        memory: dict[Any, Some] = {}
        for t in sorted(rows, key=self._order):
            memory[self._key(t)] = (*memory.get(self._key(t), ()), t)
        self._memory = memory

    def exact_of(self, t: Tuple) -> Tuple | None:
        """The exact tuple behind one that is shown; None if there is none."""
        k = self._key(t)
        shown, exact = self._shown.get(k, ()), self._exact.get(k, ())
        if not exact:
            return None
        return exact[min(shown.index(t), len(exact) - 1) if t in shown else 0]

    def check(self, exact: Iterable[Tuple]) -> None:
        """Assert that what is shown is as close to the exact tuples as is promised."""
        assert {t for some in self._exact.values() for t in some} == set(exact), "an exact tuple is missing"
        assert self._exact.keys() == self._shown.keys(), "a key is not shown, or should not be"
        assert self.rows.keys() == {t for some in self._shown.values() for t in some}, "rows are not what is shown"
        assert all(self._all_close(some, self._exact[k]) for k, some in self._shown.items()), "a value is too far off"
        assert not self._before and self._memory is None, "something is not committed"


class ApproxGroups:
    """The same for the heads of groups, which themselves keep what is shown and hold small changes back.

    So a group that has moved a little costs no tuple. `values` are results of the groups, and all results that are
    none are the same while a head stands.

    >>> from operators.monoids import Sum
    >>> groups = GroupBy("", 1, (Sum,), (0, 1)); a = ApproxGroups(groups, (1,), 2)
    >>> groups.update([(("x", 5), 1)]); gone, new = groups.flush(); a.publish(Delta(new, gone)).gained
    [('x', 5)]
    >>> a.commit(); groups.update([(("x", 1), 1)]); gone, new = groups.flush(); bool(a.publish(Delta(new, gone)))
    False
    >>> list(a.rows), a.exact_of(("x", 5)), a.remembered()
    ([('x', 5)], ('x', 6), {'x': ('x', 5)})
    """

    def __init__(
        self, groups: GroupBy, values: tuple[int, ...], threshold: float, memory: Mapping[Any, Tuple] | None = None
    ) -> None:
        groups.approximate(values, threshold)
        self.rows = groups
        self._values = values
        self._threshold = threshold
        self._memory = memory

    def publish(self, delta: Delta) -> Delta:
        """Take in what the groups tell; what is shown of it. Where that stood at the last commit, it still does."""
        if not self._memory:
            return delta
        group_of = self.rows.group_of
        known = set(map(group_of, delta.lost))
        gained: list[Tuple] = []
        for head in delta.gained:
            g = group_of(head)
            last = None if g in known else self._memory.get(g)
            if last is not None and self._stands(last, head):
                self.rows.tell(last)
                head = last
            gained.append(head)
        return Delta(gained, delta.lost)

    def _stands(self, shown: Tuple, exact: Tuple) -> bool:
        values = self._values
        if any(a != b for c, (a, b) in enumerate(zip(shown, exact, strict=True)) if c not in values):
            return False
        return _close(shown, exact, values, self._threshold)

    def commit(self) -> None:
        """What is shown now is what was published."""
        self.rows.since = []
        self._memory = None

    def remembered(self) -> Mapping[Any, Tuple]:
        """What the last commit showed, for the next evaluation from scratch."""
        if self._memory is not None:
            return self._memory
        group_of = self.rows.group_of
        memory = {group_of(head): head for head in self.rows}
        for gone, new in reversed(self.rows.since or []):
            for head in new:
                memory.pop(group_of(head), None)
            for head in gone:
                memory[group_of(head)] = head
        return memory

    def remember(self, rows: Iterable[Tuple]) -> None:
        """Let the evaluation that comes show these tuples where they are close enough: another one shows them."""
        self._memory = {self.rows.group_of(t): t for t in rows}

    def exact_of(self, t: Tuple) -> Tuple | None:
        """The exact tuple behind one that is shown; None if there is none."""
        return self.rows.exact(self.rows.group_of(t))

    def check(self) -> None:
        """Assert that what is shown is as close to the exact tuples as is promised."""
        for shown in self.rows:
            exact = self.exact_of(shown)
            assert exact is not None and self._stands(shown, exact), "a value is too far off"
        assert not self.rows.since and self._memory is None, "something is not committed"


def _close(one: Tuple, other: Tuple, values: tuple[int, ...], threshold: float) -> bool:
    return all(-threshold <= one[c] - other[c] <= threshold for c in values)
