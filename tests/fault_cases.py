"""What is interrupted in `tests.faults`: programs, what they hold, a transaction that is struck, and one after it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle import Operation, Row

__all__ = ["SCENARIOS", "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """`change` is struck by faults; `more` comes after it, and must do what it should.

    With `fails`, `change` fails by itself. With `near`, what views show depends on history, as they are approximated or
    synchronised, and is compared with a session that nothing happens to. `several`: there are messages between two
    partitions.
    """

    text: str
    facts: dict[str, list[Row]]
    change: tuple[Operation, ...]
    more: tuple[Operation, ...]
    before: tuple[tuple[Operation, ...], ...] = ()
    fails: bool = False
    near: bool = False


def _rows(relation: str, kind: str, rows: list[Row]) -> tuple[Operation, ...]:
    return tuple((kind, relation, row) for row in rows)


MIXED = """
.decl link(x: number, y: number)
.decl node(x: number) ttl(10)
.decl share(x: number, n: number) key(x)
reach(x, y) :- link(x, y), 10 / (x + 1) >= 0.
reach(x, y) :- reach(x, z), reach(z, y).
lone(x) :- node(x), !reach(x, _).
degree(x, count<*>) :- reach(x, _).
load(x, total / n) :- degree(x, total), share(x, n).
heavy(sum<v>) :- load(_, v).
"""
MIXED_FACTS: dict[str, list[Row]] = {
    "link": [(1, 2), (2, 3), (3, 1), (4, 5)],
    "node": [(1,), (4,), (6,)],
    "share": [(1, 2), (4, 1)],
}
MIXED_BEFORE: tuple[tuple[Operation, ...], ...] = ((("advance", 4.0), ("insert", "node", (1,))),)
MIXED_CHANGE: tuple[Operation, ...] = (
    ("insert", "link", (3, 4)), ("delete", "link", (2, 3)), ("insert", "node", (7,)), ("insert", "node", (7,)),
    ("delete", "node", (8,)), ("insert", "share", (1, 3)), ("advance", 11.0), ("insert", "link", (5, 6)),
)  # fmt: skip
MIXED_MORE: tuple[Operation, ...] = (
    ("insert", "link", (2, 3)), ("delete", "link", (3, 1)), ("insert", "share", (4, 2)), ("advance", 14.5),
    ("insert", "node", (9,)),
)  # fmt: skip

BATCHES = """
.decl s(a: number, b: number)
.decl t(b: number, c: number) bag
.decl k(a: number, b: number) key(a)
joined(a, c) :- s(a, b), t(b, c).
total(a, sum<c>, count<*>) :- s(a, b), t(b, c).
most(b, max<c>, min<c>, avg<c>) :- t(b, c).
above(a, b) :- s(a, b), 0.5 * (sum x : { s(x, _) }) < sum y : { s(y, _), y <= a }.
named(a, b, n) :- k(a, b), n = count : { t(b, _) }.
both(a) :- k(a, _), !s(a, _).
"""
BATCHES_FACTS: dict[str, list[Row]] = {
    "s": [(i % 9, i) for i in range(40)],
    "t": [(i, i % 4) for i in range(30)] * 2,
    "k": [(i, i + 1) for i in range(12)],
}
BATCHES_CHANGE: tuple[Operation, ...] = (
    *_rows("s", "insert", [(i % 9, i) for i in range(35, 50)]),
    *_rows("s", "delete", [(i % 9, i) for i in range(30, 48, 3)]),
    *_rows("t", "delete", [(i, i % 4) for i in range(0, 12)]),
    *_rows("t", "insert", [(i, i % 4) for i in range(8, 20)]),
    *_rows("k", "insert", [(i, i) for i in range(6, 16)]),
    ("delete", "s", (0, 0)),
    ("insert", "t", (1, 1)),
)
BATCHES_MORE: tuple[Operation, ...] = (
    *_rows("s", "delete", [(i % 9, i) for i in range(5, 20)]),
    *_rows("t", "insert", [(i, 9) for i in range(5)]),
    ("delete", "t", (15, 3)),
    *_rows("k", "delete", [(i, i + 1) for i in range(5)]),
)
ONE_BATCH: tuple[Operation, ...] = (
    *_rows("s", "insert", [(i % 9, i) for i in range(35, 50)]),
    *_rows("t", "delete", [(i, i % 4) for i in range(0, 12)]),
)
FILLED: tuple[Operation, ...] = (
    *_rows("s", "insert", [(i % 9, i) for i in range(20)]),
    *_rows("t", "insert", [(i, i % 4) for i in range(20)] * 2),
    *_rows("t", "delete", [(i, i % 4) for i in range(5)]),
    ("insert", "s", (70, 70)),
)

CHEAPEST = """
.decl link(x: number, y: number, c: number)
path(x, y, c) :- link(x, y, c).
path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b.
best(x, y, min<c>) :- path(x, y, c).
way(x, y, c) :- best(x, y, c), c < 6.
"""

NEAR = """
.decl link(y: number, x: number)
.decl page(x: number)
pages(count<*>) :- page(_).
degree(y, count<*>) :- link(y, _).
rank(0, x, 1.0 / n) :- page(x), pages(n).
inflow(i, x, sum<r / d>) :- rank(i, y, r), degree(y, d), link(y, x), i < 3.
rank(i + 1, x, 0.15 / n + 0.85 * s) :- inflow(i, x, s), pages(n).
pagerank(x, r) :- rank(3, x, r).
weight(y, sum<x>) :- link(y, x).
heavy(y, 2 * w) :- weight(y, w).
.approx weight 3
.approx rank 0.02
"""

NEVER_TOGETHER = """
.decl l(x: number)
.decl r(x: number)
.decl a(x: number, y: number)
p(x, y) :- a(x, y).
p(x, z) :- p(x, y), p(y, z).
h(x, y, z) :- l(x), r(y), z = x / y.
s(x, sum<z>) :- h(x, _, z), !p(x, x).
"""

TIMES = """
.decl temp(r: number, v: number) key(r)
.decl seen(x: number) ttl(6)
.decl plain(x: number)
.decl s(x: number) stream
.decl alarm(t: number)
hot(r, 100 / v) :- temp(r, v) at every(3).
late(x) :- plain(x) at alarm.
w(x, ts) :- s(x)@ts, now(t), t - 4 < ts, ts <= t.
dated(x, t) :- seen(x)@t.
when(r, t) :- hot(r, _)@t.
reach(x, y) :- temp(x, y) at every(2).
reach(x, y) :- reach(x, z), reach(z, y).
total(sum<x>) :- s(x)@ts at every(5), now(t), t <= ts + 6, !seen(x).
"""
TIMES_FACTS: dict[str, list[Row]] = {"temp": [(1, 2), (2, 3)], "plain": [(1,)], "seen": [(1,)], "s": [(1,), (2,), (2,)]}
TIMES_BEFORE: tuple[tuple[Operation, ...], ...] = (
    (("advance", 1.0), ("insert", "s", (3,)), ("insert", "temp", (3, 1)), ("insert", "alarm", (8,))),
    (("advance", 3.5), ("insert", "s", (4,)), ("delete", "plain", (1,)), ("insert", "seen", (4,))),
)
TIMES_CHANGE: tuple[Operation, ...] = (
    ("insert", "temp", (1, 4)), ("insert", "seen", (1,)), ("advance", 5.0), ("insert", "s", (5,)),
    ("insert", "plain", (2,)), ("advance", 9.5), ("delete", "temp", (2, 3)), ("insert", "s", (6,)),
    ("insert", "alarm", (11,)), ("insert", "temp", (4, 2)), ("advance", 12.0),
)  # fmt: skip
TIMES_MORE: tuple[Operation, ...] = (
    ("insert", "s", (7,)), ("insert", "temp", (1, 5)), ("insert", "seen", (2,)), ("advance", 17.0),
    ("insert", "alarm", (17,)), ("insert", "temp", (2, 7)),
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {
    "mixed": Scenario(MIXED, MIXED_FACTS, MIXED_CHANGE, MIXED_MORE, MIXED_BEFORE),
    "one row": Scenario(MIXED, MIXED_FACTS, (("insert", "link", (3, 4)),), MIXED_MORE, MIXED_BEFORE),
    "a division by zero": Scenario(
        MIXED, MIXED_FACTS, (*MIXED_CHANGE, ("insert", "share", (3, 0))), MIXED_MORE, MIXED_BEFORE, fails=True
    ),
    "batches": Scenario(BATCHES, BATCHES_FACTS, BATCHES_CHANGE, BATCHES_MORE),
    "one batch each": Scenario(BATCHES, BATCHES_FACTS, ONE_BATCH, BATCHES_MORE),
    "empty tables": Scenario(BATCHES, {"k": BATCHES_FACTS["k"]}, FILLED, BATCHES_MORE),
    "selection": Scenario(
        CHEAPEST,
        {"link": [(1, 2, 3), (2, 3, 1), (1, 3, 7), (3, 4, 2), (2, 4, 4)]},
        (("delete", "link", (2, 3, 1)), ("insert", "link", (1, 4, 1)), ("insert", "link", (2, 3, 5))),
        (("insert", "link", (2, 3, 1)), ("delete", "link", (1, 4, 1)), ("delete", "link", (3, 4, 2))),
    ),
    "approximated": Scenario(
        NEAR,
        {"page": [(i,) for i in range(6)], "link": [(i, (i * k + 1) % 6) for i in range(6) for k in (1, 2, 5)]},
        (("insert", "link", (1, 4)), ("delete", "link", (2, 3)), ("insert", "link", (3, 8))),
        (("insert", "link", (2, 0)), ("delete", "link", (4, 5)), ("insert", "link", (0, 2)), ("delete", "page", (5,))),
        ((("insert", "link", (0, 4)), ("insert", "link", (2, 1))), (("insert", "link", (5, 2)),)),
        near=True,
    ),
    "times": Scenario(TIMES, TIMES_FACTS, TIMES_CHANGE, TIMES_MORE, TIMES_BEFORE, near=True),
    "a division by zero on the way": Scenario(
        TIMES, TIMES_FACTS, (*TIMES_CHANGE[:-1], ("insert", "temp", (5, 0)), ("advance", 12.0)), TIMES_MORE,
        TIMES_BEFORE, fails=True, near=True,
    ),
    "a second evaluation": Scenario(
        NEVER_TOGETHER,
        {"r": [(0,), (5,)], "a": [(1, 2), (2, 3)]},
        (
            ("delete", "r", (0,)), ("insert", "r", (2,)), ("insert", "l", (10,)), ("insert", "l", (3,)),
            ("insert", "a", (3, 1)), ("delete", "a", (1, 2)),
        ),
        (("delete", "r", (5,)), ("insert", "a", (1, 2)), ("insert", "a", (2, 4))),
    ),
}  # fmt: skip
