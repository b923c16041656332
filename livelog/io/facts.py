"""Facts from a folder: which file holds which relation, and all of its tuples.

For a relation `link` the file is what `.input link(filename="...")` says, or the first that exists of
`link.facts` (tab separated, no header), `link.csv` (comma separated, quotes as in RFC 4180, with or without a
header: see `livelog.io.headers`) and `link.parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from datalog.ast import Directive, Program, Relation, replace
from datalog.errors import FactProblem, UsageProblem
from livelog.io.confine import check_inside
from livelog.io.delimited import read_delimited
from livelog.io.forms import CSV, FACTS, Form, form_of
from livelog.io.parquet import read_parquet
from livelog.io.problems import directive_problem, say
from livelog.io.quick import read_quickly
from livelog.runtime.collecting import without_collections

__all__ = ["FactFile", "fact_files", "folder_trouble", "load_facts"]

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
        return without_collections(self._read, memo, progress)

    def _read(self, memo: dict[str, str] | None, progress: Callable[[int], None] | None) -> Rows:
        if self.path.suffix == ".parquet":
            return read_parquet(self.path, self.relation)
        quick = read_quickly(self.path, self.relation, self.form) if progress is None else None
        return read_delimited(self.path, self.relation, self.form, memo, progress) if quick is None else quick


def load_facts(
    program: Program, directory: str | Path, *, implicit: bool = True, required: bool = True
) -> Iterator[tuple[str, Rows]]:
    """The facts in `directory` for a checked program: pairs of a relation and its tuples; see `fact_files`."""
    memo: dict[str, str] = {}
    for file in fact_files(program, directory, implicit=implicit, required=required):
        yield file.relation.name, file.read(memo)


def fact_files(
    program: Program, directory: str | Path, *, implicit: bool = True, required: bool = True, confine: bool = False,
    fed: bool = False,
) -> list[FactFile]:  # fmt: skip
    """The files that `load_facts` reads, in a fixed order: `.input` lines first, then other base relations.

    Base relations without `.input` are loaded when their file exists (unless `implicit` is False) and are empty
    otherwise. Relations with rules are loaded only with `.input`. An `.input` without its file is said (if that is
    `required`), and so is an empty relation that nothing else fills; if it may be `fed` with updates, only when there
    is a file of nearly its name. With `confine`, one that leads out of the directory is refused.
    """
    if directory == "":
        raise UsageProblem("the facts folder has an empty name; the current folder is '.'")
    folder = Path(directory)
    if (trouble := folder_trouble(folder)) is not None:
        raise FactProblem(trouble)
    try:
        files: list[FactFile] = []
        named: set[str] = set()
        for directive in program.directives_of("input"):
            named.add(directive.relation)
            file = _named(program, directive, folder, confine)
            if file is not None:
                files.append(file)
            else:
                _say_missing(program, directive, folder, fed and not required)
        if implicit:
            for name in sorted(program.base - named):
                found = _found(folder, name)
                if found is not None and confine:
                    check_inside(program, Directive("input", name, {}, program.relations[name].span), folder, found)
                if found is not None:
                    files.append(FactFile(_timeless(program, name), found, CSV if found.suffix == ".csv" else FACTS))
                elif name not in _filled(program):
                    _say_missing(program, Directive("", name, {}), folder, fed)
    except OSError as error:
        raise FactProblem(f"the facts folder {str(folder)!r} cannot be read: {error.strerror}") from None
    return files


def folder_trouble(folder: Path) -> str | None:
    """What is wrong with a folder of facts, if anything is."""
    try:
        if folder.is_dir():
            return None
        what = "is not a folder" if folder.exists() else "does not exist"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    return f"the facts folder {str(folder)!r} {what}"


def _named(program: Program, directive: Directive, folder: Path, confine: bool) -> FactFile | None:
    """The file that an `.input` line asks for, if it is there."""
    form = form_of(program, directive)
    path = folder / form.filename if form.filename is not None else _found(folder, directive.relation)
    if confine and path is not None:
        check_inside(program, directive, folder, path)
    if path is None or not path.exists():
        return None
    if path.is_dir():
        raise directive_problem(f"{path} is a folder, not a file of facts", program, directive)
    if path.suffix == ".csv":
        # Whoever names the delimiter means plain fields, as Souffle reads them, unless rfc4180 is asked for too.
        plain = "delimiter" in directive.parameters
        form = form_of(program, directive, Form(headers="named") if plain else CSV)
    return FactFile(_timeless(program, directive.relation), path, form)


def _timeless(program: Program, name: str) -> Relation:
    """A relation as files have it: of a stream, without the times at which its tuples arrive."""
    relation = program.relations[name]
    return replace(relation, columns=relation.shown) if relation.stream else relation


def _found(folder: Path, relation: str) -> Path | None:
    return next((path for suffix in SUFFIXES if (path := folder / (relation + suffix)).is_file()), None)


def _filled(program: Program) -> set[str]:
    """The relations that have facts or rules in the program."""
    return {rule.head.relation for rule in (*program.facts, *program.rules)}


def _say_missing(program: Program, directive: Directive, folder: Path, fed: bool) -> None:
    """Say that there is no file for a relation: with the place of the `.input` line, if it has one."""
    name, filename = directive.relation, directive.parameters.get("filename")
    near = _nearest(program, name, folder, filename)
    if near is None and fed:
        return
    looked = _looked(folder, name, filename) + (f", but there is {near}" if near else "")
    if name in _filled(program):
        text = f"no file of facts for {name}: there is no {looked}"
    else:
        text = f"{name} is empty: no facts of it in the program, and there is no {looked}"
    if directive.kind == "input":
        at = directive.span
        place = f"{program.source.name}:{at.line}:{at.column}: " if program.source and at else ""
        text = f"{place}{text}; the folder is set with -F DIR, or facts= in Python"
    say(text)


def _looked(folder: Path, name: str, filename: Any) -> str:
    return str(folder / str(filename)) if filename else f"{folder / name}.facts, .csv or .parquet"


def _nearest(program: Program, name: str, folder: Path, filename: Any) -> str | None:
    """The file in the folder with the name most like the one looked for, if it is no other relation's."""
    wanted = (Path(str(filename)).stem if filename else name).lower()
    others = {relation + suffix for relation in program.relations for suffix in SUFFIXES if relation != name}
    stems: dict[str, list[str]] = {}
    place = (folder / str(filename)).parent if filename else folder
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.name not in others and path.is_file():
            stems.setdefault(path.stem.lower(), []).append(path.name)
    close = get_close_matches(wanted, stems, 1)
    return stems[close[0]][0] if close else None
