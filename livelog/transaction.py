"""Transaction: operations that take effect together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any

from datalog.errors import UsageProblem
from livelog.arguments import check_rows
from livelog.changes import ChangeLog
from livelog.operations import Operation
from livelog.runtime.collecting import without_collections

if TYPE_CHECKING:
    from livelog.session import Session
    from livelog.values import Coercer
    from planner.plan import RelationPlan

__all__ = ["Transaction"]


class Transaction:
    """Operations that take effect together at the end of a `with` block, or not at all.

    An exception inside the block, or an error while the changes are worked in, leaves the session as it was.
    `changes` tells afterwards what became of the views. A transaction is for one thread; a session may have several
    that are open.
    """

    __slots__ = ("_changes", "_done", "_entered", "_operations", "_origin", "_session", "_times")

    def __init__(self, session: Session, source: str | None = None, position: int | None = None) -> None:
        self._session = session
        self._origin: dict[str, Any] | None = None if source is None else {"source": source, "position": position}
        self._operations: list[Operation] = []
        self._times: tuple[float, float] | None = None  # where it moves the clock to first, and where to last
        self._changes: ChangeLog | None = None
        self._entered = self._done = False

    def insert(self, relation: str, row: Iterable[Any]) -> None:
        """Insert a fact. One that is there stays there; one with a known key replaces the old one."""
        self._operations.append(("+", relation, self._coercer(relation)(row)))

    def insert_all(self, relation: str, rows: Iterable[Any]) -> None:
        """Insert many facts of one relation. The same as `insert` one by one, and faster.

        They may come as columns: a frame of pandas or polars, a table of Arrow, whatever has `__arrow_c_stream__`, an
        array of numpy. Columns are matched by name if the names are the relation's, and in order if none of them is.
        """
        self._many("+", relation, rows)

    def delete_all(self, relation: str, rows: Iterable[Any]) -> None:
        """Delete many facts of one relation. The same as `delete` one by one, and faster."""
        self._many("-", relation, rows)

    def _many(self, op: str, relation: str, rows: Iterable[Any]) -> None:
        coerce = self._coercer(relation)
        check_rows(relation, rows)
        tuples = without_collections(coerce.all, rows)
        if self._session._runtime.bulk:
            self._operations.append((op + op, relation, tuples))
        else:
            self._operations.extend([(op, relation, t) for t in tuples])

    def delete(self, relation: str, row: Iterable[Any]) -> None:
        """Delete a fact. Deleting one that is not there changes nothing.

        Of a relation with a key, a dict with its columns will do.
        """
        coerce = self._coercer(relation)
        if type(row) is dict and coerce.by_key(row, self._session.plan.relations[relation].key):
            self.delete_matching(relation, row)
        else:
            self._operations.append(("-", relation, coerce(row)))

    def delete_matching(self, relation: str, row: Iterable[Any]) -> int:
        """Delete all facts that have the values of a row, and tell how many these are.

        The row is a dict with some of the columns, or has `livelog.ANY` in it. Facts are those of the last commit, with
        what this transaction did before. O(facts of the relation), or O(1) for those of a key.
        """
        bound = self._coercer(relation).bound(row)
        session = self._session
        plan = session.plan.relations[relation]
        with session._lock:
            found = Counter(session._runtime.facts_with(relation, bound))
        for op, name, value in self._operations:
            if name == relation:
                for t in value if op in ("++", "--") else (value,):
                    self._recount(found, plan, op[0], t, bound)
        self._operations.extend([("-", relation, t) for t in found.elements()])
        return found.total()

    @staticmethod
    def _recount(found: Counter[Any], plan: RelationPlan, op: str, t: Any, bound: Mapping[int, Any]) -> None:
        """What an operation of this transaction does to the facts that match."""
        if op == "+" and plan.key:  # it takes the place of the one with its key
            for old in [old for old in found if all(old[i] == t[i] for i in plan.key)]:
                del found[old]
        if all(t[i] == value for i, value in bound.items()):
            found[t] = found[t] + 1 if plan.bag and op == "+" else found[t] - 1 if plan.bag else int(op == "+")
            if found[t] <= 0:
                del found[t]

    def advance_to(self, when: float) -> None:
        """Move the clock: facts whose `ttl` ends by then expire. It never goes back, and `commit` looks again."""
        self._usable()
        if isinstance(when, bool) or not isinstance(when, (int, float)):
            raise UsageProblem(f"the clock needs a number, not {when!r}")
        if not -inf < when < inf:
            raise UsageProblem(f"the clock needs a finite number, not {when!r}")
        try:
            when = float(when)
        except OverflowError:
            raise UsageProblem("the clock needs a number that fits in a float") from None
        first, now = self._times or (when, self._session.clock)
        if when < now:
            raise UsageProblem(f"the clock stands at {now:g} and cannot go back to {when:g}")
        self._times = first, when
        self._operations.append(("@", None, when))

    def _coercer(self, relation: str) -> Coercer:
        """What turns rows of a base relation into tuples."""
        session = self._session
        if self._done or session._closed:
            self._usable()
        try:
            return session._updatable[relation]
        except (KeyError, TypeError):  # a list, say
            raise session._no_updates(relation) from None

    def commit(self) -> ChangeLog:
        """Take effect now; the end of the `with` block does this.

        `SubscriberProblem`: it has taken effect, `changes` tells what it changed, and a subscriber failed over it.
        """
        session = self._session
        if self._done or session._closed:
            self._usable()
        self._done = True
        first = None if self._times is None else self._times[0]
        try:
            self._changes = changes = session._transact(self._operations, first, self._origin)
        except BaseException as error:
            self._changes = session._standing(error)
            raise
        if session._subscribers.queue:
            session._subscribers.deliver()
        return changes

    def rollback(self) -> None:
        """Forget the operations."""
        self._usable()
        self._done = True

    @property
    def changes(self) -> ChangeLog:
        """What the transaction changed; there is an entry for every view."""
        if self._changes is None:
            raise UsageProblem("the transaction has not been committed")
        return self._changes

    def __len__(self) -> int:
        return sum(len(value) if op in ("++", "--") else 1 for op, _, value in self._operations)

    def _usable(self) -> None:
        self._session._alive()
        if self._done:
            raise UsageProblem("the transaction is over")

    def __enter__(self) -> Transaction:
        if self._entered or self._done:
            self._usable()
            raise UsageProblem("the transaction is in a `with` block already")
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._done:
            self.commit()
        self._done = True
