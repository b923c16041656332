"""Conjunctive queries over a session, as the `repl` takes them: `?reachable("a", x), x != "b", !link("a", x)`.

A query is the body of a rule. It is evaluated as a program of that one rule, in which every relation of the session
that it names is a base relation: so it may use all that a body can have, negations and aggregates too. It may read
relations with their times, and as of the last point, where a rule of the program does so too: only then they are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import datalog
import livelog
from datalog.ast import Atom, Directive, Negation, Program, Relation, Rule, Source, Span, Variable, replace
from datalog.errors import LivelogError, ProgramErrors
from datalog.scope import walk_level
from datalog.walking import change_atoms
from livelog.reads import QueryRead, read_of
from livelog.session import Session

__all__ = ["Answers", "answer", "is_conjunction"]

ATOM = re.compile(r"\s*[^\W\d][\w?]*\s*(\(|\.?\s*$)")
"""How a query of one atom begins."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The variables of a query, in order of first use, and what they can be together, sorted."""

    variables: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def is_conjunction(text: str) -> bool:
    """Whether a query is more than one atom.

    >>> [is_conjunction(t) for t in ('r("a,b", x)', "r", "r(x, y), x < y", "!r(1)", "x = 1")]
    [False, False, True, True, True]
    """
    begun = ATOM.match(text)
    if begun is None:
        return bool(text.strip())
    depth, quoted = 0, False
    for i, c in enumerate(text[begun.end() - 1 :], begun.end()):
        if c == '"' and not (quoted and text[i - 2] == "\\"):
            quoted = not quoted
        elif not quoted:
            depth += (c in "([{") - (c in ")]}")
            if depth == 0:
                return bool(text[i:].strip(" ."))
    return False



def answer(session: Session, text: str) -> Answers:
    """What the variables of a query can be. The cost is that of one evaluation over the relations it names.

    >>> program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
    >>> s = livelog.open(program, facts={"e": [(1, 2), (2, 3)]})
    >>> answer(s, "r(1, x), !e(1, x)")
    Answers(variables=('x',), rows=[(3,)])
    """
    name = "query"
    while name in session.program.relations:
        name += "_"
    prefix = f"{name}() :- "
    body = text.strip().rstrip(".")
    indent = len(text) - len(text.lstrip())
    try:
        rule, program, reads = _program(session, name, f"{prefix}{body}.")
        facts = {relation: reads[relation].rows(session) for relation in program.base}
        with livelog.open(program, facts=facts) as evaluated:
            return Answers(tuple(e.name for e in rule.head.arguments), list(evaluated[name]))
    except LivelogError as error:
        raise _moved(error, Source(text, "<query>"), indent - len(prefix)) from None


def _program(session: Session, name: str, text: str) -> tuple[Rule, Program, dict[str, QueryRead]]:
    """The rule of a query, the program to evaluate it with, and what its base relations are in the session."""
    parsed = datalog.parse(text, "<query>")
    known = session.program
    reads: dict[str, QueryRead] = {}

    def changed(atom: Atom) -> Atom:
        read, plain = read_of(session, atom)
        reads[read.name] = read
        return plain

    bodies = [change_atoms(rule, changed).body for rule in parsed.rules]
    shown = dict.fromkeys(
        e.name for body in bodies for literal in body if not isinstance(literal, Negation)
        for e in walk_level(literal) if isinstance(e, Variable) and not e.name.startswith("_")
    )  # fmt: skip
    rules = tuple(
        replace(rule, head=replace(rule.head, arguments=tuple(Variable(v) for v in shown)), body=body)
        for rule, body in zip(parsed.rules, bodies, strict=True)
    )
    relations = {}
    given = []
    for read in reads.values():
        if all(column.type != "any" for column in read.columns):
            relations[read.name] = Relation(read.name, read.columns, bag=read.bag)
        else:  # where the session leaves a type open, the facts tell it here as they did there
            given.append(Directive("input", read.name, {}))
    program = replace(
        parsed, rules=rules, relations={**parsed.relations, **relations}, functions=known.functions,
        aggregates=known.aggregates, constants=known.constants, directives=tuple(given),
    )  # fmt: skip
    return rules[0], datalog.check(program), reads


def _moved(error: LivelogError, source: Source, columns: int) -> LivelogError:
    """An error about the rule as one about the query that somebody typed."""
    for problem in error.problems if isinstance(error, ProgramErrors) else (error,):
        if problem.span is not None:
            span = problem.span
            column = max(1, span.column + columns)
            problem.span = Span(span.line, column, span.end_line, max(column + 1, span.end_column + columns))
            problem.source = source
    return error
