"""Columns of a view, which know how their values compare.

A number compares as itself less the smallest of its column, a float as its bits, a text as its place among the
different ones or as its bytes: all are bit fields, which `livelog.ordering` sorts.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy
import pyarrow
import pyarrow.compute

__all__ = ["WORD", "Column", "Field", "Names", "Numbers", "Texts", "are_many", "sample_of", "texts"]

WORD = 64
SAMPLE = 4096
MANY = 0.95
"""Texts of which so large a part of a sample are different are compared by their bytes."""
LONGEST = 64
"""Bytes of a text that is compared by its bytes. Longer ones are left to Arrow, which compares them one by one."""

Field = tuple[Any, int]
"""Unsigned numbers, and how many bits the largest takes."""


class Column(Protocol):
    """A column of values that are all numbers, or all texts."""

    def fields(self) -> list[Field] | None:
        """Fields that compare as the values do; None if there are none."""

    def arrow(self, order: Any = None) -> Any:
        """The values as an Arrow array, in an order."""

    def numpy(self, order: Any) -> Any:
        """The values as an array of numpy, in an order."""


class Numbers:
    """A column of numbers, in an array of numpy."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def fields(self) -> list[Field]:
        array = self._array
        if array.dtype.kind == "f":
            bits = (array + 0.0).view(numpy.uint64)  # there is one zero
            bits ^= (bits.view(numpy.int64) >> numpy.int64(63)).view(numpy.uint64) | numpy.uint64(1 << 63)
            return [(bits, WORD)]
        if not len(array):
            return []
        low, high = array.min(), array.max()
        return [(array.view(numpy.uint64) - low.view(numpy.uint64), (int(high) - int(low)).bit_length())]

    def arrow(self, order: Any = None) -> Any:
        return pyarrow.array(self._array if order is None else self._array[order])

    def numpy(self, order: Any) -> Any:
        return self._array[order]


class Names:
    """A column of texts of which the different ones are few: each is known by its place among them."""

    def __init__(self, words: Any, codes: Any) -> None:
        """The different texts, in any order, and the number of each text among them."""
        sorted_ = pyarrow.compute.sort_indices(words)
        places = numpy.empty(len(words), numpy.uint64)
        places[sorted_.to_numpy()] = numpy.arange(len(words), dtype=numpy.uint64)
        self._words, self._places = words.take(sorted_), places[codes]

    def fields(self) -> list[Field]:
        return [(self._places, (len(self._words) - 1).bit_length())] if len(self._words) else []

    def arrow(self, order: Any = None) -> Any:
        return self._words.take(pyarrow.array(self._places if order is None else self._places[order]))

    def numpy(self, order: Any) -> Any:
        return self._words.to_numpy(zero_copy_only=False)[self._places[order]]


class Texts:
    """A column of texts, in an array of Arrow."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def fields(self) -> list[Field] | None:
        array = self._array
        longest = pyarrow.compute.max(pyarrow.compute.binary_length(array)).as_py() or 0
        if longest > LONGEST or b"\0" in memoryview(array.buffers()[2] or b"").tobytes():
            return None  # as zeros fill up the short ones
        across = -(-longest // 8)
        filled = pyarrow.compute.ascii_rpad(array, width=8 * across, padding="\0")  # it counts bytes
        texts = numpy.frombuffer(filled.buffers()[2] or b"", ">u8", across * len(array)).reshape(len(array), across)
        fields = []
        for i in range(across):
            values = texts[:, i].astype(numpy.uint64)
            if (unused := 8 * (i + 1) - longest) > 0:
                values >>= numpy.uint64(8 * unused)
            # All values share the leading bits that the smallest and the largest share.
            bits = (int(values.min()) ^ int(values.max())).bit_length()
            fields.append((values & numpy.uint64((1 << bits) - 1), bits))
        return fields

    def arrow(self, order: Any = None) -> Any:
        return self._array if order is None else self._array.take(pyarrow.array(order))

    def numpy(self, order: Any) -> Any:
        return self.arrow(order).to_numpy(zero_copy_only=False)


def texts(array: Any) -> Column:
    """The column of an Arrow array of texts."""
    if are_many(array.take(pyarrow.array(numpy.arange(len(array))[sample_of(len(array))])).to_pylist()):
        return Texts(array)
    encoded = array.dictionary_encode()
    return Names(encoded.dictionary, encoded.indices.to_numpy())


def sample_of(count: int) -> slice:
    """Some of so many texts."""
    return slice(0, None, -(-count // SAMPLE) or 1)


def are_many(sample: list[str]) -> bool:
    """Whether a sample of texts has so many different ones that it does not pay to know them by their places."""
    return len(set(sample)) >= MANY * len(sample)
