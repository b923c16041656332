"""Aggregates that grow and shrink always equal the aggregate of what is left."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from datalog.aggregates import AGGREGATES
from operators.errors import RuleFailure
from operators.groupby import GroupBy
from operators.monoids import Avg, Count, Extreme, Monoid, Sum, UserAggregate, factory, named, of_nothing

FLOATS = [0.1, 0.2, -0.3, 1e16, -1e16, 1e-300, 5e-324, 1.7e308, -1.7e308, 3.0, -0.0]


def exact(values: list[Any]) -> Any:
    """The correctly rounded sum: `fsum`, which gives up on sums that are too large halfway."""
    if all(isinstance(v, int) for v in values):
        return sum(values)
    return math.fsum(values)


def mean(values: list[Any]) -> float:
    return float(sum(map(Fraction, values)) / len(values))


def replay(state: Monoid, seed: int, draw: Any, check: Any, steps: int = 300) -> None:
    """Random values in and out, with weights; after each step the state equals the values that are in."""
    rng = random.Random(seed)
    inside: Counter[Any] = Counter()
    for _ in range(steps):
        if inside and rng.random() < 0.48:
            value = rng.choice(sorted(inside, key=repr))
            weight = -rng.randint(1, inside[value])
        else:
            value, weight = draw(rng), rng.choice([1, 1, 1, 2, 5])
        inside[value] += weight
        if not inside[value]:
            del inside[value]
        state.add(value, weight)
        assert state.count == inside.total()
        check(state, [v for v, n in inside.items() for _ in range(n)])


def test_count() -> None:
    replay(Count(), 0, lambda rng: rng.randrange(5), lambda s, values: s.result() == len(values) or pytest.fail())


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_integers(seed: int) -> None:
    def check(state: Monoid, values: list[Any]) -> None:
        assert state.result() == sum(values) and type(state.result()) is int

    replay(Sum(), seed, lambda rng: rng.randint(-(10**12), 10**12), check)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_floats_are_correctly_rounded(seed: int) -> None:
    def check(state: Monoid, values: list[Any]) -> None:
        if values:
            assert state.result() == exact(values) and type(state.result()) is float

    replay(Sum(), seed, lambda rng: rng.choice(FLOATS[:-4]) * rng.random(), check)


@pytest.mark.parametrize("seed", range(3))
def test_mixed_sums_are_floats_while_a_float_is_in(seed: int) -> None:
    def check(state: Monoid, values: list[Any]) -> None:
        if values:
            assert state.result() == exact(values)
            assert type(state.result()) is (float if any(isinstance(v, float) for v in values) else int)

    replay(Sum(), seed, lambda rng: rng.choice([1, 2, 10**15, 0.5, 0.1, -2.25]), check)


@pytest.mark.parametrize("seed", range(2))
def test_averages(seed: int) -> None:
    def check(state: Monoid, values: list[Any]) -> None:
        assert state.result() == (mean(values) if values else None)

    replay(Avg(), seed, lambda rng: rng.choice([1, 2, 7, 0.1, 0.7, -3.5]), check)


def test_a_million_random_floats_in_and_out_do_not_drift() -> None:
    """The answer is that of `math.fsum` over what is left, to the last bit, along the way and at the end."""
    rng = random.Random(1)
    state = Sum()
    inside: list[float] = []
    pool = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-12, 12) for _ in range(10_000)]
    for step in range(1_000_000):
        chance = rng.random()
        if inside and chance < 0.49:
            at = int(chance / 0.49 * len(inside))
            inside[at], inside[-1] = inside[-1], inside[at]
            state.add(inside.pop(), -1)
        else:
            inside.append(pool[step % 10_000])
            state.add(inside[-1], 1)
        if step % 100_000 == 0:
            assert state.result() == math.fsum(inside)
    assert state.count == len(inside) > 1000
    assert state.result() == math.fsum(inside)
    for value in inside:
        state.add(value, -1)
    assert state.result() == 0 and type(state.result()) is int, "nothing is left, not even a rounding error"


def test_sums_that_are_too_large() -> None:
    state = Sum()
    state.add(2**63 - 1, 1)
    assert state.result() == 2**63 - 1
    state.add(1, 1)
    with pytest.raises(OverflowError, match="overflow"):
        state.result()
    state.add(5, -1)
    assert state.result() == 2**63 - 5, "only results are bounded, not what leads to them"
    large = Sum()
    large.add(1.7e308, 2)
    with pytest.raises(OverflowError, match="overflow"):
        large.result()
    large.add(-1.7e308, 1)
    assert large.result() == 1.7e308


def test_unsigned_sums_have_their_own_range() -> None:
    state = factory("sum", {}, "unsigned")()
    state.add(2**63, 1)
    assert state.result() == 2**63
    state.add(2**63 - 1, 1)
    assert state.result() == 2**64 - 1
    state.add(1, 1)
    with pytest.raises(OverflowError):
        state.result()


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("spread", [2, Extreme.LARGE - 1, Extreme.LARGE, Extreme.LARGE + 1, 5 * Extreme.LARGE])
def test_extremes_at_every_size(largest: bool, spread: int) -> None:
    def check(state: Monoid, values: list[Any]) -> None:
        assert state.result() == ((max if largest else min)(values) if values else None)

    for seed in range(2):
        replay(Extreme(largest), seed, lambda rng: rng.randrange(spread), check, 8 * spread + 50)


@pytest.mark.parametrize("largest", [False, True])
def test_an_extreme_grows_shrinks_and_empties(largest: bool) -> None:
    state, values = Extreme(largest), list(range(3 * Extreme.LARGE))
    random.Random(2).shuffle(values)
    for upto in (1, 2, Extreme.LARGE, len(values)):
        for _ in range(2):
            for v in values[:upto]:
                state.add(v, 1)
            for i, v in enumerate(values[:upto]):
                assert state.result() == (max if largest else min)(values[i:upto])
                state.add(v, -1)
            assert state.count == 0 and state.result() is None


def test_extremes_of_symbols_and_of_equal_numbers() -> None:
    state = Extreme(largest=False)
    for v in ("b", "a", "c"):
        state.add(v, 1)
    assert state.result() == "a"
    numbers = Extreme(largest=True)
    numbers.add(1, 1)
    numbers.add(1.0, 1)
    numbers.add(1, -1)
    assert numbers.result() == 1 and numbers.count == 1


def test_user_aggregates_see_sorted_values_with_repetitions() -> None:
    seen: list[list[Any]] = []

    def median(values: list[Any]) -> Any:
        seen.append(values)
        return values[len(values) // 2]

    state = factory("median", {"median": median})()
    assert isinstance(state, UserAggregate) and state.result() is None

    def check(s: Monoid, values: list[Any]) -> None:
        assert s.result() == (sorted(values)[len(values) // 2] if values else None)
        assert not values or seen[-1] == sorted(values)

    replay(state, 3, lambda rng: rng.randrange(6), check)


def test_every_aggregate_has_a_state() -> None:
    for name in AGGREGATES.keys() - {"mean"}:
        name = named(name, {"fraction": 0.5, "size": 2}.get(AGGREGATES[name].parameter))
        state = factory(name, {})()
        assert state.count == 0
        assert state.result() == of_nothing(name, {})
        state.add_all([1, 2])
        assert state.count == 2 and state.result() is not None
    with pytest.raises(KeyError):
        factory("medain", {})
    assert factory("min", {"min": len})().result() is None, "a person's own comes first"


# --- groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_groups_against_recomputation(seed: int) -> None:
    rng = random.Random(seed)
    names = ("count", "sum", "min", "max", "avg")
    groups = GroupBy("rule", 2, tuple(factory(n, {}) for n in names), (2, 0, 3, 4, 5, 1, 6))
    inside: Counter[tuple[Any, ...]] = Counter()
    published: set[tuple[Any, ...]] = set()
    for _ in range(60):
        batch: Counter[tuple[Any, ...]] = Counter()
        for _ in range(rng.randint(0, 8)):
            v = rng.choice([1, 2, 3, 0.5])
            row = (rng.choice("xy"), rng.randrange(2), None, v, rng.randrange(4), rng.randrange(4), v)
            weight = rng.choice([1, 2, -1])
            batch[row] += weight if inside[row] + batch[row] + weight >= 0 else 1
        changes = [(row, n) for row, n in batch.items() if n]
        for part in (changes[:3], changes[3:]):  # in pieces, as from several partitions
            groups.update(part)
        inside.update(batch)
        inside += Counter()
        expected = set()
        for g in {row[:2] for row in inside}:
            rows = [row for row, n in inside.items() if row[:2] == g for _ in range(n)]
            sums = [row[3] for row in rows]
            expected.add(
                (len(rows), g[0], exact(sums), min(r[4] for r in rows), max(r[5] for r in rows), g[1],
                 mean([r[6] for r in rows]))
            )
        gone, new = groups.flush()
        assert len(gone) == len(set(gone)) and len(new) == len(set(new)) and not set(gone) & set(new)
        assert set(gone) <= published and not set(new) & published
        published = (published - set(gone)) | set(new)
        assert published == expected
        groups.check()
        assert groups.stats() == {"groups": len(expected)}


def test_one_group_of_everything_disappears_with_its_last_row() -> None:
    groups = GroupBy("rule", 0, (factory("sum", {}),), (0,))
    groups.update([((5,), 1)])
    assert groups.flush() == ([], [(5,)])
    groups.update([((5,), -1), ((2,), 1), ((3,), 1)])
    assert groups.flush() == ([], []), "2 + 3 is 5 again"
    groups.update([((2,), -1), ((3,), -1)])
    assert groups.flush() == ([(5,)], [])
    groups.check()


def test_an_aggregate_that_fails_names_its_rule_and_group() -> None:
    groups = GroupBy("s(x, sum<v>) :- r(x, v).", 1, (factory("sum", {}),), (0, 1))
    groups.update([(("a", 2**63 - 1), 1), (("a", 1), 1)])
    with pytest.raises(RuleFailure, match="overflow") as failure:
        groups.flush()
    assert failure.value.rule == "s(x, sum<v>) :- r(x, v)." and failure.value.row == ("a",)
