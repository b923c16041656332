"""Aggregate indexes: every operation against a plain dict, shifts of all kinds, balance, and costs in counted steps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

import pytest

from bench import indexes
from bench.index_arrays import NumpyBlocks, Sorted
from bench.index_candidates import BinaryTree, FenwickBlocks, check_alike
from operators.indexes import AggregateIndex, PAIMap, PAIVectors, RPAITree, RPAIVectors, nodes, rpai, tree, vectors


class Model:
    """What an index means, as plainly as it can be said."""

    def __init__(self, zero: Any = 0) -> None:
        self.zero = zero
        self.entries: dict[Any, Any] = {}

    def plus(self, a: Any, b: Any) -> Any:
        return tuple(x + y for x, y in zip(a, b, strict=True)) if isinstance(a, tuple) else a + b

    def total(self, keys: Callable[[Any], bool]) -> Any:
        result = self.zero
        for k, v in self.entries.items():
            if keys(k):
                result = self.plus(result, v)
        return result

    def add(self, k: Any, v: Any) -> None:
        self.entries[k] = self.plus(self.entries.get(k, self.zero), v)
        if self.entries[k] == self.zero:
            del self.entries[k]

    def shift(self, k: Any, d: Any, inclusive: bool) -> None:
        before, self.entries = self.entries, {}
        for key, v in before.items():
            self.add(key + d if key > k or (inclusive and key == k) else key, v)


@pytest.fixture(params=[8, 10, 64])
def narrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Narrow nodes make deep trees of few entries."""
    for module in (nodes, rpai, tree, vectors):
        monkeypatch.setattr(module, "WIDEST", request.param)
        monkeypatch.setattr(module, "FEWEST", request.param // 4, raising=False)
    return request.param


def agree(index: AggregateIndex, model: Model, *keys: Any) -> None:
    """The index is sound, holds what the model holds, and answers about these keys what the model says."""
    index.check()
    assert list(index.items()) == sorted(model.entries.items()) and len(index) == len(model.entries)
    assert list(index.items(reverse=True)) == sorted(model.entries.items(), reverse=True)
    assert index.total == model.total(lambda key: True) and bool(index) == bool(model.entries)
    for k in keys:
        assert index.get(k) == model.entries.get(k, model.zero)
        assert index.get_sum(k) == model.total(lambda key, k=k: key <= k)
        assert index.get_sum_below(k) == model.total(lambda key, k=k: key < k)
        assert index.get_sum_above(k) == model.total(lambda key, k=k: key > k)
        assert index.get_sum_from(k) == model.total(lambda key, k=k: key >= k)
        for other in keys:
            assert index.range_sum(k, other) == model.total(lambda key, k=k, other=other: k <= key <= other)
            assert list(index.items(k, other)) == sorted((x, v) for x, v in model.entries.items() if k <= x <= other)


def walk(index: AggregateIndex, model: Model, rng: random.Random, number: Any, value: Any, steps: int) -> None:
    """Random operations: adding, taking back, shifts up and down that meet and pass others."""
    growing = True
    for step in range(steps):
        if step % 150 == 0:
            growing = not growing or not model.entries
        choice = rng.random()
        if choice < (0.7 if growing else 0.3):
            k, v = number(), value()
            index.add(k, v)
            model.add(k, v)
        elif choice < 0.8 and model.entries:
            k = rng.choice(list(model.entries))
            v = model.plus(model.zero, tuple(-x for x in model.entries[k]) if model.zero else -model.entries[k])
            index.add(k, v)
            model.add(k, v)
        else:
            k = rng.choice([number(), *list(model.entries)[-1:]])
            d = rng.choice([1, -1, 1, -1, rng.choice([1, -1]) * abs(number())])
            inclusive = rng.random() < 0.5
            index.shift_keys(k, d, inclusive)
            model.shift(k, d, inclusive)
        if step % 7 == 0:
            agree(index, model, number(), number())
        else:
            index.check()
    agree(index, model, number(), number())


NUMBERS: dict[str, Callable[[random.Random], Any]] = {
    "dense ints": lambda rng: rng.randint(-150, 150),
    "sparse ints": lambda rng: rng.randint(-(10**6), 10**6),
    "huge ints": lambda rng: rng.randint(-20, 20) * 10**60 + rng.randint(-3, 3),
    "fractions": lambda rng: Fraction(rng.randint(-300, 300), rng.choice([1, 2, 3])),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("seed", range(2))
def test_a_tree_is_what_the_model_says(kind: str, seed: int, narrow: int) -> None:
    rng = random.Random(seed)
    values = [1, 2, -1, 3, 2**80]
    walk(RPAITree(), Model(), rng, lambda: NUMBERS[kind](rng), lambda: rng.choice(values), 450)


@pytest.mark.parametrize("seed", range(2))
def test_vectors_are_what_the_model_says(seed: int, narrow: int) -> None:
    rng = random.Random(seed)
    walk(
        RPAIVectors(2), Model((0, 0)), rng, lambda: rng.randint(-150, 150), lambda: (rng.randint(-2, 2), 1), 450
    )


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_hashed_index_is_what_the_model_says(kind: str) -> None:
    rng = random.Random(kind)
    walk(PAIMap(), Model(), rng, lambda: NUMBERS[kind](rng), lambda: rng.randint(-2, 2), 300)
    walk(PAIVectors(2), Model((0, 0)), rng, lambda: NUMBERS[kind](rng), lambda: (rng.randint(-2, 2), 1), 300)


@pytest.mark.parametrize("seed", range(3))
def test_floats_stay_what_they_are(seed: int, narrow: int) -> None:
    rng = random.Random(seed)
    index, model = RPAITree(), Model()
    for _ in range(400):
        k, v = rng.random() * 10 ** rng.randint(-30, 30), rng.randint(1, 5)
        index.add(k, v)
        model.add(k, v)
    agree(index, model, *rng.sample(list(model.entries), 5), math.inf, -math.inf)
    for k in rng.sample(list(model.entries), 350):
        index.add(k, -model.entries[k])
        model.add(k, -model.entries[k])
    agree(index, model, *model.entries)


def test_floats_are_not_shifted() -> None:
    for index in (RPAITree.from_items([(0.5, 1)]), PAIMap.from_items([(0.5, 1)])):
        with pytest.raises(TypeError, match=r"must be ints or Fractions, not a float: 0\.5"):
            index.shift_keys(0, 1)
        assert list(index.items()) == [(0.5, 1)]
    index = RPAITree.from_items([(1, 1)], shifting=True)
    with pytest.raises(TypeError, match=r"not a float: 1\.5"):
        index.add(1.5, 1)
    with pytest.raises(TypeError, match=r"not a float: 0\.25"):
        index.shift_keys(0, 0.25)
    with pytest.raises(TypeError, match=r"not a float: 2\.0"):
        RPAITree.from_items([(2.0, 1)], shifting=True)
    agree(index, model_of([(1, 1)]), 0, 1)


def test_floats_may_be_asked_for_among_shifted_keys(narrow: int) -> None:
    keys = [10**17 + i for i in range(300)]
    index = RPAITree.from_items([(k, 1) for k in keys], shifting=True)
    index.shift_keys(10**17 + 100, -2**60)
    model = model_of((k, 1) for k in keys)
    model.shift(10**17 + 100, -2**60, False)
    agree(index, model, 1e17, 0.1, -0.1, 1e300, math.inf, -math.inf, *(float(k) for k in list(model.entries)[::50]))
    assert RPAITree.from_items([], shifting=True).get_sum(math.inf) == 0


def model_of(items: Any) -> Model:
    model = Model()
    for k, v in items:
        model.add(k, v)
    return model


@pytest.mark.parametrize("make", [RPAITree, PAIMap])
def test_an_empty_index_and_one_of_one_key(make: Callable[[], AggregateIndex]) -> None:
    index, model = make(), Model()
    index.shift_keys(0, 5)
    index.shift_keys(0, -5, inclusive=True)
    assert index.first_sum(lambda s: True) == (None, 0) and index.first_key(lambda k: True) is None
    index.add(3, 0)
    agree(index, model, 0, 3)
    index.add(3, 7)
    model.add(3, 7)
    for k, d, inclusive in ((3, 5, False), (3, 5, True), (100, -5, False), (0, -50, False), (-42, 0, True)):
        index.shift_keys(k, d, inclusive)
        model.shift(k, d, inclusive)
        agree(index, model, -42, 3, 8)
    index.add(-42, -7)
    agree(index, Model(), -42)


@pytest.mark.parametrize("shifting", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 48, 49, 64, 65, 100, 1000, 5000])
def test_built_at_once(n: int, shifting: bool) -> None:
    rng = random.Random(n)
    items = [(rng.randint(-n, n), rng.randint(-1, 2)) for _ in range(n)]
    agree(RPAITree.from_items(items, shifting), model_of(items), 0, n // 3)
    pairs = [(k, (v, 1)) for k, v in items]
    index = RPAIVectors.from_items(pairs, 2, shifting)
    index.check()
    assert list(index.items()) == list(PAIVectors.from_items(pairs, 2).items())


@pytest.mark.parametrize("seed", range(3))
def test_the_first_for_which_something_holds(seed: int, narrow: int) -> None:
    rng = random.Random(seed)
    index, twin, flat = RPAITree(), RPAIVectors(2), PAIMap()
    for _ in range(300):
        k, v = rng.randint(-400, 400), rng.randint(1, 9)
        index.add(k, v)
        twin.add(k, (v, 1))
        flat.add(k, v)
    for k, d in ((0, 0), (0, -7), (30, 100), (-200, -300)):
        if d:
            for each in (index, twin, flat):
                each.shift_keys(k, d)
        entries = list(index.items())
        sums = list(accumulate((v for _, v in entries), initial=0))
        for bound in (-1000, 0, 5, *rng.sample(sums, 9), sums[-1], 1000, 10**9):
            at = next((i for i, s in enumerate(sums[1:]) if s >= bound), None)
            expected = (None, index.total) if at is None else (entries[at][0], sums[at])
            assert index.first_sum(lambda s, b=bound: s >= b) == flat.first_sum(lambda s, b=bound: s >= b) == expected
            for each in (index, flat):
                assert each.first_above(bound, inclusive=True) == each.first_above(bound - 1) == expected
            assert twin.first_above(bound - 0.5) == twin.first_sum(lambda s, b=bound: s >= b)
            key, (before, count) = twin.first_sum(lambda s, b=bound: s >= b)
            assert (key, before) == expected and count == twin.get_sum_below(math.inf if key is None else key)[1]
            after = next((k for k, _ in entries if k > bound), None)
            for each in (index, twin, flat):
                assert each.first_key(lambda k, b=bound: k > b) == after
    assert PAIVectors.from_items([(1, (3, 1)), (2, (4, 1))], 2).first_sum(lambda s: s > 3) == (2, (3, 1))


def test_keys_that_are_no_numbers(narrow: int) -> None:
    words = sorted({f"{i * i % 1009:04}" for i in range(700)})
    index = RPAITree()
    for word in words:
        index.add(word, 1)
    index.check()
    assert [k for k, _ in index.items("0100", "0200")] == [w for w in words if "0100" <= w <= "0200"]
    assert [k for k, _ in index.items(reverse=True)] == words[::-1]
    assert index.get_sum("0500") == sum(w <= "0500" for w in words)
    assert index.first_key(lambda k: k > "0300") == next(w for w in words if w > "0300")
    assert index.first_sum(lambda s: s > 100) == (words[100], 100)
    for word in words[:-1]:
        index.add(word, -1)
    assert list(index.items()) == [(words[-1], 1)]


def test_fences_that_lie_far_below(narrow: int) -> None:
    """What is deleted leaves fences behind; shifts down must not carry them over what stays."""
    rng = random.Random(5)
    index, model = RPAITree.from_items([(i * 100, 1) for i in range(400)], shifting=True), Model()
    for i in range(400):
        model.add(i * 100, 1)
    for _ in range(350):
        k = rng.choice(sorted(model.entries))
        index.add(k, -1)
        model.add(k, -1)
        d = -rng.randint(1, 199)
        index.shift_keys(k, d)
        model.shift(k, d, False)
        index.check()
        k = rng.choice(sorted(model.entries))
        index.add(k, 1 - model.entries[k])
        model.add(k, 1 - model.entries[k])
        agree(index, model, k)


def cells(index: RPAITree) -> list[Any]:
    """Every number in the nodes of a tree, by place."""

    def below(node: nodes.Node) -> list[Any]:
        keys, children, *columns = node
        rest = [] if children is None else [below(child) for child in children]
        return [list(keys), [list(column) for column in columns], *rest]

    return below(index._root)


def differences(a: Any, b: Any) -> int:
    """In how many places two such trees differ."""
    if not isinstance(a, list):
        return int(a != b)
    return abs(len(a) - len(b)) + sum(differences(x, y) for x, y in zip(a, b, strict=False))


def test_costs_grow_with_the_logarithm() -> None:
    """What an operation changes, counted: at most a node's width on each level, however many entries there are."""
    rng = random.Random(3)
    for n in (1_000, 10_000, 100_000):
        index = RPAITree.from_items([(3 * i, 1) for i in range(n)], shifting=True)
        assert index.height() <= math.log(n, nodes.WIDEST // 2)
        for d in (1, -1):
            before = cells(index)
            index.shift_keys(3 * rng.randrange(n // 2), d)
            assert 0 < differences(before, cells(index)) <= nodes.WIDEST * (index.height() + 1)
        before = cells(index)
        index.add(next(iter(index.items()))[0], 5)
        assert differences(before, cells(index)) == index.height() + 1


@pytest.mark.parametrize("make", [BinaryTree, FenwickBlocks, partial(FenwickBlocks, width=8), NumpyBlocks, Sorted])
def test_what_it_is_compared_with_does_the_same(make: Callable[[list[tuple[int, int]]], Any]) -> None:
    entries = [(10 * i, i % 7 + 1) for i in range(200)]
    check_alike(make(entries), RPAITree.from_items(entries, shifting=True), 200)


def test_the_benchmark_runs() -> None:
    result = indexes.run(sizes=(100,), widths=(8,), calls=20)
    assert {bar.name for bar in result.bars} == {f"{name}, 100 keys" for name in indexes.OPERATIONS}
    assert nodes.WIDEST == rpai.WIDEST == indexes.WIDEST
