"""What holds for aggregates at sizes that random programs do not reach, against plain Python over what is left."""

from __future__ import annotations

import math
import operator
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import pytest

import datalog
import livelog
from tests.oracle import Row
from tests.registered import AGGREGATES

Values = list[Any]


def _quantile(values: Values, fraction: Fraction) -> float:
    ordered = sorted(map(Fraction, values))
    place = fraction * (len(values) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return float(low + (high - low) * (place - math.floor(place)))


def _root(value: Fraction) -> float:
    """The float nearest to a square root: of the two next to a first guess, by exact comparison."""
    guess = math.sqrt(value)
    near = (math.nextafter(guess, 0), guess, math.nextafter(guess, math.inf))
    return min(near, key=lambda root: abs(Fraction(root) ** 2 - value))


MEANING: dict[str, Callable[[Values], Any]] = {
    "count<*>": len,
    "sum<x>": lambda v: float(sum(map(Fraction, v))) if any(isinstance(x, float) for x in v) else sum(v),
    "avg<x>": lambda v: float(sum(map(Fraction, v)) / len(v)),
    "variance<x>": lambda v: float(statistics.pvariance(map(Fraction, v))),
    "stddev<x>": lambda v: _root(statistics.pvariance(map(Fraction, v))),
    "min<x>": min,
    "max<x>": max,
    "median<x>": lambda v: _quantile(v, Fraction(1, 2)),
    "quantile<x, 0.9>": lambda v: _quantile(v, Fraction(9, 10)),
    "top<x, 5>": lambda v: tuple(sorted(v, reverse=True)[:5]),
    "bottom<x, 30>": lambda v: tuple(sorted(v)[:30]),
    "count_distinct<x>": lambda v: len(set(v)),
    "all<x>": lambda v: int(all(v)),
    "any<x>": lambda v: int(any(v)),
    "spread<x>": AGGREGATES["spread"],
    "checksum<x>": lambda v: 2 * (sum(hash(x) % 1009 for x in v) % 1009),
    "divisor<x>": lambda v: math.gcd(*(hash(x) % 1009 for x in v)),
}
ALL = ", ".join([*MEANING, "collect<x>"])
DRAWN: dict[str, Callable[[random.Random], Any]] = {
    "few": lambda rng: rng.randint(-3, 3),
    "ints": lambda rng: rng.randint(-(10**6), 10**6),
    "floats": lambda rng: rng.choice((0.1, 0.2, 1e16, -1e16, 3.5e-310, rng.gauss(0, 1))),
}


def meaning(groups: dict[Any, Values]) -> set[Row]:
    """The rows of a head with all aggregates, by definition."""
    return {
        (group, *(mean(values) for mean in MEANING.values()), tuple(sorted(values)))
        for group, values in groups.items()
    }


class Rows:
    """Base relations as lists of rows, changed along with a session."""

    def __init__(self, session: livelog.Session, rng: random.Random) -> None:
        self.session, self.rng = session, rng
        self.rows: dict[str, list[Row]] = defaultdict(list)

    def change(self, inserted: dict[str, list[Row]], deleted: dict[str, int]) -> None:
        """Insert rows, and delete so many of those that are there, all in one transaction."""
        gone: dict[str, list[Row]] = {}
        for name, count in deleted.items():
            self.rng.shuffle(self.rows[name])
            gone[name], self.rows[name] = self.rows[name][:count], self.rows[name][count:]
        with self.session.transaction() as transaction:
            for name, rows in inserted.items():
                for row in rows:
                    transaction.insert(name, row)
                self.rows[name] += rows
            for name, rows in gone.items():
                for row in rows:
                    transaction.delete(name, row)


def assert_equal(got: Iterable[Row], expected: set[Row]) -> None:
    """Equal, and of the same types."""
    shown, wanted = sorted(map(repr, got)), sorted(map(repr, expected))
    assert shown == wanted, next((g, w) for g, w in zip(shown, wanted, strict=False) if g != w)


def sizes(rng: random.Random) -> Iterator[tuple[int, int]]:
    """How much to insert and to delete: much at once, little on top, nearly all away, and up again."""
    yield 1500, 0
    for _ in range(4):
        yield rng.randint(1, 3), rng.randint(1, 3)
    yield 200, 300
    yield 0, 1300
    yield 700, 60
    yield 0, 5000
    yield 40, 0


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kind", DRAWN)
def test_every_aggregate_of_large_groups(kind: str, partitions: int) -> None:
    rng, drawn = random.Random(f"{kind} {partitions}"), DRAWN[kind]
    program = datalog.parse(f"q(g, {ALL}) :- e(_, g, x).")
    with livelog.open(program, aggregates=AGGREGATES, partitions=partitions) as session:
        rows = Rows(session, rng)
        number = 0
        for more, fewer in sizes(rng):
            new = [(number + i, rng.choice("aab"), drawn(rng)) for i in range(more)]
            number += more
            rows.change({"e": new}, {"e": fewer})
            groups: dict[Any, Values] = defaultdict(list)
            for _, group, value in rows.rows["e"]:
                groups[group].append(value)
            assert_equal(session["q"], meaning(groups))
        session.check()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kind", DRAWN)
def test_every_aggregate_of_a_join_of_many_with_many(kind: str, partitions: int) -> None:
    """`q(a, avg<d>) :- s1(a, b), s2(b, d)`: partners of the same batch, of an earlier one and of a later one."""
    rng, drawn = random.Random(f"join {kind} {partitions}"), DRAWN[kind]
    program = datalog.parse(f"q(a, {ALL}) :- s1(a, _, b), s2(b, _, x).")
    with livelog.open(program, aggregates=AGGREGATES, partitions=partitions) as session:
        rows = Rows(session, rng)
        steps = ((60, 0, 0), (0, 120, 0), (5, 5, 0), (0, 0, 30), (40, 90, 20), (1, 0, 1), (0, 0, 400))
        for number, (left, right, less) in enumerate(steps):
            new1 = [(rng.choice("ab"), (number, i), rng.randrange(4)) for i in range(left)]
            new2 = [(rng.randrange(5), (number, i), drawn(rng)) for i in range(right)]
            rows.change({"s1": new1, "s2": new2}, {"s1": less, "s2": less})
            groups: dict[Any, Values] = defaultdict(list)
            for a, _, b in rows.rows["s1"]:
                groups[a] += [x for key, _, x in rows.rows["s2"] if key == b]
            assert_equal(session["q"], meaning({a: values for a, values in groups.items() if values}))
        session.check()


def test_sums_of_floats_do_not_drift() -> None:
    """A hundred thousand insertions and deletions, and the sum is that of what is left, to the last bit."""
    rng = random.Random(1)
    program = datalog.parse("q(sum<x>, avg<x>, sum<x * w>) :- e(i, x), f(i, w).")
    with livelog.open(program, facts={"f": [(i, 1.0) for i in range(20)]}) as session:
        rows = Rows(session, rng)
        for _ in range(20):
            size = [10 ** rng.randint(-200, 200) for _ in range(5)]
            new = [(rng.randrange(20), rng.gauss(0, 1) * rng.choice(size)) for _ in range(2500)]
            rows.change({"e": new}, {"e": rng.randint(2000, 3000)})
        values = [x for _, x in rows.rows["e"]]
        total = math.fsum(values)
        assert list(session["q"]) == [(total, float(sum(map(Fraction, values)) / len(values)), total)]
        assert len(values) > 10


def test_the_way_to_a_state_does_not_matter() -> None:
    """The same rows, loaded at once, one by one, or with detours: the same answers, whatever the partitions."""
    rng = random.Random(2)
    text = "q(k, sum<x * y>, avg<x - y>, stddev<x>, median<y>) :- e(k, x), f(k, y). r(sum<s>) :- q(_, s, _, _, _)."
    e = [(rng.randrange(3), rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30)) for _ in range(40)]
    f = [(rng.randrange(3), rng.uniform(-1, 1)) for _ in range(40)]
    found = []
    for seed, partitions in enumerate((1, 1, 2, 3, 5)):
        way = random.Random(seed)
        operations = [("e", row) for row in e] + [("f", row) for row in f]
        way.shuffle(operations)
        with livelog.open(datalog.parse(text), partitions=partitions, seed=seed or None) as session:
            for at in range(0, len(operations), size := way.choice((1, 7, 100))):
                with session.transaction() as transaction:
                    for name, row in operations[at : at + size]:
                        transaction.insert(name, row)
                        transaction.insert(name, (row[0], 0.125))
                with session.transaction() as transaction:
                    for name, row in operations[at : at + size]:
                        transaction.delete(name, (row[0], 0.125))
            found.append([sorted(map(repr, session[view])) for view in ("q", "r")])
            session.check()
    assert all(other == found[0] for other in found)


COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


@pytest.mark.parametrize("inner", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("outer", ["<", "<=", ">", ">=", "="])
def test_nested_aggregates_of_many_rows(inner: str, outer: str) -> None:
    """The query of the RPAI paper with each comparison inside and outside, ties, and volumes of either sign."""
    rng = random.Random(f"{inner} {outer}")
    volumes, share = rng.choice(((range(1, 9), "0.75"), (range(-3, 6), "0.5"), (range(3), "0.25")))
    program = datalog.parse(f"""
        q(sum<p * v>, count<*>) :- bids(_, _, p, v), total = sum a : {{ bids(_, _, _, a) }},
            below = sum b : {{ bids(_, _, o, b), o {inner} p }}, {share} * total {outer} below.
        by(g, sum<v>) :- bids(_, g, p, v), {share} * sum a : {{ bids(_, g, _, a) }} {outer}
            sum b : {{ bids(_, g, o, b), o {inner} p }}.
    """)
    with livelog.open(program, partitions=rng.choice((1, 3))) as session:
        rows = Rows(session, rng)
        number = 0
        for more, fewer in ((150, 0), *[(1, 0), (0, 1), (1, 1)] * 3, (30, 60), (100, 0), (0, 400), (3, 0)):
            new = [(number + i, rng.randrange(3), rng.randint(1, 60), rng.choice(volumes)) for i in range(more)]
            number += more
            rows.change({"bids": new}, {"bids": fewer})
            every = rows.rows["bids"]
            passing = _passing(every, inner, outer, float(share))
            wanted = {(sum(p * v for *_, p, v in passing), len(passing))} if passing else set()
            assert_equal(session["q"], wanted)
            groups = set()
            for g in range(3):
                if left := _passing([row for row in every if row[1] == g], inner, outer, float(share)):
                    groups.add((g, sum(v for *_, v in left)))
            assert_equal(session["by"], groups)
        session.check()


def _passing(rows: list[Row], inner: str, outer: str, share: float) -> list[Row]:
    total = sum(v for *_, v in rows)
    by_price: dict[int, int] = defaultdict(int)
    for *_, p, v in rows:
        by_price[p] += v
    below = {p: sum(v for o, v in by_price.items() if COMPARE[inner](o, p)) for p in by_price}
    return [row for row in rows if COMPARE[outer](share * total, below[row[2]])]


RANK = """
    degree(x, count<*>) :- link(x, _).
    rank(0, x, 1.0) :- node(x).
    rank(i + 1, y, sum<0.85 * r / n>) :- rank(i, x, r), link(x, y), degree(x, n), i < 8.
"""


@pytest.mark.parametrize("threshold", [0.001, 0.05])
def test_the_error_of_an_approximated_iteration_is_bounded(threshold: float) -> None:
    """A layer is off by the threshold in each of its ranks, and by 0.85 of what the layer before is off by."""
    rng = random.Random(str(threshold))
    nodes = [(x,) for x in range(12)]
    links = sorted({(rng.randrange(12), rng.randrange(12)) for _ in range(50)})
    facts: dict[str, Any] = {"node": nodes, "link": links}
    exact = livelog.open(datalog.parse(RANK), facts=facts)
    close = livelog.open(datalog.parse(f".approx rank {threshold} {RANK}"), facts=facts, partitions=2)
    with exact, close:
        published = set(close.initial["rank"].inserted)
        untold = 0
        for _ in range(40):
            row = (rng.randrange(12), rng.randrange(12))
            name = rng.choice(("insert", "delete"))
            for session in (exact, close):
                with session.transaction() as transaction:
                    getattr(transaction, name)("link", row)
                if session is close:
                    change = transaction.changes["rank"]
                    assert published >= set(change.deleted) and not published & set(change.inserted)
                    published = published - set(change.deleted) | set(change.inserted)
                else:
                    untold += len(transaction.changes["rank"].inserted)
            assert published == set(close["rank"])
            wanted = {(i, x): r for i, x, r in exact["rank"]}
            shown = {(i, x): r for i, x, r in close["rank"]}
            assert wanted.keys() == shown.keys()
            for layer in range(9):
                off = sum(abs(r - shown[at]) for at, r in wanted.items() if at[0] == layer)
                most = sum(len(nodes) * threshold * 0.85**i for i in range(layer + 1))
                assert off <= most * (1 + 1e-9)
        close.check()
        assert untold > 0


def test_a_join_keeps_partial_sums_and_no_joined_rows() -> None:
    """Ten thousand joined rows of one key are one partial sum on each side; `stats` shows the size."""
    text = "q(a, sum<d>, avg<d>, count<*>) :- s1(a, _, b), s2(b, _, d)."
    sizes = {}
    for n in (10, 100):
        facts: dict[str, Any] = {"s1": [("a", i, 1) for i in range(n)], "s2": [(1, i, i % 7) for i in range(n)]}
        with livelog.open(datalog.parse(text), facts=facts) as session:
            total = sum(i % 7 for i in range(n))
            assert list(session["q"]) == [("a", n * total, total / n, n * n)]
            sizes[n] = session.stats().state_bytes
    assert sizes[100] < 25 * sizes[10]  # the facts are ten times as many, the joined rows a hundred times
