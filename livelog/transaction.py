"""Transaction: operations that take effect together."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from datalog.errors import UsageProblem
from livelog.changes import ChangeLog
from livelog.runtime.collecting import pause_collections, resume_collections
from livelog.runtime.worker import Operation

if TYPE_CHECKING:
    from livelog.session import Session
    from livelog.values import Coercer

__all__ = ["Transaction"]


class Transaction:
    """Operations that take effect together at the end of a `with` block, or not at all.

    An exception inside the block, or an error while the changes are worked in, leaves the session as it was.
    `changes` tells afterwards what became of the views.
    """

    __slots__ = ("_changes", "_clock", "_done", "_operations", "_origin", "_session")

    def __init__(self, session: Session, source: str | None = None, position: int | None = None) -> None:
        self._session = session
        self._origin: dict[str, Any] | None = None if source is None else {"source": source, "position": position}
        self._operations: list[Operation] = []
        self._clock = session._runtime.clock
        self._changes: ChangeLog | None = None
        self._done = False

    def insert(self, relation: str, row: Iterable[Any]) -> None:
        """Insert a fact. One that is there stays there; one with a known key replaces the old one."""
        self._operations.append(("+", relation, self._coercer(relation)(row)))

    def insert_all(self, relation: str, rows: Iterable[Iterable[Any]]) -> None:
        """Insert many facts of one relation. The same as `insert` one by one, and faster."""
        self._many("+", relation, rows)

    def delete_all(self, relation: str, rows: Iterable[Iterable[Any]]) -> None:
        """Delete many facts of one relation. The same as `delete` one by one, and faster."""
        self._many("-", relation, rows)

    def _many(self, op: str, relation: str, rows: Iterable[Iterable[Any]]) -> None:
        coerce = self._coercer(relation)
        collecting = pause_collections()
        try:
            tuples = coerce.all(rows)
        finally:
            if collecting:
                resume_collections()
        if self._session._runtime.bulk:
            self._operations.append((op + op, relation, tuples))
        else:
            self._operations.extend([(op, relation, t) for t in tuples])

    def delete(self, relation: str, row: Iterable[Any]) -> None:
        """Delete a fact. Deleting one that is not there changes nothing."""
        self._operations.append(("-", relation, self._coercer(relation)(row)))

    def advance_to(self, when: float) -> None:
        """Move the clock: facts whose `ttl` ends by then expire."""
        self._usable()
        if isinstance(when, bool) or not isinstance(when, (int, float)) or when != when:
            raise UsageProblem(f"the clock needs a number, not {when!r}")
        if when < self._clock:
            raise UsageProblem(f"the clock stands at {self._clock:g} and cannot go back to {when:g}")
        self._clock = float(when)
        self._operations.append(("@", None, self._clock))

    def _coercer(self, relation: str) -> Coercer:
        """What turns rows of a base relation into tuples."""
        session = self._session
        if self._done or session._closed:
            self._usable()
        coerce = session._coercers.get(relation)
        if coerce is None or "#" in relation:
            raise session._no_updates(relation)
        return coerce

    def commit(self) -> ChangeLog:
        """Take effect now; the end of the `with` block does this."""
        session = self._session
        if self._done or session._closed:
            self._usable()
        self._done = True
        operations, origin = self._operations, self._origin
        self._changes = changes = session._commit(operations, **origin) if origin else session._commit(operations)
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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._done:
            self.commit()
        self._done = True
