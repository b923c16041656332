"""Session: the engine that a person holds."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import datalog
import planner
from datalog.errors import RuntimeProblem, UsageProblem
from livelog.changes import ChangeLog, Changes
from livelog.failure import explained
from livelog.following import Following
from livelog.frames import check_functions, frames_apart, is_frame
from livelog.io.facts import load_facts
from livelog.io.values import format_row
from livelog.methods import ship_mode
from livelog.runtime.local import LocalRuntime
from livelog.runtime.runtime import Runtime
from livelog.runtime.spark.config import Spark
from livelog.runtime.worker import Operation
from livelog.stats import PartitionStats, Stats
from livelog.transaction import Transaction
from livelog.values import Coercer
from livelog.view import View
from livelog.why import Explainer
from operators.columns import Bulk
from operators.errors import OperatorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from livelog.runtime.spark.runtime import SparkRuntime

__all__ = ["Session"]

Tuple = tuple[Any, ...]

ABSORPTION = ("absorption", "demand")
WHOLE = 500_000  # tuples of a pruned relation that are evaluated for somebody who asks to see all of it


class Session:
    """A program under change. Made by `livelog.open`.

    `program` is the checked program and `plan` how it is run. `initial` tells what the load at opening brought.
    Between transactions, `session[relation]` shows any relation of the program.

    >>> import datalog, livelog
    >>> program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    >>> s = livelog.open(program, facts={"e": [(1, 2)]})
    >>> with s.transaction() as tx:
    ...     tx.insert("e", (2, 3))
    >>> tx.changes["r"].inserted
    [(1, 3), (2, 3)]
    """

    def __init__(
        self,
        program: datalog.Program,
        facts: str | Path | Mapping[str, Iterable[Iterable[Any]]] | None,
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
    ) -> None:
        ship = ship_mode(strategy, ship)
        if spark is not None:
            if not isinstance(spark, Spark):
                raise UsageProblem(f"runtime= takes livelog.Spark(spark, ...), not {type(spark).__name__}")
            if partitions not in (1, spark.partitions):
                raise UsageProblem(f"the runtime has {spark.partitions} partitions, and `partitions` is {partitions}")
            partitions = spark.partitions
        if partitions < 1:
            raise UsageProblem(f"a session needs at least one partition, not {partitions}")
        if limit < 1:
            raise UsageProblem(f"the limit must be positive, not {limit}")
        self.program = program
        self.plan = planner.plan(program, select=select)
        self._select = select
        self.strategy = strategy
        self.ship = ship
        self.partitions = partitions
        self._views = self.plan.published
        self._coercers = {
            name: Coercer(name, r.columns, self._kinds(name))
            for name, r in self.plan.relations.items()
            if r.kind == "base"
        }
        self._subscribers: dict[str, list[Callable[[Changes], None]]] = {}
        self._closed = False
        self._transactions = 0
        self._seconds = self._last_seconds = 0.0
        self._limit = limit
        self._whole: Runtime | None = None
        frames, rest = frames_apart(facts)
        operations = [] if resumed else self._loaded(rest, bulk=spark is None)
        self._runtime: Runtime = self._made(spark, seed, frames, resumed, script)
        self.rerun: tuple[int | None, ChangeLog] | None = None
        """After `resume`: the transaction that was under way, by its position in the script, and what it changed."""
        if resumed:
            self.initial: ChangeLog = ChangeLog(self._views, {})
            if (again := self._spark.rerun) is not None:
                self.rerun = again[0].position, ChangeLog(self._views, again[1])
            return
        try:
            self.initial = self._commit(operations)
            if frames:
                self._spark.checkpoint()  # from here on the DataFrames are not needed any more
        except BaseException:
            self.close()
            raise
        self._transactions = 0

    def _made(
        self, spark: Spark | None, seed: int | None, frames: dict[str, Any], resumed: bool, script: str | None
    ) -> Runtime:
        method = (self.strategy, self.ship)
        sizes = {d.relation: d.parameters["n"] for d in self.program.directives_of("limitsize")}
        if spark is None:
            if frames:
                name = next(iter(frames))
                raise UsageProblem(f"`{name}` is a DataFrame of Spark: that needs `runtime=livelog.Spark(...)`")
            return LocalRuntime(self.plan, self.partitions, method, self._limit, seed, sizes)
        from livelog.runtime.spark.formats import Description
        from livelog.runtime.spark.runtime import SparkRuntime

        check_functions({**self.program.functions, **self.program.aggregates})
        data = None
        for name, frame in frames.items():
            hashed = self._hashed(name, frame)
            data = hashed if data is None else data.unionAll(hashed)
        if data is not None:
            from livelog.runtime.spark.dataframes import gathered

            data = gathered(data, self.partitions)
        source = self.program.source
        description = None if resumed else Description(
            name=source.name, program=source.text, constants=dict(self.program.constants), strategy=self.strategy,
            ship=self.ship, limit=self._limit, select=self._select, partitions=self.partitions, script=script,
        )  # fmt: skip
        runtime = SparkRuntime(self.plan, method, self._limit, sizes, spark, description, data)
        weakref.finalize(self, runtime.close)  # for those who forget to close a session: its slots are others' again
        return runtime

    def _hashed(self, name: str, frame: Any, sign: str = "+") -> Any:
        """A DataFrame's rows, divided among the owners."""
        from livelog.runtime.spark.dataframes import hashed

        target = self._fact_relation(name)
        return hashed(frame, self.plan.relations[target], self._kinds(target), self.partitions, sign)

    @property
    def _spark(self) -> SparkRuntime:
        """The runtime, for what only exists over Spark."""
        from livelog.runtime.spark.runtime import SparkRuntime

        self._alive()
        if not isinstance(self._runtime, SparkRuntime):
            raise UsageProblem("this needs a session over Spark: `livelog.open(..., runtime=livelog.Spark(spark))`")
        return self._runtime

    def _kinds(self, name: str) -> list[str]:
        """The types of a base relation's columns; `numeric` where the program computes with an undeclared one."""
        known = self.program.relations.get(name.removesuffix("#facts"))
        if known is None:  # one that the planner made
            return list(self.plan.relations[name].types)
        return ["numeric" if c.type == "any" and c.numeric else c.type for c in known.columns]

    def _loaded(
        self, facts: str | Path | Mapping[str, Iterable[Iterable[Any]]] | None, bulk: bool
    ) -> list[Operation]:
        """The facts of the program text and of files or mappings, as operations: one for each source if in `bulk`."""
        operations: list[Operation] = []
        for name, stated in self.plan.facts.items():
            operations.extend([("+", name, self._coercers[name](row)) for row in stated])
        if isinstance(facts, (str, Path)):
            sources: Iterable[tuple[str, Iterable[Any]]] = load_facts(self.program, Path(facts))
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
        if name in self.program.derived:
            return UsageProblem(f"`{name}` is a view: its tuples follow from rules and cannot be updated")
        bases = ", ".join(sorted(n for n in self._coercers if "#" not in n)) or "none"
        return UsageProblem(f"the program has no relation `{name}` to update (base relations: {bases})")

    # --- transactions ----------------------------------------------------------------------------------------

    def transaction(self, source: str | None = None, position: int | None = None) -> Transaction:
        """A transaction, for use in a `with` block: it commits at the end, or not at all.

        Over Spark, `source` and `position` are noted in the log: where the transaction comes from (see `position`).
        """
        if self._closed:
            self._alive()
        return Transaction(self, source, position)

    def load(self, relation: str, rows: Iterable[Iterable[Any]]) -> ChangeLog:
        """Insert many rows into a base relation, in one transaction.

        Over Spark, a DataFrame goes from its own partitions to the owners of its rows, and never through this process.
        """
        if is_frame(rows):
            self._spark  # noqa: B018  (or it says what is needed)
            frame = self._hashed(relation, rows)
            return self._commit([], frames=[frame])
        with self.transaction() as tx:
            tx.insert_all(relation, rows)
        return tx.changes

    def subscribe(self, relation: str, callback: Callable[[Changes], None]) -> Callable[[], None]:
        """Call `callback` with the changes of a view after each transaction that changed it.

        Returns a function that ends the subscription.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse("r(x) :- e(x)."))
        >>> stop = s.subscribe("r", lambda changes: print(changes))
        >>> _ = s.load("e", [(1,), (2,)])
        +r(1)
        +r(2)
        >>> stop(); _ = s.load("e", [(3,)])
        """
        self._alive()
        if relation in self.plan.pruned:
            raise UsageProblem(
                f"of `{relation}` only the best tuples are kept (aggregate selection), so there are no changes to "
                f"follow; `.output {relation}` in the program keeps it whole"
            )
        if relation not in self._views:
            raise UsageProblem(f"`{relation}` is not a view of the program (views: {', '.join(self._views)})")
        callbacks = self._subscribers.setdefault(relation, [])
        callbacks.append(callback)
        return lambda: callbacks.remove(callback) if callback in callbacks else None

    def _commit(self, operations: list[Operation], frames: list[Any] | None = None, **origin: Any) -> ChangeLog:
        """Run a transaction: operations or, over Spark, DataFrames; `origin` tells the log where it comes from."""
        started = time.perf_counter()
        self._whole = None
        try:
            if frames is not None:
                self._spark.wanted = {name for name, callbacks in self._subscribers.items() if callbacks}
                changes = self._spark.load_frames(frames, **origin) or {}
            else:
                if self._subscribers:
                    self._runtime.wanted = {name for name, callbacks in self._subscribers.items() if callbacks}
                changes = self._runtime.run(operations, **origin) if origin else self._runtime.run(operations)
        except OperatorError as e:
            raise self._explained(e) from e
        self._last_seconds = seconds = time.perf_counter() - started
        self._seconds += seconds
        self._transactions += 1
        log = ChangeLog(self._views, changes)
        if self._subscribers:
            for relation, callbacks in self._subscribers.items():
                if log[relation]:
                    for callback in list(callbacks):
                        callback(log[relation])
        return log

    def _explained(self, error: OperatorError, outcome: str = "the transaction was rolled back") -> RuntimeProblem:
        return explained(self.program, error, outcome)

    # --- reading ---------------------------------------------------------------------------------------------

    def __getitem__(self, relation: str) -> View:
        self._alive()
        known = self.plan.relations.get(relation)
        if known is None or known.kind == "auxiliary" or "#" in relation:
            names = ", ".join(sorted(self.program.relations))
            raise KeyError(f"the program has no relation {relation!r} (it has {names})")
        return View(self, relation)

    def __contains__(self, relation: object) -> bool:
        return relation in self.program.relations

    @property
    def views(self) -> tuple[str, ...]:
        """The relations whose changes are published: views, less those of which only the best tuples are kept."""
        return self._views

    @property
    def clock(self) -> float:
        """The time that expirations go by; it starts at 0 and moves with `advance_to`."""
        self._alive()
        return self._runtime.clock

    def why(self, relation: str, row: Iterable[Any]) -> list[tuple[str, Tuple]]:
        """The facts of one derivation of a tuple: with these alone, it would be there too.

        >>> import datalog, livelog
        >>> program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
        >>> s = livelog.open(program, facts={"e": [(1, 2), (2, 3), (3, 4)]})
        >>> s.why("r", (1, 3))
        [('e', (1, 2)), ('e', (2, 3))]
        """
        t = tuple(row)
        if t not in self[relation]:
            raise UsageProblem(f"{format_row(relation, t)} does not hold: there is nothing to explain")
        if not self._runtime.has(relation, t):
            runtime = self._runtime_of(relation)
        elif self.strategy == "absorption":
            runtime = self._runtime
        else:
            runtime = self._beside(self.plan, None)
        return Explainer(runtime).why(relation, t)

    def _runtime_of(self, relation: str) -> Runtime:
        """Where a relation can be read: one that is pruned is evaluated whole, once per transaction at most."""
        try:
            self._runtime.restore()
        except OperatorError as e:
            raise self._explained(e, "the views cannot be shown while the rule fails") from e
        if relation not in self.plan.pruned:
            return self._runtime
        if self._whole is None:
            try:
                self._whole = self._beside(planner.plan(self.program, select=False), min(self._limit, WHOLE))
            except OperatorError as e:
                why = f"only the best tuples of `{relation}` are kept; to show all of them they must be evaluated"
                raise self._explained(e, why) from e
        return self._whole

    def _beside(self, plan: planner.Plan, limit: int | None) -> Runtime:
        """The facts as they are now, evaluated by another plan, or with provenance where the session keeps none."""
        runtime = LocalRuntime(plan, 1, ABSORPTION, limit)
        for name, relation in plan.relations.items():
            if relation.tolerance is not None:  # it should show what is shown here
                runtime.remember(name, self._runtime.rows(name))
        runtime.run([("+", name, t) for name, t, copies in self._runtime.facts() for _ in range(copies)])
        return runtime

    @property
    def bytes_shipped(self) -> tuple[int, ...]:
        """Bytes that each partition has sent to others so far. O(partitions), unlike `stats`."""
        self._alive()
        return tuple(self._runtime.bytes_shipped)

    @property
    def frames_shipped(self) -> tuple[int, ...]:
        """Frames that each partition has sent to others so far. O(partitions), unlike `stats`."""
        self._alive()
        return tuple(self._runtime.frames_shipped)

    def stats(self) -> Stats:
        """What the session has cost so far. O(state): it measures everything that is kept."""
        self._alive()
        runtime = self._runtime
        measures = runtime.measures()
        ignored = [(m.pop("ignored_inserts"), m.pop("ignored_deletes")) for m in measures]
        return Stats(
            self._transactions,
            self.clock,
            self._seconds,
            self._last_seconds,
            sum(inserts for inserts, _ in ignored),
            sum(deletes for _, deletes in ignored),
            tuple(
                PartitionStats(i, runtime.bytes_shipped[i], runtime.frames_shipped[i], **m)
                for i, m in enumerate(measures)
            ),
            tuple(runtime.skew()),
            runtime.aggregates(),
        )

    # --- over Spark ------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the facts down now, so that recovery need not go through the log. Happens now and then by itself."""
        self._spark.checkpoint()

    def position(self, source: str) -> int:
        """The position of the last transaction from a source that was committed; 0 if there was none."""
        return self._spark.journal.position(source) or 0

    @property
    def directory(self) -> Path:
        """The folder with the log and the checkpoints."""
        return self._spark.directory

    def changes(self, view: str) -> Following:
        """The change log of a view, kept from now on: `session.changes(view).to_spark_stream()`."""
        return Following(self._spark, view)

    def stream(self, df: DataFrame, checkpointLocation: str | Path, **options: Any) -> StreamingQuery:
        """Apply a streaming DataFrame from now on: every micro-batch is one transaction, applied exactly once.

        `checkpointLocation` is the query's own, as everywhere in Structured Streaming. For the options see
        `livelog.runtime.spark.streaming.stream`: `relation`, `mode` ("append", "upsert", "changes"), `op_column`,
        `relation_column`, `order_column`, `query_name`, `trigger`.
        """
        self._spark  # noqa: B018  (or it says what is needed)
        from livelog.runtime.spark.streaming import stream

        return stream(self, df, str(checkpointLocation), **options)

    def check(self) -> None:
        """Assert the invariants of the engine's state. For tests; O(state)."""
        self._runtime.check()

    # --- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of all state. A closed session cannot be used any more."""
        if self._closed:
            return
        self._closed = True
        self._runtime.close()
        self._whole = None

    def _alive(self) -> None:
        if self._closed:
            raise UsageProblem("the session is closed")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<Session, closed>"
        return f"<Session {self.program.source.name}: {', '.join(self._views)}>"
