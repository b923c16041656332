"""Runtime: how a transaction goes through the partitions of a session, wherever they are.

It knows the order of the steps of `livelog.runtime.worker.Worker` and what to do when one fails. How a step
reaches the workers, and messages get from one to another, is up to the runtimes: `livelog.runtime.local` and
`livelog.runtime.spark`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Mapping
from types import FrameType
from typing import Any

from datalog.errors import UsageProblem
from livelog.operations import Operation
from livelog.planned import Planned
from livelog.runtime.editing import Adoption, Editing
from livelog.runtime.limits import Exceeded, Watch, make_room, watched
from livelog.runtime.skew import Skew, join_rules, skew
from livelog.runtime.steps import PassedStep, copies, frozen, net, segments
from livelog.runtime.worker import Method, Sides
from operators.errors import Outgrown, RuleFailure
from planner.plan import Plan, SyncRule

__all__ = ["OPEN", "PLAIN", "WHOLE", "Runtime"]

Tuple = tuple[Any, ...]
WHOLE, OPEN = 0, -1
PLAIN: Method = ("dred", "")  # what keeps nothing of derivations evaluates fastest from nothing


class Runtime(Editing):
    """The partitions of a session.

    A runtime fills in `_all` and `_each` (a step on every worker, which sends nothing) and `_run` (one that may send:
    it returns when all messages have been worked off and everybody is quiescent).

    `state` says what is known of the partitions, whatever was raised wherever:

    - `WHOLE`: they are where the last commit left them;
    - `OPEN`: a transaction has begun, and is to be undone;
    - otherwise all of it is evaluated, so it is decided that it stands, as the transaction of this number, and its
      commit is to be completed. `decided` are its changes, until somebody takes them.

    It is set before the first step that can fail and after the last one. Every transaction and whoever reads looks at
    it first: if it is not whole, `restore` makes it so, or fails and leaves it as it is.

    With the strategy "recompute" nothing survives a transaction but the facts, and changes are the difference of
    two results.

    Where what is true depends on the clock, a transaction is a sequence of steps, by time: one for each move of the
    clock, with the operations up to the next one, and one for each time on the way there at which something happens.
    `steps` are those of the last transaction that changed or released anything, from when it is decided.
    """

    bulk = False
    """Whether operations may be for many rows at once."""

    def __init__(
        self,
        plan: Plan | Planned,
        partitions: int,
        method: Method,
        limit: int | None,
        sizes: Mapping[str, int] | None = None,
        watch: Watch | None = None,
    ) -> None:
        """With a program in place of its plan, that may be edited."""
        if isinstance(plan, Planned):
            self.planned, plan = plan, plan.plan
        self.partitions = partitions
        self.lock = threading.RLock()  # a session may be used from several threads, one at a time
        self.clock = 0.0
        self.wanted: Collection[str] = ()  # views whose changes are read at once, however many
        self.state = WHOLE
        self.committed = 0  # transactions that stand
        self.decided: dict[str, Sides] | None = None
        self.steps: tuple[PassedStep, ...] = ()
        self._recompute = method[0] == "recompute"
        self._method = PLAIN if self._recompute else method
        self._limit = limit
        self._watch = watch or Watch(plan)  # over what evaluation takes
        self._sizes = sizes or {}  # how many tuples a relation may have
        self._fit(plan)

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

    def _complete(self) -> None:
        """What is decided stands on all partitions, the clock moves, and the state is whole.

        It is called again where it was interrupted, and does nothing where it is done.
        """
        raise AssertionError("a runtime knows its workers")

    # --- transactions ----------------------------------------------------------------------------------------

    def run(self, operations: Iterable[Operation], **origin: Any) -> dict[str, Sides]:
        """Run one transaction; returns per view the tuples (inserted, deleted). All or nothing.

        `origin` tells where it comes from, for runtimes that keep a log.
        """
        return self._transact(self._shares(operations))

    def _transact(self, shares: list[Any] | Adoption) -> dict[str, Sides]:
        """Run a transaction that was divided among the partitions, or one that is an edit."""
        if self.state:
            self.restore()
        self.decided = None
        self.state = OPEN
        try:
            self.decided = changes = self._work(shares)
            if self._watch.firing:
                self._watch.calm()
            self.state = self.committed + 1
            self._complete()
        except BaseException as error:
            told = self._failed(error)
            try:
                if told is not error:
                    raise told from None
                raise
            finally:
                del told  # its traceback has this frame
        return changes

    def _failed(self, error: BaseException) -> BaseException:
        """A transaction failed: it is undone, and whoever ran it hears what is returned."""
        try:
            told = self._watch.told(error)
        except Exceeded as late:
            told = self._watch.told(late)
        make_room(told)
        try:
            self._undo(told)
        except MemoryError as again:  # whoever comes next does it
            make_room(again)
            raise
        return told

    def _undo(self, error: BaseException) -> None:
        """A transaction failed with this error; or, where it is decided, its commit was interrupted by it."""
        self.restore()

    def restore(self) -> None:
        """Make the state whole: a transaction that is open is undone, and one that is decided completed.

        Whoever asks in the middle of one, from a function that a rule calls, is refused.
        """
        with self.lock:
            if self.state and self._under_way():
                raise UsageProblem("the session is in the middle of a transaction: a function of a rule cannot use it")
            if self.state == OPEN:
                self._roll_back()
            elif self.state:
                self._complete()

    @property
    def standing(self) -> dict[str, Sides] | None:
        """The changes of the last transaction, if it stands and nobody has taken them: its commit was interrupted."""
        return None if self.state == OPEN else self.decided

    def _under_way(self) -> bool:
        """Whether this thread is evaluating something, and not just come back to what was left behind.

        The stack knows it. A flag would have to be taken back, and be wrong if that were interrupted.
        """
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code in _EVALUATING and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _roll_back(self) -> None:
        """Back to the last commit: the facts are restored, and the views evaluated anew from them; or the former
        program is, whose views have not been touched."""
        if self.coming is not None:
            self._retract()
        else:
            self._all("rollback")
            self._rebuild()
            self._all("commit")
        self.decided = None
        self.state = WHOLE

    def _shares(self, operations: Iterable[Operation]) -> list[Any]:
        """What each partition has to apply."""
        if self.partitions == 1:
            return [list(operations)]
        shares: list[list[Operation]] = [[] for _ in range(self.partitions)]
        for operation in operations:
            if operation[0] == "@":
                for share in shares:
                    share.append(operation)
            elif operation[0] in ("++", "--"):
                for owner, rows in self._owners[operation[1]].split_tuples(operation[2]).items():
                    shares[owner].append((operation[0], operation[1], rows))
            else:
                shares[self._owners[operation[1]](operation[2])].append(operation)
        return shares

    def _work(self, shares: list[Any] | Adoption) -> dict[str, Sides]:
        """Apply the operations, evaluate, and tell the changes."""
        if isinstance(shares, Adoption):
            return self._adopt(shares)
        if self._timed:
            return self._stepped(shares)
        concerned = self._apply(shares)
        if self._recompute:
            return self._worked_whole(concerned)
        try:
            self._evaluate(concerned)
            if self._sizes:
                self._measure()
            return self._changes()
        except (RuleFailure, Outgrown) as error:
            return self._worked_anew(shares, error)

    def _worked_whole(self, concerned: set[int]) -> dict[str, Sides]:
        """Evaluate everything from scratch: what fails here, fails on the facts as they are."""
        if not concerned and not self._tells_facts:
            return {}
        self._rebuild(self._limit)
        self._measure()
        return self._merged(self._all("differences"))

    def _worked_anew(self, shares: list[Any], error: RuleFailure | Outgrown) -> dict[str, Sides]:
        """A rule failed, perhaps on two tuples that are never there together: one that the transaction brings, and one
        that it takes away. The program fails only if it does on the new facts alone. So it is with a relation that has
        too many tuples."""
        if isinstance(error, Outgrown) and error.sure:
            raise error
        tuples = sum(self._all("size"))
        self._rebuild(None if self._limit is None else self._limit + tuples)
        self._measure()
        return self._difference(shares)

    # --- steps -----------------------------------------------------------------------------------------------

    def _stepped(self, shares: list[Any]) -> dict[str, Sides]:
        """The same step by step; returns the net changes.

        If a rule fails, it may have failed in the middle of a step, as in `_worked_anew`: then all of it is done again,
        and the views evaluated from the facts alone in each step.
        """
        self.steps = ()
        try:
            steps = self._pass(shares, self._recompute)
        except (RuleFailure, Outgrown) as error:
            if self._recompute or (isinstance(error, Outgrown) and error.sure):
                raise
            self._all("rollback")
            self._rebuild()
            self._all("keep")
            steps = self._pass(shares, True)
        self.steps = tuple(steps)
        return net([step.changes for step in steps])

    def _pass(self, shares: list[Any], anew: bool) -> list[PassedStep]:
        """Pass all times of a transaction, in order. In each, evaluate what is concerned, or all of it `anew`."""
        steps: list[PassedStep] = []
        begun, clock = False, self.clock
        for when, parts in self._segments(shares):
            while (due := self._first_due(when)) < when:
                assert due > clock or not begun, "a time is due again"
                begun, clock = self._step(due, [self._move_to(due)] * self.partitions, begun, anew, steps), due
            begun, clock = self._step(when, parts, begun, anew, steps), when
        return steps

    def _move_to(self, when: float) -> Any:
        """The share of a partition in a step that only moves the clock."""
        return [("@", None, when)]

    def _segments(self, shares: list[Any]) -> list[tuple[float, list[Any]]]:
        """The shares of all partitions, by the moves of the clock: these are the same in all of them."""
        cut = [segments(share, self.clock) for share in shares]
        found = [(parts[0][0], [part for _, part in parts]) for parts in zip(*cut, strict=True)]
        return found if len(found) == 1 or any(found[0][1]) else found[1:]

    def _first_due(self, before: float) -> float:
        """The first time at which something happens, if that is before another time; else this one."""
        due: float = min(self._all("due", before))
        return due

    def _step(self, clock: float, shares: list[Any], begun: bool, anew: bool, steps: list[PassedStep]) -> bool:
        """One step of a transaction. It has `begun` if this is not the first: now it has."""
        if begun:
            self._all("step_over")
        concerned = self._apply(shares)
        if not concerned and not self._tells_facts:
            return True
        if anew:
            if concerned:
                more = 0 if self._recompute else sum(self._all("size"))
                self._rebuild(None if self._limit is None else self._limit + more)
                self._measure()
            changes = self._merged(self._all("differences"))
        else:
            self._evaluate(concerned)
            if self._sizes:
                self._measure()
            changes = self._changes()
        passed = self._all("passed")
        changes = frozen(changes)
        if changes or any(released for released, _ in passed):
            steps.append(PassedStep(clock, frozenset(passed[0][1]), changes))
        return True

    def next_due(self, names: Iterable[str]) -> float | None:
        """The next time behind the clock that is certainly a point of one of these regulated reads; None: unknown."""
        wanted = set(names)
        rules = [rule for s in self.plan.strata for rule in s.rules if isinstance(rule, SyncRule)]
        points = [rule.ticks.next_after(self.clock) for rule in rules if rule.head in wanted]
        return min((point for point in points if point is not None), default=None)

    # --- evaluation ------------------------------------------------------------------------------------------

    def _apply(self, shares: list[Any]) -> set[int]:
        """Apply the operations to the facts; returns the strata that they concern."""
        if len(shares) == 1:
            return set(self._all("apply", *shares)[0])
        return _union(self._each("apply", [(share,) for share in shares]))

    def _measure(self) -> None:
        for relation, limit in self._sizes.items():
            size = sum(self._all("count", relation))
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

    def _rebuild(self, limit: int | None = None) -> None:
        """Evaluate the views from the facts alone, with another limit for once."""
        self._evaluate(_union(self._all("start_over", limit)))

    def _difference(self, shares: list[Any]) -> dict[str, Sides]:
        """The changes of views that were just evaluated anew, by going back to the former facts and forth again."""
        self._all("keep")
        self._all("rollback")
        self._rebuild()
        changes = self._merged(self._all("differences", True))
        self._apply(shares)
        self._rebuild()
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
            for name, sides in result.items():
                gained, lost = copies(sides) if self.plan.relations[name].stream else sides
                inserted, deleted = changes.setdefault(name, ([], []))
                inserted.extend(gained)
                deleted.extend(lost)
        return changes

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

    def facts_with(self, relation: str, bound: Mapping[int, Any]) -> list[Tuple]:
        """The facts of a base relation that have these values in these columns, each as often as it is there."""
        found = self.matching(relation, list(bound.items()))
        if not self.plan.relations[relation].bag:
            return found
        some = set(found)
        return [t for name, t, copies in self.facts() if name == relation and t in some for _ in range(copies)]

    def matching(self, relation: str, fixed: list[tuple[int, Any]]) -> list[Tuple]:
        """The tuples of a relation with the given values in some columns."""
        return [t for rows in self._all("matching", relation, fixed) for t in rows]

    def derivation(self, facts: list[tuple[str, Tuple]]) -> list[tuple[str, Tuple]]:
        """The tuples of lower strata in a derivation of each of these tuples of one stratum, which have annotations."""
        variables: set[int] = set()
        for relation, t in facts:
            variables.update(self._one(self._owners[relation](t), "derivation", relation, t))
        return [fact for found in self._all("named", facts[0][0], sorted(variables)) for fact in found]

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


watched(Runtime._work)


_EVALUATING = frozenset(f.__code__ for f in (Runtime._work, Runtime._roll_back))


def _union(concerned: list[Iterable[int]]) -> set[int]:
    return set().union(*concerned)
