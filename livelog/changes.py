"""What a transaction changed: in all, and step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from livelog.io.updates import operation_line
from livelog.io.values import format_row
from livelog.runtime.steps import PassedStep, time_of
from livelog.values import sort_key, sort_rows

__all__ = ["ChangeLog", "Changes", "Step", "SteppedLog", "modifications"]

Tuple = tuple[Any, ...]
Keys = Mapping[str, tuple[int, ...]]
Syncs = Mapping[str, frozenset[str]]

NONE: Mapping[str, Any] = {}


class Changes:
    """The net change of one view: what was inserted and what was deleted. False if nothing was.

    Nobody can change it: whoever asks gets lists of his own. They are sorted when they are first asked for: a large
    load does not pay for it.

    >>> c = Changes("r", [("b",), ("a",)], [])
    >>> c.inserted, c.deleted, bool(c)
    ([('a',), ('b',)], [], True)
    >>> c.inserted.clear(); c.inserted
    [('a',), ('b',)]
    """

    __slots__ = ("_clock", "_deleted", "_full", "_inserted", "_key", "_relation", "_sorted", "_transaction")

    def __init__(
        self,
        relation: str,
        inserted: list[Tuple],
        deleted: list[Tuple],
        transaction: int = 0,
        clock: float = 0.0,
        key: tuple[int, ...] = (),
        full: bool = True,
    ) -> None:
        self._relation = relation
        self._inserted = inserted
        self._deleted = deleted
        self._transaction = transaction
        self._clock = clock
        self._key = key
        self._full = full
        self._sorted = len(inserted) < 2 and len(deleted) < 2

    def _sort(self) -> None:
        """Two threads may do this at once: each puts the same rows in order, and none changes a list in place."""
        self._inserted = sort_rows(self._inserted)
        self._deleted = sort_rows(self._deleted)
        self._sorted = True

    @property
    def relation(self) -> str:
        """The view."""
        return self._relation

    @property
    def transaction(self) -> int:
        """The number of the transaction: 1 is the first after opening. Over Spark it is the one in the log."""
        return self._transaction

    @property
    def clock(self) -> float:
        """The time at which the clock stood after the transaction; of a step, the time of the step."""
        return self._clock

    @property
    def time(self) -> int | float:
        """The same as people write it: an int when it is whole."""
        return time_of(self._clock)

    @property
    def full(self) -> bool:
        """Whether everything that the view reads was synchronised at this time. A view without `at` always is full; the
        net change of several steps is if all of these are that changed the view."""
        return self._full

    @property
    def inserted(self) -> list[Tuple]:
        """The tuples that are in the view now and were not before, sorted. A list of the asker's own: O(changes)."""
        if not self._sorted:
            self._sort()
        return list(self._inserted)

    @property
    def deleted(self) -> list[Tuple]:
        """The tuples that were in the view and are not now, sorted. A list of the asker's own: O(changes)."""
        if not self._sorted:
            self._sort()
        return list(self._deleted)

    @property
    def operations(self) -> list[tuple[str, Tuple]]:
        """The same as modify operations, sorted by row: pairs of `+`, `u` or `-` and a row. O(changes)

        Of a view whose key is known, a tuple that takes the place of the one with its key is an update, `u`. The key is
        what `key(...)` declares, or the group columns of a view of head aggregates.

        >>> Changes("r", [("a", 2), ("b", 1)], [("a", 1), ("c", 3)], key=(0,)).operations
        [('u', ('a', 2)), ('+', ('b', 1)), ('-', ('c', 3))]
        """
        return modifications(self._inserted, self._deleted, self._key)

    def __bool__(self) -> bool:
        return bool(self._inserted or self._deleted)

    def __len__(self) -> int:
        return len(self._inserted) + len(self._deleted)

    def __repr__(self) -> str:
        return f"<Changes of {self._relation}: +{len(self._inserted)} -{len(self._deleted)}>"

    def __str__(self) -> str:
        lines = [f"-{format_row(self._relation, t)}" for t in self.deleted]
        return "\n".join(lines + [f"+{format_row(self._relation, t)}" for t in self.inserted])


def modifications(inserted: Iterable[Tuple], deleted: Iterable[Tuple], key: tuple[int, ...]) -> list[tuple[str, Tuple]]:
    """What was inserted and deleted as operations, sorted by row. O(changes)

    Where several tuples that came or went have the same key, it does not tell them apart: each stands for itself.

    >>> modifications([(1, 2)], [(1, 0), (1, 1)], (0,))
    [('-', (1, 0)), ('-', (1, 1)), ('+', (1, 2))]
    """
    came, went = list(inserted), list(deleted)
    found = [("+", t) for t in came] + [("-", t) for t in went]
    if key and came and went:
        known: dict[Tuple, list[tuple[str, Tuple]]] = {}
        for operation in found:
            known.setdefault(tuple([operation[1][i] for i in key]), []).append(operation)
        found = []
        for group in known.values():
            updated = len(group) == 2 and group[0][0] != group[1][0]  # what came stands before what went
            found += [("u", group[0][1])] if updated else group
    return _by_row(found)


def _by_row(operations: list[tuple[str, Tuple]]) -> list[tuple[str, Tuple]]:
    try:
        return sorted(operations, key=itemgetter(1))
    except TypeError:
        return sorted(operations, key=lambda operation: sort_key(operation[1]))


class ChangeLog(Mapping[str, Changes]):
    """The changes of all views in one transaction. Every view has an entry, changed or not.

    `transaction` and `clock` are those of its entries; `steps` tells them one by one.
    """

    __slots__ = ("_asked", "_clock", "_keys", "_sides", "_transaction", "_views")

    def __init__(
        self,
        views: tuple[str, ...],
        changes: Mapping[str, Iterable[list[Tuple]]],
        transaction: int = 0,
        clock: float = 0.0,
        keys: Keys = NONE,
    ) -> None:
        self._views = views
        self._sides = changes
        self._transaction = transaction
        self._clock = clock
        self._keys = keys
        self._asked: dict[str, Changes] = {}  # made when somebody asks: most programs have views that few look at

    @property
    def transaction(self) -> int:
        """The number of the transaction; 0 is the load at opening. Over Spark it is the one in the log."""
        return self._transaction

    @property
    def clock(self) -> float:
        """The time at which the clock stood after the transaction."""
        return self._clock

    @property
    def steps(self) -> tuple[Step, ...]:
        """What happened at each time, in order. Without synchronised reads and windows it is all done in one step."""
        if not self:
            return ()
        return (Step(self._views, self._sides, self._transaction, self._clock, self._keys),)

    def __getitem__(self, relation: str) -> Changes:
        changes = self._asked.get(relation)
        if changes is None:
            if relation not in self._views:
                raise KeyError(relation)
            inserted, deleted = self._sides.get(relation, ([], []))
            key = self._keys.get(relation, ())
            changes = Changes(relation, inserted, deleted, self._transaction, self._clock, key)
            self._asked[relation] = changes
        return changes

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __bool__(self) -> bool:
        """Whether any view changed."""
        return any(self.values())

    def __repr__(self) -> str:
        changed = [f"{c.relation}: +{len(c._inserted)} -{len(c._deleted)}" for c in self.values() if c]
        return f"<ChangeLog {', '.join(changed) or 'nothing'}>"

    def __str__(self) -> str:
        return "\n".join(str(c) for c in self.values() if c)


class _Synchronised(ChangeLog):
    """Changes of which some may not be full."""

    __slots__ = ()

    def __getitem__(self, relation: str) -> Changes:
        changes = self._asked.get(relation)
        if changes is None:
            changes = super().__getitem__(relation)
            changes._full = self._is_full(relation)  # nobody has seen it yet
        return changes

    def _is_full(self, relation: str) -> bool:
        """Whether a view was synchronised with everything it reads."""
        raise AssertionError("whoever inherits knows")


class Step(_Synchronised):
    """The changes of all views at one time of a transaction: a point that it passed, or where it stopped the clock.

    >>> step = Step(("r",), {"r": ([(1,)], [])}, 3, 8.0, NONE, frozenset(), {"r": frozenset({"e at s"})})
    >>> step.time, step.full, step["r"].full, step
    (8, False, False, <Step at 8, partial, r: +1 -0>)
    >>> print(step)
    @8 +r(1) partial
    """

    __slots__ = ("_points", "_syncs")

    def __init__(
        self,
        views: tuple[str, ...],
        changes: Mapping[str, Iterable[list[Tuple]]],
        transaction: int = 0,
        clock: float = 0.0,
        keys: Keys = NONE,
        points: frozenset[str] = frozenset(),
        syncs: Syncs = NONE,
    ) -> None:
        """`points` are the regulated reads of which this is a point, `syncs` by view those that it rests on."""
        super().__init__(views, changes, transaction, clock, keys)
        self._points = points
        self._syncs = syncs

    @property
    def time(self) -> int | float:
        """When it was: an int when it is whole."""
        return time_of(self._clock)

    @property
    def full(self) -> bool:
        """Whether this is a point of everything that the views which changed are synchronised with."""
        return all(self._is_full(name) for name in self._sides if name in self._views and self[name])

    @property
    def steps(self) -> tuple[Step, ...]:
        return (self,)

    def _is_full(self, relation: str) -> bool:
        return self._syncs.get(relation, frozenset()) <= self._points

    def __str__(self) -> str:
        """A line for each operation, with its time."""
        return "\n".join(
            operation_line(op, format_row(changes.relation, t), self._clock, changes.full)
            for changes in self.values()
            for op, t in changes.operations
        )

    def __repr__(self) -> str:
        changed = "".join(f", {c.relation}: +{len(c._inserted)} -{len(c._deleted)}" for c in self.values() if c)
        return f"<Step at {self.time}{'' if self.full else ', partial'}{changed or ', nothing'}>"


class SteppedLog(_Synchronised):
    """The changes of a transaction of a program in which more is true of the clock than what expires.

    Its steps are as the runtime told them until somebody asks.
    """

    __slots__ = ("_passed", "_steps", "_syncs")

    def __init__(
        self,
        views: tuple[str, ...],
        changes: Mapping[str, Iterable[list[Tuple]]],
        transaction: int,
        clock: float,
        keys: Keys,
        passed: tuple[PassedStep, ...],
        syncs: Syncs,
    ) -> None:
        super().__init__(views, changes, transaction, clock, keys)
        self._passed = passed
        self._syncs = syncs
        self._steps: tuple[Step, ...] | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        if self._steps is None:
            views, number, keys, syncs = self._views, self._transaction, self._keys, self._syncs
            self._steps = tuple(
                [Step(views, p.changes, number, p.time, keys, p.points, syncs) for p in self._passed]
            )
        return self._steps

    def _is_full(self, relation: str) -> bool:
        return all(step._is_full(relation) for step in self.steps if step[relation])
