"""Session: the engine that a person holds."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf, nextafter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import datalog
import planner
from datalog.errors import RuntimeProblem, UsageProblem
from livelog.arguments import check_callback, check_origin, check_row, check_rows
from livelog.changes import ChangeLog, Changes, Step, SteppedLog
from livelog.definitions import Defining
from livelog.failure import explained, raised_by_user
from livelog.following import Following
from livelog.frames import check_functions, frames_apart, is_frame
from livelog.io.facts import load_facts
from livelog.io.values import format_row
from livelog.memory import Memory
from livelog.methods import ship_mode
from livelog.operations import Operation
from livelog.planned import Planned
from livelog.realtime import TICK, RealClock
from livelog.runtime.collecting import without_collections
from livelog.runtime.journaled import Journaled
from livelog.runtime.limits import Watch
from livelog.runtime.local import LocalRuntime
from livelog.runtime.runtime import Runtime
from livelog.runtime.spark.config import Spark
from livelog.runtime.stored import Store, StoredRuntime
from livelog.runtime.worker import Sides
from livelog.shown import is_kept, named, not_kept, settled
from livelog.stats import PartitionStats, Stats
from livelog.store.formats import Description
from livelog.store.journal import Journal
from livelog.subscribers import SubscriberProblem, Subscribers
from livelog.timing import overtaken
from livelog.transaction import Transaction
from livelog.view import View
from livelog.why import Instant, Reason, explain, tuples_of
from operators.columns import Bulk
from operators.errors import OperatorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from livelog.runtime.spark.runtime import Pushed, SparkRuntime

__all__ = ["Session"]

Tuple = tuple[Any, ...]

ABSORPTION = ("absorption", "demand")
WHOLE = 500_000  # tuples of a pruned relation that are evaluated for somebody who asks to see all of it


class Session(Defining):
    """A program under change. Made by `livelog.open`.

    `program` is the checked program and `plan` how it is run. `initial` tells what the load at opening brought.
    Between transactions, `session[relation]` shows any relation of the program.

    Several threads may use a session: transactions are committed one after the other, and whoever reads sees the state
    after one of them, never a part of one. A reader waits for the commit under way, and a commit for readers. `close`
    waits for both; what comes after it finds the session closed.

    >>> import datalog, livelog
    >>> program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    >>> s = livelog.open(program, facts={"e": [(1, 2)]})
    >>> with s.transaction() as tx:
    ...     tx.insert("e", (2, 3))
    >>> tx.changes["r"].inserted
    [(1, 3), (2, 3)]
    """

    rerun: tuple[int | None, ChangeLog] | None = None
    """After `resume`: the transaction that was under way, by its position in the script, and what it changed."""

    def __init__(
        self,
        program: datalog.Program,
        facts: str | Path | Mapping[str, Iterable[Any]] | None,
        partitions: int,
        strategy: str,
        ship: str | None,
        limit: int,
        seed: int | None,
        select: bool,
        spark: Spark | None = None,
        *,
        resumed: bool = False,
        script: str | None = None,
        memory: Memory | int | str | None = None,
        timeout: float | None = None,
        store: Store | None = None,
        journal: Journal | None = None,
        history: Callable[[Session], list[Operation]] | None = None,
        clock: float | None = None,
    ) -> None:
        """`resumed` goes on with what the folder of the session holds, for a `store` with its `journal`; `history`
        makes the operations that bring another session's facts, in place of loading some. `clock` is when these are
        loaded."""
        ship = ship_mode(strategy, ship)
        if spark is not None:
            if not isinstance(spark, Spark):
                raise UsageProblem(f"runtime= takes livelog.Spark(spark, ...), not {type(spark).__name__}")
            if store is not None:
                raise UsageProblem("over Spark, the folder of a session is `livelog.Spark(spark, checkpoint=...)`")
            if partitions not in (1, spark.partitions):
                raise UsageProblem(f"the runtime has {spark.partitions} partitions, and `partitions` is {partitions}")
            partitions = spark.partitions
        if partitions < 1:
            raise UsageProblem(f"a session needs at least one partition, not {partitions}")
        if limit < 1:
            raise UsageProblem(f"the limit must be positive, not {limit}")
        edits = journal.checkpointed_edits if resumed and journal is not None else ()
        self._take(Planned.of(program, select).after_all(edits))
        memory = memory if isinstance(memory, Memory) else Memory(memory)
        self._watch = Watch(self.plan, memory, timeout)
        self.strategy = strategy
        self.ship = ship
        self.partitions = partitions
        self._absent = 0  # deletions by key that met nothing
        self._subscribers = Subscribers()
        self._positions: dict[str, int] = {}  # of a session without a log
        self._closed = False
        self._real: RealClock | None = None
        self._attended = False  # closed, or with a real clock: each transaction is looked at before it begins
        self._interrupted: tuple[BaseException, ChangeLog] | None = None
        self._origin: dict[str, Any] | None = None
        self._opened = 1  # transactions of the runtime that are none of a person's: the load at opening
        self._seconds = self._last_seconds = 0.0
        self._limit = limit
        self._whole: tuple[Runtime, Instant] | None = None  # what is evaluated without pruning, until the next change
        frames, rest = frames_apart(facts)
        operations = [] if resumed or history else self._loaded(rest, bulk=spark is None)
        self._runtime: Runtime = self._made(spark, seed, frames, resumed, script, store, journal)
        self._lock = self._runtime.lock
        self._journaled = self._runtime if isinstance(self._runtime, Journaled) else None
        try:
            if resumed:
                self._resumed()
                return
            if clock is not None:
                operations.insert(0, ("@", None, clock))
            self.initial = self._commit(history(self) if history else operations)
            if isinstance(self._runtime, StoredRuntime):
                self._runtime.found()
            elif frames:
                self.checkpoint()  # from here on the DataFrames are not needed any more
        except BaseException:
            self.close()
            raise

    def _resumed(self) -> None:
        """Be where the journal is."""
        runtime = self._with_journal
        if isinstance(runtime, StoredRuntime):
            try:
                without_collections(runtime.go_on)
            except OperatorError as error:
                raise self._explained(error, "the session cannot be gone on with") from raised_by_user(error)
        self._follow_program(runtime.planned)
        self._opened = runtime.committed
        self.initial = ChangeLog(self._views, {}, runtime.journal.published, runtime.clock, self._keys)
        if (again := runtime.rerun) is not None:
            self.rerun = again[0].position, self._log(again[1], again[0].number)

    def _made(
        self,
        spark: Spark | None,
        seed: int | None,
        frames: dict[str, Any],
        resumed: bool,
        script: str | None,
        store: Store | None,
        journal: Journal | None,
    ) -> Runtime:
        method = (self.strategy, self.ship)
        sizes = self._planned.sizes
        if spark is None:
            if frames:
                name = next(iter(frames))
                raise UsageProblem(f"`{name}` is a DataFrame of Spark: that needs `runtime=livelog.Spark(...)`")
            how = (self._planned, self.partitions, method, self._limit, seed, sizes, self._watch)
            if store is None:
                return LocalRuntime(*how)
            stored = StoredRuntime(*how, store, self._description("local", script, None), journal)
            weakref.finalize(self, stored.close)
            return stored
        from livelog.runtime.spark.runtime import SparkRuntime

        check_functions({**self.program.functions, **self.program.aggregates})
        data = None
        for name, frame in frames.items():
            hashed = self._hashed(name, frame)
            data = hashed if data is None else data.unionAll(hashed)
        if data is not None:
            from livelog.runtime.spark.dataframes import gathered

            data = gathered(data, self.partitions)
        tls = None if spark.tls is None else spark.tls.paths()
        description = None if resumed else self._description("spark", script, tls)
        runtime = SparkRuntime(self._planned, method, self._limit, sizes, spark, description, data, self._watch)
        weakref.finalize(self, runtime.close)  # for those who forget to close a session: its slots are others' again
        return runtime

    def _description(
        self, runtime: Literal["local", "spark"], script: str | None, tls: dict[str, str] | None
    ) -> Description:
        """What is opened, as its folder tells it."""
        source = self.program.source
        return Description(
            name=source.name, program=source.text, constants=dict(self.program.constants), strategy=self.strategy,
            ship=self.ship, limit=self._limit, select=self._planned.select, partitions=self.partitions, runtime=runtime,
            script=script, memory=self._watch.memory.size if self._watch.memory else None, timeout=self._watch.timeout,
            longest=self.program.longest, tls=tls,
        )  # fmt: skip

    def _hashed(self, name: str, frame: Any, sign: str = "+") -> Any:
        """A DataFrame's rows, divided among the owners."""
        from livelog.runtime.spark.dataframes import hashed

        target = self._fact_relation(name)
        return hashed(frame, self.plan.relations[target].given, self._kinds(target), self.partitions, sign)

    @property
    def _spark(self) -> SparkRuntime:
        """The runtime, for what only exists over Spark."""
        from livelog.runtime.spark.runtime import SparkRuntime

        self._alive()
        if not isinstance(self._runtime, SparkRuntime):
            raise UsageProblem("this needs a session over Spark: `livelog.open(..., runtime=livelog.Spark(spark))`")
        return self._runtime

    @property
    def _with_journal(self) -> Journaled:
        """The runtime, for what only exists where transactions are logged."""
        self._alive()
        if self._journaled is None:
            raise UsageProblem("this needs a session with a folder: `livelog.open(..., store=...)`, or one over Spark")
        return self._journaled

    def _loaded(
        self, facts: str | Path | Mapping[str, Iterable[Any]] | None, bulk: bool
    ) -> list[Operation]:
        """The facts of the program text and of files or mappings, as operations: one for each source if in `bulk`."""
        operations: list[Operation] = []
        for name, stated in self.plan.facts.items():
            operations.extend([("+", name, self._coercers[name](row)) for row in stated])
        if isinstance(facts, (str, Path)):
            sources: Iterable[tuple[str, Iterable[Any]]] = load_facts(self.program, facts)
        else:
            sources = (facts or {}).items()
        for name, rows in sources:
            target = self._fact_relation(name)
            coerce = self._coercers[target]
            given = rows if isinstance(rows, Bulk) else coerce.all(rows)
            operations.extend([("++", target, given)] if bulk else [("+", target, row) for row in given])
        return operations

    def _fact_relation(self, name: str) -> str:
        """Where loaded facts of a relation go: relations with rules keep theirs apart."""
        if name in self._coercers:
            return name
        if f"{name}#facts" in self._coercers:
            return f"{name}#facts"
        raise self._no_updates(name)

    def _no_updates(self, name: str) -> UsageProblem:
        if isinstance(name, str) and name in self.program.derived:
            return UsageProblem(f"`{name}` is a view: its tuples follow from rules and cannot be updated")
        bases = ", ".join(sorted(self._updatable)) or "none"
        return UsageProblem(f"the program has no relation `{name}` to update (base relations: {bases})")

    # --- transactions ----------------------------------------------------------------------------------------

    def transaction(self, source: str | None = None, position: int | None = None) -> Transaction:
        """A transaction, for use in a `with` block: it commits at the end, or not at all.

        `source` and `position` say where it comes from: with it, `session.position(source)` becomes `position`. Over
        Spark they are in the log, and there after a crash; else they last as long as the session.
        """
        if self._closed:
            self._alive()
        if source is not None or position is not None:
            check_origin(source, position)
        return Transaction(self, source, position)

    def load(self, relation: str, rows: Iterable[Any]) -> ChangeLog:
        """Insert many rows into a base relation, in one transaction: a list of them, a frame, a table, an array.

        Over Spark, a DataFrame goes from its own partitions to the owners of its rows, and never through this process.
        """
        check_rows(relation, rows)
        if is_frame(rows):
            self._spark  # noqa: B018  (or it says what is needed)
            return self._commit_frames([self._hashed(relation, rows)])
        with self.transaction() as tx:
            tx.insert_all(relation, rows)
        return tx.changes

    @property
    def initial_steps(self) -> tuple[Step, ...]:
        """The steps of the load at opening, as `tx.steps` has those of a transaction."""
        return self.initial.steps

    def subscribe(
        self, relation: str, callback: Callable[[Changes], None], form: str = "streamed"
    ) -> Callable[[], None]:
        """Call `callback` with the changes of a view after each transaction that changed it, from the next one on.

        Returns a function that ends the subscription.

        A transaction that moves the clock over several points of time is several steps (see `Transaction.steps`), and
        the callback is called for each that changed the view, in order. With `form="complete"` the changes that it gets
        have `rows` as well: all of the view after the step. A transaction that changes the view then takes
        O(view) more.

        Subscribers are called after the commit, one at a time and in the order of transactions, whichever threads
        commit. A callback may read the session, which may be further on by then, and commit, subscribe, unsubscribe and
        close: what it commits is told after what is being told. If one raises, the others are told all the same, and
        `commit` raises a `SubscriberProblem` afterwards: the transaction stands.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse("r(x) :- e(x)."))
        >>> stop = s.subscribe("r", lambda changes: print(changes.transaction, changes, sep=": "))
        >>> _ = s.load("e", [(1,)])
        1: +r(1)
        >>> stop(); _ = s.load("e", [(3,)])
        """
        check_callback(relation, callback, form)
        with self._lock:
            self._alive()
            if relation in self.plan.pruned:
                raise UsageProblem(
                    f"of `{relation}` only the best tuples are kept (aggregate selection), so there are no changes to "
                    f"follow; `.output {relation}` in the program keeps it whole"
                )
            if relation not in self._views:
                raise UsageProblem(f"`{relation}` is not a view of the program (views: {', '.join(self._views)})")
            if form == "complete" and self.plan.relations[relation].bag:
                raise UsageProblem(f"`{relation}` may have a row more than once: only its changes can be told")
            return self._subscribers.add(relation, callback, form == "complete").end

    def _commit(self, operations: list[Operation], origin: dict[str, Any] | None = None) -> ChangeLog:
        """Run a transaction, and tell subscribers; `origin` tells the log where it comes from."""
        log = self._transact(operations, origin=origin)
        self._subscribers.deliver()
        return log

    def _commit_frames(self, frames: list[Any], query: tuple[str, int] | None = None) -> ChangeLog:
        """The same for DataFrames, over Spark. Their rows may come from a view of this session: no lock is held."""
        started = time.perf_counter()
        pushed = self._spark.push_frames(frames, query)
        log = self._transact([], None, {"query": query}, pushed, started)
        self._subscribers.deliver()
        return log

    def _transact(
        self,
        operations: list[Operation],
        first: float | None = None,
        origin: dict[str, Any] | None = None,
        pushed: Pushed | None = None,
        started: float | None = None,
    ) -> ChangeLog:
        """Run a transaction, and queue what subscribers will hear of it.

        `first` is where it moves the clock to first, and `pushed` are rows that are with the workers already.
        """
        with self._lock:
            runtime = self._runtime
            left = runtime.state or runtime.decided is not None
            if left or first is not None or self._subscribers.all or self._attended:
                self._prepare(operations, first)
            self._whole = None
            self._origin = origin
            if started is None:
                started = time.perf_counter()
            try:
                changes = runtime.run(operations) if origin is None else self._run_of(operations, origin, pushed)
            except BaseException as error:
                self._failed(error, started)
                raise
            return self._done(changes, started)

    def _prepare(self, operations: list[Operation], first: float | None) -> None:
        """Look whether a transaction can begin, and do what was left to be done before it. With the lock held."""
        self._alive()
        runtime = self._runtime
        if runtime.state or runtime.decided is not None:
            self._catch_up()
        if first is not None and first < runtime.clock:  # another transaction was faster
            raise overtaken(operations, first, runtime.clock)
        if self._real is not None:
            self._real.stamp(operations, first, runtime.clock)
        runtime.wanted = self._subscribers.relations()

    def _run_of(self, operations: list[Operation], origin: dict[str, Any], pushed: Pushed | None) -> dict[str, Sides]:
        """Run a transaction that comes from somewhere."""
        if pushed is None:
            return self._runtime.run(operations, **origin)
        return self._spark.run_pushed(pushed, **origin)

    def _failed(self, error: BaseException, started: float) -> None:
        """A transaction ended with an error. One of the engine's own is raised again here, as people hear it."""
        if (stands := self._runtime.standing) is not None:  # it came too late
            self._interrupted = error, self._done(stands, started)
        if isinstance(error, OperatorError):
            raise self._explained(error) from raised_by_user(error)

    def _done(self, changes: dict[str, Sides], started: float) -> ChangeLog:
        """A transaction was committed: count it, and queue what subscribers will hear of it. With the lock held."""
        runtime = self._runtime
        if runtime.coming is not None or runtime.planned is not self._planned:
            self._follow_program(runtime.coming or runtime.planned)
        self._last_seconds = seconds = time.perf_counter() - started
        self._seconds += seconds
        # the log's, also where its changes are yet to be published
        if self._journaled is not None:
            number = self._journaled.journal.number
        else:
            number = (runtime.state or runtime.committed) - self._opened
        if self._synced is not None or self._shown_bases:
            log = self._log(changes, number)
        else:
            log = ChangeLog(self._views, changes, number, runtime.clock, self._keys)
        if (origin := self._origin) is not None and origin.get("position") is not None:
            self._positions[origin["source"]] = origin["position"]
        if self._subscribers.all:
            self._subscribers.publish(log, lambda name: View(self, name)._rows())
        runtime.decided = None
        return log

    def _catch_up(self) -> None:
        """What an interrupt has left: a transaction to be undone or completed, and one that nobody was told of yet."""
        runtime = self._settled()
        if runtime.decided is not None:
            self._done(runtime.decided, time.perf_counter())

    def _standing(self, error: BaseException) -> ChangeLog | None:
        """What a transaction has changed whose commit was interrupted by an error, if it stands nevertheless."""
        if self._interrupted is None or self._interrupted[0] is not error:
            return None
        log, self._interrupted = self._interrupted[1], None
        try:
            self._subscribers.deliver()
        except SubscriberProblem as problem:
            raise error from problem
        return log

    def _log(self, changes: dict[str, Sides], number: int) -> ChangeLog:
        """The changes of a transaction that was just committed, with its steps if there may be several."""
        runtime = self._runtime
        changes = self._settled_sides(changes)
        if self._synced is None:
            return ChangeLog(self._views, changes, number, runtime.clock, self._keys)
        passed = tuple([replace(step, changes=self._settled_sides(step.changes)) for step in runtime.steps])
        return SteppedLog(self._views, changes, number, runtime.clock, self._keys, passed, self._synced)

    def _settled_sides(self, changes: dict[str, Sides]) -> dict[str, Sides]:
        """Changes as they can be kept: those of a base relation may refer to its table, which goes on changing, and
        those of a stream have the times of its tuples."""
        shown = [name for name in self._shown_bases if name in changes]
        if not shown:
            return changes
        relations = self.plan.relations
        return {**changes, **{name: settled(changes[name], relations[name].stream) for name in shown}}

    def _idle(self, when: float) -> bool:
        """Whether the clock need not be moved to a time: nothing happens until then, and where the session is kept in a
        folder, the log is spared an entry that says so."""
        with self._lock:
            self._alive()
            runtime = self._runtime
            later = nextafter(when, inf)
            return isinstance(runtime, StoredRuntime) and self._settled()._first_due(later) >= later

    def _count_absent(self, count: int) -> None:
        """So many deletions by key of a transaction that stands met nothing."""
        with self._lock:
            self._absent += count

    def _explained(self, error: OperatorError, outcome: str = "the transaction was rolled back") -> RuntimeProblem:
        return explained(self.program, error, outcome)

    # --- reading ---------------------------------------------------------------------------------------------

    def __getitem__(self, relation: str) -> View:
        self._alive()
        if not isinstance(relation, str) or not is_kept(self.plan, relation):
            if relation in self:
                raise KeyError(not_kept(relation))
            names = ", ".join(sorted(named(self.program)))
            raise KeyError(f"the program has no relation {relation!r} (it has {names})")
        return View(self, relation)

    def __contains__(self, relation: object) -> bool:
        return isinstance(relation, str) and relation in named(self.program)

    @property
    def views(self) -> tuple[str, ...]:
        """The relations whose changes are published: views, less those of which only the best tuples are kept."""
        return self._views

    @property
    def clock(self) -> float:
        """The time that expirations, windows and `at` go by; it starts at 0, unless `open` is told otherwise, and moves
        with `advance_to` and the times of operations, or by itself with `follow_clock`."""
        with self._lock:
            self._alive()
            return self._settled().clock

    def follow_clock(self, tick: float = TICK, now: Callable[[], float] = time.time) -> RealClock:
        """Move the clock with real time, in a `with` block: every `tick` seconds, and with every transaction.

        The time is that of `now`: the seconds since 1970, so that the points of `every(60)` are those where a minute
        begins. A session that begins at 0 jumps there; `livelog.open(..., clock=time.time())` lets it begin there,
        where the facts that are loaded are to expire or to be in a window. See `RealClock` for errors.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse(".decl e(x: number) ttl(30) r(x) :- e(x)."), clock=1000)
        >>> with s.follow_clock(now=lambda: 1020.5):
        ...     _ = s.load("e", [(1,)])
        >>> s.clock
        1020.5
        """
        return RealClock(self, tick, now)

    def _follow(self, clock: RealClock | None) -> None:
        """Let a clock move that of the session, or none any more."""
        with self._lock:
            self._real = clock
            self._attended = self._closed or clock is not None

    def position(self, source: str) -> int:
        """The position of the last transaction from a source that was committed; 0 if there was none.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse("r(x) :- e(x)."))
        >>> with s.transaction(source="feed", position=17) as tx:
        ...     tx.insert("e", (1,))
        >>> s.position("feed"), s.position("another")
        (17, 0)
        """
        check_origin(source, None)
        with self._lock:
            self._alive()
            if self._journaled is not None:
                return self._journaled.journal.position(source) or 0
            return self._positions.get(source, 0)

    def why(self, relation: str, row: Iterable[Any]) -> Reason:
        """Facts from which a tuple follows: with these alone, it would be there too. A list of (relation, row).

        Its `absent` are the tuples that must not be there, its `groups` the aggregates that the tuple rests on;
        printed, it tells all of them. Facts of a bag stand in it once for each copy that counts. Tuples that are read
        `at` points are told as they were at the last one, of the relation `r at s`; those in a window as what they are.

        O(facts told, and tuples between them and this one) and a few passes over the relations in between. Where an
        absence or an aggregate rests on others, the program is evaluated from the facts told, at least once. All
        strategies but absorption evaluate the whole program first, to know derivations.

        >>> import datalog, livelog
        >>> program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
        >>> s = livelog.open(program, facts={"e": [(1, 2), (2, 3), (3, 4)]})
        >>> s.why("r", (1, 3))
        [('e', (1, 2)), ('e', (2, 3))]
        """
        t = check_row(self, relation, row)
        with self._lock:
            return self._why(relation, t)

    def _why(self, relation: str, t: Tuple) -> Reason:
        """The same of a tuple that is in order. With the lock held."""
        if t not in self[relation]:
            raise UsageProblem(f"{format_row(relation, t)} does not hold: there is nothing to explain")
        if self.plan.relations[relation].stream:
            return Reason([(relation, t)])
        if not self._runtime.has(relation, t):
            runtime = self._runtime_of(relation)
            return explain(runtime, relation, t, self._limit, self._whole[1] if self._whole is not None else None)
        if self.strategy == "absorption":
            return explain(self._runtime, relation, t, self._limit)
        instant = Instant(self.plan)
        return explain(self._beside(instant, None), relation, t, self._limit, instant)

    def _runtime_of(self, relation: str) -> Runtime:
        """Where a relation can be read: one that is pruned is evaluated whole, once per transaction at most.

        With the lock held.
        """
        self._alive()
        runtime = self._settled()
        if relation not in self.plan.pruned:
            return runtime
        if self._whole is None:
            try:
                instant = Instant(planner.plan(self.program, select=False))
                self._whole = self._beside(instant, min(self._limit, WHOLE)), instant
            except OperatorError as e:
                why = f"only the best tuples of `{relation}` are kept; to show all of them they must be evaluated"
                raise self._explained(e, why) from raised_by_user(e)
        return self._whole[0]

    def _settled(self) -> Runtime:
        """The runtime, after what an interrupt may have left to be undone or completed."""
        if self._runtime.state:
            try:
                self._runtime.restore()
            except OperatorError as e:
                raise self._explained(e, "the views cannot be shown while the rule fails") from raised_by_user(e)
        return self._runtime

    def _beside(self, instant: Instant, limit: int | None) -> Runtime:
        """The facts as they are now, evaluated by another plan, or with provenance where the session keeps none.

        What follows from the clock, or was kept from before, is there as it is now.
        """
        watch = Watch(instant.plan, self._watch.memory, self._watch.timeout)
        runtime = LocalRuntime(instant.plan, 1, ABSORPTION, limit, watch=watch)
        for name, relation in instant.plan.relations.items():
            if relation.tolerance is not None:  # it should show what is shown here
                runtime.remember(name, self._runtime.rows(name))
        facts: list[Operation] = [("+", name, t) for name, t, copies in self._runtime.facts() for _ in range(copies)]
        for name in instant.heads:
            facts += [("+", name, t) for t in tuples_of(self._runtime, instant, name).elements()]
        runtime.run(facts)
        return runtime

    @property
    def bytes_shipped(self) -> tuple[int, ...]:
        """Bytes that each partition has sent to others so far. O(partitions), unlike `stats`."""
        with self._lock:
            self._alive()
            return tuple(self._runtime.bytes_shipped)

    @property
    def frames_shipped(self) -> tuple[int, ...]:
        """Frames that each partition has sent to others so far. O(partitions), unlike `stats`."""
        with self._lock:
            self._alive()
            return tuple(self._runtime.frames_shipped)

    def stats(self) -> Stats:
        """What the session has cost so far. O(state): it measures everything that is kept."""
        with self._lock:
            self._alive()
            self._settled()
            return self._measured()

    def _measured(self) -> Stats:
        """The same of whatever state there is, in the middle of a transaction, too."""
        runtime = self._runtime
        measures = runtime.measures()
        ignored = [(m.pop("ignored_inserts"), m.pop("ignored_deletes")) for m in measures]
        return Stats(
            runtime.committed - self._opened,
            runtime.clock,
            self._seconds,
            self._last_seconds,
            sum(inserts for inserts, _ in ignored),
            sum(deletes for _, deletes in ignored) + self._absent,
            tuple(
                PartitionStats(i, runtime.bytes_shipped[i], runtime.frames_shipped[i], **m)
                for i, m in enumerate(measures)
            ),
            tuple(runtime.skew()),
            runtime.aggregates(),
        )

    # --- the folder ------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the facts down now, so that recovery need not go through the log. Happens now and then by itself."""
        self._with_journal.checkpoint()

    @property
    def directory(self) -> Path:
        """The folder with the log and the checkpoints."""
        return self._with_journal.journal.layout.directory

    def changes(self, view: str, since: int | None = None, name: str | None = None) -> Following:
        """The change log of a view: what every transaction changed in it, each once, in this process or another one.

        `since` is a transaction: what came after it is read. Without it everything is that is kept. A follower with a
        `name` goes on where the last one of this name stopped, and nothing is removed that it has yet to read.

        >>> import datalog, livelog, tempfile
        >>> s = livelog.open(datalog.parse("r(x) :- e(x)."), store=tempfile.mkdtemp())
        >>> _ = s.load("e", [(1,), (2,)])
        >>> with s.transaction() as tx:
        ...     tx.delete("e", (1,))
        >>> for changes in s.changes("r", since=1):
        ...     print(changes.transaction, changes)
        2 -r(1)
        >>> s.close()
        """
        return Following(self._with_journal, view, since, name)

    # --- over Spark ------------------------------------------------------------------------------------------

    def stream(self, df: DataFrame, checkpointLocation: str | Path, **options: Any) -> StreamingQuery:
        """Apply a streaming DataFrame from now on: every micro-batch is one transaction, applied exactly once.

        `checkpointLocation` is the query's own, as everywhere in Structured Streaming. For the options see
        `livelog.runtime.spark.streaming.stream`: `relation`, `mode` ("append", "upsert", "changes"), `op_column`,
        `relation_column`, `order_column`, `time_column`, `query_name`, `trigger`, `on_error` ("stop", "skip"),
        `accept_loss`.
        """
        self._spark  # noqa: B018  (or it says what is needed)
        from livelog.runtime.spark.streaming import stream

        return stream(self, df, str(checkpointLocation), **options)

    def check(self) -> None:
        """Assert the invariants of the engine's state. For tests; O(state)."""
        with self._lock:
            self._alive()
            self._settled().check()

    # --- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of all state, once nobody reads or commits. A closed session cannot be used any more."""
        with self._lock:
            if self._closed:
                return
            self._closed = self._attended = True
            self._runtime.close()
            self._whole = None

    def _alive(self) -> None:
        if self._closed:
            raise UsageProblem("the session is closed")
        if self._runtime.planned is not self._planned:
            self._follow_program(self._runtime.planned)

    def __enter__(self) -> Session:
        self._alive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<Session, closed>"
        return f"<Session {self.program.source.name}: {', '.join(self._views)}>"
