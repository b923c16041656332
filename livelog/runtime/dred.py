"""A recursive component that is maintained by the classical method, DRed: delete too much, then derive again.

A deletion runs in two phases with a synchronisation between them. First everything that has *some* derivation from a
lost tuple is deleted, on all partitions and to the end: nobody knows yet what will still hold. Only when no message is
under way does it become certain that what is left in the tables is right; then each partition looks for other
derivations of what it deleted among what is left, and from there on it is ordinary insertion.

It runs on the operators, plans and messages of the other methods, and as well as it can: deletions are followed
through the same indexes in batches, the search for other derivations uses the finders of demand shipping, a tuple is
shipped once by each partition that derives it, and the owner remembers from whom it has a tuple, so that it need not
ask anybody after a deletion. With aggregate selection, a group that lost its best tuple is evaluated again from the
rules.
"""

from __future__ import annotations

from typing import Any

from livelog.runtime.component import Component, Gone
from livelog.runtime.network import Wiring
from operators.fixpoint import Fixpoint
from operators.ledger import Derivation
from operators.minship import MinShip

__all__ = ["DRed"]

Tuple = tuple[Any, ...]


class DRed(Component):
    """Tuples without provenance; the annotation of a tuple is the set of partitions that shipped it here, as bits.

    `_lost`: for each table the tuples that were deleted in this transaction, with the partitions that still stand by
    them; `_withdrawn` is the same for what was shipped. `_coming` are the insertions, which wait for the second phase.
    """

    keeps = "nothing"
    levels = 1

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lost: dict[int, dict[Tuple, int]] = {}
        self._withdrawn: dict[str, dict[Tuple, None]] = {}
        self._coming: dict[str, list[Tuple]] = {}
        self._drops: dict[tuple[int, int], list[Tuple]] = {}  # (partition, table) -> what it must delete

    # --- the first phase -------------------------------------------------------------------------------------

    def work_in(self, gone: Gone, new: dict[str, list[Tuple]]) -> None:
        self._coming = {name: tuples for name, tuples in new.items() if tuples}
        frontier: dict[int, list[Tuple]] = {}
        for table, t in gone:
            frontier.setdefault(self.number_of[id(table)], []).append(t)
        for number, tuples in frontier.items():
            self._lost.setdefault(number, {}).update(self.tables[number].remove(tuples))
        self._over_delete(frontier)

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        if kind == "drop":
            self.catch_up()
            self._dropped(source, target, rows)
        elif kind == "put":
            bit = 1 << source
            self._new += len(self.tables[target].arrive([(t, bit) for t in rows], remote=True))
        else:
            super().receive(source, kind, target, rows)

    def _dropped(self, source: int, number: int, tuples: list[Tuple]) -> None:
        """A partition no longer stands by tuples that it shipped here."""
        table, lost = self.tables[number], self._lost.setdefault(number, {})
        others = ~(1 << source)
        held: dict[Tuple, Any] = table.selection.held.first if table.selection is not None else {}
        removed = table.remove(tuples)
        for t in tuples:
            if t in removed:
                lost[t] = removed[t] & others
            elif t in lost:
                lost[t] &= others
            elif t in held:  # nothing rests on it, so it need not go while somebody else stands by it
                held[t] &= others
                if not held[t]:
                    assert table.selection is not None
                    table.selection.unhold(t)
        self._over_delete({number: list(removed)} if removed else {})

    def _over_delete(self, frontier: dict[int, list[Tuple]]) -> None:
        """Follow tuples that have left their tables, and delete whatever has a derivation from one of them."""
        while frontier:
            number = next(iter(frontier))
            tuples = frontier.pop(number)
            wiring = self.wiring[number]
            for copied, fallen in self._drop_copies(wiring, tuples).items():
                frontier.setdefault(copied, []).extend(fallen)
            for head, heads in self._reached(wiring, tuples):
                home = self.home[head]
                number = self.number_of[id(home)]
                removed = home.remove(heads)
                if removed:
                    self._lost.setdefault(number, {}).update(removed)
                    frontier.setdefault(number, []).extend(removed)
                if head in self.ships:
                    self._withdraw(head, heads)
        for (destination, number), tuples in self._drops.items():
            self.send(destination, "drop", number, tuples)
        self._drops.clear()

    def _reached(self, wiring: Wiring, tuples: list[Tuple]) -> list[tuple[str, list[Tuple]]]:
        """The known heads, by relation, that tuples of one table can have derived."""
        reached = [(j.head, j.heads_there("left", tuples, *self._there(j.head))) for j in wiring.left]
        reached += [(j.head, j.heads_there("right", tuples, *self._there(j.head))) for j in wiring.right]
        reached += [(p.head, p.heads_there(tuples, *self._there(p.head))) for p in wiring.maps]
        return [(head, heads) for head, heads in reached if heads]

    def _there(self, head: str) -> tuple[Any, Any]:
        ship = self.ships.get(head)
        return self.home[head].rows, () if ship is None else ship.rows

    def _withdraw(self, head: str, heads: list[Tuple]) -> None:
        """Take back what was shipped."""
        removed = self.ships[head].remove(heads)
        if removed:
            self._withdrawn.setdefault(head, {}).update(dict.fromkeys(removed))
            number = self.numbers[head, self.plan.relations[head].partition]
            for destination, share in self.routers[head].split_tuples(removed).items():
                self._drops.setdefault((destination, number), []).extend(share)

    def _drop_copies(self, wiring: Wiring, tuples: list[Tuple]) -> dict[int, list[Tuple]]:
        """Take back the copies of tuples at other placements; returns those that lay here, by table."""
        fallen: dict[int, list[Tuple]] = {}
        for router, number in wiring.copies:
            here: list[Tuple] = []
            for t in tuples:
                for destination in self.targets(router, t):
                    if destination == self.partition:
                        here.append(t)
                    else:
                        self._drops.setdefault((destination, number), []).append(t)
            removed = self.tables[number].remove(here)
            if removed:
                self._lost.setdefault(number, {}).update(removed)
                fallen[number] = list(removed)
        return fallen

    # --- the second phase ------------------------------------------------------------------------------------

    def resume(self, level: int) -> bool:
        """Everything that may have to go is gone: derive again what still holds, and let in what is new."""
        waiting = bool(self._coming or self._lost or self._withdrawn)
        coming, self._coming = self._coming, {}
        lost, self._lost = self._lost, {}
        withdrawn, self._withdrawn = self._withdrawn, {}
        for number, tuples in lost.items():
            table = self.tables[number]
            if self.home.get(table.name) is table:
                self._derive_again(table, tuples)
        for name, shipped in withdrawn.items():
            self._search(self.ships[name], list(shipped))
        for number, tuples in lost.items():
            self.tables[number].sweep(tuples)
        for name, new in coming.items():
            self.introduce(name, new)
        self.pump()
        return waiting

    def _derive_again(self, table: Fixpoint, lost: dict[Tuple, int]) -> None:
        """Bring back the lost tuples of a table that somebody still stands by, or that are found in the joins."""
        supported = [(t, bits) for t, bits in lost.items() if bits]
        if supported:
            table.arrive(supported, remote=True)
        self._search(table, [t for t in lost if t not in table.rows])

    def _search(self, holder: Fixpoint | MinShip, lost: list[Tuple]) -> None:
        """Look for derivations of lost tuples among what is left."""
        rules = self.rules.get(holder.name, [])
        selection = holder.selection
        if selection is not None:
            sample = {selection.group(t): t for t in lost}
            dirty = selection.take_dirty()
            candidates = [d for g in dirty for d in selection.next_best(g)]
            if candidates:
                holder.enter(holder.ledger.offer(candidates, remote=True)[1])
            owner, here = self.routers[holder.name], isinstance(holder, Fixpoint)
            found = [d for rule in rules for d in rule.find_group([sample[g] for g in dirty if g in sample])]
            holder.arrive([(t, 0) for t, _ in found if (owner(t) == self.partition) == here])
            return
        for rule in rules:
            if not lost:
                break
            found, lost = rule.find(lost)
            back: list[Derivation] = [(t, 0) for t, _ in found]
            holder.ledger.first.update(back)
            holder.enter(back)

    # --- insertion -------------------------------------------------------------------------------------------

    def introduce(self, name: str, tuples: list[Tuple]) -> None:
        self.home[name].arrive([(t, 0) for t in tuples])

    def copy(self, wiring: Wiring, batch: list[Derivation]) -> None:
        for router, number in wiring.copies:
            here: list[Derivation] = []
            for entry in batch:
                for destination in self.targets(router, entry[0]):
                    if destination == self.partition:
                        here.append((entry[0], 1 << destination))
                    else:
                        self.outgoing.setdefault((destination, number), []).append(entry)
            self.tables[number].arrive(here, remote=True)

    def flush(self) -> None:
        for (destination, number), batch in self.outgoing.items():
            self.send(destination, "put", number, [t for t, _ in batch])
        self.outgoing.clear()
