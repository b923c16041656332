"""Offers: how demand shipping crosses partitions.

A partition that derives a tuple which another one owns does not ship the derivation. It offers the tuple, once, and the
owner asks for a derivation if it has none: of many partitions that can derive a tuple, only one ever tells how. When
that derivation dies, the owner asks again, there or elsewhere, and whoever is asked searches its joins. So nothing is
kept for an offer on either side but the fact that it was made, and a death concerns no offer at all.

Most of what is asked for has just been offered: then places among the offers are asked for, and the derivations come in
that order, without the tuples.

After a death the first to be asked mostly has an answer. If not, the tuple is likely to be lost everywhere: then all
others are asked at once, and need not reply if they have none. Their offers count as void unless they do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from itertools import accumulate
from operator import sub
from typing import Any

from operators.ledger import Derivation
from operators.minship import MinShip
from operators.partition import Owners
from operators.seen import Seen

__all__ = ["Desk", "Offering", "Offers"]

Tuple = tuple[Any, ...]
Wanted = dict[int, list[Tuple]]
"""Partition -> the tuples it is asked for."""
Steps = list[int]
"""Places among all that a partition has offered in this transaction: the first, and how far it is to each next one."""


class Desk:
    """Where kernels leave what other partitions own: by partition, the heads, and beside each its annotation.

    `parts` is what a kernel gets: whose a head is, who we are, and the lists.

    >>> desk = Desk(Owners((0,), 2), 0); _, _, heads, pairs = desk.parts
    >>> heads[1].append(("a",)); pairs[1].append(((1,), (2,)))
    >>> list(desk.take()), list(desk.take())
    ([(1, [('a',)], [((1,), (2,))])], [])
    """

    __slots__ = ("_heads", "_pairs", "owners", "parts")

    def __init__(self, owners: Owners, here: int) -> None:
        self.owners = owners
        self._heads: list[list[Tuple]] = [[] for _ in range(owners.partitions)]
        self._pairs: list[list[Any]] = [[] for _ in range(owners.partitions)]
        self.parts = (owners, here, self._heads, self._pairs)

    def take(self) -> Iterator[tuple[int, list[Tuple], list[Any]]]:
        """What lies there, by partition; it is no longer there."""
        for w, heads in enumerate(self._heads):
            if heads:
                pairs = self._pairs[w]
                self._heads[w], self._pairs[w] = [], []
                yield w, heads, pairs


class Offering(MinShip):
    """The sender's side of one relation: `offered` are the tuples on offer, `outbox` holds bare tuples.

    `posted` has, by destination, what was offered in this transaction, in order, and beside each tuple the derivation
    behind it, since most of them will be asked for at once. `seen` and `desk` are there where kernels look before they
    make a head (`operators.seen`).
    """

    def __init__(self, name: str, ledger: Any) -> None:
        super().__init__(name, ledger)
        self.offered: set[Tuple] = set()
        self.posted: dict[int, tuple[list[Tuple], list[Any]]] = {}
        self.seen: Seen | None = None
        self.desk: Desk | None = None

    @property
    def rows(self) -> Any:
        return self.offered

    def arrive(self, derived: list[Derivation], destination: int = 0) -> None:
        """Offer the tuples that are not on offer yet."""
        offered = self.offered
        new = {t: a for t, a in derived if t not in offered}
        if self.seen is not None:
            self.seen.add(new)
        self.outbox.extend(self._post(destination, list(new), list(new.values())))

    def collect(self) -> Iterator[tuple[int, list[Tuple]]]:
        """Offer what lies on the desk: the new offers by destination."""
        assert self.desk is not None
        for destination, heads, pairs in self.desk.take():
            yield destination, self._post(destination, heads, pairs)

    def _post(self, destination: int, new: list[Tuple], pairs: list[Any]) -> list[Tuple]:
        self.offered.update(new)
        posted = self.posted.get(destination)
        if posted is None:
            posted = self.posted[destination] = ([], [])
        posted[0].extend(new)
        posted[1].extend(pairs)
        return new

    def picked(self, destination: int, steps: Steps) -> tuple[list[Tuple], list[Any]]:
        """What a partition chose from the offers of this transaction: the tuples, and the derivations behind them."""
        tuples, pairs = self.posted[destination]
        places = list(accumulate(steps))
        return [tuples[i] for i in places], [pairs[i] for i in places]

    def withdraw(self, tuples: list[Tuple]) -> None:
        """These tuples cannot be derived here any more; the owner is being told."""
        self.offered.difference_update(tuples)
        if self.seen is not None:
            self.seen.remove(tuples)

    def close(self) -> None:
        self.posted.clear()

    def clear(self) -> None:
        super().clear()
        self.offered.clear()
        self.posted.clear()

    def stats(self) -> dict[str, int]:
        return {"shipped": len(self.offered), "waiting": 0}


class Offers:
    """The owner's side of one relation: `by`, what each partition offers, and `asked`, what somebody was asked for.

    In answer to an offer tuples are asked for by their places (`Steps`), and told in the same order: `heard` is how
    many each partition has offered in this transaction, `waiting` what it was asked for so.

    >>> offers = Offers()
    >>> offers.offered(1, [("a",), ("b",)], known={("b",)}), offers.offered(2, [("a",)], known=())
    (([('a',)], [0]), ([], []))
    >>> offers.refused(1, [("a",)], known=())
    {2: [('a',)]}
    >>> offers.answered(2, [(("a",), (7,))]); offers.lost([("a",), ("c",)])
    {2: [('a',)]}
    """

    def __init__(self) -> None:
        self._by: dict[int, set[Tuple]] = {}
        self._late: list[tuple[int, list[Tuple]]] = []  # for `by`; who only inserts never pays for it
        self.asked: set[Tuple] = set()
        self.heard: dict[int, int] = {}
        self.waiting: dict[int, deque[list[Tuple]]] = {}

    @property
    def by(self) -> dict[int, set[Tuple]]:
        for source, tuples in self._late:
            self._by.setdefault(source, set()).update(tuples)
        self._late.clear()
        return self._by

    def offered(
        self, source: int, tuples: list[Tuple], known: Container[Tuple], placed: bool = True
    ) -> tuple[list[Tuple], Steps]:
        """A partition offers tuples; returns those that it should be asked for, and where they stand.

        `placed`: it will be asked by their places.
        """
        self._late.append((source, tuples))
        asked, start = self.asked, self.heard.get(source, 0)
        self.heard[source] = start + len(tuples)
        places = [i for i, t in enumerate(tuples) if t not in known and t not in asked]
        if not places:
            return [], []
        want = [tuples[i] for i in places]
        asked.update(want)
        if placed:
            self.waiting.setdefault(source, deque()).append(want)
        return want, [start + places[0], *map(sub, places[1:], places)]

    def told(self, source: int, cubes: list[Any]) -> list[Derivation]:
        """A partition tells what it was asked for in answer to an offer; if it tells nothing, it will answer."""
        return list(zip(self.waiting[source].popleft(), cubes, strict=False))

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
        self._late.append((source, tuples))

    def refused(self, source: int, tuples: list[Tuple], known: Container[Tuple]) -> Wanted:
        """A partition that was asked has no derivation; returns whom to ask now, without waiting for a reply."""
        by = self.by
        by[source].difference_update(tuples)
        self.asked.difference_update(tuples)
        missing = [t for t in tuples if t not in known]
        wanted: Wanted = {}
        for other, offered in by.items():
            chosen = [t for t in missing if t in offered]
            if chosen:
                offered.difference_update(chosen)
                wanted[other] = chosen
        return wanted

    def close(self) -> None:
        """The transaction is over."""
        assert not any(self.waiting.values()), "somebody has not told what it was asked for"
        self.heard.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._late.clear()
        self._by.clear()
        self.asked.clear()
        self.heard.clear()
        self.waiting.clear()

    def check(self, rows: Container[Tuple]) -> None:
        """Assert that nothing is asked for, and that whatever is on offer is there."""
        assert not self.asked, "an answer is outstanding"
        for offered in self.by.values():
            for t in offered:
                assert t in rows, f"{t} is on offer, and nobody asked for it"
