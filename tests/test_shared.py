"""Joins that read the heads of groups, under batches and rows that come and go: against loops in plain Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import RuntimeProblem

PROGRAM = """
.decl e(x: number, y: number){bag}
degree(x, count<*>) :- e(x, _).
total(x, sum<y>) :- e(x, y).
edges(count<*>) :- e(_, _).
both(x, d, t) :- degree(x, d), total(x, t).
ends(x, y, d, f) :- degree(x, d), e(x, y), degree(y, f).
square(x, d * f) :- degree(x, d), degree(x, f).
alike(x, y) :- degree(x, d), degree(y, d), x < y.
share(x, d * 100 / n) :- degree(x, d), edges(n).
heavy(x, t / (d - 7)) :- both(x, d, t), degree(x, d).
"""

Edge = tuple[int, int]


def expected(edges: Counter[Edge]) -> dict[str, set[Any]]:
    """The views, by loops."""
    degree: dict[int, int] = defaultdict(int)
    total: dict[int, int] = defaultdict(int)
    for (x, y), n in edges.items():
        degree[x] += n
        total[x] += n * y
    count = sum(edges.values())
    return {
        "degree": set(degree.items()),
        "total": set(total.items()),
        "edges": {(count,)} if count else set(),
        "both": {(x, d, total[x]) for x, d in degree.items()},
        "ends": {(x, y, degree[x], degree[y]) for x, y in edges if y in degree},
        "square": {(x, d * d) for x, d in degree.items()},
        "alike": {(x, y) for x in degree for y in degree if x < y and degree[x] == degree[y]},
        "share": {(x, d * 100 // count) for x, d in degree.items()},
        "heavy": {(x, int(total[x] / (d - 7))) for x, d in degree.items()},
    }


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("bag", ["", " bag"])
@pytest.mark.parametrize("seed", range(6))
def test_random_histories(seed: int, bag: str, partitions: int) -> None:
    rng = random.Random(f"{seed} {bag}")
    edges: Counter[Edge] = Counter()

    def draw() -> Edge:
        return rng.randrange(8), rng.randrange(8)

    with livelog.open(datalog.parse(PROGRAM.replace("{bag}", bag)), partitions=partitions) as session:
        told: dict[str, set[Any]] = {view: set() for view in session.views}
        for step in range(40):
            after = Counter(edges)
            operations: list[tuple[str, list[Edge]]] = []
            for _ in range(rng.randint(1, 3)):
                sign = rng.choice(("+", "+", "-", "++", "++", "--"))
                rows = [draw() for _ in range(rng.randint(1, 6))]
                operations.append((sign, rows if len(sign) == 2 else rows[:1]))
                for row in operations[-1][1]:
                    if sign[0] == "+":
                        after[row] = after[row] + 1 if bag else 1
                    elif after[row]:
                        after[row] -= 1
            after = +after
            degrees = Counter[int]()
            for (x, _), n in after.items():
                degrees[x] += n
            fails = 7 in degrees.values()  # `heavy` divides by nothing
            try:
                with session.transaction() as tx:
                    for sign, rows in operations:
                        call = {"+": tx.insert, "-": tx.delete, "++": tx.insert_all, "--": tx.delete_all}[sign]
                        call("e", rows if len(sign) == 2 else rows[0])  # type: ignore[arg-type]
                assert not fails
            except RuntimeProblem:
                assert fails
            else:
                edges = after
                for view in session.views:
                    changes = tx.changes[view]
                    assert told[view].issuperset(changes.deleted) and told[view].isdisjoint(changes.inserted)
                    told[view] = (told[view] - set(changes.deleted)) | set(changes.inserted)
            want = expected(edges)
            for view in session.views:
                assert set(session[view]) == told[view] == want[view], (step, view)
            if rng.random() < 0.3:
                session.check()
        session.check()


def test_heads_are_not_kept_twice() -> None:
    """A relation of one tuple per group is joined by that key without a table of its own."""
    text = ".decl e(x: number, y: number)\n degree(x, count<*>) :- e(x, _). total(x, sum<y>) :- e(x, y)."
    joined = text + " both(x, d, t) :- degree(x, d), total(x, t)."
    edges = [(x, y) for x in range(100) for y in range(3)]
    sizes = []
    for program in (text, joined):
        with livelog.open(datalog.parse(program), facts={"e": edges}) as session:
            sizes.append(session.stats().tuples)
    assert sizes[1] - sizes[0] == 100  # those of `both`


def test_an_approximated_relation_is_joined_as_it_is_shown() -> None:
    text = """
    .decl e(x: number, y: float)
    .approx total 10
    total(x, sum<y>) :- e(x, y).
    degree(x, count<*>) :- e(x, _).
    both(x, d, t) :- degree(x, d), total(x, t).
    """
    rng = random.Random(4)
    with livelog.open(datalog.parse(text)) as session:
        held: set[tuple[int, float]] = set()
        for _ in range(60):
            with session.transaction() as tx:
                for _ in range(3):
                    row = (rng.randrange(4), float(rng.randrange(9)))
                    (tx.insert if rng.random() < 0.6 else tx.delete)("e", row)
                    held ^= {row} if (row in held) != (tx._operations[-1][0] == "+") else set()
            shown, degree = dict(session["total"]), Counter(x for x, _ in held)
            assert set(session["both"]) == {(x, degree[x], shown[x]) for x in degree}
            for x, t in shown.items():
                assert abs(t - sum(y for z, y in held if z == x)) <= 10
            session.check()
