"""The nested-aggregate queries: each as one view of an example, as triggers and as loops, all put to work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import datalog
import livelog
from bench import nested_triggers as triggers
from bench import nested_triggers_tpch as tpch
from bench.nested_naive import NAIVE, Row
from datalog.ast import replace
from planner.draft import reads

__all__ = ["QUERIES", "Engine", "Naive", "Operation", "Query", "Run", "Triggers", "program"]

EXAMPLES = Path(__file__).parents[1] / "examples"

Operation = tuple[str, str, Row]
"""("+", relation, row) or ("-", relation, row), as the order book makes them."""

Run = tuple[str, str, list[Row]]
"""The same for many rows at once."""


class Trigger(Protocol):
    """The triggers of one query: beside `rows`, a method on_<relation>(row, ±1) for each of its relations."""

    def rows(self) -> list[Row]: ...


@dataclass(frozen=True, slots=True)
class Query:
    """A view of an example, the base relations that it reads, and its triggers."""

    view: str
    example: str
    relations: tuple[str, ...]
    trigger: Callable[[], Trigger]


QUERIES: dict[str, Query] = {
    "half": Query("half", "13_majority", ("r",), triggers.Half),
    "vwap": Query("vwap", "14_order_book", ("bids",), triggers.Vwap),
    "mst": Query("mst", "14_order_book", ("bids", "asks"), triggers.Mst),
    "psp": Query("psp", "14_order_book", ("bids", "asks"), triggers.Psp),
    "sq1": Query("sq1", "14_order_book", ("bids",), triggers.Sq1),
    "sq2": Query("sq2", "14_order_book", ("bids",), triggers.Sq2),
    "nq1": Query("nq1", "14_order_book", ("bids",), triggers.Nq1),
    "nq2": Query("nq2", "14_order_book", ("bids",), triggers.Nq2),
    "q17": Query("q17", "15_part_orders", ("part", "lineitem"), tpch.Q17),
    "q18": Query("q18", "15_part_orders", ("customer", "orders", "lineitem"), tpch.Q18),
}


def program(view: str, example: str) -> datalog.Program:
    """One view of an example, with the rules and the relations that it needs and no others.

    >>> sorted(program("psp", "14_order_book").relations), len(program("q17", "15_part_orders").rules)
    (['asks', 'bids'], 2)
    """
    path = EXAMPLES / f"{example}.dl"
    whole = datalog.parse(path.read_text(encoding="utf-8"), str(path))
    needed, front = {view}, [view]
    while front:
        name = front.pop()
        new = {read for rule in whole.rules if rule.head.relation == name for read in reads(rule)} - needed
        needed |= new
        front += sorted(new)
    return replace(
        whole,
        rules=tuple(rule for rule in whole.rules if rule.head.relation in needed),
        relations={name: relation for name, relation in whole.relations.items() if name in needed},
        directives=(datalog.ast.Directive("output", view, {}),),
    )


class Engine:
    """The engine as a user gets it, over one query."""

    def __init__(self, query: Query, facts: dict[str, list[Row]] | None = None, **options: Any) -> None:
        self.view = query.view
        self.session = livelog.open(program(query.view, query.example), facts=facts, **options)

    def apply(self, operations: Iterable[Operation]) -> None:
        """One transaction, until the changes of the view can be read."""
        with self.session.transaction() as tx:
            for sign, relation, row in operations:
                if sign == "+":
                    tx.insert(relation, row)
                else:
                    tx.delete(relation, row)
        self._read(tx)

    def apply_runs(self, runs: Iterable[Run]) -> None:
        """One transaction of many rows."""
        with self.session.transaction() as tx:
            for sign, relation, rows in runs:
                if sign == "+":
                    tx.insert_all(relation, rows)
                else:
                    tx.delete_all(relation, rows)
        self._read(tx)

    def _read(self, tx: livelog.Transaction) -> None:
        changes = tx.changes[self.view]
        changes.inserted, changes.deleted  # noqa: B018  (sorted on first use: part of the price)

    def rows(self) -> list[Row]:
        return list(self.session[self.view])


class Triggers:
    """The triggers of a query, fed in the same way."""

    name = "triggers"
    block = 10  # transactions at a time, at first

    def __init__(self, query: Query, facts: dict[str, list[Row]] | None = None) -> None:
        self._trigger = query.trigger()
        self._on = {name: getattr(self._trigger, f"on_{name}") for name in query.relations}
        for relation, rows in (facts or {}).items():
            for row in rows:
                self._on[relation](row, 1)

    def apply(self, operations: Iterable[Operation]) -> None:
        """One transaction: each of its rows is one call."""
        on = self._on
        for sign, relation, row in operations:
            on[relation](row, 1 if sign == "+" else -1)

    def apply_runs(self, runs: Iterable[Run]) -> None:
        """Many rows, each of them one call."""
        for sign, relation, rows in runs:
            on, x = self._on[relation], 1 if sign == "+" else -1
            for row in rows:
                on(row, x)

    def rows(self) -> list[Row]:
        return sorted(self._trigger.rows())


class Naive:
    """The loops of a query over all rows, run anew after every transaction, fed in the same way."""

    name = "naive"
    block = 1

    def __init__(self, query: Query, facts: dict[str, list[Row]] | None = None) -> None:
        self._evaluate = NAIVE[query.view]
        self._tables = {name: set((facts or {}).get(name, ())) for name in query.relations}
        self._rows = self._evaluate(self._tables)

    def apply(self, operations: Iterable[Operation]) -> None:
        """One transaction."""
        for sign, relation, row in operations:
            (self._tables[relation].add if sign == "+" else self._tables[relation].remove)(row)
        self._rows = self._evaluate(self._tables)

    def apply_runs(self, runs: Iterable[Run]) -> None:
        """One transaction of many rows."""
        for sign, relation, rows in runs:
            (self._tables[relation].update if sign == "+" else self._tables[relation].difference_update)(rows)
        self._rows = self._evaluate(self._tables)

    def rows(self) -> list[Row]:
        return sorted(self._rows)
