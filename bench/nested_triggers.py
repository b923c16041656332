"""DBToaster-style triggers for the nested-aggregate queries: what a system without indexes over aggregates does.

Each class follows the structure of Figures 1b and 2b of the paper: maps from distinct keys to partial sums, kept for
every update, and then the part that has no delta query evaluated again, in loops over the distinct keys of the maps.
One method for each relation takes a row and +1 or -1; `rows()` is the view. The asymptotics are those of the paper's
Table 1. Apart from that they are as fast as we could make them:

- inner loops are list comprehensions over `items()`: `for` statements are about as fast, generators in `sum` and
  `itertools.compress` are slower by half;
- in queries over two relations the side that did not change is not evaluated again, and the cross product of the two
  is computed from counts and sums;
- what could be computed in one go over sorted prices is not: DBToaster's maps are hashed, and sorting them is what
  the indexes that they are compared with are about.

Volumes must be positive: a price whose volume is 0 has no orders.
"""

from __future__ import annotations

from bench.nested_naive import SHARE, Row

__all__ = ["Half", "Mst", "Nq1", "Nq2", "Nq2Hoisted", "Psp", "Sq1", "Sq2", "Vwap"]


class Half:
    """Example 2.1: O(distinct a) for each update, as in Figure 1b."""

    def __init__(self) -> None:
        self._value: dict[int, int] = {}  # a -> sum(a * b)
        self._own: dict[int, int] = {}  # a -> sum(b)
        self._count: dict[int, int] = {}  # a -> rows: unlike volumes, b may be of any sign
        self._total = 0
        self._result: list[Row] = []

    def on_r(self, row: Row, x: int) -> None:
        a, b = row
        value, own, count = self._value, self._own, self._count
        value[a] = value.get(a, 0) + x * a * b
        own[a] = own.get(a, 0) + x * b
        count[a] = count.get(a, 0) + x
        if not count[a]:
            del value[a], own[a], count[a]
        self._total += x * b
        lhs = 0.5 * self._total
        passing = [a for a, rhs in own.items() if rhs == lhs]
        self._result = [(sum([value[a] for a in passing]),)] if passing else []

    def rows(self) -> list[Row]:
        return self._result


class _Bids:
    """The maps that all queries over bids alone have: price -> sum(volume), the total, price -> sum(price * volume)."""

    def __init__(self) -> None:
        self._volume: dict[int, int] = {}
        self._value: dict[int, int] = {}
        self._total = 0
        self._result = 0

    def on_bids(self, row: Row, x: int) -> None:
        _, _, _, v, p = row
        volume, value = self._volume, self._value
        left = volume.get(p, 0) + x * v
        if left:
            volume[p] = left
            value[p] = value.get(p, 0) + x * p * v
        else:
            del volume[p], value[p]
        self._total += x * v
        self._result = self.evaluate()

    def evaluate(self) -> int:
        """The answer, from the maps."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        # volumes and prices are positive: the sum is 0 if nothing passes, and only then
        return [(self._result,)] if self._result else []


class Vwap(_Bids):
    """O(prices²) for each update, as in Figure 2b."""

    def evaluate(self) -> int:
        items = self._volume.items()
        lhs = 0.75 * self._total
        result = 0
        for p, value in self._value.items():
            if lhs < sum([v for p2, v in items if p2 <= p]):
                result += value
        return result


class Sq1(_Bids):
    """O(prices²) for each update: two sums for each price."""

    def evaluate(self) -> int:
        items = self._volume.items()
        result = 0
        for p, value in self._value.items():
            if 0.75 * sum([v for p1, v in items if p1 >= p]) < sum([v for p2, v in items if p2 <= p]):
                result += value
        return result


class Sq2(_Bids):
    """O(prices²) for each update."""

    def evaluate(self) -> int:
        items = self._volume.items()
        lhs = 0.75 * self._total
        result = 0
        for p, value in self._value.items():
            limit = 11 * p
            if lhs < sum([v for p2, v in items if 10 * p2 <= limit]):
                result += value
        return result


class Nq1(_Bids):
    """O(prices²) for each update: the inner query does not depend on the outer one, so it is evaluated once."""

    def evaluate(self) -> int:
        items = self._volume.items()
        lowest, lhs = 0.25 * self._total, 0.75 * self._total
        passing = [(p2, v2) for p2, v2 in items if lowest < sum([v for p4, v in items if p4 <= p2])]
        result = 0
        for p, value in self._value.items():
            if lhs < sum([v for p2, v in passing if p2 <= p]):
                result += value
        return result


class Nq2(_Bids):
    """O(prices³) for each update: the inner query depends on the outer one, and is evaluated for each of its prices."""

    def evaluate(self) -> int:
        items = self._volume.items()
        lhs = 0.75 * self._total
        result = 0
        for p, value in self._value.items():
            lowest = 0.25 * sum([v for p3, v in items if p3 <= p])
            below = 0
            for p2, v2 in items:
                if p2 <= p and lowest < sum([v for p4, v in items if p4 <= p2]):
                    below += v2
            if lhs < below:
                result += value
        return result


class Nq2Hoisted(_Bids):
    """O(prices²) for each update: Nq2 by a person who sees that the innermost sum is the same for all p."""

    def evaluate(self) -> int:
        items = self._volume.items()
        lhs = 0.75 * self._total
        lower = [(p2, v2, sum([v for p4, v in items if p4 <= p2])) for p2, v2 in items]
        up_to = {p2: volume for p2, _, volume in lower}
        result = 0
        for p, value in self._value.items():
            lowest = 0.25 * up_to[p]
            if lhs < sum([v for p2, v, volume in lower if p2 <= p and lowest < volume]):
                result += value
        return result


class Mst:
    """O(prices²) of the side that changes for each update."""

    def __init__(self) -> None:
        self._bids: dict[int, int] = {}  # price -> sum(volume)
        self._asks: dict[int, int] = {}
        self._bid_rows: dict[int, dict[int, list[int]]] = {}  # price -> broker -> [orders, sum(price * volume)]
        self._ask_rows: dict[int, list[int]] = {}  # price -> [orders, sum(price * volume)]
        self._bid_total = self._ask_total = 0
        self._top_bids: dict[int, tuple[int, int]] = {}  # broker -> orders and value in the upper quarter
        self._top_asks = (0, 0)
        self._result: dict[int, int] = {}

    def on_bids(self, row: Row, x: int) -> None:
        _, _, b, v, p = row
        brokers = self._bid_rows.setdefault(p, {})
        entry = brokers.setdefault(b, [0, 0])
        entry[0] += x
        entry[1] += x * p * v
        if not entry[0]:
            del brokers[b]
            if not brokers:
                del self._bid_rows[p]
        self._bid_total += x * v
        _add(self._bids, p, x * v)
        top: dict[int, tuple[int, int]] = {}
        for price in _upper_quarter(self._bids, self._bid_total):
            for broker, (orders, value) in self._bid_rows[price].items():
                n, s = top.get(broker, (0, 0))
                top[broker] = n + orders, s + value
        self._top_bids = top
        self._join()

    def on_asks(self, row: Row, x: int) -> None:
        _, _, _, v, p = row
        entry = self._ask_rows.setdefault(p, [0, 0])
        entry[0] += x
        entry[1] += x * p * v
        if not entry[0]:
            del self._ask_rows[p]
        self._ask_total += x * v
        _add(self._asks, p, x * v)
        top = [self._ask_rows[price] for price in _upper_quarter(self._asks, self._ask_total)]
        self._top_asks = sum([n for n, _ in top]), sum([s for _, s in top])
        self._join()

    def _join(self) -> None:
        orders, value = self._top_asks
        self._result = {b: n * value - orders * s for b, (n, s) in self._top_bids.items()} if orders else {}

    def rows(self) -> list[Row]:
        return list(self._result.items())


def _upper_quarter(volume: dict[int, int], total: int) -> list[int]:
    """The prices with less than a quarter of the volume above them. O(prices²)."""
    items = volume.items()
    lhs = 0.25 * total
    return [p for p in volume if lhs > sum([v for p2, v in items if p2 > p])]


def _add(volume: dict[int, int], price: int, change: int) -> None:
    left = volume.get(price, 0) + change
    if left:
        volume[price] = left
    else:
        del volume[price]


class _Side:
    """One side of psp: volume -> orders, volume -> sum(price), and what the large ones come to."""

    __slots__ = ("count", "large", "price", "total", "value")

    def __init__(self) -> None:
        self.count: dict[int, int] = {}
        self.price: dict[int, int] = {}
        self.total = self.large = self.value = 0

    def update(self, row: Row, x: int) -> None:
        """O(distinct volumes)."""
        _, _, _, v, p = row
        count, price = self.count, self.price
        left = count.get(v, 0) + x
        if left:
            count[v] = left
            price[v] = price.get(v, 0) + x * p
        else:
            del count[v], price[v]
        self.total += x * v
        limit = SHARE * self.total
        large = [volume for volume in count if limit < volume]
        self.large = sum([count[volume] for volume in large])
        self.value = sum([price[volume] for volume in large])


class Psp:
    """O(distinct volumes of the side that changes) for each update."""

    def __init__(self) -> None:
        self._bids, self._asks = _Side(), _Side()

    def on_bids(self, row: Row, x: int) -> None:
        self._bids.update(row, x)

    def on_asks(self, row: Row, x: int) -> None:
        self._asks.update(row, x)

    def rows(self) -> list[Row]:
        bids, asks = self._bids, self._asks
        pairs = bids.large * asks.large
        return [(bids.large * asks.value - asks.large * bids.value,)] if pairs else []
