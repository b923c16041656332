"""Text to `Program`: reads the statements and takes the sugar out of them.

>>> program = parse("reach(x, y), seen(y) :- link(x, y, _); reach(x, z), link(z, y, _).")
>>> for rule in program.rules:
...     print(rule.head.relation, len(rule.body))
reach 1
seen 1
reach 2
seen 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from datalog.ast import Directive, Program, Relation, Rule, Source, Span
from datalog.clauses import rules_of
from datalog.errors import CheckProblem, LivelogError, Note, Remark, SyntaxProblem, UsageProblem, raise_all
from datalog.pieces import Alias, Clause, ConstantDefinition, Declaration, Misread, Pragma
from datalog.reading import check_characters
from datalog.scan import blanked, offset_of, statement_around
from datalog.souffle import COMPONENTS, SECTION, component, old_directives, remarks_on
from datalog.statements import Statement, StatementReader
from datalog.syntax import Trouble, explain
from datalog.tokens import Unexpected

__all__ = ["parse"]

MOST_ERRORS = 20  # syntax errors reported in one run


def parse(text: str, name: str = "<program>") -> Program:
    """The program in `text`; `name` is what error messages call it.

    Raises `SyntaxProblem`, or `ProgramErrors` if there are several. The result is not checked yet.

    >>> program = parse(".const k = 20  near(x, y) :- at(x, p), at(y, q), distance(p, q) < k.")
    >>> program.constants, program.rules[0].head.relation
    ({'k': 20}, 'near')
    """
    if not isinstance(text, str):
        raise UsageProblem(f"a program is text, not {text!r}")
    source = Source(text, name)
    check_characters(source)
    problems = list[LivelogError]()
    program = _assemble(_statements(source, problems), source, problems)
    raise_all(problems)
    return program


def _statements(source: Source, problems: list[LivelogError]) -> list[Statement]:
    """The statements of a text. Where one cannot be read, that is a problem, and the others are read all the same."""
    text, offset = source.text, 0
    found: list[tuple[int, Statement]] = []
    while True:
        reader = StatementReader(text, offset)
        try:
            while (statement := reader.statement()) is not None:
                found.append(statement)
        except (Unexpected, Misread) as error:
            trouble = _trouble(error, text, source)
        else:
            return [statement for _, statement in found]
        problems.append(trouble.problem)
        shorter = blanked(text, trouble.start, trouble.end)
        if len(problems) == MOST_ERRORS:
            trouble.problem.notes += (Note(f"reading stopped here, after {MOST_ERRORS} errors"),)
        if shorter == text or len(problems) == MOST_ERRORS:
            raise_all(problems)
        # What was read before stays, but for the last statement: something else follows it now.
        text, offset = shorter, trouble.start
        while found and offset >= trouble.start:
            offset, _ = found.pop()
        offset = offset if offset < trouble.start else 0


def _trouble(error: Unexpected | Misread, text: str, source: Source) -> Trouble:
    """What is wrong, and where the statement that it is in begins and ends."""
    if isinstance(error, Unexpected):
        return explain(error, text, source)
    around = statement_around(text, offset_of(text, error.span.line, error.span.column))
    if component(text, offset_of(text, error.span.end_line, error.span.end_column)):
        error = Misread(COMPONENTS, error.span, SECTION)
    return Trouble(_misread(error, source), *around)


def _misread(error: Misread, source: Source) -> SyntaxProblem:
    return SyntaxProblem(error.message, error.span, source, (Note(error.hint),) if error.hint else ())


def _assemble(statements: list[Statement], source: Source, problems: list[LivelogError]) -> Program:
    """The statements as a program. Syntax problems go to `problems`, mistakes in declarations into the program."""
    rules: list[Rule] = []
    relations: dict[str, Relation] = {}
    directives: list[Directive] = []
    constants: dict[str, ConstantDefinition] = {}
    aliases: dict[str, Alias] = {}
    mistakes: list[LivelogError] = []
    remarks: list[Remark] = []

    def once(kind: str, name: str, span: Span, earlier: Span | None) -> bool:
        if earlier is None:
            return True
        note = Note("it was declared here first", earlier)
        mistakes.append(CheckProblem(f"{kind} `{name}` is declared twice", span, source, [note]))
        return False

    for statement in statements:
        if isinstance(statement, Clause):
            try:
                rules += rules_of(statement)
            except Misread as error:
                problems.append(_misread(error, source))
        elif isinstance(statement, Declaration):
            directives += old_directives(statement)
            remarks += remarks_on(statement, source)
            for relation in _relations(statement, source, mistakes):
                earlier = relations.get(relation.name)
                if once("relation", relation.name, relation.span, earlier.span if earlier else None):
                    relations[relation.name] = relation
        elif isinstance(statement, tuple):
            directives += statement
        elif isinstance(statement, Pragma):
            remarks += remarks_on(statement, source)
        elif isinstance(statement, ConstantDefinition):
            known = constants.get(statement.name)
            if once("constant", statement.name, statement.span, known.span if known else None):
                constants[statement.name] = statement
        else:
            alias = aliases.get(statement.name)
            if once("type", statement.name, statement.span, alias.span if alias else None):
                aliases[statement.name] = statement
    return Program(
        rules=tuple(rules),
        relations=relations,
        directives=tuple(directives),
        constants={c.name: c.value for c in constants.values()},
        source=source,
        aliases={a.name: a.type for a in aliases.values()},
        constant_spans={c.name: c.span for c in constants.values()},
        alias_spans={a.name: a.span for a in aliases.values()},
        problems=tuple(mistakes),
        remarks=tuple(remarks),
    )


# --- declarations --------------------------------------------------------------------------------------------


def _relations(declaration: Declaration, source: Source, mistakes: list[LivelogError]) -> Iterator[Relation]:
    """The relations of one `.decl`, with the column names of the qualifiers resolved to positions."""

    def mistake(message: str, span: Span, *notes: Note) -> None:
        mistakes.append(CheckProblem(message, span, source, notes))

    positions: dict[str, int] = {}
    for index, column in enumerate(declaration.columns):
        if column.name in positions:
            mistake(f"column `{column.name}` is declared twice", column.span,
                    Note("it stands here first", declaration.columns[positions[column.name]].span))
        positions.setdefault(column.name, index)
    found: dict[str, Any] = {}
    for qualifier in declaration.qualifiers:
        if qualifier.kind in found:
            mistake(f"`{qualifier.kind}` is given twice", qualifier.span)
        elif qualifier.kind == "ttl" and not qualifier.value > 0:
            mistake("ttl must be more than 0", qualifier.span)
        value = qualifier.value
        if qualifier.kind in ("key", "partition"):
            for name in value:
                if name.text not in positions:
                    mistake(f"unknown column `{name.text}` in {qualifier.kind}", name.span,
                            Note(f"the columns are {', '.join(positions) or 'none'}"))
            value = tuple(dict.fromkeys(positions[name.text] for name in value if name.text in positions))
        found[qualifier.kind] = value
    if "bag" in found and ("key" in found or "ttl" in found):
        other = "key" if "key" in found else "ttl"
        span = next(q.span for q in declaration.qualifiers if q.kind == "bag")
        mistake(f"a relation cannot be both `bag` and `{other}`", span,
                Note("copies in a bag have no identity that could be replaced or refreshed"))
    for other in ("key", "bag"):
        if "stream" in found and other in found:
            span = next(q.span for q in declaration.qualifiers if q.kind == other)
            mistake(f"a relation cannot be both `stream` and `{other}`", span,
                    Note("every arrival is a tuple of its own: no other one replaces it" if other == "key" else
                         "a stream is a bag already, in which every tuple has the time of its arrival"))
            del found[other]
    for name in declaration.names:
        yield Relation(
            name.text, declaration.columns, key=found.get("key", ()), ttl=found.get("ttl"), bag=found.get("bag", False),
            partition=found.get("partition"), span=name.span, stream=found.get("stream", False),
        )
