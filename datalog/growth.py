"""A checked program with more views, or with fewer: what a definition adds to it, and what a drop takes away.

A definition is a text of its own, with rules for relations that the program does not have. It is checked together with
the whole program, and messages show it by its own lines, as `<definition>`: in the `Source` of the program it is a part
further down. What was there before keeps its columns and their names, whatever the new rules say of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from datalog.ast import Atom, Directive, Program, Relation, Rule, Source, Span, replace
from datalog.check import check
from datalog.errors import LivelogError, Note, UsageProblem, raise_all
from datalog.parser import parse
from datalog.points import CLOCKS, clocks_of
from datalog.report import Report, listed, suggestion
from datalog.walking import atoms
from datalog.written import as_written

__all__ = ["DEFINITION", "amended", "defined", "defines", "dropped", "read_by", "readers"]

DEFINITION = "<definition>"

_KNOWN = "known"
"""A directive that no text can have: it tells the checker that a relation is there."""


def defined(program: Program, text: str) -> tuple[Program, tuple[str, ...]]:
    """The checked program with the relations that a text defines, and their names in order.

    Raises what the parser and the checker find, and what a definition must not have: relations that are there, facts,
    directives other than `.decl` and `.output`. O(program)

    >>> from datalog.format import format_rule
    >>> program = check(parse("reach(x, y) :- link(x, y)."))
    >>> program, names = defined(program, "back(y, x) :- reach(x, y).")
    >>> names, program.outputs
    (('back',), ('reach', 'back'))
    >>> defined(program, "far(x) :- raech(x, _).")
    Traceback (most recent call last):
        ...
    datalog.errors.CheckProblem: <definition>:1:11: error: unknown relation `raech`: did you mean `reach`?
        1 | far(x) :- raech(x, _).
          |           ^^^^^^^^^^^
    note: no relation of the session and no rule of the definition is called `raech`
    """
    if not isinstance(text, str):
        raise UsageProblem(f"a definition is the text of rules, not {text!r}")
    piece, source = _piece(program, text)
    report = Report(source)
    _check_statements(program, piece, report)
    names = tuple(dict.fromkeys((*(rule.head.relation for rule in piece.rules), *piece.relations)))
    _check_names(program, piece, names, report)
    raise_all(report.problems)
    if not names:
        raise UsageProblem("a definition has rules, and here is none")
    written = as_written(program)
    _check_known(program, piece, names, report)
    new = replace(
        written,
        rules=(*written.rules, *piece.rules),
        relations={**written.relations, **piece.relations},
        directives=(*written.directives, *piece.directives),
        source=source,
        problems=(*report.problems, *piece.problems),
        remarks=(),
        shown=_shown(program, piece),
    )
    return _checked(new, program), names


def amended(program: Program, text: str) -> Program:
    """The checked program with more statements of any kind, which may be about what is there. O(program)

    >>> program = amended(check(parse("r(x) :- e(x).")), "r(x) :- f(x). f(1).")
    >>> len(program.rules), sorted(program.base)
    (3, ['e', 'f'])
    """
    piece, source = _piece(program, text)
    written = as_written(program)
    new = replace(
        written,
        rules=(*written.rules, *piece.rules),
        relations={**written.relations, **piece.relations},
        directives=(*written.directives, *piece.directives),
        constants={**written.constants, **piece.constants},
        aliases={**written.aliases, **piece.aliases},
        alias_spans={**written.alias_spans, **piece.alias_spans},
        source=source,
        problems=_twice(program, piece, source),
        remarks=(),
        shown=None if program.shown is None else _shown(program, piece),
    )
    declared = any(r.declared for r in new.relations.values())
    known = [Directive(_KNOWN, name, {}) for name in _own_names(program)] if declared else []
    used = {atom.relation for rule in new.rules for atom in atoms(rule)}
    known = [directive for directive in known if directive.relation in used]
    checked = check(replace(new, directives=(*new.directives, *known), checked=False))
    return replace(checked, directives=tuple(d for d in checked.directives if d.kind != _KNOWN), problems=())


def _piece(program: Program, text: str) -> tuple[Program, Source]:
    """A text as it is read behind a program, and the source of both."""
    parse(text, DEFINITION)
    above = _bottom(program.source)
    piece = parse("\n" * above + text, DEFINITION)
    part = Source(text, DEFINITION, above + 1)
    source = replace(program.source, parts=(*program.source.parts, part))
    for problem in piece.problems:
        problem.source = source
    return piece, source


def _twice(program: Program, piece: Program, source: Source) -> tuple[LivelogError, ...]:
    """What is wrong with the declarations of a text, and those of relations that are declared already."""
    report = Report(source)
    for name, relation in piece.relations.items():
        if name in program.relations and program.relations[name].declared:
            report.add(f"relation `{name}` is declared twice", relation.span,
                       Note("it was declared here first", program.relations[name].span))
    return (*piece.problems, *report.problems)


def dropped(program: Program, names: Collection[str]) -> Program:
    """The checked program without these views. Raises `UsageProblem` where they are none, or others read them.

    >>> program = check(parse("reach(x, y) :- link(x, y). back(y, x) :- reach(x, y)."))
    >>> sorted(dropped(program, ["reach", "back"]).relations)
    ['link']
    >>> dropped(program, ["reach"])
    Traceback (most recent call last):
        ...
    datalog.errors.UsageProblem: error: `reach` cannot be dropped: `back` reads it
    """
    for name in names:
        _check_view(program, name)
    for name in names:
        reading = sorted(readers(program, name) - set(names))
        if reading:
            told = listed([f"`{reader}`" for reader in reading])
            raise UsageProblem(f"`{name}` cannot be dropped: {told} read{'s' if len(reading) == 1 else ''} it")
    written = as_written(program)
    rules = tuple(rule for rule in written.rules if rule.head.relation not in names)
    relations = {name: relation for name, relation in written.relations.items() if name not in names}
    directives = tuple(d for d in written.directives if d.relation not in names)
    lines = {*(rule.span.line for rule in rules), *(relation.span.line for relation in relations.values())}
    source = replace(program.source, parts=_lasting(program.source, lines))
    outputs = {d.relation for d in directives if d.kind == "output"}
    shown = tuple(name for name in program.outputs if name not in names and name not in outputs)
    new = replace(written, rules=rules, relations=relations, directives=directives, source=source, shown=shown)
    return _checked(new, program, names)


def readers(program: Program, name: str) -> set[str]:
    """The relations of a checked program, but for itself, of which a rule reads a relation, in whatever way.

    >>> every = ".decl s(x: number)  e(t) :- clock(t), t % 2 = 0.  r(x) :- s(x) at e.  q(x) :- !e(x), r(x)."
    >>> program = check(parse(every)); sorted(readers(program, "e")), sorted(readers(program, "s"))
    (['q', 'r'], ['r'])
    """
    found: set[str] = set()
    for rule in program.rules:
        if rule.body and rule.head.relation != name and name in _read(program, rule):
            found.add(rule.head.relation)
    return found


def read_by(program: Program, names: Collection[str]) -> set[str]:
    """The relations, but for themselves, that the rules for some relations read, in whatever way.

    >>> program = check(parse(".decl s(x: number)  e(t) :- clock(t), t % 2 = 0.  r(x) :- s(x) at e, !r2(x). r2(1)."))
    >>> sorted(read_by(program, ["r"]))
    ['e', 'r2', 's']
    """
    own = [rule for rule in program.rules if rule.head.relation in names]
    return {name for rule in own for name in _read(program, rule)} & _own_names(program) - set(names)


def _read(program: Program, rule: Rule) -> Iterator[str]:
    """The relations that a rule reads, and those at whose points it does."""
    for atom in atoms(rule)[1:]:
        yield atom.relation
        read = program.reads.get(atom.relation)
        while read is not None:
            yield read.relation
            yield read.sync
            read = program.reads.get(read.relation)


def defines(program: Program, text: str) -> bool:
    """Whether a text has only what can stand in a definition; what is wrong with that otherwise is another matter.

    >>> program = check(parse("r(x) :- e(x)."))
    >>> [defines(program, text) for text in ("q(x) :- r(x).", "r(x) :- f(x).", "q(1).", ".input q")]
    [True, False, False, False]
    """
    piece, source = _piece(program, text)
    report = Report(source)
    _check_statements(program, piece, report)
    _check_names(program, piece, {*(rule.head.relation for rule in piece.rules), *piece.relations}, report)
    return not report.problems


# --- what a definition may have ------------------------------------------------------------------------------


def _check_statements(program: Program, piece: Program, report: Report) -> None:
    """Report what cannot stand in a definition."""
    for rule in piece.rules:
        if rule.is_fact:
            report.add("a definition has no facts", rule.span, Note("insert them in a transaction"))
    for directive in piece.directives:
        if directive.kind != "output":
            report.add(f".{directive.kind} cannot stand in a definition", directive.span,
                       Note("a definition has rules, .decl of what they define, and .output"))
        elif other := sorted(directive.parameters.keys() - {"form"}):
            report.add(f".output in a definition has no `{other[0]}`", directive.span,
                       Note("it may say a form: .output r(form=complete)"))
    for what, spans in (("constant", piece.constant_spans), ("type", piece.alias_spans)):
        for name, span in spans.items():
            report.add(f"the {what} `{name}` cannot be defined here", span,
                       Note("those of the program can be used, and were given when it was opened"))


def _check_names(program: Program, piece: Program, names: Iterable[str], report: Report) -> None:
    """Report relations that are there already, and outputs that are not the definition's own."""
    derived = program.derived
    places: dict[str, Span] = {name: relation.span for name, relation in piece.relations.items()}
    for rule in piece.rules:
        places.setdefault(rule.head.relation, rule.head.span)
    for name in names:
        if name in program.clocks:
            report.add(f"`{name}` is the time itself here, and cannot be defined", places[name],
                       Note("rules of the program read it"))
        elif name in program.relations and name not in program.reads:
            kind = "a view" if name in derived else "a base relation"
            way = (f'session.drop("{name}") takes it away first' if name in derived else
                   "facts fill it, and rules define relations of their own")
            report.add(f"`{name}` is {kind} of the session already", places[name], Note(way))
    for directive in piece.directives:
        if directive.kind == "output" and directive.relation not in places:
            report.add(f"`{directive.relation}` is not defined here", directive.span,
                       Note("`.output` in a definition is about the views that it defines"))


def _check_known(program: Program, piece: Program, names: Collection[str], report: Report) -> None:
    """Report relations that nobody knows.

    The rules of a program without declarations may read anything: it is a base relation then. What a definition reads
    is there, so where it is not, that is a slip of the pen. And what no rule of the program mentions any more still has
    its columns.
    """
    known = {*_own_names(program), *names, *(clocks_of(program) - set(names))}
    lax = not any(r.declared for r in (*program.relations.values(), *piece.relations.values()))
    for atom in _bodies(piece):
        name, relation = atom.relation, program.relations.get(atom.relation)
        if name not in known and lax:
            report.add(f"unknown relation `{name}`{suggestion(name, known)}", atom.span,
                       Note(f"no relation of the session and no rule of the definition is called `{name}`"))
        elif relation is not None and name not in CLOCKS:
            count, given = len(relation.shown), len(atom.arguments)
            if count != given and not _mentioned(program, name):
                report.add(f"`{name}` has {count or 'no'} column{'' if count == 1 else 's'}, but {given} "
                           f"{'is' if given == 1 else 'are'} given", atom.span)


def _bodies(piece: Program) -> Iterator[Atom]:
    for rule in piece.rules:
        yield from atoms(rule)[1:]


def _own_names(program: Program) -> set[str]:
    """The relations of a program that it names itself."""
    return program.relations.keys() - program.reads.keys() - program.clocks.keys()


def _mentioned(program: Program, name: str) -> bool:
    return any(atom.relation == name for rule in as_written(program).rules for atom in atoms(rule))


def _check_view(program: Program, name: Any) -> None:
    if not isinstance(name, str):
        raise UsageProblem(f"what is dropped is the name of a view, not {name!r}")
    if name in program.derived:
        return
    if name in _own_names(program):
        raise UsageProblem(f"`{name}` is a base relation: only views can be dropped")
    near = suggestion(name, program.derived)
    raise UsageProblem(f"there is no view `{name}`{near}")


# --- the new program -----------------------------------------------------------------------------------------


def _checked(new: Program, former: Program, gone: Collection[str] = ()) -> Program:
    """The new program, checked. Relations that were there keep their columns' names; those that facts fill stay."""
    declared = any(r.declared for r in new.relations.values())
    used = {atom.relation for rule in new.rules for atom in atoms(rule)}
    known = [Directive(_KNOWN, name, {}) for name in _own_names(former) if name in used] if declared else []
    checked = check(replace(new, directives=(*new.directives, *known), checked=False))
    relations = dict(checked.relations)
    for name, old in former.relations.items():
        if name in gone or name in former.reads or name in former.clocks:
            continue
        if name in relations:
            relations[name] = _renamed(relations[name], old)
        elif name in former.base:
            relations[name] = old if old.declared else _unknown(old)
    directives = tuple(d for d in checked.directives if d.kind != _KNOWN)
    return replace(checked, relations=relations, directives=directives, problems=())


def _renamed(relation: Relation, old: Relation) -> Relation:
    columns = tuple(
        replace(column, name=before.name) for column, before in zip(relation.columns, old.columns, strict=True)
    )
    return replace(relation, columns=columns)


def _unknown(relation: Relation) -> Relation:
    """A relation of which no rule tells anything any more."""
    return replace(relation, columns=tuple(replace(c, type="any", numeric=False) for c in relation.columns))


def _shown(program: Program, piece: Program) -> tuple[str, ...] | None:
    """The outputs of a program that no directive names, with a definition: all of its views, or those that it names."""
    named_before = program.directives_of("output") or program.directives_of("printsize") or program.shown is not None
    if not named_before and not piece.directives:
        return None
    named = {d.relation for d in program.directives_of("output")}
    before = [name for name in program.outputs if name not in named]
    views = dict.fromkeys(rule.head.relation for rule in piece.rules)
    return (*before, *(() if piece.directives else views))


def _bottom(source: Source) -> int:
    """The number of the last line of a program and all that stands in it."""
    last = source.parts[-1] if source.parts else source
    return last.first_line + last.text.count("\n")


def _lasting(source: Source, lines: Collection[int]) -> tuple[Source, ...]:
    """The parts of a source in which something stands that is still there."""
    found = []
    for part in source.parts:
        end = part.first_line + part.text.count("\n")
        if any(part.first_line <= line <= end for line in lines):
            found.append(part)
    return tuple(found)
