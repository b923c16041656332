"""Worker: one partition of a session, whatever the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from livelog.runtime.component import Component
from livelog.runtime.counting import Counting
from livelog.runtime.methods import METHODS
from operators.base import BaseTable
from operators.delta import Delta
from planner.plan import Plan

__all__ = ["Method", "Operation", "Worker"]

Tuple = tuple[Any, ...]
Operation = tuple[str, Any, Any]
"""`("+", relation, row)`, `("-", relation, row)` or `("@", None, time)`."""

Method = tuple[str, str]
"""A strategy and its ship mode, as in `METHODS`."""

Send = Callable[[int, int, str, int, list[Any]], None]


class Worker:
    """The facts and the state of one partition, and the steps of a transaction on them.

    A transaction is `apply`, then for each stratum `prepare`, `begin`, `resume` until no partition has anything left,
    and `finish`, with any number of `receive` and `work` in between (a `work` after the last `receive`): all partitions
    must be quiescent before the next of these steps. Then `commit`. After an error:
    `rollback`, `reset` and `reload`, and the strata again.
    """

    def __init__(
        self, plan: Plan, partition: int, partitions: int, method: Method, limit: int | None, send: Send
    ) -> None:
        self.plan = plan
        self.partition = partition
        self.partitions = partitions
        self._method = method
        self._limit = limit
        self._send = send
        self.clock = 0.0
        self._clock_before = 0.0
        self.base = {
            name: BaseTable(r.key, r.ttl, r.bag) for name, r in plan.relations.items() if r.kind == "base"
        }
        self.strata: list[Component | Counting] = []
        self._producer: dict[str, Component | Counting] = {}
        self.deltas: dict[str, Delta] = {}
        self.reset(limit)

    def reset(self, limit: int | None = None) -> None:
        """Empty all state but the facts. `limit` is what the evaluation that follows may add; None: anything."""
        self.clear()
        self.strata = [self._stratum(i, limit) for i in range(len(self.plan.strata))]
        self._producer = {name: s for s in self.strata for name in s.stratum.relations}
        self.deltas = {}

    def clear(self) -> None:
        """Let go of the strata's state at once, without waiting for the collector."""
        for stratum in self.strata:
            stratum.clear()

    def _stratum(self, i: int, limit: int | None) -> Component | Counting:
        stratum = self.plan.strata[i]

        def send(destination: int, kind: str, target: int, rows: list[Any]) -> None:
            self._send(destination, i, kind, target, rows)

        if stratum.method == "counting":
            return Counting(stratum, self.plan, self.partition, self.partitions, send)
        made = METHODS[self._method]
        return made(stratum, self.plan, self.partition, self.partitions, self._method[1], limit, send)

    # --- a transaction ---------------------------------------------------------------------------------------

    def apply(self, operations: Iterable[Operation]) -> None:
        """Apply operations to the facts, in order. Their net effect is what the strata will see."""
        base = self.base
        for op, relation, value in operations:
            if op == "+":
                base[relation].insert(value, self.clock)
            elif op == "-":
                base[relation].delete(value)
            else:
                self.clock = value
                for table in base.values():
                    if table.ttl is not None:
                        table.expire(value)
        for name, table in base.items():
            net = table.net()
            if net:
                self.deltas[name] = Delta.weighted(net)

    def former(self) -> list[tuple[str, Tuple, int]]:
        """The facts as of the last commit, with their multiplicities."""
        return [(name, t, n) for name, table in self.base.items() for t, n in table.former().items()]

    def reload(self) -> None:
        """Make all facts the change to be worked in, after `reset`."""
        tables = [(name, table) for name, table in self.base.items() if table.rows]
        self.deltas = {name: Delta.weighted(list(table.rows.items())) for name, table in tables}

    def concerns(self, i: int) -> bool:
        """Whether something changed here that stratum i reads."""
        return any(name in self.deltas for name in self.plan.strata[i].inputs)

    def prepare(self, i: int) -> None:
        """Bring what stratum i looks into to where it is wanted; all partitions must be quiescent before `begin`."""
        self.strata[i].prepare(self.deltas)

    def begin(self, i: int) -> None:
        """Start stratum i with this partition's share of the changes below it."""
        self.strata[i].begin(self.deltas)

    def receive(self, source: int, i: int, kind: str, target: int, rows: list[Any]) -> None:
        """Take in a message for stratum i."""
        self.strata[i].receive(source, kind, target, rows)

    def work(self, i: int) -> None:
        """No more messages for the moment: work off what has gathered in stratum i."""
        self.strata[i].work()

    def levels(self, i: int) -> int:
        """How often stratum i must hear that nobody has anything left before that is the end."""
        return self.strata[i].levels

    def resume(self, i: int, level: int) -> bool:
        """All partitions are quiescent: go on with what waited for that in stratum i. Whether there was anything."""
        return self.strata[i].resume(level)

    def finish(self, i: int) -> None:
        """All partitions are quiescent: settle the net changes of stratum i."""
        self.deltas.update(self.strata[i].finish())

    def commit(self) -> None:
        """The transaction stands."""
        for table in self.base.values():
            table.commit()
        for stratum in self.strata:
            if isinstance(stratum, Component):
                stratum.limit = self._limit
        self._clock_before = self.clock
        self.deltas = {}

    def rollback(self) -> None:
        """Facts and clock are as before the transaction; the strata must be reset and loaded again."""
        for table in self.base.values():
            table.rollback()
        self.clock = self._clock_before

    # --- looking in ------------------------------------------------------------------------------------------

    def rows(self, relation: str) -> Iterable[Tuple]:
        """The tuples of a relation that this partition owns."""
        if relation in self.base:
            return self.base[relation].rows
        producer = self._producer[relation]
        return producer.counts.rows if isinstance(producer, Counting) else producer.home[relation].visible()

    def count(self, relation: str) -> int:
        """How many tuples of a relation this partition owns."""
        rows = self.rows(relation)
        return len(rows)  # type: ignore[arg-type]

    def has(self, relation: str, t: Tuple) -> bool:
        """Whether this partition has a tuple."""
        if relation in self.base:
            return t in self.base[relation].rows
        producer = self._producer[relation]
        return t in producer.counts.rows if isinstance(producer, Counting) else producer.home[relation].shows(t)

    def producer(self, relation: str) -> Component | Counting | None:
        """The stratum that defines a relation; None for base relations."""
        return self._producer.get(relation)

    def check(self) -> None:
        """Assert the invariants of all state; call between transactions."""
        for table in self.base.values():
            table.check()
        for stratum in self.strata:
            stratum.check()
