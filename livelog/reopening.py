"""Reopening: go on with a session that is kept in a folder, with the same program or, if that is wanted, with another.

A session of another program has facts, and the new program is evaluated over them: where a relation is there in both,
has as many columns, and they take its values. Nothing in the folder is changed before all of that is certain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import datalog
from datalog.errors import LivelogError, Note, UsageProblem
from datalog.tokens import words
from livelog.io.values import format_row
from livelog.operations import Operation
from livelog.planned import Planned
from livelog.runtime.base_files import load_facts
from livelog.runtime.editing import Adoption
from livelog.runtime.local import LocalRuntime
from livelog.runtime.runtime import PLAIN
from livelog.runtime.stored import Store
from livelog.session import Session
from livelog.store.formats import Description
from livelog.store.journal import Journal, describe
from livelog.store.layout import Layout
from planner.plan import Plan

__all__ = ["dated", "history", "is_session", "reopened"]

Row = tuple[Any, ...]
Fact = tuple[str, tuple[Any, ...], int, float | None]
"""A relation, a row of it, how often it is there, and when it was inserted or expires."""


def is_session(directory: Any) -> bool:
    """Whether a folder has a session in it."""
    return Layout(directory).session.exists()


def reopened(checked: datalog.Program, store: Store, migrate: bool = False) -> dict[str, Any]:
    """How a session goes on with what is in a folder: arguments for `Session`, with the folder's journal, open.

    Raises `UsageProblem` where it is another program's, unless it is to `migrate`.
    """
    _same(describe(store.directory), checked, store, migrate)
    journal = Journal.open(store.directory, sync=store.sync, ahead=False, accept_loss=store.accept_loss)
    try:
        if _same(journal.description, checked, store, migrate):
            return {"journal": journal, "resumed": True}
        return {"journal": journal, "history": _migration(journal, checked)}
    except BaseException:
        journal.close()
        raise


@contextlib.contextmanager
def letting_go(how: dict[str, Any]) -> Iterator[None]:
    """Where no session comes of it, the journal among the arguments for one is closed."""
    try:
        yield
    except BaseException:
        if "journal" in how:
            how["journal"].close()
        raise


def _same(told: Description, checked: datalog.Program, store: Store, migrate: bool) -> bool:
    """Whether a session is of a program. Raises `UsageProblem` where that one cannot go on with it."""
    if told.runtime == "spark":
        raise UsageProblem(
            f"the session in {store.directory} is one over Spark: "
            "`livelog resume` goes on with it, or in Python `livelog.resume(folder, livelog.Spark(spark))`"
        )
    other = _other(told, checked)
    if other is not None and not migrate:
        raise UsageProblem(
            f"the session in {store.directory} is of another program ({told.name}; {other}): "
            "`migrate=True` or --migrate evaluates this one over its facts; or choose another folder"
        )
    return other is None


def _other(told: Description, checked: datalog.Program) -> str | None:
    """What makes a program another one than that of a session, if anything does."""
    constants = dict(checked.constants)
    if words(told.program) != words(checked.source.text):
        return "its text is another"
    for name in sorted(told.constants.keys() | constants.keys()):
        if repr(told.constants.get(name)) != repr(constants.get(name)):
            return f"the constant {name} is {told.constants.get(name)!r} there"
    return None


# --- the facts of another program ----------------------------------------------------------------------------


def _migration(journal: Journal, checked: datalog.Program) -> Callable[[Session], list[Operation]]:
    """What brings a session of a new program to the facts of a journal. Nothing of the former program is evaluated.

    Facts that the former text states and the new one does not are left out, and the other way round. What was defined
    and dropped meanwhile counts no more: the new program is as it is written.
    """
    told = journal.description
    if journal.waiting is not None:
        where = journal.layout.directory
        raise UsageProblem(f"the session in {where} has a transaction that is not over: open it with its program first")
    try:
        program = datalog.check(
            datalog.parse(told.program, told.name), constants=told.constants, functions=dict(checked.functions),
            aggregates=dict(checked.aggregates), longest=told.longest,
        )  # fmt: skip
    except LivelogError as error:
        what = "this is the program of the session; what it needs in Python must be there to migrate from it"
        error.notes = (*error.notes, Note(what))
        raise
    first = Planned.of(program, told.select)
    runtime = LocalRuntime(first.after_all(journal.checkpointed_edits), 1, PLAIN, None)
    (worker,) = runtime.workers
    manifest = journal.newest()
    number, clock, partitions = (
        (None, 0.0, 1) if manifest is None else (manifest.number, manifest.clock, manifest.partitions)
    )
    load_facts(journal.layout, number, clock, partitions, worker)
    for entry in journal.entries(number or 0):
        if entry.edit is not None and runtime.planned is not None:
            runtime._adopt_unevaluated(Adoption(entry.edit, runtime.planned.after(entry.edit)))
        worker.absorb(entry.operations)
    plan = runtime.plan
    made = {name for name in plan.facts if name not in first.plan.relations}  # what follows from texts of definitions
    facts = [fact for fact in dated(runtime.export(), plan) if fact[0] not in made]

    def operations(session: Session) -> list[Operation]:
        _check_keys(session, facts)
        former, new = _stated(session, first.plan), _stated(session, session.plan)
        return [
            *history(session, facts, worker.clock),
            *(("-", name, row) for name, row in former if (name, row) not in new),
            *(("+", name, row) for name, row in new if (name, row) not in former),
        ]

    return operations


def dated(facts: Iterable[Fact], plan: Plan) -> Iterator[Fact]:
    """Facts with the times at which they were inserted, where these count, in place of those at which they expire; a
    stream has them among its columns."""
    for name, t, copies, when in facts:
        if plan.relations[name].stream:
            yield name, t[:-1], copies, float(t[-1])
            continue
        ttl = plan.relations[name].ttl
        yield name, t, copies, None if when is None or ttl is None else when - ttl


def history(session: Session, facts: Iterable[Fact], clock: float) -> list[Operation]:
    """What brings a session that has no facts to those of another one, by the times of their insertion."""
    operations: list[Operation] = []
    lasting: list[Operation] = []
    mortal: list[tuple[float, Operation]] = []
    for name, t, copies, when in facts:
        target = _target(session, name)
        row = session._coercers[target](t)
        relation = session.plan.relations[target]
        if when is None or (relation.ttl is None and not relation.stream):
            lasting.extend([("+", target, row)] * copies)
        else:
            mortal.extend([(when, ("+", target, row))] * (copies if relation.stream else 1))
    time = 0.0
    for when, operation in sorted(mortal, key=lambda entry: entry[0]):
        if when > time:
            operations.append(("@", None, time := when))
        operations.append(operation)
    return [*operations, ("@", None, clock), *lasting]


def _target(session: Session, name: str) -> str:
    """Where a session has the facts of a relation."""
    name = name.removesuffix("#facts")
    try:
        return session._fact_relation(name)
    except UsageProblem:
        raise UsageProblem(f"the program has no relation `{name}` for the facts that are there") from None


def _stated(session: Session, plan: Plan) -> dict[tuple[str, Row], None]:
    """The facts that a program states in its text, under the names that a session has for their relations."""
    found = {}
    for name, rows in plan.facts.items():
        with contextlib.suppress(UsageProblem):  # a relation that is no more, and has no facts any more
            target = _target(session, name)
            found.update(dict.fromkeys((target, session._coercers[target](row)) for row in rows))
    return found


def _check_keys(session: Session, facts: Iterable[Fact]) -> None:
    """Each fact has a key of its own."""
    known: dict[tuple[str, Row], Row] = {}
    for name, t, _, _ in facts:
        target = _target(session, name)
        if key := session.plan.relations[target].key:
            other = known.setdefault((target, tuple([t[i] for i in key])), t)
            if other is not t:
                both = f"{format_row(name, other)} and {format_row(name, t)}"
                raise UsageProblem(f"two facts that are there have the same key now: {both}")
