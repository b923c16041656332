"""DBToaster-style triggers for TPC-H Q17 and Q18; see `nested_triggers.py`.

Lines of orders have positive quantities and prices. Parts, orders and customers have keys.
"""

from __future__ import annotations

from bench.nested_naive import BRAND, CONTAINER, LARGE, Row

__all__ = ["Q17", "Q18"]


class _Part:
    """What is known of a part: quantity -> sum(price), number and sum of quantities, and its share of the answer."""

    __slots__ = ("count", "prices", "share", "total")

    def __init__(self) -> None:
        self.prices: dict[int, int] = {}
        self.count = self.total = self.share = 0


class Q17:
    """O(distinct quantities of the part) for each line of a part that is asked for, and O(1) for others.

    The paper tells that DBToaster's map has two levels, part -> quantity -> sum(price), and so do we: only the lines of
    the same part are looked at, and lines of equal quantity at once.
    """

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}
        self._asked: set[int] = set()
        self._result = 0

    def on_part(self, row: Row, x: int) -> None:
        key, brand, container = row
        if brand == BRAND and container == CONTAINER:
            (self._asked.add if x > 0 else self._asked.discard)(key)
            self._evaluate(key)

    def on_lineitem(self, row: Row, x: int) -> None:
        _, _, key, quantity, price = row
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _Part()
        prices = part.prices
        left = prices.get(quantity, 0) + x * price
        if left:
            prices[quantity] = left
        else:
            del prices[quantity]
        part.count += x
        part.total += x * quantity
        if key in self._asked:
            self._evaluate(key)
        if not part.count:
            del self._parts[key]

    def _evaluate(self, key: int) -> None:
        part = self._parts.get(key)
        if part is None:
            return
        share = 0
        if part.count and key in self._asked:
            limit = 0.2 * (part.total / part.count)
            share = sum([price for quantity, price in part.prices.items() if quantity < limit])
        self._result += share - part.share
        part.share = share

    def rows(self) -> list[Row]:
        return [(self._result / 7.0,)] if self._result else []


class Q18:
    """O(1) for each line, O(orders of the customer) for a customer."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # customer -> name
        self._orders: dict[int, Row] = {}  # order -> its row
        self._by_customer: dict[int, set[int]] = {}  # customer -> orders
        self._quantity: dict[int, int] = {}  # order -> sum(quantity)
        self._result: dict[int, Row] = {}  # order -> row of the view

    def on_customer(self, row: Row, x: int) -> None:
        key, name = row
        if x > 0:
            self._names[key] = name
        else:
            del self._names[key]
        for order in self._by_customer.get(key, ()):
            self._evaluate(order)

    def on_orders(self, row: Row, x: int) -> None:
        order, customer = row[:2]
        if x > 0:
            self._orders[order] = row
            self._by_customer.setdefault(customer, set()).add(order)
        else:
            del self._orders[order]
            self._by_customer[customer].discard(order)
        self._evaluate(order)

    def on_lineitem(self, row: Row, x: int) -> None:
        order, _, _, quantity, _ = row
        quantities = self._quantity
        left = quantities.get(order, 0) + x * quantity
        if left:
            quantities[order] = left
        else:
            del quantities[order]
        if left > LARGE or order in self._result:
            self._evaluate(order)

    def _evaluate(self, order: int) -> None:
        quantity = self._quantity.get(order, 0)
        row = self._orders.get(order)
        if quantity > LARGE and row is not None and row[1] in self._names:
            _, customer, date, price = row
            self._result[order] = self._names[customer], customer, order, date, price, quantity
        else:
            self._result.pop(order, None)

    def rows(self) -> list[Row]:
        return list(self._result.values())
