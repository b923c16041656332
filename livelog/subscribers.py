"""Subscribers: who is called with the changes of a view, and in which order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from datalog.errors import LivelogError, Note
from livelog.changes import ChangeLog, Changes
from livelog.complete import refreshes

__all__ = ["Failure", "SubscriberProblem", "Subscribers"]

Rows = Callable[[str], Iterable[tuple[Any, ...]]]

SHOWN = 10  # failures that an error tells one by one


class Failure(NamedTuple):
    """What a subscriber raised when it was told of a transaction."""

    transaction: int
    relation: str
    error: Exception

    def __str__(self) -> str:
        return f"a subscriber of `{self.relation}` failed: {type(self.error).__name__}: {self.error}"


class SubscriberProblem(LivelogError):
    """Subscribers failed when they were told of transactions. These stand, and all others were told.

    `failures` are what they raised, each with its transaction and view.

    >>> print(SubscriberProblem([Failure(3, "r", ValueError("no room"))]))
    error: transaction 3 stands, but a subscriber of `r` failed: ValueError: no room
    """

    def __init__(self, failures: list[Failure]) -> None:
        self.failures = tuple(failures)
        first, last = failures[0].transaction, failures[-1].transaction
        stand = f"transaction {first} stands" if first == last else f"transactions {first} to {last} stand"
        if len(failures) == 1:
            super().__init__(f"{stand}, but {failures[0]}")
            return
        notes = [Note(f"transaction {failure.transaction}: {failure}") for failure in failures[:SHOWN]]
        if len(failures) > SHOWN:
            notes.append(Note(f"and {len(failures) - SHOWN} more"))
        super().__init__(f"{stand}, but subscribers failed {len(failures)} times", notes=notes)


class Subscription:
    """A callback, and the view it hears of: what changes, or the `whole`. One that has ended is never called again."""

    __slots__ = ("active", "callback", "relation", "whole")

    def __init__(self, relation: str, callback: Callable[[Changes], object], whole: bool = False) -> None:
        self.relation = relation
        self.callback = callback
        self.active = True
        self.whole = whole

    def end(self) -> None:
        """From anywhere and at any time: it takes no lock. The others are told apart at the next transaction."""
        self.active = False


class Notice(NamedTuple):
    """A transaction, and who has yet to hear of it. An iterator: whoever was called is not called again."""

    transaction: int
    left: Iterator[tuple[Changes, Subscription]]


class Subscribers:
    """The subscriptions of a session, and a queue of what they have yet to hear.

    `publish` is called with the session's lock held, so the queue has the order of transactions. `deliver` is called
    without it: one thread at a time calls subscribers, until the queue is empty. Whoever commits meanwhile, in another
    thread or in a callback, leaves it to that one and goes on.

    `queue` is to be looked at, `all` as well; both are changed here alone.
    """

    def __init__(self) -> None:
        self.all: tuple[Subscription, ...] = ()
        self.queue: deque[Notice] = deque()
        self._turn = threading.RLock()
        self._delivering = False

    def add(self, relation: str, callback: Callable[[Changes], object], whole: bool = False) -> Subscription:
        """A subscription, from the next transaction on. With the session's lock held."""
        subscription = Subscription(relation, callback, whole)
        self.all = (*self.all, subscription)
        return subscription

    def end(self, relations: Collection[str]) -> None:
        """These views are no more, and so nobody hears of them. With the session's lock held."""
        for subscription in self.all:
            if subscription.relation in relations:
                subscription.end()

    def relations(self) -> set[str]:
        """The views that somebody hears of. With the session's lock held."""
        self.all = tuple([s for s in self.all if s.active])
        return {s.relation for s in self.all}

    def publish(self, log: ChangeLog, rows: Rows) -> None:
        """Queue what a transaction changed, step by step, for those who subscribe now. With the session's lock held.

        `rows` tells what is in a view after the transaction.
        """
        told = self._told(log, rows)
        last = self.queue[-1].transaction if self.queue else None
        if told and last != log.transaction:  # an interrupt may have come when it was queued, and before that was known
            self.queue.append(Notice(log.transaction, iter(told)))

    def _told(self, log: ChangeLog, rows: Rows) -> list[tuple[Changes, Subscription]]:
        """Who is to be told what, in order of steps."""
        steps = log.steps
        if len(steps) == 1 and not any(s.whole for s in self.all):
            (step,) = steps
            return [(changes, s) for s in self.all if (changes := step[s.relation])]
        told: list[tuple[int, Changes, Subscription]] = []
        whole: dict[str, dict[int, Changes]] = {}
        for s in self.all:
            if s.whole and s.relation not in whole:
                changed = {i: changes for i, step in enumerate(steps) if (changes := step[s.relation])}
                after = rows(s.relation) if changed else ()
                whole[s.relation] = dict(zip(changed, refreshes(changed.values(), after), strict=True))
            found = whole[s.relation] if s.whole else {i: step[s.relation] for i, step in enumerate(steps)}
            told += [(i, changes, s) for i, changes in found.items() if changes]
        told.sort(key=itemgetter(0))
        return [(changes, s) for _, changes, s in told]

    def deliver(self) -> None:
        """Tell subscribers what is queued, unless somebody is at it; then raise what went wrong.

        An interrupt in a callback (Ctrl-C) lets what is queued at that moment be told, and is raised then; a second one
        is raised at once. What is left, the next transaction's delivery brings first.
        """
        failures: list[Failure] = []
        try:
            while self.queue and self._deliver(failures):
                pass  # again: somebody may have queued more in the last moment, and left it to this thread
        except BaseException as interrupt:
            if failures:
                raise interrupt from SubscriberProblem(failures)
            raise
        if failures:
            raise SubscriberProblem(failures) from failures[0].error

    def _deliver(self, failures: list[Failure]) -> bool:
        """Empty the queue. False if that is another's turn."""
        mine = False
        interrupt: BaseException | None = None
        try:
            with self._turn:
                if self._delivering:
                    return False
                self._delivering = mine = True  # together: an interrupt cannot come in between
            interrupt = self._empty(failures)
        finally:
            if mine:
                self._delivering = False
        if interrupt is not None:
            raise interrupt
        return True

    def _empty(self, failures: list[Failure]) -> BaseException | None:
        """Tell everything that is queued. Returns an interrupt that came, once what was queued then is told."""
        queue = self.queue
        interrupt: BaseException | None = None
        allowed = inf  # notices; after an interrupt, those that are there then
        while queue and allowed:
            notice = queue[0]
            for changes, subscription in notice.left:
                if not subscription.active:
                    continue
                try:
                    subscription.callback(changes)
                except Exception as error:
                    failures.append(Failure(notice.transaction, changes.relation, error))
                except BaseException as error:
                    if interrupt is not None:
                        raise
                    interrupt, allowed = error, len(queue)
            queue.popleft()
            allowed -= 1
        return interrupt
