"""How a session begins: `livelog.open` and `livelog.resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import datalog
from datalog.errors import UsageProblem
from datalog.growth import amended
from livelog.arguments import check_opening, check_resuming
from livelog.memory import Memory
from livelog.methods import LIMIT
from livelog.operations import Operation
from livelog.reopening import dated, history, is_session, letting_go, reopened
from livelog.runtime.collecting import without_collections
from livelog.runtime.journaled import Journaled
from livelog.runtime.local import LocalRuntime
from livelog.runtime.spark.config import Spark
from livelog.runtime.spark.tls import TLS
from livelog.runtime.stored import Store
from livelog.session import Session
from livelog.store.journal import describe
from livelog.timing import check_time

__all__ = ["open", "resume", "with_rules"]


def open(  # the name that a person expects: livelog.open
    program: str | Path | datalog.Program,
    *,
    facts: str | Path | Mapping[str, Iterable[Any]] | None = None,
    partitions: int = 1,
    runtime: Spark | None = None,
    strategy: str = "absorption",
    ship: str | None = None,
    constants: Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Callable[[list[Any]], Any]] | None = None,
    limit: int = LIMIT,
    memory: Memory | int | str | None = None,
    timeout: float | None = None,
    longest: int | None = None,
    seed: int | None = None,
    select: bool = True,
    script: str | None = None,
    store: str | Path | None = None,
    sync: str = "always",
    migrate: bool = False,
    clock: float | None = None,
) -> Session:
    """Open a program: load its facts, evaluate it, and keep it fresh from then on.

    `program` is the path of a `.dl` file, the text of a program (what has a line break or `:-` in it), or one from
    `datalog.parse`. `facts` is a folder of fact files, or a mapping from relations to rows: tuples, dicts by column
    name, or a frame of pandas or polars, a table of Arrow, an array of numpy. `constants` set or override the
    program's `.const`s; `functions` and `aggregates` are Python callables for use in rules (an aggregate takes the
    list of values, or is made by `livelog.aggregate`). `limit` is the number of tuples that one transaction may add to
    a recursive component before it is taken for one without end; what a rule that is not recursive may add is as many
    more as there are tuples in what it reads. `memory` is what the session may take: bytes, or as in "2GB", beside what
    the process holds when it is opened; by default the process may hold three quarters of what the machine or its
    control group has. `timeout` are the seconds that a transaction may take. `longest` is how many characters a text,
    and elements a list, may have that a rule makes (by default 16 Mi and 1 Mi). Whatever passes a limit ends in an
    error that names the rule, and the session is as before. `seed` shuffles the messages between partitions: the
    results never depend on it. `select=False` turns aggregate selection off, to see what it saves.

    `strategy` is how recursive views are maintained: "absorption" (with `ship` "demand", "lazy" or "eager"), or one of
    the baselines it is compared with: "relative" (`ship` "lazy" or "eager"), "dred", and "recompute".

    `store` is a folder in which the session is kept. Where it has one already, that is gone on with: its facts count,
    and `facts` are not loaded again. A commit is durable before it is told (`sync="always"`), or a fraction of a second
    later (`"interval"`). A session of another program is refused; with `migrate=True` the new one is evaluated over its
    facts.

    `clock` is the time at which a new session begins and its facts are loaded, 0 if it is not given.
    `script` is the path of an update script that feeds the session, noted for `livelog resume`.
    `runtime` runs the partitions somewhere else than in this process: `livelog.Spark(spark, partitions=6)`. The rows of
    a relation in `facts` may then also be a DataFrame of Spark.

    >>> s = open("twice(x, y) :- n(x), y = double(x).", facts={"n": [(1,), (2,)]},
    ...          functions={"double": lambda x: 2 * x})
    >>> list(s["twice"])
    [(1, 2), (2, 4)]
    """
    check_opening(
        program, facts=facts, partitions=partitions, strategy=strategy, ship=ship, constants=constants,
        functions=functions, aggregates=aggregates, limit=limit, seed=seed, select=select, script=script,
        migrate=migrate, clock=clock,
    )  # fmt: skip
    kept = None if store is None else Store(store, sync)
    if isinstance(program, str) and ("\n" in program or ":-" in program):
        program = datalog.parse(program)
    elif isinstance(program, (str, Path)):
        path = Path(program)
        try:
            data = path.read_bytes()
        except OSError as e:
            how = "" if isinstance(program, Path) else "; text is taken for a program if it has a line break or `:-`"
            raise UsageProblem(f"cannot read the program {str(program)!r}: {e.strerror or e}{how}") from None
        program = datalog.parse(datalog.decode(data, str(program)), str(program))
    if longest is not None and (isinstance(longest, bool) or not isinstance(longest, int) or longest < 1):
        raise UsageProblem(f"longest= is a whole number of at least 1, not {longest!r}")
    memory = memory if isinstance(memory, Memory) else Memory(memory)  # before anything is loaded

    def opened() -> Session:
        checked = datalog.check(
            program, constants=constants or {}, functions=functions or {}, aggregates=aggregates or {}, longest=longest
        )
        how: dict[str, Any] = {"script": script, "memory": memory, "timeout": timeout, "store": kept}
        how["clock"] = None if clock is None else check_time(clock)
        if kept is not None and runtime is None and is_session(kept.directory):
            how |= reopened(checked, kept, migrate)
            how["script"] = script or how["journal"].description.script  # it is fed by that one still
        with letting_go(how):
            return Session(checked, facts, partitions, strategy, ship, limit, seed, select, runtime, **how)

    return without_collections(opened)  # what is made of a program is many objects, and all of them stay


def resume(
    directory: str | Path,
    runtime: Spark | None = None,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Callable[[list[Any]], Any]] | None = None,
    accept_loss: bool = False,
    sync: str = "always",
) -> Session:
    """Go on with a session that is kept in a folder: its `store`, or over Spark its `checkpoint`.

    All transactions that were committed, and the one that was under way if there was one, are there. Python functions
    of the program are not stored, and must be given again. `runtime.partitions` may be another number than before.
    A log that has lost transactions at its end is refused, with their numbers; `accept_loss=True` goes on without them.
    """
    check_resuming(directory, runtime, functions=functions, aggregates=aggregates)
    told = describe(directory)
    if runtime is None and told.runtime == "spark":
        how_to = "`livelog.resume(folder, livelog.Spark(spark))`"
        raise UsageProblem(f"the session in {directory} is one over Spark: {how_to} goes on with it")
    program = datalog.parse(told.program, told.name)
    checked = datalog.check(
        program, constants=told.constants, functions=functions or {}, aggregates=aggregates or {}, longest=told.longest
    )
    how: dict[str, Any] = {"script": told.script, "memory": told.memory, "timeout": told.timeout, "resumed": True}
    partitions = 1
    if runtime is None:
        kept = Store(directory, sync, accept_loss)
        how |= {"store": kept, **reopened(checked, kept)}
        partitions = told.partitions
    else:
        tls = runtime.tls or TLS.of(told.tls)  # what was encrypted stays so
        runtime = replace(runtime, checkpoint=directory, accept_loss=accept_loss, tls=tls)
    limit = LIMIT if told.limit is None else told.limit
    with letting_go(how):
        return without_collections(
            lambda: Session(
                checked, None, partitions, told.strategy, told.ship or None, limit, None, told.select, runtime, **how
            )
        )


def with_rules(session: Session, text: str) -> Session:
    """A session over the same facts with more rules or declarations, of whatever is there or not. Costs a load; the
    given session stays as it is. (For new views see `Session.define`.)

    Facts keep the times at which they expire, and the clock its time.

    >>> s = open(datalog.parse("r(x, y) :- e(x, y)."), facts={"e": [(1, 2)]})
    >>> more = with_rules(s, "back(y, x) :- r(x, y).")
    >>> list(more["back"])
    [(2, 1)]
    """
    known = session.program
    checked = amended(known, text)
    runtime = session._runtime
    if isinstance(runtime, Journaled):
        what = "in a store" if isinstance(runtime, LocalRuntime) else "over Spark"
        raise UsageProblem(f"rules can be added to a session in this process alone, not to one {what}")
    assert isinstance(runtime, LocalRuntime)
    if any(relation.kind == "kept" for relation in session.plan.relations.values()):
        raise UsageProblem(
            "what reads `at` points and times of tuples rest on does not follow from the facts as they are now: rules "
            "cannot be added to a session that has such"
        )

    def brought(opened: Session) -> list[Operation]:
        """The facts that are there, and those that the text adds."""
        known = {(name, tuple(row)) for name, rows in session.plan.facts.items() for row in rows}
        stated = [(name, tuple(row)) for name, rows in opened.plan.facts.items() for row in rows]
        return [
            *history(opened, dated(runtime.export(), session.plan), runtime.clock),
            *(("+", name, opened._coercers[name](row)) for name, row in stated if (name, row) not in known),
        ]

    return Session(
        checked, None, session.partitions, session.strategy, session.ship or None, session._limit, None,
        session._planned.select, memory=session._watch.memory, timeout=session._watch.timeout, history=brought,
    )  # fmt: skip
