"""A long run of deletions and insertions that ends where it began leaves nothing behind."""

from __future__ import annotations

import gc
import random
import tracemalloc
from typing import Any

import pytest

import datalog
import livelog
from tests.runs import WAYS

REACHABLE = "reachable(x, y) :- link(x, y). reachable(x, y) :- link(x, z), reachable(z, y)."
CHEAPEST = """
path(x, y, c) :- link(x, y, c). path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b.
best(x, y, min<c>) :- path(x, y, c).
"""
FACTOR = 1.2  # for what the engine counts: variables, diagram nodes, tuples of state
BYTES = 1.5  # for what Python has allocated


def graph(nodes: int, links: int, seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    chosen = {(i, (i + 1) % nodes) for i in range(nodes)}
    while len(chosen) < links:
        x, y = rng.randrange(nodes), rng.randrange(nodes)
        if x != y:
            chosen.add((x, y))
    return sorted(chosen)


def change(session: Any, *, insert: list[Any] = [], delete: list[Any] = []) -> None:  # noqa: B006
    with session.transaction() as transaction:
        for row in delete:
            transaction.delete("link", row)
        for row in insert:
            transaction.insert("link", row)


def churn(session: Any, rows: list[Any], transactions: int, rng: random.Random) -> None:
    """Delete and re-insert random rows, up to ten missing at a time; in the end all are back."""
    missing: list[Any] = []
    for _ in range(transactions):
        if missing and (len(missing) >= 10 or rng.random() < 0.5):
            change(session, insert=[missing.pop(rng.randrange(len(missing)))])
        else:
            row = rng.choice([row for row in rows if row not in missing])
            missing.append(row)
            change(session, delete=[row])
    change(session, insert=missing)


def figures(session: Any) -> dict[str, int]:
    stats = session.stats()
    return {"variables": stats.variables, "nodes": stats.bdd_nodes, "state": stats.tuples}


def run(text: str, rows: list[Any], view: str, transactions: int, **options: Any) -> None:
    rng = random.Random(1)
    gc.collect()
    tracemalloc.start()
    try:
        empty = tracemalloc.get_traced_memory()[0]
        with livelog.open(datalog.parse(text), facts={"link": rows}, **options) as session:
            churn(session, rows, 40, rng)  # caches are warm, tables have their size
            expected = list(session[view])
            before, bytes_before = figures(session), _traced() - empty
            churn(session, rows, transactions, rng)
            assert list(session[view]) == expected
            session.check()
            after, bytes_after = figures(session), _traced() - empty
    finally:
        tracemalloc.stop()
    for name, value in before.items():
        assert after[name] <= FACTOR * value + 16, f"{name}: {value} before, {after[name]} after"
    assert bytes_after <= BYTES * bytes_before, f"{bytes_before} bytes before, {bytes_after} after"


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_reachability_ends_where_it_began() -> None:
    run(REACHABLE, graph(40, 100, 3), "reachable", 800)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("absorption-demand", "recompute")])
def test_the_other_ways(way: str) -> None:
    run(REACHABLE, graph(12, 26, 3), "reachable", 250, **WAYS[way])


@pytest.mark.parametrize("way", ["absorption-demand", "relative-lazy", "dred"])
def test_over_partitions(way: str) -> None:
    """What is offered, shipped and copied does not pile up either."""
    run(REACHABLE, graph(20, 50, 3), "reachable", 150, partitions=3, **WAYS[way])


@pytest.mark.parametrize("way", ["absorption-demand", "dred"])
def test_cheapest_cost_over_partitions(way: str) -> None:
    rng = random.Random(5)
    links = [(x, y, rng.randint(1, 9)) for x, y in graph(16, 40, 4)]
    run(CHEAPEST, links, "best", 150, partitions=3, **WAYS[way])


def test_a_closed_session_lets_go_at_once() -> None:
    """Without waiting for the collector, which comes late where there is a lot."""
    text = """
    .decl e(x: number, y: number)
    degree(x, count<*>) :- e(x, _).
    of(x, y, d) :- e(x, y), degree(x, d).
    sums(x, sum<d>) :- e(x, y), degree(y, d).
    """
    facts = {"e": [(i, i * 7 % 10_000) for i in range(10_000)]}
    gc.collect()
    gc.disable()
    try:
        livelog.open(datalog.parse(text), facts=facts).close()
        assert gc.collect() < 10_000  # what was parsed and planned, but no facts, cells or tuples
    finally:
        gc.enable()
