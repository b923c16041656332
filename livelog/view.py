"""View: a relation of a session, to read."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from datalog.format import format_value
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

    Of a relation that aggregate selection prunes, the engine does not have all tuples; reading it evaluates it
    from the facts, and fails where it has no end.

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
        self.columns: tuple[str, ...] = session.plan.relations[relation].columns
        self.types: tuple[str, ...] = session.plan.relations[relation].types

    def __iter__(self) -> Iterator[Tuple]:
        """The tuples in order."""
        return iter(sort_rows(self._runtime.rows(self.relation)))

    def __len__(self) -> int:
        return self._runtime.count(self.relation)

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, tuple) or len(row) != len(self.columns):
            return False
        runtime = self._runtime
        try:
            return runtime.has(self.relation, row)
        except (TypeError, ValueError, OverflowError):  # with something in it that is no value of the language
            return False

    @property
    def _runtime(self) -> Runtime:
        return self._session._runtime_of(self.relation)

    def __repr__(self) -> str:
        return f"<View {self.relation}({', '.join(self.columns)}): {len(self)} tuples>"

    def to_arrow(self) -> pyarrow.Table:
        """The view as an Arrow table. Lists become their text, unless all their values have one type."""
        import pyarrow

        rows = list(self)
        kinds = {
            "number": pyarrow.int64(),
            "unsigned": pyarrow.uint64(),
            "float": pyarrow.float64(),
            "symbol": pyarrow.string(),
        }
        arrays = []
        for i, kind in enumerate(self.types):
            values = [row[i] for row in rows]
            if kind in kinds:
                arrays.append(pyarrow.array(values, kinds[kind]))
                continue
            try:
                arrays.append(pyarrow.array(values, None if values else pyarrow.string()))
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
                arrays.append(pyarrow.array([v if isinstance(v, str) else format_value(v) for v in values]))
        return pyarrow.Table.from_arrays(arrays, names=list(self.columns))

    def to_pandas(self) -> pandas.DataFrame:
        """The view as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(list(self), columns=list(self.columns))

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
