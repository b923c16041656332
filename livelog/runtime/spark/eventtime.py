"""Event time: rows of a stream that say when they happened, put in order of that, with Spark's watermark as the clock.

The watermark is Spark's word that nothing older is to be expected. So a micro-batch moves the clock up to it, and what
happened until then takes place on the way, each row at its time. What happened later waits for a later micro-batch: in
a file for each, which is written as a whole before the transaction. So it is the same however often Spark runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from datalog.errors import FactProblem, RuntimeProblem, UsageProblem
from livelog.io.values import format_row
from livelog.operations import Operation
from livelog.packing import ROW
from livelog.store.layout import Layout, make_folder, write_atomically

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Dated", "EventTimes", "check_time_column", "late", "watermark"]

Dated = tuple[float, str, str, tuple[Any, ...]]
"""An operation and its time, in seconds since 1970: time, sign, relation, row."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: Any = msgspec.msgpack.Decoder(list.__class_getitem__(tuple.__class_getitem__((float, str, str, ROW))))


def check_time_column(df: DataFrame, column: str) -> None:
    """Raise `UsageProblem` unless a column has the times at which something happened."""
    from pyspark.sql.types import TimestampType

    field = df.schema[column]
    if not isinstance(field.dataType, TimestampType):
        found = field.dataType.simpleString()
        raise UsageProblem(f"`{column}` is no timestamp, but {found}: it cannot be the event time")
    if "EventTimeWatermark" not in df._jdf.queryExecution().analyzed().toString():
        raise UsageProblem(
            f"the stream has no watermark: `df.withWatermark({column!r}, \"10 seconds\")` says how late rows may be"
        )


def watermark(spark: SparkSession, query: str) -> float:
    """Spark's watermark for the micro-batch that is under way, in seconds since 1970; 0 if there is none yet.

    The query is one of this session's; its micro-batches have a copy of the session, which does not know it.
    """
    running = spark._jsparkSession.streams().get(query).streamingQuery()
    milliseconds: int = running.lastExecution().offsetSeqMetadata().batchWatermarkMs()
    return milliseconds / 1000


class EventTimes:
    """What happened, and waits for the watermark. `query` is the id of the streaming query."""

    def __init__(self, layout: Layout, query: str) -> None:
        self._layout = layout
        self._query = query

    def operations(self, batch: int, rows: list[Dated], clock: float, upto: float) -> list[Operation]:
        """The operations of a micro-batch, in order of time, with the moves of the clock up to a watermark.

        `rows` are new, none of them older than the clock. O(n log n) in what is there and was waiting.
        """
        rows = sorted([*self._waiting(batch - 1), *rows], key=lambda row: row[0])  # stable: as they arrived
        due = sum(1 for row in rows if row[0] <= upto)
        self._keep(batch, rows[due:])
        found: list[Operation] = []
        for time, sign, relation, row in rows[:due]:
            if time > clock:
                found.append(("@", None, time))
                clock = time
            found.append((sign, relation, row))
        if upto > clock:
            found.append(("@", None, upto))
        return found

    def _waiting(self, batch: int) -> list[Dated]:
        """What was waiting after a micro-batch; if that is unknown, after the last one before it of which it is."""
        found = max((path for path in self._files() if int(path.name) <= batch), key=_number, default=None)
        if found is None:
            return []
        try:
            rows: list[Dated] = _decoder.decode(found.read_bytes())
        except (OSError, msgspec.MsgspecError) as e:
            raise RuntimeProblem(f"{found} cannot be read: {e}") from None
        return rows

    def _keep(self, batch: int, rows: list[Dated]) -> None:
        """Write down what waits, over what an earlier attempt has written; that of the last but one is not needed."""
        path = self._layout.waiting(self._query, batch)
        try:
            make_folder(path.parent)
            write_atomically(path, _encode(rows))
            for old in self._files():
                if int(old.name) < batch - 1:
                    old.unlink()
        except OSError as e:
            why = e.strerror or e
            raise RuntimeProblem(f"rows that wait for their time cannot be written to {path}: {why}") from None

    def _files(self) -> Iterator[Path]:
        return (path for path in self._layout.waiting(self._query, 0).parent.glob("*") if path.name.isdecimal())


def _number(path: Path) -> int:
    return int(path.name)


def late(relation: str, row: tuple[Any, ...], time: float | None, clock: float) -> FactProblem:
    """What is said of a row that is older than the watermark that the clock has followed, or has no time."""
    shown = format_row(relation, row)
    if time is None:
        return FactProblem(f"{shown} has no time: its event time is null")
    return FactProblem(f"{shown} is late: it happened at {time:.3f}, and the clock stands at {clock:.3f}")
