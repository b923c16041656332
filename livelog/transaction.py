"""Transaction: operations that take effect together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from datalog.errors import UsageProblem
from livelog.arguments import check_rows
from livelog.changes import ChangeLog, Step
from livelog.operations import Operation
from livelog.runtime.collecting import without_collections
from livelog.timing import check_time, no_deletion, too_late

if TYPE_CHECKING:
    from livelog.session import Session
    from livelog.values import Coercer
    from planner.plan import RelationPlan

__all__ = ["Transaction"]


class Transaction:
    """Operations that take effect together at the end of a `with` block, or not at all.

    An exception inside the block, or an error while the changes are worked in, leaves the session as it was.
    `changes` tells afterwards what became of the views, `steps` the same for each time that it passed. A transaction is
    for one thread; a session may have several that are open.

    `at` is the time of an operation: the clock is moved there first. It never goes back, and an operation that comes
    later than its time is refused. Without it an operation has the time to which the clock was moved last.
    """

    __slots__ = ("_absent", "_changes", "_done", "_entered", "_operations", "_origin", "_session", "_times")

    def __init__(self, session: Session, source: str | None = None, position: int | None = None) -> None:
        self._session = session
        self._origin: dict[str, Any] | None = None if source is None else {"source": source, "position": position}
        self._operations: list[Operation] = []
        self._times: tuple[float, float] | None = None  # where it moves the clock to first, and where to last
        self._changes: ChangeLog | None = None
        self._absent = 0  # deletions by key that meet no fact
        self._entered = self._done = False

    def insert(self, relation: str, row: Iterable[Any], at: float | None = None) -> None:
        """Insert a fact. One that is there stays there; one with a known key replaces the old one."""
        operation = "+", relation, self._coercer(relation)(row)
        if at is not None:
            self._move(operation, at)
        self._operations.append(operation)

    def update(self, relation: str, row: Iterable[Any], at: float | None = None) -> None:
        """Insert a fact of a relation with a key, in place of the one that has it; if there is none, it is new."""
        self._coercer(relation)
        if not self._session.plan.relations[relation].key:
            raise UsageProblem(
                f"`{relation}` has no key, so an update does not tell what it is to replace: declare it with key(...), "
                "or delete the old row and insert the new one"
            )
        self.insert(relation, row, at)

    def insert_all(self, relation: str, rows: Iterable[Any], at: float | None = None) -> None:
        """Insert many facts of one relation. The same as `insert` one by one, and faster.

        They may come as columns: a frame of pandas or polars, a table of Arrow, whatever has `__arrow_c_stream__`, an
        array of numpy. Columns are matched by name if the names are the relation's, and in order if none of them is.
        """
        self._many("+", relation, rows, self._coercer(relation), at)

    def delete_all(self, relation: str, rows: Iterable[Any], at: float | None = None) -> None:
        """Delete many facts of one relation. The same as `delete` one by one, and faster."""
        self._many("-", relation, rows, self._deleter(relation), at)

    def _many(self, op: str, relation: str, rows: Iterable[Any], coerce: Coercer, at: float | None) -> None:
        check_rows(relation, rows)
        tuples = without_collections(coerce.all, rows)
        if at is not None:
            self._move((op, relation, None), at)
        if self._session._runtime.bulk:
            self._operations.append((op + op, relation, tuples))
        else:
            self._operations.extend([(op, relation, t) for t in tuples])

    def delete(self, relation: str, row: Iterable[Any], at: float | None = None) -> None:
        """Delete a fact. Deleting one that is not there changes nothing.

        Of a relation with a key, a dict with its columns will do.
        """
        coerce = self._deleter(relation)
        if type(row) is dict and coerce.by_key(row, self._session.plan.relations[relation].key):
            if not self.delete_matching(relation, row, at):
                self._absent += 1
            return
        operation = "-", relation, coerce(row)
        if at is not None:
            self._move(operation, at)
        self._operations.append(operation)

    def delete_matching(self, relation: str, row: Iterable[Any], at: float | None = None) -> int:
        """Delete all facts that have the values of a row, and tell how many these are.

        The row is a dict with some of the columns, or has `livelog.ANY` in it. Facts are those of the last commit, with
        what this transaction did before. O(facts of the relation), or O(1) for those of a key.
        """
        bound = self._deleter(relation).bound(row)
        if at is not None:
            self._move(("-", relation, row), at)
        found = self._present(relation, bound)
        self._operations.extend([("-", relation, t) for t in found.elements()])
        return found.total()

    def replace(self, relation: str, rows: Iterable[Any], at: float | None = None) -> None:
        """Let a relation have these rows and no others: what is missing is inserted, what is not among them is deleted.

        O(facts of the relation)
        """
        coerce = self._deleter(relation)
        check_rows(relation, rows)
        wanted = Counter(coerce.all(rows))
        if not self._session.plan.relations[relation].bag:
            wanted = Counter(wanted.keys())
        if at is not None:
            self._move(("=", relation, None), at)
        found = self._present(relation, {})
        self._operations.extend([("-", relation, t) for t in (found - wanted).elements()])
        self._operations.extend([("+", relation, t) for t in (wanted - found).elements()])

    def _present(self, relation: str, bound: Mapping[int, Any]) -> Counter[Any]:
        """The facts with these values, by column, and how often each is there after what this transaction did."""
        session = self._session
        plan = session.plan.relations[relation]
        with session._lock:
            found = Counter(session._runtime.facts_with(relation, bound))
        for op, name, value in self._operations:
            if name == relation:
                for t in value if op in ("++", "--") else (value,):
                    self._recount(found, plan, op[0], t, bound)
        return found

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
        when = check_time(when)
        first, now = self._times or (when, self._session.clock)
        if when < now:
            raise UsageProblem(f"the clock stands at {now:g} and cannot go back to {when:g}")
        self._times = first, when
        self._operations.append(("@", None, when))

    def _move(self, operation: Operation, at: float) -> None:
        """Move the clock to the time of an operation. Where it stands there, nothing is added to what is to be done."""
        self._usable()
        when = check_time(at)
        first, now = self._times or (when, self._session.clock)
        if when < now:
            raise too_late(operation, when, now)
        self._times = first, when
        if when > now:
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

    def _deleter(self, relation: str) -> Coercer:
        """The same for a deletion, of which a stream knows none."""
        session = self._session
        if self._done or session._closed:
            self._usable()
        try:
            return session._deletable[relation]
        except (KeyError, TypeError):
            raise no_deletion(relation) if relation in session._updatable else session._no_updates(relation) from None

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
        if self._absent:
            session._count_absent(self._absent)
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

    @property
    def steps(self) -> tuple[Step, ...]:
        """What the transaction changed at each time that it passed, in order: see `Step`.

        A time is among them if a view changed at it, or a read `at` its points let something through.
        """
        return self.changes.steps

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
