"""The small structures under the operators: Index, Seen, ZTable, Counts, Router."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from operators.delta import Delta
from operators.expr import Apply, Col, Const, columns, shifted
from operators.index import Index
from operators.partition import Router, stable_hash
from operators.seen import Seen
from operators.zset import Counts, ZTable

Row = tuple[Any, ...]


def draw(rng: random.Random) -> Row:
    return (rng.randrange(3), rng.randrange(3), rng.choice("ab"))


@pytest.mark.parametrize("keys", [(), (1,), (0, 2), (0, 1, 2)])
def test_an_index_against_a_scan(keys: tuple[int, ...]) -> None:
    rng = random.Random(1)
    index, rows = Index(keys), set()
    for _ in range(300):
        t = draw(rng)
        if rng.random() < 0.5:
            index.add([t, t])
            rows.add(t)
        else:
            index.remove([t])
            rows.discard(t)
        index.check(rows)
        k = index.key(t)
        assert set(index.find(k) or ()) == {u for u in rows if index.key(u) == k}
        assert index.find(k) is None or index.find(k), "no empty bucket"
    index.remove(list(rows))
    assert not index.buckets


def test_an_index_keeps_the_order_of_insertion() -> None:
    index = Index((0,))
    index.add([("a", i) for i in (3, 1, 2)])
    index.remove([("a", 1)])
    index.add([("a", 1)])
    assert list(index.find("a") or ()) == [("a", 3), ("a", 2), ("a", 1)]


@pytest.mark.parametrize("carried", [(0,), (2,), (0, 1), (1, 2)])
def test_seen_against_a_set(carried: tuple[int, ...]) -> None:
    rng = random.Random(2)
    seen, rows = Seen(carried, 3), set()
    for _ in range(300):
        t = draw(rng)
        if rng.random() < 0.5:
            seen.add([t])
            rows.add(t)
        else:
            seen.remove([t])
            rows.discard(t)
        seen.check(rows)
        assert (t in rows) == (seen.rest(t) in seen.groups.get(seen.key(t), ()))
    seen.remove(list(rows))
    assert not seen.groups


def test_checks_find_what_is_wrong() -> None:
    index, seen = Index((0,)), Seen((0,), 2)
    index.add([("a", 1)])
    seen.add([("a", 1)])
    for structure in (index, seen):
        structure.check([("a", 1)])
        with pytest.raises(AssertionError):
            structure.check([("a", 2)])
    table = ZTable()
    table.index((0,))
    table.add(Delta.weighted([(("a", 1), -1)]))
    with pytest.raises(AssertionError):
        table.check()


def test_a_weighted_table_against_a_counter() -> None:
    rng = random.Random(3)
    table = ZTable()
    indexes = {keys: table.index(keys) for keys in ((0,), (1, 2), ())}
    assert table.index((0,)) is indexes[0,]
    weights: Counter[Row] = Counter()
    for _ in range(200):
        batch: Counter[Row] = Counter()
        for _ in range(rng.randint(1, 5)):
            t = draw(rng)
            batch[t] += rng.choice([1, 2]) if rng.random() < 0.5 else -min(1, weights[t] + batch[t])
        changes = [(t, w) for t, w in batch.items() if w]
        table.add(Delta.weighted(changes))
        weights.update(dict(changes))
        weights = +weights
        table.check()
        for buckets in indexes.values():
            assert {t: w for b in buckets.values() for t, w in b.items()} == weights
        assert {t: w for t, w in indexes[0,].get(0, {}).items()} == {t: w for t, w in weights.items() if t[0] == 0}
        assert len(table) == 3 * len(weights) == len(list(table.items()))
    table.add(Delta.weighted([(t, -w) for t, w in weights.items()]))
    assert all(not buckets for buckets in indexes.values())


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_tell_their_net_change(weighted: bool) -> None:
    rng = random.Random(4)
    counts, model = Counts(), Counter[Row]()
    for _ in range(150):
        before = Counter(model)
        for _ in range(rng.randint(0, 6)):
            t = (rng.randrange(4),)
            w = rng.choice([-2, -1, 0, 1, 1, 2])
            w = max(w, -model[t])
            model[t] += w
            counts.add([(t, w)])
        model = +model
        net = counts.net(weighted)
        want = {t: model[t] - before[t] if weighted else (t in model) - (t in before) for t in model | before}
        want = {t: w for t, w in want.items() if w}
        assert dict(net.items()) == want and len(net.items()) == len(want) and bool(net) == bool(want)
        assert set(net.gained) == {t for t, w in want.items() if w > 0}
        assert set(net.lost) == {t for t, w in want.items() if w < 0}
        assert counts.rows == model
        counts.check()
        assert not counts.net(weighted)


def test_counts_may_be_negative_for_a_moment() -> None:
    """A deletion may overtake the insertion on another channel."""
    counts = Counts()
    counts.add([(("a",), -1)])
    counts.add([(("a",), 2)])
    assert counts.net(weighted=False).items() == [(("a",), 1)]
    counts.check()


# --- who owns what -------------------------------------------------------------------------------------------

SAMPLES: list[Any] = [
    0, 1, -1, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -2.75, 1e300, 5e-324, "", "a", "node-17", "ß→𝄞", (), (1, 2),
    ("a", (1.5, ("b",))), True,
]


def test_the_hash_is_the_same_in_every_process() -> None:
    """Python's own is not: it is seeded, per process, for strings."""
    code = "import sys; from operators.partition import stable_hash; from tests.test_tables import SAMPLES\n"
    code += "print([stable_hash(v) for v in SAMPLES])"
    here = str([stable_hash(v) for v in SAMPLES])
    root = Path(__file__).parent.parent
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=root, check=True
        )
        assert done.stdout.strip() == here


def test_equal_values_have_equal_hashes() -> None:
    for i in (0, 1, -3, 2**53, 10**18):
        assert stable_hash(i) == stable_hash(float(i))
        assert stable_hash((i, ("x", i))) == stable_hash((float(i), ("x", float(i))))
    assert stable_hash(-0.0) == stable_hash(0) and stable_hash(True) == stable_hash(1)


@pytest.mark.parametrize("partitions", [2, 3, 5, 8])
@pytest.mark.parametrize(
    "make",
    [
        lambda i: i,
        lambda i: 8 * i,
        lambda i: i / 4,
        lambda i: f"n{i}",
        lambda i: (i, i + 1),
        lambda i: (i, i),
        lambda i: (f"n{i}", f"n{i + 1}"),
    ],
    ids=["int", "eights", "float", "name", "next", "twice", "names"],
)
def test_the_hash_spreads(partitions: int, make: Any) -> None:
    shares = Counter(stable_hash(make(i)) % partitions for i in range(2000))
    assert len(shares) == partitions
    assert max(shares.values()) < 2 * 2000 / partitions, "one partition would hold most of it"


def test_routing() -> None:
    rows = [(i, f"n{i % 7}") for i in range(200)]
    assert all(Router((), 5)(t) == 0 and Router((0,), 1)(t) == 0 for t in rows)
    by_name, by_both = Router((1,), 4), Router((1, 0), 4)
    for t in rows:
        assert by_name(t) == stable_hash(t[1]) % 4 == by_name(t)
        assert by_both(t) == stable_hash((t[1], t[0])) % 4
        assert by_both(t) == Router((1, 0), 4)((float(t[0]), t[1])), "1 and 1.0 live together"
    for placement in ((1,), (1, 0), ()):
        router = Router(placement, 4)
        parts = router.split([(t, i) for i, t in enumerate(rows)])
        assert sorted((i, t) for part in parts.values() for t, i in part) == list(enumerate(rows))
        assert all(router(t) == owner for owner, part in parts.items() for t, _ in part)
        assert all(part == sorted(part, key=lambda entry: entry[1]) for part in parts.values()), "in their order"
        assert router.split_tuples(iter(rows)) == {owner: [t for t, _ in part] for owner, part in parts.items()}
    assert Router((1,), 4).split([]) == {} == Router((1,), 4).split_tuples([])


def test_the_cache_of_a_router_is_bounded() -> None:
    router = Router((0,), 3)
    for i in range(100_010):
        router((i,))
    assert len(router.owners) <= 100_001
    assert router((5,)) == stable_hash(5) % 3


def test_expressions_know_their_columns() -> None:
    tree = Apply("f", max, (Col(2), Apply("g", min, (Col(0), Const(1))), Col(2)))
    assert sorted(columns(tree)) == [0, 2, 2]
    assert sorted(columns(shifted(tree, 3))) == [3, 5, 5]
    assert list(columns(Const("x"))) == [] and shifted(Const("x"), 3) == Const("x")
