"""Reason: what is told of why a tuple is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from livelog.io.values import format_row, format_value

__all__ = ["Group", "Reason"]

Tuple = tuple[Any, ...]
Fact = tuple[str, Tuple]

MOST = 20  # groups that are shown; the others are counted


@dataclass(frozen=True, slots=True)
class Group:
    """The answer of one aggregate: `aggregate` over so many `rows` is `value`.

    `relation` is the view whose `rule` has the aggregate, `key` what the group has in common, by the names of variables
    or columns. Rows are bindings: a copy in a bag is one of its own. Of a relation that is pruned to its best
    tuples there are more than anybody counts: `rows` is None.

    >>> print(Group("total", "sum", {"shop": "kiosk"}, 5, 1, "total(shop, sum<v>) :- sale(_, shop, v)."))
    sum = 5 over 1 row with shop = "kiosk", in total(shop, sum<v>) :- sale(_, shop, v).
    """

    relation: str
    aggregate: str
    key: dict[str, Any]
    value: Any
    rows: int | None
    rule: str

    def __str__(self) -> str:
        rows = "no rows" if self.rows == 0 else f"{self.rows} row{'s' * (self.rows != 1)}"
        if self.rows is None:
            rows = "the best rows"
        key = ", ".join(f"{name} = {format_value(value)}" for name, value in self.key.items())
        return f"{self.aggregate} = {format_value(self.value)} over {rows}{key and ' with ' + key}, in {self.rule}"


class Reason(list[Fact]):
    """The facts, as a list of pairs of a relation and a row: with these alone, the tuple would be there too.

    `absent` are the tuples that must not be there, None standing for any value; `groups` the answers of aggregates that
    the tuple rests on. Printed, it tells all of it.

    >>> reason = Reason([("node", ("a",))], [("link", ("a", None))])
    >>> reason == [("node", ("a",))]
    True
    >>> print(reason)
    node("a")
    !link("a", _)
    """

    def __init__(self, facts: Iterable[Fact] = (), absent: Iterable[Fact] = (), groups: Iterable[Group] = ()) -> None:
        super().__init__(facts)
        self.absent = list(absent)
        self.groups = list(groups)

    @property
    def facts(self) -> list[Fact]:
        """The facts alone, as a plain list."""
        return list(self)

    def lines(self) -> Iterator[str]:
        """All of it, a line each."""
        for name, row in self:
            relation, at, points = name.partition(" at ")
            yield f"{format_row(relation, row)}{at}{points}"
        for name, row in self.absent:
            relation, at, points = name.partition(" at ")
            values = ", ".join("_" if value is None else format_value(value) for value in row)
            yield f"!{relation}({values}){at}{points}"
        for group in self.groups[:MOST]:
            yield str(group)
        if len(self.groups) > MOST:
            yield f"... and {len(self.groups) - MOST} groups more"

    def __str__(self) -> str:
        return "\n".join(self.lines())
