"""The laws of all aggregates: any history comes to what is left, in any order, in any portions, lifted or not."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.monoids import Extreme, Linear, Monoid, UserMonoid, factory, of_nothing
from operators.monoids.linear import Stddev, Sum, Variance
from operators.monoids.ranked import Blocks, Ranked
from tests.oracle_values import aggregate

LINEAR = ("count", "sum", "avg", "variance", "stddev", "all", "any")
NUMERIC = (*LINEAR, "median", "quantile(0.9)", "quantile(0.25)", "quantile(0)", "quantile(1)")
ORDERED = ("min", "max", "count_distinct", "collect", "top(1)", "top(3)", "bottom(2)", "bottom(100)")

integers = st.integers(-(2**40), 2**40) | st.integers(-3, 3)
floats = st.floats(-1e100, 1e100) | st.sampled_from([0.1, -0.1, 0.5, 1.0, -2.0, 5e-324, 0.0, -0.0])
numbers = integers | floats
symbols = st.text("ab", max_size=3)
lists = st.tuples(st.integers(0, 3) | st.sampled_from([0.5, 1.0, 2.5]), symbols)

Change = tuple[Any, int]


@st.composite
def histories(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> list[list[Change]]:
    """Transactions of weighted changes. Within one, something may leave before it comes; between them, never."""
    pool = draw(st.lists(values, min_size=1, max_size=12))
    inside: Counter[Any] = Counter()
    result = []
    for _ in range(draw(st.integers(1, 8))):
        rng = draw(st.randoms(use_true_random=False))
        changes: list[Change] = []
        for _ in range(rng.randint(1, 12)):
            value = rng.choice(pool)
            weight = rng.choice([-1, 1, 1, 2, 5, -3])
            key = (value, isinstance(value, float))  # a multiset of bindings never takes out 1 for 1.0
            if inside[key] + weight >= 0:
                inside[key] += weight
                changes.append((value, weight))
        rng.shuffle(changes)
        result.append(changes)
    return result


def play(name: str, transactions: list[list[Change]]) -> Iterator[tuple[Monoid, list[Change]]]:
    """The state after each transaction, with what is in it."""
    state = factory(name, {})()
    inside: dict[tuple[Any, bool], int] = {}
    for changes in transactions:
        for value, weight in changes:
            state.add(value, weight)
            key = (value, isinstance(value, float))  # for a sum, 1 and 1.0 are not the same
            inside[key] = inside.get(key, 0) + weight
        yield state, [(value, n) for (value, _), n in inside.items() if n]


def same(got: Any, expected: Any) -> None:
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize("name", NUMERIC)
@settings(max_examples=25, deadline=None)
@given(transactions=histories(numbers))
def test_a_history_of_numbers_comes_to_what_is_left(name: str, transactions: list[list[Change]]) -> None:
    for state, left in play(name, transactions):
        assert state.count == sum(n for _, n in left)
        same(state.result() if state.count else of_nothing(name, {}), aggregate(name, left))


@pytest.mark.parametrize("name", ORDERED)
@settings(max_examples=20, deadline=None)
@given(transactions=st.one_of(histories(numbers), histories(symbols), histories(lists)))
def test_a_history_of_values_comes_to_what_is_left(name: str, transactions: list[list[Change]]) -> None:
    for state, left in play(name, transactions):
        got, expected = state.result() if state.count else of_nothing(name, {}), aggregate(name, left)
        kinds = {type(value) for changes in transactions for value, _ in changes if value == got}
        if len(kinds) > 1:  # of values that are equal, as 1 and 1.0 are, either is shown
            assert got == expected and type(got) in kinds
        else:
            same(got, expected)


@pytest.mark.parametrize("name", LINEAR)
@settings(max_examples=40, deadline=None)
@given(values=st.lists(numbers, max_size=20), weight=st.integers(1, 4))
def test_lifted_values_can_be_added_up_elsewhere(name: str, values: list[Any], weight: int) -> None:
    make = factory(name, {})
    one_by_one, together, in_bulk, state = make(), make(), make(), make()
    assert isinstance(state, Linear) and isinstance(together, Linear)
    for value in values:
        one_by_one.add(value, weight)
    vectors = [state.lift(value) for value in values]
    assert all(vector[0] == 1 for vector in vectors)
    if vectors:
        total = tuple(map(sum, zip(*vectors, strict=True)))
        together.absorb(total, weight)
        together.absorb(total, 3)
        together.absorb(tuple(-entry for entry in total), 3)
    for _ in range(weight):
        in_bulk.add_all(values)
    assert one_by_one.count == together.count == in_bulk.count == weight * len(values)
    same(together.result(), one_by_one.result())
    same(in_bulk.result(), one_by_one.result())


@pytest.mark.parametrize("name", [*ORDERED, "median", "quantile(0.3)"])
@settings(max_examples=20, deadline=None)
@given(values=st.lists(numbers, max_size=100), seed=st.integers(0, 9))
def test_all_at_once_or_one_by_one_in_any_order(name: str, values: list[Any], seed: int) -> None:
    one_by_one, at_once, halves = factory(name, {})(), factory(name, {})(), factory(name, {})()
    at_once.add_all(values)
    halves.add_all(values[::2])
    halves.result()
    halves.add_all(values[1::2])
    random.Random(seed).shuffle(values)
    for value in values:
        one_by_one.add(value, 1)
    assert one_by_one.result() == at_once.result() == halves.result()
    assert one_by_one.count == at_once.count == halves.count == len(values)


# --- numbers -------------------------------------------------------------------------------------------------


def test_answers_are_rounded_once() -> None:
    """Textbook formulas lose all digits here: the mean of squares is 1e16 and the variance 2/3."""
    state = Variance()
    state.add_all([1e8, 1e8 + 1, 1e8 + 2])
    assert state.result() == 2 / 3
    deviation = Stddev()
    deviation.add_all([1e8, 1e8 + 1, 1e8 + 2])
    assert deviation.result() == math.sqrt(2 / 3)
    tiny = Stddev()
    tiny.add_all([5e-324, 15e-324])
    assert tiny.result() == 5e-324


def test_what_is_too_large_for_a_float_is_said() -> None:
    for name, what in (("sum", "sum"), ("variance", "variance")):
        state = factory(name, {})()
        state.add_all([1.7e308, 1.7e308, -1.7e308, 1.7e308])
        with pytest.raises(OverflowError, match=f"the {what} is too large for a float"):
            state.result()
        state.add(1.7e308, -3)
        state.add(-1.7e308, -1)
        assert state.result() == (0 if name == "sum" else None)
    mean = factory("avg", {})()
    mean.add_all([1.7e308] * 4)
    assert mean.result() == 1.7e308, "the sum is too large, the mean is not"
    median = factory("median", {})()
    median.add_all([1.7e308, 1.6e308])
    assert median.result() == 1.7e308 / 2 + 1.6e308 / 2


def test_a_count_is_a_number_of_the_language() -> None:
    """Of a join of many relations there may be more bindings than a number can say."""
    state = factory("count", {})()
    state.add(None, 2**63 - 1)
    assert state.result() == 2**63 - 1
    state.add(None, 1)
    with pytest.raises(OverflowError, match="overflow"):
        state.result()


def test_int_sums_stay_ints_however_they_were_added() -> None:
    state = Sum()
    state.absorb(Sum.lift(3), 2)
    state.absorb(Sum.lift(0.5), 1)
    same(state.result(), 6.5)
    state.absorb(Sum.lift(0.5), -1)
    same(state.result(), 6)


@pytest.mark.parametrize("name", [*NUMERIC, *ORDERED])
def test_what_came_as_an_int_may_go_as_a_float(name: str) -> None:
    """1 and 1.0 are the same row of a relation, and a deletion may name either."""
    rng = random.Random(name)
    state = factory(name, {})()
    inside: list[Any] = []
    for _ in range(300):
        if inside and rng.random() < 0.48:
            value = inside.pop(rng.randrange(len(inside)))
            state.add(rng.choice([float, int])(value) if value == int(value) else value, -1)
        else:
            inside.append(rng.choice([1, 2, 3, 1.0, 2.0, 0, 0.5]))
            state.add(inside[-1], 1)
        assert state.count == len(inside)
        assert state.result() == aggregate(name, [(value, 1) for value in inside])
    total = factory("sum", {})()
    total.add(1, 1)
    total.add(1.0, -1)
    total.add(2**62 + 1, 1)
    same(total.result(), 2**62 + 1)


def test_equal_numbers_are_one_value() -> None:
    for values in ([1, 1.0, 2], [1.0, 1, 2], [2, 1.0, 1]):
        for name, expected in (("count_distinct", 2), ("collect", (1, 1, 2)), ("top(2)", (2, 1)), ("median", 1.0)):
            state = factory(name, {})()
            state.add_all(values)
            assert state.result() == expected
    lists_of_numbers = factory("count_distinct", {})()
    lists_of_numbers.add_all([(1, "a"), (1.0, "a")])
    assert lists_of_numbers.result() == 1


# --- the ordered multiset ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_ranked_against_a_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny blocks, so that they are split and emptied all the time."""
    monkeypatch.setattr(Blocks, "LOAD", 4)
    monkeypatch.setattr(Ranked, "SMALL", 3)
    rng = random.Random(seed)
    ranked, inside = Ranked(), Counter[int]()
    for step in range(400):
        growing = (step // 100) % 2 == 0
        for _ in range(rng.randint(1, 6)):
            value = rng.randrange(80)
            weight = rng.choice([1, 1, 2, 7]) if growing or not inside[value] else -rng.randint(1, inside[value])
            inside[value] += weight
            ranked.add(value, weight)
            if not inside[value]:
                del inside[value]
        values = sorted(inside.elements())
        ranked.check()
        for place in {0, len(values) // 2, len(values) - 1, rng.randrange(len(values))}:
            assert ranked.at(place) == values[place]
        size = rng.randint(1, 12)
        assert ranked.smallest(size) == tuple(values[:size])
        assert ranked.largest(size) == tuple(values[::-1][:size])
        assert list(ranked) == values
    for value, weight in list(inside.items()):
        ranked.add(value, -weight)
    assert list(ranked) == [] and ranked.largest(3) == ()
    with pytest.raises(IndexError):
        ranked.at(0)


def test_ranked_reads_no_more_than_it_is_asked_for() -> None:
    """A change among many values moves one value; a reading of the largest compares nothing."""
    compared = 0

    class Value(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

    ranked = Ranked()
    ranked.add_all([Value(i) for i in range(20_000)])
    assert ranked.at(10_000) == 10_000
    compared = 0
    ranked.add(Value(777_777), 1)
    ranked.add(Value(5), -1)
    assert ranked.largest(2) == (777_777, 19_999) and ranked.at(10_000) == 10_001
    assert compared < 100


def test_values_that_cannot_be_compared_fail_when_asked() -> None:
    for name in ("collect", "median", "top(2)"):
        state = factory(name, {})()
        state.add_all([1, "a"])
        with pytest.raises(TypeError):
            state.result()


def test_an_extreme_takes_many_at_once() -> None:
    for size in (3, Extreme.LARGE, 5 * Extreme.LARGE):
        state = Extreme(largest=True)
        state.add_all(list(range(size)))
        state.add_all([size] * 2)
        assert (state.count, state.result()) == (size + 2, size)
        state.add(size, -2)
        assert state.result() == size - 1


# --- a person's monoids --------------------------------------------------------------------------------------

GCD = UserMonoid(0, math.gcd)
MODULO = UserMonoid(0, lambda a, b: (a + b) % 97, lambda a, b: (a - b) % 97, lambda s: [s, s % 2], lambda v: v % 97)


@pytest.mark.parametrize("monoid", [GCD, MODULO], ids=["folded", "merged"])
@settings(max_examples=40, deadline=None)
@given(transactions=histories(st.integers(-50, 50)))
def test_monoids_of_a_person(monoid: UserMonoid, transactions: list[list[Change]]) -> None:
    state = factory("own", {"own": monoid})()
    inside: Counter[int] = Counter()
    for changes in transactions:
        for value, weight in changes:
            state.add(value, weight)
            inside[value] += weight
        left = list(inside.elements())
        assert state.result() == (monoid(left) if left else None)
        assert state.count == len(left)


def test_nothing_is_asked_twice_and_nothing_leaves_before_it_came() -> None:
    merged, taken = [], []

    def merge(a: int, b: int) -> int:
        merged.append(b)
        return a + b

    def inverse(a: int, b: int) -> int:
        taken.append(b)
        assert a >= b
        return a - b

    state = UserMonoid(0, merge, inverse).empty()
    state.add(5, -1)
    state.add(5, 3)
    assert state.result() == 10 and state.result() == 10
    assert taken == [] and merged[-1] == 10, "twice 5 comes as one state"
    state.add(5, -1)
    state.add(7, 1)
    assert state.result() == 12 and taken == [5]
    state.add_all([])
    state.add(5, -1)
    state.add(7, -1)
    assert state.result() is None and state.count == 0
    folded = UserMonoid(0, merge).empty()
    folded.add_all([1, 2])
    assert folded.result() == 3
    calls = len(merged)
    assert folded.result() == 3 and len(merged) == calls


def test_rounding_errors_of_a_person_do_not_outlive_the_group() -> None:
    total = UserMonoid(0.0, lambda a, b: a + b, lambda a, b: a - b).empty()
    total.add(1e16, 1)
    total.add(0.1, 1)
    assert total.result() == 1e16
    total.add(1e16, -1)
    total.result()
    total.add(0.1, -1)
    assert total.result() is None
    total.add(0.3, 1)
    assert total.result() == 0.3
