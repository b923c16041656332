"""Inbound: rows that Spark tasks push to the partition that owns them, and the files in which they wait.

A push is a job of its own: its tasks send chunks of rows, and what one attempt of a task has sent to this partition
stands in files of its own, so that a task that is tried again, or runs twice, does no harm: only the files of attempts
that were completed are named in the transaction. Nothing is applied here.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from datalog.errors import RuntimeProblem
from livelog.packing import ROW, tupled
from livelog.store.layout import Layout, file_name, make_folder, sync_folder
from livelog.store.records import Damaged, RecordWriter, read_records

__all__ = ["Inbound", "decode_rows", "read_batch"]

_SIGNS = {"+": "in", "-": "out"}
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LARGEST = 2**63 - 1

_encode = msgspec.msgpack.Encoder().encode
_rows_decoder: Any = msgspec.msgpack.Decoder(list.__class_getitem__(ROW))
_any_decoder = msgspec.msgpack.Decoder(list[Any])

Attempt = tuple[str, int, int]
"""What belongs together: the token of a push, the number of a task, and the number of its attempt."""


class _File:
    """A file that is being written, and how many rows it has."""

    def __init__(self, path: Path, relation: str, sign: str) -> None:
        self.relation = relation
        self.sign = sign
        self.name = f"{path.parent.name}/{path.name}"
        self.path = path
        self.rows = 0
        self.writer = RecordWriter(path)

    def discard(self) -> None:
        """Leave nothing behind."""
        self.writer.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


class Inbound:
    """What clients have pushed to one partition and not completed yet, by client and attempt.

    `arities` has the number of columns of every relation that may be pushed; without it any relation will do.
    """

    def __init__(
        self, layout: Layout, partition: int, partitions: int, arities: Mapping[str, int] | None = None
    ) -> None:
        self._layout = layout
        self._partition = partition
        self._partitions = partitions
        self._arities = arities
        self._open: dict[Any, dict[Attempt, dict[tuple[str, str], _File]]] = {}
        self._failed: dict[Any, str] = {}  # a client has one task, and one attempt of it

    def take(self, client: Any, kind: Any, arguments: list[Any]) -> Iterator[bytes]:
        """Do what a client's message says, and answer it. What makes no sense raises `ValueError`.

            rows    token, task, attempt, relation, sign, rows as msgpack     no answer
            staged  token, task, attempt                                      the files: (relation, sign, name, rows)

        If the rows of an attempt could not be written, the answer is `{"error": a sentence}`.
        """
        if kind == "rows":
            self._append(client, *_exactly(arguments, 6))
        elif kind == "staged":
            yield _encode(self._complete(client, _attempt(*_exactly(arguments, 3))))
        else:
            raise ValueError(f"there is no message {kind!r}")

    def forget(self, client: Any) -> None:
        """A client is gone: what it did not complete is of no use."""
        self._failed.pop(client, None)
        for files in self._open.pop(client, {}).values():
            for file in files.values():
                file.discard()

    def close(self) -> None:
        """Let go of everything that is not complete."""
        for client in list(self._open):
            self.forget(client)

    def _append(
        self, client: Any, token: Any, task: Any, number: Any, relation: Any, sign: Any, data: Any
    ) -> None:
        attempt = _attempt(token, task, number)
        if type(relation) is not str or not relation:
            raise ValueError("a relation has a name")
        if type(sign) is not str or sign not in _SIGNS:
            raise ValueError(f"rows are inserted or deleted, not {sign!r}")
        if type(data) is not bytes:
            raise ValueError("rows are bytes")
        rows = decode_rows(data)
        if self._arities is not None:
            arity = self._arities.get(relation)
            if arity is None:
                raise ValueError(f"there is no relation {relation!r} to push to")
            if any(len(row) != arity for row in rows):
                raise ValueError(f"a row of {relation!r} has {arity} columns")
        if client in self._failed:
            return
        files = self._open.setdefault(client, {}).setdefault(attempt, {})
        try:
            file = files.get((relation, sign))
            if file is None:
                file = files[relation, sign] = self._create(attempt, relation, sign)
            file.writer.append(data)
        except (OSError, RuntimeProblem) as e:  # the partition goes on: only the push fails
            self._failed[client] = _sentence(e)
            return
        file.rows += len(rows)

    def _create(self, attempt: Attempt, relation: str, sign: str) -> _File:
        token, task, number = attempt
        folder = self._layout.batches / token
        make_folder(folder)
        # Numbers of attempts start again with every Spark application; what an earlier one left must not be in the way.
        unique = secrets.token_hex(4)
        name = f"{file_name(relation)}.{_SIGNS[sign]}.{self._partition}.{task}.{number}.{unique}"
        return _File(folder / name, relation, sign)

    def _complete(self, client: Any, attempt: Attempt) -> Any:
        files = self._open.get(client, {}).get(attempt, {})
        if client not in self._failed:
            try:
                for file in files.values():
                    file.writer.sync()
                    file.writer.close()
                if files:
                    sync_folder(self._layout.batches / attempt[0])
                self._open.get(client, {}).pop(attempt, None)
                return [(file.relation, file.sign, file.name, file.rows) for _, file in sorted(files.items())]
            except (OSError, RuntimeProblem) as e:
                self._failed[client] = _sentence(e)
        return {"error": self._failed[client]}

    @staticmethod
    def operations(rows: Iterable[Any]) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
        """The operations in the input of the stage: rows of (owner, relation, sign, rows as msgpack)."""
        for _, relation, sign, data in rows:
            for row in decode_rows(bytes(data)):
                yield sign, relation, row


def read_batch(layout: Layout, name: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a file that was completed, one chunk in memory at a time. Raises `Damaged`."""
    path = layout.batches / name
    if not os.path.isfile(path):
        raise Damaged(path, None, "it is not there")
    records = read_records(path)
    for body in records:
        try:
            yield from decode_rows(body)
        except ValueError as e:
            raise Damaged(path, records.end, str(e)) from None
    if records.torn:
        # It was synced as a whole before it was named anywhere.
        raise Damaged(path, records.end, f"its last {records.torn} bytes are not what was written")


def decode_rows(data: bytes) -> list[tuple[Any, ...]]:
    """Rows from msgpack. Raises `ValueError` if there are none.

    >>> decode_rows(_encode([["a", 1], ["b", [2.5, []]]]))
    [('a', 1), ('b', (2.5, ()))]
    """
    try:
        try:
            rows: list[tuple[Any, ...]] = _rows_decoder.decode(data)
        except msgspec.ValidationError:  # lists nested deeper than the decoder foresees
            rows = [tupled(row) for row in _any_decoder.decode(data)]
            if not all(type(row) is tuple and all(map(_is_value, row)) for row in rows):
                raise ValueError("rows are lists of values") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise ValueError(f"these are no rows ({e})") from None
    return rows


def _is_value(value: Any) -> bool:
    return all(map(_is_value, value)) if type(value) is tuple else type(value) in (int, float, str)


def _sentence(error: OSError | RuntimeProblem) -> str:
    if isinstance(error, RuntimeProblem):
        return error.message
    return f"cannot keep what was pushed: {error.strerror or error}"


def _exactly(arguments: list[Any], number: int) -> list[Any]:
    if len(arguments) != number:
        raise ValueError(f"a message has {len(arguments)} parts instead of {number}")
    return arguments


def _attempt(token: Any, task: Any, number: Any) -> Attempt:
    """Checked, since a path is made of it."""
    if type(token) is not str or not _TOKEN.fullmatch(token):
        raise ValueError("the token of a push is a short word")
    if not all(type(n) is int and 0 <= n <= _LARGEST for n in (task, number)):
        raise ValueError("tasks and attempts have numbers")
    return token, task, number
