"""Base tables against the plainest model of them: a dict, a clock, and a copy of both to go back to."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from operators.base import BaseTable

Row = tuple[Any, ...]


class Model:
    """Facts with their multiplicity and expiry; `key` is the number of columns that are a key."""

    def __init__(self, key: int, ttl: float | None, bag: bool) -> None:
        self.key, self.ttl, self.bag = key, ttl, bag
        self.rows: dict[Row, int] = {}
        self.expiry: dict[Row, float] = {}
        self.ignored = [0, 0]

    def insert(self, t: Row, now: float) -> None:
        for u in list(self.rows):
            if self.key and u != t and u[: self.key] == t[: self.key]:
                self.remove(u)
        if t in self.rows and not self.bag:
            self.ignored[0] += 1
        else:
            self.rows[t] = self.rows.get(t, 0) + 1
        if self.ttl is not None:
            self.expiry[t] = now + self.ttl

    def delete(self, t: Row) -> None:
        if t not in self.rows:
            self.ignored[1] += 1
        elif self.rows[t] > 1:
            self.rows[t] -= 1
        else:
            self.remove(t)

    def remove(self, t: Row) -> None:
        del self.rows[t]
        self.expiry.pop(t, None)

    def expire(self, now: float) -> None:
        for t, when in list(self.expiry.items()):
            if when <= now:
                self.remove(t)


KINDS = {
    "set": (0, None, False),
    "key": (1, None, False),
    "ttl": (0, 5.0, False),
    "key-ttl": (1, 5.0, False),
    "bag": (0, None, True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_histories_with_rollbacks(kind: str, seed: int) -> None:
    key, ttl, bag = KINDS[kind]
    rng = random.Random(seed)
    table, model = BaseTable(tuple(range(key)), ttl, bag), Model(key, ttl, bag)
    clock = 0.0
    for _ in range(150):
        before, clock_before = copy.deepcopy(model), clock
        for _ in range(rng.randint(0, 6)):
            t = (rng.randrange(4), rng.randrange(3))
            action = rng.random()
            if action < 0.5:
                table.insert(t, clock)
                model.insert(t, clock)
            elif action < 0.8:
                table.delete(t)
                model.delete(t)
            else:
                clock += rng.choice([0.0, 1.0, 2.5, 6.0])
                table.expire(clock)
                model.expire(clock)
            assert table.rows == model.rows
        changed = {t: n for t in model.rows.keys() | before.rows if (n := model.rows.get(t, 0) - before.rows.get(t, 0))}
        net = table.net()
        assert dict(net) == changed and len(net) == len(changed)
        if rng.random() < 0.4:
            table.rollback()
            model, clock = before, clock_before
        else:
            table.commit()
        table.check()
        assert table.rows == model.rows
        assert table._expires == model.expiry, "a rollback restores the hour of every fact"
        assert [table.ignored_inserts, table.ignored_deletes] == model.ignored
        assert table.net() == []
        if ttl is not None:
            assert {(w, t) for w, _, t in table._heap} >= {(w, t) for t, w in model.expiry.items()}


def test_refreshing_does_not_pile_up() -> None:
    """Each refresh leaves an outdated entry; they are swept before they outweigh the facts."""
    table = BaseTable(ttl=10)
    for now in range(2000):
        for i in range(10):
            table.insert((i,), float(now))
        table.commit()
    assert len(table._heap) <= 80
    table.expire(2008.0)
    assert len(table.rows) == 10
    table.expire(2009.0)
    assert not table.rows


def test_sweeping_inside_a_transaction_that_is_rolled_back() -> None:
    table = BaseTable(ttl=10)
    for i in range(100):
        table.insert((i,), 0.0)
    table.commit()
    for i in range(100):
        table.delete((i,))
    for now in range(200):
        table.insert(("other",), float(now))
    table.rollback()
    table.check()
    table.expire(9.5)
    assert len(table.rows) == 100
    table.expire(10.0)
    assert not table.rows


def test_an_expiry_is_rolled_back_and_comes_again() -> None:
    table = BaseTable(ttl=3)
    table.insert(("a",), 0.0)
    table.commit()
    for _ in range(3):
        table.expire(3.0)
        assert table.net() == [(("a",), -1)]
        table.rollback()
        assert table.rows == {("a",): 1}
    table.expire(3.0)
    table.commit()
    assert not table.rows and not table._heap


def test_a_key_moves_and_comes_back() -> None:
    table = BaseTable(key=(0,))
    table.insert(("a", 1), 0.0)
    table.commit()
    table.insert(("a", 2), 0.0)
    table.insert(("a", 1), 0.0)
    assert table.net() == []
    table.insert(("a", 3), 0.0)
    table.delete(("a", 3))
    assert table.net() == [(("a", 1), -1)]
    table.insert(("a", 4), 0.0)
    table.rollback()
    table.check()
    table.insert(("a", 5), 0.0)
    assert sorted(table.net()) == [(("a", 1), -1), (("a", 5), 1)]


def test_what_changes_nothing_is_counted() -> None:
    table = BaseTable()
    table.insert(("a",), 0.0)
    table.insert(("a",), 0.0)
    table.delete(("b",))
    assert (table.ignored_inserts, table.ignored_deletes) == (1, 1)
    table.rollback()
    assert (table.ignored_inserts, table.ignored_deletes) == (0, 0)


def test_numbers_that_are_equal_are_one_fact() -> None:
    table = BaseTable(key=(0,))
    table.insert((1, "x"), 0.0)
    table.insert((1.0, "x"), 0.0)
    assert table.ignored_inserts == 1 and len(table.rows) == 1
    table.insert((1.0, "y"), 0.0)
    assert list(table.rows) == [(1.0, "y")]
    table.commit()
    table.check()
