"""The first row of a file of facts: a header or a fact, and where the columns of the relation are.

A file with a header is read by the names in it wherever the program declares names. Nothing is guessed in silence: a
header that nobody declared is recognised by the names, or because it cannot be a fact while all that follows can, and
then it is said.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from datalog.ast import Column, Relation
from livelog.io.columns import BadValue, convert_column, infer_type
from livelog.io.forms import Form
from livelog.io.problems import line_problem, say

__all__ = ["Layout", "could_be_fact", "fields", "layout_of", "looks_like_header", "say_guessed"]

_NUMBERS = ("number", "float")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the records of a file are laid out.

    `header`: whether the first row is one. `width`: the fields of a record. `positions`: which of them are the columns
    of the relation, in its order; None if they are all of them as they come. `remark`: what is to be said of it.
    """

    header: bool
    width: int
    positions: tuple[int, ...] | None = None
    remark: str = ""


def fields(line: str, form: Form) -> list[str]:
    """The fields of a line, as far as it can be told from this line alone."""
    line = line.rstrip("\r\n")
    return next(csv.reader([line], delimiter=form.delimiter), []) if form.quoted else line.split(form.delimiter)


def layout_of(path: Path, first: Sequence[str], relation: Relation, form: Form) -> Layout:
    """What the names in the first row say. Raises `FactProblem` for a header that lacks columns.

    >>> from datalog.ast import Column
    >>> link = Relation("link", (Column("src", "symbol"), Column("cost", "number")))
    >>> layout_of(Path("link.csv"), ["cost", "colour", "src"], link, Form(",", "yes"))
    Layout(header=True, width=3, positions=(2, 0), remark='')
    >>> layout_of(Path("link.csv"), ["a", "1"], link, Form(",", "named"))
    Layout(header=False, width=2, positions=None, remark='')
    """
    columns = [column.name for column in relation.columns]
    plain = Layout(form.headers == "yes", len(columns))
    if form.headers == "no" or not columns or not any(first):
        return plain
    names = [name.strip() for name in first]
    if not relation.declared:
        if form.headers == "named" and names == columns and could_be_fact(first, relation):
            remark = f"the first row is taken for a fact, though it has the names of the columns of {relation.name}"
            return Layout(False, len(columns), remark=f"{path}:1: {remark}; {_how(relation)}")
        return plain
    lacking = [column for column in columns if column not in names]
    if not lacking:
        if twice := next((column for column in columns if names.count(column) > 1), None):
            if form.headers == "named":
                return plain
            raise _refused(path, first, form, f"the header has `{twice}` twice")
        return _by_name(path, names, relation, form)
    if form.headers == "yes":
        if len(lacking) < len(columns) or len(names) < len(columns):
            raise _refused(path, first, form, f"the header lacks {_lacking(relation, lacking, names)}")
        return plain
    if len(lacking) < len(columns) and len(names) == len(columns) and could_be_fact(first, relation):
        known = next(name for name in names if name in columns)
        remark = f"the first row is taken for a fact, though `{known}` is the name of a column of {relation.name}"
        return Layout(False, len(columns), remark=f"{path}:1: {remark}; {_how(relation)}")
    return plain


def _by_name(path: Path, names: list[str], relation: Relation, form: Form) -> Layout:
    columns = [column.name for column in relation.columns]
    positions = tuple(names.index(column) for column in columns)
    remark = ""
    if form.headers == "named" and (names != columns or could_be_fact(names, relation)):
        extra = [name for name in names if name not in columns]
        more = f" (not read: {', '.join(extra)})" if extra else ""
        remark = f"{path}:1: the first row is taken for a header: it has the columns of {relation.name}{more}"
        remark += f"; {_how(relation)}"
    return Layout(True, len(names), None if names == columns else positions, remark)


def could_be_fact(first: Sequence[str], relation: Relation) -> bool:
    """Whether the texts of a row can be values of the relation's columns."""
    if len(first) != relation.arity:
        return False
    return all(map(_fits, first, relation.columns))


def _fits(text: str, column: Column) -> bool:
    kind = column.type
    if kind == "any":
        return not column.numeric or infer_type([text]) in _NUMBERS
    try:
        convert_column([text], kind)
    except BadValue:
        return False
    return True


def looks_like_header(first: Sequence[str], second: Sequence[str], relation: Relation) -> bool:
    """Whether the first row may be a header: different texts, no numbers, and the second row fits where it does not.

    >>> from datalog.ast import Column
    >>> link = Relation("link", (Column("x", "any"), Column("y", "any")), declared=False)
    >>> looks_like_header(["node", "cost"], ["a", "7"], link), looks_like_header(["b", "6"], ["a", "7"], link)
    (True, False)
    """
    if not len(first) == len(second) == relation.arity or len({*first}) < len(first):
        return False
    if not all(text.strip() and infer_type([text]) == "symbol" for text in first):
        return False
    if not could_be_fact(first, relation):
        return could_be_fact(second, relation)
    return any(
        column.type == "any" and infer_type([text]) in _NUMBERS
        for text, column in zip(second, relation.columns, strict=True)
    )


def say_guessed(path: Path, first: Sequence[str], relation: Relation) -> None:
    """Say that the first row was taken for a header because of what follows it."""
    names = [name.strip() for name in first]
    columns = [column.name for column in relation.columns]
    lacking = [column for column in columns if column not in names]
    if relation.declared and len(lacking) < len(columns):
        raise line_problem(
            f"this looks like a header that lacks {_lacking(relation, lacking, names)}", str(path), 1,
            ", ".join(names), notes=[_how(relation)],
        )  # fmt: skip
    say(
        f"{path}:1: the first row ({', '.join(names)}) is taken for a header: it has texts where all others have "
        f"numbers; {_how(relation)}"
    )


def _how(relation: Relation) -> str:
    return f".input {relation.name}(headers=true) says that it is a header, headers=false that it is none"


def _lacking(relation: Relation, lacking: list[str], names: list[str]) -> str:
    missing = ", ".join(f"`{column}`" for column in lacking)
    wanted = ", ".join(column.name for column in relation.columns)
    return f"{missing} ({relation.name} has {wanted}; the file has {', '.join(names)})"


def _refused(path: Path, first: Sequence[str], form: Form, message: str) -> Exception:
    return line_problem(message, str(path), 1, form.delimiter.join(first))
