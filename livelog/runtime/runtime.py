"""Runtime: how a transaction goes through the partitions of a session, wherever they are.

It knows the order of the steps of `livelog.runtime.worker.Worker` and what to do when one fails. How a step
reaches the workers, and messages get from one to another, is up to the runtimes: `livelog.runtime.local` and
`livelog.runtime.spark`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from livelog.runtime.methods import METHODS
from livelog.runtime.skew import Skew, join_rules, skew
from livelog.runtime.worker import Method, Operation, Sides
from operators.errors import Outgrown, RuleFailure
from operators.partition import Router
from planner.plan import LookupRule, Plan, Stratum

__all__ = ["PLAIN", "Runtime"]

Tuple = tuple[Any, ...]
PLAIN: Method = ("dred", "")  # what keeps nothing of derivations evaluates fastest from nothing


class Runtime:
    """The partitions of a session.

    A runtime fills in `_all` and `_each` (a step on every worker, which sends nothing) and `_run` (one that may send:
    it returns when all messages have been worked off and everybody is quiescent).

    With the strategy "recompute" nothing survives a transaction but the facts, and changes are the difference of
    two results.
    """

    bulk = False
    """Whether operations may be for many rows at once."""

    def __init__(
        self, plan: Plan, partitions: int, method: Method, limit: int | None, sizes: Mapping[str, int] | None = None
    ) -> None:
        self.plan = plan
        self.partitions = partitions
        self.lock = threading.RLock()  # a session may be used from several threads, one at a time
        self.clock = 0.0
        self.wanted: Collection[str] = ()  # views whose changes are read at once, however many
        self.stale = False  # whether the views have yet to be evaluated from the facts
        self._recompute = method[0] == "recompute"
        self._method = PLAIN if self._recompute else method
        self._limit = limit
        self._sizes = sizes or {}  # how many tuples a relation may have
        self._owners = {name: Router(r.partition, partitions) for name, r in plan.relations.items()}
        kind = METHODS[self._method]
        self._levels = [0 if s.method == "counting" else kind.levels for s in plan.strata]
        self._prepares = [_looks_up(s) for s in plan.strata]

    # --- what a runtime fills in -----------------------------------------------------------------------------

    def _all(self, step: str, *arguments: Any) -> list[Any]:
        """A step of every worker that sends nothing; what each of them returns."""
        return self._each(step, [arguments] * self.partitions)

    def _each(self, step: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """The same with arguments for each worker."""
        raise AssertionError("a runtime knows its workers")

    def _run(self, step: str, i: int, *arguments: Any) -> list[Any]:
        """A step of every worker in stratum i, and all that follows from it."""
        raise AssertionError("a runtime knows its workers")

    def _one(self, partition: int, step: str, *arguments: Any) -> Any:
        """A step of one worker that sends nothing."""
        raise AssertionError("a runtime knows its workers")

    def _drop_messages(self) -> None:
        """Whatever is under way belongs to an attempt that failed."""

    # --- transactions ----------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation], **origin: Any) -> dict[str, Sides]:
        """Run one transaction; returns per view the tuples (inserted, deleted). All or nothing.

        `origin` tells where it comes from, for runtimes that keep a log.
        """
        with self.lock:
            clock = self.clock
            return self._transact(self._shares(operations), clock)

    def _transact(self, shares: list[Any], clock: float) -> dict[str, Sides]:
        """Run a transaction that was divided among the partitions; `clock` is the time before it."""
        if self.stale:
            self.restore()
        try:
            changes = self._work(shares)
        except BaseException as error:
            self.clock = clock
            self._undo(error)
            raise
        self._commit()
        return changes

    def _undo(self, error: BaseException) -> None:
        """A transaction failed with this error."""
        self._roll_back()

    def _shares(self, operations: Iterable[Operation]) -> list[Any]:
        """What each partition has to apply. Moves the clock."""
        if self.partitions == 1:
            share = list(operations)
            for operation in share:
                if operation[0] == "@":
                    self.clock = operation[2]
            return [share]
        shares: list[list[Operation]] = [[] for _ in range(self.partitions)]
        for operation in operations:
            if operation[0] == "@":
                self.clock = operation[2]
                for share in shares:
                    share.append(operation)
            elif operation[0] in ("++", "--"):
                for owner, rows in self._owners[operation[1]].split_tuples(operation[2]).items():
                    shares[owner].append((operation[0], operation[1], rows))
            else:
                shares[self._owners[operation[1]](operation[2])].append(operation)
        return shares

    def _commit(self) -> None:
        self._all("commit")

    def _work(self, shares: list[Any]) -> dict[str, Sides]:
        """Apply the operations, evaluate, and tell the changes."""
        concerned = self._apply(shares)
        if self._recompute:
            # from scratch: what fails here, fails on the facts as they are
            if not concerned:
                return {}
            self._evaluate(self._start_over(self._limit))
            self._measure()
            return self._merged(self._all("differences"))
        try:
            self._evaluate(concerned)
            if self._sizes:
                self._measure()
            return self._changes()
        except RuleFailure:
            # It may have failed on two tuples that are never there together: one that the transaction brings, and
            # one that it takes away. The program fails only if it does on the new facts alone.
            tuples = sum(self._all("size"))
            self._evaluate(self._start_over(None if self._limit is None else self._limit + tuples))
            self._measure()
            return self._difference(shares)

    def _apply(self, shares: list[Any]) -> set[int]:
        """Apply the operations to the facts; returns the strata that they concern."""
        if len(shares) == 1:
            return set(self._all("apply", *shares)[0])
        return _union(self._each("apply", [(share,) for share in shares]))

    def _measure(self) -> None:
        for relation, limit in self._sizes.items():
            size = self.count(relation)
            if size > limit:
                raise Outgrown(relation, size, limit)

    def _evaluate(self, concerned: set[int]) -> None:
        """Bring every stratum up to date, bottom up: what concerns a stratum is made below it."""
        while concerned:
            i = min(concerned)
            concerned.discard(i)
            if self._prepares[i]:
                self._run("prepare", i)
            self._run("begin", i)
            level = 0
            while level < self._levels[i]:
                level = 0 if any(self._run("resume", i, level)) else level + 1
            concerned.update(*self._all("finish", i))

    def _start_over(self, limit: int | None = None) -> set[int]:
        """Forget all but the facts, and make them the change to be worked in, with another limit for once."""
        self._drop_messages()
        return _union(self._all("start_over", limit))

    def _difference(self, shares: list[Any]) -> dict[str, Sides]:
        """The changes of views that were just evaluated anew, by going back to the former facts and forth again."""
        self._all("keep")
        self._all("rollback")
        self._evaluate(self._start_over())
        changes = self._merged(self._all("differences", True))
        self._apply(shares)
        self._evaluate(self._start_over())
        return changes

    def _changes(self) -> dict[str, Sides]:
        """The net changes of the published views."""
        return self._merged(self._all("changes"))

    def _merged(self, results: list[dict[str, Sides]]) -> dict[str, Sides]:
        """The changes of all partitions as one."""
        if len(results) == 1:
            return results[0]
        changes: dict[str, Sides] = {}
        for result in results:
            for name, (gained, lost) in result.items():
                inserted, deleted = changes.setdefault(name, ([], []))
                inserted.extend(gained)
                deleted.extend(lost)
        return changes

    def _roll_back(self) -> None:
        """Back to the last commit: the facts are restored, and the views evaluated anew from them."""
        self._all("rollback")
        self.stale = True
        self.restore()

    def restore(self) -> None:
        """If a rollback was not completed (a function that goes on failing, a second Ctrl-C), complete it."""
        with self.lock:
            if self.stale:
                self._evaluate(self._start_over())
                self._all("commit")
                self.stale = False

    def close(self) -> None:
        """Let go of all state."""

    # --- looking in ------------------------------------------------------------------------------------------

    @property
    def bytes_shipped(self) -> list[int]:
        """Bytes that each partition has sent to others."""
        raise AssertionError("a runtime counts what it ships")

    @property
    def frames_shipped(self) -> list[int]:
        """Messages that each partition has sent to others."""
        raise AssertionError("a runtime counts what it ships")

    def rows(self, relation: str) -> list[Tuple]:
        """All tuples of a relation, in no particular order."""
        return [t for rows in self._all("rows", relation) for t in rows]

    def count(self, relation: str) -> int:
        return sum(self._all("count", relation))

    def has(self, relation: str, t: Tuple) -> bool:
        found: bool = self._one(self._owners[relation](t), "has", relation, t)
        return found

    def exact(self, relation: str, t: Tuple) -> Tuple | None:
        """The tuple that the rules derive where an approximated one is shown."""
        found: Tuple | None = self._one(self._owners[relation](t), "exact", relation, t)
        return found

    def facts(self) -> list[tuple[str, Tuple, int]]:
        """All facts, with their multiplicities."""
        return [fact for facts in self._all("facts") for fact in facts]

    def matching(self, relation: str, fixed: list[tuple[int, Any]]) -> list[Tuple]:
        """The tuples of a relation with the given values in some columns."""
        return [t for rows in self._all("matching", relation, fixed) for t in rows]

    def derivation(self, relation: str, t: Tuple) -> list[tuple[str, Tuple]]:
        """The tuples of lower strata in one derivation of a tuple that has an annotation."""
        variables = self._one(self._owners[relation](t), "derivation", relation, t)
        return [fact for facts in self._all("named", relation, variables) for fact in facts]

    def skew(self) -> list[Skew]:
        """The joins of which one partition holds most, the worst first."""
        return skew(self._all("holdings"), join_rules(self.plan)) if self.partitions > 1 else []

    def aggregates(self) -> dict[str, dict[str, int]]:
        """By view, how many entries each part of the state of its aggregates and lookups has on all partitions."""
        total: dict[str, dict[str, int]] = {}
        for found in self._all("aggregates"):
            for view, parts in found.items():
                mine = total.setdefault(view, {})
                for name, entries in parts.items():
                    mine[name] = mine.get(name, 0) + entries
        return total

    def measures(self) -> list[dict[str, int]]:
        """The sizes of everything that each partition keeps, as `livelog.stats` shows them. O(state)."""
        return self._all("measures")

    def check(self) -> None:
        """Assert the invariants of all partitions, that every tuple is with its owner, and that nothing rests on
        a variable that is dead."""
        alive = [set().union(*parts) for parts in zip(*self._all("variables"), strict=True)]
        self._all("check", alive)


def _looks_up(stratum: Stratum) -> bool:
    """Whether something must be in place on all partitions before the stratum begins."""
    return stratum.method != "counting" and any(isinstance(r, LookupRule) for r in stratum.rules)


def _union(concerned: list[Iterable[int]]) -> set[int]:
    return set().union(*concerned)
