"""Aggregate selection: of each group, only the tuples that are best for something go on (section 6 of the paper).

A tuple that is worse than the best known of its group for every aggregate is *dominated*: by the planner's
proof nothing that the program shows can need it. Ties go on, since `cheapestPath` lists every cheapest
path. A tuple that is overtaken later is not retracted: it is still true, only dominated, and what was
derived from it stays derived.

When the last best tuple of a group dies, the group is *dirty*: its next best tuple is among the dominated
ones that were kept (`held`), or has to be searched for in the joins.

Where nothing that wins can rest on the overtaken, they leave at the end of the transaction (`lean`). Let nothing be
under way, and let W rest on T, which is best for nothing. For any one value, the best tuple T* of T's group is better
than T. By the planner's proof it has met all that T has met, and derived a head of W's group. That head is *strictly*
better than W for this value if the step is strict (`Selection.strict`) and exact: W's value is a whole number, so all
that it was computed from are. Hence W is best for nothing either. So whatever rests on the overtaken is overtaken, and
leaves with them: the annotations that stay refer to tuples that stay, and deaths are led to all of them. Sums of
floats round, and may tie: the first value that is not a whole number ends this for good. Three more things are needed.
Lost best tuples are searched for in the joins, since the next best is no longer in the table. No other relation of
the component reads this one, or it would keep what rests on T. And no other partition relies on what is kept here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operators.kernels import key_of
from operators.ledger import LOST, Death, Derivation, Ledger

__all__ = ["AggSel"]

Tuple = tuple[Any, ...]


class AggSel:
    """The groups of one table.

    `best`: group -> the best value of each aggregate. `members`: group -> its tuples in the table.
    `held`: dominated tuples that must not be forgotten, with their derivations; `waiting`: group -> those.
    `dirty`: groups whose best tuple was lost, each with such a tuple. `before`: for groups touched in this transaction,
    the winners that they had, so that the net change can be told.

    `lean`: overtaken tuples need not stay; `overtaken` are those that leave now.

    >>> from operators.ledger import ledger
    >>> from operators.provenance import Provenance
    >>> sel = AggSel((0,), ((1, "min"),), ledger("demand", Provenance()))
    >>> sel.admit([(("a", 5), 0), (("a", 3), 0), (("b", 9), 0)])
    ([(('a', 3), 0), (('b', 9), 0)], [(('a', 5), 0)])
    """

    def __init__(
        self, group: tuple[int, ...], values: tuple[tuple[int, str], ...], held: Ledger, lean: bool = False
    ) -> None:
        self.columns = group
        self.group = key_of(group)
        self.values = values
        self._smaller = tuple((i, c, kind == "min") for i, (c, kind) in enumerate(values))
        self.best: dict[Any, list[Any]] = {}
        self.members: dict[Any, list[Tuple]] = {}
        self.held = held
        self.waiting: dict[Any, dict[Tuple, None]] = {}
        self.dirty: dict[Any, Tuple] = {}
        self.before: dict[Any, tuple[Tuple, ...]] = {}
        self.lean = lean
        self.overtaken: list[Tuple] = []

    def admit(self, derived: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        """Split derivations (the tuple comes first in each) into those that go on and the dominated ones.

        The best values are settled over the whole batch before anything is let through, so that within a batch
        only the winners go on.
        """
        derived = list(derived)
        group, best, before = self.group, self.best, self.before
        groups = [group(entry[0]) for entry in derived]
        for entry, g in zip(derived, groups, strict=True):
            t = entry[0]
            known = best.get(g)
            if known is None:
                if g not in before:
                    before[g] = ()
                best[g] = [t[c] for c, _ in self.values]
                continue
            for i, c, smaller in self._smaller:
                v = t[c]
                if v < known[i] if smaller else v > known[i]:
                    self.touch(g)
                    known[i] = v
        on: list[Any] = []
        dominated: list[Any] = []
        if len(self.values) == 1:
            c = self.values[0][0]
            for entry, g in zip(derived, groups, strict=True):
                (on if entry[0][c] == best[g][0] else dominated).append(entry)
        else:
            for entry, g in zip(derived, groups, strict=True):
                (on if self._wins(entry[0], best[g]) else dominated).append(entry)
        return on, dominated

    def _wins(self, t: Tuple, best: list[Any]) -> bool:
        for i, c, _ in self._smaller:  # noqa: SIM110  a generator for each tuple would cost more than the question
            if t[c] == best[i]:
                return True
        return False

    def entered(self, tuples: list[Tuple]) -> None:
        """These tuples are in the table now."""
        group, members, before = self.group, self.members, self.before
        if self.lean:
            self.lean = all([type(t[c]) is int for t in tuples for c, _ in self.values])
        for t in tuples:
            g = group(t)
            if g not in before:
                before[g] = self.winners(g)
            same = members.get(g)
            if same is None:
                members[g] = [t]
            else:
                same.append(t)

    def left(self, t: Tuple) -> None:
        """A tuple was lost from the table; O(size of its group in the table)."""
        self.lost((t,))

    def lost(self, tuples: Iterable[Tuple]) -> None:
        """Tuples were lost from the table; O(size of its group in the table) for each."""
        group, before, best = self.group, self.before, self.best
        for t in tuples:
            g = group(t)
            if g not in before:
                before[g] = self.winners(g)
            members = self.members[g]
            if len(members) == 1:
                del self.members[g]
            else:
                members.remove(t)
            if self._wins(t, best[g]):
                self.dirty[g] = t

    def hold(self, derived: list[Any], remote: bool) -> None:
        """Keep dominated tuples for later."""
        for t, _ in derived:
            self.waiting.setdefault(self.group(t), {})[t] = None
        self.held.offer(derived, remote)

    def unhold(self, t: Tuple) -> list[Derivation]:
        """Stop holding a tuple; returns its derivations, none if it was not held."""
        derived = self.held.pop(t)
        if derived:
            self._stop_waiting(t)
        return derived

    def strike(self, t: Tuple, death: Death) -> None:
        """Apply a death to a held tuple."""
        if self.held.strike(t, death) == LOST:
            self._stop_waiting(t)

    def _stop_waiting(self, t: Tuple) -> None:
        g = self.group(t)
        waiting = self.waiting[g]
        del waiting[t]
        if not waiting:
            del self.waiting[g]

    def next_best(self, g: Any) -> list[Derivation]:
        """The held tuples of a group that are as good as the best in the table, no longer held."""
        waiting = self.waiting.get(g)
        if not waiting:
            return []
        on, _ = self.admit([(t,) for t in waiting])
        return [d for (t,) in on for d in self.unhold(t)]

    def take_dirty(self) -> list[Any]:
        """The groups whose best is to be found again; their best is recomputed from what is in the table."""
        groups = list(self.dirty)
        self.dirty.clear()
        for g in groups:
            members = self.members.get(g)
            if members:
                self.best[g] = [
                    (min if smaller else max)(t[c] for t in members) for _, c, smaller in self._smaller
                ]
            else:
                self.best.pop(g, None)
        return groups

    def winners(self, g: Any) -> tuple[Tuple, ...]:
        """The tuples of a group that are best for at least one aggregate: all that a reader can see."""
        members = self.members.get(g)
        if not members:
            return ()
        if len(members) == 1:
            return (members[0],)
        best = self.best[g]
        return tuple([t for t in members if self._wins(t, best)])

    def touch(self, g: Any) -> None:
        """Remember the winners of a group before it changes for the first time in a transaction."""
        if g not in self.before:
            self.before[g] = self.winners(g)

    def net(self) -> tuple[list[Tuple], list[Tuple]]:
        """The winners gained and lost since the last call."""
        gained: list[Tuple] = []
        lost: list[Tuple] = []
        for g, before in self.before.items():
            now = self.winners(g)
            if not before:
                gained.extend(now)
            elif now != before:
                gained.extend([t for t in now if t not in before])
                lost.extend([t for t in before if t not in now])
            if self.lean and len(now) < len(self.members.get(g, ())):
                self.overtaken += [t for t in self.members[g] if t not in now]
                self.members[g] = list(now)
            if not now and g not in self.waiting:
                self.best.pop(g, None)
        self.before.clear()
        return gained, lost

    def take_overtaken(self) -> list[Tuple]:
        """The tuples that `net` has let go of; they are to leave the table."""
        overtaken, self.overtaken = self.overtaken, []
        return overtaken

    def is_winner(self, t: Tuple) -> bool:
        """Whether a tuple of the table is visible."""
        return self._wins(t, self.best[self.group(t)])

    def check(self, rows: Iterable[Tuple]) -> None:
        """Assert that groups, best values and held tuples fit the table."""
        members = [t for ts in self.members.values() for t in ts]
        assert len(members) == len(set(members)) and set(members) == set(rows), "the groups differ from the table"
        assert not self.dirty, "a group was left dirty"
        for g, ts in self.members.items():
            want = [(min if smaller else max)(t[c] for t in ts) for _, c, smaller in self._smaller]
            assert self.best[g] == want, f"best of {g} is {self.best[g]}, should be {want}"
        waiting = {t for ts in self.waiting.values() for t in ts}
        assert waiting == set(self.held.first), "held tuples differ from the groups that wait"
