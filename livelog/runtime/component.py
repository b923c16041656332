"""A recursive component on one partition: what happens to its tables in a transaction.

What happens in a transaction: `begin` takes the net changes of the lower strata (this partition's share).
Deaths come first: they are told to all partitions and followed through the local joins (`livelog.runtime.death`),
then insertions are joined until nothing is pending (`_pump`). `receive` does the same for what other partitions
send. Every message is worked off completely before the next one is looked at, so whatever order
messages arrive in, each finds consistent tables. `finish` tells the net changes upwards.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from livelog.runtime.death import Mourning
from livelog.runtime.network import Network, Wiring
from operators.delta import Delta
from operators.errors import Divergence
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.kernels import key_of
from operators.ledger import Derivation
from operators.minship import MinShip
from operators.partition import Router
from operators.provenance import Annotation, Diagram, Provenance
from planner.plan import BROADCAST, Input, Plan, Stratum

__all__ = ["Component"]

Tuple = tuple[Any, ...]
Send = Callable[[int, str, int, list[Any]], None]

ROUNDS = 1_000_000  # a chain this long is taken for one without end


class Component:
    """The state and the rules of one recursive stratum on one partition.

    `tables` are numbered the same way on every partition: messages name a table by its number.
    `home` has each relation's table on its owner. `dead` are the variables that died in this transaction:
    a message that was under way while its variable died is restricted on arrival. `limit` is how many tuples a
    transaction may add; None where the facts are known to have been evaluated before.
    """

    def __init__(
        self, stratum: Stratum, plan: Plan, partition: int, partitions: int, mode: str, limit: int | None, send: Send
    ) -> None:
        self.stratum = stratum
        self.plan = plan
        self.partition = partition
        self.partitions = partitions
        self.mode = mode
        self.limit = limit
        self.send = send
        self.provenance = Provenance(partition, partitions)
        self.dead: set[int] = set()
        network = Network(stratum, plan, partitions, mode, self.provenance)
        self.tables, self.wiring, self.numbers = network.tables, network.wiring, network.numbers
        self.home, self.ships, self.rules = network.home, network.ships, network.rules
        self.lookups = network.lookups
        self.routers = {name: Router(plan.relations[name].partition, partitions) for name in self.home}
        self.mourning = Mourning(self)
        self.clear = weakref.finalize(self, network.clear)  # for a component that is never cleared by hand
        self._weights: dict[str, dict[Tuple, int]] = {}
        self._asked: dict[str, dict[Tuple, None]] = {}  # by rule, the keys asked about in this transaction
        self._outgoing = network.outgoing
        self._new = 0
        self._rounds = 0

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
        gone: list[tuple[Fixpoint, Tuple]] = []
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
        self._bury(gone)
        for name, tuples in new.items():
            self._introduce(name, tuples)
        self._pump()

    def receive(self, kind: str, target: int, rows: list[Any]) -> None:
        """Work off a message of another partition."""
        if kind == "death":
            died = set(rows) - self.dead
            self.dead |= died
            self.mourning.kill(died, [])
        elif kind == "inner":
            self.lookups[target][0].change(rows)
            return
        else:
            self._new += len(self.tables[target].arrive(self._alive(rows), remote=True))
        self._pump()

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
        self.provenance.release(self.dead)
        self.dead = set()
        self._new = self._rounds = 0
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
        return Router(inner.at, self.partitions).split(delta, lambda entry: entry[0])

    def _introduce(self, name: str, tuples: list[Tuple]) -> None:
        """Give each tuple a variable of its own and let it in."""
        fresh = self.provenance.fresh
        self.home[name].arrive([(t, (fresh(),)) for t in tuples])

    def _bury(self, gone: list[tuple[Fixpoint, Tuple]]) -> None:
        """Tuples with variables of their own are gone: tell everybody, and follow it here."""
        if not gone:
            return
        died = {_variable(table.rows[t]) for table, t in gone}
        self.dead |= died
        for other in range(self.partitions):
            if other != self.partition:
                self.send(other, "death", 0, sorted(died))
        self.mourning.kill(died, gone)

    def _alive(self, rows: list[Any]) -> list[Derivation]:
        """What a message says, without what died while it was under way."""
        decode, dead = self.provenance.decode, self.dead
        derived: list[Derivation] = []
        for t, shipped in rows:
            annotation: Annotation | None = decode(shipped)
            if dead:
                if type(annotation) is Diagram:
                    annotation = self.provenance.restrict(annotation, dead)
                elif not dead.isdisjoint(annotation):  # type: ignore[arg-type]
                    annotation = None
            if annotation is not None:
                derived.append((t, annotation))
        return derived

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
                for t in answers:
                    self.dead.add(_variable(home.rows[t]))
                    del home.ledger.first[t]
                    home.forget(t)
                home.sweep(answers)

    # --- joining ---------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Join what is pending until nothing is, then ship what has gathered for other partitions."""
        busy = True
        while busy:
            busy = False
            for table, wiring in zip(self.tables, self.wiring, strict=True):
                if table.pending:
                    busy = True
                    self._step(table, wiring, table.take())
        if self.partitions > 1:
            self._flush()

    def _step(self, table: Fixpoint, wiring: Wiring, batch: list[Derivation]) -> None:
        """Join one batch of one table with everything that came before it."""
        for join in wiring.left:
            derived = join.derive("left", batch, *self._known(join.head), self.provenance)
            self._derived(join, derived, join.fills_seen("left"))
        table.settle(batch)
        for join in wiring.right:
            derived = join.derive("right", batch, *self._known(join.head), self.provenance)
            self._derived(join, derived, join.fills_seen("right"))
        for projection in wiring.maps:
            self._derived(projection, projection.derive(batch, *self._known(projection.head)))
        for lookup, rule in wiring.asks:
            keys = {_columns(t, rule.left.key): None for t, _ in batch}
            self._asked.setdefault(rule.id, {}).update(keys)
            self._introduce(rule.head, lookup.ask(keys))
        if wiring.copies:
            self.copy(wiring, batch)
        self._rounds += 1
        if self.limit is not None and (self._new > self.limit or self._rounds > ROUNDS):
            self._diverged(table, batch)

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
        if not derived:
            return
        table = self.home[rule.head]
        if rule.purpose == "direct":
            table.enter(derived, filled)
            on = derived
        elif self.partitions == 1:
            on = table.arrive(derived)
        else:
            owner, here = self.routers[rule.head], self.partition
            on = []
            away: list[Derivation] = []
            for d in derived:
                (on if owner(d[0]) == here else away).append(d)
            on = table.arrive(on)
            if away:
                self.ships[rule.head].arrive(away)
                rule.derived += len(away)
        rule.derived += len(on)
        self._new += len(on)

    def copy(self, wiring: Wiring, batch: list[Derivation]) -> None:
        """Bring tuples of a table to its copies at other placements."""
        flat = self.provenance.flat
        for router, number in wiring.copies:
            here: list[Derivation] = []
            for t, a in batch:
                targets = range(self.partitions) if router is None else (router(t),)
                for destination in targets:
                    if destination == self.partition:
                        here.append((t, flat(a)))
                    else:
                        self._outgoing.setdefault((destination, number), []).append((t, a))
            self.tables[number].arrive(here, remote=True)

    def _flush(self) -> None:
        """One message per destination and table."""
        encode = self.provenance.encode
        for name, ship in self.ships.items():
            number = self.numbers[name, self.plan.relations[name].partition]
            for destination, share in self.routers[name].split(ship.take(), lambda d: d[0]).items():
                self._outgoing.setdefault((destination, number), []).extend(share)
        for (destination, number), batch in self._outgoing.items():
            self.send(destination, "insert", number, [[t, encode(a)] for t, a in batch])
        self._outgoing.clear()

    def _diverged(self, table: Fixpoint, batch: list[Derivation]) -> None:
        rules = [r for built in self.rules.values() for r in built]
        worst = max(rules, key=lambda r: r.derived)
        raise Divergence(
            f"{self._new:,} tuples and {self._rounds:,} rounds in one transaction: the recursion seems to have no end",
            worst.text,
            [t for t, _ in batch[-3:]],
        )

    # --- looking in ------------------------------------------------------------------------------------------

    def derivation(self, relation: str, t: Tuple) -> set[int]:
        """The variables of one derivation of a tuple that this partition owns."""
        return self.provenance.implicant(self.home[relation].rows[t])

    def variables(self) -> set[int]:
        """The variables of the tuples that have one of their own here."""
        return {_variable(a) for name in self.home if name not in self.rules for a in self.home[name].rows.values()}

    def mentioned(self) -> set[int]:
        """The variables that some annotation here depends on. Slow: for tests."""
        found: set[int] = set()
        holders: list[Fixpoint | MinShip] = [*self.tables, *self.ships.values()]
        for holder in holders:
            for kept in [holder.ledger] + ([holder.selection.held] if holder.selection is not None else []):
                for annotation in (*kept.first.values(), *kept.rest.values()):
                    found |= self.provenance.exact_support(annotation)
        return found

    def named(self, variables: set[int]) -> list[tuple[str, Tuple]]:
        """The tuples behind variables that this partition handed out. O(tuples with variables of their own)."""
        own = [name for name in self.home if name not in self.rules]
        return [(name, t) for name in own for t, a in self.home[name].rows.items() if _variable(a) in variables]

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
        self.provenance.check()


def _variable(annotation: Annotation) -> int:
    """The variable of a tuple that has one of its own."""
    if type(annotation) is Diagram:
        return next(iter(annotation.support))
    v: int = annotation[0]
    return v


def _columns(t: Tuple, columns: tuple[int, ...]) -> Tuple:
    return tuple([t[c] for c in columns])
