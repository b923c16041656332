"""What is right and most likely not meant: variables used once, relations that nothing reads.

>>> from datalog import check, parse
>>> for warning in warnings_of(check(parse("lonely(x) :- node(x, name), !link(x, _).", "lonely.dl"))):
...     print(warning)
lonely.dl:1:22: warning: the variable `name` is used once
    1 | lonely(x) :- node(x, name), !link(x, _).
      |                      ^^^^
note: write `_`, or `_name`, where any value will do
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from datalog.ast import Program, Rule, Span, Variable, expressions
from datalog.errors import Note, ProgramWarning
from datalog.souffle import CONDITIONS, SECTION
from datalog.walking import atoms

__all__ = ["warnings_of"]


def warnings_of(program: Program) -> list[ProgramWarning]:
    """The warnings about a checked program, in the order of the text. Linear in its size."""
    found = [*_single_variables(program), *_unread_relations(program), *_empty_conditions(program)]
    return sorted(found, key=lambda w: (w.span.line, w.span.column) if w.span else (0, 0))


def _single_variables(program: Program) -> Iterator[ProgramWarning]:
    """Variables that stand in one place of a clause only, as far as any of its alternatives can see.

    The parser has made a rule of each head and each alternative. Heads over one body are one alternative; a variable
    that is used again in only some of the alternatives is used.
    """
    clauses: dict[Span, dict[tuple[object, ...], list[Rule]]] = defaultdict(lambda: defaultdict(list))
    for rule in program.rules:
        if rule.body:
            clauses[rule.span][tuple(literal.span for literal in rule.body)].append(rule)
    for alternatives in clauses.values():
        single: dict[tuple[str, Span], bool] = {}
        for rules in alternatives.values():
            places = {(e.name, e.span) for rule in rules for e in expressions(rule) if isinstance(e, Variable)}
            uses = Counter(name for name, _ in places)
            for name, span in places:
                single[name, span] = uses[name] == 1 and single.get((name, span), True)
        for (name, span), alone in single.items():
            if alone and not name.startswith("_"):
                note = Note(f"write `_`, or `_{name.lstrip('?')}`, where any value will do")
                yield ProgramWarning(f"the variable `{name}` is used once", span, program.source, [note])


def _unread_relations(program: Program) -> Iterator[ProgramWarning]:
    """Relations that no rule of another one reads and that are no output.

    A program without rules is a store of facts, which others read. Where no `.output` is, every view is one.
    """
    if not program.derived:
        return
    read = {atom.relation for rule in program.rules for atom in atoms(rule)[1:]
            if atom.relation != rule.head.relation}
    read |= {name for r in program.reads.values() for name in (r.relation, r.sync)}
    read |= program.reads.keys() | program.clocks.keys()
    asked = {d.relation for kind in ("output", "printsize", "limitsize") for d in program.directives_of(kind)}
    for name, relation in program.relations.items():
        if name not in read | asked and name not in program.outputs:
            reason = "no .output names it" if name in program.derived else "it is no output"
            yield ProgramWarning(f"nothing reads the relation `{name}`: no other rule has it in its body, and {reason}",
                                 relation.span, program.source)


def _empty_conditions(program: Program) -> Iterator[ProgramWarning]:
    """`match(...)` in a program without declarations: a relation by the rules, and surely not meant as one."""
    heads = {rule.head.relation for rule in program.rules} | {d.relation for d in program.directives}
    for rule in program.rules:
        for atom in atoms(rule)[1:]:
            name = atom.relation
            meant = name in CONDITIONS and len(atom.arguments) == 2
            if meant and name not in heads and not program.relations[name].declared:
                yield ProgramWarning(f"`{name}` is a relation here, and nothing fills it", atom.span, program.source,
                                     [Note(CONDITIONS[name]), Note(SECTION)])
