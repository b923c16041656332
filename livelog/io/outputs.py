"""Views out: `<relation>.csv` in a folder, tab separated as Souffle writes them, Parquet, or text on the terminal.

A file is written beside its target and renamed over it, so that a reader never meets half of one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from datalog.ast import Program
from datalog.errors import FactProblem, Note
from livelog.io.forms import FACTS, Form, form_of
from livelog.io.values import format_value

if TYPE_CHECKING:
    import pyarrow

__all__ = ["complete_views", "output_forms", "print_sizes", "print_view", "write_table", "write_view"]

Row = tuple[Any, ...]


def output_forms(program: Program) -> list[tuple[str, Form]]:
    """The relations to write and how, in the order of the program; one may be written more than once."""
    directives = program.directives_of("output")
    named = {d.relation for d in directives}
    forms = [(d.relation, form_of(program, d)) for d in directives]
    return forms + [(relation, FACTS) for relation in program.outputs if relation not in named]


def complete_views(program: Program) -> set[str]:
    """The relations of which all is told while updates come: those that an `.output` with `form=complete` names."""
    return {relation for relation, form in output_forms(program) if form.complete}


def field_text(value: Any) -> str:
    """A value as the field of a file: symbols bare, floats without a fraction as Souffle has them, without a dot.

    >>> field_text("a"), field_text(2.5), field_text(2.0), field_text((1, "a"))
    ('a', '2.5', '2', '[1, "a"]')
    """
    if isinstance(value, str):
        return value
    return repr(value).removesuffix(".0") if isinstance(value, float) else format_value(value)


def view_lines(relation: str, rows: Iterable[Row], form: Form) -> Iterator[str]:
    """The lines of a file, each with its line end. The tuple of a relation without columns is `()`."""
    delimiter = form.delimiter
    if form.quoted:
        for row in rows:
            fields = [field_text(value) for value in row] if row else ["()"]
            yield delimiter.join([_quoted(field, delimiter) for field in fields] if fields != [""] else ['""']) + "\n"
        return
    for row in rows:
        fields = [field_text(value) for value in row] if row else ["()"]
        line = delimiter.join(fields)
        if "\n" in line or "\r" in line or line.count(delimiter) >= len(fields):
            bad = next(f for f in fields if "\n" in f or "\r" in f or delimiter in f)
            raise FactProblem(
                f"{relation}: the symbol {bad[:60]!r} holds a line end or the delimiter: it cannot be written plain",
                notes=[Note(f"with quotes it can: .output {relation}(rfc4180=true)")],
            )
        yield line + "\n"


def _quoted(field: str, delimiter: str) -> str:
    # The csv module leaves a lone carriage return bare, and then refuses to read it.
    if '"' in field or delimiter in field or "\n" in field or "\r" in field:
        return '"' + field.replace('"', '""') + '"'
    return field


def write_view(
    folder: Path, relation: str, columns: Sequence[str], rows: Iterable[Row], form: Form = FACTS
) -> Path:
    """Write one view into `folder`, which is made if need be, as lines of text; returns the path of the file."""
    path = folder / form.file_of(relation)
    with _replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        if form.headers == "yes":
            file.writelines(view_lines(relation, [tuple(columns)], form))
        file.writelines(view_lines(relation, rows, form))
    return path


def write_table(folder: Path, relation: str, table: pyarrow.Table, form: Form) -> Path:
    """Write one view, as columns of Arrow, to a file of Parquet in `folder`; returns the path of the file."""
    import pyarrow.parquet

    path = folder / form.file_of(relation)
    with _replacing(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)
    return path


@contextmanager
def _replacing(path: Path) -> Iterator[str]:
    """A file beside `path` to write to, which takes its place once it is whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        try:
            yield temporary
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise FactProblem(f"{path}: cannot be written: {error.strerror}") from None


def _umask() -> int:
    # A temporary file is private; the result should be as readable as any file the person makes.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def print_view(out: TextIO, relation: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A view on the terminal, in Souffle's look.

    >>> import sys
    >>> print_view(sys.stdout, "edge", ("src", "dst"), [("a", "b")])
    ---------------
    edge
    src dst
    ===============
    a   b
    ===============
    """
    out.write(f"---------------\n{relation}\n")
    if columns:
        out.write("\t".join(columns) + "\n")
    out.write("===============\n")
    # What stands on a terminal is for eyes: a symbol that would break the line is shown quoted.
    for row in rows:
        fields = [v if isinstance(v, str) and v.isprintable() else format_value(v) for v in row]
        out.write("\t".join(fields) + "\n" if row else "()\n")
    out.write("===============\n")


# --- sizes ---------------------------------------------------------------------------------------------------


def print_sizes(out: TextIO, program: Program, sizes: Mapping[str, int]) -> None:
    """What `.printsize` asks for: the name of the relation, a tab, the number of its tuples."""
    for directive in program.directives_of("printsize"):
        out.write(f"{directive.relation}\t{sizes[directive.relation]}\n")
