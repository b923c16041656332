"""Worker: one partition of a session, whatever the runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from math import inf, nextafter
from typing import Any, cast

from livelog.operations import Operation
from livelog.runtime.absorption import Absorption
from livelog.runtime.adopting import Adopting, Running, tables_of, timed_parts
from livelog.runtime.component import Component
from livelog.runtime.counting import Counting
from livelog.runtime.layered import Layered, layers_of
from livelog.runtime.measure import measure
from livelog.runtime.methods import METHODS
from livelog.runtime.regulated import Kept, Regulated, kept
from livelog.runtime.skew import held_by
from livelog.runtime.timed import Timed
from operators.delta import Delta, Loaded
from operators.partition import Router
from planner.plan import Plan

__all__ = ["Method", "Pair", "Sides", "Worker"]

Tuple = tuple[Any, ...]
Method = tuple[str, str]
"""A strategy and its ship mode, as in `METHODS`."""

Pair = tuple[list[Tuple], list[Tuple]]
"""What came into a view, and what left it."""

Sides = Delta | Pair
"""The same, where the lists may not be made before somebody asks for them."""

Send = Callable[[int, int, str, int, list[Any]], None]


class Worker(Adopting):
    """The facts and the state of one partition, and the steps of a transaction on them.

    A transaction is `apply`, then for each stratum `prepare`, `begin`, `resume` until no partition has anything left,
    and `finish`, with any number of `receive` and `work` in between (a `work` after the last `receive`): all partitions
    must be quiescent before the next of these steps. Then `changes` and `commit`. After an error, whatever it was and
    wherever: `rollback`, and the strata again, on the worker that `renewed` gives. `rollback` and `commit` are called
    again where they were interrupted.

    If what is true depends on the clock, a transaction has as many of these steps as there are times at which something
    happens (`due`), with `step_over` between them: all but `commit` and `rollback` are about the last of them then. The
    tables of kept relations are among the facts (`base`), and their strata write them while they are evaluated.

    A transaction may also be that the worker goes over to another plan: see `Adopting`.
    """

    def __init__(
        self,
        plan: Plan,
        partition: int,
        partitions: int,
        method: Method,
        limit: int | None,
        send: Send,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        self._method = method
        self._limit = limit
        self._sizes = sizes or {}  # how many tuples a relation may have
        self._send = send
        self.clock = 0.0
        self._clock_before = 0.0
        self._fit(plan, tables_of(plan))
        self.strata: list[Running] = []
        self._producer: dict[str, Running] = {}
        self._timed: list[tuple[int, Timed]] = []  # with the stratum that each is part of
        self._places: dict[int, list[int]] = {}  # by its rules, where a stratum stands, for what it sends
        self._stepping = False  # whether a transaction is under way
        self.deltas: dict[str, Delta] = {}
        self._touched: set[str] = set()  # base relations that the step may have changed
        self._changed: set[str] = set()  # those that the steps before it may have changed
        self._begun: set[int] = set()  # strata whose state it may have changed
        self._kept: dict[str, set[Tuple]] = {}  # results to compare with
        self._latest: dict[str, set[Tuple]] | None = None
        self._memories: list[Any] | None = None  # what the strata must know of the last commit, if they are new
        self._build(limit)

    def _build(self, limit: int | None) -> None:
        """Make the strata, empty. `limit` is what the evaluation that follows may add; None: anything."""
        memories = self._memories or [None] * len(self.plan.strata)
        for i, memory in enumerate(memories):
            stratum = self._stratum(i, limit, memory)
            self.strata.append(stratum)
            self._producer.update(dict.fromkeys(stratum.stratum.relations, stratum))
            self._timed += [(i, part) for part in timed_parts(stratum)]
        self._begun = set(range(len(self.strata)))

    def renewed(self, limit: int | None = None, send: Send | None = None) -> Worker:
        """A worker with the same facts, and nothing evaluated from them yet. This one's strata are let go.

        They may have been left in any state. What is needed for another worker stays: this can be called again.
        """
        if self._memories is None:
            self._memories = [s.remembered() if isinstance(s, Counting) else None for s in self.strata]
        self.clear()
        worker = copy(self)
        worker._send = send or self._send
        worker.strata, worker._producer, worker.deltas, worker._timed, worker._places = [], {}, {}, [], {}
        worker._build(limit)
        return worker

    def clear(self) -> None:
        """Let go of the strata's state at once, without waiting for the collector."""
        for stratum in self.strata:
            stratum.clear()
        self.strata, self._producer, self._timed = [], {}, []  # they know how to send, and so they know this worker
        self.deltas = {}

    def _stratum(self, i: int, limit: int | None, memory: Any) -> Running:
        stratum = self.plan.strata[i]
        place = self._places[id(stratum.rules)] = [i]

        def send(destination: int, kind: str, target: int, rows: list[Any]) -> None:
            self._send(destination, place[0], kind, target, rows)

        if stratum.method == "kept":
            (name,) = stratum.relations
            table, passing = self.base[name], self._passing.get(name)
            return kept(stratum, self.plan, table, self._touched, passing, self.partition, self.partitions, send)
        if stratum.method == "counting":
            layers = layers_of(stratum, self.plan)
            if layers:
                return Layered(stratum, self.plan, layers, self.rows)
            most, inputs = self._sizes.get(stratum.relations[0]), stratum.inputs
            return Counting(
                stratum, self.plan, self.partition, self.partitions, send, memory, self._producer, limit, most,
                lambda: sum(map(self.count, inputs)),
            )  # fmt: skip
        made = METHODS[self._method]
        return made(stratum, self.plan, self.partition, self.partitions, self._method[1], limit, send, self._sizes)

    # --- a transaction ---------------------------------------------------------------------------------------

    def apply(self, operations: Iterable[Operation]) -> list[int]:
        """Apply operations to the facts, in order. Their net effect is what the strata will see; returns which do."""
        base, touched = self.base, self._touched
        for op, relation, value in operations:
            if op == "+":
                touched.add(relation)
                base[relation].insert(value, self.clock)
            elif op == "-":
                touched.add(relation)
                base[relation].delete(value)
            elif op == "++":
                touched.add(relation)
                base[relation].insert_all(value, self.clock)
            elif op == "--":
                touched.add(relation)
                base[relation].delete_all(value)
            else:
                self.clock = value
                for name, table in base.items():
                    if table.ttl is not None:
                        touched.add(name)
                        table.expire(value)
        if self._stamps:
            touched.update([stamped for name, stamped in self._stamps.items() if name in touched])
        deltas = self.deltas
        for name in touched:
            if delta := base[name].delta():
                deltas[name] = delta
            else:
                deltas.pop(name, None)
        if self._timed:
            self._stepping = True
            return [*self._concerned(deltas), *self._waiting()]
        return self._concerned(deltas)

    def _waiting(self) -> list[int]:
        """The strata that have something to do now that the clock is where it is."""
        now, releases = self.clock, self._stepping
        return [i for i, part in self._timed if part.pass_to(now, releases)]

    def due(self, before: float) -> float:
        """The first time at which something happens, if that is before another time; else this one. O(timed parts)"""
        first = before
        for table in self._mortal:
            first = min(first, table.due())
        for _, part in self._timed:
            first = min(first, part.due(first))
        return before if first >= before else _reached(first)

    def passed(self) -> tuple[bool, list[str]]:
        """Whether anything was released in this step, and which regulated reads have a point now. O(timed parts)"""
        strata = [part for _, part in self._timed if isinstance(part, Kept)]
        points = [s.name for s in strata if isinstance(s, Regulated) and s.is_point(self.clock)]
        return any(s.released for s in strata), points

    def step_over(self) -> None:
        """Another step of the transaction begins."""
        self._stepping = True
        touched = self._touched
        self._changed |= touched
        for name in touched:
            self.base[name].step_over()
        touched.clear()
        self.deltas = {}

    def absorb(self, operations: Iterable[Operation]) -> None:
        """Apply operations to the facts for good, and leave the views for later: `start_over` catches up."""
        self.apply(operations)
        self.commit()

    def start_over(self) -> list[int]:
        """Make all facts the change to be worked in, where nothing is evaluated yet. Returns the strata concerned."""
        tables = [(name, table) for name, table in self.base.items() if table.rows and name not in self._ruled]
        self.deltas = {name: Loaded(table.rows, table.bag) for name, table in tables}
        self._waiting()
        return [*self._concerned(self.deltas), *(i for i, _ in self._timed)]

    def _concerned(self, changed: Collection[str]) -> list[int]:
        """The strata that read something that has changed here; some may be named twice."""
        readers = self._readers
        if len(changed) == 1:
            (name,) = changed
            return readers[name]
        return [i for name in changed for i in readers[name]]

    def prepare(self, i: int) -> None:
        """Bring what stratum i looks into to where it is wanted; all partitions must be quiescent before `begin`."""
        self.strata[i].prepare(self.deltas)

    def begin(self, i: int) -> None:
        """Start stratum i with this partition's share of the changes below it."""
        self._begun.add(i)
        self.strata[i].begin(self.deltas)

    def receive(self, source: int, i: int, kind: str, target: int, rows: list[Any]) -> None:
        """Take in a message for stratum i."""
        self.strata[i].receive(source, kind, target, rows)

    def work(self, i: int) -> None:
        """No more messages for the moment: work off what has gathered in stratum i."""
        self.strata[i].work()

    def resume(self, i: int, level: int) -> bool:
        """All partitions are quiescent: go on with what waited for that in stratum i. Whether there was anything."""
        return self.strata[i].resume(level)

    def finish(self, i: int) -> list[int]:
        """All partitions are quiescent: settle the net changes of stratum i. Returns the strata that these concern."""
        changed = self.strata[i].finish()
        if not changed:
            return []
        self.deltas.update(changed)
        return self._concerned(changed)

    def changes(self) -> dict[str, Sides]:
        """The net changes of the published views, as far as this partition owns them."""
        published = self._published
        changes: dict[str, Sides] = {}
        for name, delta in self.deltas.items():  # a comprehension is a call, and most transactions change little
            if name in published:
                changes[name] = delta
        return changes

    def commit(self) -> None:
        """The transaction stands."""
        touched, begun = self._touched, self._begun
        if self._stepping:
            self._forget(touched)
        for name in touched:
            self.base[name].commit()
        for i in begun:
            stratum = self.strata[i]
            stratum.limit = self._limit
            if isinstance(stratum, Counting):
                stratum.commit()
        touched.clear()
        begun.clear()
        self._clock_before = self.clock
        self.deltas = {}
        self._memories = None
        if self._latest is not None:
            self._kept, self._latest = self._latest, None
        if self._former is not None:
            self._adopted()

    def _forget(self, touched: set[str]) -> None:
        """Commit the tables of all steps, and let go of the tuples that nobody will ask for again.

        Interrupted, it may be done again: then some tuples are filed twice, and forgotten once.
        """
        touched |= self._changed
        self._changed.clear()
        for name in touched:
            if name in self._passing:
                self._passing[name].file(self.base[name].touched())
            self.base[name].commit()
        for name, passing in self._passing.items():
            for rows in passing.over(self.clock):
                self.base[name].forget(rows)
                for stratum in self.strata:
                    if isinstance(stratum, Kept) and name in (stratum.source, stratum.name):
                        stratum.forget(rows)
        self._stepping = False

    def resumed(self) -> None:
        """The facts were taken in from elsewhere."""
        for name, passing in self._passing.items():
            passing.file(self.base[name].rows)

    def rollback(self) -> None:
        """Facts and clock are as before the transaction; the strata must be made and loaded again."""
        for name in self._touched | self._changed:
            self.base[name].rollback()
        self._touched.clear()
        self._changed.clear()
        self._stepping = False
        self.clock = self._clock_before
        self._latest = None

    # --- results as wholes -----------------------------------------------------------------------------------

    def keep(self) -> None:
        """Remember the published views as they are, to compare with."""
        self._kept = self._results()

    def differences(self, kept_is_new: bool = False) -> dict[str, Pair]:
        """How the published views differ from what is kept, or were in the step before; what is here is kept with the
        next commit."""
        now = self._results()
        before = self._kept if self._latest is None else self._latest
        old, new = (now, before) if kept_is_new else (before, now)
        if not kept_is_new:
            self._latest = now
        nothing: set[Tuple] = set()
        found: dict[str, Pair] = {}
        for name in self._published:
            mine, others = new.get(name, nothing), old.get(name, nothing)
            gained, lost = list(mine - others), list(others - mine)
            if self.plan.relations[name].stream:
                gained, lost = [t for t, _ in gained], [t for t, _ in lost]
            found[name] = gained, lost
        return found

    def _results(self) -> dict[str, set[Tuple]]:
        return {name: self._result(name) for name in self._published}

    def _result(self, name: str) -> set[Tuple]:
        """What is there of a published relation: of a stream all copies of a tuple, each with a number."""
        if self.plan.relations[name].stream:
            return {(t, i) for t, n in self.base[name].rows.items() for i in range(n)}
        return set(self.rows(name))

    # --- looking in ------------------------------------------------------------------------------------------

    def rows(self, relation: str) -> Collection[Tuple]:
        """The tuples of a relation that this partition owns."""
        if relation in self.base:
            return self.base[relation].rows
        producer = self._producer[relation]
        if isinstance(producer, Counting):
            return producer.rows
        assert isinstance(producer, Component)
        return producer.home[relation].visible()

    def count(self, relation: str) -> int:
        """How many tuples of a relation this partition owns."""
        return len(self.rows(relation))

    def has(self, relation: str, t: Tuple) -> bool:
        """Whether this partition has a tuple."""
        if relation in self.base:
            return t in self.base[relation].rows
        producer = self._producer[relation]
        if isinstance(producer, Counting):
            return t in producer.rows
        assert isinstance(producer, Component)
        return producer.home[relation].shows(t)

    def remember(self, relation: str, rows: Iterable[Tuple]) -> None:
        """Before anything is evaluated: what another runtime shows of an approximated relation."""
        producer = self._producer[relation]
        assert isinstance(producer, Counting) and producer.shown is not None
        producer.shown.remember(rows)

    def exact(self, relation: str, t: Tuple) -> Tuple | None:
        """The tuple that the rules derive where an approximated one is shown."""
        producer = self._producer[relation]
        return producer.exact(t) if isinstance(producer, Counting) else t

    def facts(self) -> list[tuple[str, Tuple, int]]:
        """The facts that this partition owns, with their multiplicities. What is kept with them is none."""
        relations = self.plan.relations
        tables = [(name, table) for name, table in self.base.items() if relations[name].kind == "base"]
        return [(name, t, n) for name, table in tables for t, n in table.rows.items()]

    def matching(self, relation: str, fixed: list[tuple[int, Any]]) -> list[Tuple]:
        """The tuples of a relation here that have the given values in some columns."""
        return [t for t in self.rows(relation) if all(t[column] == value for column, value in fixed)]

    def derivation(self, relation: str, t: Tuple) -> list[int]:
        """The variables of one derivation of a tuple that this partition owns."""
        component = self._producer[relation]
        assert isinstance(component, Absorption)
        return sorted(component.derivation(relation, t))

    def named(self, relation: str, variables: list[int]) -> list[tuple[str, Tuple]]:
        """The tuples behind variables of a relation's stratum that this partition handed out."""
        component = self._producer[relation]
        assert isinstance(component, Absorption)
        return component.named(set(variables))

    def busiest(self, i: int) -> str:
        """The text of a rule of stratum i: the one that derived most, if that is known."""
        if not i < len(self.strata):
            return ""
        stratum = self.strata[i]
        return stratum.busiest if isinstance(stratum, Component) else stratum.stratum.rules[0].text

    def size(self) -> int:
        """How many tuples the strata keep."""
        return sum(stratum.stats()["tuples"] for stratum in self.strata)

    def holdings(self) -> dict[str, int]:
        """By side of a join, how many of its tuples are here."""
        return held_by(self)

    def aggregates(self) -> dict[str, dict[str, int]]:
        """By view, how many entries each part of the state of its aggregates and lookups has here."""
        found: dict[str, dict[str, int]] = {}
        for stratum in self.strata:
            for rule, node in stratum.nodes if isinstance(stratum, Counting) else ():
                parts = found.setdefault(rule.partition("/")[0], {})
                for name, entries in node.stats().items():
                    parts[name] = parts.get(name, 0) + entries
        return found

    def measures(self) -> dict[str, int]:
        """The sizes of everything that is kept. O(state)."""
        return measure(self.base, self.strata)

    def variables(self) -> list[set[int]]:
        """By stratum, the variables that stand for tuples of this partition."""
        return [s.variables() if isinstance(s, Component) else set() for s in self.strata]

    def check(self, alive: list[set[int]]) -> None:
        """Assert the invariants of all state; call between transactions. `alive` are all partitions' variables."""
        for table in self.base.values():
            table.check()
        for i, stratum in enumerate(self.strata):
            if isinstance(stratum, Kept):
                stratum.check(self._weights(stratum.source))
                continue
            stratum.check()
            if isinstance(stratum, Component):
                assert stratum.mentioned() <= alive[i], f"stratum {i}: a dead variable is mentioned"
        for name, r in self.plan.relations.items():
            owner = Router(r.partition, self.partitions)
            assert all(owner(t) == self.partition for t in self.rows(name)), f"{name}: a stray tuple"

    def _weights(self, relation: str) -> Mapping[Tuple, int]:
        """The tuples of a relation with their multiplicities."""
        known, rows = self.plan.relations[relation], self.rows(relation)
        return cast("Mapping[Tuple, int]", rows) if known.bag or known.weighted else dict.fromkeys(rows, 1)


def _reached(time: Any) -> float:
    """The first time of a clock that is not before another time, which may be a whole number of any size."""
    reached = float(time)
    return reached if reached >= time else nextafter(reached, inf)
