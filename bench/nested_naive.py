"""Naive re-evaluation of the nested-aggregate queries: the loops that the queries spell out, from scratch every time.

One function for each view of `examples/13_majority.dl`, `14_order_book.dl` and `15_part_orders.dl`. It takes the rows
of every base relation, and gives the rows of the view. Aggregates that depend on nothing around them are computed once;
otherwise nothing is kept and nothing is clever, so that it can be checked by reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

__all__ = ["NAIVE", "SHARE", "Row", "Tables"]

Row = tuple[Any, ...]
Tables = Mapping[str, Collection[Row]]

SHARE = 0.0001  # of psp
BRAND, CONTAINER, LARGE = "Brand#23", "WRAP BOX", 300  # of Q17 and Q18


def half(tables: Tables) -> list[Row]:
    """Example 2.1. O(n²)."""
    r = tables["r"]
    total = sum(b for _, b in r)
    passing = [(a, b) for a, b in r if 0.5 * total == sum(b2 for a2, b2 in r if a2 == a)]
    return [(sum(a * b for a, b in passing),)] if passing else []


def halves(tables: Tables) -> list[Row]:
    """Example 2.1 by group. O(n²)."""
    r = tables["r"]
    total = sum(b for _, b in r)
    groups: dict[int, list[int]] = {}
    for a, b in r:
        if 0.5 * total == sum(b2 for a2, b2 in r if a2 == a):
            groups.setdefault(a, []).append(a * b)
    return [(a, sum(values), len(values)) for a, values in groups.items()]


def vwap(tables: Tables) -> list[Row]:
    """O(n²)."""
    bids = tables["bids"]
    total = sum(v for _, _, _, v, _ in bids)
    return _value(
        (v, p) for _, _, _, v, p in bids if 0.75 * total < sum(v2 for _, _, _, v2, p2 in bids if p2 <= p)
    )


def mst(tables: Tables) -> list[Row]:
    """O(n²), and the pairs of what passes."""
    bids, asks = _top(tables["bids"]), _top(tables["asks"])
    found: Counter[int] = Counter()
    for _, _, b, bv, bp in bids:
        for _, _, _, av, ap in asks:
            found[b] += ap * av - bp * bv
    return list(found.items())


def _top(side: Collection[Row]) -> list[Row]:
    """The orders with less than a quarter of the volume above them."""
    total = sum(v for _, _, _, v, _ in side)
    return [row for row in side if 0.25 * total > sum(v for _, _, _, v, p in side if p > row[4])]


def psp(tables: Tables) -> list[Row]:
    """O(n), and the pairs of what passes."""
    large = []
    for side in (tables["bids"], tables["asks"]):
        total = sum(v for _, _, _, v, _ in side)
        large.append([p for _, _, _, v, p in side if SHARE * total < v])
    bids, asks = large
    return [(sum(ap - bp for bp in bids for ap in asks),)] if bids and asks else []


def sq1(tables: Tables) -> list[Row]:
    """O(n²)."""
    bids = tables["bids"]
    return _value(
        (v, p)
        for _, _, _, v, p in bids
        if 0.75 * sum(v1 for _, _, _, v1, p1 in bids if p1 >= p) < sum(v2 for _, _, _, v2, p2 in bids if p2 <= p)
    )


def sq2(tables: Tables) -> list[Row]:
    """O(n²)."""
    bids = tables["bids"]
    total = sum(v for _, _, _, v, _ in bids)
    return _value(
        (v, p) for _, _, _, v, p in bids if 0.75 * total < sum(v2 for _, _, _, v2, p2 in bids if 10 * p2 <= 11 * p)
    )


def nq1(tables: Tables) -> list[Row]:
    """O(n³)."""
    bids = tables["bids"]
    total = sum(v for _, _, _, v, _ in bids)
    return _value(
        (v, p)
        for _, _, _, v, p in bids
        if 0.75 * total < sum(
            v2
            for _, _, _, v2, p2 in bids
            if p2 <= p and 0.25 * total < sum(v4 for _, _, _, v4, p4 in bids if p4 <= p2)
        )
    )


def nq2(tables: Tables) -> list[Row]:
    """O(n³)."""
    bids = tables["bids"]
    total = sum(v for _, _, _, v, _ in bids)
    passing = []
    for _, _, _, v, p in bids:
        lowest = 0.25 * sum(v3 for _, _, _, v3, p3 in bids if p3 <= p)
        below = sum(
            v2
            for _, _, _, v2, p2 in bids
            if p2 <= p and lowest < sum(v4 for _, _, _, v4, p4 in bids if p4 <= p2)
        )
        if 0.75 * total < below:
            passing.append((v, p))
    return _value(passing)


def _value(passing: Iterable[tuple[int, int]]) -> list[Row]:
    """The sum of volume * price as a view: no row where nothing passes."""
    values = [v * p for v, p in passing]
    return [(sum(values),)] if values else []


def q17(tables: Tables) -> list[Row]:
    """TPC-H Q17. O(n²)."""
    lines = tables["lineitem"]
    asked = {p for p, brand, container in tables["part"] if (brand, container) == (BRAND, CONTAINER)}
    prices = []
    for _, _, p, quantity, price in lines:
        if p in asked:
            same = [q for _, _, p2, q, _ in lines if p2 == p]
            if quantity < 0.2 * (sum(same) / len(same)):
                prices.append(price)
    return [(sum(prices) / 7.0,)] if prices else []


def q18(tables: Tables) -> list[Row]:
    """TPC-H Q18. O(n²)."""
    lines = tables["lineitem"]
    names = dict(tables["customer"])
    found = []
    for order, customer, date, price in tables["orders"]:
        quantities = [q for o, _, _, q, _ in lines if o == order]
        if customer in names and quantities and sum(quantities) > LARGE:
            found.append((names[customer], customer, order, date, price, sum(quantities)))
    return found


NAIVE: dict[str, Callable[[Tables], list[Row]]] = {
    "half": half, "halves": halves,
    "vwap": vwap, "mst": mst, "psp": psp, "sq1": sq1, "sq2": sq2, "nq1": nq1, "nq2": nq2,
    "q17": q17, "q18": q18,
}  # fmt: skip
