"""Facts from a folder: which file holds which relation, and all of its tuples.

For a relation `link` the file is what `.input link(filename="...")` says, or the first that exists of
`link.facts` (tab separated, no header), `link.csv` (comma separated, quotes as in RFC 4180; a first row
that repeats the column names is a header) and `link.parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datalog.ast import Directive, Program, Relation
from datalog.errors import FactProblem
from livelog.io.delimited import read_delimited
from livelog.io.forms import CSV, FACTS, Form, form_of
from livelog.io.parquet import read_parquet
from livelog.io.problems import directive_problem
from livelog.io.quick import read_quickly
from livelog.runtime.collecting import pause_collections, resume_collections

__all__ = ["FactFile", "fact_files", "load_facts"]

SUFFIXES = (".facts", ".csv", ".parquet")

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class FactFile:
    """A file that holds facts of a relation."""

    relation: Relation
    path: Path
    form: Form

    def read(self, memo: dict[str, str] | None = None, progress: Callable[[int], None] | None = None) -> Rows:
        """All tuples of the file, in order, with duplicates."""
        # millions of new tuples and no garbage: the collector would only walk over them again and again
        collecting = pause_collections()
        try:
            return self._read(memo, progress)
        finally:
            if collecting:
                resume_collections()

    def _read(self, memo: dict[str, str] | None, progress: Callable[[int], None] | None) -> Rows:
        if self.path.suffix == ".parquet":
            return read_parquet(self.path, self.relation)
        quick = read_quickly(self.path, self.relation, self.form) if progress is None else None
        return read_delimited(self.path, self.relation, self.form, memo, progress) if quick is None else quick


def load_facts(
    program: Program, directory: str | Path, *, implicit: bool = True, required: bool = True
) -> Iterator[tuple[str, Rows]]:
    """The facts in `directory` for a checked program: pairs of a relation and its tuples.

    Relations with `.input` must have their file (unless `required` is False). Base relations without it are
    loaded when their file exists (unless `implicit` is False) and are empty otherwise. Relations with rules
    are loaded only with `.input`.
    """
    memo: dict[str, str] = {}
    for file in fact_files(program, directory, implicit=implicit, required=required):
        yield file.relation.name, file.read(memo)


def fact_files(
    program: Program, directory: str | Path, *, implicit: bool = True, required: bool = True
) -> list[FactFile]:
    """The files that `load_facts` reads, in a fixed order: `.input` lines first, then other base relations."""
    folder = Path(directory)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise FactProblem(f"the facts folder {str(folder)!r} {what}")
    files: list[FactFile] = []
    named: set[str] = set()
    for directive in program.directives_of("input"):
        named.add(directive.relation)
        file = _named(program, directive, folder)
        if file is not None:
            files.append(file)
        elif required:
            raise _missing(program, directive, folder)
    if implicit:
        for name in sorted(program.base - named):
            found = _found(folder, name)
            if found is not None:
                files.append(FactFile(program.relations[name], found, CSV if found.suffix == ".csv" else FACTS))
    return files


def _named(program: Program, directive: Directive, folder: Path) -> FactFile | None:
    """The file that an `.input` line asks for, if it is there."""
    form = form_of(program, directive)
    path = folder / form.filename if form.filename is not None else _found(folder, directive.relation)
    if path is None or not path.exists():
        return None
    if path.is_dir():
        raise directive_problem(f"{path} is a folder, not a file of facts", program, directive)
    if path.suffix == ".csv" and "delimiter" not in directive.parameters:
        # Whoever names the delimiter means plain fields, as Souffle reads them, unless rfc4180 is asked for too.
        form = form_of(program, directive, CSV)
    return FactFile(program.relations[directive.relation], path, form)


def _found(folder: Path, relation: str) -> Path | None:
    return next((path for suffix in SUFFIXES if (path := folder / (relation + suffix)).is_file()), None)


def _missing(program: Program, directive: Directive, folder: Path) -> Exception:
    name = directive.relation
    filename = directive.parameters.get("filename")
    looked = str(folder / str(filename)) if filename else f"{folder / name}.facts, .csv or .parquet"
    return directive_problem(
        f"no file of facts for {name}: there is no {looked}", program, directive,
        ["the folder is set with -F DIR, or facts= in Python"],
    )  # fmt: skip
