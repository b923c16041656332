"""Fixpoint: the table of a relation inside a recursive component.

The life of a tuple. A derivation arrives (`arrive`). If the tuple is new it enters `ledger.first` and the
`pending` batch; if not, the ledger's mode decides what becomes of the derivation. `take` hands out the
pending batch once, the component joins it with everything that was taken before, and only then is it
indexed (`settle`), so that two tuples of one batch meet exactly once. When a variable dies, `strike`
tells which tuples are lost; they leave the indexes with `sweep` unless another derivation was found first.

The indexes are shared: every join beside this table reads them and the ledger, and none keeps a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from operators.aggsel import AggSel
from operators.index import Index
from operators.ledger import LOST, Death, Derivation, Ledger, strike_each
from operators.provenance import Annotation
from operators.seen import Seen
from operators.sole import Sole

__all__ = ["Fixpoint"]

Tuple = tuple[Any, ...]


class Fixpoint:
    """One relation at one placement on one partition.

    `added` and `removed` are the net changes of the transaction so far (kept if `journal`). `mentions` leads from
    a variable to the tuples whose shipped annotation mentions it: those are where a death enters this partition;
    from there on it is followed through the joins, so tuples that were derived here need no entry.
    """

    def __init__(
        self, name: str, ledger: Ledger, selection: AggSel | None = None, journal: bool = True
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.selection = selection
        self.journal = journal
        self.indexes: dict[tuple[int, ...], Index] = {}
        self.seen: Seen | None = None
        self.pending: list[Derivation] = []
        self._batches: list[list[Derivation]] = []
        self._added: dict[Tuple, Any] = {}
        self.removed: dict[Tuple, None] = {}
        self.mentions: dict[int, dict[Tuple, None]] = {}
        self._unlisted: list[Derivation] = []  # for `mentions`; who only inserts never pays for the listing

    @property
    def rows(self) -> dict[Tuple, Annotation]:
        """The tuples, each with the annotation that was passed on."""
        return self.ledger.first

    def index(self, columns: tuple[int, ...]) -> Index:
        """The index over these columns, made on first request. All requests come before the first tuple."""
        if columns not in self.indexes:
            self.indexes[columns] = Index(columns)
        return self.indexes[columns]

    def search(self, columns: tuple[int, ...]) -> Callable[[Any], Any]:
        """How to find tuples by these columns: the groups of an aggregate selection serve as an index too.

        Where only one tuple can be found, that is what is found (`finds_one`), else a collection of them.
        """
        if self.selection is not None and columns == self.selection.columns:
            return self.selection.best.get if self.finds_one(columns) else self.selection.members.get
        return self.index(columns).find

    def finds_one(self, columns: tuple[int, ...]) -> bool:
        """Whether a group can be searched by these columns of which only the best tuple matters."""
        return isinstance(self.selection, Sole) and columns == self.selection.columns

    # --- insertion -------------------------------------------------------------------------------------------

    def arrive(self, derived: list[Derivation], remote: bool = False) -> list[Derivation]:
        """Take in derivations. What the mode passes on is pending and is returned."""
        if not derived:
            return derived
        if isinstance(self.selection, Sole):
            new = self.selection.enter(derived, self.ledger.first)
            self.pending.extend(new)
            return new
        arrived = derived
        if self.selection is not None:
            derived, dominated = self._select(derived)
            if dominated and (remote or not self.ledger.searching):
                self.selection.hold(dominated, remote)
        on, created = self.ledger.offer(derived, remote)
        if self.seen is not None:
            self.seen.add([t for t, _ in created])
        self._journal(created)
        self.pending.extend(on)
        if remote and self.ledger.listed:
            self._mention(arrived)
        return on

    def accept(self, derived: list[Derivation]) -> list[Derivation]:
        """Take in derivations, as cubes, that were asked for; of known tuples nothing is kept. Returns the new ones."""
        on = self.arrive(derived)
        self._unlisted.extend(on)
        return on

    def _list(self) -> None:
        """List what was accepted under the variables that it mentions, now that a death needs that."""
        mentions = self.mentions
        rows: dict[Tuple, Any] = self.ledger.first
        for t, cube in self._unlisted:
            if rows.get(t) is cube:
                for v in cube:  # type: ignore[union-attr]
                    tuples = mentions.get(v)
                    if tuples is None:
                        mentions[v] = {t: None}
                    else:
                        tuples[t] = None
        self._unlisted.clear()

    def _mention(self, arrived: list[Derivation]) -> None:
        """List tuples under the variables that what was shipped mentions; what was absorbed is not listed."""
        mentions = self.mentions
        for t in dict.fromkeys([t for t, _ in arrived]):
            for v in self._mentioned(t):
                tuples = mentions.get(v)
                if tuples is None:
                    mentions[v] = {t: None}
                else:
                    tuples[t] = None

    def enter(self, new: list[Derivation], filled: bool = False) -> None:
        """These tuples are in the ledger now and were not before: put them under way.

        `filled`: they have been entered into `seen` too.
        """
        if self.seen is not None and not filled:
            self.seen.add([t for t, _ in new])
        self._journal(new)
        self.pending.extend(new)

    def _journal(self, new: list[Derivation]) -> None:
        if not self.journal:
            return
        if self.selection is not None:
            self.selection.entered([t for t, _ in new])
        elif self.removed:
            added = self.added
            for t, a in new:
                if self.removed.pop(t, self) is not None:
                    added[t] = a
        elif new:
            self._batches.append(new)

    def _select(self, derived: list[Derivation]) -> tuple[list[Derivation], list[Derivation]]:
        """Split by aggregate selection; tuples of the table may get further derivations in any case."""
        assert self.selection is not None
        rows = self.ledger.first
        known = [d for d in derived if d[0] in rows]
        on, dominated = self.selection.admit([d for d in derived if d[0] not in rows] if known else derived)
        if self.selection.held.first:
            for t in {d[0]: None for d in on}:
                on.extend(self.selection.unhold(t))  # the senders of those derivations rely on them
        return known + on, dominated

    @property
    def added(self) -> dict[Tuple, Any]:
        """The tuples gained in this transaction. Batches are only merged when somebody asks."""
        for batch in self._batches:
            self._added.update(batch)
        self._batches.clear()
        return self._added

    def take(self) -> list[Derivation]:
        """The pending batch; it is no longer pending."""
        batch, self.pending = self.pending, []
        if isinstance(self.selection, Sole):
            early = self.selection.overtaken_early(batch)
            if early:
                self._let_go(early)
                rows = self.ledger.first
                batch = [d for d in batch if d[0] in rows]
        return batch

    def settle(self, batch: list[Derivation]) -> None:
        """Index a batch that was taken."""
        for index in self.indexes.values():
            index.add([t for t, _ in batch])

    # --- deletion --------------------------------------------------------------------------------------------

    def touched(self, dead: Iterable[int]) -> Iterator[Tuple]:
        """The tuples where these deaths enter the table."""
        self._list()
        if self.mentions:
            for v in dead:
                yield from self.mentions.pop(v, ())

    def suspects(self, tuples: Iterable[Tuple], death: Death) -> list[Tuple]:
        """Those of the tuples that are worth a `strike`."""
        if self.selection is not None and self.selection.held.first:
            tuples = list(tuples)
            held = self.selection.held.first
            return self.ledger.suspects(tuples, death) + [t for t in tuples if t in held]
        return self.ledger.suspects(tuples, death)

    def strike_all(self, tuples: list[Tuple], death: Death) -> tuple[list[Tuple], list[Tuple]]:
        """Apply a death to those of the tuples that are there: which are lost, and of which another took over."""
        ledger = self.ledger
        held = self.selection is not None and self.selection.held.first
        if held or (self.mentions and (ledger.mode != "demand" or ledger.rest)):
            return strike_each(self, tuples, death)
        before = len(death.kept)
        lost, replaced = ledger.strike_all(tuples, death)
        if self.mentions:  # each had one annotation, and that is what fell
            for t, annotation in zip(lost, death.kept[before:], strict=True):
                if type(annotation[0]) is int:  # type: ignore[index]
                    self._unmention(t, annotation)  # type: ignore[arg-type]
        self.forget(lost)
        return lost, replaced

    def strike(self, t: Tuple, death: Death) -> str | None:
        """Apply a death to a tuple: LOST, REPLACED, or None if what was passed on stands."""
        before = self._mentioned(t) if self.mentions else None
        if self.selection is not None and t in self.selection.held.first:
            self.selection.strike(t, death)
            outcome = None
        else:
            outcome = self.ledger.strike(t, death)
            if outcome == LOST:
                self.forget((t,))
        if before:
            self._unmention(t, set(before).difference(self._mentioned(t)))
        return outcome

    def forget(self, tuples: Collection[Tuple]) -> None:
        """Journal that tuples left the ledger. They stay in the indexes, and in `seen`, until `sweep`."""
        if not self.journal:
            return
        if self.selection is not None:
            self.selection.lost(tuples)
        elif added := self.added:
            self.removed.update([(t, None) for t in tuples if added.pop(t, self) is self])
        else:
            self.removed.update(dict.fromkeys(tuples))

    def remove(self, tuples: Iterable[Tuple]) -> dict[Tuple, Any]:
        """Take those of the tuples that are there out of the table; returns them with their annotations.

        They stay in the indexes until `sweep`. O(1) a tuple.
        """
        pop = self.ledger.first.pop
        removed: dict[Tuple, Any] = {}
        for t in tuples:
            annotation = pop(t, None)
            if annotation is not None:
                removed[t] = annotation
        self.forget(removed)
        return removed

    def found(self, entered: list[Derivation], better: list[Derivation]) -> None:
        """What a search for the best of groups has found, and entered if a group had none. Both go under way."""
        assert isinstance(self.selection, Sole)
        self.selection.look_at(entered)
        self.pending += entered
        self.arrive(better)

    def bring_back(self, found: list[Derivation]) -> None:
        """Other derivations of lost tuples were found before these were swept. They are not under way again."""
        self.ledger.first.update(found)
        self._journal(found)

    def sweep(self, lost: Iterable[Tuple]) -> None:
        """Take lost tuples out of the indexes and `seen`, unless they are back."""
        rows = self.ledger.first
        away = [t for t in lost if t not in rows]
        if away:
            for index in self.indexes.values():
                index.remove(away)
            if self.seen is not None:
                self.seen.remove(away)

    def _mentioned(self, t: Tuple) -> Collection[int]:
        """The variables under which a tuple is listed, as far as its annotations tell."""
        found = self.ledger.variables(t)
        return found if self.selection is None else {*found, *self.selection.held.variables(t)}

    def _unmention(self, t: Tuple, variables: Iterable[int]) -> None:
        """No annotation of this tuple mentions these variables any more."""
        for v in variables:
            tuples = self.mentions.get(v)
            if tuples is not None:
                tuples.pop(t, None)
                if not tuples:
                    del self.mentions[v]

    # --- the end of a transaction ----------------------------------------------------------------------------

    def net(self) -> tuple[list[Tuple], list[Tuple]]:
        """The tuples gained and lost since the last call; of a pruned relation, the winners."""
        if self.selection is not None:
            change = self.selection.net()
            self._let_go(self.selection.take_overtaken())
            return change
        # unless something was lost again, the batches were never merged, and are disjoint
        gained = list(self.added) if self._added else [t for batch in self._batches for t, _ in batch]
        lost = list(self.removed)
        self._batches, self._added, self.removed = [], {}, {}
        return gained, lost

    def _let_go(self, overtaken: list[Tuple]) -> None:
        """Take tuples out that nothing rests on and nobody sees."""
        if overtaken:
            for t in overtaken:
                del self.ledger.first[t]
            self.sweep(overtaken)

    def visible(self) -> Collection[Tuple]:
        """What a reader sees."""
        if self.selection is not None:
            return [t for t in self.ledger.first if self.selection.is_winner(t)]
        return self.ledger.first

    def shows(self, t: Tuple) -> bool:
        """Whether a reader sees this tuple."""
        return t in self.ledger.first and (self.selection is None or self.selection.is_winner(t))

    def clear(self) -> None:
        """Forget everything."""
        self.pending.clear()
        self._unlisted.clear()
        self._batches.clear()
        self._added.clear()
        self.ledger.clear()
        if self.selection is not None:
            self.selection.held.clear()

    def stats(self) -> dict[str, int]:
        held = len(self.selection.held.first) if self.selection is not None else 0
        return {"tuples": len(self.ledger.first), "waiting": len(self.ledger.rest), "held": held}

    def check(self) -> None:
        """Assert the invariants that hold between transactions."""
        assert not self.pending, f"{self.name} has tuples under way"
        assert not self._batches and not self._added and not self.removed, f"{self.name} has unpublished changes"
        self.ledger.check()
        for index in self.indexes.values():
            index.check(self.ledger.first)
        if self.seen is not None:
            self.seen.check(self.ledger.first)
        if self.selection is not None:
            self.selection.check(self.ledger.first)
            self.selection.held.check()
