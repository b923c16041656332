"""What is remembered of the derivations of tuples: the heart of Fixpoint and MinShip, in three modes.

A ledger keeps for each tuple its *first* annotation, the one that was passed on and that everything
downstream rests on, and in some modes the *rest*, derivations that came later and wait. The modes differ in
what `offer` passes on and in what is left when a variable dies (section 5 of the absorption paper):

| mode | a later derivation | when the first one dies |
|---|---|---|
| eager | is merged and its news passed on | what is left of the merge is right already |
| lazy | is merged into the rest | the rest takes its place and is passed on |
| demand | is forgotten if derived here, else kept | one of those takes its place, or the joins are searched |

`PlainLedger` is for the classical method, which keeps no provenance: an annotation there is a set of bits, the
partitions that a tuple came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from operators.provenance import Annotation, Diagram, Provenance

__all__ = ["LOST", "REPLACED", "Death", "DemandLedger", "EagerLedger", "LazyLedger", "Ledger", "PlainLedger", "ledger",
           "strike_each"]

Tuple = tuple[Any, ...]
Derivation = tuple[Tuple, Any]
"""A tuple and the annotation of one derivation of it."""

LOST = "lost"
REPLACED = "replaced"


class Death:
    """A set of variables that died, and what is touched by it so far.

    `ids` are the identities of the annotations that fell: a pair that refers to one of them falls too.
    `kept` holds on to those annotations so that no identity is used twice.
    """

    __slots__ = ("_killer", "dead", "ids", "kept", "provenance")

    def __init__(self, dead: set[int], provenance: Provenance) -> None:
        self.dead = dead
        self.provenance = provenance
        self.ids: set[int] = set()
        self.kept: list[Annotation] = []
        self._killer: Any = None

    def restrict(self, diagram: Diagram) -> Diagram | None:
        """The diagram without the dead variables, the same object if it mentions none of them."""
        if diagram.support.isdisjoint(self.dead):
            return diagram
        if self._killer is None:
            self._killer = self.provenance.killer(self.dead)
        return self.provenance.restrict(diagram, self.dead, self._killer)

    def over(self) -> None:
        """Let go of the annotations: a traceback that refers to this must not keep them."""
        self.kept.clear()
        self._killer = None

    def fell(self, annotation: Annotation) -> None:
        self.ids.add(id(annotation))
        self.kept.append(annotation)


def strike_each(holder: Any, tuples: Iterable[Tuple], death: Death) -> tuple[list[Tuple], list[Tuple]]:
    """Apply a death, tuple by tuple, to a ledger or to who has one: what is lost, and of what another took over."""
    lost: list[Tuple] = []
    replaced: list[Tuple] = []
    for t in holder.suspects(tuples, death):
        outcome = holder.strike(t, death)
        if outcome is not None:
            (lost if outcome == LOST else replaced).append(t)
    return lost, replaced


class Ledger:
    """The part that all modes share.

    `searching`: other derivations of a lost tuple are searched for in the joins, so those made here need not be kept.
    `listed`: annotations have variables, under which what was shipped here is listed.
    """

    mode = ""
    searching = False
    listed = True

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance
        self.first: dict[Tuple, Annotation] = {}
        self.rest: dict[Tuple, Any] = {}

    def offer(
        self, derived: Iterable[Derivation], remote: bool = False
    ) -> tuple[list[Derivation], list[Derivation]]:
        """Take in derivations; returns those to pass on, and among them those of tuples that are new.

        `remote`: they were shipped here, and the sender relies on us to keep them.
        """
        raise AssertionError("a ledger has a mode")

    def strike(self, t: Tuple, death: Death) -> str | None:
        """Apply a death to one tuple: LOST (it is gone), REPLACED (another annotation took over), or None.

        None means that the first annotation stands, and with it everything downstream.
        """
        raise AssertionError("a ledger has a mode")

    def suspects(self, tuples: Iterable[Tuple], death: Death) -> list[Tuple]:
        """Those of the tuples that `strike` may have something to do with: a cheap first look."""
        dead, first, rest = death.dead, self.first, self.rest
        return [t for t in tuples if t in first and (t in rest or not first[t].support.isdisjoint(dead))]  # type: ignore[union-attr]

    def strike_all(self, tuples: Iterable[Tuple], death: Death) -> tuple[list[Tuple], list[Tuple]]:
        """Apply a death to those of the tuples that are there: which are lost, and of which another took over."""
        return strike_each(self, tuples, death)

    def others(self, t: Tuple) -> tuple[Annotation, ...]:
        """What waits behind the first annotation of a tuple."""
        waiting = self.rest.get(t)
        return () if waiting is None else (waiting,)

    def variables(self, t: Tuple) -> Collection[int]:
        """The variables of all that is kept of a tuple, as far as its annotations tell without following references."""
        found: set[int] = set()
        first = self.first.get(t)
        for annotation in self.others(t) if first is None else (first, *self.others(t)):
            if type(annotation) is Diagram:
                found |= annotation.support
            elif type(annotation[0]) is int:
                found.update(annotation)
        return found

    def pop(self, t: Tuple) -> list[Derivation]:
        """Forget a tuple; returns its derivations, none if it was not there."""
        first = self.first.pop(t, None)
        if first is None:
            return []
        others = self.others(t)
        self.rest.pop(t, None)
        return [(t, first), *((t, a) for a in others)]

    def _wait(self, t: Tuple, annotation: Annotation) -> None:
        """Merge a derivation into the rest."""
        new = self.provenance.diagram(annotation)
        old = self.rest.get(t)
        self.rest[t] = new if old is None else self.provenance.disjunction(old, new)

    def _strike_rest(self, t: Tuple, death: Death) -> Diagram | None:
        """Apply a death to the rest of a tuple; returns what is left of it."""
        waiting = self.rest.get(t)
        if waiting is None:
            return None
        left = death.restrict(waiting)
        if left is None:
            del self.rest[t]
        elif left is not waiting:
            self.rest[t] = left
        return left

    def _take_over(self, t: Tuple, left: Diagram | None, waiting: Diagram | None) -> str:
        """The first annotation of a tuple fell: what is left of it and what waited take its place, if anything."""
        if waiting is not None:
            del self.rest[t]
            left = waiting if left is None else self.provenance.disjunction(left, waiting)
        if left is None:
            del self.first[t]
            return LOST
        self.first[t] = left
        return REPLACED

    def clear(self) -> None:
        """Forget everything."""
        self.first.clear()
        self.rest.clear()

    def check(self) -> None:
        """Assert that nothing waits for a tuple that is not there."""
        assert self.rest.keys() <= self.first.keys(), "a derivation waits for a tuple that is not there"


class DemandLedger(Ledger):
    """One derivation a tuple; the others are searched for when they are needed.

    Those that other partitions shipped are kept in a list, as they came: there is one per partition at most, and a
    death leaves each of them whole or takes it away. Merging them into a diagram would only cost.
    """

    mode = "demand"
    searching = True

    def others(self, t: Tuple) -> tuple[Annotation, ...]:
        return tuple(self.rest.get(t, ()))

    def variables(self, t: Tuple) -> Collection[int]:
        first = self.first.get(t)
        if first is not None and t not in self.rest and type(first[0]) is int:  # type: ignore[index]
            return first  # type: ignore[return-value]
        return super().variables(t)

    def _wait(self, t: Tuple, annotation: Annotation) -> None:
        waiting = self.rest.setdefault(t, [])
        if annotation not in waiting:
            waiting.append(annotation)

    def _strike_waiting(self, t: Tuple, death: Death) -> None:
        """Apply a death to what waits for a tuple."""
        waiting = self.rest.get(t)
        if waiting is not None:
            left = [a for a in waiting if death.dead.isdisjoint(a)]
            if not left:
                del self.rest[t]
            elif len(left) < len(waiting):
                self.rest[t] = left

    def offer(
        self, derived: Iterable[Derivation], remote: bool = False
    ) -> tuple[list[Derivation], list[Derivation]]:
        first = self.first
        on: list[Derivation] = []
        for derivation in derived:
            t = derivation[0]
            if t not in first:
                first[t] = derivation[1]
                on.append(derivation)
            elif remote:
                self._wait(t, derivation[1])
        return on, on

    def suspects(self, tuples: Iterable[Tuple], death: Death) -> list[Tuple]:
        find, rest, ids = self.first.get, self.rest, death.ids
        found: list[Tuple] = []
        for t in tuples:
            a = find(t)
            if a is None:
                continue
            # most are pairs, and a pair falls if and only if one of its parents did
            pair = type(a) is tuple and type(a[0]) is not int
            if not pair or id(a[0]) in ids or id(a[1]) in ids or t in rest:  # type: ignore[index]
                found.append(t)
        return found

    def strike_all(self, tuples: Iterable[Tuple], death: Death) -> tuple[list[Tuple], list[Tuple]]:
        if self.rest:
            return strike_each(self, tuples, death)
        # nothing waits, so what falls is lost: the look and the blow are one loop
        first, dead, ids, keep = self.first, death.dead, death.ids, death.kept.append
        find = first.get
        lost: list[Tuple] = []
        for t in tuples:
            a: Any = find(t)
            if a is None:
                continue
            if type(a[0]) is int:
                if dead.isdisjoint(a):
                    continue
            elif id(a[0]) not in ids and id(a[1]) not in ids:
                continue
            del first[t]
            ids.add(id(a))
            keep(a)
            lost.append(t)
        return lost, []

    @staticmethod
    def _touched(a: Any, death: Death) -> bool:
        if type(a[0]) is int:
            return not death.dead.isdisjoint(a)
        return id(a[0]) in death.ids or id(a[1]) in death.ids

    def strike(self, t: Tuple, death: Death) -> str | None:
        a = self.first.get(t)
        if a is None:
            return None
        touched = self._touched(a, death)
        if self.rest:
            self._strike_waiting(t, death)
        if not touched:
            return None
        death.fell(a)
        waiting = self.rest.get(t)
        if waiting is None:
            del self.first[t]
            return LOST
        self.first[t] = waiting.pop(0)
        if not waiting:
            del self.rest[t]
        return REPLACED


class LazyLedger(Ledger):
    """The first derivation is passed on, the others wait: the paper's lazy shipping (Algorithm 3)."""

    mode = "lazy"

    def offer(
        self, derived: Iterable[Derivation], remote: bool = False
    ) -> tuple[list[Derivation], list[Derivation]]:
        on: list[Derivation] = []
        for t, annotation in derived:
            first = self.first.get(t)
            new = self.provenance.diagram(annotation)
            if first is None:
                self.first[t] = new
                on.append((t, new))
            elif self.provenance.disjunction(first, new) is not first:  # type: ignore[arg-type]
                self._wait(t, new)
        return on, on

    def strike(self, t: Tuple, death: Death) -> str | None:
        a = self.first.get(t)
        if a is None:
            return None
        assert type(a) is Diagram
        left = death.restrict(a)
        waiting = self._strike_rest(t, death)
        if left is a:
            return None
        outcome = self._take_over(t, left, waiting)
        if outcome == REPLACED:
            # What was derived from the old annotation may live on in part, and mention what the new one absorbs: the
            # support must lead deaths there.
            new = self.provenance.diagram(self.first[t])
            self.first[t] = Diagram(new.function, (a.support | new.support) - death.dead)
        return outcome


class EagerLedger(Ledger):
    """Every derivation that is not absorbed is merged and passed on."""

    mode = "eager"

    def offer(
        self, derived: Iterable[Derivation], remote: bool = False
    ) -> tuple[list[Derivation], list[Derivation]]:
        on: list[Derivation] = []
        created: list[Derivation] = []
        for t, annotation in derived:
            new = self.provenance.diagram(annotation)
            old = self.first.get(t)
            if old is None:
                self.first[t] = new
                on.append((t, new))
                created.append((t, new))
                continue
            merged = self.provenance.disjunction(old, new)  # type: ignore[arg-type]
            if merged is not old:
                self.first[t] = merged
                on.append((t, new))
        return on, created

    def strike(self, t: Tuple, death: Death) -> str | None:
        a = self.first.get(t)
        if a is None:
            return None
        assert type(a) is Diagram
        left = death.restrict(a)
        return None if left is a else self._take_over(t, left, None)


class PlainLedger(Ledger):
    """Tuples without provenance: the annotation of a tuple is a set of bits, the partitions that shipped it here."""

    mode = "plain"
    searching = True
    listed = False

    def offer(
        self, derived: Iterable[Derivation], remote: bool = False
    ) -> tuple[list[Derivation], list[Derivation]]:
        first: dict[Tuple, Any] = self.first
        on: list[Derivation] = []
        for derivation in derived:
            t, bits = derivation
            known = first.get(t)
            if known is None:
                first[t] = bits
                on.append(derivation)
            elif bits:
                first[t] = known | bits
        return on, on

    def variables(self, t: Tuple) -> Collection[int]:
        return set()


_MODES: dict[str, type[Ledger]] = {
    "demand": DemandLedger,
    "lazy": LazyLedger,
    "eager": EagerLedger,
    "plain": PlainLedger,
}


def ledger(mode: str, provenance: Provenance) -> Ledger:
    """A ledger of the mode with that name."""
    return _MODES[mode](provenance)
