"""The order book: what it promises of sizes, prices, volumes and brokers, and that it is the same for the same seed."""

from __future__ import annotations

import statistics
from collections import Counter
from itertools import islice
from typing import Any

import pytest

import topologies
from livelog.io.updates import read_script
from topologies.streams.step import Step


def live(facts: dict[str, list[Any]], steps: list[Step]) -> list[dict[str, set[Any]]]:
    """The rows of each side at the start and after each step; nothing is inserted twice or deleted when not there."""
    book = {side: set(rows) for side, rows in facts.items()}
    states = [{side: rows.copy() for side, rows in book.items()}]
    for step in steps:
        for sign, side, row in step.operations:
            assert (row in book[side]) == (sign == "-")
            (book[side].remove if sign == "-" else book[side].add)(row)
        states.append({side: rows.copy() for side, rows in book.items()})
    return states


def size(state: dict[str, set[Any]]) -> int:
    return sum(map(len, state.values()))


def test_a_full_book_stays_full() -> None:
    book = topologies.order_book(50, events=200, seed=3)
    steps = list(book.steps)
    states = live(book.facts, steps)
    assert len(steps) == 200 and size(states[0]) == 50
    assert {size(state) for state in states} == {49, 50}
    kinds = Counter(len(step.operations) for step in steps)
    assert 5 < kinds[2] < 40, "about a tenth are updates"
    for step in steps:
        if len(step.operations) == 2:
            (_, side, old), (_, other, new) = step.operations
            assert (side, old[1:3]) == (other, new[1:3]) and old[0] < new[0] and "changes" in step.about


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_an_empty_book_grows_to_its_size(share: float) -> None:
    book = topologies.order_book(60, events=600, filled=False, retractions=share, updates=0, seed=1)
    assert book.facts == {"bids": [], "asks": []}
    steps = list(book.steps)
    sizes = [size(state) for state in live(book.facts, steps)]
    full = sizes.index(60)
    assert sizes[0] == 0 and set(sizes[full:]) == {59, 60}
    withdrawn = sum(step.operations[0][0] == "-" for step in steps[:full]) / full
    assert abs(withdrawn - share) < 0.1


def test_the_same_seed_gives_the_same_book_any_number_of_times() -> None:
    book, again = (topologies.order_book(40, events=80, seed=7) for _ in range(2))
    assert book.facts == again.facts
    assert list(book.steps) == list(book.steps) == list(again.steps)
    other = topologies.order_book(40, events=80, seed=8)
    assert other.facts != book.facts and list(other.steps) != list(book.steps)
    endless = topologies.order_book(40, seed=7)
    assert list(islice(endless.steps, 80)) == list(book.steps)


def test_rows() -> None:
    book = topologies.order_book(4000, brokers=5, spread=10, walk=0, start=5_000, depth=50, volume=200, seed=2)
    bids, asks = book.facts["bids"], book.facts["asks"]
    rows = bids + asks
    assert abs(len(bids) - len(asks)) < 400
    assert all(type(value) is int for row in rows for value in row)
    assert sorted(row[1] for row in rows) == list(range(1, 4001)), "ids differ"
    assert all(1 <= price <= 4_995 for *_, price in bids) and all(price >= 5_005 for *_, price in asks)
    assert abs(statistics.mean(price for *_, price in asks) - 5_055) < 10
    shares = Counter(broker for _, _, broker, _, _ in rows)
    assert [broker for broker, _ in shares.most_common()] == [0, 1, 2, 3, 4]
    volumes = sorted(volume for _, _, _, volume, _ in rows)
    assert volumes[0] >= 1 and sum(volumes[-40:]) > 0.1 * sum(volumes), "one order in a hundred holds a tenth"


def test_the_price_wanders_within_its_range() -> None:
    book = topologies.order_book(500, events=3000, start=20, walk=9, depth=0.01, spread=0, seed=4)
    prices = {row[4] for step in book.steps for sign, _, row in step.operations if sign == "+"}
    assert min(prices) == 10 and max(prices) == 30 and len(prices) == 21
    assert all(row[4] >= 1 for row in topologies.order_book(500, start=2, depth=100, seed=4).facts["bids"])


def test_one_side() -> None:
    book = topologies.order_book(30, events=60, sides=("bids",), seed=4)
    assert list(book.facts) == ["bids"] and {op[1] for step in book.steps for op in step.operations} == {"bids"}


def test_as_a_script() -> None:
    book = topologies.order_book(5, events=6, seed=4)
    facts, *rest = read_script(topologies.write_script(book))
    rows = {(side, row) for side in book.facts for row in book.facts[side]}
    assert {(op.relation, op.row) for op in facts.operations} == rows
    written = [[(op.op, op.relation, op.row) for op in each.operations if op.op != "@"] for each in rest]
    assert written == [list(step.operations) for step in book.steps]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "at least one order"),
        ({"events": -1}, "events must not be negative"),
        ({"retractions": 1.0}, "retractions is a share"),
        ({"updates": -0.1}, "updates is a share"),
        ({"sides": ()}, "a book has a side"),
        ({"brokers": 0}, "a broker"),
        ({"start": 1}, "2 ticks or more"),
    ],
)
def test_what_makes_no_book(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.order_book(**{"size": 10, **options})
