"""PipelinedHashJoin and Projection: the rules of a recursive component.

A join is symmetric: a batch may arrive on either side, and meets what has arrived on the other side so
far. It owns no tuples: it reads the indexes of the two Fixpoint tables beside it (section 4.3 of the
absorption paper keeps a pair of hash tables of its own here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from operators.errors import RuleFailure
from operators.fixpoint import Fixpoint
from operators.kernels import Finder, Shape, finder, forward, mapper
from operators.ledger import Derivation
from operators.provenance import Provenance
from operators.seen import Seen

__all__ = ["PipelinedHashJoin", "Projection", "Rule"]

Tuple = tuple[Any, ...]

_SCAN = 8  # so many searches that fix nothing cost more than one evaluation of the rule


class Rule:
    """What joins and projections share: errors that name the rule, and the search for lost heads.

    `derived` counts the tuples that the rule added in this transaction, to name the rule that diverges.
    """

    def __init__(self, text: str, head: str, shape: Shape, probe: str) -> None:
        self.text = text
        self.head = head
        self.shape = shape
        self.derived = 0
        everything = tuple(range(len(shape.outputs)))
        self._finder = finder(shape, probe, everything)
        self._every: Finder | None = None
        self._probe = probe

    def prepare(self, group: tuple[int, ...] | None, searching: bool) -> None:
        """Ask the tables for the indexes that the search needs."""
        if group is not None:
            self._every = finder(self.shape, self._probe, group, every=True)
        if searching:
            for found in (self._finder, self._every):
                if found is not None:
                    self._search(found)  # makes the indexes, which must be there before the first tuple

    def _sides(self, found: Finder) -> tuple[Fixpoint, Fixpoint]:
        raise AssertionError("a rule has inputs")

    def _arity(self, side: str) -> int:
        return self.shape.left if side == "left" else self.shape.right or 0

    def _search(self, found: Finder) -> Callable[[Tuple], Any]:
        """The finder's function of a head alone."""
        one, two = self._sides(found)
        find1 = find2 = None  # the table itself serves where all columns are fixed
        if len(found.first_index) < self._arity(found.first):
            find1 = one.search(found.first_index)
        if found.second_index is not None:
            other = "right" if found.first == "left" else "left"
            if len(found.second_index) < self._arity(other):
                find2 = two.search(found.second_index)
        call, rows1, rows2 = found.call, one.rows, two.rows
        return lambda h: call(h, find1, rows1, find2, rows2)

    def _scan(self, heads: list[Tuple]) -> tuple[list[Derivation], list[Tuple]]:
        """`find` for a rule whose head fixes no column of its input: evaluate it once and look who comes."""
        lost = dict.fromkeys(heads)
        found: dict[Tuple, Any] = {}
        for h, pair in self._everything():
            if h in lost:
                found.setdefault(h, pair)
        return list(found.items()), [h for h in heads if h not in found]

    def _everything(self) -> list[Derivation]:
        """Every derivation that is there."""
        raise AssertionError("a rule has inputs")

    def find(self, heads: list[Tuple]) -> tuple[list[Derivation], list[Tuple]]:
        """For heads that were lost: the derivations that are still there, and the heads without one."""
        if not self._finder.first_index and len(heads) > _SCAN:
            return self._scan(heads)
        search = self._search(self._finder)
        found: list[Derivation] = []
        missing: list[Tuple] = []
        with self._named():
            for h in heads:
                pair = search(h)
                if pair is None:
                    missing.append(h)
                else:
                    found.append((h, pair))
        return found, missing

    def find_group(self, heads: list[Tuple]) -> list[Derivation]:
        """All derivations that are there for the groups of these heads."""
        assert self._every is not None
        search = self._search(self._every)
        with self._named():
            return [d for h in heads for d in search(h)]

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the rule's own functions get its name."""
        try:
            yield
        except Exception as e:
            raise RuleFailure(self.text, None, e) from e

    def _failed(self, batch: list[Any], run: Callable[[list[Any]], Any], error: Exception) -> RuleFailure:
        """The error of a kernel, with the tuple that caused it: the batch is run again one by one."""
        for entry in batch:
            try:
                run([entry])
            except Exception as again:
                return RuleFailure(self.text, entry[0], again)
        return RuleFailure(self.text, None, error)


class PipelinedHashJoin(Rule):
    """`head(outputs) :- left, right, where.` inside a recursive component."""

    def __init__(
        self, text: str, head: str, shape: Shape, probe: str, left: Fixpoint, right: Fixpoint, purpose: str
    ) -> None:
        super().__init__(text, head, shape, probe)
        self.left = left
        self.right = right
        self.purpose = purpose
        self._derive = {side: forward(shape, side, purpose) for side in ("left", "right")}
        self._seen: dict[str, Seen] = {}
        self._heads = {side: forward(shape, side, "heads") for side in ("left", "right")}
        # where a batch finds its partners: the other side's table and the index over its join key
        self._partners = {
            "left": (right, right.index(shape.right_key)),
            "right": (left, left.index(shape.left_key)),
        }

    def _sides(self, found: Finder) -> tuple[Fixpoint, Fixpoint]:
        return (self.left, self.right) if found.first == "left" else (self.right, self.left)

    def use_seen(self, seen: Seen) -> None:
        """From the sides on which a batch carries the right columns, ask `seen` instead of the table."""
        for side in ("left", "right"):
            if self.shape.carried(side) == seen.carried:
                self._derive[side] = forward(self.shape, side, "seen")
                self._seen[side] = seen

    def fills_seen(self, side: str) -> bool:
        """Whether `derive` has entered its heads into `seen` already."""
        return side in self._seen

    def derive(self, side: str, batch: list[Derivation], known: Any, sent: Any, provenance: Provenance) -> list[Any]:
        """The derivations that a batch on one side gives; which ones, depends on the purpose."""
        if side in self._seen:
            sent = self._seen[side].groups
        out: list[Any] = []
        table, index = self._partners[side]
        kernel = self._derive[side]
        try:
            kernel(batch, index.find, table.rows, known, sent, out)
        except Exception as e:
            raise self._failed(batch, lambda b: kernel(b, index.find, table.rows, {}, {}, []), e) from e
        if self.purpose == "each":
            conjunction = provenance.conjunction
            return [(h, conjunction(a, b)) for h, a, b in out]
        return out

    def _everything(self) -> list[Derivation]:
        out: list[Derivation] = []
        present = [(t, a) for t, a in self.left.rows.items()]
        rows = self.right.rows
        # the index may still hold tuples that were lost a moment ago
        find = self._partners["left"][1].find
        live = lambda key: [u for u in find(key) or () if u in rows]  # noqa: E731
        forward(self.shape, "left", "first")(present, live, rows, {}, {}, out)
        return out

    def heads(self, side: str, tuples: list[Tuple]) -> list[Tuple]:
        """The heads that tuples on one side can have derived."""
        out: list[Tuple] = []
        with self._named():
            self._heads[side](tuples, self._partners[side][1].find, None, None, None, out)
        return out


class Projection(Rule):
    """`head(outputs) :- input, where.` inside a recursive component."""

    def __init__(self, text: str, head: str, shape: Shape, table: Fixpoint, purpose: str) -> None:
        super().__init__(text, head, shape, "left")
        self.table = table
        self.purpose = purpose
        self._derive = mapper(shape, purpose)
        self._heads = mapper(shape, "heads")

    def _sides(self, found: Finder) -> tuple[Fixpoint, Fixpoint]:
        return self.table, self.table

    def derive(self, batch: list[Derivation], known: Any, sent: Any) -> list[Any]:
        """The derivations that a batch gives; which ones, depends on the purpose."""
        out: list[Any] = []
        try:
            self._derive(batch, known, sent, out)
        except Exception as e:
            raise self._failed(batch, lambda b: self._derive(b, {}, {}, []), e) from e
        if self.purpose == "each":
            return [(h, a) for h, a, _ in out]
        return out

    def _everything(self) -> list[Derivation]:
        out: list[Derivation] = []
        mapper(self.shape, "first")(list(self.table.rows.items()), {}, {}, out)
        return out

    def heads(self, tuples: list[Tuple]) -> list[Tuple]:
        """The heads that tuples can have derived."""
        out: list[Tuple] = []
        with self._named():
            self._heads(tuples, None, None, out)
        return out
