"""The checker: a parsed program in, a program that can be planned out, or all of its errors at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datalog.aggregates import RESERVED, user_aggregates
from datalog.approx import check_approximations
from datalog.ast import Program, replace
from datalog.errors import UsageProblem, raise_all
from datalog.functions import FUNCTIONS, Function, built_in, user_functions
from datalog.indexed import check_indexes
from datalog.infer import infer_types
from datalog.names import check_calls, check_relations, resolve_constants, resolve_types
from datalog.reads import take_apart
from datalog.report import Report
from datalog.safety import check_safety
from datalog.stratify import check_strata
from datalog.written import as_written

__all__ = ["check", "functions_of"]


def check(
    program: Program,
    constants: Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Callable[..., Any]] | None = None,
    longest: int | None = None,
) -> Program:
    """The program with names resolved and types filled in; raises all errors that were found, in order.

    `constants` win over `.const`; `functions` and `aggregates` are Python callables for use in rules. `longest` is
    how many characters a text, and elements a list, may have that a rule makes (None: as `datalog.values` says). A
    checked program comes back as it is.

    >>> from datalog import parse
    >>> program = check(parse("near(x, y) :- at(x, p), at(y, q), distance(p, q) < k."), constants={"k": 20})
    >>> [(column.name, column.type) for column in program.relations["at"].columns]
    [('x', 'any'), ('p', 'any')]
    """
    if not isinstance(program, Program):
        raise UsageProblem(f"this is no program, but {program!r}: `datalog.parse` makes a program of its text")
    if program.checked and not (constants or functions or aggregates or longest is not None):
        return program
    if longest is not None:
        program = replace(program, longest=longest)
    program = _register(program, functions or {}, aggregates or {})
    known = functions_of(program)
    report = Report(program.source)
    report.problems += program.problems

    program = resolve_constants(as_written(program), constants or {})
    program = resolve_types(program, report)
    timed = check_relations(program, known, report)
    program, definitions = take_apart(program, report) if timed else (program, ())
    check_calls(program, known, program.aggregates, report)
    check_safety(program, report)
    check_strata(program, report, definitions)
    program = infer_types(program, known, report, definitions)
    if not report.problems:  # what follows takes the program for a sound one
        check_indexes(program, report)
        check_approximations(program, report)

    raise_all(report.problems)
    return replace(program, checked=True)


def functions_of(program: Program) -> dict[str, Function]:
    """The functions that a program can call: the built-in ones and those registered with it."""
    return {**built_in(program.longest), **user_functions(program.functions, program.longest)}


def _register(
    program: Program, functions: Mapping[str, Callable[..., Any]], aggregates: Mapping[str, Callable[..., Any]]
) -> Program:
    """The program with the user's functions and aggregates; their names must be free and possible to write."""
    for article, kind, table in (("a", "function", functions), ("an", "aggregate", aggregates)):
        for name, value in table.items():
            if not name.replace("?", "_").isidentifier():
                raise UsageProblem(f"`{name}` cannot be the name of {article} {kind}: rules could not write it")
            if name in FUNCTIONS or name in RESERVED or name in ("nil", "true", "false", "_"):
                raise UsageProblem(f"`{name}` is taken by the language and cannot be registered as {article} {kind}")
            if not callable(value):
                raise UsageProblem(f"the {kind} `{name}` cannot be called: {value!r}")
    return replace(
        program,
        functions={**program.functions, **functions},
        aggregates={**program.aggregates, **user_aggregates(aggregates, program.longest)},
    )
