"""Both tables of facts do what a dictionary and plain loops do."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from collections import Counter
from typing import Any

import pytest

from operators.facts import Facts, PlainFacts

TABLES = {"plain": PlainFacts, "compiled": Facts}


@pytest.fixture(params=TABLES)
def empty(request: pytest.FixtureRequest) -> PlainFacts:
    if request.param == "compiled" and Facts is PlainFacts:
        pytest.skip("nothing was compiled")
    return TABLES[request.param]()


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "few": [(i,) for i in range(6)],
    "some": [(i, f"a{i % 7}") for i in range(300)],
    "many": [(i, i % 3) for i in range(3000)],
    "of one hash": [(x, -y) for x in (-1, -2) for y in (-1, -2, 1, 2)],
    "equal and not the same": [(x,) for x in (0, 0.0, -0.0, 1, 1.0, 2.5, "1", "")],
    "of any shape": [(), (1,), (1, 2), ((1, 2),), ("a", (1, ("b",)))],
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("bag", [False, True])
def test_batches_and_facts_one_by_one(empty: PlainFacts, rows: list[tuple[Any, ...]], bag: bool) -> None:
    rng = random.Random(3)
    table, expected = empty, dict[tuple[Any, ...], int]()
    for _ in range(400):
        batch = [rng.choice(rows) for _ in range(rng.choice((0, 1, 5, 200, len(rows))))]
        given = list(batch)
        what = rng.choice(("in", "out", "one"))
        if what == "out" and rng.random() < 0.2:  # nearly all: the holes are closed later
            batch = list(expected)[: len(expected) * 9 // 10]
            given = list(batch)
        if what == "in" and bag:
            table.count_in(batch)
            for t in batch:
                expected[t] = expected.get(t, 0) + 1
        elif what == "in":
            new = [t for t in dict.fromkeys(batch) if t not in expected]
            assert table.let_in(batch) == new
            expected.update(dict.fromkeys(new, 1))
        elif what == "out":
            there = []
            for t in batch:
                if t in expected:
                    there.append(t)
                    expected[t] -= 1
                    if not expected[t]:
                        del expected[t]
            assert table.take_out(batch, []) == (there, [])
        else:
            for t in batch[:5]:
                assert (t in table) == (t in expected) and table.get(t, 7) == expected.get(t, 7)
                if t in expected and rng.random() < 0.5:
                    assert table[t] == expected[t]
                    del table[t], expected[t]
                else:
                    table[t] = expected[t] = rng.randint(1, 3) if bag else 1
        assert batch == given, "the batch is the caller's"
        assert table == expected and len(table) == len(expected) and bool(table) == bool(expected)
        assert {*table} == {*table.keys()} == {*expected} and len(list(table)) == len(expected)
        assert dict(table.items()) == dict(table) == expected and Counter(table.values()) == Counter(expected.values())


def test_what_came_last_is_known(empty: PlainFacts) -> None:
    rng = random.Random(5)
    for _ in range(200):
        old = [(i,) for i in range(rng.randrange(100))]
        empty.let_in(old)
        empty.take_out(rng.sample(old, len(old) // 3), [])
        came = empty.let_in([(rng.randrange(200),) for _ in range(rng.randrange(1, 50))])
        out = rng.sample(range(200), 20)
        there, recalled = empty.take_out([(i,) for i in out], came)
        assert set(recalled) == {*there} & {*came} and len(recalled) == len({*recalled})
        empty.take_out(list(empty), [])
        assert not empty


def test_facts_stand_in_the_order_in_which_they_came(empty: PlainFacts) -> None:
    empty.let_in([(i,) for i in range(1000)])
    empty.take_out([(i,) for i in range(0, 1000, 3)], [])
    empty.let_in([(0,), (2000,), (1,), (3,)])
    expected = [(i,) for i in range(1000) if i % 3] + [(0,), (2000,), (3,)]
    assert list(empty) == list(empty.keys()) == [t for t, _ in empty.items()] == expected
    assert repr(empty).startswith("{(1,): 1, (2,): 1, (4,): 1")


def test_an_absent_fact(empty: PlainFacts) -> None:
    empty[("a",)] = 2
    with pytest.raises(KeyError, match="b"):
        empty[("b",)]
    with pytest.raises(KeyError, match="b"):
        del empty[("b",)]
    assert empty.get(("b",)) is None and empty == {("a",): 2} and empty != {("a",): 1}


def test_lists_of_any_class(empty: PlainFacts) -> None:
    class Many(list[tuple[int]]):
        pass

    assert list(empty.let_in(Many([(1,), (2,)]))) == [(1,), (2,)]
    empty.count_in(Many([(2,)]))
    assert empty.take_out(Many([(2,), (3,)]), Many([(2,)]))[0] == [(2,)]
    assert empty == {(1,): 1, (2,): 1}


def test_nothing_is_held_any_longer_than_it_is_there(empty: PlainFacts) -> None:
    class Word(str):
        pass

    words = [Word(i) for i in range(500)]
    alive = [weakref.ref(word) for word in words]
    rows = [(word,) for word in words]
    one = rows[7]
    before = sys.getrefcount(one)
    empty.let_in(rows)
    empty.let_in(rows)
    assert sys.getrefcount(one) == before + 1
    empty.count_in(rows)
    empty.take_out(rows[:250], [])
    assert sys.getrefcount(one) == before + 1
    empty.take_out(rows[:250], [])
    assert sys.getrefcount(one) == before and list(empty) == rows[250:]
    with pytest.raises(TypeError):
        empty.let_in([(1,), ([],)])  # it can't be hashed
    del words, rows, one
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 250
    del empty[(alive[-1](),)]  # type: ignore[index]
    assert alive[-1]() is None
    for _ in range(2):  # there were two copies of each
        empty.take_out(list(empty), [])
    assert not any(ref() for ref in alive) and not empty


def test_the_compiled_table_goes_with_its_facts() -> None:
    class Word(str):
        pass

    table, word = Facts(), Word("a")
    alive = weakref.ref(word)
    table.let_in([(word, i) for i in range(100)])
    del word, table
    gc.collect()
    assert alive() is None


def test_memory_follows_what_is_there(empty: PlainFacts) -> None:
    for i in range(200):
        rows = [(i, j) for j in range(100)]
        empty.let_in(rows)
        empty.take_out(rows, [])
    assert sys.getsizeof(empty) < 40_000, "20,000 facts have left no holes"
    assert not empty and list(empty) == []


@pytest.mark.skipif(Facts is PlainFacts, reason="nothing was compiled")
def test_the_compiled_table_refuses_what_is_no_batch() -> None:
    table = Facts()
    for what in (None, (), {(1,): 1}, iter([(1,)])):
        for method in (table.let_in, table.count_in, lambda rows: table.take_out(rows, [])):
            with pytest.raises(TypeError, match="a batch is a list"):
                method(what)
    assert not table


@pytest.mark.parametrize("name", ["let_in", "count_in", "take_out"])
@pytest.mark.parametrize("seed", range(6))
def test_the_way_back_from_a_batch(empty: PlainFacts, name: str, seed: int) -> None:
    """As a whole; and where a row that cannot be hashed ends it, from any part of it."""
    rng = random.Random(f"{name} {seed}")
    table = empty
    bag = name == "count_in" or seed % 2 == 0
    for _ in range(30):
        known = [(rng.randrange(300),) for _ in range(rng.choice((0, 10, 700)))]
        if bag and name != "let_in":
            table.count_in(known)
        else:
            table.let_in(known)
        before = dict(table.items())
        batch: list[Any] = [(rng.randrange(300),) for _ in range(rng.choice((1, 5, 63, 64, 65, 400)))]
        broken = rng.random() < 0.5
        if broken:
            batch.insert(rng.randrange(len(batch) + 1), ([],))
        note = table.note()
        came = () if name != "take_out" else ([],)
        if broken:
            with pytest.raises(TypeError):
                getattr(table, name)(batch, *came, note)
        else:
            getattr(table, name)(batch, *came, note)
        for _ in range(rng.choice((1, 2))):  # once more does no harm
            table.revert(note)
            assert dict(table.items()) == before and len(table) == len(before)
        table.take_out(rng.sample(sorted(before), len(before) // 2), [])
