"""A recursive component that is maintained by absorption provenance.

In a transaction deaths come first: they are told to all partitions and followed through the local joins
(`livelog.runtime.death`), then insertions are joined until nothing is pending. What other partitions send is treated
the same way. In demand mode, tuples that another partition owns are offered to it (`operators.offers`).
"""

from __future__ import annotations

from typing import Any

from livelog.runtime.component import Component, Gone
from livelog.runtime.death import Mourning
from livelog.runtime.network import Wiring
from operators.fixpoint import Fixpoint
from operators.ledger import Derivation
from operators.offers import Offering
from operators.provenance import Annotation, Diagram, cube, cubes

__all__ = ["Absorption"]

Tuple = tuple[Any, ...]


class Absorption(Component):
    """Every tuple carries the function of base tuples that it rests on.

    `dead` are the variables that died in this transaction: a message that was under way while its variable died is
    restricted on arrival.
    """

    keeps = "annotations"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.dead: set[int] = set()
        self.mourning = Mourning(self)

    def work_in(self, gone: Gone, new: dict[str, list[Tuple]]) -> None:
        self._bury(gone)
        for name, tuples in new.items():
            self.introduce(name, tuples)
        self.pump()

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        if kind == "death":
            self._mourn(set(rows))
        elif kind == "insert":
            self._new += len(self.tables[target].arrive(self._alive(rows), remote=True))
        elif kind == "answer":
            self._new += len(self._answered(source, target, rows))
        elif kind == "offer":
            # where something died, the sender has to look what its offers rest on
            want, places = self.offers[target].offered(source, rows, self.tables[target].rows, not self.dead)
            if want:
                self.send(source, *(("want", target, want) if self.dead else ("pick", target, places)))
        elif kind == "pick":
            self._picked(source, target, rows)
        elif kind == "told":
            derived = self.offers[target].told(source, rows)
            if derived:
                self._new += len(self._answered(source, target, derived))
        elif kind in ("want", "wish"):
            self._answer(source, target, rows, reply=kind == "want")
        elif kind == "none":
            self._want(target, self.offers[target].refused(source, rows, self.tables[target].rows), "wish")
        else:
            super().receive(source, kind, target, rows)

    # --- offers ----------------------------------------------------------------------------------------------

    def seek(self, number: int, lost: list[Tuple]) -> None:
        """No derivation of these tuples is left here: ask those who offer them."""
        if number in self.offers:
            self._want(number, self.offers[number].lost(lost))

    def _want(self, number: int, wanted: dict[int, list[Tuple]], kind: str = "want") -> None:
        for destination, tuples in wanted.items():
            self.send(destination, kind, number, tuples)

    def _picked(self, asking: int, number: int, places: list[int]) -> None:
        """Ship the derivations behind offers that were just made."""
        ship = self.ships[self.tables[number].name]
        assert isinstance(ship, Offering)
        tuples, derivations = ship.picked(asking, places)
        if self.dead:  # they may rest on that
            self.send(asking, "told", number, [])
            self._answer(asking, number, tuples, reply=True)
        else:  # whatever was derived in this transaction still stands
            self.send(asking, "told", number, cubes(derivations))

    def _answer(self, asking: int, number: int, tuples: list[Tuple], reply: bool) -> None:
        """Ship a derivation of each of these tuples, or say, if a `reply` is expected, that there is none."""
        name = self.tables[number].name
        ship = self.ships[name]
        assert isinstance(ship, Offering)
        found: list[Derivation] = []
        self.catch_up()
        for rule in self.rules[name]:
            if not tuples:
                break
            more, tuples = rule.find(tuples)
            found += [(t, cube(a)) for t, a in more]
        if found:
            self.send(asking, "answer", number, found)
        if tuples:
            ship.withdraw(tuples)
            if reply:
                self.send(asking, "none", number, tuples)

    def _answered(self, source: int, number: int, derived: list[Derivation]) -> list[Derivation]:
        """Enter what was asked for. Where it rests on something dead, its sender had not heard of that: ask again."""
        offers, table = self.offers[number], self.tables[number]
        offers.answered(source, derived)
        if self.dead:
            alive = [d for d in derived if self.dead.isdisjoint(d[1])]
            if len(alive) < len(derived):
                living = {t for t, _ in alive}
                again = offers.lost([t for t, _ in derived if t not in living and t not in table.rows])
                for destination in again:
                    self.send(destination, "death", 0, sorted(self.dead))
                self._want(number, again)
            derived = alive
        return table.accept(derived)

    def close(self) -> None:
        self.provenance.release(self.dead)
        self.dead = set()
        for offers in self.offers.values():
            offers.close()

    def introduce(self, name: str, tuples: list[Tuple]) -> None:
        """Give each tuple a variable of its own and let it in."""
        fresh = self.provenance.fresh
        self.home[name].arrive([(t, (fresh(),)) for t in tuples])

    def dismiss(self, table: Fixpoint, tuples: list[Tuple]) -> None:
        self.dead.update([_variable(a) for a in table.remove(tuples).values()])

    def _mourn(self, died: set[int]) -> None:
        """Another partition says that variables died."""
        died -= self.dead
        if died:
            self.catch_up()
            self.dead |= died
            self.mourning.kill(died, [])

    def _bury(self, gone: Gone) -> None:
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

    def copy(self, wiring: Wiring, batch: list[Derivation]) -> None:
        """Bring tuples of a table to its copies at other placements."""
        flat = self.provenance.flat
        for router, number in wiring.copies:
            here: list[Derivation] = []
            for t, a in batch:
                for destination in self.targets(router, t):
                    if destination == self.partition:
                        here.append((t, flat(a)))
                    else:
                        self.outgoing.setdefault((destination, number), []).append((t, a))
            self.tables[number].arrive(here, remote=True)

    def flush(self) -> None:
        """One message per destination and table."""
        encode = self.provenance.encode
        for (destination, number), batch in self.outgoing.items():
            if number in self.offers:
                self.send(destination, "offer", number, batch)
            else:
                self.send(destination, "insert", number, [[t, encode(a)] for t, a in batch])
        self.outgoing.clear()

    # --- looking in ------------------------------------------------------------------------------------------

    def derivation(self, relation: str, t: Tuple) -> set[int]:
        """The variables of one derivation of a tuple that this partition owns."""
        return self.provenance.implicant(self.home[relation].rows[t])

    def variables(self) -> set[int]:
        """The variables of the tuples that have one of their own here."""
        return {_variable(a) for name in self.home if name not in self.rules for a in self.home[name].rows.values()}

    def mentioned(self) -> set[int]:
        found: set[int] = set()
        for _, kept in self.kept():
            for annotation in kept:
                found |= self.provenance.exact_support(annotation)
        return found

    def size(self, annotation: Any) -> int:
        return self.provenance.size(annotation)

    def named(self, variables: set[int]) -> list[tuple[str, Tuple]]:
        """The tuples behind variables that this partition handed out. O(tuples with variables of their own)."""
        own = [name for name in self.home if name not in self.rules]
        return [(name, t) for name in own for t, a in self.home[name].rows.items() if _variable(a) in variables]


def _variable(annotation: Annotation) -> int:
    """The variable of a tuple that has one of its own."""
    if type(annotation) is Diagram:
        return next(iter(annotation.support))
    v: int = annotation[0]
    return v
