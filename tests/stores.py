"""Sessions that are kept in a folder, and a model that says what must be in them.

Transaction k of a model is the same whenever it is run, and says so by its position, so that a session tells by
`session.position("feed")` where it stands; what it must hold then is worked out by the oracle.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import livelog
from livelog.store.followers import Follower, followed
from livelog.store.layout import Layout
from tests.cases import program_of
from tests.faults import facts_of
from tests.harness import apply
from tests.oracle import Base, Operation, Row, evaluate

__all__ = ["FACTS", "SMALL", "SMALL_FACTS", "TEXT", "Model", "assert_adds_up", "assert_right", "read"]

TEXT = """
.decl link(x: number, y: number)
.decl node(x: number, name: symbol) ttl(10)
.decl share(x: number, n: number) key(x)
.decl seen(x: number, v: float) bag
reach(x, y) :- link(x, y).
reach(x, y) :- reach(x, z), link(z, y).
lone(x, s) :- node(x, s), !reach(x, _).
times(x, count<*>, sum<v>) :- seen(x, v).
fair(x, n) :- share(x, n), n > 1.
.output reach
.output lone
.output times
.output share
"""
FACTS: dict[str, list[Row]] = {
    "link": [(1, 2), (2, 3)],
    "node": [(1, "one"), (4, "four")],
    "share": [(1, 2), (2, 1)],
    "seen": [(1, 0.5), (1, 0.5), (2, -0.0)],
}
SMALL = """
.decl link(x: number, y: number)
.decl share(x: number, n: number) key(x)
reach(x, y) :- link(x, y).
reach(x, y) :- reach(x, z), link(z, y).
.output reach
.output share
"""
"""What is opened fast."""
SMALL_FACTS: dict[str, list[Row]] = {"link": [(1, 2), (2, 3)], "share": [(1, 2), (2, 1)]}
WORDS = ("", "one", "zwei", "drei\n", "×")


class Model:
    """The transactions of a session, and what follows from them."""

    def __init__(self, seed: int, text: str = TEXT, facts: Mapping[str, list[Row]] = FACTS) -> None:
        self.seed = seed
        self.program = program_of(text)
        base = Base(self.program)
        base.load(facts)
        self._bases = [base]
        self._views: dict[int, dict[str, set[Row]]] = {}
        self.numbers: dict[int, int] = {0: 0}
        """The positions of the transactions whose numbers are known."""

    def step(self, k: int) -> list[Operation]:
        """The operations of transaction k."""
        rng = random.Random(f"{self.seed} {k}")
        operations: list[Operation] = []
        if rng.random() < 0.3:
            operations.append(("advance", k * 0.7))
        for _ in range(rng.choice((1, 1, 2, 5))):
            name = rng.choice([name for name in ("link", "link", "node", "share", "seen") if name in self.program.base])
            row: Row = {
                "link": (rng.randrange(6), rng.randrange(6)),
                "node": (rng.randrange(5), rng.choice(WORDS)),
                "share": (rng.randrange(4), rng.randrange(3)),
                "seen": (rng.randrange(3), rng.choice((0.5, -1.25, 1e300))),
            }[name]
            operations.append((rng.choice(("insert", "insert", "delete")), name, row))
        if rng.random() < 0.15:  # as batches
            operations += [("delete", "link", (i, j)) for i in range(6) for j in range(2)]
            if "seen" in self.program.base:
                operations += [("insert", "seen", (i % 3, 0.5)) for i in range(6)]
        return operations

    def base(self, k: int) -> Base:
        """The facts after transaction k."""
        while len(self._bases) <= k:
            base = self._bases[-1].copy()
            base.apply(self.step(len(self._bases)))
            self._bases.append(base)
        return self._bases[k]

    def views(self, k: int) -> dict[str, set[Row]]:
        """What follows from them."""
        if k not in self._views:
            self._views[k] = evaluate(self.program, self.base(k).facts())
        return self._views[k]

    def commit(self, session: livelog.Session, k: int) -> int:
        """Run transaction k; returns its number."""
        with session.transaction(source="feed", position=k) as tx:
            apply(tx, self.step(k))
        number = tx.changes.transaction
        assert number is not None
        self.numbers[number] = k
        return number

    def at(self, number: int) -> int:
        """The position of the last transaction up to a number."""
        return max(k for n, k in self.numbers.items() if n <= number)


def read(layout: Layout, view: str, since: int | None = None, name: str | None = None) -> list[Any]:
    """What is kept of the changes of a view: (number, inserted, deleted)."""
    follower = Follower(layout, view, since, name)
    try:
        return list(follower.changes())
    finally:
        follower.close()


def assert_right(session: livelog.Session, model: Model, least: int, most: int) -> int:
    """The session is as after one of these transactions, in all that it shows; returns which."""
    k = session.position("feed")
    assert least <= k <= most, f"it stands at {k}, and not between {least} and {most}"
    base, views = model.base(k), model.views(k)
    assert facts_of(session) == base.facts() and session.clock == base.clock
    for name in (*model.program.derived, *model.program.base):
        assert set(session[name]) == views[name], name
    session.check()
    session._with_journal.journal.flush()
    layout = Layout(session.directory)
    for view in followed(layout):
        assert_adds_up(layout, view, model, k)
    return k


def assert_adds_up(layout: Layout, view: str, model: Model, k: int) -> None:
    """The changes of a view lead from what is kept first to where it is after transaction k, without gap or repeat.

    And whoever reads them from some number on, reads the same.
    """
    everything = read(layout, view)
    numbers = [number for number, _, _ in everything]
    assert numbers == sorted(set(numbers)), "each transaction comes once, in order"
    first = Follower(layout, view)
    begin = first.number + 1
    first.close()
    rows = set() if begin in numbers else set(model.views(model.at(begin))[view])
    known = sorted(number for number, at in model.numbers.items() if number >= begin and at <= k)
    upcoming = iter(known)
    due = next(upcoming, None)
    for number, inserted, deleted in [*everything, (None, [], [])]:
        while due is not None and (number is None or due < number):
            assert rows == model.views(model.numbers[due])[view], f"{view} after {due}"
            due = next(upcoming, None)
        assert rows.issuperset(deleted) and len(set(deleted)) == len(deleted), f"{view} loses at {number}: {deleted}"
        rows.difference_update(deleted)
        assert rows.isdisjoint(inserted) and len(set(inserted)) == len(inserted), f"{view} gains at {number}"
        rows.update(inserted)
    assert rows == model.views(k)[view], f"the changes of {view} do not add up to it"
    for since in random.Random(begin).sample(known, min(3, len(known))):
        assert read(layout, view, since) == [change for change in everything if change[0] > since]
