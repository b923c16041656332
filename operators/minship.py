"""MinShip: derivations for tuples that another partition owns.

The same three modes as the ledger (`operators.ledger`): the first derivation of a tuple is shipped; later
ones are shipped too (eager), wait here (lazy), or are forgotten and searched for if need be (demand).
With aggregate selection, what is dominated by something that was shipped already is not shipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operators.aggsel import AggSel
from operators.ledger import LOST, Death, Derivation, Ledger

__all__ = ["MinShip"]

Tuple = tuple[Any, ...]


class MinShip:
    """The sender's side of one relation on one partition.

    `ledger.first` holds what was shipped, annotation included; `outbox` what is to be shipped next.
    """

    def __init__(self, name: str, ledger: Ledger, selection: AggSel | None = None) -> None:
        self.name = name
        self.ledger = ledger
        self.selection = selection
        self.outbox: list[Derivation] = []

    @property
    def rows(self) -> dict[Tuple, Any]:
        return self.ledger.first

    def arrive(self, derived: list[Derivation], destination: int = 0) -> None:
        """Take in derivations of tuples that `destination` owns, and queue what the mode ships."""
        sent = self.ledger.first
        if self.selection is not None:
            known = [d for d in derived if d[0] in sent]
            on, dominated = self.selection.admit([d for d in derived if d[0] not in sent] if known else derived)
            if dominated and not self.ledger.searching:
                self.selection.hold(dominated, False)
            if self.selection.held.first:
                for t in {d[0]: None for d in on}:
                    on.extend(self.selection.unhold(t))
            derived = known + on
        on, created = self.ledger.offer(derived)
        if self.selection is not None:
            self.selection.entered([t for t, _ in created])
        self.outbox.extend(on)

    def suspects(self, tuples: Iterable[Tuple], death: Death) -> list[Tuple]:
        """Those of the tuples that are worth a `strike`."""
        found = self.ledger.suspects(tuples, death)
        if self.selection is not None:
            found += [t for t in tuples if t in self.selection.held.first]
        return found

    def strike(self, t: Tuple, death: Death) -> str | None:
        """Apply a death to what was shipped: LOST (search for another), REPLACED (ship what took over), None."""
        if self.selection is not None and t in self.selection.held.first:
            self.selection.strike(t, death)
            return None
        outcome = self.ledger.strike(t, death)
        if outcome == LOST and self.selection is not None:
            self.selection.left(t)
        return outcome

    def remove(self, tuples: Iterable[Tuple]) -> list[Tuple]:
        """Take those of the tuples that were shipped out of the ledger; returns them."""
        pop = self.ledger.first.pop
        removed: list[Tuple] = []
        for t in tuples:
            if pop(t, None) is not None:
                removed.append(t)
                if self.selection is not None:
                    self.selection.left(t)
        return removed

    def enter(self, new: list[Derivation]) -> None:
        """These tuples are in the ledger now and were not before: ship them."""
        if self.selection is not None:
            self.selection.entered([t for t, _ in new])
        self.outbox.extend(new)

    def take(self) -> list[Derivation]:
        """What is to be shipped now."""
        batch, self.outbox = self.outbox, []
        return batch

    def close(self) -> None:
        """The transaction is over."""
        if self.selection is not None:
            self.selection.net()

    def clear(self) -> None:
        """Forget everything."""
        self.outbox.clear()
        self.ledger.clear()
        if self.selection is not None:
            self.selection.held.clear()

    def stats(self) -> dict[str, int]:
        return {"shipped": len(self.ledger.first), "waiting": len(self.ledger.rest)}

    def check(self) -> None:
        """Assert the invariants that hold between transactions."""
        assert not self.outbox, f"{self.name} has something to ship"
        self.ledger.check()
        if self.selection is not None:
            self.selection.check(self.ledger.first)
