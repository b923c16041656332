"""Lookups against a look at all rows: absence and aggregates, with and without a condition, asked and forgotten."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

from operators.errors import RuleFailure
from operators.lookup import Lookup
from operators.monoids import factory

Row = tuple[Any, ...]
FUNCTIONS = ("absent", "count", "sum", "min", "max", "avg")


def holds(key: Row, row: Row) -> bool:
    """The condition of some of the lookups: the last column of the key bounds a column of the row."""
    return bool(row[1] <= key[-1])


def value(row: Row) -> Row:
    """What a row contributes: an expression over the key and the inner row."""
    return (row[-1] * 2,)


def naive(function: str, key: Row, rows: Counter[Row], width: int, conditional: bool) -> list[Row]:
    matching = [
        r for r, n in rows.items() for _ in range(n)
        if r[:width] == key[:width] and (not conditional or holds(key, r))
    ]  # fmt: skip
    if function == "absent":
        return [] if matching else [key]
    values = [2 * r[-1] for r in matching]
    if function == "count":
        return [(*key, len(values))]
    if function == "sum":
        return [(*key, math.fsum(values) if any(isinstance(v, float) for v in values) else sum(values))]
    if not values:
        return []
    if function == "avg":
        return [(*key, math.fsum(values) / len(values))]
    return [(*key, min(values) if function == "min" else max(values))]


def build(function: str, width: int, conditional: bool) -> Lookup:
    def matching(key: Row, batch: Any) -> list[tuple[Any, int]]:
        return [(value(key + row)[0], n) for row, n in batch if not conditional or holds(key, row)]

    return Lookup(
        "rule",
        tuple(range(width)),
        matching,
        None if function == "absent" else factory(function, {}),
        0 if function in ("sum", "count") else None,
    )


@pytest.mark.parametrize("conditional", [False, True], ids=["plain", "where"])
@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_answer_is_that_of_a_scan(function: str, width: int, conditional: bool) -> None:
    rng = random.Random(f"{function} {width} {conditional}")
    lookup = build(function, width, conditional)
    rows: Counter[Row] = Counter()
    asked: set[Row] = set()
    answers: set[Row] = set()
    for _ in range(80):
        for _ in range(rng.randint(0, 2)):  # changes come in pieces, and answers only when all are in
            batch: Counter[Row] = Counter()
            for _ in range(rng.randint(1, 4)):
                row = (rng.randrange(2), rng.randrange(3), rng.choice([1, 2, 0.5]))
                batch[row] += 1 if not rows[row] + batch[row] or rng.random() < 0.5 else -1
            changes = [(r, w) for r, w in batch.items() if w]
            lookup.change(changes)
            rows.update(dict(changes))
            rows = +rows
        gone, new = lookup.settle()
        assert set(gone) <= answers and not set(gone) & set(new) and len(gone + new) == len(set(gone + new))
        answers = answers - set(gone) | set(new)
        keys = [(rng.randrange(2), rng.randrange(3)) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.6:
            fresh = lookup.ask(keys + keys)
            assert len(fresh) == len(set(fresh)) and not set(fresh) & answers
            answers |= set(fresh)
            asked |= set(keys)
        else:
            fallen = lookup.forget(keys)
            assert set(fallen) <= answers and len(fallen) == len(set(fallen))
            answers -= set(fallen)
            asked -= set(keys)
        assert answers == {a for key in asked for a in naive(function, key, rows, width, conditional)}
        lookup.check()
        assert lookup.stats() == {"keys": len(asked), "rows": len(rows)}
        assert Counter(lookup.rows()) == Counter([*asked, *rows])
    lookup.change([(r, -n) for r, n in rows.items()])
    lookup.settle()
    lookup.forget(list(asked))
    assert not lookup._keys and not lookup._by_match and not lookup._inner and not lookup._before


def test_a_key_forgotten_while_its_answer_changes() -> None:
    """The answer that falls away is the one that was given last."""
    lookup = build("sum", 1, False)
    assert lookup.ask([("a",)]) == [("a", 0)]
    lookup.change([(("a", 0, 5), 1)])
    assert lookup.forget([("a",)]) == [("a", 0)]
    assert lookup.settle() == ([], [])
    assert lookup.ask([("a",)]) == [("a", 10)]
    lookup.check()


def test_what_is_only_so_for_a_moment_is_never_an_answer() -> None:
    lookup = build("sum", 1, False)
    big = 2**62 - 1
    lookup.ask([("a",)])
    lookup.change([(("a", 0, big), 1)])
    assert lookup.settle() == ([("a", 0)], [("a", 2 * big)])
    lookup.change([(("a", 1, big), 1)])  # too large together, were it to stay
    lookup.change([(("a", 0, big), -1)])
    assert lookup.settle() == ([], [])


def test_errors_name_the_rule() -> None:
    lookup = Lookup("r(x) :- ...", (0,), lambda _, batch: [(None, n) for row, n in batch if 1 / row[1] > 0], None)
    lookup.ask([("a",)])
    with pytest.raises(RuleFailure) as failure:
        lookup.change([(("a", 0), 1)])
    assert failure.value.rule == "r(x) :- ..." and failure.value.row == ("a", 0)
    total = build("sum", 1, False)
    total.change([(("a", 0, 2**62), 1)])
    with pytest.raises(RuleFailure, match="overflow"):
        total.ask([("a",)])


def test_equal_numbers_are_one_key() -> None:
    lookup = build("absent", 1, False)
    assert lookup.ask([(1,), (1.0,)]) == [(1,)]
    lookup.change([((1.0, 0, 0), 1)])
    assert lookup.settle() == ([(1,)], [])
