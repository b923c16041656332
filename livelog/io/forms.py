"""How a relation is written in a file: what the parameters of `.input` and `.output` say.

The parameters are Souffle's: `IO`, `filename`, `delimiter`, `headers`, `rfc4180`; and `form` of an output, which says
what a live session tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from datalog.ast import Directive, Program
from livelog.io.problems import directive_problem

__all__ = ["Form", "form_of"]

KNOWN = ("IO", "filename", "delimiter", "headers", "rfc4180")


@dataclass(frozen=True, slots=True)
class Form:
    """The shape of a file of tuples.

    `headers`: `no`, `yes` (the first row is one), or `named` (the first row is one if it is the column names).
    `quoted`: fields may stand in double quotes, as RFC 4180 has it. `io` is `file` or `stdout`. `complete`: while
    updates come, all of the relation is told whenever it changes, in place of what changes.
    """

    delimiter: str = "\t"
    headers: Literal["no", "yes", "named"] = "no"
    quoted: bool = False
    filename: str | None = None
    io: Literal["file", "stdout"] = "file"
    complete: bool = False

    def file_of(self, relation: str) -> str:
        """The name of the file that a relation is written to."""
        return self.filename or f"{relation}.csv"


PARQUET = ".parquet"
"""How the name of a file ends that holds columns, not lines of text."""

FACTS = Form()
CSV = Form(delimiter=",", headers="named", quoted=True)


def form_of(program: Program, directive: Directive, default: Form = FACTS) -> Form:
    """The form that a directive asks for; what it does not mention is as in `default`.

    >>> from datalog.ast import Directive, Program
    >>> form_of(Program((), {}), Directive("input", "link", {"delimiter": ";", "headers": "true"}))
    Form(delimiter=';', headers='yes', quoted=False, filename=None, io='file', complete=False)
    """
    parameters = directive.parameters
    known = (*KNOWN, "form") if directive.kind == "output" else KNOWN
    for name in parameters:
        if name not in known:
            raise directive_problem(
                f".{directive.kind} {directive.relation}: unknown parameter '{name}'",
                program, directive, [f"the parameters are {', '.join(known)}"],
            )  # fmt: skip

    def flag(name: str, otherwise: bool) -> bool:
        value = str(parameters.get(name, otherwise)).lower()
        if value not in ("true", "false"):
            raise directive_problem(f"{name} is true or false, not '{parameters[name]}'", program, directive)
        return value == "true"

    io = str(parameters.get("IO", default.io))
    allowed = ("file",) if directive.kind == "input" else ("file", "stdout")
    if io not in allowed:
        raise directive_problem(
            f".{directive.kind} {directive.relation}: IO={io} is not supported; use {' or '.join(allowed)}",
            program, directive,
        )  # fmt: skip
    quoted = flag("rfc4180", default.quoted)
    delimiter = str(parameters.get("delimiter", "," if "rfc4180" in parameters and quoted else default.delimiter))
    if not delimiter or "\n" in delimiter or (quoted and (len(delimiter) != 1 or delimiter in '"\r')):
        what = "one character" if quoted else "at least one character, on one line"
        raise directive_problem(f"the delimiter must be {what}, not {delimiter!r}", program, directive)
    headers = default.headers if "headers" not in parameters else "yes" if flag("headers", False) else "no"
    filename = str(parameters["filename"]) if "filename" in parameters else None
    if filename is not None and "\0" in filename:
        raise directive_problem("the name of a file cannot hold the character 0", program, directive)
    if filename is not None and filename.endswith(PARQUET):
        _check_parquet(program, directive)
    complete = _is_complete(program, directive)
    return Form(delimiter, headers, quoted, filename, "stdout" if io == "stdout" else "file", complete)


def _is_complete(program: Program, directive: Directive) -> bool:
    """Whether a directive asks for all of a relation, and not for what changes in it."""
    complete = bool(directive.parameters.get("form") == "complete")  # what else there may be, the checker knows
    relation = program.relations.get(directive.relation)
    if complete and relation is not None and relation.bag:
        what = "is a stream" if relation.stream else "is a bag, which may have a row more than once"
        raise directive_problem(f"{directive.relation} {what}: only its changes can be told", program, directive)
    return complete


def _check_parquet(program: Program, directive: Directive) -> None:
    """Refuse what a file of Parquet has not: separators, quotes, and relations without columns."""
    for name in ("delimiter", "headers", "rfc4180"):
        if name in directive.parameters:
            raise directive_problem(f"{name} is for files of text, and this one is Parquet", program, directive)
    relation = program.relations.get(directive.relation)
    if relation is not None and not relation.shown:
        raise directive_problem(
            f"{directive.relation} has no columns, and a file of Parquet has at least one", program, directive
        )
