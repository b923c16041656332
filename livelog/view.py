"""View: a relation of a session, to read."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from datalog.format import format_value
from livelog.shown import shown_columns, timeless
from livelog.validity import Validity, validity
from livelog.values import sort_rows

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyspark.sql import DataFrame

    from livelog.runtime.runtime import Runtime
    from livelog.session import Session

__all__ = ["View"]

Tuple = tuple[Any, ...]


class View(Collection[Tuple]):
    """The tuples of a relation as of the last committed transaction. A window, not a copy.

    Every look through it shows one committed state, whatever other threads commit.

    Of a relation that aggregate selection prunes, the engine does not have all tuples; reading it evaluates it
    from the facts, and fails where it has no end. A stream shows a tuple for each arrival that is kept, without the
    time.

    >>> import datalog, livelog
    >>> s = livelog.open(datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."),
    ...                  facts={"e": [("a", "b"), ("b", "c")]})
    >>> list(s["r"])
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    >>> len(s["r"]), ("a", "c") in s["r"]
    (3, True)
    """

    def __init__(self, session: Session, relation: str) -> None:
        self._session = session
        self.relation = relation
        plan = session.plan.relations[relation]
        self._stream = plan.stream
        self.columns: tuple[str, ...] = shown_columns(plan)
        self.types: tuple[str, ...] = plan.types[: len(self.columns)]

    def __iter__(self) -> Iterator[Tuple]:
        """The tuples in order, all of one state: what is committed meanwhile is not among them."""
        return iter(sort_rows(self._rows()))

    def _rows(self) -> list[Tuple]:
        """The tuples of one state, in no particular order."""
        with self._session._lock:
            if self._stream:
                return timeless(self._runtime.facts_with(self.relation, {}))
            return self._runtime.rows(self.relation)

    def __len__(self) -> int:
        if self._stream:
            return len(self._rows())
        with self._session._lock:
            return self._runtime.count(self.relation)

    def __contains__(self, row: object) -> bool:
        with self._session._lock:
            self._session._alive()
            if not isinstance(row, tuple) or len(row) != len(self.columns):
                return False
            runtime = self._runtime
            try:
                if self._stream:
                    return bool(runtime.matching(self.relation, list(enumerate(row))))
                return runtime.has(self.relation, row)
            except (TypeError, ValueError, OverflowError):  # with something in it that is no value of the language
                return False

    @property
    def valid(self) -> Validity:
        """Through when the view is known to stay as it is, and when it is refreshed next.

        >>> import datalog, livelog
        >>> s = livelog.open(datalog.parse("r(x) :- e(x)."))
        >>> s["r"].valid
        Validity(through=0, next=None)
        """
        with self._session._lock:
            return validity(self._session.plan, self._runtime, self.relation)

    @property
    def _runtime(self) -> Runtime:
        """Where to read. With the session's lock held, until all that belongs together has been read."""
        return self._session._runtime_of(self.relation)

    def __repr__(self) -> str:
        columns = f"{self.relation}({', '.join(self.columns)})"
        if self._session._closed:
            return f"<View {columns}, closed>"
        return f"<View {columns}: {len(self)} tuples>"

    def to_arrow(self) -> pyarrow.Table:
        """The view as an Arrow table, in order. Lists become their text, unless all their values have one type."""
        from livelog.exchange import arrow_table

        return arrow_table(self._rows(), self.columns, self.types)

    def to_pandas(self) -> pandas.DataFrame:
        """The view as a pandas DataFrame, in order."""
        from livelog.exchange import pandas_frame

        return pandas_frame(self._rows(), self.columns, self.types)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The view for whatever reads Arrow's streams: `polars.DataFrame(view)`, `pyarrow.table(view)`, DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_spark(self) -> DataFrame:
        """The view as a DataFrame of Spark, read partition by partition from the workers that keep it.

        It shows one state between two transactions: the one at which its first job began. Call this again for a
        newer one.
        """
        from livelog.runtime.spark.source import read_view

        runtime = self._session._spark
        return read_view(runtime.config.spark, str(runtime.directory), self.relation)

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, and how many there are."""
        rows = list(self)
        shown = rows[:50]
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        texts = [[v if isinstance(v, str) else format_value(v) for v in row] for row in shown]
        body = "".join("<tr>" + "".join(f"<td>{html.escape(v)}</td>" for v in row) + "</tr>" for row in texts)
        more = f", the first {len(shown)} shown" if len(shown) < len(rows) else ""
        caption = f"{html.escape(self.relation)}: {len(rows)} tuples{more}"
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
