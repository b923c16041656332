"""The order of many rows, found by their columns: what `livelog.values.sort_rows` finds row by row, and much faster.

Every column gives bit fields that compare as its values do (`livelog.columns`). The fields of a row, one after the
other, are cut into words of 64 bits. Rows are sorted by their first word; those that are equal there, usually few, by
their next. O(n log n), in loops of numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from livelog.columns import WORD, Column, Field

__all__ = ["order_of"]


def order_of(columns: Sequence[Column]) -> Any:
    """The indices of 64 bits that sort rows by their columns, leftmost first.

    >>> from livelog.columns import Numbers, texts
    >>> order_of([texts(pyarrow.array(["b", "a", "a"])), Numbers(numpy.array([1, 2, -1]))]).tolist()
    [2, 1, 0]
    """
    fields: list[Field] = []
    for column in columns:
        if (found := column.fields()) is None:
            return _by_arrow(columns)
        fields += [field for field in found if field[1]]
    words = _packed(fields)
    if not words:
        return numpy.arange(len(columns[0].arrow()))
    short = sum(bits for _, bits in fields) <= WORD // 2  # half a word is sorted in less time
    order = numpy.argsort((words[0] >> numpy.uint64(WORD // 2)).astype(numpy.uint32) if short else words[0])
    equal = _repeats(words[0][order])
    for word in words[1:]:
        if not equal.any():
            break
        # Whatever equals its neighbour is sorted again within its run; the rest stays where it is.
        tied = equal.copy()
        tied[:-1] |= equal[1:]
        places = numpy.flatnonzero(tied)
        runs = numpy.cumsum(~equal)[places]
        some = order[places]
        order[places] = some[numpy.lexsort((word[some], runs))]
        equal &= _repeats(word[order])
    return order


def _repeats(values: Any) -> Any:
    """Which values are the same as the one before."""
    same = numpy.empty(len(values), bool)
    same[:1] = False
    numpy.equal(values[1:], values[:-1], out=same[1:])
    return same


def _packed(fields: Sequence[Field]) -> list[Any]:
    """Bit fields one after the other, cut into words, each of which starts at its highest bit."""
    words: list[Any] = []
    room = 0
    for values, bits in fields:
        left = bits
        while left:
            if not room:
                words.append(numpy.zeros(len(values), numpy.uint64))
                room = WORD
            taken = min(left, room)
            part = values >> numpy.uint64(left - taken) if left > taken else values
            if left < bits:
                part = part & numpy.uint64((1 << taken) - 1)
            words[-1] |= part << numpy.uint64(room - taken)
            left -= taken
            room -= taken
    return words


def _by_arrow(columns: Sequence[Column]) -> Any:
    names = [str(i) for i in range(len(columns))]
    table = pyarrow.table([column.arrow() for column in columns], names=names)
    return pyarrow.compute.sort_indices(table, [(name, "ascending") for name in names]).to_numpy().astype(numpy.int64)
