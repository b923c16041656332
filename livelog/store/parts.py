"""Parts of a checkpoint: the facts of one relation on one partition, as a Parquet file that other tools can read.

A column is `int64`, `uint64`, `double` or `string` as long as all its values are exactly that. Otherwise (lists,
values of several types) it is binary, each value msgpack, and the field's metadata says so. What a relation declares is
the first guess; a column whose values turn out otherwise half way is rewritten. Multiplicities and
expiry times have columns of their own behind the others, only when there is something to say.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem
from livelog.packing import pack, unpack
from livelog.store.layout import FILE_MODE, TEMPORARY, sync_folder
from livelog.store.records import Damaged

__all__ = ["Part", "check_part", "read_batches", "read_part", "write_part"]

Row = tuple[tuple[Any, ...], int, float | None]
"""A fact, its multiplicity, and when it expires."""

Batch = tuple[list[tuple[Any, ...]], list[int] | None, list[float | None] | None]
"""Facts, and where they are not all there once and for good, their multiplicities and expiry times."""

BATCH = 1 << 15  # rows in memory at a time, while they are written
READ = 1 << 17  # the same while they are read
_KEY = b"livelog"  # of the metadata of a field: "msgpack", "count" or "expires"
_DECLARED = {"number": "int64", "unsigned": "uint64", "float": "double", "symbol": "string"}
_EXACT: dict[str, type] = {"int64": int, "uint64": int, "double": float, "string": str}
_LIMITS = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}


class Part(msgspec.Struct, frozen=True):
    """What was written: the number of rows, the size of the file, and its CRC-32."""

    rows: int
    bytes: int
    checksum: int


def write_part(path: Path, columns: Sequence[str], types: Sequence[str], rows: Iterable[Row]) -> Part:
    """Write a part, whole or not at all, durably. Its folder must be there. Memory is bounded, whatever the rows."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    writer = _Writer(temporary, columns, types)
    try:
        for batch in _batches(iter(rows)):
            writer.add(batch)
        writer.close()
        part = Part(writer.rows, *_measure(temporary))
        fd = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as e:
        raise RuntimeProblem(f"cannot write {path}: {e.strerror or e}") from e
    finally:
        writer.discard()
    return part


def read_part(path: Path, expected: Part | None = None) -> Iterator[Row]:
    """The rows of a part, in the order they were written. With `expected`, its checksum is compared first."""
    if expected is not None:
        check_part(path, expected)
    for facts, counts, expiries in read_batches(path):
        yield from zip(facts, counts or itertools.repeat(1), expiries or itertools.repeat(None))  # noqa: B905


def read_batches(path: Path) -> Iterator[Batch]:
    """The rows of a part by and by, many at a time: the facts, and their counts and expiry times where it has any."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
            words = [field.name for field in file.schema_arrow if pa.types.is_large_string(field.type)]
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, read_dictionary=words) as file:
            # as Arrow has it a row takes little; it is Python's values of which there are not to be too many at a time
            table = file.read(use_threads=False).unify_dictionaries()
        symbols = {name: _symbols(table.column(name)) for name in words}
        for start in range(0, table.num_rows, READ):
            yield _unpacked(table.slice(start, READ), symbols)
    except (pa.ArrowException, OSError, msgspec.MsgspecError) as e:
        what = getattr(e, "strerror", None) or str(e).splitlines()[0]
        raise Damaged(path, None, f"it cannot be read ({what})") from None


def check_part(path: Path, expected: Part) -> None:
    """Raise `Damaged` if a part is not the file that was written."""
    try:
        size, checksum = _measure(path)
    except OSError as e:
        raise Damaged(path, None, f"it cannot be read ({e.strerror or e})") from None
    if size != expected.bytes:
        raise Damaged(path, None, f"it has {size} bytes instead of {expected.bytes}")
    if checksum != expected.checksum:
        raise Damaged(path, None, "it does not match its checksum")


def _measure(path: Path) -> tuple[int, int]:
    size = checksum = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return size, checksum


class _Writer:
    """A Parquet file that grows by batches, and starts over with a wider form when a batch does not fit.

    `form` has the kind of each column, "binary" for msgpack; the count and the expiry come last, None while they
    have nothing to say.
    """

    def __init__(self, path: Path, columns: Sequence[str], types: Sequence[str]) -> None:
        self.path = path
        self.rows = 0
        self._names = _distinct([*columns, "count", "expires"])
        self._width = len(columns)
        self._declared = [_DECLARED.get(kind) for kind in types]
        self._form: list[str | None] | None = None
        self._file: Any = None

    def add(self, batch: list[Row]) -> None:
        """Append rows."""
        values = _columns(batch, self._width)
        form = self._fitting(values)
        if form != self._form:
            self._widen(form)
        try:
            self._append(values)
        except UnicodeEncodeError as e:
            raise RuntimeProblem(f"a text that is not valid Unicode cannot be stored: {e.object!r}") from None
        except OverflowError:
            raise RuntimeProblem("an integer of more than 64 bits cannot be stored") from None
        self.rows += len(batch)

    def _fitting(self, values: list[list[Any]]) -> list[str | None]:
        """The narrowest form that holds what is there and these values."""
        form: list[str | None] = []
        for i in range(self._width):
            guess = self._declared[i] or _guess(values[i]) if self._form is None else self._form[i]
            form.append(guess if guess is not None and _fits(guess, values[i]) else "binary")
        counts, expiries = values[self._width :]
        before = [None, None] if self._form is None else self._form[self._width :]
        # a relation without columns needs some column to have rows at all
        counted = before[0] or not self._width or counts.count(1) != len(counts)
        form.append("int64" if counted else None)
        times = [when for when in expiries if when is not None]
        if before[1] == "binary" or not _fits("double", times):
            form.append("binary")
        else:
            form.append("double" if before[1] or times else None)
        return form

    def _widen(self, form: list[str | None]) -> None:
        """Write on in another form; what is there already is read back and written again."""
        if self._file is None:
            self._form = form
            self._file = self._open()
            return
        self._file.close()
        old = self.path.with_name(self.path.name.removesuffix(TEMPORARY) + ".old" + TEMPORARY)
        os.replace(self.path, old)
        self._form = form
        self._file = self._open()
        try:
            for batch in _batches(read_part(old)):
                self._append(_columns(batch, self._width))
        finally:
            os.unlink(old)

    def _open(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet

        kinds = {
            # the large ones only differ in memory, where a batch of them may pass 2 GB
            "int64": pa.int64(), "uint64": pa.uint64(), "double": pa.float64(),
            "string": pa.large_string(), "binary": pa.large_binary(),
        }  # fmt: skip
        fields = []
        for i, (name, kind) in enumerate(zip(self._names, self._form or (), strict=True)):
            if kind is not None:
                extra = i - self._width
                roles = [] if extra < 0 else [("count", "expires")[extra]]
                if kind == "binary":
                    roles.append("msgpack")
                metadata = {_KEY: ",".join(roles).encode()} if roles else None
                fields.append(pa.field(name, kinds[kind], nullable=extra == 1, metadata=metadata))
        # Dictionaries compare values, which is not for floats: there are two zeros and many that are no number.
        words = [field.name for field in fields if field.type == pa.large_string()]
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))  # the writer keeps these rights
        return pyarrow.parquet.ParquetWriter(self.path, pa.schema(fields), use_dictionary=words or False)

    def _append(self, values: list[list[Any]]) -> None:
        import pyarrow as pa

        arrays = []
        fields = iter(self._file.schema)
        for column, kind in zip(values, self._form or (), strict=True):
            if kind is not None:
                field = next(fields)
                if kind == "binary":
                    column = [None if v is None and field.nullable else pack(v) for v in column]
                arrays.append(pa.array(column, field.type))
        self._file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._file.schema))

    def close(self) -> None:
        """The file is complete."""
        if self._file is None:
            self._form = [*(kind or "binary" for kind in self._declared), None if self._width else "int64", None]
            self._file = self._open()
        self._file.close()

    def discard(self) -> None:
        """Leave nothing behind of a file that was not completed and moved to its place."""
        with contextlib.suppress(Exception):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def _distinct(names: list[str]) -> list[str]:
    """Names for columns, none twice."""
    used: set[str] = set()
    for i, name in enumerate(names):
        while name in used:
            name += "_"
        names[i] = name
        used.add(name)
    return names


def _guess(values: list[Any]) -> str | None:
    """The kind that values have for which nothing is declared."""
    return next((kind for kind in _EXACT if _fits(kind, values)), None)


def _fits(kind: str, values: list[Any]) -> bool:
    """Whether a column of a kind gives back exactly these values."""
    if kind == "binary" or not values:
        return True
    if set(map(type, values)) != {_EXACT[kind]}:
        return False
    if kind in _LIMITS:
        least, most = _LIMITS[kind]
        return bool(least <= min(values) and max(values) <= most)
    return True


def _columns(batch: list[Row], width: int) -> list[list[Any]]:
    """Rows by column, the counts and the expiry times last."""
    facts = [fact for fact, _, _ in batch]
    if set(map(len, facts)) != {width}:
        raise ValueError(f"a fact does not have {width} columns")
    columns = [[fact[i] for fact in facts] for i in range(width)]
    return [*columns, [count for _, count, _ in batch], [expires for _, _, expires in batch]]


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch


def _unpacked(table: Any, symbols: Mapping[str, Any]) -> Batch:
    """A table as Python's own values. `symbols` has the different ones by column, for columns of symbols."""
    columns: list[Any] = []
    counts: Any = None
    expiries: Any = None
    cells: list[Any]
    for field, column in zip(table.schema, table.columns, strict=True):
        roles = (field.metadata or {}).get(_KEY, b"").split(b",")
        if b"msgpack" in roles:
            cells = [None if data is None else unpack(data) for data in column.to_pylist()]
        elif field.name in symbols:
            cells = []
            for chunk in column.chunks:
                cells += symbols[field.name][chunk.indices.to_numpy()].tolist()
        elif column.null_count:
            cells = column.to_pylist()
        else:
            cells = column.to_numpy().tolist()  # several times faster
        if b"count" in roles:
            counts = cells
        elif b"expires" in roles:
            expiries = cells
        else:
            columns.append(cells)
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows, counts, expiries


def _symbols(column: Any) -> Any:
    """The different texts of an encoded column: one string of Python's for each, not one per row."""
    import numpy

    dictionary = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []  # `to_numpy` would import pandas
    words = numpy.empty(len(dictionary), dtype=object)
    words[:] = [sys.intern(word) for word in dictionary]
    return words
