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


def difference(now: Model, then: Model) -> dict[Row, int]:
    """How multiplicities have changed."""
    return {t: n for t in now.rows.keys() | then.rows if (n := now.rows.get(t, 0) - then.rows.get(t, 0))}


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
        since = before  # the step
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
            if rng.random() < 0.15:
                assert dict(table.net()) == difference(model, since)
                assert model.rows.keys() ^ before.rows.keys() <= set(table.touched())
                table.step_over()
                since = copy.deepcopy(model)
        net = table.net()
        assert dict(net) == difference(model, since) and len(net) == len(dict(net))
        delta = table.delta()
        assert set(delta.gained) == {t for t, n in net if n > 0} and set(delta.lost) == {t for t, n in net if n < 0}
        assert table.due() == min(model.expiry.values(), default=float("inf"))
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
            assert table.due() == min(model.expiry.values(), default=float("inf"))


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_batches_in_several_steps(bag: bool, seed: int) -> None:
    """Batches that fill the table, that come or that go are noted in ways of their own: all of them lead back."""
    rng = random.Random(seed)
    table, model = BaseTable(bag=bag), Model(0, None, bag)
    for _ in range(150):
        before = since = copy.deepcopy(model)
        for _ in range(rng.randint(1, 5)):
            rows = [(rng.randrange(5),) for _ in range(rng.randint(0, 6))]
            inserts, alone = rng.random() < 0.5, rng.random() < 0.3
            for t in rows:
                (model.insert(t, 0.0) if inserts else model.delete(t))
                if alone:
                    (table.insert(t, 0.0) if inserts else table.delete(t))
            if not alone:
                (table.insert_all(rows, 0.0) if inserts else table.delete_all(rows))
            if rng.random() < 0.3:  # all of it goes
                gone = [t for t, n in model.rows.items() for _ in range(n)]
                table.delete_all(gone)
                for t in gone:
                    model.delete(t)
            if rng.random() < 0.5:
                assert dict(table.delta().items()) == difference(model, since)
                assert model.rows.keys() ^ before.rows.keys() <= set(table.touched())
                table.step_over()
                since = copy.deepcopy(model)
        assert dict(table.delta().items()) == difference(model, since)
        if rng.random() < 0.5:
            table.rollback()
            model = before
        else:
            table.commit()
        table.check()
        assert table.rows == model.rows and table.net() == []


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
