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

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, UnexpectedInput

from datalog.ast import (
    DEEPEST,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Directive,
    HeadAggregate,
    Negation,
    Program,
    Relation,
    Rule,
    Source,
    Span,
    Variable,
    replace,
)
from datalog.builder import Builder
from datalog.errors import CheckProblem, LivelogError, Note, SyntaxProblem, raise_all
from datalog.pieces import (
    Alias,
    Clause,
    ConstantDefinition,
    Declaration,
    Group,
    Item,
    Misread,
    Truth,
    never,
    token_span,
)
from datalog.scan import blanked, statement_around
from datalog.syntax import Trouble, explain

__all__ = ["parse"]

MOST_ERRORS = 20  # syntax errors reported in one run
MOST_BRANCHES = 1000  # rules that the disjunctions of one clause may become


def parse(text: str, name: str = "<program>") -> Program:
    """The program in `text`; `name` is what error messages call it.

    Raises `SyntaxProblem`, or `ProgramErrors` if there are several. The result is not checked yet.

    >>> program = parse(".const k = 20  near(x, y) :- at(x, p), at(y, q), distance(p, q) < k.")
    >>> program.constants, program.rules[0].head.relation
    ({'k': 20}, 'near')
    """
    source, lines = Source(text, name), _Lines(text)
    # An error blanks the statement it is in and the rest is read again, so that one run shows several errors.
    remaining, problems = text, list[LivelogError]()
    while True:
        try:
            statements = _lark().parse(remaining)
        except UnexpectedInput as error:
            trouble = explain(error, remaining, source)
        except Misread as error:
            around = statement_around(remaining, lines.offset(error.span.line, error.span.column))
            trouble = Trouble(_misread(error, source), *around)
        else:
            break
        problems.append(trouble.problem)
        shorter = blanked(remaining, trouble.start, trouble.end)
        if len(problems) == MOST_ERRORS:
            trouble.problem.notes += (Note(f"reading stopped here, after {MOST_ERRORS} errors"),)
        if shorter == remaining or len(problems) == MOST_ERRORS:
            raise_all(problems)
        remaining = shorter
    program = _assemble(statements, source, lines, problems)
    raise_all(problems)
    return program


@cache
def _lark() -> Lark:
    """The parser, made at the first use: reading the grammar takes a few hundredths of a second."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, start="program", parser="lalr", lexer="contextual", maybe_placeholders=False,
                transformer=Builder())


def _misread(error: Misread, source: Source) -> SyntaxProblem:
    return SyntaxProblem(error.message, error.span, source, (Note(error.hint),) if error.hint else ())


class _Lines:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column - 1

    def slice(self, span: Span) -> str:
        return self.text[self.offset(span.line, span.column) : self.offset(span.end_line, span.end_column)]


def _assemble(statements: Any, source: Source, lines: _Lines, problems: list[LivelogError]) -> Program:
    """The statements as a program. Syntax problems go to `problems`, mistakes in declarations into the program."""
    rules: list[Rule] = []
    relations: dict[str, Relation] = {}
    directives: list[Directive] = []
    constants: dict[str, ConstantDefinition] = {}
    aliases: dict[str, Alias] = {}
    mistakes: list[LivelogError] = []

    def once(kind: str, name: str, span: Span, earlier: Span | None) -> bool:
        if earlier is None:
            return True
        note = Note("it was declared here first", earlier)
        mistakes.append(CheckProblem(f"{kind} `{name}` is declared twice", span, source, [note]))
        return False

    for statement in statements:
        if isinstance(statement, Clause):
            try:
                rules += _rules(statement, _without_comments(lines.slice(statement.span)))
            except Misread as error:
                problems.append(_misread(error, source))
        elif isinstance(statement, Declaration):
            for relation in _relations(statement, source, mistakes):
                earlier = relations.get(relation.name)
                if once("relation", relation.name, relation.span, earlier.span if earlier else None):
                    relations[relation.name] = relation
        elif isinstance(statement, Directive):
            directives.append(statement)
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
                if name not in positions:
                    mistake(f"unknown column `{name}` in {qualifier.kind}", token_span(name),
                            Note(f"the columns are {', '.join(positions) or 'none'}"))
            value = tuple(dict.fromkeys(positions[name] for name in value if name in positions))
        found[qualifier.kind] = value
    if "bag" in found and ("key" in found or "ttl" in found):
        other = "key" if "key" in found else "ttl"
        span = next(q.span for q in declaration.qualifiers if q.kind == "bag")
        mistake(f"a relation cannot be both `bag` and `{other}`", span,
                Note("copies in a bag have no identity that could be replaced or refreshed"))
    for name in declaration.names:
        yield Relation(
            str(name), declaration.columns, key=found.get("key", ()), ttl=found.get("ttl"), bag=found.get("bag", False),
            partition=found.get("partition"), span=token_span(name),
        )


# --- clauses to rules ----------------------------------------------------------------------------------------


def _rules(clause: Clause, text: str) -> Iterator[Rule]:
    """The plain rules of a clause: one per head and alternative."""
    _limit_depth(clause)
    for count, body in enumerate(_expand(clause.branches)):
        if count == MOST_BRANCHES:
            raise Misread(f"the disjunctions of this rule make more than {MOST_BRANCHES} rules", clause.span)
        for head in clause.heads:
            yield _number_anonymous(Rule(head, body, clause.span, text))


def _without_comments(text: str) -> str:
    """The text of a rule for messages, which put it on one line."""
    if "//" not in text and "/*" not in text:
        return text
    kept = re.sub(r'("(?:[^"\\\n]|\\[^\n])*")|[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)', r"\1", text)
    return re.sub(r"\n\s*\n", "\n", kept)


def _expand(branches: tuple[tuple[Item, ...], ...]) -> Iterator[tuple[Any, ...]]:
    """The disjunctive normal form: every way to pick one alternative of each group."""
    for branch in branches:
        for parts in itertools.product(*(_choices(item) for item in branch)):
            yield tuple(itertools.chain.from_iterable(parts))


def _choices(item: Item) -> list[tuple[Any, ...]]:
    if isinstance(item, Group):
        return list(itertools.islice(_expand(item.branches), MOST_BRANCHES + 1))
    if isinstance(item, Truth):
        return [()] if item.value else [(never(item.span),)]
    return [(item,)]


def _children(node: Any) -> tuple[Any, ...]:
    if isinstance(node, (Atom, Call)):
        return node.arguments
    if isinstance(node, Comparison):
        return (node.left, node.right)
    if isinstance(node, Negation):
        return (node.atom,)
    if isinstance(node, HeadAggregate):
        return (node.target, node.parameter)
    if isinstance(node, Aggregate):
        return (node.target, node.parameter, *node.body)
    if isinstance(node, Group):
        return tuple(itertools.chain.from_iterable(node.branches))
    if isinstance(node, Constant) and isinstance(node.value, tuple):
        return node.value
    return node if isinstance(node, tuple) else ()


def _limit_depth(clause: Clause) -> None:
    """Refuse what is nested so deeply that a recursive walk over it could fail."""
    stack = [(node, 1) for node in itertools.chain(clause.heads, *clause.branches)]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST:
            raise Misread(f"this is nested more than {DEEPEST} levels deep: split it into several rules", clause.span)
        stack += [(child, depth + 1) for child in _children(node)]


def _number_anonymous(rule: Rule) -> Rule:
    """Every `_` a variable of its own: `_#1`, `_#2`, ... from left to right."""
    counter = itertools.count(1)

    def walk(node: Any) -> Any:
        if isinstance(node, Variable):
            return replace(node, name=f"_#{next(counter)}") if node.name == "_#" else node
        if isinstance(node, (Atom, Call)):
            arguments = tuple(map(walk, node.arguments))
            same = all(new is old for new, old in zip(arguments, node.arguments, strict=True))
            return node if same else replace(node, arguments=arguments)
        if isinstance(node, Comparison):
            return replace(node, left=walk(node.left), right=walk(node.right))
        if isinstance(node, Negation):
            return replace(node, atom=walk(node.atom))
        if isinstance(node, HeadAggregate):
            return replace(node, target=walk(node.target))
        if isinstance(node, Aggregate):
            return replace(node, target=walk(node.target), body=tuple(map(walk, node.body)))
        return node

    return replace(rule, head=walk(rule.head), body=tuple(map(walk, rule.body)))
