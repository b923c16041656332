"""Adopting: how a partition goes over to another plan of its program, and back.

The strata that both plans have are left alone: they go on with all that they have. New ones are made behind them, and
hear of all that is in the relations that they read as of a change; what follows is an evaluation as any other. Strata
that the new plan does not have stay aside until it is certain that they are not needed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from livelog.runtime.component import Component
from livelog.runtime.counting import Counting
from livelog.runtime.forgetting import Forgetting
from livelog.runtime.regulated import Kept
from livelog.runtime.timed import Timed
from livelog.runtime.windows import Clocked, Windowed
from operators.base import BaseTable
from operators.dated import Stamped, Stream, Times
from operators.delta import Delta, Loaded
from operators.partition import Router
from planner.plan import Plan, StampRule, SyncRule

if TYPE_CHECKING:
    from livelog.runtime.worker import Sides

__all__ = ["Adopting", "Running", "tables_of", "timed_parts"]

Tuple = tuple[Any, ...]
Running = Component | Counting | Kept


@dataclass
class _Former:
    """What a worker was before it adopted a plan: the values of its fields, and the strata that it had.

    `waiting` is what kept strata had in their buffers, of those that now keep tuples longer.
    """

    fields: dict[str, Any]
    waiting: dict[str, dict[Tuple, int]]


class Adopting:
    """What of a `livelog.runtime.worker.Worker` follows from its plan alone, and how it changes with that.

    `adopt` comes in place of `apply` in a transaction, which has nothing else then; the new strata are evaluated, and
    `brought` tells what is in them. After an error `retract` brings everything back. It can be called again where it
    was interrupted, and does nothing where nothing was adopted; `commit` makes an end of the former plan.
    """

    plan: Plan
    partition: int
    partitions: int
    clock: float
    base: dict[str, BaseTable]
    strata: list[Running]
    deltas: dict[str, Delta]
    rows: Callable[[str], Collection[Tuple]]
    _limit: int | None
    _sizes: Mapping[str, int]
    _producer: dict[str, Running]
    _touched: set[str]
    _begun: set[int]
    _stepping: bool
    _kept: dict[str, set[Tuple]]
    _places: dict[int, list[int]]
    _stratum: Callable[[int, int | None, Any], Running]
    _weights: Callable[[str], Mapping[Tuple, int]]
    _result: Callable[[str], set[Tuple]]

    _former: _Former | None = None
    _compares = False  # whether results are compared with those of the last commit

    def _fit(self, plan: Plan, base: dict[str, BaseTable]) -> None:
        """Take over a plan, with the tables of its facts; its strata are made apart."""
        known: dict[str, Forgetting] = getattr(self, "_passing", {})
        former = self.plan.relations if hasattr(self, "plan") else {}
        self.plan = plan
        self.base = base
        self._mortal = [table for table in base.values() if table.ttl is not None]
        self._stamps = {name: r.stamped for name, r in plan.relations.items() if r.stamped}
        self._ruled = {name for s in plan.strata if s.method == "kept" for name in s.relations}
        self._passing: dict[str, Forgetting] = {}
        for name, r in plan.relations.items():
            if r.until and name in known and former[name].until == r.until:
                self._passing[name] = known[name]
            elif r.until:
                self._passing[name] = Forgetting(r)
                if name in former:
                    self._passing[name].file(base[name].rows)
        readers: dict[str, list[int]] = {name: [] for name in plan.relations}
        for i, stratum in enumerate(plan.strata):
            for name in stratum.inputs:
                readers[name].append(i)
        self._readers = readers
        self._published = frozenset(plan.published)

    # --- to another plan -------------------------------------------------------------------------------------

    def adopt(self, plan: Plan, sizes: Mapping[str, int], compares: bool = False) -> list[int]:
        """Go over to a plan, in which strata have the very rules of those that stay. Returns the new strata that have
        something to do. O(relations that these read)

        `sizes`: how many tuples a relation may have. `compares`: results are compared with those of the last commit.
        """
        names = ("plan", "base", "strata", "_sizes", "_timed", "_mortal", "_stamps", "_ruled", "_passing", "_readers",
                 "_published")  # fmt: skip
        self._former = _Former({name: getattr(self, name) for name in names}, {})
        former, known, mine = self.plan, self.base, {id(s.stratum.rules): s for s in self.strata}
        self._sizes, self._compares = sizes, compares
        self._fit(plan, self._adopted_tables(plan, known))
        self.strata = []
        new: list[int] = []
        for i, stratum in enumerate(plan.strata):
            running = mine.get(id(stratum.rules))
            if running is None:
                running = self._stratum(i, self._limit, None)
                self._producer.update(dict.fromkeys(stratum.relations, running))
                new.append(i)
            self.strata.append(running)
        self._settle()
        for running in self.strata:
            if isinstance(running, Kept) and running.name in known:
                self._read_by_others(running, former)
        made = {name for i in new for name in plan.strata[i].relations}
        read = dict.fromkeys(name for i in new for name in plan.strata[i].inputs if name not in made)
        self.deltas = {name: delta for name in read if (delta := self._whole(name))}
        self._stepping = True
        for name in plan.relations.keys() & self.base.keys() - known.keys():
            self._touched.add(name)
        timed = [i for i, part in self._timed if i in new and (part.pass_to(self.clock, True) or True)]
        return sorted({*timed, *(i for i in new if any(name in self.deltas for name in plan.strata[i].inputs))})

    def _settle(self) -> None:
        """The strata are those of the plan, in its order: each learns where it stands."""
        self._timed: list[tuple[int, Timed]] = []
        for i, running in enumerate(self.strata):
            if not isinstance(running, Kept):
                running.plan = self.plan
            self._places[id(running.stratum.rules)][0] = i
            self._timed += [(i, part) for part in timed_parts(running)]

    def _adopted_tables(self, plan: Plan, known: dict[str, BaseTable]) -> dict[str, BaseTable]:
        """The tables of a plan: those that there are, and new ones with what belongs into them."""
        tables = tables_of(plan)
        for name, table in tables.items():
            old = known.get(name)
            if old is None:
                if rows := plan.facts.get(name):
                    owner = Router(plan.relations[name].partition, self.partitions)
                    for row in rows:
                        if owner(row) == self.partition:
                            table.insert(row, self.clock)
            elif isinstance(table, Stamped) and not isinstance(old, Stamped):
                tables[name] = Stamped.of(old, table.times, self.clock)
            elif isinstance(old, Stamped) and not isinstance(table, Stamped):
                tables[name] = old.alone()
            else:
                tables[name] = old
        return tables

    def _read_by_others(self, running: Kept, former: Plan) -> None:
        """A kept stratum may have other readers now, for whom other tuples are of use than for those before."""
        now = self.plan.relations
        if all(former.relations[name].until == now[name].until for name in (running.name, running.source)):
            return
        assert self._former is not None
        self._former.waiting[running.name] = running.waiting
        running.read_by_others(self.plan, self._passing.get(running.name), self._weights(running.source), self.clock)

    def _whole(self, name: str) -> Delta:
        """All that is in a relation, as if it had just come."""
        if name in self.base:
            table = self.base[name]
            return Loaded(table.rows, table.bag)
        relation = self.plan.relations[name]
        if relation.bag or relation.weighted:
            return Loaded(self._weights(name), True)
        return Delta(list(self.rows(name)), [])

    def brought(self) -> dict[str, Sides]:
        """What is in the published views that are new, as far as this partition owns them."""
        assert self._former is not None
        new = self._published - self._former.fields["_published"]
        return {name: delta for name, delta in self.deltas.items() if name in new}

    # --- the end of it ---------------------------------------------------------------------------------------

    def retract(self) -> None:
        """Be as before `adopt`. What was there then has not been touched."""
        if self._former is None:
            return
        former: list[Running] = self._former.fields["strata"]
        for running in self.strata:
            if not any(running is old for old in former):
                running.clear()
        for name, value in self._former.fields.items():
            setattr(self, name, value)
        self._produce()
        self._settle()
        for running in former:
            if isinstance(running, Kept) and running.name in self._former.waiting:
                running.go_back(self.plan, self._passing.get(running.name), self._former.waiting[running.name])
        self.deltas = {}
        self._touched.clear()
        self._begun.clear()
        self._stepping = False
        self._former = None

    def _adopted(self) -> None:
        """The transaction stands: nobody needs the former strata any more."""
        if self._former is None:
            return
        for running in self._former.fields["strata"]:
            if not any(running is here for here in self.strata):
                running.clear()
        self._produce()
        here = {id(running.stratum.rules) for running in self.strata}
        self._places = {rules: place for rules, place in self._places.items() if rules in here}
        if self._compares:
            published = self._former.fields["_published"]
            self._kept = {
                name: self._kept.get(name, set()) if name in published else self._result(name)
                for name in self._published
            }
        self._former = None

    def _produce(self) -> None:
        """Who makes which relation. The strata know this very table."""
        producer = self._producer
        made = {name: running for running in self.strata for name in running.stratum.relations}
        for name in [name for name in producer if producer[name] is not made.get(name)]:
            del producer[name]
        producer.update(made)


def tables_of(plan: Plan) -> dict[str, BaseTable]:
    """The tables for the facts of a program, and for what is kept with them, empty."""
    relations = plan.relations
    tables: dict[str, BaseTable] = {}
    for stratum in plan.strata:
        for rule in stratum.rules:
            if isinstance(rule, StampRule):
                tables[rule.head] = Times(tuple(range(relations[rule.head].arity - 1)))
            elif isinstance(rule, SyncRule):
                source = relations[rule.input.relation]
                tables[rule.head] = BaseTable(bag=source.bag or source.weighted)
    for name, r in relations.items():
        if r.kind == "base" and r.stamped:
            times = tables[r.stamped] = Times(r.key or tuple(range(r.arity)), r.ttl)
            tables[name] = Stamped(times, r.key, r.ttl)
        elif r.kind == "base":
            tables[name] = Stream(r.ttl) if r.stream else BaseTable(r.key, r.ttl, r.bag)
    return tables


def timed_parts(running: Running) -> Iterator[Timed]:
    """What of a stratum looks at the clock."""
    if isinstance(running, Kept):
        yield running
    elif isinstance(running, Counting):
        yield from (node for _, node in running.nodes if isinstance(node, (Windowed, Clocked)))
