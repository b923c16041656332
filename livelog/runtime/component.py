"""A recursive component on one partition: what is the same whichever way its views are maintained.

`begin` takes the net changes of the lower strata (this partition's share); `receive` what other partitions send.
Insertions gather until `work`, so that many small messages make one batch; before anything else is received they
are worked off, so that whatever order messages arrive in, each finds consistent tables. When no message is under way,
`resume` goes on with what had to wait for that, until nobody has anything left. `finish` tells the net changes
upwards. How tuples enter and leave is up to the method:
`livelog.runtime.absorption`, `livelog.runtime.dred`, `livelog.runtime.relative`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from livelog.runtime.network import Network, Wiring
from operators.delta import Delta
from operators.errors import Divergence, Outgrown
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.kernels import key_of
from operators.ledger import Derivation
from operators.minship import MinShip
from operators.offers import Offering
from operators.partition import Router
from operators.provenance import Provenance
from operators.slices import FEW, in_slices
from planner.plan import BROADCAST, Input, Plan, Stratum

__all__ = ["Component"]

Tuple = tuple[Any, ...]
Send = Callable[[int, str, int, list[Any]], None]
Gone = list[tuple[Fixpoint, Tuple]]
"""Tuples of lower strata, or answers of lookups, that are no longer there."""

ROUNDS = 1_000_000
"""Rounds without a new tuple, one after the other, that are taken for a sign of no end, unless the limit is higher."""


class Component:
    """The state and the rules of one recursive stratum on one partition.

    `tables` are numbered the same way on every partition: messages name a table by its number.
    `home` has each relation's table on its owner. `limit` is how many tuples a transaction may add (and how many rounds
    may bring none, if that is more than ROUNDS); None where the facts are known to have been evaluated before. `most`
    has how many tuples some of the relations may have. A method says with `keeps` what a table keeps of a derivation
    (see `Network`), and fills in `work_in`, `introduce`, `receive`, `flush` and, if it waits for quiescence, `resume`,
    which has so many `levels`.
    """

    keeps = ""
    levels = 0

    def __init__(
        self,
        stratum: Stratum,
        plan: Plan,
        partition: int,
        partitions: int,
        mode: str,
        limit: int | None,
        send: Send,
        most: Mapping[str, int] | None = None,
    ) -> None:
        self.stratum = stratum
        self.plan = plan
        self.partition = partition
        self.partitions = partitions
        self.mode = mode
        self.limit = limit
        self.send = send
        self.provenance = Provenance(partition, partitions)
        network = Network(stratum, plan, partitions, mode, self.keeps, self.provenance)
        self.tables, self.wiring, self.numbers = network.tables, network.wiring, network.numbers
        self.home, self.ships, self.rules = network.home, network.ships, network.rules
        self.lookups, self.offers = network.lookups, network.offers
        self.number_of = {id(table): number for number, table in enumerate(self.tables)}
        self.routers = {name: Router(plan.relations[name].partition, partitions) for name in self.home}
        self.clear = weakref.finalize(self, network.clear)  # for a component that is never cleared by hand
        self._bounded = [(self.home[name], size) for name, size in (most or {}).items() if name in stratum.relations]
        self._only_new = False  # nothing has gone in this transaction
        self._weights: dict[str, dict[Tuple, int]] = {}
        self._asked: dict[str, dict[Tuple, None]] = {}  # by rule, the keys asked about in this transaction
        self.outgoing = network.outgoing
        self._new = 0
        self._counted = 0  # new tuples up to the last round
        self._fruitless = 0  # rounds since the last one that brought a new tuple, or found that one had arrived

    # --- what a method fills in ------------------------------------------------------------------------------

    def work_in(self, gone: Gone, new: dict[str, list[Tuple]]) -> None:
        """Work in the tuples that came and went below."""
        raise AssertionError("a component has a method")

    def introduce(self, name: str, tuples: list[Tuple]) -> None:
        """Let in tuples that nothing in here derives: of lower strata, and answers of lookups."""
        raise AssertionError("a component has a method")

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        """Take in a message of another partition. Insertions may gather until `work`."""
        if kind != "inner":
            raise AssertionError(f"no method has messages of the kind {kind!r}")
        self.lookups[target][0].change(rows)

    def flush(self) -> None:
        """Ship what has gathered for other partitions."""
        raise AssertionError("a component has a method")

    def work(self) -> None:
        """Nothing else has arrived for the moment: join what has gathered."""
        self.pump()

    def resume(self, level: int) -> bool:
        """No message is under way: go on with what waited for that.

        Returns whether there was something; all partitions are then run to quiescence and resumed from level 0 on.
        A level is reached when no partition had anything to do on the one below: that is how all of them know.
        """
        return False

    def close(self) -> None:
        """The transaction is over: forget what only matters within one."""

    def dismiss(self, table: Fixpoint, tuples: list[Tuple]) -> None:
        """Answers that nobody asks for any more leave their table; nothing rests on them."""
        table.remove(tuples)

    def size(self, annotation: Any) -> int:
        """Bytes of provenance in an annotation."""
        return 0

    # --- a transaction ---------------------------------------------------------------------------------------

    def prepare(self, deltas: dict[str, Delta]) -> None:
        """Bring what lookups look into to where it is wanted; it must all be there before anybody asks."""
        for number, (lookup, rule) in enumerate(self.lookups):
            delta = deltas.get(rule.inner.relation)
            if delta:
                for destination, share in self._shares(rule.inner, delta.items()).items():
                    if destination == self.partition:
                        lookup.change(share)
                    else:
                        self.send(destination, "inner", number, [[t, w] for t, w in share])

    def begin(self, deltas: dict[str, Delta]) -> None:
        """Work in the net changes of lower strata, as far as this partition owns them."""
        gone: Gone = []
        new: dict[str, list[Tuple]] = {}
        for name in self.stratum.inputs:
            delta = deltas.get(name)
            if delta is not None and name in self.home:
                table = self.home[name]
                came, went = self._presence(name, delta)
                gone.extend([(table, t) for t in went])
                new[name] = came
        for lookup, rule in self.lookups:
            former, new[rule.head] = lookup.settle()
            gone.extend([(self.home[rule.head], t) for t in former])
        self._only_new = self.partitions == 1 and not gone
        self.work_in(gone, new)

    def finish(self) -> dict[str, Delta]:
        """The net changes of the component's relations on this partition; the engine is quiescent."""
        self._forget_questions()
        deltas: dict[str, Delta] = {}
        for name in self.stratum.relations:
            delta = Delta(*self.home[name].net())
            if delta:
                deltas[name] = delta
        for table in self.tables:
            table.net()
        for ship in self.ships.values():
            ship.close()
        self.close()
        self._new = self._counted = self._fruitless = 0
        for rules in self.rules.values():
            for rule in rules:
                rule.derived = 0
        return deltas

    def _presence(self, name: str, delta: Delta) -> tuple[list[Tuple], list[Tuple]]:
        """The tuples that appeared and those that disappeared, where a change of weight may be neither."""
        relation = self.plan.relations[name]
        if not (relation.bag or relation.weighted):
            return delta.gained, delta.lost
        weights = self._weights.setdefault(name, {})
        came: list[Tuple] = []
        went: list[Tuple] = []
        for t, w in delta.items():
            old = weights.get(t, 0)
            now = old + w
            if now:
                weights[t] = now
            else:
                del weights[t]
            if bool(old) != bool(now):
                (came if now else went).append(t)
        return came, went

    def _shares(self, inner: Input, delta: list[tuple[Tuple, int]]) -> dict[int, list[tuple[Tuple, int]]]:
        """A change of a lookup's inner relation by the partitions that want it."""
        if self.partitions == 1:
            return {0: delta}
        if inner.at == BROADCAST:
            return dict.fromkeys(range(self.partitions), delta)
        return Router(inner.at, self.partitions).split(delta)

    def _forget_questions(self) -> None:
        """Drop the answers that no tuple asks for any more. Nothing can rest on them."""
        for table, wiring in zip(self.tables, self.wiring, strict=True):
            for lookup, rule in wiring.asks:
                index = table.indexes[rule.left.key]
                asking = dict.fromkeys(_columns(t, rule.left.key) for t in table.removed)
                asking.update(self._asked.pop(rule.id, {}))  # some of who asked may be gone again
                as_indexed = key_of(range(len(rule.left.key)))
                answers = lookup.forget([k for k in asking if index.find(as_indexed(k)) is None])
                home = self.home[rule.head]
                self.dismiss(home, answers)
                home.sweep(answers)

    # --- joining ---------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Work off insertions that have gathered, if there are any."""
        if any(table.pending for table in self.tables):
            self.pump()

    def pump(self) -> None:
        """Join what is pending until nothing is, then ship what has gathered for other partitions."""
        self.gather()
        busy = True
        while busy:
            busy = False
            for table, wiring in zip(self.tables, self.wiring, strict=True):
                if table.pending:
                    busy = True
                    self._step(table, wiring, table.take())
        if self.partitions > 1:
            self.flush()

    def _step(self, table: Fixpoint, wiring: Wiring, batch: list[Derivation]) -> None:
        """Join one batch of one table with everything that came before it."""
        for join in wiring.left:
            self._join(join, "left", batch)
        table.settle(batch)
        for join in wiring.right:
            self._join(join, "right", batch)
        for projection in wiring.maps:
            self._derived(projection, projection.derive(batch, *self._known(projection.head)))
        for lookup, rule in wiring.asks:
            keys = {_columns(t, rule.left.key): None for t, _ in batch}
            self._asked.setdefault(rule.id, {}).update(keys)
            self.introduce(rule.head, lookup.ask(keys))
        if wiring.copies:
            self.copy(wiring, batch)
        self._fruitless = 0 if self._new > self._counted else self._fruitless + 1
        self._counted = self._new
        if self.limit is not None and (self._new > self.limit or self._fruitless > max(ROUNDS, self.limit)):
            self._diverged(batch, self.busiest)
        if self._bounded:
            self._measure()

    def _join(self, join: PipelinedHashJoin, side: str, batch: list[Derivation]) -> None:
        """Join a batch on one side; a long one slice by slice, so that the limit is seen before all of it is made."""
        if len(batch) <= FEW:
            derived = join.derive(side, batch, *self._known(join.head), self.provenance)
            self._derived(join, derived, join.fills_seen(side))
            return

        def make(part: list[Derivation]) -> int:
            derived = join.derive(side, part, *self._known(join.head), self.provenance)
            self._derived(join, derived, join.fills_seen(side))
            if self.limit is not None and self._new > self.limit:
                self._diverged(part, join.text)
            if self._bounded:
                self._measure(join.text)
            return len(derived)

        in_slices(batch, make)

    def _known(self, head: str) -> tuple[Any, Any]:
        """What the kernels compare a head with: the tuples of the table, and what was sent or is best."""
        table, ship = self.home[head], self.ships.get(head)
        if ship is not None:
            return table.rows, ship.rows
        return table.rows, table.selection.best if table.selection is not None else ()

    def _derived(
        self, rule: PipelinedHashJoin | Projection, derived: list[Derivation], filled: bool = False
    ) -> None:
        """Send derivations to the table of their head, here or elsewhere."""
        table, ship = self.home[rule.head], self.ships.get(rule.head)
        on = derived
        if filled and isinstance(ship, Offering):  # the kernel has sorted them, and entered what stays
            if derived:
                table.enter(derived, filled)
            for destination, offered in ship.collect():
                self._post(rule.head, destination, offered)
                rule.derived += len(offered)
        elif not derived:
            return
        elif rule.purpose == "direct":
            table.enter(derived, filled)
        elif self.partitions == 1:
            on = table.arrive(derived)
        else:
            parts = self.routers[rule.head].split(derived)
            on = table.arrive(parts.pop(self.partition, []))
            for destination, away in parts.items():
                assert ship is not None
                ship.arrive(away, destination)
                self._post(rule.head, destination, ship.take())
                rule.derived += len(away)
        rule.derived += len(on)
        self._new += len(on)

    def gather(self) -> None:
        """Sort what the ships want to ship by destination."""
        for name, ship in self.ships.items():
            if ship.outbox:
                for destination, share in self.routers[name].split(ship.take()).items():
                    self._post(name, destination, share)

    def _post(self, name: str, destination: int, batch: list[Any]) -> None:
        if batch:
            number = self.numbers[name, self.plan.relations[name].partition]
            self.outgoing.setdefault((destination, number), []).extend(batch)

    def copy(self, wiring: Wiring, batch: list[Derivation]) -> None:
        """Bring tuples of a table to its copies at other placements."""
        raise AssertionError("a component has a method")

    def targets(self, router: Router | None, t: Tuple) -> Any:
        """The partitions that want a copy of a tuple."""
        return range(self.partitions) if router is None else (router(t),)

    def _diverged(self, batch: list[Derivation], text: str) -> None:
        barren = f" and {self._fruitless:,} rounds without a new one" if self._fruitless > ROUNDS else ""
        raise Divergence(
            f"{self._new:,} tuples{barren} in one transaction: the recursion seems to have no end",
            text,
            [t for t, _ in batch[-3:]],
        )

    def _measure(self, text: str = "") -> None:
        """Raise if a relation has grown beyond its size: by what has come in this transaction, as others may still go.

        The tuples that came are merged when there are too many in all, each once.
        """
        for table, most in self._bounded:
            size = len(table.rows)
            if size > most and (self._only_new or (size := len(table.added)) > most):
                raise Outgrown(table.name, size, most, text or self.busiest, self._only_new)

    @property
    def busiest(self) -> str:
        """The text of the rule that has derived most in this transaction: a recursive one, if such a one has."""
        own = set(self.stratum.relations)

        def rank(rule: PipelinedHashJoin | Projection) -> tuple[bool, bool, int]:
            return rule.derived > 0, any(table.name in own for table in rule.inputs), rule.derived

        return max((r for built in self.rules.values() for r in built), key=rank).text

    # --- looking in ------------------------------------------------------------------------------------------

    def kept(self) -> Iterator[tuple[Tuple, list[Any]]]:
        """All tuples that are kept here, copies and what was shipped included, each with its annotations.

        An offer has none.
        """
        holders: list[Fixpoint | MinShip] = [*self.tables, *self.ships.values()]
        for holder in holders:
            ledgers = [holder.ledger] if holder.selection is None else [holder.ledger, holder.selection.held]
            for ledger in ledgers:
                for t, first in ledger.first.items():
                    yield t, [first, *ledger.others(t)]
        for ship in self.ships.values():
            if isinstance(ship, Offering):
                yield from ((t, []) for t in ship.offered)
        for offers in self.offers.values():
            for offered in offers.by.values():
                yield from ((t, []) for t in offered)

    def variables(self) -> set[int]:
        """The variables of the tuples that have one of their own here."""
        return set()

    def mentioned(self) -> set[int]:
        """The variables that some annotation here depends on. Slow: for tests."""
        return set()

    def stats(self) -> dict[str, int]:
        """Counts of what this partition keeps for the component."""
        tuples = sum(len(t.rows) for t in self.tables) + sum(len(s.rows) for s in self.ships.values())
        waiting = sum(len(t.ledger.rest) for t in self.tables) + sum(len(s.ledger.rest) for s in self.ships.values())
        return {
            "tuples": tuples,
            "waiting": waiting,
            "variables": self.provenance.variables,
            "levels": self.provenance.levels,
            "nodes": self.provenance.nodes,
        }

    def check(self) -> None:
        """Assert the invariants of everything in here; the engine is quiescent."""
        for table in self.tables:
            table.check()
        for ship in self.ships.values():
            ship.check()
        for lookup, _ in self.lookups:
            lookup.check()
        for number, offers in self.offers.items():
            offers.check(self.tables[number].rows)
        self.provenance.check()


def _columns(t: Tuple, columns: tuple[int, ...]) -> Tuple:
    return tuple([t[c] for c in columns])
