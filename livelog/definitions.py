"""Definitions: what of a session follows from its program, and views that come and go while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import datalog
from datalog.errors import LivelogError, Note, UsageProblem
from livelog.changes import ChangeLog
from livelog.edits import Edit
from livelog.failure import explained, raised_by_user
from livelog.planned import Planned
from livelog.runtime.runtime import Runtime
from livelog.shown import shown_columns
from livelog.subscribers import Subscribers
from livelog.values import Coercer
from operators.errors import OperatorError

if TYPE_CHECKING:
    import planner
    from livelog.runtime.worker import Sides
    from livelog.why import Instant

__all__ = ["Defining"]

Tuple = tuple[Any, ...]

OUTCOME = "nothing was defined: the session is as it was"


class Defining:
    """The program of a `livelog.session.Session` and its plan; how it defines views and drops them."""

    _planned: Planned
    _runtime: Runtime
    _subscribers: Subscribers
    _lock: Any
    _origin: dict[str, Any] | None
    _whole: tuple[Runtime, Instant] | None

    _alive: Callable[[], None]
    _catch_up: Callable[[], None]
    _done: Callable[[dict[str, Sides], float], ChangeLog]
    _failed: Callable[[BaseException, float], None]
    _standing: Callable[[BaseException], ChangeLog | None]

    @property
    def program(self) -> datalog.Program:
        """The checked program, with all views that were defined and without those that were dropped."""
        return self._planned.program

    @property
    def plan(self) -> planner.Plan:
        """How it is run."""
        return self._planned.plan

    def _take(self, planned: Planned) -> None:
        """Be a session of this program."""
        plan = planned.plan
        views = plan.published
        relations = plan.relations
        coercers = {
            name: Coercer(name, shown_columns(r), _kinds(planned, name), _named(planned, name))
            for name, r in relations.items()
            if r.kind == "base"
        }
        self._planned = planned
        self._views = views
        self._keys = {name: relations[name].key for name in views if relations[name].key}
        # which regulated reads each view rests on; None if transactions have no steps
        self._synced = {name: frozenset(reads) for name, reads in plan.syncs.items()} if plan.timed else None
        self._coercers = coercers
        self._updatable = {name: coerce for name, coerce in coercers.items() if "#" not in name}
        self._deletable = {name: coerce for name, coerce in self._updatable.items() if not relations[name].stream}
        self._shown_bases = tuple(name for name in views if relations[name].kind == "base")

    def _follow_program(self, planned: Planned | None) -> None:
        """Be a session of the program that the runtime has. It may have another one by now: an edit was interrupted
        when it stood."""
        if planned is not None and planned is not self._planned:
            gone = self.program.derived - planned.program.derived
            self._take(planned)
            self._whole = None
            if gone:
                self._subscribers.end(gone)

    def _kinds(self, name: str) -> list[str]:
        """The types of a base relation's columns; `numeric` where the program computes with an undeclared one."""
        return _kinds(self._planned, name)

    # --- definitions -------------------------------------------------------------------------------------------

    def define(self, text: str) -> ChangeLog:
        """Define views: rules of relations that are not there yet, over those that are. Returns what is in them.

        The text may have several views, that read each other and themselves, with `.decl` of them and `.output`. It is
        checked with the whole program; what is wrong is shown by its own lines. The views are filled from what is
        there, and are like any other from then on. Nothing else is evaluated again: it costs what the new rules make of
        the relations that they read. It is a transaction: it has a number, comes before or after the others, and is in
        the log where there is one, so that a resumed session has the views. All or nothing: after an error, in the text
        or of a rule on some tuple, at a limit or by Ctrl-C, the session is as before.

        Of what was there once, the views know what is still kept. Reads `at` points that others already have are
        shared as they stand. New ones are empty up to the next point; if the clock stands at one, it is that. Times of
        tuples that nobody has asked for so far, of a base relation or of a view, are those of the definition, for all
        that is there; the tuples of a stream have their own. And of a stream that only windows read, what has left all
        of these is gone.

        Where only the best tuples of a relation are kept (aggregate selection), a definition can read these alone.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse("r(x, y) :- e(x, y)."), facts={"e": [(1, 2), (2, 5)]})
        >>> s.define("far(x, y) :- r(x, y), y > x + 1.")["far"].inserted
        [(2, 5)]
        >>> _ = s.load("e", [(4, 9)]); list(s["far"])
        [(2, 5), (4, 9)]
        """
        return self._edit(lambda planned: planned.define(text), OUTCOME)

    def drop(self, *names: str) -> ChangeLog:
        """Take views away, with all that is only there for them. Their rules go, be they defined or of the program.

        Refused while others read them, which may be dropped with them, and for base relations. Nobody hears of it:
        subscriptions to them end, and what was kept of their changes goes. A transaction, as `define`.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse("r(x) :- e(x)."), facts={"e": [(1,)]})
        >>> _ = s.define("q(x) :- r(x)."); _ = s.drop("r", "q"); s.views
        ()
        """
        if not names:
            raise UsageProblem("drop needs the name of a view")
        return self._edit(lambda planned: planned.drop(names), "nothing was dropped: the session is as it was")

    def _edit(self, made: Callable[[Planned], tuple[Edit, Planned]], outcome: str) -> ChangeLog:
        """Go over to another program in a transaction."""
        with self._lock:
            self._alive()
            runtime = self._runtime
            if runtime.state or runtime.decided is not None:
                self._catch_up()
            edit, planned = made(self._planned)
            self._check_facts(planned)
            runtime.wanted = self._subscribers.relations()
            self._origin = None
            started = time.perf_counter()
            try:
                changes = runtime.edit(edit, planned)
            except OperatorError as error:
                raise explained(planned.program, error, outcome) from raised_by_user(error)
            except BaseException as error:
                self._failed(error, started)
                self._standing(error)
                raise
            finally:
                self._follow_program(runtime.planned)
            log = self._done(changes, started)
        self._subscribers.deliver()
        return log

    def _check_facts(self, planned: Planned) -> None:
        """A definition may tell the type of a column that was not known: then the facts that are there are of it."""
        for name, relation in planned.plan.relations.items():
            if relation.kind != "base" or name not in self._coercers or _kinds(planned, name) == self._kinds(name):
                continue
            coerce = Coercer(name, shown_columns(relation), _kinds(planned, name), _named(planned, name))
            width = len(shown_columns(relation))
            for row in self._runtime.rows(name):
                try:
                    coerce(row[:width])
                except LivelogError as error:
                    why = "this fact is there, and the definition takes it for something else"
                    error.notes = (*error.notes, Note(why))
                    raise


def _kinds(planned: Planned, name: str) -> list[str]:
    """The types of a base relation's columns, as they were planned; where that is any, what rules take them for."""
    known = planned.program.relations.get(name.removesuffix("#facts"))
    types = list(planned.plan.relations[name].types)
    if known is None:  # one that the planner made
        return types
    return [
        kind if kind != "any" else "numeric" if c.type == "any" and c.numeric else c.type
        for c, kind in zip(known.shown, types, strict=False)
    ]


def _named(planned: Planned, name: str) -> bool:
    """Whether the program gives the columns of a base relation their names."""
    known = planned.program.relations.get(name.removesuffix("#facts"))
    return known is not None and known.declared
