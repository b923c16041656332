"""What a recursive component does when variables die.

The tuples that rest on a dead variable are found by walking: from the tuples where the death enters this
partition forward through the local joins, and on only through those whose own annotation fell. The cost
follows what is affected. Then, by mode, other derivations take over: in demand mode the joins are searched backwards
for each lost tuple, after *everything* that fell is out of the tables, or a search could find a derivation that is
dead already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.fixpoint import Fixpoint
from operators.ledger import LOST, Death
from operators.minship import MinShip

if TYPE_CHECKING:
    from livelog.runtime.component import Component

__all__ = ["Mourning"]

Tuple = tuple[Any, ...]


class Mourning:
    """The deaths of one component on one partition."""

    def __init__(self, component: Component) -> None:
        self._component = component
        self._numbers = {id(table): n for n, table in enumerate(component.tables)}

    def kill(self, died: set[int], gone: list[tuple[Fixpoint, Tuple]]) -> None:
        """Restrict every annotation that mentions one of these variables, and find what takes over.

        `gone` are the tuples of this partition whose own variables they are.
        """
        death = Death(died, self._component.provenance)
        try:
            self._kill(death, gone)
        finally:
            death.over()

    def _kill(self, death: Death, gone: list[tuple[Fixpoint, Tuple]]) -> None:
        c = self._component
        lost: dict[int, list[Tuple]] = {}
        replaced: dict[int, list[Tuple]] = {}
        self._walk(death, gone, lost, replaced)
        shipped_lost, shipped_replaced = self._shipped(lost, replaced)
        for number, tuples in replaced.items():
            self._take_over(c.tables[number], number, tuples)
        for ship, tuples in shipped_replaced:
            if c.mode != "eager":
                ship.outbox.extend([(t, ship.rows[t]) for t in tuples])
        for number, tuples in lost.items():
            table = c.tables[number]
            if c.home.get(table.name) is table:
                self._find(table, tuples)
        for ship, tuples in shipped_lost:
            self._find(ship, tuples)
        for number, tuples in lost.items():
            c.tables[number].sweep(tuples)

    def _walk(
        self,
        death: Death,
        gone: list[tuple[Fixpoint, Tuple]],
        lost: dict[int, list[Tuple]],
        replaced: dict[int, list[Tuple]],
    ) -> None:
        """Strike all that rests on the dead variables. What MinShip sent is filed under -1, -2, ..."""
        c = self._component
        frontier: dict[int, list[Tuple]] = {}

        def strike(holder: Fixpoint | MinShip, number: int, tuples: Any) -> None:
            for t in holder.suspects(tuples, death):
                outcome = holder.strike(t, death)
                if outcome is not None:
                    (lost if outcome == LOST else replaced).setdefault(number, []).append(t)
                    if number >= 0:
                        frontier.setdefault(number, []).append(t)

        for table, t in gone:
            strike(table, self._numbers[id(table)], (t,))
        for number, table in enumerate(c.tables):
            strike(table, number, list(table.touched(death.dead)))
        ships = {name: -1 - i for i, name in enumerate(c.ships)}
        while frontier:
            number = next(iter(frontier))
            tuples = frontier.pop(number)
            wiring = c.wiring[number]
            reached = [(join.head, join.heads("left", tuples)) for join in wiring.left]
            reached += [(join.head, join.heads("right", tuples)) for join in wiring.right]
            reached += [(projection.head, projection.heads(tuples)) for projection in wiring.maps]
            for head, heads in reached:
                if heads:
                    home = c.home[head]
                    strike(home, self._numbers[id(home)], heads)
                    if head in ships:
                        strike(c.ships[head], ships[head], heads)

    def _shipped(
        self, lost: dict[int, list[Tuple]], replaced: dict[int, list[Tuple]]
    ) -> tuple[list[tuple[MinShip, list[Tuple]]], list[tuple[MinShip, list[Tuple]]]]:
        """Take what concerns MinShip out of the two files."""
        ships = list(self._component.ships.values())
        return (
            [(ships[-1 - n], lost.pop(n)) for n in sorted(lost) if n < 0],
            [(ships[-1 - n], replaced.pop(n)) for n in sorted(replaced) if n < 0],
        )

    def _take_over(self, table: Fixpoint, number: int, tuples: list[Tuple]) -> None:
        """Other derivations took over at once: tell those who rest on the tuple, as the mode wants."""
        c = self._component
        batch = [(t, table.rows[t]) for t in tuples if t in table.rows]
        if c.mode == "lazy":
            table.pending.extend(batch)
        elif c.mode == "demand" and c.wiring[number].copies:
            # here the lost dependents are searched for anyway; a copy has to be told
            c.copy(c.wiring[number], batch)

    def _find(self, holder: Fixpoint | MinShip, lost: list[Tuple]) -> None:
        """Look for other derivations of lost tuples."""
        c = self._component
        rules = c.rules.get(holder.name, [])
        selection = holder.selection
        if selection is not None:
            sample = {selection.group(t): t for t in lost}
            dirty = selection.take_dirty()
            candidates = [d for g in dirty for d in selection.next_best(g)]
            if candidates:
                # whoever shipped a held tuple relies on all its derivations being kept
                holder.enter(holder.ledger.offer(candidates, remote=True)[1])
            if c.mode == "demand" and dirty:
                heads = [sample[g] for g in dirty]
                owner, here = c.routers[holder.name], isinstance(holder, Fixpoint)
                found = [d for rule in rules for d in rule.find_group(heads)]
                if c.partitions > 1:
                    found = [d for d in found if (owner(d[0]) == c.partition) == here]
                holder.arrive([d for d in found if d[0] not in holder.rows])
        elif c.mode == "demand":
            for rule in rules:
                if not lost:
                    break
                found, lost = rule.find(lost)
                holder.ledger.first.update(found)
                holder.enter(found)

