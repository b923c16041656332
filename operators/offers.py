"""Offers: how demand shipping crosses partitions.

A partition that derives a tuple which another one owns does not ship the derivation. It offers the tuple, once, and the
owner asks for a derivation if it has none: of many partitions that can derive a tuple, only one ever tells how. When
that derivation dies, the owner asks again, there or elsewhere, and whoever is asked searches its joins. So nothing is
kept for an offer on either side but the fact that it was made, and a death concerns no offer at all.

After a death the first to be asked mostly has an answer. If not, the tuple is likely to be lost everywhere: then all
others are asked at once, and need not reply if they have none. Their offers count as void unless they do.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from operators.ledger import Derivation
from operators.minship import MinShip

__all__ = ["Offering", "Offers"]

Tuple = tuple[Any, ...]
Wanted = dict[int, list[Tuple]]
"""Partition -> the tuples it is asked for."""


class Offering(MinShip):
    """The sender's side of one relation: `offered` are the tuples on offer, `outbox` holds bare tuples.

    `fresh` are the derivations behind the offers of this transaction, since most of them will be asked for at once.
    """

    def __init__(self, name: str, ledger: Any) -> None:
        super().__init__(name, ledger)
        self.offered: set[Tuple] = set()
        self.fresh: dict[Tuple, Any] = {}

    @property
    def rows(self) -> Any:
        return self.offered

    def arrive(self, derived: list[Derivation]) -> None:
        """Offer the tuples that are not on offer yet."""
        offered = self.offered
        new = {t: a for t, a in derived if t not in offered}
        offered.update(new)
        self.fresh.update(new)
        self.outbox.extend(new)

    def withdraw(self, tuples: Iterable[Tuple]) -> None:
        """These tuples cannot be derived here any more; the owner is being told."""
        self.offered.difference_update(tuples)

    def close(self) -> None:
        self.fresh.clear()

    def clear(self) -> None:
        super().clear()
        self.offered.clear()
        self.fresh.clear()

    def stats(self) -> dict[str, int]:
        return {"shipped": len(self.offered), "waiting": 0}


class Offers:
    """The owner's side of one relation: `by`, what each partition offers, and `asked`, what somebody was asked for.

    >>> offers = Offers()
    >>> offers.offered(1, [("a",), ("b",)], known={("b",)}), offers.offered(2, [("a",)], known=())
    ([('a',)], [])
    >>> offers.refused(1, [("a",)], known=())
    {2: [('a',)]}
    >>> offers.answered(2, [(("a",), (7,))]); offers.lost([("a",), ("c",)])
    {2: [('a',)]}
    """

    def __init__(self) -> None:
        self.by: dict[int, set[Tuple]] = {}
        self.asked: set[Tuple] = set()

    def offered(self, source: int, tuples: list[Tuple], known: Container[Tuple]) -> list[Tuple]:
        """A partition offers tuples; returns those that it should be asked for."""
        self.by.setdefault(source, set()).update(tuples)
        asked = self.asked
        want = [t for t in tuples if t not in known and t not in asked]
        asked.update(want)
        return want

    def lost(self, tuples: Iterable[Tuple]) -> Wanted:
        """The owner has no derivation of these tuples any more: whom to ask. O(partitions) a tuple."""
        asked, by = self.asked, list(self.by.items())
        wanted: Wanted = {source: [] for source, _ in by}
        for t in tuples:
            if t not in asked:
                for source, offered in by:
                    if t in offered:
                        asked.add(t)
                        wanted[source].append(t)
                        break
        return {source: chosen for source, chosen in wanted.items() if chosen}

    def answered(self, source: int, derived: Iterable[Derivation]) -> None:
        """Derivations that were asked for have come."""
        tuples = [t for t, _ in derived]
        self.asked.difference_update(tuples)
        self.by[source].update(tuples)

    def refused(self, source: int, tuples: list[Tuple], known: Container[Tuple]) -> Wanted:
        """A partition that was asked has no derivation; returns whom to ask now, without waiting for a reply."""
        self.by[source].difference_update(tuples)
        self.asked.difference_update(tuples)
        missing = [t for t in tuples if t not in known]
        wanted: Wanted = {}
        for other, offered in self.by.items():
            chosen = [t for t in missing if t in offered]
            if chosen:
                offered.difference_update(chosen)
                wanted[other] = chosen
        return wanted

    def clear(self) -> None:
        """Forget everything."""
        self.by.clear()
        self.asked.clear()

    def check(self, rows: Container[Tuple]) -> None:
        """Assert that nothing is asked for, and that whatever is on offer is there."""
        assert not self.asked, "an answer is outstanding"
        for offered in self.by.values():
            for t in offered:
                assert t in rows, f"{t} is on offer, and nobody asked for it"
