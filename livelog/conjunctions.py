"""Conjunctive queries over a session, as the `repl` takes them: `?reachable("a", x), x != "b", !link("a", x)`.

A query is the body of a rule. It is evaluated as a program of that one rule, in which every relation of the session
that it names is a base relation: so it may use all that a body can have, negations and aggregates too.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import datalog
import livelog
from datalog.ast import Aggregate, Atom, Negation, Program, Relation, Rule, Source, Span, Variable, expressions, replace
from datalog.errors import LivelogError, ProgramErrors, UsageProblem
from datalog.scope import walk_level
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
        rule, program = _program(session, name, f"{prefix}{body}.")
        facts = {relation: _rows(session, relation) for relation in program.base}
        with livelog.open(program, facts=facts) as evaluated:
            return Answers(tuple(e.name for e in rule.head.arguments), list(evaluated[name]))
    except LivelogError as error:
        raise _moved(error, Source(text, "<query>"), indent - len(prefix)) from None


def _program(session: Session, name: str, text: str) -> tuple[Rule, Program]:
    """The rule of a query, and the program to evaluate it with."""
    parsed = datalog.parse(text, "<query>")
    known = session.program
    bodies = [rule.body for rule in parsed.rules]
    shown = dict.fromkeys(
        e.name for body in bodies for literal in body if not isinstance(literal, Negation)
        for e in walk_level(literal) if isinstance(e, Variable) and not e.name.startswith("_")
    )  # fmt: skip
    rules = tuple(
        replace(rule, head=replace(rule.head, arguments=tuple(Variable(v) for v in shown))) for rule in parsed.rules
    )
    used = [_known(session, atom) for atom in _atoms(rules)]
    # where the session leaves a type open, the facts tell it here as they did there
    relations = {r.name: _base(r) for r in used if all(column.type != "any" for column in r.columns)}
    program = replace(
        parsed, rules=rules, relations={**parsed.relations, **relations}, functions=known.functions,
        aggregates=known.aggregates, constants=known.constants,
    )  # fmt: skip
    return rules[0], datalog.check(program)


def _atoms(rules: tuple[Rule, ...]) -> list[Atom]:
    """All atoms of the bodies, those under negations and inside aggregates too."""
    found: list[Atom] = []
    stack: list[Any] = [literal for rule in rules for literal in rule.body]
    while stack:
        literal = stack.pop()
        if isinstance(literal, (Atom, Negation)):
            found.append(literal.atom if isinstance(literal, Negation) else literal)
        for expression in expressions(literal):
            if isinstance(expression, Aggregate):
                stack.extend(expression.body)
    return found


def _known(session: Session, atom: Atom) -> Relation:
    """The session's relation behind an atom, which must have its number of columns."""
    relations = session.program.relations
    if atom.relation not in relations:
        raise UsageProblem(f"there is no relation {atom.relation}; there are {', '.join(sorted(relations))}")
    relation = relations[atom.relation]
    if len(atom.arguments) != relation.arity:
        columns = f"{relation.arity} column{'' if relation.arity == 1 else 's'}"
        raise UsageProblem(f"{relation.name} has {columns}, not {len(atom.arguments)}", atom.span)
    return relation


def _base(relation: Relation) -> Relation:
    """A relation of the session as one that is only read: its rows are what they are."""
    return replace(relation, key=(), ttl=None, partition=None, declared=True)


def _rows(session: Session, relation: str) -> list[tuple[Any, ...]]:
    if not session.program.relations[relation].bag:
        return list(session[relation])
    copies = Counter({t: n for name, t, n in session._runtime.facts() if name == relation})
    return list(copies.elements())


def _moved(error: LivelogError, source: Source, columns: int) -> LivelogError:
    """An error about the rule as one about the query that somebody typed."""
    for problem in error.problems if isinstance(error, ProgramErrors) else (error,):
        if problem.span is not None:
            span = problem.span
            column = max(1, span.column + columns)
            problem.span = Span(span.line, column, span.end_line, max(column + 1, span.end_column + columns))
            problem.source = source
    return error
