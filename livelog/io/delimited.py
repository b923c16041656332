"""Tuples from delimited text: `link.facts` (tabs) and `link.csv` (commas, quotes as in RFC 4180).

Files are read in chunks of a few megabytes and converted a column at a time. A line is only looked at on
its own again when something is wrong with it. Text without any double quote means the same with and
without RFC 4180, so only files that use quotes pay for the csv module.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from datalog.ast import Relation
from datalog.errors import FactProblem, Note
from livelog.io.columns import BadValue, convert_column, infer_type
from livelog.io.forms import Form
from livelog.io.headers import Layout, could_be_fact, fields, layout_of, looks_like_header, say_guessed
from livelog.io.problems import line_problem, say

__all__ = ["read_delimited"]

CHUNK = 1 << 22
"""Characters per chunk: large enough for the C loops to dominate, small beside the tuples they become."""

BATCH = 50_000
"""Records per batch where quotes force the csv module."""

Rows = list[tuple[Any, ...]]
Batch = tuple[Sequence[int], list[list[str]]]
"""Some records, and the numbers of the lines that they start on."""


def read_delimited(
    path: Path, relation: Relation, form: Form, memo: dict[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Rows:  # fmt: skip
    """All tuples of a file, in order, with duplicates. `progress` hears how many bytes are behind us."""
    memo = {} if memo is None else memo
    doubtful, rows = False, None
    try:
        first, second = _first_rows(path, form)
        layout = layout_of(path, first, relation, form)
        doubtful = not layout.header and looks_like_header(first, second, relation)
        if doubtful and form.headers == "named":
            rows = _without_header(path, first, relation, form, memo, progress)
        guessed = rows is not None
        if rows is None:
            rows = _rows(path, relation, form, layout, memo, progress)
    except UnicodeDecodeError:
        raise _undecodable(path) from None
    except OSError as error:
        raise FactProblem(f"{path}: cannot be read: {error.strerror}") from None
    except FactProblem as problem:
        if problem.line == 1 and doubtful:
            problem.notes = (*problem.notes, Note(f"if it is a header: .input {relation.name}(headers=true)"))
        raise
    if guessed:
        say_guessed(path, first, relation)
    elif layout.remark:
        say(layout.remark)
    return rows


def _first_rows(path: Path, form: Form) -> tuple[list[str], list[str]]:
    """The fields of the first row, and those of the next that is not empty."""
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        first = file.readline()
        second = next((line for line in file if line.strip()), "")
    return fields(first, form), fields(second, form)


def _without_header(
    path: Path, first: list[str], relation: Relation, form: Form, memo: dict[str, str],
    progress: Callable[[int], None] | None,
) -> Rows | None:  # fmt: skip
    """The tuples after the first row; None if that is a fact, after all, or if they are none either."""
    try:
        rows = _rows(path, relation, form, Layout(True, relation.arity), memo, progress)
    except FactProblem:
        return None
    if not could_be_fact(first, relation):
        return rows
    # Where types are open, texts are a header only above numbers.
    some = [rows[0][i] for i, column in enumerate(relation.columns) if column.type == "any"]
    return rows if any(isinstance(value, (int, float)) for value in some) else None


def _rows(
    path: Path, relation: Relation, form: Form, layout: Layout, memo: dict[str, str],
    progress: Callable[[int], None] | None,
) -> Rows:  # fmt: skip
    types = [column.type for column in relation.columns]
    positions = range(len(types)) if layout.positions is None else layout.positions
    rows: Rows = []
    numbers: list[Sequence[int]] = []
    later: list[list[str]] = [[] for _ in types]  # `any` columns: the type shows once all of it is there
    with path.open("rb") as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="\n") as file:
        for lines, records in _batches(file, path, relation, form, layout):
            _check_width(path, relation, form, layout, lines, records)
            if not types:
                rows.extend(() for _ in records)
                continue
            texts = list(zip(*records, strict=True))
            columns: list[Sequence[Any]] = []
            for index, position in enumerate(positions):
                if types[index] == "any":
                    later[index].extend(texts[position])
                    columns.append(texts[position])
                else:
                    columns.append(_converted(path, relation, form, index, position, texts[position], memo, lines))
            rows.extend(zip(*columns, strict=True))
            numbers.append(lines)
            if progress is not None:
                progress(raw.tell())
    if rows and "any" in types:
        where = _Lines(numbers)
        columns = [
            _converted(path, relation, form, i, positions[i], later[i], memo, where) if types[i] == "any" else column
            for i, column in enumerate(zip(*rows, strict=True))
        ]
        rows = list(zip(*columns, strict=True))
    return rows


def _batches(file: TextIO, path: Path, relation: Relation, form: Form, layout: Layout) -> Iterator[Batch]:
    """The records of a file in batches, without its header and without blank lines that are no tuple."""
    pending = file.readline()
    number = 1
    if pending and layout.header:
        pending, number = "", 2
    # An empty line is a tuple only where the empty symbol may stand alone.
    blank_is_row = [column.type for column in relation.columns] == ["symbol"] and layout.width == 1
    while True:
        text = pending + file.read(CHUNK)
        pending = ""
        if not text:
            return
        if not text.endswith("\n"):
            text += file.readline()
        if form.quoted and '"' in text:
            yield from _quoted(chain(_split(text), file), number, path, form, blank_is_row)
            return
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        numbers: Sequence[int] = range(number, number + len(lines))
        number += len(lines)
        if not blank_is_row and "" in lines:
            numbers = [n for n, line in zip(numbers, lines, strict=True) if line]
            lines = [line for line in lines if line]
        if lines:
            yield numbers, [line.split(form.delimiter) for line in lines]


def _split(text: str) -> Iterator[str]:
    """The lines of a text with their ends, as iterating over a file gives them."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _quoted(lines: Iterator[str], first: int, path: Path, form: Form, blank_is_row: bool) -> Iterator[Batch]:
    """Records that may hold quoted fields, by the csv module; a record may go over several lines."""
    reader = csv.reader(lines, delimiter=form.delimiter, strict=True)
    numbers: list[int] = []
    records: list[list[str]] = []
    number = first
    while True:
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise line_problem(f"not valid as RFC 4180: {error}", str(path), number, _line(path, number)) from None
        if record is None or len(records) == BATCH:
            if records:
                yield numbers, records
            numbers, records = [], []
        if record is None:
            return
        if record or blank_is_row:
            numbers.append(number)
            records.append(record or [""])
        number = first + reader.line_num


def _check_width(
    path: Path, relation: Relation, form: Form, layout: Layout, lines: Sequence[int], records: list[list[str]]
) -> None:
    """Every record has as many fields as the relation has columns, or the header."""
    arity = relation.arity
    if not arity:
        # As Souffle has it, the one tuple of a relation without columns is the line `()`.
        bad = next((i for i, record in enumerate(records) if record != ["()"]), None)
        if bad is None:
            return
        raise line_problem(
            f"{relation.name} has no columns: a line can only be ()", str(path), lines[bad], _line(path, lines[bad])
        )
    if set(map(len, records)) <= {layout.width}:
        return
    bad = next(i for i, record in enumerate(records) if len(record) != layout.width)
    text = _line(path, lines[bad])
    if layout.width != arity:
        message = f"the header has {layout.width} columns, but this line has {len(records[bad])}"
        raise line_problem(message, str(path), lines[bad], text)
    names = ", ".join(column.name for column in relation.columns)
    found = len(records[bad])
    notes = []
    if found == 1 and form.delimiter not in text:
        for other, word in (("\t", "tabs"), (",", "commas"), (";", "semicolons")):
            if other in text:
                shown = "\\t" if other == "\t" else other
                notes = [
                    f"the line has {word}, but fields are separated by {form.delimiter!r} here; to change that: "
                    f'.input {relation.name}(filename="{path.name}", delimiter="{shown}")'
                ]
                break
    raise line_problem(
        f"{relation.name} has {arity} {'column' if arity == 1 else 'columns'} ({names}), but this line has {found}",
        str(path), lines[bad], text, notes=notes,
    )  # fmt: skip


def _converted(
    path: Path, relation: Relation, form: Form, index: int, position: int, texts: Sequence[str],
    memo: dict[str, str], lines: Sequence[int],
) -> Sequence[Any]:  # fmt: skip
    """One column as values, or the problem with the first of its texts that is no value."""
    column = relation.columns[index]
    try:
        kind = column.type
        if kind == "any" and column.numeric and infer_type(texts) not in ("number", "float"):
            kind = "float" if any("." in text for text in texts) else "number"  # a rule computes with it
        return convert_column(texts, kind, memo)
    except BadValue as bad:
        number = lines[bad.row]
        text = _line(path, number)
        start, end = 0, len(text)
        if '"' not in text:
            parts = text.split(form.delimiter)
            start = sum(len(part) + len(form.delimiter) for part in parts[:position])
            end = start + len(parts[position])
        message = f"column {position + 1} ({column.name}): {bad.message}"
        raise line_problem(message, str(path), number, text, start, end) from None


class _Lines(Sequence[int]):
    """The line numbers of all batches one after the other."""

    def __init__(self, parts: list[Sequence[int]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, index: Any) -> Any:
        return next(islice(chain.from_iterable(self.parts), index, None))


def _line(path: Path, number: int) -> str:
    """Line `number` of a file, for a message."""
    with path.open(encoding="utf-8-sig", newline="\n", errors="replace") as file:
        return next(islice(file, number - 1, None), "").rstrip("\r\n")


def _undecodable(path: Path) -> FactProblem:
    """The problem with a file that is not UTF-8: which line, which byte."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as error:
                text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
                start = len(raw[: error.start].decode("utf-8"))
                message = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file in that encoding"
                return line_problem(message, str(path), number, text, start, start + 1)
    return FactProblem(f"{path}: the file is not UTF-8")
