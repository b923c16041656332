"""Columns of Arrow, as `operators.columns` wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow
import pyarrow.compute

__all__ = ["ArrowColumns"]

Tuple = tuple[Any, ...]
LIMIT = 2**62
SAMPLE = 4096


class ArrowColumns:
    """The columns of rows, added up by Arrow.

    >>> columns = ArrowColumns([pyarrow.array([1, 2, 1]), pyarrow.array([10, 20, 30])])
    >>> columns.sums([0], [1]), columns.sums([0], []), columns.sums([1], [0, 1])
    ({(1,): [2, 40], (2,): [1, 20]}, {(1,): 2, (2,): 1}, {(10,): [1, 1, 10], (20,): [1, 2, 20], (30,): [1, 1, 30]})
    >>> ArrowColumns([pyarrow.array([1, 1]), pyarrow.array([2**62, 2**62])]).sums([0], [1]) is None
    True
    >>> list(ArrowColumns([pyarrow.array([1, 2, 1])]).distinct().rows())
    [(1,), (2,)]
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        self._columns = columns

    def rows(self, most: int | None = None) -> Iterator[Tuple]:
        """The rows, made batch by batch: what lies between a column and its tuples stays in the processor's cache."""
        columns = [_encoded(column) for column in self._columns]
        words = [_words(column) for column in columns]
        batches = pyarrow.table(columns, names=[str(i) for i in range(len(columns))]).to_batches(max_chunksize=most)
        return chain.from_iterable(zip(*map(_values, batch.columns, words), strict=True) for batch in batches)

    def sums(self, by: Sequence[int], summed: Sequence[int]) -> dict[Tuple, Any] | None:
        if not all(_summable(self._columns[i]) for i in summed) or not all(map(self._told_apart, by)):
            return None
        groups = self._table().group_by([str(i) for i in dict.fromkeys(by)], use_threads=False)
        sums = groups.aggregate([([], "count_all"), *((str(i), "sum") for i in dict.fromkeys(summed))])
        keys = zip(*(sums.column(str(i)).to_pylist() for i in by), strict=True)
        counts = sums.column("count_all").to_pylist()
        if not summed:
            return dict(zip(keys, counts, strict=True))
        vectors = zip(counts, *(sums.column(f"{i}_sum").to_pylist() for i in summed), strict=True)
        return dict(zip(keys, map(list, vectors), strict=True))

    def distinct(self) -> ArrowColumns | None:
        if not all(map(self._told_apart, range(len(self._columns)))):
            return None
        table = self._table()
        return ArrowColumns(table.group_by(table.column_names, use_threads=False).aggregate([]).columns)

    def _table(self) -> Any:
        return pyarrow.table(list(self._columns), names=[str(i) for i in range(len(self._columns))])

    def _told_apart(self, i: int) -> bool:
        """Whether Arrow takes for equal what Python does: 0.0 and -0.0 are not, there."""
        return not pyarrow.types.is_floating(self._columns[i].type)


def _encoded(column: Any) -> Any:
    """A column of texts of which many are the same, as places in the list of the different ones."""
    if not pyarrow.types.is_string(column.type) or len(column) < SAMPLE:
        return column
    if len(column.slice(0, SAMPLE).unique()) > SAMPLE // 2:
        return column
    encoded = column.dictionary_encode()
    return encoded.unify_dictionaries() if isinstance(encoded, pyarrow.ChunkedArray) else encoded


def _words(column: Any) -> Any:
    """The different texts of an encoded column: one string of Python's for each, not one per row."""
    if not pyarrow.types.is_dictionary(column.type):
        return None
    encoded = column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column
    return encoded.dictionary.to_numpy(zero_copy_only=False)


def _values(column: Any, words: Any) -> list[Any]:
    """An array as Python's values; over numpy that is faster."""
    array = column.to_numpy(zero_copy_only=False) if words is None else words[column.indices.to_numpy()]
    values: list[Any] = array.tolist()
    return values


def _summable(column: Any) -> bool:
    """Whether the sum of any of these values is exact in 64 bits."""
    if not pyarrow.types.is_int64(column.type):
        return False
    ends = pyarrow.compute.min_max(column)
    largest: int = max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0))
    return largest * len(column) < LIMIT
