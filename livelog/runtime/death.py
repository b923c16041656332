"""What a recursive component does when variables die.

The tuples that rest on a dead variable are found by walking: from the tuples where the death enters this
partition forward through the local joins, and on only through those whose own annotation fell. The cost
follows what is affected. Then, by mode, other derivations take over: in demand mode the joins are searched backwards
for each lost tuple, after *everything* that fell is out of the tables, or a search could find a derivation that is
dead already.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from operators.aggsel import AggSel
from operators.fixpoint import Fixpoint
from operators.ledger import Death, Derivation, strike_each
from operators.minship import MinShip
from operators.offers import Offering
from operators.sole import Sole

if TYPE_CHECKING:
    from livelog.runtime.absorption import Absorption

__all__ = ["Mourning"]

Tuple = tuple[Any, ...]


class Mourning:
    """The deaths of one component on one partition."""

    def __init__(self, component: Absorption) -> None:
        self._component = component

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
        if c.mode == "demand" and c.partitions == 1 and all(table.selection is None for table in c.tables):
            self._bring_back(lost)
        else:
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

        def strike(holder: Fixpoint | MinShip, number: int, tuples: list[Tuple]) -> None:
            struck = holder.strike_all if isinstance(holder, Fixpoint) else partial(strike_each, holder)
            for fallen, file in zip(struck(tuples, death), (lost, replaced), strict=True):
                if fallen:
                    file.setdefault(number, []).extend(fallen)
                    if number >= 0:
                        frontier.setdefault(number, []).extend(fallen)

        for table, t in gone:
            strike(table, c.number_of[id(table)], [t])
        for number, table in enumerate(c.tables):
            if touched := list(table.touched(death.dead)):
                strike(table, number, touched)
        # an offer rests on nothing
        ships = {n: -1 - i for i, (n, ship) in enumerate(c.ships.items()) if not isinstance(ship, Offering)}
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
                    strike(home, c.number_of[id(home)], heads)
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

    def _bring_back(self, lost: dict[int, list[Tuple]]) -> None:
        """Search for all that was lost until nothing more is found, so that nothing need be joined forward.

        Joining what was found could only derive tuples that are not there. But the tables were closed under the rules
        before the deaths, nothing has come since, and whatever is lost has been searched for: once a search finds no
        more, the tables are closed again. What is found can be rested on at once, so that mostly the first search finds
        all there is; the next goes the other way round. Still a chain may come back link by link: when searching again
        has cost as much as joining would, that is done instead. On several partitions others have to be told of what
        was found, and with aggregate selection other tuples take the place of the lost: this is for neither.
        """
        c = self._component
        missing = {number: tuples for number, tuples in lost.items() if c.tables[number].name in c.rules}
        back: dict[int, list[Derivation]] = {number: [] for number in missing}
        searched = 0
        while True:
            before = sum(map(len, missing.values()))
            for number, tuples in missing.items():
                for rule in c.rules[c.tables[number].name]:
                    if tuples:
                        found, tuples = rule.find(tuples, c.tables[number].rows)
                        c.tables[number].bring_back(found)
                        back[number] += found
                missing[number] = tuples[::-1]
            left = sum(map(len, missing.values()))
            if left in (0, before):
                return
            searched += left
            if searched > sum(map(len, back.values())):
                for number, found in back.items():
                    c.tables[number].pending += found
                return

    def _find(self, holder: Fixpoint | MinShip, lost: list[Tuple]) -> None:
        """Look for other derivations of lost tuples."""
        c = self._component
        if holder.selection is not None:
            self._find_best(holder, holder.selection)
        elif c.mode == "demand":
            for rule in c.rules.get(holder.name, []):
                if not lost:
                    break
                found, lost = rule.find(lost)
                holder.ledger.first.update(found)
                if isinstance(holder, Fixpoint):
                    holder.enter(found, filled=True)  # nothing has been swept yet
                else:
                    holder.enter(found)
            if lost:
                c.seek(c.number_of[id(holder)], lost)

    def _find_best(self, holder: Fixpoint | MinShip, selection: AggSel) -> None:
        """Look for the best tuples of groups that lost theirs."""
        c = self._component
        rules = c.rules.get(holder.name, [])
        heads = list(selection.dirty.values())
        dirty = selection.take_dirty()
        if isinstance(selection, Sole):
            assert isinstance(holder, Fixpoint)
            for rule in rules:
                holder.found(*rule.find_best(heads, holder.rows, selection.best))
            return
        candidates = [d for g in dirty for d in selection.next_best(g)] if selection.waiting else []
        if candidates:
            # whoever shipped a held tuple relies on all its derivations being kept
            holder.enter(holder.ledger.offer(candidates, remote=True)[1])
        if c.mode == "demand" and dirty:
            owner, here = c.routers[holder.name], isinstance(holder, Fixpoint)
            found = [d for rule in rules for d in rule.find_group(heads)]
            if c.partitions > 1:
                found = [d for d in found if (owner(d[0]) == c.partition) == here]
            holder.arrive([d for d in found if d[0] not in holder.rows])
