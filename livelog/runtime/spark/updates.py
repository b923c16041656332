"""Updates: rows of a DataFrame that say themselves what to do with them, and to which relation.

The same reader works on the driver, for small micro-batches, and in Spark's tasks, for large ones: what it needs to
know of the session is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from datalog.errors import FactProblem, UsageProblem
from livelog.runtime.spark.arrow import RowReader, column_positions
from livelog.runtime.spark.eventtime import Dated, late
from planner.plan import RelationPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Rejected", "Target", "UpdateReader"]

Row = tuple[Any, ...]

_SIGNS = {
    "insert": "+", "+": "+", "i": "+", "c": "+", "r": "+",
    "update": "u", "u": "u", "upsert": "u",
    "delete": "-", "-": "-", "d": "-",
}  # fmt: skip
"""What the column of operations may say, whatever its case: in words, in signs, and as Debezium does."""


@dataclass(frozen=True)
class Target:
    """A relation that rows may go to: where its columns are among those of a batch."""

    plan: RelationPlan
    kinds: tuple[str, ...]
    positions: tuple[int, ...]


class Rejected(NamedTuple):
    """A row that makes no operation, by the names of its columns, and why."""

    row: dict[str, Any]
    why: str


class UpdateReader:
    """Reads operations from rows.

    `op` is the column that says insert, update or delete (None: all rows are inserted), and `which` the one that names
    the relation (None: it is `sole`). `relations` are those that can be updated, with their types; the reader finds
    their columns in the DataFrame by name, or by position if there is only one relation. Raises
    `UsageProblem` if what can be known from the columns alone is wrong. `skips`: bad rows are left out of `groups`.
    `time` is the column with the time of each, for `dated`.
    """

    def __init__(
        self,
        df: DataFrame,
        relations: Mapping[str, tuple[RelationPlan, list[str]]],
        *,
        sole: str | None,
        op: str | None,
        which: str | None,
        time: str | None = None,
        ignored: list[str],
        skips: bool = False,
    ) -> None:
        self.sole = sole
        self.skips = skips
        self.op = op
        self.which = which
        self._targets: dict[str, Target] = {}
        self._problems: dict[str, str] = {}  # of relations that this DataFrame has no rows for
        names = df.columns
        marks = [c for c in (op, which, time) if c is not None]
        for name in [sole] if sole is not None else sorted(relations):
            plan, kinds = relations[name]
            try:
                positions = self._found(df, plan, kinds, [*marks, *ignored])
            except UsageProblem as problem:
                if sole is not None:
                    raise
                self._problems[name] = problem.message
                continue
            self._targets[name] = Target(plan, tuple(kinds), tuple(positions))
        self._known = ", ".join(sorted(relations)) or "none"
        # Only columns that somebody needs go anywhere: others may have types that Arrow does not have.
        positions = sorted({i for t in self._targets.values() for i in t.positions} | {names.index(c) for c in marks})
        self._used = positions or [0]
        self._names = [names[i] for i in self._used]
        self._op_at = None if op is None else self._used.index(names.index(op))
        self._which_at = None if which is None else self._used.index(names.index(which))
        self._time_at = None if time is None else self._used.index(names.index(time))
        self._readers: dict[str, tuple[RowReader, list[int]]] = {}

    def _found(self, df: DataFrame, plan: RelationPlan, kinds: list[str], extra: list[str]) -> list[int]:
        names, columns = df.columns, plan.columns
        if set(columns) <= set(names):
            return column_positions(df, plan.name, columns, kinds)
        if self.which is not None:  # the columns of other relations are there too, so that positions mean nothing
            missing = ", ".join(f"`{c}`" for c in columns if c not in names)
            raise UsageProblem(f"the stream lacks columns of `{plan.name}`: {missing}")
        kept = [name for name in names if name not in extra]
        rest = df.select(*[f"`{name.replace('`', '``')}`" for name in kept])
        found = column_positions(rest, plan.name, columns, kinds)
        return [names.index(kept[i]) for i in found]

    @property
    def partitioning(self) -> dict[str, tuple[int, ...]]:
        """By relation, the columns whose hash picks the owner of a tuple."""
        return {name: target.plan.partition for name, target in self._targets.items()}

    def select(self, df: DataFrame) -> DataFrame:
        """The columns that this reader looks at."""
        plain = df.toDF(*[f"c{i}" for i in range(len(df.columns))])
        return plain.select(*[f"c{i}" for i in self._used])

    def operations(self, batch: Any) -> list[tuple[str, str, Row]]:
        """The operations in an Arrow batch, in the order of its rows. Raises `FactProblem`."""
        n = batch.num_rows
        ops = None if self._op_at is None else self._texts(batch, self._op_at, self.op)
        if self._which_at is None:
            assert self.sole is not None
            rows = self._rows(self.sole, batch)
            relations = [self.sole] * n
        else:
            relations = self._texts(batch, self._which_at, self.which)
            indices: dict[str, list[int]] = {}
            for i, name in enumerate(relations):
                indices.setdefault(name, []).append(i)
            rows = [()] * n
            for name, some in indices.items():
                for i, row in zip(some, self._rows(name, batch.take(some)), strict=True):
                    rows[i] = row
        signs = ["+"] * n if ops is None else [self._sign(op, r) for op, r in zip(ops, relations, strict=True)]
        return list(zip(signs, relations, rows, strict=True))

    def parted(self, batch: Any) -> tuple[list[tuple[str, str, Row]], list[Rejected]]:
        """The operations in an Arrow batch, and the rows that make none. Costs no more where all are good."""
        try:
            return self.operations(batch), []
        except FactProblem as problem:
            n = batch.num_rows
            if n == 1:
                return [], [Rejected(self._shown(batch), problem.message)]
        good: list[tuple[str, str, Row]] = []
        bad: list[Rejected] = []
        for some in (batch.slice(0, n // 2), batch.slice(n // 2)):
            more, rejected = self.parted(some)
            good += more
            bad += rejected
        return good, bad

    def dated(self, batch: Any, clock: float) -> tuple[list[Dated], list[Rejected]]:
        """The operations in an Arrow batch with their times. Rows that make none, or are older than the clock, stop it
        with a `FactProblem`, or are left out if they may be."""
        assert self._time_at is not None
        times = [None if t is None else t.timestamp() for t in batch.column(self._time_at).to_pylist()]
        good: list[Dated] = []
        bad: list[Rejected] = []
        for i, time in enumerate(times):
            row = batch.slice(i, 1)
            try:
                ((sign, relation, values),) = self.operations(row)
                if time is None or time < clock:
                    raise late(relation, values, time, clock)
                good.append((time, sign, relation, values))
            except FactProblem as problem:
                if not self.skips:
                    raise
                bad.append(Rejected(self._shown(row), problem.message))
        return good, bad

    def _shown(self, batch: Any) -> dict[str, Any]:
        """The only row of a batch by the names of its columns."""
        return {name: column[0].as_py() for name, column in zip(self._names, batch.columns, strict=True)}

    def groups(self, batch: Any) -> dict[tuple[str, str], list[Row]]:
        """The rows of an Arrow batch by sign and relation; those that make no operation are left out if they may be."""
        found: dict[tuple[str, str], list[Row]] = {}
        for sign, relation, row in self.parted(batch)[0] if self.skips else self.operations(batch):
            found.setdefault((sign, relation), []).append(row)
        return found

    def _rows(self, relation: str, batch: Any) -> list[Row]:
        known = self._readers.get(relation)
        if known is None:
            target = self._targets.get(relation)
            if target is None:
                unknown = f"the program has no relation `{relation}` to update (base relations: {self._known})"
                raise FactProblem(self._problems.get(relation, unknown))
            reader = RowReader(relation, target.plan.columns, target.kinds)
            known = self._readers[relation] = reader, [self._used.index(i) for i in target.positions]
        return known[0].rows(batch.select(known[1]) if known[1] else batch)

    def _texts(self, batch: Any, position: int, column: str | None) -> list[str]:
        values: list[Any] = batch.column(position).to_pylist()
        for value in values:
            if not isinstance(value, str):
                what = "null" if value is None else repr(value)
                raise FactProblem(f"column `{column}` of the stream is {what}, not a text")
        return values

    def _sign(self, op: str, relation: str) -> str:
        sign = _SIGNS.get(op.lower())
        if sign is None:
            raise FactProblem(f"column `{self.op}` of the stream is {op!r}: it says insert, update or delete")
        if sign == "u":
            if not self._targets[relation].plan.key:
                raise FactProblem(
                    f"column `{self.op}` of the stream is {op!r}, but `{relation}` has no key: without one there is "
                    "nothing to update"
                )
            return "+"
        return sign
