"""An order book: bids and asks that come, change and are withdrawn around a price that wanders.

Rows are (time, id, broker, volume, price), all whole numbers: prices are ticks, volumes are lots. The model has what
makes an order book hard to summarise, and no more:

- the middle price takes a step of up to `walk` ticks with every event, and stays within half of its start on either
  side;
- a bid stands `spread` / 2 ticks and an exponential distance of `depth` ticks on average below the middle, an ask as
  much above it: most orders are near the best price, and a few are far away;
- volumes have the Lomax distribution (Pareto's, moved to start at 0) of shape 1.5 and mean `volume`: most orders are
  small, and a few hold a good part of the book, however large the book is;
- brokers have shares of 1, 1/2, 1/3 and so on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import copy
from itertools import accumulate
from math import log

from topologies.streams.step import Operation, Row, Step, Steps, Workload

__all__ = ["order_book"]

SIDES = ("bids", "asks")
SHAPE = 1.5  # of the volumes: at 2 and below the variance is infinite


def order_book(
    size: int,
    *,
    events: int | None = None,
    filled: bool = True,
    retractions: float = 0.1,
    updates: float = 0.1,
    sides: tuple[str, ...] = SIDES,
    brokers: int = 10,
    start: int = 10_000,
    depth: float = 100,
    spread: int = 2,
    walk: int = 1,
    volume: float = 100,
    seed: int = 0,
) -> Workload:
    """A book of `size` live orders, and `events` that keep it at that size, each of them a transaction; or for ever.

    With `filled` the facts are a full book; without it the book starts empty and grows. While it grows, the share
    `retractions` of the events withdraws an order (any that is live, with even odds). Once it is full, orders that
    come and orders that are withdrawn take turns. The share `updates` of the events changes an order: it is deleted
    and inserted with the same id and another volume and price, in one transaction. `sides` are the relations that
    orders go to, with even odds: ("bids",) makes a book of one side.

    >>> book = order_book(6, events=4, updates=0.3, seed=15)
    >>> {side: len(rows) for side, rows in book.facts.items()}
    {'bids': 5, 'asks': 1}
    >>> for step in book.steps:
    ...     print(step.about, *(sign + side + str(row) for sign, side, row in step.operations), sep="; ")
    order 6 is withdrawn; -asks(6, 6, 1, 96, 10060)
    order 7 comes; +asks(8, 7, 5, 372, 10006)
    order 5 changes; -bids(5, 5, 7, 10, 9926); +bids(9, 5, 7, 270, 9979)
    order 1 is withdrawn; -bids(1, 1, 4, 825, 9981)
    """
    if size < 1:
        raise ValueError(f"a book has at least one order, got {size}")
    if events is not None and events < 0:
        raise ValueError(f"the number of events must not be negative, got {events}")
    for name, share in (("retractions", retractions), ("updates", updates)):
        if not 0 <= share < 1:
            raise ValueError(f"{name} is a share from 0 to below 1, got {share}")
    if not sides or brokers < 1 or not volume > 0 or not depth > 0 or spread < 0 or walk < 0:
        raise ValueError("a book has a side, a broker, a volume and a depth above 0, and no negative spread or walk")
    if start < 2:
        raise ValueError(f"the price starts at 2 ticks or more, got {start}")

    first = _Book(sides, brokers, start, depth, spread, walk, volume, random.Random(seed))
    if filled:
        first.fill(size)
    facts: dict[str, list[Row]] = {side: [] for side in sides}
    for side, row in first.orders:
        facts[side].append(row)

    def draw() -> Iterator[Step]:
        book = first.copy()
        while True:
            yield book.event(size, retractions, updates)

    return Workload(facts, Steps(draw, events))


class _Book:
    """The live orders, in an order that lets any of them be taken out in O(1), and the middle price."""

    def __init__(
        self,
        sides: tuple[str, ...],
        brokers: int,
        start: int,
        depth: float,
        spread: int,
        walk: int,
        volume: float,
        rng: random.Random,
    ) -> None:
        self.orders: list[tuple[str, Row]] = []
        self._sides = sides
        self._odds = list(accumulate(1 / rank for rank in range(1, brokers + 1)))
        self._low, self._middle, self._high = start - start // 2, start, start + start // 2
        self._depth, self._spread, self._walk = depth, spread, walk
        self._scale = volume * (SHAPE - 1)
        self._rng = rng
        self._time = 0
        self._ids = 0
        self._full = False  # from the first time that it was full, orders come and go in turns

    def copy(self) -> _Book:
        """The same book, to go on from here more than once."""
        other = copy(self)
        other.orders = self.orders.copy()
        other._rng = random.Random()
        other._rng.setstate(self._rng.getstate())
        return other

    def fill(self, size: int) -> None:
        """Orders come until there are so many."""
        while len(self.orders) < size:
            self._tick()
            self._come()
        self._full = True

    def _tick(self) -> None:
        """Time goes on, and the price wanders; at the ends of its range it turns back."""
        self._time += 1
        step = self._rng.randint(-self._walk, self._walk) if self._walk else 0
        self._middle = min(max(self._middle + step, self._low), self._high)

    def event(self, size: int, retractions: float, updates: float) -> Step:
        """What happens next in a book that should hold so many orders."""
        self._tick()
        rng, orders = self._rng, self.orders
        if orders and rng.random() < updates:
            place = rng.randrange(len(orders))
            side, old = orders[place]
            new = self._row(side, old[1], old[2])
            orders[place] = side, new
            return self._step((("-", side, old), ("+", side, new)), f"order {old[1]} changes")
        self._full = self._full or len(orders) >= size
        withdraw = len(orders) >= size if self._full else bool(orders) and rng.random() < retractions
        if withdraw:
            place = rng.randrange(len(orders))
            side, old = orders[place]
            orders[place] = orders[-1]
            orders.pop()
            return self._step((("-", side, old),), f"order {old[1]} is withdrawn")
        side, new = self._come()
        return self._step((("+", side, new),), f"order {new[1]} comes")

    def _step(self, operations: tuple[Operation, ...], about: str) -> Step:
        return Step(float(self._time), operations, about)

    def _come(self) -> tuple[str, Row]:
        rng = self._rng
        self._ids += 1
        side = self._sides[int(rng.random() * len(self._sides))]
        [broker] = rng.choices(range(len(self._odds)), cum_weights=self._odds)
        order = side, self._row(side, self._ids, broker)
        self.orders.append(order)
        return order

    def _row(self, side: str, number: int, broker: int) -> Row:
        random_ = self._rng.random
        # 1 - random() is above 0, as the logarithm and the power want it
        distance = self._spread // 2 + int(-log(1 - random_()) * self._depth)
        price = self._middle + distance if side == "asks" else max(1, self._middle - distance)
        volume = 1 + int(self._scale * ((1 - random_()) ** (-1 / SHAPE) - 1))
        return self._time, number, broker, volume, price
