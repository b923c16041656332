"""Reads: what an atom of a query reads in a session, as relations are, with their times, or as of the last point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from datalog.ast import Atom, Column, Constant, Variable
from datalog.errors import UsageProblem
from datalog.points import name_of, whole
from livelog.runtime.steps import time_of
from livelog.session import Session
from livelog.shown import is_kept, named, not_kept, timeless

__all__ = ["QueryRead", "read_of"]

Tuple = tuple[Any, ...]
TIME = Column("time", "any", numeric=True)


@dataclass(frozen=True, slots=True)
class QueryRead:
    """A relation to be read: `name` stands for it in the query, as `r@` and `r at s` do in a plan.

    `kind` `now` is the clock, `stream` the `relation` without its times, and `dated` with them; `kept` is what the plan
    keeps under this name beside relations and views.
    """

    name: str
    relation: str
    columns: tuple[Column, ...]
    kind: Literal["now", "plain", "stream", "dated", "kept"]
    bag: bool = False

    def rows(self, session: Session) -> list[Tuple]:
        """The tuples as they are now, those of a bag as often as they are there."""
        if self.kind == "now":
            return [(time_of(session.clock),)]
        with session._lock:
            runtime = session._settled()
            if self.kind in ("stream", "dated"):
                arrivals = runtime.facts_with(self.relation, {})
                return timeless(arrivals) if self.kind == "stream" else arrivals
            if self.kind == "kept":
                return runtime.rows(self.name)
            if self.bag:
                return list(Counter({t: n for name, t, n in runtime.facts() if name == self.relation}).elements())
        return list(session[self.relation])


def read_of(session: Session, atom: Atom) -> tuple[QueryRead, Atom]:
    """What an atom reads, and the atom that reads it, without `@` and `at`."""
    name, arguments = atom.relation, atom.arguments
    if name in ("now", "clock") and name not in named(session.program):
        return _of_time(session, name, atom)
    columns, stream = _columns(session, atom)
    time = atom.time
    if stream and time is None and atom.sync is not None:
        time = Variable("_#time", atom.span)  # nobody asks for it, and it is there
    if time is not None and isinstance(time, Variable) and time.anonymous and not stream:
        time = None  # every tuple has one
    if time is None and atom.sync is None:
        if not is_kept(session.plan, name):
            raise UsageProblem(not_kept(name))
        bag = session.program.relations[name].bag
        return QueryRead(name, name, columns, "stream" if stream else "plain", bag), Atom(name, arguments, atom.span)
    if time is not None:
        columns, arguments = (*columns, TIME), (*arguments, time)
        if stream and atom.sync is None:
            return QueryRead(f"{name}@", name, columns, "dated", True), Atom(f"{name}@", arguments, atom.span)
        name = name if stream else f"{name}@"
    if atom.sync is not None:
        name = f"{name} at {_sync(session, atom)}"
    known = session.plan.relations.get(name)
    if known is None or (known.kind == "auxiliary"):
        what = f"as of the last point of `{_sync(session, atom)}`" if atom.sync is not None else "with its times"
        raise UsageProblem(f"`{atom.relation}` is not kept {what}, since no rule of the program reads it so", atom.span)
    return QueryRead(name, atom.relation, columns, "kept"), Atom(name, arguments, atom.span)


def _of_time(session: Session, name: str, atom: Atom) -> tuple[QueryRead, Atom]:
    if name == "clock":
        raise UsageProblem("`clock` has every tick that has passed; `now(n)` has the last one", atom.span)
    if len(atom.arguments) != 1:
        raise UsageProblem(f"now has 1 column, not {len(atom.arguments)}", atom.span)
    kind = "number" if isinstance(time_of(session.clock), int) else "float"
    return QueryRead("now", "now", (Column("n", kind),), "now"), Atom("now", atom.arguments, atom.span)


def _columns(session: Session, atom: Atom) -> tuple[tuple[Column, ...], bool]:
    """The columns of the session's relation behind an atom, which must have as many; and whether it is a stream."""
    relations = named(session.program)
    if atom.relation not in relations:
        raise UsageProblem(f"there is no relation {atom.relation}; there are {', '.join(sorted(relations))}")
    relation = relations[atom.relation]
    count = len(relation.shown)
    if len(atom.arguments) != count:
        columns = f"{count} column{'' if count == 1 else 's'}"
        raise UsageProblem(f"{relation.name} has {columns}, not {len(atom.arguments)}", atom.span)
    return relation.shown, relation.stream


def _sync(session: Session, atom: Atom) -> str:
    """The name of the points behind `at`."""
    sync = atom.sync
    assert sync is not None
    if sync.ticks is None:
        return sync.name

    def number(value: Any) -> Any:
        if isinstance(value, Constant):
            return whole(value.value)
        return session.program.constants.get(value.name) if isinstance(value, Variable) else 0

    return name_of(type(sync.ticks)(number(sync.ticks.period), number(sync.ticks.start)))
