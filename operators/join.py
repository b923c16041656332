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
from operators.finders import Finder, finder
from operators.fixpoint import Fixpoint
from operators.kernels import Shape, forward, mapper
from operators.ledger import Derivation
from operators.offers import Desk
from operators.provenance import Provenance
from operators.seen import Seen

__all__ = ["PipelinedHashJoin", "Projection", "Rule"]

Tuple = tuple[Any, ...]

_SCAN = 8  # so many searches that fix nothing cost more than one evaluation of the rule


class Rule:
    """What joins and projections share: errors that name the rule, and the search for lost heads.

    `derived` counts the tuples that the rule added in this transaction, to name the rule that diverges.
    """

    def __init__(self, text: str, head: str, shape: Shape, probe: str, purpose: str) -> None:
        self.text = text
        self.head = head
        self.shape = shape
        self.derived = 0
        self.purpose = purpose
        self._probe = probe
        self._finder = finder(shape, probe, tuple(range(len(shape.outputs))), "one", self._finds_one)
        self._of_group: Finder | None = None

    inputs: tuple[Fixpoint, ...]

    def prepare(self, group: tuple[int, ...] | None, searching: bool) -> None:
        """Ask the tables for the indexes that the search needs."""
        if group is not None:
            want = "best" if self.purpose == "sole" else "every"
            self._of_group = finder(self.shape, self._probe, group, want, self._finds_one)
        if searching:
            for found in (self._finder, self._of_group):
                if found is not None:
                    self._finds(found)  # makes the indexes, which must be there before the first tuple

    def _finds_one(self, side: str, columns: tuple[int, ...]) -> bool:
        raise AssertionError("a rule has inputs")

    def _sides(self, found: Finder) -> tuple[Fixpoint, Fixpoint]:
        raise AssertionError("a rule has inputs")

    def _finds(self, found: Finder) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
        """How the two sides are searched."""
        one, two = self._sides(found)
        return (
            None if found.first_index is None else one.search(found.first_index),
            None if found.second_index is None else two.search(found.second_index),
        )

    def _search(self, found: Finder) -> Callable[..., tuple[list[Derivation], list[Any]]]:
        """The finder's function of heads, `known` and `sent` alone: it returns its two lists."""
        one, two = self._sides(found)
        find1, find2 = self._finds(found)
        call, rows1, rows2 = found.call, one.rows, two.rows

        def search(heads: list[Tuple], known: Any, sent: Any) -> tuple[list[Derivation], list[Any]]:
            out: list[Derivation] = []
            others: list[Any] = []
            with self._named():
                call(heads, find1, rows1, find2, rows2, known, sent, out, others)
            return out, others

        return search

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

    def find(self, heads: list[Tuple], known: dict[Tuple, Any] | None = None) -> tuple[list[Derivation], list[Tuple]]:
        """For heads that were lost: the derivations that are still there, and the heads without one.

        What is found enters `known`, if that is given, as soon as it is found, so that other heads can rest on it.
        """
        if known is None:
            known = {}
        if self._finder.first_index == () and len(heads) > _SCAN:
            found, missing = self._scan(heads)
            known.update(found)
            return found, missing
        return self._search(self._finder)(heads, known, ())

    def find_group(self, heads: list[Tuple]) -> list[Derivation]:
        """All derivations that are there for the groups of these heads; where a group has one winner, the best."""
        assert self._of_group is not None
        return self._search(self._of_group)(heads, {}, {})[0]

    def find_best(
        self, heads: list[Tuple], known: dict[Tuple, Any], best: dict[Any, Tuple]
    ) -> tuple[list[Derivation], list[Derivation]]:
        """For the groups of these heads, of one winner each, the best derivation that is there.

        For a group without a winner it enters the two tables as soon as it is found, so that other heads can rest on
        it. The second list are those that are better than the winner that is there already.
        """
        assert self._of_group is not None and self.purpose == "sole"
        return self._search(self._of_group)(heads, known, best)

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
    """`head(outputs) :- left, right, where.` inside a recursive component. A loop is made when it is first needed."""

    def __init__(
        self,
        text: str,
        head: str,
        shape: Shape,
        probe: str,
        left: Fixpoint,
        right: Fixpoint,
        purpose: str,
        annotated: bool = True,
    ) -> None:
        self.left = left
        self.right = right
        super().__init__(text, head, shape, probe, purpose)
        self.inputs = (left, right)
        self._annotated = annotated
        self._kernels: dict[tuple[str, str], Callable[..., None]] = {}
        self._seen: dict[str, Seen] = {}
        self._desk: Desk | None = None
        # where a batch finds its partners: the other side's table and the index over its join key
        self._partners = {
            "left": (right, right.index(shape.right_key)),
            "right": (left, left.index(shape.left_key)),
        }

    def _sides(self, found: Finder) -> tuple[Fixpoint, Fixpoint]:
        return (self.left, self.right) if found.first == "left" else (self.right, self.left)

    def _finds_one(self, side: str, columns: tuple[int, ...]) -> bool:
        return (self.left if side == "left" else self.right).finds_one(columns)

    def use_seen(self, seen: Seen, desk: Desk | None = None) -> None:
        """From the sides on which a batch carries the right columns, ask `seen` instead of the table.

        With a `desk`, what another partition owns is left there.
        """
        self._desk = desk
        for side in ("left", "right"):
            if self.shape.carried(side) == seen.carried:
                self._seen[side] = seen

    def _kernel(self, side: str, purpose: str) -> Callable[..., None]:
        """The loop for a batch on one side, made on first request. `derive` stands for the purpose of the join."""
        kernel = self._kernels.get((side, purpose))
        if kernel is None:
            if purpose != "derive":
                kernel = forward(self.shape, side, purpose)
            elif side not in self._seen:
                kernel = forward(self.shape, side, self.purpose, self._annotated)
            elif self._desk is None:
                kernel = forward(self.shape, side, "seen", self._annotated)
            else:
                kernel = forward(self.shape, side, "routed", self._annotated, self._desk.owners.columns)
            self._kernels[side, purpose] = kernel
        return kernel

    def fills_seen(self, side: str) -> bool:
        """Whether `derive` has entered its heads into `seen` already."""
        return side in self._seen

    def derive(self, side: str, batch: list[Derivation], known: Any, sent: Any, provenance: Provenance) -> list[Any]:
        """The derivations that a batch on one side gives; which ones, depends on the purpose."""
        blank: Any = {}
        if side in self._seen:
            sent = self._seen[side].groups
            if self._desk is not None:
                sent, blank = (sent, *self._desk.parts), (blank, *self._desk.parts)
        out: list[Any] = []
        table, index = self._partners[side]
        kernel = self._kernel(side, "derive")
        try:
            kernel(batch, index.find, table.rows, known, sent, out)
        except Exception as e:
            raise self._failed(batch, lambda b: kernel(b, index.find, table.rows, {}, blank, []), e) from e
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
        kernel = self._kernel(side, "heads")
        with self._named():
            kernel(tuples, self._partners[side][1].find, None, None, None, out)
        return out

    def heads_there(self, side: str, tuples: list[Tuple], known: Any, sent: Any) -> list[Tuple]:
        """Those of the heads that are known or were sent; one may come several times."""
        out: list[Tuple] = []
        kernel = self._kernel(side, "there")
        with self._named():
            kernel(tuples, self._partners[side][1].find, None, known, sent, out)
        return out


class Projection(Rule):
    """`head(outputs) :- input, where.` inside a recursive component."""

    def __init__(
        self, text: str, head: str, shape: Shape, table: Fixpoint, purpose: str, annotated: bool = True
    ) -> None:
        self.table = table
        super().__init__(text, head, shape, "left", purpose)
        self.inputs = (table,)
        self._derive = mapper(shape, purpose, annotated)
        self._heads = mapper(shape, "heads")
        self._there = mapper(shape, "there")

    def _sides(self, found: Finder) -> tuple[Fixpoint, Fixpoint]:
        return self.table, self.table

    def _finds_one(self, side: str, columns: tuple[int, ...]) -> bool:
        return self.table.finds_one(columns)

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

    def heads_there(self, tuples: list[Tuple], known: Any, sent: Any) -> list[Tuple]:
        """Those of the heads that are known or were sent; one may come several times."""
        out: list[Tuple] = []
        with self._named():
            self._there(tuples, known, sent, out)
        return out
