"""The four queries of the growing book from scratch in O(n log n), to check the engine where loops would take days.

Volumes must be positive, so that sums grow with the price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate

from bench.nested_naive import SHARE, Row, Tables

__all__ = ["SORTED"]


def _levels(side: Collection[Row]) -> tuple[list[int], list[int]]:
    """The prices in order, and the volume at each."""
    volume: Counter[int] = Counter()
    for _, _, _, v, p in side:
        volume[p] += v
    prices = sorted(volume)
    return prices, [volume[p] for p in prices]


def vwap(tables: Tables) -> list[Row]:
    prices, volumes = _levels(tables["bids"])
    limit = 0.75 * sum(volumes)
    return _value(
        p * v for p, v, below in zip(prices, volumes, accumulate(volumes), strict=True) if limit < below
    )


def nq1(tables: Tables) -> list[Row]:
    prices, volumes = _levels(tables["bids"])
    total = sum(volumes)
    counted = [v if 0.25 * total < lower else 0 for v, lower in zip(volumes, accumulate(volumes), strict=True)]
    return _value(
        p * v for p, v, below in zip(prices, volumes, accumulate(counted), strict=True) if 0.75 * total < below
    )


def _value(values: Iterable[int]) -> list[Row]:
    found = list(values)
    return [(sum(found),)] if found else []


def mst(tables: Tables) -> list[Row]:
    bids, asks = _top(tables["bids"]), _top(tables["asks"])
    if not asks:
        return []
    value = sum(v * p for _, _, _, v, p in asks)
    orders: Counter[int] = Counter()
    own: Counter[int] = Counter()
    for _, _, b, v, p in bids:
        orders[b] += 1
        own[b] += v * p
    return [(b, orders[b] * value - len(asks) * own[b]) for b in orders]


def _top(side: Collection[Row]) -> list[Row]:
    """The orders with less than a quarter of the volume above them."""
    prices, volumes = _levels(side)
    total = sum(volumes)
    passing = {p for p, below in zip(prices, accumulate(volumes), strict=True) if 0.25 * total > total - below}
    return [row for row in side if row[4] in passing]


def psp(tables: Tables) -> list[Row]:
    large = []
    for side in (tables["bids"], tables["asks"]):
        limit = SHARE * sum(v for _, _, _, v, _ in side)
        large.append([p for _, _, _, v, p in side if limit < v])
    bids, asks = large
    return [(len(bids) * sum(asks) - len(asks) * sum(bids),)] if bids and asks else []


SORTED: dict[str, Callable[[Tables], list[Row]]] = {"vwap": vwap, "nq1": nq1, "mst": mst, "psp": psp}
